"""A role as a process: its HTTP server, its metrics, and its exit code."""

import threading
from collections.abc import Callable
from typing import Final

import msgspec

from agent.app import compose, logs, roles, supervisor
from agent.app.handover import Handover
from agent.app.kafka import kafka_settings
from agent.app.lookout import Lookout
from agent.clock import BrokerClock, Clock, SystemClock
from agent.collector.recorder import Recorder
from agent.config.tree import Config
from agent.log.kafka.log import KafkaLog
from processors.contracts.errors import ConfigError, UnavailableError
from processors.contracts.log import Log
from processors.contracts.service import Measures, Service
from sinks.prometheus.predictions import JobCollector, PredictionCollector
from sinks.prometheus.registry import HealthCollector, HostCollector, Metrics, SourceCollector
from sinks.web.queries import Links
from sinks.web.server import Server, create_app

MakeRole = Callable[[Config, Log, Measures, Clock, int], roles.Role]
MAKERS: Final[dict[str, MakeRole]] = {"learner": roles.LearnerRole, "collector": roles.CollectorRole}
STATUS_LOOK_S: Final = 1.0


def serve(
    config: Config,
    name: str,
    stop: threading.Event,
    handover: Handover,
    recorder: Recorder,
    *,
    restarts: int,
    away_since_s: float | None,
) -> int:
    """Run a role until `stop` is set or it fails; return the exit code. Raises ConfigError if the role refuses its configuration.

    `away_since_s` is the time since when the broker has been away, inherited from the role's former process.
    """
    metrics, clock = compose.metrics(config, folds=name == roles.LearnerRole.name), BrokerClock(SystemClock())
    handover.measure(metrics)
    settings = msgspec.structs.replace(kafka_settings(config), now_ms=clock.stamp_ms, on_wait=recorder.beat)
    role = MAKERS[name](config, KafkaLog(settings), metrics, clock, restarts)
    role.recorder = recorder
    _export(config, role, metrics, clock)
    role_events = logs.logger(name)
    outage = logs.Outage("broker", role_events, clock, away_since_s)
    with _server(config, role, metrics, clock, stop) as server:
        write = role_events.info if away_since_s is None else role_events.debug
        write("role starts", url=server.url, restarts=restarts)
        role.watch(stop)
        Lookout("the outcome of the last reload", lambda: handover.measure(metrics), STATUS_LOOK_S).start(clock, stop)
        if config.alertmanager.urls:
            from agent.app.alertmanager import LOOK_S, AlertmanagerSink  # noqa: PLC0415 - it loads 100 modules for HTTP

            sink = AlertmanagerSink(config.alertmanager, role.own, metrics, clock)
            Lookout("the alerts for Alertmanagers", sink.look, LOOK_S).start(clock, stop)
        try:
            roles.run(role, stop, outage)
        except ConfigError:
            raise
        except UnavailableError as error:
            outage.failed(str(error))
            return supervisor.UNAVAILABLE
        except Exception as error:  # noqa: BLE001 - crash only: after any other error the process ends and restarts
            role_events.error("role ends", reason=f"{type(error).__name__}: {error}")
            return 1
    role_events.info("role stopped")
    return 0


def _export(config: Config, role: roles.Role, metrics: Metrics, clock: Clock) -> None:
    bounds = config.metrics
    metrics.register(HealthCollector(role.service))
    metrics.register(SourceCollector(role.own))
    metrics.register(PredictionCollector(role.own, clock.now_ms, bounds.applications_max, bounds.sizes_max))
    metrics.register(JobCollector(role.own, clock.now_ms))
    metrics.register(HostCollector(role.service, bounds.hosts_max))


def _server(config: Config, role: roles.Role, metrics: Metrics, clock: Clock, stop: threading.Event) -> Server:
    """Return the server of the role's pages, which mark alerts that are silenced in the Alertmanagers."""
    shown: Service = role.service
    if config.alertmanager.urls and role.name == roles.LearnerRole.name:
        from agent.app.alertmanager import SILENCES_LOOK_S, SilencedService  # noqa: PLC0415 - see above

        shown = silenced = SilencedService(config.alertmanager, shown, metrics, clock)
        Lookout("the silences of Alertmanagers", silenced.look, SILENCES_LOOK_S, at_once=True).start(clock, stop)
    links = Links(config.pages.grafana_url, config.pages.job_portal)
    app = create_app(shown, metrics, access=compose.access(config), links=links)

    port = config.http.port
    if role.name == roles.CollectorRole.name and port:
        port += 1

    def reached(bound: str) -> None:
        metrics.add("scalewatch_bounds_hit_total", bound=bound)

    return Server(app, config.http.host, port, reached=reached)
