"""Finding an application by what a reader typed."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final
from urllib.parse import quote, unquote

from agent.contracts.names import ApplicationKey
from agent.contracts.outputs import Prediction
from agent.contracts.service import Service

KNOWN_MAX: Final = 20
Truth = Callable[[str, float], float | None]


def application_id(prediction: Prediction) -> str:
    """Return the id of the application that a prediction is about.

    >>> from types import SimpleNamespace
    >>> application_id(SimpleNamespace(application="qcd", system="exa", input="", unit="nodes"))
    'exa/qcd//nodes'
    """
    return ApplicationKey(prediction.application, prediction.system, prediction.input, prediction.unit).id


def link(id_: str) -> str:
    """Return an application's id as a part of a URL.

    The id is escaped once already; a server takes one layer off, so there have to be two.

    >>> link("archer2/lammps/rhodo%2F32k/nodes")
    'archer2/lammps/rhodo%252F32k/nodes'
    """
    return quote(id_, safe="/")


def find(service: Service, path: str, raw_path: str) -> Prediction | None:
    """Return the prediction of the application that a path names, with or without its second layer of escapes.

    `path` is what the server made of the URL, `raw_path` the URL as it was sent. A proxy may have merged the two
    slashes around an empty input: three parts mean that.

    >>> class Models:
    ...     prediction = staticmethod({"exa/qcd//nodes": "the prediction"}.get)
    >>> find(Models, "exa/qcd/nodes", "exa/qcd/nodes")
    'the prediction'
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
    """Return the predictions whose fields equal those that are wanted; None wants nothing of a field.

    >>> matching([], {"application": "lammps", "system": None})
    []
    """
    asked = {name: value for name, value in wanted.items() if value is not None}
    return [entry for entry in predictions if all(getattr(entry, name) == value for name, value in asked.items())]


def known_ids(predictions: Sequence[Prediction], like: str = "") -> list[str]:
    """Return some ids, those with the same application name first, so that a typing error is soon found.

    >>> known_ids([])
    []
    """
    ids = sorted((entry.application != like, application_id(entry)) for entry in predictions)
    return [id_ for _, id_ in ids[:KNOWN_MAX]]
