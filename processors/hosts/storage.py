"""How rows are stored: blocks of them, one state of a checkpoint each, so that none is too large for a broker."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from processors.contracts.errors import ConfigError
from processors.hosts.rows import Kept, Numbered, Roster

ROWS_MAX: Final = 4_000_000  # twice what a configuration may ask for
HEAL: Final = "run `scalewatch rebuild`: it lets what is learned of hosts begin anew."


class Block(msgspec.Struct, frozen=True, omit_defaults=True):
    """Stored form of some rows: their numbers as plain little-endian bytes, and of the numbering itself the names.

    A name is the row, the host's system or the row of the host, and the host or the resource.
    """

    version: int
    data: bytes
    names: list[tuple[int, str | int, str]] = []


class BlockCopy(NamedTuple):
    """Some rows as they are now: what is encoded later, in any thread, because that takes longer."""

    version: int
    data: bytes
    first: int
    keys: Sequence[tuple[str | int, str] | None]

    def encoded(self) -> bytes:
        """Return the stored form as JSON."""
        names = [(row, *key) for row, key in enumerate(self.keys, self.first) if key is not None]
        return msgspec.json.encode(Block(self.version, self.data, names))


def copied(numbered: Numbered[Any]) -> dict[str, BlockCopy]:
    """Return a copy of all blocks that have a row in use, by their keys."""
    found: dict[str, BlockCopy] = {}
    for first in range(0, numbered.numbers.end, numbered.block):
        last, keys = first + numbered.block, numbered.numbers.keys(first, first + numbered.block)
        if keys.count(None) == len(keys):
            continue
        found[_key(numbered, first // numbered.block)] = BlockCopy(
            numbered.version, numbered.stored(first, last), first, keys
        )
        for columns in numbered.columns:
            stored = columns.stored(first, last)
            found[_key(columns, first // numbered.block)] = BlockCopy(columns.version, stored, first, ())
    return found


def restore(roster: Roster, states: Mapping[str, bytes]) -> None:
    """Put blocks back, given by their keys; ConfigError where they are damaged or of a newer agent.

    Columns of which an older version is stored, or nothing, begin anew. Where the numbering does, everything does.
    """
    known = [kept for each in (roster.hosts, roster.series) for kept in (each, *each.columns)]
    usable = decoded(states, {kept.name: kept.version for kept in known})
    try:
        roster.fill(
            [(row, (str(system), name)) for row, system, name in _names(roster.hosts, usable)],
            [(row, (int(host), resource)) for row, host, resource in _names(roster.series, usable)],
        )
        for numbered in (roster.hosts, roster.series):
            _fill(numbered, usable)
    except ValueError as error:
        raise ConfigError(f"The stored states of hosts are damaged ({error}): {HEAL}") from error


def _names(numbered: Numbered[Any], blocks: Mapping[str, Block]) -> Iterator[tuple[int, str | int, str]]:
    for key, block in blocks.items():
        kind, _, number = key.partition("/")
        if kind != numbered.name:
            continue
        for name in block.names:
            if name[0] // numbered.block != int(number) or not 0 <= name[0] < ROWS_MAX:
                raise ValueError(f"row {name[0]} stands in {key}")
            yield name


def _fill(numbered: Numbered[Any], blocks: Mapping[str, Block]) -> None:
    for number in sorted({row // numbered.block for row, _ in numbered.numbers}):
        for columns in (numbered, *numbered.columns):
            block = blocks.get(_key(columns, number))
            if block is not None:
                columns.restore(number * numbered.block, (number + 1) * numbered.block, block.data)


def decoded(states: Mapping[str, bytes], versions: Mapping[str, int]) -> dict[str, Block]:
    """Return the blocks of the kinds and versions that are known; ConfigError where they are damaged or of a newer agent."""
    found: dict[str, Block] = {}
    for key, value in states.items():
        version, block = versions[key.partition("/")[0]], _decoded(key, value)
        if block.version > version:
            raise ConfigError(
                f"The stored state {key} was written by a newer agent, in version {block.version} where this one knows "
                f"{version}: start that agent again, or {HEAL}"
            )
        if block.version == version:
            found[key] = block
    return found


def _key(kept: Kept, number: int) -> str:
    return f"{kept.name}/{number}"


def _decoded(key: str, value: bytes) -> Block:
    try:
        return msgspec.json.decode(value, type=Block)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"The stored state {key} is damaged ({error}): {HEAL}") from error
