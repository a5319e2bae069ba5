"""`scalewatch identify`: show which application each job in files is assigned to."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Final

import click
import msgspec

from agent.app.compose import privacy
from agent.app.files import DAMAGED, NOT_UTF8, Remarks
from agent.app.files import refused as rejected
from agent.cli.options import FileInput, counted, finish, json_option, reads_files, table
from agent.clock import SystemClock
from agent.decode.files import read_files
from agent.decode.message import FileRecord
from agent.decode.opening import STDIN
from agent.identify import VAGUE_CONFIDENCE, Identifier, cleaned, is_vague, normalised_job_name
from processors.contracts.events import Evidence, Identity, JobCompleted, JobEvent, JobStarted
from processors.contracts.names import Identification, job_key
from processors.contracts.telemetry import Keep

GROUPS_MAX: Final = 100_000
NAMES_MAX: Final = 10_000
SIZES_MAX: Final = 1_000
NAME_MAX: Final = 80
IDENTITIES_MAX: Final = 100_000
REFUSED_SHOWN: Final = 5
SIZES_SHOWN: Final = 8
REPEATS_MIN: Final = 3.0  # minimum mean number of jobs per value for a field to identify programs
LEARN_BY: Final = {  # alternatives to a job name that identifies no program, best first, with their configuration
    "attributes.wc_key": "rules: [{match: {attributes.wc_key: '(?P<application>.+)'}}]",
    "comment": "rules: [{match: {comment: '(?P<application>.+)'}}]",
    "job_name": "rules: [{match: {job_name: '(?P<application>.+)'}}]",
    "user": "fallback: [application, executable, module, container, job_name, user]",
    "account": "rules: [{match: {account: '(?P<application>.+)'}}]",
}
CALLED: Final = {"attributes.wc_key": "workload key", "job_name": "code as name"}


class IdentifiedJobs(msgspec.Struct):
    """The jobs of one application that were identified in the same way; `sizes` counts jobs by size."""

    application: str
    input: str
    system: str
    unit: str
    source: str
    confidence: float
    jobs: int = 0
    sizes: dict[float, int] = {}


class Survey:
    """Counts jobs by identified application, and unidentified jobs by name.

    Memory is bounded: `left_out` is the number of jobs whose application or name is one too many. `hide` removes from an event
    the fields that the agent would hide from its rules.
    """

    def __init__(self, identifier: Identifier, hide: Callable[[JobEvent], JobEvent] = lambda event: event) -> None:
        self._identifier = identifier
        self._hide = hide
        self._groups: dict[tuple[object, ...], IdentifiedJobs] = {}
        self._nameless: Counter[tuple[str, str]] = Counter()
        self._identities: dict[str, dict[str, Identity]] = {}
        self._values: dict[str, Counter[str]] = {field: Counter() for field in LEARN_BY}
        self._silent = 0
        self.jobs = 0
        self.identified = 0
        self.started = 0
        self.left_out = 0

    def take(self, event: JobEvent) -> None:
        """Count a completed job, or store evidence from another source until the job completes."""
        event = self._hide(event)
        if isinstance(event, JobCompleted):
            also = self._identities.pop(job_key(event.system, event.job_id), {})
            self._count(event, self._identifier.identify(event.evidence, event.system, tuple(also.values())))
        elif isinstance(event, Identity):
            while len(self._identities) >= IDENTITIES_MAX:
                self._identities.pop(next(iter(self._identities)))
            self._identities.setdefault(job_key(event.system, event.job_id), {})[event.source] = event
        elif isinstance(event, JobStarted):
            self.started += 1

    def groups(self) -> list[IdentifiedJobs]:
        """Return the applications, the most frequent first."""
        return sorted(self._groups.values(), key=lambda group: (-group.jobs, group.application, group.input))

    def nameless(self) -> list[tuple[tuple[str, str], int]]:
        """Return the job name and reason of unidentified jobs, with the number of jobs, most frequent first."""
        return self._nameless.most_common()

    def silent(self) -> int:
        """Return the number of jobs whose name does not identify a program: no name, a common word, or a name used only once."""
        once = sum(group.jobs == 1 and group.source == "job_name" for group in self._groups.values())
        return self._silent + once

    def learn_by(self) -> str | None:
        """Return the first field of LEARN_BY with recurring values in at least half of the jobs without a program name; None without one."""
        for field, values in self._values.items():
            jobs = values.total()
            constant = len(values) < 2 and field != "user"
            if not constant and 2 * jobs >= self.silent() and jobs >= REPEATS_MIN * len(values):
                return field
        return None

    def _count(self, event: JobCompleted, identified: Identification) -> None:
        self.jobs += 1
        self._note_silent(event.evidence, identified)
        if identified.application is None:
            job = (_matched_name(event.evidence), identified.reason or "")
            if job in self._nameless or len(self._nameless) < NAMES_MAX:
                self._nameless[job] += 1
            else:
                self.left_out += 1
            return
        self.identified += 1
        key = (identified.application, identified.input, identified.system, identified.unit, identified.source)
        if key not in self._groups:
            if len(self._groups) >= GROUPS_MAX:
                self.left_out += 1
                return
            self._groups[key] = IdentifiedJobs(*key, confidence=identified.confidence)
        group, n = self._groups[key], identified.n
        group.jobs += 1
        if n is not None and (n in group.sizes or len(group.sizes) < SIZES_MAX):
            group.sizes[n] = group.sizes.get(n, 0) + 1

    def _note_silent(self, evidence: Evidence, identification: Identification) -> None:
        """Unless a rule or another field identified the job, count its LEARN_BY values, and the job if its name identifies no program."""
        if identification.source.startswith("rule") or (
            identification.source != "job_name" and identification.application is not None
        ):
            return
        self._silent += identification.confidence <= VAGUE_CONFIDENCE
        for field, values in self._values.items():
            value = _value(evidence, field)
            if value and (value in values or len(values) < NAMES_MAX):
                values[value] += 1


def _value(evidence: Evidence, field: str) -> str | None:
    """Return the value of a field. A job name counts only if it consists of numbers, or of a common word and a number such as `run7`."""
    if field == "attributes.wc_key":
        return str(evidence.attributes.get("wc_key") or "").strip("*")
    text: str | None = getattr(evidence, field)
    if field == "job_name" and text:
        return text if not normalised_job_name(text) or (is_vague(text) and text[-1:].isdigit()) else None
    return text


def _matched_name(evidence: Evidence) -> str:
    """Return the text to list for an unidentified job: its name, else its executable, else its user, account and partition."""
    text = evidence.job_name or evidence.executable
    if text:
        return cleaned(text)[:NAME_MAX]
    parts = [f"{field} {value}" for field in ("user", "account", "partition") if (value := getattr(evidence, field))]
    return cleaned(", ".join(parts))[:NAME_MAX]


@click.command(short_help="Show which application each job in files is assigned to.")
@click.argument("files", nargs=-1, required=True)
@reads_files()
@click.option("--top", default=40, show_default=True, type=click.IntRange(1), help="Maximum number of rows per table.")
@json_option
def command(files: tuple[str, ...], source: FileInput, *, top: int, as_json: bool) -> None:
    """Show the applications, inputs and sizes that the rules identify in FILES; - is standard input.

    Unidentified jobs follow, the most frequent first, so that you see which new rule would help most. Records of other
    sources, such as XALT, add details to a job if they come before its end in the files. User names are pseudonyms, as in
    the running agent.
    """
    config = source.config
    # read every field that a rule could match; none of them leaves this process
    keep = Keep(script=True, comment=True, paths=True)
    options = msgspec.structs.replace(source.options(), keep=keep)
    survey = Survey(Identifier(config.identify, config.systems_by_alias), privacy(config.privacy))
    remarks = Remarks(config)
    records = remarks.passing(read_files(files, SystemClock().now_ms(), options))
    refused, shown, samples = _survey(survey, records, remarks)
    click.echo(_json(survey, refused) if as_json else _text(survey, top))
    if survey.jobs and not as_json:
        click.echo("\n" + _advice(survey, files, source))
    if samples and not as_json:
        click.echo(f"scalewatch: {counted(samples, 'sample')} of telemetry left out; they describe no job.", err=True)
    if refused and not as_json:
        rest = f"; the first {shown} are above" if refused > shown > 0 else ""
        click.echo(f"scalewatch: {counted(refused, 'record')} could not be used{rest}.", err=True)
    finish(remarks, empty=not survey.jobs, explained=True)


def _survey(survey: Survey, records: Iterable[FileRecord], remarks: Remarks) -> tuple[int, int, int]:
    """Add all records to the survey; return the numbers of refused records, of refusals printed, and of samples."""
    refused = shown_count = samples = 0
    for record in records:
        rejects = [error for error in rejected(record) if error.reason != DAMAGED]  # the remarks report damaged files
        shown = [error for error in rejects if error.reason != NOT_UTF8][: REFUSED_SHOWN - shown_count]
        for error in shown:
            click.echo(f"scalewatch: {record.place}: {error}", err=True)
        refused, shown_count = refused + len(rejects), shown_count + len(shown)
        samples += 0 if record.samples is None else len(record.samples.series)
        for event in record.decoded.events:
            remarks.accepts(event.system)
            survey.take(event)
    return refused, shown_count, samples


def _text(survey: Survey, top: int) -> str:
    head = ("application", "input", "system", "unit", "source", "confidence", "jobs", "sizes")
    groups = survey.groups()
    rows = [
        (g.application, g.input, g.system, g.unit, g.source, f"{g.confidence:.2f}", str(g.jobs), _sizes(g.sizes))
        for g in groups[:top]
    ]
    lines = [f"{counted(survey.jobs, 'job')}, {survey.identified} identified, {counted(len(groups), 'application')}."]
    if rows:
        lines += ["", table(head, rows)]
    if len(groups) > top:
        lines.append(f"... and {len(groups) - top} more; --top shows them.")
    nameless = survey.nameless()
    if nameless:
        lines += ["", "Unidentified jobs, by frequency:"]
        lines.append(table(("jobs", "job", "reason"), [(str(n), name, why) for (name, why), n in nameless[:top]]))
    if survey.started:
        lines += ["", f"Also read: {counted(survey.started, 'job start')}; only ended jobs are counted."]
    if survey.left_out:
        lines += ["", f"Names not shown because their number is limited: {survey.left_out}."]
    return "\n".join(lines)


def _advice(survey: Survey, files: Sequence[str], source: FileInput) -> str:
    """Return advice for the next step: add rules if most names identify no program, else run a command that shows the models."""
    names = " ".join(shlex.quote(file) for file in files) if STDIN not in files else "FILES"
    config = f" -c {shlex.quote(source.path)}" if source.path is not None else ""
    options = f" --timezone {source.timezone}" if source.timezone != "UTC" else ""
    options += f" --system {shlex.quote(source.system)}" if source.system is not None else ""
    silent = survey.silent()
    if 2 * silent > survey.jobs:
        text = f"The names of {silent} of {counted(survey.jobs, 'job')} do not identify a program, as if they were pseudonyms."
        field = survey.learn_by()
        if field is None:
            return (
                f"{text} No other field of the records distinguishes programs.\n"
                "Next: print the columns Comment and WCKey with sacct, too, or add the executables that XALT has recorded."
            )
        path = source.path or "agent.yaml"
        return (
            f"{text} Jobs with the same {CALLED.get(field, field)} can count as one application, each with a curve over its sizes.\n"
            f"Next: write this into {path}, and look again with: scalewatch identify {names} -c {shlex.quote(path)}{options}\n\n"
            f"identify:\n  {LEARN_BY[field]}"
        )
    largest = survey.groups()[0]
    if len(files) > 1 or STDIN in files or not largest.sizes:
        return f"Next: scalewatch replay {names} --out results{config}{options}"
    sizes = f"{max(largest.sizes):g},{2 * max(largest.sizes):g}"
    return f"Next: scalewatch predict {names} {shlex.quote(largest.application)} --n {sizes}{config}{options}"


def _sizes(sizes: dict[float, int]) -> str:
    text = " ".join(f"{n:g}" for n in sorted(sizes)[:SIZES_SHOWN])
    return f"{text} ... {max(sizes):g}" if len(sizes) > SIZES_SHOWN else text


def _json(survey: Survey, refused: int) -> str:
    plain = {
        "jobs": survey.jobs,
        "identified": survey.identified,
        "refused": refused,
        "applications": [
            {
                **msgspec.structs.asdict(group),
                "sizes": [{"n": n, "jobs": jobs} for n, jobs in sorted(group.sizes.items())],
            }
            for group in survey.groups()
        ],
        "unidentified": [{"jobs": n, "job": name, "reason": why} for (name, why), n in survey.nameless()],
    }
    return msgspec.json.encode(plain).decode()
