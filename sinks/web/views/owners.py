"""The jobs of one user or one project: what runs, what ended, what it cost, and what to ask for next time."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal

import msgspec

from processors.contracts.events import SUCCESS
from processors.contracts.outputs import RecentRun
from processors.contracts.service import Service
from sinks.web import filters
from sinks.web.access import Reader
from sinks.web.filters import JobFilter, address, key_of
from sinks.web.formatting import counted, share
from sinks.web.queries import link, point_at
from sinks.web.views import job_messages
from sinks.web.views.job_lists import FIRST, Heading, JobRow, Tab, column_of, in_order, row, titles
from sinks.web.views.jobs import visible

SHOWN: Final = 10
ADVICE_MAX: Final = 5
HOUR_S: Final = 3600.0
Kind = Literal["user", "account"]
NAMES: Final[dict[Kind, str]] = {"user": "User", "account": "Project"}


class Part(msgspec.Struct, frozen=True):
    """The first jobs of a list, how many there are, and where all of them are."""

    tab: Tab
    headings: Sequence[Heading]
    rows: Sequence[JobRow]
    total: int
    href: str


class Advice(msgspec.Struct, frozen=True):
    """What to ask for next time with one application: its name, its page, how much it was run, and sentences."""

    name: str
    href: str
    runs: int
    texts: Sequence[str]


class OwnerView(msgspec.Struct, frozen=True):
    """A user or a project: facts, lists, and advice by application, that with the most node-hours first."""

    title: str
    name: str
    facts: Sequence[tuple[str, str, str]]
    parts: Sequence[Part]
    advice: Sequence[Advice]

    @property
    def is_known(self) -> bool:
        """Whether any job of theirs is known."""
        return any(part.total for part in self.parts)


def owner_view(service: Service, reader: Reader, kind: Kind, name: str) -> OwnerView:
    """Return what to show of a user or a project to a reader: the jobs that they may see."""
    wanted = JobFilter(user=name) if kind == "user" else JobFilter(account=name)
    running = wanted.jobs(visible(service.running(), reader))
    runs = wanted.runs(visible(service.recent_runs(), reader))
    return OwnerView(
        NAMES[kind],
        name,
        list(_facts(wanted, runs)),
        [_part(service, wanted, "running", running), _part(service, wanted, "ended", runs)],
        list(_advice(service, runs)),
    )


def _part(service: Service, wanted: JobFilter, tab: Tab, found: Sequence[Any]) -> Part:
    column, down = column_of(tab, FIRST[tab])
    shown = in_order(found, column, down=down)[:SHOWN]
    href = address("/jobs", wanted.query(tab=tab))
    return Part(tab, titles(tab), [row(service, entry) for entry in shown], len(found), href)


def _facts(wanted: JobFilter, runs: Sequence[RecentRun]) -> Iterator[tuple[str, str, str]]:
    """Yield name, value and link of what is known of the runs that ended."""
    completed = [run for run in runs if run.state == SUCCESS]
    compared = [run for run in completed if run.predicted is not None]
    outside = [run for run in compared if filters.is_outside(run)]
    yield "runs that ended", str(len(runs)), ""
    if runs:
        yield "completed", f"{len(completed)} ({share(len(completed) / len(runs))})", ""
    if compared:
        href = address("/jobs", wanted.query(tab="ended", outside_band="1"))
        yield "outside of their band", f"{len(outside)} of {len(compared)} that were predicted", href
    sized_runs = [(run.nodes, run.run_time_s) for run in runs if run.nodes is not None]
    if sized_runs:
        yield "node-hours", _of(sum(n * time_s for n, time_s in sized_runs) / HOUR_S, len(sized_runs), len(runs)), ""
    energies = [run.energy_j for run in runs if run.energy_j is not None]
    if energies:
        yield "energy", f"{job_messages.kilowatt_hours(sum(energies))}{_among(len(energies), len(runs))}", ""


def _of(amount: float, known: int, runs: int) -> str:
    return f"{amount:.0f}{_among(known, runs)}" if amount >= 10 else f"{amount:.2g}{_among(known, runs)}"


def _among(known: int, runs: int) -> str:
    return "" if known == runs else f" of {counted(known, 'run')} where it is known"


def _advice(service: Service, runs: Sequence[RecentRun]) -> Iterator[Advice]:
    """Yield what to ask for next time, for the applications with the most node-hours of which anything is known."""
    by_application: dict[str, list[RecentRun]] = defaultdict(list)
    for run in runs:
        if run.application_id is not None:
            by_application[run.application_id].append(run)
    costly = sorted(by_application.items(), key=lambda one: -sum((run.nodes or 1) * run.run_time_s for run in one[1]))
    for id_, own in costly[:ADVICE_MAX]:
        entry, newest = service.prediction(id_), own[0]
        point = point_at(entry, newest.n)
        usual = newest.predicted if entry is None or point is None else job_messages.predicted_now(entry, point)
        found = (
            job_messages.limit_advice(usual, newest.time_limit_s),
            job_messages.size_advice(entry, newest.n),
        )
        texts = [text for text in found if text]
        key = key_of(id_)
        if texts:
            href = f"/applications/{link(id_)}" if entry is not None else ""
            yield Advice(" ".join(filter(None, (key.application, key.input))), href, len(own), texts)
