"""Events of the journal: what decoders yield, the collector writes and the learner folds.

Each carries a natural identity and absolute values, never a delta, so that a repeat is a no-op.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from processors.contracts.errors import InvalidInputError
from processors.contracts.hosts import Profile
from processors.contracts.names import job_key, rfc3339
from processors.contracts.nodes import count

Attribute = str | int | float | bool
PLACES_MAX: Final = 20
PLACE_MAX: Final = 200  # characters
UNITS: Final = ("nodes", "cores", "processes", "threads", "gpus")
SUCCESS: Final = "COMPLETED"
STATES: Final = (  # the final states of Slurm; others are mapped onto them by the decoders
    SUCCESS,
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
    "RESIZING",
    "REQUEUED",
    "REVOKED",
)


PART_OF: Final = "het_job_id"
"""Attribute of the parts of a heterogeneous job. They ran together, so the size of one part is not the size of the run."""


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of a job besides its times: all that identification and attributes may use.

    `sizes` maps a unit to a count; a native event names one, Slurm knows several. `hosts` are host lists as sent,
    not expanded.

    >>> Evidence(job_name="run7", sizes={"nodes": 64}).sizes["nodes"]
    64
    """

    sizes: dict[str, float] = {}
    application: str | None = None
    input: str | None = None
    executable: str | None = None
    module: str | None = None
    container: str | None = None
    job_name: str | None = None
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    qos: str | None = None
    reservation: str | None = None
    work_dir: str | None = None
    script: str | None = None
    comment: str | None = None
    hosts: tuple[str, ...] = ()
    time_limit_s: float | None = None
    submit_ms: int | None = None
    exclusive: bool | None = None
    array_job_id: str | None = None
    attributes: dict[str, Attribute] = {}


def nodes_of(evidence: Evidence) -> int | None:
    """Return the node count of a job, as its producer reports or lists the nodes; None if it does neither.

    >>> nodes_of(Evidence(sizes={"cores": 256.0}, hosts=("nid[001-004]",))), nodes_of(Evidence(sizes={"cores": 256.0}))
    (4, None)
    """
    counted = evidence.sizes.get("nodes")
    if counted is not None:
        return max(round(counted), 1)
    try:
        return sum(map(count, evidence.hosts)) or None
    except InvalidInputError:
        return None


class Event(msgspec.Struct, frozen=True, tag_field="type", omit_defaults=True):
    """Base of all events."""

    system: str

    @property
    def identity(self) -> str:
        """The natural identity: a second event with the same identity and content changes nothing."""
        raise NotImplementedError


class JobStarted(Event, frozen=True, tag="job.started"):
    """A job got its nodes and began to run at `start_ms`."""

    job_id: str
    run_id: str
    start_ms: int
    evidence: Evidence

    @property
    def identity(self) -> str:
        """The run, as started."""
        return f"started:{self.run_id}"


class JobCompleted(Event, frozen=True, tag="job.completed"):
    """A run ended; `state` is one of STATES and says how.

    A job cancelled while it was pending has `run_time_s` 0 and never ran. `energy_j` is what the scheduler's own meter counted on
    all its nodes, which is that of other jobs, too, where they share a node; None where it has none.
    """

    job_id: str
    run_id: str
    start_ms: int
    end_ms: int
    run_time_s: float
    state: str
    evidence: Evidence
    exit_code: int | None = None
    failed_host: str | None = None
    energy_j: float | None = None

    @property
    def identity(self) -> str:
        """The run, as completed."""
        return f"completed:{self.run_id}"


class Identity(Event, frozen=True, tag="identity"):
    """Evidence from another source (XALT, a prolog, ...) about what a job runs."""

    job_id: str
    source: str
    evidence: Evidence

    @property
    def identity(self) -> str:
        """The job and the source."""
        return f"identity:{job_key(self.system, self.job_id)}:{self.source}"


class PredictionRequested(Event, frozen=True, tag="prediction.requested"):
    """A question: how long would it run at each of these sizes.

    Names an application, or carries raw job fields (in `evidence`) that are identified as the job would be. `features` are
    those of the communication of a placement, as far as that is known before the run; what is none of these is a counter.
    """

    request_id: str
    n: tuple[float, ...]
    evidence: Evidence
    unit: str | None = None
    features: dict[str, float] = {}

    @property
    def identity(self) -> str:
        """The request's own id."""
        return f"request:{self.system}:{self.request_id}"


class Tick(Event, frozen=True, tag="tick"):
    """Time as data: `time_ms` is the clock of the collector that wrote the tick. `system` is empty: a tick is for all.

    A collector whose sources are behind lets time pass only `until_ms` (`processors.contracts.log`).
    """

    time_ms: int
    collector: str = ""
    until_ms: int | None = None

    @property
    def identity(self) -> str:
        """The time itself."""
        return f"tick:{rfc3339(self.time_ms)}"


class HostState(Event, frozen=True, tag="host.state"):
    """A host was drained, went down, or came back: what it measures meanwhile is no anomaly."""

    host: str
    state: str
    time_ms: int

    @property
    def identity(self) -> str:
        """The host and the moment."""
        return f"host:{job_key(self.system, self.host)}@{self.time_ms}"


Exchanged = tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]
"""Ranks that messages are from, ranks that they are to, and their bytes."""
NOTHING_EXCHANGED: Final[Exchanged] = ((), (), ())


class Network(Event, frozen=True, tag="network"):
    """What the network did for a job, told by its producer: ready features, or bounded arrays to work them out from.

    `links` are bytes, buffered and received packets of each link, `messages` hops and bytes of each message,
    `fifo_messages` the messages of each injection queue: columns, as `processors.models.features.communication` takes them.
    A mapping has `hosts`, and for each of the `ranks` the place of its host among them; `exchanged` are then the ranks that
    messages are from and to, and their bytes (`processors.features.placements`).
    """

    job_id: str
    time_ms: int
    features: dict[str, float] = {}
    links: tuple[tuple[float, ...], tuple[float, ...], tuple[float, ...]] = ((), (), ())
    messages: tuple[tuple[float, ...], tuple[float, ...]] = ((), ())
    fifo_messages: tuple[float, ...] = ()
    hosts: tuple[str, ...] = ()
    ranks: tuple[int, ...] = ()
    exchanged: Exchanged = NOTHING_EXCHANGED

    @property
    def identity(self) -> str:
        """The job and the moment."""
        return f"network:{job_key(self.system, self.job_id)}@{self.time_ms}"


class JobProfile(Event, frozen=True, tag="job.profile"):
    """The profile of a settled run, as it was kept: a rebuild and a backfill tell it instead of its telemetry.

    It comes after the completion of its run.
    """

    job_id: str
    run_id: str
    profile: Profile

    @property
    def identity(self) -> str:
        """The run."""
        return f"profile:{self.run_id}"


class ResourceMinute(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One resource of a host in one minute of event time.

    `count`, `mean`, `low`, `high` are of the samples in the minute; `means` those of its 10-second parts, None for a
    part without a sample. `edges` are the six edges of five equal intervals over the last five minutes, and `shares` the
    share of their samples in each; one edge and one share where all samples are alike, none where the window is empty.
    `window_count` is how many samples the window holds, `late` how many came too late for it since the minute before.
    `last` is the newest value in the minute of a resource that is cumulative (its name ends in ``_total``), in full
    precision; `energy_j` the energy of the minute where the resource is a power (``_w``). Both are None for others.
    What is only part of profiles (`processors.contracts.telemetry.is_profiled`) has no means, edges and shares.

    >>> ResourceMinute(6, 0.83, 0.8, 0.9, (0.83,) * 6, (0.8, 0.82, 0.84, 0.86, 0.88, 0.9), (0.4, 0.3, 0.1, 0.1, 0.1), 30).mean
    0.83
    """

    count: int
    mean: float
    low: float
    high: float
    means: tuple[float | None, ...] = ()
    edges: tuple[float, ...] = ()
    shares: tuple[float, ...] = ()
    window_count: int = 0
    late: int = 0
    last: float | None = None
    energy_j: float | None = None


class HostMinute(Event, frozen=True, tag="host.minute"):
    """What a host measured in the minute from `minute_ms` on: one absolute summary per resource, never a delta.

    `source` is the topic and partition that the samples came from; a host whose metrics come from two of them has two
    summaries. Resources are named as in NWS (cpu_available, memory_free, bandwidth, ...); those between hosts carry the
    other side: ``bandwidth>group3``.

    A minute is told soon after its end, and again with revision 1 where samples came later: of records with one identity
    the highest revision counts, whatever their order, for a collector that was stopped may write an old one late.
    """

    source: str
    host: str
    minute_ms: int
    resources: dict[str, ResourceMinute]
    revision: int = 0

    @property
    def identity(self) -> str:
        """The source, the host and the minute."""
        return f"minute:{self.source}:{job_key(self.system, self.host)}@{self.minute_ms}"


JobEvent = JobStarted | JobCompleted | Identity | PredictionRequested | HostState | Network | JobProfile
JournalEvent = JobEvent | HostMinute | Tick


class Origin(msgspec.Struct, frozen=True):
    """Where an event came from: provenance, never part of its identity or of any state."""

    topic: str
    partition: int
    offset: int


class TopicReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a broker says of a source topic: how many messages it ever got, and when the newest one came.

    A configured name or pattern that no topic has stands for itself, without messages. The time is None where no message
    is left.
    """

    topic: str
    messages: int = 0
    newest_ms: int | None = None


class CollectorReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a collector is, as it writes it beside a tick: the journal is the only way from collectors to learners.

    It is no part of any state. `member` names the collector through its restarts; dead letters are those since its start.
    """

    member: str
    time_ms: int
    reasons: tuple[str, ...] = ()
    restarts: int = 0
    lag_s: float | None = None
    dead_letters: dict[str, int] = {}
    topics: tuple[TopicReport, ...] = ()


class JournalRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One record of the journal, as written: the event, its origin, and with some ticks how their collector is."""

    event: JournalEvent
    origin: Origin | None = None
    collector: CollectorReport | None = None


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(JournalRecord)

encode_record = _ENCODER.encode
"""Return the journal's bytes of a record."""

decode_record = _DECODER.decode
"""Return the record of the journal's bytes; msgspec.DecodeError where they are none."""


class Decoded(msgspec.Struct):
    """The events of one message, the parts of it that are refused, and what was left out on purpose.

    One message may be a batch: an event can be refused while its neighbours are taken. `ignored` counts, by reason,
    parts that are well-formed and of no use (a job step, a record of a pending job).
    """

    events: list[JobEvent] = []
    rejects: list[InvalidInputError] = []
    ignored: dict[str, int] = {}
    unknown_fields: int = 0


Decode = Callable[[bytes, int], Decoded]
"""A decoder: message bytes and the time the message was received, in ms; raises InvalidInputError for the whole."""


class Refused(msgspec.Struct, frozen=True):
    """What of one message is refused for one reason: the first error, how many parts, and where the first of them are."""

    error: InvalidInputError
    count: int = 1
    places: tuple[str, ...] = ()


class Refusal(msgspec.Struct, frozen=True):
    """A message that is refused for one reason, whole or in parts; `timestamp_ms` is the message's own time."""

    origin: Origin
    refused: Refused
    format: str
    value: bytes | None
    timestamp_ms: int


def by_reason(errors: Iterable[InvalidInputError]) -> list[Refused]:
    """Group the refused parts of one message by reason, in order of first occurrence, with at most PLACES_MAX places each.

    >>> errors = [InvalidInputError("time", "It is no time.").at(f"[{number}]") for number in range(50)]
    >>> [(refused.count, refused.places[:2]) for refused in by_reason(errors)]
    [(50, ('[0]', '[1]'))]
    """
    found: dict[str, list[InvalidInputError]] = {}
    for error in errors:
        found.setdefault(error.reason, []).append(error)
    return [
        Refused(alike[0], len(alike), tuple(error.place[:PLACE_MAX] for error in alike if error.place)[:PLACES_MAX])
        for alike in found.values()
    ]


class DeadLetter(msgspec.Struct, frozen=True):
    """A message that could not be used, or parts of it: why, where it stood, and its bytes (base64, bounded).

    There is one for each reason. `count` says how many parts of the message are meant, `places` where the first of them
    are in it (an element such as ``metrics[17]``, ``line 3``, or the host and the resource of a value), `detail` what is wrong
    with the first.
    """

    schema: str
    id: str
    time: str
    reason: str
    detail: str
    topic: str
    partition: int
    offset: int
    format: str
    value_base64: str
    value_bytes: int
    truncated: bool
    count: int = 1
    places: tuple[str, ...] = ()
