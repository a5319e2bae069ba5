"""Outcomes of runs: failure rates of applications and hosts, against their own past and the centre's usual rate."""

from typing import TypeVar

from agent.contracts.errors import InvalidInputError
from agent.contracts.events import SUCCESS, JobCompleted
from agent.contracts.hostlist import expand
from agent.contracts.names import ApplicationKey
from processors import alert_rules
from processors.facts import Outcome
from processors.failures import FailureJudgement, FailureRate
from processors.fold.desk import Desk
from processors.fold.warnings import Warnings
from processors.shelf import Shelf

AnyRate = TypeVar("AnyRate", bound=FailureRate)
FAILED_STATES = frozenset({"FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE"})
HOST_STATES = frozenset({"FAILED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY"})


class Outcomes:
    """Counts how runs ended. A host is followed from its first failure on: before it, there is nothing to compare."""

    def __init__(self, desk: Desk, warnings: Warnings) -> None:
        self._desk = desk
        self._warnings = warnings
        self._settings = desk.settings.alerts.failure_rate

    def take(self, application_id: str, event: JobCompleted) -> None:
        """Count an outcome; runs that were cancelled or moved tell nothing."""
        failed = event.state in FAILED_STATES
        if not (failed or event.state == SUCCESS):
            return
        centre = self._learn(self._desk.failures, f"centre/{event.system}", Outcome(event.run_id, failed))
        usual = centre.rate()
        key = ApplicationKey.parse(application_id)
        rate = self._learn(self._desk.failures, f"application/{application_id}", Outcome(event.run_id, failed))
        labels = alert_rules.application_labels(key)
        self._judge(alert_rules.APPLICATION_FAILS, labels, rate.score(usual, len(self._desk.models)), event)
        self._hosts(event, application_id, usual)

    def _hosts(self, event: JobCompleted, application_id: str, usual: float) -> None:
        failed = event.state in HOST_STATES
        if not failed and not len(self._desk.hosts):
            return
        for host in self._names(event):
            key = f"{event.system}/{host}"
            if not failed and key not in self._desk.hosts:
                continue
            to_blame = failed and event.failed_host in {None, host}
            rate = self._learn(self._desk.hosts, key, Outcome(event.run_id, to_blame, of=application_id))
            labels = {"system": event.system, "host": host}
            self._judge(alert_rules.HOST_FAILS, labels, rate.score(usual, len(self._desk.hosts)), event)
        self._bound()

    def _names(self, event: JobCompleted) -> tuple[str, ...]:
        try:
            hosts = ",".join(event.evidence.hosts)
            return expand(hosts, self._settings.hosts_per_run_max) if hosts else ()
        except InvalidInputError:
            self._desk.tally["bound", "hosts_per_run_max"] += 1
            return ()

    def _learn(self, shelf: Shelf[AnyRate], key: str, outcome: Outcome) -> AnyRate:
        rate = shelf.open(key)
        rate.learn(outcome)
        shelf.changed(key, rate, self._desk.now_ms)
        return rate

    def _judge(self, name: str, labels: dict[str, str], judged: FailureJudgement, event: JobCompleted) -> None:
        if not self._desk.recent(event.end_ms):
            return
        self._warnings.take([alert_rules.failing(name, labels, judged, self._settings, self._desk.now_ms)])

    def _bound(self) -> None:
        excess = len(self._desk.hosts) - self._settings.hosts_max
        for key in self._desk.hosts.longest_unused(excess) if excess > 0 else ():
            self._desk.hosts.remove(key)
            self._desk.tally["bound", "hosts_max"] += 1
