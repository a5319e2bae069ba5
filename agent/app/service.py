"""The service of a process: what readers see of the roles that run in it."""

import threading
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from agent.app import supervisor
from agent.clock import Clock
from agent.learner.learner import Learner
from agent.learner.view import View
from processors.contracts.errors import InvalidInputError, UnavailableError
from processors.contracts.events import PredictionRequested
from processors.contracts.hosts import HostView
from processors.contracts.log import Batch, Log
from processors.contracts.names import job_key, parse_rfc3339
from processors.contracts.outputs import Alert, Answer, JobPrediction, Letter, Prediction, RecentRun, SourceSeen
from processors.contracts.service import Health, Service

# Several agents of one process as one service: the first tells of jobs, all of them of hosts and alerts.


class Together:
    """Shows `first`, and with it the hosts and alerts of `others`.

    Their hosts come first: there are few of them, and a list of the first ones would never show them else.
    """

    def __init__(self, first: Service, *others: Service) -> None:
        self._first, self._others = first, others

    def predictions(self) -> Sequence[Prediction]:
        """Return the latest prediction of every application, sorted by application id."""
        return self._first.predictions()

    def prediction(self, application_id: str) -> Prediction | None:
        """Return the latest prediction of one application."""
        return self._first.prediction(application_id)

    def jobs(self) -> Sequence[JobPrediction]:
        """Return the latest predictions of running jobs, sorted by job."""
        return self._first.jobs()

    def ended(self, system: str, job_id: str) -> JobPrediction | None:
        """Return what was last told of a job that ended a short while ago."""
        return self._first.ended(system, job_id)

    def alerts(self) -> Sequence[Alert]:
        """Return open alerts, then the newest resolved ones."""
        told = [alert for service in (self._first, *self._others) for alert in service.alerts()]
        return sorted(told, key=lambda alert: alert.status == "resolved")

    def answer(self, request: PredictionRequested) -> Answer:
        """Answer a question from the models as they are now."""
        return self._first.answer(request)

    def hosts(self, limit: int) -> Sequence[HostView]:
        """Return at most so many hosts."""
        found = [view for service in self._others for view in service.hosts(limit)][:limit]
        return [*found, *self._first.hosts(limit - len(found))] if len(found) < limit else found

    def host_names(self, limit: int) -> Sequence[tuple[str, str]]:
        """Return system and name of at most so many hosts."""
        found = [name for service in self._others for name in service.host_names(limit)][:limit]
        return [*found, *self._first.host_names(limit - len(found))] if len(found) < limit else found

    def host(self, system: str, host: str) -> HostView | None:
        """Return one host; None where it is not known."""
        views = (service.host(system, host) for service in (self._first, *self._others))
        return next((view for view in views if view is not None), None)

    def runs(self, application_id: str) -> Sequence[RecentRun]:
        """Return the newest settled runs of an application."""
        return self._first.runs(application_id)

    def runs_of_job(self, system: str, job_id: str) -> Sequence[RecentRun]:
        """Return the settled runs of a job."""
        return self._first.runs_of_job(system, job_id)

    def letters(self) -> Sequence[Letter]:
        """Return the newest dead letters of the whole agent."""
        told = [letter for service in (self._first, *self._others) for letter in service.letters()]
        return sorted(told, key=lambda letter: letter.time_ms, reverse=True)

    def sources(self) -> Sequence[SourceSeen]:
        """Return the sources, the one that spoke last first."""
        told = [source for service in (self._first, *self._others) for source in service.sources()]
        return sorted(told, key=lambda source: source.newest_ms, reverse=True)

    def health(self) -> Sequence[Health]:
        """Return the health of every role."""
        return self._first.health()


# The newest dead letters of the whole agent, for readers: the tail of their topic, whoever wrote them.


SHOWN_MAX: Final = 200
LOOK_S: Final = 30.0
DETAIL_MAX: Final = 300


class _Written(msgspec.Struct, frozen=True):
    """What is read of a dead letter: the bytes of the message are not even decoded."""

    time: str
    reason: str
    detail: str
    topic: str
    partition: int
    offset: int


_DECODER: Final = msgspec.json.Decoder(_Written)


class RecentLetters:
    """The letters found by the last `look`; a topic that is missing has none, and a broker that is away changes nothing."""

    def __init__(self, log: Log, topic: str) -> None:
        self._log, self._topic = log, topic
        self._seen: tuple[Letter, ...] = ()
        self._failing = False
        self._say = supervisor.logger("letters")

    def seen(self) -> Sequence[Letter]:
        """Return the letters of the last look, the newest first; for any thread."""
        return self._seen

    def look(self) -> None:
        """Read the end of the topic; never raises."""
        try:
            self._seen = self._read()
        except Exception as error:  # noqa: BLE001  whatever a broker does, readers see what was seen before
            if not self._failing:
                self._say.warning("dead letters could not be read", reason=f"{type(error).__name__}: {error}")
            self._failing = True
            return
        if self._failing:
            self._say.info("dead letters can be read again")
        self._failing = False

    def run(self, clock: Clock, stop: threading.Event) -> None:
        """Look now and every LOOK_S until `stop` is set."""
        self.look()
        while not clock.sleep(LOOK_S, stop):
            self.look()

    def _read(self) -> tuple[Letter, ...]:
        found: list[Letter] = []

        def take(batch: Batch) -> None:
            found.extend(letter for value in batch.values if (letter := _letter(value)) is not None)

        for partition in range(self._log.partitions(self._topic) or 0):
            self._log.read(self._topic, partition, take, newest=SHOWN_MAX)
        found.reverse()  # of one time, the one that was written last comes first
        return tuple(sorted(found, key=lambda letter: -letter.time_ms)[:SHOWN_MAX])


def start(letters: RecentLetters, clock: Clock, stop: threading.Event) -> threading.Thread:
    """Start the thread that looks for dead letters until `stop` is set."""
    thread = threading.Thread(target=letters.run, args=(clock, stop), name="letters", daemon=True)
    thread.start()
    return thread


def _letter(value: bytes | None) -> Letter | None:
    try:
        written = _DECODER.decode(value or b"")
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    return Letter(
        time_ms=_time_ms(written.time),
        reason=written.reason,
        detail=written.detail[:DETAIL_MAX],
        topic=written.topic,
        partition=written.partition,
        offset=written.offset,
    )


def _time_ms(text: str) -> int:
    try:
        return parse_rfc3339(text)
    except InvalidInputError:  # a message with an impossible time of its own is as old as can be
        return 0


RoleHealth = Callable[[], Sequence[Health]]
Letters = Callable[[], Sequence[Letter]]


class LearnerService:
    """Reads of the learner in this process; `learner` may be away while it starts again."""

    def __init__(self, view: View, shard_of: Callable[[str], int | None], health: RoleHealth, letters: Letters) -> None:
        self._view = view
        self._shard_of = shard_of
        self._health = health
        self._letters = letters
        self.learner: Learner | None = None

    def predictions(self) -> Sequence[Prediction]:
        """Return the latest prediction of every application, sorted by application id."""
        return self._view.latest("predictions", Prediction)

    def prediction(self, application_id: str) -> Prediction | None:
        """Return the latest prediction of one application."""
        return self._view.get("predictions", application_id, Prediction)

    def jobs(self) -> Sequence[JobPrediction]:
        """Return the latest predictions of running jobs, sorted by job."""
        return self._view.latest("job_predictions", JobPrediction)

    def ended(self, system: str, job_id: str) -> JobPrediction | None:
        """Return what was last told of a job that ended a short while ago."""
        return self._view.ended(job_key(system, job_id))

    def alerts(self) -> Sequence[Alert]:
        """Return open alerts, newest first, then the newest resolved ones."""
        opened = sorted(self._view.latest("alerts", Alert), key=lambda alert: alert.starts, reverse=True)
        return [*opened, *self._view.resolved()]

    def answer(self, request: PredictionRequested) -> Answer:
        """Answer a question from the models as they are now; UnavailableError while the shard is not here."""
        shard = self._shard_of(request.system)
        learner = self.learner
        answer = learner.answer(request, shard) if learner is not None and shard is not None else None
        if answer is None:
            raise UnavailableError(f"The models of {request.system[:64]} are not in this process.")
        return answer

    def hosts(self, limit: int) -> Sequence[HostView]:
        """Return at most so many hosts: those with anomalies first, then by system and name."""
        learner = self.learner
        return () if learner is None else learner.hosts(limit)

    def host_names(self, limit: int) -> Sequence[tuple[str, str]]:
        """Return system and name of at most so many hosts, those with anomalies first."""
        learner = self.learner
        return () if learner is None else learner.host_names(limit)

    def host(self, system: str, host: str) -> HostView | None:
        """Return one host; None where it is not known."""
        learner = self.learner
        return None if learner is None else learner.host(system, host)

    def runs(self, application_id: str) -> Sequence[RecentRun]:
        """Return the newest settled runs of an application."""
        return self._view.runs.of_application(application_id)

    def runs_of_job(self, system: str, job_id: str) -> Sequence[RecentRun]:
        """Return the settled runs of a job."""
        return self._view.runs.of_job(system, job_id)

    def letters(self) -> Sequence[Letter]:
        """Return the newest dead letters of the whole agent."""
        return self._letters()

    def sources(self) -> Sequence[SourceSeen]:
        """Return the sources, the one that spoke last first."""
        learner = self.learner
        return () if learner is None else learner.sources.seen()

    def health(self) -> Sequence[Health]:
        """Return the health of every role in this process."""
        return self._health()


class CollectorService:
    """A collector shows its health; it knows no predictions."""

    def __init__(self, health: RoleHealth) -> None:
        self._health = health

    def predictions(self) -> Sequence[Prediction]:
        """Return nothing."""
        return ()

    def prediction(self, application_id: str) -> Prediction | None:
        """Return nothing."""
        del application_id
        return None

    def jobs(self) -> Sequence[JobPrediction]:
        """Return nothing."""
        return ()

    def ended(self, system: str, job_id: str) -> JobPrediction | None:
        """Return nothing."""
        del system, job_id
        return None

    def alerts(self) -> Sequence[Alert]:
        """Return nothing."""
        return ()

    def answer(self, request: PredictionRequested) -> Answer:
        """Raise UnavailableError: the learner answers."""
        raise UnavailableError(f"This is a collector; ask the learner about {request.system[:64]}.")

    def hosts(self, limit: int) -> Sequence[HostView]:
        """Return nothing: what hosts measured is told from the journal, by the learner."""
        del limit
        return ()

    def host_names(self, limit: int) -> Sequence[tuple[str, str]]:
        """Return nothing."""
        del limit
        return ()

    def host(self, system: str, host: str) -> HostView | None:
        """Return nothing."""
        del system, host
        return None

    def runs(self, application_id: str) -> Sequence[RecentRun]:
        """Return nothing."""
        del application_id
        return ()

    def runs_of_job(self, system: str, job_id: str) -> Sequence[RecentRun]:
        """Return nothing."""
        del system, job_id
        return ()

    def letters(self) -> Sequence[Letter]:
        """Return nothing: the learner tells of the whole agent."""
        return ()

    def sources(self) -> Sequence[SourceSeen]:
        """Return nothing."""
        return ()

    def health(self) -> Sequence[Health]:
        """Return the health of the collector."""
        return self._health()
