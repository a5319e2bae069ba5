"""Shelves: lazy after a restore, dirty until a checkpoint is confirmed, and the same as if they had never stopped."""

from functools import partial
from typing import Any

import msgspec
import pytest

from processors.contracts.errors import ConfigError
from processors.contracts.settings import RunTimeSettings
from processors.jobs.deduplication import Asked, AskedState
from processors.run_time.model import RunTime, RunTimeState
from processors.store import STALE_MAX, Envelope, Kind, Shelf

ASKED = Kind(Asked.name, Asked.version, AskedState, Asked.build)
RUN_TIME = Kind(RunTime.name, RunTime.version, RunTimeState, partial(RunTime.build, RunTimeSettings()))
MINUTE_MS = 60_000


def asked(shelf: Shelf[Asked], key: str, now_ms: int) -> None:
    processor = shelf.open(key)
    processor.learn((f"request-{now_ms}", now_ms))
    shelf.changed(key, processor, now_ms)


def shelf_of(*times_ms: int, live_max: int = 5000) -> Shelf[Asked]:
    """Return a shelf with the keys a, b, c, ... changed at some times."""
    shelf = Shelf(ASKED, live_max)
    for key, time_ms in zip("abcdefgh", times_ms, strict=False):
        asked(shelf, key, time_ms)
    return shelf


def restored(shelf: Shelf[Any], live_max: int = 5000) -> Shelf[Any]:
    twin = Shelf(shelf.kind, live_max)
    for key in sorted(shelf.keys()):
        twin.restore(key, shelf.encode(key) or b"")
    return twin


def test_a_restore_decodes_nothing_before_it_is_used() -> None:
    built: list[str] = []

    def build(state: AskedState | None) -> Asked:
        built.append("built")
        return Asked.build(state)

    shelf = Shelf(Kind(Asked.name, Asked.version, AskedState, build))
    for key, value in shelf_of(1, 2, 3).dirty().items():
        shelf.restore(key, value or b"")
    assert (built, len(shelf), "b" in shelf, shelf.dirty()) == ([], 3, True, {})
    assert shelf.get("b") is shelf.get("b")
    assert built == ["built"]


def test_what_was_restored_and_not_used_is_stored_as_it_was() -> None:
    value = shelf_of(1).encode("a") or b""
    padded = value.replace(b'{"requests"', b'{   "requests"')
    shelf = Shelf(ASKED)
    shelf.restore("a", padded)
    assert shelf.encode("a") == padded
    shelf.get("a")
    assert shelf.encode("a") == value


def test_states_stay_dirty_until_their_checkpoint_is_confirmed() -> None:
    shelf = shelf_of(1)
    first = shelf.dirty()
    assert list(first) == ["a"]
    assert shelf.dirty() == first, "the first checkpoint may be lost: the next one has to hold it again"
    shelf.confirm()
    assert shelf.dirty() == {}


def test_what_changes_while_a_checkpoint_is_written_is_dirty_for_the_next() -> None:
    shelf = shelf_of(1)
    shelf.dirty()
    asked(shelf, "b", 2)
    shelf.confirm()
    assert list(shelf.dirty()) == ["b"]


def test_a_key_that_leaves_is_written_as_gone_until_that_is_confirmed() -> None:
    shelf = shelf_of(1)
    shelf.dirty()
    shelf.confirm()
    shelf.remove("a")
    shelf.remove("never-there")
    assert (shelf.get("a"), shelf.dirty(), shelf.dirty()) == (None, {"a": None}, {"a": None})
    shelf.confirm()
    assert shelf.dirty() == {}


def test_a_key_that_came_and_went_between_two_checkpoints_leaves_nothing_to_write() -> None:
    shelf = shelf_of(1)
    shelf.remove("a")
    assert shelf.dirty() == {}


def test_a_key_that_came_back_and_went_again_is_still_written_as_gone() -> None:
    shelf = shelf_of(1)
    shelf.dirty()
    shelf.confirm()
    shelf.remove("a")
    asked(shelf, "a", 2)
    shelf.remove("a")
    assert shelf.dirty() == {"a": None}


def test_a_key_that_goes_while_its_checkpoint_is_written_is_written_as_gone_by_the_next() -> None:
    shelf = shelf_of(1, 2)
    shelf.dirty()
    shelf.remove("a")
    shelf.remove("b")
    asked(shelf, "b", 3)
    shelf.confirm()
    shelf.remove("b")
    assert shelf.dirty() == {"a": None, "b": None}


def test_a_new_processor_is_kept_only_once_it_is_told_changed() -> None:
    shelf = Shelf(ASKED)
    shelf.open("a").learn(("r", 1))
    assert len(shelf) == 0
    assert shelf.dirty() == {}


def test_due_keys_come_the_longest_overdue_first_and_ties_by_key() -> None:
    shelf = shelf_of(3 * MINUTE_MS, MINUTE_MS, MINUTE_MS, 9 * MINUTE_MS)
    late_ms = 14 * MINUTE_MS
    assert shelf.due(late_ms, limit=2) == ["b", "c"]
    assert shelf.due(late_ms, limit=2) == ["a"]
    assert shelf.due(late_ms, limit=2) == []
    assert shelf.due(99 * MINUTE_MS, limit=2) == ["d"]


def test_a_time_that_was_put_off_is_not_due_at_the_old_one() -> None:
    shelf = shelf_of(0)
    asked(shelf, "a", 5 * MINUTE_MS)
    assert shelf.due(11 * MINUTE_MS, limit=9) == []
    assert shelf.due(16 * MINUTE_MS, limit=9) == ["a"]


def test_times_that_nothing_waits_for_do_not_pile_up() -> None:
    shelf = shelf_of(0)
    for minute in range(10 * STALE_MAX):
        asked(shelf, "a", minute * MINUTE_MS)
    assert len(shelf._due) <= STALE_MAX + 2
    assert shelf.due(10 * STALE_MAX * MINUTE_MS + 11 * MINUTE_MS, limit=9) == ["a"]


def test_the_longest_unused_are_named_first_and_ties_by_key() -> None:
    shelf = shelf_of(5, 1, 1, 9)
    assert shelf.longest_unused(3) == ["b", "c", "a"]
    asked(shelf, "b", 20)
    assert shelf.longest_unused(3) == ["c", "a", "d"]
    assert restored(shelf).longest_unused(3) == ["c", "a", "d"]


def test_memory_is_given_back_at_a_checkpoint_and_nothing_is_lost_by_it() -> None:
    shelf = shelf_of(1, 2, 3, 4, live_max=2)
    before = shelf.dirty()
    shelf.confirm()
    asleep = [key for key in "abcd" if shelf._slots[key].processor is None]
    assert asleep == ["a", "b"]
    assert {key: shelf.encode(key) for key in "abcd"} == before
    assert shelf.open("a").score("request-1")


def test_a_restored_shelf_goes_on_as_the_one_that_never_stopped() -> None:
    shelf = shelf_of(MINUTE_MS, 3 * MINUTE_MS, MINUTE_MS)
    twin = restored(shelf)
    for each in (shelf, twin):
        asked(each, "c", 4 * MINUTE_MS)
        asked(each, "z", 5 * MINUTE_MS)
        each.remove("b")
    assert shelf.due(99 * MINUTE_MS, limit=9) == twin.due(99 * MINUTE_MS, limit=9) == ["a", "c", "z"]
    assert {key: shelf.encode(key) for key in shelf.keys()} == {key: twin.encode(key) for key in twin.keys()}  # noqa: SIM118 - no mapping


def test_a_state_of_a_newer_agent_is_refused_with_what_to_do() -> None:
    value = msgspec.json.encode(Envelope(RunTime.version + 1, 0, None, msgspec.Raw(b"{}")))
    with pytest.raises(ConfigError, match=r"run_time/x was written by a newer agent.*`scalewatch rebuild`\.$"):
        Shelf(RUN_TIME).restore("x", value)


def test_a_state_of_an_older_form_is_refused_with_what_to_do() -> None:
    value = msgspec.json.encode(Envelope(0, 0, None, msgspec.Raw(b"{}")))
    with pytest.raises(ConfigError, match=r"has version 0, which is too old: run `scalewatch rebuild`\.$"):
        Shelf(RUN_TIME).restore("x", value)


@pytest.mark.parametrize("value", [b"", b"{", b"null", b'{"version": "1"}', b"\xff"])
def test_a_damaged_state_is_refused_with_what_to_do(value: bytes) -> None:
    with pytest.raises(ConfigError, match=r"is damaged .*`scalewatch rebuild`\.$"):
        Shelf(ASKED).restore("x", value)
