"""What hosts measure, in words: a number in its unit, with a prefix that people count in."""

from typing import Final

_LARGE: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, ""))
_SMALL: Final = ((1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n"))
_PREFIXES: Final = {"B": _LARGE, "B/s": _LARGE, "W": _LARGE, "J": _LARGE, "s": _SMALL}
_UNIT_OF: Final = {
    "cpu_available": "%", "cpu_current": "%", "cpu_iowait": "%",
    "memory_free": "B", "memory_available": "B", "disk_free": "B", "bandwidth": "B/s",
    "latency": "s", "connect_time": "s", "power_w": "W", "energy_j": "J",
}  # fmt: skip


def measured(resource: str, value: float | None, digits: int = 3) -> str:
    """Return what a host measured of a resource, in so many digits and with its unit; a dash where there is nothing.

    >>> [measured("cpu_available", 0.834), measured("memory_free", 12.34e9), measured("bandwidth>group3", 9.1e9)]
    ['83.4 %', '12.3 GB', '9.1 GB/s']
    >>> measured("latency", 4.2e-6), measured("load1", 3.25), measured("latency", None), measured("cpu_current", 2e-4)
    ('4.2 µs', '3.25', '-', '0 %')
    >>> measured("power_w>system", 51_200.0), measured("energy_j", 5.2e7)
    ('51.2 kW', '52 MJ')
    """
    if value is None:
        return "-"
    unit = _UNIT_OF.get(resource.partition(">")[0], "")
    if unit == "%":
        return f"{round(100 * value, digits - 2):.{digits}g} %"
    prefixes = _PREFIXES.get(unit, ((1.0, ""),))
    factor, prefix = next(((f, p) for f, p in prefixes if abs(value) >= f), prefixes[-1])
    return f"{value / factor:.{digits}g} {prefix}{unit}".rstrip()
