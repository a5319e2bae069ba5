"""`scalewatch run`: the agent on Kafka."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Final

import click

from agent.app import alertmanager, compose, logs, roles, supervisor
from agent.app.kafka import kafka_settings
from agent.cli.options import required_config_option, stopped_by_signals
from agent.clock import Clock, SystemClock
from agent.config.load import load
from agent.config.tree import Config
from agent.log.kafka.log import KafkaLog
from processors.contracts.errors import ConfigError, UnavailableError
from processors.contracts.log import Log
from processors.contracts.service import Measures
from sinks.prometheus.predictions import PredictionCollector
from sinks.prometheus.registry import HealthCollector, HostCollector, SourceCollector
from sinks.web.server import Server, create_app

RESTARTS: Final = "SCALEWATCH_RESTARTS"
PARENT: Final = "SCALEWATCH_PARENT"  # the id of the process that started this one
AWAY_SINCE: Final = "SCALEWATCH_AWAY_SINCE"  # when the outage began that the role before this one ended in
PARENT_LOOK_S: Final = 1.0
MakeRole = Callable[[Config, Log, Measures, Clock, int], roles.Role]
ROLES: Final[dict[str, MakeRole]] = {"learner": roles.LearnerRole, "collector": roles.CollectorRole}


@click.command
@required_config_option
@click.option("--role", type=click.Choice(list(ROLES)), default=None, help="Run this role alone, in this process.")
def command(config: str, role: str | None) -> None:
    """Run the agent on Kafka until it is told to stop (SIGTERM or Ctrl-C).

    Without --role both roles run as processes of their own; one that ends is started again. The learner serves the
    page, the metrics and the API on http.port, the collector its metrics and health on the port after it.
    """
    settings = load(config, sources_required=True)
    logs.configure(settings.log)
    stop = stopped_by_signals()
    _leave_with_parent(stop)
    code = _both(config, stop) if role is None else _alone(settings, role, stop)
    click.get_current_context().exit(code)


def _both(config: str, stop: threading.Event) -> int:
    def start(role: str, restarts: int, away_since_s: float | None) -> subprocess.Popen[bytes]:
        arguments = [sys.executable, "-m", "agent.cli", "run", "-c", config, "--role", role]
        text = {RESTARTS: str(restarts), PARENT: str(os.getpid())}
        if away_since_s is not None:
            text[AWAY_SINCE] = str(away_since_s)
        return subprocess.Popen(arguments, env={**os.environ, **text})  # noqa: S603 - our own program

    return supervisor.supervise(dict.fromkeys(ROLES, start), SystemClock(), stop, logs.logger("parent"))


def _alone(config: Config, name: str, stop: threading.Event) -> int:
    metrics, clock = compose.metrics(config), SystemClock()
    restarts = int(os.environ.get(RESTARTS, "0"))
    role = ROLES[name](config, KafkaLog(kafka_settings(config)), metrics, clock, restarts)
    bounds = config.metrics
    metrics.register(HealthCollector(role.service))
    metrics.register(SourceCollector(role.own))
    metrics.register(PredictionCollector(role.own, clock.now_ms, bounds.applications_max, bounds.sizes_max))
    metrics.register(HostCollector(role.service, bounds.hosts_max))
    role_events = logs.logger(name)
    since = os.environ.get(AWAY_SINCE)
    outage = logs.Outage("broker", role_events, clock, None if since is None else float(since))
    app = create_app(role.service, metrics, access=compose.access(config))

    def reached(bound: str) -> None:
        metrics.add("scalewatch_bounds_hit_total", bound=bound)

    with Server(app, config.http.host, _port(config, name), reached=reached) as server:
        write = role_events.info if since is None else role_events.debug
        write("role starts", url=server.url, restarts=restarts)
        role.watch(stop)
        alertmanager.start(config.alertmanager, role.own, metrics, clock, stop)
        try:
            roles.run(role, stop, outage)
        except ConfigError:
            raise
        except UnavailableError as error:
            outage.failed(str(error))
            return supervisor.UNAVAILABLE
        except Exception as error:  # noqa: BLE001 - crash only: whatever it is, the process ends and starts anew
            role_events.error("role ends", reason=f"{type(error).__name__}: {error}")
            return 1
    role_events.info("role stopped")
    return 0


def _leave_with_parent(stop: threading.Event) -> None:
    """Stop, in order, when the parent has died: nobody looks after a role then, and the next parent starts its own."""
    parent = os.environ.get(PARENT)
    if parent is None:
        return

    def look() -> None:
        while not stop.wait(PARENT_LOOK_S):
            if str(os.getppid()) != parent:
                logs.logger("parent").error("the process that started this one has ended", pid=int(parent))
                stop.set()

    threading.Thread(target=look, name="parent", daemon=True).start()


def _port(config: Config, role: str) -> int:
    return config.http.port + 1 if role == "collector" and config.http.port else config.http.port
