"""The messages of the output topics, as typed structs.

Every message carries `schema` (name and major version), `id`, `time` (event time), `as_of`, `valid_until` and
`agent_version`. Delivery is at least once: a repeated message has the same id and content. Of two messages with the same key,
the one with the larger `time` is newer. Schemas only grow within a major version.
"""

from typing import Final, Literal

import msgspec

from processors.contracts.events import Attribute, DeadLetter
from processors.contracts.hosts import Profile, ResourceView
from processors.contracts.load import UnderLoad
from processors.contracts.names import Horizon


class HorizonQuality(msgspec.Struct, frozen=True):
    """Accuracy of past predictions at one horizon: runs scored, median relative error, share inside the 90 % band.

    `pit` is the share of runs in each tenth of the published distribution. A correct distribution has .1 each; bands that are
    too narrow fill the outer tenths; predictions that are too short fill the last ones. `pinball_05` and `pinball_95` are the
    mean pinball losses of the ends of the band, in ln of the run time. Older runs weigh less. Share, `pit` and losses are None
    or empty until 20 runs were scored.
    """

    horizon: Horizon
    scored: int
    median_error: float
    coverage_90: float | None
    pit: tuple[float, ...] = ()
    pinball_05: float | None = None
    pinball_95: float | None = None


class Quality(msgspec.Struct, frozen=True):
    """Accuracy of the published predictions of an application, measured on each run before it was learned.

    `horizons` splits the runs by how far their size lay from the sizes known at that time; horizons without runs are left out.
    `coverage_90` is the share inside the 90 % band, None until 20 runs were scored.
    """

    scored: int = 0
    median_error: float | None = None
    coverage_90: float | None = None
    bias: float | None = None
    horizons: tuple[HorizonQuality, ...] = ()


class PowerQuality(msgspec.Struct, frozen=True, kw_only=True):
    """Accuracy of power predictions, measured as in `Quality`.

    `measured` is the share of host-minutes with a power sensor, `estimated` the share whose power was estimated from counters.
    """

    scored: int = 0
    median_error: float | None = None
    coverage_90: float | None = None
    measured: float = 1.0
    estimated: float = 0.0


class Explained(msgspec.Struct, frozen=True):
    """A counter that explains a target: its coefficient in target units per rate, and standardised.

    `rho` is its rank correlation with the target. `effect` is the change of the target, in its unit, for one standard deviation
    of the counter. `share` is the part of this counter in the effects of all counters.
    """

    counter: str
    coefficient: float
    standardised: float
    rho: float
    effect: float = 0.0
    share: float = 0.0


class ProfileModel(msgspec.Struct, frozen=True, kw_only=True):
    """The model of one target from counters of runs (`run_time_s`, or per host `system_power_w`, `cpu_power_w`, ...).

    `model` names the method in use. `scored` counts the runs predicted before they were learned; `median_error` and
    `coverage_90` are their median relative error and their share inside the 90 % band. `explained` lists the counters with the
    largest effects.
    """

    target: str
    model: str
    runs: int
    scored: int
    median_error: float | None = None
    coverage_90: float | None = None
    explained: tuple[Explained, ...] = ()


class AddedByCounter(msgspec.Struct, frozen=True):
    """The amount that a counter of a run adds to the target of the mean run, in the target's unit, and its share of all amounts."""

    counter: str
    amount: float
    share: float


class ExpectedFromCounters(msgspec.Struct, frozen=True, kw_only=True):
    """The value of a target that the counters of a run predicted before it was learned, with its band, and the observed value.

    `added` lists the counters that add most; only for power.
    """

    target: str
    observed: float
    expected: float
    low: float
    high: float
    added: tuple[AddedByCounter, ...] = ()


class FeatureModel(msgspec.Struct, frozen=True, kw_only=True):
    """How the features of a job explain the run time of its application.

    `features` is a kind of features: `attributes` of its jobs, the `communication` of its runs, the communication that network
    `adapters` of its hosts counted, `shared_communication` (costs learned from all applications of the system), or `counters`.

    `model` names the method in use (for communication: the set of features), `weight` its share in a prediction if the features
    are given. `scored` counts the runs that were predicted before they were learned. On those runs, `error` is the mean of
    |ln(observed / predicted)|, `curve_error` and `combined_error` are the errors of the curve and of both together, and
    `coverage_90` is the share inside the band of both. On the newest `ranked` runs, `rcc` is the share of pairs in the predicted
    order (the first of a tie counts as above), `rcc_symmetric` counts ties as half, and `r_squared` is the share of variance
    explained. `importances` are the shares of features in the explained part.
    """

    features: str
    model: str
    runs: int
    weight: float
    scored: int
    error: float | None = None
    curve_error: float | None = None
    combined_error: float | None = None
    coverage_90: float | None = None
    ranked: int = 0
    rcc: float | None = None
    rcc_symmetric: float | None = None
    r_squared: float | None = None
    importances: dict[str, float] = {}


class PredictedAtStart(msgspec.Struct, frozen=True, kw_only=True):
    """The prediction for a run before it ended: run time and band in seconds, with its verdict.

    `coverage` is the nominal share of the band. `source` is "curve", "similar_runs", "features", "other_inputs" or "under_load".

    >>> PredictedAtStart(run_time_s=100.0, low_s=90.0, high_s=110.0, coverage=0.9, verdict="reliable", source="curve").holds(95.0)
    True
    """

    run_time_s: float
    low_s: float
    high_s: float
    coverage: float
    verdict: str
    source: str

    def holds(self, run_time_s: float) -> bool:
        return self.low_s <= run_time_s <= self.high_s


class SlowedBy(msgspec.Struct, frozen=True):
    """The anomalous host that explains a slow run, and the observed over the expected run time; it excuses the user and the application."""

    host: str
    factor: float


class RecentRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that settled recently.

    `user` is a pseudonym, unless names are configured to be plain. Power and energy are sums over its hosts. `hosts` are host lists as
    sent; `counters` are rates per second and host. `shared` is the share of its host-minutes in which another job ran on the same host,
    None if its hosts sent no telemetry.
    """

    run_id: str
    system: str
    job_id: str
    application_id: str | None
    n: float | None
    start_ms: int
    end_ms: int
    run_time_s: float
    state: str
    user: str | None = None
    time_limit_s: float | None = None
    predicted: PredictedAtStart | None = None
    power_w: float | None = None
    energy_j: float | None = None
    nodes: int | None = None
    partition: str | None = None
    account: str | None = None
    hosts: tuple[str, ...] = ()
    slowed_by: SlowedBy | None = None
    counters: dict[str, float] = {}
    shared: float | None = None
    session: bool = False


RELIABLE: Final = "reliable"
VERDICTS: Final = (RELIABLE, "insufficient", "high_error", "uncertain", "unknown")
Source = Literal["observed", "interpolated", "extrapolated", "transfer", "similar_runs", "features"]
AlertStatus = Literal["pending", "firing", "resolved"]
AlertEnd = Literal["itself", "out_of_service", "superseded", "forgotten"]
AlertKind = Literal["anomaly", "reliability"]
Severity = Literal["info", "warning", "critical"]


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """The fields of every output message."""

    schema: str
    id: str
    time: str
    as_of: str
    agent_version: str
    valid_until: str | None = None


class Reliability(msgspec.Struct, frozen=True):
    """Whether to trust a prediction: a verdict of VERDICTS, reasons by severity, and advice."""

    verdict: str
    reasons: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    next_n: float | None = None


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """The prediction at one size: run time with its band, in seconds, and the one verdict on this size.

    Between two points the worse verdict of both holds. `coverage` is the nominal share of the band. `coverage_measured` is the share of past runs at this horizon that fell inside
    the bands published before they ended, shrunk towards the share of the centre; `coverage_runs` is the number of those runs
    (both None until 20 were scored). `speedup` and `efficiency` are None for predictions from similar runs, because those show
    how runs vary and not what another size gains. `power_w` is the mean power of all hosts together and `energy_j` the energy
    of the whole run, with bands of the same coverage; None if power was never measured.
    """

    n: float
    run_time_s: float
    low_s: float
    high_s: float
    coverage: float
    coverage_measured: float | None
    coverage_runs: int | None = None
    speedup: float | None
    efficiency: float | None
    extrapolation: float
    source: Source
    reliability: Reliability
    power_w: float | None = None
    power_low_w: float | None = None
    power_high_w: float | None = None
    energy_j: float | None = None
    energy_low_j: float | None = None
    energy_high_j: float | None = None

    @property
    def reliable(self) -> bool:
        return self.reliability.verdict == RELIABLE


class HorizonError(msgspec.Struct, frozen=True):
    """The mean |ln(observed / predicted)| of a model at one horizon, over runs scored before they were learned; old errors fade."""

    horizon: Horizon
    scored: int
    error: float


class Member(msgspec.Struct, frozen=True):
    """One law of run time: its weight in the prediction, and parameters (units in their names).

    `role` is "part" if the law counts in the prediction, "reference" if it only explains. `answers` names the sizes that it
    predicts now ("nothing" while fewer than `sizes_min` sizes are known, or if the law does not apply). `errors` are its past
    errors on this application.
    """

    name: str
    weight: float
    parameters: dict[str, float]
    role: Literal["part", "reference"] = "part"
    sizes_min: int = 1
    answers: Literal["all sizes", "larger sizes", "nothing"] = "all sizes"
    errors: tuple[HorizonError, ...] = ()


class Fluctuation(msgspec.Struct, frozen=True):
    """ADEPT's metric R (dimensionless) of the interval from size `n` to the next larger size that was run, `to_n`.

    Perfect speed-up gives R = 2 - n / to_n. A slow size makes the R before it small and the R after it large.
    """

    n: float
    to_n: float
    r: float


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """ADEPT's envelope: bounds of all Downey curves that fit the regular sizes.

    T(1) lies between `t1_low_s` and `t1_high_s`, the average parallelism A between `parallelism_low` and
    `parallelism_high` (None if unbounded), the serial share is at most `serial_share_high`.
    """

    t1_low_s: float
    t1_high_s: float
    parallelism_low: float
    parallelism_high: float | None
    serial_share_high: float


class ScalabilityStudy(msgspec.Struct, frozen=True, kw_only=True):
    """The measurements of ADEPT's study on the sizes that were run.

    `fluctuation` is metric R by interval. `fluctuation_ratio_max` is the largest ratio of an R to the R before it: above 1.1, the
    size between both intervals may be slow. Sizes below one processor count as one.
    """

    fluctuation: tuple[Fluctuation, ...]
    fluctuation_ratio_max: float | None
    envelope: Envelope


class Model(msgspec.Struct, frozen=True):
    """The model behind a prediction.

    `errors` are the errors of the published curve and of its extension beyond the published sizes. `study` is ADEPT's study,
    whichever model predicts.
    """

    name: str
    members: tuple[Member, ...]
    errors: tuple[HorizonError, ...] = ()
    study: ScalabilityStudy | None = None

    @property
    def slim(self) -> "Model":
        return Model(self.name, ())


class UsefulSizes(msgspec.Struct, frozen=True):
    """Recommended sizes: the largest useful size, the knee, and the largest size at half efficiency.

    Among reliable sizes, `least_energy` has the least energy of a run and `least_energy_delay` the least product of energy and
    run time; None if power was never measured. `slower_beyond` is the fastest size that was run, if the largest size is clearly
    slower.
    """

    max: float | None = None
    knee: float | None = None
    least_energy: float | None = None
    least_energy_delay: float | None = None
    at_half_efficiency: float | None = msgspec.field(default=None, name="at_efficiency_0.5")
    slower_beyond: float | None = None


class Range(msgspec.Struct, frozen=True):
    """A range of sizes, ends included."""

    min: float
    max: float


class Prediction(Message, frozen=True, kw_only=True):
    """Topic predictions, keyed by application id: the whole curve of an application.

    `observations` is how many runs the curve knew when it was fitted: later ones are not among them, nor those that the model
    dropped before, such as strange runs. `as_of` is when that was.
    `reliability` is the verdict on twice the largest size; each point of `curve` has the verdict on its own size. `reliable_n`
    is the longest stretch of reliable points: it begins at a size that was run, and ends at one or beyond all of them.
    `under_load` is for the size that was run last, on the partition where the application usually runs.
    """

    application: str
    system: str
    input: str
    unit: str
    observations: int
    sizes: tuple[float, ...]
    model: Model
    curve: tuple[CurvePoint, ...]
    useful_n: UsefulSizes
    reliable_n: Range | None
    preferred_n: tuple[float, ...] | None
    reliability: Reliability
    quality: Quality
    under_load: UnderLoad | None = None
    power: PowerQuality | None = None
    profiles: tuple[ProfileModel, ...] = ()
    features: tuple[FeatureModel, ...] = ()


class AnswerPoint(CurvePoint, frozen=True, kw_only=True):
    """A point of an answer; `under_load` is set if the request names hosts or a partition."""

    under_load: UnderLoad | None = None


class Answer(Message, frozen=True, kw_only=True):
    """Topic answers, keyed by request id: one answer for each request, even for an unknown application.

    `known` is False for an application without a model; `detail` is then a sentence for the user. `observations` counts the runs
    known now, some of which may be newer than the fitted curve.
    """

    request_id: str
    known: bool
    detail: str
    application: str | None
    system: str
    input: str | None
    unit: str | None
    identified_by: str
    confidence: float
    observations: int
    points: tuple[AnswerPoint, ...]
    model: Model | None
    useful_n: UsefulSizes | None
    quality: Quality | None


class RunTimeQuantile(msgspec.Struct, frozen=True):
    """The run time within which a share `probability` of such runs end, and that time of day, at most the time limit."""

    probability: float
    run_time_s: float
    end: str | None


class JobPrediction(Message, frozen=True, kw_only=True):
    """Topic job-predictions, keyed by system/job_id: when a running job will end; a tombstone when it has ended.

    `end` is the time to plan by: half of such jobs have ended by then, and it is at most the time limit. `run_time_s` and its
    band are without a limit. All are conditional on the job still running, with the digits that the band supports.
    `quantiles` are the distribution behind both.

    `probability_exceeds_limit` is the probability of reaching the time limit, `probability_ends_before_limit` the rest.
    `probability_fails`, at the start of such a run, is the probability of ending earlier without completing; a burst of failures
    counts once. `coverage`, `coverage_measured` and `coverage_runs` are those of the curve at its size.

    `model` is the published curve of the application, or the distribution of similar runs with the weights of user, name, class
    and centre, whose coverage is that of all jobs of the centre; None if nothing is known. `under_load` is the run time by the
    load of its hosts before it started. If such predictions have been better than plain ones (`under_load.better`), run time,
    band, end and probabilities are those under load and `source` is "under_load". Otherwise `source` is "curve", "similar_runs",
    "features" or "other_inputs".

    `user` is a pseudonym, unless names are configured to be plain. `nodes` and `partition` are None if the producer does not
    report them. `account` is the project that is charged. `session` is True for an interactive session.
    """

    system: str
    job_id: str
    application: str | None
    input: str | None
    unit: str | None
    n: float | None
    start: str
    time_limit_s: float | None
    known: bool
    run_time_s: float | None
    low_s: float | None
    high_s: float | None
    coverage: float | None
    coverage_measured: float | None = None
    coverage_runs: int | None = None
    end: str | None
    end_low: str | None
    end_high: str | None
    probability_exceeds_limit: float | None
    reliability: Reliability
    model: Model | None = None
    under_load: UnderLoad | None = None
    power_w: float | None = None
    power_low_w: float | None = None
    power_high_w: float | None = None
    user: str | None = None
    source: str | None = None
    probability_fails: float | None = None
    nodes: int | None = None
    partition: str | None = None
    quantiles: tuple[RunTimeQuantile, ...] = ()
    probability_ends_before_limit: float | None = None
    account: str | None = None
    session: bool = False


class AlertEvidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """The values and runs that an alert rests on."""

    observed: float | None = None
    expected: float | None = None
    low: float | None = None
    high: float | None = None
    n: float | None = None
    runs: tuple[str, ...] = ()
    model: str | None = None
    detail: dict[str, Attribute] = {}


class Alert(Message, frozen=True, kw_only=True):
    """Topic alerts, keyed by fingerprint: changes of status only.

    `labels` identify the alert and never hold a changing value. `annotations` hold the texts (summary, description) and links
    (runbook_url, dashboard_url). An alert with a reason in `withheld_by` stays pending and notifies nobody; its key gets a
    tombstone when its cause ends.
    """

    fingerprint: str
    status: AlertStatus
    kind: AlertKind
    severity: Severity
    labels: dict[str, str]
    annotations: dict[str, str]
    starts: str
    ends: str | None
    evidence: AlertEvidence
    withheld_by: str = ""

    @property
    def name(self) -> str:
        return self.labels.get("alertname", self.kind)


class Run(Message, frozen=True, kw_only=True):
    """Topic runs, keyed by run id: a settled run with its raw identity evidence, the training set of a rebuild.

    `event` holds the completion and `identities` all other evidence of its job, as JSON text in the form of the journal, so that
    other rules, other code or another state version can process them again. `profile` summarises the telemetry of its hosts,
    `predicted` is the prediction before the run ended, and `slowed_by` the anomalous host that explains why it was slow.
    `by_counters` are the values that its counters predicted before it was learned.
    """

    run_id: str
    application_id: str | None
    identified_by: str
    confidence: float
    n: float | None
    run_time_s: float
    state: str
    event: msgspec.Raw
    identities: tuple[msgspec.Raw, ...]
    profile: Profile | None = None
    predicted: PredictedAtStart | None = None
    slowed_by: SlowedBy | None = None
    by_counters: tuple[ExpectedFromCounters, ...] = ()


class HostReport(Message, frozen=True, kw_only=True):
    """Topic hosts, keyed by system/host: measurements of the last five minutes and forecasts; a tombstone when it is forgotten.

    `state` is the last reported state ("" for none), `job` the key of the job that began last on it.
    """

    system: str
    host: str
    state: str
    job: str | None
    resources: tuple[ResourceView, ...]


class Tombstone(msgspec.Struct, frozen=True):
    """Removes a key from a compacted output topic."""

    kind: str
    key: str


class Emission(msgspec.Struct, frozen=True):
    """One record for an output topic: `kind` is the key of the topic in the configuration; the value None is a tombstone."""

    kind: Literal["predictions", "job_predictions", "answers", "alerts", "runs", "hosts", "deadletters"]
    key: str
    value: bytes | None


SCHEMAS: Final[dict[str, type[Prediction | JobPrediction | Answer | Alert | Run | HostReport | DeadLetter]]] = {
    "scalewatch.prediction/1": Prediction,
    "scalewatch.job-prediction/1": JobPrediction,
    "scalewatch.answer/1": Answer,
    "scalewatch.alert/1": Alert,
    "scalewatch.run/1": Run,
    "scalewatch.host/1": HostReport,
    "scalewatch.dead-letter/1": DeadLetter,
}
"""The messages that this version writes and reads, by the value of `schema`."""

TIMES: Final = frozenset({"time", "as_of", "valid_until", "start", "end", "starts", "ends", "end_low", "end_high"})
"""Fields of messages that hold a time as RFC 3339, or null."""
