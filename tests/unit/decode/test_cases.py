"""Each folder of tests/cases/decode is an input and what it must yield; a bug report becomes a folder."""

import json
import os
from pathlib import Path
from typing import Any

import msgspec

from agent.decode.files import read_file
from agent.decode.message import DecodeOptions, FileRecord, FileTelemetry, TelemetryOptions
from agent.reference.nodes import read_nodes, read_units
from processors.contracts.names import parse_rfc3339, rfc3339
from processors.contracts.nodes import Nodes
from processors.contracts.telemetry import Sensors, SeriesIndex
from tests.kit.cases import each

CASES = Path(__file__).parents[2] / "cases" / "decode"
RECEIVED_MS = parse_rfc3339("2026-11-21T00:00:00Z")


def plain(record: FileRecord, index: SeriesIndex) -> dict[str, Any]:
    refused = [record.error] if record.error else record.decoded.rejects
    report = {
        "line": int(record.place.rpartition(":")[2]),
        "samples": samples(record, index),
        "events": json.loads(msgspec.json.encode(record.decoded.events)),
        "refused": [[error.reason, str(error)] for error in refused],
        "ignored": record.decoded.ignored,
        "unknown_fields": record.decoded.unknown_fields,
    }
    return {key: value for key, value in report.items() if value}


def samples(record: FileRecord, index: SeriesIndex) -> list[str]:
    if record.samples is None:
        return []
    columns = (getattr(record.samples, name).tolist() for name in ("series", "time_ms", "value"))
    return [
        f"{'/'.join(index[number])} {rfc3339(time_ms)} {value:.10g}"
        for number, time_ms, value in zip(*columns, strict=True)
    ]


def reference(case: str) -> tuple[Nodes, Sensors]:
    """Return what the reference files beside a case hold; none are beside most."""
    texts = [file.read_text() if (file := CASES / case / name).exists() else "" for name in ("nodes.csv", "units.csv")]
    nodes, sensors = read_nodes(texts[0] or "host"), read_units(texts[1] or "message,resource")
    assert nodes[1] == sensors[1] == []
    return nodes[0], sensors[0]


def schemas(case: str) -> dict[int, bytes]:
    """Return the Avro schemas beside a case by their numbers; none are beside most."""
    return {int(file.stem.rpartition("-")[2]): file.read_bytes() for file in (CASES / case).glob("schema-*.avsc")}


def text(options: dict[str, Any], records: list[dict[str, Any]]) -> str:
    """Return what a case expects, a line each record."""
    lines = ",\n".join(f"  {json.dumps(record, ensure_ascii=False)}" for record in records)
    return f'{{\n "options": {json.dumps(options)},\n "records": [\n{lines}\n ]\n}}\n'


@each("case", sorted(path.name for path in CASES.iterdir()))
def test_a_case_yields_what_its_folder_states(case: str) -> None:
    expected = json.loads((CASES / case / "expected.json").read_text())
    (source,) = (CASES / case).glob("input.*")
    options = msgspec.convert(expected["options"], DecodeOptions)
    nodes, sensors = reference(case)
    known = TelemetryOptions(
        decode=options, nodes=nodes, hosts=nodes.components(), sensors=sensors, schemas=schemas(case)
    )
    telemetry = FileTelemetry(known, SeriesIndex(100))
    found = read_file(str(source), RECEIVED_MS, telemetry)
    records = [plain(record, telemetry.index) for record in found]
    if os.environ.get("SCALEWATCH_UPDATE_CASES") == "1" and records != expected["records"]:
        (CASES / case / "expected.json").write_text(text(expected["options"], records))
        return
    assert records == expected["records"]


def test_every_case_states_what_it_is_about() -> None:
    assert all(len((case / "README.md").read_text()) > 80 for case in CASES.iterdir())
