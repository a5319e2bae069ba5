"""The file of nodes: one line each, with all that producers call it."""

import math
import re
from collections.abc import Collection
from typing import Final

from agent.contracts.nodes import Node, Nodes
from agent.reference.tables import Fault, Row, read_table

COLUMNS: Final = (
    "host", "system", "xname", "nid", "component_id", "aliases", "partition", "cores", "sockets", "power_max_w",
)  # fmt: skip
NUMBER_MAX: Final = 10**12
COUNT_MAX: Final = 65_536
POWER_MAX_W: Final = 1e7
_ALIASES = re.compile(r"[\s,;]+")
_XNAME = re.compile(r"x[0-9]+c[0-9]+s[0-9]+b[0-9]+n[0-9]+")
_WHOLE = re.compile(r"[0-9]{1,18}")


def read_nodes(text: str, systems: Collection[str] = ()) -> tuple[Nodes, list[Fault]]:
    r"""Return the nodes of a file, and everything that is wrong with it; names that two nodes share are wrong.

    Aliases are parted by blanks, semicolons or, in a quoted cell, commas. Where `systems` are listed, nodes are of one of them.

    >>> nodes, faults = read_nodes("host,xname,nid,aliases\nnid001042,x9000c3s0b0n0,1042,a b\nnid7,x9000c3s0b0n0,,b\n")
    >>> nodes.host("a"), [str(fault.sentence) for fault in faults]
    ('nid001042', ["'x9000c3s0b0n0' already stands for nid001042 (line 2).", "'b' already stands for nid001042 (line 2)."])
    """
    faults: list[Fault] = []
    names = _Names(faults)
    nodes = []
    for row in read_table(text, COLUMNS, ("host",), faults):
        node = _node(row, faults)
        if systems and node.system and node.system not in systems:
            faults.append(
                Fault(row.line, "system", f"{node.system[:40]!r} is none of the systems {', '.join(systems)}.")
            )
        names.take(node, row.line)
        nodes.append(node)
    return Nodes(nodes), faults


def _node(row: Row, faults: list[Fault]) -> Node:
    cells = row.cells
    xname = cells.get("xname", "").lower()
    if xname and not _XNAME.fullmatch(xname):
        faults.append(Fault(row.line, "xname", f"{xname[:40]!r} is no place of a node, such as x9000c3s0b0n0."))
    aliases = (name for name in _ALIASES.split(cells.get("aliases", "")) if name)
    return Node(
        host=cells["host"],
        system=cells.get("system", ""),
        xname=xname,
        nid=_whole(row, "nid", NUMBER_MAX, faults),
        component_id=_whole(row, "component_id", NUMBER_MAX, faults),
        aliases=tuple(dict.fromkeys(aliases)),
        partition=cells.get("partition", ""),
        cores=_whole(row, "cores", COUNT_MAX, faults, low=1),
        sockets=_whole(row, "sockets", COUNT_MAX, faults, low=1),
        power_max_w=_power_w(row, faults),
    )


def _whole(row: Row, field: str, high: int, faults: list[Fault], low: int = 0) -> int | None:
    text = row.cells.get(field)
    if text is None:
        return None
    if not _WHOLE.fullmatch(text) or not low <= int(text) <= high:
        faults.append(Fault(row.line, field, f"must be a whole number of {low} to {high}, not {text[:40]!r}."))
        return None
    return int(text)


def _power_w(row: Row, faults: list[Fault]) -> float | None:
    text = row.cells.get("power_max_w")
    if text is None:
        return None
    try:
        power_w = float(text)
    except ValueError:
        power_w = math.nan
    if not 0.0 < power_w <= POWER_MAX_W:
        faults.append(
            Fault(row.line, "power_max_w", f"must be a power in W of up to {POWER_MAX_W:g}, not {text[:40]!r}.")
        )
        return None
    return power_w


class _Names:
    """Which node each name stands for, by system; one without a system is in all of them."""

    def __init__(self, faults: list[Fault]) -> None:
        self._faults = faults
        self._first: dict[tuple[str, str, str | int], dict[str, tuple[Node, int]]] = {}

    def take(self, node: Node, line: int) -> None:
        """Take the names of a node; those that are another's already are faults."""
        for field, name in _named(node):
            taken = self._first.setdefault(("", _kind(field), name), {})
            other = (
                taken.get(node.system)
                or taken.get("")
                or (next(iter(taken.values()), None) if not node.system else None)
            )
            if other is None:
                taken[node.system] = (node, line)
            elif other[0] is not node:
                sentence = f"{name!r} already stands for {other[0].host} (line {other[1]})."
                self._faults.append(Fault(line, field, sentence))


def _named(node: Node) -> list[tuple[str, str | int]]:
    texts = [("host", node.host), ("xname", node.xname), *(("aliases", alias) for alias in node.aliases)]
    names: list[tuple[str, str | int]] = [(field, text.lower()) for field, text in texts if text]
    names += [("nid", node.nid)] if node.nid is not None else []
    return names + ([("component_id", node.component_id)] if node.component_id is not None else [])


def _kind(field: str) -> str:
    return field if field in ("nid", "component_id") else "name"
