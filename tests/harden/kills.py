"""Kills: processes die by kill -9 and the broker is disturbed, all under load; then what came out is compared with what was produced."""

import random
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any, Final

from kafka.admin import KafkaAdminClient
from kafka.errors import KafkaError

from agent.log.kafka.client import ClientName
from tests.bench.result import Row, quantile
from tests.harden.count import Compared, by_key, compared, expected_models, learned, settled_run
from tests.harden.members import EACH, SOURCE, Members
from tests.harden.topics import Record, create, producing, records
from tests.harden.traffic import PARTITIONS, SYSTEMS, Answers, Traffic, Watch
from tests.kit.agent_process import AgentProcess
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.logs import CLIENTS

JOBS_PER_S: Final = 12.0
RECOVERY_S_MAX: Final = 120.0
HEAL_S: Final = 300.0
FLUSH_S: Final = 300.0
MOMENT_S: Final = 20.0  # within which a checkpoint or a rebalance begins
AWAY_S: Final = (4.0, 10.0)  # of a broker
FROZEN_S: Final = (2.0, 15.0)  # shorter and longer than a session
REBALANCING: Final = ("PreparingRebalance", "CompletingRebalance")
KILLS: Final = {  # of sixty; the second and the fourth take two each
    "at work": 16, "at start-up": 8, "within a checkpoint": 10, "within a rebalance": 9,
}  # fmt: skip
FAULTS: Final = (
    "killed and started", "frozen", "killed, away for a while", "restarted in order", "killed within a checkpoint",
    "frozen while a learner starts", "killed while a collector starts", "frozen", "killed and started", "restarted in order",
)  # fmt: skip


@dataclass
class Tale:
    """What was done, and how long it took each time until every lane worked again."""

    faults: list[str] = field(default_factory=list)
    recovery_s: list[float] = field(default_factory=list)
    not_recovered: list[str] = field(default_factory=list)


class Storm:
    """Kills and faults in an order by chance, each after all has recovered from the one before."""

    def __init__(
        self,
        kafka: KafkaBroker,
        members: Members,
        answers: Answers,
        dice: random.Random,
        report: Callable[[str], object],
    ) -> None:
        self.tale = Tale()
        self._kafka, self._members, self._answers, self._dice, self._report = kafka, members, answers, dice, report
        self._wrote = {shard: Event() for shard in range(len(SYSTEMS))}
        self._watch = Watch(kafka.bootstrap, members.config.topics.state, self._saw, committed=False)

    def rage(self, kills: int, faults: int) -> None:
        """Do so many of each."""
        plan = [what for what, count in KILLS.items() for _ in range(count)]
        self._dice.shuffle(plan)
        left = [FAULTS[number % len(FAULTS)] for number in range(faults)]
        self._recover("the start")
        while self._members.kills.total() < kills or left:
            done = self._members.kills.total()
            if left and (done >= kills or done * faults >= (faults - len(left) + 0.5) * kills):
                self._disturb(left.pop(0))
            else:
                self._kill(plan[0], kills - done)
                plan.append(plan.pop(0))
            self._report(
                f"{self._members.client}: {self._members.kills.total()} of {kills} kills, {faults - len(left)} of {faults} faults, "
                f"recovered in {self.tale.recovery_s[-1]:.1f} s"
            )

    def end(self) -> None:
        """Stop watching."""
        self._watch.end()

    def _saw(self, partition: int, _key: bytes | None) -> None:
        self._wrote[partition].set()

    def _recover(self, what: str) -> None:
        since_s = time.monotonic()
        self._answers.forget()
        if self._members.until(lambda: self._answers.working_s(since_s), RECOVERY_S_MAX):
            self.tale.recovery_s.append((self._answers.working_s(since_s) or since_s) - since_s)
        else:
            self.tale.recovery_s.append(RECOVERY_S_MAX)
            self.tale.not_recovered.append(what)

    def _one(self, role: str | None = None) -> AgentProcess:
        """Return a member that is ready; others may be starting."""
        role = role or self._dice.choice(list(self._members.by_role))
        members = self._dice.sample(self._members.by_role[role], EACH)
        self._members.until(lambda: any(member.ready(role) for member in members), RECOVERY_S_MAX)
        return next((member for member in members if member.ready(role)), members[0])

    def _kill(self, when: str, left: int) -> None:
        self._members.wait(self._dice.uniform(0.2, 1.5))
        if when == "within a checkpoint":
            self._kill_within_checkpoint()
        elif when == "within a rebalance" and left > 1:
            self._kill_within_rebalance(self._dice.choice(("collector", "learner")))
        else:
            member = self._one()
            self._members.kill(member, "at work")
            if when == "at start-up" and left > 1:
                self._members.wait(self._dice.uniform(0.3, 4.0))
                if member.running():
                    self._members.kill(member, when)
        self._recover(when)

    def _kill_within_checkpoint(self) -> None:
        """Kill the learner of a shard when the first record of a transaction of its checkpoint is seen."""
        shard = self._dice.choice(list(self._wrote))
        member = self._members.owner(shard) or self._one("learner")
        self._await_checkpoint(shard)
        self._members.kill(member, "within a checkpoint")

    def _await_checkpoint(self, shard: int) -> None:
        self._wrote[shard].clear()
        self._wrote[shard].wait(MOMENT_S)

    def _kill_within_rebalance(self, role: str) -> None:
        """Kill one member, and another one while the group shares out what the first one had."""
        first = self._one(role)
        second = next(member for member in self._members.by_role[role] if member is not first)
        self._members.kill(first, "at work")
        config = self._members.config
        group = config.collector_group if role == "collector" else config.learner_group
        admin = KafkaAdminClient(bootstrap_servers=self._kafka.bootstrap)
        try:
            self._members.until(lambda: _rebalances(admin, group), MOMENT_S)
        finally:
            admin.close()
        if second.running():
            self._members.kill(second, "within a rebalance")

    def _disturb(self, fault: str) -> None:
        self._members.wait(self._dice.uniform(0.2, 1.5))
        if fault == "killed within a checkpoint":
            self._await_checkpoint(self._dice.choice(list(self._wrote)))
        elif fault.endswith("starts"):
            self._members.kill(self._one("learner" if "learner" in fault else "collector"), "at work")
            self._members.wait(self._dice.uniform(0.5, 3.0))
        if fault.startswith("frozen"):
            self._kafka.pause()
            self._members.wait(self._dice.uniform(*FROZEN_S))
            self._kafka.resume()
        elif fault == "restarted in order":
            self._kafka.stop()
            self._kafka.start()
        else:
            self._kafka.kill()
            if "away" in fault:
                self._members.wait(self._dice.uniform(*AWAY_S))
            self._kafka.start()
        self.tale.faults.append(fault)
        self._recover(f"the broker was {fault}")


def _rebalances(admin: KafkaAdminClient, group: str) -> bool:
    try:
        return admin.describe_consumer_groups([group])[0].state in REBALANCING
    except KafkaError:
        return False


def run(*, seed: int, kills: int, faults: int, report: Callable[[str], object]) -> Iterator[Row]:
    """Disturb agents of each Kafka client in turn, and yield how their output differs from what was produced."""
    for client in CLIENTS:
        yield from run_on(client, seed=seed, kills=kills, faults=faults, report=report)


def run_on(client: ClientName, *, seed: int, kills: int, faults: int, report: Callable[[str], object]) -> Iterator[Row]:
    """Disturb agents that use one Kafka client."""
    dice = random.Random(seed)  # noqa: S311 - the same storm for the same seed
    with ExitStack() as stack:
        kafka = stack.enter_context(KafkaBroker())
        create(kafka.bootstrap, {SOURCE: PARTITIONS})
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="scalewatch-kills-")))
        members = Members(folder, kafka.bootstrap, client)
        stack.callback(members.end)
        members.look()
        members.until(members.ready, RECOVERY_S_MAX)
        producer = stack.enter_context(producing(kafka.bootstrap))
        traffic = Traffic(producer, SOURCE, JOBS_PER_S, seed)
        answers = Answers(kafka.bootstrap, members.config.topics.answers, traffic.produced)
        stack.callback(answers.end)
        traffic.start()
        storm = Storm(kafka, members, answers, dice, report)
        stack.callback(storm.end)
        storm.rage(kills, faults)
        traffic.end(FLUSH_S)
        report(f"{client}: {len(traffic.produced.ended):,} runs were produced; waiting until all is worked off")
        outcome = Outcome(kafka.bootstrap, members, traffic)
        members.until(outcome.worked_off, HEAL_S)
        members.leave("collector")
        members.leave("learner")
        yield from rows(client, storm.tale, members, traffic, outcome)


class Outcome:
    """What came out, read from the topics as anybody could."""

    def __init__(self, bootstrap: str, members: Members, traffic: Traffic) -> None:
        self._bootstrap, self._topics, self._produced = bootstrap, members.config.topics, traffic.produced
        self._expected = expected_models((name.partition("/")[0], run) for name, run in self._produced.runs.items())
        self._next_look_s = 0.0

    def worked_off(self) -> bool:
        """Return whether everything has come out."""
        if time.monotonic() < self._next_look_s:
            return False
        self._next_look_s = time.monotonic() + 3.0
        return not self.wrong_models() and not self.runs().lost and not self.answers().lost

    def runs(self) -> Compared:
        """Compare the settled runs with those that were produced."""
        arrived: dict[str, list[bytes | None]] = {}
        plain: dict[str, Any] = {}
        for values in by_key(self._records("runs")).values():
            message = Record(0, 0, None, values[-1]).plain()
            name = f"{message['event']['system']}/{message['event']['job_id']}"
            arrived.setdefault(name, []).extend(values)
            plain[name] = settled_run(message)
        return compared(self._produced.ended, arrived, plain)

    def answers(self) -> Compared:
        """Compare the answers with the questions."""
        return compared(self._produced.questions, by_key(self._records("answers")), {})

    def dead_letters(self) -> int:
        """Return for how many messages there are dead letters."""
        return len(by_key(self._records("deadletters")))

    def different(self) -> int:
        """Count the messages of all output topics that came with one id and several contents."""
        found = 0
        for kind in ("predictions", "job_predictions", "answers", "alerts", "runs", "deadletters"):
            versions: dict[tuple[bytes | None, str], set[bytes]] = {}
            for each in self._records(kind):
                if each.value is not None:
                    versions.setdefault((each.key, each.plain()["id"]), set()).add(each.value)
            found += sum(len(values) > 1 for values in versions.values())
        return found

    def models(self) -> int:
        """Return how many models there should be."""
        return len(self._expected)

    def wrong_models(self) -> list[str]:
        """Return the models that do not know exactly the runs that were produced for them."""
        known = learned(records(self._bootstrap, self._topics.state))
        return sorted(
            name for name in known.keys() | self._expected.keys() if known.get(name, 0) != self._expected[name]
        )

    def _records(self, kind: str) -> list[Record]:
        return records(self._bootstrap, getattr(self._topics, kind))


def rows(client: ClientName, tale: Tale, members: Members, traffic: Traffic, outcome: Outcome) -> Iterator[Row]:
    """Yield the figures of a storm that is over."""
    produced, runs, answers, wrong = traffic.produced, outcome.runs(), outcome.answers(), outcome.wrong_models()
    kills = ", ".join(f"{what} {count}" for what, count in sorted(members.kills.items()))
    yield Row(f"{client}: kill -9 of processes", float(members.kills.total()), "", kills)
    yield Row(f"{client}: faults of the broker", float(len(tale.faults)), "", ", ".join(tale.faults))
    ended = members.ended_by_themselves()
    yield Row(
        f"{client}: processes that ended by themselves",
        float(ended),
        "",
        "and were started again, as their parent does",
    )
    yield Row(
        f"{client}: runs", float(len(produced.ended)), "", f"produced, in {produced.messages:,} messages with repeats"
    )
    yield Row(f"{client}: runs lost", float(len(runs.lost)), "", ", ".join(runs.lost[:5]), 0.0)
    double = sorted({*runs.different, *runs.unknown})
    yield Row(f"{client}: runs doubled", float(len(double)), "", "as another run, or with other contents", 0.0)
    yield Row(f"{client}: runs wrong", float(len(runs.wrong)), "", "settled as something else than was produced", 0.0)
    yield Row(f"{client}: runs repeated", float(runs.repeats), "records", "with equal bytes, which readers may see")
    yield Row(f"{client}: models", float(outcome.models()), "", "compared")
    yield Row(f"{client}: models wrong", float(len(wrong)), "", f"not exact to the run; {', '.join(wrong[:5])}", 0.0)
    lost = [*answers.lost, *answers.different, *answers.unknown]
    yield Row(f"{client}: questions", float(len(produced.questions)), "", "sent on every lane all the time")
    yield Row(f"{client}: answers lost or double", float(len(lost)), "", ", ".join(lost[:5]), 0.0)
    different = outcome.different()
    yield Row(f"{client}: messages with two contents", float(different), "", "in any output topic, by key and id", 0.0)
    missing = produced.bad - outcome.dead_letters()
    yield Row(f"{client}: dead letters amiss", float(abs(missing)), "", f"of {produced.bad} bad messages", 0.0)
    yield Row(f"{client}: recovery, median", quantile(tale.recovery_s, 0.5), "s", "until every lane answers again")
    yield Row(f"{client}: recovery, max", max(tale.recovery_s), "s", ", ".join(tale.not_recovered), RECOVERY_S_MAX)
