"""Runs that ended, and what was reported them under the load of their hosts."""

from processors.contracts.load import LoadHistogram, UnderLoad
from processors.facts import PublishedPoint
from processors.load.runs import LoadedRun, SeenLoad, StartLoad


def loaded_run(i: int) -> LoadedRun:
    """Return the i-th run of an application: its time lies in any interval or beyond all, in one of many partitions."""
    run_time_s = 100.0 + 1.7 * (i % 100)
    edges = tuple(110.123456 + 20.654321 * part for part in range(6))
    reported = LoadHistogram(edges, (0.123456789, 0.2, 0.3, 0.2, 0.176543211)) if i % 7 else None
    band = PublishedPoint(4.0, 150.5, 101.25, 190.125) if i % 5 else None
    name = f"partition-{i % 20:02d}-" + "x" * 48
    output = UnderLoad(
        as_of="",
        hosts="nid[1-4]",
        hosts_count=4.0,
        n=4.0 + i % 3,
        histogram=reported,
        q05_s=120.0,
        q50_s=150.0 + i % 3,
        q95_s=190.0,
        load=1.0 + 0.013 * (i % 9),
    )
    start = StartLoad("exa/lammps//nodes", "own", output, band, 1.5 + 0.01 * (i % 3), name)
    own, pool = start.load_seen("own"), start.load_seen("pool")
    seen = SeenLoad("own", "window", own.load, 1.0517), SeenLoad("pool", "window", pool.load, 1.3)
    return LoadedRun(start, run_time_s, seen)
