"""`scalewatch predict`: answers from files or from a running agent."""

import os
from math import isfinite
from pathlib import Path
from typing import Any, Final

import click
import msgspec

from agent.app.questions import answers, ask_agent, of_person, read_requests
from agent.cli.errors import FAILED
from agent.cli.options import config_option, load_or_default, table, timezone_option
from processors.contracts.errors import ConfigError
from processors.contracts.events import Evidence, PredictionRequested
from processors.contracts.outputs import Answer, AnswerPoint, Model
from sinks.web.views.overview import horizons, ranked
from sinks.web.words import INSIDE, energy, energy_advice, power, share, verdict_words

TOKEN: Final = "SCALEWATCH_TOKEN"  # noqa: S105 - the name of the variable that holds one


def _sizes(_context: click.Context, _parameter: click.Parameter, value: str | None) -> tuple[float, ...]:
    try:
        sizes = tuple(float(part) for part in (value or "").split(",") if part.strip())
    except ValueError as error:
        raise click.BadParameter("sizes are numbers, such as 64,128") from error
    if any(not 0 < size < 1e12 for size in sizes):
        raise click.BadParameter("sizes are positive")
    return sizes


def _told(_context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in given]
    if any(not (name and sign and value) for name, sign, value in pairs):
        raise click.BadParameter("write NAME=VALUE")
    return {name: value for name, _, value in pairs}


def _numbers(context: click.Context, parameter: click.Parameter, given: tuple[str, ...]) -> dict[str, float]:
    try:
        found = {name: float(value) for name, value in _told(context, parameter, given).items()}
    except ValueError as error:
        raise click.BadParameter("features are numbers, such as max_bytes=1e9") from error
    if not all(map(isfinite, found.values())):
        raise click.BadParameter("features are finite")
    return found


@click.command
@click.argument("words", nargs=-1, metavar="[FILE] [APPLICATION]")
@click.option("--n", "sizes", callback=_sizes, help="Sizes, such as 64,128; by default those of the curve.")
@click.option("--system", default=None, help="Its system; by default the only one that runs it.")
@click.option("--input", default=None, help="Its input; by default the only one, from a file all.")
@click.option("--unit", default=None, help="Unit of the sizes; by default the only one, from a file all.")
@click.option("--attribute", "attributes", multiple=True, callback=_told, help="Attribute of the job, as NAME=VALUE.")
@click.option(
    "--feature", "features", multiple=True, callback=_numbers, help="Feature of its communication, NAME=VALUE."
)
@click.option("--url", default=None, help="Ask a running agent, such as http://127.0.0.1:8080.")
@click.option(
    "--token-file",
    type=click.Path(dir_okay=False, path_type=Path),
    help=f"File with the bearer token for --url; else the variable {TOKEN}.",
)
@click.option("--members", is_flag=True, help="Show every law of run time, its weight and how right it has been.")
@click.option("--events", multiple=True, type=click.Path(), help="File of events to learn from; may be repeated.")
@click.option("--requests", type=click.Path(dir_okay=False), help="File of questions, one JSON object per line.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), help="File for the answers; - is standard output."
)
@config_option
@timezone_option
def command(**given: Any) -> None:
    """Predict run times: learned from FILE for one APPLICATION, asked of a running agent, or for many requests.

    \b
    scalewatch predict jobs.txt lammps --n 64,128
    scalewatch predict lammps --system archer2 --n 64 --url http://127.0.0.1:8080
    scalewatch predict --events jobs.txt --requests requests.jsonl --out answers.jsonl

    A line of the requests holds id, application, system, input, unit, n (a number or a list), attributes and features
    (objects); its answer has the same id.
    """  # noqa: D301 - click wants the character itself
    if given["requests"]:
        _many(given)
    else:
        _one(given)


def _many(given: dict[str, Any]) -> None:
    if not given["events"] or given["words"]:
        raise click.UsageError("--requests needs --events FILE, and takes no other FILE or APPLICATION.")
    requests = read_requests(given["requests"])
    config = load_or_default(given["config"])
    lines = answers(config, given["events"], requests, given["timezone"])
    out = given["out"] or Path("-")
    with click.open_file(str(out), "wb", atomic=str(out) != "-") as file:
        for line in lines:
            file.write(msgspec.json.encode(line) + b"\n")


def _one(given: dict[str, Any]) -> None:
    words: tuple[str, ...] = given["words"]
    if len(words) != (1 if given["url"] else 2):
        raise click.UsageError(
            "name a FILE and an APPLICATION, or an APPLICATION and --url; or use --events and --requests."
        )
    request = PredictionRequested(
        system=given["system"] or "",
        request_id="1",
        n=given["sizes"],
        evidence=Evidence(application=words[-1], input=given["input"], attributes=given["attributes"]),
        unit=given["unit"],
        features=given["features"],
    )
    if given["url"]:
        show(ask_agent(given["url"], request, _token(given["token_file"])), members=given["members"])
        return
    config = load_or_default(given["config"])
    for answer in of_person(config, words[0], request, given["timezone"]):
        show(answer, members=given["members"])


def _token(file: Path | None) -> str | None:
    """Return the token that says who asks, if any; it is no argument, for every user of a machine sees arguments."""
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
    """Print an answer as a table; with `members` a second one, of the laws behind it."""
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
    lines += [said for said in [_of_energy(answer)] if said]
    if members and answer.model is not None:
        lines += ["", _laws(answer.model)]
    click.echo("\n".join(lines))


def _laws(model: Model) -> str:
    laws = ranked(model)
    shown = horizons(laws)
    head = ("law", "weight", *(f"error {verdict_words(name)}" for name in shown), "what it is")
    rows = [
        (
            law.name,
            "-" if law.weight is None else share(law.weight),
            *(share(law.errors[name].error if name in law.errors else None) for name in shown),
            "; ".join(filter(None, (law.law, law.remark))),
        )
        for law in laws
    ]
    return table(head, rows)


def _of_energy(answer: Answer) -> str:
    reliable = [point for point in answer.points if point.source in INSIDE or point.reliability.verdict == "reliable"]
    return energy_advice(reliable, answer.useful_n, answer.unit or "") if answer.useful_n is not None else ""


def _row(point: AnswerPoint, *, powered: bool) -> tuple[str, ...]:
    ends = (point.energy_low_j, point.energy_high_j)
    band = "-" if None in ends else " to ".join(map(energy, ends))
    return (
        f"{point.n:g}",
        f"{point.run_time_s:.4g}",
        f"{point.low_s:.4g} to {point.high_s:.4g}",
        *((power(point.power_w), energy(point.energy_j), band) if powered else ()),
        f"{point.speedup:.3g}",
        share(point.efficiency),
        verdict_words(point.reliability.verdict),
        point.source,
    )
