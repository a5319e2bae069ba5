"""Rules of identification as they stand in the file: each looked at by itself, so that none hides another's faults."""

import difflib
import re
from typing import Any

from pydantic import ValidationError

from agent.config.problems import Path
from agent.contracts.settings import EVIDENCE_FIELDS, Rule
from agent.identify.rules import rule_faults


def match_faults(path: Path, data: Any) -> list[tuple[Path, str]]:
    """Return every unknown field and bad pattern of one rule; the validation stops at the first.

    >>> rules = [{"match": {"job_nam": "x", "user": "("}}]
    >>> [path[-1] for path, _ in match_faults(("identify", "rules", 0, "match"), {"identify": {"rules": rules}})]
    ['job_nam', 'user']
    """
    for part in path:
        data = data[part]
    found: list[tuple[Path, str]] = []
    for field, pattern in data.items():
        if field not in EVIDENCE_FIELDS and not field.startswith("attributes."):
            close = difflib.get_close_matches(field, EVIDENCE_FIELDS, n=1)
            hint = (
                f"did you mean {close[0]}?" if close else f"use one of {', '.join(EVIDENCE_FIELDS)}, attributes.NAME."
            )
            found.append(((*path, field), f"is no field of a job; {hint}"))
        try:
            re.compile(pattern)
        except re.error as error:
            found.append(((*path, field), f"{pattern!r} is no regular expression: {error}."))
    return found


def rules_faults(data: Any) -> list[tuple[Path, str]]:
    """Return what is wrong with the templates of those rules that are sound in themselves.

    >>> rules_faults({"identify": {"rules": [{"match": {"user": "x"}}]}})[0][0]
    ('identify', 'rules', 0)
    """
    identify = data.get("identify")
    rules = identify.get("rules") if isinstance(identify, dict) else None
    found: list[tuple[Path, str]] = []
    for index, raw in enumerate(rules if isinstance(rules, list) else []):
        try:
            rule = Rule.model_validate(raw)
        except ValidationError:
            continue  # its own problems are already named
        found += [(("identify", "rules", index), fault) for fault in rule_faults(rule)]
    return found
