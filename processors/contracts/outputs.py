"""The messages of the output topics, as typed structs.

Every message has `schema` (name and major version), `id`, `time` (event time), `as_of`, `valid_until` and `agent_version`.
Delivery is at least once: a repeated message has the same id and content. Of two messages with the same key, the message
with the larger `time` is newer. Within a major version, schemas only gain fields.
"""

from typing import Final, Literal

import msgspec

from processors.contracts.events import Attribute, DeadLetter
from processors.contracts.hosts import Profile, ResourceView
from processors.contracts.load import UnderLoad
from processors.contracts.names import Horizon


class HorizonQuality(msgspec.Struct, frozen=True):
    """Accuracy of past predictions at one horizon: number of scored runs, median relative error, share inside the 90 % band.

    `pit` is the share of runs in each tenth of the predicted distribution, 0.1 in each if the distribution is right. Too narrow
    bands put more runs into the first and last tenth; too short predictions put more into the last tenths. `pinball_05` and
    `pinball_95` are the mean pinball losses of the ends of the band, in ln of the run time. Older runs weigh less. The share
    inside the band and the losses are None, and `pit` is empty, until 20 runs were scored.
    """

    horizon: Horizon
    scored: int
    median_error: float
    coverage_90: float | None
    pit: tuple[float, ...] = ()
    pinball_05: float | None = None
    pinball_95: float | None = None


class Quality(msgspec.Struct, frozen=True):
    """Accuracy of the published predictions of an application, measured on each run before the run was learned.

    `horizons` groups the runs by the distance of their size from the sizes known at that time. Horizons without runs are left
    out. `coverage_90` is the share inside the 90 % band, None until 20 runs were scored.
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
    """A counter that explains a target, with its coefficient in the model.

    `coefficient` is in units of the target per unit of the rate, `standardised` in standard deviations of both. `rho` is the
    rank correlation of counter and target. `effect` is the change of the target, in its unit, for one standard deviation of the
    counter. `share` is this effect divided by the sum of the effects of all counters.
    """

    counter: str
    coefficient: float
    standardised: float
    rho: float
    effect: float = 0.0
    share: float = 0.0


class ProfileModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that predicts one target (`run_time_s`, or per host `system_power_w`, `cpu_power_w`, ...) from counters of runs.

    `model` names the method in use. `scored` is the number of runs that were predicted before they were learned. For these runs,
    `median_error` is the median relative error, and `coverage_90` the share inside the 90 % band. `explained` lists the counters
    with the largest effects.
    """

    target: str
    model: str
    runs: int
    scored: int
    median_error: float | None = None
    coverage_90: float | None = None
    explained: tuple[Explained, ...] = ()


class AddedByCounter(msgspec.Struct, frozen=True):
    """The contribution of a counter of a run to the difference from the mean run, in the unit of the target and as a share."""

    counter: str
    amount: float
    share: float


class ExpectedFromCounters(msgspec.Struct, frozen=True, kw_only=True):
    """The target that was predicted from the counters of a run before the run was learned, with its band, and the observed value.

    `added` lists the counters with the largest contributions, for power only.
    """

    target: str
    observed: float
    expected: float
    low: float
    high: float
    added: tuple[AddedByCounter, ...] = ()


class FeatureModel(msgspec.Struct, frozen=True, kw_only=True):
    """A model that explains the run time of an application by features of its jobs.

    `features` is a kind of features:
    - `attributes` of the job
    - `communication` of the run
    - `adapters`: communication that the network adapters of the hosts counted
    - `shared_communication`: costs learned from all applications of the system
    - `counters`

    `model` names the method in use (for communication: the set of features), `weight` the share of this model in a prediction if
    the features are known. `scored` is the number of runs that were predicted before they were learned. For these runs, `error`
    is the mean |ln(observed / predicted)| of the features, `curve_error` that of the curve, and `combined_error` that of both
    together; `coverage_90` is the share inside the band of both. For the newest `ranked` runs, `rcc` is the share of pairs in the
    predicted order (the first of a tie counts as above), `rcc_symmetric` counts ties as half, and `r_squared` is the share of
    variance explained. `importances` are the shares of the features in the explained part of the run time.
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
    """The anomalous host, not user or application, that explains a slow run, and the ratio of observed to expected run time."""

    host: str
    factor: float


class RunSummary(msgspec.Struct, frozen=True, kw_only=True):
    """A settled run with its final state. `nodes` is None if no source reports its number of nodes.

    `user` is a pseudonym, unless the configuration shows plain names. `session` is True for an interactive session.
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
    nodes: int | None = None
    account: str | None = None
    slowed_by: SlowedBy | None = None
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
    """The verdict on a prediction (one of VERDICTS), the reasons for the verdict in order of severity, and advice."""

    verdict: str
    reasons: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    next_n: float | None = None


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """The prediction at one size: run time and band in seconds, and the verdict on this size.

    The verdict on a size between two points is the worse verdict of both. `coverage` is the nominal share of the band.
    `coverage_measured` is the share of past runs at this horizon inside the bands that were published before they ended, shrunk
    towards the share of the centre. `coverage_runs` is the number of these runs. Both are None until 20 runs were scored.
    `speedup` and `efficiency` are None for predictions from similar runs, because similar runs show how much run times vary, not
    how they change with the size. `power_w` is the mean power of all hosts together and `energy_j` the energy of the whole run,
    with bands of the same coverage; None if power was never measured.
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
    """The mean |ln(observed / predicted)| of a model at one horizon, over runs that the model did not know; old errors weigh less."""

    horizon: Horizon
    scored: int
    error: float


class Member(msgspec.Struct, frozen=True):
    """One scaling law: its weight in the prediction, and its parameters (with units in their names).

    `role` is "part" if the law counts in the prediction, "reference" if it only explains the curve. `answers` tells which sizes
    the law can predict at present: "nothing" while fewer than `sizes_min` sizes were run, or if the law does not fit the
    application. `errors` are its past errors on this application.
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
    """The measurements of ADEPT's scalability study at the observed sizes.

    `fluctuation` is metric R by interval. `fluctuation_ratio_max` is the largest ratio of an R to the preceding R. Above 1.1, the
    size between both intervals may be slow. Sizes below one processor count as one.
    """

    fluctuation: tuple[Fluctuation, ...]
    fluctuation_ratio_max: float | None
    envelope: Envelope


class Model(msgspec.Struct, frozen=True):
    """The model behind a prediction.

    `errors` are the errors of the published curve and of its extension beyond the published sizes. `study` is ADEPT's study of every model.
    """

    name: str
    members: tuple[Member, ...]
    errors: tuple[HorizonError, ...] = ()
    study: ScalabilityStudy | None = None

    @property
    def slim(self) -> "Model":
        return Model(self.name, ())


class UsefulSizes(msgspec.Struct, frozen=True):
    """Recommended sizes: the largest useful size (`max`), the knee (best balance of speed and cost), the largest at half efficiency.

    Among reliable sizes, `least_energy` needs the least energy for a run, and `least_energy_delay` has the least product of
    energy and run time; None if power was never measured. `slower_beyond` is the fastest size that was run, if the largest size
    that was run is clearly slower; else None.
    """

    max: float | None = None
    knee: float | None = None
    least_energy: float | None = None
    least_energy_delay: float | None = None
    at_half_efficiency: float | None = msgspec.field(default=None, name="at_efficiency_0.5")
    slower_beyond: float | None = None


class Range(msgspec.Struct, frozen=True):
    """A range of sizes, including both ends."""

    min: float
    max: float


class Prediction(Message, frozen=True, kw_only=True):
    """Topic predictions, keyed by application id: the whole curve of an application.

    `as_of` is the time of the fit. `observations` is the number of runs in the fit, without dropped runs such as strange runs.
    `reliability` is reliable if the prediction is reliable at sizes beyond the largest that was run; each point of `curve` has the
    verdict on its own size. `reliable_n` is the longest range in which all observed sizes are reliable; it may end beyond the largest observed
    size. `under_load` is the prediction for the size of the last run, on the partition that the application usually uses.
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

    `known` is False for an application without a model, and `detail` then explains this to the user. `observations` is the present
    number of known runs, some of which may be newer than the fit.
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
    """A quantile: similar runs end within `run_time_s` with this `probability`. `end` is the time of that end, at most the time limit."""

    probability: float
    run_time_s: float
    end: str | None


class PredictedJob(Message, frozen=True, kw_only=True):
    """The fields of a job prediction that lists show, too.

    `user` is a pseudonym, unless the configuration shows plain names. `nodes` and `partition` are None if the producer does not
    report them. `account` is the charged project. `session` is True for an interactive session.
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
    end: str | None
    end_low: str | None
    end_high: str | None
    probability_exceeds_limit: float | None
    power_w: float | None = None
    user: str | None = None
    nodes: int | None = None
    partition: str | None = None
    account: str | None = None
    session: bool = False


class JobPrediction(PredictedJob, frozen=True, kw_only=True):
    """Topic job-predictions, keyed by system/job_id: the predicted end of a running job; a tombstone when the job has ended.

    `end` is the time to plan with: half of similar jobs end by `end`, and `end` is never after the time limit. `run_time_s` and
    its band ignore the limit. All values assume that the job still runs at this time, and have as many digits as the band
    supports. `quantiles` are the quantiles from which run time and end are taken.

    `probability_exceeds_limit` is the probability of reaching the time limit, `probability_ends_before_limit` the rest.
    `probability_fails` is the probability, as of the start, of ending earlier without completing; a burst of failures counts
    once. `coverage`, `coverage_measured` and `coverage_runs` are those of the curve at the size of the job.

    `model` is the published curve of the application, or the distribution of similar runs with the weights of user, name, class
    and centre, whose coverage is that of all jobs of the centre; None if nothing is known. `under_load` is the run time under
    the load of its hosts before the start. If predictions under load have been better than plain predictions
    (`under_load.better`), run time, band, end and probabilities are predicted under load and `source` is "under_load".
    Otherwise `source` is "curve", "similar_runs", "features" or "other_inputs".
    """

    low_s: float | None
    high_s: float | None
    coverage: float | None
    coverage_measured: float | None = None
    coverage_runs: int | None = None
    reliability: Reliability
    model: Model | None = None
    under_load: UnderLoad | None = None
    power_low_w: float | None = None
    power_high_w: float | None = None
    source: str | None = None
    probability_fails: float | None = None
    quantiles: tuple[RunTimeQuantile, ...] = ()
    probability_ends_before_limit: float | None = None


class AlertEvidence(msgspec.Struct, frozen=True, omit_defaults=True):
    """The numbers behind an alert: observed and expected value, the band from `low` to `high`, the size `n`, and the run ids `runs`."""

    observed: float | None = None
    expected: float | None = None
    low: float | None = None
    high: float | None = None
    n: float | None = None
    runs: tuple[str, ...] = ()
    model: str | None = None
    detail: dict[str, Attribute] = {}


class Alert(Message, frozen=True, kw_only=True):
    """Topic alerts, keyed by fingerprint. Only changes of the status are written.

    `labels` identify the alert, so they hold no changing values. `annotations` hold the texts (summary, description) and links
    (runbook_url, dashboard_url). `withheld_by` is the reason why nobody is notified; a withheld alert stays pending, and its key
    gets a tombstone when its cause ends.
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
    """Topic runs, keyed by run id: a settled run with its raw identity evidence. These runs are the training set of a rebuild.

    `event` holds the completion and `identities` all other evidence of its job, as JSON text in the form of the journal. A rebuild
    processes them again with new rules, new code or a new state version. `profile` summarises the telemetry of the hosts,
    `predicted` is the prediction before the run ended, and `slowed_by` the anomalous host that explains a slow run.
    `by_counters` are the values predicted from its counters before the run was learned.
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
    """Topic hosts, keyed by system/host: the last five minutes and the forecasts of a host; a tombstone when the host is dropped.

    `state` is the last reported state ("" for none), `job` the key of the job that started last on the host.
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
    """One record for an output topic: `kind` is the key of the topic in the configuration; None as `value` is a tombstone."""

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
