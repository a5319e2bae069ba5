"""A rebuild leaves what is learned of hosts as it is, unless nobody can read it."""

from agent.cli.rebuild import rebuild
from agent.config.topics import own_topics
from agent.config.tree import Config
from agent.log.memory import MemoryLog
from processors import __version__
from processors.contracts.events import JournalRecord
from processors.contracts.log import HostPosition, Marker, Restored
from processors.contracts.names import LATEST_MS
from processors.pipeline.host_state import of_hosts
from tests.kit.host_minutes import means, minute
from tests.kit.scenario import Scenario


def a_morning() -> Scenario:
    centre = Scenario().at("08:00")
    centre.shard.fold(JournalRecord(minute("nid1", centre.now_ms // 60_000, cpu_available=means(1))))
    centre.starts("1", "lammps", nodes=4, hosts=("nid1",))
    centre.at("08:10").checkpoint()
    return centre


def rebuilt(stored: dict[str, bytes], now_ms: int) -> Restored:
    config = Config()
    log = MemoryLog(state_topic=config.topics.state)
    log.create(own_topics(config))
    for _ in range(9):
        log.producer().send(config.topics.journal, b"", None, 0)
    store = log.checkpoints(0)
    store.take_over()
    hosts = HostPosition(5, now_ms)
    store.save(stored, Marker(9, 1, len(stored), __version__, "hash", 1, now_ms, hosts=hosts))
    store.close()
    rebuild(config, log, 0, lambda _: None, now_ms=LATEST_MS)
    return log.checkpoints(0).take_over()


def test_hosts_stay_with_their_place_in_the_journal() -> None:
    centre = a_morning()
    taken = rebuilt(centre.stored, centre.now_ms)
    hosts = {key: value for key, value in centre.stored.items() if of_hosts(key)}
    assert {"host_rows/0", "host_windows/0", "host_job/exa/1"} <= set(hosts)
    assert {key: value for key, value in taken.states.items() if of_hosts(key)} == hosts
    assert taken.marker is not None
    assert taken.marker.hosts == HostPosition(5, centre.now_ms)


def test_hosts_that_nobody_can_read_begin_anew() -> None:
    centre = a_morning()
    taken = rebuilt(centre.stored | {"host_windows/0": b"{"}, centre.now_ms)
    assert not [key for key in taken.states if of_hosts(key)]
    assert "job/exa/1" in taken.states
    assert taken.marker is not None
    assert (taken.marker.offset, taken.marker.hosts) == (9, None)
