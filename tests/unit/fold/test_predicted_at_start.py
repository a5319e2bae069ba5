"""A settled run carries what was predicted of it before it ended, and a running job's forecast tells whose it is."""

from typing import Any

from processors.contracts.events import JobCompleted, JobStarted
from processors.contracts.names import run_id
from tests.kit.scenario import DAY_MS, SYSTEM, Scenario, completed, evidence, moment_ms

SIZES = (1, 2, 4, 8, 16) * 4


def learned() -> Scenario:
    """Return a centre that knows lammps: 270 s on 4 nodes."""
    centre = Scenario()
    centre.at("08:00").scales("lammps", *SIZES)
    return centre.at("10:00")


def settled(centre: Scenario, job_id: str) -> dict[str, Any]:
    return next(run for run in reversed(centre.messages("runs")) if run["run_id"].startswith(f"{SYSTEM}/{job_id}@"))


def test_a_run_carries_the_forecast_of_its_start_not_the_later_ones() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4)
    first = centre.messages("job_predictions")[-1]
    centre.at("10:09").ends("1")
    assert len(centre.messages("job_predictions")) > 2, "it overran, so later ends were told"
    reported = settled(centre.at("10:20"), "1")["predicted"]
    assert (reported["source"], reported["verdict"], reported["coverage"]) == (
        "curve",
        first["reliability"]["verdict"],
        0.9,
    )
    for name in ("run_time_s", "low_s", "high_s"):
        assert abs(reported[name] / first[name] - 1) < 5e-4
    assert reported["high_s"] < 540.0


def test_a_run_without_a_start_carries_the_curve_that_was_published_before_it_ended() -> None:
    centre = learned()
    curve = centre.topic("predictions")["exa/lammps//nodes"]
    centre.ran("1", "lammps", 4, 300.0)
    reported = settled(centre.at("10:20"), "1")["predicted"]
    point = next(point for point in curve["curve"] if point["n"] == 4.0)
    assert (reported["run_time_s"], reported["low_s"], reported["high_s"]) == (
        point["run_time_s"],
        point["low_s"],
        point["high_s"],
    )
    of_size = centre.asks("r1", 4, application="lammps")["points"][0]["reliability"]["verdict"]
    assert (reported["source"], reported["verdict"]) == ("curve", of_size)


def test_nothing_is_carried_where_nothing_was_reported() -> None:
    centre = learned()
    centre.ran("1", "gromacs", 4, 300.0)
    centre.ran("2", "lammps", 4096, 300.0)
    centre.ran("3", None, 4, 300.0)
    centre.at("10:20")
    assert [settled(centre, job)["predicted"] for job in "123"] == [None, None, None]


def test_what_was_published_after_a_run_had_ended_is_no_prediction_of_it() -> None:
    centre = learned()
    history = completed("old", DAY_MS, 270.0, application="lammps", nodes=4)
    centre.fold(history)
    late = run_id(SYSTEM, "late", DAY_MS + 1000)
    centre.fold(JobStarted(SYSTEM, "late", late, DAY_MS + 1000, evidence("lammps", 4)))
    centre.fold(completed("late", DAY_MS + 1000, 270.0, application="lammps", nodes=4))
    centre.at("10:20")
    assert [settled(centre, job)["predicted"] for job in ("old", "late")] == [None, None]


def test_similar_runs_are_named_where_they_reported_it() -> None:
    centre = Scenario()
    centre.at("08:00")
    for number in range(40):
        centre.ran(f"past-{number}", None, 4, 300.0 + number, user="u-1")
    centre.at("10:00").starts("1", None, nodes=4, user="u-1")
    centre.at("10:05").ends("1")
    reported = settled(centre.at("10:20"), "1")["predicted"]
    assert reported["source"] == "similar_runs"
    assert reported["low_s"] <= reported["run_time_s"] <= reported["high_s"]


def test_evidence_that_names_a_running_job_gives_the_forecast_that_counts() -> None:
    centre = learned()
    centre.starts("1", None, nodes=4)
    assert centre.messages("job_predictions")[-1]["model"]["name"] == "similar_runs"
    centre.report_from("xalt", "1", application="lammps")
    centre.at("10:05").ends("1")
    reported = settled(centre.at("10:20"), "1")["predicted"]
    assert reported["source"] == "curve"
    assert 250 < reported["run_time_s"] < 290


def test_a_run_that_moves_is_compared_with_what_was_reported_of_its_new_application() -> None:
    centre = learned()
    centre.scales("gromacs", *SIZES, prefix="g")
    centre.at("11:00").ran("1", None, 4, 300.0, job_name="gromacs")
    centre.at("11:01").report_from("xalt", "1", executable="/opt/lammps")
    run = settled(centre.at("11:20"), "1")
    assert run["application_id"] == "exa/lammps//nodes"
    assert 250 < run["predicted"]["run_time_s"] < 290


def test_a_requeued_job_has_a_forecast_for_each_run() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4)
    centre.at("10:02").ends("1", "NODE_FAIL")
    centre.at("10:03").starts("1", "lammps", nodes=8)
    centre.at("10:06").ends("1")
    centre.at("10:20")
    by_size = {run["n"]: run["predicted"]["run_time_s"] for run in centre.messages("runs") if "/1@" in run["run_id"]}
    assert by_size[4.0] > by_size[8.0]


def test_a_corrected_report_keeps_what_was_reported() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4)
    event = centre.at("10:05").ends("1")
    again: JobCompleted = completed("1", event.start_ms, 290.0, application="lammps", nodes=4)
    centre.fold(again)
    run = settled(centre.at("10:20"), "1")
    assert (run["run_time_s"], run["predicted"]["source"]) == (290.0, "curve")


def test_a_restart_between_start_and_settlement_changes_nothing() -> None:
    def day(*, restarts: bool) -> list[dict[str, Any]]:
        centre = learned()
        for moment, act in (("10:00", "start"), ("10:03", ""), ("10:05", "end"), ("10:06", ""), ("10:20", "")):
            centre.at(moment)
            if act == "start":
                centre.starts("1", "lammps", nodes=4)
            if act == "end":
                centre.ends("1")
            if restarts:
                centre.restart()
        return centre.messages("runs")

    assert day(restarts=True) == day(restarts=False)


def test_a_forecast_reports_whose_job_it_is() -> None:
    centre = learned()
    centre.starts("1", "lammps", nodes=4, user="u-7")
    centre.starts("2", "lammps", nodes=4)
    users = {key: prediction["user"] for key, prediction in centre.topic("job_predictions").items()}
    assert users == {"exa/1": "u-7", "exa/2": None}


def test_another_prediction_of_the_same_run_has_another_id() -> None:
    def id_of(nodes_of_past: tuple[int, ...]) -> str:
        centre = Scenario()
        centre.at("08:00").scales("lammps", *nodes_of_past)
        centre.at("10:00").fold(completed("1", moment_ms("09:58"), 60.0, application="lammps", nodes=4))
        return str(settled(centre.at("10:20"), "1")["id"])

    assert id_of(SIZES) == id_of(SIZES)
    assert id_of(SIZES) != id_of((1, 2, 8, 16) * 4)
