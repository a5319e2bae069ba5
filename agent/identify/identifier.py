"""What a job is an instance of: pure, from its evidence and the rules of the configuration."""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from agent.identify import program_names
from agent.identify.rules import Match, attribute_text, compiled
from processors.contracts.events import UNITS, Attribute, Evidence, Identity
from processors.contracts.names import ApplicationKey
from processors.contracts.settings import IdentifySettings, Unit

# How large the input of a job is: numbers under the names that the configuration gives to input sizes.


Sizes = tuple[tuple[str, float], ...]
_NUMBER = r"([0-9][0-9.]*(?:[eE][+-]?[0-9]+)?)"


def sizes_of_input(
    names: Sequence[str], sources: Sequence[Evidence], groups: Mapping[str, str], input_text: str
) -> Sizes:
    """Return the input sizes that are known of a job, in the order of the names; a size is a number above 0.

    A job's attribute counts first, at the first source that has it; then a named group of the rule that matched; then
    `name=number` in the name of the input.
    """
    told = ((name, _first_size(_told(name, sources, groups, input_text))) for name in names)
    return tuple((name, size) for name, size in told if size is not None)


def _told(
    name: str, sources: Sequence[Evidence], groups: Mapping[str, str], input_text: str
) -> Iterator[Attribute | None]:
    yield from (evidence.attributes.get(name) for evidence in sources)
    yield groups.get(name)
    found = re.search(rf"(?<![^,;\s]){re.escape(name)}={_NUMBER}(?![^,;\s])", input_text)
    yield found[1] if found else None


def _first_size(told: Iterator[Attribute | None]) -> float | None:
    return next((size for value in told if (size := _size(value)) is not None), None)


def _size(value: Attribute | None) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    try:
        size = float(value)
    except (ValueError, OverflowError):
        return None
    return size if 0.0 < size < math.inf else None


Programs = Callable[[str], str]
CONFIDENCE: Final = {
    "application": 1.0,
    "executable": 0.9,
    "module": 0.8,
    "container": 0.7,
    "job_name": 0.5,
    "user": 0.2,
}
VAGUE_CONFIDENCE: Final = 0.2
_PROGRAM: Final[dict[str, Programs]] = {
    "application": program_names.cleaned,
    "executable": program_names.program_of_executable,
    "module": program_names.program_of_module,
    "container": program_names.program_of_container,
    "job_name": program_names.normalised_job_name,
    "user": program_names.jobs_of,
}


class Identification(msgspec.Struct, frozen=True):
    """What a job runs and how large it is.

    `application` is None where nothing names it, and `reason` then says why. `unit` is what counts it; `n` is None
    where no size is known in that unit. `source` is where the name came from: `rule 2`, `executable`,
    `executable from xalt`. `confidence` lies between 0 and 1. `input_sizes` are the sizes of the input that are known,
    of those that the configuration names.
    """

    application: str | None
    system: str
    input: str
    unit: str
    n: float | None
    source: str
    confidence: float
    reason: str | None = None
    input_sizes: Sizes = ()

    @property
    def key(self) -> ApplicationKey | None:
        """The key of the application's curve; None for a job that nothing names."""
        if self.application is None:
            return None
        return ApplicationKey(application=self.application, system=self.system, input=self.input, unit=self.unit)


class Identifier:
    """Says what jobs run, by ordered rules and then by the evidence itself.

    Rules look at every source and the first that matches decides. Else the fields of `fallback` are asked in their
    order, each at the job itself first and then at other sources sorted by name. ConfigError for unusable rules.
    """

    def __init__(self, settings: IdentifySettings) -> None:
        self._settings = settings
        self._rules = compiled(settings.rules)

    def identify(
        self, evidence: Evidence, system: str, also: Sequence[Identity] = (), unit: str | None = None
    ) -> Identification:
        """Return what the job is; `also` is evidence of other sources, `unit` the one a request asks for."""
        others = sorted(also, key=lambda identity: identity.source)
        sources = [evidence, *(identity.evidence for identity in others)]
        match = next((match for rule in self._rules if (match := rule.match(sources)) is not None), None)
        application, source, confidence, reason = self._named(match, evidence, others)
        best_unit, n = self._size(sources, match.rule.unit if match else None, unit)
        input_text = self._input(sources, match)
        return Identification(
            application=application,
            system=self._settings.systems_by_alias.get(system, system),
            input=input_text,
            unit=best_unit,
            n=n,
            source=source,
            confidence=confidence,
            reason=reason,
            input_sizes=self._input_sizes(sources, match, input_text),
        )

    def _input_sizes(self, sources: Sequence[Evidence], match: Match | None, input_text: str) -> Sizes:
        names = self._settings.input_sizes
        return sizes_of_input(names, sources, match.groups if match else {}, input_text) if names else ()

    def _named(
        self, match: Match | None, evidence: Evidence, others: Sequence[Identity]
    ) -> tuple[str | None, str, float, str | None]:
        if match is not None:
            reason = f"rule {match.number} drops the job" if match.rule.drop else None
            return match.application, f"rule {match.number}", match.rule.confidence, reason
        nameless = None
        for field in self._settings.fallback:
            for source, told in [("", evidence), *((identity.source, identity.evidence) for identity in others)]:
                text = getattr(told, field)
                if not text:
                    continue
                name = _PROGRAM[field](text)
                if name and (field == "application" or not program_names.is_nameless(name)):
                    vague = field == "job_name" and program_names.is_vague(name)
                    where = f"{field} from {program_names.cleaned(source)}" if source else field
                    return name, where, VAGUE_CONFIDENCE if vague else CONFIDENCE[field], None
                nameless = f"the {field.replace('_', ' ')} {text[:40]!r} names no program"
        return None, "none", 0.0, nameless or "nothing in its evidence names a program"

    def _size(self, sources: Sequence[Evidence], rule_unit: Unit | None, asked: str | None) -> tuple[str, float | None]:
        sizes: dict[str, float] = {}
        for evidence in reversed(sources):
            sizes |= {counted: n for counted, n in evidence.sizes.items() if n > 0}
        own = sources[0].sizes or sizes
        only = next(iter(own)) if len(own) == 1 else None
        wanted = [unit for unit in (asked or only, rule_unit, self._settings.unit, *UNITS) if unit]
        unit = asked or next((unit for unit in wanted if unit in sizes), wanted[0])
        return unit, sizes.get(unit)

    def _input(self, sources: Sequence[Evidence], match: Match | None) -> str:
        explicit = next((evidence.input for evidence in sources if evidence.input), None)
        if explicit:
            return program_names.cleaned(explicit)
        if match and match.input:
            return match.input
        found = []
        for name in dict.fromkeys((*self._settings.input_attributes, *self._settings.input_sizes)):
            value = next((e.attributes[name] for e in sources if name in e.attributes), None)
            if value is not None:
                found.append(f"{name}={attribute_text(value)}")
        return program_names.cleaned(",".join(found))
