"""Column names of LDMS. Avro allows only letters, digits and underscores, so LDMS writes an underscore for every other character."""

import re
from collections.abc import Callable
from typing import Final

from agent.decode.message import TelemetryOptions
from agent.decode.telemetry.ldms import MEASUREMENT
from agent.decode.telemetry.ldms_jobs import JOB_COLUMNS, JOB_LIST
from agent.decode.telemetry.metric import IB_RATE, IBNET, LDMS, Metric

_NOT_IN_AVRO: Final = re.compile(r"[^A-Za-z0-9-]")


def avro_name(name: str) -> str:
    """Return the name that LDMS gives a column in Avro.

    >>> avro_name("power.node_watts")
    'power_node_watts'
    """
    return _NOT_IN_AVRO.sub("_", name)


def ldms_names(options: TelemetryOptions) -> Callable[[str], str]:
    """Return the function from a name in Avro to the LDMS name of the same metric, part of a host or job field.

    >>> name_of = ldms_names(TelemetryOptions())
    >>> name_of("power_node_watts"), name_of("nics_tx_bytes"), name_of("MemFree")
    ('power.node_watts', 'nics.tx_bytes', 'MemFree')
    """
    whole: dict[str, str] = {}
    begun: dict[str, str] = {}
    for metric in LDMS:
        _note(metric, whole, begun)
    for mapping in options.taken.metrics:
        if mapping.measurement == MEASUREMENT:
            _note(
                Metric(
                    MEASUREMENT,
                    mapping.field,
                    "",
                    only=tuple(mapping.only.items()),
                    instance=mapping.instance,
                    part=mapping.part,
                ),
                whole,
                begun,
            )
    for name in IBNET.values():  # else the rate of an adapter would be a counter of an adapter with another name
        begun[avro_name(IB_RATE.format(name))] = IB_RATE.format(name)
    for column in JOB_COLUMNS:
        whole[avro_name(JOB_LIST + column)] = JOB_LIST + column
    for counter in options.taken.counters:
        _note(Metric(MEASUREMENT, counter, ""), whole, begun)

    def name_of(name: str) -> str:
        known = whole.get(name)
        if known is not None:
            return known
        start = max((one for one in begun if name.startswith(one)), key=len, default="")
        return begun[start] + name[len(start) :] if start else name

    return name_of


def _note(metric: Metric, whole: dict[str, str], begun: dict[str, str]) -> None:
    texts = [metric.instance, metric.part, *(tag for tag, _ in metric.only)]
    if metric.beginning is None:
        texts.append(metric.field)
    elif metric.beginning:
        begun.setdefault(avro_name(metric.beginning), metric.beginning)
    for text in texts:
        if text:
            whole.setdefault(avro_name(text), text)
