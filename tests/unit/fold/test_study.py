"""What ADEPT's study measured goes out with each prediction: metric R of each interval, and the envelope."""

import pytest

from processors.models.adept.study import study
from processors.run_time.prediction import scalability_study
from tests.kit.scenario import Scenario

SIZES = (1, 2, 4, 8, 16, 32)
CLEAN_S = (100.0, 50.25, 25.375, 12.9375, 6.71875, 3.609375)  # A = 40, sigma = .4


def centre_of(*run_time_s: float, sizes: tuple[float, ...] = SIZES) -> Scenario:
    centre = Scenario().at("08:00")
    for i, (n, time_s) in enumerate(zip(sizes, run_time_s, strict=True)):
        for j in range(3):
            centre.ran(f"{i}-{j}", "app", n, 10.0 * time_s)
    return centre.at("1d 08:00")


def test_a_prediction_carries_metric_r_and_an_envelope_that_holds_the_truth() -> None:
    centre = centre_of(*CLEAN_S)
    measured = centre.messages("predictions")[-1]["model"]["study"]
    assert [(part["n"], part["to_n"]) for part in measured["fluctuation"]] == [
        (1, 2),
        (2, 4),
        (4, 8),
        (8, 16),
        (16, 32),
    ]
    r = [part["r"] for part in measured["fluctuation"]]
    assert r == pytest.approx([1.492537, 1.485222, 1.471014, 1.444186, 1.396104], rel=1e-5)
    assert measured["fluctuation_ratio_max"] < 1.0
    bounds = measured["envelope"]
    assert bounds["t1_low_s"] <= 1000.0 <= bounds["t1_high_s"]
    assert bounds["parallelism_low"] <= 40.0 <= bounds["parallelism_high"]
    assert 0.4 / 2 / 40.0 <= bounds["serial_share_high"] < 0.02


def test_a_slow_size_shows_in_metric_r() -> None:
    slow = [time_s * (1.5 if n == 8 else 1.0) for n, time_s in zip(SIZES, CLEAN_S, strict=True)]
    measured = centre_of(*slow).messages("predictions")[-1]["model"]["study"]
    assert measured["fluctuation_ratio_max"] == pytest.approx(2.2090, abs=1e-4)
    assert measured["fluctuation"][3]["r"] == pytest.approx(2.166279, rel=1e-5)


def test_an_answer_has_the_same_and_running_jobs_do_without() -> None:
    centre = centre_of(*CLEAN_S)
    answer = centre.asks("q", 64, application="app", unit="nodes")
    assert answer["model"]["study"] == centre.messages("predictions")[-1]["model"]["study"]
    centre.starts("j", "app", 16)
    assert centre.messages("job_predictions")[-1]["model"].get("study") is None


def test_in_the_linear_section_nothing_bounds_the_parallelism() -> None:
    found = scalability_study(study([1, 2, 4, 8], [1000.0, 501.953, 252.930, 128.418]))
    assert found.envelope.parallelism_high is None
    assert found.envelope.parallelism_low == pytest.approx(7.0454, rel=1e-4)


def test_one_size_has_no_interval_and_shares_of_a_processor_are_one_size() -> None:
    assert scalability_study(study([4], [262.0])).fluctuation == ()
    shared = scalability_study(study([0.25, 0.5, 1, 2], [500.0, 262.0, 133.0, 70.0]))
    assert [(part.n, part.to_n) for part in shared.fluctuation] == [(1.0, 2.0)]
    assert shared.fluctuation_ratio_max is None
