"""Questions to the models: many at once from files, one by a person, or to a running agent."""

import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import msgspec

from agent.app import compose
from agent.app.embedded import Embedded
from agent.app.replay import Replay
from agent.config.tree import Config
from processors.contracts.errors import ConfigError, ScalewatchError, UnavailableError
from processors.contracts.events import Attribute, Evidence, PredictionRequested
from processors.contracts.names import ApplicationKey
from processors.contracts.outputs import Answer, Prediction
from sinks.web.words import printable

TIMEOUT_S: Final = 10.0
KNOWN_SHOWN: Final = 20


class Question(msgspec.Struct, frozen=True):
    """A line of a file of requests; `n` is a size or a list of them, an empty system the only one there is."""

    id: str
    application: str
    n: float | list[float]
    system: str = ""
    input: str = ""
    unit: str | None = None
    attributes: dict[str, Attribute] = {}
    features: dict[str, float] = {}

    @property
    def sizes(self) -> tuple[float, ...]:
        """The sizes asked for."""
        return tuple(self.n) if isinstance(self.n, list) else (self.n,)

    def request(self, system: str) -> PredictionRequested:
        """Return the request that a scheduler would send; `system` is the one that is meant where none is named."""
        return PredictionRequested(
            system=self.system or system,
            request_id=self.id,
            n=self.sizes,
            evidence=Evidence(application=self.application, input=self.input or None, attributes=self.attributes),
            unit=self.unit,
            features=self.features,
        )


def read_requests(path: str) -> list[Question]:
    """Return the questions of a JSON-lines file; ConfigError names the line of one that is wrong."""
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"The file {path} cannot be read: {error.strerror}.") from None
    return [_question(path, number, line) for number, line in enumerate(lines, 1) if line.strip()]


def answers(config: Config, files: Sequence[str], questions: Sequence[Question], timezone: str) -> Iterator[Any]:
    """Yield the answer to each question, in order, after learning from the files."""
    with closing(learned(config, files, timezone)) as agent:
        systems = {said.system for said in agent.service.predictions()}
        only = systems.pop() if len(systems) == 1 else ""
        for question in questions:
            try:
                answer = agent.service.answer(question.request(only))
            except UnavailableError as error:  # a system that is not listed costs its own line alone
                yield _unanswered(question, str(error))
            else:
                yield _flat(question, answer)


def of_person(config: Config, file: str, request: PredictionRequested, timezone: str) -> Iterator[Answer]:
    """Yield an answer for each curve that fits what a person named; ScalewatchError where none does."""
    with closing(learned(config, [file], timezone)) as agent:
        keys = [_key(said) for said in agent.service.predictions()]
        fitting = [key for key in keys if _fits(key, request)]
        if not fitting and (
            told := [answer for key in _never_run(keys, request) if (answer := _asked(agent, key, request)).known]
        ):
            yield from told
            return
        if not fitting:
            raise ScalewatchError(_nothing(keys, request, file))
        for key in fitting:
            yield _asked(agent, key, request)


def _asked(agent: Embedded, key: ApplicationKey, request: PredictionRequested) -> Answer:
    attributes, features = request.evidence.attributes, request.features
    evidence = Evidence(application=key.application, input=key.input or None, attributes=attributes)
    said = agent.service.prediction(key.id)
    sizes = request.n or tuple(point.n for point in (said.curve if said else ()))
    return agent.service.answer(
        PredictionRequested(key.system, request_id="1", n=sizes, evidence=evidence, unit=key.unit, features=features)
    )


def _nothing(keys: Sequence[ApplicationKey], request: PredictionRequested, file: str) -> str:
    """Say that no curve fits what a person named, and which would: other ones of the application, or other applications."""
    name = request.evidence.application
    of_name = [key for key in keys if key.application == name]
    if not of_name:
        names = ", ".join(sorted({key.application for key in keys})[:KNOWN_SHOWN])
        return f"Nothing is known of {name!r} in {file}; known: {names or 'nothing'}."
    named = (("input", request.evidence.input), ("system", request.system or None), ("unit", request.unit))
    wanted = ", ".join(f"{what} {value!r}" for what, value in named if value is not None)
    curves = sorted(f"{key.input or 'no input'} in {key.unit} on {key.system}" for key in of_name)
    return f"Nothing is known of {name!r} with {wanted} in {file}; known: {', '.join(curves[:KNOWN_SHOWN])}."


def _never_run(keys: Sequence[ApplicationKey], request: PredictionRequested) -> list[ApplicationKey]:
    """Return what an input that was never run would be, on each system and in each unit where others of it ran."""
    wanted = request.evidence.input
    if wanted is None:
        return []
    others = (msgspec.structs.replace(key, input=wanted) for key in keys)
    return sorted({key for key in others if _fits(key, request)})


def learned(config: Config, files: Sequence[str], timezone: str) -> Embedded:
    """Return an agent that has learned from files."""
    replay = Replay(config)
    replay.run(files, compose.file_options(config, timezone))
    return replay.agent


def ask_agent(url: str, request: PredictionRequested, token: str | None = None) -> Answer:
    """Return a running agent's answer; UnavailableError where it cannot be reached or refuses.

    `token` says who asks; it goes to this address alone, and to no other one that the agent may name.
    """
    evidence = request.evidence
    named = {
        "application": evidence.application,
        "system": request.system,
        "input": evidence.input,
        "unit": request.unit,
        "n": ",".join(f"{n:g}" for n in request.n),
    }
    told = {f"attribute.{name}": str(value) for name, value in evidence.attributes.items()}
    told |= {f"feature.{name}": repr(value) for name, value in request.features.items()}
    query = urllib.parse.urlencode({name: value for name, value in (named | told).items() if value})
    address = f"{url.rstrip('/')}/api/v1/predictions?{query}"
    if not address.startswith(("http://", "https://")):
        raise ConfigError(f"{url!r} is no HTTP address.")
    try:
        with urllib.request.urlopen(_asking(address, token), timeout=TIMEOUT_S) as reply:  # noqa: S310 - only http and https get here
            return msgspec.json.decode(reply.read(), type=Answer)
    except urllib.error.HTTPError as error:
        raise UnavailableError(f"The agent at {url} refused: {_detail(error.read()) or error.reason}") from None
    except (OSError, msgspec.MsgspecError) as error:
        raise UnavailableError(f"The agent at {url} gave no answer: {error}.") from None


def _asking(address: str, token: str | None) -> urllib.request.Request:
    asking = urllib.request.Request(address)  # noqa: S310 - only http and https get here
    if token is not None:
        asking.add_unredirected_header("Authorization", f"Bearer {token}")
    return asking


def _question(path: str, number: int, line: bytes) -> Question:
    try:
        return msgspec.json.decode(line, type=Question, strict=False)
    except msgspec.MsgspecError as error:
        raise ConfigError(f"{path}:{number}: {error}.") from None


def _flat(question: Question, answer: Answer) -> dict[str, Any]:
    common: dict[str, Any] = {
        "id": question.id,
        "known": answer.known,
        "detail": answer.detail,
        "application": answer.application,
        "system": answer.system,
        "input": answer.input,
        "unit": answer.unit,
        "observations": answer.observations,
        "model": answer.model,
    }
    points = [msgspec.to_builtins(point) for point in answer.points]
    return common | _told(question, points)


def _unanswered(question: Question, detail: str) -> dict[str, Any]:
    common = {"id": question.id, "known": False, "detail": detail, "observations": 0, "model": None}
    asked = {name: getattr(question, name) for name in ("application", "system", "input", "unit")}
    return common | asked | _told(question, [])


def _told(question: Question, points: list[dict[str, Any]]) -> dict[str, Any]:
    if isinstance(question.n, list):
        return {"points": points}
    return points[0] if points else {"n": question.n, "run_time_s": None}


def _fits(key: ApplicationKey, request: PredictionRequested) -> bool:
    evidence = request.evidence
    wanted = (evidence.application, request.system or None, evidence.input, request.unit)
    has = (key.application, key.system, key.input, key.unit)
    return all(want is None or want == own for want, own in zip(wanted, has, strict=True))


def _key(said: Prediction) -> ApplicationKey:
    return ApplicationKey(said.application, said.system, said.input, said.unit)


def _detail(body: bytes) -> str:
    """Return what an agent says of a refusal; nothing where it is no agent that answers."""
    try:
        said = msgspec.json.decode(body, type=_Refusal)
    except msgspec.MsgspecError:
        return ""
    known = f" Known: {', '.join(said.known[:KNOWN_SHOWN])}." if said.known else ""
    return printable(said.error[:300] + known)


class _Refusal(msgspec.Struct):
    error: str
    known: list[str] = []
