"""One verdict a size: by the width of its final band, and never better farther out."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from processors.contracts.outputs import Range, Reliability
from processors.contracts.settings import RunTimeSettings
from processors.facts import PublishedCurve, RunFact
from processors.models.adept.study import Study, study
from processors.models.adept.verdict import Verdict
from processors.models.combination.combine import Combination
from processors.models.downey.curve import speedup
from processors.models.numerics.arrays import Floats
from processors.run_time.messages import reliable_range
from processors.run_time.model import RunTime, RunTimeState
from processors.run_time.prediction import RunTimePrediction, fitted_curve
from processors.run_time.verdict import SizeGrounds, Verdicts, steps
from tests.kit.effort import seeds
from tests.kit.messages import curve_point

OPEN = study([2, 6, 16, 24], [51.246, 19.594, 9.225, 7.762])
FLAT = study([4, 8, 16, 32, 64], (1000.0 / speedup(np.array([4.0, 8.0, 16.0, 32.0, 64.0]), 16.0, 0.5)).tolist())


def places(n_max: float, half_width: float = 0.05, **changes: Any) -> list[SizeGrounds]:
    return [SizeGrounds(n, half_width)._replace(**changes) for n in steps(n_max)]


def verdicts(
    found: Study = FLAT, beyond: Sequence[SizeGrounds] | None = None, full: tuple[float, ...] = ()
) -> Verdicts:
    n_min, n_max = float(found.n[0]), float(found.n[-1])
    return Verdicts(n_min, n_max, found.verdict, list(beyond) if beyond is not None else places(n_max), full=full)


def test_inside_the_range_the_own_band_decides() -> None:
    found = verdicts()
    assert found.of(SizeGrounds(24.0, 0.05)).verdict == "reliable"
    wide = found.of(SizeGrounds(24.0, 0.26))
    assert (wide.verdict, wide.reasons) == ("uncertain", ("wide_band",))


def test_up_to_twice_the_largest_size_a_narrow_band_is_reliable_and_beyond_nothing_is() -> None:
    found = verdicts()
    assert found.reach == 128.0
    assert found.of(SizeGrounds(128.0, 0.05)).verdict == "reliable"
    assert found.of(SizeGrounds(129.0, 0.05, reasons=("far",))).reasons == ("far",)
    assert found.whole(128.0).verdict == "reliable"


def test_a_curve_that_still_gains_is_reliable_up_to_four_times_its_largest_size_while_its_band_is_narrow() -> None:
    found = Verdicts(4.0, 64.0, FLAT.verdict, places(64.0), slope=-0.8)
    assert found.reach == 256.0
    assert found.of(SizeGrounds(192.0, 0.05)).verdict == "reliable"
    assert found.of(SizeGrounds(320.0, 0.05)).verdict == "uncertain"
    assert (
        Verdicts(4.0, 64.0, FLAT.verdict, places(64.0), slope=-0.3).of(SizeGrounds(192.0, 0.05)).verdict == "uncertain"
    )
    disagreeing = Verdicts(4.0, 64.0, FLAT.verdict, places(64.0, known_further=0.1), slope=-0.8)
    assert disagreeing.of(SizeGrounds(192.0, 0.05, known_further=0.1)).verdict == "uncertain"


def test_the_doubts_of_adept_are_advice_on_sizes_whose_band_is_wide() -> None:
    found = verdicts(OPEN, places(24.0, 0.4))
    after = found.of(SizeGrounds(48.0, 0.4, reasons=("wide_gap",)))
    assert (after.verdict, after.reasons, after.next_n) == ("uncertain", ("wide_gap", "runner_up"), 32.0)
    assert [sentence for sentence in after.advice if "Different curves fit" in sentence]
    assert verdicts(OPEN).of(SizeGrounds(48.0, 0.2)).verdict == "reliable"


@pytest.mark.parametrize("full_n", [64.0, 90.0])
def test_where_a_part_of_the_machine_is_full_nothing_is_reliable_farther_out(full_n: float) -> None:
    found = verdicts(full=(16.0, full_n))
    assert found.reach <= full_n
    assert found.of(SizeGrounds(64.0, 0.05)).verdict == "reliable"
    after = found.of(SizeGrounds(128.0, 0.05))
    assert (after.verdict, after.reasons[0]) == ("uncertain", "part_full")
    assert "no run went further" in after.advice[0]


def test_related_curves_that_went_beyond_a_full_node_can_be_relied_on() -> None:
    found = verdicts(beyond=places(64.0, known_further=0.9), full=(64.0,))
    assert found.of(SizeGrounds(128.0, 0.05, known_further=0.9)).verdict == "reliable"


def test_a_wide_band_makes_the_application_uncertain_too() -> None:
    found = verdicts(beyond=places(64.0, 0.4, reasons=("members_disagree",)))
    assert (found.whole(64.0).verdict, found.whole(64.0).reasons) == ("uncertain", ("members_disagree",))


def test_an_application_is_reliable_if_some_way_beyond_its_largest_size_is_and_its_advice_says_how_far() -> None:
    beyond = [*places(64.0)[:2], *places(64.0, 0.4, reasons=("members_disagree",))[2:]]
    whole = verdicts(beyond=beyond).whole(96.0)
    assert (whole.verdict, whole.reasons) == ("reliable", ())
    assert whole.advice[0].startswith("The prediction is reliable up to 96.")
    assert verdicts(beyond=beyond).whole(64.0).verdict == "uncertain"


def test_related_curves_that_are_known_further_out_answer_what_the_own_sizes_leave_open() -> None:
    found = verdicts(FLAT, places(64.0, known_further=0.6))
    assert found.reach == 256.0
    assert found.of(SizeGrounds(256.0, 0.1)).verdict == "reliable"
    assert found.of(SizeGrounds(300.0, 0.26, known_further=0.6)).verdict == "uncertain"
    assert verdicts(FLAT, places(64.0, 0.26, known_further=0.6)).reach == 256.0
    assert verdicts(FLAT, places(64.0, known_further=0.2)).of(SizeGrounds(256.0, 0.1)).verdict == "uncertain"


@pytest.mark.parametrize("seed", seeds(5, 20))
def test_a_verdict_gets_no_better_with_distance(seed: int) -> None:
    random = np.random.default_rng(seed)
    beyond = [
        SizeGrounds(n, float(random.uniform(0.05, 0.4)), known_further=float(random.integers(0, 2)))
        for n in steps(64.0)
    ]
    found = verdicts(beyond=beyond)
    trusted = [found.of(SizeGrounds(n, 0.05)).verdict == "reliable" for n in np.geomspace(65.0, 2000.0, 60).tolist()]
    assert trusted == sorted(trusted, reverse=True)


def test_of_a_band_that_is_none_nothing_is_known() -> None:
    assert verdicts().of(SizeGrounds(24.0, 8.0, uninformative=True)).verdict == "unknown"


def test_with_two_sizes_nothing_is_reliable() -> None:
    found = verdicts(study([4, 8], [100.0, 52.0]))
    assert {found.of(SizeGrounds(n, 0.01)).verdict for n in (4.0, 6.0, 16.0)} == {"insufficient"}


def test_a_size_with_many_runs_of_its_own_is_reliable_whatever_the_curve() -> None:
    found = verdicts(study([4, 8], [100.0, 52.0]))
    assert found.of(SizeGrounds(8.0, 0.05, measured=True)).verdict == "reliable"
    assert found.of(SizeGrounds(8.0, 0.3, measured=True)).verdict == "insufficient"


def published(sizes: Sequence[float], times_s: Sequence[float]) -> PublishedCurve:
    model = RunTime(RunTimeSettings(), RunTimeState())
    for i, (n, time_s) in enumerate(zip(sizes, times_s, strict=True)):
        end_ms = (i + 1) * 10**7
        model.learn(RunFact(str(i), n, time_s, end_ms - round(time_s * 1000), end_ms, end_ms))
    found = model.evidence("exa/app//nodes", "exa")
    combination = Combination(found) if found is not None else None
    forecast = RunTimePrediction(model.study(), combination, None, model.observed().scatter)
    return fitted_curve(forecast, model, [*sizes, 2 * sizes[-1], 4 * sizes[-1]], 0)


Truth = Callable[[Floats], Floats]


def reliably_off(truths: Iterable[Truth], sizes: list[float], repeats: int, random: np.random.Generator) -> list[float]:
    """Return how far in ln is off what is called reliable at twice the largest size; none is at four times."""
    off, beyond = list[float](), [2 * sizes[-1], 4 * sizes[-1]]
    for truth in truths:
        measured_s = np.tile(truth(np.array(sizes)), repeats) * np.exp(random.normal(0.0, 0.01, repeats * len(sizes)))
        found = published(sizes * repeats, measured_s.tolist())
        for n, true_s in zip(beyond, truth(np.array(beyond)).tolist(), strict=True):
            (read,) = found.read([n]) or (None,)
            if read is not None and read.reliability.verdict == "reliable":
                assert n == beyond[0], "nobody was run out there"
                off.append(abs(math.log(read.band.run_time_s / true_s)))
    assert sum(each > math.log(1.3) for each in off) <= 0.05 * len(off)
    assert max(off, default=0.0) < math.log(1.5)
    return off


def random_downey(random: np.random.Generator) -> Truth:
    parallelism, sigma = math.exp(random.uniform(math.log(4), math.log(256))), random.uniform(0.0, 2.5)
    return lambda n: 1000.0 / speedup(n, parallelism, sigma)


def random_serial_part(random: np.random.Generator) -> Truth:
    serial_s = math.exp(random.uniform(math.log(5), math.log(300)))
    return lambda n: 1000.0 / n + serial_s


@pytest.mark.parametrize("first", [1, 4])
def test_of_random_downey_applications_what_is_called_reliable_is_near_the_truth(first: int) -> None:
    random, sizes = np.random.default_rng(11), [float(first * 2**i) for i in range(4)]
    assert reliably_off((random_downey(random) for _ in range(80)), sizes, 1, random), "else this shows nothing"


@pytest.mark.parametrize("first", [1, 4])
def test_of_random_applications_with_a_serial_part_what_is_called_reliable_is_near_the_truth(first: int) -> None:
    random, sizes = np.random.default_rng(11), [float(first * 2**i) for i in range(8)]
    off = reliably_off((random_serial_part(random) for _ in range(80)), sizes, 4, random)
    assert len(off) >= 10, "else this shows nothing"


def test_a_curve_that_levelled_off_is_reliable_up_to_twice_its_largest_size() -> None:
    sizes = [float(2**i) for i in range(8)]
    times_s = [1000.0 / n + 60.0 for n in sizes]
    found = published(sizes, times_s)
    assert [read.reliability.verdict for read in found.read([192.0, 256.0, 300.0])] == [
        "reliable",
        "reliable",
        "uncertain",
    ]
    assert found.whole.verdict == "reliable"


def test_a_size_of_which_nothing_is_known_is_no_point_of_the_curve() -> None:
    model = RunTime(RunTimeSettings(), RunTimeState())
    model.learn(RunFact("1", 4.0, 100.0, 0, 100_000, 100_000))
    forecast = RunTimePrediction(model.study(), None)
    found = fitted_curve(forecast, model, [4.0, 8.0, 4e6], 0)
    assert [point.n for point in found.points] == [4.0, 8.0]
    assert found.read([4e6]) == []


def test_the_range_that_can_be_relied_on_is_the_longest_stretch_of_sizes_that_were_run() -> None:
    def range_of(*judged: tuple[float, str]) -> Range | None:
        points = [curve_point(n, 1000.0 / n, reliability=Reliability(verdict)) for n, verdict in judged]
        return reliable_range(points, (2.0, 4.0, 8.0))

    assert range_of(
        (1.0, "uncertain"), (2.0, "reliable"), (4.0, "reliable"), (6.0, "uncertain"), (8.0, "reliable")
    ) == Range(2.0, 8.0)
    assert range_of((2.0, "reliable"), (4.0, "uncertain"), (6.0, "reliable"), (8.0, "reliable")) == Range(2.0, 2.0)
    assert range_of((2.0, "reliable"), (4.0, "reliable"), (8.0, "reliable"), (16.0, "reliable")) == Range(2.0, 16.0)
    assert range_of((2.0, "uncertain"), (16.0, "reliable")) is None
    assert range_of((2.0, "uncertain"), (3.0, "reliable"), (4.0, "reliable"), (8.0, "reliable")) == Range(4.0, 8.0)
    assert range_of((2.0, "reliable"), (4.0, "reliable"), (7.0, "reliable"), (8.0, "uncertain")) == Range(2.0, 4.0)


def test_the_words_of_a_verdict_are_those_of_the_size() -> None:
    assert verdicts().of(SizeGrounds(2.0, 0.01)) == Verdict(
        "uncertain",
        ("below_smallest",),
        ("The prediction is uncertain: no smaller size was run. Run it at 128 next.",),
        128.0,
    )
