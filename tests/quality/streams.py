"""Anomalies on labelled streams, strictly online, one fixed setting for all.

Single series: the files of the Numenta Anomaly Benchmark, scored as that does (windows, profiles, normalised), by what
fired. Servers of many metrics: best F1 and average precision per point of the combined score on the test days, without
point adjustment. The folder `telemetry` of the data holds both: nab/<category>/<file>.csv, asd/<server>_train.csv.gz.
"""

import csv
import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import numpy.typing as npt

from processors.contracts.alerts import HostAnomaly
from processors.hosts.rate import DailyMaxima, fired
from processors.models.detect.multivariate import CombinedRule
from processors.models.detect.record import RecordRule

if TYPE_CHECKING:
    from tests.quality.tables import Sources

Floats = npt.NDArray[np.float64]
Booleans = npt.NDArray[np.bool_]
Windows = list[tuple[int, int]]
STEP_MS: Final = 300_000
PROFILES: Final = {"standard": (1.0, 0.11), "low FP": (1.0, 0.22), "low FN": (2.0, 0.11)}  # missed window, false alarm


def lines(sources: "Sources") -> Iterator[str]:
    """Yield the table of both collections."""
    folder = sources.data / "telemetry"
    if (folder / "nab").is_dir():
        yield from _single(folder / "nab")
    servers = sorted(path.name.removesuffix("_train.csv.gz") for path in (folder / "asd").glob("*_train.csv.gz"))
    if servers:
        yield f"{'server':12s} {'best F1':>8s} {'average precision':>18s} {'F1 of fired':>12s}"
        figures = [_server(folder / "asd", server) for server in servers]
        for name, row in [*zip(servers, figures, strict=True), ("mean", np.mean(figures, axis=0))]:
            yield f"{name:12s} {row[0]:8.3f} {row[1]:18.3f} {row[2]:12.3f}"


def _single(folder: Path) -> Iterator[str]:
    """Yield the normalised scores over all files that are there."""
    labels = json.loads((folder / "combined_windows.json").read_text())
    files = [_file(folder / name, at) for name, at in sorted(labels.items()) if (folder / name).is_file()]
    fired = [_fired(values, times_ms) for values, times_ms, _ in files]
    windows = sum(len(at) for _, _, at in files)
    found = [nab_points(flags, at, 1.0) for flags, (_, _, at) in zip(fired, files, strict=True)]
    yield f"{len(files)} single series, {windows} windows, {sum(hit for _, hit, _ in found)} found"
    for profile, (missed, alarm) in PROFILES.items():
        worth = sum(
            good - missed * (len(at) - hit) - alarm * bad
            for (good, hit, bad), (_, _, at) in zip(found, files, strict=True)
        )
        yield f"{profile:12s} {100 * (worth + missed * windows) / ((1 + missed) * windows):6.1f}"


def _file(path: Path, at: list[list[str]]) -> tuple[Floats, list[int], Windows]:
    """Return the values, their times, and the labelled windows as rows."""
    rows = list(csv.DictReader(path.open()))
    row = {each["timestamp"]: i for i, each in enumerate(rows)}
    times_ms = [
        round(datetime.fromisoformat(each["timestamp"]).replace(tzinfo=UTC).timestamp() * 1000) for each in rows
    ]
    return np.array([float(each["value"]) for each in rows]), times_ms, [(row[a[:19]], row[b[:19]]) for a, b in at]


def _fired(values: Floats, times_ms: list[int]) -> Booleans:
    rule, at = RecordRule(), np.array([0])
    return np.array([rule.step(at, values[i : i + 1], time_ms).fired[0] for i, time_ms in enumerate(times_ms)])


def nab_points(fired: Booleans, windows: Windows, alarm: float) -> tuple[float, int, float]:
    """Return what the windows found are worth, how many those are, and what the false alarms cost."""
    end = _sigmoid(-1.0)
    probation = min(int(0.15 * fired.size), 750)
    at = np.flatnonzero(fired)
    at = at[at >= probation]
    good, hit, bad = 0.0, 0, 0.0
    for first, last in windows:
        inside = at[(at >= first) & (at <= last)]
        if inside.size:
            good += _sigmoid(-(last - int(inside[0]) + 1) / (last - first + 1)) / end
            hit += 1
    for i in at.tolist():
        before = [(first, last) for first, last in windows if first <= i]
        if not before:
            bad += alarm
        elif i > before[-1][1]:
            first, last = before[-1]
            bad -= alarm * _sigmoid((i - last) / (last - first))
    return good, hit, bad


def _sigmoid(y: float) -> float:
    return -1.0 if y > 3.0 else float(2.0 / (1.0 + np.exp(5.0 * y)) - 1.0)


def _server(folder: Path, server: str) -> tuple[float, float, float]:
    """Return best F1, average precision, and F1 of what fired, on the test days."""
    train, test, labels = (_matrix(folder / f"{server}_{part}.csv.gz") for part in ("train", "test", "test_label"))
    rule, at = CombinedRule(train.shape[1]), np.array([0])
    rows = np.concatenate([train, test])
    maxima, steps, fires = DailyMaxima(), [], []
    for i, row in enumerate(rows):
        steps.append(rule.step(at, row[None, :], i * STEP_MS))
        fires.append(bool(fired(steps[-1], maxima, HostAnomaly().false_per_host_day)[0]))
        maxima.learn(steps[-1].ended)
    steps, fires = steps[len(train) :], fires[len(train) :]
    score, truth = np.array([float(step.score[0]) for step in steps]), labels[:, 0] > 0
    best = max(f1(truth, score >= threshold) for threshold in np.unique(np.quantile(score, np.linspace(0, 1, 1001))))
    return best, average_precision(truth, score), f1(truth, np.array(fires))


def _matrix(path: Path) -> Floats:
    with gzip.open(path, "rt") as text:
        return np.loadtxt(text, delimiter=",", ndmin=2)


def f1(truth: Booleans, prediction: Booleans) -> float:
    """Return the harmonic mean of precision and recall."""
    return float(2.0 * (truth & prediction).sum() / max(truth.sum() + prediction.sum(), 1))


def average_precision(truth: Booleans, score: Floats) -> float:
    """Return the mean of the precision at each recall; equal scores are one step."""
    order = np.argsort(-score, kind="stable")
    last = np.append(np.flatnonzero(np.diff(score[order])), score.size - 1)
    hits = np.cumsum(truth[order])[last]
    return float((np.diff(hits, prepend=0) / max(hits[-1], 1) * hits / (last + 1)).sum())
