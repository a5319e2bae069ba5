"""Print the tables of prediction quality: `python -m tests.quality --data FOLDER [--only NAME ...]`."""

import argparse
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.quality.folds import OutOfTimeError
from tests.quality.tables import TABLES, Sources, Table


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.quality",
        description=__doc__,
        epilog="\n".join(f"{name:10} {table.about}" for name, table in TABLES.items()),
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--data", type=Path, required=True, help="folder of CSV files of curves, or with scaling in it")
    parser.add_argument("--only", action="append", choices=sorted(TABLES), help="this table; may come again")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "scalewatch-quality")
    parser.add_argument("--seconds", type=float, help="for each table instead of its own bound")
    parser.add_argument("--by-set", action="store_true", help="a line for each data set too")
    parser.add_argument(
        "--shipped", action="store_true", help="the coefficients as shipped, instead of each set left out"
    )
    parser.add_argument("--worlds", default="*", help="those to ask, such as first4,minus*,loo1; all without it")
    parser.add_argument("--workers", type=int, default=1, help="worlds that are asked at the same time")
    parser.add_argument("--print-coefficients", action="store_true", help="what a fit to all of the data gives")
    chosen = parser.parse_args(arguments)
    sources = Sources(
        chosen.data,
        chosen.cache,
        by_set=chosen.by_set,
        shipped=chosen.shipped,
        worlds=chosen.worlds.split(","),
        workers=chosen.workers,
    )
    if not sources.curves:
        parser.error(f"{chosen.data} holds no CSV files of curves")
    if chosen.print_coefficients:
        _report(str(sources.folds.without("")))
        return 0
    names = [name for name in TABLES if not chosen.only or name in chosen.only]
    done = [_show(names, i, TABLES[name], sources, chosen.seconds) for i, name in enumerate(names)]
    return 0 if all(done) else 1


def _show(names: Sequence[str], i: int, table: Table, sources: Sources, seconds: float | None) -> bool:
    sources.seconds = seconds or table.seconds
    began_s = time.monotonic()
    sources.folds.deadline_s = began_s + sources.seconds
    sys.stderr.write(f"[{i + 1}/{len(names)}] {names[i]}, at most {sources.seconds:.0f} s\n")
    _report(f"\n{names[i]}: {table.about}")
    try:
        for line in _in_time(table.lines(sources), sources.folds.deadline_s):
            _report(line)
    except OutOfTimeError as error:
        _report(f"stopped after {sources.seconds:.0f} s: {error}")
        return False
    sys.stderr.write(f"{names[i]} took {time.monotonic() - began_s:.0f} s\n")
    return True


def _in_time(lines: Iterator[str], deadline_s: float) -> Iterator[str]:
    for line in lines:
        yield line
        if time.monotonic() > deadline_s:
            raise OutOfTimeError("what is above is all there was time for")


def _report(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
