"""Shelves: lazy after a restore, dirty until a checkpoint is confirmed, and the same as if they had never stopped."""

import math
from functools import partial
from typing import Any

import msgspec
import pytest

from processors.contracts.errors import ConfigError
from processors.contracts.settings import RunTimeSettings
from processors.jobs.memory import AnsweredRequests, AnsweredRequestsState
from processors.run_time.model import RunTime, RunTimeState
from processors.store import STALE_MAX, Kind, Store, StoredState, Unsaved, share

REQUESTED = Kind(AnsweredRequests.name, AnsweredRequests.version, AnsweredRequestsState, AnsweredRequests)
RUN_TIME = Kind(RunTime.name, RunTime.version, RunTimeState, partial(RunTime, RunTimeSettings()))
MINUTE_MS = 60_000


def requested(store: Store[AnsweredRequests], key: str, now_ms: int) -> None:
    processor = store.open(key)
    processor.learn((f"request-{now_ms}", now_ms))
    store.changed(key, processor, now_ms)


def store_of(*times_ms: int, live_max: int = 5000) -> Store[AnsweredRequests]:
    """Return a store with the keys a, b, c, ... changed at some times."""
    store = Store(REQUESTED, live_max)
    for key, time_ms in zip("abcdefgh", times_ms, strict=False):
        requested(store, key, time_ms)
    return store


def dirty(store: Store[Any]) -> dict[str, bytes | None]:
    """Return what a checkpoint has to write; it stays so until it is confirmed."""
    return {key.partition("/")[2]: value for key, value in Unsaved([store]).states().items()}


def restored(store: Store[Any], live_max: int = 5000) -> Store[Any]:
    twin = Store(store.kind, live_max)
    for key in sorted(store.keys()):
        twin.restore(key, store.encode(key) or b"")
    return twin


def test_a_restore_decodes_nothing_before_it_is_used() -> None:
    built: list[str] = []

    def build(state: AnsweredRequestsState) -> AnsweredRequests:
        built.append("built")
        return AnsweredRequests(state)

    store = Store(Kind(AnsweredRequests.name, AnsweredRequests.version, AnsweredRequestsState, build))
    for key, value in dirty(store_of(1, 2, 3)).items():
        store.restore(key, value or b"")
    assert (built, len(store), "b" in store, dirty(store)) == ([], 3, True, {})
    assert store.get("b") is store.get("b")
    assert built == ["built"]


def test_what_was_restored_and_not_used_is_stored_as_it_was() -> None:
    value = store_of(1).encode("a") or b""
    padded = value.replace(b'{"requests"', b'{   "requests"')
    store = Store(REQUESTED)
    store.restore("a", padded)
    assert store.encode("a") == padded
    store.get("a")
    assert store.encode("a") == value


def test_states_stay_dirty_until_their_checkpoint_is_confirmed() -> None:
    store = store_of(1)
    first = dirty(store)
    assert list(first) == ["a"]
    assert dirty(store) == first, "the first checkpoint may be lost: the next one has to hold it again"
    store.confirm()
    assert dirty(store) == {}


def test_what_changes_while_a_checkpoint_is_written_is_dirty_for_the_next() -> None:
    store = store_of(1)
    dirty(store)
    requested(store, "b", 2)
    store.confirm()
    assert list(dirty(store)) == ["b"]


def test_a_key_that_leaves_is_written_as_gone_until_that_is_confirmed() -> None:
    store = store_of(1)
    dirty(store)
    store.confirm()
    store.remove("a")
    store.remove("never-there")
    assert (store.get("a"), dirty(store), dirty(store)) == (None, {"a": None}, {"a": None})
    store.confirm()
    assert dirty(store) == {}


def test_a_key_that_came_and_went_between_two_checkpoints_leaves_nothing_to_write() -> None:
    store = store_of(1)
    store.remove("a")
    assert dirty(store) == {}


def test_a_key_that_came_back_and_went_again_is_still_written_as_gone() -> None:
    store = store_of(1)
    dirty(store)
    store.confirm()
    store.remove("a")
    requested(store, "a", 2)
    store.remove("a")
    assert dirty(store) == {"a": None}


def test_a_key_that_goes_while_its_checkpoint_is_written_is_written_as_gone_by_the_next() -> None:
    store = store_of(1, 2)
    dirty(store)
    store.remove("a")
    store.remove("b")
    requested(store, "b", 3)
    store.confirm()
    store.remove("b")
    assert dirty(store) == {"a": None, "b": None}


def test_a_checkpoint_in_slices_holds_what_was_there_when_it_began() -> None:
    store, twin = store_of(1, 2, 3), store_of(1, 2, 3)
    unsaved = Unsaved([store])
    assert unsaved.encode(1)
    requested(store, "b", 7)
    store.remove("c")
    requested(store, "d", 8)
    assert unsaved.states() == Unsaved([twin]).states()
    store.confirm()
    assert dirty(store) == {"b": store.encode("b"), "c": None, "d": store.encode("d")}


def test_a_new_processor_is_kept_only_once_it_is_reported_changed() -> None:
    store = Store(REQUESTED)
    store.open("a").learn(("r", 1))
    assert len(store) == 0
    assert dirty(store) == {}


def test_due_keys_come_the_longest_overdue_first_and_ties_by_key() -> None:
    store = store_of(3 * MINUTE_MS, MINUTE_MS, MINUTE_MS, 9 * MINUTE_MS)
    late_ms = 14 * MINUTE_MS
    assert store.due(late_ms, limit=2) == ["b", "c"]
    assert store.due(late_ms, limit=2) == ["a"]
    assert store.due(late_ms, limit=2) == []
    assert store.due(99 * MINUTE_MS, limit=2) == ["d"]


@pytest.mark.parametrize("every_ms", [200, 333, 1_000, 10_000, 60_000])
def test_ticks_of_any_length_share_out_as_much_in_ten_seconds(every_ms: int) -> None:
    hour = range(every_ms, 3_600_000 + 1, every_ms)
    whole = 3_600_000 // max(every_ms, 10_000) * 7
    assert sum(share(7, now_ms, every_ms) for now_ms in hour) == pytest.approx(whole, abs=1)
    assert sum(share(7, now_ms, every_ms, 1_000) for now_ms in hour) == pytest.approx(whole, abs=1)
    assert all(now_ms // 1_000 > (now_ms - every_ms) // 1_000 for now_ms in hour if share(7, now_ms, every_ms, 1_000))


def test_what_is_overdue_is_the_same_after_a_restore() -> None:
    store = store_of(MINUTE_MS, 2 * MINUTE_MS, 3 * MINUTE_MS)
    first = store.open("a").due_ms()
    assert first is not None
    requested(store, "a", 9 * MINUTE_MS)
    requested(store, "a", 10 * MINUTE_MS)
    found = store.overdue(first + 2 * MINUTE_MS)
    assert found == restored(store).overdue(first + 2 * MINUTE_MS)
    assert (found.lanes, found.longest_ms) == ({"": 2}, MINUTE_MS)


def test_a_time_that_was_put_off_is_not_due_at_the_old_one() -> None:
    store = store_of(0)
    requested(store, "a", 5 * MINUTE_MS)
    assert store.due(11 * MINUTE_MS, limit=9) == []
    assert store.due(16 * MINUTE_MS, limit=9) == ["a"]


def test_times_that_nothing_waits_for_do_not_pile_up() -> None:
    store = store_of(0)
    for minute in range(10 * STALE_MAX):
        requested(store, "a", minute * MINUTE_MS)
    assert len(store._due) <= STALE_MAX + 2
    assert store.due(10 * STALE_MAX * MINUTE_MS + 11 * MINUTE_MS, limit=9) == ["a"]


def test_a_tick_can_tell_without_a_question_that_nothing_is_due() -> None:
    store = Store(REQUESTED)
    assert store.next_due_ms == math.inf
    store = store_of(5 * MINUTE_MS, MINUTE_MS)
    first_ms = store.next_due_ms
    assert store.due(int(first_ms) - 1, limit=9) == []
    assert store.due(int(first_ms), limit=9) == ["b"]
    assert first_ms < store.next_due_ms < math.inf
    assert restored(store_of(5 * MINUTE_MS, MINUTE_MS)).next_due_ms == first_ms
    assert store.due(int(store.next_due_ms), limit=9) == ["a"]
    assert store.next_due_ms == math.inf


def test_a_store_is_overfull_only_beyond_its_bound() -> None:
    store = Store(REQUESTED, bound=1)
    overfull = []
    for key, time_ms in (("a", 1), ("b", 2), ("b", 3)):
        requested(store, key, time_ms)
        overfull.append(store.overfull)
    (longest_unused,) = store.excess(store.bound)
    store.remove(longest_unused)
    assert [*overfull, store.overfull] == [False, True, True, False]
    assert list(store.keys()) == ["b"]


def test_the_longest_unused_are_named_first_and_ties_by_key() -> None:
    store = store_of(5, 1, 1, 9)
    assert store.excess(1) == ["b", "c", "a"]
    requested(store, "b", 20)
    assert store.excess(1) == ["c", "a", "d"]
    assert restored(store).excess(1) == ["c", "a", "d"]


def test_memory_is_given_back_at_a_checkpoint_and_nothing_is_lost_by_it() -> None:
    store = store_of(1, 2, 3, 4, live_max=2)
    before = dirty(store)
    store.confirm()
    asleep = [key for key in "abcd" if store._entries[key].processor is None]
    assert asleep == ["a", "b"]
    assert {key: store.encode(key) for key in "abcd"} == before
    assert store.open("a").score("request-1")


def test_a_restored_store_goes_on_as_the_one_that_never_stopped() -> None:
    store = store_of(MINUTE_MS, 3 * MINUTE_MS, MINUTE_MS)
    twin = restored(store)
    for each in (store, twin):
        requested(each, "c", 4 * MINUTE_MS)
        requested(each, "z", 5 * MINUTE_MS)
        each.remove("b")
    assert store.due(99 * MINUTE_MS, limit=9) == twin.due(99 * MINUTE_MS, limit=9) == ["a", "c", "z"]
    assert {key: store.encode(key) for key in store.keys()} == {key: twin.encode(key) for key in twin.keys()}  # noqa: SIM118 - no mapping


def test_a_state_of_a_newer_agent_is_refused_with_what_to_do() -> None:
    value = msgspec.json.encode(StoredState(RunTime.version + 1, 0, None, msgspec.Raw(b"{}")))
    with pytest.raises(ConfigError, match=r"run_time/x was written by a newer agent.*`scalewatch rebuild`\.$"):
        Store(RUN_TIME).restore("x", value)


def test_a_state_of_an_older_form_is_refused_with_what_to_do() -> None:
    value = msgspec.json.encode(StoredState(0, 0, None, msgspec.Raw(b"{}")))
    with pytest.raises(ConfigError, match=r"has version 0, which is too old: run `scalewatch rebuild`\.$"):
        Store(RUN_TIME).restore("x", value)


@pytest.mark.parametrize("value", [b"", b"{", b"null", b'{"version": "1"}', b"\xff"])
def test_a_damaged_state_is_refused_with_what_to_do(value: bytes) -> None:
    with pytest.raises(ConfigError, match=r"is damaged .*`scalewatch rebuild`\.$"):
        Store(REQUESTED).restore("x", value)
