"""Observes a fold over history: keeps the prediction at the start of each job, and scores it when the job ends."""

import math
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from agent.reports.backtest.alerts import AlertHistory, Label, precision
from agent.reports.backtest.groups import (
    LIMIT_BINS,
    QUANTILES,
    Compared,
    Frequencies,
    Group,
    Levels,
    ProfileObserver,
    Sample,
    power_band,
    reached,
    rows,
)
from agent.reports.backtest.report import AlertCounts, Application, Comparison, Observed, Period, Variant
from agent.reports.backtest.scores import BASELINES, Band, Baseline, LastTwo, Tally
from processors.contracts.events import STATES, SUCCESS, HostMinute, JobCompleted, JobEvent, JobStarted
from processors.contracts.names import HORIZONS, ApplicationKey, horizon_of, rfc3339
from processors.contracts.outputs import Alert, JobPrediction, Prediction, Run, Tombstone
from processors.contracts.settings import ProfileSettings

PERIODS: Final = 40
RUNS_OF_PERIOD: Final = 20  # a share of fewer runs is uncertain
MINUTE_MS: Final = 60_000
REPORTED_AFTER_MS: Final = 10_000
_END, _START, _OTHER, _INSTANT = range(4)  # order at the same time: a start knows of the ends
OPEN_MAX: Final = 200_000
SAMPLE_MAX: Final = 120  # runs drawn beside the curve of their application
APPLICATIONS_MAX: Final = 2000
CURVES_MAX: Final = 20_000
AT_START_MS: Final = 60_000  # evidence of the application of a job comes some seconds after its start
NO_CURVE: Final = "no_curve"
DISTANCES: Final = (*HORIZONS, NO_CURVE)
CANCELLED: Final = "CANCELLED"
_EXCEEDED: Final = 1 - 1e-9

Key = tuple[str, str, str, str]  # application, system, input, unit
NO_NAME: Final = "jobs of unknown applications"
UNNAMED: Final[Key] = ("", "", "", "")
OTHERS: Final[Key] = ("other applications", "", "", "")


class Moment(NamedTuple):
    """An event and the time of its report; `order` sorts events of the same time, `number` keeps the order of the files."""

    time_ms: int
    order: int
    number: int
    event: JobEvent | HostMinute


def ran(event: JobCompleted) -> bool:
    """Return whether a completed job ran at all; a job cancelled in the queue did not."""
    return event.run_time_s > 0


def moments(events: Sequence[JobEvent]) -> list[Moment]:
    """Return the events in order of time; a run without a reported start starts when its completion says.

    Ends come before starts of the same time. Other evidence of a job has no time of its own and stays behind the event that it
    follows.
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
                ordered.append(Moment(event.start_ms, _START, number, _start_of(event)))
        elif isinstance(event, JobStarted):
            now_ms = event.start_ms
            ordered.append(Moment(now_ms, _START, number, event))
        else:
            ordered.append(Moment(now_ms, _OTHER, number, event))
    ordered.sort(key=lambda moment: moment[:3])
    return ordered


def minute_moments(minutes: Iterable[HostMinute]) -> list[Moment]:
    """Return the minutes of hosts, each reported ten seconds after its end."""
    return [
        Moment(minute.minute_ms + MINUTE_MS + REPORTED_AFTER_MS, _OTHER, number, minute)
        for number, minute in enumerate(minutes)
    ]


def span(reported: Iterable[Moment]) -> tuple[int, int]:
    """Return the times of the first and of the last start in ms; zeros without starts."""
    starts = [moment.time_ms for moment in reported if isinstance(moment.event, JobStarted)]
    return (min(starts), max(starts)) if starts else (0, 0)


def period_edges(reported: Iterable[Moment], since_ms: int | None = None) -> list[int]:
    """Return the starts of periods with equally many runs, and the end of the last period, in ms.

    There are at most PERIODS periods, each with at least RUNS_OF_PERIOD runs; only runs that start from `since_ms` on count.
    """
    starts = [moment.time_ms for moment in reported if isinstance(moment.event, JobStarted)]
    if since_ms is not None:
        starts = [start_ms for start_ms in starts if start_ms >= since_ms]
    first_ms = min(starts, default=since_ms or 0)
    count = max(1, min(PERIODS, len(starts) // RUNS_OF_PERIOD))
    inner = {starts[len(starts) * place // count] for place in range(1, count)}
    last_ms = max(starts, default=first_ms) + 1
    return sorted({first_ms, *inner, last_ms} if last_ms > first_ms else {first_ms, first_ms + 1})


def _start_of(event: JobCompleted) -> JobStarted:
    return JobStarted(
        event.system, job_id=event.job_id, run_id=event.run_id, start_ms=event.start_ms, evidence=event.evidence
    )


class OpenRun(msgspec.Struct):
    """A running job: its prediction, the horizon of the prediction, and the baselines."""

    start_ms: int
    baseline: Baseline
    prediction: JobPrediction | None = None
    horizon: str = "no_curve"


class OfApplication:
    """The completed runs of one application."""

    __slots__ = ("group", "horizons", "sample")

    def __init__(self) -> None:
        self.group = Group()
        self.horizons: dict[str, Group] = {}
        self.sample = Sample[Observed](SAMPLE_MAX)


class OfPeriod:
    """The completed runs that started in one period."""

    __slots__ = ("baselines", "group")

    def __init__(self) -> None:
        self.group = Group()
        self.baselines = {name: Tally() for name in BASELINES}


class Observer:
    """Collects the figures of one fold; runs that start from the first of `edges_ms` on are scored.

    The edges are the starts of the periods, ascending, and the end of the last one. The observer keeps at most OPEN_MAX open runs,
    and groups whose number and size do not grow with the runs.
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
        self.curves: dict[Key, Prediction] = {}
        self.total = Group()
        self.states: dict[str, Group] = {}
        self.horizons: dict[str, Group] = {}
        self.levels: dict[str, Levels] = {}
        self.verdicts: dict[str, Group] = {}
        self.applications: dict[Key, OfApplication] = {}
        self.periods = [OfPeriod() for _ in self.edges_ms[1:]]
        self.completed, self.all = Compared(), Compared()
        self.quantiles, self.limit = Frequencies(), Frequencies()
        self.alerts, self.history = AlertCounts(), AlertHistory()
        self.profiles = ProfileObserver(coverage_min)

    def started(self, event: JobStarted) -> None:
        """Record the start of a run; its prediction follows."""
        key = (event.system, event.job_id)
        self._open.pop(key, None)
        self._open[key] = OpenRun(event.start_ms, self._last_two.baseline(event.system, event.evidence))
        if len(self._open) > OPEN_MAX:
            del self._open[next(iter(self._open))]

    def take(self, messages: Iterable[object], now_ms: int) -> None:
        """Record the messages that the fold emitted."""
        for message in messages:
            if isinstance(message, JobPrediction):
                self._take_prediction(message, now_ms)
            elif isinstance(message, Prediction):
                self._published(message)
            elif isinstance(message, Run):
                self.profiles.take(message)
            elif isinstance(message, Alert) and now_ms >= self._since_ms:
                self.alerts.take(message)
                self.history.take(message)
            elif isinstance(message, Tombstone) and message.kind == "alerts":
                self.history.withdrawn(message.key)

    def ended(self, event: JobCompleted) -> None:
        """Score the prediction at the start of a run; repeated reports, and runs without a known start, are ignored."""
        key = (event.system, event.job_id)
        run = self._open.get(key)
        if run is None or run.start_ms != event.start_ms:
            return
        del self._open[key]
        if not ran(event):
            return
        if event.start_ms >= self._since_ms:
            self._score(event, run)
            self.profiles.ended(event.run_id, power_band(run.prediction))
        self._last_two.learn(event.system, event.evidence, event.run_time_s)

    def _published(self, message: Prediction) -> None:
        key = (message.application, message.system, message.input, message.unit)
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

    def _key(self, prediction: JobPrediction) -> Key:
        if prediction.application is None:
            return UNNAMED
        system = self._aliases.get(prediction.system, prediction.system)
        return (prediction.application, system, prediction.input or "", prediction.unit or "")

    def _score(self, event: JobCompleted, run: OpenRun) -> None:
        band, observed_s = band_of(run.prediction), event.run_time_s
        self.states.setdefault(event.state, Group()).add(observed_s, band)
        self.all.add(observed_s, band, run.baseline)
        if run.prediction is not None and event.state != CANCELLED:
            self._limit(run.prediction, observed_s)
        if event.state != SUCCESS:
            return
        self.total.add(observed_s, band)
        self.completed.add(observed_s, band, run.baseline)
        self._period(event, run, band)
        self._application(event, run, band)
        if run.prediction is not None and band is not None:
            self.horizons.setdefault(run.horizon, Group()).add(observed_s, band)
            self.levels.setdefault(run.horizon, Levels()).add(observed_s, band)
            self.verdicts.setdefault(run.prediction.reliability.verdict, Group()).add(observed_s, band)
            for place, (level, quantile_s) in enumerate(
                zip(QUANTILES, (band.low_s, band.run_time_s, band.high_s), strict=True)
            ):
                self.quantiles.add(place, level, reached(observed_s, quantile_s))

    def _period(self, event: JobCompleted, run: OpenRun, band: Band | None) -> None:
        period = self.periods[min(bisect_right(self.edges_ms, event.start_ms), len(self.periods)) - 1]
        period.group.add(event.run_time_s, band)
        for name, tally in period.baselines.items():
            number = run.baseline.of(name)
            if number is not None:
                tally.add_number(event.run_time_s, number)

    def _application(self, event: JobCompleted, run: OpenRun, band: Band | None) -> None:
        key = self._key(run.prediction) if run.prediction is not None else UNNAMED
        if key not in self.applications and len(self.applications) >= APPLICATIONS_MAX:
            key = OTHERS
        runs = self.applications.setdefault(key, OfApplication())
        runs.group.add(event.run_time_s, band)
        if band is not None:
            runs.horizons.setdefault(run.horizon, Group()).add(event.run_time_s, band)
        if run.prediction is not None and run.prediction.n:
            runs.sample.add(event.run_id, Observed(run.prediction.n, event.run_time_s))

    def _limit(self, prediction: JobPrediction, observed_s: float) -> None:
        probability, limit_s = prediction.probability_exceeds_limit, prediction.time_limit_s
        if probability is None or limit_s is None or not 0 <= probability <= 1:
            return
        exceeded = observed_s >= limit_s * _EXCEEDED
        self.limit.add(min(int(probability * LIMIT_BINS), LIMIT_BINS - 1), probability, float(exceeded))


def band_of(prediction: JobPrediction | None) -> Band | None:
    """Return the predicted run time with its band, if there is one."""
    if prediction is None or not prediction.known:
        return None
    numbers = (prediction.run_time_s, prediction.low_s, prediction.high_s)
    reported = [number for number in numbers if number is not None and math.isfinite(number)]
    return Band(*reported) if len(reported) == len(numbers) else None


def horizon(n: float | None, sizes: tuple[float, ...]) -> str:
    """Return the distance of a size from the known sizes, one of DISTANCES."""
    return horizon_of(n, min(sizes), max(sizes)) if sizes and n else NO_CURVE


def variant(
    name: str,
    settings: Mapping[str, str],
    observer: Observer,
    top: int,
    *,
    faults: int = 0,
    labels: Sequence[Label] = (),
) -> Variant:
    """Return the report of one variant with its `top` largest applications.

    With `labels` of alerts, the report includes how many judged alerts were real.
    """
    ran = sum(group.runs for group in observer.states.values())
    identified = [key for key in observer.applications if key not in (UNNAMED, OTHERS)]
    chosen = sorted(observer.applications, key=lambda key: (-observer.applications[key].group.runs, key))[:top]
    return Variant(
        name=name,
        settings=dict(settings),
        total=observer.total.row("completed"),
        by_state=rows(observer.states, STATES),
        by_horizon=rows(observer.horizons, DISTANCES),
        by_verdict=rows(observer.verdicts),
        by_application=tuple(application(key, observer.applications[key], observer.curves.get(key)) for key in chosen),
        applications=len(identified),
        comparisons=_comparisons(observer),
        periods=_periods(observer),
        quantiles=observer.quantiles.frequencies(),
        limit=observer.limit.frequencies(),
        limit_brier=observer.limit.brier,
        alerts=observer.alerts.counts(ran),
        faults=faults,
        precision=tuple(precision(observer.history.raised(), labels)) if labels else (),
        coverages=tuple(observer.levels[name].coverage(name) for name in DISTANCES if name in observer.levels),
        profiled=observer.profiles.result(
            {ApplicationKey(*key).id: curve for key, curve in observer.curves.items()}, top
        ),
    )


def application(key: Key, runs: OfApplication, curve: Prediction | None) -> Application:
    name, system, input_, unit = key
    return Application(
        application=name,
        system=system,
        input=input_,
        unit=unit,
        row=runs.group.row(" ".join(part for part in (name, input_) if part) or NO_NAME),
        horizons=rows(runs.horizons, DISTANCES),
        verdict=curve.reliability.verdict if curve else None,
        curve=curve.curve if curve else (),
        observed=tuple(sorted(runs.sample.retained(), key=lambda run: (run.n, run.run_time_s))),
    )


def _comparisons(observer: Observer) -> tuple[Comparison, ...]:
    others = set(observer.states) - {SUCCESS}  # without others, all runs completed
    every = observer.all.comparisons("all") if others else []
    return (*observer.completed.comparisons("completed"), *every)


def _periods(observer: Observer) -> tuple[Period, ...]:
    periods = []
    for place, period in enumerate(observer.periods):
        if not period.group.runs:
            continue
        start, end = (rfc3339(edge_ms) for edge_ms in observer.edges_ms[place : place + 2])
        medians = {name: tally.figures().median_error for name, tally in period.baselines.items()}
        periods.append(
            Period(
                start=start,
                end=end,
                row=period.group.row(start[:10]),
                requested_median_error=medians["requested"],
                last_two_median_error=medians["last_two"],
            )
        )
    return tuple(periods)
