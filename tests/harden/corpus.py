"""Real records by format, as producers send them: what fuzzing starts from."""

from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Final

import msgspec

from agent.decode.avro import wire_messages
from agent.decode.formats import FORMATS, recognised
from agent.decode.telemetry.otlp_messages import is_row_of

CASES: Final = Path(__file__).parents[1] / "cases" / "decode"
OTHER_NAMES: Final = {
    "cloudevents": "native",
    "grid-engine": "sacct",
    "gwf": "swf",
    "json": "native",
    "lsf": "sacct",
    "numbers": "slurm",
    "telegraf-line-protocol": "line-protocol",
}
"""Beginnings of the names of cases that do not begin with the name of their format."""
OTHERS: Final = {
    "line-protocol": (
        b'job,hostname=m2,function=start_job event={"jobId":69,"cluster":"exa","startTime":1795168800,"numNodes":4} 1795168801',
        b'stop_job,hostname=m2 event="{\\"jobId\\":69,\\"cluster\\":\\"exa\\",\\"startTime\\":1795168800}" 1795168801',
    ),
    "native": (
        b'{"type":"network","system":"exa","job_id":"812","time":"2026-11-20T10:31:12Z","mapping":{"text":"0,1","hosts":["n1"],"ranks_per_host":2}}',
        b'{"type":"network","system":"exa","job_id":"812","time":"2026-11-20T10:31:12Z","mapping":{"text":"rank 0=n1 slot=0:1"}}',
    ),
}
"""Records of which no case is made."""
TABLES: Final = ("sacct", "swf")  # a record is a header and rows


def corpus() -> dict[str, tuple[bytes, ...]]:
    """Return the records of each format, and all of them for the format that looks at each message."""
    found: dict[str, list[bytes]] = {name: [form.sample] for name, form in FORMATS.items() if form.sample}
    names = {**{name: name for name in FORMATS}, **OTHER_NAMES}
    for case in sorted(CASES.iterdir()):
        text = next(case.glob("input.*")).read_bytes()
        beginning = max((beginning for beginning in names if case.name.startswith(beginning)), key=len, default="")
        name = names.get(beginning) or recognised(text.partition(b"\n")[0]) or "native"
        found[name].extend(messages(name, text))
    for name, values in OTHERS.items():
        found[name].extend(values)
    by_format = {name: tuple(dict.fromkeys(values)) for name, values in sorted(found.items())}
    return {**by_format, "auto": tuple(dict.fromkeys(chain(*by_format.values())))}


def messages(format_name: str, text: bytes) -> list[bytes]:
    """Return what a producer would send of a file: its lines, each row of a table below its header, else the whole.

    >>> messages("sacct", b"JobID|State\\n1|COMPLETED")
    [b'JobID|State\\n1|COMPLETED']
    >>> messages("native", b'{"a":\\n1}')
    [b'{"a":\\n1}']
    """
    if is_row_of(1, text):
        return [text]
    if text[:1] == b"\0":
        return wire_messages(text)
    lines = [line for line in text.splitlines() if line.strip()]
    if format_name in TABLES:
        header = [line for line in lines if line.startswith((b";", b"JobID"))]
        rows = [line for line in lines if line not in header]
        return [b"\n".join((*header, row)) for row in rows]
    if text.lstrip()[:1] not in (b"{", b"["):
        return lines
    whole = list[bytes]()
    for line in lines:
        with suppress(msgspec.DecodeError):
            msgspec.json.decode(line)
            whole.append(line)
    return whole or [text]
