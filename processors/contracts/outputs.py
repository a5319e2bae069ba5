"""What comes out: the messages of the output topics, as typed structs.

Every message carries `schema` (name and major version), `id`, `time` (event time), `as_of`, `valid_until` and
`agent_version`. Delivery is at least once: a repeat has the same id and the same content. Where a key repeats, the
message with the larger `time` is the newer one. Schemas only grow within a major version.
"""

from typing import Final, Literal

import msgspec

from processors.contracts.events import Attribute, DeadLetter
from processors.contracts.hosts import Profile, ResourceView
from processors.contracts.load import UnderLoad
from processors.contracts.names import Horizon


class HorizonQuality(msgspec.Struct, frozen=True):
    """How good predictions at one horizon have been: runs scored, median relative error, share inside the 90 % band.

    `pit` is the share of runs in each tenth of the distribution that was published: .1 each where it was right, more in the
    outer tenths where bands were too narrow, in the last ones where predictions were too fast. `pinball_05` and `pinball_95`
    are the mean pinball losses of the band's ends, in ln of the run time. Older runs weigh less. Share, `pit` and losses are
    None or empty before 20 runs were scored: of fewer they say nothing.
    """

    horizon: Horizon
    scored: int
    median_error: float
    coverage_90: float | None
    pit: tuple[float, ...] = ()
    pinball_05: float | None = None
    pinball_95: float | None = None


class Quality(msgspec.Struct, frozen=True):
    """How good the published predictions of this application have been: scored before learning.

    `horizons` tells it apart by how far the size lay from those known then; only horizons with runs are there. `coverage_90`
    is the share inside the 90 % band, None before 20 runs were scored.
    """

    scored: int = 0
    median_error: float | None = None
    coverage_90: float | None = None
    bias: float | None = None
    horizons: tuple[HorizonQuality, ...] = ()


class PowerQuality(msgspec.Struct, frozen=True, kw_only=True):
    """How good predictions of a run's power have been: scored before learning, as `Quality`.

    `measured` is the share of the runs' host-minutes with a power sensor, `estimated` that of those estimated from counters.
    """

    scored: int = 0
    median_error: float | None = None
    coverage_90: float | None = None
    measured: float = 1.0
    estimated: float = 0.0


class Explained(msgspec.Struct, frozen=True):
    """A counter that explains a target: its coefficient in the target's unit per rate, the same in deviations, and rho.

    rho is its rank correlation with the target. `effect` is what one deviation of the counter adds to the target, in its unit,
    `share` the part of this counter in what all of them move.
    """

    counter: str
    coefficient: float
    standardised: float
    rho: float
    effect: float = 0.0
    share: float = 0.0


class ProfileModel(msgspec.Struct, frozen=True, kw_only=True):
    """What profiles of runs say of one target (`run_time_s`, or `system_power_w`, `cpu_power_w`, ... per host).

    `model` is the one that answers from counters, `scored` the runs that were predicted before they were learned, with the
    median of their relative errors and the share inside the 90 % band. `explained` are the counters that move what it answers most.
    """

    target: str
    model: str
    runs: int
    scored: int
    median_error: float | None = None
    coverage_90: float | None = None
    explained: tuple[Explained, ...] = ()


class AddedByCounter(msgspec.Struct, frozen=True):
    """What a counter of a run adds to what is expected of the mean run, in the target's unit, and its share of all that is added."""

    counter: str
    amount: float
    share: float


class ExpectedFromCounters(msgspec.Struct, frozen=True, kw_only=True):
    """What counters of a run let expect of a target before it was learned, with the band, beside what was observed.

    `added` are the counters that add most; of power alone, and nowhere else.
    """

    target: str
    observed: float
    expected: float
    low: float
    high: float
    added: tuple[AddedByCounter, ...] = ()


class FeatureModel(msgspec.Struct, frozen=True, kw_only=True):
    """What features report the run times of an application.

    They are `attributes` of its jobs, the `communication` of its runs, what `adapters` of their hosts counted of that,
    `shared_communication`, costs that are learned from the runs of all applications of its system, or `counters`.

    `model` is the one that answers of those that are tried (of communication: the set of features that is believed),
    `weight` its share where a request or a job tells the features. `scored` runs were compared with it before they were
    learned: `error` is the mean of |ln(observed / predicted)|, `curve_error` and `combined_error` those of the curve and of
    both together on the same runs; `coverage_90` the share of them in the band of both. Of the newest `ranked` of them,
    `rcc` is the share of pairs that are ordered as predicted (of a tie the first counts as above), `rcc_symmetric` the same
    with ties as half, `r_squared` the share of the variance that is explained. `importances` are the shares of features in
    what the model explains: trees beyond a law, a sum of costs, or counters at a given size.
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
    """What was predicted of a run before it ended: its run time with the band, in seconds, and how far to trust it.

    `coverage` is what the band aims at, `source` where the figures came from: "curve", "similar_runs", "features",
    "other_inputs" or "under_load".

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
        """Return whether a run time lies inside the band."""
        return self.low_s <= run_time_s <= self.high_s


class SlowedBy(msgspec.Struct, frozen=True):
    """The odd host that a slow run met, and how many times as long as expected the run took: neither its application's nor its user's."""

    host: str
    factor: float


class RecentRun(msgspec.Struct, frozen=True, kw_only=True):
    """A run that settled recently. `user` is as the journal has it: a pseudonym, unless names are configured to be plain.

    `predicted` is what was predicted of it, None where nothing was; power and energy are those of all its hosts together.
    `session` is True for an interactive session. `hosts` are host lists as sent, `nodes` how many nodes it held, `account` the project that it was charged to. `slowed_by` is the
    odd host that explains why it was slow. `counters` are rates per second and host, `shared` the share of its host-minutes
    in which another job ran on the same host; None where its hosts reported nothing.

    >>> RecentRun(run_id="exa/1@0", system="exa", job_id="1", application_id=None, n=8.0, start_ms=0, end_ms=60_000,
    ...           run_time_s=60.0, state="COMPLETED").predicted is None
    True
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
VERDICTS: Final = (
    RELIABLE, "insufficient", "high_error", "linear", "runner_up", "superlinear", "far", "uncertain", "unknown"
)  # fmt: skip
Source = Literal["observed", "interpolated", "extrapolated", "transfer", "similar_runs", "features"]
AlertStatus = Literal["pending", "firing", "resolved"]
AlertEnd = Literal["itself", "out_of_service", "superseded", "forgotten"]
AlertKind = Literal["anomaly", "reliability"]
Severity = Literal["info", "warning", "critical"]


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """What every output message has."""

    schema: str
    id: str
    time: str
    as_of: str
    agent_version: str
    valid_until: str | None = None


class Reliability(msgspec.Struct, frozen=True):
    """Whether to trust it: a verdict of VERDICTS, reasons by severity, and what to do about it."""

    verdict: str
    reasons: tuple[str, ...] = ()
    advice: tuple[str, ...] = ()
    next_n: float | None = None


class CurvePoint(msgspec.Struct, frozen=True, kw_only=True):
    """The prediction at one size: run time with its band, in seconds, and the one verdict on this size.

    Everybody who asks whether a size is reliable reads `reliability` of its point. Between two points the worse verdict of
    both holds.

    `coverage` is what the band aims at, `coverage_measured` the share of past runs at this horizon that fell inside
    the bands published before they ended, drawn to that of the centre, and `coverage_runs` how many of them were scored (both
    None before 20 were). `speedup` and `efficiency` are None where similar runs answer: they know how runs vary, not what
    another size would gain. `power_w` is the mean power of all hosts together and
    `energy_j` the energy of the whole run, with bands of the same coverage; None where power was never measured.
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
        """Whether the verdict on this size is `reliable`."""
        return self.reliability.verdict == RELIABLE


class HorizonError(msgspec.Struct, frozen=True):
    """How far off a model was at one horizon: runs that were scored before they were learned, and their mean error.

    An error is |ln(observed / predicted)|, at most 2; a small one is a relative error. Errors of long ago fade.
    """

    horizon: Horizon
    scored: int
    error: float


class Member(msgspec.Struct, frozen=True):
    """One law of run time: its weight in the prediction, and parameters (units in their names).

    `role` tells whether it is part of the prediction or stands beside it for explanation, `answers` for which sizes it
    says anything now ("nothing" while fewer than `sizes_min` sizes are known, or where it does not apply), `errors` how
    right it has been on this application.
    """

    name: str
    weight: float
    parameters: dict[str, float]
    role: Literal["part", "reference"] = "part"
    sizes_min: int = 1
    answers: Literal["all sizes", "larger sizes", "nothing"] = "all sizes"
    errors: tuple[HorizonError, ...] = ()


class Fluctuation(msgspec.Struct, frozen=True):
    """ADEPT's metric R of the interval from the size `n` to the next one that was run, `to_n`: a pure number.

    Perfect speed-up gives 2 - n / to_n. A slow size makes the R before it small and the R after it large.
    """

    n: float
    to_n: float
    r: float


class Envelope(msgspec.Struct, frozen=True, kw_only=True):
    """ADEPT's envelope: bounds of every Downey curve near the sizes that are in line.

    T(1) lies between `t1_low_s` and `t1_high_s`, the average parallelism A between `parallelism_low` and
    `parallelism_high` (None: nothing bounds it yet), the serial share is at most `serial_share_high`.
    """

    t1_low_s: float
    t1_high_s: float
    parallelism_low: float
    parallelism_high: float | None
    serial_share_high: float


class ScalabilityStudy(msgspec.Struct, frozen=True, kw_only=True):
    """What ADEPT's study measured on the sizes that were run.

    `fluctuation` is metric R by interval, `fluctuation_ratio_max` the largest R over the one before it: above 1.1 the size
    between may be slow. Sizes below one processor count as one.
    """

    fluctuation: tuple[Fluctuation, ...]
    fluctuation_ratio_max: float | None
    envelope: Envelope


class Model(msgspec.Struct, frozen=True):
    """Where a prediction came from.

    `errors` are those of what was published, or beyond its curve would have been, measured as those of its members.
    `study` is what ADEPT's study measured, whoever predicts.
    """

    name: str
    members: tuple[Member, ...]
    errors: tuple[HorizonError, ...] = ()
    study: ScalabilityStudy | None = None

    @property
    def slim(self) -> "Model":
        """The name alone: what plans by a curve reads neither its members nor how right each of them was."""
        return Model(self.name, ())


class UsefulSizes(msgspec.Struct, frozen=True):
    """Sizes worth asking for: the largest useful one, the knee, the largest at half efficiency.

    `least_energy` is the size with the least energy of a run, `least_energy_delay` that with the least product of energy and
    run time, of the sizes of the curve that can be relied on; None where power was never measured. `slower_beyond` is the
    fastest size that was run, where the largest is clearly slower; None where no run was.
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
    """Topic answers, keyed by request id: one answer for each request, also where nothing is known.

    `known` is False for an application that has no model; `detail` is then the sentence that says so. `observations` is how
    many runs are known now: the curve may have been fitted before the newest of them.
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
    """A run time that a share of runs like this one end within, and when that is: at the time limit at the latest."""

    probability: float
    run_time_s: float
    end: str | None


class JobPrediction(Message, frozen=True, kw_only=True):
    """Topic job-predictions, keyed by system/job_id: when a running job will end; a tombstone when it is over.

    `end` is the one end to plan by: the time by which half of such jobs have ended, and at the latest that of the limit, where
    the scheduler stops it. `run_time_s` and its band are what it takes without a limit. All are given that it still runs, and have
    the digits that the band supports. `quantiles` are the distribution that both are from.
    `probability_exceeds_limit` is the chance to run into the time limit, `probability_ends_before_limit` the rest;
    `probability_fails` that of
    a run like it, at its start, to end before that without having completed: a burst of failures counts once there. `coverage`,
    `coverage_measured` and `coverage_runs` are those of the curve at its size. `model` is where the numbers came from: the published curve of
    the application, or the distribution of similar runs with what its user, name, class and centre weigh, whose coverage
    is that of the centre's jobs; None where nothing is known. `under_load` is the run time by the load of its hosts before
    it started. Where such figures have predicted past runs better than the plain ones (`under_load.better`), run time, band,
    end and chance are those under load, and `source` says "under_load"; else it says "curve", "similar_runs", "features" or
    "other_inputs". `user` is who runs it: a pseudonym, unless names are configured to be plain. `nodes` is how many nodes it
    holds, `partition` where it runs; None where its producer does not say. `account` is the project that it is charged to. `session` is True for an
    interactive session.
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
    """What an alert rests on."""

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

    `labels` identify the alert and never hold a changing value; `annotations` are for people (summary, description) and link to
    what they need (runbook_url, dashboard_url). One that stays pending with a reason in `withheld_by` is true and wakes nobody; when it is over, its
    key has a tombstone.
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
    def is_open(self) -> bool:
        """Return whether it was sent and is true now: what is pending is not open yet, and what is withheld never."""
        return self.status == "firing"


class Run(Message, frozen=True, kw_only=True):
    """Topic runs, keyed by run id: a settled run with its raw identity evidence, the training set of a rebuild.

    `event` holds the completion as it was journalled and `identities` all other evidence of its job, as JSON text of
    the journal's own form, so that other rules, other code or another state version can fold it anew. `profile` is what the
    telemetry of its hosts said of it, `predicted` what was predicted before it ended. `slowed_by` is the odd host that explains why it was
    slow; None where none does. `by_counters` is what its counters let expect, before it was learned.
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
    """Topic hosts, keyed by system/host: what a host measured in its last five minutes, and what is expected next.

    `state` is as it was told last ("" for none), `job` the key of the job that began last on it. Removed when the host is forgotten.
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
    """One record to send to an output topic: `kind` names the topic in the configuration, a None value is a tombstone."""

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
"""What this version writes and reads, by the name in the field `schema`."""

TIMES: Final = frozenset({"time", "as_of", "valid_until", "start", "end", "starts", "ends", "end_low", "end_high"})
"""Fields of messages that hold a time as RFC 3339, where they hold anything."""


HITS: Final = 0.5  # from this chance on a job will probably hit its limit


def hits(chance: float | None, *, session: bool) -> bool:
    """Return whether a time limit will probably cost a job its work, by the chance to reach it; a session ends there as a rule.

    >>> hits(0.7, session=False), hits(0.7, session=True), hits(0.5, session=False), hits(None, session=False)
    (True, False, False, False)
    """
    return chance is not None and chance > HITS and not session


class Neighbour(msgspec.Struct, frozen=True):
    """Another job on the hosts of a running one: on how many of them, and since when."""

    job_id: str
    hosts: int
    start_ms: int


class LoadedBand(msgspec.Struct, frozen=True):
    """Quantiles of the run time under the load of the hosts, in seconds; None where too little is known of it."""

    q05_s: float | None = None
    q50_s: float | None = None
    q95_s: float | None = None


class RunningJob(msgspec.Struct, frozen=True, kw_only=True):
    """What lists show of a running job: a part of its prediction, so that twenty thousand are read in a moment."""

    id: str
    time: str
    as_of: str
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
    under_load: LoadedBand | None = None
    power_w: float | None = None
    user: str | None = None
    nodes: int | None = None
    partition: str | None = None
    account: str | None = None
    session: bool = False
