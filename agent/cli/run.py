"""`scalewatch run`: the agent on Kafka."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Final, NamedTuple, NoReturn

import click

from agent.app import alertmanager, compose, logs, roles, supervisor
from agent.app.handover import Handover, Status
from agent.app.kafka import kafka_settings
from agent.app.lookout import Lookout
from agent.app.reload import Reloader
from agent.app.silences import with_silences
from agent.cli.options import required_config_option, stopped_by_signals
from agent.clock import Clock, SystemClock
from agent.config.load import load
from agent.config.tree import Config
from agent.log.kafka.log import KafkaLog
from processors.contracts.errors import ConfigError, UnavailableError
from processors.contracts.log import Log
from processors.contracts.service import Measures
from sinks.prometheus.jobs import JobCollector
from sinks.prometheus.predictions import PredictionCollector
from sinks.prometheus.registry import HealthCollector, HostCollector, SourceCollector
from sinks.web.links import Links
from sinks.web.server import Server, create_app

RESTARTS: Final = "SCALEWATCH_RESTARTS"
PARENT: Final = "SCALEWATCH_PARENT"  # the id of the process that started this one
BELOW: Final = "SCALEWATCH_BELOW"  # set for a role whose parent reads the configuration
AWAY_SINCE: Final = "SCALEWATCH_AWAY_SINCE"  # when the outage began that the role before this one ended in
PARENT_LOOK_S: Final = 1.0
STATUS_LOOK_S: Final = 1.0
MakeRole = Callable[[Config, Log, Measures, Clock, int], roles.Role]
ROLES: Final[dict[str, MakeRole]] = {"learner": roles.LearnerRole, "collector": roles.CollectorRole}


@click.command
@required_config_option
@click.option("--role", type=click.Choice(list(ROLES)), default=None, help="Run this role alone, in this process.")
@click.option("--watch", is_flag=True, help="Reload the configuration when its file changes, not only on SIGHUP.")
def command(config: str, role: str | None, watch: bool) -> None:  # noqa: FBT001 - an option
    """Run the agent on Kafka until it is told to stop (SIGTERM or Ctrl-C).

    Without --role both roles run as processes of their own; one that ends is started again. The learner serves the
    page, the metrics and the API on http.port, the collector its metrics and health on the port after it.

    SIGHUP reloads the configuration: the roles end in order and start with it. Keys of `topics` wait for a restart, and
    a file that is wrong changes nothing; the log says which.
    """
    inherited, clock = Handover.inherited(), SystemClock()
    settings = load(config, sources_required=True) if inherited is None else inherited.config()
    logs.configure(settings.log)
    stop = stopped_by_signals()
    _leave_with_parent(stop)
    handover = inherited or Handover.made(settings, Status(clock.now_ms()))
    if role is not None and BELOW in os.environ:
        _on_reload(signal.SIG_IGN)
        code = _alone(settings, role, stop, handover)
    else:
        reloader = Reloader(config, settings, handover, clock, logs.logger(role or "parent"), watch=watch)
        _on_reload(lambda *_: reloader.requested.set())
        if inherited is not None:
            reloader.requested.set()  # the file may have changed while this process began
        given = _Given(config, role, watch)
        code = (
            _both(given, stop, handover, reloader) if role is None else _anew(given, settings, stop, handover, reloader)
        )
    click.get_current_context().exit(code)


def _on_reload(act: Callable[..., object] | signal.Handlers) -> None:
    """Say what SIGHUP does from now on; one that came while the program was loading has waited for this."""
    signal.signal(signal.SIGHUP, act)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGHUP})


class _Given(NamedTuple):
    """What was given on the command line."""

    config: str
    role: str | None
    watch: bool

    def arguments(self, role: str) -> list[str]:
        """Return the command of a role."""
        watch = ["--watch"] if self.watch else []
        return [sys.executable, "-m", "agent.cli", "run", "-c", self.config, "--role", role, *watch]


def _both(given: _Given, stop: threading.Event, handover: Handover, reloader: Reloader) -> int:
    def start(role: str, restarts: int, away_since_s: float | None) -> subprocess.Popen[bytes]:
        text = {RESTARTS: str(restarts), PARENT: str(os.getpid()), BELOW: "1", **handover.environment}
        if away_since_s is not None:
            text[AWAY_SINCE] = str(away_since_s)
        return subprocess.Popen(  # noqa: S603 - our own program
            given.arguments(role), env={**os.environ, **text}, pass_fds=handover.descriptors
        )

    roles_by_name = dict.fromkeys(ROLES, start)
    return supervisor.supervise(roles_by_name, SystemClock(), stop, logs.logger("parent"), reloader)


def _anew(given: _Given, config: Config, stop: threading.Event, handover: Handover, reloader: Reloader) -> int:
    """Run a role alone; after a reload this process becomes a new one, with the same id and nothing left of the old."""
    leave, reloaded, clock, role = threading.Event(), threading.Event(), SystemClock(), str(given.role)

    def look() -> None:
        while not clock.sleep(supervisor.LOOK_S, stop):
            if reloader.look():
                reloaded.set()
                break
        leave.set()

    threading.Thread(target=look, name="reload", daemon=True).start()
    code = _alone(config, role, leave, handover)
    if reloaded.is_set() and not stop.is_set():
        _begin_again(given, role, handover)
    return code


def _begin_again(given: _Given, role: str, handover: Handover) -> NoReturn:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # until the new program listens, which then looks by itself
    handover.pass_on()
    os.execve(sys.executable, given.arguments(role), {**os.environ, **handover.environment})  # noqa: S606 - our own


def _alone(config: Config, name: str, stop: threading.Event, handover: Handover) -> int:
    metrics, clock = compose.metrics(config), SystemClock()
    handover.measure(metrics)
    restarts = int(os.environ.get(RESTARTS, "0"))
    role = ROLES[name](config, KafkaLog(kafka_settings(config)), metrics, clock, restarts)
    bounds = config.metrics
    metrics.register(HealthCollector(role.service))
    metrics.register(SourceCollector(role.own))
    metrics.register(
        PredictionCollector(role.own, clock.now_ms, bounds.applications_max, bounds.sizes_max, members=bounds.members)
    )
    metrics.register(JobCollector(role.own, clock.now_ms))
    metrics.register(HostCollector(role.service, bounds.hosts_max))
    role_events = logs.logger(name)
    since = os.environ.get(AWAY_SINCE)
    outage = logs.Outage("broker", role_events, clock, None if since is None else float(since))
    shown = role.service
    if name == roles.LearnerRole.name:
        shown = with_silences(config.alertmanager, shown, metrics, clock, stop)
    app = create_app(
        shown, metrics, access=compose.access(config), links=Links(config.pages.grafana_url, config.pages.job_portal)
    )

    def reached(bound: str) -> None:
        metrics.add("scalewatch_bounds_hit_total", bound=bound)

    with Server(app, config.http.host, _port(config, name), reached=reached) as server:
        write = role_events.info if since is None else role_events.debug
        write("role starts", url=server.url, restarts=restarts)
        role.watch(stop)
        Lookout("how the last reload went", lambda: handover.measure(metrics), STATUS_LOOK_S).start(clock, stop)
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
