"""Plans: the series of each field in the records of one measurement and host, computed once."""

import re
from array import array
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from agent.decode.fields import number_in
from agent.decode.message import NOT_NOTED, DecodeOptions, Missed, TelemetryOptions, invalid
from agent.decode.telemetry.columns import KEY_BYTES_MAX, Columns, Known, number_of
from agent.decode.telemetry.metric import Convert, Metric, kibibytes, mebibytes, megabits, percent, thousandths
from processors.contracts.telemetry import MetricMapping, SeriesIndex

Targets = tuple[tuple[int, Convert | None], ...]
"""The series numbers for the samples of a field, usually one, each with its unit conversion."""


ReadNumbers = Callable[[bytes], list[tuple[float, ...]]]
"""Reads a JSON array of objects that have exactly the given names, all with numbers; raises one of JSON_ERRORS for other input."""


class Shape:
    """The samples in records with the fields `names`: the positions of their values, unit conversions and series."""

    def __init__(self, names: tuple[str, ...], taken: Sequence[tuple[int, Targets]]) -> None:
        flat = [(at, number, convert) for at, targets in taken for number, convert in targets]
        self.picks = tuple(at for at, _, _ in flat)  # positions of the values that become samples
        self.series = array("i", [number for _, number, _ in flat])
        # unit conversions by position among the picked values
        self.converts = tuple((at, convert) for at, (_, _, convert) in enumerate(flat) if convert is not None)
        self.whole = self.picks == tuple(range(len(names)))  # every value is picked once, in this order
        self.left_out = len(names) - len(taken)
        self.names, read = _named(names)
        # reads records with these names in any order; None if the order matters: of two values for one series, only the first counts
        self.read = read if len({*self.series}) == len(flat) else None

    def take(self, every: Sequence[object], time_ms: int, message: int, columns: Columns) -> bool:
        """Add the samples of a record from all its values; return False and add nothing if a value to be used is not a float."""
        if {*map(type, every if self.whole else [every[at] for at in self.picks])} != _FLOATS:
            return False
        self.take_numbers(every, time_ms, message, columns)  # type: ignore[arg-type]  # all picked values are floats
        return True

    def take_numbers(self, every: Sequence[float], time_ms: int, message: int, columns: Columns) -> None:
        """Add the samples of a record from all its values; the values to be used must be floats."""
        values = every if self.whole else [every[at] for at in self.picks]
        if self.converts:
            values = [*values]
            for at, convert in self.converts:
                values[at] = convert(values[at])
        if self.left_out:
            columns.ignore("metric", self.left_out)
        columns.series.extend(self.series)
        columns.values += values
        columns.count(time_ms, message, len(values))


class Plan:
    """Maps the fields of similar records to series; the records differ only in time and values.

    `targets` maps a field to its series, empty before the first occurrence of the field. `shape` is the shape of the last
    record. `missed` collects the fields of `measurement` that are not used.
    """

    missed: Missed = NOT_NOTED
    measurement = ""

    def __init__(
        self,
        metrics: list[Metric],
        system: str | None,
        host: str | None,
        tags: Mapping[str, str],
        *,
        job_id: str | None = None,
    ) -> None:
        self._metrics, self._system, self.host, self._tags, self._job_id = metrics, system, host, tags, job_id
        self.targets: dict[str, Targets] = {metric.field: () for metric in metrics if metric.beginning is None}
        self.beginnings = tuple(metric.beginning for metric in metrics if metric.beginning is not None)
        self.shape: Shape | None = None
        self._named = 0

    def needed_host(self) -> str:
        """Return the host of the records. Raise InvalidInputError (``missing-field``) if they name no host."""
        if not self.host:
            raise invalid("missing-field", "The record names no host.")
        return self.host

    def admit(self, field: str) -> Targets | None:
        """Add a field whose name has the prefix of a mapping to `targets`, without series yet, and return its empty targets.

        Return None if no prefix matches or there are too many fields.
        """
        if not field.startswith(self.beginnings) or self._named >= NAMES_MAX:
            return None
        self._named += 1
        self.targets[field] = ()
        return ()

    def resolve(self, field: str, index: SeriesIndex) -> Targets:
        """Return the targets of a field at its first occurrence; empty if there are too many series.

        Raise InvalidInputError if the records name no host, or a host that cannot be displayed.
        """
        system, host = _NO_DEFAULT.system_of(self._system), self.needed_host()
        targets: dict[int, Convert | None] = {}
        for metric in filter(lambda metric: metric.of(field), self._metrics):
            peer = metric.peer_of(field, self._tags)
            number = number_of(system, host, metric.resource, peer, index, self._job_id)
            if number is not None:
                # the site's own mapping comes first, so it takes precedence
                targets.setdefault(number, metric.convert)
        self.targets[field] = tuple(targets.items())
        return self.targets[field]


CONVERSIONS: Final[dict[str | None, Convert | None]] = {
    None: None,
    "percent": percent,
    "KiB": kibibytes,
    "MiB": mebibytes,
    "ms": thousandths,
    "Mbit/s": megabits,
}
"""Conversions to the resource's unit, by the name of the producer's unit in the configuration."""


def mapped(mapping: MetricMapping) -> Metric:
    """Return the metric of a mapping from the configuration."""
    same = {name: getattr(mapping, name) for name in ("measurement", "field", "resource", "instance", "peer", "part")}
    return Metric(**same, convert=CONVERSIONS[mapping.unit], only=tuple(mapping.only.items()))


class Plans(Known[tuple[Hashable, ...] | bytes, Plan]):
    """The mappings of a format, the site's mappings first, and a cache of plans for one index of series.

    The key of a plan is chosen by the decoder: records with equal keys share a plan. The cache is cleared when it is full.
    """

    def __init__(self, metrics: tuple[Metric, ...], options: TelemetryOptions) -> None:
        super().__init__()
        self._options = options
        self._metrics: dict[str, list[Metric]] = {}
        for metric in (
            *map(mapped, options.taken.metrics),
            *(metric for metric in metrics if metric.resource in options.taken.resources),
        ):
            self._metrics.setdefault(metric.measurement, []).append(metric)

    def add(
        self,
        key: tuple[Hashable, ...] | bytes,
        measurement: str,
        host: str | None,
        tags: Mapping[str, str],
        *,
        also: tuple[Metric, ...] = (),
        system: str | None = None,
        job_id: str | None = None,
    ) -> Plan:
        """Return a new plan for the records of a measurement with these tags; call `of` first.

        The plan is cached unless no mapping applies or its key is too long. `also` holds additional mappings for these records;
        `system` and `job_id` are the system and the job named in the records.
        """
        also = tuple(metric for metric in also if metric.resource in self._options.taken.resources)
        metrics = [metric for metric in (*self._metrics.get(measurement, ()), *also) if metric.fits(tags)]
        if not metrics:
            self._options.missed.note("metrics", measurement)
            return NOTHING
        host = host or self._options.host
        host = self._options.host_of(host, system) if host else None
        names = {tag for metric in metrics for tag in (metric.instance, metric.part)}
        instances = {tag: value for tag, value in tags.items() if tag in names and value}
        plan = Plan(metrics, system or self._options.decode.default_system, host, instances, job_id=job_id)
        if type(self._options.missed) is Missed:
            plan.missed, plan.measurement = self._options.missed, measurement
        if (len(key) if isinstance(key, bytes) else sum(map(len, map(str, key)))) <= KEY_BYTES_MAX:
            self._entries[key] = plan
        return plan


NAMES_MAX: Final = 256  # maximum fields accepted by their prefix
FIELDS_MAX: Final = 1_000  # maximum fields of a record whose shape is cached
_FLOATS: Final = {float}
_SPECIAL: Final = re.compile(r'[\\,= "\x00-\x1f]')
_NO_DEFAULT: Final = DecodeOptions()
NOTHING: Final = Plan([], None, None, {})


def take(fields: Mapping[str, object], plan: Plan, time_ms: int, message: int, columns: Columns) -> None:
    """Add the fields of one record that are samples according to `plan`; other fields are counted.

    Records of one plan nearly always have the same fields; then only their values are read. If the value of a needed field
    is not a number, the value is counted and skipped, and the remaining fields are added.

    >>> columns = Columns([0], SeriesIndex(9))
    >>> plan = Plan([Metric("system", "load1", "load1")], "exa", "nid1", {})
    >>> take({"load1": 0.5, "users": 3.0}, plan, 1795168800000, 0, columns)
    >>> columns.values, columns.ignored
    ([0.5], {'metric': 1})
    """
    if not plan.targets and not plan.beginnings:
        columns.ignore("metric", len(fields))
        return
    if not take_row(tuple(fields), list(fields.values()), plan, time_ms, message, columns):
        _take_each(fields, plan, time_ms, message, columns)
        if len(fields) <= FIELDS_MAX and (plan.shape is None or plan.shape.names != tuple(fields)):
            taken = [(at, plan.targets[field]) for at, field in enumerate(fields) if field in plan.targets]
            # no shape while a field that becomes a sample has no series
            plan.shape = Shape(tuple(fields), taken) if all(targets for _, targets in taken) else None


def take_row(  # noqa: PLR0917  like `take`, with names and values apart
    names: tuple[str, ...], values: Sequence[object], plan: Plan, time_ms: int, message: int, columns: Columns
) -> bool:
    """Add a record with the same fields as the plan's last record; return False and add nothing for a record with other fields."""
    shape = plan.shape
    return shape is not None and shape.names == names and shape.take(values, time_ms, message, columns)


# cached because all hosts share these decoders; a decoder for each host would cost more than its samples
@lru_cache(maxsize=256)
def _named(names: tuple[str, ...]) -> tuple[tuple[str, ...], ReadNumbers | None]:
    if _SPECIAL.search("".join(names)):
        return names, None
    fields = [f"field_{at}" for at in range(len(names))]
    record = msgspec.defstruct(
        "Record",
        [(field, float) for field in fields],
        rename=dict(zip(fields, names, strict=True)),
        forbid_unknown_fields=True,
        gc=False,
    )
    decoder = msgspec.json.Decoder(list[record])  # type: ignore[valid-type]  # made here
    return names, lambda value: [*map(msgspec.structs.astuple, decoder.decode(value))]


def _take_each(fields: Mapping[str, object], plan: Plan, time_ms: int, message: int, columns: Columns) -> None:
    series: list[int] = []
    values: list[float] = []
    left_out = 0
    for field, value in fields.items():
        targets = plan.targets.get(field)
        if targets is None and plan.beginnings and not isinstance(value, str):
            targets = plan.admit(field)
        if targets is None:
            left_out += 1
            if value is not None:
                plan.missed.note("metrics", f"{plan.measurement} {field}")
            continue
        amount = value if type(value) is float else number_in(value)
        if amount is None:  # JSON writes null for a missing number
            columns.ignore("null" if value is None else "no-number")
            continue
        if not targets:
            targets = plan.resolve(field, columns.index)
            if not targets:
                columns.ignore("series")
        for number, convert in targets:
            series.append(number)
            values.append(amount if convert is None else convert(amount))
    if left_out:
        columns.ignore("metric", left_out)
    if series:
        columns.add(series, values, time_ms, message)
