"""Rows of LDMS in JSON, as its Kafka stores write them: as the sets are, or in the columns that a site has chosen."""

from typing import Final

import msgspec

from agent.contracts.telemetry import DecodeSamples
from agent.decode.message import JSON_ERRORS, checked, json_error, refuse_duplicate_keys
from agent.decode.reasons import invalid
from agent.decode.telemetry.columns import KEY_BYTES_MAX, Columns, Known, epoch_ms, in_slices
from agent.decode.telemetry.mappings import LDMS
from agent.decode.telemetry.metric import Metric, share_by_load
from agent.decode.telemetry.options import TelemetryOptions
from agent.decode.telemetry.plans import NOTHING, Plan, Planner, take

MEASUREMENT: Final = "ldms"
HOST_COLUMNS: Final = ("producer", "hostname", "host")
NO_METRIC: Final = frozenset((*HOST_COLUMNS, "timestamp", "component_id", "job_id", "app_id", "instance"))
INSTANCES: Final = (".name", "_name")  # endings of columns that say which of several a row is about
_WHITESPACE: Final = b" \t\r\n"
_Column = float | str | bool | list[float | str | bool | None] | None
_ROW = msgspec.json.Decoder(dict[str, _Column])


def ldms_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of rows; the host is their producer, or that of their component id in the options.

    A load average gives the available share of a processor too: cpus / (load + 1), see `share_by_load`.

    >>> from agent.contracts.telemetry import SeriesIndex
    >>> from agent.decode.options import DecodeOptions
    >>> options = TelemetryOptions(decode=DecodeOptions(default_system="exa"), hosts={1042: "nid001042"})
    >>> row = b'{"timestamp":1787217284.001733,"component_id":1042,"job_id":0,"load1min":3.0}'
    >>> index = SeriesIndex(9)
    >>> ldms_decoder(options)([row], [1787217284000], index).samples.value.tolist(), index[1].resource
    ([3.0, 0.25], 'cpu_available')
    """
    by_load = Metric(MEASUREMENT, "load1min", "cpu_available", share_by_load(options.host_cpus))
    planner, known = Planner((*LDMS, by_load), options), Known[tuple[str, ...], Plan]()

    def decode_message(value: bytes, message: int, columns: Columns) -> None:
        row = _row(checked(value, options.decode))
        time_ms = _time_ms(row)
        host = _host(row, options)
        tags = {name: text for name, text in row.items() if isinstance(text, str) and name.endswith(INSTANCES)}
        plans, key = known.of(columns.index), (host, *tags, *tags.values())
        plan = plans.get(key)
        if plan is None:
            plan = planner.plan(MEASUREMENT, host, tags)
            if plan is not NOTHING and sum(map(len, key)) <= KEY_BYTES_MAX:
                plans[key] = plan
        metrics = {name: column for name, column in row.items() if name not in NO_METRIC}
        take(metrics, plan, time_ms, message, columns)

    return in_slices(decode_message, options)


def _row(value: bytes) -> dict[str, _Column]:
    try:
        row = _ROW.decode(value)
    except JSON_ERRORS as error:
        raise json_error(error) from None
    if value.translate(None, _WHITESPACE).count(b'":') != len(row):
        refuse_duplicate_keys(value)
    return row


def _time_ms(row: dict[str, _Column]) -> int:
    stamp = row.get("timestamp")
    if not isinstance(stamp, float):
        raise invalid("time", "The row has no timestamp that is a number.")
    return epoch_ms(stamp)


def _host(row: dict[str, _Column], options: TelemetryOptions) -> str:
    for column in HOST_COLUMNS:
        host = row.get(column)
        if isinstance(host, str) and host:
            return host
    component = row.get("component_id")
    found = options.hosts.get(int(component)) if isinstance(component, float) and component.is_integer() else None
    found = found or options.host
    if found is None:
        raise invalid("host", "The row names no producer, and its component id is not in the file of nodes.")
    return found
