"""Hosts for subscribers: what it takes to publish one, and how long its message is, by its resources."""

import statistics
import time
from collections.abc import Iterator
from typing import Final

import msgspec

from agent.app.compose import encode
from processors.pipeline.hosts import HostReports
from tests.bench import hosts
from tests.bench.result import Row

HOSTS: Final = 500
ROUNDS: Final = 5
PERIOD_S: Final = 60


def run(*, quick: bool) -> Iterator[Row]:
    """Yield what a published host costs on one core, and its bytes."""
    count = HOSTS // 5 if quick else HOSTS
    fold = hosts.learned(count)[0].hosts
    state = fold.state
    settings = state.settings.hosts.model_copy(update={"publish_s": float(PERIOD_S)})
    state.settings = msgspec.structs.replace(state.settings, hosts=settings)
    reports, seconds = HostReports(state, fold.views.host), []
    for _ in range(ROUNDS):
        began_s = time.process_time()
        messages = list(reports.tick(state.now_ms - 1000 * PERIOD_S))
        encoded = [encode(message) for message in messages]
        seconds.append(time.process_time() - began_s)
    if len(messages) != count or {len(each.resources) for each in messages} != {len(hosts.RESOURCES)}:
        raise AssertionError("Not all that is known of hosts was published.")
    blank = [encode(msgspec.structs.replace(message, resources=())) for message in messages]
    whole, empty = (sum(len(each.value or b"") + len(each.key) for each in of) / count for of in (encoded, blank))
    each_s = statistics.median(seconds) / count / len(hosts.RESOURCES)
    meaning = "views, forecasts and JSON; median of five rounds of all hosts"
    yield Row("resource of a published host", 1e6 * each_s, "us per core", meaning)
    yield Row("published host", empty, "bytes", "with its key, without its resources")
    yield Row("published resource", (whole - empty) / len(hosts.RESOURCES), "bytes", "besides its host")
