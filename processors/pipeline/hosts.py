"""The hosts of one shard: a pure fold of their minutes, their states and the jobs on them. Everything happens at ticks."""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil
from typing import Final, TypeVarTuple

from processors.contracts.events import HostMinute, HostState, JobCompleted, JobStarted, JournalEvent, Tick
from processors.contracts.hosts import (
    SHARES,
    ForecastHistogram,
    HostCause,
    HostLines,
    HostUse,
    HostView,
    HostWindow,
    Profile,
    ResourceForecast,
    ResourceView,
    Variation,
)
from processors.contracts.names import job_key, rfc3339
from processors.contracts.outputs import HostReport, Message, Tombstone
from processors.contracts.telemetry import BY_LOAD, CPU_AVAILABLE, is_profiled
from processors.hosts.jobs import HostJobs
from processors.hosts.lines import BANDS
from processors.hosts.rows import HostRows, entered_as
from processors.hosts.windows import WaitingMinutes, merged_window
from processors.models.histogram.arithmetic import variation_class
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

Host = tuple[str, str]
"""System and name."""

ViewOf = Callable[[str, str], HostView | None]
"""Returns what is known of a host, by system and name."""


def slots(before_ms: int, now_ms: int, period_s: int) -> frozenset[int]:
    """Return the seconds of a period that have come since a tick before: at most all of them, each once."""
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
        """Publish the hosts whose second of the period has come since the tick before."""
        if not self._period_s:
            return
        due = slots(before_ms, self._state.now_ms, self._period_s)
        for host in sorted(key for _, key in self._state.index.hosts.ids if self._slot(key) in due):
            view = self._view(*host)
            if view is not None:
                yield self._report(view)
            self._state.give_way()

    def forget_before(self, minute_ms: int) -> list[Tombstone]:
        """Forget hosts that reported nothing since, and remove them from the topic."""
        if not self._period_s:
            self._state.index.forget_before(minute_ms)
            return []
        self._slots.clear()
        before = {key for _, key in self._state.index.hosts.ids}
        self._state.index.forget_before(minute_ms)
        gone = before - {key for _, key in self._state.index.hosts.ids}
        return [Tombstone(TOPIC, job_key(*host)) for host in sorted(gone)]

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


HOSTS_MAX: Final = 1_000  # in one answer
RESOURCES_MAX: Final = 64  # of one host
WAITING_MAX: Final = 1024  # minutes of resources that wait for a tick: so many hold the fold for some tens of ms
TAKEN_AT_ONCE: Final = 100  # of these events, each of some tenths of a ms
HostEvent = HostMinute | HostState | JobStarted | JobCompleted
Given = TypeVarTuple("Given")


class HostShard:
    """What is known of the hosts of one journal partition. The same records give the same messages and the same state."""

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
        self._minutes = WaitingMinutes()
        self._changes = 0  # of windows and forecasts, all of which are made here
        self._messages: list[Message | Tombstone] = []

    @property
    def waiting(self) -> int:
        """How many events wait for the next tick: the state is that of before them."""
        return len(self._waiting)

    def take(self, event: JournalEvent) -> None:
        """Take an event in; most events wait until the next tick. `sent` returns the messages."""
        if isinstance(event, Tick):
            self._tick(event.time_ms)
        elif isinstance(event, HostMinute | HostState | JobStarted | JobCompleted):
            self._waiting.append(event)
            self._waiting_resources += len(event.resources) if isinstance(event, HostMinute) else 1
            if self._waiting_resources >= WAITING_MAX:
                self._take_in()

    def sent(self) -> list[Message | Tombstone]:
        """Return the messages since the last call."""
        messages, self._messages = self._messages, []
        return messages

    def _emit(self, messages: Iterable[Message | Tombstone]) -> None:
        """Keep messages until they are sent; if their source raises, those that came before are kept."""
        self._messages.extend(messages)

    def changes(self) -> int:
        """Return how often windows and forecasts may have changed."""
        return self._changes

    def moment(self, until_ms: int) -> int:
        """Return the moment that stands for those of its minute: windows end, grow stale and grow old at whole minutes."""
        return until_ms - max(until_ms % MINUTE_MS - 1, 0)

    def any_measured(self, resource: str | None = None) -> bool:
        """Return whether any host measures a resource, or anything."""
        index = self.state.index
        return len(index.hosts.ids) > 0 if resource is None else index.is_measured(resource)

    def window(self, system: str, host: str, resource: str, until_ms: int) -> HostWindow | None:
        """Return the newest window that ended at `until_ms` or before; None where none is kept.

        Where the host measures the resource towards others alone, all of these are put together.
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
        """Return what is expected next of a resource of each host.

        None of hosts whose errors are not known yet, and of those of which anything after `until_ms` is known already.
        """
        index, learned_ms = self.state.index, self.state.index.series.rows["learned_ms"]
        rows = [index.row(system, host, resource) for host in hosts]
        known = [row for row in rows if row is not None and learned_ms[row] + MINUTE_MS <= until_ms]
        found = self.state.forecasts.histograms(known, [resource in SHARES] * len(known))
        by_row = dict(zip(known, found, strict=True))
        return [None if row is None else by_row.get(row) for row in rows]

    def hosts_of(self, system: str, partition: str) -> Sequence[str]:
        """Return the hosts on which jobs of a partition ran recently, in order of their names."""
        return self.jobs.hosts_of(system, partition)

    def profile(self, job: str, run_id: str) -> Profile | None:
        """Return what is known of a run that ended, by the key of its job; None where nothing was reported its hosts."""
        return self.profiles.profile(job, run_id)

    def profile_so_far(self, job: str, run_id: str) -> Profile | None:
        """Return the profile so far of a run that goes on, None where nothing is known."""
        return self.profiles.profile_so_far(job, run_id)

    def cause(self, system: str, hosts: tuple[str, ...], start_ms: int, end_ms: int) -> HostCause | None:
        """Return what was wrong with one of the hosts, given by their lists, while a run was on them."""
        if not hosts or not self.alerts.any_cause():
            return None
        found = (self.alerts.cause(system, host, start_ms, end_ms) for host in self.jobs.expanded(hosts))
        return min(
            (one for one in found if one is not None), key=lambda one: (one.power_only, one.from_ms), default=None
        )

    def power_errors(self) -> dict[str, float]:
        """Return how far estimates of power are out where sensors are, in W by component: the median recently."""
        return self.profiles.power_errors()

    def restore(self, states: Mapping[str, bytes], now_ms: int) -> None:
        """Put a checkpoint back; ConfigError where this agent cannot read it."""
        self._changes += 1
        self.state.restore(states, now_ms)
        self.jobs.restored()
        self.profiles.restored()

    def _tick(self, time_ms: int) -> None:
        """Act once a second: a batch of few minutes costs nearly as much as one of many."""
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
        """Take in what waits: what jobs and hosts did, then the minutes, each series once in a batch."""
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
        if not self._minutes.places:
            return
        state, reported = self.state, self._minutes.columns()
        for part in reported.rounds():
            attempt(self.state, BANDS, state.lines.take, part, state.windows.take(part), state.now_ms)
            state.give_way()
        learned_ms = state.index.series.rows["learned_ms"]
        for batch in reported.batches(learned_ms):
            learned_ms[batch.row] = batch.minute_ms
            attempt(self.state, state.forecasts.name, state.forecasts.take, batch)
            state.give_way()
            attempt(self.state, self.alerts.name, self.alerts.take, batch)
            state.give_way()
        self._changes += 1  # who asked in the midst may have kept what was half done

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
            return  # it would be forgotten at once
        if event.minute_ms % MINUTE_MS:
            return  # no collector sends this, and windows end at whole minutes
        source = digest64(event.source) & 0xFFFFFFFF
        for resource, minute in event.resources.items():
            if is_profiled(resource) or (resource == BY_LOAD and self._is_measured(event)):
                continue
            place = self.state.index.enter(event.system, event.host, entered_as(resource), event.minute_ms)
            if place is None:
                self.state.tally["bound", "series_max"] += 1
            else:
                self.state.measured.note(place[1], resource, event.minute_ms)
                self._minutes.add(*place, source, event.minute_ms, revision=event.revision, minute=minute)

    def _is_measured(self, event: HostMinute) -> bool:
        """Return whether the share of a host's processors that its load lets expect is measured."""
        host = self.state.index.host(event.system, event.host)
        known = host is not None and self.state.measured.known(host, event.minute_ms)
        return known or CPU_AVAILABLE in event.resources


class HostViews:
    """Hosts as readers see them: bounded work, whenever somebody asks, and nothing is changed by it."""

    def __init__(self, state: HostShardState, jobs: HostJobs, alerts: HostAlerts) -> None:
        self._state, self._jobs, self._alerts = state, jobs, alerts

    def first(self, limit: int) -> list[tuple[str, str]]:
        """Return system and name of at most so many hosts: those with anomalies first, then by system and name."""
        return self.names(min(limit, HOSTS_MAX))

    def names(self, limit: int) -> list[tuple[str, str]]:
        """Return the same of as many hosts as are asked for: names are cheap beside views."""
        odd = set(self._alerts.anomalous())
        hosts = ((row not in odd, key) for row, key in self._state.index.hosts.ids)
        return [key for _, key in heapq.nsmallest(limit, hosts)]

    def use(self, system: str, host: str) -> HostUse:
        """Return the state of a host and the job that began last on it."""
        jobs = self._jobs.on(system, host)
        return HostUse(system, host, self._jobs.state_of(system, host), jobs[0] if jobs else None)

    def host(self, system: str, host: str) -> HostView | None:
        """Return one host; None where it is not known."""
        row = self._state.index.host(system, host)
        return None if row is None else self._view(row)

    def lines(self, system: str, host: str, resource: str | None = None) -> HostLines | None:
        """Return what one host measured over time, of one resource or of all; None where it is not known."""
        row = self._state.index.host(system, host)
        if row is None:
            return None
        known = self._state.index.resources(row)
        found = dict(list(known.items())[:RESOURCES_MAX])
        if resource is not None:
            found = {resource: known[resource]} if resource in known else {}
        return self._state.lines.of(system, host, found, self._state.now_ms)

    def _view(self, row: int) -> HostView:
        system, name = self._state.index.hosts.ids.key(row) or ("", "")
        use = self.use(system, name)
        found = dict(list(self._state.index.resources(row).items())[:RESOURCES_MAX])
        shares = [resource in SHARES for resource in found]
        forecasts = zip(found.items(), self._state.forecasts.of(list(found.values()), shares), strict=True)
        resources = [self._resource(row, *own, forecast) for own, forecast in forecasts]
        suspected_ms = self._alerts.suspected_since_ms(row)
        return HostView(
            system=system,
            host=name,
            as_of=rfc3339(self._state.now_ms),
            state=use.state,
            job=use.job,
            resources=tuple(view for view in resources if view is not None),
            score=self._alerts.host_score(row),
            finding=self._alerts.finding(row),
            suspected_since=None if suspected_ms is None else rfc3339(suspected_ms),
        )

    def _resource(self, host: int, resource: str, row: int, forecast: ResourceForecast | None) -> ResourceView | None:
        window = self._state.windows.of(row, self._state.now_ms)
        if window is None:
            return None
        since_ms = self._alerts.since_ms(host, resource)
        return ResourceView(
            resource=resource,
            window=window,
            variation=_variation(resource, window),
            forecast=forecast,
            score=self._state.records.score(row),
            anomalous_since=None if since_ms is None else rfc3339(since_ms),
        )


def _variation(resource: str, window: HostWindow) -> Variation | None:
    """Return the class of a window of shares."""
    if resource not in SHARES or window.edges[0] < 0 or window.edges[-1] > 1:
        return None
    return variation_class(window.edges[-1] - window.edges[0])
