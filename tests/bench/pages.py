"""The pages of a large centre over HTTP: processor time until a page has come whole, and its bytes."""

import statistics
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

import msgspec
import numpy as np

from agent.app.embedded import Embedded
from agent.clock import SystemClock
from processors.contracts.events import HostMinute, JobStarted, Origin
from processors.contracts.service import Service
from sinks.web.queries import id_of, link
from sinks.web.server import Server, create_app
from tests.bench import hosts
from tests.bench.result import Row
from tests.bench.workload import TICK_MS, TOPIC, Load, config, events, messages

HOSTS: Final = 10_000
APPLICATIONS: Final = 2_000
JOBS: Final = 20_000  # that run at the end
RUNS_EACH: Final = 8  # of an application, that have ended by then
RUNS_PER_S: Final = 10.0  # in event time: refits keep up
MINUTES: Final = 2  # that each host has measured
REPEATS: Final = 5
CPU_MS_GOAL: Final = 200.0
KB_GOAL: Final = 300.0


def run(*, quick: bool) -> Iterator[Row]:
    """Yield processor time and size of each page, with hosts, applications and running jobs of a large centre."""
    divisor = 10 if quick else 1
    agent = large_centre(HOSTS // divisor, APPLICATIONS // divisor, JOBS // divisor)
    service = agent.service
    shown = f"{len(service.host_names(HOSTS)):,} hosts, {len(service.predictions()):,} applications, {len(service.jobs()):,} jobs"
    try:
        with Server(create_app(service, agent.metrics), "127.0.0.1", 0) as server:
            for path in addresses(service):
                milliseconds, size = _page_cost(server.url + path)
                yield Row(path, milliseconds, "ms", f"processor time of the page; {shown}", CPU_MS_GOAL)
                yield Row(path, size / 1000, "kB", "its bytes, without compression", KB_GOAL)
    finally:
        agent.close()


def addresses(service: Service) -> list[str]:
    """Return the pages that a reader comes by: each list, its searches and its end, and one of each thing."""
    application = link(id_of(service.predictions()[0]))
    job, (system, host) = service.jobs()[0], service.host_names(1)[0]
    return [
        "/",
        "/?search=app0001",
        f"/?application={application}&n=48",
        f"/applications/{application}",
        "/hosts",
        "/hosts?page=200",
        "/hosts?search=nid0099",
        "/hosts?search=allocated",
        f"/hosts/{quote(system)}/{quote(host)}",
        "/jobs",
        "/jobs?search=app0001",
        "/jobs?application=app00001",
        "/jobs?hits_limit=1&sort=end",
        "/jobs?page=300",
        "/jobs?tab=ended",
        "/jobs?tab=ended&outside_band=1",
        f"/users/{quote(service.running()[0].user or '')}",
        f"/projects/{quote(service.running()[0].account or '')}",
        f"/jobs/{quote(job.system)}/{quote(job.job_id)}",
        "/alerts",
        "/alerts?status=resolved",
        "/agent",
        "/runbook",
        "/applications/nothing-of-this-name",
    ]


def large_centre(hosts_count: int, applications: int, jobs: int) -> Embedded:
    """Return an agent that has learned applications and hosts, and follows jobs that run."""
    agent = Embedded(config(), SystemClock())
    now_ms = _learn(agent, Load(applications, applications * RUNS_EACH, rate_per_s=RUNS_PER_S, t1_s=100.0))
    starts = Load(
        applications, jobs, starts=True, rate_per_s=200.0, t1_s=1e5, hosts_max=16, start_ms=now_ms, first_job=10_000_000
    )
    now_ms = _learn(agent, starts)
    now_ms = _ticked(
        agent, now_ms - now_ms % hosts.MINUTE_MS + hosts.MINUTE_MS, now_ms
    )  # minutes that begin within one are dropped
    dice = np.random.default_rng(1)
    level = dice.random((hosts_count, len(hosts.RESOURCES)))
    for minute in range(MINUTES):
        for record in hosts.reported_minute(level, minute, dice):
            if isinstance(record.event, HostMinute) and record.origin is not None:
                agent.write(msgspec.structs.replace(record.event, minute_ms=now_ms), record.origin)
        now_ms = _ticked(agent, now_ms + hosts.MINUTE_MS, now_ms)
    return agent


def _learn(agent: Embedded, load: Load) -> int:
    """Fold the jobs of a load, only their starts where it has starts, and return the time after the last."""
    now_ms = load.start_ms - load.start_ms % TICK_MS
    stream = messages(load)
    for place, (message, event) in enumerate(zip(stream, events(stream), strict=True)):
        if load.starts and not isinstance(event, JobStarted):
            continue
        now_ms = _ticked(agent, message.time_ms, now_ms)
        agent.write(event, Origin(TOPIC, 0, place))
    return _ticked(agent, now_ms + 300_000, now_ms)


def _ticked(agent: Embedded, until_ms: int, now_ms: int) -> int:
    while now_ms + TICK_MS <= until_ms:
        now_ms += TICK_MS
        agent.tick(now_ms)
        agent.step()
    return now_ms


def _page_cost(url: str) -> tuple[float, int]:
    """Return the median of processor time in ms and the bytes of a page; both ends are in this process."""
    times_ms, size = [], 0
    for _ in range(REPEATS):
        began_s = time.process_time()
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:  # noqa: S310 - our own server on loopback
                size = len(answer.read())
        except urllib.error.HTTPError as error:
            size = len(error.read())
        times_ms.append((time.process_time() - began_s) * 1000)
    return statistics.median(times_ms), size
