"""`scalewatch simulate`: a simulated centre that writes into the topics of a real broker, to see the whole agent at work."""

import threading
from typing import Final

import click
from tenacity import Retrying, retry_if_exception_type, sleep_using_event, stop_when_event_set, wait_exponential_jitter

from agent.app import compose
from agent.app.demo import Destinations, Simulator, destinations
from agent.cli.options import required_config_option, stopped_by_signals
from agent.clock import SystemClock
from agent.config.load import load
from agent.config.tree import Config
from agent.simulation.centre import SYSTEM
from processors.contracts.errors import UnavailableError
from processors.contracts.names import rfc3339

AGAIN_MAX_S: Final = 10.0
HOUR_S: Final = 3600.0


@click.command(short_help="Write what a simulated centre tells into the topics that are read.")
@required_config_option
@click.option("--seed", type=click.IntRange(0), default=1, show_default=True, help="Another seed, another centre.")
@click.option("--past", type=click.FloatRange(0, 96), default=24.0, show_default=True, metavar="HOURS",
              help="The centre has been at work for so long; its jobs of that time are told first.")  # fmt: skip
@click.option("--speed", type=click.FloatRange(1, 1_000_000), default=1200.0, show_default=True,
              help="Simulated seconds per second until the present is reached; then time passes as it does.")  # fmt: skip
@click.option("--system", default=SYSTEM, show_default=True, help="What the centre is called; it has to be accepted.")
def command(config: str, seed: int, past: float, speed: float, system: str) -> None:
    """Let a simulated centre tell of its jobs and hosts until Ctrl-C or SIGTERM.

    Its events go into the topics of the configuration's source of format native: jobs into the first, what hosts measure into
    the second, where there is one. Energy counters go into a source of line protocol that maps the measurement rapl, where there is
    one for this system. Missing topics are made, with one partition. Started again, it goes on where it was.
    """
    settings = load(config, sources_required=True)
    to = destinations(settings, system)
    stop = stopped_by_signals()
    again = Retrying(
        retry=retry_if_exception_type(UnavailableError), wait=wait_exponential_jitter(initial=1, max=AGAIN_MAX_S),
        stop=stop_when_event_set(stop), sleep=sleep_using_event(stop), before_sleep=_say, reraise=True,
    )  # fmt: skip
    try:
        again(_simulate, settings, to, stop, seed=seed, past_s=past * HOUR_S, speed=speed, system=system)
    except UnavailableError:
        if not stop.is_set():
            raise


def _simulate(
    settings: Config, to: Destinations, stop: threading.Event, *, seed: int, past_s: float, speed: float, system: str
) -> None:
    from agent.log.kafka.log import KafkaLog  # noqa: PLC0415 - the Kafka client is loaded only where it is used

    log = KafkaLog(compose.kafka_settings(settings))
    try:
        simulator = Simulator(log, to, SystemClock(), seed=seed, past_s=past_s, speed=speed, system=system)
        for topic in simulator.created:
            click.echo(f"created {topic}")
        topics = ", ".join(dict.fromkeys(topic for topic in to if topic))
        click.echo(f"The centre {system} tells {topics} of what happened since {rfc3339(simulator.told_ms)}.")
        simulator.run(stop)
        click.echo(f"Stopped; everything was told until {rfc3339(simulator.told_ms)}.")
    finally:
        log.close()


def _say(state: object) -> None:
    click.echo(f"scalewatch: {state.outcome.exception()} Trying again.", err=True)  # type: ignore[attr-defined]
