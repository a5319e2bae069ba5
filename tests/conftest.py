"""Fixtures of more than one area, among them a real Kafka broker; the end of a run says what was left out."""

import gc
import itertools
import os
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

import agent  # noqa: F401 - before numpy, whose threads it limits
from tests.kit.effort import examples
from tests.kit.kafka_broker import KafkaBroker
from tests.kit.kafka_jars import NoKafkaError
from tests.kit.validated import validate_all_shards, violations

pytest_plugins = ["pytester", "tests.kit.not_run"]

REQUIRED = "SCALEWATCH_REQUIRE_KAFKA"

# the same examples every time, however slow the machine is; --hypothesis-profile=default looks for new ones
settings.register_profile(
    "same", max_examples=examples(100), derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("same")


WAITING = ("kafka", "slurm", "tools")


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mix files that wait for other programs with files that compute, slow ones first, so that the workers keep all cores busy."""
    if not hasattr(config, "workerinput"):
        return
    files: dict[Path, list[pytest.Item]] = defaultdict(list)
    for item in items:
        files[item.path].append(item)
    groups: dict[bool, list[Path]] = {True: [], False: []}
    for path in sorted(files, key=lambda path: not _marked(files[path], ["slow"])):
        groups[_marked(files[path], WAITING)].append(path)
    position = {path: (i + 0.5) / len(group) for group in groups.values() for i, path in enumerate(group)}
    items[:] = [item for path in sorted(position, key=position.__getitem__) for item in files[path]]


def _marked(items: Sequence[pytest.Item], names: Sequence[str]) -> bool:
    return any(item.get_closest_marker(name) for item in items for name in names)


def pytest_collection_finish() -> None:
    """Spare the garbage collector what lives as long as the worker: the tests themselves and all modules."""
    gc.collect()
    gc.freeze()


validate_all_shards()


@pytest.fixture(autouse=True)
def _valid_states() -> Iterator[None]:
    """Fail a test in which a shard left its state invalid, even if the code under test caught the error."""
    violations.clear()
    yield
    assert not violations


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaBroker]:
    """A running broker; where none can be started the test is skipped, or fails if a broker is required."""
    try:
        with KafkaBroker() as broker:
            yield broker
    except NoKafkaError as error:
        reason = f"no Kafka broker: {error}"
        if os.environ.get(REQUIRED) == "1":
            pytest.fail(reason)
        pytest.skip(reason)


@pytest.fixture(scope="session")
def _numbers() -> Iterator[int]:
    return itertools.count(1)


@pytest.fixture
def fresh(_numbers: Iterator[int]) -> Callable[[str], str]:
    """Make names of topics and groups that no other test has used."""
    number = next(_numbers)
    return lambda name: f"{name}-{number}"
