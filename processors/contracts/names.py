"""Names: applications, jobs and runs, and the keys that they become."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final, Literal, get_args
from urllib.parse import quote, unquote

import msgspec

from processors.contracts.errors import InvalidInputError

Horizon = Literal["inside", "up_to_2x", "up_to_4x", "beyond_4x"]
HORIZONS: Final[tuple[Horizon, ...]] = get_args(Horizon)


def horizon_of(n: float, n_min: float, n_max: float) -> Horizon:
    """Return how far a size lies outside of the sizes from `n_min` to `n_max`.

    >>> [horizon_of(n, 4.0, 16.0) for n in (8.0, 32.0, 1.0, 128.0)]
    ['inside', 'up_to_2x', 'up_to_4x', 'beyond_4x']
    """
    factor = max(n / n_max, n_min / n)
    if factor <= 1.0:
        return "inside"
    if factor <= 2.0:
        return "up_to_2x"
    return "up_to_4x" if factor <= 4.0 else "beyond_4x"


_LARGE: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL: Final = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_PREFIXES: Final = {"B": _LARGE, "B/s": _LARGE, "W": (*_LARGE, *_SMALL[1:]), "J": (*_LARGE, *_SMALL[1:]), "s": _SMALL}
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
    """Return what a host measured of a resource, in so many digits and with its unit; a dash where there is nothing.

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
    prefixes = _PREFIXES.get(unit, ((1.0, ""),))
    factor, prefix = next(((f, p) for f, p in prefixes if abs(value) >= f), prefixes[-1] if value else (1.0, ""))
    return f"{value / factor:.{digits}g} {prefix}{unit}".rstrip()


def scale_of(resource: str, size: float) -> tuple[float, str]:
    """Return the factor and the unit in which values of a resource up to a size are written.

    >>> scale_of("memory_free", 2.56e11), scale_of("cpu_available", 0.9), scale_of("load1", 12.0)
    ((1000000000.0, 'GB'), (0.01, '%'), (1.0, ''))
    """
    unit = _UNIT_OF.get(resource.partition(">")[0], "")
    if unit == "%":
        return 0.01, unit
    factor, prefix = next((each for each in _PREFIXES.get(unit, ()) if size >= each[0]), (1.0, ""))
    return factor, f"{prefix}{unit}"


def resource_title(resource: str) -> str:
    """Return what a resource of a host is called in a title.

    >>> resource_title("power_w>system"), resource_title("load1"), resource_title("bandwidth>group3")
    ('Power (system)', 'Load 1', 'Bandwidth (group3)')
    """
    name, _, peer = resource.partition(">")
    title = _TITLES.get(name) or re.sub(r"(?<=[a-z])(?=\d)", " ", name.replace("_", " ")).capitalize()
    return f"{title} ({peer})" if peer else title


def resource_name(resource: str) -> str:
    """Return what a resource of a host is called within a sentence; one that has no name but its producer's keeps that.

    >>> resource_name("power_w>system"), resource_name("cpu_available"), resource_name("memory_pages_in")
    ('power (system)', 'processor available', 'memory_pages_in')
    """
    name, _, peer = resource.partition(">")
    title = _TITLES.get(name)
    text = name if title is None else title[0].lower() + title[1:]
    return f"{text} ({peer})" if peer else text


EARLIEST_MS = (
    631_152_000_000  # 1990-01-01: the oldest public job logs are of 1993, a clock that was never set says 1970
)
LATEST_MS = 4_102_444_800_000  # 2100-01-01
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)
_LONG_FRACTION = re.compile(r"(\.\d{6})\d+")


def parse_rfc3339(text: str) -> int:
    """Return milliseconds since the epoch; a time without a zone is UTC.

    Raises InvalidInputError (reason ``time``) where the text is no time or lies outside 1990 to 2100.

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
    """Return the time if it is plausible, else raise InvalidInputError (reason ``time``).

    >>> checked_ms(1795168800000)
    1795168800000
    """
    if not EARLIEST_MS <= time_ms <= LATEST_MS:
        raise InvalidInputError("time", f"{time_ms} ms since the epoch is outside 1990 to 2100.")
    return time_ms


@lru_cache(maxsize=512)  # the same moment is told in every message of a tick
def rfc3339(time_ms: int) -> str:
    """Return the time as RFC 3339 in UTC, with milliseconds only where there are any.

    >>> rfc3339(1795168800000), rfc3339(1795168800250)
    ('2026-11-20T10:00:00Z', '2026-11-20T10:00:00.250Z')
    """
    moment = _EPOCH + time_ms * _MILLISECOND
    timespec = "milliseconds" if time_ms % 1000 else "seconds"
    return moment.isoformat(timespec=timespec).replace("+00:00", "Z")


SAFE = " !\"#$&'()*+,-.:;<=>?@[]^_`{|}~"  # all printable ASCII but the separator and the escape


class ApplicationKey(msgspec.Struct, frozen=True, order=True):
    """What has one scaling curve: an application on a system, with one input, sized in one unit.

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

    @property
    def id(self) -> str:
        """The key of the prediction topic and of the state: four parts joined by a slash, escaped like a URL."""
        return "/".join([escaped(self.system), escaped(self.application), escaped(self.input), escaped(self.unit)])

    @classmethod
    def parse(cls, text: str) -> "ApplicationKey":
        """Return the key that `id` came from; ValueError where the text has not four parts."""
        system, application, input_, unit = (unquote(part) for part in text.split("/"))
        return cls(application=application, system=system, input=input_, unit=unit)


def escaped(text: str) -> str:
    """Return a part of a key as it stands between slashes. Nearly all parts need no escape, and to see that is quick.

    >>> escaped("rhodo/32k 100%"), escaped("run 7")
    ('rhodo%2F32k 100%25', 'run 7')
    """
    plain = text.isascii() and text.isprintable() and "/" not in text and "%" not in text and "\\" not in text
    return text if plain else quote(text, safe=SAFE)


def host_link(system: str, host: str) -> str:
    """Return the part of a URL that names a host; its slashes are escaped, for names come from outside.

    >>> host_link("archer2", "rack1/nid7")
    'archer2/rack1%2Fnid7'
    """
    return f"{quote(system, safe='')}/{quote(host, safe='')}"


def job_key(system: str, job_id: str) -> str:
    """Return the key of a job: system and job id.

    >>> job_key("archer2", "812")
    'archer2/812'
    """
    return f"{escaped(system)}/{escaped(job_id)}"


def run_id(system: str, job_id: str, start_ms: int) -> str:
    """Return the identity of one run: job id and start. Every producer knows both, so a run has one identity.

    A requeued job keeps its job id and gets a new start, so it is a new run.

    >>> run_id("archer2", "812", 1795168800000)
    'archer2/812@1795168800000'
    """
    return f"{escaped(system)}/{escaped(job_id)}@{start_ms}"
