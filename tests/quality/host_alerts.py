"""Alerts about hosts on measured load: how rare they are where nothing is known to be wrong, and what faults get one.

    python -m tests.quality.host_alerts FOLDER

The load of virtual machines over a month, and servers of nineteen metrics with labelled faults; the folder `telemetry` of
the data holds both (bitbrains/<machine>.csv.gz, asd/<server>_test.csv.gz). A value every five minutes stands for a
minute. All goes through the alerts of hosts as they are, each machine a system of its own. Thresholds were chosen on
every other machine and server, and are reported the rest.
"""

import csv
import gzip
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from processors.alerts.rules import HOST_ANOMALY
from processors.contracts.alerts import AlertSettings
from processors.contracts.outputs import Alert
from processors.contracts.settings import JobSettings, RunTimeSettings
from processors.hosts.jobs import HostJobs
from processors.hosts.windows import MinuteBatch
from processors.pipeline.host_alerts import HostAlerts
from processors.pipeline.host_state import HostShardState
from processors.pipeline.state import FoldSettings

SLOT_MS = 300_000
DAY_MS = 86_400_000
LEARN_DAYS = AlertSettings().host_anomaly.learn_s * 1000 / DAY_MS  # in which no host has an alert
STEPS = 6
LOADS = (3, 6, 7, 8, 9, 10)  # columns of a machine's file: CPU, memory, disk and network as they are used
Floats = npt.NDArray[np.float64]


class Measured(NamedTuple):
    """The values (times, resources) of a host, and the slot of five minutes of each."""

    slot: npt.NDArray[np.int64]
    values: Floats


class Judged(NamedTuple):
    """An alert of a host: the first slot and the last in which something was found."""

    host: str
    first: int
    last: int


def alerts(hosts: Mapping[str, Measured], settings: AlertSettings | None = None) -> list[Judged]:
    """Return the alerts of all hosts."""
    chosen = settings or AlertSettings()
    state = HostShardState(FoldSettings(JobSettings(), RunTimeSettings(), chosen, "quality"))
    part, found = HostAlerts(state, HostJobs(state)), list[tuple[int, Alert]]()
    slots = sorted({int(slot) for host in hosts.values() for slot in host.slot})
    steps = {
        name: np.split(np.arange(host.slot.size), np.flatnonzero(np.diff(host.slot)) + 1)
        for name, host in hosts.items()
    }
    places = {(name, int(hosts[name].slot[at[0]])): at for name, parts in steps.items() for at in parts}
    for slot in slots:
        batches = [
            _minute(state, name, hosts[name], places[name, slot], slot) for name in hosts if (name, slot) in places
        ]
        part.take(MinuteBatch(*(np.concatenate([batch[k] for batch in batches]) for k in range(4))))
        for later_ms in (130_000, 200_000, 270_000):
            before_ms, state.now_ms = state.now_ms, slot * SLOT_MS + later_ms
            found += [(state.now_ms, message) for message in part.tick(before_ms) if isinstance(message, Alert)]
    return _judged(found, slots[-1], round(chosen.host_anomaly.keep_firing_s * 1000))


def _minute(state: HostShardState, name: str, host: Measured, at: npt.NDArray[np.intp], slot: int) -> MinuteBatch:
    """Return the values of a slot as one minute, each a step of its own."""
    resources = host.values.shape[1]
    rows = [state.index.enter(name, name, f"r{k:02d}", slot * SLOT_MS) for k in range(resources)]
    own = np.array([row or (-1, -1) for row in rows], np.intp)
    means = np.full((resources, STEPS), np.nan)
    means[:, : min(at.size, STEPS)] = host.values[at[:STEPS]].T
    return MinuteBatch(own[:, 0], own[:, 1], np.full(resources, slot * SLOT_MS), means)


def _judged(found: list[tuple[int, Alert]], end: int, keep_ms: int) -> list[Judged]:
    """Return alerts from firing to what was found last."""
    reported, fired = list[Judged](), dict[str, int]()
    for time_ms, message in found:
        if message.labels["alertname"] != HOST_ANOMALY.name:
            continue
        if message.status == "firing":
            fired[message.labels["host"]] = time_ms // SLOT_MS
        elif message.status == "resolved":
            host = message.labels["host"]
            reported.append(Judged(host, fired.pop(host), max((time_ms - keep_ms) // SLOT_MS, 0)))
    return reported + [Judged(host, first, end) for host, first in fired.items()]


def segments(labels: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    """Return where labels are set, each from its first place to before its end.

    >>> segments(np.array([True, False, True, True]))
    [(0, 1), (2, 4)]
    """
    edges = np.flatnonzero(np.diff(np.r_[0, labels.astype(int), 0])).tolist()
    return list(zip(edges[::2], edges[1::2], strict=True))


def hits(reported: list[Judged], faults: list[tuple[int, int]]) -> tuple[int, int]:
    """Return how many faults have an alert, and how many alerts have no fault; one slot late is in time.

    >>> hits([Judged("a", 5, 6), Judged("a", 90, 91)], [(3, 5), (20, 30)])
    (1, 1)
    """
    found = sum(any(one.first <= stop and one.last >= start for one in reported) for start, stop in faults)
    false = sum(not any(one.first <= stop and one.last >= start for start, stop in faults) for one in reported)
    return found, false


def machines(folder: Path) -> dict[str, Measured]:
    """Return the machines in a folder of GWA-T-12 files."""
    found = {}
    for path in sorted(folder.glob("*.csv.gz"), key=lambda each: each.name.zfill(20)):
        with gzip.open(path, "rt") as file:
            rows = np.array([[float(cell) for cell in row] for row in list(csv.reader(file, delimiter=";"))[1:]])
        slot = rows[:, 0].astype(np.int64) * 1000 // SLOT_MS
        found[path.name.split(".")[0]] = Measured(slot - slot.min(), rows[:, LOADS])
    return found


def servers(folder: Path) -> tuple[dict[str, Measured], dict[str, tuple[int, list[tuple[int, int]]]]]:
    """Return servers, and of each where its labelled part begins and its faults in that."""
    hosts, faults = {}, {}
    for path in sorted(folder.glob("*_train.csv.gz")):
        name = path.name.removesuffix("_train.csv.gz")
        train, test, labels = (_matrix(folder / f"{name}_{part}.csv.gz") for part in ("train", "test", "test_label"))
        values = np.concatenate([train, test])
        hosts[name] = Measured(np.arange(len(values)), values)
        faults[name] = len(train), [(a + len(train), b + len(train)) for a, b in segments(labels[:, 0] > 0)]
    return hosts, faults


def _matrix(path: Path) -> Floats:
    with gzip.open(path, "rt") as text:
        return np.loadtxt(text, delimiter=",", ndmin=2)


def table(folder: Path) -> Iterator[str]:
    """Yield both halves of both collections."""
    if (folder / "bitbrains").is_dir():
        hosts = machines(folder / "bitbrains")
        reported = alerts(hosts)
        for half, names in _halves(hosts):
            days = sum(float(np.ptp(hosts[name].slot)) * SLOT_MS / DAY_MS - LEARN_DAYS for name in names)
            count = sum(one.host in names for one in reported)
            yield f"{half:5}: {len(names)} machines, {days:.0f} days: {count} alerts, {count / days:.3f} per host and day"
    if (folder / "asd").is_dir():
        hosts, faults = servers(folder / "asd")
        reported = alerts(hosts)
        for half, names in _halves(hosts):
            counts, days = np.zeros(3, int), 0.0
            for name in names:
                start, own = faults[name]
                found = hits([one for one in reported if one.host == name and one.first >= start], own)
                counts += (*found, len(own))
                days += (len(hosts[name].slot) - start) * SLOT_MS / DAY_MS
            yield (
                f"{half:5}: servers {', '.join(names)}: {counts[0]} of {counts[2]} faults have an alert, "
                f"{counts[1] / days:.3f} false alerts per host and day"
            )


def _halves(hosts: Mapping[str, Measured]) -> Iterator[tuple[str, list[str]]]:
    names = list(hosts)
    yield "chose", names[::2]
    yield "tells", names[1::2]


if __name__ == "__main__":
    for line in table(Path(sys.argv[1])):
        sys.stdout.write(f"{line}\n")
