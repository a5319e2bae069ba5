"""The latest messages of a learner, by topic and key: what readers see without asking a model."""

import threading
from collections import deque
from collections.abc import Callable
from typing import Final, TypeVar
from urllib.parse import unquote

import msgspec

from agent.contracts.outputs import Alert, Emission, JobPrediction, Message, Prediction
from agent.learner.recent_runs import RecentRuns

M = TypeVar("M", bound=Message)
RESOLVED_MAX: Final = 200
ENDED_MAX: Final = 5_000
JOBS: Final = "job_predictions"
TYPES: Final[dict[str, type[Message]]] = {
    "predictions": Prediction,
    "job_predictions": JobPrediction,
    "alerts": Alert,
}


class _Labelled(msgspec.Struct, frozen=True):
    labels: dict[str, str]


_LABELS: Final = msgspec.json.Decoder(_Labelled)


class View:
    """Keeps the newest message of each key, encoded, at most `keys_max` of each kind; safe from any thread.

    Of settled runs, which have no end, it keeps those of late: `runs`.

    >>> view = View()
    >>> view.apply(Emission(kind="answers", key="r9", value=b"{}"))
    >>> view.latest("predictions", Prediction)
    []
    """

    def __init__(self, keys_max: int = 200_000) -> None:
        self._keys_max = keys_max
        self._latest: dict[str, dict[str, bytes]] = {kind: {} for kind in TYPES}
        self._resolved: deque[bytes] = deque(maxlen=RESOLVED_MAX)
        self._ended: dict[str, bytes] = {}
        self.runs = RecentRuns()
        self._lock = threading.Lock()

    def apply(self, emission: Emission) -> None:
        """Take in what was sent, or what a topic holds."""
        if emission.kind == "runs":
            self.runs.take(emission.key, emission.value)
        with self._lock:  # the lists themselves may be exchanged meanwhile
            held = self._latest.get(emission.kind)
            if held is None:
                return
            former = held.pop(emission.key, None)
            if emission.value is None:
                if former is not None and emission.kind == JOBS:
                    self._end(emission.key, former)
                return
            if emission.kind == "alerts" and msgspec.json.decode(emission.value, type=Alert).status == "resolved":
                self._resolved.append(emission.value)
                return
            held[emission.key] = emission.value
            if len(held) > self._keys_max:
                del held[next(iter(held))]

    def _end(self, key: str, said: bytes) -> None:
        """Keep what was told of a job that ended: its run is told only when it has settled."""
        self._ended.pop(key, None)
        self._ended[key] = said
        if len(self._ended) > ENDED_MAX:
            del self._ended[next(iter(self._ended))]

    def replace(self, fresh: "View") -> None:
        """Show what another view shows and nothing else, from one moment to the next; that one is not used any more."""
        self.runs.replace(fresh.runs)
        latest, resolved = fresh.held()
        with self._lock:
            self._latest, self._resolved = latest, resolved

    def adopt(self, fresh: "View", own: Callable[[str], bool]) -> None:
        """Show what another view shows of the systems that are not `own`; that one is not used any more."""
        self.runs.adopt(fresh.runs, own)
        latest, resolved = fresh.held()
        with self._lock:
            for kind, held in self._latest.items():
                kept = {key: value for key, value in held.items() if own(_system(kind, key, value))}
                told = {key: value for key, value in latest[kind].items() if not own(_system(kind, key, value))}
                self._latest[kind] = kept | told
            ended = [value for value in self._resolved if own(_system("alerts", "", value))]
            self._resolved.clear()
            self._resolved.extend([value for value in resolved if not own(_system("alerts", "", value))] + ended)

    def held(self) -> tuple[dict[str, dict[str, bytes]], deque[bytes]]:
        """Return what is shown, encoded: the newest of each kind by key, and the alerts that were resolved last."""
        with self._lock:
            return self._latest, self._resolved

    def latest(self, kind: str, of: type[M]) -> list[M]:
        """Return the newest message of every key, sorted by key."""
        with self._lock:
            values = sorted(self._latest[kind].items())
        return [msgspec.json.decode(value, type=of) for _, value in values]

    def get(self, kind: str, key: str, of: type[M]) -> M | None:
        """Return the newest message of a key."""
        value = self._latest[kind].get(key)
        return None if value is None else msgspec.json.decode(value, type=of)

    def ended(self, key: str) -> JobPrediction | None:
        """Return what was last told of a job that ended of late; None where it still runs, or ended long ago."""
        value = self._ended.get(key)
        return None if value is None or key in self._latest[JOBS] else msgspec.json.decode(value, type=JobPrediction)

    def resolved(self) -> list[Alert]:
        """Return the alerts that were resolved last, newest first."""
        with self._lock:
            values = list(self._resolved)
        return [msgspec.json.decode(value, type=Alert) for value in reversed(values)]


def _system(kind: str, key: str, value: bytes) -> str:
    """Return the system that a message is about: keys begin with it, and alerts are labelled with it."""
    return _LABELS.decode(value).labels.get("system", "") if kind == "alerts" else unquote(key.partition("/")[0])
