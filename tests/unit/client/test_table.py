"""The local table of predictions: whole at any moment, asked at any size."""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from agent.cli.subscribe import Tables, TopicRecord
from processors.contracts.outputs import CurvePoint, Prediction, Range
from sinks.table import Predictions, Row, TableWriter
from tests.kit.messages import curve_point, prediction

ID = "archer2/lammps/rhodo/nodes"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "predictions.sqlite"


@pytest.fixture
def tables(path: Path) -> Iterator[Tables]:
    made = Tables(path, path.with_suffix(".jsonl"))
    made.begin()
    yield made
    made.close()


def published(*curve: CurvePoint) -> Prediction:
    return prediction(curve=curve or (curve_point(1, 1000.0), curve_point(4, 250.0)), reliable_n=Range(1, 2))


def change(message: Prediction | None, key: str = ID) -> TopicRecord:
    return TopicRecord(key.encode(), None if message is None else msgspec.json.encode(message), "predictions/0/0")


def test_a_table_reports_what_was_published(tables: Tables, path: Path) -> None:
    tables.take((change(published()),), caught_up=True)
    assert Predictions(path).applications() == [("archer2", "lammps", "rhodo", "nodes")]
    found = [(row.n, row.run_time_s, row.reliable) for row in Predictions(path).curve("archer2", "lammps", "rhodo")]
    assert found == [(1.0, 1000.0, True), (4.0, 250.0, False)]


def test_a_program_that_is_not_ours_reads_types_observations_and_measured_coverage(tables: Tables, path: Path) -> None:
    tables.take((change(published()),), caught_up=True)
    connection = sqlite3.connect(path)
    columns = {
        name: (kind, bool(required))
        for _, name, kind, required, _, _ in connection.execute("pragma table_info(predictions)")
    }
    assert columns["application_id"] == ("TEXT", True)
    assert columns["run_time_s"] == ("REAL", True)
    assert columns["observations"] == ("INTEGER", True)
    assert columns["reliable"] == ("INTEGER", True)
    assert columns["coverage_measured"] == ("REAL", False)
    assert columns["coverage_runs"] == ("INTEGER", False)
    query = "select observations, coverage, coverage_measured, coverage_runs from predictions where n = 4"
    message, (known,) = published(), connection.execute(query).fetchall()
    point = message.curve[1]
    assert known == (message.observations, point.coverage, point.coverage_measured, point.coverage_runs)
    connection.close()


@pytest.mark.parametrize(("key", "value"), [(b"x", b"{}"), (b"x", b"no JSON"), (b"\xff", None)])
def test_a_record_that_is_no_prediction_is_named_and_left_out(
    tables: Tables, path: Path, key: bytes, value: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    tables.take((change(published()), TopicRecord(key, value, "predictions/0/7")), caught_up=True)
    assert Predictions(path).applications() == [("archer2", "lammps", "rhodo", "nodes")]
    assert "predictions/0/7 was skipped because it cannot be read" in capsys.readouterr().err


def test_between_two_sizes_the_run_time_lies_on_a_line_in_logarithms(tables: Tables, path: Path) -> None:
    tables.take((change(published()),), caught_up=True)
    found = Predictions(path).at(2, "archer2", "lammps", "rhodo")
    assert found is not None
    assert found.run_time_s == pytest.approx(500.0)
    assert not found.reliable


@pytest.mark.parametrize("n", [0.5, 8])
def test_outside_of_the_curve_nothing_is_reported(tables: Tables, path: Path, n: float) -> None:
    tables.take((change(published()),), caught_up=True)
    assert Predictions(path).at(n, "archer2", "lammps", "rhodo") is None


def test_nothing_is_written_before_all_was_read_that_is_there(tables: Tables, path: Path) -> None:
    tables.take((change(published()),), caught_up=False)
    assert Predictions(path).applications() == []
    tables.take((), caught_up=True)
    assert len(Predictions(path).applications()) == 1


def test_an_application_that_left_the_topic_leaves_the_table(tables: Tables, path: Path) -> None:
    tables.take((change(published()),), caught_up=True)
    tables.take((change(None),), caught_up=True)
    assert Predictions(path).applications() == []
    assert path.with_suffix(".jsonl").read_bytes() == b""


def test_what_left_the_topic_while_nobody_read_it_is_gone_when_it_is_read_again(tables: Tables, path: Path) -> None:
    other = prediction("nektar", input="")
    tables.take((change(published()), change(other, "archer2/nektar//nodes")), caught_up=True)
    tables.begin()
    tables.take((change(published()),), caught_up=True)
    assert [row[1] for row in Predictions(path).applications()] == ["lammps"]


def test_the_lines_are_the_rows_of_the_table(tables: Tables, path: Path) -> None:
    tables.take((change(published()),), caught_up=True)
    lines = [msgspec.json.decode(line, type=Row) for line in path.with_suffix(".jsonl").read_bytes().splitlines()]
    assert lines == Predictions(path).curve("archer2", "lammps", "rhodo")


def test_a_table_of_another_version_is_refused(path: Path) -> None:
    TableWriter(path).close()
    with sqlite3.connect(path) as connection:
        connection.execute("update about set value = '0'")
    connection.close()
    with pytest.raises(ValueError, match="version 0"):
        TableWriter(path)
