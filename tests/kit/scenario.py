"""A centre's day as a timetable: what happens when, folded by one shard on event time.

>>> centre = Scenario()
>>> centre.at("10:00").starts("1", "lammps", nodes=4)
>>> _ = centre.at("10:30").ends("1")
>>> centre.at("10:40").messages("runs")[0]["run_time_s"]
1800.0
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from agent.app.compose import encode
from agent.app.embedded import ticks
from agent.identify import Identifier
from processors.contracts.alerts import AlertSettings
from processors.contracts.events import (
    Evidence,
    Identity,
    JobCompleted,
    JobStarted,
    JournalEvent,
    JournalRecord,
    PredictionRequested,
    Tick,
    decode_record,
    encode_record,
)
from processors.contracts.names import run_id
from processors.contracts.outputs import Emission
from processors.contracts.settings import FeatureSettings, IdentifySettings, JobSettings, RunTimeSettings
from processors.features.placements import Placements
from processors.pipeline.shard import Shard
from processors.pipeline.state import FoldSettings
from processors.run_time.model import RunTime

SYSTEM = "exa"
DAY_MS = 1_795_132_800_000  # 2026-11-20T00:00:00Z
TICK_MS = 10_000
NEAR_MS = 3_600_000  # up to here every tick is made, beyond it few
_MOMENT = re.compile(r"(?:(\d+)d )?(\d+):(\d\d)(?::(\d\d))?")


def moment_ms(text: str) -> int:
    """Return the time of "10:00", "10:00:30" or "2d 10:00", two days later."""
    match = _MOMENT.fullmatch(text)
    assert match, text
    days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
    return DAY_MS + (((days * 24 + hours) * 60 + minutes) * 60 + seconds) * 1000


def evidence(application: str | None = None, nodes: float | None = None, **fields: Any) -> Evidence:
    sizes = fields.pop("sizes", {}) | ({"nodes": float(nodes)} if nodes is not None else {})
    return Evidence(application=application, sizes=sizes, **fields)


def completed(job_id: str, start_ms: int, run_time_s: float, state: str = "COMPLETED", **fields: Any) -> JobCompleted:
    """Return the completion of a run; further fields are evidence, or `end_ms`, `failed_host`."""
    end_ms = fields.pop("end_ms") if "end_ms" in fields else start_ms + round(run_time_s * 1000)
    own = {name: fields.pop(name) for name in ("failed_host", "exit_code") if name in fields}
    identity = run_id(SYSTEM, job_id, start_ms)
    return JobCompleted(SYSTEM, job_id, identity, start_ms, end_ms, run_time_s, state, evidence(**fields), **own)


class Scenario:
    """One shard, and everything that it has told. `system` is always exa."""

    def __init__(
        self,
        jobs: Mapping[str, Any] | None = None,
        run_time: Mapping[str, Any] | None = None,
        alerts: Mapping[str, Any] | None = None,
        identify: IdentifySettings | None = None,
        features: Mapping[str, Any] | None = None,
    ) -> None:
        self._settings = FoldSettings(
            JobSettings(**jobs or {}),
            RunTimeSettings(**run_time or {}),
            AlertSettings(**alerts or {}),
            "1.0",
            features=FeatureSettings(**features or {}),
        )
        self._identifier = Identifier(identify or IdentifySettings())
        self.shard = self.new_shard()
        self.stored: dict[str, bytes] = {}
        self.sent: list[Emission] = []
        self.tally: Counter[str] = Counter()
        self.events: list[JournalEvent] = []
        self._waiting: list[JournalEvent] = []
        self._starts: dict[str, JobStarted] = {}

    def on(self, placements: Placements) -> "Scenario":
        """Let it be known where hosts are in the network, before anything happens."""
        self._settings = msgspec.structs.replace(self._settings, placements=placements)
        self.shard = self.new_shard()
        return self

    def new_shard(self) -> Shard:
        return Shard(self._settings, self._identifier.identify)

    @property
    def now_ms(self) -> int:
        return self.shard.now_ms

    def at(self, moment: str) -> "Scenario":
        """Let time pass until a moment."""
        return self.at_ms(moment_ms(moment))

    def at_ms(self, time_ms: int) -> "Scenario":
        if self.now_ms and time_ms - self.now_ms <= NEAR_MS:
            moments: Iterator[int] = iter(range(self.now_ms + TICK_MS, time_ms + 1, TICK_MS))
        else:
            moments = ticks(self.now_ms or None, time_ms)
        for tick_ms in moments:
            self.fold(Tick(system="", time_ms=tick_ms))
        return self

    def starts(self, job_id: str, application: str | None = None, nodes: float | None = None, **fields: Any) -> None:
        """Start a job now; further fields are evidence."""
        reported = evidence(application, nodes, **fields)
        started = JobStarted(SYSTEM, job_id, run_id(SYSTEM, job_id, self.now_ms), self.now_ms, reported)
        self._starts[job_id] = started
        self.fold(started)

    def ends(self, job_id: str, state: str = "COMPLETED", **fields: Any) -> JobCompleted:
        """End a started job now; its completion tells what its start told, unless it is told otherwise."""
        started = self._starts[job_id]
        own = msgspec.structs.asdict(started.evidence)
        event = completed(job_id, started.start_ms, (self.now_ms - started.start_ms) / 1000, state, **(own | fields))
        self.fold(event)
        return event

    def ran(
        self, job_id: str, application: str | None, nodes: float | None, run_time_s: float, **fields: Any
    ) -> JobCompleted:
        """Report the end of a run that ended now, of which no start was told."""
        start_ms = self.now_ms - round(run_time_s * 1000)
        event = completed(job_id, start_ms, run_time_s, application=application, nodes=nodes, **fields)
        self.fold(event)
        return event

    def report_from(self, source: str, job_id: str, **fields: Any) -> None:
        """Give evidence from another source about a job."""
        self.fold(Identity(SYSTEM, job_id=job_id, source=source, evidence=evidence(**fields)))

    def asks(self, request_id: str, *n: float, unit: str | None = None, **fields: Any) -> dict[str, Any]:
        """Ask for predictions and return the answer."""
        self.fold(PredictionRequested(SYSTEM, request_id, n, evidence(**fields), unit))
        return next(message for message in reversed(self.messages("answers")) if message["request_id"] == request_id)

    def scales(self, application: str, *sizes: float, prefix: str = "h", **fields: Any) -> None:
        """Report runs of an application, one a size, that took 1000 s over the nodes and 20 s more."""
        for i, n in enumerate(sizes):
            self.ran(f"{prefix}-{application}-{i}", application, n, 1000.0 / n + 20.0 + 0.5 * (i % 5), **fields)

    def fold(self, event: JournalEvent) -> list[Emission]:
        """Fold an event as it would come out of the journal."""
        self.events.append(event)
        sent = [encode(message) for message in self.shard.fold(decode_record(encode_record(JournalRecord(event))))]
        self.sent += sent
        self.tally.update({f"{kind}:{name}": count for (kind, name), count in self.shard.tallied().items()})
        self._waiting = [*self._waiting, event] if self.shard.hosts.waiting else []
        return sent

    def checkpoint(self) -> None:
        """Store what is dirty, hosts too, and confirm it."""
        for key, value in self.shard.unsaved(with_hosts=True).states().items():
            if value is None:
                self.stored.pop(key, None)
            else:
                self.stored[key] = value
        self.shard.confirm(with_hosts=True)

    def restart(self) -> None:
        """Checkpoint, and go on with a shard that knows the checkpoint alone; hosts read again what waits for a tick."""
        self.checkpoint()
        now_ms, hosts_now_ms = self.now_ms, self.shard.hosts.state.now_ms
        self.shard = self.new_shard()
        self.shard.restore(self.stored, now_ms, hosts_now_ms)
        for event in self._waiting:
            self.shard.fold_hosts(JournalRecord(event))

    def state(self) -> dict[str, bytes | None]:
        """Return everything that is remembered, encoded."""
        stores = (*self.shard.state.stores(), *self.shard.hosts.state.stores())
        return {f"{store.kind.name}/{key}": store.encode(key) for store in stores for key in sorted(store.keys())}

    def messages(self, kind: str, key: str | None = None) -> list[dict[str, Any]]:
        """Return the messages of a topic in the order of their sending, without tombstones."""
        chosen = [sent for sent in self.sent if sent.kind == kind and key in {None, sent.key}]
        return [msgspec.json.decode(sent.value) for sent in chosen if sent.value is not None]

    def topic(self, kind: str) -> dict[str, dict[str, Any]]:
        """Return what a compacted topic holds: the last message of each key that has not left."""
        last = {sent.key: sent.value for sent in self.sent if sent.kind == kind}
        return {key: msgspec.json.decode(value) for key, value in last.items() if value is not None}

    def tombstones(self, kind: str) -> list[str]:
        """Return the keys that left a topic, in the order in which they left."""
        return [sent.key for sent in self.sent if sent.kind == kind and sent.value is None]

    def model(self, application: str, unit: str = "nodes", input_: str = "") -> RunTime | None:
        """Return what is known of an application."""
        return self.shard.state.models.get(f"{SYSTEM}/{application}/{input_}/{unit}")

    def runs_of(self, application: str) -> list[tuple[str, float, float]]:
        """Return the unmerged runs of an application: job, nodes and seconds, sorted."""
        model = self.model(application)
        runs = model.snapshot().runs if model else []
        return sorted((run.run_id.split("/")[1].split("@")[0], run.n, run.run_time_s) for run in runs)

    def alerts(self, name: str) -> list[str]:
        """Return the changes of status of alerts of a name."""
        return [output["status"] for output in self.messages("alerts") if output["labels"]["alertname"] == name]
