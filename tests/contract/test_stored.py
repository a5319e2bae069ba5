"""One suite for all that outlasts an agent: states, the marker, journal, outputs and positions. Test ids are their files in
tests/cases/stored.

Each file holds an example as an agent of some version stored it, its form, and what it reports. Today's code has to read that example and
report the same of it. `make cases` writes what is missing, what a raised number made new, and what it reports; an example of the same
number stays as it is: it may be in somebody's topic.
"""

import json
import math
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

from processors.contracts.events import JournalEvent, JournalRecord, decode_record, encode_record
from processors.contracts.log import MARKER_KEY, Batch, Marker, Restoration, StateTotals
from processors.contracts.outputs import SCHEMAS
from processors.hosts import lines
from processors.hosts.lines import LINE_KINDS, LineStore
from processors.hosts.rows import Block, BlockCopy, RowIndex, RowTable
from processors.hosts.windows import HostForecasts
from processors.pipeline.host_state import ARRAYS, COLUMNS, DTYPES, VERSION
from processors.pipeline.shard import PROCESSORS
from processors.store import Kind, Store
from processors.windows.settings import Resume
from sinks.topics import decoded, emission
from tests.contract import test_columns as columns_suite
from tests.contract import test_processors as processors_suite
from tests.kit.golden import differences, text
from tests.kit.stored_form import Form, faults, filled, form_of, form_of_rows

FOLDER = Path(__file__).parents[1] / "cases" / "stored"
UPDATE = os.environ.get("SCALEWATCH_UPDATE_CASES") == "1"
FACTS, ROWS, SHOWN_MAX = 12, 2, 20
NOW_MS = 1_795_168_800_000


class Subject(NamedTuple):
    """Something that is stored: the number of its form, the form, an example as plain data, and what today's code reports of one.

    `numbered` is where the number stands; empty where there is none, so that only what harms nobody may change.
    """

    number: int
    form: Form
    example: Callable[[], Any]
    reports: Callable[[Any], Any]
    numbered: str


def of_processor(name: str) -> Subject:
    """Return a kind that is kept by key: an envelope with what the contract's first facts left."""
    subject = processors_suite.SUBJECTS[name]
    of = type(subject.build(subject.state()))

    def store() -> Store[Any]:
        return Store(Kind(of.name, of.version, subject.state, subject.build))

    def example() -> Any:
        made = store()
        made.changed("key", processors_suite.transferred(subject, range(FACTS)), NOW_MS)
        return json.loads(made.encode("key") or b"")

    def reports(stored: Any) -> Any:
        restored = store()
        restored.restore("key", msgspec.json.encode(stored))
        processor = restored.open("key")
        questions = [subject.question(subject.fact(i)) for i in (0, FACTS - 1, FACTS + 7)]
        reported = {
            "due_ms": processor.due_ms(),
            "scores": [plain(processor.score(question)) for question in questions],
        }
        subject.learn(processor, subject.fact(FACTS + 7))
        return reported | {"after one more": sums(json.loads(msgspec.json.encode(processor.snapshot())))}

    return Subject(of.version, form_of(subject.state), example, reports, f"`version` of {of.__name__}")


def of_columns(name: str) -> Subject:
    """Return a kind that is kept by rows: a block of two of them."""
    build, learn = columns_suite.SUBJECTS[name]
    of, rows = build(), np.arange(ROWS)
    many = columns_suite.transferred(name, rows)

    def example() -> Any:
        return json.loads(BlockCopy(of.version, many.stored(0, ROWS), 0, ()).encoded())

    def reports(stored: Any) -> Any:
        restored = build()
        restored.grow(ROWS)
        restored.restore(0, ROWS, block(stored).data)
        before = tables(restored)
        learn(restored, rows, 8)
        forecasts = restored.of(rows.tolist(), [False] * ROWS) if isinstance(restored, HostForecasts) else None
        return {"stored": before, "one more minute": tables(restored), "forecasts": plain(forecasts)}

    form = {"bytes": len(many.stored(0, ROWS)), "rows": [form_of_rows(table.dtype) for table in row_tables(of)]}
    return Subject(of.version, form, example, reports, f"`version` of {type(of).__name__}")


def of_array(name: str) -> Subject:
    """Return an array of profiles, or the names that belong to them."""
    dtype = DTYPES.get(name)

    def example() -> Any:
        keys = [("", "power_w>system")] if dtype is None else []
        data = b"" if dtype is None else bytes(range(ROWS * dtype.itemsize))
        return json.loads(BlockCopy(VERSION, data, 0, keys).encoded())

    def reports(stored: Any) -> Any:
        found = block(stored)
        return plain(found.names if dtype is None else np.frombuffer(found.data, dtype)[:1].tolist())

    form = form_of(Block) if dtype is None else form_of_rows(dtype)
    return Subject(VERSION, form, example, reports, "`VERSION` of processors.pipeline.host_state")


def of_lines(name: str) -> Subject:
    """Return a block of lines of hosts."""
    chunks = next(each for each in LineStore(RowIndex(9), 24.0).chunks if each.name == name)
    chunks.put(np.arange(ROWS), np.array([0, chunks.step_ms]), np.arange(6.0).reshape(ROWS, 3), 0)
    (key,) = chunks.copied()

    def example() -> Any:
        copy = chunks.copied()[key]
        assert copy is not None
        return json.loads(copy.encoded())

    def reports(stored: Any) -> Any:
        restored = next(each for each in LineStore(RowIndex(9), 24.0).chunks if each.name == name)
        restored.restore(key.partition("/")[2], block(stored).data)
        return plain(restored.of(np.arange(ROWS), 2 * chunks.step_ms)[1][:, -2:].tolist())

    form = {"key": key, "bytes": len(block(example()).data)}
    return Subject(lines.VERSION, form, example, reports, "`VERSION` of processors.hosts.lines")


def of_output(schema: str) -> Subject:
    """Return a message of an output topic with every field filled; all of them have to come back."""
    message = SCHEMAS[schema]

    def reports(stored: Any) -> Any:
        read = decoded(msgspec.json.encode(stored), message)
        again = json.loads(emission(read).value or b"")
        lost = [fault for fault in differences(again, stored) if "not expected" not in fault]
        return {"key": emission(read).key, "lost": lost}

    number = int(schema.rpartition("/")[2])
    return Subject(
        number, form_of(message), lambda: filled(message) | {"schema": schema}, reports, f"the number in {schema}"
    )


def of_event(event: type[msgspec.Struct]) -> Subject:
    """Return a record of the journal with an event of one kind."""

    def reports(stored: Any) -> Any:
        record = decode_record(msgspec.json.encode(stored))
        again = json.loads(encode_record(record))
        lost = [fault for fault in differences(again, stored) if "not expected" not in fault]
        return {"identity": record.event.identity, "lost": lost}

    example = filled(JournalRecord) | {"event": filled(event)}
    return Subject(1, {"event": form_of(event), "record": record_form()}, lambda: example, reports, "")


def record_form() -> Form:
    form = form_of(JournalRecord)
    return {**form, "fields": [field for field in form["fields"] if field[0] != "event"]}


def of_marker() -> Subject:
    def reports(stored: Any) -> Any:
        restoration = Restoration()
        restoration.add(Batch("state", 0, 1, [0], [msgspec.json.encode(stored)], [MARKER_KEY], [0]))
        restored = restoration.result()
        return {"marker": plain(restored.marker), "fault": restored.fault}

    return Subject(
        1,
        {"marker": form_of(Marker), "totals": form_of(StateTotals)},
        lambda: filled(Marker) | filled(StateTotals),
        reports,
        "",
    )


def of_position() -> Subject:
    return Subject(1, "text", lambda: Resume(NOW_MS).text(), lambda stored: plain(Resume.parse(stored)), "")


def subjects() -> Iterator[tuple[str, Callable[[], Subject]]]:
    """Yield all that is stored, by the name of its file."""
    columns = [kind.name for kind in COLUMNS]
    for name in PROCESSORS:
        if name in LINE_KINDS:
            yield f"state/{name}", partial(of_lines, name)
            continue
        make = of_array if name in ARRAYS else of_columns if name in columns else of_processor
        yield f"state/{name}", partial(make, name)
    for schema in SCHEMAS:
        yield f"outputs/{schema.removeprefix('scalewatch.').partition('/')[0]}", partial(of_output, schema)
    for event in JournalEvent.__args__:
        yield f"journal/{event.__struct_config__.tag}", partial(of_event, event)
    yield "state/marker", of_marker
    yield "journal/position", of_position


SUBJECTS = dict(subjects())


def block(stored: Any) -> Block:
    return msgspec.json.decode(msgspec.json.encode(stored), type=Block)


def row_tables(columns: Any) -> list[RowTable]:
    """Return the tables of named fields that columns have."""
    return [each for each in (columns, *vars(columns).values()) if isinstance(each, RowTable)]


def tables(columns: Any) -> Any:
    return [plain({name: table.rows[name][:1] for name in table.dtype.names or ()}) for table in row_tables(columns)]


def plain(value: Any) -> Any:
    """Return a finding as plain data; long lists of numbers as their count and sum."""
    return json.loads(msgspec.json.encode(value, enc_hook=part))


def part(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype.names:
        return {name: value[name] for name in value.dtype.names}
    if isinstance(value, np.ndarray) and value.size > SHOWN_MAX:
        return {"count": int(np.isfinite(value).sum()), "sum": float(np.nansum(value, dtype=np.float64))}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    return {name: each for name, each in getattr(value, "__dict__", {}).items() if not name.startswith("_")}


def sums(stored: Any) -> dict[str, Any]:
    """Return for each field of a state how many numbers it holds, and their sum."""
    return {
        name: {"count": len(found := list(numbers(each))), "sum": math.fsum(found)} for name, each in stored.items()
    }


def numbers(stored: Any) -> Iterator[float]:
    if isinstance(stored, dict | list):
        for each in stored.values() if isinstance(stored, dict) else stored:
            yield from numbers(each)
    elif isinstance(stored, int | float):
        yield stored


def changed(name: str, subject: Subject, recorded: Any) -> str | None:
    """Return what to do about a form that is not the recorded one; None where nothing is."""
    what = f"The stored form of {name} has changed"
    if subject.number != recorded["number"]:
        return (
            f"{what}, and its number from {recorded['number']} to {subject.number}: `make cases` writes a new example."
        )
    wrong = list(faults(recorded["form"], subject.form))
    if wrong and subject.numbered:
        return f"{what}: {'; '.join(wrong)}. Raise {subject.numbered} and run `make cases`, or keep the form readable."
    if wrong:
        return f"{what}: {'; '.join(wrong)}. It has no number that could be raised: keep it readable, both ways."
    if subject.form != recorded["form"]:
        return (
            f"{what}: fields with a default are new. Where an agent may go on without them, and from states without them, run "
            f"`make cases`; else raise {subject.numbered or 'nothing: keep the form'}."
        )
    return None


def may_write(subject: Subject, recorded: Any) -> bool:
    return subject.number > recorded["number"] or not list(faults(recorded["form"], subject.form))


@pytest.mark.parametrize("name", SUBJECTS)
def test_what_was_stored_is_read_and_reports_the_same(name: str) -> None:
    subject, path = SUBJECTS[name](), FOLDER / f"{name}.json"
    if UPDATE:
        update(subject, path)
    assert path.exists(), f"There is no stored example of {name}: `make cases` writes one."
    (recorded,) = json.loads(path.read_text())
    what_to_do = changed(name, subject, recorded)
    assert what_to_do is None, what_to_do
    wrong = list(differences(subject.reports(recorded["stored"]), recorded["reports"]))
    assert not wrong, "\n".join([f"A stored {name} reports something else than it did:", *wrong[:SHOWN_MAX]])


def update(subject: Subject, path: Path) -> None:
    """Write what is missing or new; the example of a number that is known stays."""
    path.parent.mkdir(parents=True, exist_ok=True)
    (recorded,) = json.loads(path.read_text()) if path.exists() else (None,)
    if recorded is not None and not may_write(subject, recorded):
        return
    known = recorded is not None and recorded["number"] == subject.number
    stored = recorded["stored"] if recorded is not None and known else subject.example()
    whole = {"number": subject.number, "form": subject.form, "stored": stored, "reports": subject.reports(stored)}
    path.write_text(text([whole]))


def test_every_file_is_of_something_that_is_stored() -> None:
    assert {str(path.relative_to(FOLDER).with_suffix("")) for path in FOLDER.rglob("*.json")} == set(SUBJECTS)


def test_a_form_that_changes_without_its_number_is_refused_with_what_to_do() -> None:
    subject = SUBJECTS["state/low_water"]()
    recorded = {"number": subject.number, "form": subject.form}
    without = {**subject.form, "fields": [[f"{name}_of_old", *rest] for name, *rest in subject.form["fields"]]}
    fewer = {**subject.form, "fields": []}
    assert changed("low_water", subject, recorded) is None
    assert "Raise `version` of LowWater" in (changed("low_water", subject, recorded | {"form": without}) or "")
    assert "`make cases`; else raise" in (changed("low_water", subject, recorded | {"form": fewer}) or "")
    raised = changed("low_water", subject._replace(number=subject.number + 1), recorded | {"form": without})
    assert raised is not None
    assert "writes a new example" in raised


@pytest.mark.parametrize("raised", [False, True])
def test_the_example_of_a_number_stays_whatever_code_comes(raised: bool, tmp_path: Path) -> None:  # noqa: FBT001 - a parameter
    subject, path = SUBJECTS["state/low_water"](), tmp_path / "low_water.json"
    update(subject, path)
    first = path.read_text()
    later = subject._replace(example=lambda: {**subject.example(), "used_ms": 7}, number=subject.number + raised)
    update(later, path)
    assert (path.read_text() == first) is not raised
