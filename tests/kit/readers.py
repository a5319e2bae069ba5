"""Readers of a centre where access is limited: two users, an operator, a program; each with a token."""

from ipaddress import ip_network
from typing import Final

import httpx
from starlette.applications import Starlette

from processors.contracts.outputs import AlertEvidence
from processors.contracts.service import DeadLetterView, Health, RecentRun, SourceStatus
from sinks.prometheus.registry import Metrics
from sinks.web.access import Access, Reader, Token, token_digest
from sinks.web.server import create_app
from tests.kit.get import get
from tests.kit.messages import about_job, alert, host_view, job, prediction, resource_view
from tests.kit.service import FixedService

ANN: Final = "u-ann"
BOB: Final = "u-bob"
APPLICATION: Final = "archer2/lammps/rhodo/nodes"
TOKENS: Final = {
    "ann": ("token-of-ann-0123456789", Reader(user=ANN)),
    "bob": ("token-of-bob-0123456789", Reader(user=BOB)),
    "operator": ("token-of-operator-0123456789", Reader(operator=True)),
    "prometheus": ("token-of-prometheus-0123456789", Reader()),
}
ANNS_JOB, BOBS_JOB, BOBS_PAST_JOB = "4711", "987654", "876543"
BOBS: Final = (BOB, BOBS_JOB, BOBS_PAST_JOB)  # none of these may reach Ann


def limited(*, metrics_open: bool = False) -> Access:
    """Tokens for all of TOKENS, and a proxy on 10.0.0.0/8 that names users; "root" is an operator."""
    return Access(
        tokens=[Token(token_digest(token.encode()), reader) for token, reader in TOKENS.values()],
        user_header="X-Forwarded-User",
        trusted_proxies=(ip_network("10.0.0.0/8"), ip_network("fd00::/8")),
        operators=frozenset({"root"}),
        written=lambda user: f"u-{user}",
        metrics_open=metrics_open,
    )


def limited_app(service: FixedService, **options: bool) -> Starlette:
    return create_app(service, Metrics(formats=(), reasons=("empty",), processors=()), access=limited(**options))


def get_as(name: str | None, app: Starlette, url: str, method: str = "GET") -> httpx.Response:
    """Ask with the token of someone in TOKENS; without one where the name is None."""
    headers = [] if name is None else [("Authorization", f"Bearer {TOKENS[name][0]}")]
    return get(app, url, method, headers)


def run(job_id: str, user: str | None) -> RecentRun:
    return RecentRun(
        run_id=f"archer2/{job_id}@1795168800000",
        system="archer2",
        job_id=job_id,
        application_id=APPLICATION,
        n=64.0,
        start_ms=1795168800000,
        end_ms=1795170600000,
        run_time_s=1800.0,
        state="COMPLETED",
        user=user,
    )


def centre(*, with_bob: bool = True) -> FixedService:
    """A centre where Ann runs a job, and Bob one beside others of his that ended; or all the same without Bob's."""
    bobs_run, anns_run = run(BOBS_PAST_JOB, BOB), run("4712", ANN)
    since = f" (run {bobs_run.run_id}), 6 runs" if with_bob else " (another user's run), 6 runs"
    differing = f"nid2 has differed from the other hosts of {f'job archer2/{BOBS_JOB}' if with_bob else 'another user' + chr(39) + 's job'} for 6 min."
    series = f"#{BOBS_JOB}" if with_bob else ""
    alerts = [
        alert(
            annotations={"summary": f"lammps takes 1.2 times as long{since}."},
            evidence=AlertEvidence(runs=(anns_run.run_id, *([bobs_run.run_id] if with_bob else []))),
        ),
        alert(
            "f2",
            labels={"alertname": "PeerDifference", "system": "archer2", "host": "nid2"},
            annotations={"summary": differing, "description": f"power_w{series} 300, cpu_available 0.3"},
            evidence=AlertEvidence(detail={"job": f"archer2/{BOBS_JOB}"} if with_bob else {}),
        ),
        alert("f3", status="resolved", ends="2026-11-20T09:30:00Z"),
        about_job("HangingJob", ANNS_JOB, ANN),
        *([about_job("HangingJob", BOBS_JOB, BOB)] if with_bob else []),
    ]
    hosts = [
        host_view("nid1", job=f"archer2/{ANNS_JOB}", resources=(resource_view(), resource_view(f"power_w#{ANNS_JOB}"))),
        host_view(
            "nid2",
            job=f"archer2/{BOBS_JOB}" if with_bob else None,
            resources=(resource_view(), *([resource_view(f"power_w#{BOBS_JOB}")] if with_bob else [])),
        ),
    ]
    dead_letters = [
        DeadLetterView(
            time_ms=0, reason="not-json", detail=f"job {BOBS_JOB} of bob", topic="slurm", partition=0, offset=1
        )
    ]
    return FixedService(
        [prediction(), prediction("nektar", input="")],
        [job(ANNS_JOB, user=ANN), *([job(BOBS_JOB, user=BOB)] if with_bob else [])],
        alerts,
        [Health(role="learner", ready=False, reasons=(f"Broker {BOB if with_bob else ''} is away.",), lag_s=1.0)],
        hosts,
        runs=[anns_run, *([bobs_run] if with_bob else [])],
        dead_letters=dead_letters if with_bob else [],
        sources=[SourceStatus(topic="slurm", events=3, newest_ms=1795168800000)],
    )
