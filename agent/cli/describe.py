"""`scalewatch describe`: print reference pages that are generated from the code."""

from collections.abc import Callable
from typing import Any

import click

from agent.cli.options import config_option, indented, json_option, load_or_default
from agent.config import reference
from agent.decode.formats import FORMATS
from agent.describe import describe
from processors.contracts.errors import ConfigError

SUBJECTS = ("formats", "processors", "metrics", "config", "schemas", "asyncapi")


@click.command(short_help="Print reference pages: configuration, metrics, formats, messages.")
@click.argument("subject", type=click.Choice(SUBJECTS))
@click.argument("name", required=False)
@config_option
@json_option
def command(subject: str, name: str | None, config: str | None, as_json: bool) -> None:  # noqa: FBT001 - an option
    """Print one reference page as Markdown, or as JSON with --json.

    `config --json` prints the JSON Schema of the configuration file. `schemas --json` prints the JSON Schemas of all events
    and messages; `schemas NAME` prints one of them, such as scalewatch.prediction/1. `asyncapi` prints the AsyncAPI document
    for the topics of a configuration, always as JSON.
    """
    if name is not None and subject != "schemas":
        raise ConfigError(f"`describe {subject}` takes no NAME; leave out {name!r}.")
    if name is not None and name not in describe.NAMES:
        raise ConfigError(f"There is no schema {name!r}; the schemas are {', '.join(describe.NAMES)}.")
    if config is not None and subject != "asyncapi":
        raise ConfigError(f"`describe {subject}` does not depend on the configuration; leave out --config.")
    if subject == "asyncapi":
        click.echo(indented(describe.document(load_or_default(config, reveal_secrets=False))))
    elif name is not None:
        click.echo(indented(describe.schema(name)))
    else:
        data, page = _contents(subject)
        click.echo(indented(data()) if as_json else page())


def _contents(subject: str) -> tuple[Callable[[], Any], Callable[[], str]]:
    """Return the functions that make the data and the page of a subject."""
    pages: dict[str, tuple[Callable[[], Any], Callable[[], str]]] = {
        "config": (reference.json_schema, lambda: reference.markdown().rstrip("\n")),
        "schemas": (lambda: {name: describe.schema(name) for name in describe.NAMES}, describe.schemas_page),
        "formats": (lambda: describe.formats(FORMATS), lambda: describe.formats_page(FORMATS)),
    }
    if subject in pages:
        return pages[subject]
    if subject == "metrics":
        from sinks.prometheus.table import rows as metric_rows  # noqa: PLC0415 - each subject loads only what it reports

        rows = describe.metrics(metric_rows())
    else:
        from processors.pipeline.shard import STATEFUL  # noqa: PLC0415

        rows = describe.processors(STATEFUL)
    return lambda: rows, lambda: describe.markdown(subject.capitalize(), rows)
