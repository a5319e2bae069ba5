"""`scalewatch identify`: what the rules make of the jobs in files."""

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Final

import click
import msgspec

from agent.app.compose import privacy
from agent.cli import FAILED
from agent.cli.options import config_option, counted, json_option, load_or_default, table, timezone_option
from agent.clock import SystemClock
from agent.decode.files import read_files
from agent.decode.message import DecodeOptions, FileRecord
from agent.identify import Identification, Identifier, cleaned
from processors.contracts.events import Evidence, Identity, JobCompleted, JobEvent, JobStarted
from processors.contracts.names import job_key
from processors.contracts.telemetry import Keep

GROUPS_MAX: Final = 100_000
NAMES_MAX: Final = 10_000
SIZES_MAX: Final = 1_000
NAME_MAX: Final = 80
IDENTITIES_MAX: Final = 100_000
REFUSED_SHOWN: Final = 5
SIZES_SHOWN: Final = 8


class Group(msgspec.Struct):
    """The jobs of one application that were identified in one way; `sizes` counts jobs by size."""

    application: str
    input: str
    system: str
    unit: str
    source: str
    confidence: float
    jobs: int = 0
    sizes: dict[float, int] = {}


class Survey:
    """Counts jobs, each by what it was identified as. Memory is bounded; what is left out is counted.

    `hide` takes out of an event what the agent would not show to its rules.
    """

    def __init__(self, identifier: Identifier, hide: Callable[[JobEvent], JobEvent] = lambda event: event) -> None:
        self._identifier = identifier
        self._hide = hide
        self._groups: dict[tuple[object, ...], Group] = {}
        self._nameless: Counter[tuple[str, str]] = Counter()
        self._identities: dict[str, dict[str, Identity]] = {}
        self.jobs = 0
        self.identified = 0
        self.started = 0
        self.left_out = 0

    def take(self, event: JobEvent) -> None:
        """Count a job that ended, or remember what another source says of one."""
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

    def groups(self) -> list[Group]:
        """Return the applications, the most frequent first."""
        return sorted(self._groups.values(), key=lambda group: (-group.jobs, group.application, group.input))

    def nameless(self) -> list[tuple[tuple[str, str], int]]:
        """Return job name and reason of jobs that nothing names, with their number, the most frequent first."""
        return self._nameless.most_common()

    def _count(self, event: JobCompleted, found: Identification) -> None:
        self.jobs += 1
        if found.application is None:
            self._count_nameless(_named(event.evidence), found.reason or "")
            return
        self.identified += 1
        key = (found.application, found.input, found.system, found.unit, found.source)
        if key not in self._groups:
            if len(self._groups) >= GROUPS_MAX:
                self.left_out += 1
                return
            self._groups[key] = Group(*key, confidence=found.confidence)
        group = self._groups[key]
        group.jobs += 1
        if found.n is not None and (found.n in group.sizes or len(group.sizes) < SIZES_MAX):
            group.sizes[found.n] = group.sizes.get(found.n, 0) + 1

    def _count_nameless(self, name: str, reason: str) -> None:
        key = (name, reason)
        if key in self._nameless or len(self._nameless) < NAMES_MAX:
            self._nameless[key] += 1
        else:
            self.left_out += 1


def _named(evidence: Evidence) -> str:
    """Return what a rule for the job could go by."""
    text = evidence.job_name or evidence.executable
    if text:
        return cleaned(text)[:NAME_MAX]
    parts = [f"{field} {value}" for field in ("user", "account", "partition") if (value := getattr(evidence, field))]
    return cleaned(", ".join(parts))[:NAME_MAX]


@click.command(short_help="Show what the rules make of the jobs in files.")
@click.argument("files", nargs=-1, required=True)
@config_option
@click.option("--system", default="local", show_default=True, metavar="NAME", help="The system of jobs that name none.")
@timezone_option
@click.option("--top", default=40, show_default=True, type=click.IntRange(1), help="Rows of each table.")
@json_option
def command(  # noqa: PLR0917 - options
    files: tuple[str, ...],
    config: str | None,
    system: str,
    timezone: str,
    top: int,
    as_json: bool,  # noqa: FBT001
) -> None:
    """Show applications, inputs and sizes that the rules find in FILES of any format; - is standard input.

    Jobs that nothing names follow by frequency: what a new rule would be worth. Evidence of other sources, such as
    XALT, counts for the jobs that end after it in the files. Users are hidden first, as in the running agent.
    """
    settings = load_or_default(config)
    # whatever a rule may ask for is read here: nothing of it leaves this process
    keep = Keep(script=True, comment=True, paths=True)
    options = DecodeOptions(default_system=system, timezone=timezone, keep=keep)
    survey = Survey(Identifier(settings.identification), privacy(settings.privacy))
    refused, samples = _survey(survey, read_files(files, SystemClock().now_ms(), options))
    click.echo(_json(survey, refused) if as_json else _text(survey, top))
    if samples and not as_json:
        click.echo(f"scalewatch: {counted(samples, 'sample')} of telemetry left out; they describe no job.", err=True)
    if refused and not as_json:
        rest = f"; the first {REFUSED_SHOWN} are above" if refused > REFUSED_SHOWN else ""
        click.echo(f"scalewatch: {counted(refused, 'record')} could not be used{rest}.", err=True)
    if not survey.jobs:
        click.get_current_context().exit(FAILED)


def _survey(survey: Survey, records: Iterable[FileRecord]) -> tuple[int, int]:
    """Take all records in; return how many were refused, the first of them named on standard error, and the samples."""
    refused = samples = 0
    for record in records:
        rejects = [record.error] if record.error else record.decoded.rejects
        for error in rejects[: max(0, REFUSED_SHOWN - refused)]:
            click.echo(f"scalewatch: {record.place}: {error}", err=True)
        refused += len(rejects)
        samples += 0 if record.samples is None else len(record.samples.series)
        for event in record.decoded.events:
            survey.take(event)
    return refused, samples


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
        lines += ["", "Jobs that nothing names, by frequency:"]
        lines.append(table(("jobs", "job", "reason"), [(str(n), name, why) for (name, why), n in nameless[:top]]))
    if survey.started:
        lines += ["", f"Also read: {counted(survey.started, 'start')} of jobs; only jobs that ended are counted."]
    if survey.left_out:
        lines += ["", f"Names not shown, for their number is bounded: {survey.left_out}."]
    return "\n".join(lines)


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
