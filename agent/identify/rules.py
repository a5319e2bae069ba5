"""Rules of identification: compiled once, matched in order against evidence of any source."""

import re
from collections.abc import Mapping, Sequence
from string import Formatter
from typing import Final

import msgspec

from agent.identify.program_names import cleaned
from processors.contracts.errors import ConfigError
from processors.contracts.events import Evidence
from processors.contracts.settings import Rule

SEARCHED_MAX: Final = 4096  # characters of a field that a pattern sees: scripts can be megabytes


class Match(msgspec.Struct, frozen=True):
    """A rule that matched: its number (from 1), what it gives, the rule itself, and the named groups of its patterns."""

    number: int
    application: str | None
    input: str
    rule: Rule
    groups: dict[str, str] = {}


class CompiledRule(msgspec.Struct, frozen=True):
    """A rule with its patterns compiled; `patterns` are pairs of field and pattern."""

    number: int
    rule: Rule
    patterns: tuple[tuple[str, re.Pattern[str]], ...]

    def match(self, sources: Sequence[Evidence]) -> Match | None:
        """Return the match, None where a pattern is not found or the name that comes out is empty."""
        groups: dict[str, str] = {}
        for field, pattern in self.patterns:
            found = _search(pattern, field, sources)
            if found is None:
                return None
            groups |= {name: text or "" for name, text in found.groupdict().items() if name not in groups}
        if self.rule.drop:
            return Match(self.number, None, "", self.rule)
        application = cleaned(_expanded(self.rule.application or "{application}", groups))
        if not application:
            return None
        return Match(self.number, application, cleaned(_expanded(self.rule.input, groups)), self.rule, groups)


def compiled(rules: Sequence[Rule]) -> tuple[CompiledRule, ...]:
    """Return the rules ready to match; ConfigError names every rule that cannot be used."""
    faults = [f"Rule {number}: {fault}" for number, rule in enumerate(rules, 1) for fault in rule_faults(rule)]
    if faults:
        raise ConfigError("\n".join(faults))
    return tuple(
        CompiledRule(number, rule, tuple((field, re.compile(pattern)) for field, pattern in rule.match.items()))
        for number, rule in enumerate(rules, 1)
    )


def rule_faults(rule: Rule) -> list[str]:
    """Return what is wrong with a rule whose patterns are valid: templates and groups that do not fit."""
    groups = {name for pattern in rule.match.values() for name in re.compile(pattern).groupindex}
    if rule.drop:
        return ["drops its jobs, so application, input and unit have no use."] if _gives_something(rule) else []
    faults = []
    if rule.application is None and "application" not in groups:
        faults.append("gives no application: name one, or a group (?P<application>...).")
    for key, template in (("application", rule.application or ""), ("input", rule.input)):
        faults += _template_faults(key, template, groups)
    return faults


def _gives_something(rule: Rule) -> bool:
    return bool(rule.application or rule.input or rule.unit)


def _template_faults(key: str, template: str, groups: set[str]) -> list[str]:
    try:
        fields = list(Formatter().parse(template))
    except ValueError:
        return [f"{key} has a brace that does not close; write {{{{ for a brace itself."]
    return [
        f"{{{name}}} in {key} is no named group of its patterns; write (?P<{name or 'name'}>...) in one of them."
        for _, name, form, conversion in fields
        if name is not None and (name not in groups or form or conversion)
    ]


def _expanded(template: str, groups: Mapping[str, str]) -> str:
    parts = Formatter().parse(template)
    return "".join(text + (groups.get(name, "") if name is not None else "") for text, name, _, _ in parts)


def _search(pattern: re.Pattern[str], field: str, sources: Sequence[Evidence]) -> re.Match[str] | None:
    for evidence in sources:
        text = _field(evidence, field)
        found = pattern.search(text[:SEARCHED_MAX]) if text else None
        if found:
            return found
    return None


def _field(evidence: Evidence, field: str) -> str | None:
    if field.startswith("attributes."):
        value = evidence.attributes.get(field.removeprefix("attributes."))
        return None if value is None else attribute_text(value)
    text: str | None = getattr(evidence, field)
    return text


def attribute_text(value: str | float | bool) -> str:  # noqa: FBT001 - one of the kinds of an attribute's value
    """Return the value of an attribute as text: one text per value, however it was written."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)
