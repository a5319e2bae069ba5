"""The present moment in event time, as far as the service tells of it."""

from collections.abc import Iterator

from agent.contracts.errors import InvalidInputError
from agent.contracts.moments import parse_rfc3339
from agent.contracts.service import Service


def present_ms(service: Service) -> int | None:
    """Return the newest moment that anything tells of, in ms: a tick, where sources are silent; None where nothing is known.

    >>> from types import SimpleNamespace
    >>> told = SimpleNamespace(as_of="2026-11-20T10:00:00Z")
    >>> nothing = dict.fromkeys(("sources", "alerts", "health", "predictions"), list)
    >>> service = SimpleNamespace(**nothing, jobs=lambda: [told], hosts=lambda limit: [])
    >>> present_ms(service)
    1795168800000
    """
    ticks = (role.folded_ms for role in service.health() if role.folded_ms is not None)
    return max((*ticks, *(source.newest_ms for source in service.sources()), *_moments(service)), default=None)


def _moments(service: Service) -> Iterator[int]:
    told = [entry.as_of for entry in service.predictions()]
    told += [job.as_of for job in service.jobs()]
    told += [alert.as_of for alert in service.alerts()]
    told += [host.as_of for host in service.hosts(1)]
    for text in told:
        try:
            yield parse_rfc3339(text)
        except InvalidInputError:
            continue
