"""What a process tells others by itself: of the shards that it owns, for of the others it knows what was true once."""

from collections.abc import Callable, Collection, Sequence

from agent.contracts.outputs import Alert, Prediction
from agent.contracts.service import Health, Latest

ShardOf = Callable[[str], int | None]


class OwnShards:
    """Shows of a service what the shards say that are owned now; `shard_of` gives the shard of a system.

    A learner reads all output topics when it gains a shard, and from then on hears of its own ones only. Were it to export
    the others, or to repeat their alerts, a figure would be there twice, once new and once old, and an alert that has
    resolved would fire again.

    >>> from types import SimpleNamespace
    >>> said = [SimpleNamespace(system="exa"), SimpleNamespace(system="peta")]
    >>> service = SimpleNamespace(predictions=lambda: said)
    >>> [entry.system for entry in OwnShards(service, {"exa": 0, "peta": 1}.get, lambda: [1]).predictions()]
    ['peta']
    """

    def __init__(self, service: Latest, shard_of: ShardOf, owned: Callable[[], Collection[int]]) -> None:
        self._service, self._shard_of, self._owned = service, shard_of, owned

    def predictions(self) -> Sequence[Prediction]:
        """Return the latest prediction of every application of these shards."""
        owned = self._owned()
        return [entry for entry in self._service.predictions() if self._shard_of(entry.system) in owned]

    def alerts(self) -> Sequence[Alert]:
        """Return the alerts of these shards, open ones first."""
        owned = self._owned()
        return [alert for alert in self._service.alerts() if self._shard_of(alert.labels.get("system", "")) in owned]

    def health(self) -> Sequence[Health]:
        """Return the health of every role in this process."""
        return self._service.health()
