"""The contract of the log, checked on every kind of it: checkpoints. The id of a test is `kind:check`."""

from collections.abc import Callable

import pytest

from processors.contracts.errors import FencedError, UnavailableError
from processors.contracts.log import TopicSettings
from tests.kit.logs import Bench, cases, marker


def check_a_checkpoint_is_restored_by_the_next_owner(bench: Bench) -> None:
    _state_topic(bench)
    first = bench.log.checkpoints(0)
    restored = first.take_over()
    assert (restored.marker, dict(restored.states)) == (None, {})
    first.save({"a": b"1", "b": b"1"}, marker(1, 2, offset=10))
    first.save({"b": b"2", "c": b"2"}, marker(2, 2, offset=20))
    first.save({"a": None}, marker(3, 1, offset=30))
    first.close()
    restored = bench.another().checkpoints(0).take_over()
    assert restored.marker == marker(3, 1, offset=30)
    assert dict(restored.states) == {"b": b"2", "c": b"2"}


def check_shards_are_checkpointed_apart(bench: Bench) -> None:
    _state_topic(bench, partitions=2)
    stores = [bench.log.checkpoints(shard) for shard in range(2)]
    for number, store in enumerate(stores):
        store.take_over()
        store.save({"key": b"%d" % number}, marker(1, 1, offset=number))
    for number in range(2):
        assert dict(bench.another().checkpoints(number).take_over().states) == {"key": b"%d" % number}


def check_a_former_owner_is_fenced_and_its_store_is_dead(bench: Bench) -> None:
    _state_topic(bench)
    former, owner = bench.another().checkpoints(0), bench.another().checkpoints(0)
    former.take_over()
    owner.take_over()
    with pytest.raises(FencedError):
        former.save({"key": b"former"}, marker(1, 1))
    with pytest.raises(UnavailableError):
        former.save({"key": b"former"}, marker(1, 1))
    with pytest.raises(UnavailableError):
        former.take_over()
    owner.save({"key": b"owner"}, marker(1, 1))
    assert dict(bench.another().checkpoints(0).take_over().states) == {"key": b"owner"}


def check_a_state_that_can_never_be_written_is_named_and_harms_nothing(bench: Bench) -> None:
    _state_topic(bench)
    with pytest.raises(UnavailableError, match="take-over"):
        bench.log.checkpoints(0).save({}, marker(1, 0))
    store = bench.log.checkpoints(0)
    store.take_over()
    with pytest.raises(ValueError, match="lammps"):
        store.save({"lammps": b"x" * 900_000}, marker(1, 1))
    with pytest.raises(ValueError, match="marker"):
        store.save({"__marker__": b"{}"}, marker(1, 1))
    with pytest.raises(ValueError, match="counts 7"):
        store.save({"lammps": b"{}"}, marker(1, 7))
    store.save({"lammps": b"x" * 899_000}, marker(1, 1))
    assert len(bench.another().checkpoints(0).take_over().states["lammps"]) == 899_000


def check_a_closed_store_refuses_everything(bench: Bench) -> None:
    _state_topic(bench)
    store = bench.log.checkpoints(0)
    store.take_over()
    store.close()
    store.close()
    with pytest.raises(UnavailableError):
        store.save({}, marker(1, 0))


def _state_topic(bench: Bench, partitions: int = 1) -> None:
    bench.log.create([TopicSettings(name=bench.state_topic, partitions=partitions, compacted=True)])


@pytest.mark.parametrize(("kind", "check"), cases(globals()))
def test_log(kind: str, check: Callable[[Bench], None], make_bench: Callable[[str], Bench]) -> None:
    check(make_bench(kind))
