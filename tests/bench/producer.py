"""A producer of its own process: completions at a steady pace, each sent when its run ends.

python -m tests.bench.producer BOOTSTRAP TOPIC PACE_PER_S SECONDS APPLICATIONS: prints the time of the first message (ms since
the epoch), and at the end how many were sent.
"""

import sys
import time
from collections.abc import Iterator

from agent.log.kafka.client import KafkaLogSettings
from agent.log.kafka.log import KafkaLog
from tests.bench.workload import Load, Message, messages

LEAD_PER_MESSAGE_S = 0.0002  # the messages are made before the first is sent
LEAD_S = 2.0
SLICE_S = 0.01
WAIT_S = 60.0


def main(bootstrap: str, topic: str, rate_per_s: float, seconds: float, applications: int) -> None:
    """Send the stream; what is late is sent at once."""
    jobs = round(rate_per_s * seconds)
    start_ms = round((time.time() + LEAD_S + jobs * LEAD_PER_MESSAGE_S) * 1000)
    stream = messages(Load(applications, jobs, rate_per_s=rate_per_s, hosts_max=1, start_ms=start_ms))
    log = KafkaLog(KafkaLogSettings(bootstrap=bootstrap))
    producer = log.producer()
    report(start_ms)
    for message in in_time(stream):
        producer.send(topic, message.value, None, None, message.time_ms)
    producer.flush(WAIT_S)
    report(jobs)
    log.close()


def in_time(stream: list[Message]) -> Iterator[Message]:
    """Yield each message when its time has come."""
    now_ms = 0.0
    for message in stream:
        while message.time_ms > now_ms:
            now_ms = time.time() * 1000
            if message.time_ms > now_ms:
                time.sleep(SLICE_S)
        yield message


def report(figure: int) -> None:
    """Tell the benchmark."""
    sys.stdout.write(f"{figure}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), float(sys.argv[4]), int(sys.argv[5]))
