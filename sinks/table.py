"""The local table of predictions: SQLite for programs, JSON lines for scripts without a database."""

import math
import os
import sqlite3
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import NoneType
from typing import Any, Final, get_args

import msgspec

from processors.contracts.outputs import Prediction


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """The prediction for one size of one application, in the units of the message; a row of the table.

    `verdict` is the verdict on this size, and `reliable` whether it is "reliable". `useful_n_max` is the largest useful size,
    `knee_n` the size with the best balance of speed and cost; each may be None. `observations` is the number of runs behind the
    curve. `coverage` is the nominal coverage of the band. `coverage_measured` is the share of `coverage_runs` past runs inside
    their bands; the last two are None until there are enough runs.
    """

    application_id: str
    system: str
    application: str
    input: str
    unit: str
    n: float
    run_time_s: float
    low_s: float
    high_s: float
    coverage: float
    coverage_measured: float | None
    coverage_runs: int | None
    observations: int
    reliable: bool
    verdict: str
    useful_n_max: float | None
    knee_n: float | None
    power_w: float | None
    energy_j: float | None
    as_of: str
    valid_until: str | None


# the fields of a row that have the same name in the message
_OF_APPLICATION: Final = ("system", "application", "input", "unit", "observations", "as_of", "valid_until")
_OF_POINT: Final = (
    "n", "run_time_s", "low_s", "high_s", "coverage", "coverage_measured", "coverage_runs", "reliable", "power_w", "energy_j",
)  # fmt: skip


def rows(application_id: str, prediction: Prediction) -> Iterator[Row]:
    of_application = {name: getattr(prediction, name) for name in _OF_APPLICATION}
    for point in prediction.curve:
        yield Row(
            application_id=application_id,
            verdict=point.reliability.verdict,
            useful_n_max=prediction.useful_n.max,
            knee_n=prediction.useful_n.knee,
            **of_application,
            **{name: getattr(point, name) for name in _OF_POINT},
        )


VERSION: Final = "2"
_NAMES: Final = Row.__struct_fields__
_TYPES: Final = {str: "text", float: "real", int: "integer", bool: "integer"}  # SQLite has no boolean type


def _column(field: msgspec.structs.FieldInfo) -> str:
    kinds = [kind for kind in (*get_args(field.type), field.type) if kind in _TYPES]
    return f"{field.name} {_TYPES[kinds[0]]}{'' if NoneType in get_args(field.type) else ' not null'}"


_COLUMNS: Final = ", ".join(map(_column, msgspec.structs.fields(Row)))
_TABLE: Final = f"""
create table if not exists about (name text primary key, value text not null);
create table if not exists predictions ({_COLUMNS}, primary key (application_id, n));
create index if not exists by_name on predictions (system, application);
"""
_INSERT: Final = f"insert into predictions values ({', '.join('?' * len(_NAMES))})"  # noqa: S608 - of marks alone


class TableWriter:
    """Writes an SQLite file of predictions; each change is one transaction, and readers may read at the same time.

    Raise ValueError for a table of another version.
    """

    def __init__(self, path: Path) -> None:
        self._connection = sqlite3.connect(path, isolation_level=None)
        self._connection.execute("pragma journal_mode = wal")
        self._connection.executescript(_TABLE)
        self._connection.execute("insert or ignore into about values ('version', ?)", (VERSION,))
        (version,) = self._connection.execute("select value from about where name = 'version'").fetchone()
        if version != VERSION:
            self._connection.close()
            raise ValueError(
                f"{path} is a table of version {version}, not {VERSION}. Remove the file to create a new one."
            )

    def change(self, changed: Mapping[str, Sequence[Row] | None], *, whole: bool) -> None:
        """Replace the rows of applications; None removes an application. With `whole`, all other applications are removed, too."""
        self._connection.execute("begin immediate")
        if whole:
            self._connection.execute("delete from predictions")
        for application_id, rows in changed.items():
            self._connection.execute("delete from predictions where application_id = ?", (application_id,))
            self._connection.executemany(_INSERT, [msgspec.structs.astuple(row) for row in rows or ()])
        self._connection.execute("commit")

    def close(self) -> None:
        self._connection.close()


def table_lines(rows: Iterable[Row]) -> bytes:
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


def write_lines(path: Path, rows: Iterable[Row]) -> None:
    """Write rows as JSON lines. Readers see either the whole old file or the whole new file."""
    new = path.with_name(f".{path.name}.new")
    with new.open("wb") as file:
        file.write(table_lines(rows))
        file.flush()
        os.fsync(file.fileno())
    new.replace(path)


class Predictions:
    """Reads the table; each call reads the current file. Raise sqlite3.OperationalError if the table does not exist."""

    def __init__(self, path: Path) -> None:
        self._uri = f"{path.resolve().as_uri()}?mode=ro"

    def applications(self) -> list[tuple[str, str, str, str]]:
        return self._select("select distinct system, application, input, unit from predictions order by 1, 2, 3, 4")

    def curve(self, system: str, application: str, input: str = "", unit: str = "nodes") -> list[Row]:  # noqa: A002
        """Return all sizes of an application, ascending; empty if the application is unknown."""
        selected = self._select(
            f"select {', '.join(_NAMES)} from predictions"  # noqa: S608 - names of our own
            " where system = ? and application = ? and input = ? and unit = ? order by n",
            (system, application, input, unit),
        )
        return [msgspec.convert(dict(zip(_NAMES, row, strict=True)), Row, strict=False) for row in selected]

    def at(self, n: float, system: str, application: str, input: str = "", unit: str = "nodes") -> Row | None:  # noqa: A002
        """Return the prediction at a size, interpolated within the curve; None outside the curve."""
        curve = self.curve(system, application, input, unit)
        above = next((i for i, row in enumerate(curve) if row.n >= n), None)
        if above is None or (above == 0 and curve[0].n > n):
            return None
        return curve[above] if curve[above].n == n else between(curve[above - 1], curve[above], n)

    def _select(self, query: str, values: Sequence[object] = ()) -> list[Any]:
        connection = sqlite3.connect(self._uri, uri=True)
        try:
            return connection.execute(query, values).fetchall()
        finally:
            connection.close()


def between(below: Row, above: Row, n: float) -> Row:
    """Return the row of size `n` between two rows: logarithms are interpolated linearly in ln n, and the verdict is the worse of both."""
    share = math.log(n / below.n) / math.log(above.n / below.n)

    def mixed(low: float | None, high: float | None) -> float | None:
        if low is None or high is None or low <= 0 or high <= 0:
            return None
        return math.exp((1 - share) * math.log(low) + share * math.log(high))

    names = ("run_time_s", "low_s", "high_s", "power_w", "energy_j")
    values = {name: mixed(getattr(below, name), getattr(above, name)) for name in names}
    worse = above if below.reliable else below
    return msgspec.structs.replace(below, n=n, reliable=worse.reliable, verdict=worse.verdict, **values)
