"""The present moment in event time, as far as the service tells of it."""

from collections.abc import Iterator

from agent.contracts.errors import InvalidInputError
from agent.contracts.moments import parse_rfc3339
from agent.contracts.service import Service


def present_ms(service: Service) -> int | None:
    """Return the newest moment that anything tells of, in ms; None where nothing is known.

    >>> from types import SimpleNamespace
    >>> told = SimpleNamespace(as_of="2026-11-20T10:00:00Z")
    >>> service = SimpleNamespace(sources=lambda: [], jobs=lambda: [told], alerts=lambda: [], hosts=lambda limit: [])
    >>> present_ms(service)
    1795168800000
    """
    return max((*(source.newest_ms for source in service.sources()), *_moments(service)), default=None)


def _moments(service: Service) -> Iterator[int]:
    told = [job.as_of for job in service.jobs()]
    told += [alert.as_of for alert in service.alerts()]
    told += [host.as_of for host in service.hosts(1)]
    for text in told:
        try:
            yield parse_rfc3339(text)
        except InvalidInputError:
            continue
