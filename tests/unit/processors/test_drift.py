"""Drift end to end: an application that becomes slower or faster, its model learning all the while."""

import math
from collections.abc import Mapping

import msgspec
import numpy as np
import pytest

from processors.contracts.events import Attribute
from processors.contracts.names import Horizon
from processors.contracts.settings import RunTimeSettings
from processors.facts import PublishedCurve, PublishedPoint, RunFact, Scored
from processors.run_time.drift import (
    CAUGHT_UP_RUNS,
    AttributeChange,
    Drift,
    DriftFindings,
    ScoredRun,
    Shift,
)
from processors.run_time.model import RunTime, RunTimeState

SIZES = (1, 2, 4, 8, 16, 32)
BEFORE = 150


def scored(
    index: int,
    ln_ratio: float,
    attributes: Mapping[str, Attribute] | None = None,
    *,
    half_width: float = 0.08,
    horizon: Horizon = "inside",
    observations: int = 50,
) -> ScoredRun:
    run = RunFact(
        f"r{index}", 4, 100 * math.exp(ln_ratio), start_ms=index * 1000, end_ms=index * 1000 + 500, detected_ms=0
    )
    low_s, high_s = 100 * math.exp(-half_width), 100 * math.exp(half_width)
    return ScoredRun(
        Scored(run, 100, low_s, high_s, ln_ratio, half_width, abs(ln_ratio) <= half_width, horizon, observations),
        attributes or {},
    )


class World:
    """An application with its model: published anew as the product does, once an eighth of the runs is new."""

    def __init__(self, seed: int, noise: float) -> None:
        self._generator = np.random.default_rng(seed)
        self._noise = noise
        self._model = RunTime(RunTimeSettings(), RunTimeState())
        self._unpublished = self._index = 0
        self.detector = Drift()

    def run(self, factor: float, attributes: Mapping[str, Attribute]) -> DriftFindings:
        n = float(self._generator.choice(SIZES))
        run_time_s = 1000 * (1 / n + 0.02) * factor * math.exp(self._generator.normal(0, self._noise))
        self._index += 1
        fact = RunFact(f"r{self._index}", n, run_time_s, self._index, self._index, self._index)
        found = self._model.score(fact)
        self._model.learn(fact)
        self._publish()
        return self.detector.take(ScoredRun(found, attributes)) if found else DriftFindings(None)

    def _publish(self) -> None:
        self._unpublished += 1
        if self._unpublished * 8 < self._index:
            return
        self._unpublished = 0
        sizes = self._model.sizes()
        reported = self._model.study().predict(np.array(sizes))
        rows = zip(sizes, reported.run_time_s.tolist(), reported.low_s.tolist(), reported.high_s.tolist(), strict=True)
        points = tuple(PublishedPoint(*row) for row in rows)
        self._model.publish(PublishedCurve(points, sizes[0], sizes[-1], self._index, self._index), [])


def timetable(seed: int, factor: float, after: int, noise: float = 0.05) -> tuple[list[int], list[tuple[int, Shift]]]:
    """Return after which runs an alarm came before the change, and after which with what since."""
    world = World(seed, noise)
    early = [i for i in range(BEFORE) if world.run(1.0, {"build": "2026.1"}).found]
    late = []
    for i in range(after):
        found = world.run(factor, {"build": "2026.2"}).found
        late += [(i + 1, found)] if found else []
    return early, late


def test_a_quarter_slower_is_found_after_three_to_five_runs_with_at_most_one_false_alarm_in_1800() -> None:
    results = [timetable(seed, 1.25, after=12) for seed in range(12)]
    assert sum(len(early) for early, _ in results) <= 1
    assert all(len(late) == 1 for _, late in results), "one change is one finding"
    assert all(3 <= late[0][0] <= 5 for _, late in results)
    shifts = [late[0][1] for _, late in results]
    assert {shift.direction for shift in shifts} == {"regression"}
    assert {shift.change for shift in shifts} == {AttributeChange("build", "2026.1", "2026.2")}
    assert np.median([shift.factor for shift in shifts]) == pytest.approx(1.25, rel=0.05)
    assert np.median([int(shift.since_run[1:]) for shift in shifts]) == BEFORE + 1


def test_a_fifth_faster_is_an_improvement() -> None:
    early, late = timetable(3, 0.8, after=12)
    assert early == []
    assert [shift.direction for _, shift in late] == ["improvement"]
    assert late[0][1].factor == pytest.approx(0.8, rel=0.06)


def test_without_any_change_there_is_no_alarm_though_runs_scatter_much_and_bands_are_narrow() -> None:
    generator = np.random.default_rng(5)
    detector = Drift()
    found = [detector.take(scored(i, float(r))).found for i, r in enumerate(generator.normal(0, 0.3, 2000))]
    assert sum(each is not None for each in found) <= 1


def test_a_new_application_may_scatter_more_than_its_first_band_states() -> None:
    generator = np.random.default_rng(12)
    alarms = 0
    for _ in range(60):
        detector = Drift()
        ratios = generator.normal(0, 0.2, 40)
        alarms += sum(
            detector.take(scored(i, float(r), half_width=0.05)).found is not None for i, r in enumerate(ratios)
        )
    assert alarms <= 3  # in 2400 runs; 55 where all runs count from the first on


def test_a_shift_itself_is_not_taken_for_noise() -> None:
    detector = Drift()
    for i in range(200):
        detector.learn(scored(i, 0.05 * (-1) ** i))
    before = detector.snapshot().noise
    for i in range(200, 206):
        detector.learn(scored(i, 0.3))
    assert detector.shift is not None
    assert detector.snapshot().noise == pytest.approx(before, rel=0.02)


def test_the_first_runs_after_an_alarm_correct_the_factor() -> None:
    detector, factors = Drift(), []
    for i in range(56):
        level = 0.0 if i < 40 else 0.3 if i < 43 else 0.2  # the first three were slower than the rest will be
        taken = detector.take(scored(i, 0.02 * (-1) ** i + level))
        factors += [math.log(taken.found.factor)] if taken.found else []
    assert factors == [pytest.approx(0.3, abs=0.03)]
    assert detector.shift is not None
    assert math.log(detector.shift.factor) == pytest.approx(0.2, abs=0.03)


def test_a_small_shift_is_not_worth_a_word() -> None:
    generator = np.random.default_rng(6)
    detector = Drift()
    for i, ratio in enumerate(generator.normal(0, 0.01, 400)):
        assert detector.take(scored(i, float(ratio) + 0.03 * (i >= 100))).found is None


def test_a_shift_is_reported_once_and_is_over_when_the_model_has_caught_up() -> None:
    generator = np.random.default_rng(7)
    detector = Drift()
    found, over = [], []
    for i in range(400):
        model_knows = min(max(i - 100, 0) / 100, 1.0)  # the model takes a hundred runs to learn it
        ratio = float(generator.normal(0, 0.04)) + (0.25 * (1 - model_knows) if i >= 100 else 0.0)
        taken = detector.take(scored(i, ratio))
        found += [i] if taken.found else []
        over += [i] if taken.over else []
    assert len(found) == 1
    assert 102 <= found[0] <= 106
    assert len(over) == 1
    assert over[0] > 130
    assert detector.shift is None


def test_the_size_of_a_shift_is_reported_better_with_more_runs() -> None:
    generator = np.random.default_rng(8)
    detector = Drift()
    for i in range(116):
        detector.learn(scored(i, float(generator.normal(0, 0.04)) + 0.3 * (i >= 100)))
    assert detector.shift is not None
    assert detector.shift.factor == pytest.approx(math.exp(0.3), rel=0.03)
    assert detector.shift.runs == CAUGHT_UP_RUNS
    assert (detector.shift.since_run, detector.shift.since_ms) == ("r100", 100_000)


def test_a_model_that_has_adopted_a_shift_lets_a_way_back_be_found() -> None:
    detector = Drift()
    for i in range(60):
        detector.learn(scored(i, 0.02 * (-1) ** i + 0.3 * (i >= 40)))
    adopted = detector.shift
    assert adopted is not None
    detector.adopted()
    assert detector.shift is None
    for i in range(60, 70):
        detector.learn(scored(i, 0.02 * (-1) ** i))
    assert detector.shift is None
    found = [detector.take(scored(i, 0.02 * (-1) ** i - 0.3)).found for i in range(70, 76)]
    assert [each.direction for each in found if each] == ["improvement"]


def test_a_further_slowdown_is_a_finding_of_its_own() -> None:
    detector = Drift()
    levels = [0.0] * 40 + [0.2] * 30 + [0.6] * 10
    found = [detector.take(scored(i, 0.02 * (-1) ** i + level)).found for i, level in enumerate(levels)]
    factors = [round(math.log(each.factor), 1) for each in found if each]
    assert factors == [0.2, 0.6]


def test_without_a_new_build_no_build_is_blamed() -> None:
    detector = Drift()
    for i in range(48):
        attributes: dict[str, Attribute] = {"build": "a" if i < 20 else "b", "atoms": 1000 + i}
        detector.learn(scored(i, 0.02 * (-1) ** i + 0.3 * (i >= 40), attributes))
    assert detector.shift is not None
    assert detector.shift.change is None


def test_an_outlier_is_reported_by_itself_and_is_no_drift() -> None:
    generator = np.random.default_rng(9)
    detector = Drift()
    for i, ratio in enumerate(generator.normal(0, 0.04, 150)):
        detector.learn(scored(i, float(ratio)))
    judgement = detector.score(scored(150, 0.7))
    assert judgement is not None
    assert judgement.outlier == 1
    assert judgement.conformal_p < 0.01
    assert detector.take(scored(150, 0.7)).found is None
    usual = detector.score(scored(151, 0.03))
    assert usual is not None
    assert usual.outlier == 0


@pytest.mark.parametrize(
    "fact",
    [
        scored(1, 0.5, horizon="up_to_2x"),
        scored(1, 0.5, observations=2),
        scored(1, math.inf),
        scored(1, math.nan),
    ],
    ids=["beyond what was observed", "few observations", "infinite", "no number"],
)
def test_a_prediction_that_is_not_to_be_trusted_reports_nothing(fact: ScoredRun) -> None:
    detector = Drift()
    detector.learn(scored(0, 0.0))
    before = detector.snapshot()
    assert detector.score(fact) is None
    assert detector.take(fact) == DriftFindings(None)
    assert detector.snapshot() == before


def test_a_repeat_changes_nothing_and_scoring_changes_nothing() -> None:
    detector = Drift()
    for i in range(20):
        detector.learn(scored(i, 0.01 * i, {"build": "a"}))
    before = msgspec.json.encode(detector.snapshot())
    assert detector.take(scored(19, 0.19, {"build": "a"})) == DriftFindings(None)
    detector.score(scored(20, 0.9, {"build": "z"}))
    assert msgspec.json.encode(detector.snapshot()) == before
    assert detector.due_ms() is None


def test_a_restored_detector_goes_on_as_if_nothing_had_been_and_its_state_is_bounded() -> None:
    generator = np.random.default_rng(10)
    detector, twin = Drift(), Drift()
    largest = 0
    for i in range(1000):
        ratio = float(generator.standard_t(3)) * 0.05 + 0.2 * (i // 200 % 2)
        fact = scored(i, ratio, {f"a{j}": "v" * 500 + str(i // 50) for j in range(20)})
        twin = Drift.snapshot(msgspec.json.decode(msgspec.json.encode(twin.snapshot()), type=Drift))
        assert detector.take(fact) == twin.take(fact)
        largest = max(largest, len(msgspec.json.encode(detector.snapshot())))
    assert detector.snapshot() == twin.snapshot()
    assert largest < 40_000


def test_a_snapshot_is_a_copy() -> None:
    detector = Drift()
    detector.learn(scored(0, 0.0, {"build": "a"}))
    before = detector.snapshot()
    stored = msgspec.json.encode(before)
    for i in range(1, 60):
        detector.learn(scored(i, 0.3, {"build": "b"}))
    assert msgspec.json.encode(before) == stored
