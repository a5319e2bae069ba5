"""Alerts about hosts: what their detectors found becomes one alert for a host, or one for a whole rack.

Everything is judged at ticks: hosts with new records close together, or whose resources contradict each other for long,
have news. News wait for a moment whether the whole rack has them; then they are told.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from processors.alerts import hosts as host_rules
from processors.alerts.applications import HOST_ANOMALY, RACK_ANOMALY, STRAGGLER_HOST
from processors.alerts.hosts import Contradicts, Odd, Rack, host_labels
from processors.contracts.telemetry import is_cumulative
from processors.hosts.detectors import Difference, Mark, Records, Suspects, Unlike, UnlikeRules
from processors.hosts.multivariate import Together
from processors.hosts.rows import NEVER_MS
from processors.hosts.windows import MinuteBatch
from processors.pipeline.alerts import OpenAlerts
from processors.pipeline.host_jobs import HostGroups, Placed
from processors.pipeline.host_state import HostDesk
from processors.windows.settings import MINUTE_MS

LATE_MS: Final = 180_000  # what was found so long ago can still be news: minutes come late
LIVE_MS: Final = 600_000  # a host that said nothing for so long is no part of its rack
Rows = npt.NDArray[np.intp]


class HostAlerts:
    """The detectors of all hosts of a shard, and their alerts."""

    name: Final = Suspects.name

    def __init__(self, desk: HostDesk, placed: Placed) -> None:
        self._desk, self._placed = desk, placed
        settings = desk.settings.alerts
        self._host, self._rack, self._straggler = settings.host_anomaly, settings.rack_anomaly, settings.straggler
        self._window_ms = round(self._host.window_s * 1000)
        rules = UnlikeRules(self._straggler.deviations, self._straggler.difference, self._straggler.share_max)
        self._records, self._unlike = Records(), Unlike(re.compile(self._straggler.resources), rules)
        self._together, self._suspects = Together(high_ratio=self._host.combined_ratio), Suspects()
        for series in (self._records, self._unlike, self._together.places):
            desk.index.series.join(series)
        for hosts in (self._together, self._suspects):
            desk.index.hosts.join(hosts)
        self._groups, self._alerts = HostGroups(desk, placed), OpenAlerts(desk)
        self._minute = 0

    def restored(self) -> None:
        """Go on from the tick of the checkpoint that was put back."""
        self._minute = self._desk.now_ms // MINUTE_MS

    def take(self, batch: MinuteBatch) -> None:
        """Judge and learn a minute of many series; nothing is said yet. What only ever grows is left out."""
        places, numbers = self._together.places, self._desk.index.series.ids
        for i in np.flatnonzero(places.rows["host"][batch.row] != batch.host).tolist():
            key = numbers.key(int(batch.row[i]))
            if key is not None and is_cumulative(key[1]):
                places.leave_out(int(batch.row[i]), int(batch.host[i]))
        at = np.flatnonzero(places.rows["left_out"][batch.row] == 0)
        if at.size < batch.row.size:
            batch = MinuteBatch(batch.row[at], batch.host[at], batch.minute_ms[at], batch.means[at])
        self._suspects.seen(batch.host, batch.minute_ms)
        self._records.take(batch)
        self._together.take(batch)
        self._unlike.take(batch)

    def tick(self, now_ms: int) -> None:
        """Tell what was found, and let alerts end."""
        self._together.tick(now_ms)
        if now_ms // MINUTE_MS != self._minute:
            self._minute = now_ms // MINUTE_MS
            self._mute()
            self._compare()
        self._judge()
        self._tell()
        self._alerts.tick()

    def anomalous(self) -> Sequence[int]:
        """Return the rows of hosts that are part of an open alert."""
        return [int(row) for row in np.flatnonzero(self._suspects.rows["told_ms"] >= self._shown_since_ms())]

    def since_ms(self, host: int, resource: str) -> int | None:
        """Return since when a resource of a host is part of an open alert."""
        row = self._desk.index.resources(host).get(resource)
        if row is None or self._suspects.rows["told_ms"][host] < self._shown_since_ms():
            return None
        mark = self._marks(host).get(resource)
        found = mark or self._unlike.difference(row)
        return found.since_ms if found else None

    def score(self, row: int) -> float | None:
        """Return the last score of a resource, 0 to 1."""
        return self._records.score(row)

    def host_score(self, host: int) -> float | None:
        """Return the last score of all resources of a host together, 0 to 1; None of one with a single resource."""
        return self._together.score(host) if self._together.resources[host] > 1 else None

    def _judge(self) -> None:
        """Note news of hosts that may be told of."""
        if not self._host.enabled:
            return
        suspects, host = self._suspects, self._together.places.hosts
        by_records = suspects.close(self._records.fired_ms, host, self._window_ms, self._host.resources_min)
        high = np.flatnonzero(self._together.high >= self._host.combined_minutes)
        since_ms, end_ms = self._together.high_since_ms[high], self._together.scored_ms[high] + MINUTE_MS
        by_score = suspects.high(high, since_ms, end_ms, self._window_ms)
        found = np.union1d(by_records, by_score)
        found = found[self._may_be_told()[found] & (suspects.rows["news_ms"][found] == NEVER_MS)]
        suspects.rows["news_ms"][found] = self._desk.now_ms

    def _may_be_told(self) -> npt.NDArray[np.bool_]:
        """Return of which hosts something was found that may raise an alert: not of new ones, or long ago."""
        suspects, now_ms = self._suspects, self._desk.now_ms
        known = suspects.rows["odd_ms"] >= suspects.rows["first_ms"] + round(self._host.learn_s * 1000)
        recent = suspects.rows["odd_ms"] >= now_ms - round(self._desk.settings.alerts.run_age_max_s * 1000)
        found = (suspects.rows["odd_ms"] != NEVER_MS) & known & recent
        return np.asarray(found & (suspects.rows["muted"] == 0) & (suspects.rows["odd_ms"] >= suspects.rows["hushed_ms"]))

    def _tell(self) -> None:
        """Tell the news: of racks first, then of hosts by themselves."""
        news_ms = self._suspects.rows["news_ms"]
        if not (news_ms != NEVER_MS).any():
            return
        for row in np.flatnonzero(news_ms != NEVER_MS).tolist():
            if self._groups.state(row):
                news_ms[row] = NEVER_MS  # out of service since the minute began
        if self._rack.enabled:
            self._tell_racks()
        for row in np.flatnonzero(news_ms != NEVER_MS).tolist():
            self._tell_host(row)

    def _tell_racks(self) -> None:
        suspects, now_ms = self._suspects, self._desk.now_ms
        since_ms = now_ms - self._window_ms - round(self._host.gather_s * 1000) - LATE_MS
        odd = np.flatnonzero(self._may_be_told() & (suspects.rows["odd_ms"] >= since_ms))
        live: dict[Rack, list[int]] = {}
        for rack, rows in sorted(self._groups.racks(odd).items()):
            news = [row for row in rows if suspects.rows["news_ms"][row] != NEVER_MS]
            is_open = self._alerts.is_open(host_rules.ends(RACK_ANOMALY, rack.labels, "", now_ms))
            if not news or not (is_open or len(rows) >= self._rack.hosts_min):
                continue
            live = live or self._groups.racks(np.flatnonzero(self._heard_ms() >= now_ms - LIVE_MS))
            of = max(len(live.get(rack, ())), len(rows))
            if is_open or len(rows) >= self._rack.share_min * of:
                self._tell_rack(rack, rows, of)

    def _tell_rack(self, rack: Rack, rows: list[int], of: int) -> None:
        now_ms, names = self._desk.now_ms, [self._named(row)[1] for row in rows]
        resources = Counter(name for row in rows for name in self._marks(row))
        since_ms = int(self._suspects.rows["since_ms"][rows].min())
        self._alerts.take(
            [host_rules.rack_anomaly(
                rack, sorted(names), of, resources, since_ms, settings=self._rack, now_ms=now_ms
            )]
        )  # fmt: skip
        self._suspects.rows["news_ms"][rows], self._suspects.rows["told_ms"][rows] = NEVER_MS, now_ms
        why = f"It is part of the anomaly of {rack.said}."
        for row in rows:
            self._alerts.ends(host_rules.ends(HOST_ANOMALY, host_labels(*self._named(row)), why, now_ms))

    def _tell_host(self, row: int) -> None:
        """Tell of a host, at once where its alert is open, else once it waited for the others of its rack."""
        suspects, now_ms = self._suspects, self._desk.now_ms
        labels = host_labels(*self._named(row))
        is_open = self._alerts.is_open(host_rules.ends(HOST_ANOMALY, labels, "", now_ms))
        if not is_open and now_ms - suspects.rows["news_ms"][row] < self._host.gather_s * 1000:
            return
        suspects.rows["news_ms"][row] = NEVER_MS
        odd = Odd(int(suspects.rows["since_ms"][row]), self._marks(row), self._resources(row), self._against(row))
        if odd.marks or odd.contradicts:
            suspects.rows["told_ms"][row] = now_ms
            self._alerts.take([host_rules.host_anomaly(labels, odd, self._host, now_ms)])

    def _marks(self, host: int) -> dict[str, Mark]:
        """Return the records of a host's resources that came close to the last of them, the first ones first."""
        since_ms = int(self._suspects.rows["odd_ms"][host]) - self._window_ms
        marks = {name: self._records.mark(row) for name, row in self._desk.index.resources(host).items()}
        near = {name: mark for name, mark in marks.items() if mark is not None and mark.fired_ms >= since_ms}
        return dict(sorted(near.items(), key=lambda one: (one[1].since_ms, one[0])))

    def _against(self, host: int) -> Contradicts | None:
        """Return which resource of a host contradicts the others, if it has done so for long."""
        found = self._together.contradiction(host)
        if found is None or found.row is None or self._together.high[host] < self._host.combined_minutes:
            return None
        series = self._desk.index.series.ids.key(found.row)
        return Contradicts(series[1], found.observed, found.expected, found.since_ms) if series else None

    def _mute(self) -> None:
        """Follow what is said of hosts: alerts of those out of service end, those that are back are left alone a while."""
        suspects, now_ms = self._suspects, self._desk.now_ms
        for row, (system, name) in self._desk.index.hosts.ids:
            state = self._groups.state(row)
            if bool(state) == bool(suspects.rows["muted"][row]):
                continue
            suspects.rows["muted"][row] = bool(state)
            suspects.rows["news_ms"][row] = suspects.rows["told_ms"][row] = NEVER_MS
            if state:
                self._end(system, name, host_rules.muted(name, state))
            else:
                suspects.rows["hushed_ms"][row] = now_ms + round(self._host.warm_up_s * 1000)

    def _end(self, system: str, host: str, why: str) -> None:
        for alert in (HOST_ANOMALY, STRAGGLER_HOST):
            self._alerts.ends(host_rules.ends(alert, host_labels(system, host), why, self._desk.now_ms))

    def _compare(self) -> None:
        """Compare hosts with their peers, and tell of those that are unlike them for long."""
        if not self._straggler.enabled:
            return
        suspects, now_ms = self._suspects, self._desk.now_ms
        host, series = self._together.places.hosts, self._desk.index.series.ids
        group, jobs = self._groups.peers(len(suspects.rows["muted"]), self._straggler.start_s)
        group[(suspects.rows["muted"] != 0) | (suspects.rows["hushed_ms"] > now_ms)] = -1
        names = [""] * len(host)
        for row, (_, resource) in series:
            names[row] = resource
        self._unlike.judge(now_ms, names, host.astype(np.intp), group)
        since_ms = self._unlike.since_ms
        long = (since_ms != NEVER_MS) & (since_ms <= now_ms - round(self._straggler.for_s * 1000))
        for row in np.unique(host[long]).tolist():
            found: dict[str, Difference] = {}
            for name, own in self._desk.index.resources(row).items():
                difference = self._unlike.difference(own) if long[own] else None
                if difference is not None:
                    found[name] = difference
            suspects.rows["told_ms"][row] = now_ms
            said = host_rules.straggler(
                host_labels(*self._named(row)), jobs[int(group[row])], found, settings=self._straggler, now_ms=now_ms
            )
            self._alerts.take([said])

    def _shown_since_ms(self) -> int:
        """Return since when hosts were told of that are shown as anomalous."""
        keep_ms = round(max(self._host.keep_firing_s, self._rack.keep_firing_s) * 1000)
        return max(self._desk.now_ms - keep_ms, 0)

    def _resources(self, row: int) -> int:
        return sum(not is_cumulative(name) for name in self._desk.index.resources(row))

    def _heard_ms(self) -> npt.NDArray[np.int64]:
        return self._desk.index.hosts.rows["last_ms"]

    def _named(self, row: int) -> tuple[str, str]:
        return self._desk.index.hosts.ids.key(row) or ("", "")
