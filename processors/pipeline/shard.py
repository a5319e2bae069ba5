"""One shard: a pure fold of journal records into messages and state."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final

from processors.contracts.events import (
    HostState,
    Identity,
    JobCompleted,
    JobProfile,
    JobStarted,
    JournalEvent,
    JournalRecord,
    Network,
    PredictionRequested,
    Tick,
)
from processors.contracts.hosts import HostView
from processors.contracts.outputs import Answer, Message
from processors.hosts.rows import HostRows
from processors.pipeline import host_state, state
from processors.pipeline.alerts import Warnings
from processors.pipeline.answers import Answering
from processors.pipeline.completions import Outcomes, Runs
from processors.pipeline.features import Features
from processors.pipeline.fits import Refits
from processors.pipeline.host_state import ARRAYS, encoded, of_hosts
from processors.pipeline.hosts import HostShard
from processors.pipeline.jobs import Lives
from processors.pipeline.power import Profiles
from processors.pipeline.similar_runs import Histories
from processors.pipeline.state import Desk, FoldSettings, Identify, Tombstone

# Every kind of processor whose state a shard keeps: those of jobs, and those of hosts.


STATEFUL: Final = (*state.STATEFUL, *host_state.COLUMNS, *host_state.SHELVED)
PROCESSORS: Final = tuple(processor.name for processor in STATEFUL) + ARRAYS


class Shard:
    """All of one journal partition. The same records give the same messages and the same state, to the bit."""

    def __init__(self, settings: FoldSettings, identify: Identify) -> None:
        self.hosts = HostShard(settings)
        self.desk = Desk(settings, identify, self.hosts, self.hosts)
        self._warnings = Warnings(self.desk)
        self._histories = Histories(self.desk)
        self._lives = Lives(self.desk, Runs(self.desk, self._warnings, self._histories), self._histories)
        self._profiles = Profiles(self.desk)
        self._refits = Refits(self.desk, self._warnings, self._histories)
        self._answering = Answering(self.desk, self._histories)
        self._features = Features(self.desk)
        self._handlers: dict[type, Callable[[Any], None]] = {
            JobStarted: self._lives.started,
            JobCompleted: self._lives.completed,
            Identity: self._lives.identified,
            HostState: Outcomes(self.desk, self._warnings).host_told,
            JobProfile: self._profiles.told,
            Network: self._lives.network,
            PredictionRequested: self._answering.requested,
            Tick: self._tick,
        }

    @property
    def now_ms(self) -> int:
        """The newest tick."""
        return self.desk.now_ms

    @property
    def hosts_now_ms(self) -> int:
        """The newest tick that the hosts have seen: after a restart they are behind the jobs for a while."""
        return self.hosts.desk.now_ms

    @property
    def hosts_wait(self) -> bool:
        """Whether the state of hosts is that of some records ago: they are folded with the next tick."""
        return self.hosts.waiting > 0

    def fold(self, record: JournalRecord) -> list[Message | Tombstone]:
        """Take a record in and return what is to be sent because of it.

        Where it raises, nothing of the event is sent: it is for the caller to say what was refused. What hosts had to say
        is then sent with the next event.
        """
        event = record.event
        self._take_hosts(event)
        try:
            if type(event) in self._handlers:
                self._handlers[type(event)](event)
            sent = self.desk.outbox
        finally:
            self.desk.outbox = []
        self.desk.tally["event", "processed"] += 1
        return sent + self.hosts.sent()

    def fold_hosts(self, record: JournalRecord) -> list[Message | Tombstone]:
        """Take a record in that the jobs know already, as after a restart: the states of hosts are written more rarely."""
        self._take_hosts(record.event)
        self.desk.tally["event", "processed"] += 1
        return self.hosts.sent()

    def answer(self, request: PredictionRequested) -> Answer:
        """Answer a question that is not in the journal; changes nothing that is stored."""
        return self._answering.answer(request)

    def first_hosts(self, limit: int) -> list[tuple[str, str]]:
        """Return system and name of at most so many hosts: those with anomalies first, then by system and name."""
        return self.hosts.views.first(limit)

    def host_names(self, limit: int) -> list[tuple[str, str]]:
        """Return system and name of at most so many hosts in that order, for who looks for one by its name."""
        return self.hosts.views.names(limit)

    def host_view(self, system: str, host: str) -> HostView | None:
        """Return one host; None where it is not known."""
        return self.hosts.views.host(system, host)

    def tallied(self) -> dict[tuple[str, str], int]:
        """Return the counts since the last call, for metrics."""
        tally = self.desk.tally + self.hosts.desk.tally
        self.desk.tally.clear()
        self.hosts.desk.tally.clear()
        return dict(tally)

    def restore(self, states: Mapping[str, bytes], now_ms: int, hosts_now_ms: int | None = None) -> None:
        """Put a checkpoint back; without `hosts_now_ms` the hosts begin anew, whatever states of theirs are there."""
        hosts = {key: value for key, value in states.items() if of_hosts(key)}
        self.desk.now_ms = now_ms
        self.desk.restore({key: value for key, value in states.items() if key not in hosts})
        if hosts_now_ms is None:
            self.hosts.desk.forget(set(hosts))
        else:
            self.hosts.restore(hosts, hosts_now_ms)

    def dirty(self) -> dict[str, bytes | None]:
        """Return every state that a checkpoint has to write, without those of hosts."""
        return self.desk.dirty()

    def copied_hosts(self) -> Callable[[], dict[str, bytes | None]]:
        """Copy the states of hosts, and return what makes of the copy what a checkpoint has to write, in any thread."""
        return partial(encoded, self.hosts.desk.copied())

    def sizes(self) -> dict[str, int]:
        """Return the number of states or rows by processor."""
        return {shelf.kind.name: len(shelf) for shelf in self.desk.shelves()} | self.hosts.desk.sizes()

    def power_errors(self) -> dict[str, float]:
        """Return how far estimates of power are out where sensors are, in W by component: the median of late."""
        return self.hosts.power_errors()

    def confirm(self) -> None:
        """Take note that the checkpoint of `dirty` is surely there."""
        self.desk.confirm()

    def confirm_hosts(self) -> None:
        """Take note that the checkpoint of `copied_hosts` is surely there."""
        self.hosts.desk.confirm()

    def _take_hosts(self, event: JournalEvent) -> None:
        try:
            self.hosts.take(event)
        except Exception:  # noqa: BLE001  what is wrong with hosts does not stop the jobs
            self.hosts.desk.tally["fault", HostRows.name] += 1

    def _tick(self, event: Tick) -> None:
        if event.time_ms <= self.desk.now_ms:
            self.desk.tally["event", "repeated"] += 1
            return
        since_ms, self.desk.now_ms = event.time_ms - self.desk.now_ms, event.time_ms
        self._lives.tick()
        self._profiles.tick(since_ms)
        self._refits.tick(since_ms)
        self._features.tick(since_ms)
        self._warnings.tick()
        self._answering.tick()
        self._histories.tick()
