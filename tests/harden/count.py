"""The independent count: what was produced against what came out, by plain dictionaries that know nothing of the product."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple

from tests.harden.topics import Record

MODEL_KEY: Final = "run_time/"


class Run(NamedTuple):
    """A completed run as it was produced, or as it came out."""

    application: str
    n: float
    run_time_s: float


def settled_run(message: Mapping[str, Any]) -> Run:
    """Return what a message of the topic of settled runs holds."""
    event = message["event"]
    return Run(event["evidence"]["application"], event["evidence"]["sizes"]["nodes"], event["run_time_s"])


def by_key(records: Iterable[Record]) -> dict[str, list[bytes | None]]:
    """Return the values of each key in the order in which they came.

    >>> by_key([Record(0, 0, b"a", b"1"), Record(0, 1, b"a", b"2")])
    {'a': [b'1', b'2']}
    """
    found: dict[str, list[bytes | None]] = defaultdict(list)
    for each in records:
        found[(each.key or b"").decode()].append(each.value)
    return dict(found)


class Compared(NamedTuple):
    """What became of keys: `lost` never came out, `wrong` came out as something else, `different` came in several versions,
    `unknown` were never produced; `repeats` are records that came again with the same bytes."""

    lost: list[str]
    wrong: list[str]
    different: list[str]
    unknown: list[str]
    repeats: int


def compared(produced: Mapping[str, Any], arrived: Mapping[str, list[Any]], plain: Mapping[str, Any]) -> Compared:
    """Compare what was produced by key with what arrived, as raw values and as what the newest of them says.

    >>> compared({"a": 1, "b": 2}, {"a": [b"1", b"1"], "c": [b"3"]}, {"a": 1, "c": 3})
    Compared(lost=['b'], wrong=[], different=[], unknown=['c'], repeats=1)
    """
    return Compared(
        lost=sorted(produced.keys() - arrived.keys()),
        wrong=sorted(key for key in produced.keys() & plain.keys() if plain[key] != produced[key]),
        different=sorted(key for key, values in arrived.items() if len(set(values)) > 1),
        unknown=sorted(arrived.keys() - produced.keys()),
        repeats=sum(len(values) - len(set(values)) for values in arrived.values()),
    )


def learned(state: Iterable[Record]) -> dict[str, int]:
    """Return how many runs each model has learned, by application id, from the newest committed states."""
    totals: dict[str, int] = {}
    for each in state:
        key = (each.key or b"").decode()
        if key.startswith(MODEL_KEY):
            name = key.removeprefix(MODEL_KEY)
            totals.pop(name, None)
            if each.value is not None:
                totals[name] = json.loads(each.value)["data"]["total"]
    return totals


def expected_models(runs: Iterable[tuple[str, Run]]) -> Counter[str]:
    """Return how many runs each model has to know, from system and run.

    >>> expected_models([("exa", Run("lammps", 1.0, 2.0))])
    Counter({'exa/lammps//nodes': 1})
    """
    return Counter(f"{system}/{run.application}//nodes" for system, run in runs)
