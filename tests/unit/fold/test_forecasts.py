"""When a running job will end: at its start from the published curve, then revised as it runs on."""

from tests.kit.scenario import Scenario

SIZES = (1, 2, 4, 8, 16) * 4


def learned() -> Scenario:
    """Return a centre that knows lammps: 270 s on 4 nodes."""
    centre = Scenario()
    centre.at("08:00").scales("lammps", *SIZES)
    return centre.at("10:00")


def test_a_start_is_told_with_its_end_and_the_band_around_it() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4, time_limit_s=3600.0)
    said = centre.topic("job_predictions")["exa/1"]
    assert said["known"]
    assert 250 < said["low_s"] < said["run_time_s"] < said["high_s"] < 290
    assert "2026-11-20T10:04:20" < said["end"] < "2026-11-20T10:04:40"
    assert said["end_low"] < said["end"] < said["end_high"]
    assert said["probability_exceeds_limit"] < 1e-6
    assert said["coverage"] == 0.9


def test_a_prediction_that_holds_is_not_told_again() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4)
    centre.at("10:04")
    assert len(centre.messages("job_predictions")) == 1


def test_a_job_that_overruns_its_band_is_told_later_and_later_ends() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4, time_limit_s=600.0)
    ends, chances = [], []
    for minute in range(5, 10):
        centre.at(f"10:0{minute}")
        said = centre.messages("job_predictions")[-1]
        ends.append(said["end"])
        chances.append(said["probability_exceeds_limit"])
        assert said["end"] >= f"2026-11-20T10:0{minute}:00Z" or minute == 5
        assert said["low_s"] <= said["run_time_s"] <= said["high_s"]
    assert ends == sorted(ends)
    assert len(set(ends)) > 2
    assert chances == sorted(chances)
    assert len(centre.messages("job_predictions")) > 3


def test_the_chance_to_exceed_the_limit_is_told_before_it_happens() -> None:
    centre = learned()
    for job, limit_s in (("short", 200.0), ("even", 270.0), ("long", 400.0)):
        centre.starts(job, "lammps", nodes=4, time_limit_s=limit_s)
    centre.starts("none", "lammps", nodes=4)
    told = {key: said["probability_exceeds_limit"] for key, said in centre.topic("job_predictions").items()}
    assert told["exa/short"] > 0.999
    assert 0.1 < told["exa/even"] < 0.9
    assert told["exa/long"] < 0.001
    assert told["exa/none"] is None


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


def test_a_start_of_long_ago_is_told_as_a_job_that_has_run_since() -> None:
    centre = learned()
    start = Scenario()
    start.at("09:50").starts("1", "lammps", nodes=4)
    centre.fold(start.events[-1])
    said = centre.topic("job_predictions")["exa/1"]
    assert said["run_time_s"] >= 600
    assert said["end"] >= "2026-11-20T10:00:00Z"
