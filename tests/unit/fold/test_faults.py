"""A processor that raises costs what it was about, and nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from processors.contracts.errors import ConfigError
from processors.contracts.events import PredictionRequested
from processors.facts import remaining
from processors.models import battery
from processors.run_time.model import RunTime
from tests.kit.scenario import SYSTEM, Scenario, evidence


@contextmanager
def studies_raise_at(n: float) -> Iterator[None]:
    """Let every fit raise that has seen a size, as a defect in a model would."""
    study = RunTime.study

    def faulty(model: RunTime) -> Any:
        if n in model.sizes():
            raise ZeroDivisionError("a defect")
        return study(model)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RunTime, "study", faulty)
        yield


def test_a_fit_that_raises_does_not_stop_the_others() -> None:
    centre = Scenario()
    with studies_raise_at(666):
        centre.at("08:00").scales("broken", 1, 666)
        centre.scales("lammps", 1, 2)
        centre.at("08:01")
    assert list(centre.topic("predictions")) == ["exa/lammps//nodes"]
    assert centre.tally["fault:run_time"] == 1


def test_a_fit_that_raises_is_tried_three_times_and_then_left_alone_until_a_new_run_comes() -> None:
    centre = Scenario()
    with studies_raise_at(666):
        centre.at("08:00").scales("broken", 1, 666)
        centre.at("08:30")
        assert centre.tally["fault:run_time"] == 3
        centre.restart()
        centre.at("2d 08:00")
        assert centre.tally["fault:run_time"] == 3
        centre.ran("other", "broken", 4, 300.0)
        centre.at("2d 08:50")
        assert centre.tally["fault:run_time"] == 6
    centre.ran("new", "broken", 2, 500.0)
    centre.at("2d 09:00")
    assert list(centre.topic("predictions")) == ["exa/broken//nodes"]


def test_a_question_to_a_model_that_cannot_be_fitted_is_still_answered() -> None:
    centre = Scenario()
    centre.at("08:00").scales("broken", 1, 666)
    with studies_raise_at(666):
        answer = centre.asks("r1", 4, application="broken")
        assert centre.shard.answer(PredictionRequested(SYSTEM, "x", (4.0,), evidence("broken"))).known is False
    assert (answer["known"], answer["detail"]) == (False, "2 runs are known, but no curve fits them.")


def test_a_job_whose_forecast_raises_leaves_and_does_not_stop_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    centre = Scenario()
    centre.at("08:00").scales("lammps", 1, 2, 4, 8)
    centre.at("09:00").starts("bad", "lammps", nodes=4, time_limit_s=666.0)
    centre.starts("good", "lammps", nodes=4)

    def faulty(*given: Any) -> Any:
        if given[-1] == 666.0:
            raise OverflowError("a defect")
        return remaining(*given)

    monkeypatch.setattr("processors.pipeline.predictor.remaining", faulty)
    centre.at("09:10")
    assert list(centre.topic("job_predictions")) == ["exa/good"]
    assert centre.tally["fault:job"] == 1
    assert centre.shard.state.jobs.get("exa/bad") is None


def test_nothing_of_an_event_that_raises_is_sent_with_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    centre = Scenario()
    centre.at("08:00").starts("1", "lammps", nodes=4)
    with monkeypatch.context() as patch:
        patch.setattr(type(centre.shard.state.jobs), "changed", lambda *_: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            centre.starts("2", "lammps", nodes=4)
    sent = len(centre.sent)
    assert [message.key for message in centre.at("08:01").sent[sent:]] == []


def test_a_state_of_a_newer_agent_is_refused_when_a_shard_takes_over() -> None:
    centre = Scenario()
    centre.at("08:00").ran("1", "lammps", 4, 60.0)
    centre.checkpoint()
    newer = {key: value.replace(b'"version":1', b'"version":2') for key, value in centre.stored.items()}
    with pytest.raises(ConfigError, match=r"was written by a newer agent"):
        centre.new_shard().restore(newer, 0)


def test_a_state_of_an_unknown_kind_is_refused_when_a_shard_takes_over() -> None:
    with pytest.raises(ConfigError, match=r"power/x is of a kind that this agent does not know.*`scalewatch rebuild`"):
        Scenario().new_shard().restore({"power/x": b"{}"}, 0)


def test_laws_that_cannot_be_fitted_leave_the_prediction_without_them_and_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def faulty(*_: Any) -> Any:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(battery, "reference", faulty)
    centre = Scenario()
    centre.at("08:00").scales("lammps", 1, 2, 4, 8)
    centre.at("10:00").ran("later", "lammps", 16, 90.0)
    centre.at("12:00")
    prediction = centre.topic("predictions")["exa/lammps//nodes"]
    assert prediction["model"]["name"] == "combination"
    assert [part["scored"] for part in prediction["model"]["errors"]] == [1], (
        "what was published is scored all the same"
    )
    assert {member["answers"] for member in prediction["model"]["members"] if member["role"] == "reference"} == {
        "nothing"
    }
    assert centre.tally["fault:members"] == 2
