"""Alerts about hosts: anomalies become one alert for a host, or one alert for a whole rack.

All decisions are made at ticks. A host has a finding if several anomalies lie close together in time, or if its resources
contradict each other for long. A finding is reported after `gather_s`, so that hosts of one rack share one alert.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final
from urllib.parse import unquote

import numpy as np
import numpy.typing as npt

from processors.alerts import hosts as host_rules
from processors.alerts.hosts import Contradicts, Differing, Odd, Rack
from processors.alerts.rules import HOST_ANOMALY, PEER_DIFFERENCE, RACK_ANOMALY, host_labels
from processors.contracts.hosts import HostFinding
from processors.contracts.names import rfc3339
from processors.contracts.telemetry import is_cumulative, is_power
from processors.hosts.detectors import AnomalyCandidates, Mark, Swarm
from processors.hosts.jobs import HostJobs
from processors.hosts.peers import FRESH_MS, STILL_SHARE
from processors.hosts.rows import NEVER_MS
from processors.hosts.windows import MinuteBatch
from processors.pipeline.alerts import OpenAlerts
from processors.pipeline.host_state import FLEET, HostShardState
from processors.pipeline.state import Emits
from processors.store import digest64
from processors.windows.settings import MINUTE_MS

LATE_MS: Final = 180_000  # largest age of a finding that is news; not 0, because minutes arrive late
LIVE_MS: Final = 600_000  # a host silent for this long does not count in its rack
NO_GROUP: Final = -1
OF_LEVEL: Final = frozenset({"value", "step"})  # tests whose range covers the values of all hours, not of one hour


class HostAlerts:
    """The anomaly detectors of all hosts of a shard, and their alerts."""

    name: Final = AnomalyCandidates.name

    def __init__(self, state: HostShardState, jobs: HostJobs) -> None:
        self._state = state
        settings = state.settings.alerts
        self._host, self._rack, self._peers = settings.host_anomaly, settings.rack_anomaly, settings.peer_difference
        self._window_ms = round(self._host.window_s * 1000)
        self._swarm = Swarm(self._window_ms, self._host.resources_min, self._host.resources_share)
        self._groups, self._alerts, self._jobs = HostGroups(state, jobs), OpenAlerts(state), jobs
        self._judged = False  # whether all learned minutes were judged; False after a restart

    def take(self, batch: MinuteBatch) -> None:
        """Score and learn a batch of minutes, except those of cumulative resources; alerts are sent only at ticks."""
        state = self._state
        chosen = np.flatnonzero(~state.index.cumulative[batch.row])
        if chosen.size < batch.row.size:
            batch = MinuteBatch(batch.row[chosen], batch.host[chosen], batch.minute_ms[chosen], batch.means[chosen])
        self._judged = False
        state.candidates.observed(batch.host, batch.minute_ms)
        state.records.take(batch)
        state.multivariate.take(batch)
        self._learn_days()
        state.peers.take(batch)

    def tick(self, before_ms: int) -> Emits[None]:
        """Send the alerts that became due since the tick at `before_ms`, and end alerts that are over."""
        now_ms = self._state.now_ms
        if self._state.index.hosts.ids.rows:
            self._judged &= not self._state.multivariate.tick(now_ms, self._state.give_way)
            self._learn_days()
            if now_ms // MINUTE_MS != before_ms // MINUTE_MS:
                yield from self._mute()
                yield from self._stay_odd()
                self._state.give_way()
                yield from self._compare()
                self._state.give_way()
            self._judge()
            yield from self._report()
        yield from self._alerts.tick()

    def anomalous(self) -> Sequence[int]:
        """Return the rows of hosts that are abnormal or were part of an alert a short time ago."""
        keep_ms = round(max(self._host.keep_firing_s, self._rack.keep_firing_s) * 1000)
        reported = self._state.candidates.rows["reported_ms"] >= max(self._state.now_ms - keep_ms, 0)
        return sorted({*np.flatnonzero(self.abnormal()).tolist(), *np.flatnonzero(reported).tolist()})

    def abnormal(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the hosts (rows,) that deviate from their own past or from their peers now."""
        causes = self._state.causes.rows
        return np.asarray((causes["odd_ms"] != NEVER_MS) | (causes["differing_ms"] != NEVER_MS))

    def since_ms(self, host: int, resource: str) -> int | None:
        """Return the time since which a resource belongs to the anomaly of its host; None if it does not belong to the anomaly."""
        row = self._state.index.resources(host).get(resource)
        if row is None:
            return None
        odd = self._state.causes.rows["odd_ms"][host] != NEVER_MS
        mark = self._marks(host).get(resource) if odd else None
        difference = self._state.peers.difference(row)
        return mark.since_ms if mark else difference.since_ms if difference else self._state.levels.since_ms(row)

    def finding(self, host: int) -> HostFinding | None:
        """Return the present anomaly of a host; None for a normal host."""
        cause = self._state.causes.rows[host]
        times = (int(cause[field]) for field in ("odd_ms", "differing_ms"))
        past, peers = (None if time_ms == NEVER_MS else rfc3339(time_ms) for time_ms in times)
        return HostFinding(past, peers, int(cause["jobs"])) if past or peers else None

    def host_score(self, host: int) -> float | None:
        """Return the last combined score of all resources of a host, 0 to 1; None for a host with a single resource."""
        state = self._state.multivariate.hosts.rows[host]
        return float(state["score"]) if state["places"] > 1 else None

    def _judge(self) -> None:
        """Search for hosts with a new finding, and store the start of the wait for a report (`news_ms`): now.

        Do nothing if no minute was learned since the last search.
        """
        if self._judged or not self._host.enabled:
            return
        self._judged = True
        state, candidates, scored = self._state, self._state.candidates, self._state.multivariate.hosts.rows
        by_records = candidates.close(state.records.times, state.places.hosts, scored["unusual_ms"], self._swarm)
        by_records = by_records[scored["young"][by_records] != 0]
        high = state.multivariate.lasting
        since_ms, end_ms = scored["high_since_ms"][high], scored["scored_ms"][high] + MINUTE_MS
        hosts = np.union1d(by_records, candidates.high(high, since_ms, end_ms, self._window_ms))
        news_ms = candidates.rows["news_ms"]
        new = hosts[self._may_be_reported()[hosts] & (news_ms[hosts] == NEVER_MS)]
        news_ms[new] = state.now_ms

    def _learn_days(self) -> None:
        """Count the host-days that ended by how unusual they were, and add their maxima to those of the fleet."""
        ended, self._state.multivariate.ended = self._state.multivariate.ended, []
        if ended:
            maxima, days = self._state.daily_maxima.open(FLEET), np.concatenate(ended)
            for rate, count in maxima.score(days).items():
                self._state.tally["host_day", rate] += count
            maxima.learn(days)
            self._state.daily_maxima.changed(FLEET, maxima, self._state.now_ms)

    def learned_until_ms(self, hosts: Sequence[int]) -> npt.NDArray[np.int64]:
        """Return the end of the time in which each of `hosts` (m,) is new and raises no alert."""
        return np.asarray(self._state.candidates.rows["first_ms"][hosts] + round(self._host.learn_s * 1000))

    def _may_be_reported(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the hosts (rows,) with a recent anomaly that may raise an alert; new hosts are excluded."""
        rows, now_ms = self._state.candidates.rows, self._state.now_ms
        odd_ms = rows["odd_ms"]
        is_learned = odd_ms >= rows["first_ms"] + round(self._host.learn_s * 1000)
        recent = odd_ms >= now_ms - round(self._state.settings.alerts.run_age_max_s * 1000)
        reportable = (odd_ms != NEVER_MS) & is_learned & recent & (rows["muted"] == 0)
        return np.asarray(reportable & (odd_ms >= rows["hushed_ms"]))

    def _report(self) -> Emits[None]:
        """Send the alerts about hosts with a finding: whole racks first, then single hosts."""
        news_ms = self._state.candidates.rows["news_ms"]
        if not (news_ms != NEVER_MS).any():
            return
        news_ms[list(self._groups.out_of_service())] = NEVER_MS  # they went out of service after the minute began
        if self._rack.enabled:
            yield from self._report_racks()
        for row in np.flatnonzero(news_ms != NEVER_MS).tolist():
            yield from self._report_host(row)

    def _report_racks(self) -> Emits[None]:
        candidates, now_ms = self._state.candidates.rows, self._state.now_ms
        since_ms = now_ms - self._window_ms - round(self._host.gather_s * 1000) - LATE_MS
        odd = np.flatnonzero(self._may_be_reported() & (candidates["odd_ms"] >= since_ms))
        live: dict[Rack, list[int]] = {}
        for rack, rows in sorted(self._groups.racks(odd).items()):
            news = (candidates["news_ms"][rows] != NEVER_MS).any()
            is_open = self._alerts.is_open(RACK_ANOMALY.name, rack.labels)
            if not news or not (is_open or len(rows) >= self._rack.hosts_min):
                continue
            heard_ms = self._state.index.hosts.rows["last_ms"]
            live = live or self._groups.racks(np.flatnonzero(heard_ms >= now_ms - LIVE_MS))
            of = max(len(live.get(rack, ())), len(rows))
            if is_open or len(rows) >= self._rack.share_min * of:
                yield from self._report_rack(rack, rows, of)

    def _report_rack(self, rack: Rack, rows: list[int], of: int) -> Emits[None]:
        candidates, now_ms = self._state.candidates.rows, self._state.now_ms
        names = sorted(self._named(row)[1] for row in rows)
        resources = Counter(name for row in rows for name in self._marks(row))
        since_ms = int(candidates["since_ms"][rows].min())
        for row in rows:
            self._keep_levels(row, self._marks(row))
        ranged = self._state.levels.known(self._state.places.hosts)
        end_is_seen = np.isin(rows, ranged).mean() >= STILL_SHARE
        racks = [self._state.settings.racks.of(*self._named(row)) for row in rows]
        condition = host_rules.rack_anomaly(
            rack, names, of, resources, since_ms, settings=self._rack, now_ms=now_ms, end_is_seen=bool(end_is_seen),
            by_name=any(one is not None and not one.listed for one in racks),
        )  # fmt: skip
        yield from self._alerts.take(condition)
        candidates["news_ms"][rows], candidates["reported_ms"][rows] = NEVER_MS, now_ms
        for row in rows:
            labels = host_labels(*self._named(row))
            why = f"{labels['host']} is part of the anomaly of {rack.text}."
            yield from self._alerts.ends(HOST_ANOMALY.ended(labels, why, now_ms, by="superseded"))

    def _report_host(self, row: int) -> Emits[None]:
        """Send the alert about a host: at once if the alert is already open, else after waiting `gather_s` for other hosts of the rack."""
        candidate, now_ms = self._state.candidates.rows[row], self._state.now_ms
        labels = host_labels(*self._named(row))
        is_open = self._alerts.is_open(HOST_ANOMALY.name, labels)
        if not is_open and now_ms - candidate["news_ms"] < self._host.gather_s * 1000:
            return
        candidate["news_ms"] = NEVER_MS
        odd = self._odd(row)
        if odd is not None:
            self._state.candidates.rows["reported_ms"][row] = now_ms
            yield from self._alert(row, odd)
            self._keep_levels(row, odd.marks)

    def _odd(self, row: int) -> Odd | None:
        """Return the anomaly of a host; None if no resource is anomalous and no resource contradicts the other resources."""
        resources = sum(not is_cumulative(name) for name in self._state.index.resources(row))
        since_ms, jobs = int(self._state.candidates.rows["since_ms"][row]), self._jobs.on(*self._named(row))
        odd = Odd(since_ms, self._marks(row), resources, self._against(row), jobs)
        return odd if odd.marks or odd.contradicts else None

    def _keep_levels(self, row: int, marks: Mapping[str, Mark]) -> None:
        """Store the usual range of the resources in `marks`; the anomaly lasts until their values return to this range."""
        state, since_ms = self._state, int(self._state.candidates.rows["since_ms"][row])
        state.causes.begin(row, "odd_ms", since_ms, state.now_ms)
        for name, mark in marks.items():
            series = state.index.resources(row).get(name)
            if series is not None and mark.way in OF_LEVEL:
                state.levels.keep(series, since_ms, mark.low, mark.high)

    def _stay_odd(self) -> Emits[None]:
        """Renew the alerts of hosts whose values are still outside their normal range, and forget anomalies that are over."""
        state, causes, now_ms = self._state, self._state.causes, self._state.now_ms
        if not (causes.rows["odd_ms"] != NEVER_MS).any():
            return
        minutes = state.peers.rows
        mean = np.where(minutes["minute_ms"] >= now_ms - FRESH_MS, minutes["mean"], np.nan)
        host = state.places.hosts
        still = state.levels.still_odd(mean[: len(host)], host)
        accepted_ms = now_ms - round(self._host.accept_s * 1000)
        still = still[causes.rows["odd_ms"][still] > accepted_ms]
        causes.rows["until_ms"][still] = now_ms
        racks = self._groups.racks(np.flatnonzero(causes.rows["odd_ms"] != NEVER_MS))
        on = set(still.tolist())
        for rack, rows in sorted(racks.items()):
            if len(on.intersection(rows)) >= STILL_SHARE * len(rows):
                self._alerts.renew(RACK_ANOMALY.name, rack.labels)
            due_ms = self._alerts.due_ms(RACK_ANOMALY.name, rack.labels)
            if due_ms is not None and due_ms <= now_ms + MINUTE_MS:
                # most hosts of the rack are normal again; the other hosts get their own alerts
                for row in sorted(on.intersection(rows)):
                    yield from self._alert(row, self._odd(row))
            for row in rows:
                self._stay(row, rack_open=due_ms is not None, still=row in on)

    def _alert(self, row: int, odd: Odd | None) -> Emits[None]:
        """Raise the alert about the anomaly of a host, unless the open alert of the peer comparison already covers the anomaly.

        An alert about power alone does not cover it, and is replaced.
        """
        labels, cause, now_ms = host_labels(*self._named(row)), self._state.causes.rows[row], self._state.now_ms
        differs = cause["differing_ms"] != NEVER_MS and not cause["power_only"]
        if odd is not None and not (differs and self._alerts.is_open(PEER_DIFFERENCE.name, labels)):
            yield from self._alerts.take(host_rules.host_anomaly(labels, odd, self._host, now_ms))
            yield from self._alerts.take(PEER_DIFFERENCE.over(labels, now_ms, by="superseded"))

    def _stay(self, row: int, *, rack_open: bool, still: bool) -> None:
        """Renew the alert of a host that is still abnormal; forget the anomaly if no alert about it is open."""
        labels = host_labels(*self._named(row))
        if still:
            self._alerts.renew(HOST_ANOMALY.name, labels)
        is_open = rack_open or self._alerts.is_open(HOST_ANOMALY.name, labels)
        if not (is_open or (still and self._alerts.is_open(PEER_DIFFERENCE.name, labels))):
            self._state.causes.end(np.array([row]), "odd_ms")
            self._state.levels.clear(self._series(row))

    def _marks(self, host: int) -> dict[str, Mark]:
        """Return the records of a host's resources near the time of its anomaly, sorted by start.

        Records that are over are left out if there are enough without them.
        """
        since_ms = int(self._state.candidates.rows["odd_ms"][host]) - self._window_ms
        series = self._state.index.resources(host)
        marks = {name: self._state.records.mark(row) for name, row in series.items()}
        near = {name: mark for name, mark in marks.items() if mark is not None and mark.fired_ms >= since_ms}
        lasting = {name: mark for name, mark in near.items() if not mark.over}
        least = self._swarm.least(np.array([sum(not is_cumulative(name) for name in series)]))[0]
        of_event = lasting if len(lasting) >= least else near
        return dict(sorted(of_event.items(), key=lambda one: (one[1].since_ms, one[0])))

    def _against(self, host: int) -> Contradicts | None:
        """Return the resource of a host that contradicts the other resources, or did so a short time ago."""
        verdict = self._state.multivariate.contradiction(host)
        if verdict is None or verdict.row is None:
            return None
        ids = self._state.index.series.ids
        series = ids.key(verdict.row)
        far = sorted(key[1] for row in verdict.far if (key := ids.key(row)) is not None)
        figures = verdict.observed, verdict.expected, verdict.since_ms, tuple(far), verdict.by_hour
        return Contradicts(series[1], *figures, verdict.ratio, verdict.lasting) if series else None

    def _mute(self) -> Emits[None]:
        """End the alerts of hosts that are out of service, and send none during `warm_up_s` after a host returns."""
        candidates, out = self._state.candidates.rows, self._groups.out_of_service()
        for row in sorted({*np.flatnonzero(candidates["muted"]).tolist()} ^ out.keys()):
            candidates["muted"][row] = row in out
            candidates["news_ms"][row] = candidates["reported_ms"][row] = NEVER_MS
            if row in out:
                system, name = self._named(row)
                for alert in (HOST_ANOMALY, PEER_DIFFERENCE):
                    why = host_rules.muted(name, out[row])
                    ended = alert.ended(host_labels(system, name), why, self._state.now_ms, by="out_of_service")
                    yield from self._alerts.ends(ended)
                self._forget_causes(row)
            else:
                candidates["hushed_ms"][row] = self._state.now_ms + round(self._host.warm_up_s * 1000)

    def _forget_causes(self, row: int) -> None:
        """Forget the anomalies of a host that is out of service, because it may return repaired."""
        series = self._series(row)
        self._state.levels.clear(series)
        self._state.peers.clear(series)
        for field in ("odd_ms", "differing_ms"):
            self._state.causes.end(np.array([row]), field)

    def _compare(self) -> Emits[None]:
        """Compare hosts with their peers, alert on hosts that differ for long, and end the alerts of hosts that no longer differ."""
        if not self._peers.enabled:
            return
        candidates, peers, now_ms = self._state.candidates.rows, self._state.peers, self._state.now_ms
        group, jobs = self._groups.peers(len(candidates), self._peers.start_s)
        self._state.give_way()
        group[(candidates["muted"] != 0) | (candidates["hushed_ms"] > now_ms)] = NO_GROUP
        host = self._state.places.hosts
        names = [""] * len(host)
        for row, (_, resource) in self._state.index.series.ids:
            names[row] = resource
        self._state.give_way()
        peers.judge(now_ms, names, host.astype(np.intp), group)
        differing = np.unique(host[peers.rows["known"][: len(host)] != 0])
        now = np.unique(host[peers.differing_now(now_ms)[: len(host)]])
        for row in now[now >= 0].tolist():
            yield from self._report_differing(row, jobs[int(group[row])])
        causes = self._state.causes
        for row in np.setdiff1d(np.flatnonzero(causes.rows["differing_ms"] != NEVER_MS), differing).tolist():
            causes.end(np.array([row]), "differing_ms")
            yield from self._alerts.take(PEER_DIFFERENCE.over(host_labels(*self._named(row)), now_ms))

    def _report_differing(self, row: int, job: str) -> Emits[None]:
        """Alert that a host differs from its peers, unless an open alert already says that it behaves unlike before."""
        state, now_ms, labels = self._state, self._state.now_ms, host_labels(*self._named(row))
        differences = {name: state.peers.difference(each) for name, each in state.index.resources(row).items()}
        known_differences = {name: each for name, each in differences.items() if each is not None}
        power_only = all(is_power(name) for name in known_differences)
        since_ms = min(each.since_ms for each in known_differences.values())
        state.causes.begin(row, "differing_ms", since_ms, now_ms, power_only=power_only)
        state.candidates.rows["reported_ms"][row] = now_ms
        jobs = state.causes.met(row, digest64(job)) if job else int(state.causes.rows["jobs"][row])
        if self._alerts.is_open(HOST_ANOMALY.name, labels):
            if not power_only:
                self._alerts.renew(HOST_ANOMALY.name, labels)
            return
        differing = Differing(job, jobs, int(state.causes.rows["differing_ms"][row]), known_differences)
        yield from self._alerts.take(host_rules.peer_difference(labels, differing, self._peers, now_ms))

    def _series(self, row: int) -> npt.NDArray[np.intp]:
        return np.array(list(self._state.index.resources(row).values()), np.intp)

    def _named(self, row: int) -> tuple[str, str]:
        return self._state.index.hosts.ids.key(row) or ("", "")


class HostGroups:
    """Groups hosts by rack, for shared alerts, and by work, for the comparison with peers."""

    def __init__(self, state: HostShardState, jobs: HostJobs) -> None:
        self._state, self._jobs = state, jobs

    def racks(self, rows: npt.NDArray[np.intp]) -> dict[Rack, list[int]]:
        """Return the host rows of each rack; hosts without a known rack are grouped by partition, or else by system."""
        rows_by_rack: dict[Rack, list[int]] = {}
        partitions: dict[tuple[str, str], str] | None = None
        for row in rows.tolist():
            key = self._state.index.hosts.ids.key(row)
            if key is None:
                continue
            host_rack = self._state.settings.racks.of(*key)
            if host_rack is not None:
                rack = Rack(key[0], "rack", host_rack.name)
            else:
                partitions = self._partitions() if partitions is None else partitions
                name = partitions.get(key, "")
                rack = Rack(key[0], "partition" if name else "system", name)
            rows_by_rack.setdefault(rack, []).append(row)
        return rows_by_rack

    def peers(self, hosts: int, start_s: float) -> tuple[npt.NDArray[np.int64], list[str]]:
        """Return the group number of each host (hosts,), negative for none, and the job key of each group, "" for idle hosts.

        The hosts of one job are peers, and so are the idle hosts of one partition. A host with two jobs has no peers, nor has a
        host whose job began less than `start_s` ago.
        """
        group, jobs = np.full(hosts, NO_GROUP, np.int64), list[str]()
        busy = np.zeros(hosts, np.bool_)
        ids, partitions = self._state.index.hosts.ids, self._partitions()
        for job in self._jobs.running():
            host_job = self._state.jobs.get(job)
            ran = host_job is not None and self._state.now_ms - host_job.start_ms >= start_s * 1000
            system, number = unquote(job.partition("/")[0]), len(jobs) if ran else NO_GROUP
            for name in self._jobs.of(job):
                row = ids.rows.get((system, name))
                if row is not None:
                    group[row] = NO_GROUP if busy[row] else number
                    busy[row] = True
            jobs.append(job)
        idle: dict[tuple[str, str], int] = {}
        for row, key in ids:
            if not busy[row] and key in partitions:
                group[row] = idle.setdefault((key[0], partitions[key]), len(jobs) + len(idle))
        return group, jobs + [""] * len(idle)

    def out_of_service(self) -> dict[int, str]:
        """Return the reported state of each host that is out of service, by row."""
        if not len(self._state.conditions):
            return {}
        alert = {row: self._jobs.state_of(*key) for row, key in self._state.index.hosts.ids}
        return {row: state for row, state in alert.items() if state not in ("", "up")}

    def _partitions(self) -> dict[tuple[str, str], str]:
        """Return the partition of each host that ran jobs of a partition; of several partitions, the first by name."""
        partition_by_host: dict[tuple[str, str], str] = {}
        for key in sorted(self._state.partitions.keys()):
            system, _, name = key.partition("/")
            for host in self._state.partitions.open(key).hosts:
                partition_by_host.setdefault((unquote(system), host), unquote(name))
        return partition_by_host
