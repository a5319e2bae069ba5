"""The two roles, each a process with an HTTP server. The process opens its role, calls `step` until a stop, and closes the role.

A role that cannot reach the broker at its start retries, and reports the reason in its readiness check. Any later error ends
the process, and the parent restarts it. A restart is the only way to recover.
"""

import gc
import math
import socket
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from typing import Final

import msgspec

from agent.app import compose, logs
from agent.app.handover import Handover
from agent.app.kafka import kafka_settings, until_available
from agent.app.logs import Outage
from agent.app.lookout import (
    BrokerTime,
    Lookout,
    OutputTopics,
    RecentDeadLetters,
    SourceTopics,
    TopicFaults,
    clock_fault,
)
from agent.app.supervisor import UNAVAILABLE
from agent.clock import BrokerClock, Clock, SystemClock
from agent.collector.collector import Collector
from agent.collector.recorder import Recorder
from agent.collector.sources import Backlog, combined
from agent.config.topics import check_shards, own_topics
from agent.config.tree import Config
from agent.learner.learner import Learner, in_thread
from agent.learner.shard import OwnedShard
from agent.learner.view import RETAINED_MAX, LearnerService, View
from agent.log.kafka.log import KafkaLog
from processors.contracts.errors import ConfigError, UnavailableError
from processors.contracts.events import CollectorReport
from processors.contracts.log import Log
from processors.contracts.outputs import Alert, Prediction
from processors.contracts.service import Forwarding, Health, Measures, Service, SourceStatus, late
from processors.models.numerics import scipy_functions
from sinks.prometheus.registry import (
    HealthCollector,
    HostCollector,
    JobCollector,
    Metrics,
    PredictionCollector,
    SourceCollector,
)
from sinks.topics import Kind
from sinks.web.queries import PageLinks
from sinks.web.server import Server, create_app

# new objects between two collections of the youngest generation; collecting an object costs up to a microsecond
YOUNG_MAX: Final = 5_000
MIDDLE_MAX: Final = 2  # young collections per middle collection: with 20, a middle one took 0.1 s during decoding
NEVER: Final = 1_000_000_000  # disables automatic full collections
IDLE_S: Final = 600.0  # time between two full collections of an idle role
BUSY_S: Final = 7200.0  # maximum time between two full collections of a role that is never idle


class Garbage:
    """Schedules the full garbage collections of this process, because they pause it for long.

    Surviving objects are frozen, so the next collection checks only newer objects. `now_s` is in seconds of a monotonic clock.
    """

    def __init__(self, now_s: float) -> None:
        self._collected_s = now_s

    def restrain(self) -> None:
        """Disable automatic full collections."""
        gc.set_threshold(YOUNG_MAX, MIDDLE_MAX, NEVER)

    def is_due(self, now_s: float, *, idle: bool) -> bool:
        return now_s - self._collected_s >= (IDLE_S if idle else BUSY_S)

    def collect(self, now_s: float) -> None:
        """Free reference cycles, and freeze all surviving objects."""
        gc.collect()
        gc.freeze()
        self._collected_s = now_s


AGAIN_MAX_S = 5.0  # longest wait between two attempts to reach the broker; the attempt itself may take ten seconds
FEW = 200  # after a smaller poll the collector waits for more: a poll costs as much as 20 messages
GATHER_S = 0.01
REPORT_S = 5.0  # time between two reports that a collector writes into the journal
POLL_S = 1.0  # a consumer joins its group during a poll, so the poll must last long enough
# a learner without a shard for this time shows the messages of other learners, and stands by to take over a shard
STANDBY_S = 10.0
VIEWED: Mapping[Kind, int | None] = {"predictions": None, "job_predictions": None, "alerts": None, "runs": RETAINED_MAX}


class OwnShards(Forwarding):
    """A service limited to the shards that this learner owns now; `shard_of` maps a system to its shard.

    A learner reads all output topics when it gains a shard, but afterwards receives only the messages of its own shards. So its
    data about other shards becomes outdated: exported metrics would contradict those of the owner, and a resolved alert would
    fire again.
    """

    def __init__(
        self, service: Service, shard_of: Callable[[str], int | None], owned: Callable[[], Collection[int]]
    ) -> None:
        super().__init__(service)
        self._shard_of, self._owned = shard_of, owned

    def predictions(self) -> Sequence[Prediction]:
        owned = self._owned()
        return [entry for entry in self._service.predictions() if self._shard_of(entry.system) in owned]

    def alerts(self) -> Sequence[Alert]:
        owned = self._owned()
        return [alert for alert in self._service.alerts() if self._shard_of(alert.labels.get("system", "")) in owned]

    def sources(self) -> Sequence[SourceStatus]:
        """Return an empty list, because collectors export the status of the sources."""
        return ()


class Role(ABC):
    """One role of one process. `service` answers readers; `own` has only the data exported to Prometheus and Alertmanagers.

    `reason` is the reason why the role is not ready. The parent process reads `recorder`.
    """

    name: str
    service: Service
    own: Service

    def __init__(self, config: Config, log: Log, measures: Measures, clock: Clock, restarts: int) -> None:
        self._config, self._log, self._measures, self._restarts = config, log, measures, restarts
        self._clock = clock if isinstance(clock, BrokerClock) else BrokerClock(clock)
        self.recorder = Recorder()
        self.reason: str | None = "The role is starting."
        self._configured, self._silent_s = compose.wanted_topics(config), compose.silent_after(config)
        self._topic_faults = TopicFaults(log, config, measures)
        self._broker_time = BrokerTime(log, config.topics.journal, self._clock, measures)

    def watch(self, stop: threading.Event) -> None:
        """Start the threads of this role; they run until `stop` is set."""
        self._topic_faults.start(self._clock, stop)
        self._broker_time.start(self._clock, stop)

    def open(self) -> None:
        """Create missing topics and join the group. Raises UnavailableError, or ConfigError for wrong topics."""
        try:
            self._log.create(own_topics(self._config))
            check_shards(self._log, self._config)
            self._topic_faults.look()
            self._broker_time.look()
            self._join()
        except UnavailableError as error:
            self.reason = str(error)
            raise

    @abstractmethod
    def step(self) -> None:
        """Process the next records."""

    @abstractmethod
    def finish(self) -> None:
        """Save the state before a regular shutdown."""

    def close(self) -> None:
        self._log.close()

    @abstractmethod
    def _join(self) -> None: ...

    def _health(self) -> Sequence[Health]:
        lag_s = self._lag_s()
        fault = clock_fault(self._clock.ahead_ms)
        reasons = ((fault,) if fault else ()) + (late(lag_s) if self.reason is None else (self.reason,))
        return (
            Health(
                role=self.name,
                ready=not reasons,
                reasons=reasons,
                restarts=self._restarts,
                lag_s=lag_s,
                working=self.reason is None,
            ),
        )

    def _lag_s(self) -> float | None:
        return None


def run(role: Role, stop: threading.Event, outage: Outage) -> None:
    """Run a role until `stop` is set. Raises any error that occurs after a successful start."""
    try:
        if until_available(role.open, stop, AGAIN_MAX_S, lambda _state: outage.failed(role.reason or "")):
            outage.over()
            while not stop.is_set():
                role.recorder.beat()
                role.step()
            role.finish()
    finally:
        role.close()


class LearnerRole(Role):
    """The learner of this process, with the view for its readers."""

    name = "learner"

    def __init__(self, config: Config, log: Log, measures: Measures, clock: Clock, restarts: int) -> None:
        super().__init__(config, log, measures, clock, restarts)
        self._view = View()
        self._shown: frozenset[int] | None = None
        self._opened_s = 0.0
        self._garbage = Garbage(clock.monotonic_s())
        self._learner: Learner | None = None
        self._outputs = OutputTopics(log, compose.output_topics(config), measures)
        self._dead_letters = RecentDeadLetters(self._outputs)
        self._reads = LearnerService(
            self._view,
            config.journal_partition,
            self._health,
            dead_letters=self._dead_letters.latest,
            sources=self._sources,
            racks=compose.racks(config),
            rewritten=compose.question_privacy(config),
        )
        self.service = self._reads
        self.own = OwnShards(self._reads, config.journal_partition, self._shards)

    def watch(self, stop: threading.Event) -> None:
        super().watch(stop)
        self._dead_letters.start(self._clock, stop)
        Lookout("the messages of other learners", self.follow).start(self._clock, stop)

    def follow(self) -> None:
        """Read the messages that other learners published about shards not owned here. Raises UnavailableError."""
        if len(self._shards()) < self._config.topics.journal_partitions:
            self._view.adopt(
                self._view_of_others(), lambda system: self._config.journal_partition(system) in self._shards()
            )

    def step(self) -> None:
        learner = self._opened()
        folded = learner.step(self._clock.monotonic_s(), POLL_S)
        gained = self._catch_up(learner)
        now_s = self._clock.monotonic_s()
        if gained or self._garbage.is_due(now_s, idle=not folded):
            self._garbage.collect(now_s)
        if not folded:
            scipy_functions.load()
        self.reason = self._waits(learner)

    def finish(self) -> None:
        self._opened().checkpoint(self._clock.monotonic_s())

    def close(self) -> None:
        self._reads.learner = None
        if self._learner is not None:
            self._learner.close()
        super().close()

    def _join(self) -> None:
        self._garbage.restrain()
        self._learner = self._reads.learner = Learner(
            self._log,
            compose.plan(self._config),
            self._measures,
            self.name,
            on_emission=self._view.apply,
            monotonic_s=self._clock.monotonic_s,
            saving=in_thread,
            recorder=self.recorder,
        )
        self._opened_s = self._clock.monotonic_s()

    def _catch_up(self, learner: Learner) -> bool:
        """Read the output topics if a shard was gained, because its former owner may have published; return whether they were read."""
        shards = frozenset(learner.shards())
        waits = not shards and self._clock.monotonic_s() - self._opened_s < STANDBY_S
        if self._shown is None and waits:
            return False
        gained = self._shown is None or bool(shards - self._shown)
        if gained:
            # the topics also contain this learner's own messages, because each batch ends with a flush
            self._view.adopt(self._view_of_others())
        self._shown = shards
        return gained

    def _view_of_others(self) -> View:
        fresh = View()
        for kind, newest in VIEWED.items():
            self._outputs.read(kind, fresh.apply, newest)
        return fresh

    def _waits(self, learner: Learner) -> str | None:
        """Return the reason why the learner cannot process records now; None if it can."""
        if not learner.shards():
            return "This learner has no shard to process. Other learners may be processing all shards."
        if self._clock_ms() is None:
            return "The journal holds no tick yet: a collector writes the first one when it starts."
        return None

    def _shards(self) -> Mapping[int, OwnedShard]:
        return self._learner.shards() if self._learner else {}

    def _health(self) -> Sequence[Health]:
        shards = self._shards()
        saved = [shard.saved_s for shard in shards.values()]
        age_s = self._clock.monotonic_s() - min(saved) if saved else None
        (health,) = super()._health()
        return (
            msgspec.structs.replace(
                health,
                partitions=tuple(shards),
                checkpoint_age_s=age_s,
                folded_ms=min((shard.fold.now_ms for shard in shards.values() if shard.fold.now_ms), default=None),
                floods=() if self._learner is None else self._learner.floods(),
            ),
        )

    def _lag_s(self) -> float | None:
        clock_ms = self._clock_ms()
        return None if clock_ms is None else (self._clock.now_ms() - clock_ms) / 1000

    def _clock_ms(self) -> int | None:
        """Return the clock time in ms of the newest tick, for the shard of this learner where this time is lowest; None without ticks.

        The event time of that shard may be earlier, because a collector that lags holds event time back.
        """
        clocks_ms = (shard.fold.watermarks.clock_ms for shard in self._shards().values())
        return min(filter(None, clocks_ms), default=None)

    def _sources(self) -> Sequence[SourceStatus]:
        learner = self._learner
        if learner is None:
            return combined(self._configured, (), (), self._silent_s)
        by_age = sorted(learner.collectors.latest(), key=attrgetter("time_ms"))
        reported = [topic for report in by_age for topic in report.topics]
        return combined(self._configured, learner.sources.status(), reported, self._silent_s)

    def _opened(self) -> Learner:
        if self._learner is None:
            raise UnavailableError("The learner was not opened.")
        return self._learner


class CollectorRole(Role):
    """The collector of this process. Every REPORT_S seconds it writes a report and a tick, for the web pages of the learners."""

    name = "collector"

    def __init__(self, config: Config, log: Log, measures: Measures, clock: Clock, restarts: int) -> None:
        super().__init__(config, log, measures, clock, restarts)
        self._collector: Collector | None = None
        self.topics = SourceTopics(log, self._configured, clock, measures)
        self._schemas = compose.schemas(config, measures, clock)
        self._backlog = Backlog()
        self._behind_s: float | None = None
        self._looked_s = self._reported_s = -math.inf
        absent = "This is a collector; ask the learner about {}."
        self.service = self.own = LearnerService(
            View(), config.journal_partition, self._health, sources=self._sources, absent=absent
        )
        self._never = threading.Event()
        self._member = f"{socket.gethostname()}:{config.http.port}"

    def watch(self, stop: threading.Event) -> None:
        self._broker_time.start(self._clock, stop)
        self.topics.start(self._clock, stop)

    def step(self) -> None:
        if self._collector is None:
            raise UnavailableError("The collector was not opened.")
        taken = self._collector.step(self._clock.now_ms(), POLL_S)
        self._look(self._collector, taken)
        if 0 < taken < FEW:
            self._clock.sleep(GATHER_S, self._never)

    def finish(self) -> None:
        if self._collector is not None:
            self._collector.commit()

    def close(self) -> None:
        if self._collector is not None:
            self._collector.close()
        self._schemas.close()
        super().close()

    def _join(self) -> None:
        self._collector = Collector(
            self._log,
            compose.routes(self._config, self._schemas),
            self._measures,
            self.name,
            monotonic_s=self._clock.monotonic_s,
            report=self._report,
            recorder=self.recorder,
            name=self._member,
        )
        self.reason = None

    def _look(self, collector: Collector, taken: int) -> None:
        """Measure the lag at most every POLL_S seconds; `taken` is the number of records that the last step processed."""
        now_s = self._clock.monotonic_s()
        if taken == 0 and not collector.reporting() and not collector.waiting():
            self._backlog.idle(now_s)
        if now_s - self._looked_s >= POLL_S:
            self._looked_s = now_s
            self._behind_s = self._backlog.lag_s(collector.taken(), self.topics.ends, now_s, self._clock.now_ms())

    def _lag_s(self) -> float | None:
        return self._behind_s

    def _sources(self) -> Sequence[SourceStatus]:
        return combined(self._configured, (), self.topics.latest(), self._silent_s)

    def _report(self) -> CollectorReport | None:
        now_s = self._clock.monotonic_s()
        if self._collector is None or now_s - self._reported_s < REPORT_S:
            return None
        self._reported_s = now_s
        (health,) = self._health()
        return CollectorReport(
            member=self._member,
            time_ms=self._clock.now_ms(),
            reasons=tuple(health.reasons),
            restarts=self._restarts,
            lag_s=health.lag_s,
            dead_letters=self._collector.dead_letters(),
            topics=tuple(self.topics.latest()),
        )


ROLES: Final[dict[str, type[Role]]] = {role.name: role for role in (LearnerRole, CollectorRole)}
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
    """Run a role until `stop` is set or the role fails; return the exit code. Raise ConfigError if the role refuses its configuration.

    `away_since_s` is the monotonic time in s at which the broker became unreachable, if it was so when the previous process of
    the role ended; else None.
    """
    metrics, clock = compose.metrics(config, folds=name == LearnerRole.name), BrokerClock(SystemClock())
    handover.measure(metrics)
    settings = msgspec.structs.replace(kafka_settings(config), now_ms=clock.stamp_ms, on_wait=recorder.beat)
    role = ROLES[name](config, KafkaLog(settings), metrics, clock, restarts)
    role.recorder = recorder
    _export(config, role, metrics, clock)
    role_events = logs.logger(name)
    outage = Outage("broker", role_events, clock, away_since_s)
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
            run(role, stop, outage)
        except ConfigError:
            raise
        except UnavailableError as error:
            outage.failed(str(error))
            return UNAVAILABLE
        except Exception as error:  # noqa: BLE001 - crash only: after any other error the process ends and restarts
            role_events.error("role ends", reason=f"{type(error).__name__}: {error}")
            return 1
    role_events.info("role stopped")
    return 0


def _export(config: Config, role: Role, metrics: Metrics, clock: Clock) -> None:
    bounds = config.metrics
    metrics.register(HealthCollector(role.service))
    metrics.register(SourceCollector(role.own))
    metrics.register(PredictionCollector(role.own, clock.now_ms, bounds.applications_max, bounds.sizes_max))
    metrics.register(JobCollector(role.own, clock.now_ms))
    metrics.register(HostCollector(role.service, bounds.hosts_max))


def _server(config: Config, role: Role, metrics: Metrics, clock: Clock, stop: threading.Event) -> Server:
    """Return the HTTP server of the role, whose pages mark alerts that are silenced in the Alertmanagers."""
    shown: Service = role.service
    if config.alertmanager.urls and role.name == LearnerRole.name:
        from agent.app.alertmanager import SILENCES_LOOK_S, SilencedService  # noqa: PLC0415 - see above

        shown = silenced = SilencedService(config.alertmanager, shown, metrics, clock)
        Lookout("the silences of Alertmanagers", silenced.look, SILENCES_LOOK_S, at_once=True).start(clock, stop)
    links = PageLinks(config.pages.grafana_url, config.pages.job_portal)
    app = create_app(shown, metrics, access=compose.access(config), links=links)

    port = config.http.port
    if role.name == CollectorRole.name and port:
        port += 1

    def reached(bound: str) -> None:
        metrics.add("scalewatch_bounds_hit_total", bound=bound)

    return Server(app, config.http.host, port, reached=reached)
