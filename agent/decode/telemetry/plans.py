"""Plans: which fields of the records of one measurement and host are samples of which series, computed once."""

import re
from array import array
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec

from agent.decode.fields import number_in
from agent.decode.message import NOT_NOTED, Missed, TelemetryOptions, invalid, no_system
from agent.decode.telemetry.columns import Columns, number_of
from agent.decode.telemetry.metric import Convert, Metric, kibibytes, mebibytes, megabits, milliseconds, percent
from processors.contracts.telemetry import MetricMapping, SeriesIndex

Targets = tuple[tuple[int, Convert | None], ...]
"""The numbers of the series that a field is a sample of, with the conversion of its unit; seldom several."""


ReadNumbers = Callable[[bytes], list[tuple[float, ...]]]
"""Reads a JSON array of objects that have a number for each of some names and nothing else; JSON_ERRORS where it is none."""


class Shape(NamedTuple):
    """Which fields of records with the fields `names` become samples, where their values are, and of which series.

    >>> plan = Plan([Metric("system", "load1", "load1")], "exa", "nid1", {})
    >>> _ = plan.resolve("load1", SeriesIndex(9))
    >>> columns = Columns([0], SeriesIndex(9))
    >>> shape_of({"users": 3.0, "load1": 0.5}, plan).take([4.0, 0.6], 1795168800000, 0, columns), columns.values
    (True, [0.6])
    """

    names: tuple[str, ...]
    picks: tuple[int, ...]  # positions of the values that are taken
    series: "array[int]"
    converts: tuple[tuple[int, Convert], ...]  # by position among the values taken
    whole: bool  # every value is taken, once and in this order
    left_out: int
    read: ReadNumbers | None  # of records with the same names, in any order; None where the order counts

    def take(self, every: list[object], time_ms: int, message: int, columns: Columns) -> bool:
        """Add the values of all fields of a record; return False and add nothing if a needed value is no float."""
        values = every if self.whole else [every[at] for at in self.picks]
        if {*map(type, values)} != _FLOATS:
            return False
        self._add(values, time_ms, message, columns)  # type: ignore[arg-type]  # floats all
        return True

    def take_numbers(self, every: Sequence[float], time_ms: int, message: int, columns: Columns) -> None:
        """Add the values of all fields of a record whose values are all floats."""
        self._add(every if self.whole else [every[at] for at in self.picks], time_ms, message, columns)

    def _add(self, values: Sequence[float], time_ms: int, message: int, columns: Columns) -> None:
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
    """The series of the fields of records that differ only in time and values.

    `targets` holds the fields that become samples. A field without a record so far has no series and no targets. `shape`
    is that of the last record. `missed` notes the fields of a `measurement` that are not taken.

    >>> Plan([Metric("system", "load1", "load1")], "exa", "nid1", {}).resolve("load1", SeriesIndex(9))
    ((0, None),)
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

    def admit(self, field: str) -> Targets | None:
        """Admit a field with the prefix of a metric; return None if no prefix matches or there are too many fields."""
        if not field.startswith(self.beginnings) or self._named >= NAMES_MAX:
            return None
        self._named += 1
        self.targets[field] = ()
        return ()

    def resolve(self, field: str, index: SeriesIndex) -> Targets:
        """Return the targets of a field that appears for the first time; none if there are too many series.

        Raise InvalidInputError if the records name no host, or a host that cannot be displayed.
        """
        if self._system is None:
            raise no_system()
        if not self.host:
            raise invalid("missing-field", "The record names no host.")
        targets: dict[int, Convert | None] = {}
        for metric in self._metrics:
            if metric.of(field):
                peer = metric.peer_of(field, self._tags)
                number = number_of(self._system, self.host, metric.resource, peer, index, self._job_id)
                if number is not None:
                    targets.setdefault(number, metric.convert)  # a site's own mapping goes first
        self.targets[field] = tuple(targets.items())
        return self.targets[field]


CONVERSIONS: Final[dict[str | None, Convert | None]] = {
    None: None,
    "percent": percent,
    "KiB": kibibytes,
    "MiB": mebibytes,
    "ms": milliseconds,
    "Mbit/s": megabits,
}
"""From the unit of a producer, as a configuration names it, to that of the resource."""


def _mapped(given: MetricMapping) -> Metric:
    return Metric(
        given.measurement,
        given.field,
        given.resource,
        CONVERSIONS[given.unit],
        only=tuple(given.only.items()),
        instance=given.instance,
        peer=given.peer,
        part=given.part,
    )


class Planner:
    """The mappings of a format, those of the site first, and the plans made from them.

    >>> planner = Planner((Metric("system", "load1", "load1"),), TelemetryOptions())
    >>> planner.plan("system", "nid1", {}).targets
    {'load1': ()}
    """

    def __init__(self, metrics: tuple[Metric, ...], options: TelemetryOptions) -> None:
        self._options = options
        self._metrics: dict[str, list[Metric]] = {}
        own = [_mapped(mapping) for mapping in options.taken.metrics]
        for metric in (*own, *(metric for metric in metrics if metric.resource in options.taken.resources)):
            self._metrics.setdefault(metric.measurement, []).append(metric)

    def plan(
        self,
        measurement: str,
        host: str | None,
        tags: Mapping[str, str],
        *,
        also: tuple[Metric, ...] = (),
        system: str | None = None,
        job_id: str | None = None,
    ) -> Plan:
        """Return the plan for the records of a measurement with these tags.

        `also` are mappings for these records alone; `system` and `job_id` are the system and the job that the records name.
        """
        wanted = (metric for metric in also if metric.resource in self._options.taken.resources)
        metrics = [metric for metric in (*self._metrics.get(measurement, ()), *wanted) if metric.fits(tags)]
        if not metrics:
            self._options.missed.note("metrics", measurement)
            return NOTHING
        host = host or self._options.host
        host = self._options.host_of(host, system) if host else None
        named = {tag for metric in metrics for tag in (metric.instance, metric.part) if tag is not None}
        needed = {tag: tags.get(tag, "") for tag in sorted(named)}
        instances = {tag: value for tag, value in needed.items() if value}
        plan = Plan(metrics, system or self._options.decode.default_system, host, instances, job_id=job_id)
        if type(self._options.missed) is Missed:
            plan.missed, plan.measurement = self._options.missed, measurement
        return plan


NAMES_MAX: Final = 256  # fields that are taken by how they begin
FIELDS_MAX: Final = 1_000  # of a record whose shape is kept
_FLOATS: Final = {float}
_SPECIAL: Final = re.compile(r'[\\,= "\x00-\x1f]')
NOTHING: Final = Plan([], None, None, {})


def take(fields: Mapping[str, object], plan: Plan, time_ms: int, message: int, columns: Columns) -> None:
    """Add the fields of one record that the plan has as samples; other fields are counted.

    Records of one plan nearly always have the same fields; then only their values are read. A needed field whose value
    is not a number is counted and left out; other fields are added.

    >>> columns = Columns([0], SeriesIndex(9))
    >>> plan = Plan([Metric("system", "load1", "load1")], "exa", "nid1", {})
    >>> take({"load1": 0.5, "users": 3.0}, plan, 1795168800000, 0, columns)
    >>> columns.values, columns.ignored
    ([0.5], {'metric': 1})
    """
    if not plan.targets and not plan.beginnings:
        columns.ignore("metric", len(fields))
        return
    shape = plan.shape
    if len(fields) > FIELDS_MAX:
        _take_each(fields, plan, time_ms, message, columns)
        return
    if shape is None or shape.names != tuple(fields):
        _take_each(fields, plan, time_ms, message, columns)
        plan.shape = shape_of(fields, plan)
        return
    if not shape.take(list(fields.values()), time_ms, message, columns):
        _take_each(fields, plan, time_ms, message, columns)


def take_row(  # noqa: PLR0917  as `take`, with the fields in two parts
    names: tuple[str, ...], values: list[object], plan: Plan, time_ms: int, message: int, columns: Columns
) -> bool:
    """Add a record with the same fields as the record before; return False and add nothing for other records.

    >>> columns = Columns([0], SeriesIndex(9))
    >>> plan = Plan([Metric("system", "load1", "load1")], "exa", "nid1", {})
    >>> take({"load1": 0.5}, plan, 1795168800000, 0, columns)
    >>> take_row(("load1",), [0.7], plan, 1795168801000, 0, columns), columns.values
    (True, [0.5, 0.7])
    """
    shape = plan.shape
    return shape is not None and shape.names == names and shape.take(values, time_ms, message, columns)


def shape_of(fields: Mapping[str, object], plan: Plan) -> Shape | None:
    """Return the shape of records with these fields; None while a needed field has no series.

    >>> shape_of({"load1": 0.5}, NOTHING).left_out
    1
    """
    taken = [(at, plan.targets[field]) for at, field in enumerate(fields) if field in plan.targets]
    if not all(targets for _, targets in taken):
        return None
    flat = [(at, number, convert) for at, targets in taken for number, convert in targets]
    picks, series = tuple(at for at, _, _ in flat), [number for _, number, _ in flat]
    names, read = _named(tuple(fields))
    return Shape(
        names=names,
        picks=picks,
        series=array("i", series),
        converts=tuple((at, convert) for at, (_, _, convert) in enumerate(flat) if convert is not None),
        whole=picks == tuple(range(len(fields))),
        left_out=len(fields) - len(taken),
        read=read if len({*series}) == len(series) else None,  # of two values of one series the first counts
    )


@lru_cache(maxsize=256)  # all hosts share them; a copy for each would cost more than its samples
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
        if amount is None:  # JSON writes null for what is no number
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
