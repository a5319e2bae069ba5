"""Profiles of runs from the minutes of their hosts: minutes are closed at ticks and assigned to the runs on the host.

A minute is closed when no further record can change it. A closed minute is kept for some minutes, because the start or end of a
run may be reported late. Then each run gets its share of the minute, and the rest of the minute is dropped. If a system does
not report starts of jobs, minutes are kept for `attribution_horizon_s`. The profile of a settled run sums the minutes assigned
to the run and the kept minutes of the time of the run.
"""

from typing import Final

import msgspec
import numpy as np
import numpy.typing as npt

from processors.contracts.events import Evidence, HostMinute, JobCompleted, JobStarted, nodes_of
from processors.contracts.hosts import Profile
from processors.contracts.names import escaped
from processors.contracts.settings import RunTimeSettings
from processors.hosts.jobs import HostJobs
from processors.hosts.rows import IdAllocator
from processors.models.features.communication import BUSIEST as MOST
from processors.pipeline.host_state import HostShardState
from processors.power.by_size import SYSTEM
from processors.power.profiles.attribution import (
    Occupancy,
    ProfileRun,
    RunTotals,
    given,
    profile,
)
from processors.power.profiles.finalisation import REACH_MAX, Close, HostPowers
from processors.power.profiles.meters import ALWAYS, BUSIEST, ENERGY, POWER, SHARED, SPLIT, Ingest
from processors.power.profiles.splitting import NodeShare, SharedNumbers
from processors.run_time.machine import allocation
from processors.windows.settings import MINUTE_MS

CLOSE_BEFORE_MS: Final = 30_000  # a minute is closed this long before the runs that ended in the minute settle
GRACE_MS: Final = 10 * MINUTE_MS  # a minute is kept this long after its end, because reports about jobs may arrive late
KEEP_MS: Final = 10 * MINUTE_MS  # a run is kept this long after it settled
QUIET_MS: Final = 10 * MINUTE_MS  # hosts are forgotten this long after their last minute can be assigned to a run
RUNS_MAX: Final = 50_000
RETAINED_HOSTS_MAX: Final = 500_000  # hosts of all kept runs together
DUE_PER_TICK: Final = 5_000


class HostProfiles:
    """Profiles of the runs of one shard."""

    def __init__(self, state: HostShardState, jobs: HostJobs) -> None:
        self._state, self._jobs, self._store = state, jobs, state.profiles
        settings = state.settings
        self._ingest = Ingest(self._store.index, settings.profiles.host_power_max_w)
        self._occupancy = Occupancy(self._store.index)
        self._rows: IdAllocator[str] = IdAllocator()
        self._close_ms = max(round(settings.jobs.settle_max_s * 1000) - CLOSE_BEFORE_MS, 0)
        self._horizon_ms = max(round(settings.profiles.attribution_horizon_s * 1000), GRACE_MS)
        self._closed_ms = 0
        self._close = Close(self._store.index, settings.profiles)
        self._powers = HostPowers(state, self._store.index)

    def take(self, event: HostMinute) -> None:
        """Read one minute of a host; count a minute that is already closed as late."""
        if event.minute_ms < self._closed_ms:
            self._state.tally["profile", "minute_late"] += 1
            return
        refused = self._ingest.take(event)
        if refused:
            self._state.tally["bound", "profile_resources_max"] += refused

    def flush(self) -> None:
        """Move the readings received since the last call to the store, where they wait until their minutes are closed."""
        for minute_ms, readings in self._ingest.readings():
            if not self._store.waiting.add(minute_ms, readings):
                self._state.tally["bound", "profile_readings_max"] += len(readings)

    def started(self, event: JobStarted) -> None:
        now_ms = self._state.now_ms
        if self._state.starts.open(event.system).last_ms < now_ms:  # this is the first start since the last tick
            self._state.starts.learn(event.system, now_ms, now_ms)
        if event.run_id not in self._state.runs and self._jobs.has_ended(event):
            # a repeated start of a forgotten run; the run would seem to share its hosts with other jobs for a month
            return
        run = self._state.runs.open(event.run_id)
        if not run.score(event):
            return
        run.learn(event)
        run.allocate(self._allocation(event))
        self._replace(event, run)
        self._keep(event.run_id, run)

    def completed(self, event: JobCompleted) -> None:
        """Record the end of a run, or a correction of its report."""
        run = self._state.runs.open(event.run_id)
        self._learn_shape(event, again=run.end_ms is not None)
        if not run.score(event) or (event.run_time_s <= 0 and event.run_id not in self._state.runs):
            return
        late = run.started and event.end_ms < self._given_ms(event.system) and event.end_ms != run.end_ms
        run.spoiled = late and run.row >= 0 and bool(len(self._store.sums.of(run.row)))
        run.learn(event)
        run.allocate(self._allocation(event))
        self._end(run, event.end_ms)
        self._keep(event.run_id, run)

    def _allocation(self, event: JobStarted | JobCompleted) -> NodeShare:
        """Return the share of its nodes that is allocated to a run.

        The number of cores per node comes from the settings, or else from earlier runs of the partition.
        """
        shapes, evidence = self._state.shapes.get(escaped(event.system)), event.evidence
        shown = shapes.score(evidence.partition or "") if shapes is not None else None
        return node_share(evidence, event.system, self._state.settings.run_time, shown)

    def _learn_shape(self, event: JobCompleted, *, again: bool) -> None:
        reported, key = allocation(event), escaped(event.system)
        if not reported.cores_per_node or event.run_time_s <= 0:
            return
        shapes = self._state.shapes.open(key)
        if again:
            shapes.forget(reported.run)
        shapes.learn(reported)
        self._state.shapes.changed(key, shapes, self._state.now_ms)

    def tick(self, before_ms: int) -> None:
        """Close the minutes that are due, assign the minutes kept long enough, and forget old runs and hosts."""
        self._closed_ms = self._closed_before()
        due = self._store.waiting.due(self._closed_ms) if self._store.waiting.parts else ()
        for minute_ms, readings in due:
            amounts = self._powers.estimated(minute_ms, self._close.minute(minute_ms, readings))
            gone = self._store.retained.add(minute_ms, amounts)
            self._state.tally["bound", "profile_minutes_max"] += gone
        if self._state.now_ms // MINUTE_MS != before_ms // MINUTE_MS:
            if self._store.retained.minutes:
                self._give()
            self._forget(before_ms)

    def profile(self, job: str, run_id: str) -> Profile | None:
        """Return the profile of a run that ended; None if its hosts sent no telemetry or the run is not tracked."""
        run = self._followed(job, run_id)
        if run is None or run.end_ms is None:
            return None
        if run.spoiled:
            self._state.tally["profile", "end_late"] += 1
            return None
        return self._profile(run_id, run, run.end_ms, run.run_time_s)

    def profile_so_far(self, job: str, run_id: str) -> Profile | None:
        """Return the profile of a running job from closed minutes; None if no minute is closed or the run is not tracked."""
        run = self._followed(job, run_id)
        if run is None or run.end_ms is not None or run.start_ms >= self._closed_ms:
            return None
        return self._profile(run_id, run, self._closed_ms, (self._closed_ms - run.start_ms) / 1000)

    def _followed(self, job: str, run_id: str) -> ProfileRun | None:
        return self._state.runs.get(run_id) if run_id in self._occupancy.runs and run_id.startswith(f"{job}@") else None

    def _profile(self, run_id: str, run: ProfileRun, end_ms: int, run_time_s: float) -> Profile | None:
        """Return the profile of a run until `end_ms`; None if none of its hosts sent telemetry."""
        hosts, rows = self._occupancy.of(run_id)
        if not len(rows):
            return None
        total = RunTotals(self._store.sums, run.row)
        stays = self._occupancy.stays_with(run_id)
        for minute_ms, amounts in self._store.retained.within(run.start_ms, end_ms, rows):
            total.add(given(minute_ms, amounts, stays, len(rows), self._numbers()))
        measured = msgspec.structs.replace(run, end_ms=end_ms, run_time_s=run_time_s)
        return profile(measured, hosts, total, self._store.names, self._state.settings.profiles.names_max)

    def power_errors(self) -> dict[str, float]:
        """Return the typical error of power estimates in W, by component: the largest recent median error of any model.

        An error is the difference between the estimate and the sensor.
        """
        errors_w: dict[str, float] = {}
        for key in self._state.powers.keys():  # noqa: SIM118  no mapping
            error_w, component = self._state.powers.open(key).error_w, key.split("/")[1]
            if error_w is not None:
                errors_w[component] = max(errors_w.get(component, 0.0), error_w)
        return errors_w

    def restored(self) -> None:
        """Rebuild the list of runs on each host from restored states."""
        self._closed_ms = self._closed_before()
        runs = {run_id: self._state.runs.open(run_id) for run_id in self._state.runs.keys()}  # noqa: SIM118  no mapping
        self._rows = IdAllocator((run.row, run_id) for run_id, run in runs.items())
        for run_id, run in runs.items():
            self._occupancy.enter(run_id, run, self._jobs.expanded(run.hosts))

    def _closed_before(self) -> int:
        return (self._state.now_ms - self._close_ms) // MINUTE_MS * MINUTE_MS

    def _reports_starts(self, system: str) -> bool:
        reported = self._state.starts.get(system)
        return reported is not None and reported.score(self._state.now_ms)

    def _given_ms(self, system: str) -> int:
        """Return the time before which every minute of a system was already assigned to runs or dropped."""
        retained_ms = GRACE_MS if self._reports_starts(system) else self._horizon_ms
        return (self._state.now_ms - retained_ms) // MINUTE_MS * MINUTE_MS

    def _replace(self, event: JobStarted, run: ProfileRun) -> None:
        """End earlier runs of the same job if their end was not reported."""
        runs = [
            (run_id, self._state.runs.open(run_id)) for run_id in self._occupancy.of_job(event.system, event.job_id)
        ]
        for run_id, tracked in runs:
            if tracked.end_ms is None and tracked.start_ms < event.start_ms:
                tracked.replace_at(event.start_ms)
                self._end(tracked, event.start_ms)
                self._keep(run_id, tracked)
        later = [tracked.start_ms for _, tracked in runs if tracked.start_ms > event.start_ms]
        if later and run.end_ms is None:
            run.replace_at(min(later))
            self._end(run, min(later))

    def _end(self, run: ProfileRun, end_ms: int) -> None:
        settle_ms = round(self._state.settings.jobs.settle_max_s * 1000)
        keep_ms = KEEP_MS if self._reports_starts(run.system) else max(KEEP_MS, self._horizon_ms)
        run.keep_until_ms = max(end_ms, self._state.now_ms) + settle_ms + keep_ms

    def _keep(self, run_id: str, run: ProfileRun) -> None:
        names = self._occupancy.names(run_id, run.hosts)
        if names is None:
            names = self._jobs.expanded(run.hosts)
        if not names:
            run.hosts = ()  # no hosts, or too many to track, whose host lists would also take too much memory
        if run_id not in self._occupancy.runs and not self._has_room(len(names)):
            self._state.tally["bound", "profile_runs_max"] += 1
            return
        if run.row < 0:
            run.row = self._rows.add(run_id)
        self._occupancy.enter(run_id, run, names)
        self._state.runs.changed(run_id, run, self._state.now_ms)

    def _has_room(self, hosts: int) -> bool:
        return len(self._occupancy.runs) < RUNS_MAX and self._occupancy.retained + hosts <= RETAINED_HOSTS_MAX

    def _give(self) -> None:
        """Assign the minutes that were kept long enough to the runs on their hosts, and drop amounts that belong to no run."""
        retained, now_ms = self._store.retained, self._state.now_ms
        silent = self._silent()
        for minute_ms in sorted(retained.minutes):
            age_ms = now_ms - minute_ms - MINUTE_MS
            if age_ms < GRACE_MS:
                break
            amounts = retained.take(minute_ms)
            if age_ms < self._horizon_ms:
                waits = silent[amounts["host"]]
                if waits.any():
                    retained.add(minute_ms, amounts[waits])
                    amounts = amounts[~waits]
            if len(amounts):
                stays = self._occupancy.stays(minute_ms - (REACH_MAX - 1) * MINUTE_MS, minute_ms + MINUTE_MS)
                rows = self._store.index.hosts.ids.end
                refused = self._store.sums.add(given(minute_ms, amounts, stays, rows, self._numbers()))
                self._state.tally["bound", "profile_sums_max"] += refused

    def _numbers(self) -> SharedNumbers:
        """Return the numbers of the quantities that are split between runs on a shared host.

        The number for split energy is None until a host has reported power.
        """
        names = self._store.names
        drawn = names.numbers.get(POWER + SYSTEM), names.numbers.get(ENERGY + SYSTEM)
        busiest = tuple(number for name in MOST if (number := names.numbers.get(BUSIEST + name)) is not None)
        split = names.add(SPLIT) if drawn != (None, None) else None
        return SharedNumbers(names.add(SHARED) or 0, split, drawn, busiest)

    def _silent(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the hosts (rows,) of systems that do not report starts of jobs."""
        ids = self._store.index.hosts.ids
        silent = np.zeros(ids.end, np.bool_)
        reports = {system: self._reports_starts(system) for system in {system for system, _ in ids.rows}}
        for row, (system, _) in ids:
            silent[row] = not reports[system]
        return silent

    def _forget(self, now_ms: int) -> None:
        """Forget runs that settled long ago, and hosts without a minute for long.

        The caller passes the time of the previous tick as `now_ms`: after a pause of the collectors two ticks may be an hour
        apart. Runs that ended before the pause settle at the second tick, and their profiles are read after this method.
        """
        index = self._store.index
        gone = self._state.runs.due(now_ms, DUE_PER_TICK) if self._state.runs.next_due_ms <= now_ms else []
        rows = [self._state.runs.open(run_id).row for run_id in gone]
        for run_id in gone:
            self._occupancy.leave(run_id)
            self._state.runs.remove(run_id)
        if gone:
            self._rows.release(rows)
            self._store.sums.drop(np.array(rows, dtype=np.int64))
        self._state.starts.forget_due(now_ms, DUE_PER_TICK)
        self._state.powers.forget_due(self._state.now_ms, DUE_PER_TICK)
        meters = len(index.series.ids.rows)
        if meters:
            index.forget_before(now_ms - self._horizon_ms - QUIET_MS)
            index.forget_marked_before(now_ms - GRACE_MS - QUIET_MS, self._reports_starts)
        if len(index.series.ids.rows) != meters:
            self._ingest.forget()
        if len(self._store.names.numbers) > len(ALWAYS):
            self._store.forget_names()


def node_share(evidence: Evidence, system: str, settings: RunTimeSettings, shown_cores: int | None = None) -> NodeShare:
    """Return the share of each node that is allocated to a run, and the idle power of a node in W.

    The share is 1 for an exclusive run, else the allocated cores divided by the cores of the nodes; 0 if either number is unknown.
    `shown_cores` is the largest number of cores per node in runs of the partition, used if the settings do not give the number.
    """
    names = (f"{system}/{evidence.partition}", system)
    machines = [settings.machines[name] for name in names if name in settings.machines]
    of_machine = next((machine.cores_per_node for machine in machines if machine.cores_per_node), None)
    cores_per_node = of_machine or settings.cores_per_node or shown_cores
    idle_w = next((machine.idle_power_w for machine in machines if machine.idle_power_w is not None), 0.0)
    if evidence.exclusive:
        return NodeShare(1.0, idle_w)
    cores, nodes = evidence.sizes.get("cores"), nodes_of(evidence)
    share = min(cores / (nodes * cores_per_node), 1.0) if cores and nodes and cores_per_node else 0.0
    return NodeShare(share, idle_w)
