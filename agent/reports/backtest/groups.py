"""Groups of runs that are scored together: run times, probabilities, and the power predicted at the start."""

import heapq
import math
from binascii import crc32
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from agent.reports.backtest.report import Comparison, Coverage, Drawn, Frequency, PowerRow, Profiled, Row
from agent.reports.backtest.scores import BASELINES, Band, Baseline, Tally, interval
from processors.contracts.events import SUCCESS
from processors.contracts.hosts import Profile
from processors.contracts.outputs import JobPrediction, Prediction, Run

QUANTILES: Final = (0.05, 0.5, 0.95)
LIMIT_BINS: Final = 10
LEVELS: Final = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
_TOUCH: Final = 1e-9
Entry = TypeVar("Entry")


class Group:
    """Counts runs, and scores the predicted ones."""

    __slots__ = ("runs", "tally")

    def __init__(self) -> None:
        self.runs = 0
        self.tally = Tally()

    def add(self, observed_s: float, prediction: Band | None) -> None:
        self.runs += 1
        if prediction is not None:
            self.tally.add(observed_s, prediction)

    def row(self, name: str) -> Row:
        figures = self.tally.figures()
        answered = figures.scored / self.runs if self.runs else 0.0
        return Row(name=name, runs=self.runs, answered=answered, figures=figures)


class Compared:
    """Predictions and each baseline, on the runs for which both have a number."""

    def __init__(self) -> None:
        self._runs = 0
        self._tallies = {name: (Tally(), Tally(), Tally()) for name in BASELINES}

    def add(self, observed_s: float, prediction: Band | None, baseline: Baseline) -> None:
        self._runs += 1
        for name, (ours, theirs, alone) in self._tallies.items():
            number = baseline.of(name)
            if number is None:
                continue
            alone.add_number(observed_s, number)
            if prediction is not None:
                ours.add(observed_s, prediction)
                theirs.add_number(observed_s, number)

    def comparisons(self, runs: str) -> list[Comparison]:
        """Return a comparison for each baseline that had a number for any run."""
        comparisons = []
        for name, (ours, theirs, alone) in self._tallies.items():
            prediction, every = ours.figures(), alone.figures()
            share = prediction.scored / self._runs if self._runs else 0.0
            if every.scored:
                comparisons.append(
                    Comparison(
                        runs=runs,
                        baseline=name,
                        share=share,
                        prediction=prediction,
                        baseline_prediction=theirs.figures(),
                        alone=every,
                    )
                )
        return comparisons


class Frequencies:
    """Predicted probabilities, in bins or at fixed levels, against observed frequencies."""

    def __init__(self) -> None:
        self._bins: dict[int, tuple[int, float, float]] = {}
        self._squares = 0.0

    def add(self, bin_: int, predicted: float, came_true: float) -> None:
        """Add a prediction of a bin and its outcome, 1 or 0; 0.5 is a tie."""
        runs, sum_predicted, sum_true = self._bins.get(bin_, (0, 0.0, 0.0))
        self._bins[bin_] = (runs + 1, sum_predicted + predicted, sum_true + came_true)
        self._squares += (predicted - came_true) ** 2

    @property
    def brier(self) -> float | None:
        """The mean square of predicted probability minus outcome (Brier 1950)."""
        runs = sum(counts[0] for counts in self._bins.values())
        return self._squares / runs if runs else None

    def frequencies(self) -> tuple[Frequency, ...]:
        """Return the bins with runs, by rising probability."""
        return tuple(_frequency(*self._bins[bin_]) for bin_ in sorted(self._bins))


class Levels:
    """The coverage of bands at each of LEVELS, derived from the predicted 90 % band."""

    __slots__ = ("_inside", "_runs")

    def __init__(self) -> None:
        self._runs = 0
        self._inside = [0] * len(LEVELS)

    def add(self, observed_s: float, prediction: Band) -> None:
        self._runs += 1
        for i, level in enumerate(LEVELS):
            self._inside[i] += prediction.at_level(level).holds(observed_s)

    def coverage(self, name: str) -> Coverage:
        frequencies = zip(LEVELS, self._inside, strict=True)
        return Coverage(
            name=name,
            levels=tuple(_frequency(self._runs, level * self._runs, inside) for level, inside in frequencies),
        )


class Sample(Generic[Entry]):
    """At most `most` entries, chosen by the hash of their run ids: the same runs give the same sample, in any order."""

    __slots__ = ("_most", "_retained")

    def __init__(self, most: int) -> None:
        self._most = most
        self._retained: list[tuple[int, str, Entry]] = []

    def add(self, run_id: str, entry: Entry) -> None:
        heapq.heappush(self._retained, (-crc32(run_id.encode()), run_id, entry))
        if len(self._retained) > self._most:
            heapq.heappop(self._retained)

    def retained(self) -> list[Entry]:
        """Return the sample in an order that depends only on the run ids."""
        return [entry for *_, entry in sorted(self._retained, key=lambda item: item[:2])]


def reached(observed_s: float, quantile_s: float) -> float:
    """Return 1 if a run time lies below a quantile, 0 if above, and 0.5 on it, because the distribution may have a step there."""
    if abs(observed_s - quantile_s) <= _TOUCH * quantile_s:
        return 0.5
    return 1.0 if observed_s < quantile_s else 0.0


def rows(groups: Mapping[str, Group], order: Sequence[str] = ()) -> tuple[Row, ...]:
    """Return the rows of groups by name: first those of `order`, then the largest."""
    rest = sorted((name for name in groups if name not in order), key=lambda name: (-groups[name].runs, name))
    return tuple(groups[name].row(name) for name in (*(name for name in order if name in groups), *rest))


def _frequency(runs: int, sum_predicted: float, sum_true: float) -> Frequency:
    low, high = interval(sum_true, runs)
    return Frequency(predicted=sum_predicted / runs, observed=sum_true / runs, low=low, high=high, runs=runs)


SYSTEM: Final = "system"
PREDICTIONS_MAX: Final = 200_000
APPLICATIONS_MAX: Final = 2000
SAMPLE_MAX: Final = 300
MEASURED_MIN: Final = 0.5  # share of the host-minutes of a run; below it the power is unknown
NO_PROFILE: Final = "no telemetry"
NOT_COMPLETED: Final = "did not complete"
NO_NAME: Final = "unknown application"
SHARED: Final = "hosts shared with other jobs"
TOO_LITTLE: Final = "too little telemetry"


class PowerGroup:
    """Runs of one kind with known power."""

    __slots__ = ("_estimated", "_measured", "_tally", "_watts", "runs")

    def __init__(self) -> None:
        self.runs = 0
        self._tally = Tally()
        self._measured = self._estimated = self._watts = 0.0

    def add(self, profile: Profile, power_w: float | None, prediction: Band | None) -> None:
        """Add a run; `power_w` is None if too little was measured to score the prediction."""
        self.runs += 1
        self._measured += profile.measured.get(SYSTEM, 0.0)
        self._estimated += profile.estimated.get(SYSTEM, 0.0)
        if power_w is not None and prediction is not None:
            self._watts += power_w
            self._tally.add(power_w, prediction)

    def row(self, name: str, curve: Prediction | None = None) -> PowerRow:
        """Return the row of these runs; `curve` holds the counters that explain the power of the application."""
        figures, runs = self._tally.figures(), max(self.runs, 1)
        return PowerRow(
            name=name,
            runs=self.runs,
            answered=figures.scored / runs,
            measured=self._measured / runs,
            estimated=self._estimated / runs,
            mean_w=self._watts / figures.scored if figures.scored else None,
            figures=msgspec.structs.replace(figures, mae_s=None, pinball_50_s=None, pinball_90_s=None),  # no seconds
            explained=curve.profiles if curve is not None else (),
        )


class ProfileObserver:
    """Scores the predicted power of runs against their profiles when they settle."""

    def __init__(self, coverage_min: float) -> None:
        self._coverage_min = coverage_min
        self._predictions: dict[str, Band | None] = {}
        self._settled = self._profiles = self._learned = 0
        self._left_out = Counter[str]()
        self._readings = Counter[str]()
        self._total = PowerGroup()
        self._applications: dict[str, PowerGroup] = {}
        self._sample = Sample[Drawn](SAMPLE_MAX)

    def ended(self, run_id: str, prediction: Band | None) -> None:
        """Keep the prediction at the start of a run until the run settles."""
        self._predictions[run_id] = prediction
        if len(self._predictions) > PREDICTIONS_MAX:
            del self._predictions[next(iter(self._predictions))]

    def take(self, run: Run) -> None:
        """Score the predicted power of a settled run; repeated reports count once."""
        run_id, profile = run.run_id, run.profile
        if run_id not in self._predictions:
            return
        prediction = self._predictions.pop(run_id)
        self._settled += 1
        self._profiles += profile is not None
        reason = self._why_not(run.application_id, run.state, profile)
        if reason is not None or profile is None:
            self._left_out[reason or NO_PROFILE] += 1
            return
        self._learned += 1
        self._readings.update(profile.left_out)
        if SYSTEM in profile.power_w:
            self._score(run_id, run.application_id or "", profile, prediction)

    def result(self, curves: Mapping[str, Prediction], top: int) -> Profiled | None:
        """Return the result with the `top` largest applications; None if no run has a profile."""
        if not self._profiles:
            return None
        chosen = sorted(self._applications, key=lambda name: (-self._applications[name].runs, name))[:top]
        return Profiled(
            settled=self._settled,
            profiles=self._profiles,
            learned=self._learned,
            left_out=dict(sorted(self._left_out.items())),
            readings_left_out=dict(sorted(self._readings.items())),
            total=self._total.row("all"),
            by_application=tuple(self._applications[name].row(name, curves.get(name)) for name in chosen),
            sample=tuple(self._sample.retained()),
        )

    def _why_not(self, application_id: str | None, state: str, profile: Profile | None) -> str | None:
        """Return why the profile of a run is not learned, None if it is."""
        if profile is None:
            return NO_PROFILE
        if state != SUCCESS:
            return NOT_COMPLETED
        if application_id is None:
            return NO_NAME
        if profile.coverage < self._coverage_min:
            return SHARED if profile.minutes + profile.shared >= self._coverage_min * profile.expected else TOO_LITTLE
        return None

    def _score(self, run_id: str, application_id: str, profile: Profile, prediction: Band | None) -> None:
        enough = profile.measured.get(SYSTEM, 0.0) >= MEASURED_MIN
        power_w = profile.power_w[SYSTEM] * profile.hosts if enough else None
        if application_id not in self._applications and len(self._applications) >= APPLICATIONS_MAX:
            application_id = "other applications"
        for group in (self._total, self._applications.setdefault(application_id, PowerGroup())):
            group.add(profile, power_w, prediction)
        if power_w is not None and prediction is not None:
            self._sample.add(run_id, Drawn(prediction.run_time_s, prediction.low_s, prediction.high_s, power_w))


def power_band(prediction: JobPrediction | None) -> Band | None:
    """Return the predicted power of a job with its band, in W, if it has one."""
    if prediction is None:
        return None
    reported = (prediction.power_w, prediction.power_low_w, prediction.power_high_w)
    usable = [watts for watts in reported if watts is not None and math.isfinite(watts) and watts > 0]
    return Band(*usable) if len(usable) == len(reported) else None
