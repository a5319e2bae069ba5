"""`scalewatch plan`: estimate the resources that an agent needs at a centre, before it is installed."""

from math import ceil, isnan
from pathlib import Path
from textwrap import indent
from typing import Any, Final

import click
import msgspec
import yaml

from agent.cli.options import config_option, indented, json_option, load_or_default, table
from agent.config.references import references
from agent.config.tree import Config
from agent.describe.measurements import Costs, Measurements, costs, measured
from processors.contracts.errors import ConfigError
from processors.hosts.lines import retained_bytes
from processors.models.training.runs import room_bytes
from processors.pipeline.state import FITTED_LIVE_MAX

DAY_S: Final = 86_400.0
BUSY: Final = 0.5  # maximum mean share of a core: after an outage a role needs the rest to catch up
ROOM: Final = 1.25  # memory reserve for allocators, readers and differences between centres
RETAINED_S: Final = 480.0  # a window holds five minutes, late samples, and the minute that is being filled
IN_USE_MAX: Final = 5_000  # applications that the learner keeps decoded in memory
BUCKETS_A_DAY: Final = 4 * 96  # the index of run ids has four buckets for each quarter of an hour
REMEMBERED_IN_USE: Final = 500  # index buckets that the learner keeps decoded in memory
COMPACTED: Final = 2.0  # largest size of a compacted topic before cleaning, as a multiple of its live records
SEGMENT_BYTES: Final = 2**30  # Kafka's default; the broker never cleans the segment that is being written
FITTED_RUN_BYTES: Final = 1_300  # measured memory of the trees, per run to which an attribute model is fitted
MI: Final = 2**20
IN_JSON: Final = 4 / 3  # characters of JSON per byte of stored columns
MEMORY_STEP_MI: Final = 64
CPU_MIN_M: Final = 100  # minimum CPU in thousandths of a core: at a small centre start-up needs more than regular work
_UNITS: Final = ("B", "kB", "MB", "GB", "TB", "PB")


class PlannedCentre(msgspec.Struct, frozen=True, kw_only=True):
    """An HPC centre: its hosts, jobs and applications. Each host reports `resources` measurements every `interval_s` seconds."""

    hosts: int
    resources: int
    interval_s: float
    jobs_per_day: float
    applications: int

    @property
    def series(self) -> int:
        return self.hosts * self.resources

    @property
    def samples_s(self) -> float:
        return self.series / self.interval_s


class RoleNeed(msgspec.Struct, frozen=True):
    """The need of each process of a role: the average number of cores, and its usual and peak memory in Mi."""

    role: str
    replicas: int
    cores: float
    memory_mi: int
    memory_largest_mi: int


class TopicNeed(msgspec.Struct, frozen=True):
    """The disk need of a topic: bytes written per day, and bytes retained on disk in all replicas.

    `retention_bytes` is the size limit of one partition; None means no limit.
    """

    topic: str
    partitions: int
    written_bytes_per_day: float
    retained_bytes: float
    retention_bytes: int | None = None


class Setting(msgspec.Struct, frozen=True):
    """A configured limit that the centre exceeds, and the value to set instead."""

    key: str
    present: int
    wanted: int


class ResourcePlan(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that an agent needs at a centre."""

    centre: PlannedCentre
    shards: int
    source_partitions: int
    roles: tuple[RoleNeed, ...]
    topics: tuple[TopicNeed, ...]
    settings: tuple[Setting, ...]
    remarks: tuple[str, ...]

    @property
    def disk_bytes(self) -> float:
        """Disk space of all topics and copies, with runs kept for one year."""
        return sum(topic.retained_bytes for topic in self.topics)


def plan(centre: PlannedCentre, config: Config, journal_days: float, costs: Costs) -> ResourcePlan:
    """Return the resources that an agent needs, from costs per unit; hosts and jobs are assumed to be spread evenly over shards."""
    shards = config.topics.journal_partitions
    collector, partitions = _collector(centre, config, costs)
    learner = _learner(centre, config, shards, costs)
    return ResourcePlan(
        centre=centre,
        shards=shards,
        source_partitions=partitions,
        roles=(collector, learner),
        topics=_topics(centre, config, journal_days, costs),
        settings=tuple(_settings(centre, config)),
        remarks=tuple(_remarks(learner, shards)),
    )


def _collector(centre: PlannedCentre, config: Config, costs: Costs) -> tuple[RoleNeed, int]:
    """Return the resources that the collectors need, and the recommended number of source partitions."""
    jobs_s = centre.jobs_per_day / DAY_S
    cores = centre.samples_s * costs.sample_s + jobs_s * costs.collected_job_s
    replicas = max(1, ceil(cores / BUSY))
    # each collector holds at most half of series_max, so that it can take over the series of a failed collector
    by_bound = ceil(2 * centre.series / max(1, config.collector.series_max))
    partitions = replicas * ceil(max(replicas, by_bound) / replicas)
    retained = max(1, ceil(RETAINED_S / centre.interval_s))
    window = costs.window_bytes + retained * costs.window_sample_bytes
    usual = costs.process_bytes + window * centre.series / replicas
    largest = costs.process_bytes + window * centre.series / max(1, replicas - 1)  # while one collector is down
    return RoleNeed("collector", replicas, cores / replicas, _mi(usual), _mi(largest)), partitions


def _learner(centre: PlannedCentre, config: Config, shards: int, costs: Costs) -> RoleNeed:
    series, applications = centre.series / shards, min(centre.applications, config.run_time.applications_max) / shards
    cores = (
        series / 60 * costs.resource_minute_s + _published_a_day(config) / DAY_S * series * costs.published_resource_s
    )
    cores += 2 * centre.jobs_per_day / DAY_S / shards * costs.job_event_s
    in_use = min(applications, IN_USE_MAX)
    models = in_use * costs.application_in_use_bytes + (applications - in_use) * costs.application_at_rest_bytes
    running = min(centre.jobs_per_day / shards, config.jobs.open_jobs_max)  # as if each job ran for a day
    shown = applications * costs.prediction_bytes + running * costs.job_prediction_bytes
    models += _memory_of_features(applications, config)
    rest = costs.process_bytes + models + shown + _memory_of_runs(centre.jobs_per_day / shards, config, costs)
    lines, _ = retained_bytes(config.hosts.lines_h)
    usual, largest = (
        rest + series * (size + lines) for size in (costs.learned_resource_bytes, costs.saved_resource_bytes)
    )
    return RoleNeed("learner", shards, cores, _mi(usual), _mi(largest))


def _published_a_day(config: Config) -> float:
    """Return the number of messages published per host and day."""
    return DAY_S / ceil(config.hosts.publish_s) if config.hosts.publish_s else 0.0


def _memory_of_features(applications: float, config: Config) -> float:
    """Return the bytes in one shard for runs with attributes and for their models, if each application has `features.runs_max` runs."""
    features = config.features
    if not features.attributes:
        return 0.0
    runs = applications * features.runs_max * room_bytes(len(features.attributes) + 1)
    fitted = min(applications, FITTED_LIVE_MAX) * features.runs_max * FITTED_RUN_BYTES
    return min(runs, features.bytes_max) + fitted


def _remembered(jobs_per_day: float, config: Config) -> float:
    """Return the number of run ids that one shard stores to recognise runs that are reported again."""
    days = config.jobs.deduplication_buckets_max / BUCKETS_A_DAY
    return min(jobs_per_day * days, config.jobs.deduplication_runs_max)


def _memory_of_runs(jobs_per_day: float, config: Config, costs: Costs) -> float:
    """Return the bytes that one shard needs to recognise runs that are reported again."""
    remembered = _remembered(jobs_per_day, config)
    in_use = min(remembered, jobs_per_day * REMEMBERED_IN_USE / BUCKETS_A_DAY)
    return in_use * costs.remembered_run_in_use_bytes + (remembered - in_use) * costs.remembered_run_bytes


def _mi(size: float) -> int:
    """Return the memory in Mi for a number of bytes, increased by the factor ROOM and rounded up to a step of MEMORY_STEP_MI."""
    return MEMORY_STEP_MI * ceil(size * ROOM / MI / MEMORY_STEP_MI)


def _topics(centre: PlannedCentre, config: Config, journal_days: float, costs: Costs) -> tuple[TopicNeed, ...]:
    names, jobs, copies = config.topics, centre.jobs_per_day, config.topics.replication
    shards = names.journal_partitions
    minute = costs.host_minute_bytes + centre.resources * costs.host_minute_resource_bytes
    journal = (
        centre.hosts * 1440 * minute * bool(centre.resources)
        + jobs * costs.journalled_job_bytes
        + shards * DAY_S / config.collector.tick_s * costs.tick_bytes
    )
    applications = min(centre.applications, config.run_time.applications_max)
    runs_state = shards * _remembered(jobs / shards, config) * costs.remembered_run_bytes
    rows_state, models_state = centre.series * costs.state_resource_bytes, applications * costs.state_application_bytes
    lines, changed = (centre.series * line * IN_JSON for line in retained_bytes(config.hosts.lines_h))
    # an application is saved at most once per run, and at most once per checkpoint
    saved = min(jobs, applications * DAY_S / config.learner.checkpoint_interval_s) * costs.state_application_bytes
    state = (rows_state + changed) * DAY_S / config.learner.host_checkpoint_interval_s + saved
    predictions = applications * costs.prediction_bytes
    running = min(jobs, config.jobs.open_jobs_max) * costs.job_prediction_bytes

    def compacted(topic: str, partitions: int, written: float, counts: float) -> TopicNeed:
        retained = COMPACTED * counts + partitions * min(SEGMENT_BYTES, written * journal_days)
        return TopicNeed(topic, partitions, written, copies * retained)

    reported = costs.host_report_bytes + centre.resources * costs.host_report_resource_bytes
    hosts = centre.hosts * reported * bool(centre.resources)
    published = [compacted(names.hosts, 1, hosts * _published_a_day(config), hosts)] if config.hosts.publish_s else []
    per_partition = ceil(ROOM * journal * journal_days / shards)
    runs = jobs * costs.run_bytes
    return (
        TopicNeed(names.journal, shards, journal, copies * journal * journal_days, per_partition),
        compacted(names.state, shards, state, rows_state + lines + models_state + runs_state),
        compacted(names.predictions, 1, jobs * costs.written_predictions_bytes, predictions),
        compacted(names.job_predictions, 1, jobs * costs.written_job_predictions_bytes, running),
        TopicNeed(names.runs, 1, runs, copies * runs * 365),
        *published,
    )


def _settings(centre: PlannedCentre, config: Config) -> list[Setting]:
    """Return the configured limits that are too small, with new values 10 % above the need."""
    series = ceil(centre.series / config.topics.journal_partitions)
    bounds = (
        ("hosts.series_max", config.hosts.series_max, series),
        ("run_time.applications_max", config.run_time.applications_max, centre.applications),
    )
    return [Setting(key, present, needed + ceil(needed / 10)) for key, present, needed in bounds if needed > present]


def _remarks(learner: RoleNeed, shards: int) -> list[str]:
    if learner.cores <= BUSY:
        return []
    parts = ceil(shards * learner.cores / BUSY)
    message = (
        f"A learner would be busy {learner.cores:.0%} of the time, which is too much. Spread the systems over several journal partitions "
        f"(topics.journal_partitions: {parts}), or send fewer resources."
    )
    return [message]


@click.command(short_help="Estimate the memory, CPU, disk and partitions that a centre needs.")
@click.option("--hosts", type=click.IntRange(0, 10_000_000),
              help="Number of hosts that send telemetry; default: the hosts in reference.nodes.")  # fmt: skip
@click.option("--resources", type=click.IntRange(0, 10_000), default=10, show_default=True,
              help="Number of measured resources per host, such as load and memory.")  # fmt: skip
@click.option("--interval", "interval_s", type=click.FloatRange(0.1, 3600), default=10.0, show_default=True,
              help="Seconds between two samples of a resource.")  # fmt: skip
@click.option("--jobs-per-day", type=click.FloatRange(0, 1e8), default=10_000.0, show_default=True,
              help="Number of jobs that end per day.")  # fmt: skip
@click.option("--applications", type=click.IntRange(0, 10_000_000), default=1000, show_default=True,
              help="Number of applications; each input with its own scaling curve counts as one.")  # fmt: skip
@click.option("--retention-days", type=click.FloatRange(0.1, 3650),
              help="Days for which the journal stays on disk; default: topics.journal_retention_s.")  # fmt: skip
@click.option("--measured", type=click.Path(dir_okay=False, path_type=Path),
              help="File with costs measured on your machine, instead of those in the package.")  # fmt: skip
@config_option
@json_option
def command(**options: Any) -> None:
    """Estimate the memory, CPU, disk and partitions that an agent needs, from the number of hosts and jobs.

    \b
    scalewatch plan --hosts 5000 --interval 10 --resources 12 --jobs-per-day 20000 --applications 2000
    scalewatch plan -c agent.yaml --hosts 500 --json

    Replication, shards, checkpoint intervals and bounds come from the configuration. All estimates rest on measured costs;
    --json lists each with its benchmark, commit, time and processor. To use your own machine, run
    `make bench ARGS="--costs site.json"` and pass --measured site.json.
    """  # noqa: D301 - click wants the character itself
    if isnan(options["jobs_per_day"]) or isnan(options["interval_s"]) or isnan(options["retention_days"] or 0.0):
        raise click.UsageError("--jobs-per-day, --interval and --retention-days must be numbers.")
    config = load_or_default(options["config"])
    centre = PlannedCentre(
        hosts=_hosts(options["hosts"], config),
        resources=options["resources"],
        interval_s=options["interval_s"],
        jobs_per_day=options["jobs_per_day"],
        applications=options["applications"],
    )
    days = options["retention_days"] or config.topics.journal_retention_s / DAY_S
    figures = measured(options["measured"])
    estimate = plan(centre, config, days, costs(figures))
    click.echo(
        _json(estimate, days, figures) if options["as_json"] else "\n".join(_text(estimate, days, config, figures))
    )


def _hosts(hosts: int | None, config: Config) -> int:
    if hosts is not None:
        return hosts
    listed = len(references(config.reference).nodes)
    if not listed:
        raise ConfigError("The number of hosts is unknown. Give --hosts, or set reference.nodes in the configuration.")
    return listed


def values(estimate: ResourcePlan) -> dict[str, Any]:
    """Return the values of the Helm chart for a plan."""
    chart: dict[str, Any] = {}
    for role in estimate.roles:
        cpu_m = max(CPU_MIN_M, round(role.cores * 1000 / BUSY / 50) * 50)
        replicas = {"replicas": role.replicas} if role.role == "collector" else {}
        resources = {
            "requests": {"cpu": f"{cpu_m}m", "memory": f"{role.memory_mi}Mi"},
            "limits": {"memory": f"{role.memory_largest_mi}Mi"},
        }
        chart[role.role] = {**replicas, "resources": resources}
    settings = {"topics": {"journal_partitions": estimate.shards}} if estimate.shards > 1 else {}
    for setting in estimate.settings:
        section, _, key = setting.key.partition(".")
        settings[section] = {**settings.get(section, {}), key: setting.wanted}
    return chart | ({"config": settings} if settings else {})


def _json(estimate: ResourcePlan, days: float, figures: Measurements) -> str:
    return indented(
        msgspec.to_builtins(estimate)
        | {
            "journal_days": days,
            "disk_bytes": estimate.disk_bytes,
            "helm_values": values(estimate),
            "measured": msgspec.to_builtins(figures.figures),
        }
    )


def _text(estimate: ResourcePlan, days: float, config: Config, figures: Measurements) -> list[str]:
    centre, copies = estimate.centre, config.topics.replication
    roles = [
        (role.role, str(role.replicas), f"{role.cores:.2f}", f"{role.memory_mi} Mi", f"{role.memory_largest_mi} Mi")
        for role in estimate.roles
    ]
    topics = [
        (
            topic.topic,
            str(topic.partitions),
            size(topic.written_bytes_per_day),
            size(topic.retained_bytes),
            str(topic.retention_bytes or "-"),
        )
        for topic in estimate.topics
    ]
    on_disk = "on disk, one copy" if copies == 1 else f"on disk, {copies} copies"
    return [
        (
            f"{centre.hosts:,} hosts with {centre.resources} resources every {centre.interval_s:g} s: {centre.samples_s:,.0f} samples "
            f"a second; {centre.jobs_per_day:,.0f} jobs a day; {centre.applications:,} applications."
        ),
        "",
        table(("role", "processes", "cores each", "memory", "at most"), roles),
        "",
        table(("topic", "partitions", "written a day", on_disk, "retention.bytes"), topics),
        "",
        f"Disk on the brokers: {size(estimate.disk_bytes)}, with {days:g} days of journal and one year of runs (runs are never deleted).",
        f"Partitions of each telemetry topic: at least {estimate.source_partitions}, keyed by host.",
        *(f"Raise {setting.key} from {setting.present} to {setting.wanted}." for setting in estimate.settings),
        *estimate.remarks,
        (
            f"Cores are an average; a process should use at most {BUSY:.0%} of a core. Memory includes a reserve of {ROOM - 1:.0%}. "
            "Not included: counters used only in profiles, source topics, Kafka's overhead per record."
        ),
        _measured_on(figures),
        "",
        "values.yaml of the Helm chart:",
        indent(yaml.safe_dump(values(estimate), sort_keys=False), "  ").rstrip(),
    ]


def _measured_on(figures: Measurements) -> str:
    """Return a text naming the processors of the cost measurements; other processors change CPU times but not memory and bytes."""
    processors = sorted({figure.processor for figure in figures.figures.values()})
    days = sorted({figure.time[:10] for figure in figures.figures.values()})
    span = " to ".join(dict.fromkeys((days[0], days[-1])))
    return f"Measured on {' and '.join(processors)}, {span}; --json lists each figure."


def size(count: float) -> str:
    """Return a number of bytes as text with a unit."""
    power = 0
    while count >= 1000 and power < len(_UNITS) - 1:
        count, power = count / 1000, power + 1
    return f"{count:.3g} {_UNITS[power]}"
