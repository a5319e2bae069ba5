"""Checks of single values, shared by several formats."""

import math
import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from email.utils import parsedate_to_datetime
from functools import lru_cache
from typing import Annotated, Final
from unicodedata import category
from urllib.parse import quote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import msgspec

from agent.decode.message import DAY_MS, DecodeOptions, invalid, shown
from processors.contracts.errors import ConfigError, InvalidInputError
from processors.contracts.events import STATES, Attribute, Evidence, JobCompleted, JobStarted
from processors.contracts.names import EARLIEST_MS, LATEST_MS, SAFE, checked_ms, parse_rfc3339, rfc3339, run_id
from processors.contracts.nodes import NO_HOSTS

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_OF_NAIVE: Final = datetime(1970, 1, 1)  # noqa: DTZ001 - for times without a zone, which are UTC
_OFFSET: Final = re.compile(r"([+-])([01][0-9]|2[0-3]):?([0-5][0-9])")


def moment_ms(moment: datetime) -> int:
    """Return `moment` in ms since the epoch; a time without a zone is UTC. Raise InvalidInputError (``time``) outside 1990 to 2100.

    >>> moment_ms(datetime(2026, 11, 20, 10, 0, 0, 250_999))
    1795168800250
    """
    since = moment - (_EPOCH_OF_NAIVE if moment.tzinfo is None else _EPOCH)
    time_ms = since.days * DAY_MS + since.seconds * 1000 + since.microseconds // 1000
    return time_ms if EARLIEST_MS <= time_ms <= LATEST_MS else checked_ms(time_ms)


def parse_time(text: str) -> int:
    """Return the time in `text` in ms, like `parse_rfc3339` but three times as fast."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return parse_rfc3339(text)
    return moment_ms(moment)


_NUMBER: Final = re.compile(r"[+-]?(?:[0-9]{1,400}(?:\.[0-9]{0,400})?|\.[0-9]{1,400})(?:[eE][+-]?[0-9]{1,4})?")


def number_in(value: object) -> float | None:
    """Return a JSON value as a number, even if the producer wrote the number as a text; None for other values.

    Texts that only Python reads as numbers, such as ``1_0``, give None, as do ``nan`` and numbers beyond the range of floats.

    >>> number_in(3600), number_in("1e3"), number_in("1_0"), number_in("NaN"), number_in(True)
    (3600.0, 1000.0, None, None, None)
    """
    if isinstance(value, str):
        number = float(value) if _NUMBER.fullmatch(value) else math.inf  # float("1e999") is infinite, too
        return number if math.isfinite(number) else None
    try:
        return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
    except OverflowError:
        return None


_GO_ZONE: Final = re.compile(r"(?<=[0-9]) ([+-][0-9]{4}) [A-Z]{3,5}\Z")  # a time zone as Go prints it by default


def parse_stamp(text: str) -> int:
    """Return the time in ms from a text in RFC 3339, RFC 1123, RFC 850 or asctime form, which Go programs write.

    A text without a zone is UTC. Raise InvalidInputError (``time``) for other texts and for layouts without a year.

    >>> {parse_stamp(text) for text in ("2026-03-02 10:00:00", "Mon, 02 Mar 2026 10:00:00 UTC", "Mon Mar  2 10:00:00 2026")}
    {1772445600000}
    """
    try:
        return parse_time(_GO_ZONE.sub(r"\1", text))
    except InvalidInputError:
        try:
            return moment_ms(parsedate_to_datetime(text))
        except (ValueError, TypeError, IndexError, OverflowError):
            raise invalid("time", f"The time {shown(text)} has none of the known layouts, such as RFC 3339.") from None


def check_bounds(start_ms: int, end_ms: int, received_ms: int, options: DecodeOptions) -> None:
    """Raise InvalidInputError if the start is too early (``time``) or the end too far in the future (``future``).

    The start may not be before `options.earliest_ms`, nor the end more than `options.future_ms` after the receive time. Logs
    without a receive time pass -1 as `received_ms`; then the end may be at any time before 2100.
    """
    if start_ms < options.earliest_ms:
        raise invalid("time", f"{rfc3339(start_ms)} is earlier than {rfc3339(options.earliest_ms)}.")
    latest_ms = received_ms + options.future_ms if received_ms > 0 else LATEST_MS
    if end_ms > latest_ms:
        raise invalid("future", f"{rfc3339(end_ms)} lies in the future of the message.")


def zone_of(name: str) -> tzinfo:
    """Return the time zone of a name such as ``Europe/Oslo`` or ``+02:00``. Raise ConfigError for unknown names."""
    if name == "UTC":
        return UTC
    offset = _OFFSET.fullmatch(name)
    if offset is not None:
        minutes = int(offset[2]) * 60 + int(offset[3])
        return timezone(timedelta(minutes=-minutes if offset[1] == "-" else minutes))
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ConfigError(f"There is no time zone {name[:40]!r}; write Europe/Oslo or +02:00.") from None


_NO_VALUE: Final = 2**63  # Slurm writes 2^64 - 2 and similar numbers for "no value"
_NAMES: Final = {"1": "cpu", "2": "mem", "3": "energy", "4": "node", "5": "billing"}
_UNITS: Final = {"K": 1024.0, "M": 1024.0**2, "G": 1024.0**3, "T": 1024.0**4, "P": 1024.0**5}

GPU: Final = "gres/gpu"


def parse_tres(text: str | None, prefix: str = "") -> dict[str, float]:
    """Return amounts by resource from ``cpu=512,mem=1920G,gres/gpu=16`` or from the raw form ``1=512,2=1966080``.

    Suffixes K, M, ... multiply by powers of 1024. Entries without a number, placeholders for "no value", and resources that do
    not begin with `prefix` are left out.

    >>> parse_tres("cpu=512,node=4,gres/gpu:a100=16")
    {'cpu': 512.0, 'node': 4.0, 'gres/gpu:a100': 16.0}
    >>> parse_tres("1=2,3=18446744073709551614")
    {'cpu': 2.0}
    """
    resources = {}
    for item in (text or "").split(","):
        if not item.startswith(prefix):
            continue
        name, _, amount = item.partition("=")
        value = _amount(amount)
        if name and value is not None:
            resources[_NAMES.get(name, name)] = value
    return resources


def gpus(resources: dict[str, float]) -> float:
    """Return the number of GPUs: the total if it is listed, else the sum over the GPU types.

    >>> gpus(parse_tres("gres/gpu:a100=1,gres/gpu=1")), gpus(parse_tres("gres/gpu:a100=1,gres/gpu:h100=2"))
    (1.0, 3.0)
    """
    if GPU in resources:
        return resources[GPU]
    return sum((value for name, value in resources.items() if name.startswith(f"{GPU}:")), 0.0)


def _amount(text: str) -> float | None:
    if len(text) > 32 or not text.isascii():
        return None
    if text.isdigit():
        count = int(text)
        return float(count) if count < _NO_VALUE else None
    factor = _UNITS.get(text[-1:], 1.0)
    digits = text[:-1] if text[-1:] in _UNITS else text
    if not digits.replace(".", "", 1).isdigit():
        return None
    value = float(digits) * factor
    return value if value < _NO_VALUE else None


TEXT_MAX: Final = 256
PATH_MAX: Final = 1024
SCRIPT_MAX: Final = 65_536
HOSTS_MAX: Final = 262_144  # maximum total characters of a job's host lists
COUNT_MAX: Final = 1e9
SECONDS_MAX: Final = 1e9

Text = Annotated[str, msgspec.Meta(max_length=TEXT_MAX)]
Path = Annotated[str, msgspec.Meta(max_length=PATH_MAX)]
Script = Annotated[str, msgspec.Meta(max_length=SCRIPT_MAX)]
HostList = Annotated[str, msgspec.Meta(max_length=HOSTS_MAX)]
Name = Annotated[str, msgspec.Meta(min_length=1, max_length=TEXT_MAX)]
JobNumber = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
JobId = Name | JobNumber
ExitCode = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31)]
Count = Annotated[float, msgspec.Meta(gt=0, le=COUNT_MAX)]
Seconds = Annotated[float, msgspec.Meta(ge=0, le=SECONDS_MAX)]


def sizes_of(counts: Mapping[str, float | None]) -> dict[str, float]:
    """Return the sizes of a job by unit: counts above 0 and at most COUNT_MAX. JSON allows integers of any length.

    >>> sizes_of({"nodes": 4, "cores": 10**400, "gpus": 0, "threads": None})
    {'nodes': 4.0}
    """
    return {unit: float(count) for unit, count in counts.items() if count is not None and 0 < count <= COUNT_MAX}


def present(attributes: Mapping[str, Attribute | None]) -> dict[str, Attribute]:
    """Return the attributes whose value is not None."""
    return {name: value for name, value in attributes.items() if value is not None}


def host_list(text: str | None) -> tuple[str, ...]:
    """Return a host list as a tuple of one text, the form that evidence stores; empty if the text stands for no hosts.

    Raise InvalidInputError (``text``) for control characters.
    """
    if text is None or text in NO_HOSTS:
        return ()
    refuse_control(text, "host list")
    return (text,)


REPLACEMENT: Final = "\ufffd"  # replaces bytes that are not UTF-8
_CONTROL = ("Cc", "Cs", "Zl", "Zp")  # Unicode categories: control, surrogate halves, line and paragraph separators


def has_control(text: str) -> bool:
    """Return whether a text has control characters, line separators or surrogates, which could corrupt a log or fail to encode."""
    return not text.isprintable() and any(category(character) in _CONTROL for character in text)


def refuse_control(text: str, name: str) -> None:
    """Raise InvalidInputError (``text``) if a text has control characters, or U+FFFD in place of invalid bytes."""
    if has_control(text) or REPLACEMENT in text:
        raise invalid("text", f"The {name} {shown(text)} has control characters or bytes that are not UTF-8.")


def identity_text(text: str | None, name: str) -> str | None:
    """Return a text that identifies a job, host or system, cut to TEXT_MAX characters; None if the text is blank.

    Raise InvalidInputError (``text``) for control characters and invalid bytes, because a repaired name would be a different name.
    """
    if not text or text.isspace():
        return None
    refuse_control(text[:TEXT_MAX], name)
    return text[:TEXT_MAX]


def free_text(text: str | None, length_max: int = TEXT_MAX) -> str | None:
    r"""Return a text that a user typed, cut to `length_max` characters, with spaces for control characters; None if it is blank.

    Users give jobs names of any length and content, so an unusual name must not lead to a refusal of the run.

    >>> free_text("gmx_prod_07"), free_text("two\nlines"), free_text(""), len(free_text("x" * 999))
    ('gmx_prod_07', 'two lines', None, 256)
    """
    if not text:
        return None
    text = text[:length_max]
    if not text.isprintable():
        text = "".join(" " if category(character) in _CONTROL else character for character in text).strip()
    return None if text.isspace() else text or None


def run_identity(system: str, job_id: str, start_ms: int) -> str:
    """Return the `run_id` of a run. Job ids need no escaping; the escaped names of systems are cached."""
    if job_id.isascii() and job_id.isalnum():
        return f"{_escaped(system)}/{job_id}@{start_ms}"
    return run_id(system, job_id, start_ms)


@lru_cache(maxsize=1024)
def _escaped(system: str) -> str:
    return quote(system, safe=SAFE)


def started_job(  # noqa: PLR0917  an event has many fields
    system: str, job_id: str, start_ms: int, evidence: Evidence, received_ms: int, options: DecodeOptions
) -> JobStarted:
    """Return the event of a job that started. Raise InvalidInputError if the start is out of bounds."""
    check_bounds(start_ms, start_ms, received_ms, options)
    run = run_identity(system, job_id, start_ms)
    return JobStarted(system, job_id=job_id, run_id=run, start_ms=start_ms, evidence=evidence)


def known_state(state: str) -> str:
    """Return `state` if it is in STATES. Raise InvalidInputError (``state``) for other states."""
    if state not in STATES:
        raise invalid("state", f"The state {shown(state)} is not a final state of Slurm.")
    return state


Times = tuple[int, int, float]
"""Start and end of a run in ms, and its run time in s."""


def filled_times(start_ms: int | None, end_ms: int | None, run_time_s: float | None) -> Times | None:
    """Return the start, the end and the run time of a run; one of them may be missing. None if more are missing."""
    if run_time_s is None and start_ms is not None and end_ms is not None:
        run_time_s = (end_ms - start_ms) / 1000
    if run_time_s is None or (start_ms is None and end_ms is None):
        return None
    run_time_ms = round(run_time_s * 1000)
    start_ms = (end_ms or 0) - run_time_ms if start_ms is None else start_ms
    return start_ms, start_ms + run_time_ms if end_ms is None else end_ms, float(run_time_s)


def completed_job(  # noqa: PLR0917  an event has many fields
    system: str,
    job_id: str,
    times: Times,
    state: str,
    evidence: Evidence,
    received_ms: int,
    options: DecodeOptions,
    exit_code: int | None = None,
    failed_host: str | None = None,
    energy_j: float | None = None,
) -> JobCompleted:
    """Return the event of a run that ended; `times` are its start and end in ms and its run time in seconds.

    Raise InvalidInputError if the end is before the start, or if `check_bounds` refuses a time.
    """
    start_ms, end_ms, run_time_s = times
    if end_ms < start_ms:
        raise invalid("out-of-range", "The end is before the start.")
    check_bounds(start_ms, end_ms, received_ms, options)
    return JobCompleted(
        system,
        job_id=job_id,
        run_id=run_identity(system, job_id, start_ms),
        start_ms=start_ms,
        end_ms=end_ms,
        run_time_s=run_time_s,
        state=state,
        evidence=evidence,
        exit_code=exit_code,
        failed_host=failed_host,
        energy_j=energy_j,
    )


NO_LIMIT: Final = ("", "UNLIMITED", "Partition_Limit", "INVALID", "NONE", "Unknown")

_DURATION = re.compile(r"(?:(\d{1,6})-)?(\d{1,9})(?::(\d{1,9}))?(?::(\d{1,9}))?(?:\.\d+)?", re.ASCII)


def parse_duration(text: str) -> float:
    """Return the seconds in ``[days-]hours:minutes:seconds`` or a shorter form that Slurm accepts; fractions are cut.

    Without days, two parts are minutes and seconds, and one part is minutes. With days, the parts start at the hours.
    Raise InvalidInputError (``wrong-type``, ``out-of-range``).

    >>> parse_duration("1-02:03:04"), parse_duration("02:30"), parse_duration("1-12"), parse_duration("90")
    (93784.0, 150.0, 129600.0, 5400.0)
    """
    parts = _DURATION.fullmatch(text)
    if parts is None:
        raise invalid("wrong-type", f"{shown(text)} is no duration.")
    days, first, second, third = (None if part is None else int(part) for part in parts.groups())
    if days is not None or third is not None:
        seconds = (days or 0) * 86_400 + (first or 0) * 3600 + (second or 0) * 60 + (third or 0)
    else:
        seconds = (first or 0) * 60 + (second or 0)
    if seconds > SECONDS_MAX:
        raise invalid("out-of-range", f"{shown(text)} is longer than thirty years.")
    return float(seconds)


def parse_limit(text: str) -> float | None:
    """Return a time limit in seconds; None if there is no limit."""
    return None if text in NO_LIMIT else parse_duration(text) or None
