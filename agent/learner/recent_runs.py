"""Runs that settled of late, as readers ask for them: the newest of the process, by application and by job."""

import threading
from collections import defaultdict
from collections.abc import Callable, Iterable
from heapq import nlargest
from typing import Final

import msgspec

from agent.contracts.names import job_key
from agent.contracts.profiles import Profile
from agent.contracts.recent import RecentRun, Told

KEPT_MAX: Final = 20_000
SHOWN_MAX: Final = 256
SYSTEM: Final = "system"  # the component that is a whole host
STARTED: Final = "job.started"  # the evidence that only the start of a run gave


class _Asked(msgspec.Struct, frozen=True):
    user: str | None = None
    time_limit_s: float | None = None


class _Evidence(msgspec.Struct, frozen=True):
    source: str
    evidence: _Asked


class _Completion(msgspec.Struct, frozen=True):
    system: str
    job_id: str
    start_ms: int
    end_ms: int
    evidence: _Asked


class _Settled(msgspec.Struct, frozen=True):
    """What is read of a message of the topic runs: the rest of it is not even decoded."""

    run_id: str
    application_id: str | None
    n: float | None
    run_time_s: float
    state: str
    event: _Completion
    identities: tuple[_Evidence, ...] = ()
    profile: Profile | None = None
    told: Told | None = None


_DECODER: Final = msgspec.json.Decoder(_Settled)


class RecentRuns:
    """At most `kept_max` runs, those that settled last; safe from any thread.

    A corrected report replaces its run. It may come long after the end, when the learner knows no longer what it had
    predicted: what the run was told before then stays.

    >>> runs = RecentRuns()
    >>> runs.take("exa/1@0", None)  # a tombstone of a run that is not kept
    >>> runs.of_application("exa/lammps//nodes"), len(runs)
    ([], 0)
    """

    def __init__(self, kept_max: int = KEPT_MAX) -> None:
        self._kept_max = kept_max
        self._runs: dict[str, RecentRun] = {}
        self._by_application: dict[str, set[str]] = defaultdict(set)
        self._by_job: dict[str, set[str]] = defaultdict(set)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        """Return the number of runs."""
        return len(self._runs)

    def take(self, run_id: str, value: bytes | None) -> None:
        """Take in a record of the topic runs; what is none changes nothing."""
        run = None if value is None else recent_run(value)
        if value is not None and run is None:
            return
        with self._lock:
            former = self._drop(run_id)
            if run is not None:
                self._put(run if run.told or former is None else msgspec.structs.replace(run, told=former.told))
            if len(self._runs) > self._kept_max:
                self._drop(next(iter(self._runs)))

    def replace(self, by: "RecentRuns") -> None:
        """Keep what another one kept, the run that ended last as the newest; that one is not used any more."""
        kept = sorted(by.kept(), key=_ended)
        with self._lock:
            for index in (self._runs, self._by_application, self._by_job):
                index.clear()
            for run in kept[-self._kept_max :]:
                self._put(run)

    def adopt(self, by: "RecentRuns", own: Callable[[str], bool]) -> None:
        """Keep what another one kept of the systems that are not `own`, too."""
        others = [run for run in by.kept() if not own(run.system)]
        with self._lock:
            for run in others:
                self._drop(run.run_id)
                self._put(run)
            while len(self._runs) > self._kept_max:
                self._drop(next(iter(self._runs)))

    def kept(self) -> list[RecentRun]:
        """Return all runs, in the order in which they came."""
        with self._lock:
            return list(self._runs.values())

    def of_application(self, application_id: str) -> list[RecentRun]:
        """Return the newest runs of an application, at most SHOWN_MAX, the one that ended last first."""
        return self._newest(self._by_application, application_id)

    def of_job(self, system: str, job_id: str) -> list[RecentRun]:
        """Return the runs of a job, the one that ended last first."""
        return self._newest(self._by_job, job_key(system, job_id))

    def _newest(self, index: dict[str, set[str]], key: str) -> list[RecentRun]:
        with self._lock:
            found = [self._runs[run_id] for run_id in index.get(key, ())]
        return nlargest(SHOWN_MAX, found, key=_ended)

    def _put(self, run: RecentRun) -> None:
        self._runs[run.run_id] = run
        for index, key in self._places(run):
            index[key].add(run.run_id)

    def _drop(self, run_id: str) -> RecentRun | None:
        run = self._runs.pop(run_id, None)
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
    """Return what readers see of a record of the topic runs; None where it is none.

    >>> recent_run(b"{}") is None
    True
    >>> event = b'{"system":"exa","job_id":"1","start_ms":0,"end_ms":60000,"evidence":{"user":"u-1"}}'
    >>> run = b'{"run_id":"exa/1@0","application_id":null,"n":8,"run_time_s":60,"state":"FAILED","event":' + event + b"}"
    >>> recent_run(run).user
    'u-1'
    """
    try:
        run = _DECODER.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    profile, event = run.profile or Profile(hosts=0), run.event
    power_w = profile.power_w.get(SYSTEM)
    return RecentRun(
        run_id=run.run_id,
        system=event.system,
        job_id=event.job_id,
        application_id=run.application_id,
        n=run.n,
        start_ms=event.start_ms,
        end_ms=event.end_ms,
        run_time_s=run.run_time_s,
        state=run.state,
        user=_user(run),
        time_limit_s=event.evidence.time_limit_s,
        told=run.told,
        power_w=None if power_w is None else power_w * profile.hosts,
        energy_j=profile.energy_j.get(SYSTEM),
    )


def _user(run: _Settled) -> str | None:
    """Return who ran it, from its completion; where that is silent, from its start."""
    starts = (other.evidence.user for other in run.identities if other.source == STARTED)
    return run.event.evidence.user or next(starts, None)


def _ended(run: RecentRun) -> tuple[int, str]:
    return run.end_ms, run.run_id
