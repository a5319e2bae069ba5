"""Questions to what was learned from files: many at once, or one of a person."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from agent.cli.predict import RequestLine, answers, learned, of_person, read_requests
from agent.config.load import loads
from agent.config.tree import Config
from processors.contracts.errors import ConfigError, ScalewatchError
from processors.contracts.events import PredictionRequested
from processors.contracts.outputs import Answer
from tests.kit.scenario import SYSTEM, evidence


@pytest.fixture
def history(tmp_path: Path) -> str:
    """Return a file of 16 runs of lammps with two inputs, 1000 s over the nodes and 20 s more."""
    lines = [
        json.dumps({
            "type": "job.completed", "system": SYSTEM, "job_id": str(i), "application": "lammps", "n": 2 ** (i % 4),
            "unit": "nodes", "input": ("rhodo", "chain")[i // 8], "start": f"2026-11-20T10:{i:02d}:00Z",
            "run_time_s": 1000 / 2 ** (i % 4) + 20, "state": "COMPLETED",
        })
        for i in range(16)
    ]  # fmt: skip
    path = tmp_path / "history.jsonl"
    path.write_text("\n".join(lines))
    return str(path)


def requested(history: str, *questions: dict[str, Any], config: Config | None = None) -> list[dict[str, Any]]:
    made = [
        msgspec.convert({"id": str(i), "application": "lammps", **given}, RequestLine)
        for i, given in enumerate(questions)
    ]
    with learned(config or Config(), [history]) as agent:
        return [json.loads(msgspec.json.encode(reported)) for reported in answers(agent, made)]


def test_the_answer_to_one_size_is_flat(history: str) -> None:
    (reported,) = requested(history, {"system": SYSTEM, "input": "rhodo", "n": 4})
    assert (reported["id"], reported["known"], reported["observations"], reported["n"]) == ("0", True, 8, 4.0)
    assert reported["low_s"] < reported["run_time_s"] < reported["high_s"]
    assert abs(reported["run_time_s"] / 270 - 1) < 0.05
    assert reported["reliability"]["verdict"]
    assert "points" not in reported


def test_the_answer_to_a_list_of_sizes_is_a_list_of_points(history: str) -> None:
    (reported,) = requested(history, {"system": SYSTEM, "input": "rhodo", "n": [2, 16]})
    assert [point["n"] for point in reported["points"]] == [2.0, 16.0]
    assert "run_time_s" not in reported


def test_answers_come_in_the_order_of_the_questions_each_with_its_id(history: str) -> None:
    questions = [{"id": name, "system": SYSTEM, "input": "rhodo", "n": n} for name, n in (("z", 8), ("a", 1), ("m", 2))]
    reported = requested(history, *questions)
    assert [(each["id"], each["n"]) for each in reported] == [("z", 8.0), ("a", 1.0), ("m", 2.0)]


def test_a_question_without_a_system_means_the_only_one(history: str) -> None:
    (reported,) = requested(history, {"input": "rhodo", "n": 4})
    assert (reported["known"], reported["system"]) == (True, SYSTEM)


def test_what_is_not_known_is_answered_with_a_message_and_no_number(history: str) -> None:
    one, many, no_input = requested(
        history,
        {"application": "nektar", "system": SYSTEM, "n": 4},
        {"application": "nektar", "system": SYSTEM, "n": [4, 8]},
        {"system": SYSTEM, "n": 4},
    )
    assert (one["known"], one["n"], one["run_time_s"]) == (False, 4.0, None)
    assert "nektar" in one["detail"]
    assert many["points"] == []
    assert "Known inputs: chain in nodes, rhodo in nodes." in no_input["detail"]


def test_a_question_about_a_system_that_is_not_listed_costs_its_own_line_alone(history: str) -> None:
    config = loads("systems: {exa: {}}\n", sources_required=False)
    other, known = requested(
        history, {"system": "other", "n": 4}, {"system": SYSTEM, "input": "rhodo", "n": 4}, config=config
    )
    assert (other["known"], other["system"], other["run_time_s"], known["known"]) == (False, "other", None, True)
    assert other["detail"]


@pytest.mark.parametrize("n", [0, -4, 1e300])
def test_a_size_that_no_machine_has_is_answered_without_a_number(history: str, n: float) -> None:
    (reported,) = requested(history, {"system": SYSTEM, "input": "rhodo", "n": n})
    assert reported["run_time_s"] is None
    assert "left out" in reported["detail"]


def test_a_file_of_requests_is_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text(
        '{"id": "a", "application": "x", "n": 4}\n\n{"id": "b", "application": "y", "n": [1, 2], "unit": "cores"}\n'
    )
    first, second = read_requests(str(path))
    assert (first.id, first.sizes, first.unit) == ("a", (4.0,), None)
    assert (second.id, second.sizes, second.unit) == ("b", (1.0, 2.0), "cores")


@pytest.mark.parametrize(
    ("line", "fault"),
    [("{", "truncated"), ("[]", "Expected `object`"), ('{"id": "a", "n": 4}', "missing required field `application`"),
     ('{"id": "a", "application": "x", "n": "many"}', r"\$\.n")],
)  # fmt: skip
def test_a_line_that_is_wrong_is_named_with_its_file_and_number(tmp_path: Path, line: str, fault: str) -> None:
    path = tmp_path / "requests.jsonl"
    path.write_text('{"id": "a", "application": "x", "n": 4}\n' + line + "\n")
    with pytest.raises(ConfigError, match=rf"requests\.jsonl:2: .*{fault}"):
        read_requests(str(path))


def test_a_file_of_requests_that_is_not_there_is_a_message(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"cannot be read: No such file or directory\.$"):
        read_requests(str(tmp_path / "none"))


def of(history: str, *n: float, **fields: Any) -> list[Answer]:
    unit, system = fields.pop("unit", None), fields.pop("system", "")
    request = PredictionRequested(system, "1", n, evidence(fields.pop("application", "lammps"), **fields), unit)
    with learned(Config(), [history]) as agent:
        return list(of_person(agent, history, request))


def test_a_person_gets_an_answer_for_every_curve_that_fits_what_was_named(history: str) -> None:
    assert [(reported.input, reported.unit, reported.known) for reported in of(history, 4)] == [
        ("chain", "nodes", True), ("rhodo", "nodes", True),
    ]  # fmt: skip
    assert [reported.input for reported in of(history, 4, input="rhodo")] == ["rhodo"]


def test_a_person_may_ask_about_an_input_that_was_never_run_where_its_size_is_configured(tmp_path: Path) -> None:
    runs = [
        {
            "type": "job.completed", "system": SYSTEM, "job_id": f"{atoms}-{n}", "application": "lammps", "n": n,
            "unit": "nodes", "attributes": {"atoms": atoms}, "start": "2026-11-20T10:00:00Z", "state": "COMPLETED",
            "run_time_s": atoms / n + 20,
        }
        for atoms in (1000, 2000, 4000) for n in (1, 2, 4, 8)
    ]  # fmt: skip
    path = tmp_path / "history.jsonl"
    path.write_text("\n".join(map(json.dumps, runs)))
    request = PredictionRequested("", "1", (4.0,), evidence("lammps", input="atoms=3000"))
    with learned(loads("identify: {input_sizes: [atoms]}"), [str(path)]) as agent:
        (reported,) = of_person(agent, str(path), request)
    assert reported.points[0].low_s < 770 < reported.points[0].high_s
    with learned(Config(), [str(path)]) as agent, pytest.raises(ScalewatchError):
        list(of_person(agent, str(path), request))


def test_a_person_who_names_no_size_gets_the_whole_curve(history: str) -> None:
    (reported,) = of(history, input="rhodo")
    assert [point.n for point in reported.points] == [1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 10.0, 12.0, 16.0, 24.0, 32.0]


def test_a_person_who_names_what_nobody_knows_is_shown_what_is_known(history: str) -> None:
    with pytest.raises(ScalewatchError, match=r"^Nothing is known of 'nektar' in .*; known: lammps\.$"):
        of(history, 4, application="nektar")


@pytest.mark.parametrize("named", [{"input": "water"}, {"system": "other"}, {"unit": "cores"}])
def test_a_person_who_names_an_unknown_input_of_what_is_known_is_shown_the_known_ones(
    history: str, named: dict[str, str]
) -> None:
    what, value = next(iter(named.items()))
    known = f"chain in nodes on {SYSTEM}, rhodo in nodes on {SYSTEM}"
    with pytest.raises(
        ScalewatchError, match=rf"^Nothing is known of 'lammps' with {what} '{value}' in .*; known: {known}\.$"
    ):
        of(history, 4, **named)
