"""What commands print: tables of text in columns, or JSON."""

from collections.abc import Sequence

import click

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return the rows below their head, every column as wide as its widest cell; numbers stand on the right.

    >>> print(table(("name", "jobs"), [("lammps", "12"), ("gromacs", "3")]))
    name     jobs
    lammps     12
    gromacs     3
    """
    lines = [[str(cell) for cell in row] for row in (head, *rows)]
    widths = [max(len(row[column]) for row in lines) for column in range(len(head))]
    right = [bool(rows) and all(_is_number(row[column]) for row in rows) for column in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if is_right else cell.ljust(width)
            for cell, width, is_right in zip(row, widths, right, strict=True)
        ).rstrip()
        for row in lines
    )


def _is_number(text: str) -> bool:
    return text.replace(".", "", 1).removeprefix("-").isdigit()
