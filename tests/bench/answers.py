"""What an answer costs, and how soon questions are answered on a real Kafka under load."""

import json
import statistics
import time
from collections.abc import Iterator
from typing import Final

import msgspec

from agent.app import compose
from agent.app.kafka import kafka_settings
from agent.decode.formats import DECODERS
from agent.log.kafka.client import ClientName
from agent.log.kafka.log import KafkaLog
from processors.contracts.events import JournalRecord, decode_record, encode_record
from tests.bench.centre import QUESTIONS, RHYTHM_S, Centre, centre, producing
from tests.bench.kafka_path import APPLICATIONS, LOOK_S, WARM_UP_S
from tests.bench.result import Row, quantile
from tests.bench.story import RATE_PER_S as STORY_RATE_PER_S
from tests.bench.story import Story, journals
from tests.bench.workload import SIZES, SYSTEM, Load, config
from tests.kit.logs import CLIENTS

RATE_PER_S: Final = 500.0
QUICK_RHYTHM_S: Final = 1.0
ASK_S: Final = 0.05
LATE_S: Final = 20.0
KNOWN: Final = 50  # applications, where an answer is timed alone,
RUNS_EACH: Final = 24  # and how often each has run


def run(*, quick: bool) -> Iterator[Row]:
    """Yield what an answer costs, and how long it takes from a topic to the answers topic, under load, with each client."""
    yield _alone(500 if quick else 2_000)
    for client in CLIENTS:
        for rhythm_s in (RHYTHM_S, QUICK_RHYTHM_S):
            yield _answered(client, 25.0 if quick else 50.0, rhythm_s)


def _alone(questions: int) -> Row:
    """Return the processor time of an answer from a published curve, from the journal's record to that of the answer."""
    load = Load(KNOWN, 2, starts=True, rate_per_s=STORY_RATE_PER_S, t1_s=40.0, hosts_max=1)
    story = Story()
    story.fold(journals(load, RUNS_EACH * KNOWN)[0])
    decode = DECODERS["native"](compose.decode_options(config()))
    events = [decode(_question(f"q{number % KNOWN}"), 0).events[0] for number in range(questions)]
    records = [
        encode_record(JournalRecord(event=msgspec.structs.replace(event, request_id=f"q{number}")))
        for number, event in enumerate(events)
    ]
    fold, took_us = story.shard, []
    for record in records:
        began_s = time.process_time()
        for message in fold.fold(decode_record(record)):
            compose.encode(message)
        took_us.append((time.process_time() - began_s) * 1e6)
    return Row(
        "answer, processor time",
        statistics.median(took_us),
        "us",
        f"{len(SIZES)} sizes of a published curve, from the journal's record to that of the answer",
        100.0,
        details={"p99_us": quantile(took_us, 0.99), "mean_us": statistics.fmean(took_us)},
    )


def _answered(client: ClientName, seconds: float, rhythm_s: float) -> Row:
    with centre(rhythm_s, client) as found, producing(found.kafka, RATE_PER_S, seconds, APPLICATIONS):
        time.sleep(WARM_UP_S)
        waits_ms = _ask(found, seconds - WARM_UP_S - LOOK_S)
        times = found.times()
    quantiles = {f"p{share:.0%}_ms".replace("%", ""): quantile(waits_ms, share) for share in (0.5, 0.9, 0.95, 0.99)}
    return Row(
        f"answer over Kafka, {client}, p99, checkpoints every {rhythm_s:g} s",
        quantiles["p99_ms"],
        "ms",
        f"from a topic to the answers topic at {RATE_PER_S:g} completions/s; p50 {quantiles['p50_ms']:.0f} ms",
        100.0,
        details={**quantiles, "max_ms": max(waits_ms), "questions": len(waits_ms), "mean_s": times},
    )


def _ask(found: Centre, seconds: float) -> list[float]:
    """Ask steadily and return how long each answer took; a question without an answer raises."""
    log = KafkaLog(kafka_settings(found.agent.config))
    producer = log.producer()
    consumer = log.consumer("bench-asker", [compose.output_topics(found.agent.config)["answers"]], member="asker")
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
