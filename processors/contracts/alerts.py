"""When alerts fire, which are sent, and which are withheld: one frozen model each, every default in this one place."""

from functools import partial
from typing import Annotated, Final, Literal, Self

from pydantic import AfterValidator, AwareDatetime, Field, model_validator

from processors.contracts.errors import InvalidInputError
from processors.contracts.nodes import count
from processors.contracts.settings import LONGEST_S, Pattern, Settings, compiled_pattern

EXCLUDED_HOSTS_MAX: Final = 100_000  # of one list


class AlertRule(Settings):
    """What all alerts have in common.

    >>> AlertRule().not_again_s
    14400.0
    """

    enabled: bool = Field(default=True, description="whether this alert exists")
    not_again_s: float = Field(
        default=14_400.0,
        ge=0,
        le=LONGEST_S,
        description="about the same cause it does not fire again before this long has passed since it fired last; "
        "what is true by then fires then",
    )
    dry_run: bool = Field(
        default=False, description="it is counted and shown as withheld, and sent to nobody: to see what it would raise"
    )
    run_time_min_s: float = Field(
        default=0.0,
        ge=0,
        le=LONGEST_S,
        description="shorter runs raise none; where an alert is about no run it changes nothing",
    )


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
    "ApplicationFailureRate", "HostFailureRate", "HostAnomaly", "RackAnomaly", "StragglerHost", "UnexplainedPower",
    "DisturbedRun",
]  # fmt: skip


class Exclusion(Settings):
    """What is never sent: alerts about what matches everything that is given here. Patterns may hold *.

    >>> Exclusion(alerts=("StrangeRun",), partition="debug*", comment="people try things there").user is None
    True
    """

    alerts: tuple[AlertName, ...] = Field(default=(), description="names of the alerts; none: all")
    system: Pattern | None = Field(default=None, description="the system")
    partition: Pattern | None = Field(default=None, description="the partition of the run, or that the alert is about")
    application: Pattern | None = Field(default=None, description="the application")
    user: Pattern | None = Field(default=None, description="the user of the run, as events tell it")
    account: Pattern | None = Field(default=None, description="the account of the run")
    qos: Pattern | None = Field(default=None, description="the quality of service of the run")
    reservation: Pattern | None = Field(
        default=None, description="the reservation that the run was in, as Slurm tells it"
    )
    hosts: HostList | None = Field(
        default=None,
        description="hosts as a list such as nid[001-004],login1: alerts about them, and about runs with one of them",
    )
    comment: str = Field(
        min_length=1, max_length=256, description="why; people see it where it is told what was not sent"
    )

    @model_validator(mode="after")
    def _names_something(self) -> Self:
        named = [name for name in type(self).model_fields if name != "comment"]
        if not any(getattr(self, name) for name in named):
            raise ValueError(f"give at least one of {', '.join(named)}")
        return self


class Maintenance(Settings):
    """A time in which nothing is sent about a part of the centre; without one, about all of it.

    >>> Maintenance(start="2026-11-24T08:00:00Z", end="2026-11-24T12:00:00Z", comment="new switches").system is None
    True
    """

    start: AwareDatetime = Field(description="when it begins, with a time zone")
    end: AwareDatetime = Field(description="when it ends")
    system: Pattern | None = Field(default=None, description="the system; none: all")
    partition: Pattern | None = Field(default=None, description="the partition; none: all")
    hosts: HostList | None = Field(default=None, description="the hosts as a list such as nid[001-004]; none: all")
    comment: str = Field(default="", max_length=256, description="what is done; people see it")

    @model_validator(mode="after")
    def _begins_before_it_ends(self) -> Self:
        if self.end <= self.start:
            raise ValueError("the end has to come after the start")
        return self


class HostAnomaly(AlertRule):
    """Several resources of a host outside everything measured before, far from their means, or contradicting each other.

    >>> HostAnomaly().resources_min
    4
    """

    resources_min: int = Field(
        default=4,
        ge=2,
        description="resources of a host that have to be outside everything measured before, close in time; all, of a host that has fewer",
    )
    resources_share: float = Field(
        default=0.15,
        ge=0,
        le=1,
        description="share of a host's resources that have to be, where that is more; where they are far from their means, "
        "two thirds of this share, and four at least (where it has at most 20, two thirds of all, up to six)",
    )
    window_s: float = Field(default=600.0, gt=0, le=86_400, description="what comes within this is close in time")
    combined_ratio: float = Field(
        default=1.25,
        gt=1,
        description="times the largest of its last two weeks by which all resources of a host together have to contradict "
        "each other, where it has 16; of fewer resources more",
    )
    combined_minutes: int = Field(
        default=1,
        ge=1,
        le=100_000,
        description="measured minutes in a row in which they have to contradict each other, or to be far from their means",
    )
    gather_s: float = Field(
        default=60.0, ge=0, le=3600, description="an alert waits for this long whether the whole rack is concerned"
    )
    learn_s: float = Field(
        default=259_200.0,
        ge=0,
        le=LONGEST_S,
        description="a host that is new raises no alert for this long: every hour of the day is to be seen three times",
    )
    learn_week_s: float = Field(
        default=691_200.0,
        ge=0,
        le=LONGEST_S,
        description="a host that is new raises one for this long only where many of its resources are far from their means: "
        "every day of the week is to be seen",
    )
    warm_up_s: float = Field(
        default=1800.0, ge=0, le=LONGEST_S, description="a host that is back in service raises none for this long"
    )
    keep_firing_s: float = Field(
        default=3600.0,
        ge=0,
        le=LONGEST_S,
        description="it resolves when nothing new came for this long, and its resources are back where they were",
    )
    accept_s: float = Field(
        default=604_800.0,
        gt=0,
        le=LONGEST_S,
        description="where they stay elsewhere for this long, that is how the host is now, and it resolves",
    )
    not_again_s: float = Field(
        default=7200.0,
        ge=0,
        le=LONGEST_S,
        description="seconds between two firings about the same host, at least: after so long it is another fault",
    )


class RackAnomaly(AlertRule):
    """Many hosts of a rack with an anomaly at once: one alert that takes the place of theirs.

    >>> RackAnomaly().share_min
    0.5
    """

    pattern: Annotated[str, AfterValidator(partial(compiled_pattern, groups=1))] = Field(
        default=r"^(x\d+)c\d+",
        description="regular expression on host names; its first group names the rack, by default the cabinet of a Cray "
        "xname; hosts that it does not match are gathered by partition, else by system",
    )
    hosts_min: int = Field(default=4, ge=2, description="hosts with an anomaly that are needed at least")
    share_min: float = Field(
        default=0.5, gt=0, le=1, description="share of the rack's hosts with an anomaly that is needed at least"
    )
    clear_s: float = Field(
        default=900.0,
        ge=0,
        le=LONGEST_S,
        description="it resolves when most of these hosts have been back where they were for this long",
    )
    keep_firing_s: float = Field(
        default=3600.0,
        ge=0,
        le=LONGEST_S,
        description="and, where their levels do not show it, when nothing new came for this long",
    )


class Straggler(AlertRule):
    """A host unlike the other hosts of its job, or an idle one unlike the other idle hosts of its partition.

    >>> Straggler().for_s
    300.0
    """

    resources: Annotated[str, AfterValidator(compiled_pattern)] = Field(
        default=r"^(cpu_available|cpu_current|load1|clock|gpu)|power",
        description="regular expression on the names of resources that are alike on hosts that do the same",
    )
    deviations: float = Field(
        default=6.0, gt=0, description="robust standard deviations from the median of the peers that are needed"
    )
    difference: float = Field(
        default=0.15, ge=0, description="share of that median by which the host has to differ as well"
    )
    share_max: float = Field(
        default=0.1, gt=0, lt=1, description="where more than this share of the peers is unlike, nobody is"
    )
    start_s: float = Field(
        default=300.0, ge=0, le=LONGEST_S, description="hosts are not compared before their job ran for this long"
    )
    for_s: float = Field(default=300.0, ge=0, le=LONGEST_S, description="it has to be so for this long")
    false_per_day: float = Field(
        default=0.05,
        gt=0,
        description="and for so long that of spells as hosts have them in any case, all hosts of a resource together have no more a day",
    )
    usual_s: float = Field(
        default=600.0,
        gt=0,
        le=LONGEST_S,
        description="how long such spells last is presumed to be this, until some were seen",
    )
    clear_s: float = Field(
        default=1800.0,
        gt=0,
        le=LONGEST_S,
        description="it resolves when the host was compared for this long in all and was as its peers",
    )
    keep_firing_s: float = Field(
        default=604_800.0, gt=0, le=LONGEST_S, description="and when it could not be compared for this long"
    )


Level = Literal["info", "warning", "critical"]


class UnexplainedPower(AlertRule):
    """Measured power of a run that its counters do not explain.

    >>> UnexplainedPower().margin_share
    0.1
    """

    margin_share: float = Field(
        default=0.10, gt=0, description="share of the expected power by which the measured one has to be off at least"
    )
    band_factor: float = Field(
        default=2.0, ge=1, description="and by so many half-widths of the band that holds nine of ten runs"
    )
    scored_min: int = Field(
        default=20, ge=1, description="runs of the application whose power was predicted before it was learned"
    )
    severity: Level = Field(default="warning", description="how grave it is")
    for_s: float = Field(
        default=1800.0,
        ge=0,
        le=LONGEST_S,
        description="that of an application waits for this long: a run that is explained meanwhile says that it was one run",
    )
    runs_min: int = Field(
        default=3, ge=1, description="unless so many of its runs were not explained, one after the other"
    )
    quiet_s: float = Field(
        default=86_400.0,
        gt=0,
        le=LONGEST_S,
        description="it resolves with the next run that is explained, or when none was judged for this long",
    )


class DisturbedRun(AlertRule):
    """A run that took longer, and whose counters are not as in runs like it: something disturbed it.

    >>> DisturbedRun().slower_min
    1.05
    """

    enabled: bool = Field(
        default=True, description="whether this alert exists; such runs count less for the models in any case"
    )
    deviations_min: float = Field(
        default=8.0, gt=0, description="robust standard deviations by which a counter has to be off"
    )
    difference_min: float = Field(
        default=0.10, gt=0, description="share of its usual rate by which a counter has to be off as well"
    )
    counters_min: int = Field(default=1, ge=1, description="counters that have to be so")
    slower_min: float = Field(
        default=1.05, ge=1, description="and its run time over what its curve says: what took no longer disturbs nobody"
    )
    runs_min: int = Field(default=20, ge=8, description="runs of the application with profiles that have to be known")
    severity: Level = Field(default="info", description="how grave it is")
    keep_firing_s: float = Field(
        default=3600.0, ge=0, le=LONGEST_S, description="it resolves when nothing new came for this long"
    )


class AlertSettings(Settings):
    """When alerts fire. Durations run on event time.

    >>> AlertSettings().strange_run.factor_min
    1.15
    """

    class SlowSize(AlertRule):
        """A size that is slow (or fast) against the rest of its curve."""

        deviation_min: float = Field(
            default=0.10, gt=0, description="share of the curve's value by which a size has to be off"
        )
        scatter_max: float = Field(
            default=0.3,
            gt=0,
            description="standard deviation of ln run time between runs; an application with more raises no such alert",
        )
        for_s: float = Field(default=1800.0, ge=0, le=LONGEST_S, description="it has to be so for this long")
        keep_firing_s: float = Field(
            default=10_800.0,
            ge=0,
            le=LONGEST_S,
            description="it resolves when it has not been so for this long: where runs scatter, single curves differ",
        )

    class StrangeRun(AlertRule):
        """A run far outside the band that was published before it ended, as hardly any of the runs before."""

        factor_min: float = Field(default=1.15, gt=1, description="observed over expected, either way")
        scatter_max: float = Field(
            default=0.3,
            gt=0,
            description="standard deviation of ln run time between runs; an application with more raises no such alert",
        )
        observations_min: int = Field(default=5, ge=1, description="runs the model has to know first")
        keep_firing_s: float = Field(
            default=3600.0, ge=0, le=LONGEST_S, description="it resolves when nothing new came for this long"
        )

    class Shift(AlertRule):
        """An application that became slower or faster for good, at all sizes."""

        enabled: bool = Field(
            default=True, description="whether this alert exists; predictions follow the new level in any case"
        )
        factor_min: float = Field(default=1.05, gt=1, description="new over old run times, either way")
        scatter_max: float = Field(
            default=0.3,
            gt=0,
            description="standard deviation of ln run time between runs; an application with more raises no such alert",
        )
        keep_firing_s: float = Field(
            default=86_400.0,
            ge=0,
            le=LONGEST_S,
            description="it resolves after this long, though the application stays at the new level; at once when it "
            "is back",
        )

    class Unreliable(AlertRule):
        """Verdicts that matter to a user."""

        verdicts: tuple[str, ...] = Field(default=("high_error",), description="verdicts that raise it")
        observations_min: int = Field(default=8, ge=1, description="runs the model has to know first")
        for_s: float = Field(default=600.0, ge=0, le=LONGEST_S, description="how long the verdict has to hold first")

    class SlowsDown(AlertRule):
        """An application whose largest sizes take longer than a smaller one: advice for its users, so no alert by itself."""

        enabled: bool = Field(
            default=False,
            description="whether this alert exists; predictions advise users of it in any case, and so does `scalewatch report`",
        )
        observations_min: int = Field(default=8, ge=1, description="runs the model has to know first")
        for_s: float = Field(default=600.0, ge=0, le=LONGEST_S, description="how long it has to be so first")

    class FailureRate(AlertRule):
        """A failure rate of an application credibly above its past and the usual one, or of a host above that of its applications."""

        recent_runs: int = Field(default=20, ge=3, description="the newest runs, whose failures are counted")
        failures_min: int = Field(default=3, ge=1, description="failures among them that are needed at least")
        credibility: float = Field(
            default=0.99,
            gt=0.5,
            lt=1,
            description="how sure it has to be that the rate is above what is to be expected",
        )
        hosts_max: int = Field(
            default=20_000, ge=1, description="hosts that are remembered; over it the longest unused is forgotten"
        )
        hosts_per_run_max: int = Field(default=1024, ge=1, description="larger runs count for their application only")
        keep_firing_s: float = Field(
            default=3600.0, ge=0, le=LONGEST_S, description="it resolves when it has not been so for this long"
        )
        quiet_s: float = Field(
            default=86_400.0,
            gt=0,
            le=LONGEST_S,
            description="that of a host also resolves when no run on it was told for this long: it may be gone",
        )

    slow_size: SlowSize = SlowSize()
    strange_run: StrangeRun = StrangeRun()
    shift: Shift = Shift()
    unreliable: Unreliable = Unreliable()
    slows_down: SlowsDown = SlowsDown()
    failure_rate: FailureRate = FailureRate()
    host_anomaly: HostAnomaly = HostAnomaly()
    rack_anomaly: RackAnomaly = RackAnomaly()
    straggler: Straggler = Straggler()
    unexplained_power: UnexplainedPower = UnexplainedPower()
    disturbed_run: DisturbedRun = DisturbedRun()
    exclusions: tuple[Exclusion, ...] = Field(
        default=(), max_length=256, description="what is never sent; it is counted and shown as withheld"
    )
    maintenance: tuple[Maintenance, ...] = Field(
        default=(),
        max_length=256,
        description="times in which nothing is sent about a part of the centre, or all of it",
    )
    open_max: int = Field(default=10_000, ge=1, description="open alerts; over it new ones are counted and left out")
    run_age_max_s: float = Field(
        default=6 * 3600.0,
        gt=0,
        le=LONGEST_S,
        description="runs that ended longer ago, history for instance, raise no alert",
    )
    runbook_url: str | None = Field(
        default=None,
        max_length=1024,
        description="alerts link to its headings; default: the agent's own page, where alertmanager.external_url tells how it is reached",
    )
