"""What a person is advised to ask for next time."""

from typing import Any

import pytest

from processors.advice import run_time_at
from processors.contracts.outputs import Prediction, Reliability, UsefulSizes
from sinks.web.views.jobs import energy_text, limit_advice, size_advice
from tests.kit.messages import curve_point, powered_curve, prediction
from tests.kit.recent import predicted, recent_run

BAND = predicted(1800.0, low_s=1620.0, high_s=2040.0)


@pytest.mark.parametrize(
    ("had_s", "page"),
    [
        (None, "40 min is enough: 19 of 20 such runs end within 34 min."),
        (14_400.0, "40 min is enough: 19 of 20 such runs end within 34 min. You requested 4 h; with a shorter limit the job may start sooner."),
        (1800.0, "40 min is enough: 19 of 20 such runs end within 34 min. Your limit of 30 min is tight."),
        (2400.0, "Your limit of 40 min fits: 19 of 20 such runs end within 34 min."),
        (3600.0, "Your limit of 1 h fits: 19 of 20 such runs end within 34 min."),
    ],
)  # fmt: skip
def test_the_limit_to_ask_for_is_the_end_of_the_band_with_a_margin(had_s: float | None, page: str) -> None:
    advice = limit_advice(BAND, had_s)
    assert advice == page


@pytest.mark.parametrize(
    "changes", [{"verdict": "high_error"}, {"verdict": "insufficient"}, {"source": "similar_runs"}]
)
def test_where_the_prediction_is_not_reliable_one_should_stay_generous(changes: dict[str, str]) -> None:
    advice = limit_advice(predicted(1800.0, high_s=2040.0, **changes), 14_400.0)
    assert advice.startswith("Request at least 40 min: 19 of 20")


def test_without_anything_known_no_limit_is_advised() -> None:
    assert limit_advice(None, 3600.0) == ""
    assert limit_advice(predicted(high_s=float("inf")), 3600.0) == ""


def test_a_band_of_another_coverage_is_counted_as_it_is() -> None:
    advice = limit_advice(predicted(1800.0, high_s=2040.0, coverage=0.5), None)
    assert "15 of 20 such runs" in advice


def application(*times: tuple[float, float], **changes: Any) -> Prediction:
    points = tuple(curve_point(n, seconds, source="observed") for n, seconds in times)
    values: dict[str, Any] = {"curve": points, "useful_n": UsefulSizes(), **changes}
    return prediction(**values)


@pytest.mark.parametrize(
    ("half_s", "page"),
    [
        (2000.0, "The size is worth it: 32 nodes take about 33 min, 100 % longer."),
        (1150.0, "Half the size is nearly as fast: 32 nodes take about 19 min, 15 % longer."),
        (1010.0, "Half the size is as fast: 32 nodes take about 17 min."),
        (900.0, "Half the size is as fast: 32 nodes take about 15 min."),
    ],
)
def test_it_is_shown_what_half_the_size_would_have_cost(half_s: float, page: str) -> None:
    assert size_advice(application((32.0, half_s), (64.0, 1000.0)), 64.0) == page


def test_more_than_the_useful_size_is_reported_to_hardly_help() -> None:
    entry = application((24.0, 60.0), (48.0, 31.0), (128.0, 30.9), useful_n=UsefulSizes(max=48.0))
    page = size_advice(entry, 128.0)
    assert page == "48 nodes are enough and take about 31 s. 128 are hardly faster."


def test_a_size_that_is_faster_than_the_useful_one_is_no_waste_of_time() -> None:
    entry = application((32.0, 60.0), (51.0, 45.0), (64.0, 40.0), useful_n=UsefulSizes(max=51.0))
    assert size_advice(entry, 64.0) == "The size is worth it: 32 nodes take about 1 min, 50 % longer."


def test_half_of_one_node_is_not_spoken_of() -> None:
    assert size_advice(application((0.5, 900.0), (1.0, 500.0)), 1.0) == ""
    assert size_advice(application((1.0, 900.0), (2.0, 500.0)), 2.0).startswith(
        "The size is worth it: 1 node takes about"
    )


def test_sizes_outside_of_those_that_were_run_are_not_judged_by_the_curve() -> None:
    entry = prediction(
        curve=tuple(curve_point(n, 1000.0 / n, source="extrapolated") for n in (64.0, 128.0)),
        useful_n=UsefulSizes(max=200.0),
    )
    assert size_advice(entry, 128.0) == "Runs get faster up to 200 nodes."
    assert size_advice(application((8.0, 100.0)), 64.0) == ""


def test_where_the_runs_follow_no_curve_no_size_is_advised() -> None:
    entry = application((32.0, 100.0), (64.0, 99.0), reliability=Reliability("high_error"))
    assert size_advice(entry, 64.0).startswith("The best size is not known yet.")
    assert size_advice(None, 64.0) == ""
    assert size_advice(entry, None) == ""


def test_a_time_between_two_sizes_lies_between_theirs() -> None:
    points = (curve_point(8.0, 100.0), curve_point(32.0, 25.0), curve_point(128.0, 10.0, source="extrapolated"))
    assert run_time_at(points, 8.0) == 100.0
    assert run_time_at(points, 16.0) == pytest.approx(50.0)
    assert run_time_at(points, 32.0) == pytest.approx(25.0)
    assert run_time_at(points, 64.0) is None
    assert run_time_at((), 8.0) is None
    assert run_time_at((curve_point(8.0, 100.0),), 8.0) == 100.0


def test_energy_is_reported_in_the_unit_of_bills_and_against_what_is_usual() -> None:
    usual = next(point for point in powered_curve() if point.n == 64.0)
    assert usual.energy_j is not None
    assert energy_text(recent_run(), usual) == ""
    assert energy_text(recent_run(energy_j=7.2e7), None) == "The run used 20 kWh (72 MJ)."
    assert energy_text(recent_run(energy_j=usual.energy_j * 1.01), usual).endswith("as much as usual.")
    assert energy_text(recent_run(energy_j=usual.energy_j * 1.3), usual).endswith("30 % more than usual.")
    assert energy_text(recent_run(energy_j=usual.energy_j * 0.5), usual).endswith("50 % less than usual.")
    assert "usual" not in energy_text(recent_run(energy_j=usual.energy_j * 0.5, state="FAILED"), usual)
