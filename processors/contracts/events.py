"""Events of the journal. Decoders create the events, the collector writes the events, and the learner folds the events.

Each event has a natural identity and holds absolute values, never differences. A repeated event therefore changes nothing.
"""

from collections.abc import Callable, Iterable
from typing import Final

import msgspec

from processors.contracts.errors import InvalidInputError
from processors.contracts.hosts import Profile
from processors.contracts.names import grouped, job_key, rfc3339
from processors.contracts.nodes import count

Attribute = str | int | float | bool
PLACES_MAX: Final = 20
PLACE_MAX: Final = 200  # characters of the place of an error
UNITS: Final = ("nodes", "cores", "processes", "threads", "gpus")
SUCCESS: Final = "COMPLETED"
STATES: Final = (  # the final states of Slurm; decoders map the states of other schedulers to them
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
"""Attribute of the parts of a heterogeneous job. The parts ran together, so the size of one part is not the size of the run."""


class Evidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """The fields of a job besides its times. These fields identify the application of the job and explain the run time.

    `sizes` maps a unit to a count; native events have one unit, Slurm events several units. `hosts` are host lists as sent,
    with unexpanded ranges.

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
    """Return the number of nodes of a job, from its sizes or else from its host lists; None if the producer sent neither.

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
    """A job received its nodes and began to run at `start_ms`."""

    job_id: str
    run_id: str
    start_ms: int
    evidence: Evidence

    @property
    def identity(self) -> str:
        return f"started:{self.run_id}"


class JobCompleted(Event, frozen=True, tag="job.completed"):
    """A run ended with `state`, one of STATES.

    A job that was cancelled while pending has `run_time_s` 0. `energy_j` is the energy that the scheduler measured on all nodes
    of the job; on shared nodes, it includes the energy of other jobs. `energy_j` is None if the scheduler has no power meter.
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
        return f"completed:{self.run_id}"


class Identity(Event, frozen=True, tag="identity"):
    """Evidence about the program of a job from a second source, such as XALT or a prolog."""

    job_id: str
    source: str
    evidence: Evidence

    @property
    def identity(self) -> str:
        return f"identity:{job_key(self.system, self.job_id)}:{self.source}"


class PredictionRequested(Event, frozen=True, tag="prediction.requested"):
    """A request for the expected run times at the sizes `n`.

    The request names an application, or `evidence` has raw fields from which the application is identified, as for a job.
    `features` holds communication features of the placement that are known before the run; all other names are counters.
    """

    request_id: str
    n: tuple[float, ...]
    evidence: Evidence
    unit: str | None = None
    features: dict[str, float] = {}

    @property
    def identity(self) -> str:
        return f"request:{self.system}:{self.request_id}"


class Tick(Event, frozen=True, tag="tick"):
    """The clock `time_ms` of the collector that wrote the tick. `system` is empty because a tick is valid for all systems.

    A collector that lags behind its sources sets `until_ms`; event time does not advance beyond it
    (`processors.contracts.log`).
    """

    time_ms: int
    collector: str = ""
    until_ms: int | None = None

    @property
    def identity(self) -> str:
        return f"tick:{rfc3339(self.time_ms)}"


class HostState(Event, frozen=True, tag="host.state"):
    """A host was drained, went down or returned to service. Measurements of a host out of service are not anomalies."""

    host: str
    state: str
    time_ms: int

    @property
    def identity(self) -> str:
        return f"host:{job_key(self.system, self.host)}@{self.time_ms}"


Exchanged = tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]
"""Messages between ranks as columns: sending ranks, receiving ranks, bytes."""
NOTHING_EXCHANGED: Final[Exchanged] = ((), (), ())


class Network(Event, frozen=True, tag="network"):
    """The communication of a job as its producer measured it: computed features, or bounded arrays to compute features from.

    The arrays are parallel columns, as in `processors.models.features.communication`. `links` has the bytes, buffered packets
    and received packets of each link. `messages` has the hops and bytes of each message. `fifo_messages` has the number of
    messages in each injection queue. If the ranks are mapped to hosts, `ranks` has for each rank its index in `hosts`.
    `exchanged` has the sending ranks, the receiving ranks and the bytes of messages (`processors.features.placements`).
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
        return f"network:{job_key(self.system, self.job_id)}@{self.time_ms}"


class JobProfile(Event, frozen=True, tag="job.profile"):
    """The stored profile of a settled run, written after the completion of the run.

    In a rebuild and in a backfill, it replaces the telemetry of the run.
    """

    job_id: str
    run_id: str
    profile: Profile

    @property
    def identity(self) -> str:
        return f"profile:{self.run_id}"


class ResourceMinute(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The samples of one resource of a host in one minute of event time.

    `count`, `mean`, `low` and `high` summarise the samples of the minute. `means` has the mean of each of its 10-second
    parts, None for a part without samples.
    `edges` and `shares` are a histogram of the last five minutes: the six edges of five equal intervals, and the share of the
    samples in each interval. If all samples are equal, there is one edge and one share; an empty window has neither.
    `window_count` is the number of samples in the histogram. `late` is the number of samples that came too late for the histogram
    since the previous minute.
    `last` is the newest value, in full precision, of a cumulative resource that only profiles use (its name ends in ``_total``), None
    for all others.
    `energy_j` is the energy of a power resource (``_w``) in this minute, None for all others.
    Resources that only profiles use (`processors.contracts.telemetry.is_profiled`) have no `means`, `edges` and `shares`.

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
    """The measurements of a host in the minute from `minute_ms` on: a summary of all its samples for each resource.

    `source` is the topic and partition of the samples. A host with samples in two partitions has two summaries of a minute.
    Resources have the names of the Network Weather Service (cpu_available, memory_free, bandwidth, ...). The name of a resource
    between hosts also has the other side: ``bandwidth>group3``.

    A minute is written soon after its end, and again in full with a higher `revision` if later samples change it. Of records
    with the same identity, the highest revision counts in any order, because a stopped collector may write late.
    """

    source: str
    host: str
    minute_ms: int
    resources: dict[str, ResourceMinute]
    revision: int = 0

    @property
    def identity(self) -> str:
        return f"minute:{self.source}:{job_key(self.system, self.host)}@{self.minute_ms}"


JobEvent = JobStarted | JobCompleted | Identity | PredictionRequested | HostState | Network | JobProfile
JournalEvent = JobEvent | HostMinute | Tick


class Origin(msgspec.Struct, frozen=True):
    """The position of the message that an event came from, to trace the event; no identity and no learned state depends on it."""

    topic: str
    partition: int
    offset: int


class TopicReport(msgspec.Struct, frozen=True, omit_defaults=True):
    """The broker's counts of a source topic: number of messages ever written, and the time of the newest message.

    A configured name or pattern without a topic is reported under its own name, with 0 messages. The time is None if the topic
    holds no message.
    """

    topic: str
    messages: int = 0
    newest_ms: int | None = None


class CollectorReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The condition of a collector. The report is written with a tick, because collectors reach learners only through the journal.

    Models do not use reports. `member` names the collector and stays the same after a restart. `dead_letters` counts dead
    letters by reason since the last start.
    """

    member: str
    time_ms: int
    reasons: tuple[str, ...] = ()
    restarts: int = 0
    lag_s: float | None = None
    dead_letters: dict[str, int] = {}
    topics: tuple[TopicReport, ...] = ()


class JournalRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """One record of the journal: the event, its origin, and with some ticks the report of their collector."""

    event: JournalEvent
    origin: Origin | None = None
    collector: CollectorReport | None = None


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(JournalRecord)

encode_record = _ENCODER.encode
"""Encode a record for the journal."""

decode_record = _DECODER.decode
"""Decode a record of the journal. Raise msgspec.DecodeError on invalid bytes."""


class Decoded(msgspec.Struct):
    """The events of one message, its refused parts, and counts of the parts that were ignored on purpose.

    One message may be a batch in which some parts are refused and other parts accepted. `ignored` counts, by reason, valid
    parts without use, such as job steps and pending jobs.
    """

    events: list[JobEvent] = []
    rejects: list[InvalidInputError] = []
    ignored: dict[str, int] = {}
    unknown_fields: int = 0

    def ignore(self, reason: str, count: int = 1) -> None:
        """Count parts that were ignored for `reason`."""
        self.ignored[reason] = self.ignored.get(reason, 0) + count

    def add(self, part: "Decoded") -> None:
        """Append the results of decoding a part of the message."""
        self.events += part.events
        self.rejects += part.rejects
        self.unknown_fields += part.unknown_fields
        for reason, parts in part.ignored.items():
            self.ignore(reason, parts)


Decode = Callable[[bytes, int], Decoded]
"""A decoder of one message, called with its bytes and its time of receipt in ms.

A decoder raises InvalidInputError if the whole message is invalid.
"""


class Refused(msgspec.Struct, frozen=True):
    """The parts of one message that were refused for one reason: first error, number of parts, and places of the first parts."""

    error: InvalidInputError
    count: int = 1
    places: tuple[str, ...] = ()


class Refusal(msgspec.Struct, frozen=True):
    """A message that was refused for one reason, as a whole or in parts; `timestamp_ms` is the time of the message."""

    origin: Origin
    refused: Refused
    format: str
    value: bytes | None
    timestamp_ms: int


def by_reason(errors: Iterable[InvalidInputError]) -> list[Refused]:
    """Group the refused parts of one message by reason, in order of first occurrence. A group keeps PLACES_MAX places.

    >>> errors = [InvalidInputError("time", "It is no time.").at(f"[{number}]") for number in range(50)]
    >>> [(refused.count, refused.places[:2]) for refused in by_reason(errors)]
    [(50, ('[0]', '[1]'))]
    """
    return [
        Refused(alike[0], len(alike), tuple(error.place[:PLACE_MAX] for error in alike if error.place)[:PLACES_MAX])
        for alike in grouped(errors, lambda error: error.reason).values()
    ]


class DeadLetter(msgspec.Struct, frozen=True):
    """A message that was refused as a whole or in parts, for one reason: its position, and its bytes (base64, bounded length).

    `count` is the number of refused parts. `places` are the first of them: an element (``metrics[17]``), a line (``line 3``),
    or the host and resource of a value. `detail` is the error of the first part.
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
