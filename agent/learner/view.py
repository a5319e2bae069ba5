"""The part of a learner that readers see: its newest messages by topic and key, its newest runs, and answers from its models."""

import threading
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from heapq import nlargest
from typing import Any, Final, Generic, TypeVar
from urllib.parse import unquote

import msgspec

from agent.learner.learner import Learner
from processors.contracts.errors import UnavailableError
from processors.contracts.events import CollectorReport, Evidence, PredictionRequested, nodes_of
from processors.contracts.hosts import HostCounts, HostUse, HostView, Profile
from processors.contracts.names import job_key
from processors.contracts.nodes import NO_RACKS, Racks
from processors.contracts.outputs import (
    Alert,
    Answer,
    Emission,
    JobPrediction,
    Message,
    PredictedAtStart,
    Prediction,
    SlowedBy,
)
from processors.contracts.service import DeadLetterView, Health, RecentRun, RunningJob, Silence, SourceStatus, Views
from processors.contracts.settings import SESSION

RETAINED_MAX: Final = 20_000
DECODED_AT_ONCE: Final = 256
SHOWN_MAX: Final = 256
SYSTEM: Final = "system"  # the component that stands for the power of a whole host
STARTED: Final = "job.started"  # the name of a run's start as a source of evidence
M = TypeVar("M", bound=Message | RunningJob)
RESOLVED_MAX: Final = 200
ENDED_MAX: Final = 5_000
JOBS: Final = "job_predictions"
KINDS: Final = ("predictions", JOBS, "alerts")


class _Shown(msgspec.Struct, frozen=True):
    """The part of a run's evidence that readers see."""

    sizes: dict[str, float] = {}
    user: str | None = None
    account: str | None = None
    partition: str | None = None
    hosts: tuple[str, ...] = ()
    time_limit_s: float | None = None


class _Identity(msgspec.Struct, frozen=True):
    source: str
    evidence: _Shown


class _Completion(msgspec.Struct, frozen=True):
    system: str
    job_id: str
    start_ms: int
    end_ms: int
    evidence: _Shown


class _Settled(msgspec.Struct, frozen=True):
    """The fields that readers need from a record of the runs topic; other fields are not decoded."""

    run_id: str
    application_id: str | None
    n: float | None
    run_time_s: float
    state: str
    event: _Completion
    identified_by: str = ""
    identities: tuple[_Identity, ...] = ()
    profile: Profile | None = None
    predicted: PredictedAtStart | None = None
    slowed_by: SlowedBy | None = None


_DECODER: Final = msgspec.json.Decoder(_Settled)


class RecentRuns:
    """The runs that settled last, at most `retained_max`; thread-safe.

    A corrected report replaces its run. The correction may come long after the end of the run, when the learner no longer has its
    prediction, so the run keeps the prediction of the former report. Records are decoded only on demand.
    """

    def __init__(self, retained_max: int = RETAINED_MAX) -> None:
        self._retained_max = retained_max
        self._arrived: deque[tuple[str, bytes | None]] = deque(maxlen=retained_max)
        self._runs: dict[str, RecentRun] = {}
        self._by_application: dict[str, set[str]] = defaultdict(set)
        self._by_job: dict[str, set[str]] = defaultdict(set)
        self._sorted: tuple[RecentRun, ...] | None = None
        self._lock = threading.Lock()

    def __len__(self) -> int:
        self._decode()
        return len(self._runs)

    def take(self, run_id: str, value: bytes | None) -> None:
        """Add a record of the runs topic; an invalid record changes nothing."""
        with self._lock:
            self._arrived.append((run_id, value))
            if self._runs and len(self._runs) + len(self._arrived) > self._retained_max:
                self._drop(next(iter(self._runs)))

    def _decode(self) -> None:
        """Decode the new records in parts, so that the processing thread need not wait for all of them."""
        while self._arrived:
            with self._lock:
                for _ in range(min(len(self._arrived), DECODED_AT_ONCE)):
                    self._decode_one(*self._arrived.popleft())

    def _decode_one(self, run_id: str, value: bytes | None) -> None:
        run = None if value is None else recent_run(value)
        if value is not None and run is None:
            return
        former = self._drop(run_id)
        if run is not None and former is not None and not run.predicted:
            run = msgspec.structs.replace(run, predicted=former.predicted)
        if run is not None:
            self._put(run)

    def adopt(self, fresh: "RecentRuns", is_own: Callable[[str], bool]) -> None:
        """Keep the runs of systems for which `is_own` is true, and replace all others by the runs in `fresh`."""
        own_runs = [run for run in self.retained() if is_own(run.system)]
        retained = sorted([run for run in fresh.retained() if not is_own(run.system)] + own_runs, key=_ended)
        with self._lock:
            self._sorted = None
            for index in (self._runs, self._by_application, self._by_job):
                index.clear()
            for run in retained[-self._retained_max :]:
                self._put(run)

    def retained(self) -> list[RecentRun]:
        """Return all runs in order of arrival."""
        self._decode()
        with self._lock:
            return list(self._runs.values())

    def newest(self) -> Sequence[RecentRun]:
        """Return all runs, latest end first. They are sorted again only after a change."""
        self._decode()
        with self._lock:
            if self._sorted is None:
                self._sorted = tuple(sorted(self._runs.values(), key=_ended, reverse=True))
            return self._sorted

    def of_application(self, application_id: str) -> list[RecentRun]:
        """Return at most SHOWN_MAX runs of an application, latest end first."""
        return self._newest(self._by_application, application_id)

    def of_job(self, system: str, job_id: str) -> list[RecentRun]:
        """Return the runs of a job, latest end first."""
        return self._newest(self._by_job, job_key(system, job_id))

    def _newest(self, index: dict[str, set[str]], key: str) -> list[RecentRun]:
        self._decode()
        with self._lock:
            runs = [self._runs[run_id] for run_id in index.get(key, ())]
        return nlargest(SHOWN_MAX, runs, key=_ended)

    def _put(self, run: RecentRun) -> None:
        self._runs[run.run_id] = run
        self._sorted = None
        for index, key in self._places(run):
            index[key].add(run.run_id)

    def _drop(self, run_id: str) -> RecentRun | None:
        run = self._runs.pop(run_id, None)
        self._sorted = None
        for index, key in self._places(run) if run is not None else ():
            index[key].discard(run_id)
            if not index[key]:
                del index[key]
        return run

    def _places(self, run: RecentRun) -> Iterable[tuple[dict[str, set[str]], str]]:
        yield self._by_job, job_key(run.system, run.job_id)
        if run.application_id is not None:
            yield self._by_application, run.application_id


def recent_run(value: bytes) -> RecentRun | None:
    """Return the run in a record of the runs topic; None if the record is invalid."""
    try:
        run = _DECODER.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    profile, evidence = run.profile or Profile(hosts=0), _evidence(run)
    power_w, session = profile.power_w.get(SYSTEM), run.identified_by == SESSION
    fields = msgspec.structs.asdict(evidence) | msgspec.structs.asdict(run.event) | msgspec.structs.asdict(run)
    changed = {
        "predicted": None if session else run.predicted,
        "power_w": None if power_w is None else power_w * profile.hosts,
        "energy_j": profile.energy_j.get(SYSTEM),
        "nodes": nodes_of(Evidence(sizes=evidence.sizes, hosts=evidence.hosts)),
        "counters": profile.counters,
        "shared": profile.shared / profile.expected if profile.expected else None,
        "session": session,
    }
    return RecentRun(**{name: fields[name] for name in RecentRun.__struct_fields__ if name in fields} | changed)


def _evidence(run: _Settled) -> _Shown:
    """Return the evidence of a run's completion; missing fields come from the evidence of its start."""
    start = next((identity.evidence for identity in run.identities if identity.source == STARTED), _Shown())
    pairs = zip(msgspec.structs.astuple(run.event.evidence), msgspec.structs.astuple(start), strict=True)
    return _Shown(*(value or earlier for value, earlier in pairs))


def _ended(run: RecentRun) -> tuple[int, str]:
    return run.end_ms, run.run_id


class _Decoded(msgspec.Struct, Generic[M], frozen=True):
    """The decoded messages of one kind, sorted by key; `changes` is the change counter of the kind at the time of decoding.

    `by_key` also holds the encoded bytes, by which unchanged messages are recognised.
    """

    changes: int = -1
    by_key: Mapping[str, tuple[bytes, M]] = {}
    messages: tuple[M, ...] = ()


class View:
    """The newest message of each key, encoded, at most `keys_max` per kind; thread-safe.

    `runs` holds the newest settled runs. Each message is decoded only once, because a page with 20,000 jobs spent most of its time
    on decoding unchanged messages.
    """

    def __init__(self, keys_max: int = 200_000) -> None:
        self._keys_max = keys_max
        self._latest: dict[str, dict[str, bytes]] = {kind: {} for kind in KINDS}
        self._resolved: deque[bytes] = deque(maxlen=RESOLVED_MAX)
        self._ended: dict[str, bytes] = {}
        self._changes = Counter[str]()
        self._decoded: dict[tuple[str, type], _Decoded[Any]] = {}
        self.runs = RecentRuns()
        self._lock = threading.Lock()

    def apply(self, emission: Emission) -> None:
        """Add a message that was sent, or was read from its topic; a value of None deletes the message of the key."""
        if emission.kind == "runs":
            self.runs.take(emission.key, emission.value)
        if emission.kind not in KINDS:
            return
        with self._lock:  # because `adopt` may replace the lists
            retained = self._latest[emission.kind]
            self._changes[emission.kind] += 1
            former = retained.pop(emission.key, None)
            if emission.value is None:
                if former is not None and emission.kind == JOBS:
                    self._end(emission.key, former)
                return
            if emission.kind == "alerts" and msgspec.json.decode(emission.value, type=Alert).status == "resolved":
                self._resolved.append(emission.value)
                return
            retained[emission.key] = emission.value
            if len(retained) > self._keys_max:
                del retained[next(iter(retained))]

    def _end(self, key: str, value: bytes) -> None:
        """Retain the last prediction of a job that ended, for the time until its run has settled and is published."""
        self._ended.pop(key, None)
        self._ended[key] = value
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]

    def adopt(self, fresh: "View", is_own: Callable[[str], bool] = lambda _system: False) -> None:
        """Keep the messages of systems for which `is_own` is true, and replace all others by the messages in `fresh`."""
        self.runs.adopt(fresh.runs, is_own)
        latest, resolved = fresh.retained()
        with self._lock:
            for kind, messages in self._latest.items():
                retained = {key: value for key, value in messages.items() if is_own(_system(kind, key, value))}
                adopted = {key: value for key, value in latest[kind].items() if not is_own(_system(kind, key, value))}
                self._latest[kind] = retained | adopted
                self._changes[kind] += 1
            ended = [value for value in self._resolved if is_own(_system("alerts", "", value))]
            self._resolved.clear()
            self._resolved.extend([value for value in resolved if not is_own(_system("alerts", "", value))] + ended)

    def retained(self) -> tuple[dict[str, dict[str, bytes]], deque[bytes]]:
        """Return the encoded messages by kind and key, and the newest resolved alerts."""
        with self._lock:
            return self._latest, self._resolved

    def latest(self, kind: str, of: type[M]) -> tuple[M, ...]:
        """Return the newest message of every key, sorted by key; if nothing changed, the same tuple as in the previous call."""
        cached: _Decoded[M] = self._decoded.get((kind, of), _Decoded())
        with self._lock:
            changes, values = self._changes[kind], self._latest[kind]
            if cached.changes == changes:
                return cached.messages
            values = values.copy()
        by_key: dict[str, tuple[bytes, M]] = {}
        for key, value in sorted(values.items()):
            former = cached.by_key.get(key)
            if former is None or former[0] is not value:
                former = value, msgspec.json.decode(value, type=of)
            by_key[key] = former
        fresh = _Decoded(changes, by_key, tuple(message for _, message in by_key.values()))
        self._decoded[kind, of] = fresh
        return fresh.messages

    def get(self, kind: str, key: str, of: type[M]) -> M | None:
        value = self._latest[kind].get(key)
        return None if value is None else msgspec.json.decode(value, type=of)

    def ended(self, key: str) -> JobPrediction | None:
        """Return the last prediction of a job that ended recently; None if the job is running or ended long ago."""
        value = self._ended.get(key)
        return None if value is None or key in self._latest[JOBS] else msgspec.json.decode(value, type=JobPrediction)

    def resolved(self) -> list[Alert]:
        """Return the resolved alerts, most recently resolved first."""
        with self._lock:
            values = list(self._resolved)
        return [msgspec.json.decode(value, type=Alert) for value in reversed(values)]


def _system(kind: str, key: str, value: bytes) -> str:
    """Return the system of a message. The keys of alerts, unlike all other keys, do not begin with the system."""
    if kind == "alerts":
        return msgspec.json.decode(value, type=Alert).labels.get("system", "")
    return unquote(key.partition("/")[0])


class LearnerService:
    """Answers read requests from the view, and from the learner of this process.

    `learner` is None in a collector, and until the learner has started. `shard_of` returns the shard of a system. `absent` is
    the error text for requests that need models of another process. `rewritten` replaces private fields of a request, as in job
    events.
    """

    def __init__(
        self,
        view: View,
        shard_of: Callable[[str], int | None],
        health: Callable[[], Sequence[Health]],
        *,
        dead_letters: Callable[[], Sequence[DeadLetterView]] = tuple,
        sources: Callable[[], Sequence[SourceStatus]] = tuple,
        absent: str = "The models of {} are not in this process.",
        racks: Racks = NO_RACKS,
        rewritten: Callable[[PredictionRequested], PredictionRequested] | None = None,
    ) -> None:
        self._view, self._shard_of, self._absent, self._rewritten = view, shard_of, absent, rewritten
        self.health, self.dead_letters, self.sources, self.rack = health, dead_letters, sources, racks.of
        self.predictions = partial(view.latest, "predictions", Prediction)
        self.jobs, self.running = partial(view.latest, JOBS, JobPrediction), partial(view.latest, JOBS, RunningJob)
        self.runs, self.runs_of_job = view.runs.of_application, view.runs.of_job
        self.recent_runs = view.runs.newest
        self.silences: Callable[[], Mapping[str, Silence]] = dict  # replaced by a service that asks the Alertmanagers
        self.learner: Learner | None = None

    def prediction(self, application_id: str) -> Prediction | None:
        return self._view.get("predictions", application_id, Prediction)

    def answer(self, request: PredictionRequested) -> Answer:
        shard, learner = self._shard_of(request.system), self.learner
        request = request if self._rewritten is None else self._rewritten(request)
        answer = learner.answer(request, shard) if learner is not None and shard is not None else None
        if answer is None:
            raise UnavailableError(self._absent.format(request.system[:64]))
        return answer

    def job(self, system: str, job_id: str) -> JobPrediction | None:
        return self._view.get(JOBS, job_key(system, job_id), JobPrediction)

    def ended(self, system: str, job_id: str) -> JobPrediction | None:
        return self._view.ended(job_key(system, job_id))

    def alerts(self) -> Sequence[Alert]:
        opened = sorted(self._view.latest("alerts", Alert), key=lambda alert: alert.starts, reverse=True)
        return [*opened, *self._view.resolved()]

    def hosts(self, limit: int) -> Sequence[HostView]:
        return () if (learner := self.learner) is None else learner.hosts(limit)

    def host_counts(self) -> HostCounts:
        return HostCounts() if (learner := self.learner) is None else learner.host_counts()

    def host_uses(self, limit: int) -> Sequence[HostUse]:
        return () if (learner := self.learner) is None else learner.host_uses(limit)

    def host_names(self, limit: int) -> Sequence[tuple[str, str]]:
        return () if (learner := self.learner) is None else learner.host_names(limit)

    def reading(self, system: str) -> Views:
        learner, shard = self.learner, self._shard_of(system)
        return Views() if learner is None or shard is None else learner.reading(system, shard)

    def collectors(self) -> Sequence[CollectorReport]:
        return () if (learner := self.learner) is None else learner.collectors.latest()
