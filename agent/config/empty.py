"""Sections that are written and left empty."""

from typing import Any

from pydantic import BaseModel

from agent.config.keys import items_model, section_model


def without_empty_sections(data: Any, model: type[BaseModel] | None) -> Any:
    """Return the data without sections, lists and name tables that hold nothing: all their lines are comments.

    A single value that is left empty stays, and is refused where it may not be empty.

    >>> from agent.config.tree import Config
    >>> without_empty_sections({"log": None, "http": {"port": None}, "sources": None}, Config)
    {'http': {'port': None}}
    """
    if model is None or not isinstance(data, dict):
        return data
    result: dict[str, Any] = {}
    for key, value in data.items():
        field = model.model_fields.get(key)
        section = section_model(field.annotation) if field else None
        items, is_table = items_model(field.annotation) if field else (None, False)
        if value is None and (section is not None or is_table):
            continue
        if isinstance(value, list):
            result[key] = [without_empty_sections(item, items) for item in value]
        elif is_table and isinstance(value, dict):
            result[key] = {
                name: {} if below is None and items else without_empty_sections(below, items)
                for name, below in value.items()
            }
        else:
            result[key] = without_empty_sections(value, section)
    return result
