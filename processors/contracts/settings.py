"""Settings of the processors: one frozen model each, every default in this one place. Unknown keys are refused.

The whole configuration tree is in `agent.config`; it nests these.
"""

import re
from fnmatch import fnmatchcase
from functools import partial
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, AwareDatetime, BaseModel, ConfigDict, Field, field_validator, model_validator

from processors.contracts.errors import InvalidInputError
from processors.contracts.nodes import count

EXCLUDED_HOSTS_MAX: Final = 100_000  # of one list
LONGEST_S: Final = 10 * 365 * 86_400  # what is longer is a slip, and ends where calendars do


class Settings(BaseModel):
    """Base: frozen, no unknown keys.

    >>> Settings().model_dump()
    {}
    """

    model_config = ConfigDict(frozen=True, extra="forbid")


ATTRIBUTES_MAX = 32
Pattern = Annotated[str, Field(min_length=1, max_length=256)]


class FeatureSettings(Settings):
    """Which attributes of jobs their run times are learned from.

    >>> FeatureSettings(attributes=("atoms", "mesh_*")).names("mesh_x"), FeatureSettings().names("atoms")
    (True, False)
    """

    attributes: tuple[Pattern, ...] = Field(
        default=(),
        max_length=ATTRIBUTES_MAX,
        description="attributes of jobs that their run times are learned from, besides the size: names, or patterns with *; "
        "numbers and words; module, container, executable, partition, account, qos, user and time_limit_s can be named, too",
    )

    def names(self, attribute: str) -> bool:
        """Return whether an attribute is one of them."""
        return any(fnmatchcase(attribute, pattern) for pattern in self.attributes)


def _pattern(pattern: str, groups: int = 0) -> str:
    try:
        compiled = re.compile(pattern)
    except re.error as error:
        raise ValueError(f"{pattern!r} is no regular expression: {error}") from error
    if compiled.groups < groups:
        raise ValueError(f"{pattern!r} has no group in parentheses that names the rack")
    return pattern


class AlertRule(Settings):
    """What all alerts have in common.

    >>> AlertRule().not_again_s
    14400.0
    """

    enabled: bool = Field(default=True, description="whether this alert exists")
    not_again_s: float = Field(
        default=14_400.0,
        ge=0,
        le=LONGEST_S,
        description="about the same cause it does not fire again before this long has passed since it fired last; "
        "what is true by then fires then",
    )
    dry_run: bool = Field(
        default=False, description="it is counted and shown as withheld, and sent to nobody: to see what it would raise"
    )
    run_time_min_s: float = Field(
        default=0.0,
        ge=0,
        le=LONGEST_S,
        description="shorter runs raise none; where an alert is about no run it changes nothing",
    )


def _host_list(text: str) -> str:
    try:
        hosts = count(text)
    except InvalidInputError as error:
        raise ValueError(str(error)) from error
    if hosts > EXCLUDED_HOSTS_MAX:
        raise ValueError(f"{hosts} hosts are more than {EXCLUDED_HOSTS_MAX}")
    return text


HostList = Annotated[str, Field(min_length=1, max_length=65_536), AfterValidator(_host_list)]
AlertName = Literal[
    "SlowSize", "FastSize", "StrangeRun", "Regression", "Improvement", "PredictionUnreliable", "SlowsDown",
    "ApplicationFailureRate", "HostFailureRate", "HostAnomaly", "RackAnomaly", "StragglerHost", "UnexplainedPower",
    "DisturbedRun",
]  # fmt: skip


class Exclusion(Settings):
    """What is never sent: alerts about what matches everything that is given here. Patterns may hold *.

    >>> Exclusion(alerts=("StrangeRun",), partition="debug*", comment="people try things there").user is None
    True
    """

    alerts: tuple[AlertName, ...] = Field(default=(), description="names of the alerts; none: all")
    system: Pattern | None = Field(default=None, description="the system")
    partition: Pattern | None = Field(default=None, description="the partition of the run, or that the alert is about")
    application: Pattern | None = Field(default=None, description="the application")
    user: Pattern | None = Field(default=None, description="the user of the run, as events tell it")
    account: Pattern | None = Field(default=None, description="the account of the run")
    qos: Pattern | None = Field(default=None, description="the quality of service of the run")
    hosts: HostList | None = Field(
        default=None,
        description="hosts as a list such as nid[001-004],login1: alerts about them, and about runs with one of them",
    )
    comment: str = Field(
        min_length=1, max_length=256, description="why; people see it where it is told what was not sent"
    )

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        if not any(getattr(self, name) for name in type(self).model_fields if name != "comment"):
            raise ValueError("give at least one of alerts, system, partition, application, user, account, qos, hosts")
        return self


class Maintenance(Settings):
    """A time in which nothing is sent about a part of the centre; without one, about all of it.

    >>> Maintenance(start="2026-11-24T08:00:00Z", end="2026-11-24T12:00:00Z", comment="new switches").system is None
    True
    """

    start: AwareDatetime = Field(description="when it begins, with a time zone")
    end: AwareDatetime = Field(description="when it ends")
    system: Pattern | None = Field(default=None, description="the system; none: all")
    partition: Pattern | None = Field(default=None, description="the partition; none: all")
    hosts: HostList | None = Field(default=None, description="the hosts as a list such as nid[001-004]; none: all")
    comment: str = Field(default="", max_length=256, description="what is done; people see it")

    @model_validator(mode="after")
    def _begins_before_it_ends(self) -> Self:
        if self.end <= self.start:
            raise ValueError("the end has to come after the start")
        return self


class HostAnomaly(AlertRule):
    """Several resources of a host outside everything measured before, or that contradict each other for long.

    >>> HostAnomaly().resources_min
    4
    """

    resources_min: int = Field(
        default=4,
        ge=2,
        description="resources of a host that have to be outside everything measured before, close in time; all, of a host that has fewer",
    )
    window_s: float = Field(default=600.0, gt=0, le=86_400, description="what comes within this is close in time")
    combined_ratio: float = Field(
        default=2.0,
        gt=1,
        description="times its usual level by which all resources of a host together have to contradict each other",
    )
    combined_minutes: int = Field(
        default=10,
        ge=1,
        le=100_000,
        description="measured minutes in a row in which they have to contradict each other",
    )
    gather_s: float = Field(
        default=60.0, ge=0, le=3600, description="an alert waits for this long whether the whole rack is concerned"
    )
    learn_s: float = Field(
        default=86_400.0, ge=0, le=LONGEST_S, description="a host that is new raises no alert for this long"
    )
    warm_up_s: float = Field(
        default=1800.0, ge=0, le=LONGEST_S, description="a host that is back in service raises none for this long"
    )
    keep_firing_s: float = Field(
        default=3600.0,
        ge=0,
        le=LONGEST_S,
        description="it resolves when nothing new came for this long, and its resources are back where they were",
    )
    accept_s: float = Field(
        default=604_800.0,
        gt=0,
        le=LONGEST_S,
        description="where they stay elsewhere for this long, that is how the host is now, and it resolves",
    )


class RackAnomaly(AlertRule):
    """Many hosts of a rack with an anomaly at once: one alert that takes the place of theirs.

    >>> RackAnomaly().share_min
    0.5
    """

    pattern: Annotated[str, AfterValidator(partial(_pattern, groups=1))] = Field(
        default=r"^(x\d+)c\d+",
        description="regular expression on host names; its first group names the rack, by default the cabinet of a Cray "
        "xname; hosts that it does not match are gathered by partition, else by system",
    )
    hosts_min: int = Field(default=4, ge=2, description="hosts with an anomaly that are needed at least")
    share_min: float = Field(
        default=0.5, gt=0, le=1, description="share of the rack's hosts with an anomaly that is needed at least"
    )
    keep_firing_s: float = Field(
        default=3600.0, ge=0, le=LONGEST_S, description="it resolves when nothing new came for this long"
    )


class Straggler(AlertRule):
    """A host unlike the other hosts of its job, or an idle one unlike the other idle hosts of its partition.

    >>> Straggler().for_s
    300.0
    """

    resources: Annotated[str, AfterValidator(_pattern)] = Field(
        default=r"^(cpu_available|cpu_current|load1|clock|gpu)|power",
        description="regular expression on the names of resources that are alike on hosts that do the same",
    )
    deviations: float = Field(
        default=6.0, gt=0, description="robust standard deviations from the median of the peers that are needed"
    )
    difference: float = Field(
        default=0.15, ge=0, description="share of that median by which the host has to differ as well"
    )
    share_max: float = Field(
        default=0.1, gt=0, lt=1, description="where more than this share of the peers is unlike, nobody is"
    )
    start_s: float = Field(
        default=300.0, ge=0, le=LONGEST_S, description="hosts are not compared before their job ran for this long"
    )
    for_s: float = Field(default=300.0, ge=0, le=LONGEST_S, description="it has to be so for this long")
    clear_s: float = Field(
        default=1800.0,
        gt=0,
        le=LONGEST_S,
        description="it resolves when the host was compared for this long in all and was as its peers",
    )
    keep_firing_s: float = Field(
        default=604_800.0, gt=0, le=LONGEST_S, description="and when it could not be compared for this long"
    )


Level = Literal["info", "warning", "critical"]


class UnexplainedPower(AlertRule):
    """Measured power of a run that its counters do not explain.

    >>> UnexplainedPower().margin_share
    0.1
    """

    margin_share: float = Field(
        default=0.10, gt=0, description="share of the expected power by which the measured one has to be off at least"
    )
    band_factor: float = Field(
        default=2.0, ge=1, description="and by so many half-widths of the band that holds nine of ten runs"
    )
    scored_min: int = Field(
        default=20, ge=1, description="runs of the application whose power was predicted before it was learned"
    )
    severity: Level = Field(default="warning", description="how grave it is")
    for_s: float = Field(
        default=1800.0,
        ge=0,
        le=LONGEST_S,
        description="that of an application waits for this long: a run that is explained meanwhile says that it was one run",
    )
    runs_min: int = Field(
        default=3, ge=1, description="unless so many of its runs were not explained, one after the other"
    )
    quiet_s: float = Field(
        default=86_400.0,
        gt=0,
        le=LONGEST_S,
        description="it resolves with the next run that is explained, or when none was judged for this long",
    )


class DisturbedRun(AlertRule):
    """A run that took longer, and whose counters are not as in runs like it: something disturbed it.

    >>> DisturbedRun().slower_min
    1.05
    """

    enabled: bool = Field(
        default=True, description="whether this alert exists; such runs count less for the models in any case"
    )
    deviations_min: float = Field(
        default=8.0, gt=0, description="robust standard deviations by which a counter has to be off"
    )
    difference_min: float = Field(
        default=0.10, gt=0, description="share of its usual rate by which a counter has to be off as well"
    )
    counters_min: int = Field(default=1, ge=1, description="counters that have to be so")
    slower_min: float = Field(
        default=1.05, ge=1, description="and its run time over what its curve says: what took no longer disturbs nobody"
    )
    runs_min: int = Field(default=20, ge=8, description="runs of the application with profiles that have to be known")
    severity: Level = Field(default="info", description="how grave it is")
    keep_firing_s: float = Field(
        default=3600.0, ge=0, le=LONGEST_S, description="it resolves when nothing new came for this long"
    )


class ProfileSettings(Settings):
    """How profiles of runs are made, and what is learned from them.

    >>> ProfileSettings().coverage_min
    0.8
    """

    coverage_min: float = Field(
        default=0.8,
        gt=0,
        le=1,
        description="share of a run's host-minutes that must be its own for it to be learned from",
    )
    attribution_horizon_s: float = Field(
        default=3600.0,
        ge=0,
        le=LONGEST_S,
        description="how long minutes of hosts are kept that no job is known to have run on: where only ends of jobs are told, "
        "runs up to this length get a profile",
    )
    resources_max: int = Field(
        default=200_000,
        ge=0,
        le=5_000_000,
        description="counters and powers of hosts that are followed for profiles; more are counted and left out",
    )
    names_max: int = Field(
        default=64, ge=1, le=256, description="counters of one run that are kept, and of its network as many"
    )
    runs_max: int = Field(
        default=256, ge=16, le=1024, description="runs of an application that its models are fitted to"
    )
    host_power_max_w: float = Field(
        default=20_000.0, gt=0, le=1e7, description="what a host can draw at most; a reading above is not believed"
    )
    energy_range_j: float = Field(
        default=262_143.328850,
        gt=0,
        le=1e18,
        description="where energy counters of processors start at 0 again; the default is that of RAPL",
    )
    memory_energy_range_j: float = Field(
        default=65_532.610987, gt=0, le=1e18, description="the same of energy counters of memory"
    )


Unit = Literal["nodes", "cores", "processes", "threads", "gpus"]
EVIDENCE_FIELDS = (
    "application", "executable", "module", "container", "job_name", "account", "partition", "qos", "user", "work_dir",
    "script", "comment",
)  # fmt: skip


class Rule(Settings):
    """One rule of identification: every pattern of `match` has to be found in its field of the job.

    Named groups of the patterns may be used in `application` and `input` as ``{group}``. Without `application` the
    group of that name is used. `confidence` is what the answer says of itself, between 0 and 1.

    >>> Rule(match={"job_name": "^gmx_(?P<kind>[a-z]+)"}, application="gromacs", input="{kind}").confidence
    0.8
    """

    match: dict[str, str] = Field(min_length=1, description="field of the job -> regular expression")
    application: str | None = Field(
        default=None, max_length=256, description="the name it gives; {group} stands for a named group of its patterns"
    )
    input: str = Field(
        default="",
        max_length=256,
        description="the problem class it gives; {group} stands for a named group of its patterns",
    )
    unit: Unit | None = Field(default=None, description="the unit that sizes its jobs, where the job is known in it")
    confidence: float = Field(default=0.8, gt=0, le=1, description="what the answer says of itself")
    drop: bool = Field(default=False, description="jobs that match are never given a model")

    @field_validator("match")
    @classmethod
    def _fields_and_patterns(cls, match: dict[str, str]) -> dict[str, str]:
        for field, pattern in match.items():
            if field not in EVIDENCE_FIELDS and not field.startswith("attributes."):
                raise ValueError(f"{field!r} is no field of a job; use one of {', '.join(EVIDENCE_FIELDS)}")
            _pattern(pattern)
        return match


class IdentifySettings(Settings):
    """How a job becomes an application: rules in order, then the evidence itself, best first.

    >>> IdentifySettings().unit
    'nodes'
    """

    rules: tuple[Rule, ...] = Field(default=(), description="tried in this order; the first that matches decides")
    fallback: tuple[Literal["application", "executable", "module", "container", "job_name", "user"], ...] = Field(
        default=("application", "executable", "module", "container", "job_name"),
        description="fields that may name the application where no rule matches, best first; "
        "with user, all jobs of a user that nothing else names are one application",
    )
    unit: Unit = Field(default="nodes", description="the unit that sizes a job which is known in several")
    input_attributes: tuple[str, ...] = Field(
        default=(), description="attributes of a job that tell problem classes apart"
    )
    input_sizes: tuple[Annotated[str, Field(min_length=1, max_length=64)], ...] = Field(
        default=(),
        max_length=8,
        description="attributes of a job, named groups of rules, or name=number in an input, that say how large the input "
        "is (atoms, steps): an input that was never run is predicted from those that were, and they tell inputs apart "
        "like input_attributes",
    )
    systems_by_alias: dict[str, str] = Field(default_factory=dict, description="alias -> system")


class MachineSettings(Settings):
    """What the nodes of a system, or of one of its partitions, are.

    >>> MachineSettings(cores_per_node=128, sockets_per_node=2).memory_domains_per_node is None
    True
    """

    cores_per_node: int | None = Field(
        default=None, ge=1, le=65_536, description="cores of a node; where it is not given, what jobs show"
    )
    sockets_per_node: int | None = Field(default=None, ge=1, le=1_024, description="sockets of a node")
    memory_domains_per_node: int | None = Field(
        default=None, ge=1, le=1_024, description="NUMA domains of a node, as lscpu counts them"
    )


class RunTimeSettings(Settings):
    """Per-application run-time models.

    >>> RunTimeSettings().unmerged_runs_max
    64
    """

    applications_max: int = Field(default=20_000, ge=1, description="more are evicted, the longest unused first")
    similar_runs_max: int = Field(
        default=20_000,
        ge=1,
        description="histories of users, names and classes of jobs; over it the longest unused is forgotten",
    )
    unmerged_runs_max: int = Field(default=64, ge=1, le=256, description="runs a corrected report can still replace")
    scores_max: int = Field(default=64, ge=1, le=1000, description="scores of published predictions that are kept")
    fits_per_tick_max: int = Field(
        default=64, ge=1, description="in ten seconds; more wait for the next tick, the oldest first"
    )
    curve_factor_max: float = Field(
        default=4.0, ge=1, le=1024, description="the curve ends at this multiple of the largest size"
    )
    publish_after_runs: int = Field(default=2, ge=1, description="probation: a name gets a model after this many runs")
    allowed_sizes: tuple[float, ...] = Field(default=(), description="sizes that advice may name; empty: powers of two")
    cores_per_node: int | None = Field(
        default=None, ge=1, description="cores of a node, so that advice on sizes in cores can name whole nodes"
    )
    machines: dict[Annotated[str, Field(min_length=1, max_length=256)], MachineSettings] = Field(
        default_factory=dict,
        max_length=1_024,
        description="what the nodes are of a system by its name, or of a partition by system/partition: threads and processes "
        "may scale worse once they fill a memory domain, a socket or a node",
    )
    prediction_valid_s: float = Field(
        default=7 * 86_400.0, gt=0, le=LONGEST_S, description="how long a prediction says it is valid"
    )


class JobSettings(Settings):
    """The life of jobs.

    >>> JobSettings().settle_max_s
    180.0
    """

    open_jobs_max: int = Field(
        default=100_000,
        ge=1,
        description="started jobs that are remembered; over it the oldest is forgotten and counted",
    )
    settle_max_s: float = Field(default=180.0, ge=0, le=LONGEST_S, description="a run settles this long after its end")
    deduplication_buckets_max: int = Field(
        default=24_000,
        ge=8,
        description="quarters of an hour, four parts each, whose runs are recognised when repeated",
    )
    deduplication_runs_max: int = Field(
        default=20_000_000,
        ge=1,
        description="runs that are recognised when repeated, in one shard; over it the oldest quarter of an hour is forgotten and "
        "counted, and a run that started before is refused",
    )
    revise_s: float = Field(
        default=60.0, gt=0, le=LONGEST_S, description="how often the prediction of a running job is revised"
    )
    open_job_max_s: float = Field(
        default=30 * 86_400.0, gt=0, le=LONGEST_S, description="a started job is forgotten after this"
    )
    evidence_keep_s: float = Field(
        default=86_400.0, ge=0, le=LONGEST_S, description="evidence of an ended job is kept for corrections"
    )


class AlertSettings(Settings):
    """When alerts fire. Durations run on event time.

    >>> AlertSettings().strange_run.factor_min
    1.15
    """

    class SlowSize(AlertRule):
        """A size that is slow (or fast) against the rest of its curve."""

        deviation_min: float = Field(
            default=0.10, gt=0, description="share of the curve's value by which a size has to be off"
        )
        scatter_max: float = Field(
            default=0.3,
            gt=0,
            description="standard deviation of ln run time between runs; an application with more raises no such alert",
        )
        for_s: float = Field(default=1800.0, ge=0, le=LONGEST_S, description="it has to be so for this long")
        keep_firing_s: float = Field(
            default=10_800.0,
            ge=0,
            le=LONGEST_S,
            description="it resolves when it has not been so for this long: where runs scatter, single curves differ",
        )

    class StrangeRun(AlertRule):
        """A run far outside the band that was published before it ended, as hardly any of the runs before."""

        factor_min: float = Field(default=1.15, gt=1, description="observed over expected, either way")
        scatter_max: float = Field(
            default=0.3,
            gt=0,
            description="standard deviation of ln run time between runs; an application with more raises no such alert",
        )
        observations_min: int = Field(default=5, ge=1, description="runs the model has to know first")
        keep_firing_s: float = Field(
            default=3600.0, ge=0, le=LONGEST_S, description="it resolves when nothing new came for this long"
        )

    class Shift(AlertRule):
        """An application that became slower or faster for good, at all sizes."""

        enabled: bool = Field(
            default=True, description="whether this alert exists; predictions follow the new level in any case"
        )
        factor_min: float = Field(default=1.05, gt=1, description="new over old run times, either way")
        scatter_max: float = Field(
            default=0.3,
            gt=0,
            description="standard deviation of ln run time between runs; an application with more raises no such alert",
        )
        keep_firing_s: float = Field(
            default=86_400.0,
            ge=0,
            le=LONGEST_S,
            description="it resolves after this long, though the application stays at the new level; at once when it "
            "is back",
        )

    class Unreliable(AlertRule):
        """Verdicts that matter to a user."""

        verdicts: tuple[str, ...] = Field(default=("high_error",), description="verdicts that raise it")
        observations_min: int = Field(default=8, ge=1, description="runs the model has to know first")
        for_s: float = Field(default=600.0, ge=0, le=LONGEST_S, description="how long the verdict has to hold first")

    class SlowsDown(AlertRule):
        """An application whose largest sizes take longer than a smaller one: advice for its users, so no alert by itself."""

        enabled: bool = Field(
            default=False,
            description="whether this alert exists; predictions advise users of it in any case, and so does `scalewatch report`",
        )
        observations_min: int = Field(default=8, ge=1, description="runs the model has to know first")
        for_s: float = Field(default=600.0, ge=0, le=LONGEST_S, description="how long it has to be so first")

    class FailureRate(AlertRule):
        """A failure rate of an application or a host that is credibly above its own past and the usual one."""

        recent_runs: int = Field(default=20, ge=3, description="the newest runs, whose failures are counted")
        failures_min: int = Field(default=3, ge=1, description="failures among them that are needed at least")
        credibility: float = Field(
            default=0.99, gt=0.5, lt=1, description="how sure it has to be that the rate is above the usual one"
        )
        hosts_max: int = Field(
            default=20_000, ge=1, description="hosts that are remembered; over it the longest unused is forgotten"
        )
        hosts_per_run_max: int = Field(default=1024, ge=1, description="larger runs count for their application only")
        keep_firing_s: float = Field(
            default=3600.0, ge=0, le=LONGEST_S, description="it resolves when it has not been so for this long"
        )
        quiet_s: float = Field(
            default=86_400.0,
            gt=0,
            le=LONGEST_S,
            description="that of a host also resolves when no run on it was told for this long: it may be gone",
        )

    slow_size: SlowSize = SlowSize()
    strange_run: StrangeRun = StrangeRun()
    shift: Shift = Shift()
    unreliable: Unreliable = Unreliable()
    slows_down: SlowsDown = SlowsDown()
    failure_rate: FailureRate = FailureRate()
    host_anomaly: HostAnomaly = HostAnomaly()
    rack_anomaly: RackAnomaly = RackAnomaly()
    straggler: Straggler = Straggler()
    unexplained_power: UnexplainedPower = UnexplainedPower()
    disturbed_run: DisturbedRun = DisturbedRun()
    exclusions: tuple[Exclusion, ...] = Field(
        default=(), max_length=256, description="what is never sent; it is counted and shown as withheld"
    )
    maintenance: tuple[Maintenance, ...] = Field(
        default=(),
        max_length=256,
        description="times in which nothing is sent about a part of the centre, or all of it",
    )
    open_max: int = Field(default=10_000, ge=1, description="open alerts; over it new ones are counted and left out")
    run_age_max_s: float = Field(
        default=6 * 3600.0,
        gt=0,
        le=LONGEST_S,
        description="runs that ended longer ago, history for instance, raise no alert",
    )
    runbook_url: str | None = Field(
        default=None,
        max_length=1024,
        description="alerts link to its headings; default: the agent's own page, where alertmanager.external_url tells how it is reached",
    )
