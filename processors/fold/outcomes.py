"""Outcomes of runs: failure rates of applications and hosts, against their own past and the centre's usual rate."""

from agent.contracts.errors import InvalidInputError
from agent.contracts.events import SUCCESS, HostState, JobCompleted
from agent.contracts.hostlist import expand
from agent.contracts.names import ApplicationKey
from processors import alert_rules
from processors.facts import Outcome
from processors.failures import FailureJudgement, FailureRate
from processors.fold.desk import OF_APPLICATION, Desk
from processors.fold.warnings import Warnings

FAILED_STATES = frozenset({"FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE"})
HOST_STATES = frozenset({"FAILED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY"})
IN_SERVICE = "up"


class Outcomes:
    """Counts how runs ended. A host is followed from its first failure on: before it, there is nothing to compare.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> from agent.contracts.events import Evidence
    >>> desk = make_shard(Config()).desk
    >>> failed = JobCompleted("exa", "1", "exa/1@0", 0, 60_000, 60.0, "FAILED", Evidence(hosts=("nid1",)))
    >>> Outcomes(desk, Warnings(desk)).take(failed, "exa/lammps//nodes", None, first=True)
    >>> list(desk.failures.keys()), list(desk.hosts.keys())
    (['centre/exa', 'application/exa/lammps//nodes'], ['exa/nid1'])
    """

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
        usual = centre.rate()
        if self._worth_judging(rate, event):
            labels = alert_rules.application_labels(ApplicationKey.parse(application_id))
            self._judge(alert_rules.APPLICATION_FAILS, labels, rate, rate.score(usual, len(self._desk.models)))
        self._hosts(event, application_id, usual, first=first)
        self._bound()

    def host_told(self, event: HostState) -> None:
        """Forget how runs ended on a host that is taken out of service: what comes back may have been mended."""
        key = f"{event.system}/{event.host}"
        if event.state != IN_SERVICE and key in self._desk.hosts and self._desk.recent(event.time_ms):
            self._desk.hosts.remove(key)
            labels = {"system": event.system, "host": event.host}
            self._warnings.take([alert_rules.over(alert_rules.HOST_FAILS, labels, self._desk.now_ms)])

    def _hosts(self, event: JobCompleted, application_id: str, usual: float, *, first: bool) -> None:
        failed = event.state in HOST_STATES
        if not failed and not len(self._desk.hosts):
            return
        blamed, spared = (Outcome(event.run_id, to_blame, of=application_id) for to_blame in (True, False))
        for host in self._names(event):
            key = f"{event.system}/{host}"
            known = self._desk.hosts.get(key)
            if not failed and known is None:
                continue
            rate = known or self._desk.hosts.open(key)
            outcome = blamed if failed and event.failed_host in {None, host} else spared
            if first or known is None:
                rate.learn(outcome)
            else:
                rate.correct(event.run_id, outcome)
            self._desk.hosts.changed(key, rate, self._desk.now_ms)
            if self._worth_judging(rate, event):
                labels = {"system": event.system, "host": host}
                self._judge(alert_rules.HOST_FAILS, labels, rate, rate.score(usual, len(self._desk.hosts)))

    def _names(self, event: JobCompleted) -> tuple[str, ...]:
        try:
            hosts = ",".join(event.evidence.hosts)
            if hosts.isalnum():  # most runs have one host, and no brackets
                return (hosts,)
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

    def _worth_judging(self, rate: FailureRate, event: JobCompleted) -> bool:
        """Tell whether a rate may raise an alert, or has one open: what is neither costs most and is left alone."""
        return (rate.suspicious() or not rate.quiet) and self._desk.recent(event.end_ms)

    def _judge(self, name: str, labels: dict[str, str], rate: FailureRate, judged: FailureJudgement) -> None:
        condition = alert_rules.failing(name, labels, judged, self._settings, self._desk.now_ms)
        rate.quiet = not self._warnings.opens(condition)

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
