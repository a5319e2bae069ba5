"""Print how well the combination predicts: with the shipped coefficients, and refitted without the set that is asked."""

import argparse
import hashlib
import json
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from processors.models.combination.coefficients import SHIPPED, Coefficients
from processors.models.combination.gate import Gate
from processors.models.combination.scale import Scale
from tests.quality import score
from tests.quality.curves import Measured, load
from tests.quality.refit import refit

HEADER = "horizon  points | error median balanced   mean | coverage balanced  width | reliable: share median  rest"
VERSION = 1  # of what is fitted; another number forgets the cached folds


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.quality", description=__doc__)
    parser.add_argument("--data", type=Path, required=True, help="folder of CSV files of measured curves")
    parser.add_argument("--cache", type=Path, default=Path(tempfile.gettempdir()) / "scalewatch-quality")
    parser.add_argument("--seconds", type=float, default=300.0, help="stop refitting folds after this long")
    parser.add_argument("--by-set", action="store_true", help="a line for each data set too")
    parser.add_argument("--print-coefficients", action="store_true", help="what a fit to all of the data gives")
    chosen = parser.parse_args(arguments)
    curves = load(chosen.data)
    if not curves:
        parser.error(f"{chosen.data} holds no CSV files of curves")
    cache = _Folds(curves, chosen.cache, time.monotonic() + chosen.seconds)
    if chosen.print_coefficients:
        _say(str(cache.without("")))
        return 0
    within = score.inside(curves)
    shown = chosen.by_set
    _show("shipped coefficients", [*within, *score.beyond(curves, lambda _: SHIPPED, alone=False)], by_set=shown)
    folds = sorted({curve.fold for curve in curves})
    fitted = {fold: cache.without(fold) for fold in folds}
    _show("each set left out", score.beyond(curves, fitted.__getitem__, alone=False), by_set=shown)
    _show("each set left out, a centre of its own", score.beyond(curves, fitted.__getitem__, alone=True), by_set=shown)
    return 0


class _Folds:
    """Coefficients fitted without one fold, kept in files named by the data and the fold."""

    def __init__(self, curves: Sequence[Measured], folder: Path, deadline_s: float) -> None:
        self._curves = curves
        self._folder = folder
        self._deadline_s = deadline_s
        self._data = hashlib.sha256(repr((VERSION, curves)).encode()).hexdigest()[:16]

    def without(self, fold: str) -> Coefficients:
        path = self._folder / f"{self._data}-{fold or 'all'}.json"
        if path.is_file():
            gate, scale, atoms = json.loads(path.read_text())
            prior, curvature, own, last, sibling, alone = gate
            return Coefficients(
                Gate(tuple(prior), tuple(curvature), own, last, sibling, tuple(alone)),
                Scale(*scale),
                tuple(map(tuple, atoms)),
            )
        if time.monotonic() > self._deadline_s:
            raise SystemExit("Refitting took longer than --seconds; what was fitted is cached, run it again.")
        fitted = refit([curve for curve in self._curves if curve.fold != fold])
        self._folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(fitted))
        return fitted


def _show(title: str, answers: Sequence[score.Answer], *, by_set: bool) -> None:
    _say(f"\n{title}\n{HEADER}")
    for name, line in score.table(answers).items():
        _say(_row(name, line))
    if by_set:
        for data_set in sorted({answer.data_set for answer in answers}):
            for name, line in score.table(answer for answer in answers if answer.data_set == data_set).items():
                _say(f"{_row(name, line)}  {data_set}")


def _row(name: str, line: score.Line) -> str:
    return (
        f"{name:8} {line.points:6} | {line.median:12.1f} {line.balanced:8.1f} {line.mean:6.1f} | "
        f"{line.coverage:8.1f} {line.coverage_balanced:8.1f} {line.width:6.2f} | "
        f"{line.reliable_share:15.0f} {line.reliable_median:6.1f} {line.rest_median:5.1f}"
    )


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")


if __name__ == "__main__":
    sys.exit(main())
