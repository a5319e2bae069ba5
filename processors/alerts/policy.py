"""What becomes of an alert that is true: which settings it follows, and whether it is sent or withheld."""

from collections.abc import Callable
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Final, NamedTuple

from processors.alerts import applications as names
from processors.alerts.lifecycle import Condition
from processors.contracts.alerts import EXCLUDED_HOSTS_MAX, AlertRule, AlertSettings, Exclusion, Maintenance
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import Evidence
from processors.contracts.nodes import expand

RUN_HOSTS_MAX: Final = 4_096  # of a run: one of more is compared by the rest
SECTIONS: Final = {
    names.SLOW_SIZE: "slow_size",
    names.FAST_SIZE: "slow_size",
    names.STRANGE_RUN: "strange_run",
    names.REGRESSION: "shift",
    names.IMPROVEMENT: "shift",
    names.PREDICTION_UNRELIABLE: "unreliable",
    names.SLOWS_DOWN: "slows_down",
    names.APPLICATION_FAILS: "failure_rate",
    names.HOST_FAILS: "failure_rate",
    names.HOST_ANOMALY: "host_anomaly",
    names.RACK_ANOMALY: "rack_anomaly",
    names.STRAGGLER_HOST: "straggler",
    names.UNEXPLAINED_POWER: "unexplained_power",
    names.DISTURBED_RUN: "disturbed_run",
}
DRY_RUN: Final = "dry run"
SHORT: Final = "short run"
OF_RUN: Final = ("user", "account", "qos", "reservation")


class About(NamedTuple):
    """What is known of the run that raises an alert, beyond its labels; nothing where it is about no run."""

    partition: str = ""
    user: str = ""
    account: str = ""
    qos: str = ""
    reservation: str = ""
    hosts: tuple[str, ...] = ()
    run_time_s: float | None = None

    @classmethod
    def of_run(cls, evidence: Evidence, run_time_s: float) -> "About":
        """Return what the evidence of a run tells."""
        return cls(
            partition=evidence.partition or "",
            user=evidence.user or "",
            account=evidence.account or "",
            qos=evidence.qos or "",
            reservation=evidence.reservation or "",
            hosts=evidence.hosts,
            run_time_s=run_time_s,
        )


NO_RUN: Final = About()
Matches = Callable[[Condition, About], bool]


class Policy:
    """The alert settings of an agent, ready to be asked for each alert."""

    def __init__(self, settings: AlertSettings) -> None:
        self._settings = settings
        self._exclusions = [
            (f"exclusion {number}{_comment(one.comment)}", frozenset(one.alerts), _matches(one))
            for number, one in enumerate(settings.exclusions, 1)
        ]
        self._maintenance = [
            (f"maintenance{_comment(one.comment)}", _ms(one.start.timestamp()), _ms(one.end.timestamp()), _matches(one))
            for one in settings.maintenance
        ]

    def rule(self, name: str) -> AlertRule:
        """Return the settings of an alert, by its name."""
        found: AlertRule = getattr(self._settings, SECTIONS[name])
        return found

    def withheld_by(self, condition: Condition, about: About = NO_RUN) -> str:
        """Return why an alert is not sent, "" where it is."""
        for reason, alerts, matches in self._exclusions:
            if (not alerts or condition.name in alerts) and matches(condition, about):
                return reason
        for reason, start_ms, end_ms, matches in self._maintenance:
            if start_ms <= condition.time_ms < end_ms and matches(condition, about):
                return reason
        rule = self.rule(condition.name)
        if about.run_time_s is not None and about.run_time_s < rule.run_time_min_s:
            return SHORT
        return DRY_RUN if rule.dry_run else ""


def _matches(given: Exclusion | Maintenance) -> Matches:
    """Return what tells whether an alert is about everything that is given."""
    of_labels = {name: each for name in ("system", "application") if (each := getattr(given, name, None))}
    of_run = {name: each for name in OF_RUN if (each := getattr(given, name, None))}
    hosts = frozenset(expand(given.hosts, EXCLUDED_HOSTS_MAX)) if given.hosts else frozenset[str]()

    def matches(condition: Condition, about: About) -> bool:
        labels = condition.labels
        partition = labels.get("partition") or about.partition
        return (
            all(fnmatchcase(labels.get(name, ""), pattern) for name, pattern in of_labels.items())
            and all(fnmatchcase(getattr(about, name), pattern) for name, pattern in of_run.items())
            and (given.partition is None or fnmatchcase(partition, given.partition))
            and (not hosts or not hosts.isdisjoint(_hosts(condition, about)))
        )

    return matches


def _hosts(condition: Condition, about: About) -> tuple[str, ...]:
    if "host" in condition.labels:
        return (condition.labels["host"],)
    with suppress(InvalidInputError):
        return expand(",".join(about.hosts), RUN_HOSTS_MAX) if about.hosts else ()
    return ()


def _comment(text: str) -> str:
    return f" ({text})" if text else ""


def _ms(time_s: float) -> int:
    return round(time_s * 1000)
