import numpy as np
import pytest

from processors.models.adept.verdict import (
    ADVICE,
    FitEvidence,
    ObservedCurve,
    candidate_sizes,
    gather_many,
    jump_message,
    next_size,
)
from processors.models.downey.curve import ParallelismProfile

EVIDENCE = FitEvidence(
    count=4,
    largest_n=32.0,
    rms=0.34,
    rms_ideal=0.34,
    acceptable=ParallelismProfile(np.array([64.0, 64.0]), np.zeros(2), np.array([143.0, 100.0]), np.zeros(2)),
    superlinear=(4.0, 8.0),
    worst_n=16.0,
    misfit=0.02,
)


def test_every_verdict_has_a_message_of_its_own() -> None:
    assert len({advice(EVIDENCE, 64.0) for advice in ADVICE.values()}) == len(ADVICE)


@pytest.mark.parametrize(
    ("verdict", "mentions"),
    [
        ("insufficient", ["4 sizes", "64"]),
        ("high_error", ["34 %", "16"]),
        ("linear", ["32", "64"]),
        ("runner_up", ["43 %", "64"]),
        ("superlinear", ["4 to 8"]),
    ],
)
def test_a_message_names_the_sizes_it_is_about(verdict: str, mentions: list[str]) -> None:
    text = ADVICE[verdict](EVIDENCE, 64.0)
    assert [mention for mention in mentions if mention not in text] == []
    assert text.endswith(".")


def test_without_a_size_to_run_the_message_suggests_none() -> None:
    (evidence,) = gather_many([ObservedCurve(np.array([4.0]), np.array([10.0]))])
    assert ADVICE["insufficient"](evidence, None) == "Only one size has been run, but three are needed."


def test_the_next_size_is_a_power_of_two_not_yet_run_up_to_twice_the_largest() -> None:
    assert candidate_sizes(np.array([4.0, 8.0, 16.0])).tolist() == [1.0, 2.0, 32.0]


def test_the_next_size_is_one_that_the_centre_allows() -> None:
    assert candidate_sizes(np.array([4.0, 8.0]), (12.0, 12.0, 6.0, 8.0, 100.0, -1.0)).tolist() == [6.0, 12.0]


def test_where_no_size_is_allowed_none_is_suggested() -> None:
    assert next_size(np.array([4.0]), (100.0,), np.zeros_like) is None


def test_of_equally_uncertain_sizes_the_smallest_is_suggested() -> None:
    assert next_size(np.array([1.0, 16.0]), (2.0, 32.0), np.ones_like) == 2.0


def test_a_share_of_a_processor_still_has_a_next_size() -> None:
    assert candidate_sizes(np.array([0.25])).tolist() == []
    assert candidate_sizes(np.array([0.75])).tolist() == [1.0]


def test_a_drop_of_run_time_is_distinguished_from_a_rise() -> None:
    assert "-29 %" in jump_message(8.0, 10.0, -0.2857)
