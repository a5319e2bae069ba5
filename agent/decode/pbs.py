"""Accounting records of PBS Professional, OpenPBS and Torque: the ends of runs, from lines of `server_priv/accounting`.

A line is ``date time;type;id.server;key=value ...``. Type E is the end of a run. Type R is the end of a run whose job is queued
again. Records of other types are only counted. Sources: the chapters on accounting records in the administrator's guides of
PBS Professional and Torque.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from itertools import count
from typing import Final

from agent.decode.fields import (
    HOSTS_MAX,
    SECONDS_MAX,
    completed_job,
    free_text,
    identity_text,
    number_in,
    parse_duration,
    sizes_of,
)
from agent.decode.message import DecodeOptions, TelemetryOptions, decoded_lines, invalid, whole
from agent.decode.opening import RecordFile, TextFile
from agent.decode.telemetry.columns import each_message
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import SUCCESS, Decode, Decoded, Evidence, JobCompleted

ENDED, REQUEUED = "E", "R"
KILLED_AT_LIMIT: Final = -29  # exit status that PBS reports for a job that it killed at the wall time limit
SIGNALS: Final = (128, 256)  # an exit status above 128 (shell) or 256 (PBS) means a signal
CANCELLING: Final = (2, 9, 15)  # interrupt, kill, terminate: signals that qdel sends
PARTS_MAX: Final = 262_144  # maximum number of parts of an exec_host

_LINE = re.compile(
    rb"[0-9]{2}/[0-9]{2}/[0-9]{4} [0-9:]{8}(?:\.[0-9]{1,9})?;([A-Za-z]{1,2});([^;\s]{0,256});(.*)", re.DOTALL
)
_KEY: Final = r"[A-Za-z_][A-Za-z0-9_.\-]{0,63}="
_PAIR = re.compile(rf'(?<!\S)({_KEY})(?:"([^"]*+)"(?!\S)|(\S*+(?:\s++(?!{_KEY})\S++)*+))')  # values may contain spaces
_HOST = re.compile(r"[A-Za-z0-9._\-]{1,256}")
_RANGE = re.compile(r"([0-9]{1,6})-([0-9]{1,6})")


def is_pbs(line: bytes) -> bool:
    """Return whether a line is an accounting record of PBS."""
    return _LINE.match(line) is not None


def pbs_decoder(options: DecodeOptions) -> Decode:
    """Return the decoder of messages that hold one record or several lines.

    >>> record = b"03/02/2026 11:00:00;E;6.master;start=1772445600 end=1772449200 Exit_status=0 exec_host=n1/0*8+n2/0*8"
    >>> [run] = pbs_decoder(DecodeOptions(default_system="exa"))(record, 1772449200000).events
    >>> run.job_id, run.run_time_s, run.evidence.sizes
    ('6', 3600.0, {'nodes': 2.0, 'cores': 16.0})
    """
    decode_line = partial(_decode_line, options=options)

    def decode_one(value: bytes, received_ms: int, decoded: Decoded) -> None:
        lines = [line for line in value.splitlines() if line and not line.isspace()]
        options.check_count(len(lines), "lines")
        if len(lines) == 1:
            decode_line(lines[0], received_ms, decoded)
        else:
            decoded.add(decoded_lines(zip(lines, count(1)), decode_line, received_ms))

    return whole(decode_one, options)


def pbs_file(text: TextFile, options: TelemetryOptions) -> RecordFile:
    return RecordFile("pbs", each_message(pbs_decoder(options.decode)), text.lines)


def state_of(exit_status: int | None, run_time_s: float, limit_s: float | None) -> str:
    """Return the final state for an exit status.

    0 is COMPLETED. Any other status at the time limit is TIMEOUT, and so is -29. A signal that ends a job before its limit is
    CANCELLED. Other statuses are FAILED, including the negative ones with which PBS gives its reason for ending a job.

    >>> [state_of(status, 60.0, 3600.0) for status in (0, 1, 271, 137, 139, -29, -1, None)]
    ['COMPLETED', 'FAILED', 'CANCELLED', 'CANCELLED', 'FAILED', 'TIMEOUT', 'FAILED', 'COMPLETED']
    >>> state_of(271, 3605.0, 3600.0)
    'TIMEOUT'
    """
    if not exit_status:
        return SUCCESS
    if exit_status == KILLED_AT_LIMIT or (limit_s is not None and run_time_s >= limit_s):
        return "TIMEOUT"
    return "CANCELLED" if any(exit_status - base in CANCELLING for base in SIGNALS) else "FAILED"


def _decode_line(line: bytes, received_ms: int, decoded: Decoded, options: DecodeOptions) -> None:
    record = _LINE.fullmatch(line.rstrip(b"\0"))
    if record is None:
        raise invalid("columns", "The line is not an accounting record of PBS: date and time;type;id;key=value ...")
    kind, name = record[1].decode(), record[2].decode(errors="replace")
    fields = {key[:-1]: quoted or plain for key, quoted, plain in _PAIR.findall(record[3].decode(errors="replace"))}
    ignored = None if kind in (ENDED, REQUEUED) else "other-record"
    if ignored is None and ("[]" in name or not number_in(fields.get("start"))):
        ignored = "never-started"  # or the record of a whole array, whose jobs have their own records
    if ignored is None:
        decoded.events.append(_run(name, fields, received_ms, options, requeued=kind == REQUEUED))
    else:
        decoded.ignore(ignored)


def _run(
    name: str, fields: Mapping[str, str], received_ms: int, options: DecodeOptions, *, requeued: bool
) -> JobCompleted:
    number, _, server = name.partition(".")
    system = options.system_of(options.default_system or identity_text(server, "server"))
    job_id = identity_text(number, "job id")
    start_s, end_s = number_in(fields["start"]), number_in(fields.get("end"))
    if job_id is None or start_s is None or end_s is None:
        raise invalid("missing-field", "The record has no job id or no end.")
    if not 0 <= end_s - start_s <= SECONDS_MAX:
        raise invalid("out-of-range", "The end is before the start, or thirty years after it.")
    run_time_s = min(_seconds(fields, "resources_used.walltime") or end_s - start_s, end_s - start_s)
    times = round(start_s * 1000), round(end_s * 1000), run_time_s
    evidence, status = _evidence(fields), number_in(fields.get("Exit_status"))
    exit_status = None if status is None or abs(status) > 1e6 else int(status)
    state = "REQUEUED" if requeued else state_of(exit_status, run_time_s, evidence.time_limit_s)
    code = None if exit_status is None or exit_status < 0 else exit_status
    return completed_job(system, job_id, times, state, evidence, received_ms, options, code)


def _evidence(fields: Mapping[str, str]) -> Evidence:
    hosts, cores = _placed(fields.get("exec_host") or fields.get("exec_vnode") or "")
    counts = {"nodes": "nodect", "cores": "ncpus", "gpus": "ngpus"}
    requested = {unit: number_in(fields.get(f"Resource_List.{name}")) for unit, name in counts.items()}
    submitted_s = number_in(fields.get("qtime")) or number_in(fields.get("ctime")) or 0.0
    return Evidence(
        sizes=sizes_of(requested | sizes_of({"nodes": len(hosts), "cores": cores})),
        job_name=free_text(fields.get("jobname")),
        user=free_text(fields.get("user")),
        account=free_text(fields.get("account") or fields.get("project") or fields.get("group")),
        partition=free_text(fields.get("queue")),
        hosts=(",".join(hosts)[:HOSTS_MAX],) if hosts else (),
        time_limit_s=_seconds(fields, "Resource_List.walltime"),
        submit_ms=round(submitted_s * 1000) if 0 < submitted_s < SECONDS_MAX * 10 else None,
    )


def _placed(text: str) -> tuple[tuple[str, ...], float]:
    """Return the distinct hosts in ``n1/0*8+n2/0-7`` or ``(n1:ncpus=8)+(n2:ncpus=8)``, and the number of cores."""
    hosts: dict[str, None] = {}
    cores = 0.0
    for part in text.split("+", PARTS_MAX):
        place, *resources = part.strip("()").split(":")
        host, _, slots = place.partition("/")
        if _HOST.fullmatch(host):
            hosts[host] = None
            counted = next((text.removeprefix("ncpus=") for text in resources if text.startswith("ncpus=")), None)
            cores += number_in(counted) or (_cores(slots) if slots else 0.0)
    return tuple(hosts), cores


def _cores(slots: str) -> float:
    """Return the number of cores in a host's slots: 1 for ``0``, 8 for ``0*8`` and ``0-7``, 5 for ``0-3,8``."""
    numbers, _, times = slots.partition("*")
    ranges = [_RANGE.fullmatch(item) for item in numbers.split(",")]
    return number_in(times) or float(sum(1 if each is None else int(each[2]) - int(each[1]) + 1 for each in ranges))


def _seconds(fields: Mapping[str, str], name: str) -> float | None:
    text = fields.get(name)
    if text is None:
        return None
    with suppress(InvalidInputError):  # an invalid time affects only this field
        seconds = number_in(text)
        seconds = parse_duration(text) if seconds is None else seconds
        return seconds if seconds > 0 else None
    return None
