"""Windows and forecasts of hosts for subscribers: each host is told once in `hosts.publish_s`, and a part of all of them at a time.

Which second of the period is a host's follows from its name, so that no state is needed and hosts do not come in one burst.
"""

from collections.abc import Callable
from math import ceil
from typing import Final

from processors.contracts.hosts import HostView
from processors.contracts.names import job_key, rfc3339
from processors.contracts.outputs import HostReport, Tombstone
from processors.pipeline.host_state import HostShardState
from processors.store import digest64

SCHEMA: Final = "scalewatch.host/1"
TOPIC: Final = "hosts"
SECOND_MS: Final = 1_000

Host = tuple[str, str]
"""System and name."""

ViewOf = Callable[[str, str], HostView | None]
"""Returns what is known of a host, by system and name."""


def slots(before_ms: int, now_ms: int, period_s: int) -> frozenset[int]:
    """Return the seconds of a period that have come since a tick before: at most all of them, each once."""
    until_s = now_ms // SECOND_MS
    since_s = max(before_ms // SECOND_MS, until_s - period_s)
    return frozenset(second % period_s for second in range(since_s + 1, until_s + 1))


class HostReports:
    """Sends what is known of hosts, where that is asked for (`hosts.publish_s`)."""

    def __init__(self, state: HostShardState, view: ViewOf) -> None:
        self._state, self._view = state, view
        self._period_s = ceil(state.settings.hosts.publish_s)
        self._slots: dict[Host, int] = {}

    def tick(self, before_ms: int) -> None:
        """Send the hosts whose second has come since a tick before."""
        if not self._period_s:
            return
        due = slots(before_ms, self._state.now_ms, self._period_s)
        for host in sorted(key for _, key in self._state.index.hosts.ids if self._slot(key) in due):
            view = self._view(*host)
            if view is not None:
                self._state.outbox.append(self._report(view))
            self._state.give_way()

    def forget_before(self, minute_ms: int) -> None:
        """Forget hosts that told nothing since, and remove them from the topic."""
        if not self._period_s:
            self._state.index.forget_before(minute_ms)
            return
        self._slots.clear()
        before = {key for _, key in self._state.index.hosts.ids}
        self._state.index.forget_before(minute_ms)
        gone = before - {key for _, key in self._state.index.hosts.ids}
        self._state.outbox += [Tombstone(TOPIC, job_key(*host)) for host in sorted(gone)]

    def _slot(self, host: Host) -> int:
        slot = self._slots.get(host)
        if slot is None:
            slot = self._slots[host] = digest64(*host) % self._period_s
        return slot

    def _report(self, view: HostView) -> HostReport:
        context = self._state.context
        return HostReport(
            schema=SCHEMA,
            id=f"{job_key(view.system, view.host)}@{context.now_ms}",
            time=context.time,
            as_of=context.time,
            agent_version=context.agent_version,
            valid_until=rfc3339(context.now_ms + 2 * self._period_s * SECOND_MS),
            system=view.system,
            host=view.host,
            state=view.state,
            job=view.job,
            resources=view.resources,
        )
