"""Outcomes of runs: failure rates of applications and hosts, against their own past and the centre's usual rate."""

from agent.contracts.errors import InvalidInputError
from agent.contracts.events import SUCCESS, JobCompleted
from agent.contracts.hostlist import expand
from agent.contracts.names import ApplicationKey
from processors import alert_rules
from processors.facts import Outcome
from processors.failures import FailureJudgement, FailureRate
from processors.fold.desk import OF_APPLICATION, Desk
from processors.fold.warnings import Warnings

FAILED_STATES = frozenset({"FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE"})
HOST_STATES = frozenset({"FAILED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY"})


class Outcomes:
    """Counts how runs ended. A host is followed from its first failure on: before it, there is nothing to compare."""

    def __init__(self, desk: Desk, warnings: Warnings) -> None:
        self._desk = desk
        self._warnings = warnings
        self._settings = desk.settings.alerts.failure_rate

    def take(self, event: JobCompleted, application_id: str | None, former: str | None, *, first: bool) -> None:
        """Count an outcome; runs that were cancelled or moved tell nothing.

        A later report of the same run (not `first`) replaces what it counted before, as what belonged to `former`,
        where that is still among the recent outcomes.
        """
        failed = event.state in FAILED_STATES
        outcome = Outcome(event.run_id, failed) if failed or event.state == SUCCESS else None
        moved = former is not None and former != application_id
        if moved:
            self._learn(f"{OF_APPLICATION}{former}", event.run_id, None, first=False)
        if application_id is None or (outcome is None and first):
            return
        centre = self._learn(f"centre/{event.system}", event.run_id, outcome, first=first)
        key = f"{OF_APPLICATION}{application_id}"
        rate = self._learn(key, event.run_id, outcome, first=first or former != application_id)
        labels = alert_rules.application_labels(ApplicationKey.parse(application_id))
        judged = rate.score(centre.rate(), len(self._desk.models))
        self._judge(alert_rules.APPLICATION_FAILS, labels, judged, event)
        self._hosts(event, application_id, centre.rate(), first=first)
        self._bound()

    def _hosts(self, event: JobCompleted, application_id: str, usual: float, *, first: bool) -> None:
        failed = event.state in HOST_STATES
        if not failed and not len(self._desk.hosts):
            return
        for host in self._names(event):
            key = f"{event.system}/{host}"
            if not failed and key not in self._desk.hosts:
                continue
            to_blame = failed and event.failed_host in {None, host}
            rate = self._desk.hosts.open(key)
            outcome = Outcome(event.run_id, to_blame, of=application_id)
            if first or key not in self._desk.hosts:
                rate.learn(outcome)
            else:
                rate.correct(event.run_id, outcome)
            self._desk.hosts.changed(key, rate, self._desk.now_ms)
            labels = {"system": event.system, "host": host}
            self._judge(alert_rules.HOST_FAILS, labels, rate.score(usual, len(self._desk.hosts)), event)

    def _names(self, event: JobCompleted) -> tuple[str, ...]:
        try:
            hosts = ",".join(event.evidence.hosts)
            return expand(hosts, self._settings.hosts_per_run_max) if hosts else ()
        except InvalidInputError:
            self._desk.tally["bound", "hosts_per_run_max"] += 1
            return ()

    def _learn(self, key: str, run_id: str, outcome: Outcome | None, *, first: bool) -> FailureRate:
        rate = self._desk.failures.open(key)
        if first and outcome is not None:
            rate.learn(outcome)
        else:
            rate.correct(run_id, outcome)
        self._desk.failures_changed(key, rate)
        return rate

    def _judge(self, name: str, labels: dict[str, str], judged: FailureJudgement, event: JobCompleted) -> None:
        if not self._desk.recent(event.end_ms):
            return
        self._warnings.take([alert_rules.failing(name, labels, judged, self._settings, self._desk.now_ms)])

    def _bound(self) -> None:
        excess = len(self._desk.hosts) - self._settings.hosts_max
        for key in self._desk.hosts.longest_unused(excess) if excess > 0 else ():
            self._desk.hosts.remove(key)
            system, _, host = key.partition("/")
            self._warnings.take(
                [alert_rules.over(alert_rules.HOST_FAILS, {"system": system, "host": host}, self._desk.now_ms)]
            )
            self._desk.tally["bound", "hosts_max"] += 1
        excess = len(self._desk.failures) - self._desk.settings.run_time.applications_max
        for key in self._desk.failures.longest_unused(excess) if excess > 0 else ():
            self._desk.remove_failures(key)
            self._warnings.forget_failures(key)
            self._desk.tally["bound", "applications_max"] += 1
