"""Costs of communication that all applications of a system share: a sample of runs, the fitted costs, and the record of forecasts.

A forecast is scaled to the stored runs of its application. Its weight follows from past errors over all applications, recorded
separately for applications without an own model, for sizes inside and for sizes beyond the observed sizes. The sample holds at
most RUNS_MAX runs of an application, chosen evenly by their ids, and the APPLICATIONS_MAX applications that ran last.
"""

from collections.abc import Container, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Final, Literal, NamedTuple, get_args

import msgspec
import numpy as np

from processors.models.features.communication import FEATURE_SETS, NAMES
from processors.models.features.features import ForecastBlend, LnForecast
from processors.models.numerics.arrays import Floats, Ints
from processors.models.numerics.scipy_functions import least_squares_not_negative
from processors.models.numerics.statistics import rounded, six_digits
from processors.models.training.runs import packed, singles, unpacked
from processors.store import digest64

ROUNDS: Final = 6  # alternating fits of costs and scales
RUNS_OF_ONE: Final = 4  # fewest runs of an application that contribute to the fit of the shared costs
APPLICATIONS_MIN: Final = 2
BESIDES: Final = 0.01  # weight, in runs, of the prior that `besides` is 0
DEVIATION_MIN: Final = 0.01
DEVIATION_GUESS: Final = 0.2  # prior standard deviation of ln of a run time; the prior has the weight of one run
TINY: Final = 1e-12


class ScaledCosts(NamedTuple):
    """The run time of one application in s from the shared costs: `scale` * total cost + `besides`.

    `besides` is the part of the run time that does not depend on communication. `deviation` is the standard deviation of ln(run time).
    """

    scale: float
    besides: float
    deviation: float

    def ln(self, total: Floats) -> Floats:
        """Return ln of the run times for sums of shared costs (m,)."""
        return np.asarray(np.log(np.maximum(self.scale * total + self.besides, TINY)))


class SharedCosts(msgspec.Struct, frozen=True, array_like=True):
    """The costs of communication, fitted to several applications: `cost` is the cost per unit of each feature in `names`.

    `error` is the mean of |ln(actual / predicted)|, measured on each application with costs fitted to the other applications.
    """

    names: tuple[str, ...]
    cost: tuple[float, ...]
    error: float

    def total(self, rows: Sequence[Mapping[str, float]]) -> Floats:
        """Return the sum of costs of each run (m,). Raise KeyError if a run lacks a feature."""
        return np.asarray(columns(self.names, rows) @ np.array(self.cost))


def columns(names: Sequence[str], rows: Sequence[Mapping[str, float]]) -> Floats:
    """Return the features `names` of m runs as a matrix (m, p), a row for each run. Raise KeyError if a run lacks a feature."""
    return np.array([[row[name] for name in names] for row in rows], np.float64).reshape(len(rows), len(names))


def scaled(total: Floats, time_s: Floats) -> ScaledCosts:
    """Fit `scale` and `besides` of one application to run times (m,) and total costs (m,), by least squares of the relative errors.

    A few runs do not determine `besides`. A prior of 0 with the weight of BESIDES runs therefore applies.
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


def shared(names: tuple[str, ...], rows: Sequence[Mapping[str, float]], time_s: Floats, group: Ints) -> SharedCosts:
    """Fit the costs of the features `names` to k runs of several applications.

    `rows` are the features of the runs, already comparable between sizes; `time_s` (k,) are the run times, and `group` (k,) numbers
    the application of each run. Applications with fewer than RUNS_OF_ONE runs are ignored, all others have equal weight. Raise
    ValueError if fewer than APPLICATIONS_MIN applications are left.
    """
    values = columns(names, rows)
    numbers, count = np.unique(group, return_counts=True)
    applications = numbers[count >= RUNS_OF_ONE].tolist()
    if len(applications) < APPLICATIONS_MIN:
        raise ValueError(f"Shared costs need {APPLICATIONS_MIN} applications with {RUNS_OF_ONE} runs each.")
    used = np.isin(group, applications)
    values, time_s, group = values[used], time_s[used], group[used]
    error = float(np.mean([np.abs(_off(values, time_s, group, number)).mean() for number in applications]))
    return SharedCosts(names, rounded(*_costs(values, time_s, group).tolist()), six_digits(error))


def _off(values: Floats, time_s: Floats, group: Ints, number: int) -> Floats:
    """Return ln(actual / predicted) of every second run of the application `number`.

    The costs are fitted to all other applications, and the scale of this application to its remaining runs.
    """
    positions = np.flatnonzero(group == number)
    total = values @ _costs(values[group != number], time_s[group != number], group[group != number])
    first, second = positions[::2], positions[1::2]
    return np.log(time_s[second]) - scaled(total[first], time_s[first]).ln(total[second])


def _costs(values: Floats, time_s: Floats, group: Ints) -> Floats:
    """Return the costs (p,) that minimise the squared relative errors; each application has its own `scale` and `besides`."""
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


RUNS_MAX: Final = 32  # most stored runs of an application
APPLICATIONS_MAX: Final = 16
NEW_SHARE: Final = 0.1  # share of new runs from which the costs are fitted again
STEP_COST: Final = 15  # cost of fitting a set of features, in units of about a millisecond

Condition = Literal["alone", "inside", "beyond"]
"""Situation of a forecast: the application has no model of its own, or the size is inside or beyond its observed sizes."""
CONDITIONS: Final[tuple[Condition, ...]] = get_args(Condition)


class SharedRun(NamedTuple):
    """A run with reported communication; `features` are already converted so that runs of different sizes can be compared."""

    application_id: str
    run_id: str
    end_ms: int
    run_time_s: float
    features: Mapping[str, float]
    now_ms: int


class SharedForecast(NamedTuple):
    """The forecast of a run from the shared costs, and in `records` the scores of earlier such forecasts for each condition."""

    forecast: LnForecast
    records: Mapping[str, ForecastBlend]


class SharedScore(NamedTuple):
    """The forecasts for an ended run, and in `ln_t` the ln of its actual run time.

    `forecast` comes from the shared costs. `before` combines the curve and all stages before the shared costs. `without` combines
    only the stages before communication, so it stands for an application without a communication model of its own.
    """

    condition: Condition
    without: LnForecast
    before: LnForecast
    forecast: LnForecast
    ln_t: float


class CommunicationPoolState(msgspec.Struct, omit_defaults=True):
    """Stored form of `CommunicationPool`.

    `runs` are application id, run id, end in ms and run time in s; `features` are the features of these runs. `fitted` has the costs
    and their error for each set of features, `coming` those of the running fit (None if no fit is running). `changed` counts runs
    since the last fit began. `records` are the scores of past forecasts by condition.
    """

    runs: list[tuple[str, str, int, float]] = []
    features: dict[str, Any] | None = None
    fitted: dict[str, SharedCosts] = {}
    coming: dict[str, SharedCosts | None] | None = None
    changed: int = 0
    records: dict[str, dict[str, Any]] = {}
    waiting_ms: int | None = None


class CommunicationPool:
    """The costs of communication that the applications of one system share, among runs whose sizes are in the same unit."""

    name: ClassVar[str] = "communication_pool"
    version: ClassVar[int] = 2

    def __init__(self, state: CommunicationPoolState | None = None) -> None:
        stored = state or CommunicationPoolState()
        rows = unpacked(stored.features) if stored.features is not None else []
        self._runs: dict[str, dict[str, SharedRun]] = {}
        for (application_id, run_id, end_ms, run_time_s), row in zip(stored.runs, rows, strict=True):
            run = SharedRun(application_id, run_id, end_ms, run_time_s, row, 0)
            self._runs.setdefault(application_id, {})[run_id] = run
        self._fitted = dict(stored.fitted)
        self._coming = None if stored.coming is None else dict(stored.coming)
        self._changed = stored.changed
        self._records = {name: ForecastBlend.build(record) for name, record in stored.records.items()}
        self._waiting_ms = stored.waiting_ms

    def __len__(self) -> int:
        return sum(map(len, self._runs.values()))

    @property
    def trusted(self) -> str | None:
        """The set of features whose costs have the least error on left-out applications; None before the first fit."""
        return self._best(self._fitted)

    def costs(self, reported: Container[str] = NAMES) -> SharedCosts | None:
        """Return the costs of the best set of features among those that are all `reported`; None without such a set."""
        name = self._best(name for name in self._fitted if all(feature in reported for feature in FEATURE_SETS[name]))
        return None if name is None else self._fitted[name]

    def _best(self, sets: Iterable[str]) -> str | None:
        return min(sets, key=lambda name: (self._fitted[name].error, name), default=None)

    def importances(self) -> dict[str, float]:
        """Return the importance of each feature, with a sum of 1; proportional to its cost times its standard deviation over stored runs."""
        costs = self.costs()
        rows = [run.features for run in self._all() if costs is not None and _reports(run, costs.names)]
        if costs is None or not rows:
            return {}
        explained = np.array(costs.cost) * columns(costs.names, rows).std(axis=0)
        shares = zip(costs.names, (explained / (explained.sum() or 1.0)).tolist(), strict=True)
        return {name: six_digits(share) for name, share in shares if share > 0}

    def score(self, fact: SharedRun) -> SharedForecast | None:
        """Return the forecast of a run from its features; the run time in `fact` is not used.

        None if no fitted set of features is completely reported, or if no stored run of the application reports the set.
        """
        costs = self.costs(fact.features)
        own_runs = sorted(self._runs.get(fact.application_id, {}).items())
        runs = [run for _, run in own_runs if costs is not None and _reports(run, costs.names)]
        if costs is None or not runs:
            return None
        total, time_s = costs.total([run.features for run in runs]), np.array([run.run_time_s for run in runs])
        scaled_costs = scaled(total, time_s)
        ln_t = float(scaled_costs.ln(costs.total([fact.features]))[0])
        return SharedForecast(LnForecast(ln_t, max(scaled_costs.deviation, costs.error)), self._records)

    def learn(self, fact: SharedRun) -> None:
        """Learn a run. A run with a known id replaces the earlier report, and a repeated run changes nothing."""
        features = singles({name: fact.features[name] for name in NAMES if name in fact.features})
        run = fact._replace(features=features, run_time_s=six_digits(fact.run_time_s), now_ms=0)
        own_runs = self._runs.setdefault(run.application_id, {})
        if own_runs.get(run.run_id) == run:
            return
        own_runs[run.run_id] = run
        if len(own_runs) > RUNS_MAX:
            del own_runs[max(own_runs, key=lambda run_id: (digest64(run_id), run_id))]
        if len(self._runs) > APPLICATIONS_MAX:
            last_ms = {name: max(run.end_ms for run in runs.values()) for name, runs in self._runs.items()}
            del self._runs[min(last_ms, key=lambda name: (last_ms[name], name))]
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
        """Fit the costs of the next set of features, and start a fit if one is due; return whether more is left to do."""
        if self._coming is None and self._due():
            self._coming, self._changed = {}, 0
        if self._coming is not None:
            name = next(name for name in FEATURE_SETS if name not in self._coming)
            self._coming[name] = self._fit(FEATURE_SETS[name])
            if len(self._coming) == len(FEATURE_SETS):
                self._fitted = {name: costs for name, costs in self._coming.items() if costs is not None}
                self._coming = None
        if self._coming is None and not self._due():
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
        return [run for _, runs in sorted(self._runs.items()) for _, run in sorted(runs.items())]

    def _fit(self, names: tuple[str, ...]) -> SharedCosts | None:
        runs = [run for run in self._all() if _reports(run, names)]
        number = {name: i for i, name in enumerate(sorted(self._runs))}
        group = np.array([number[run.application_id] for run in runs], np.int64)
        with suppress(ValueError):  # too few runs or applications
            return shared(names, [run.features for run in runs], np.array([run.run_time_s for run in runs]), group)
        return None

    def _due(self) -> bool:
        return self._changed >= max(1.0, NEW_SHARE * len(self))

    def _note_change(self, now_ms: int) -> None:
        self._changed += 1
        if self._waiting_ms is None and self._due():
            self._waiting_ms = now_ms


def _reports(run: SharedRun, names: tuple[str, ...]) -> bool:
    return all(name in run.features for name in names)
