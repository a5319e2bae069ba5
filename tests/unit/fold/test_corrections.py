"""A corrected report replaces the run of the first, wherever it was counted."""

from typing import Any

import msgspec
import pytest

from processors.contracts.events import JobCompleted
from tests.kit.scenario import Scenario

SIZES = (1, 2, 4, 8, 16)
FIT_AFTER_FIT = ("related_curves/", "score_pool/", "band_pool/", "members/", "model_comparison/", "drift/")
BEFORE_AND_AFTER = pytest.mark.parametrize("moment", ["08:10:30", "08:14", "09:00", "2d 10:00"])


def report(centre: Scenario, **changes: Any) -> JobCompleted:
    """Return the report of a run of lammps on 4 nodes that took 600 s until now, or another one of the same run."""
    event = centre.ran("1", "lammps", 4, 600.0)
    return changed(event, **changes)


def changed(event: JobCompleted, **changes: Any) -> JobCompleted:
    own = {name: changes.pop(name) for name in list(changes) if name in event.evidence.__struct_fields__}
    return msgspec.structs.replace(event, evidence=msgspec.structs.replace(event.evidence, **own), **changes)


def corrected_day(moment: str, **changes: Any) -> Scenario:
    """Report a run, correct the report at a moment, and let a day pass."""
    centre = Scenario()
    centre.at("08:00").scales("lammps", *SIZES)
    event = report(centre.at("08:10"), **changes)
    centre.at(moment).fold(event)
    return centre.at("3d 10:00").at("3d 12:00")


def day_of_the_correction_alone(moment: str, **changes: Any) -> Scenario:
    centre = Scenario()
    centre.at("08:00").scales("lammps", *SIZES)
    event = changed(report(Scenario().at("08:10")), **changes)
    centre.at(moment).fold(event)
    return centre.at("3d 10:00").at("3d 12:00")


def comparable(centre: Scenario) -> dict[str, Any]:
    """Return the state without what depends on when reports came.

    These are: scores (the first report is scored, against the curve and the band of its time), the curve that was last
    published with the count of runs that are new since and the time of waiting (a correction is news, and is fitted), times
    of use, and the times of alerts. What all curves of an application or of the centre teach is learned one fit after the other, too,
    and how right each law was is a score. Drift is found by first reports, as scores are.
    """
    plain = {key: msgspec.json.decode(value) for key, value in centre.state().items() if value is not None}
    plain = {key: state for key, state in plain.items() if not key.startswith(FIT_AFTER_FIT)}
    for state in plain.values():
        del state["used_ms"]
        del state["due_ms"]
        for name in (
            "scores",
            "fallen",
            "transferred",
            "published",
            "new_runs",
            "waiting_ms",
            "since_ms",
            "reported_ms",
            "condition",
            "levels",
            "rate_limit",
            "band",
        ):
            state["data"].pop(name, None)
        if isinstance(
            state["data"].get("runs"), list
        ):  # whether a run is strange is told by the curve of its report's time
            state["data"]["runs"] = [run[:4] for run in state["data"]["runs"]]
    return plain


@BEFORE_AND_AFTER
@pytest.mark.parametrize(
    "changes",
    [
        {"run_time_s": 500.0},
        {"sizes": {"nodes": 8.0}},
        {"state": "FAILED"},
        {"state": "CANCELLED"},
        {"application": "gmx"},
    ],
    ids=["time", "size", "failed", "cancelled", "application"],
)
def test_the_state_is_that_of_a_centre_where_only_the_correction_came(moment: str, changes: dict[str, Any]) -> None:
    assert comparable(corrected_day(moment, **changes)) == comparable(day_of_the_correction_alone(moment, **changes))


@BEFORE_AND_AFTER
def test_a_corrected_run_time_is_the_one_that_counts(moment: str) -> None:
    centre = corrected_day(moment, run_time_s=500.0)
    assert ("1", 4.0, 500.0) in centre.runs_of("lammps")
    assert centre.model("lammps").observations == len(SIZES) + 1
    assert centre.topic("runs")[f"exa/1@{report(Scenario().at('08:10')).start_ms}"]["run_time_s"] == 500.0
    assert centre.topic("predictions")["exa/lammps//nodes"]["observations"] == len(SIZES) + 1


@BEFORE_AND_AFTER
def test_a_completed_run_that_turns_out_to_have_failed_is_taken_away(moment: str) -> None:
    centre = corrected_day(moment, state="FAILED")
    assert "1" not in {job for job, _, _ in centre.runs_of("lammps")}
    assert centre.topic("predictions")["exa/lammps//nodes"]["observations"] == len(SIZES)


@BEFORE_AND_AFTER
def test_a_failed_run_that_turns_out_to_have_completed_is_learned(moment: str) -> None:
    centre = Scenario()
    failed = centre.at("08:10").ran("1", "lammps", 4, 600.0, state="FAILED")
    assert centre.runs_of("lammps") == []
    centre.at(moment).fold(changed(failed, state="COMPLETED"))
    assert centre.runs_of("lammps") == [("1", 4.0, 600.0)]


@BEFORE_AND_AFTER
def test_a_correction_of_the_application_moves_the_run(moment: str) -> None:
    centre = corrected_day(moment, application="gmx")
    assert centre.runs_of("gmx") == [("1", 4.0, 600.0)]
    assert "1" not in {job for job, _, _ in centre.runs_of("lammps")}


def test_a_correction_is_recognised_as_one_after_a_restart() -> None:
    centre = Scenario()
    centre.at("08:00").scales("lammps", *SIZES)
    event = report(centre.at("08:10"))
    centre.at("09:00").restart()
    centre.fold(changed(event, application="gmx"))
    assert centre.runs_of("gmx") == [("1", 4.0, 600.0)]
    assert "1" not in {job for job, _, _ in centre.runs_of("lammps")}


def test_a_correction_is_not_scored_again() -> None:
    centre = Scenario()
    centre.at("08:00").scales("lammps", *SIZES)
    event = report(centre.at("08:10"))
    model = centre.model("lammps")
    assert model is not None
    assert model.quality.scored == 1
    centre.fold(changed(event, run_time_s=280.0))
    assert model.quality.scored == 1


def test_a_report_that_gives_the_size_later_is_learned() -> None:
    centre = Scenario()
    event = centre.at("08:10").ran("1", "lammps", None, 600.0)
    assert centre.runs_of("lammps") == []
    centre.at("08:12").fold(changed(event, sizes={"nodes": 4.0}))
    assert centre.runs_of("lammps") == [("1", 4.0, 600.0)]
    assert centre.tally["refused:correction_too_late"] == 0


def test_a_correction_of_a_run_that_is_already_merged_is_refused_and_counted() -> None:
    centre = Scenario(run_time={"unmerged_runs_max": 4})
    event = report(centre.at("08:10"))
    centre.scales("lammps", *SIZES)
    model = centre.model("lammps")
    assert model is not None
    before = model.snapshot()
    centre.fold(changed(event, run_time_s=500.0))
    centre.fold(changed(event, run_time_s=500.0, state="FAILED"))
    assert model.snapshot() == before
    assert centre.tally["refused:correction_too_late"] == 2


def test_an_application_whose_only_runs_were_another_ones_leaves_with_everything_it_reported() -> None:
    centre = Scenario()
    runs = [centre.at("08:10").ran(str(i), "lammps", 4, 600.0 + i) for i in range(2)]
    centre.at("08:11")
    assert list(centre.topic("predictions")) == ["exa/lammps//nodes"]
    for run in runs:
        centre.fold(changed(run, application="gmx"))
    centre.at("08:12")
    assert list(centre.topic("predictions")) == ["exa/gmx//nodes"]
    assert centre.model("lammps") is None


def test_what_is_left_below_the_number_for_a_prediction_is_no_longer_reported() -> None:
    centre = Scenario()
    runs = [centre.at("08:10").ran(str(i), "lammps", 4, 600.0 + i) for i in range(2)]
    centre.at("08:11").fold(changed(runs[0], state="FAILED"))
    centre.at("08:12")
    assert centre.tombstones("predictions") == ["exa/lammps//nodes"]
    centre.ran("9", "lammps", 4, 610.0)
    centre.at("08:13")
    assert centre.topic("predictions")["exa/lammps//nodes"]["observations"] == 2


@BEFORE_AND_AFTER
def test_a_correction_counts_its_failure_once(moment: str) -> None:
    centre = Scenario()
    for i in range(30):
        centre.at("08:00").ran(f"h{i}", "lammps", 4, 600.0, hosts=("nid1",))
    event = centre.at("08:10").ran("1", "lammps", 4, 600.0, state="FAILED", hosts=("nid1",))
    centre.at(moment).fold(changed(event, exit_code=9, run_time_s=601.0))
    recent = centre.shard.state.failures.open("application/exa/lammps//nodes").snapshot().recent
    assert sum(failed for _, failed, _ in recent) == 1
    centre.fold(changed(event, run_time_s=602.0, state="CANCELLED"))
    for store, key in (
        (centre.shard.state.failures, "application/exa/lammps//nodes"),
        (centre.shard.state.failures, "centre/exa"),
    ):
        assert not any(failed for _, failed, _ in store.open(key).snapshot().recent)
