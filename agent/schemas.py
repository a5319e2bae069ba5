"""JSON Schemas of what goes in and what comes out, made from the structs that the code itself uses."""

from itertools import combinations
from typing import Any, Final

import msgspec

from agent.backtest.report import Report
from agent.contracts.decoding import DeadLetter
from agent.contracts.events import STATES, UNITS
from agent.contracts.outputs import Alert, Answer, JobPrediction, Prediction, Run
from agent.decode.native_messages import Completed, Identified, Requested, Started
from agent.decode.native_network import ARRAYS, NetworkTold
from agent.decode.telemetry.native_samples import COMPONENT, Counters, Load, Power

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
OUTPUTS: Final[dict[str, type[msgspec.Struct]]] = {
    "scalewatch.prediction/1": Prediction,
    "scalewatch.job-prediction/1": JobPrediction,
    "scalewatch.answer/1": Answer,
    "scalewatch.alert/1": Alert,
    "scalewatch.run/1": Run,
    "scalewatch.dead-letter/1": DeadLetter,
}
INPUTS: Final[dict[str, type[msgspec.Struct]]] = {
    "scalewatch.event.job.started/1": Started,
    "scalewatch.event.job.completed/1": Completed,
    "scalewatch.event.identity/1": Identified,
    "scalewatch.event.prediction.requested/1": Requested,
    "scalewatch.event.network/1": NetworkTold,
    "scalewatch.event.load/1": Load,
    "scalewatch.event.power/1": Power,
    "scalewatch.event.counters/1": Counters,
}
FILES: Final[dict[str, type[msgspec.Struct]]] = {"scalewatch.backtest/1": Report}
NAMES: Final = (*OUTPUTS, *INPUTS, *FILES)
_TIMES: Final = frozenset({"time", "as_of", "valid_until", "start", "end", "starts", "ends", "end_low", "end_high"})


def schema(name: str) -> dict[str, Any]:
    """Return the JSON Schema of a message, event or file; KeyError for a name that is not in NAMES.

    Readers take unknown fields for later additions: a schema only grows within its major version.

    >>> schema("scalewatch.alert/1")["properties"]["schema"]
    {'const': 'scalewatch.alert/1'}
    """
    struct = {**OUTPUTS, **INPUTS, **FILES}[name]
    (reference,), components = msgspec.json.schema_components([struct], ref_template="#/$defs/{name}")
    own = reference["$ref"].rpartition("/")[2]
    whole: dict[str, Any] = {"$schema": DIALECT, "$id": name, **components.pop(own)}
    if components:
        whole["$defs"] = components
    for part in (whole, *components.values()):
        _plain_text(part)
    if name in INPUTS:
        _name_rules(whole)
    else:
        _name_times(whole)
        whole["properties"]["schema"] = {"const": name}
    return whole


def catalogue() -> dict[str, Any]:
    """Return every schema by its name.

    >>> sorted(catalogue()) == sorted(NAMES)
    True
    """
    return {name: schema(name) for name in NAMES}


def _plain_text(part: dict[str, Any]) -> None:
    """Put the description, a docstring, into one line."""
    if "description" in part:
        part["description"] = " ".join(part["description"].split())


def _name_rules(whole: dict[str, Any]) -> None:
    """Say what the decoder checks beyond types: closed lists, and fields that need each other."""
    for name, words in (("unit", UNITS), ("state", STATES)):
        if name in whole["properties"]:
            whole["properties"][name] = {"enum": [*words, None], "default": None}
    kind = whole["properties"]["type"]["enum"][0]
    if kind == "network":
        whole["anyOf"] = [{"required": [name], "properties": {name: {"not": {"type": "null"}}}} for name in ARRAYS]
    if kind == "power":
        whole["properties"]["component"] = {"type": "string", "pattern": f"^{COMPONENT}$"}
    if kind == "job.started":
        whole["dependentRequired"] = {"n": ["unit"], "unit": ["n"]}
    if kind == "job.completed":
        whole["required"] = [*whole["required"], "n", "unit"]
        whole["anyOf"] = [{"required": list(pair)} for pair in combinations(("start", "end", "run_time_s"), 2)]


def _name_times(whole: dict[str, Any]) -> None:
    """Say of times what their type, a text, does not: RFC 3339 in UTC."""
    for name in _TIMES & whole["properties"].keys():
        whole["properties"][name] = {**whole["properties"][name], "format": "date-time"}
