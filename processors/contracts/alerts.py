"""Settings of the alerts: when they fire, which are withheld, and every default."""

from functools import partial
from typing import Annotated, Any, ClassVar, Final, Literal, Self

from pydantic import AfterValidator, AwareDatetime, Field, model_validator

from processors.contracts.errors import InvalidInputError
from processors.contracts.nodes import count
from processors.contracts.settings import LONGEST_S, Count, Pattern, Seconds, Settings, compiled_pattern

EXCLUDED_HOSTS_MAX: Final = 100_000  # in one list


Scatter = Annotated[
    float,
    Field(
        gt=0,
        description="maximum scatter of the run times (standard deviation of their natural logarithm); applications above it "
        "raise no alerts about sizes, runs or shifts",
    ),
]
KeepFiring = Annotated[
    Seconds, Field(description="seconds after the last sign of the problem before the alert resolves")
]


class AlertRule(Settings):
    """Keys that all alert sections share.

    >>> AlertRule().not_again_s
    14400.0
    """

    enabled: bool = Field(default=True, description="whether the alert can fire")
    not_again_s: Seconds = Field(
        default=14_400.0, description="minimum seconds between two alerts about the same cause"
    )
    dry_run: bool = Field(
        default=False, description="whether the alert is only counted and shown as withheld, instead of being sent"
    )
    run_time_min_s: Seconds = Field(
        default=0.0,
        description="minimum run time in seconds of a run that raises an alert; alerts about no run ignore it",
    )


class AlertDefaults(AlertRule):
    """Values for all alert sections; a section may override each of them, and built-in values of a section take precedence."""

    keep_firing_s: KeepFiring = 3600.0
    scatter_max: Scatter = 0.3


def _host_list(text: str) -> str:
    try:
        hosts = count(text)
    except InvalidInputError as error:
        raise ValueError(str(error)) from error
    if hosts > EXCLUDED_HOSTS_MAX:
        raise ValueError(f"{hosts} hosts are more than {EXCLUDED_HOSTS_MAX}")
    return text


HostList = Annotated[str, Field(min_length=1, max_length=65_536), AfterValidator(_host_list)]
AlertName = Literal[
    "SlowSize", "FastSize", "StrangeRun", "Regression", "Improvement", "PredictionUnreliable", "SlowsDown",
    "ApplicationFailureRate", "HostFailureRate", "HostAnomaly", "RackAnomaly", "PeerDifference", "UnexplainedPower",
    "DisturbedRun", "HangingJob", "SlowJob", "JobNearLimit",
]  # fmt: skip


class Exclusion(Settings):
    """Alerts that are never sent: those that match all keys given here. Patterns may contain *.

    >>> Exclusion(alerts=("StrangeRun",), partition="debug*", comment="people try things there").user is None
    True
    """

    alerts: tuple[AlertName, ...] = Field(default=(), description="alert names; empty: all alerts")
    system: Pattern | None = Field(default=None, description="system")
    partition: Pattern | None = Field(
        default=None, description="partition of the run, or partition that the alert is about"
    )
    application: Pattern | None = Field(default=None, description="application")
    user: Pattern | None = Field(
        default=None, description="user of the run, as the agent writes it (see privacy.users)"
    )
    account: Pattern | None = Field(default=None, description="account of the run")
    qos: Pattern | None = Field(default=None, description="quality of service of the run")
    reservation: Pattern | None = Field(default=None, description="Slurm reservation of the run")
    hosts: HostList | None = Field(
        default=None,
        description="host list such as nid[001-004],login1; matches alerts about these hosts and about runs that used one",
    )
    comment: str = Field(min_length=1, max_length=256, description="reason, shown on the page of withheld alerts")

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        named = [name for name in type(self).model_fields if name != "comment"]
        if not any(getattr(self, name) for name in named):
            raise ValueError(f"give at least one of {', '.join(named)}")
        return self


class Maintenance(Settings):
    """A maintenance window, in which no alerts are sent about a part of the centre or all of it.

    >>> Maintenance(start="2026-11-24T08:00:00Z", end="2026-11-24T12:00:00Z", comment="new switches").system is None
    True
    """

    start: AwareDatetime = Field(description="start of the window, with a time zone")
    end: AwareDatetime = Field(description="end of the window, with a time zone")
    system: Pattern | None = Field(default=None, description="system; default: all systems")
    partition: Pattern | None = Field(default=None, description="partition; default: all partitions")
    hosts: HostList | None = Field(default=None, description="host list such as nid[001-004]; default: all hosts")
    comment: str = Field(
        default="", max_length=256, description="reason for the maintenance, shown on the page of withheld alerts"
    )

    @model_validator(mode="after")
    def _begins_before_it_ends(self) -> Self:
        if self.end <= self.start:
            raise ValueError("the end has to come after the start")
        return self


class HostAnomaly(AlertRule):
    """HostAnomaly: several resources of a host leave their past range, move far from their means, or contradict each other.

    >>> HostAnomaly().resources_min
    4
    """

    resources_min: int = Field(
        default=4,
        ge=2,
        description="minimum number of resources outside their past range within ten minutes; for a host with fewer resources, all of them",
    )
    resources_share: ClassVar[float] = 0.15
    """Minimum share of a host's resources outside their past range, if this share is more than resources_min resources.

    For resources far from their means, two thirds of this share suffice, but at least four resources. A host with up to 20
    resources needs two thirds of them, at most six.
    """
    window_s: ClassVar[float] = 600.0
    """Findings of several resources within this time count as one event."""
    false_per_host_day: float = Field(
        default=0.01,
        gt=0,
        le=1,
        description="false alerts per host and day to accept: 0.01 is about ten a day for 1000 hosts; fewer also means fewer faults found",
    )
    gather_s: ClassVar[float] = 60.0
    """Seconds by which the alert of a host is delayed, because other hosts of its rack may show the same anomaly."""
    learn_s: Seconds = Field(
        default=259_200.0,
        description="seconds during which a new host raises no alert, long enough to see each hour of the day three times",
    )
    warm_up_s: ClassVar[float] = 1800.0
    """Seconds without alerts after a host returned to service."""
    keep_firing_s: KeepFiring = 3600.0
    accept_s: ClassVar[float] = 604_800.0
    """Seconds after which a new level of resources counts as normal, and the alert resolves."""
    not_again_s: Seconds = Field(default=7200.0, description="minimum seconds between two alerts about the same host")


class RackAnomaly(AlertRule):
    """RackAnomaly: many hosts of a rack are anomalous at once; replaces the alerts about these hosts.

    >>> RackAnomaly().share_min
    0.5
    """

    pattern: Annotated[str, AfterValidator(partial(compiled_pattern, groups=1))] = Field(
        default=r"^(x\d+)c\d+",
        description="regular expression on host names whose first group is the rack, by default the cabinet of a Cray xname; "
        "hosts without a match are grouped by partition, or by system if the partition is unknown",
    )
    hosts_min: int = Field(default=4, ge=2, description="minimum number of anomalous hosts")
    share_min: float = Field(default=0.5, gt=0, le=1, description="minimum share of anomalous hosts in the rack")
    clear_s: ClassVar[float] = 900.0
    """Seconds for which most of these hosts must be normal again before the alert resolves."""
    keep_firing_s: KeepFiring = 3600.0


class PeerDifference(AlertRule):
    """PeerDifference: a host differs from the other hosts of its job, or an idle host from the idle hosts of its partition.

    >>> PeerDifference().for_s
    300.0
    """

    resources: Annotated[str, AfterValidator(compiled_pattern)] = Field(
        default=r"^(cpu_available|cpu_current|load1|clock|gpu)|power",
        description="regular expression on the names of the resources to compare between hosts with the same work",
    )
    deviations: float = Field(
        default=6.0,
        gt=0,
        description="minimum distance from the median of the other hosts, in robust standard deviations",
    )
    difference: float = Field(
        default=0.15, ge=0, description="minimum relative distance from the median of the other hosts"
    )
    share_max: ClassVar[float] = 0.1
    """If more than this share of the hosts differ from the median, none of them counts as different."""
    start_s: ClassVar[float] = 300.0
    """Seconds after the start of a job before its hosts are compared."""
    for_s: Seconds = Field(default=300.0, description="seconds for which the host must differ")
    false_per_day: float = Field(
        default=0.05,
        gt=0,
        description="maximum number of false alerts per day, over all hosts of a resource; lengthens for_s if hosts often differ by chance",
    )
    usual_s: ClassVar[float] = 600.0
    """Assumed duration in seconds of a chance difference, until some were observed."""
    clear_s: ClassVar[float] = 1800.0
    """Total seconds of normal comparisons before the alert resolves."""
    keep_firing_s: float = Field(
        default=604_800.0, gt=0, le=LONGEST_S, description="seconds without a comparison before the alert resolves"
    )


class UnexplainedPower(AlertRule):
    """UnexplainedPower: the measured power of a run differs from the power that its counters explain.

    >>> UnexplainedPower().margin_share
    0.1
    """

    margin_share: float = Field(
        default=0.10, gt=0, description="minimum relative difference between measured and expected power"
    )
    band_factor: float = Field(default=2.0, ge=1, description="minimum difference in half-widths of the 90 % band")
    scored_min: ClassVar[int] = 20
    """Minimum number of runs of the application whose power was predicted before it was learned."""
    for_s: ClassVar[float] = 1800.0
    """Seconds before an alert about an application fires; an explained run meanwhile cancels it."""
    runs_min: ClassVar[int] = 3
    """Unexplained runs in a row that make the alert fire before for_s has passed."""
    quiet_s: ClassVar[float] = 86_400.0
    """Seconds without a judged run before the alert resolves; the next explained run resolves it at once."""


class DisturbedRun(AlertRule):
    """DisturbedRun: a run took longer than expected, with other counters than similar runs.

    >>> DisturbedRun().slower_min
    1.2
    """

    enabled: bool = Field(
        default=True, description="whether the alert can fire; the models give such runs less weight in any case"
    )
    deviations_min: ClassVar[float] = 8.0
    """Minimum distance of a counter from similar runs, in robust standard deviations."""
    difference_min: ClassVar[float] = 0.10
    """Minimum relative distance of a counter from its usual rate."""
    counters_min: ClassVar[int] = 1
    """Minimum number of unusual counters."""
    slower_min: float = Field(default=1.2, ge=1, description="minimum ratio of the run time to the value of the curve")
    runs_min: ClassVar[int] = 20
    """Minimum number of runs of the application with profiles."""
    keep_firing_s: KeepFiring = 3600.0


class HangingJob(AlertRule):
    """HangingJob and SlowJob: a job has run longer than its predicted band, and its hosts are idle or busy.

    >>> HangingJob().factor_min
    1.5
    """

    factor_min: float = Field(default=1.5, ge=1, description="minimum ratio of elapsed to longest expected time")
    overdue_min_s: ClassVar[float] = 600.0
    """Minimum seconds beyond the upper end of the predicted band."""
    for_s: Seconds = Field(default=900.0, description="seconds for which the job must be overdue")
    quiet_s: ClassVar[float] = 86_400.0
    """Seconds after which the alert resolves if nothing is known about the job any more."""


class JobNearLimit(AlertRule):
    """JobNearLimit: a job will probably be ended by its time limit.

    >>> JobNearLimit().lead_s
    1800.0
    """

    lead_s: Seconds = Field(default=1800.0, description="seconds before the time limit from which the alert may fire")
    chance_min: float = Field(default=0.9, gt=0, le=1, description="minimum probability that the job reaches its limit")
    quiet_s: ClassVar[float] = 86_400.0
    """Seconds after which the alert resolves if nothing is known about the job any more."""


class AlertSettings(Settings):
    """Conditions and exclusions of the alerts. Durations count event time.

    >>> AlertSettings().strange_run.factor_min
    1.15
    """

    class SlowSize(AlertRule):
        """SlowSize and FastSize: a size is slower or faster than the curve through the other sizes."""

        deviation_min: float = Field(
            default=0.10, gt=0, description="minimum relative difference between the size and the curve"
        )
        scatter_max: Scatter = 0.3
        for_s: ClassVar[float] = 1800.0
        """Seconds for which the difference must last."""
        keep_firing_s: Seconds = Field(
            default=10_800.0, description="seconds after the difference has ended before the alert resolves"
        )

    class StrangeRun(AlertRule):
        """StrangeRun: a run ended far outside its predicted band, farther than nearly all runs before."""

        factor_min: float = Field(
            default=1.15, gt=1, description="minimum ratio of observed to expected run time, or of expected to observed"
        )
        scatter_max: Scatter = 0.3
        observations_min: Count = Field(default=5, description="minimum number of learned runs")
        keep_firing_s: KeepFiring = 3600.0

    class Shift(AlertRule):
        """Regression and Improvement: an application became permanently slower or faster, at all sizes."""

        enabled: bool = Field(
            default=True, description="whether the alert can fire; predictions follow the new level in any case"
        )
        factor_min: float = Field(
            default=1.05, gt=1, description="minimum ratio of new to old run times, or of old to new"
        )
        scatter_max: Scatter = 0.3
        keep_firing_s: Seconds = Field(
            default=86_400.0,
            description="seconds before the alert resolves although the new level lasts; a return to the old level resolves it at once",
        )

    class Unreliable(AlertRule):
        """PredictionUnreliable: the predictions of an application got a bad verdict."""

        verdicts: tuple[str, ...] = Field(default=("high_error",), description="verdicts that raise the alert")
        observations_min: ClassVar[int] = 8
        """Minimum number of learned runs."""
        for_s: ClassVar[float] = 600.0
        """Seconds for which the verdict must hold."""

    class SlowsDown(AlertRule):
        """SlowsDown: the largest sizes of an application take longer than a smaller one. Off by default."""

        enabled: bool = Field(
            default=False,
            description="whether the alert can fire; predictions and `scalewatch report` advise users in any case",
        )
        observations_min: ClassVar[int] = 8
        """Minimum number of learned runs."""
        for_s: ClassVar[float] = 600.0
        """Seconds for which the slow-down must last."""

    class FailureRate(AlertRule):
        """ApplicationFailureRate and HostFailureRate: more runs fail than usual, by application or by host."""

        recent_runs: int = Field(default=20, ge=3, description="number of newest runs to count failures in")
        failures_min: Count = Field(default=3, description="minimum number of failures among recent_runs")
        credibility: float = Field(
            default=0.99,
            gt=0.5,
            lt=1,
            description="minimum probability that the failure rate is above the expected one",
        )
        hosts_max: Count = Field(
            default=20_000, description="maximum number of hosts with failure counts; the longest unused is evicted"
        )
        hosts_per_run_max: ClassVar[int] = 1024
        """Maximum number of hosts of a run that counts for its hosts; larger runs count for their application only."""
        keep_firing_s: KeepFiring = 3600.0
        quiet_s: ClassVar[float] = 86_400.0
        """Seconds without a run on a host before its alert resolves, because the host may be gone."""

    defaults: AlertDefaults = AlertDefaults()
    slow_size: SlowSize = SlowSize()
    strange_run: StrangeRun = StrangeRun()
    shift: Shift = Shift()
    unreliable: Unreliable = Unreliable()
    slows_down: SlowsDown = SlowsDown()
    failure_rate: FailureRate = FailureRate()
    host_anomaly: HostAnomaly = HostAnomaly()
    rack_anomaly: RackAnomaly = RackAnomaly()
    peer_difference: PeerDifference = PeerDifference()
    unexplained_power: UnexplainedPower = UnexplainedPower()
    disturbed_run: DisturbedRun = DisturbedRun()
    hanging_job: HangingJob = HangingJob()
    job_near_limit: JobNearLimit = JobNearLimit()
    exclusions: tuple[Exclusion, ...] = Field(
        default=(), max_length=256, description="alerts that are withheld: counted and shown, but never sent"
    )
    maintenance: tuple[Maintenance, ...] = Field(
        default=(),
        max_length=256,
        description="maintenance windows, in which alerts about a part of the centre or all of it are withheld",
    )
    open_max: Count = Field(
        default=10_000, description="maximum number of open alerts; further ones are counted and dropped"
    )
    run_age_max_s: float = Field(
        default=6 * 3600.0,
        gt=0,
        le=LONGEST_S,
        description="maximum age in seconds of a run that raises an alert; older runs, such as history, raise none",
    )
    runbook_url: str | None = Field(
        default=None,
        max_length=1024,
        description="address of the runbook that alerts link to; default: the agent's own page, if alertmanager.external_url is set",
    )


def inherits(section: Any, key: str) -> bool:
    """Return whether a section of the alerts takes a key from `alerts.defaults`, as it has no built-in value of its own.

    >>> inherits(RackAnomaly, "keep_firing_s"), inherits(PeerDifference, "keep_firing_s"), inherits(PeerDifference, "scatter_max")
    (True, False, False)
    """
    if not (isinstance(section, type) and issubclass(section, AlertRule) and section is not AlertDefaults):
        return False
    shared, field = AlertDefaults.model_fields.get(key), section.model_fields.get(key)
    return shared is not None and field is not None and field.default == shared.default
