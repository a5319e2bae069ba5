"""A week of settled runs as the agent publishes them, of an application whose curve is known: 36,000 s on one node, 1 % serial."""

from typing import Any

import msgspec

from agent.app.compose import encode
from processors.contracts.events import Evidence, JobCompleted
from processors.contracts.names import parse_rfc3339, run_id
from processors.contracts.outputs import CurvePoint, Emission, Prediction, Run, UsefulSizes
from tests.kit.messages import COMMON, curve_point, prediction

ONE_S = 36_000.0
MONDAY = "2026-11-16T00:00:00Z"
KEY = "archer2/lammps/rhodo/nodes"


def run_time_s(n: float) -> float:
    return ONE_S * (0.01 + 0.99 / n)


def curve(**changes: Any) -> Prediction:
    """Efficient to half up to 64 nodes, and to .44 at 128, to .28 at 256; reliable up to 128."""
    points = tuple(_point(2.0**k) for k in range(9))
    return prediction(**({"curve": points, "sizes": tuple(2.0**k for k in range(9))} | changes))


def slowing_curve() -> Prediction:
    """On 128 nodes runs take 1,000 s, on 64 they are fastest with 917 s."""
    points = tuple(_point(2.0**k) if k < 7 else _point(2.0**k, 1000.0) for k in range(8))
    return curve(curve=points, useful_n=UsefulSizes(max=64.0, slower_beyond=64.0))


def _point(n: float, time_s: float | None = None) -> CurvePoint:
    time_s = run_time_s(n) if time_s is None else time_s
    return curve_point(
        n, time_s, low_s=time_s * 0.95, high_s=time_s * 1.05, speedup=ONE_S / time_s, efficiency=ONE_S / time_s / n
    )


def settled(job_id: str, n: float | None = 64.0, time_s: float | None = None, **changes: Any) -> Emission:
    """Return a settled run that ended as long after Monday began as it took; `changes` are of the run, its event or its evidence."""
    fields: dict[str, Any] = {
        "state": "COMPLETED",
        "user": "mary",
        "time_limit_s": 3600.0,
        "application_id": KEY,
        "end": MONDAY,
    } | changes
    time_s = run_time_s(n or 1.0) if time_s is None else time_s
    end_ms = parse_rfc3339(fields["end"]) + round(time_s * 1000)
    start_ms = end_ms - round(time_s * 1000)
    evidence = Evidence(
        sizes={"nodes": n} if n else {}, user=fields["user"], time_limit_s=fields["time_limit_s"], hosts=("nid1",),
        account=fields.get("account"), exclusive=fields.get("exclusive"),
    )  # fmt: skip
    identity = run_id("archer2", job_id, start_ms)
    event = JobCompleted("archer2", job_id=job_id, run_id=identity, start_ms=start_ms, end_ms=end_ms, run_time_s=time_s,
                         state=fields["state"], evidence=evidence, energy_j=fields.get("energy_j"))  # fmt: skip
    whole = COMMON | {"schema": "scalewatch.run/1", "id": identity}
    return encode(Run(**whole, run_id=identity, application_id=fields["application_id"], identified_by=fields.get("identified_by", "application"),
                      confidence=1.0, n=n, run_time_s=time_s, state=fields["state"], event=msgspec.Raw(msgspec.json.encode(event)),
                      identities=(), predicted=fields.get("predicted"), profile=fields.get("profile"), slowed_by=fields.get("slowed_by")))  # fmt: skip
