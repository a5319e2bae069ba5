"""The records of a checkpoint, and reading them back."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.contracts.errors import UnavailableError
from processors.contracts.log import (
    MARKER_KEY,
    STATE_BYTES_MAX,
    Batch,
    LiveStates,
    Restoration,
    Restored,
    checkpoint_records,
)
from tests.kit.logs import marker

STATES = st.dictionaries(st.text(min_size=1, max_size=5), st.none() | st.binary(max_size=5), max_size=6)


def batch(records: list[tuple[bytes, bytes | None]]) -> Batch:
    keys, values = [key for key, _ in records], [value for _, value in records]
    return Batch("state", 0, len(keys), list(range(len(keys))), values, keys, [0] * len(keys))


@given(st.lists(STATES, max_size=5))
def test_what_is_restored_is_the_last_value_of_every_state(checkpoints: list[dict[str, bytes | None]]) -> None:
    restoration = Restoration()
    expected: dict[str, bytes | None] = {}
    for number, states in enumerate(checkpoints):
        restoration.add(batch(list(checkpoint_records(states, marker(number, len(states), offset=number * 10)))))
        expected.update(states)
    restored = restoration.result()
    assert restored.states == {key: value for key, value in expected.items() if value is not None}
    assert restored.marker == (marker(number, len(states), offset=number * 10) if checkpoints else None)


def test_the_marker_is_the_last_record_and_readable_json() -> None:
    key, value = checkpoint_records({"a": b"1", "b": None}, marker(3, 2, offset=40))[-1]
    assert key == MARKER_KEY
    assert msgspec.json.decode(value or b"")["offset"] == 40


def test_a_state_over_the_limit_is_named_with_its_size() -> None:
    with pytest.raises(ValueError, match=f"lammps has {STATE_BYTES_MAX + 6} bytes"):
        checkpoint_records({"lammps": b"x" * STATE_BYTES_MAX}, marker(1, 1))


def test_a_marker_that_is_not_ours_reports_it() -> None:
    restoration = Restoration()
    restoration.add(batch([(MARKER_KEY, b'{"offset": "soon"}')]))
    with pytest.raises(UnavailableError, match="marker of the last checkpoint cannot be read"):
        restoration.result()


def restored(records: list[tuple[bytes, bytes | None]]) -> Restored:
    restoration = Restoration()
    restoration.add(batch(records))
    return restoration.result()


@given(st.lists(STATES, min_size=1, max_size=5), st.data())
def test_a_state_that_is_lost_or_replaced_outside_of_a_checkpoint_shows(
    checkpoints: list[dict[str, bytes | None]], data: st.DataObject
) -> None:
    live, records = LiveStates(), list[tuple[bytes, bytes | None]]()
    for number, states in enumerate(checkpoints):
        records += checkpoint_records(states, marker(number, len(states)), live)
    found = restored(records)
    assert found.fault is None
    key = data.draw(st.sampled_from(sorted({"another", *found.states})))
    value = data.draw(st.sampled_from([None, b"another"] if key in found.states else [b"another"]))
    damaged = restored([*records, (key.encode(), value)])
    assert damaged.fault is not None
    assert ("are not those" in damaged.fault) == (len(damaged.states) == len(found.states))


def test_states_without_a_marker_are_a_fault_and_a_marker_of_an_older_agent_is_none() -> None:
    assert restored([(b"a", b"1")]).fault == "it holds 1 states and no marker"
    assert restored(checkpoint_records({"a": b"1"}, marker(1, 1))).fault is None
    assert restored([]) == Restored(None, {})
