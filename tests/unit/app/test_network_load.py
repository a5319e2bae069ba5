"""From samples of load and bandwidth and from jobs, all of them records, to a prediction that takes the network into account."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from agent.cli import main
from processors.contracts.names import rfc3339
from tests.kit.scenario import moment_ms

PEERS = ("nid8", "nid9")
HOSTS = ("nid1", "nid2", "nid3", "nid4")
NINE_MS = moment_ms("09:00")
BANDWIDTH_B_S = 1e10
STEP_S, GAP_S, RUNS = 60, 420, 40
LAST = "last"


def made(waits: float) -> list[str]:
    """Return the records of runs one after the other, of which a part waits for the network; at last one on hosts with little of it.

    Each meets one load of processors and one of the network from seven minutes before its start on.
    """
    random, now_s, lines = np.random.default_rng(7), 0, []
    for number in range(RUNS + 1):
        cpu, free = random.uniform(0.5, 0.95), random.uniform(0.2, 0.95)
        if number == RUNS:
            cpu, free = 0.75, 0.15
        took_s = round(270 * ((1 - waits) * 0.75 / cpu + waits * 0.5 / free) * float(np.exp(0.02 * random.normal())))
        start_s, job = now_s + GAP_S, LAST if number == RUNS else str(number)
        end_s = start_s + took_s
        lines += [(second, load) for second in range(now_s, end_s, STEP_S) for load in sampled(second, cpu, free)]
        lines.append(
            (
                start_s,
                record(
                    "job.started",
                    start_s,
                    job_id=job,
                    application="cfd",
                    n=4,
                    unit="nodes",
                    hosts=HOSTS,
                    start=at(start_s),
                ),
            )
        )
        if number < RUNS:
            lines.append(
                (
                    end_s,
                    record(
                        "job.completed",
                        end_s,
                        job_id=job,
                        application="cfd",
                        n=4,
                        unit="nodes",
                        start=at(start_s),
                        end=at(end_s),
                        run_time_s=took_s,
                        state="COMPLETED",
                    ),
                )
            )
        now_s = end_s + 10
    return [line for _, line in sorted(lines, key=lambda each: each[0])]


def sampled(second: int, cpu: float, free: float) -> list[str]:
    """Return what hosts measure at a time; bandwidth as NWS does, towards each of two others."""
    found = []
    for host in HOSTS:
        found.append(record("load", second, host=host, resource="cpu_available", value=cpu, time=at(second)))
        for peer in PEERS:
            towards = {"peer": peer} if peer else {}
            found.append(
                record(
                    "load",
                    second,
                    host=host,
                    resource="bandwidth",
                    value=BANDWIDTH_B_S * free,
                    time=at(second),
                    **towards,
                )
            )
    return found


def at(second: float) -> str:
    return rfc3339(NINE_MS + round(second * 1000))


def record(kind: str, _second: int, **fields: Any) -> str:
    return json.dumps({"type": kind, "system": "exa", **fields})


def predicted(tmp_path: Path, lines: list[str]) -> dict[str, Any]:
    path, out = tmp_path / "records.jsonl", tmp_path / "out"
    path.write_text("\n".join(lines))
    shown = CliRunner().invoke(main, ["replay", str(path), "--out", str(out)], catch_exceptions=False)
    assert shown.exit_code == 0, shown.stderr
    messages = map(json.loads, (out / "job-predictions.jsonl").read_text().splitlines())
    found: dict[str, Any] = next(message["value"] for message in messages if message["key"] == f"exa/{LAST}")
    return found


def test_a_job_on_hosts_with_little_bandwidth_is_predicted_to_take_as_long_as_its_like_took_there(
    tmp_path: Path,
) -> None:
    under = predicted(tmp_path, made(0.5))["under_load"]
    assert under["communication_share"] == pytest.approx(0.5, abs=0.12)
    assert under["bandwidth"] == pytest.approx(0.15 * BANDWIDTH_B_S, rel=0.01)
    assert under["q50_s"] == pytest.approx(270 * (0.5 + 0.5 * 0.5 / 0.15), rel=0.12)
