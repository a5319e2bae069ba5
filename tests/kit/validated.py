"""Check the state of every shard in this process after each record that it folds."""

from collections.abc import Callable
from typing import Any

from processors.contracts.events import JournalRecord, Tick
from processors.contracts.outputs import Message, Tombstone
from processors.pipeline.shard import Shard
from processors.store import Store
from tests.kit.invariants import InvalidStateError, validate_state

CHANGED = "changed_keys"  # the attribute of a store with the keys that the present record changed

violations: list[str] = []


def validate_all_shards() -> None:
    """Extend the fold of every shard by a check of its state.

    A violation raises, and is kept in `violations`, because an agent may count the error and go on.
    """
    Store.changed = _noting(Store.changed)  # type: ignore[method-assign]
    Store.remove = _noting(Store.remove)  # type: ignore[method-assign]
    Shard.fold = _validated(Shard.fold)  # type: ignore[method-assign]


def _noting(method: Callable[..., None]) -> Callable[..., None]:
    def note(store: Store[Any], key: str, *rest: Any) -> None:
        method(store, key, *rest)
        vars(store).setdefault(CHANGED, {})[key] = None

    return note


def _validated(fold: Callable[..., list[Message | Tombstone]]) -> Callable[..., list[Message | Tombstone]]:
    def folded(shard: Shard, record: JournalRecord) -> list[Message | Tombstone]:
        before_ms, faults = shard.now_ms, _faults(shard)
        for store in shard.state.stores():
            vars(store).pop(CHANGED, None)
        messages = fold(shard, record)
        if _faults(shard) == faults:  # a stage that failed halfway may leave its state unfinished
            try:
                _validate(shard, record.event, before_ms)
            except InvalidStateError as error:
                violations.append(str(error))
                raise
        return messages

    return folded


def _validate(shard: Shard, event: object, before_ms: int) -> None:
    keys = {store.kind.name: vars(store)[CHANGED] for store in shard.state.stores() if CHANGED in vars(store)}
    line = shard.lines.get(type(event))
    declared = {processor.name for stage in line.stages for processor in stage.writes} if line is not None else set()
    if undeclared := keys.keys() - declared:
        raise InvalidStateError(f"No stage of {type(event).__name__} declares that it writes {sorted(undeclared)}")
    validate_state(shard.state, keys, ticked=isinstance(event, Tick) and shard.now_ms > before_ms)


def _faults(shard: Shard) -> int:
    return sum(count for (kind, _), count in shard.state.tally.items() if kind == "fault")
