"""Records of XALT: the program that a job runs, given by executable path, hash of the executable, and loaded modules.

A run has a record at its start and another at its end, as JSON or as one line of syslog. Source: `run_submission.c`,
`transmit.c` and the description of the JSON records in xalt/xalt.
"""

import re
import sys
from typing import Annotated, Final

import msgspec

from agent.decode.fields import PATH_MAX, SECONDS_MAX, TEXT_MAX, free_text, identity_text, present
from agent.decode.message import DecodeOptions, TelemetryOptions, decode_json, invalid, remember, whole
from agent.decode.opening import RecordFile, TextFile
from agent.decode.telemetry.columns import each_message
from processors.contracts.events import Decode, Decoded, Evidence, Identity

SOURCE: Final = "xalt"
STARTED_S: Final = 60.0  # assumed length in s of a run whose end is not reported yet
JOBS_MAX: Final = 100_000  # maximum number of jobs whose program is cached
MODULES_MAX: Final = 256
MODULES_CHARACTERS_MAX: Final = 16_384
NO_JOB: Final = frozenset({"", "0", "unknown", "not known"})

_HASH: Final = re.compile(r"[0-9a-f]{32,128}")
_LINE: Final = re.compile(rb"(?:.{0,512}?\s)?V:[0-9]+ kind:(run|link|pkg) (?:idx|nb|syshost|key):")
_PARTS: Final = re.compile(rb" nb:([0-9]{1,6}) ")
_LINE_V1: Final = re.compile(rb"(?:.{0,512}?\s)?(run|link|pkg):(?=\{)")
_VALUE: Final = b" value:"
_Number = Annotated[float, msgspec.Meta(ge=0, le=sys.float_info.max)]


class _User(msgspec.Struct, gc=False):
    exec_path: str
    syshost: str = ""
    job_id: str = ""


class _Numbers(msgspec.Struct, gc=False):
    run_time: _Number = 0.0
    num_tasks: _Number = 0.0


class _Environment(msgspec.Struct, gc=False):
    modules: str = msgspec.field(name="LOADEDMODULES", default="")


class _Link(msgspec.Struct, gc=False):
    compiler: str = msgspec.field(name="Build_compiler", default="")


class _Record(msgspec.Struct, gc=False):
    user: _User | None = msgspec.field(name="userT", default=None)
    numbers: _Numbers = msgspec.field(name="userDT", default_factory=_Numbers)
    environment: _Environment = msgspec.field(name="envT", default_factory=_Environment)
    link: _Link = msgspec.field(name="xaltLinkT", default_factory=_Link)
    hash_id: str = ""
    result: msgspec.Raw = msgspec.field(name="resultT", default_factory=msgspec.Raw)
    package_name: msgspec.Raw = msgspec.Raw()


_RECORD = msgspec.json.Decoder(_Record, strict=False)  # strict=False because stream processors write 7 as 7.0 or "7"


def xalt_decoder(options: DecodeOptions) -> Decode:
    """Return the decoder of XALT's records. Records of runs identify the program of a job; those of links and packages do not.

    If a job runs several programs, the program with the most task-seconds is reported. The system is that of the source if it
    is set, else the `syshost` of the record, which is XALT's own name. If the path of the executable contains the name and
    version of a module, only that module is reported, else all loaded modules.

    >>> decode = xalt_decoder(DecodeOptions())
    >>> run = b'"userT": {"syshost": "exa", "job_id": "812", "exec_path": "/apps/gromacs/2024.2/bin/gmx_mpi"}'
    >>> decode(b"{" + run + b', "envT": {"LOADEDMODULES": "gcc/13:gromacs/2024.2"}}', 0).events[0].evidence.module
    'gromacs/2024.2'
    """
    largest: dict[tuple[str, str], float] = {}  # by job: task-seconds of the program reported

    def decode_one(value: bytes, received_ms: int, decoded: Decoded) -> None:
        del received_ms
        record = decode_json(_RECORD, value if value[:1] == b"{" else _of_line(value))
        ignored = _ignored(record)
        if record.user is None or ignored:
            decoded.ignore(ignored)
            return
        identity = _identity(record, record.user, options)
        job, amount = (identity.system, identity.job_id), _amount(record.numbers)
        # a run of equal size is reported again, because its record may be read again after a crash
        if amount < largest.get(job, 0.0):
            decoded.ignore("smaller-run")
            return
        remember(largest, job, amount, JOBS_MAX)
        decoded.events.append(identity)

    return whole(decode_one, options)


def is_xalt(line: bytes) -> bool:
    """Return whether a line of syslog contains an XALT record."""
    return _LINE.match(line) is not None or (b"XALT" in line and _LINE_V1.match(line) is not None)


def xalt_file(text: TextFile, options: TelemetryOptions) -> RecordFile:
    """Return the XALT records of an open syslog file; lines of other programs are counted."""
    decode_record = xalt_decoder(options.decode)

    def decode(value: bytes, received_ms: int) -> Decoded:
        if is_xalt(value) or value.lstrip()[:1] == b"{":
            return decode_record(value, received_ms)
        return Decoded(ignored={"other-record": 1})

    return RecordFile("xalt", each_message(decode), text.lines)


def _of_line(value: bytes) -> bytes:
    """Return the JSON in a syslog line of XALT; return other lines unchanged."""
    line = _LINE.match(value)
    if line is None:
        first = _LINE_V1.match(value)
        return value if first is None else value[first.end() :]
    head, found, record = value.partition(_VALUE)
    parts = _PARTS.search(head + b" ")
    if not found or parts is None:
        raise invalid("missing-field", "The XALT line has no value, or does not give its number of lines.")
    if int(parts[1]) != 1:
        raise invalid(
            "unsupported-type", f"The record of XALT was cut into {int(parts[1])} lines of syslog; send it whole."
        )
    return record


def _ignored(record: _Record) -> str:
    """Return the reason to ignore a record (``no-job``, ``link``, ``package``); empty for a run of a job."""
    if record.user is not None:
        return "no-job" if record.user.job_id.strip() in NO_JOB else ""
    if bytes(record.result):
        return "link"
    if bytes(record.package_name):
        return "package"
    raise invalid("unknown-format", "The message is not an XALT record of a run, link or package.")


def _identity(record: _Record, user: _User, options: DecodeOptions) -> Identity:
    system = options.system_of(options.default_system or identity_text(user.syshost, "syshost"))
    if len(user.job_id) > TEXT_MAX:
        raise invalid("text", f"The job id has {len(user.job_id)} characters; {TEXT_MAX} are allowed.")
    executable = free_text(user.exec_path, PATH_MAX)
    if executable is None:
        raise invalid("missing-field", "The record of a run names no executable.")
    build = record.hash_id if _HASH.fullmatch(record.hash_id) else None
    attributes = present({"build": build, "compiler": free_text(record.link.compiler)})
    return Identity(
        system=system,
        job_id=identity_text(user.job_id.strip(), "job id") or "",
        source=SOURCE,
        evidence=Evidence(  # no sizes, because a run may use only a part of its job
            executable=executable, module=_module(record.environment.modules, executable), attributes=attributes
        ),
    )


def _module(loaded: str, executable: str) -> str | None:
    """Return the module of the executable; if no module matches, all loaded modules."""
    modules = loaded[:MODULES_CHARACTERS_MAX].split(":", MODULES_MAX)
    owners = [module for module in modules if "/" in module and f"/{module}/" in executable]
    return free_text(owners[0] if len(owners) == 1 else loaded)


def _amount(numbers: _Numbers) -> float:
    """Return the task-seconds of a run, which measure its size."""
    run_time_s = min(numbers.run_time, SECONDS_MAX) or STARTED_S
    return max(numbers.num_tasks, 1.0) * run_time_s
