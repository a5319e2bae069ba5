"""The alerts of a shard: conditions open, renew or end an alert, and each change of status becomes a message."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from processors.alerts.lifecycle import AlertLife, Condition, Transition
from processors.alerts.policy import NO_RUN, About, AlertLinks, Policy, fingerprint, message
from processors.contracts.hosts import ExplainedRun, HostCause
from processors.contracts.names import job_key
from processors.contracts.outputs import Tombstone
from processors.pipeline.host_state import HostShardState
from processors.pipeline.state import Emits, ShardState

DUE_PER_TICK_MAX: Final = 1000


class OpenAlerts:
    """The alerts of one shard. At most `open_max` alerts are open at once; a further alert is refused and counted."""

    def __init__(self, state: ShardState | HostShardState) -> None:
        self._state = state
        self._policy = Policy(state.settings.alerts)
        # time of the last search for closed alerts, which visits all alerts: once per tick
        self._cleared_ms = -1

    def take(self, *conditions: Condition | None, about: About = NO_RUN) -> Emits[None]:
        """Process conditions and send the alerts that change; `about` describes the run in which the conditions were found."""
        for condition in conditions:
            if condition is not None:
                yield from self.opens(condition, about)

    def opens(self, condition: Condition, about: About = NO_RUN) -> Emits[bool]:
        """Process a condition, send the change, and return whether the alert is open afterwards."""
        key, state = fingerprint(condition.name, condition.labels), self._state
        if condition.holds:
            not_again_ms = round(self._policy.rule(condition.name).not_again_s * 1000)
            withheld_by = self._policy.withheld_by(condition, about)
            condition = msgspec.structs.replace(condition, not_again_ms=not_again_ms, withheld_by=withheld_by)
        is_new = key not in state.alerts
        if not condition.holds and is_new:
            return False
        if is_new and not self._has_room():
            state.tally["bound", "open_alerts_max"] += 1
            return False
        life = state.alerts.open(key)
        if life.score(condition):
            yield from self._messages(key, life, life.take(condition))
        return life.open

    def _has_room(self) -> bool:
        """Return whether another alert may open without exceeding `open_max`.

        If there is no room, all closed alerts are removed first. A removed alert may then fire again sooner than its rule allows.
        """
        alerts, most = self._state.alerts, self._state.settings.alerts.open_max
        if len(alerts) >= most and self._cleared_ms != self._state.now_ms:
            self._cleared_ms = self._state.now_ms
            for key in [key for key in alerts.keys() if not alerts.open(key).open]:  # noqa: SIM118  no mapping
                alerts.remove(key)
        return len(alerts) < most

    def ends(self, condition: Condition) -> Emits[bool]:
        """End an alert with the reason in `condition`, at its next tick; return False if the alert is not open.

        The description and the evidence then tell what the alert was about.
        """
        life = self._state.alerts.get(fingerprint(condition.name, condition.labels))
        if life is None or life.condition is None:
            return False
        changes = {"description": f"The alert was: {life.condition.summary}", "evidence": life.condition.evidence}
        return (yield from self.opens(msgspec.structs.replace(condition, **changes)))

    def renew(self, name: str, labels: Mapping[str, str]) -> None:
        """Keep an open alert open as if its condition had been reported again; do nothing if the alert is not open."""
        key, alerts = fingerprint(name, labels), self._state.alerts
        life = alerts.get(key)
        if life is not None and life.open:
            life.renew(self._state.now_ms)
            alerts.changed(key, life, self._state.now_ms)

    def is_open(self, name: str, labels: Mapping[str, str], run_id: str = "") -> bool:
        """Return whether an alert is open and, if `run_id` is set, about this run."""
        life = self._state.alerts.get(fingerprint(name, labels))
        runs = None if life is None or life.condition is None else life.condition.evidence.runs
        return runs is not None and (not run_id or run_id in runs)

    def due_ms(self, name: str, labels: Mapping[str, str]) -> int | None:
        """Return the time (ms) at which an alert fires or ends unless the alert is renewed; None if the alert is not open."""
        life = self._state.alerts.get(fingerprint(name, labels))
        return life.due_ms() if life is not None and life.open else None

    def tick(self) -> Emits[None]:
        for key in self._state.alerts.due(self._state.now_ms, DUE_PER_TICK_MAX):
            life = self._state.alerts.open(key)
            yield from self._messages(key, life, life.tick(self._state.now_ms))

    def _messages(self, key: str, life: AlertLife, transitions: Iterable[Transition]) -> Emits[None]:
        state = self._state
        if life.over:
            state.alerts.remove(key)
        else:
            state.alerts.changed(key, life, state.now_ms)
        links = AlertLinks(state.settings.external_url, state.settings.alerts.runbook_url or "")
        for change in transitions:
            withheld_by = change.condition.withheld_by
            if change.ended_by is not None:
                state.tally[f"resolved_{change.ended_by}", change.condition.name] += 1
            if withheld_by and change.status == "firing":
                state.tally["withheld", change.condition.name] += 1
            if not withheld_by or change.status == "firing":
                yield message(key, change, links, state.context)
            elif change.status == "resolved":
                yield Tombstone("alerts", key)


class Warnings(OpenAlerts):
    """Sends the alerts about the applications of one shard."""

    _state: ShardState

    def fire_and_resolve(self, _work: object) -> Emits[None]:
        """Fire and resolve the alerts that are due, and forget old slow runs that the fault of a host explained."""
        yield from self.tick()
        self._state.explained_runs.forget_due(self._state.now_ms, DUE_PER_TICK_MAX)

    def explained(self, system: str, cause: HostCause, run: ExplainedRun) -> None:
        """Add a slow run to the list of the host that explains it."""
        store = self._state.explained_runs
        store.learn(job_key(system, cause.host), run, self._state.now_ms)
        for dropped in store.excess(store.bound):
            store.remove(dropped)
            self._state.tally["bound", "explaining_hosts_max"] += 1
