"""When a running job will end: at its start from the published curve, then revised as it runs on."""

import pytest

from tests.kit.scenario import Scenario

SIZES = (1, 2, 4, 8, 16) * 4


def learned() -> Scenario:
    """Return a centre that knows lammps: 270 s on 4 nodes."""
    centre = Scenario()
    centre.at("08:00").scales("lammps", *SIZES)
    return centre.at("10:00")


def test_a_start_is_reported_with_its_end_and_the_band_around_it() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4, time_limit_s=3600.0)
    prediction = centre.topic("job_predictions")["exa/1"]
    assert prediction["known"]
    assert 250 < prediction["low_s"] < prediction["run_time_s"] < prediction["high_s"] < 290
    assert "2026-11-20T10:04:20" < prediction["end"] < "2026-11-20T10:04:40"
    assert prediction["end_low"] < prediction["end"] < prediction["end_high"]
    assert prediction["probability_exceeds_limit"] < 0.001
    assert prediction["coverage"] == 0.9


def test_a_scheduler_gets_the_quantiles_of_the_run_time_and_the_chance_to_end_before_the_limit() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4, time_limit_s=272.0)
    prediction = centre.topic("job_predictions")["exa/1"]
    levels, times, ends = zip(*(each.values() for each in prediction["quantiles"]), strict=True)
    assert levels == (0.05, 0.25, 0.5, 0.75, 0.95)
    assert (times[0], times[2], times[4]) == tuple(prediction[name] for name in ("low_s", "run_time_s", "high_s"))
    assert list(times) == sorted(set(times))
    assert (ends[0], ends[2], ends[4]) == tuple(prediction[name] for name in ("end_low", "end", "end_high"))
    assert times[4] > 272
    assert ends[4] == "2026-11-20T10:04:32Z", "where the scheduler stops it"
    chances = prediction["probability_ends_before_limit"], prediction["probability_exceeds_limit"]
    assert 0.5 < chances[0] < 0.95
    assert sum(chances) == pytest.approx(1.0)


def test_numbers_of_a_job_have_the_digits_that_its_band_supports() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4)
    prediction = centre.topic("job_predictions")["exa/1"]
    width_s = prediction["high_s"] - prediction["low_s"]
    for each in prediction["quantiles"]:
        assert each["run_time_s"] == round(each["run_time_s"], 1), width_s
        assert "." not in each["end"], "whole seconds"


def test_a_prediction_that_holds_is_not_reported_again() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4)
    centre.at("10:04")
    assert len(centre.messages("job_predictions")) == 1


def test_a_job_that_overruns_its_band_is_reported_later_ends_and_that_of_its_limit_at_last() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4, time_limit_s=600.0)
    ends, chances = [], []
    for minute in range(5, 10):
        centre.at(f"10:0{minute}")
        prediction = centre.messages("job_predictions")[-1]
        ends.append(prediction["end"])
        chances.append(prediction["probability_exceeds_limit"])
        assert prediction["end"] >= f"2026-11-20T10:0{minute}:00Z" or minute == 5
        assert prediction["low_s"] <= prediction["run_time_s"] <= prediction["high_s"]
    assert ends == sorted(ends)
    assert ends[-1] == "2026-11-20T10:10:00Z", "its limit stops it"
    assert chances == sorted(chances)
    assert len(centre.messages("job_predictions")) > 3


def test_the_chance_to_exceed_the_limit_is_reported_before_it_happens() -> None:
    centre = learned()
    for job, limit_s in (("short", 200.0), ("even", 270.0), ("long", 400.0)):
        centre.starts(job, "lammps", nodes=4, time_limit_s=limit_s)
    centre.starts("none", "lammps", nodes=4)
    reported = {
        key: prediction["probability_exceeds_limit"] for key, prediction in centre.topic("job_predictions").items()
    }
    assert reported["exa/short"] > 0.999
    assert 0.1 < reported["exa/even"] < 0.9
    assert 0 < reported["exa/long"] < 0.005, "a job may always hang"
    assert reported["exa/none"] is None


def test_a_job_of_an_application_that_is_learned_while_it_runs_gets_its_prediction() -> None:
    centre = Scenario()
    centre.at("10:00").starts("1", "lammps", nodes=4)
    assert not centre.topic("job_predictions")["exa/1"]["known"]
    centre.scales("lammps", *SIZES)
    centre.at("10:02")
    assert centre.topic("job_predictions")["exa/1"]["known"]


def test_a_size_beyond_the_published_curve_gets_a_wide_band_and_is_not_called_reliable() -> None:
    centre = learned()
    for job_id, nodes in (("1", 4), ("2", 4096)):
        centre.starts(job_id, "lammps", nodes=nodes)
    near, far = (centre.topic("job_predictions")[f"exa/{job_id}"] for job_id in ("1", "2"))
    assert far["high_s"] / far["low_s"] > 2 * near["high_s"] / near["low_s"]
    assert far["reliability"]["verdict"] not in {"reliable", "unknown"}


def test_a_start_of_long_ago_is_reported_as_a_job_that_has_run_since() -> None:
    centre = learned()
    start = Scenario()
    start.at("09:50").starts("1", "lammps", nodes=4)
    centre.fold(start.events[-1])
    prediction = centre.topic("job_predictions")["exa/1"]
    assert prediction["run_time_s"] >= 600
    assert prediction["end"] >= "2026-11-20T10:00:00Z"


def test_evidence_that_reports_nothing_new_sends_no_prediction_again() -> None:
    """The same message went out twice, under one id."""
    centre = learned()
    centre.starts("1", "lammps", nodes=4)
    before = len(centre.messages("job_predictions"))
    centre.report_from("xalt", "1", executable="/opt/lammps/lmp")
    assert len(centre.messages("job_predictions")) == before


def test_a_job_that_outlives_its_band_is_reported_an_end_ahead_of_it_in_six_digits() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4)
    centre.at("11:30")
    prediction = centre.topic("job_predictions")["exa/1"]
    elapsed_s = 5400
    assert prediction["low_s"] > 0.9 * elapsed_s
    assert prediction["run_time_s"] > 1.5 * elapsed_s
    assert prediction["high_s"] > 10 * elapsed_s
    for name in ("run_time_s", "low_s", "high_s"):
        assert prediction[name] == float(f"{prediction[name]:.6g}")
