"""Costs of communication that all applications of a system share: a sample of runs, the fitted costs, and their record.

A forecast is scaled to the stored runs of its application. Its weight comes from the record over all applications. The record is
kept separately for applications without their own model, and for sizes inside or beyond the observed sizes. The sample holds at
most RUNS_MAX runs of an application, chosen evenly by their ids, and the APPLICATIONS_MAX applications that ran last.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, Literal, NamedTuple, get_args

import msgspec
import numpy as np
import numpy.typing as npt

from processors.models.features.communication import FEATURE_SETS, NAMES
from processors.models.features.features import ForecastBlend, LnForecast
from processors.models.numerics.arrays import Floats
from processors.models.numerics.scipy_functions import least_squares_not_negative
from processors.models.numerics.statistics import six_digits
from processors.models.training.runs import packed, singles, unpacked
from processors.store import digest64

Groups = npt.NDArray[np.int64]

ROUNDS: Final = 6  # alternating fits of costs and scales
RUNS_OF_ONE: Final = 4  # runs of an application before its runs count for other applications
APPLICATIONS_MIN: Final = 2
BESIDES: Final = 0.01  # weight of the prior `besides` = 0, in runs
DEVIATION_MIN: Final = 0.01
DEVIATION_GUESS: Final = 0.2  # prior deviation of a ln run time, with the weight of one run
TINY: Final = 1e-12


class ScaledCosts(NamedTuple):
    """The shared costs for one application: run time = `scale` times the sum of costs + `besides`, in s; and the deviation of ln."""

    scale: float
    besides: float
    deviation: float

    def ln(self, total: Floats) -> Floats:
        """Return ln of the run times for the given sums of shared costs (m,)."""
        return np.asarray(np.log(np.maximum(self.scale * total + self.besides, TINY)))


@dataclass(frozen=True, slots=True)
class SharedCosts:
    """The cost per unit of each feature, and the mean |ln ratio| in tests on applications that were left out of the fit."""

    names: tuple[str, ...]
    cost: tuple[float, ...]
    error: float

    def total(self, rows: Sequence[Mapping[str, float]]) -> Floats:
        """Return the sum of costs of each run (m,). Raise KeyError if a run lacks a feature."""
        return np.asarray(columns(self.names, rows) @ np.array(self.cost))

    def scaled(self, rows: Sequence[Mapping[str, float]], time_s: Floats) -> ScaledCosts:
        """Fit `ScaledCosts` to the features and run times (m,) of at least one run of an application."""
        return scaled(self.total(rows), time_s)


def columns(names: Sequence[str], rows: Sequence[Mapping[str, float]]) -> Floats:
    """Return the features of runs as columns (m, p). Raise KeyError if a run lacks a feature."""
    return np.array([[row[name] for name in names] for row in rows], np.float64).reshape(len(rows), len(names))


def scaled(total: Floats, time_s: Floats) -> ScaledCosts:
    """Fit `scale` and `besides` of one application to run times (m,) and sums of costs (m,), by least relative squares.

    A few runs do not determine `besides`, so a prior of 0 counts as a hundredth of a run.
    """
    mean = float(time_s.mean())
    terms = np.stack([total / time_s, mean / time_s], axis=1)
    guess = np.array([[0.0, np.sqrt(BESIDES)]])
    solution = least_squares_not_negative(np.concatenate([terms, guess]), np.append(np.ones(len(time_s)), 0.0))
    scale, besides = float(solution[0]), float(solution[1]) * mean
    if scale <= 0 and besides <= 0:
        besides = mean
    ln_ratios = np.log(time_s) - ScaledCosts(scale, besides, 0.0).ln(total)
    free = max(len(time_s) - 1, 0)
    deviation = float(np.sqrt((ln_ratios @ ln_ratios + DEVIATION_GUESS**2) / (free + 1)))
    return ScaledCosts(scale, besides, max(deviation, DEVIATION_MIN))


def shared(names: tuple[str, ...], rows: Sequence[Mapping[str, float]], time_s: Floats, group: Groups) -> SharedCosts:
    """Return the shared costs of features, fitted to runs with their comparable features and run times (k,).

    `group` (k,) is the number of the application of each run. All applications have equal weight. Raise ValueError if fewer than
    APPLICATIONS_MIN applications have RUNS_OF_ONE runs.
    """
    values = columns(names, rows)
    applications = [number for number in np.unique(group).tolist() if int((group == number).sum()) >= RUNS_OF_ONE]
    if len(applications) < APPLICATIONS_MIN:
        raise ValueError(f"Shared costs need {APPLICATIONS_MIN} applications with {RUNS_OF_ONE} runs each.")
    used = np.isin(group, applications)
    values, time_s, group = values[used], time_s[used], group[used]
    errors_by_application = [_off(values, time_s, group, number) for number in applications]
    error = float(np.mean([np.abs(ln_ratios).mean() for ln_ratios in errors_by_application]))
    return SharedCosts(
        names, tuple(six_digits(cost) for cost in _costs(values, time_s, group).tolist()), six_digits(error)
    )


def _off(values: Floats, time_s: Floats, group: Groups, number: int) -> Floats:
    """Return ln(actual / predicted) for half the runs of an application.

    The scale is fitted to the other half of its runs, and the costs to the other applications.
    """
    positions = np.flatnonzero(group == number)
    total = values @ _costs(values[group != number], time_s[group != number], group[group != number])
    first, second = positions[::2], positions[1::2]
    return np.log(time_s[second]) - scaled(total[first], time_s[first]).ln(total[second])


def _costs(values: Floats, time_s: Floats, group: Groups) -> Floats:
    """Return the costs (p,) with the least relative squares; each application has its own best scale."""
    unit = np.where(values.max(axis=0) > 0, values.mean(axis=0), 1.0)
    terms, members_by_application = values / unit, [group == number for number in np.unique(group).tolist()]
    weight = np.sqrt(sum(members / members.sum() for members in members_by_application))
    cost = np.full(terms.shape[1], 1.0 / terms.shape[1])
    for _ in range(ROUNDS):
        scale, besides = np.zeros(len(time_s)), np.zeros(len(time_s))
        for members in members_by_application:
            fit = scaled(terms[members] @ cost, time_s[members])
            scale[members], besides[members] = fit.scale, fit.besides
        rows = terms * (weight * scale / time_s)[:, None]
        fitted = least_squares_not_negative(rows, weight * (1.0 - besides / time_s))
        if not fitted.any():
            break
        cost = fitted / fitted.sum()
    return np.asarray(cost / unit)


RUNS_MAX: Final = 32  # stored runs of an application
APPLICATIONS_MAX: Final = 16
NEW_SHARE: Final = 0.1  # share of new runs that makes a new fit worth while
STEP_COST: Final = 15  # cost of fitting one set of features, in units of about a millisecond

Condition = Literal["alone", "inside", "beyond"]
"""Situation of a forecast: the application has no model of its own, or the size is inside or beyond its observed sizes."""
CONDITIONS: Final[tuple[Condition, ...]] = get_args(Condition)


class SharedRun(NamedTuple):
    """A run with reported communication: comparable features, and run time."""

    application_id: str
    run_id: str
    end_ms: int
    run_time_s: float
    features: Mapping[str, float]
    now_ms: int


class SharedForecast(NamedTuple):
    """The forecast of a run from the costs of other applications, and the record of past forecasts by condition."""

    forecast: LnForecast
    records: Mapping[str, ForecastBlend]


class SharedScore(NamedTuple):
    """The forecasts of an ended run, with and without other applications, and ln of its run time.

    `without` is the forecast without its communication, which an application without its own model would have.
    """

    condition: Condition
    without: LnForecast
    before: LnForecast
    forecast: LnForecast
    ln_t: float


class CommunicationPoolState(msgspec.Struct, omit_defaults=True):
    """Stored form: runs (application, id, end, run time), their features, costs and their error by set of features, and the record.

    `coming` has the costs of the running fit, None if no fit is running. `changed` counts runs since the last fit began.
    """

    runs: list[tuple[str, str, int, float]] = []
    features: dict[str, Any] | None = None
    fitted: dict[str, tuple[tuple[float, ...], float]] = {}
    coming: dict[str, tuple[tuple[float, ...], float] | None] | None = None
    changed: int = 0
    records: dict[str, dict[str, Any]] = {}
    waiting_ms: int | None = None


class CommunicationPool:
    """The costs of communication that the applications of one system, sized in one unit, share."""

    name: ClassVar[str] = "communication_pool"
    version: ClassVar[int] = 1

    def __init__(self, state: CommunicationPoolState) -> None:
        rows = unpacked(state.features) if state.features is not None else []
        self._runs: dict[str, dict[str, SharedRun]] = {}
        for (application_id, run_id, end_ms, run_time_s), row in zip(state.runs, rows, strict=True):
            run = SharedRun(application_id, run_id, end_ms, run_time_s, row, 0)
            self._runs.setdefault(application_id, {})[run_id] = run
        self._fitted = dict(state.fitted)
        self._coming = None if state.coming is None else dict(state.coming)
        self._changed = state.changed
        self._records = {name: ForecastBlend.build(record) for name, record in state.records.items()}
        self._waiting_ms = state.waiting_ms

    @classmethod
    def build(cls, state: CommunicationPoolState | None = None) -> "CommunicationPool":
        return cls(state or CommunicationPoolState())

    def __len__(self) -> int:
        return sum(map(len, self._runs.values()))

    @property
    def trusted(self) -> str | None:
        """The set of features with the least error on left-out applications; None before the first fit."""
        return min(self._fitted, key=lambda name: (self._fitted[name][1], name), default=None)

    def costs(self, reported: Container[str] = NAMES) -> SharedCosts | None:
        """Return the costs of the best set among those with only `reported` features; None if there is no such set."""
        usable_sets = (name for name in self._fitted if all(each in reported for each in FEATURE_SETS[name]))
        name = min(usable_sets, key=lambda name: (self._fitted[name][1], name), default=None)
        return None if name is None else SharedCosts(FEATURE_SETS[name], *self._fitted[name])

    def importances(self) -> dict[str, float]:
        """Return the share of each feature in the explained costs: its cost times its deviation over the stored runs."""
        costs = self.costs()
        rows = [run.features for run in self._all() if costs is not None and _reports(run, costs.names)]
        if costs is None or not rows:
            return {}
        spread = [float(np.std([row[name] for row in rows])) for name in costs.names]
        explained = {name: cost * by for name, cost, by in zip(costs.names, costs.cost, spread, strict=True)}
        total = sum(explained.values())
        return {name: six_digits(part / total) for name, part in explained.items() if part > 0}

    def score(self, fact: SharedRun) -> SharedForecast | None:
        """Return the forecast of a run; None if there are no costs, or if the run reports too few features.

        The best set of features that the run reports gives the costs. The run time of the run is not used.
        """
        costs = self.costs(fact.features)
        own_runs = self._runs.get(fact.application_id, {})
        if costs is None:
            return None
        runs = [own_runs[run_id] for run_id in sorted(own_runs) if _reports(own_runs[run_id], costs.names)]
        if not runs:
            return None
        scaled_costs = costs.scaled([run.features for run in runs], np.array([run.run_time_s for run in runs]))
        ln_t = float(scaled_costs.ln(costs.total([fact.features]))[0])
        return SharedForecast(LnForecast(ln_t, max(scaled_costs.deviation, costs.error)), self._records)

    def learn(self, fact: SharedRun) -> None:
        """Learn a run. A run with a known id replaces the earlier run, and a repeated run changes nothing."""
        features = singles({name: fact.features[name] for name in NAMES if name in fact.features})
        run = fact._replace(features=features, run_time_s=six_digits(fact.run_time_s), now_ms=0)
        own_runs = self._runs.setdefault(run.application_id, {})
        if own_runs.get(run.run_id) == run:
            return
        own_runs[run.run_id] = run
        if len(own_runs) > RUNS_MAX:
            del own_runs[max(own_runs, key=lambda run_id: (digest64(run_id), run_id))]
        if len(self._runs) > APPLICATIONS_MAX:
            del self._runs[
                min(self._runs, key=lambda name: (max(each.end_ms for each in self._runs[name].values()), name))
            ]
        self._note_change(fact.now_ms)

    def forget(self, application_id: str, run_id: str, now_ms: int) -> bool:
        own_runs = self._runs.get(application_id, {})
        if own_runs.pop(run_id, None) is None:
            return False
        if not own_runs:
            del self._runs[application_id]
        self._note_change(now_ms)
        return True

    def compare(self, score: SharedScore) -> None:
        compared: dict[Condition, LnForecast] = {"alone": score.without, score.condition: score.before}
        for condition, before in compared.items():
            self._records.setdefault(condition, ForecastBlend()).learn(before, score.forecast, score.ln_t)

    def step(self) -> bool:
        """Fit the costs of one more set of features; return whether more sets remain."""
        if self._coming is None:
            if not self._due():
                self._waiting_ms = None
                return False
            self._coming, self._changed = {}, 0
        name = next(each for each in FEATURE_SETS if each not in self._coming)
        self._coming[name] = self._fit(FEATURE_SETS[name])
        if len(self._coming) == len(FEATURE_SETS):
            self._fitted = {each: found for each, found in self._coming.items() if found is not None}
            self._coming = None
            if not self._due():
                self._waiting_ms = None
        return self._waiting_ms is not None

    def due_ms(self) -> int | None:
        return self._waiting_ms

    def snapshot(self) -> CommunicationPoolState:
        runs = self._all()
        return CommunicationPoolState(
            [(run.application_id, run.run_id, run.end_ms, run.run_time_s) for run in runs],
            packed([run.features for run in runs]) if runs else None,
            dict(self._fitted),
            None if self._coming is None else dict(self._coming),
            self._changed,
            {name: record.snapshot() for name, record in self._records.items()},
            self._waiting_ms,
        )

    def _all(self) -> list[SharedRun]:
        """Return the stored runs, sorted by application and id."""
        return [self._runs[name][run_id] for name in sorted(self._runs) for run_id in sorted(self._runs[name])]

    def _fit(self, names: tuple[str, ...]) -> tuple[tuple[float, ...], float] | None:
        runs = [run for run in self._all() if _reports(run, names)]
        number = {name: i for i, name in enumerate(sorted(self._runs))}
        group = np.array([number[run.application_id] for run in runs], np.int64)
        try:
            fitted = shared(names, [run.features for run in runs], np.array([run.run_time_s for run in runs]), group)
        except ValueError:
            return None  # too few runs or applications
        return fitted.cost, fitted.error

    def _due(self) -> bool:
        return self._changed >= max(1.0, NEW_SHARE * len(self))

    def _note_change(self, now_ms: int) -> None:
        self._changed += 1
        if self._waiting_ms is None and self._due():
            self._waiting_ms = now_ms


def _reports(run: SharedRun, names: tuple[str, ...]) -> bool:
    return all(name in run.features for name in names)
