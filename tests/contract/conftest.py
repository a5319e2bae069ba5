"""What every contract suite of the log runs on."""

from collections.abc import Callable, Iterator

import pytest

from tests.kit.faults import FaultRates
from tests.kit.logs import CLIENTS, Bench, kafka_bench, memory_bench


@pytest.fixture
def make_bench(request: pytest.FixtureRequest, fresh: Callable[[str], str]) -> Iterator[Callable[[str], Bench]]:
    """Make a bench of a kind; its log is closed at the end."""
    made: list[Bench] = []

    def make(kind: str) -> Bench:
        if kind in CLIENTS:
            made.append(kafka_bench(request.getfixturevalue("kafka"), fresh, kind))
        else:
            made.append(memory_bench(fresh, FaultRates() if kind == "faultless" else None))
        return made[-1]

    yield make
    for bench in made:
        bench.log.close()
