"""`scalewatch backtest`: predict past jobs as the agent would have done, and score the predictions."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import click
import msgspec
from rich.console import Console

from agent.app import compose
from agent.app.compose import privacy
from agent.app.embedded import Feed
from agent.app.files import JOBS_MAX, Remarks, ReportedEvent, in_order, of_profiles, refused, telemetry_files
from agent.app.replay import FAR_FUTURE_MS, SETTLE_MS
from agent.cli.options import FileInput, finish, indented, labels_option, moment_ms, progress, reads_files
from agent.config.changes import changed, settings_of
from agent.config.tree import Config
from agent.decode.message import DecodeOptions, FileRecord
from agent.reports.backtest.observer import Moment, Observer, minute_moments, moments, period_edges, ran, span, variant
from agent.reports.backtest.page import page, summary
from agent.reports.backtest.report import SCHEMA, ReplayedHistory, Report, Variant
from agent.reports.backtest.waits import PLAYS, QueuedJob, Scheduling, queue_of, scheduling
from processors import __version__
from processors.contracts.errors import ConfigError
from processors.contracts.events import (
    HostMinute,
    HostState,
    JobCompleted,
    JobEvent,
    JobStarted,
    JournalRecord,
    Origin,
    PredictionRequested,
    Tick,
)
from processors.contracts.names import rfc3339
from processors.contracts.outputs import Answer
from processors.facts import Band, remaining
from sinks.web.views.alert_states import AlertLabel

CONFIGURED: Final = "as configured"
SECTIONS: Final = ("alerts", "run_time", "jobs", "identify", "profiles")  # sections that change a backtest
REPORT_EVERY: Final = 500
MINUTES_MAX: Final = 500_000  # maximum number of host minutes held in memory; further minutes are counted and skipped
NOWHERE: Final = Origin("", 0, 0)
IGNORED: Final = {PredictionRequested: "request", HostState: "host-state"}  # event types that do not describe past runs
OnProgress = Callable[[int], None]


class Past(msgspec.Struct, frozen=True):
    """The decoded history: its events in order of time (`moments`), the number of records, and refused and ignored records by reason.

    `host_minutes` is the number of host minutes among `moments`; a host minute counts as reported ten seconds after its end.
    `remarks` are the messages about the files.
    """

    moments: list[Moment]
    records: int
    refused: dict[str, int]
    ignored: dict[str, int]
    remarks: Remarks
    host_minutes: int = 0


def read(
    config: Config, paths: Sequence[str], options: DecodeOptions, *, until_ms: int | None = None,
    on_progress: OnProgress = lambda _: None,
) -> Past:  # fmt: skip
    """Return the job events in files up to `until_ms`, and the host minutes, reduced to the counters and the power for profiles.

    Raise ConfigError if a file cannot be opened, or if the files hold more than JOBS_MAX events.
    """
    events: list[JobEvent] = []
    minutes: list[HostMinute] = []
    refusals, remarks = Counter[str](), Remarks(config)
    ignored, files = remarks.ignored, telemetry_files(config, paths, options)
    items = in_order([remarks.passing(records) for records in files.read(FAR_FUTURE_MS)], files)
    for number, item in enumerate(items):
        if number % REPORT_EVERY == 0:
            on_progress(remarks.records)
        if isinstance(item, FileRecord):
            refusals.update(error.reason for error in refused(item))
        if not isinstance(item, ReportedEvent):
            continue
        event = item.event
        if not remarks.accepts(event.system):
            refusals["unknown-system"] += 1
        elif (kind := IGNORED.get(type(event))) is not None:
            ignored[kind] += 1
        elif not isinstance(event, HostMinute):
            events.append(event)
        elif len(minutes) < MINUTES_MAX and (profiled := of_profiles(event)).resources:
            minutes.append(profiled)
        else:
            ignored["host-minute"] += 1
        if len(events) > JOBS_MAX:
            raise ConfigError(f"The files list more than {JOBS_MAX} jobs; split them.")
    history = sorted([*moments(events), *minute_moments(minutes)], key=lambda moment: moment[:3])
    if until_ms is not None:
        history = [moment for moment in history if moment.time_ms < until_ms]
    host_minutes = sum(isinstance(moment.event, HostMinute) for moment in history)
    return Past(
        history, remarks.records, dict(sorted(refusals.items())), dict(sorted(ignored.items())), remarks, host_minutes
    )


class Candidate(msgspec.Struct, frozen=True):
    """A configuration to try: its name, its settings that differ from the user's configuration, and the full configuration."""

    name: str
    settings: dict[str, str]
    config: Config


class Shards:
    """The shards of one configuration without a log: each event is processed at once.

    `on_messages` receives the messages of each event, and the current time in ms.
    """

    def __init__(self, config: Config, on_messages: Callable[[Iterable[object], int], None]) -> None:
        self._config = config
        self._on_messages = on_messages
        self._privacy = privacy(config.privacy)
        self._shards = [compose.make_shard(config) for _ in range(config.topics.journal_partitions)]
        self.faults = 0
        self.now_ms = 0

    def write(self, event: JobEvent | HostMinute, origin: Origin = NOWHERE) -> None:
        self._fold(self._config.journal_partition(event.system) or 0, JournalRecord(self._privacy(event), origin))

    def tick(self, time_ms: int) -> None:
        self.now_ms = time_ms
        for partition in range(len(self._shards)):
            self._fold(partition, JournalRecord(Tick("", time_ms=time_ms)))

    def _fold(self, partition: int, record: JournalRecord) -> None:
        try:
            messages = self._shards[partition].fold(record)
        except Exception:  # noqa: BLE001 - as in the learner, an event at which a processor fails is counted and left out
            self.faults += 1
            return
        self._on_messages(messages, self.now_ms)


def fold(
    config: Config, history: Iterable[Moment], observer: Observer, on_progress: OnProgress, before: int = 0
) -> int:
    """Process a history, then advance the time until every run has settled; return the number of events that failed.

    `on_progress` receives the number of processed events plus `before`, the number processed for earlier configurations.
    """
    shards = Shards(config, observer.take)
    feed = Feed(shards)
    for count, moment in enumerate(history):
        feed.pass_time(moment.time_ms)
        shards.now_ms, event = moment.time_ms, moment.event
        if isinstance(event, JobStarted):
            observer.started(event)
        shards.write(event)
        if isinstance(event, JobCompleted):
            observer.ended(event)
        if count % REPORT_EVERY == 0:
            on_progress(before + count)
    feed.finish(SETTLE_MS)
    return shards.faults


class Answered:
    """Scalewatch's run time estimates of jobs at submission, learned from the jobs that had ended by then.

    A job without a prediction gets its requested limit as the estimate. The simulation sets the end times of jobs, so the model
    learns from simulated ends.
    """

    def __init__(self, config: Config) -> None:
        self._answers: list[Answer] = []
        self._shards = Shards(config, self._take)
        self._feed = Feed(self._shards)
        self._questions = 0
        self._bands: dict[str, Band] = {}  # prediction bands of waiting and running jobs, by run id

    def submitted(self, job: QueuedJob, now_s: float) -> float:
        """Return the predicted median run time of a job in s."""
        self._feed.pass_time(round(now_s * 1000))
        self._questions += 1
        event = job.event
        question = PredictionRequested(
            event.system, request_id=str(self._questions), n=(job.nodes,), evidence=event.evidence
        )
        self._answers.clear()
        self._shards.write(question)
        points = [point for answer in self._answers for point in answer.points]
        if not points:
            return job.limit_s
        self._bands[event.run_id] = Band(points[0].run_time_s, points[0].low_s, points[0].high_s)
        return points[0].run_time_s

    def overrun(self, job: QueuedJob, ran_s: float, times: int) -> float:  # noqa: ARG002
        """Return the total run time in s that the agent would publish for a job that has run for `ran_s`; without a prediction, its limit."""
        band = self._bands.get(job.event.run_id)
        return remaining(band, ran_s, job.limit_s).band.run_time_s if band is not None else job.limit_s

    def ended(self, job: QueuedJob, start_s: float, end_s: float) -> None:
        self._feed.pass_time(round(end_s * 1000))
        self._bands.pop(job.event.run_id, None)
        start_ms, end_ms = round(start_s * 1000), round(end_s * 1000)
        self._shards.write(msgspec.structs.replace(job.event, start_ms=start_ms, end_ms=end_ms))

    def _take(self, messages: Iterable[object], _now_ms: int) -> None:
        self._answers += [message for message in messages if isinstance(message, Answer)]


def candidates(config: Config, sets: Sequence[dict[str, str]]) -> list[Candidate]:
    """Return the configurations to compare, starting with the user's configuration.

    Raise ConfigError if a setting is invalid.
    """
    by_name = {CONFIGURED: Candidate(CONFIGURED, {}, config)}
    for settings in sets:
        name = ", ".join(f"{key}={value}" for key, value in settings.items())
        if name in by_name:
            raise ConfigError(f"--set {name} is given twice.")
        by_name[name] = Candidate(name, settings, changed(config, settings, SECTIONS))
    return list(by_name.values())


def backtest(
    past: Past, tried: Sequence[Candidate], *, files: Sequence[str] = (), since_ms: int | None = None, top: int = 12,
    labels: Sequence[AlertLabel] = (), on_progress: OnProgress = lambda _: None,
) -> Report:  # fmt: skip
    """Return the report: each configuration in `tried` processes the whole history; `labels` tell which of its alerts were real."""
    variants: list[Variant] = []
    edges_ms = period_edges(past.moments, since_ms)
    for candidate in tried:
        config, before = candidate.config, len(variants) * len(past.moments)
        observer = Observer(edges_ms, config.systems_by_alias, config.profiles.coverage_min)
        faults = fold(config, past.moments, observer, on_progress, before)
        variants.append(variant(candidate.name, candidate.settings, observer, top, faults=faults, labels=labels))
    on_progress(len(tried) * len(past.moments))
    return Report(
        schema=SCHEMA, agent_version=__version__, history=_history(past, files, since_ms), variants=tuple(variants)
    )


def _history(past: Past, files: Sequence[str], since_ms: int | None) -> ReplayedHistory:
    first_ms, last_ms = span(past.moments)
    completed = {
        moment.event.run_id for moment in past.moments if isinstance(moment.event, JobCompleted) and ran(moment.event)
    }
    return ReplayedHistory(
        files=tuple(files),
        records=past.records,
        events=len({moment.number for moment in past.moments if not isinstance(moment.event, HostMinute)}),
        host_minutes=past.host_minutes,
        runs=len(completed),
        refused=sum(past.refused.values()),
        refused_by_reason=past.refused,
        ignored=past.ignored,
        first=rfc3339(first_ms),
        last=rfc3339(last_ms),
        scored_since=None if since_ms is None else rfc3339(since_ms),
    )


@click.command
@click.argument("files", nargs=-1, required=True)
@click.option("--out", "folder", type=click.Path(file_okay=False, path_type=Path), required=True,
              help="Folder for report.html and report.json.")  # fmt: skip
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE",
              help="Also run a variant of the configuration with this key changed. Each --set is one variant; semicolons join "
              "several keys. Allowed sections: alerts, run_time, jobs, profiles, identify.")  # fmt: skip
@click.option("--since", callback=moment_ms, metavar="TIME",
              help="Score only runs that start at or after this time; earlier runs only train the models.")  # fmt: skip
@click.option("--until", callback=moment_ms, metavar="TIME", help="Ignore events at or after this time.")
@click.option("--top", default=12, show_default=True, type=click.IntRange(1, 1000), metavar="N",
              help="Number of applications with their own rows and curves in the report.")  # fmt: skip
@click.option("--scheduler", is_flag=True,
              help="Also simulate EASY backfilling with the users' limits, Scalewatch's predictions and the real run times, "
              "and report the waiting times.")  # fmt: skip
@click.option("--machine-size", type=click.FloatRange(min=0, min_open=True), default=None, metavar="N",
              help="Size of the machine for --scheduler, in nodes, or in cores if the jobs report cores; default: the largest "
              "total size of jobs that ran at the same time.")  # fmt: skip
@labels_option
@reads_files()
@click.option("--quiet", is_flag=True, help="Do not show a progress bar or the table.")
def command(source: FileInput, **values: Any) -> None:
    """Predict the jobs in FILES as the agent would have done, score the predictions, and count the alerts.

    Each job is predicted when it starts, from the jobs that had ended by then, and scored when it ends. The report has errors, bias
    and coverage by application and by distance from the sizes already run. It compares them with the requested time limits and
    with the user's last jobs. FILES can be anything that `scalewatch replay` accepts.

    \b
    scalewatch backtest jobs.txt --out results
    scalewatch backtest log.swf.gz --out results --since 2026-03-01 \\
      --set alerts.strange_run.factor_min=1.5 --set "alerts.slow_size.for_s=0; alerts.slow_size.deviation_min=0.3"

    With --scheduler, EASY backfilling is simulated eight times: with four sources of run times (requested limit, mean of the
    user's last two jobs, Scalewatch's answer at submission, real run time) and two orders of backfilling (first come first,
    shortest job first). FILES must then be the complete log of one machine with submit times and limits.

    \b
    scalewatch backtest log.swf.gz --out results --scheduler --machine-size 100

    The report is written to DIR/report.html, which needs no network, and to DIR/report.json (schema scalewatch.backtest/1).
    All jobs are held in memory. The exit code is 1 if the files contain no run, or if a file is damaged; its readable part
    is still used.
    """  # noqa: D301 - click wants the character itself
    files: tuple[str, ...] = values["files"]
    config = source.config
    tried = candidates(config, [settings_of(text) for text in values["sets"]])
    with progress("records", quiet=values["quiet"]) as on_progress:
        past = read(config, files, source.options(), until_ms=values["until"], on_progress=on_progress)
    with progress("events", total=len(past.moments) * len(tried), quiet=values["quiet"]) as on_progress:
        report = backtest(
            past,
            tried,
            files=files,
            since_ms=values["since"],
            top=values["top"],
            labels=values["labels"],
            on_progress=on_progress,
        )
    if values["scheduler"]:
        report = msgspec.structs.replace(report, scheduling=played(config, past, values))
    folder: Path = values["folder"]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "report.json").write_text(indented(report) + "\n", encoding="utf-8")
    (folder / "report.html").write_text(page(report), encoding="utf-8")
    if not values["quiet"]:
        console = Console()
        for part in summary(report):
            console.print(part)
        click.echo(f"see {folder}/report.html")
    finish(past.remarks, empty=not report.history.runs)


def played(config: Config, past: Past, values: Mapping[str, Any]) -> Scheduling:
    """Return the wait times of the jobs of a history under a simulated scheduler; `values` are the options of the command.

    Raise ConfigError if the jobs do not allow the simulation.
    """
    completed = [moment.event for moment in past.moments if isinstance(moment.event, JobCompleted)]
    queue = queue_of(completed, values["machine_size"])
    with progress("jobs scheduled", total=len(queue.jobs) * PLAYS, quiet=values["quiet"]) as on_progress:
        return scheduling(queue, lambda: Answered(config), values["since"], on_progress)
