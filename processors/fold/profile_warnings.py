"""Alerts about profiles of runs, raised when they settle; and predictions whose power has changed are told again."""

from agent.contracts.names import ApplicationKey
from processors import profile_rules
from processors.fold.desk import Desk
from processors.fold.open_alerts import OpenAlerts
from processors.fold.power import Power
from processors.profile_models import ProfileFact, ProfileFinding, ProfileModels


class ProfileWarnings:
    """Looks at each run with a profile before its models learn it.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> from agent.contracts.profiles import Profile
    >>> desk = make_shard(Config()).desk
    >>> fact = ProfileFact(run_id="exa/1@0", n=4.0, run_time_s=60.0, end_ms=0, profile=Profile(hosts=4))
    >>> ProfileWarnings(desk).take("exa/lammps//nodes", fact, ProfileFinding())
    >>> desk.outbox
    []
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._alerts = OpenAlerts(desk)
        self._power = Power(desk)

    def take(self, application_id: str, fact: ProfileFact, finding: ProfileFinding) -> None:
        """Raise and end alerts by what was found of a run before it was learned; history wakes nobody."""
        try:
            self._alert(application_id, fact, finding)
        except Exception:  # noqa: BLE001  what is said of a run must not cost that it is learned
            self._desk.tally["fault", ProfileModels.name] += 1

    def learned(self, application_id: str) -> None:
        """Let a prediction be told again where a run that was learned has changed what is told of power."""
        try:
            self._power.note(application_id)
        except Exception:  # noqa: BLE001  as above
            self._desk.tally["fault", ProfileModels.name] += 1

    def _alert(self, application_id: str, fact: ProfileFact, finding: ProfileFinding) -> None:
        models = self._desk.profile_models.get(application_id)
        if models is None or not self._desk.recent(fact.end_ms):
            return
        curve = self._desk.models.get(application_id)
        point = curve.published.at(fact.n) if curve is not None and curve.published is not None else None
        expected_s = point.run_time_s if point is not None else None
        key, settings, now_ms = ApplicationKey.parse(application_id), self._desk.settings.alerts, self._desk.now_ms
        run = profile_rules.JudgedRun(key, fact, finding, models.models(), expected_s)
        said = (
            profile_rules.unexplained_power(run, settings.unexplained_power, now_ms),
            profile_rules.disturbed_run(run, settings.disturbed_run, now_ms),
        )
        self._alerts.take(condition for condition in said if condition is not None)
