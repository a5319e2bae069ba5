"""The whole path on a real Kafka: how many completions a second it carries, and how soon questions are answered."""

import json
import time
from collections.abc import Iterator
from typing import Final

from agent.app.compose import output_topics
from agent.app.kafka import kafka_settings
from agent.log.kafka.log import KafkaLog
from agent.log.kafka.settings import ClientName
from tests.bench.centre import QUESTIONS, RHYTHM_S, Centre, centre, cpu_s, producing
from tests.bench.result import Row, quantile
from tests.bench.workload import SIZES, SYSTEM
from tests.kit.logs import CLIENTS

APPLICATIONS: Final = 50
RATE_PER_S: Final = 3600.0  # more than the goal: so the figure is what the agent carries, not what it was given
QUIET_RATE_PER_S: Final = 500.0
QUICK_RHYTHM_S: Final = 1.0
WARM_UP_S: Final = 12.0
LOOK_S: Final = 1.0
ASK_S: Final = 0.05
LATE_S: Final = 20.0


def throughput(*, quick: bool) -> Iterator[Row]:
    """Yield the completions a second that both roles carry, and the processor time of each process, with each client."""
    for client in CLIENTS:
        yield from _throughput(client, 25.0 if quick else 50.0)


def _throughput(client: ClientName, seconds: float) -> Iterator[Row]:
    with centre(client=client) as found, producing(found.kafka, RATE_PER_S, seconds, APPLICATIONS) as producer:
        time.sleep(WARM_UP_S)
        pids = {**found.pids(), "producer": producer.pid}
        began_s, before, used = time.monotonic(), found.processed(), {name: cpu_s(pid) for name, pid in pids.items()}
        time.sleep(seconds - WARM_UP_S - LOOK_S)
        elapsed_s = time.monotonic() - began_s
        completions = found.processed() - before
        spent = {name: cpu_s(pid) - used[name] for name, pid in pids.items()}
        times = found.times()
    each_us = {name: spent[name] / completions * 1e6 for name in spent}
    shares = ", ".join(f"{name} {each_us[name]:.0f}" for name in each_us)
    details = {"us_per_completion": each_us, "offered_per_s": RATE_PER_S, "measured_s": elapsed_s,
               "cores_used": sum(spent.values()) / elapsed_s, "mean_s": times}  # fmt: skip
    meaning = "raw topic to journal to runs and state, two role processes and a producer on this machine"
    rate = completions / elapsed_s
    yield Row(f"whole path, {client}", rate, "completions/s", meaning, 3000.0, larger_is_better=True, details=details)
    yield Row(
        f"whole path, {client}, busiest role",
        1e6 / max(each_us["learner"], each_us["collector"]),
        "completions/s per core",
        f"what a role carries that has a core for itself; µs of processor each: {shares}",
        details=details,
    )


def answers(*, quick: bool) -> Iterator[Row]:
    """Yield how long it takes from a question on a topic to its answer on the answers topic, under load."""
    for rhythm_s in (RHYTHM_S, QUICK_RHYTHM_S):
        yield _answered(25.0 if quick else 50.0, rhythm_s)


def _answered(seconds: float, rhythm_s: float) -> Row:
    with centre(rhythm_s) as found, producing(found.kafka, QUIET_RATE_PER_S, seconds, APPLICATIONS):
        time.sleep(WARM_UP_S)
        waits_ms = _ask(found, seconds - WARM_UP_S - LOOK_S)
        times = found.times()
    quantiles = {f"p{share:.0%}_ms".replace("%", ""): quantile(waits_ms, share) for share in (0.5, 0.9, 0.95, 0.99)}
    return Row(
        f"answer over Kafka, p99, checkpoints every {rhythm_s:g} s",
        quantiles["p99_ms"],
        "ms",
        f"from a topic to the answers topic at {QUIET_RATE_PER_S:g} completions/s; p50 {quantiles['p50_ms']:.0f} ms",
        100.0,
        details={**quantiles, "max_ms": max(waits_ms), "questions": len(waits_ms), "mean_s": times},
    )


def _ask(found: Centre, seconds: float) -> list[float]:
    """Ask steadily and return how long each answer took; a question without an answer raises."""
    log = KafkaLog(kafka_settings(found.agent.config))
    producer = log.producer()
    consumer = log.consumer("bench-asker", [output_topics(found.agent.config)["answers"]], member="asker")
    while not consumer.assigned():
        consumer.poll(1.0)
    sent_s: dict[str, float] = {}
    waits_ms: dict[str, float] = {}
    began_s = time.monotonic()
    while (now_s := time.monotonic() - began_s) < seconds or (len(waits_ms) < len(sent_s) and now_s < seconds + LATE_S):
        if len(sent_s) * ASK_S <= now_s < seconds:
            name = f"q{len(sent_s)}"
            sent_s[name] = time.monotonic()
            producer.send(QUESTIONS, _question(name), None, 0)
            producer.flush(LATE_S)
        for batch in consumer.poll(ASK_S).batches:
            for key in batch.keys:
                name = (key or b"").decode()
                waits_ms.setdefault(name, (time.monotonic() - sent_s[name]) * 1000)
    log.close()
    assert len(waits_ms) == len(sent_s), f"{len(sent_s) - len(waits_ms)} questions have no answer"
    return list(waits_ms.values())


def _question(name: str) -> bytes:
    number = int(name[1:]) % APPLICATIONS
    question = {"type": "prediction.requested", "system": SYSTEM, "request_id": name, "n": list(SIZES)}
    return json.dumps({**question, "application": f"app{number:05d}", "unit": "nodes"}).encode()
