"""The hosts of one shard: a deterministic fold of host minutes, host states and jobs. Most events wait for the next tick."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Final

from processors.contracts.events import HostMinute, HostState, JobCompleted, JobStarted, JournalEvent, Tick
from processors.contracts.hosts import (
    SHARES,
    ForecastHistogram,
    HostCause,
    HostCounts,
    HostLines,
    Hosts,
    HostUse,
    HostView,
    HostWindow,
    Profile,
    ResourceForecast,
    ResourceView,
)
from processors.contracts.names import job_key, rfc3339
from processors.contracts.outputs import HostReport, Message, Tombstone
from processors.contracts.telemetry import BY_LOAD, CPU_AVAILABLE
from processors.hosts.activity import is_active
from processors.hosts.jobs import HostJobs
from processors.hosts.lines import BANDS
from processors.hosts.rows import Host, HostRows
from processors.hosts.windows import ReportedMinutes, WaitingMinute, merged_window
from processors.models.histogram import variation_class
from processors.pipeline.host_alerts import HostAlerts
from processors.pipeline.host_profiles import HostProfiles
from processors.pipeline.host_state import HostShardState
from processors.pipeline.stage import attempt
from processors.pipeline.state import FoldSettings
from processors.power.profiles.attribution import ProfileRun
from processors.store import digest64
from processors.windows.settings import MINUTE_MS

SCHEMA: Final = "scalewatch.host/1"
TOPIC: Final = "hosts"
SECOND_MS: Final = 1_000

ViewOf = Callable[[str, str], HostView | None]
"""A function that returns the view of a host, given system and name; None for an unknown host."""


def slots(before_ms: int, now_ms: int, period_s: int) -> frozenset[int]:
    """Return the slots whose turn came after the tick at `before_ms`, up to `now_ms`; a slot is a second of the period, from 0."""
    until_s = now_ms // SECOND_MS
    since_s = max(before_ms // SECOND_MS, until_s - period_s)
    return frozenset(second % period_s for second in range(since_s + 1, until_s + 1))


class HostReports:
    """Publishes the view of each host every `hosts.publish_s`, if that is configured."""

    def __init__(self, state: HostShardState, view: ViewOf) -> None:
        self._state, self._view = state, view
        self._period_s = ceil(state.settings.hosts.publish_s)
        self._slots: dict[Host, int] = {}

    def tick(self, before_ms: int) -> Iterator[HostReport]:
        """Publish the hosts whose assigned second of the period has passed since the tick at `before_ms`."""
        if not self._period_s:
            return
        due = slots(before_ms, self._state.now_ms, self._period_s)
        for host in sorted(key for _, key in self._state.index.hosts.ids if self._slot(key) in due):
            view = self._view(*host)
            if view is not None:
                yield self._report(view)
            self._state.give_way()

    def forget_before(self, minute_ms: int) -> list[Tombstone]:
        """Forget hosts without a report since `minute_ms`; return the tombstones that remove them from the topic."""
        self._slots.clear()
        before = set(self._state.index.hosts.ids.rows)
        self._state.index.forget_before(minute_ms)
        gone = before - self._state.index.hosts.ids.rows.keys()
        return [Tombstone(TOPIC, job_key(*host)) for host in sorted(gone)] if self._period_s else []

    def _slot(self, host: Host) -> int:
        slot = self._slots.get(host)
        if slot is None:
            slot = self._slots[host] = digest64(*host) % self._period_s
        return slot

    def _report(self, view: HostView) -> HostReport:
        context = self._state.context
        return HostReport(
            schema=SCHEMA,
            id=f"{job_key(view.system, view.host)}@{context.now_ms}",
            time=context.time,
            as_of=context.time,
            agent_version=context.agent_version,
            valid_until=rfc3339(context.now_ms + 2 * self._period_s * SECOND_MS),
            system=view.system,
            host=view.host,
            state=view.state,
            job=view.job,
            resources=view.resources,
        )


RESOURCES_MAX: Final = 64  # resources of one host in an answer
RECENT_MS: Final = 600_000  # an older window does not tell whether a host is busy
WAITING_MAX: Final = 4096  # most waiting minutes of resources; a part of their processing takes some tens of ms
TAKEN_AT_ONCE: Final = 100  # events processed before giving way, each takes some tenths of a ms
HostEvent = HostMinute | HostState | JobStarted | JobCompleted


class HostShard(Hosts):
    """The host state of one journal partition. The same records give the same messages and the same state."""

    def __init__(self, settings: FoldSettings) -> None:
        self.state = HostShardState(settings)
        self.jobs = HostJobs(self.state)
        self.alerts = HostAlerts(self.state, self.jobs)
        self.profiles = HostProfiles(self.state, self.jobs)
        self.views = HostViews(self.state, self.jobs, self.alerts)
        self.reports = HostReports(self.state, self.views.host)
        self._quiet_ms = round(settings.hosts.quiet_s * 1000)
        self._waiting: list[HostEvent] = []
        self._waiting_resources = 0
        self._minutes: list[WaitingMinute] = []
        self._changes = 0  # counter of changes of windows and forecasts, all made in this class
        self._messages: list[Message | Tombstone] = []

    @property
    def waiting(self) -> int:
        """The number of events that wait for the next tick and are not part of the state yet."""
        return len(self._waiting)

    def take(self, event: JournalEvent) -> None:
        """Accept a journal event about hosts or jobs; most events wait until the next tick. `sent` returns the resulting messages."""
        if isinstance(event, Tick):
            self._tick(event.time_ms)
        elif isinstance(event, HostMinute | HostState | JobStarted | JobCompleted):
            self._waiting.append(event)
            self._waiting_resources += len(event.resources) if isinstance(event, HostMinute) else 1
            if self._waiting_resources >= WAITING_MAX:
                self._take_in()

    def sent(self) -> list[Message | Tombstone]:
        messages, self._messages = self._messages, []
        return messages

    def _emit(self, messages: Iterable[Message | Tombstone]) -> None:
        """Add messages to the queue of `sent`. If the iterator raises, the messages that it yielded before stay in the queue."""
        self._messages.extend(messages)

    def changes(self) -> int:
        """Return a counter that grows whenever windows or forecasts may have changed."""
        return self._changes

    def moment(self, until_ms: int) -> int:
        """Return a cache key for `until_ms`: the same time for all times between two ends of windows, at whole minutes."""
        return until_ms - max(until_ms % MINUTE_MS - 1, 0)

    def any_measured(self, resource: str | None = None) -> bool:
        """Return whether any host measures the resource; if `resource` is None, whether any host measures anything."""
        index = self.state.index
        return len(index.hosts.ids) > 0 if resource is None else index.is_measured(resource)

    def window(self, system: str, host: str, resource: str, until_ms: int) -> HostWindow | None:
        """Return the newest window that ended at `until_ms` or before; None if no window is kept.

        If the host measures the resource only per destination, the windows of all destinations are combined.
        """
        index, windows = self.state.index, self.state.windows
        row = index.row(system, host, resource)
        if row is not None:
            return windows.of(row, until_ms)
        if not index.is_measured(resource):
            return None
        towards = (windows.of(row, until_ms) for row in index.rows_towards(system, host, resource))
        return merged_window([window for window in towards if window is not None])

    def forecasts(
        self, system: str, hosts: Sequence[str], resource: str, until_ms: int
    ) -> Sequence[ForecastHistogram | None]:
        """Return the forecast of a resource for each host.

        The forecast of a host is None if its errors are not known yet, or if values after `until_ms` are already known.
        """
        index, learned_ms = self.state.index, self.state.index.series.rows["learned_ms"]
        rows = [index.row(system, host, resource) for host in hosts]
        learned_rows = [row for row in rows if row is not None and learned_ms[row] + MINUTE_MS <= until_ms]
        histograms = self.state.forecasts.histograms(learned_rows, [resource in SHARES] * len(learned_rows))
        by_row = dict(zip(learned_rows, histograms, strict=True))
        return [None if row is None else by_row.get(row) for row in rows]

    def hosts_of(self, system: str, partition: str) -> Sequence[str]:
        return self.jobs.hosts_of(system, partition)

    def profile(self, job: str, run_id: str) -> Profile | None:
        return self.profiles.profile(job, run_id)

    def profile_so_far(self, job: str, run_id: str) -> Profile | None:
        return self.profiles.profile_so_far(job, run_id)

    def cause(self, system: str, hosts: tuple[str, ...], start_ms: int, end_ms: int) -> HostCause | None:
        """Return the fault of a host during a run, given the host lists of the run; None if no fault is known.

        If several hosts had a fault, the earliest counts; a fault of power alone counts only if there is no other.
        """
        if not hosts or not self.state.causes.any():
            return None
        rows = ((self.state.index.host(system, host), host) for host in self.jobs.expanded(hosts))
        explains = self.state.causes.explains
        causes = [explains(row, host, start_ms, end_ms) for row, host in rows if row is not None]
        host_causes = [cause for cause in causes if cause is not None]
        return min(host_causes, key=lambda cause: (cause.power_only, cause.from_ms), default=None)

    def active(self, system: str, hosts: tuple[str, ...], until_ms: int) -> bool | None:
        names, measured = self.jobs.expanded(hosts), 0
        for row in (self.state.index.host(system, name) for name in names):
            resources = self.state.index.resources(row) if row is not None else {}
            windows = ((name, self.state.windows.of(series, until_ms)) for name, series in resources.items())
            recent = {name: each for name, each in windows if each and each.until_ms >= until_ms - RECENT_MS}
            if any(is_active(name, window) for name, window in recent.items()):
                return True
            measured += CPU_AVAILABLE in recent
        return False if measured and 2 * measured >= len(names) else None

    def neighbours(self, system: str, job_id: str, hosts: tuple[str, ...], end_ms: int) -> Sequence[str]:
        on = self.jobs.neighbours_of(job_key(system, job_id), self.jobs.expanded(hosts))
        return [job_key(system, neighbour.job_id) for neighbour in on if neighbour.start_ms < end_ms]

    def restore(self, states: Mapping[str, bytes], now_ms: int) -> None:
        """Restore a checkpoint. Raise ConfigError if this agent cannot read a state."""
        self._changes += 1
        self.state.restore(states, now_ms)
        self.jobs.restored()
        self.profiles.restored()

    def _tick(self, time_ms: int) -> None:
        """Process the waiting events, but only once a second: a small batch costs nearly as much as a large one."""
        state, before_ms = self.state, self.state.now_ms
        if time_ms // SECOND_MS <= before_ms // SECOND_MS:
            return
        state.now_ms = time_ms
        self._take_in()
        self.jobs.tick()
        attempt(self.state, ProfileRun.name, self.profiles.tick, before_ms)
        if state.index.hosts.ids.rows or len(state.alerts):
            attempt(self.state, self.alerts.name, self._emit, self.alerts.tick(before_ms))
        if time_ms // MINUTE_MS != before_ms // MINUTE_MS:
            if state.index.hosts.ids.rows:
                self._changes += 1
                self._emit(self.reports.forget_before(time_ms - self._quiet_ms))
            state.lines.tick(time_ms)
        attempt(self.state, state.forecasts.name, self._emit, self.reports.tick(before_ms))

    def _take_in(self) -> None:
        """Process the waiting events: first jobs and host states, then minutes in batches with each series at most once."""
        waiting, self._waiting, self._waiting_resources = self._waiting, [], 0
        if not waiting:
            return
        for place, event in enumerate(waiting, 1):
            attempt(self.state, HostRows.name, self._one, event)
            if place % TAKEN_AT_ONCE == 0:
                self.state.give_way()
        if any(isinstance(event, HostMinute) for event in waiting):
            self._changes += 1
            attempt(self.state, ProfileRun.name, self.profiles.flush)
        self.state.give_way()
        if not self._minutes:
            return
        state, reported, self._minutes = self.state, ReportedMinutes(self._minutes), []
        for part in reported.rounds():
            attempt(self.state, BANDS, state.lines.take, part, state.windows.take(part), state.now_ms)
            state.give_way()
        learned_ms = state.index.series.rows["learned_ms"]
        for batch in reported.batches(learned_ms):
            learned_ms[batch.row] = batch.minute_ms
            attempt(self.state, state.forecasts.name, state.forecasts.take, batch, state.give_way)
            attempt(self.state, self.alerts.name, self.alerts.take, batch)
            state.give_way()
        self._changes += 1  # a reader between two parts may have cached a partly updated state

    def _one(self, event: HostEvent) -> None:
        if isinstance(event, HostMinute):
            self._enter(event)
            attempt(self.state, ProfileRun.name, self.profiles.take, event)
        elif isinstance(event, HostState):
            self.jobs.take_state(event)
        elif isinstance(event, JobStarted):
            self.jobs.started(event)
            attempt(self.state, ProfileRun.name, self.profiles.started, event)
        else:
            self.jobs.completed(event)
            attempt(self.state, ProfileRun.name, self.profiles.completed, event)

    def _enter(self, event: HostMinute) -> None:
        if event.minute_ms + self._quiet_ms <= self.state.now_ms or event.minute_ms < 0:
            return  # a minute this old would be forgotten at once
        if event.minute_ms % MINUTE_MS:
            return  # no collector sends this, and windows end at whole minutes
        names = tuple(event.resources)
        if BY_LOAD in event.resources and self._is_measured(event):
            names = tuple(name for name in names if name != BY_LOAD)
        entered = self.state.index.enter_all(event.system, event.host, names, event.minute_ms)
        self.state.tally["bound", "series_max"] += entered.refused
        if CPU_AVAILABLE in entered.resources:
            self.state.measured.note(entered.host, event.minute_ms)
        if entered.resources:
            place = entered.row, entered.host, digest64(event.source) & 0xFFFFFFFF, event.minute_ms, event.revision
            self._minutes.append(WaitingMinute(*place, [event.resources[name] for name in entered.resources]))

    def _is_measured(self, event: HostMinute) -> bool:
        """Return whether the host measures its CPU utilisation, so that the load average need not estimate it."""
        host = self.state.index.host(event.system, event.host)
        is_recent = host is not None and self.state.measured.known(host, event.minute_ms)
        return is_recent or CPU_AVAILABLE in event.resources


class HostViews:
    """Read-only views of hosts; each call does a bounded amount of work."""

    def __init__(self, state: HostShardState, jobs: HostJobs, alerts: HostAlerts) -> None:
        self._state, self._jobs, self._alerts = state, jobs, alerts

    def names(self, limit: int) -> list[tuple[str, str]]:
        """Return system and name of at most `limit` hosts: abnormal hosts first, then those with the most unusual days.

        `limit` may be large, because names cost less than views.
        """
        odd, ids = set(self._alerts.anomalous()), list(self._state.index.hosts.ids)
        days = self._state.multivariate.unusual_days([row for row, _ in ids]).tolist()
        hosts = ((row not in odd, -count, key) for (row, key), count in zip(ids, days, strict=True))
        return [key for *_, key in heapq.nsmallest(limit, hosts)]

    def counts(self) -> HostCounts:
        rows = [row for row, _ in self._state.index.hosts.ids]
        until_ms = self._alerts.learned_until_ms(rows)
        learning = until_ms[until_ms > self._state.now_ms]
        last = rfc3339(int(learning.max())) if learning.size else ""
        return HostCounts(len(rows), int(self._alerts.abnormal().sum()), learning.size, last)

    def use(self, system: str, host: str) -> HostUse:
        jobs = self._jobs.on(system, host)
        return HostUse(system, host, self._jobs.state_of(system, host), jobs[0] if jobs else None)

    def host(self, system: str, host: str) -> HostView | None:
        row = self._state.index.host(system, host)
        if row is None:
            return None
        use = self.use(system, host)
        rows = dict(list(self._state.index.resources(row).items())[:RESOURCES_MAX])
        shares = [resource in SHARES for resource in rows]
        forecasts = zip(rows.items(), self._state.forecasts.of(list(rows.values()), shares), strict=True)
        resources = [self._resource(row, *own, forecast) for own, forecast in forecasts]
        suspected_ms = self._state.multivariate.suspected_since_ms(row, self._state.now_ms)
        until_ms = int(self._alerts.learned_until_ms([row])[0])
        return HostView(
            system=system,
            host=host,
            as_of=rfc3339(self._state.now_ms),
            state=use.state,
            job=use.job,
            resources=tuple(view for view in resources if view is not None),
            score=self._alerts.host_score(row),
            finding=self._alerts.finding(row),
            suspected_since=None if suspected_ms is None else rfc3339(suspected_ms),
            unusual_days=int(self._state.multivariate.unusual_days([row])[0]),
            learned_until=rfc3339(until_ms) if until_ms > self._state.now_ms else None,
        )

    def lines(self, system: str, host: str, resource: str | None = None) -> HostLines | None:
        """Return the history of one resource of a host, or of all its resources; None if the host is unknown."""
        row = self._state.index.host(system, host)
        if row is None:
            return None
        resources = self._state.index.resources(row)
        shown = dict(list(resources.items())[:RESOURCES_MAX])
        if resource is not None:
            shown = {resource: resources[resource]} if resource in resources else {}
        return self._state.lines.of(system, host, shown, self._state.now_ms)

    def _resource(self, host: int, resource: str, row: int, forecast: ResourceForecast | None) -> ResourceView | None:
        window = self._state.windows.of(row, self._state.now_ms)
        if window is None:
            return None
        is_share = resource in SHARES and window.edges[0] >= 0 and window.edges[-1] <= 1
        variation = variation_class(window.edges[-1] - window.edges[0]) if is_share else None
        since_ms = self._alerts.since_ms(host, resource)
        return ResourceView(
            resource=resource,
            window=window,
            variation=variation,
            forecast=forecast,
            score=self._state.records.score(row),
            anomalous_since=None if since_ms is None else rfc3339(since_ms),
        )
