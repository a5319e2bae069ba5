"""`scalewatch predict`: run time predictions from files or from a running agent."""

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from math import isfinite
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from agent.app import compose
from agent.app.embedded import Embedded
from agent.app.replay import Replay
from agent.cli import FAILED
from agent.cli.asking import KNOWN_SHOWN
from agent.cli.options import TOKEN, FileInput, asks_agent, reads_files, show_remarks, table
from agent.config.tree import Config
from agent.decode.message import DecodeOptions
from processors.contracts.errors import ConfigError, ScalewatchError, UnavailableError
from processors.contracts.events import Attribute, Evidence, PredictionRequested
from processors.contracts.names import ApplicationKey
from processors.contracts.outputs import Answer, AnswerPoint, Model
from sinks.web.formatting import energy, energy_advice, power, share, verdict_text
from sinks.web.views.overview import horizons, measured_by_study, ranked

SYSTEM_HELP: Final = (
    "System of the application; default: the only system that runs it. Records in FILE that name no system get it too."
)
ANSWERED: Final = ("known", "detail", "application", "system", "input", "unit", "observations", "model")


class RequestLine(msgspec.Struct, frozen=True):
    """One line of a request file; `n` is a size or a list of sizes, and an empty `system` stands for the only system."""

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
        return tuple(self.n) if isinstance(self.n, list) else (self.n,)

    def request(self, system: str) -> PredictionRequested:
        """Return the request in the form that a scheduler sends; `system` is the default for a line without a system."""
        return PredictionRequested(
            system=self.system or system,
            request_id=self.id,
            n=self.sizes,
            evidence=Evidence(application=self.application, input=self.input or None, attributes=self.attributes),
            unit=self.unit,
            features=self.features,
        )


def read_requests(path: str) -> list[RequestLine]:
    """Return the requests of a JSON Lines file.

    Raise ConfigError with the line number if a line is invalid.
    """
    try:
        lines = Path(path).read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"The file {path} cannot be read: {error.strerror}.") from None
    requests = []
    for number, line in enumerate(lines, 1):
        try:
            requests += [msgspec.json.decode(line, type=RequestLine, strict=False)] if line.strip() else []
        except msgspec.MsgspecError as error:
            raise ConfigError(f"{path}:{number}: {error}.") from None
    return requests


def answers(agent: Embedded, lines: Sequence[RequestLine]) -> Iterator[dict[str, Any]]:
    """Yield the answer to each line, in order; the answer to a single size is a flat object."""
    systems = {entry.system for entry in agent.service.predictions()}
    default = systems.pop() if len(systems) == 1 else ""
    for line in lines:
        try:
            answer = agent.service.answer(line.request(default))
        except UnavailableError as error:  # an unknown system affects only its own line
            named = {name: getattr(line, name) for name in ("application", "system", "input", "unit")}
            flat = {"known": False, "detail": str(error), "observations": 0, "model": None, **named}
            points: list[dict[str, Any]] = []
        else:
            flat = {name: getattr(answer, name) for name in ANSWERED}
            points = [msgspec.to_builtins(point) for point in answer.points]
        if isinstance(line.n, list):
            sized: dict[str, Any] = {"points": points}
        else:
            sized = points[0] if points else {"n": line.n, "run_time_s": None}
        yield {"id": line.id, **flat, **sized}


def of_person(agent: Embedded, file: str, request: PredictionRequested) -> Iterator[Answer]:
    """Yield an answer for each curve that matches the request of a user.

    If no curve has the requested input, yield the predictions that are possible from the other inputs. Raise ScalewatchError if
    there is no answer.
    """
    keys = known_keys(agent)
    new_input = request.evidence.input
    if new_input is not None and not any(_fits(key, request) for key in keys):
        never_run = {msgspec.structs.replace(key, input=new_input) for key in keys}
        answers = (_answer(agent, key, request) for key in sorted(never_run) if _fits(key, request))
        if known := [answer for answer in answers if answer.known]:
            yield from known
            return
    for key in fitting(keys, request, file):
        yield _answer(agent, key, request)


def known_keys(agent: Embedded) -> list[ApplicationKey]:
    """Return the keys of all models with a published prediction."""
    return [
        ApplicationKey(entry.application, entry.system, entry.input, entry.unit)
        for entry in agent.service.predictions()
    ]


def fitting(keys: Sequence[ApplicationKey], request: PredictionRequested, file: str) -> list[ApplicationKey]:
    """Return the keys that match a request. Raise ScalewatchError if none does."""
    if not (matching := [key for key in keys if _fits(key, request)]):
        raise ScalewatchError(_nothing(keys, request, file))
    return matching


def _answer(agent: Embedded, key: ApplicationKey, request: PredictionRequested) -> Answer:
    evidence = Evidence(application=key.application, input=key.input or None, attributes=request.evidence.attributes)
    prediction = agent.service.prediction(key.id)
    sizes = request.n or tuple(point.n for point in (prediction.curve if prediction else ()))
    return agent.service.answer(
        PredictionRequested(
            key.system, request_id="1", n=sizes, evidence=evidence, unit=key.unit, features=request.features
        )
    )


def _nothing(keys: Sequence[ApplicationKey], request: PredictionRequested, file: str) -> str:
    """Return the message that no curve matches a request, with alternatives: other curves of the application, or other applications."""
    name = request.evidence.application
    of_name = [key for key in keys if key.application == name]
    if not of_name:
        names = ", ".join(sorted({key.application for key in keys})[:KNOWN_SHOWN])
        return f"Nothing is known of {name!r} in {file}; known: {names or 'nothing'}."
    fields = (("input", request.evidence.input), ("system", request.system or None), ("unit", request.unit))
    requested = ", ".join(f"{field} {value!r}" for field, value in fields if value is not None)
    curves = sorted(f"{key.input or 'no input'} in {key.unit} on {key.system}" for key in of_name)
    return f"Nothing is known of {name!r} with {requested} in {file}; known: {', '.join(curves[:KNOWN_SHOWN])}."


@contextmanager
def learned(config: Config, files: Sequence[str], options: DecodeOptions | None = None) -> Iterator[Embedded]:
    """Yield an agent that has learned from files; if a file is damaged, exit with an error code after the block."""
    replay = Replay(config)
    with closing(replay.agent) as agent:
        replay.run(files, options or compose.file_options(config, "UTC"))
        show_remarks(replay.remarks)
        yield agent
    if replay.remarks.failed:
        click.get_current_context().exit(FAILED)


def _fits(key: ApplicationKey, request: PredictionRequested) -> bool:
    evidence = request.evidence
    requested = (evidence.application, request.system or None, evidence.input, request.unit)
    values = (key.application, key.system, key.input, key.unit)
    return all(want is None or want == value for want, value in zip(requested, values, strict=True))


def _sizes(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[float, ...]:
    try:
        sizes = tuple(float(part) for part in (value or "").split(",") if part.strip())
    except ValueError as error:
        raise click.BadParameter("sizes are numbers, such as 64,128") from error
    if any(not 0 < size < 1e12 for size in sizes):
        raise click.BadParameter("sizes are positive")
    return sizes


def _pairs(_context: click.Context, _parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    if any(not (name and sign and value) for name, sign, value in pairs):
        raise click.BadParameter("write NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _numbers(context: click.Context, parameter: click.Parameter, texts: tuple[str, ...]) -> dict[str, float]:
    try:
        numbers = {name: float(value) for name, value in _pairs(context, parameter, texts).items()}
    except ValueError as error:
        raise click.BadParameter("features are numbers, such as max_bytes=1e9") from error
    if not all(map(isfinite, numbers.values())):
        raise click.BadParameter("features are finite")
    return numbers


@click.command
@click.argument("arguments", nargs=-1, metavar="[FILE] [APPLICATION]")
@click.option(
    "--n",
    "sizes",
    callback=_sizes,
    help="Sizes, such as node counts, whose run time to predict: 64,128; default: all sizes of the scaling curve.",
)
@click.option(
    "--input",
    default=None,
    help="Input that the application runs, as the rules identify it; default: all inputs in FILE, or, with --url, the only one.",
)
@click.option(
    "--unit",
    default=None,
    help="Unit of the sizes, such as nodes or cores; default: all units in FILE, or, with --url, the only unit.",
)
@click.option(
    "--attribute",
    "attributes",
    multiple=True,
    callback=_pairs,
    metavar="NAME=VALUE",
    help="Attribute of the job, such as partition=gpu; may be repeated.",
)
@click.option("--feature", "features", multiple=True, callback=_numbers,
              metavar="NAME=VALUE", help="Communication feature of the job on its hosts, such as max_bytes=3.2e8 or avg_dilation=2.4; may be repeated.")  # fmt: skip
@asks_agent
@click.option(
    "--members", is_flag=True, help="Also show each model of the ensemble with its weight and its past errors."
)
@click.option(
    "--events",
    multiple=True,
    type=click.Path(),
    help="With --requests: file of past jobs to learn from; may be repeated.",
)
@click.option("--requests", type=click.Path(dir_okay=False), help="JSON-lines file of prediction requests.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="With --requests: file for the answers; default: standard output.",
)
@reads_files(system_help=SYSTEM_HELP)
def command(source: FileInput, **values: Any) -> None:
    """Predict run times of one APPLICATION from FILE or from a running agent, or answer a file of requests.

    \b
    scalewatch predict jobs.txt lammps --n 64,128
    scalewatch predict lammps --system archer2 --n 64 --url http://127.0.0.1:8080
    scalewatch predict --events jobs.txt --requests requests.jsonl --out answers.jsonl

    A request has the fields id, application and n (a number or a list), and optionally system, input, unit,
    attributes and features (objects). Its answer carries the same id.
    """  # noqa: D301 - click wants the character itself
    if values["requests"]:
        _many(source, values)
    else:
        _one(source, values)


def _many(source: FileInput, values: dict[str, Any]) -> None:
    if not values["events"] or values["arguments"]:
        raise click.UsageError("--requests needs --events FILE and no other arguments.")
    requests = read_requests(values["requests"])
    out = values["out"] or Path("-")
    with (
        learned(source.config, values["events"], source.options()) as agent,
        click.open_file(str(out), "wb", atomic=str(out) != "-") as file,
    ):
        for line in answers(agent, requests):
            file.write(msgspec.json.encode(line) + b"\n")


def _one(source: FileInput, values: dict[str, Any]) -> None:
    arguments: tuple[str, ...] = values["arguments"]
    if len(arguments) != (1 if values["url"] else 2):
        raise click.UsageError("Give FILE and APPLICATION, or APPLICATION and --url, or --events and --requests.")
    request = PredictionRequested(
        system=source.system or "",
        request_id="1",
        n=values["sizes"],
        evidence=Evidence(application=arguments[-1], input=values["input"], attributes=values["attributes"]),
        unit=values["unit"],
        features=values["features"],
    )
    if values["url"]:
        from agent.cli.asking import ask_agent  # noqa: PLC0415 - HTTP is 30 modules that a question about files never needs

        show(ask_agent(values["url"], request, token_of(values["token_file"])), members=values["members"])
        return
    with learned(source.config, [arguments[0]], source.options()) as agent:
        for answer in of_person(agent, arguments[0], request):
            show(answer, members=values["members"])


def token_of(file: Path | None) -> str | None:
    """Return the authentication token from `file`, or else from the environment variable TOKEN; None if there is no token.

    The token is not a command-line argument, because every user of a machine can see arguments.
    """
    if file is None:
        token = os.environ.get(TOKEN, "").strip()
    else:
        try:
            token = file.read_text().strip()
        except (OSError, ValueError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not text"
            raise ConfigError(f"The token in {file} cannot be read: {reason}.") from None
    if not (token.isascii() and token.isprintable()):
        raise ConfigError("The token has to be one line of printable ASCII characters.")
    return token or None


def show(answer: Answer, *, members: bool = False) -> None:
    """Print an answer as a table; with `members`, also print the scaling laws behind the prediction."""
    if not answer.known:
        click.echo(f"scalewatch: {answer.detail}", err=True)
        click.get_current_context().exit(FAILED)
    name = " ".join(part for part in (answer.application, answer.input) if part)
    powered = any(point.power_w is not None for point in answer.points)
    extra = ("power", "energy", "its band") if powered else ()
    head = (answer.unit or "n", "run time s", "90 % band", *extra, "speed-up", "efficiency", "verdict", "source")
    rows = [_row(point, powered=powered) for point in answer.points]
    lines = [f"{name} on {answer.system}: {answer.detail}", table(head, rows)]
    lines += dict.fromkeys(advice for point in answer.points for advice in point.reliability.advice)
    if answer.useful_n is not None:
        reliable = [point for point in answer.points if point.reliable]
        lines += filter(None, [energy_advice(reliable, answer.useful_n, answer.unit or "")])
    if members and answer.model is not None:
        lines += ["", _members(answer.model), *measured_by_study(answer.model)]
    click.echo("\n".join(lines))


def _members(model: Model) -> str:
    members = ranked(model)
    shown = horizons(members)
    head = ("law", "weight", *(f"error {verdict_text(name)}" for name in shown), "what it is")
    rows = [
        (
            law.name,
            "-" if law.weight is None else share(law.weight),
            *(share(law.errors[name].error if name in law.errors else None) for name in shown),
            "; ".join(filter(None, (law.law, law.remark))),
        )
        for law in members
    ]
    return table(head, rows)


def _row(point: AnswerPoint, *, powered: bool) -> tuple[str, ...]:
    ends = (point.energy_low_j, point.energy_high_j)
    band = "-" if None in ends else " to ".join(map(energy, ends))
    return (
        f"{point.n:g}",
        f"{point.run_time_s:.4g}",
        f"{point.low_s:.4g} to {point.high_s:.4g}",
        *((power(point.power_w), energy(point.energy_j), band) if powered else ()),
        "-" if point.speedup is None else f"{point.speedup:.3g}",
        share(point.efficiency),
        verdict_text(point.reliability.verdict),
        point.source,
    )
