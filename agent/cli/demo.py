"""`scalewatch demo`: the whole agent in one process, on a simulated centre."""

import gc
import threading

import click

from agent.app.demo import Demo
from agent.cli.options import stopped_by_signals
from agent.clock import SystemClock
from sinks.prometheus.registry import HealthCollector, HostCollector, JobCollector, PredictionCollector
from sinks.terminal import Screen
from sinks.web.server import Server, create_app
from sinks.web.views.agent import faults

HOSTS_MAX = 40


@click.command
@click.option("--duration", type=click.FloatRange(min=0, min_open=True), default=None, metavar="SECONDS",
              help="Stop after this time; default: run until Ctrl-C.")  # fmt: skip
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="Seed of the random generator; a different seed gives a different history.",
)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS",
              help="Address of the web server. There is no log-in; use 0.0.0.0 only inside a container.")  # fmt: skip
@click.option(
    "--port",
    type=click.IntRange(0, 65_535),
    default=8080,
    show_default=True,
    help="Port of the web server; 0 selects a free one.",
)
@click.option("--speed", type=click.FloatRange(min=1, max=100_000), default=None, metavar="FACTOR",
              help="Simulated seconds per real second. With this option, the demo does not show the load of this machine.")  # fmt: skip
def command(duration: float | None, seed: int, host: str, port: int, speed: float | None) -> None:
    """Run the agent on a simulated centre with a dozen applications whose true run times are known.

    The demo replays eight hours in a few minutes, then runs live and also shows the load of this machine. The web pages, the
    metrics and the API are at http://ADDRESS:PORT. Everything runs in this process and nothing is stored. Ctrl-C stops it.
    """
    stop = stopped_by_signals()
    demo = Demo(seed, speed, SystemClock())
    service, metrics = demo.service, demo.agent.metrics
    metrics.register(HealthCollector(service))
    metrics.register(PredictionCollector(service, now_ms=lambda: demo.now_ms))
    metrics.register(JobCollector(service, now_ms=lambda: demo.now_ms))
    metrics.register(HostCollector(service, HOSTS_MAX))
    with Server(create_app(service, metrics, demo.truth), host, port) as server:
        click.echo(f"The simulated centre starts; its web pages are at {server.url}. Ctrl-C stops it.")
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
    gc.freeze()  # at exit a garbage collection over all objects would take longer than the rest of the shutdown
