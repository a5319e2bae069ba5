"""`scalewatch demo`: the whole agent at work, without a broker."""

import gc
import threading

import click

from agent.app.demo import Demo
from agent.cli.options import stopped_by_signals
from agent.clock import SystemClock
from sinks.prometheus.predictions import JobCollector, PredictionCollector
from sinks.prometheus.registry import HealthCollector, HostCollector
from sinks.terminal import Screen
from sinks.web.server import Server, create_app
from sinks.web.views.agent import faults

HOSTS_MAX = 40


@click.command
@click.option("--duration", type=click.FloatRange(min=0, min_open=True), default=None, metavar="SECONDS",
              help="End after this long; by default at Ctrl-C.")  # fmt: skip
@click.option("--seed", type=int, default=1, show_default=True, help="Another seed, another history of the centre.")
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="Where the page is served; in a container 0.0.0.0, for there is no log-in.")  # fmt: skip
@click.option("--port", type=click.IntRange(0, 65_535), default=8080, show_default=True, help="0 takes a free port.")
@click.option("--speed", type=click.FloatRange(min=1, max=100_000), default=None, metavar="FACTOR",
              help="Fast motion: so many simulated seconds per second, without this machine.")  # fmt: skip
def command(duration: float | None, seed: int, host: str, port: int, speed: float | None) -> None:
    """Show the agent at work on a simulated centre with a dozen applications whose truth is known.

    The centre began eight hours ago. These pass as fast as this machine can, and from then on things are shown as they
    happen; the load of this machine lives beside it. Everything is in this process and nothing is kept. The page, the metrics and the
    API are on http://ADDRESS:PORT. Ctrl-C ends it.
    """
    stop = stopped_by_signals()
    demo = Demo(seed, speed, SystemClock())
    service, metrics = demo.service, demo.agent.metrics
    metrics.register(HealthCollector(service))
    metrics.register(PredictionCollector(service, now_ms=lambda: demo.now_ms))
    metrics.register(JobCollector(service, now_ms=lambda: demo.now_ms))
    metrics.register(HostCollector(service, HOSTS_MAX))
    with Server(create_app(service, metrics, demo.truth), host, port) as server:
        click.echo(f"The simulated centre begins; its pages are on {server.url}. Ctrl-C ends it.")
        screen = Screen(service, demo.truth, lambda: f"{demo.headline()}   {server.url}", lambda: faults(metrics))
        worker = threading.Thread(target=demo.run, args=(stop,), name="agent")
        timer = threading.Timer(duration, stop.set) if duration else None
        worker.start()
        if timer:
            timer.start()
        try:
            screen.run(stop)
        finally:
            stop.set()
            if timer:
                timer.cancel()
            worker.join()
    demo.close()
    if demo.error is not None:
        raise demo.error
    for line in screen.summary():
        click.echo(line)
    gc.freeze()  # the process ends: to look for garbage in all that it holds would take longer than all the rest
