"""The load under which processes are killed: jobs of two systems, and questions that show when everything works again."""

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from kafka.errors import KafkaError

from tests.harden.count import Run
from tests.harden.load import moment, plain
from tests.harden.topics import consuming

SYSTEMS: Final = ("alpha", "beta")  # a partition of the journal each
PARTITIONS: Final = 3  # of the source
APPLICATIONS: Final = 24
SIZES: Final = (1, 2, 4, 8, 16)
ASK_S: Final = 0.4
SLICE_S: Final = 0.05
GARBAGE: Final = (b"{", b'{"type":"job.completed"}', b"\xff\xfe", b"[1,2")
RECONNECT_S: Final = 20.0

Lane = tuple[int, str]
"""A partition of the source and a system: a way through the agent."""
LANES: Final[tuple[Lane, ...]] = tuple((number, system) for number in range(PARTITIONS) for system in SYSTEMS)


class Question(NamedTuple):
    """A question on its way."""

    lane: Lane
    sent_s: float


@dataclass
class Produced:
    """What was produced, by what it has to become: the independent count knows this alone."""

    runs: dict[str, Run] = field(default_factory=dict)  # completed, by system/job
    ended: dict[str, Run] = field(default_factory=dict)  # in whatever state
    questions: dict[str, Question] = field(default_factory=dict)
    bad: int = 0
    messages: int = 0


class Traffic:
    """Sends from a thread of its own until it is ended: so many jobs a second, each a start and a completion, some twice."""

    def __init__(self, producer: KafkaProducer, topic: str, jobs_per_s: float, seed: int) -> None:
        self.produced = Produced()
        self._producer, self._topic, self._jobs_per_s = producer, topic, jobs_per_s
        self._dice = random.Random(seed)  # noqa: S311 - the same jobs for the same seed
        self._futures: list[Any] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="traffic", daemon=True)
        self._jobs = 0

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def end(self, timeout_s: float) -> None:
        """Stop, and see that everything was taken by the broker."""
        self._stop.set()
        self._thread.join(timeout_s)
        self._producer.flush(timeout_s)
        failed = sum(not future.succeeded() for future in self._futures)
        if failed:
            raise AssertionError(f"{failed} messages were not taken: nothing can be counted.")

    def _run(self) -> None:
        began_s, next_ask_s = time.monotonic(), 0.0
        while not self._stop.wait(SLICE_S):
            now_s = time.monotonic()
            while self._jobs < (now_s - began_s) * self._jobs_per_s:
                for message in self._job(time.time()):
                    self._send(message, self._dice.randrange(PARTITIONS))
            if now_s >= next_ask_s:
                next_ask_s = now_s + ASK_S
                for lane in LANES:
                    self._ask(lane, now_s)

    def _send(self, message: bytes, partition: int) -> None:
        self._futures.append(self._producer.send(self._topic, message, partition=partition))
        self.produced.messages += 1

    def _job(self, now_s: float) -> Iterator[bytes]:
        dice, self._jobs = self._dice, self._jobs + 1
        n, application = dice.choice(SIZES), f"app{dice.randrange(APPLICATIONS):02d}"
        run_time_s = round((30.0 + 600.0 / n) * dice.lognormvariate(0.0, 0.03), 3)
        job = {"system": dice.choice(SYSTEMS), "job_id": str(self._jobs), "application": application, "n": n, "unit": "nodes",
               "start": moment(now_s - run_time_s - 1.0)}  # fmt: skip
        state = "COMPLETED" if dice.random() < 0.93 else dice.choice(("FAILED", "TIMEOUT", "CANCELLED"))
        ended = plain(
            {"type": "job.completed", **job, "end": moment(now_s - 1.0), "run_time_s": run_time_s, "state": state}
        )
        name, run = f"{job['system']}/{job['job_id']}", Run(application, float(n), run_time_s)
        self.produced.ended[name] = run
        if state == "COMPLETED":
            self.produced.runs[name] = run
        yield plain({"type": "job.started", **job, "time_limit_s": 3600})
        yield ended
        if dice.random() < 0.1:  # as Slurm does where it is not sure
            yield ended
        if dice.random() < 0.02:
            self.produced.bad += 1
            yield dice.choice(GARBAGE)

    def _ask(self, lane: Lane, now_s: float) -> None:
        partition, system = lane
        name = f"q{len(self.produced.questions)}"
        self.produced.questions[name] = Question(lane, now_s)
        request = {
            "type": "prediction.requested",
            "system": system,
            "request_id": name,
            "application": "app00",
            "n": [2, 64],
        }
        self._send(plain({**request, "unit": "nodes"}), partition)


class Watch:
    """Follows a topic from a thread of its own, also through outages of the broker; `see` is handed partition and key."""

    def __init__(
        self, bootstrap: str, topic: str, see: Callable[[int, bytes | None], object], *, committed: bool
    ) -> None:
        self._bootstrap, self._topic, self._see, self._committed = bootstrap, topic, see, committed
        self._positions: dict[TopicPartition, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"watch {topic}", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop."""
        self._stop.set()
        self._thread.join(60.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            with (
                suppress(KafkaError, AssertionError),
                consuming(self._bootstrap, self._topic, committed=self._committed) as consumer,
            ):
                for partition, position in self._positions.items():
                    consumer.seek(partition, position)
                self._follow(consumer)

    def _follow(self, consumer: KafkaConsumer) -> None:
        spoke_s = time.monotonic()
        while not self._stop.is_set() and time.monotonic() < spoke_s + RECONNECT_S:
            for partition, batch in consumer.poll(timeout_ms=20).items():
                spoke_s = time.monotonic()
                for each in batch:
                    self._positions[partition] = each.offset + 1
                    self._see(partition.partition, each.key)


class Answers:
    """When the answer to each question came, and from that whether all lanes work since a time."""

    def __init__(self, bootstrap: str, topic: str, produced: Produced) -> None:
        self._produced = produced
        self._came_s: dict[Lane, list[tuple[float, float]]] = {lane: [] for lane in LANES}  # sent, came
        self._known: set[str] = set()
        self._watch = Watch(bootstrap, topic, self._see, committed=True)

    def working_s(self, since_s: float) -> float | None:
        """Return when a question sent after that time was answered on every lane; None before."""
        firsts = []
        for came in self._came_s.values():
            first = next((came_s for sent_s, came_s in came if sent_s >= since_s), None)
            if first is None:
                return None
            firsts.append(first)
        return max(firsts)

    def forget(self) -> None:
        """Drop what is over: nobody asks about times before now."""
        for came in self._came_s.values():
            came.clear()

    def end(self) -> None:
        """Stop."""
        self._watch.end()

    def _see(self, _partition: int, key: bytes | None) -> None:
        name = (key or b"").decode()
        question = self._produced.questions.get(name)
        if question is not None and name not in self._known:
            self._known.add(name)
            self._came_s[question.lane].append((question.sent_s, time.monotonic()))
