"""The hosts of one shard: a pure fold of their minutes, their states and the jobs on them. Everything happens at ticks."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from agent.contracts.events import HostMinute, HostState, JobCompleted, JobStarted, JournalEvent, Tick
from agent.contracts.hosts import HostWindow
from agent.contracts.outputs import Message
from agent.contracts.profiles import Profile
from agent.contracts.telemetry import is_profiled
from processors.digest import digest64
from processors.fold.desk import FoldSettings, Tombstone
from processors.fold.host_alerts import HostAlerts
from processors.fold.host_desk import HostDesk, HostPart
from processors.fold.host_jobs import HostJobs
from processors.fold.host_profiles import HostProfiles
from processors.fold.host_views import HostViews
from processors.hosts.batch import MinuteBatch
from processors.hosts.forecasts import HostForecasts
from processors.hosts.roster import HostRows
from processors.hosts.waiting import Waiting
from processors.profiles.runs import ProfileRun
from processors.windows.settings import MINUTE_MS

WAITING_MAX: Final = 4096  # minutes of resources that wait for a tick; more are learned before it comes
HostEvent = HostMinute | HostState | JobStarted | JobCompleted


class HostShard:
    """What is known of the hosts of one journal partition. The same records give the same messages and the same state.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> from agent.contracts.events import ResourceMinute
    >>> hosts = make_shard(Config()).hosts
    >>> cpu = ResourceMinute(6, 0.8, 0.7, 0.9, (0.8,) * 6, (0.8,), (1.0,), 30)
    >>> hosts.take(HostMinute("exa", "load/0", "nid1", 60_000, {"cpu": cpu}))
    >>> hosts.take(Tick("", time_ms=130_000))
    >>> hosts.window("exa", "nid1", "cpu", until_ms=130_000).mean
    0.8
    """

    def __init__(self, settings: FoldSettings) -> None:
        self.desk = HostDesk(settings)
        self.jobs = HostJobs(self.desk)
        self.alerts = HostAlerts(self.desk, self.jobs)
        self.profiles = HostProfiles(self.desk, self.jobs)
        self._parts: tuple[HostPart, ...] = (Learning(self.desk.forecasts), self.alerts)
        self.views = HostViews(self.desk, self.jobs, self.alerts)
        self._waiting: list[HostEvent] = []
        self._waiting_resources = 0

    @property
    def waiting(self) -> int:
        """How many events wait for the next tick: the state is that of before them."""
        return len(self._waiting)

    def take(self, event: JournalEvent) -> None:
        """Take an event in; most wait until the next tick. What there is to send is in the outbox of the desk."""
        if isinstance(event, Tick):
            self._tick(event.time_ms)
        elif isinstance(event, HostMinute | HostState | JobStarted | JobCompleted):
            self._waiting.append(event)
            self._waiting_resources += len(event.resources) if isinstance(event, HostMinute) else 1
            if self._waiting_resources >= WAITING_MAX:
                self._take_in()

    def sent(self) -> list[Message | Tombstone]:
        """Return what is to be sent, once."""
        sent, self.desk.outbox = self.desk.outbox, []
        return sent

    def window(self, system: str, host: str, resource: str, until_ms: int) -> HostWindow | None:
        """Return the newest window that ended at `until_ms` or before; None where none is kept."""
        row = self.desk.roster.row(system, host, resource)
        return None if row is None else self.desk.windows.of(row, until_ms)

    def hosts_of(self, system: str, partition: str) -> Sequence[str]:
        """Return the hosts on which jobs of a partition ran of late, in order of their names."""
        return self.jobs.hosts_of(system, partition)

    def profile(self, job: str, run_id: str) -> Profile | None:
        """Return what is known of a run that ended, by the key of its job; None where nothing was told of its hosts."""
        return self.profiles.profile(job, run_id)

    def power_errors(self) -> dict[str, float]:
        """Return how far estimates of power are out where sensors are, in W by component: the median of late."""
        return self.profiles.power_errors()

    def restore(self, states: Mapping[str, bytes], now_ms: int) -> None:
        """Put a checkpoint back; ConfigError where this agent can not read it."""
        self.desk.restore(states, now_ms)
        self.jobs.restored()
        self.alerts.restored()
        self.profiles.restored()

    def _tick(self, time_ms: int) -> None:
        if time_ms <= self.desk.now_ms:
            return
        before_ms, self.desk.now_ms = self.desk.now_ms, time_ms
        self._take_in()
        self.jobs.tick()
        self._profiled(lambda: self.profiles.tick(before_ms))
        for part in self._parts:
            try:
                part.tick(time_ms)
            except Exception:  # noqa: BLE001  whatever a part raises costs what it would have said, and nothing else
                self.desk.tally["fault", part.name] += 1
        if time_ms // MINUTE_MS != before_ms // MINUTE_MS:
            self.desk.roster.forget_before(time_ms - round(self.desk.settings.hosts.quiet_s * 1000))

    def _take_in(self) -> None:
        """Take in what waits: what jobs and hosts did, then the minutes, each series once in a batch."""
        waiting, self._waiting, self._waiting_resources = self._waiting, [], 0
        minutes = Waiting()
        for event in waiting:
            try:
                self._one(event, minutes)
            except Exception:  # noqa: BLE001  whatever is wrong with an event concerns it alone
                self.desk.tally["fault", HostRows.name] += 1
        self._profiled(self.profiles.flush)
        if not len(minutes):
            return
        told = minutes.columns()
        for part in told.rounds():
            self.desk.windows.take(part)
        learned_ms = self.desk.roster.learned_ms()
        for batch in told.batches(learned_ms):
            learned_ms[batch.row] = batch.minute_ms
            self._learn(batch)

    def _one(self, event: HostEvent, minutes: Waiting) -> None:
        if isinstance(event, HostMinute):
            self._enter(event, minutes)
            self._profiled(lambda: self.profiles.take(event))
        elif isinstance(event, HostState):
            self.jobs.told(event)
        elif isinstance(event, JobStarted):
            self.jobs.started(event)
            self._profiled(lambda: self.profiles.started(event))
        else:
            self.jobs.completed(event)
            self._profiled(lambda: self.profiles.completed(event))

    def _profiled(self, do: Callable[[], None]) -> None:
        """Do something for profiles: whatever it raises costs a profile, and nothing else."""
        try:
            do()
        except Exception:  # noqa: BLE001  see above
            self.desk.tally["fault", ProfileRun.name] += 1

    def _enter(self, event: HostMinute, minutes: Waiting) -> None:
        quiet_ms = round(self.desk.settings.hosts.quiet_s * 1000)
        if event.minute_ms + quiet_ms <= self.desk.now_ms or event.minute_ms < 0:
            return  # it would be forgotten at once
        source = digest64(event.source) & 0xFFFFFFFF
        for resource, minute in event.resources.items():
            if is_profiled(resource):
                continue
            place = self.desk.roster.enter(event.system, event.host, resource, event.minute_ms)
            if place is None:
                self.desk.tally["bound", "series_max"] += 1
            else:
                minutes.add(*place, source, event.minute_ms, revision=event.revision, minute=minute)

    def _learn(self, batch: MinuteBatch) -> None:
        for part in self._parts:
            try:
                part.take(batch)
            except Exception:  # noqa: BLE001  what one part can not take, the others can
                self.desk.tally["fault", part.name] += 1


class Learning:
    """Columns that only learn, as a part.

    >>> Learning(HostForecasts()).name
    'host_forecasts'
    """

    def __init__(self, columns: HostForecasts) -> None:
        self._columns = columns
        self.name = columns.name

    def take(self, batch: MinuteBatch) -> None:
        """Learn a minute of many series."""
        self._columns.take(batch)

    def tick(self, now_ms: int) -> None:
        """Say nothing."""
