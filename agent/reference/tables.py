"""A table in CSV with a head line: rows as texts by column, and whatever is wrong with its form."""

import csv
import difflib
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Final

import msgspec

ROWS_MAX: Final = 200_000
FAULTS_MAX: Final = 100
CELL_MAX: Final = 1_024


class Fault(msgspec.Struct, frozen=True):
    """One thing that is wrong: the line (from 1), the column's name (empty: the whole line), and a sentence.

    >>> Fault(3, "nid", "must be a whole number, not 'x'.").field
    'nid'
    """

    line: int
    field: str
    sentence: str


class Row(msgspec.Struct, frozen=True):
    """A line of the table: its number, and its cells that are not empty, by column.

    >>> Row(2, {"host": "nid1"}).cells["host"]
    'nid1'
    """

    line: int
    cells: dict[str, str]


def read_table(text: str, columns: Collection[str], required: Sequence[str], faults: list[Fault]) -> Iterator[Row]:
    r"""Yield the rows of a table; what is wrong is added to `faults`, and such rows are left out.

    Columns are parted by commas, cells may be quoted; lines that are blank or start with ``#`` say nothing. The first
    other line names the columns, of which `required` must be there, and in each row.

    >>> faults = []
    >>> [row.cells for row in read_table("host,nid\n# two\nnid1,\n,2\n", ("host", "nid"), ("host",), faults)]
    [{'host': 'nid1'}]
    >>> faults
    [Fault(line=4, field='host', sentence='is missing.')]
    """
    rows = _rows(text.removeprefix("\ufeff"), faults)
    line, head = next(rows, (1, []))
    names = [name.strip().lower() for name in head]
    wrong = [*_head_faults(line, names, columns, required)]
    faults += wrong
    if wrong:
        return
    for count, (line, cells) in enumerate(rows):
        if count == ROWS_MAX:
            faults.append(Fault(line, "", f"has more than {ROWS_MAX} rows before it."))
            return
        row = Row(line, {name: cell.strip() for name, cell in zip(names, cells, strict=False) if cell.strip()})
        wrong = [*_row_faults(row, len(cells), names, required)]
        faults += wrong
        if not wrong:
            yield row


def _rows(text: str, faults: list[Fault]) -> Iterator[tuple[int, list[str]]]:
    reader = csv.reader(_lines(text), strict=True)
    try:
        for cells in reader:
            if any(cell.strip() for cell in cells):
                yield reader.line_num, cells
    except csv.Error as error:
        faults.append(Fault(reader.line_num, "", f"this is not CSV: {error}."))


def _lines(text: str) -> Iterable[str]:
    """Return the lines, comments as blank ones, so that they keep their numbers."""
    return ("" if line.lstrip().startswith("#") else line for line in text.splitlines())


def _head_faults(line: int, names: list[str], columns: Collection[str], required: Sequence[str]) -> Iterator[Fault]:
    if not names:
        yield Fault(line, "", f"the file is empty; its first line names the columns: {', '.join(columns)}.")
        return
    for name in dict.fromkeys(names):
        if name not in columns:
            close = difflib.get_close_matches(name, columns, n=1)
            hint = f"did you mean {close[0]}?" if close else f"use {', '.join(columns)}."
            yield Fault(line, name[:40], f"is no column of this file; {hint}")
        elif names.count(name) > 1:
            yield Fault(line, name, "names two columns.")
    for name in required:
        if name not in names:
            yield Fault(line, name, "is missing among the columns.")


def _row_faults(row: Row, cells: int, names: list[str], required: Sequence[str]) -> Iterator[Fault]:
    if cells > len(names):
        yield Fault(row.line, "", f"has {cells} cells, but there are {len(names)} columns.")
    for name, cell in row.cells.items():
        if len(cell) > CELL_MAX or not cell.isprintable():
            yield Fault(row.line, name, f"is longer than {CELL_MAX} characters, or has control characters.")
    for name in required:
        if name not in row.cells:
            yield Fault(row.line, name, "is missing.")
