"""A storm over real processes, by a seed: roles are killed, the broker is killed and hangs, while messages come in."""

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from kafka import KafkaProducer

from tests.kit.agent_process import AgentProcess
from tests.kit.kafka_broker import KafkaBroker

STORM_MAX_S = 900.0  # nothing takes so long where it works
FLUSH_S = 180.0
SEND_EVERY_S = 0.1
LOOK_S = 0.02
BROKER_FAULTS = {4: "kill", 8: "hang", 12: "kill", 16: "hang"}  # after so many kills of roles


@dataclass
class Patient:
    """A role as a process of its own, its kills to come, and what happened to it.

    Each kill is a delay in seconds, counted from the moment when the role works, or from its start.
    """

    process: AgentProcess
    works: Callable[[AgentProcess], bool]
    kills: list[tuple[str, float]]
    began_s: float = 0.0
    works_s: float | None = None

    def start(self, now_s: float) -> None:
        self.process.start()
        self.began_s, self.works_s = now_s, None

    def look(self, now_s: float) -> bool:
        """Start it again where it ended, and kill it when it is time; tell whether it was killed."""
        if not self.process.running():
            self.start(now_s)
        if not self.kills:
            return False
        since, delay_s = self.kills[0]
        if since == "works" and self.works_s is None and self.works(self.process):
            self.works_s = now_s
        from_s = self.began_s if since == "start" else self.works_s
        if from_s is None or now_s < from_s + delay_s:
            return False
        self.process.kill()
        self.kills.pop(0)
        self.start(now_s)
        return True


@dataclass
class Storm:
    """One storm: messages trickle in while roles die, and the broker dies and hangs after certain kills."""

    kafka: KafkaBroker
    dice: random.Random
    unsent: list[tuple[int, bytes]]
    producer: KafkaProducer
    topic: str
    patients: list[Patient]
    killed: int = 0
    broker_faults: Counter[str] = field(default_factory=Counter)
    resume_s: float | None = None

    def __post_init__(self) -> None:
        self._count = len(self.unsent)
        self._kills = sum(len(patient.kills) for patient in self.patients)
        self._next_send_s = 0.0
        self._faults = dict(BROKER_FAULTS)

    def rage(self) -> None:
        """Do everything that was planned."""
        deadline = time.monotonic() + STORM_MAX_S
        for patient in self.patients:
            patient.start(time.monotonic())
        while self.unsent or self.resume_s is not None or any(patient.kills for patient in self.patients):
            now_s = time.monotonic()
            assert now_s < deadline, f"{self.killed} kills and {len(self.unsent)} messages to send at the deadline"
            self._send(now_s)
            self._disturb_the_broker(now_s)
            for patient in self.patients:
                self.killed += patient.look(now_s)
            time.sleep(LOOK_S)
        self.producer.flush(FLUSH_S)

    def end(self) -> None:
        """End everything, and leave the broker as it was."""
        self.kafka.resume()
        if not self.kafka.running():
            self.kafka.start()
        self.producer.close()
        for patient in self.patients:
            patient.process.__exit__()

    def ended_by_themselves(self) -> dict[str, list[str]]:
        """Return the reasons for which roles ended that nobody killed."""
        return {
            str(patient.process.role): [line["reason"] for line in patient.process.lines("role ends")]
            for patient in self.patients
        }

    def _send(self, now_s: float) -> None:
        due = self._count * (self.killed + 1) / self._kills
        if self.unsent and now_s >= self._next_send_s and self._count - len(self.unsent) < due:
            partition, message = self.unsent.pop(0)
            self.producer.send(self.topic, message, b"key", partition=partition)
            self._next_send_s = now_s + SEND_EVERY_S

    def _disturb_the_broker(self, now_s: float) -> None:
        if self.resume_s is not None:
            if now_s >= self.resume_s:
                self.kafka.resume()
                self.resume_s = None
            return
        fault = self._faults.pop(self.killed, None)
        if fault == "kill":
            self.kafka.restart()
        elif fault == "hang":
            self.kafka.pause()
            self.resume_s = now_s + self.dice.uniform(5.0, 8.0)
        if fault:
            self.broker_faults[fault] += 1


def plan(dice: random.Random, count: int) -> list[tuple[str, float]]:
    """Return the kills of one role: three of five while it works, the others while it starts, joins and takes over."""
    at_work = count * 3 // 5
    kills = [("works", dice.uniform(0.2, 3.0)) for _ in range(at_work)]
    kills += [("start", dice.uniform(0.5, 5.0)) for _ in range(count - at_work)]
    dice.shuffle(kills)
    return kills


def interleaved(spread: list[list[bytes]], dice: random.Random) -> list[tuple[int, bytes]]:
    """Return partition and message in one order of sending."""
    left = [list(messages) for messages in spread]
    order: list[tuple[int, bytes]] = []
    while any(left):
        partition = dice.choice([number for number, messages in enumerate(left) if messages])
        order.append((partition, left[partition].pop(0)))
    return order
