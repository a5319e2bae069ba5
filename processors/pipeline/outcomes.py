"""Failure rates of applications, of centres, and of hosts; a host is suspicious if applications fail more often on it than elsewhere."""

from collections.abc import Sequence

from processors.alerts import applications, rules
from processors.alerts.rules import AlertType
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import SUCCESS, HostState, JobCompleted
from processors.contracts.names import ApplicationKey, lane_of_run
from processors.contracts.nodes import expand
from processors.facts import Outcome
from processors.jobs.memory import FailureJudgement, FailureRate, HostFailureRate
from processors.pipeline.alerts import Warnings
from processors.pipeline.stage import RunReport, TickWork
from processors.pipeline.state import OF_APPLICATION, Emits, ShardState
from processors.store import digest64

FAILED_STATES = frozenset({"FAILED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL", "BOOT_FAIL", "DEADLINE"})
HOST_STATES = frozenset({"FAILED", "NODE_FAIL", "BOOT_FAIL", "OUT_OF_MEMORY"})
IN_SERVICE = "up"


class Outcomes:
    """Counts the outcomes of runs. A host is tracked from its first failure on, because a host without a failure is not suspicious."""

    def __init__(self, state: ShardState, warnings: Warnings) -> None:
        self._state = state
        self._warnings = warnings
        self._settings = state.settings.alerts.failure_rate

    def take(self, report: RunReport) -> Emits[None]:
        """Count whether a run failed; a cancelled run does not count.

        A later report of the run replaces the outcome of the earlier report, as long as that outcome is among the recent outcomes.
        """
        event, application_id, first = report.event, report.placement.application_id, report.kind == "first"
        former = report.former.application_id if report.former else None
        failed = event.state in FAILED_STATES
        outcome = Outcome(event.run_id, failed) if failed or event.state == SUCCESS else None
        if former is not None and former != application_id:
            self._learn(f"{OF_APPLICATION}{former}", event.run_id, None, first=False)
        if application_id is None or (outcome is None and first):
            return
        system = f"centre/{event.system}"
        centre = self._learn(system, event.run_id, outcome, first=first, lane=system)
        key = f"{OF_APPLICATION}{application_id}"
        lane = lane_of_run(application_id, event.evidence.user, self._state.failures.lane(key))
        rate = self._learn(key, event.run_id, outcome, first=first or former != application_id, lane=lane)
        if self._worth_judging(rate, event):
            labels = rules.application_labels(ApplicationKey.parse(application_id))
            judged = rate.score(centre.rate(), len(self._state.models))
            yield from self._judge(rules.APPLICATION_FAILS, labels, rate, judged)
        yield from self._hosts(event, application_id, (rate, centre), first=first)

    def forget_host(self, event: HostState) -> Emits[None]:
        """Forget the outcomes on a host that is taken out of service, because the host may return repaired."""
        key = f"{event.system}/{event.host}"
        if event.state != IN_SERVICE and key in self._state.hosts and self._state.recent(event.time_ms):
            self._state.hosts.remove(key)
            labels = {"system": event.system, "host": event.host}
            yield from self._warnings.take(rules.HOST_FAILS.over(labels, self._state.now_ms, by="out_of_service"))

    def _hosts(
        self, event: JobCompleted, application_id: str, rates: tuple[FailureRate, FailureRate], *, first: bool
    ) -> Emits[None]:
        """Count an outcome for the hosts of a run; `rates` are the rates of the application and of the centre."""
        failed = event.state in HOST_STATES
        if not failed and not len(self._state.hosts):
            return
        hosts = [(host, self._state.hosts.get(f"{event.system}/{host}")) for host in self._names(event)]
        usual = rates[0].rate()
        parts = _shares(event, hosts) if failed else {}
        for host, tracked in hosts:
            if not failed and tracked is None:
                continue  # hosts are tracked from their first failure on
            key = f"{event.system}/{host}"
            rate = tracked or self._state.hosts.open(key)
            expected = max(each.expected((digest64(event.run_id), *rate.runs)) for each in rates) if failed else usual
            blamed = failed and event.failed_host in {None, host}
            outcome = Outcome(event.run_id, blamed, application_id, expected, parts.get(host, 0.0))
            if first or tracked is None:
                rate.learn(outcome)
            else:
                rate.correct(event.run_id, outcome)
            if rate.suspicious():
                self._expect(rate)
            self._state.hosts.changed(key, rate, self._state.now_ms)
            if self._worth_judging(rate, event):
                labels, judged = rules.host_labels(event.system, host), rate.score(len(self._state.hosts))
                yield from self._judge(rules.HOST_FAILS, labels, rate, judged)

    def _expect(self, rate: HostFailureRate) -> None:
        """Raise the expected failures of a host's runs to the present failure rates of their applications.

        An application may have begun to fail on all hosts since these runs. The expectation is stored, so it must not depend on
        `quiet`, which a restart resets.
        """
        for application in sorted(rate.failing):
            name = self._state.application_id(application)
            application_rate = self._state.failures.get(f"{OF_APPLICATION}{name}") if name else None
            if application_rate is not None:
                rate.expect(application, application_rate.expected(rate.runs))

    def _names(self, event: JobCompleted) -> tuple[str, ...]:
        try:
            hosts = ",".join(event.evidence.hosts)
            return expand(hosts, self._settings.hosts_per_run_max) if hosts else ()
        except InvalidInputError:
            self._state.tally["bound", "hosts_per_run_max"] += 1
            return ()

    def _learn(
        self, key: str, run_id: str, outcome: Outcome | None, *, first: bool, lane: str | None = None
    ) -> FailureRate:
        rate = self._state.failures.open(key)
        if key not in self._state.failures:
            rate.quiet = True  # a new rate has no open alert
        if first and outcome is not None:
            rate.learn(outcome)
        else:
            rate.correct(run_id, outcome)
        self._state.failures_changed(key, rate, lane)
        return rate

    def _worth_judging(self, rate: FailureRate | HostFailureRate, event: JobCompleted) -> bool:
        """Return whether a rate may raise an alert or has an open alert; all other rates are skipped to save time."""
        return (rate.suspicious() or not rate.quiet) and self._state.recent(event.end_ms)

    def _judge(
        self, alert: AlertType, labels: dict[str, str], rate: FailureRate | HostFailureRate, judged: FailureJudgement
    ) -> Emits[None]:
        is_open = self._warnings.is_open(alert.name, labels)
        condition = applications.failing(alert, labels, judged, self._settings, self._state.now_ms, is_open=is_open)
        rate.quiet = not (yield from self._warnings.opens(condition))

    def forget_excess(self, _work: TickWork) -> Emits[None]:
        """Forget failure rates if there are more than the bound allows; only at ticks, because this search visits all rates."""
        state, now_ms = self._state, self._state.now_ms
        for key in state.hosts.excess(state.hosts.bound):
            state.hosts.remove(key)
            system, _, host = key.partition("/")
            labels = {"system": system, "host": host}
            yield from self._warnings.take(rules.HOST_FAILS.over(labels, now_ms, by="forgotten"))
            state.tally["bound", "hosts_max"] += 1
        for key in state.failures.excess(state.failures.bound, state.stale_ms):
            state.remove_failures(key)
            if key.startswith(OF_APPLICATION):
                labels = rules.application_labels(ApplicationKey.parse(key.removeprefix(OF_APPLICATION)))
                over = rules.APPLICATION_FAILS.over(labels, now_ms, by="forgotten")
                yield from self._warnings.take(over)
            state.tally["bound", "applications_max"] += 1


def _shares(event: JobCompleted, hosts: Sequence[tuple[str, HostFailureRate | None]]) -> dict[str, float]:
    """Return each host's share of the blame for a failed run; a host named by the producer gets all the blame."""
    if event.failed_host is not None:
        return {event.failed_host: 1.0}
    odds = [1.0 if rate is None else rate.odds() for _, rate in hosts]
    total = sum(odds)
    return {host: odd / total for (host, _), odd in zip(hosts, odds, strict=True)}
