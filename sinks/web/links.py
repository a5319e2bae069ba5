"""Finding an application by what a reader typed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote, unquote

from processors.contracts.errors import InvalidInputError
from processors.contracts.names import ApplicationKey, parse_rfc3339
from processors.contracts.outputs import Prediction
from processors.contracts.service import Service

# The present moment in event time, as far as the service tells of it.


def present_ms(service: Service) -> int | None:
    """Return the newest moment that anything tells of, in ms: a tick, where sources are silent; None where nothing is known."""
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


KNOWN_MAX: Final = 20
Truth = Callable[[str, float], float | None]


def application_id(prediction: Prediction) -> str:
    """Return the id of the application that a prediction is about."""
    return ApplicationKey(prediction.application, prediction.system, prediction.input, prediction.unit).id


def link(id_: str) -> str:
    """Return an application's id as a part of a URL.

    The id is escaped once already; a server takes one layer off, so there have to be two.
    """
    return quote(id_, safe="/")


def find(service: Service, path: str, raw_path: str) -> Prediction | None:
    """Return the prediction of the application that a path names, with or without its second layer of escapes.

    `path` is what the server made of the URL, `raw_path` the URL as it was sent. A proxy may have merged the two
    slashes around an empty input: three parts mean that.
    """
    for id_ in dict.fromkeys(_spellings(path, raw_path)):
        found = service.prediction(id_)
        if found is not None:
            return found
    return None


def _spellings(path: str, raw_path: str) -> Iterator[str]:
    for text in (path, raw_path):
        yield text
        parts = text.split("/")
        if len(parts) == 3:
            yield f"{parts[0]}/{parts[1]}//{parts[2]}"
        if len(parts) == 4:
            yield ApplicationKey(*(unquote(parts[index]) for index in (1, 0, 2, 3))).id


def matching(predictions: Sequence[Prediction], wanted: Mapping[str, str | None]) -> list[Prediction]:
    """Return the predictions whose fields equal those that are wanted; None wants nothing of a field."""
    asked = {name: value for name, value in wanted.items() if value is not None}
    return [entry for entry in predictions if all(getattr(entry, name) == value for name, value in asked.items())]


def known_ids(predictions: Sequence[Prediction], like: str = "") -> list[str]:
    """Return some ids, those with the same application name first, so that a typing error is soon found."""
    ids = sorted((entry.application != like, application_id(entry)) for entry in predictions)
    return [id_ for _, id_ in ids[:KNOWN_MAX]]
