"""Names of applications, jobs and runs, their keys and lanes, and the text forms of measurements and times.

A lane is the unit of fair sharing, such as a user of a system: lanes take turns, and the lanes with most keys lose keys first if
memory runs out. The name of a lane begins with its group, a system, and a slash; groups take turns as well.
"""

import re
from bisect import bisect_left
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import UTC, datetime, timedelta
from functools import cached_property, lru_cache
from typing import Final, Literal, TypeVar, get_args
from urllib.parse import quote, unquote

import msgspec

from processors.contracts.errors import InvalidInputError

Horizon = Literal["inside", "up_to_2x", "up_to_4x", "beyond_4x"]
HORIZONS: Final[tuple[Horizon, ...]] = get_args(Horizon)
_HORIZON_FACTORS: Final = (1.0, 2.0, 4.0)


def horizon_of(n: float, n_min: float, n_max: float) -> Horizon:
    """Return the horizon of a size: its distance outside the sizes from `n_min` to `n_max`.

    >>> [horizon_of(n, 4.0, 16.0) for n in (8.0, 32.0, 1.0, 128.0)]
    ['inside', 'up_to_2x', 'up_to_4x', 'beyond_4x']
    """
    return HORIZONS[bisect_left(_HORIZON_FACTORS, max(n / n_max, n_min / n))]


_LARGE: Final = ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL: Final = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_PREFIXES: Final = {"B": _LARGE, "B/s": _LARGE, "W": (*_LARGE, *_SMALL[1:]), "J": (*_LARGE, *_SMALL[1:]), "s": _SMALL}
_TIME_UNITS: Final = ((86_400.0, "d"), (3600.0, "h"), (60.0, "min"), (1.0, "s"))
_UNIT_OF: Final = {
    "cpu_available": "%", "cpu_current": "%", "cpu_iowait": "%",
    "memory_free": "B", "memory_available": "B", "disk_free": "B", "bandwidth": "B/s",
    "latency": "s", "connect_time": "s", "power_w": "W", "energy_j": "J",
}  # fmt: skip


_TITLES: Final = {
    "cpu_available": "Processor available", "cpu_current": "Processor in use", "cpu_iowait": "Processor waiting for disks",
    "memory_free": "Memory free", "memory_available": "Memory available", "disk_free": "Disk free", "power_w": "Power",
    "energy_j": "Energy",
}  # fmt: skip


def measured(resource: str, value: float | None, digits: int = 3) -> str:
    """Return a measurement as text with `digits` significant digits and its unit; a dash for None.

    >>> [measured("cpu_available", 0.834), measured("memory_free", 12.34e9), measured("bandwidth>group3", 9.1e9)]
    ['83.4 %', '12.3 GB', '9.1 GB/s']
    >>> measured("latency", 4.2e-6), measured("load1", 3.25), measured("latency", None), measured("cpu_current", 2e-4)
    ('4.2 µs', '3.25', '-', '0 %')
    >>> measured("power_w>system", 51_200.0), measured("energy_j", 5.2e7)
    ('51.2 kW', '52 MJ')
    >>> measured("power_w", 6.104e-6)
    '6.1 µW'
    """
    if value is None:
        return "-"
    unit = _UNIT_OF.get(resource.partition(">")[0], "")
    if unit == "%":
        return f"{round(100 * value, digits - 2):.{digits}g} %"
    return prefixed(value, unit, digits) if unit in _PREFIXES else f"{value:.{digits}g} {unit}".rstrip()


def signed(resource: str, value: float, digits: int = 3) -> str:
    """Return a change of a resource as text, formatted like `measured`, with its sign.

    >>> signed("power_w", -16.04), signed("power_w", 1234.0)
    ('-16 W', '+1.23 kW')
    """
    return f"{'-' if value < 0 else '+'}{measured(resource, abs(value), digits)}"


def measured_apart(resource: str, values: Sequence[float]) -> Callable[[float], str]:
    """Return a formatter with enough digits that different values have different texts.

    >>> [*map(measured_apart("memory_free", (1.101e11, 1.102e11)), (1.101e11, 1.102e11))]
    ['110.1 GB', '110.2 GB']
    """
    alike = len(set(values))
    digits = next((n for n in range(3, 7) if len({measured(resource, value, n) for value in values}) >= alike), 7)
    return lambda value: measured(resource, value, digits)


def prefixed(value: float, unit: str = "", digits: int = 3) -> str:
    """Return a number with `digits` significant digits, its SI prefix and its unit.

    >>> prefixed(302e9), prefixed(999_600.0, "J"), prefixed(2.5e-6, "s")
    ('302 G', '1 MJ', '2.5 µs')
    """
    value, prefixes = float(f"{value:.{digits}g}"), _PREFIXES.get(unit, _LARGE)  # rounding may reach the next prefix
    factor, prefix = next(((f, p) for f, p in prefixes if abs(value) >= f), prefixes[-1] if value else (1.0, ""))
    return f"{value / factor:.{digits}g} {prefix}{unit}".rstrip()


def duration(seconds: float) -> str:
    """Return a duration with its two largest units.

    >>> duration(8.2), duration(698.1), duration(6109.0)
    ('8.2 s', '11 min 38 s', '1 h 42 min')
    """
    if seconds < 0:
        return f"-{duration(-seconds)}"
    if seconds < 10:
        return f"{seconds:.2g} s"
    return _two_units(round(seconds)) if 60 <= seconds < 1e9 else f"{seconds:.3g} s"


def _two_units(seconds: int) -> str:
    step = int(_TIME_UNITS[min(_largest(seconds) + 1, len(_TIME_UNITS) - 1)][0])
    seconds = round(seconds / step) * step  # rounding may reach one full next larger unit
    place = _largest(seconds)
    length, name = _TIME_UNITS[place]
    whole, rest = divmod(seconds, int(length))
    if not rest:
        return f"{whole} {name}"
    smaller_length, smaller = _TIME_UNITS[place + 1]
    return f"{whole} {name} {rest // int(smaller_length)} {smaller}"


def _largest(seconds: int) -> int:
    """Return the index of the largest unit that is not longer than `seconds`."""
    return next(index for index, (length, _) in enumerate(_TIME_UNITS) if seconds >= length)


def scale_of(resource: str, size: float) -> tuple[float, str]:
    """Return the factor and the unit for writing values of a resource up to `size`.

    >>> scale_of("memory_free", 2.56e11), scale_of("cpu_available", 0.9), scale_of("load1", 12.0)
    ((1000000000.0, 'GB'), (0.01, '%'), (1.0, ''))
    """
    unit = _UNIT_OF.get(resource.partition(">")[0], "")
    if unit == "%":
        return 0.01, unit
    factor, prefix = next((each for each in _PREFIXES.get(unit, ()) if size >= each[0]), (1.0, ""))
    return factor, f"{prefix}{unit}"


def resource_title(resource: str) -> str:
    """Return the display name of a resource for titles.

    >>> resource_title("power_w>system"), resource_title("load1"), resource_title("bandwidth>group3")
    ('Power (system)', 'Load 1', 'Bandwidth (group3)')
    """
    name, _, peer = resource.partition(">")
    title = _TITLES.get(name) or re.sub(r"(?<=[a-z])(?=\d)", " ", name.replace("_", " ")).capitalize()
    return f"{title} ({peer})" if peer else title


def resource_name(resource: str) -> str:
    """Return the display name of a resource within a sentence; an unknown resource keeps its producer's name.

    >>> resource_name("power_w>system"), resource_name("cpu_available"), resource_name("memory_pages_in")
    ('power (system)', 'processor available', 'memory_pages_in')
    """
    name, _, peer = resource.partition(">")
    title = _TITLES.get(name)
    text = name if title is None else title[0].lower() + title[1:]
    return f"{text} ({peer})" if peer else text


# 1990-01-01; the oldest public job logs are from 1993, and a clock that was never set reports 1970
EARLIEST_MS = 631_152_000_000
LATEST_MS = 4_102_444_800_000  # 2100-01-01
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LONG_FRACTION = re.compile(r"(\.\d{6})\d+")


def parse_rfc3339(text: str) -> int:
    """Return a time in ms since the epoch. A time without a zone is in UTC.

    Raise InvalidInputError (reason ``time``) if the text is not a time, or if the time is outside the years 1990 to 2100.

    >>> parse_rfc3339("2026-11-20T10:00:00Z")
    1795168800000
    """
    try:
        moment = datetime.fromisoformat(_LONG_FRACTION.sub(r"\1", text))
    except ValueError as error:
        raise InvalidInputError("time", f"{text[:40]!r} is not a time.") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return checked_ms((moment - _EPOCH) // _MILLISECOND)


def checked_ms(time_ms: int) -> int:
    """Return `time_ms` unchanged. Raise InvalidInputError (reason ``time``) if the time is not plausible.

    >>> checked_ms(1795168800000)
    1795168800000
    """
    if not EARLIEST_MS <= time_ms <= LATEST_MS:
        raise InvalidInputError("time", f"{time_ms} ms since the epoch is outside 1990 to 2100.")
    return time_ms


@lru_cache(maxsize=512)  # all messages of a tick have the same time
def rfc3339(time_ms: int) -> str:
    """Return the time as RFC 3339 in UTC. Milliseconds are written only if they are not 0.

    >>> rfc3339(1795168800000), rfc3339(1795168800250)
    ('2026-11-20T10:00:00Z', '2026-11-20T10:00:00.250Z')
    """
    precision = "milliseconds" if time_ms % 1000 else "seconds"
    moment = _EPOCH.replace(tzinfo=None) + timedelta(milliseconds=time_ms)
    return f"{moment.isoformat(timespec=precision)}Z"


SAFE = " !\"#$&'()*+,-.:;<=>?@[]^_`{|}~"  # all printable ASCII except the separator and the escape character


class ApplicationKey(msgspec.Struct, frozen=True, order=True, dict=True):
    """The identity of a scaling curve: an application with one input on one system, with sizes in one unit.

    >>> key = ApplicationKey(application="lammps", system="archer2", input="rhodo/32k", unit="nodes")
    >>> key.id
    'archer2/lammps/rhodo%2F32k/nodes'
    >>> ApplicationKey.parse(key.id) == key
    True
    """

    application: str
    system: str
    input: str
    unit: str

    @cached_property
    def id(self) -> str:
        """The key of the application in topics and states: four parts joined by slashes, with the escapes of URLs."""
        return "/".join([escaped(self.system), escaped(self.application), escaped(self.input), escaped(self.unit)])

    @staticmethod
    @lru_cache(maxsize=4096)  # dozens of calls for each fit of an application
    def parse(text: str) -> "ApplicationKey":
        """Return the key with this `id`. Raise ValueError if the text does not have four parts."""
        system, application, input_, unit = (unquote(part) for part in text.split("/"))
        return ApplicationKey(application=application, system=system, input=input_, unit=unit)


class Identification(msgspec.Struct, frozen=True, dict=True):
    """The application and the size of a job.

    `application` is None if the job cannot be identified; `reason` then says why. `n` is the size of the job in `unit`, or None
    if unknown. `source` is the origin of the name: `rule 2`, `executable`, `executable from xalt`. `confidence` lies between
    0 and 1. `input_sizes` holds the known values of the input sizes that the configuration names.
    """

    application: str | None
    system: str
    input: str
    unit: str
    n: float | None
    source: str
    confidence: float
    reason: str | None = None
    input_sizes: tuple[tuple[str, float], ...] = ()

    @cached_property
    def key(self) -> ApplicationKey | None:
        """The key of the application's scaling curve; None for an unidentified job."""
        if self.application is None:
            return None
        return ApplicationKey(application=self.application, system=self.system, input=self.input, unit=self.unit)


Entry = TypeVar("Entry")
Group = TypeVar("Group", bound=Hashable)


def grouped(entries: Iterable[Entry], group_of: Callable[[Entry], Group]) -> dict[Group, list[Entry]]:
    """Return the entries by group, in order of first occurrence.

    >>> grouped(["a1", "b1", "a2"], lambda entry: entry[0])
    {'a': ['a1', 'a2'], 'b': ['b1']}
    """
    groups: dict[Group, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(group_of(entry), []).append(entry)
    return groups


def escaped(text: str) -> str:
    """Return a part of a key with special characters escaped. Nearly no part needs escapes, so a quick check comes first.

    >>> escaped("rhodo/32k 100%"), escaped("run 7")
    ('rhodo%2F32k 100%25', 'run 7')
    """
    if text.isalnum() and text.isascii():
        return text
    plain = text.isascii() and text.isprintable() and "/" not in text and "%" not in text and "\\" not in text
    return text if plain else quote(text, safe=SAFE)


def host_link(system: str, host: str) -> str:
    """Return the part of a URL that names a host. Slashes are escaped, because host names come from outside.

    >>> host_link("archer2", "rack1/nid7")
    'archer2/rack1%2Fnid7'
    """
    return f"{quote(system, safe='')}/{quote(host, safe='')}"


@lru_cache(maxsize=4096)  # several calls in a row at the start and at the end of a job
def job_key(system: str, job_id: str) -> str:
    """Return the key of a job: system and job id.

    >>> job_key("archer2", "812")
    'archer2/812'
    """
    return f"{escaped(system)}/{escaped(job_id)}"


def run_id(system: str, job_id: str, start_ms: int) -> str:
    """Return the identity of a run: job id and start time. All producers know both values, so all agree on the identity.

    A requeued job keeps its job id but starts again, so it has a new run.

    >>> run_id("archer2", "812", 1795168800000)
    'archer2/812@1795168800000'
    """
    return f"{escaped(system)}/{escaped(job_id)}@{start_ms}"


@lru_cache(maxsize=8192)
def lane_of_user(system: str, user: str | None) -> str:
    """Return the lane of a user, the unit of fair sharing; work without a user belongs to the lane of its system."""
    return f"{escaped(system)}/user/{escaped(user)}" if user else escaped(system)


def lane_of_application(application_id: str) -> str:
    """Return the lane of an application that several users run; all its inputs share this lane."""
    system, application, *_ = application_id.split("/")
    return f"{system}/application/{application}"


@lru_cache(maxsize=8192)
def lane_of_run(application_id: str, user: str | None, before: str | None) -> str:
    """Return the lane of an application after a run of `user`; `before` is the lane before the run, None for the first run.

    The application stays in the user's lane until another user runs it.
    """
    system = application_id.partition("/")[0]
    lane = f"{system}/user/{escaped(user)}" if user else system
    return lane if before in (None, lane) else lane_of_application(application_id)
