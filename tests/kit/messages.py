"""Real output messages for tests: every argument has a plausible value that a test may replace."""

from collections.abc import Iterable
from typing import Any

import msgspec

from processors.contracts.hosts import HostView, HostWindow, ResourceForecast, ResourceView
from processors.contracts.load import LoadHistogram, UnderLoad
from processors.contracts.names import ApplicationKey, parse_rfc3339
from processors.contracts.outputs import (
    Alert,
    AlertEvidence,
    CurvePoint,
    Explained,
    HostReport,
    JobPrediction,
    Member,
    Model,
    PowerQuality,
    Prediction,
    ProfileModel,
    Quality,
    Range,
    Reliability,
    UsefulSizes,
)

COMMON: dict[str, Any] = {
    "schema": "scalewatch.test/1",
    "time": "2026-11-20T10:00:00Z",
    "as_of": "2026-11-20T10:00:00Z",
    "agent_version": "0.1.0",
}


def curve_point(n: float, run_time_s: float, **changes: Any) -> CurvePoint:
    values: dict[str, Any] = {
        "low_s": run_time_s * 0.9,
        "high_s": run_time_s * 1.1,
        "coverage": 0.9,
        "coverage_measured": 0.92,
        "speedup": 1000.0 / run_time_s,
        "efficiency": 1000.0 / run_time_s / n,
        "extrapolation": max(1.0, n / 64),
        "source": "observed" if n <= 64 else "extrapolated",
        "reliability": Reliability("reliable" if n <= 128 else "uncertain"),
    }
    return CurvePoint(n=n, run_time_s=run_time_s, **(values | changes))


def curve() -> tuple[CurvePoint, ...]:
    """Amdahl's law with a serial share of one per cent, 1000 s at one node."""
    return tuple(curve_point(2.0**k, 10.0 + 990.0 / 2**k) for k in range(9))


def powered_curve(watts: float = 400.0) -> tuple[CurvePoint, ...]:
    """The same curve, where each node draws so many watts: least energy at one node, least energy-delay at 99."""
    return tuple(
        msgspec.structs.replace(
            point,
            power_w=watts * point.n,
            power_low_w=0.95 * watts * point.n,
            power_high_w=1.05 * watts * point.n,
            energy_j=watts * point.n * point.run_time_s,
            energy_low_j=0.9 * watts * point.n * point.run_time_s,
            energy_high_j=1.1 * watts * point.n * point.run_time_s,
        )
        for point in curve()
    )


def power_fields() -> dict[str, Any]:
    """What a prediction tells where profiles of runs with power are known: arguments for `prediction`."""
    counters = (
        Explained("PAPI_TOT_INS", 2.5e-8, 0.81, 0.93, 16.2, 0.79),
        Explained("PAPI_L3_TCM", -1.1e-7, -0.22, -0.35, -4.4, 0.21),
    )
    return {
        "curve": powered_curve(),
        "useful_n": UsefulSizes(
            max=192.0, knee=96.0, at_half_efficiency=80.0, least_energy=1.0, least_energy_delay=64.0
        ),
        "power": PowerQuality(scored=30, median_error=0.021, coverage_90=0.93, measured=0.75, estimated=0.25),
        "profiles": (
            ProfileModel(
                target="system_power_w",
                model="blend",
                runs=40,
                scored=30,
                median_error=0.012,
                coverage_90=0.9,
                explained=counters,
            ),
            ProfileModel(target="run_time_s", model="blend", runs=40, scored=0),
        ),
    }


def judged(points: Iterable[CurvePoint], reliable_n: Range | None) -> tuple[CurvePoint, ...]:
    """Return the points, of which those in a range of sizes are reliable, and no others."""
    return tuple(
        msgspec.structs.replace(
            point,
            reliability=Reliability(
                "reliable" if reliable_n is not None and reliable_n.min <= point.n <= reliable_n.max else "uncertain"
            ),
        )
        for point in points
    )


def prediction(application: str = "lammps", **changes: Any) -> Prediction:
    """Return a prediction; a `reliable_n` of the caller decides the verdicts of the points as well."""
    values: dict[str, Any] = {
        "application": application,
        "system": "archer2",
        "input": "rhodo",
        "unit": "nodes",
        "observations": 41,
        "sizes": tuple(2.0**k for k in range(7)),
        "model": Model(name="bayes", members=(Member("downey", 1.0, {"A": 118.2, "sigma": 0.41, "t1_s": 1000.0}),)),
        "curve": curve(),
        "useful_n": UsefulSizes(max=192.0, knee=96.0, at_half_efficiency=80.0),
        "reliable_n": Range(1.0, 128.0),
        "preferred_n": None,
        "reliability": Reliability("reliable"),
        "quality": Quality(scored=37, median_error=0.031, coverage_90=0.91, bias=0.002),
    } | changes
    if "reliable_n" in changes:
        values["curve"] = judged(values["curve"], values["reliable_n"])
    key = ApplicationKey(values["application"], values["system"], values["input"], values["unit"])
    return Prediction(**(COMMON | {"schema": "scalewatch.prediction/1"} | {"id": key.id} | values))


def job(job_id: str = "812", **changes: Any) -> JobPrediction:
    values: dict[str, Any] = {
        "id": f"archer2/{job_id}",
        "system": "archer2",
        "job_id": job_id,
        "application": "lammps",
        "input": "rhodo",
        "unit": "nodes",
        "n": 64.0,
        "start": "2026-11-20T10:00:00Z",
        "time_limit_s": 7200.0,
        "known": True,
        "run_time_s": 1872.0,
        "low_s": 1700.0,
        "high_s": 2050.0,
        "coverage": 0.9,
        "end": "2026-11-20T10:31:12Z",
        "end_low": "2026-11-20T10:28:20Z",
        "end_high": "2026-11-20T10:34:10Z",
        "probability_exceeds_limit": 0.01,
        "reliability": Reliability("reliable"),
    }
    return JobPrediction(**(COMMON | {"schema": "scalewatch.job-prediction/1"} | values | changes))


def alert(fingerprint: str = "f1", **changes: Any) -> Alert:
    values: dict[str, Any] = {
        "id": fingerprint,
        "fingerprint": fingerprint,
        "status": "firing",
        "kind": "anomaly",
        "severity": "warning",
        "labels": {
            "alertname": "SlowSize",
            "system": "archer2",
            "application": "lammps",
            "input": "rhodo",
            "unit": "nodes",
        },
        "annotations": {"summary": "lammps is 50 % slower at 16 nodes than its curve says."},
        "starts": "2026-11-20T09:00:00Z",
        "ends": None,
        "evidence": AlertEvidence(observed=108.0, expected=71.9, low=65.0, high=79.0, n=16.0, runs=("archer2/7@1",)),
    }
    return Alert(**(COMMON | {"schema": "scalewatch.alert/1"} | values | changes))


def about_job(name: str, job_id: str, user: str, **changes: Any) -> Alert:
    """Return an alert about a running job, with the fingerprint f and the id of the job."""
    labels = {"alertname": name, "system": "archer2", "job": job_id, "user": user, "application": "lammps"}
    figures = AlertEvidence(
        observed=18_000.0, expected=270.0, low=260.0, high=280.0, n=4.0, runs=(f"archer2/{job_id}@1",)
    )
    return alert(f"f{job_id}", **({"labels": labels, "evidence": figures} | changes))


def host_report(host: str = "nid1", **changes: Any) -> HostReport:
    window = HostWindow(1_795_168_800_000, (0.8, 0.85, 0.9), (0.5, 0.5), count=30, mean=0.85, low=0.81, high=0.88)
    forecast = ResourceForecast(0.85, 0.02, "last", 0.8, 0.84, 0.85, 0.86, 0.9)
    values: dict[str, Any] = {
        "id": f"archer2/{host}@1795168800000",
        "system": "archer2",
        "host": host,
        "state": "up",
        "job": "archer2/812",
        "resources": (ResourceView("cpu_available", window, "low", forecast, 0.1),),
    }
    return HostReport(**(COMMON | {"schema": "scalewatch.host/1"} | values | changes))


def under_load(**changes: Any) -> UnderLoad:
    values: dict[str, Any] = {
        "as_of": "2026-11-20T10:00:00Z",
        "hosts": "partition standard",
        "hosts_count": 64.0,
        "n": 64.0,
        "looked_at": 64,
        "missing": 2,
        "histogram": LoadHistogram((20.0, 25.0, 30.0, 35.0, 40.0, 45.0), (0.1, 0.5, 0.2, 0.1, 0.1)),
        "mean_s": 30.0,
        "q05_s": 22.5,
        "q50_s": 29.0,
        "q95_s": 42.5,
        "variation": "medium",
        "load": 1.25,
    }
    return UnderLoad(**(values | changes))


def host_window(**changes: Any) -> HostWindow:
    values: dict[str, Any] = {
        "until_ms": parse_rfc3339("2026-11-20T10:00:00Z"),
        "edges": (0.5, 0.6, 0.7, 0.8, 0.9, 1.0),
        "shares": (0.1, 0.1, 0.2, 0.4, 0.2),
        "count": 30,
        "mean": 0.8,
        "low": 0.5,
        "high": 1.0,
    }
    return HostWindow(**(values | changes))


def resource_view(resource: str = "cpu_available", **changes: Any) -> ResourceView:
    values: dict[str, Any] = {
        "window": host_window(),
        "variation": "high",
        "forecast": ResourceForecast(0.83, 0.02, "mean of 5", 0.79, 0.82, 0.83, 0.84, 0.86),
        "score": 0.25,
    }
    return ResourceView(resource, **(values | changes))


def host_view(host: str = "nid001000", **changes: Any) -> HostView:
    values: dict[str, Any] = {
        "system": "archer2",
        "as_of": "2026-11-20T10:00:20Z",
        "job": "archer2/812",
        "resources": (resource_view(),),
        "score": 0.1,
    }
    return HostView(host=host, **(values | changes))
