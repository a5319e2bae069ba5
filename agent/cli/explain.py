"""`scalewatch explain`: the events that changed the model of an application, from files or from a running agent."""

from collections.abc import Iterator
from itertools import groupby
from typing import Any, Final

import click

from agent.cli.options import FileInput, asks_agent, indented, json_option, reads_files
from agent.cli.predict import fitting, known_keys, learned, token_of
from processors.contracts.events import Evidence, PredictionRequested
from processors.contracts.names import ApplicationKey, rfc3339
from processors.contracts.outputs import Reliability
from processors.contracts.service import LevelChange, ModelFit, Story
from sinks.web.formatting import counted, explained, moment, share, size, sized, verdict_text

LAWS_SHOWN: Final = 3
INDENT: Final = " " * len("2026-01-01 00:00  ")


@click.command
@click.argument("arguments", nargs=-1, metavar="[FILE] APPLICATION")
@click.option("--input", default=None, help="Input of the application; default: all inputs.")
@click.option("--unit", default=None, help="Unit of the sizes, such as nodes or cores; default: all units.")
@asks_agent
@json_option
@reads_files(
    system_help="System of the application; default: all systems. Records in FILE that name no system get it too."
)
def command(arguments: tuple[str, ...], url: str | None, source: FileInput, *, as_json: bool, **options: Any) -> None:
    """Show what changed the model of an APPLICATION: runs, shifts of the run time, unusual sizes, fits and their verdicts.

    \b
    scalewatch explain jobs.txt lammps
    scalewatch explain lammps --system archer2 --url http://127.0.0.1:8080

    Times are in UTC. With --json, the output is a list with one object for each input, system and unit.
    """  # noqa: D301 - click wants the character itself
    if len(arguments) != (1 if url else 2):
        raise click.UsageError("Give FILE and APPLICATION, or APPLICATION and --url.")
    if url:
        stories = _of_agent(url, arguments[0], source, options)
    else:
        stories = list(_of_file(arguments[0], arguments[1], source, options))
    if as_json:
        click.echo(indented(stories))
        return
    click.echo("\n\n".join("\n".join(told(story)) for story in stories))


def _of_agent(url: str, application: str, source: FileInput, options: dict[str, Any]) -> list[Story]:
    from agent.cli.asking import ask_stories  # noqa: PLC0415 - HTTP is 30 modules that a question about files never needs

    token = token_of(options.pop("token_file"))
    return ask_stories(url, {"application": application, "system": source.system, **options}, token)


def _of_file(file: str, application: str, source: FileInput, options: dict[str, Any]) -> Iterator[Story]:
    evidence = Evidence(application=application, input=options["input"])
    request = PredictionRequested(source.system or "", request_id="1", n=(), evidence=evidence, unit=options["unit"])
    with learned(source.config, [file], source.options()) as agent:
        for key in fitting(known_keys(agent), request, file):
            if (story := agent.service.reading(key.system).story(key.id)) is not None:
                yield story


def told(story: Story) -> list[str]:
    """Return a model history as lines of text: dated events in order of time, then facts without a date."""
    key = ApplicationKey.parse(story.application_id)
    unit = key.unit
    events = [(change.time_ms, _level_change(change, unit)) for change in story.level_changes]
    sizes = f"{size(story.sizes[0])} to {sized(story.sizes[-1], unit)}" if story.sizes else "no size"
    events.append(
        (story.newest_run_ms, [f"The newest run ended. {counted(story.runs, 'run')} were learned, at {sizes}."])
    )
    if story.fit is not None:
        events.append((story.fit.time_ms, _fit(story.fit, unit)))
    name = " ".join(filter(None, (key.application, key.input)))
    lines = [f"{name} on {key.system}, in {unit}; state of {_moment(story.time_ms)}", ""]
    for time_ms, texts in sorted(events):
        lines.append(f"{_moment(time_ms)}  {texts[0]}")
        lines += [INDENT + text for text in texts[1:]]
    return [*lines, "", *_facts(story, unit)]


def _level_change(change: LevelChange, unit: str) -> list[str]:
    subject = "Runs of all sizes" if change.n is None else f"Runs at {sized(change.n, unit)} alone"
    became = "slower" if change.factor > 1 else "faster"
    return [
        f"{subject} became {became}: they take {change.factor:.3g} times as long as before.",
        "Since then, earlier runs count less, and as if this had always been so.",
    ]


def _fit(fit: ModelFit, unit: str) -> list[str]:
    heaviest = sorted(fit.weights.items(), key=lambda law: (-law[1], law[0]))[:LAWS_SHOWN]
    laws = ", ".join(f"{verdict_text(name)} {share(weight)}" for name, weight in heaviest)
    lines = [f"The curve was fitted to {counted(fit.runs, 'run')} (model {fit.model}{laws and f': {laws}'})."]
    for verdict, points in groupby(fit.verdicts, key=lambda point: _verdict(point[1])):
        at_sizes = [n for n, _ in points]
        last = sized(at_sizes[-1], unit)
        lines.append(f"{last if len(at_sizes) == 1 else f'{size(at_sizes[0])} to {last}'}: {verdict}")
    return lines


def _verdict(verdict: Reliability) -> str:
    reason = verdict.advice[0] if verdict.advice else explained(verdict.verdict)
    return f"{verdict_text(verdict.verdict)}. {reason}".rstrip()


def _facts(story: Story, unit: str) -> Iterator[str]:
    for strange in story.strange_sizes:
        comparison = f"is {strange.comparison} than" if strange.comparison else "does not fit"
        yield f"Odd size: {sized(strange.n, unit)} {comparison} the curve of the other sizes. The curve does not follow it."
    odd = [(story.slow_runs, "unusually slow"), (story.fast_runs, "unusually fast")]
    if any(count for count, _ in odd):
        counts = " and ".join(f"{count} {text}" for count, text in odd if count)
        yield f"Odd runs: of the newest {counted(story.newest_runs, 'run')}, {counts}. Odd runs hardly count."
    if story.loaded_runs:
        yield f"Loaded hosts: they explain a part of the run time of {counted(story.loaded_runs, 'run')}."
    if story.related_curves:
        yield f"Related curves: {counted(story.related_curves, 'curve')} of other inputs or systems helped to choose the laws."
    if story.inputs > 1:
        yield f"Inputs: the sizes and run times of {counted(story.inputs, 'input')} predict inputs that were never run."
    quality = story.quality
    if quality.median_error is not None:
        inside = (
            "" if quality.coverage_90 is None else f", {share(quality.coverage_90)} of the runs inside the 90 % band"
        )
        scored = counted(quality.scored, "prediction")
        yield f"Accuracy: median error {share(quality.median_error)} over {scored}{inside}."
    if story.fit is None:
        yield "No curve was fitted yet."
    elif story.fit_due_ms is not None:
        yield f"Next fit: due at {_moment(story.fit_due_ms)}, because of newer runs."


def _moment(time_ms: int) -> str:
    return moment(rfc3339(time_ms))
