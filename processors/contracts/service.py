"""The reader's side of a process: its measures, its health, and `Service`, which reads what the agent knows.

Web page, API, metrics, Alertmanager client and demo access a learner only through `Service`.
"""

# ruff: noqa: ARG002  `Views` ignores all arguments, because its answers are empty
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, Protocol

import msgspec

from processors.contracts.events import CollectorReport, PredictionRequested
from processors.contracts.hosts import ExplainedRunList, HostCounts, HostLines, HostUse, HostView
from processors.contracts.nodes import HostRack
from processors.contracts.outputs import (
    Alert,
    Answer,
    JobPrediction,
    PredictedJob,
    Prediction,
    Quality,
    Reliability,
    RunSummary,
)

HITS: Final = 0.5  # above this probability of reaching its time limit, a job counts as likely to reach it


def hits(chance: float | None, *, session: bool) -> bool:
    """Return whether a job will probably reach its time limit; sessions usually end at the limit, so sessions never count.

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
    """Quantiles of the run time under the load of the hosts, in seconds; None if too little is known about the load."""

    q05_s: float | None = None
    q50_s: float | None = None
    q95_s: float | None = None


class RecentRun(RunSummary, frozen=True, kw_only=True):
    """A recently settled run, as shown to users.

    Power and energy are sums over the hosts of the run. `hosts` are host lists as sent; `counters` are rates per second and
    host. `shared` is the share of host-minutes in which another job ran on the same host, None if the hosts sent no telemetry.
    """

    power_w: float | None = None
    energy_j: float | None = None
    partition: str | None = None
    hosts: tuple[str, ...] = ()
    counters: dict[str, float] = {}  # noqa: RUF012  msgspec copies an empty default
    shared: float | None = None


class RunningJob(PredictedJob, frozen=True, kw_only=True):
    """The part of a job prediction that lists show, small enough to read twenty thousand jobs at once."""

    under_load: LoadedBand | None = None


ROLE_REASONS: Final = ("unknown-system", "decoder", "processor")
"""Reasons for refusing a record of any format: its system is not listed, or a decoder or processor raised an error."""


class Measures(Protocol):
    """Counters, gauges and histograms by their full names. Label values come from closed lists.

    Components receive this protocol, so that they do not depend on Prometheus.
    """

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None: ...

    def set(self, name: str, value: float, **labels: str) -> None: ...

    def observe(self, name: str, value: float, **labels: str) -> None: ...


BEHIND_S: Final = 120.0
"""Lag above which a role is not ready, because its data is too old to show."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """The condition of a role: ready, or the reasons why not, and how far it lags behind.

    A role may be `working` although it lags too far behind to be ready. `floods` has sentences that name producers with too
    many messages; other producers are served as usual. `unanswered` has sentences that name the processes that do not answer
    and since when; their last answers are still shown.

    `folded_ms` is the newest tick that the role has processed, which is the present event time, and `lag_s` is the wall-clock
    time minus this tick, so it is negative if the tick is ahead. `checkpoint_age_s` is the time since the last confirmed
    checkpoint. Values that do not apply to the role are None.
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


class DeadLetterPosition(msgspec.Struct, frozen=True, kw_only=True):
    """A dead letter without time and content: the reason, and the position of the message in its topic.

    `count` parts of the message were refused; `places` are the first of them.
    """

    reason: str
    detail: str
    topic: str
    partition: int
    offset: int
    count: int = 1
    places: tuple[str, ...] = ()


class DeadLetterView(DeadLetterPosition, frozen=True, kw_only=True):
    """A dead letter without the bytes of its message, with its time.

    >>> DeadLetterView(time_ms=0, reason="not-json", detail="", topic="slurm", partition=0, offset=7).offset
    7
    """

    time_ms: int


SILENT_S: Final = 1800.0  # default silence after which a source counts as silent


class SourceStatus(msgspec.Struct, frozen=True, kw_only=True):
    """A source topic: the number of events that the learner has folded since the learner's start, and the time of the newest event.

    The last report of a collector gives `messages`, the number of messages ever written, and `heard_ms`, the time of the newest
    message; None if unknown. A configured name or pattern without a topic is a source with 0 messages. A source counts as silent
    if nothing came for `silent_s`.

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
        """The time in ms of the newest event; without an event, of the newest message."""
        return self.heard_ms if self.newest_ms is None else self.newest_ms

    def is_silent(self, now_ms: int) -> bool:
        """Return whether a source that was active before has been silent for too long."""
        return self.moved_ms is not None and now_ms - self.moved_ms > self.silent_s * 1000


class Silence(msgspec.Struct, frozen=True):
    """A silence of an alert in an Alertmanager: who created it, until when (RFC 3339), and the comment."""

    by: str
    until: str
    comment: str = ""


class LevelChange(msgspec.Struct, frozen=True):
    """A change of level at `time_ms`: runs take `factor` times as long as before, at size `n` or at all sizes (None)."""

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
    """The history of the model of an application, as of `time_ms`.

    `runs` is the number of learned runs, `newest_runs` the number of runs that are still stored individually. The counts of
    slow, fast and loaded runs refer to `newest_runs`. A slow or fast run hardly counts in the fit; in a loaded run, the load of
    the hosts explains a part of the run time. At most eight changes of level are stored for all sizes together, and eight for
    each size. `related_curves` is the number of other curves of the application, with other inputs or on other systems;
    `inputs` is the number of its inputs with a known size.
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
    """The data about one system that its shard provides. This base class serves a process without the shard: all results are empty.

    A new method needs a declaration in this class and an implementation in the views of a shard. Filters derive from this class
    as well, so a new method returns nothing until each filter forwards it.

    >>> Views().host("nid1"), Views().neighbours("812")
    (None, ())
    """

    def host(self, host: str) -> HostView | None:
        """Return the view of `host`; None if the host is unknown."""
        return None

    def host_lines(self, host: str, resource: str | None = None) -> HostLines | None:
        """Return the measurements of a host over time, of one resource or of all resources; None if the host is unknown."""
        return None

    def hosts_of_job(self, job_id: str) -> Sequence[str]:
        """Return the hosts of a running job; empty if the hosts are unknown."""
        return ()

    def neighbours(self, job_id: str) -> Sequence[Neighbour]:
        """Return the other jobs on the hosts of a running job, those with the most common hosts first."""
        return ()

    def explained_runs(self, host: str) -> ExplainedRunList:
        """Return the slow runs of the last month that an anomaly of the host explains."""
        return ExplainedRunList()

    def story(self, application_id: str) -> Story | None:
        """Return the history of the model of an application; None without a model."""
        return None


class Service(Protocol):
    """Reads of a running agent. All methods are safe from any thread, and all results are immutable. Lists of recent items are bounded."""

    def predictions(self) -> Sequence[Prediction]:
        """Return the latest prediction of every application, sorted by application id."""

    def prediction(self, application_id: str) -> Prediction | None:
        """Return the latest prediction of one application."""

    def answer(self, request: PredictionRequested) -> Answer:
        """Answer a request from the current models. Raise UnavailableError if the models are not in this process."""

    def jobs(self) -> Sequence[JobPrediction]:
        """Return the latest predictions of running jobs, sorted by job."""

    def running(self) -> Sequence[RunningJob]:
        """Return summaries of the running jobs, sorted by job. Summaries are cheaper than full predictions."""

    def job(self, system: str, job_id: str) -> JobPrediction | None:
        """Return the latest prediction of a running job; None if the job is not running."""

    def rack(self, system: str, host: str) -> HostRack | None: ...

    def ended(self, system: str, job_id: str) -> JobPrediction | None:
        """Return the last prediction of a job that ended recently; its run appears in `runs_of_job` only after it has settled."""

    def runs(self, application_id: str) -> Sequence[RecentRun]:
        """Return the newest settled runs of an application."""

    def runs_of_job(self, system: str, job_id: str) -> Sequence[RecentRun]:
        """Return the settled runs of a job. A requeued job has several."""

    def recent_runs(self) -> Sequence[RecentRun]:
        """Return the newest settled runs of all applications, latest end first."""

    def alerts(self) -> Sequence[Alert]:
        """Return the open alerts, then a bounded number of resolved alerts, newest first."""

    def silences(self) -> Mapping[str, Silence]:
        """Return the silences of alerts in the Alertmanagers, by fingerprint."""

    def hosts(self, limit: int) -> Sequence[HostView]:
        """Return at most `limit` hosts: anomalous hosts first, then by system and name."""

    def host_counts(self) -> HostCounts:
        """Return how many hosts are known, abnormal and still being learned."""

    def host_names(self, limit: int) -> Sequence[tuple[str, str]]:
        """Return system and name of at most `limit` hosts, anomalous hosts first. Full views would cost more."""

    def host_uses(self, limit: int) -> Sequence[HostUse]:
        """Return state and job of at most `limit` hosts, anomalous hosts first. Full views would cost more."""

    def reading(self, system: str) -> Views:
        """Return the views of one system. A call of a view waits while the shard processes records."""

    def dead_letters(self) -> Sequence[DeadLetterView]:
        """Return the newest dead letters of the whole agent."""

    def sources(self) -> Sequence[SourceStatus]:
        """Return the source topics, the most recently active first."""

    def collectors(self) -> Sequence[CollectorReport]:
        """Return the last reports of the collectors in other processes, sorted by name."""

    def health(self) -> Sequence[Health]:
        """Return the health of every role in this process."""


class Forwarding:
    """Forwards all reads to another service. Base class of services that filter or combine some reads.

    >>> from types import SimpleNamespace
    >>> Forwarding(SimpleNamespace(jobs=lambda: ["812"])).jobs()
    ['812']
    """

    def __init__(self, service: Service) -> None:
        self._service = service

    def __getattr__(self, read: str) -> Any:
        return getattr(self._service, read)
