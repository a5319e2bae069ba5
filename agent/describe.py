"""Reference pages from the code: formats, processors, metrics, configuration and schemas, as Markdown or as data."""

import inspect
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from agent import schemas
from agent.config import reference

Metric = tuple[str, str, Sequence[str], str]


def formats(factories: dict[str, Callable[..., Any]]) -> list[dict[str, Any]]:
    """Return name and meaning of every format that messages and files may have.

    >>> formats({"native": lambda options: None})[0]["name"]
    'native'
    """
    rows = []
    for name, factory in factories.items():
        text = _first_sentence(factory).removeprefix("Return the decoder of ").removeprefix("Return the records of ")
        rows.append({"name": name, "meaning": text[:1].upper() + text[1:]})
    return rows


def processors(classes: Iterable[type]) -> list[dict[str, Any]]:
    """Return name, state version and meaning of every processor.

    >>> from processors.run_time import RunTime
    >>> processors([RunTime])[0]["name"]
    'run_time'
    """
    return [
        {"name": kind.name, "state version": kind.version, "meaning": _first_sentence(kind)}  # type: ignore[attr-defined]  # of the Processor protocol
        for kind in classes
    ]


def metrics(rows: Iterable[Metric]) -> list[dict[str, Any]]:
    """Return name, kind, labels and meaning of every metric.

    >>> metrics([("scalewatch_ready", "gauge", ("role",), "One while ready.")])[0]["labels"]
    'role'
    """
    return [
        {"name": name, "kind": kind, "labels": ", ".join(labels), "meaning": text} for name, kind, labels, text in rows
    ]


def markdown(title: str, rows: Sequence[dict[str, Any]]) -> str:
    """Return the rows as a Markdown page with one table.

    >>> print(markdown("Formats", [{"name": "native", "meaning": "JSON."}]))
    # Formats
    <BLANKLINE>
    | name | meaning |
    |---|---|
    | `native` | JSON. |
    """
    head = list(rows[0])
    lines = [f"# {title}", "", f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    for row in rows:
        name, *others = (str(cell).replace("|", "&#124;") for cell in row.values())
        lines.append(f"| {' | '.join((f'`{name}`', *others))} |")
    return "\n".join(lines)


def config_page() -> str:
    """Return the reference of the configuration as Markdown.

    >>> config_page().startswith("# Configuration")
    True
    """
    return reference.markdown().rstrip("\n")


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema of the configuration.

    >>> config_schema()["title"]
    'Scalewatch configuration'
    """
    return reference.json_schema()


def schemas_page() -> str:
    """Return the fields of every event and message as Markdown.

    >>> "## scalewatch.prediction/1" in schemas_page()
    True
    """
    lines = ["# Events and messages"]
    for name in schemas.NAMES:
        found = schemas.schema(name)
        lines += [
            "",
            f"## {name}",
            "",
            found.get("description", ""),
            "",
            "| field | type | required |",
            "|---|---|---|",
        ]
        for field, form in found["properties"].items():
            lines.append(f"| `{field}` | {_kind(form)} | {'yes' if field in found['required'] else 'no'} |")
    return "\n".join(lines)


def _kind(form: dict[str, Any]) -> str:
    if "$ref" in form:
        return str(form["$ref"]).rpartition("/")[2]
    if "const" in form:
        return f"`{form['const']}`"
    if "enum" in form:
        return ", ".join("null" if word is None else f"`{word}`" for word in form["enum"])
    if "anyOf" in form:
        return " or ".join(_kind(part) for part in form["anyOf"])
    if form.get("type") == "array":
        return f"list of {_kind(form['items'])}" if form.get("items") else "list"
    return str(form.get("format") or form.get("type") or "any")


def _first_sentence(thing: Any) -> str:
    return (inspect.getdoc(thing) or "").partition("\n")[0]
