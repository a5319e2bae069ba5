"""Conditions become alerts: one life per fingerprint, changes of status become messages."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import msgspec

from processors.alerts import applications, profiles
from processors.alerts.lifecycle import AlertLife, Condition, Transition
from processors.alerts.messages import Links, fingerprint, message
from processors.alerts.policy import NO_RUN, About, Policy
from processors.contracts.hosts import ExplainedRun, HostCause
from processors.contracts.names import ApplicationKey, job_key
from processors.contracts.outputs import Tombstone
from processors.pipeline.state import OF_APPLICATION, FoldSettings, ShardState
from processors.run_time.messages import Context
from processors.store import Store

DUE_PER_TICK_MAX: Final = 1000
EXPLAINING_MAX: Final = 10_000  # hosts of which it is listed which runs they explain


class AlertState(Protocol):
    """What alerts need of a state: a store of their own, and where what they say goes."""

    settings: FoldSettings
    now_ms: int
    outbox: list[Any]
    tally: Counter[tuple[str, str]]
    alerts: Store[AlertLife]

    @property
    def context(self) -> Context:
        """What messages say of their maker and moment."""


class OpenAlerts:
    """All alerts of one state; at most `open_max` are open at once, more are counted."""

    def __init__(self, state: AlertState) -> None:
        self._alerts = state
        self._policy = Policy(state.settings.alerts)
        self._cleared_ms = -1  # once a tick is enough: it looks at all

    def take(self, conditions: Iterable[Condition], about: About = NO_RUN) -> None:
        """Note conditions and send what changes; `about` is what is known of the run that they are about."""
        for condition in conditions:
            self.opens(condition, about)

    def opens(self, condition: Condition, about: About = NO_RUN) -> bool:
        """Note a condition, send what changes, and tell whether its alert is open then."""
        key, state = fingerprint(condition.name, condition.labels), self._alerts
        if condition.holds:
            not_again_ms = round(self._policy.rule(condition.name).not_again_s * 1000)
            withheld_by = self._policy.withheld_by(condition, about)
            condition = msgspec.structs.replace(condition, not_again_ms=not_again_ms, withheld_by=withheld_by)
        known = key in state.alerts
        if not condition.holds and not known:
            return False
        if not known and not self._has_room():
            state.tally["bound", "open_alerts_max"] += 1
            return False
        life = state.alerts.open(key)
        if life.score(condition):
            self._send(key, life, life.take(condition))
        return life.open

    def _has_room(self) -> bool:
        """Return whether one more alert may be open; of those that are not, it is forgotten when they may fire again."""
        alerts, most = self._alerts.alerts, self._alerts.settings.alerts.open_max
        if len(alerts) >= most and self._cleared_ms != self._alerts.now_ms:
            self._cleared_ms = self._alerts.now_ms
            for key in [key for key in alerts.keys() if not alerts.open(key).open]:  # noqa: SIM118  no mapping
                alerts.remove(key)
        return len(alerts) < most

    def ends(self, condition: Condition) -> bool:
        """Let an alert end with the words of a condition, at the next tick; False where none is open."""
        return self.is_open(condition.name, condition.labels) and self.opens(condition)

    def renew(self, name: str, labels: Mapping[str, str]) -> None:
        """Let an alert that is open stay so for as long as if what it says had been said now; changes nothing of it."""
        key, alerts = fingerprint(name, labels), self._alerts.alerts
        life = alerts.get(key)
        if life is not None and life.open:
            life.renew(self._alerts.now_ms)
            alerts.changed(key, life, self._alerts.now_ms)

    def is_open(self, name: str, labels: Mapping[str, str]) -> bool:
        """Whether the alert with a name and labels is open."""
        life = self._alerts.alerts.get(fingerprint(name, labels))
        return life is not None and life.open

    def due_ms(self, name: str, labels: Mapping[str, str]) -> int | None:
        """Return when the alert with a name and labels fires or ends unless something happens; None where none is open."""
        life = self._alerts.alerts.get(fingerprint(name, labels))
        return life.due_ms() if life is not None and life.open else None

    def tick(self) -> None:
        """Let the alerts whose time has come fire or resolve."""
        for key in self._alerts.alerts.due(self._alerts.now_ms, DUE_PER_TICK_MAX):
            life = self._alerts.alerts.open(key)
            self._send(key, life, life.tick(self._alerts.now_ms))

    def _send(self, key: str, life: AlertLife, transitions: Iterable[Transition]) -> None:
        state = self._alerts
        links = Links(state.settings.external_url, state.settings.alerts.runbook_url or "")
        for change in transitions:
            withheld_by = change.condition.withheld_by
            if change.ended_by is not None:
                state.tally[f"resolved_{change.ended_by}", change.condition.name] += 1
            if not withheld_by:
                state.outbox.append(message(key, change, links, state.context))
            elif change.status == "firing":
                state.tally["withheld", change.condition.name] += 1
                state.outbox.append(message(key, change, links, state.context))
            elif change.status == "resolved":
                state.outbox.append(Tombstone("alerts", key))
        if life.over:
            state.alerts.remove(key)
        else:
            state.alerts.changed(key, life, state.now_ms)


class Warnings(OpenAlerts):
    """All alerts of one shard about applications."""

    def __init__(self, state: ShardState) -> None:
        super().__init__(state)
        self._state = state

    def fire_and_resolve(self, _work: object) -> None:
        """Let the alerts whose time has come fire or resolve, and forget runs that hosts explained long ago."""
        self.tick()
        for key in self._state.explained_runs.due(self._state.now_ms, DUE_PER_TICK_MAX):
            self._state.explained_runs.remove(key)

    def explained(self, system: str, cause: HostCause, run: ExplainedRun) -> None:
        """List a run under the host that explains it."""
        self._state.tally["explained", "run_time"] += 1
        store, key = self._state.explained_runs, job_key(system, cause.host)
        runs = store.open(key)
        runs.learn(run)
        store.changed(key, runs, self._state.now_ms)
        for gone in store.longest_unused(len(store) - EXPLAINING_MAX):
            store.remove(gone)
            self._state.tally["bound", "explaining_hosts_max"] += 1

    def forget_application(self, application_id: str) -> None:
        """Forget the model of an application, with everything that it said: messages and alerts."""
        model = self._state.models.get(application_id)
        flagged = model.flagged if model else ()
        verdicts = self._state.settings.alerts.unreliable.verdicts
        key = ApplicationKey.parse(application_id)
        self.take(applications.forgotten(key, flagged, verdicts, self._state.now_ms))
        self.take(profiles.forgotten(key, self._state.now_ms))
        for name in (applications.REGRESSION, applications.IMPROVEMENT):
            labels = applications.application_labels(key)
            self.ends(applications.ended(name, labels, applications.FORGOTTEN, self._state.now_ms, by="forgotten"))
        self._state.remove_application(application_id)

    def forget_failures(self, key: str) -> None:
        """Let the alert of a failure rate end that is forgotten."""
        if key.startswith(OF_APPLICATION):
            labels = applications.application_labels(ApplicationKey.parse(key.removeprefix(OF_APPLICATION)))
            over = applications.over(applications.APPLICATION_FAILS, labels, self._state.now_ms, by="forgotten")
            self.take([over])
