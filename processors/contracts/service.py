"""What a process shows of itself: its measures, its health, and reads of what the agent knows.

The page, the API, metrics, Alertmanagers and the demo see a learner through `Service` and nothing else.
"""

# ruff: noqa: ARG002  the answers of `Views` are empty, whatever the question
from collections.abc import Mapping, Sequence
from typing import Final, Literal, Protocol

import msgspec

from processors.contracts.events import CollectorReport, PredictionRequested
from processors.contracts.hosts import ExplainedRunList, HostLines, HostUse, HostView
from processors.contracts.nodes import HostRack
from processors.contracts.outputs import (
    Alert,
    Answer,
    JobPrediction,
    Prediction,
    Quality,
    RecentRun,
    Reliability,
)

HITS: Final = 0.5  # from this chance on a job will probably hit its limit


def hits(chance: float | None, *, session: bool) -> bool:
    """Return whether a job will probably reach its time limit; sessions usually end there, so they never count.

    >>> hits(0.7, session=False), hits(0.7, session=True), hits(0.5, session=False), hits(None, session=False)
    (True, False, False, False)
    """
    return chance is not None and chance > HITS and not session


class Neighbour(msgspec.Struct, frozen=True):
    """Another job on the hosts of a running job, with the number of shared hosts."""

    job_id: str
    hosts: int
    start_ms: int


class LoadedBand(msgspec.Struct, frozen=True):
    """Quantiles of the run time under the load of the hosts, in seconds; None if the load is not known well enough."""

    q05_s: float | None = None
    q50_s: float | None = None
    q95_s: float | None = None


class RunningJob(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a job prediction that lists show, small enough to read twenty thousand jobs at once."""

    id: str
    time: str
    as_of: str
    system: str
    job_id: str
    application: str | None
    input: str | None
    unit: str | None
    n: float | None
    start: str
    time_limit_s: float | None
    known: bool
    run_time_s: float | None
    end: str | None
    end_low: str | None
    end_high: str | None
    probability_exceeds_limit: float | None
    under_load: LoadedBand | None = None
    power_w: float | None = None
    user: str | None = None
    nodes: int | None = None
    partition: str | None = None
    account: str | None = None
    session: bool = False


ROLE_REASONS: Final = ("unknown-system", "decoder", "processor")
"""Why a role refuses a record whatever its format says: a system that is not listed, a decoder or a processor that raised."""


class Measures(Protocol):
    """Counters, gauges and histograms by their full names; labels come from closed lists.

    It is handed to components, so that they need not know Prometheus.
    """

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Add a value to a histogram."""


BEHIND_S: Final = 120.0
"""A role that is further behind is not ready: what it shows is of that long ago."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How a role is: ready or why not, and how far it is behind.

    `floods` tells who floods it, in sentences: others are served as ever. A role that is `working` does what it is there for, even while it is too far behind to be ready.

    `lag_s` is the time between the clock of the newest tick folded and now, negative where the tick is ahead of now; `checkpoint_age_s`
    the time since the last confirmed checkpoint; `folded_ms` the newest tick folded, which is now in event time. None where the
    role has no such thing. `unanswered` tells who could not be asked lately, and since when, in sentences: what they said last
    is shown meanwhile.
    """

    role: str
    ready: bool
    reasons: tuple[str, ...] = ()
    restarts: int = 0
    partitions: tuple[int, ...] = ()
    lag_s: float | None = None
    checkpoint_age_s: float | None = None
    folded_ms: int | None = None
    working: bool = True
    floods: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()


def late(lag_s: float | None) -> tuple[str, ...]:
    """Return the sentence that explains why a role with this lag is not ready; empty if the role is ready.

    >>> late(360.0)
    ('It is 6 minutes behind.',)
    """
    return () if lag_s is None or lag_s <= BEHIND_S else (f"It is {lag_s / 60:.0f} minutes behind.",)


class DeadLetterView(msgspec.Struct, frozen=True, kw_only=True):
    """A message that became a dead letter: when, why, and where it lies. Its bytes are not shown.

    `count` parts of it are refused, the first of them at `places` in it.

    >>> DeadLetterView(time_ms=0, reason="not-json", detail="", topic="slurm", partition=0, offset=7).offset
    7
    """

    time_ms: int
    reason: str
    detail: str
    topic: str
    partition: int
    offset: int
    count: int = 1
    places: tuple[str, ...] = ()


SILENT_S: Final = 1800.0  # for so long a source may be silent where nothing else is configured


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A source topic: how many events of it the learner has folded since it started, and the newest event's time.

    `messages` counts what the topic ever got and `heard_ms` is when the newest message came, both as a collector last
    reported them. A configured name or pattern that no topic has is a source without messages. None: not known.
    Once nothing came for `silent_s`, it is silent.

    >>> SourceStatus(topic="slurm", messages=0).events
    0
    """

    topic: str
    events: int = 0
    newest_ms: int | None = None
    messages: int | None = None
    heard_ms: int | None = None
    silent_s: float = SILENT_S

    @property
    def moved_ms(self) -> int | None:
        """When the source last spoke, by its newest event or else by its newest message."""
        return self.heard_ms if self.newest_ms is None else self.newest_ms

    def is_silent(self, now_ms: int) -> bool:
        """Return whether a source that has spoken has been silent for too long."""
        return self.moved_ms is not None and now_ms - self.moved_ms > self.silent_s * 1000


class Silence(msgspec.Struct, frozen=True):
    """Why an Alertmanager notifies nobody of an alert: who silenced it, until when (RFC 3339), and what they say."""

    by: str
    until: str
    comment: str = ""


class LevelChange(msgspec.Struct, frozen=True):
    """From `time_ms` on, runs took `factor` times as long as before: those of size `n`, or of all sizes (None)."""

    time_ms: int
    factor: float
    n: float | None = None


Comparison = Literal["slower", "faster"]


class StrangeSize(msgspec.Struct, frozen=True):
    """A size that does not fit the curve of the other sizes: "slower", "faster", or None if too few runs show which."""

    n: float
    comparison: Comparison | None = None


class ModelFit(msgspec.Struct, frozen=True, kw_only=True):
    """The last fit of a curve: the number of its runs, the weights of its laws, and its verdicts by size."""

    time_ms: int
    runs: int
    model: str
    weights: dict[str, float]
    verdicts: tuple[tuple[float, Reliability], ...]
    whole: Reliability


class Story(msgspec.Struct, frozen=True, kw_only=True):
    """How the model of an application came about, at `time_ms`.

    `runs` counts all learned runs, `newest_runs` the runs that are still remembered one by one. The counts of slow, fast and
    loaded runs are parts of `newest_runs`: a slow or fast run hardly counts, and the load of its hosts explains a part of the time of a
    loaded run. At most eight changes of level are remembered for all sizes, and eight for each size. `related_curves` are
    curves of the same application with other inputs or on other systems; `inputs` counts its inputs with a known size.
    """

    application_id: str
    time_ms: int
    runs: int
    sizes: tuple[float, ...]
    newest_run_ms: int
    newest_runs: int
    slow_runs: int
    fast_runs: int
    loaded_runs: int
    level_changes: tuple[LevelChange, ...]
    strange_sizes: tuple[StrangeSize, ...]
    fit: ModelFit | None
    fit_due_ms: int | None
    related_curves: int
    inputs: int
    quality: Quality


class Views:
    """The questions about one system that its shard answers. This base is the answer of a process without the shard.

    A new question needs its declaration here and its answer in the views of a shard. Filters derive from this class as well,
    so a reader sees nothing of a new question until a filter lets the answer through.

    >>> Views().host("nid1"), Views().neighbours("812")
    (None, ())
    """

    def host(self, host: str) -> HostView | None:
        """Return one host; None if it is not known."""
        return None

    def host_lines(self, host: str, resource: str | None = None) -> HostLines | None:
        """Return the measurements of a host over time, of one resource or of all; None if the host is not known."""
        return None

    def hosts_of_job(self, job_id: str) -> Sequence[str]:
        """Return the hosts of a running job; empty if they are not known."""
        return ()

    def neighbours(self, job_id: str) -> Sequence[Neighbour]:
        """Return the other jobs on the hosts of a running job, those with the most common hosts first."""
        return ()

    def explained_runs(self, host: str) -> ExplainedRunList:
        """Return the slow runs of the last month that a fault of the host explains."""
        return ExplainedRunList()

    def story(self, application_id: str) -> Story | None:
        """Return how the model of an application came about; None without a model."""
        return None


class Service(Protocol):
    """Reads of a running agent; safe from any thread, every result immutable. Lists of what is recent are bounded."""

    def predictions(self) -> Sequence[Prediction]:
        """Return the latest prediction of every application, sorted by application id."""

    def prediction(self, application_id: str) -> Prediction | None:
        """Return the latest prediction of one application."""

    def answer(self, request: PredictionRequested) -> Answer:
        """Answer a question from the current models. Raise UnavailableError if the models are not in this process."""

    def jobs(self) -> Sequence[JobPrediction]:
        """Return the latest predictions of running jobs, sorted by job."""

    def running(self) -> Sequence[RunningJob]:
        """Return summaries of the running jobs, sorted by job; cheaper than their full predictions."""

    def job(self, system: str, job_id: str) -> JobPrediction | None:
        """Return the latest prediction of a running job; None if the job is not running."""

    def rack(self, system: str, host: str) -> HostRack | None:
        """Return the rack of a host; None if it is unknown."""

    def ended(self, system: str, job_id: str) -> JobPrediction | None:
        """Return the last prediction of a job that ended recently; its run is available once it has settled."""

    def runs(self, application_id: str) -> Sequence[RecentRun]:
        """Return the newest settled runs of an application."""

    def runs_of_job(self, system: str, job_id: str) -> Sequence[RecentRun]:
        """Return the settled runs of a job; a requeued one has several."""

    def recent_runs(self) -> Sequence[RecentRun]:
        """Return the newest settled runs of all applications, the one that ended last first."""

    def alerts(self) -> Sequence[Alert]:
        """Return the alerts that are not over, then the newest resolved ones (a bounded number), newest first."""

    def silences(self) -> Mapping[str, Silence]:
        """Return the silences of alerts in the Alertmanagers, by fingerprint."""

    def hosts(self, limit: int) -> Sequence[HostView]:
        """Return at most `limit` hosts: anomalous hosts first, then by system and name."""

    def host_names(self, limit: int) -> Sequence[tuple[str, str]]:
        """Return system and name of at most `limit` hosts, anomalous hosts first; cheaper than their views."""

    def host_uses(self, limit: int) -> Sequence[HostUse]:
        """Return state and job of at most `limit` hosts, anomalous hosts first; cheaper than their views."""

    def reading(self, system: str) -> Views:
        """Return the views of one system; each question takes its turn with the fold."""

    def dead_letters(self) -> Sequence[DeadLetterView]:
        """Return the newest dead letters of the whole agent."""

    def sources(self) -> Sequence[SourceStatus]:
        """Return the sources, the one that spoke last first."""

    def collectors(self) -> Sequence[CollectorReport]:
        """Return the last reports of the collectors in other processes, by name."""

    def health(self) -> Sequence[Health]:
        """Return the health of every role in this process."""


class Forwarding:
    """Reads of another service, unchanged: the base of those that filter or combine some of them.

    >>> from types import SimpleNamespace
    >>> Forwarding(SimpleNamespace(jobs=lambda: ["812"])).jobs()
    ['812']
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def predictions(self) -> Sequence[Prediction]:
        """Return the latest prediction of every application, sorted by application id."""
        return self._service.predictions()

    def prediction(self, application_id: str) -> Prediction | None:
        """Return the latest prediction of one application."""
        return self._service.prediction(application_id)

    def answer(self, request: PredictionRequested) -> Answer:
        """Answer a question from the models as they are now."""
        return self._service.answer(request)

    def jobs(self) -> Sequence[JobPrediction]:
        """Return the latest predictions of running jobs, sorted by job."""
        return self._service.jobs()

    def running(self) -> Sequence[RunningJob]:
        """Return what lists show of the running jobs, sorted by job."""
        return self._service.running()

    def job(self, system: str, job_id: str) -> JobPrediction | None:
        """Return the latest prediction of a job that runs."""
        return self._service.job(system, job_id)

    def rack(self, system: str, host: str) -> HostRack | None:
        """Return the rack of a host."""
        return self._service.rack(system, host)

    def ended(self, system: str, job_id: str) -> JobPrediction | None:
        """Return what was last predicted of a job that ended a short while ago."""
        return self._service.ended(system, job_id)

    def runs(self, application_id: str) -> Sequence[RecentRun]:
        """Return the newest settled runs of an application."""
        return self._service.runs(application_id)

    def runs_of_job(self, system: str, job_id: str) -> Sequence[RecentRun]:
        """Return the settled runs of a job."""
        return self._service.runs_of_job(system, job_id)

    def recent_runs(self) -> Sequence[RecentRun]:
        """Return the newest settled runs of all applications, the one that ended last first."""
        return self._service.recent_runs()

    def alerts(self) -> Sequence[Alert]:
        """Return the alerts that are not over, then the newest resolved ones."""
        return self._service.alerts()

    def silences(self) -> Mapping[str, Silence]:
        """Return the silences of alerts in the Alertmanagers, by fingerprint."""
        return self._service.silences()

    def hosts(self, limit: int) -> Sequence[HostView]:
        """Return at most so many hosts, those with anomalies first."""
        return self._service.hosts(limit)

    def host_names(self, limit: int) -> Sequence[tuple[str, str]]:
        """Return system and name of at most so many hosts, those with anomalies first."""
        return self._service.host_names(limit)

    def host_uses(self, limit: int) -> Sequence[HostUse]:
        """Return state and job of at most so many hosts, those with anomalies first."""
        return self._service.host_uses(limit)

    def reading(self, system: str) -> Views:
        """Return the views of one system."""
        return self._service.reading(system)

    def dead_letters(self) -> Sequence[DeadLetterView]:
        """Return the newest dead letters of the whole agent."""
        return self._service.dead_letters()

    def sources(self) -> Sequence[SourceStatus]:
        """Return the sources, the one that spoke last first."""
        return self._service.sources()

    def collectors(self) -> Sequence[CollectorReport]:
        """Return what the collectors of other processes last reported, by name."""
        return self._service.collectors()

    def health(self) -> Sequence[Health]:
        """Return the health of every role in this process."""
        return self._service.health()
