"""Archives of ClusterCockpit, written as its backend writes them: a folder per job, in a tree by cluster, id and start."""

import gzip
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Values = Sequence[float | None]
START_S = 1_795_168_800  # 2026-11-20T10:00:00Z


def job(folder: Path, number: int = 1, *, start_s: int = START_S, minutes: int = 10, hosts: Sequence[str] = ("e1", "e2"),
        metrics: Mapping[str, Any] | None = None, **more: Any) -> Path:  # fmt: skip
    """Write a job that completed, and return its folder; `metrics` as in `data.json`, none: no such file."""
    place = folder / "emmy" / f"{number // 1000}" / f"{number % 1000:03}" / str(start_s)
    place.mkdir(parents=True)
    meta = {
        "jobId": number, "cluster": "emmy", "subCluster": "haswell", "partition": "work", "user": "u1", "project": "p1",
        "numNodes": len(hosts), "exclusive": 1, "walltime": 86400, "jobState": "completed", "startTime": start_s,
        "duration": 60 * minutes, "resources": [{"hostname": host} for host in hosts], "metaData": {"jobName": "solver"},
    }  # fmt: skip
    (place / "meta.json").write_text(json.dumps({**meta, **more}))
    if metrics is not None:
        with gzip.open(place / "data.json.gz", "wt") as file:
            json.dump(metrics, file)
    return place


def metric(
    values: Mapping[str, Values], *, scope: str = "node", step_s: float = 60, prefix: str = "", base: str = "W"
) -> dict[str, Any]:
    """Return a metric at one scope: values by host, or by `host:part`."""
    series = []
    for name, data in values.items():
        host, _, part = name.partition(":")
        series.append({"hostname": host, "data": list(data)} | ({"id": part} if part else {}))
    return {scope: {"timestep": step_s, "unit": {"base": base, "prefix": prefix}, "series": series}}
