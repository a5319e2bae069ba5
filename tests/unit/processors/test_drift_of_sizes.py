"""Drift where sizes differ: one that moved alone, those that were out of line, those that are new."""

import math

from processors.facts import Ground, RunFact, Scored
from processors.run_time.drift import Drift, ScoredRun


def run(index: int, n: float, ln_ratio: float, *, half_width: float = 0.08, ground: Ground = "runs") -> ScoredRun:
    fact = RunFact(
        f"r{index}", n, 100 * math.exp(ln_ratio), start_ms=index * 1000, end_ms=index * 1000 + 500, detected_ms=0
    )
    band = 100 * math.exp(-half_width), 100 * math.exp(half_width)
    retained = abs(ln_ratio) <= half_width
    return ScoredRun(Scored(fact, 100, *band, ln_ratio, half_width, retained, "inside", observations=50, ground=ground))


def steady() -> Drift:
    detector = Drift()
    for i in range(40):
        detector.learn(run(i, 2.0 ** (i % 4), 0.02 if (i // 4 + i) % 2 else -0.02))
    return detector


def test_one_size_alone_is_distinguished_from_a_shift_of_all_though_others_ran_between() -> None:
    detector = steady()
    runs = [(8, 0.4), (4, 0.01), (8, 0.4), (8, 0.4)]
    taken = [detector.take(run(40 + i, n, off)) for i, (n, off) in enumerate(runs)]
    assert [each.found.sizes for each in taken if each.found] == [(8,)]


def test_a_size_that_becomes_slow_is_found_in_its_third_run_however_many_of_other_sizes_ran_between() -> None:
    detector = steady()
    taken = []
    for i in range(18):
        n = (8, 1, 2, 4, 16, 32)[i % 6]
        taken.append(detector.take(run(40 + i, n, 0.4 if n == 8 else 0.02 if i % 2 else -0.02)))
    assert not any(each.found for each in taken)
    assert [(i, each.turned.n, each.turned.runs) for i, each in enumerate(taken) if each.turned] == [(12, 8, 3)]


def test_a_strange_run_is_an_open_question_until_its_size_runs_again() -> None:
    detector = steady()
    assert detector.take(run(40, 8, 0.4)).open_questions == {1}
    assert detector.take(run(41, 4, 0.01)).open_questions == {1}, "another size answers nothing"
    assert detector.take(run(42, 8, 0.01)).open_questions == set()


def test_of_three_alike_the_third_is_an_outlier_as_well() -> None:
    detector = steady()
    judged = [detector.take(run(40 + i, 8, 0.4)).judgement for i in range(3)]
    assert [each.outlier for each in judged if each] == [1, 1, 1]


def test_runs_at_several_sizes_are_a_shift_of_all() -> None:
    detector = steady()
    found = [detector.take(run(40 + i, n, off)).found for i, (n, off) in enumerate([(8, 0.25), (4, 0.2), (8, 0.22)])]
    assert [each.sizes for each in found if each] == [(4, 8)]


def test_runs_at_a_size_that_was_out_of_line_are_no_news_of_the_application() -> None:
    detector = steady()
    before = detector.snapshot()
    for i in range(40, 60):
        taken = detector.take(run(i, 8, 0.4, ground="excluded"))
        assert taken.judgement is not None
        assert taken.found is None
    assert detector.snapshot() == before


def test_runs_at_sizes_that_are_new_count_by_the_width_of_their_band() -> None:
    new, known = steady(), steady()
    for i in range(40, 44):
        assert new.take(run(i, i, 0.2, half_width=0.6, ground="curve")).found is None
        known.learn(run(i, i, 0.2, half_width=0.6))
    assert known.shift is not None
