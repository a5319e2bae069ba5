"""Scores of the power predicted at the start of runs against measured power, and counts of learned run profiles."""

import math
from collections import Counter
from collections.abc import Mapping
from typing import Final

import msgspec

from agent.reports.backtest.groups import Sample
from agent.reports.backtest.report import Drawn, PowerRow, Profiled
from agent.reports.backtest.scores import Band, Tally
from processors.contracts.events import SUCCESS
from processors.contracts.hosts import Profile
from processors.contracts.outputs import JobPrediction, Prediction, Run

SYSTEM: Final = "system"
PREDICTIONS_MAX: Final = 200_000
APPLICATIONS_MAX: Final = 2000
SAMPLE_MAX: Final = 300
MEASURED_MIN: Final = 0.5  # of a run's host-minutes: of others it is not known what they drew
NO_PROFILE: Final = "no telemetry"
NOT_COMPLETED: Final = "did not complete"
NO_NAME: Final = "no name"
SHARED: Final = "hosts shared with other jobs"
TOO_LITTLE: Final = "too little of it seen"


class OfPower:
    """The runs of one group with a known power."""

    __slots__ = ("_estimated", "_measured", "_tally", "_watts", "runs")

    def __init__(self) -> None:
        self.runs = 0
        self._tally = Tally()
        self._measured = self._estimated = self._watts = 0.0

    def add(self, profile: Profile, power_w: float | None, prediction: Band | None) -> None:
        """Count a run; `power_w` is None if too little of its power was measured to score the prediction."""
        self.runs += 1
        self._measured += profile.measured.get(SYSTEM, 0.0)
        self._estimated += profile.estimated.get(SYSTEM, 0.0)
        if power_w is not None and prediction is not None:
            self._watts += power_w
            self._tally.add(power_w, prediction)

    def row(self, name: str, curve: Prediction | None = None) -> PowerRow:
        """Return the scores as a report row; `curve` holds the features that explain the power of the application."""
        found, runs = self._tally.figures(), max(self.runs, 1)
        return PowerRow(
            name=name,
            runs=self.runs,
            answered=found.scored / runs,
            measured=self._measured / runs,
            estimated=self._estimated / runs,
            mean_w=self._watts / found.scored if found.scored else None,
            figures=msgspec.structs.replace(found, mae_s=None, pinball_50_s=None, pinball_90_s=None),  # no seconds
            explained=curve.profiles if curve is not None else (),
        )


class ProfileObserver:
    """Scores the predicted power of runs against their profiles once the runs settle."""

    def __init__(self, coverage_min: float) -> None:
        self._coverage_min = coverage_min
        self._predictions: dict[str, Band | None] = {}
        self._settled = self._profiles = self._learned = 0
        self._left_out = Counter[str]()
        self._readings = Counter[str]()
        self._total = OfPower()
        self._applications: dict[str, OfPower] = {}
        self._sample = Sample[Drawn](SAMPLE_MAX)

    def ended(self, run_id: str, prediction: Band | None) -> None:
        """Keep the prediction made at the start of a run until the run settles."""
        self._predictions[run_id] = prediction
        if len(self._predictions) > PREDICTIONS_MAX:
            del self._predictions[next(iter(self._predictions))]

    def take(self, run: Run) -> None:
        """Score the predicted power of a settled run; ignore repeated reports of the run."""
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

    def found(self, curves: Mapping[str, Prediction], top: int) -> Profiled | None:
        """Return the report with the `top` applications by number of runs; None if no run has host telemetry."""
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
        """Return the reason why the profile of a run is not learned, None if it is learned."""
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
        for group in (self._total, self._applications.setdefault(application_id, OfPower())):
            group.add(profile, power_w, prediction)
        if power_w is not None and prediction is not None:
            self._sample.add(run_id, Drawn(prediction.run_time_s, prediction.low_s, prediction.high_s, power_w))


def power_band(prediction: JobPrediction | None) -> Band | None:
    """Return the predicted power of a job with its band, in W; None without a prediction."""
    if prediction is None:
        return None
    reported = (prediction.power_w, prediction.power_low_w, prediction.power_high_w)
    usable = [watts for watts in reported if watts is not None and math.isfinite(watts) and watts > 0]
    return Band(*usable) if len(usable) == len(reported) else None
