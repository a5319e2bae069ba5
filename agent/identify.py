"""Identify the application of a job from its evidence and the configured rules, without side effects.

Ordered rules decide first, then the evidence itself. People write job names, and they often number repeated runs: `run7`,
`md_042`, `job-2026-01-03`. Numbers become `#`, so repeated runs get the same name. Letters stay, so different programs
keep different names:

- a part becomes `#` if it is all digits, begins with six digits, or is a date, a time, a hexadecimal identifier of 8 or
  more characters, or a size such as `64nodes` or `16x8`; adjacent parts of that kind share one `#`:
  `md_2026-01-03_12` -> `md_#`;
- digits at the end of a part become `#`: `run7` -> `run#`, `lmp_n64` -> `lmp_n#`;
- digits before letters stay, because they belong to names: `cp2k`, `h5bench`, `3dfft`, and problem sizes such as `32k`.

Some names do not identify a program. A shell, an interpreter or a launcher (`bash`, `python3`, `srun`) gives no application.
An interactive session (`interactive`, `jupyter`) gives none either, because a person decides how long it takes. A generic word
(`run#`, `test`, `job`) gives an application with low confidence.
"""

import hashlib
import math
import re
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import combinations
from string import Formatter
from typing import Final

import msgspec

from processors.contracts import nodes
from processors.contracts.errors import ConfigError, InvalidInputError
from processors.contracts.events import PART_OF, UNITS, Attribute, Evidence, Identity
from processors.contracts.names import Identification
from processors.contracts.settings import SESSION, SESSION_NAMES, IdentifySettings, Rule, Unit

TEXT_MAX: Final = 256
NAMELESS: Final = frozenset((
    *SESSION_NAMES, "jupyter-lab", "jupyter-notebook", "spawner-jupyterhub", "bc_desktop", "sys-dashboard", "wrap", "sbatch", "srun",
    "mpirun", "mpiexec", "mpiexec.hydra", "orterun", "prun", "aprun", "jsrun", "ibrun", "jobstep", "allocation", "env", "time",
    "nohup", "nice", "numactl", "taskset", "timeout", "sleep", "true", "hostname", "date", "echo", "cat", "ls", "python", "perl",
    "ruby", "julia", "rscript", "r", "java", "node", "matlab", "octave", "ipython", "lua", "tclsh", "stdin", "null", "none",
    "unknown", "screen", "ssh", "singularity", "apptainer", "docker", "podman", "charliecloud", "ch-run", "enroot", "shifter",
    "a.out", "slurm_script", "orted", "hydra_pmi_proxy", "slurmstepd", "pmi_proxy",
))  # fmt: skip
SHELLS: Final = frozenset(("bash", "sh", "dash", "zsh", "csh", "tcsh", "ksh", "fish"))
AROUND_SESSION: Final = frozenset((
    "bc", "ood", "ondemand", "my", "session", "job", "server", "lab", "notebook", "hub", "spawner", "singleuser", "app", "gpu", "cpu",
    "node", "shell", "remote", "tunnel",
))  # fmt: skip
SESSION_PARTS_MAX: Final = 8
_OPEN_ONDEMAND = re.compile(
    r"ood |(?:[^/_-]+[/_-])?(?:sys|dev)[/_-]dashboard[/_-](?:batch_connect[/_-])?(?:sys|dev|usr)[/_-]."
)
_WORD_GAP = re.compile(r"[\W_]+")
VAGUE: Final = frozenset((
    "run", "job", "test", "task", "batch", "submit", "script", "slurm", "pbs", "lsf", "main", "program", "prog",
    "exe", "app", "sim", "simulation", "calc", "calculation", "array", "mpi", "openmp", "omp", "hybrid", "parallel",
    "serial", "scaling", "strong", "weak", "bench", "benchmark", "my", "myjob", "my_job", "my-job", "testjob",
    "test_job", "runjob", "run_job", "tmp", "temp", "new", "foo", "bar", "example", "demo", "x", "y", "a", "b",
    "start", "launch",
))  # fmt: skip
_NOT_NAME = re.compile(r"[#\s_.,:;+=@~()\[\]{}-]+")
_EXTENSION = re.compile(r"\.(sh|bash|csh|slurm|sbatch|slm|job|sub|pbs|lsf|py|pl|r|jl|m|exe)$", re.IGNORECASE)
_IMAGE = re.compile(r"\.(sif|simg|img|sqsh|sqfs|squashfs)$", re.IGNORECASE)
_VERSION = re.compile(r"v?\d[\w.+-]*|latest|default|stable", re.IGNORECASE)
_MONTH = "jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec"
_NUMBERS = re.compile(
    rf"""
    \[[\d,:%-]+\] |                                                # an array's tasks: [1-10%2]
    (?<![^\W_])(?:
        [0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}} |      # a UUID
        \d{{1,4}}-?(?:{_MONTH})[a-z]*-?\d{{1,4}} |                 # 3jan2026
        \d{{6,}}[^\W_]* |                                        # 20260103T120000, 20220404p17w03s5
        \d+(?:x\d+)+ |                                             # 16x8
        \d+-?(?:nodes?|cores?|cpus?|procs?|processes|ranks?|tasks?|threads?|gpus?|n|c|p) |
        (?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{{8,}} |                   # a hash: letters and digits both
        \d+
    )(?![^\W_]) |
    (?<=[^\W\d_])\d+(?:x\d+)*(?![^\W_])                           # the end of a part: run7, grid16x8
    """,
    re.VERBOSE | re.IGNORECASE,
)
_SAME_NUMBER = re.compile(r"#(?:[\s_.,:;+=~-]*#)+")
_ENDING_NUMBERS = re.compile(r"[\d.#-]+$")


def jobs_of(user: str) -> str:
    """Return the application name that groups all jobs for which only the user is known."""
    return f"jobs of {cleaned(user)}"


def cleaned(text: str) -> str:
    """Return `text` with only printable characters, single spaces, and at most 256 characters.

    A longer text is cut and ends in a hash of the whole text, which keeps long names distinct.
    """
    shown = text if text.isprintable() else "".join(c if c.isprintable() else " " for c in text)
    plain = " ".join(shown.split())
    if len(plain) <= TEXT_MAX:
        return plain
    return f"{plain[: TEXT_MAX - 17]}~{hashlib.sha256(plain.encode()).hexdigest()[:16]}"


def normalised_job_name(name: str) -> str:
    """Return `name` with `#` in place of numbers, as the module docstring describes; empty if only numbers remain."""
    plain = cleaned(_EXTENSION.sub("", name.strip().rpartition("/")[2][:TEXT_MAX]))
    counted = _SAME_NUMBER.sub("#", _NUMBERS.sub("#", plain))
    return counted if _NOT_NAME.sub("", counted) else ""


def program_of_executable(path: str) -> str:
    return cleaned(path.strip().rstrip("/").rpartition("/")[2])


def program_of_module(module: str) -> str:
    """Return the name of an environment module without its version; empty if `module` lists several modules, which is ambiguous."""
    parts = [part for part in module.strip().split("/") if part]
    while len(parts) > 1 and _VERSION.fullmatch(parts[-1]):
        parts.pop()
    name = cleaned(parts[-1]) if parts else ""
    return "" if re.search(r"[\s,:;]", name) else name


def program_of_container(image: str) -> str:
    """Return the name of a container image without registry, tag, digest and file extension."""
    base = image.strip().rstrip("/").rpartition("/")[2].partition("@")[0].partition(":")[0]
    return normalised_job_name(_IMAGE.sub("", base))


def is_nameless(name: str) -> bool:
    """Return whether `name` does not identify a program, because it is a shell, an interpreter, a launcher or a session."""
    lower = _EXTENSION.sub("", name.lower())
    if _OPEN_ONDEMAND.match(lower):
        return True
    stems = {name.lower(), lower, _ENDING_NUMBERS.sub("", lower).rstrip("_- ")}
    return not _NOT_NAME.sub("", name) or bool(stems & NAMELESS)


def is_vague(name: str) -> bool:
    """Return whether `name` is a generic word that fits any program."""
    return _ENDING_NUMBERS.sub("", name.lower()).rstrip("_- ") in VAGUE or len(_NOT_NAME.sub("", name)) < 2


@lru_cache(maxsize=4096)
def session_name(job_name: str, names: frozenset[str]) -> str | None:
    """Return the interactive session of a job name: an entry of `names`, or Open OnDemand; None if there is no match.

    Only whole words count, and all remaining words must be in AROUND_SESSION: `jupyter_convergence_study` is a program.
    """
    plain = job_name.strip().lower()
    if _OPEN_ONDEMAND.match(plain):
        return "open-ondemand"
    shell = plain.rpartition("/")[2]
    if shell in SHELLS:
        return shell if shell in names else None
    parts = _parts(normalised_job_name(plain))
    if len(parts) > SESSION_PARTS_MAX:
        return None
    for start, end in combinations(range(len(parts) + 1), 2):
        name = "-".join(parts[start:end])
        if name in names - SHELLS and AROUND_SESSION.issuperset(parts[:start] + parts[end:]):
            return name
    return None


def _parts(name: str) -> list[str]:
    return [word for word in _WORD_GAP.split(name.lower()) if word]


SEARCHED_MAX: Final = 4096  # maximum characters of a field that patterns search, because scripts can have megabytes


class Match(msgspec.Struct, frozen=True):
    """A rule that matched: its number (from 1), the resulting name, the rule itself, and the named groups of its patterns."""

    number: int
    application: str | None
    input: str
    rule: Rule
    groups: dict[str, str] = {}


class CompiledRule(msgspec.Struct, frozen=True):
    """A rule with compiled patterns; `patterns` holds pairs of a field name and a pattern."""

    number: int
    rule: Rule
    patterns: tuple[tuple[str, re.Pattern[str]], ...]

    def match(self, sources: Sequence[Evidence]) -> Match | None:
        """Return the match of this rule; None if a pattern does not match or the resulting name is empty."""
        groups: dict[str, str] = {}
        for field, pattern in self.patterns:
            found = _search(pattern, field, sources)
            if found is None:
                return None
            groups |= {name: text or "" for name, text in found.groupdict().items() if name not in groups}
        if self.rule.drop or self.rule.session:
            return Match(self.number, None, "", self.rule)
        application = cleaned((self.rule.application or "{application}").format_map(groups))
        if not application:
            return None
        return Match(self.number, application, cleaned(self.rule.input.format_map(groups)), self.rule, groups)


def compiled(rules: Sequence[Rule]) -> tuple[CompiledRule, ...]:
    """Return the rules with compiled patterns.

    Raise ConfigError with the errors of all invalid rules.
    """
    faults = [f"Rule {number}: {fault}" for number, rule in enumerate(rules, 1) for fault in rule_faults(rule)]
    if faults:
        raise ConfigError("\n".join(faults))
    return tuple(
        CompiledRule(number, rule, tuple((field, re.compile(pattern)) for field, pattern in rule.match.items()))
        for number, rule in enumerate(rules, 1)
    )


def rule_faults(rule: Rule) -> list[str]:
    """Return the problems of a rule with valid patterns: contradicting or useless keys, no application, invalid templates."""
    groups = {name for pattern in rule.match.values() for name in re.compile(pattern).groupindex}
    if rule.drop and rule.session:
        return ["drops its jobs and calls them sessions; remove one of drop and session."]
    if rule.drop or rule.session:
        what = "drops its jobs" if rule.drop else "calls its jobs sessions"
        given = rule.application or rule.input or rule.unit
        return [f"{what}, so application, input and unit have no use."] if given else []
    faults = []
    if rule.application is None and "application" not in groups:
        faults.append("gives no application: name one, or a group (?P<application>...).")
    for key, template in (("application", rule.application or ""), ("input", rule.input)):
        faults += _template_faults(key, template, groups)
    return faults


def _template_faults(key: str, template: str, groups: set[str]) -> list[str]:
    try:
        fields = list(Formatter().parse(template))
    except ValueError:
        return [f"{key} has an unmatched brace; write {{{{ for a brace itself."]
    return [
        f"{{{name}}} in {key} is not a named group of its patterns; write (?P<{name or 'name'}>...) in one of them."
        for _, name, form, conversion in fields
        if name is not None and (name not in groups or form or conversion)
    ]


def _search(pattern: re.Pattern[str], field: str, sources: Sequence[Evidence]) -> re.Match[str] | None:
    texts = filter(None, (_field(evidence, field) for evidence in sources))
    return next(filter(None, (pattern.search(text[:SEARCHED_MAX]) for text in texts)), None)


def _field(evidence: Evidence, field: str) -> str | None:
    if field.startswith("attributes."):
        value = evidence.attributes.get(field.removeprefix("attributes."))
        return None if value is None else attribute_text(value)
    text: str | None = getattr(evidence, field)
    return text


def attribute_text(value: str | float | bool) -> str:  # noqa: FBT001 - an attribute value may be a bool
    """Return an attribute value as text; equal numbers give equal texts, such as 2 and 2.0."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


Sizes = tuple[tuple[str, float], ...]
_NUMBER = r"([0-9][0-9.]*(?:[eE][+-]?[0-9]+)?)"


def sizes_of_input(
    names: Sequence[str], sources: Sequence[Evidence], groups: Mapping[str, str], input_text: str
) -> Sizes:
    """Return the known input sizes of a job in the order of `names`; an input size is a number above 0.

    The first value found is used. The search order is: the attributes of the job, from the first source that has the attribute;
    the named groups of the rule that matched; `name=number` in the input name.
    """
    sizes = []
    for name in names:
        named = re.search(rf"(?<![^,;\s]){re.escape(name)}={_NUMBER}(?![^,;\s])", input_text)
        reported = (*(evidence.attributes.get(name) for evidence in sources), groups.get(name), named and named[1])
        size = next((size for value in reported if (size := _size(value)) is not None), None)
        if size is not None:
            sizes.append((name, size))
    return tuple(sizes)


def _size(value: Attribute | None) -> float | None:
    if value is None or isinstance(value, bool):
        return None
    try:
        size = float(value)
    except (ValueError, OverflowError):
        return None
    return size if 0.0 < size < math.inf else None


_PROGRAMS: Final[dict[str, tuple[Callable[[str], str], float]]] = {
    "application": (cleaned, 1.0),
    "executable": (program_of_executable, 0.9),
    "module": (program_of_module, 0.8),
    "container": (program_of_container, 0.7),
    "job_name": (normalised_job_name, 0.5),
    "user": (jobs_of, 0.2),
}
"""For each evidence field: the function that extracts the program name, and the confidence in that name."""
VAGUE_CONFIDENCE: Final = 0.2
SESSION_CONFIDENCE: Final = 0.9


def _program(field: str, text: str) -> tuple[str, float]:
    """Return the program name in a field and the confidence in it; an empty name if the field does not identify a program."""
    program_in, confidence = _PROGRAMS[field]
    name = program_in(text)
    if not name or (field != "application" and is_nameless(name)):
        return "", 0.0
    return name, VAGUE_CONFIDENCE if field == "job_name" and is_vague(name) else confidence


_known_program: Final = lru_cache(maxsize=4096)(_program)  # cached because the same jobs recur


Named = tuple[str | None, str, float, str | None]
"""The application name, the source of the name, the confidence in it, and the reason if there is no name."""


class Identifier:
    """Identifies jobs by ordered rules, then by the evidence itself.

    Rules search all sources, and the first rule that matches decides. If no rule matches, the fields in `fallback` are tried in
    order: first in the job itself, then in the other sources sorted by name. Raise ConfigError if a rule is invalid.
    """

    def __init__(self, settings: IdentifySettings, systems_by_alias: Mapping[str, str] | None = None) -> None:
        self._settings, self._systems_by_alias = settings, systems_by_alias or {}
        self._rules = compiled(settings.rules)
        self._session_fields = ("application", "job_name") if "application" in settings.fallback else ("job_name",)
        self._sessions = frozenset("-".join(_parts(name)) for name in settings.sessions)

    def identify(
        self, evidence: Evidence, system: str, also: Sequence[Identity] = (), unit: str | None = None
    ) -> Identification:
        """Return the application, input and size of a job; `also` is evidence from other sources, `unit` a requested size unit."""
        others = sorted(also, key=lambda identity: identity.source)
        sources = [evidence, *(identity.evidence for identity in others)]
        match = next((match for rule in self._rules if (match := rule.match(sources)) is not None), None)
        application, source, confidence, reason = self._named(match, evidence, others)
        best_unit, n = self._size(sources, match.rule.unit if match else None, unit)
        input_text, names = self._input(sources, match), self._settings.input_sizes
        groups = match.groups if match else {}
        return Identification(
            application=application,
            system=self._systems_by_alias.get(system, system),
            input=input_text,
            unit=best_unit,
            n=None if PART_OF in evidence.attributes else n,
            source=source,
            confidence=confidence,
            reason=reason,
            input_sizes=sizes_of_input(names, sources, groups, input_text) if names else (),
        )

    def _named(self, match: Match | None, evidence: Evidence, others: Sequence[Identity]) -> Named:
        if match is not None and match.rule.session:
            return None, SESSION, match.rule.confidence, f"rule {match.number} calls it an interactive session"
        if match is not None:
            reason = f"rule {match.number} drops the job" if match.rule.drop else None
            return match.application, f"rule {match.number}", match.rule.confidence, reason
        session = self._session(evidence, others)
        if session is not None and session not in SHELLS:
            return None, SESSION, SESSION_CONFIDENCE, f"it is an interactive session ({session})"
        nameless = None
        for field in self._settings.fallback:
            for source, reported in [("", evidence), *[(identity.source, identity.evidence) for identity in others]]:
                text = getattr(reported, field)
                if not text:
                    continue
                known = _known_program if len(text) <= TEXT_MAX else _program
                name, confidence = known(field, text)
                if name:
                    return name, f"{field} from {cleaned(source)}" if source else field, confidence, None
                nameless = f"the {field.replace('_', ' ')} {text[:40]!r} names no program"
        if session is not None:
            return None, SESSION, VAGUE_CONFIDENCE, nameless
        return None, "none", 0.0, nameless or "nothing in its evidence names a program"

    def _session(self, evidence: Evidence, others: Sequence[Identity]) -> str | None:
        """Return the interactive session of a job, from the application that the job's producer reports, else from the job name."""
        sources = (evidence, *(identity.evidence for identity in others))
        texts = (getattr(source, field) for field in self._session_fields for source in sources)
        text = next(filter(None, texts), None)
        return session_name(text[:TEXT_MAX], self._sessions) if text else None

    def _size(
        self, sources: Sequence[Evidence], rule_unit: Unit | None, requested: str | None
    ) -> tuple[str, float | None]:
        sizes: dict[str, float] = {}
        for evidence in reversed(sources):
            sizes |= {counted: n for counted, n in evidence.sizes.items() if n > 0}
        own = sources[0].sizes or sizes
        only = next(iter(own)) if len(own) == 1 else None
        if requested is None and only in sizes:
            return only, sizes[only]
        wanted = [unit for unit in (requested or only, rule_unit, self._settings.unit, *UNITS) if unit]
        unit = requested or next((unit for unit in wanted if unit in sizes), wanted[0])
        return unit, sizes.get(unit)

    def _input(self, sources: Sequence[Evidence], match: Match | None) -> str:
        explicit = next((evidence.input for evidence in sources if evidence.input), None)
        if explicit:
            return cleaned(explicit)
        if match and match.input:
            return match.input
        if not any(evidence.attributes for evidence in sources):
            return ""
        attributes = ChainMap(*(evidence.attributes for evidence in sources))
        names = dict.fromkeys((*self._settings.input_attributes, *self._settings.input_sizes))
        return cleaned(",".join(f"{name}={attribute_text(attributes[name])}" for name in names if name in attributes))


EVIDENCE_BYTES_MAX: Final = 24_000
LEFT_OUT: Final[dict[str, object]] = {"script": None, "comment": None, "hosts": (), "attributes": {}}
"""The fields that are emptied if evidence is too large, in this order, each with its empty value."""
LeftOut = Callable[[str], object]
"""Receives the name of a size limit that was exceeded. The default of callers that do not count limits is `bool`."""


def bounded(evidence: Evidence, left_out: LeftOut = bool) -> Evidence:
    """Return the evidence cut to at most EVIDENCE_BYTES_MAX bytes, because the state of a job must fit into one broker record.

    Host names are first compressed into ranges, without loss. Then parts are dropped in this order until the evidence fits: the
    end of the script, which rules do not search; the rest of the script; the comment; the hosts; the attributes.
    """
    if _fits(evidence):
        return evidence
    with suppress(InvalidInputError):  # not a host list; the decoder that expands it reports the error
        evidence = msgspec.structs.replace(evidence, hosts=nodes.folded(evidence.hosts))
    reached: dict[str, None] = {}
    script = evidence.script and evidence.script[:SEARCHED_MAX]
    for field, shorter in (("script", script), *LEFT_OUT.items()):
        if _fits(evidence):
            break
        if getattr(evidence, field) != shorter:
            evidence = msgspec.structs.replace(evidence, **{field: shorter})
            reached[f"evidence_{field}_bytes_max"] = None
    for bound in reached:
        left_out(bound)
    return evidence


def _fits(evidence: Evidence) -> bool:
    return len(msgspec.json.encode(evidence)) <= EVIDENCE_BYTES_MAX
