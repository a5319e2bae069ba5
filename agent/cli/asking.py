"""Requests to a running agent over HTTP: predictions, and the histories of its models."""

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from processors.contracts.errors import ConfigError, UnavailableError
from processors.contracts.events import PredictionRequested
from processors.contracts.outputs import Answer
from processors.contracts.service import Story
from sinks.web.formatting import printable

TIMEOUT_S: Final = 10.0
KNOWN_SHOWN: Final = 20
T = TypeVar("T")


def ask_agent(url: str, request: PredictionRequested, token: str | None = None) -> Answer:
    """Return a running agent's answer to a prediction request.

    Raise UnavailableError if the agent is unreachable or refuses. `token` authenticates the user; it is sent only to `url` and
    never to a redirect target.
    """
    evidence = request.evidence
    fields: dict[str, str | None] = {
        "application": evidence.application,
        "system": request.system,
        "input": evidence.input,
        "unit": request.unit,
        "n": ",".join(f"{n:g}" for n in request.n),
    }
    fields |= {f"attribute.{name}": str(value) for name, value in evidence.attributes.items()}
    fields |= {f"feature.{name}": repr(value) for name, value in request.features.items()}
    return fetch(url, "predictions", fields, token, Answer)


def ask_stories(url: str, selection: Mapping[str, str | None], token: str | None = None) -> list[Story]:
    """Return the histories of all models of a running agent that match `selection`. Raise UnavailableError as `ask_agent` does."""
    return fetch(url, "stories", selection, token, list[Story])


def fetch(url: str, resource: str, parameters: Mapping[str, str | None], token: str | None, reply: type[T]) -> T:
    """Return a resource below /api/v1 of a running agent. Raise UnavailableError as `ask_agent` does."""
    query = urllib.parse.urlencode({name: value for name, value in parameters.items() if value})
    address = f"{url.rstrip('/')}/api/v1/{resource}?{query}"
    if not address.startswith(("http://", "https://")):
        raise ConfigError(f"{url!r} is not an HTTP address.")
    question = urllib.request.Request(address)  # noqa: S310 - only http and https get here
    if token is not None:
        question.add_unredirected_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(question, timeout=TIMEOUT_S) as response:  # noqa: S310 - only http and https get here
            return msgspec.json.decode(response.read(), type=reply)
    except urllib.error.HTTPError as error:
        raise UnavailableError(f"The agent at {url} refused: {_detail(error.read()) or error.reason}") from None
    except (OSError, msgspec.MsgspecError) as error:
        raise UnavailableError(f"The agent at {url} gave no answer: {error}.") from None


def _detail(body: bytes) -> str:
    """Return the reason in an agent's refusal; empty if the response does not come from an agent."""
    try:
        refusal = msgspec.json.decode(body, type=_Refusal)
    except msgspec.MsgspecError:
        return ""
    names = f" Known: {', '.join(refusal.known[:KNOWN_SHOWN])}." if refusal.known else ""
    return printable(refusal.error[:300] + names)


class _Refusal(msgspec.Struct):
    error: str
    known: list[str] = []
