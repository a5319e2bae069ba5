"""Value lists of collectd in JSON, as its Kafka plugin writes them: an array of value lists per message."""

import msgspec

from agent.decode.message import JSON_ERRORS, TelemetryOptions, checked, invalid, json_error, refuse_duplicate_keys
from agent.decode.telemetry.columns import KEY_BYTES_MAX, Columns, Known, epoch_ms, in_slices
from agent.decode.telemetry.metric import COLLECTD
from agent.decode.telemetry.plans import NOTHING, Plan, Planner, take
from processors.contracts.errors import InvalidInputError
from processors.contracts.telemetry import DecodeSamples


class _ValueList(msgspec.Struct, gc=False):
    values: list[float | str | bool | None]
    dsnames: list[str]
    time: float
    host: str
    plugin: str
    type: str
    plugin_instance: str = ""
    type_instance: str = ""


_LISTS = msgspec.json.Decoder(list[msgspec.Raw])
_LIST = msgspec.json.Decoder(_ValueList)
_KEYS = msgspec.json.Decoder(dict[str, msgspec.Raw])


def collectd_decoder(options: TelemetryOptions) -> DecodeSamples:
    """Return the decoder of value lists; collectd sends counters as rates, its default.

    >>> from processors.contracts.telemetry import SeriesIndex
    >>> from agent.decode.message import DecodeOptions
    >>> decode = collectd_decoder(TelemetryOptions(decode=DecodeOptions(default_system="exa")))
    >>> message = b'[{"values":[0.5],"dsnames":["shortterm"],"time":1787217284.001,"host":"nid1","plugin":"load","type":"load"}]'
    >>> decode([message], [1787217284000], SeriesIndex(9)).samples.value.tolist()
    [0.5]
    """
    planner, known = Planner(COLLECTD, options), Known[tuple[str, ...], Plan]()

    def decode_message(value: bytes, message: int, columns: Columns) -> None:
        failures: list[InvalidInputError] = []
        for number, values in enumerate(_value_lists(checked(value, options.decode), options)):
            try:
                take_values(_value_list(bytes(values)), message, columns)
            except InvalidInputError as error:
                failures.append(error.at(f"[{number}]"))
        for failure in failures:
            columns.refuse(message, failure)

    def take_values(values: _ValueList, message: int, columns: Columns) -> None:
        plans = known.of(columns.index)
        key = (values.host, values.plugin, values.plugin_instance, values.type, values.type_instance)
        plan = plans.get(key)
        if plan is None:
            measurement = f"{values.plugin}/{values.type}/{values.type_instance}"
            tags = {"plugin_instance": values.plugin_instance, "type_instance": values.type_instance}
            plan = planner.plan(measurement, values.host, tags)
            if plan is not NOTHING and sum(map(len, key)) <= KEY_BYTES_MAX:
                plans[key] = plan
        fields = dict(zip(values.dsnames, values.values, strict=False))
        if not len(fields) == len(values.dsnames) == len(values.values):
            raise invalid("columns", "The value list does not have one value for each name.")
        take(fields, plan, epoch_ms(values.time), message, columns)

    return in_slices(decode_message, options)


def _value_lists(value: bytes, options: TelemetryOptions) -> list[msgspec.Raw]:
    try:
        lists = _LISTS.decode(value)
    except JSON_ERRORS as error:
        raise json_error(error) from None
    if len(lists) > options.decode.elements_max:
        raise invalid("array-bomb", f"The array has more elements than {options.decode.elements_max}.")
    return lists


def _value_list(value: bytes) -> _ValueList:
    try:
        values, keys = _LIST.decode(value), len(_KEYS.decode(value))
    except JSON_ERRORS as error:
        raise json_error(error) from None
    if value.count(b'":') != keys:  # or white space, or objects within
        refuse_duplicate_keys(value)
    return values
