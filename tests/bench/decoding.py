"""Decoding: messages of producers into events, on one core."""

import json
import time
from collections.abc import Iterator

from agent.app import compose
from agent.config.tree import Source
from agent.decode.formats import DECODERS
from tests.bench.result import Row, median_rate
from tests.bench.workload import START_MS, TOPIC, Load, Message, config, messages
from tests.kit.job_records import slurm_record

REPEATS = 5
MEANINGS = {
    "native": "job.completed of 400 bytes with a host list, JSON to typed events",
    "slurm": "finish records of Slurm 26.05 (1.4 kB), JSON to typed events",
}


def run(*, quick: bool) -> Iterator[Row]:
    """Yield events per processor second of each format."""
    count = 2_000 if quick else 20_000
    streams = {"native": messages(Load(applications=50, jobs=count)), "slurm": slurm(count)}
    for name, stream in streams.items():
        source = Source(topics=(TOPIC,), format=name, system="bench")
        decode = DECODERS[name](compose.decode_options(config(), source))
        seconds = []
        for _ in range(REPEATS):
            began_s = time.process_time()
            for message in stream:
                decode(message.value, message.time_ms)
            seconds.append(time.process_time() - began_s)
        yield Row(f"decode {name}", median_rate(count, seconds), "events/s per core", MEANINGS[name])


def slurm(count: int) -> list[Message]:
    """Return finish records of Slurm."""
    record = json.loads(slurm_record())
    return [
        Message(START_MS, json.dumps({**record, "jobid": 1000 + i}, separators=(",", ":")).encode())
        for i in range(count)
    ]
