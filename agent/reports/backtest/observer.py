"""Observes a backtest: keeps the prediction made at the start of each job, and scores it when the job ends."""

import math
from binascii import crc32
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec
import numpy as np

from agent.reports.backtest.alerts import AlertHistory, alert_counts, precision
from agent.reports.backtest.report import (
    BaselineComparison,
    Coverage,
    Drawn,
    Observed,
    Period,
    PowerRow,
    Profiled,
    ScoredApplication,
    ScoreRow,
    Variant,
)
from agent.reports.backtest.scores import (
    BASELINES,
    BaselineName,
    Figures,
    Frequency,
    LastTwo,
    columns,
    even_edges,
    figures,
    figures_of_numbers,
    frequency,
    shares_below,
    shares_inside,
)
from processors.contracts.events import STATES, SUCCESS, HostMinute, JobCompleted, JobEvent, JobStarted
from processors.contracts.hosts import Profile
from processors.contracts.names import HORIZONS, ApplicationKey, Entry, grouped, horizon_of, rfc3339
from processors.contracts.outputs import Alert, JobPrediction, Prediction, Run, Tombstone
from processors.contracts.settings import ProfileSettings
from processors.facts import Band
from sinks.web.views.alert_states import AlertLabel

PERIODS: Final = 40
RUNS_OF_PERIOD: Final = 20  # with fewer runs in a period, a share is too uncertain
MINUTE_MS: Final = 60_000
REPORTED_AFTER_MS: Final = 10_000
# order at equal times: ends first, so that they are learned before a prediction at a start
_END, _START, _OTHER, _INSTANT = range(4)
RUNS_DRAWN: Final = 120  # runs shown next to the curve of their application
POWER_RUNS_DRAWN: Final = 300
CURVES_MAX: Final = 20_000
AT_START_MS: Final = 60_000  # evidence about a job may arrive some seconds after its start
NO_CURVE: Final = "no_curve"
DISTANCES: Final = (*HORIZONS, NO_CURVE)
CANCELLED: Final = "CANCELLED"
QUANTILES: Final = (0.5, 0.05, 0.95)  # quantile levels of the predicted median, lower and upper end
LEVELS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
LIMIT_BINS: Final = 10
SYSTEM: Final = "system"
MEASURED_MIN: Final = 0.5  # minimum share of a run's host-minutes with measurements; below it the power is unknown
NO_PROFILE: Final = "no telemetry"
NOT_COMPLETED: Final = "did not complete"
UNKNOWN: Final = "unknown application"
SHARED: Final = "hosts shared with other jobs"
TOO_LITTLE: Final = "too little telemetry"
_EXCEEDED: Final = 1 - 1e-9

NO_NAME: Final = "jobs of unknown applications"
UNNAMED: Final = ApplicationKey("", "", "", "")
Sorted = TypeVar("Sorted", str, ApplicationKey)


class Moment(NamedTuple):
    """An event with the time at which it is reported; `order` sorts events of the same time by type, `number` by place in the files."""

    time_ms: int
    order: int
    number: int
    event: JobEvent | HostMinute


def ran(event: JobCompleted) -> bool:
    """Return whether a completed job ever ran; a job cancelled in the queue did not."""
    return event.run_time_s > 0


def moments(events: Sequence[JobEvent]) -> list[Moment]:
    """Return the events in order of time; a run without a start event gets one with the start time in its completion.

    At equal times, ends come before starts. An event without a time, evidence from another source, gets the time of the event
    before it.
    """
    reported = {event.run_id for event in events if isinstance(event, JobStarted)}
    ordered: list[Moment] = []
    now_ms = 0
    for number, event in enumerate(events):
        if isinstance(event, JobCompleted):
            now_ms = event.end_ms
            ordered.append(Moment(now_ms, _INSTANT if event.end_ms <= event.start_ms else _END, number, event))
            if ran(event) and event.run_id not in reported:
                reported.add(event.run_id)
                started = JobStarted(event.system, event.job_id, event.run_id, event.start_ms, event.evidence)
                ordered.append(Moment(event.start_ms, _START, number, started))
        elif isinstance(event, JobStarted):
            now_ms = event.start_ms
            ordered.append(Moment(now_ms, _START, number, event))
        else:
            ordered.append(Moment(now_ms, _OTHER, number, event))
    ordered.sort(key=lambda moment: moment[:3])
    return ordered


def minute_moments(minutes: Iterable[HostMinute]) -> list[Moment]:
    """Return host minutes as moments, each reported ten seconds after its end."""
    return [
        Moment(minute.minute_ms + MINUTE_MS + REPORTED_AFTER_MS, _OTHER, number, minute)
        for number, minute in enumerate(minutes)
    ]


def span(reported: Iterable[Moment]) -> tuple[int, int]:
    """Return the times of the first and the last job start in ms; zeros if there are no starts."""
    starts = [moment.time_ms for moment in reported if isinstance(moment.event, JobStarted)]
    return (min(starts), max(starts)) if starts else (0, 0)


def period_edges(reported: Iterable[Moment], since_ms: int | None = None) -> list[int]:
    """Return the edges in ms that divide the runs by their start into periods with equal numbers of runs: one edge more than periods.

    There are at most PERIODS periods, each with at least RUNS_OF_PERIOD runs; runs that start before `since_ms` do not count.
    """
    starts = [moment.time_ms for moment in reported if isinstance(moment.event, JobStarted)]
    if since_ms is not None:
        starts = [start_ms for start_ms in starts if start_ms >= since_ms]
    first_ms = min(starts, default=since_ms or 0)
    inner = even_edges(starts, PERIODS, RUNS_OF_PERIOD)[1:]
    last_ms = max(starts, default=first_ms) + 1
    return sorted({first_ms, *inner, last_ms} if last_ms > first_ms else {first_ms, first_ms + 1})


class OpenRun(msgspec.Struct):
    """A running job: its prediction, the prediction's horizon, and the mean run time of the user's last two jobs."""

    start_ms: int
    last_two_s: float | None
    prediction: JobPrediction | None = None
    horizon: str = NO_CURVE


class ObservedRun(NamedTuple):
    """An ended run, the prediction at its start, and the baselines `requested` and `last_two`; `key` is the application of the prediction."""

    run_id: str
    start_ms: int
    state: str
    run_time_s: float
    key: ApplicationKey
    n: float | None
    horizon: str
    verdict: str
    band: Band | None
    exceeds_limit: tuple[float, bool] | None  # predicted probability, and whether the run reached its limit
    requested: float | None
    last_two: float | None


class PowerRun(NamedTuple):
    """A settled run with its power. `power_w` is None if sensors measured too few host-minutes to score the prediction."""

    run_id: str
    application_id: str
    profile: Profile
    power_w: float | None
    band: Band | None


class Observer:
    """Collects the runs of one backtest; runs that start at or after the first of `edges_ms` are scored.

    The edges are the starts of the periods, ascending, followed by the end of the last period.
    """

    def __init__(
        self,
        edges_ms: Sequence[int],
        systems_by_alias: Mapping[str, str] | None = None,
        coverage_min: float = ProfileSettings().coverage_min,
    ) -> None:
        self.edges_ms = tuple(edges_ms)
        self._since_ms = self.edges_ms[0]
        self._aliases = systems_by_alias or {}
        self._open: dict[tuple[str, str], OpenRun] = {}
        self._last_two = LastTwo()
        self.curves: dict[ApplicationKey, Prediction] = {}
        self.runs: list[ObservedRun] = []
        self.history = AlertHistory()
        self.profiles = ProfileObserver(coverage_min)

    def started(self, event: JobStarted) -> None:
        """Record the start of a run; the prediction for the run follows."""
        last_two_s = self._last_two.expected_s(event.system, event.evidence)
        self._open[event.system, event.job_id] = OpenRun(event.start_ms, last_two_s)

    def take(self, messages: Iterable[object], now_ms: int) -> None:
        for message in messages:
            if isinstance(message, JobPrediction):
                self._take_prediction(message, now_ms)
            elif isinstance(message, Prediction):
                self._published(message)
            elif isinstance(message, Run):
                self.profiles.take(message)
            elif isinstance(message, Alert) and now_ms >= self._since_ms:
                self.history.take(message)
            elif isinstance(message, Tombstone) and message.kind == "alerts":
                self.history.withdrawn(message.key)

    def ended(self, event: JobCompleted) -> None:
        """Score the prediction made at the start of a run; ignore repeated reports, and runs without a known start."""
        key = (event.system, event.job_id)
        run = self._open.get(key)
        if run is None or run.start_ms != event.start_ms:
            return
        del self._open[key]
        if not ran(event):
            return
        if event.start_ms >= self._since_ms:
            self.runs.append(self._scored(event, run))
            self.profiles.ended(event.run_id, power_band(run.prediction))
        self._last_two.learn(event.system, event.evidence, event.run_time_s)

    def _published(self, message: Prediction) -> None:
        key = ApplicationKey(message.application, message.system, message.input, message.unit)
        self.curves.pop(key, None)
        self.curves[key] = message
        if len(self.curves) > CURVES_MAX:
            del self.curves[next(iter(self.curves))]

    def _take_prediction(self, message: JobPrediction, now_ms: int) -> None:
        run = self._open.get((message.system, message.job_id))
        if run is None or message.start != rfc3339(run.start_ms) or now_ms - run.start_ms > AT_START_MS:
            return
        if run.prediction is None or not run.prediction.known:
            run.prediction = message
            curve = self.curves.get(self._key(message))
            run.horizon = horizon(message.n, curve.sizes if curve else ())

    def _key(self, prediction: JobPrediction) -> ApplicationKey:
        if prediction.application is None:
            return UNNAMED
        system = self._aliases.get(prediction.system, prediction.system)
        return ApplicationKey(prediction.application, system, prediction.input or "", prediction.unit or "")

    def _scored(self, event: JobCompleted, run: OpenRun) -> ObservedRun:
        prediction = run.prediction
        return ObservedRun(
            run_id=event.run_id,
            start_ms=event.start_ms,
            state=event.state,
            run_time_s=event.run_time_s,
            key=self._key(prediction) if prediction is not None else UNNAMED,
            n=prediction.n if prediction is not None else None,
            horizon=run.horizon,
            verdict=prediction.reliability.verdict if prediction is not None else "",
            band=run_time_band(prediction),
            exceeds_limit=_exceeds_limit(prediction, event),
            requested=event.evidence.time_limit_s,
            last_two=run.last_two_s,
        )


class ProfileObserver:
    """Collects the power of settled runs, with the power predicted at their start."""

    def __init__(self, coverage_min: float) -> None:
        self._coverage_min = coverage_min
        self._predictions: dict[str, Band | None] = {}
        self._settled = self._profiles = self._learned = 0
        self._left_out = Counter[str]()
        self._readings = Counter[str]()
        self._runs: list[PowerRun] = []

    def ended(self, run_id: str, prediction: Band | None) -> None:
        """Keep the prediction made at the start of a run until the run settles."""
        self._predictions[run_id] = prediction

    def take(self, run: Run) -> None:
        """Record the power of a settled run; ignore repeated reports."""
        profile = run.profile
        if run.run_id not in self._predictions:
            return
        band = self._predictions.pop(run.run_id)
        self._settled += 1
        self._profiles += profile is not None
        reason = self._why_not(run)
        if reason is not None or profile is None:
            self._left_out[reason or NO_PROFILE] += 1
            return
        self._learned += 1
        self._readings.update(profile.left_out)
        if SYSTEM in profile.power_w:
            is_measured = profile.measured.get(SYSTEM, 0.0) >= MEASURED_MIN
            power_w = profile.power_w[SYSTEM] * profile.hosts if is_measured else None
            self._runs.append(PowerRun(run.run_id, run.application_id or "", profile, power_w, band))

    def _why_not(self, run: Run) -> str | None:
        """Return the reason why no model learns the profile of a run; None if a model learns it."""
        profile = run.profile
        if profile is None:
            return NO_PROFILE
        if run.state != SUCCESS:
            return NOT_COMPLETED
        if run.application_id is None:
            return UNKNOWN
        if profile.coverage < self._coverage_min:
            return SHARED if profile.minutes + profile.shared >= self._coverage_min * profile.expected else TOO_LITTLE
        return None

    def result(self, curves: Mapping[str, Prediction], top: int) -> Profiled | None:
        """Return the results with the `top` largest applications; None if no run has a profile."""
        if not self._profiles:
            return None
        by_application = grouped(self._runs, lambda run: run.application_id)
        drawn = (
            (run.run_id, Drawn(band.run_time_s, band.low_s, band.high_s, power_w))
            for run, band, power_w in _scored_power(self._runs)
        )
        return Profiled(
            settled=self._settled,
            profiles=self._profiles,
            learned=self._learned,
            left_out=dict(sorted(self._left_out.items())),
            readings_left_out=dict(sorted(self._readings.items())),
            total=_power_row("all", self._runs),
            by_application=tuple(
                _power_row(name, by_application[name], curves.get(name)) for name in by_size(by_application)[:top]
            ),
            sample=tuple(sample(drawn, POWER_RUNS_DRAWN)),
        )


def _scored_power(runs: Iterable[PowerRun]) -> Iterator[tuple[PowerRun, Band, float]]:
    """Yield the runs whose predicted power can be scored, with the predicted band and the measured power in W."""
    for run in runs:
        if run.band is not None and run.power_w is not None:
            yield run, run.band, run.power_w


def _power_row(name: str, runs: Sequence[PowerRun], curve: Prediction | None = None) -> PowerRow:
    """Return the table row of these runs; `curve` provides the models that explain the power of the application by counters."""
    scored = [*_scored_power(runs)]
    powers_w = [power_w for *_, power_w in scored]
    power_figures = figures(powers_w, [band for _, band, _ in scored])
    count = max(len(runs), 1)
    return PowerRow(
        name=name,
        runs=len(runs),
        answered=len(scored) / count,
        measured=sum(run.profile.measured.get(SYSTEM, 0.0) for run in runs) / count,
        estimated=sum(run.profile.estimated.get(SYSTEM, 0.0) for run in runs) / count,
        mean_w=sum(powers_w) / len(scored) if scored else None,
        figures=msgspec.structs.replace(
            power_figures, mae_s=None, pinball_50_s=None, pinball_90_s=None
        ),  # these figures are in seconds
        explained=curve.profiles if curve is not None else (),
    )


def run_time_band(prediction: JobPrediction | None) -> Band | None:
    """Return the predicted run time with its band; None without a prediction."""
    if prediction is None or not prediction.known:
        return None
    return _finite_band(prediction.run_time_s, prediction.low_s, prediction.high_s)


def power_band(prediction: JobPrediction | None) -> Band | None:
    """Return the predicted power of a job in W with its band; None without a prediction above 0."""
    if prediction is None:
        return None
    band = _finite_band(prediction.power_w, prediction.power_low_w, prediction.power_high_w)
    return band if band is not None and min(band.run_time_s, band.low_s, band.high_s) > 0 else None


def _finite_band(*numbers: float | None) -> Band | None:
    finite = [number for number in numbers if number is not None and math.isfinite(number)]
    return Band(*finite) if len(finite) == len(numbers) else None


def _exceeds_limit(prediction: JobPrediction | None, event: JobCompleted) -> tuple[float, bool] | None:
    if prediction is None or event.state == CANCELLED:
        return None
    probability, limit_s = prediction.probability_exceeds_limit, prediction.time_limit_s
    if probability is None or limit_s is None or not 0 <= probability <= 1:
        return None
    return probability, event.run_time_s >= limit_s * _EXCEEDED


def horizon(n: float | None, sizes: tuple[float, ...]) -> str:
    """Return the distance of a size from the known sizes, as one of DISTANCES."""
    return horizon_of(n, min(sizes), max(sizes)) if sizes and n else NO_CURVE


def by_size(groups: Mapping[Sorted, Sequence[object]]) -> list[Sorted]:
    """Return the group names, the largest group first; groups of equal size by name."""
    return sorted(sorted(groups), key=lambda name: -len(groups[name]))


def sample(entries: Iterable[tuple[str, Entry]], most: int) -> list[Entry]:
    """Return at most `most` entries, chosen by the hash of their run ids, so that the same runs always give the same sample."""
    ranked = sorted(entries, key=lambda entry: (-crc32(entry[0].encode()), entry[0]))
    return [entry for _, entry in ranked[-most:]]


def score_row(name: str, runs: Sequence[ObservedRun]) -> ScoreRow:
    observed_s, bands = _predicted(runs)
    return ScoreRow(
        name=name,
        runs=len(runs),
        answered=len(bands) / len(runs) if runs else 0.0,
        figures=figures(observed_s, bands),
    )


def _predicted(runs: Iterable[ObservedRun]) -> tuple[list[float], list[Band]]:
    """Return the run times and the bands of the runs that had a prediction."""
    pairs = [(run.run_time_s, run.band) for run in runs if run.band is not None]
    return [observed_s for observed_s, _ in pairs], [band for _, band in pairs]


def score_rows(
    runs: Iterable[ObservedRun], name_of: Callable[[ObservedRun], str], order: Sequence[str] = ()
) -> tuple[ScoreRow, ...]:
    """Return the score rows of runs by name: first the names in `order`, then the others by number of runs."""
    groups = grouped(runs, name_of)
    names = [name for name in order if name in groups]
    return tuple(score_row(name, groups[name]) for name in dict.fromkeys((*names, *by_size(groups))))


def variant(
    name: str,
    settings: Mapping[str, str],
    observer: Observer,
    top: int,
    *,
    faults: int = 0,
    labels: Sequence[AlertLabel] = (),
) -> Variant:
    """Return the results of one configuration with its `top` largest applications.

    `labels` are the operators' judgements of alerts, from which the precision of the alerts is computed.
    """
    completed = [run for run in observer.runs if run.state == SUCCESS]
    predicted = [run for run in completed if run.band is not None]
    applications = grouped(completed, lambda run: run.key)
    limits = [run.exceeds_limit for run in observer.runs if run.exceeds_limit is not None]
    raised = observer.history.raised()
    comparisons = _comparisons("completed", completed)
    if len(completed) < len(observer.runs):
        comparisons += _comparisons("all", observer.runs)
    return Variant(
        name=name,
        settings=dict(settings),
        total=score_row("completed", completed),
        by_state=score_rows(observer.runs, lambda run: run.state, STATES),
        by_horizon=score_rows(predicted, lambda run: run.horizon, DISTANCES),
        by_verdict=score_rows(predicted, lambda run: run.verdict),
        by_application=tuple(
            application(key, applications[key], observer.curves.get(key)) for key in by_size(applications)[:top]
        ),
        applications=len(applications.keys() - {UNNAMED}),
        comparisons=tuple(comparisons),
        periods=tuple(_periods(completed, observer.edges_ms)),
        quantiles=tuple(_quantiles(predicted)),
        limit=tuple(_limit_frequencies(limits)),
        limit_brier=float(np.mean([(chance - exceeded) ** 2 for chance, exceeded in limits])) if limits else None,
        alerts=alert_counts(raised, len(observer.runs)),
        faults=faults,
        precision=tuple(precision(raised, labels)) if labels else (),
        coverages=tuple(_coverages(predicted)),
        profiled=observer.profiles.result({key.id: curve for key, curve in observer.curves.items()}, top),
    )


def application(key: ApplicationKey, runs: Sequence[ObservedRun], curve: Prediction | None) -> ScoredApplication:
    observed = ((run.run_id, Observed(run.n, run.run_time_s)) for run in runs if run.n)
    return ScoredApplication(
        **msgspec.structs.asdict(key),
        row=score_row(" ".join(part for part in (key.application, key.input) if part) or NO_NAME, runs),
        horizons=score_rows((run for run in runs if run.band is not None), lambda run: run.horizon, DISTANCES),
        verdict=curve.reliability.verdict if curve else None,
        curve=curve.curve if curve else (),
        observed=tuple(sorted(sample(observed, RUNS_DRAWN), key=lambda run: (run.n, run.run_time_s))),
    )


def _baseline_figures(runs: Iterable[ObservedRun], baseline: BaselineName) -> Figures:
    pairs = [(run.run_time_s, expected_s) for run in runs if (expected_s := getattr(run, baseline)) is not None]
    return figures_of_numbers([observed_s for observed_s, _ in pairs], [expected_s for _, expected_s in pairs])


def _comparisons(which: str, runs: Sequence[ObservedRun]) -> list[BaselineComparison]:
    """Return a comparison with each baseline that has a value for at least one run; `which` names the runs in the report."""
    comparisons = []
    for baseline in BASELINES:
        alone = _baseline_figures(runs, baseline)
        both = [run for run in runs if run.band is not None and getattr(run, baseline) is not None]
        if alone.scored:
            comparisons.append(
                BaselineComparison(
                    runs=which,
                    baseline=baseline,
                    share=len(both) / len(runs),
                    prediction=figures(*_predicted(both)),
                    baseline_prediction=_baseline_figures(both, baseline),
                    alone=alone,
                )
            )
    return comparisons


def _periods(completed: Sequence[ObservedRun], edges_ms: Sequence[int]) -> Iterator[Period]:
    """Yield the periods that have completed runs."""
    by_period = grouped(completed, lambda run: min(bisect_right(edges_ms, run.start_ms), len(edges_ms) - 1) - 1)
    for place in sorted(by_period):
        runs, (start, end) = by_period[place], map(rfc3339, edges_ms[place : place + 2])
        yield Period(
            start=start,
            end=end,
            row=score_row(start[:10], runs),
            requested_median_error=_baseline_figures(runs, "requested").median_error,
            last_two_median_error=_baseline_figures(runs, "last_two").median_error,
        )


def _quantiles(predicted: Sequence[ObservedRun]) -> Iterator[Frequency]:
    """Yield how often runs stayed below each predicted quantile, in order of the quantiles."""
    observed_s, bands = _predicted(predicted)
    for level, quantiles_s in sorted(zip(QUANTILES, columns(bands), strict=True), key=lambda pair: pair[0]):
        if bands:
            yield frequency([level] * len(bands), shares_below(observed_s, quantiles_s))


def _limit_frequencies(limits: Iterable[tuple[float, bool]]) -> Iterator[Frequency]:
    """Yield how often runs exceeded their limits, in order of the predicted probability."""
    bins = grouped(limits, lambda limit: min(int(limit[0] * LIMIT_BINS), LIMIT_BINS - 1))
    for _, pairs in sorted(bins.items()):
        yield frequency([chance for chance, _ in pairs], [exceeded for _, exceeded in pairs])


def _coverages(predicted: Sequence[ObservedRun]) -> Iterator[Coverage]:
    """Yield the coverage of bands at each probability level, by distance from the known sizes."""
    by_horizon = grouped(predicted, lambda run: run.horizon)
    for name in DISTANCES:
        if name in by_horizon:
            yield coverage(name, *_predicted(by_horizon[name]))


def coverage(name: str, observed_s: Sequence[float], bands: Sequence[Band]) -> Coverage:
    """Return the coverage at each of LEVELS: the share of run times inside a band that is computed from the 90 % band for this level."""
    inside = ((level, shares_inside(observed_s, bands, level)) for level in LEVELS)
    return Coverage(name=name, levels=tuple(frequency([level] * len(shares), shares) for level, shares in inside))
