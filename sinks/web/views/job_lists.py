"""Lists of running and ended jobs, as pages show them: filtered, sorted by a column, a page at a time."""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from processors.contracts.events import SUCCESS
from processors.contracts.names import rfc3339
from processors.contracts.outputs import RecentRun, RunningJob, hits
from processors.contracts.service import Service
from processors.contracts.settings import SESSION
from sinks.web import filters, queries
from sinks.web.access import Reader
from sinks.web.filters import JobFilter, address, id_of, key_of
from sinks.web.formatting import around, counted, duration, energy, moment, share, size
from sinks.web.formatting import chance as percent
from sinks.web.queries import link, point_at
from sinks.web.views import job_messages
from sinks.web.views.jobs import job_link, user_link, visible

Tab = Literal["running", "ended"]
TABS: Final[tuple[Tab, ...]] = ("running", "ended")
PAGE: Final = 50
OFFERED_MAX: Final = 36  # of a list to choose from
Cell = tuple[str, str]  # text, and the link it leads to


class Column(msgspec.Struct, frozen=True):
    """A column: its name in the address, its title, by what it sorts, and what sort order a first click asks for.

    A column without `by` cannot be sorted by.
    """

    name: str
    title: str
    by: Callable[[Any], Any] | None = None
    down: bool = False
    number: bool = False


class Heading(msgspec.Struct, frozen=True):
    """A column in the head of a table: the address that sorts by it, and how it is sorted now."""

    title: str
    href: str
    sorted: Literal["", "ascending", "descending"]
    number: bool


class JobRow(msgspec.Struct, frozen=True):
    """A job in a list: its name and link, then a cell for each other column; `notes` are cells that stand out."""

    name: str
    href: str
    cells: Sequence[Cell]
    bad: frozenset[int] = frozenset()


class JobList(msgspec.Struct, frozen=True, kw_only=True):
    """A page of a list: `total` counts what the filter lets through, `counts` the same of every tab."""

    tab: Tab
    filter: JobFilter
    headings: Sequence[Heading]
    rows: Sequence[JobRow]
    total: int
    first: int
    page: int
    pages: int
    counts: Mapping[str, int]
    tabs: Mapping[str, str]
    earlier: str
    later: str
    offered: Mapping[str, Sequence[str]]


RUNNING: Final = (
    Column("job", "job", lambda job: (job.system, len(job.job_id), job.job_id)),
    Column("application", "application", lambda job: (job.application, job.input or "") if job.application else None),
    Column("user", "user", lambda job: job.user),
    Column("partition", "partition", lambda job: job.partition),
    Column("size", "size", lambda job: job.n, down=True, number=True),
    Column("start", "started", lambda job: job.start, down=True),
    Column("end", "predicted end", lambda job: job.end),
    Column("band", "earliest to latest"),
    Column(
        "limit",
        "hits its limit",
        lambda job: None if job.session else job.probability_exceeds_limit,
        down=True,
        number=True,
    ),
)
ENDED: Final = (
    Column("job", "job", lambda run: (run.system, len(run.job_id), run.job_id)),
    Column(
        "application",
        "application",
        lambda run: (key_of(run.application_id).application, run.application_id) if run.application_id else None,
    ),
    Column("user", "user", lambda run: run.user),
    Column("partition", "partition", lambda run: run.partition),
    Column("size", "size", lambda run: run.n, down=True, number=True),
    Column("end", "ended", lambda run: run.end_ms, down=True),
    Column("state", "state", lambda run: run.state),
    Column("time", "run time", lambda run: run.run_time_s, down=True, number=True),
    Column("against", "of its prediction", filters.of_predicted, down=True, number=True),
    Column("energy", "energy", lambda run: run.energy_j, down=True, number=True),
)
COLUMNS: Final[Mapping[Tab, tuple[Column, ...]]] = {"running": RUNNING, "ended": ENDED}
FIRST: Final[Mapping[Tab, str]] = {"running": "-limit", "ended": "-end"}


def job_list(
    service: Service, reader: Reader, wanted: JobFilter, query: Mapping[str, str], path: str = "/jobs"
) -> JobList:
    """Return the page of a list that a reader asks for: of jobs that they may see.

    BadParameterError for a tab or a column that there is not.
    """
    running, ended = visible(service.running(), reader), visible(service.recent_runs(), reader)
    found: dict[Tab, list[Any]] = {"running": wanted.jobs(running), "ended": wanted.runs(ended)}
    tab = _tab(query.get("tab", "")) or _likely_tab(wanted, found)
    requested = query.get("sort", "")
    column, down = column_of(tab, requested or FIRST[tab])
    ordered = in_order(found[tab], column, down=down)
    pages = max(1, -(-len(ordered) // PAGE))
    page = min(queries.whole(query, "page", 1, 10**6) or 1, pages)
    first = (page - 1) * PAGE
    own = wanted.query(tab=tab) | ({"sort": requested} if requested else {})
    return JobList(
        tab=tab,
        filter=wanted,
        headings=[_heading(each, column, path, wanted.query(tab=tab), down=down) for each in COLUMNS[tab]],
        rows=[row(service, entry) for entry in ordered[first : first + PAGE]],
        total=len(ordered),
        first=first,
        page=page,
        pages=pages,
        counts={name: len(entries) for name, entries in found.items()},
        tabs={name: address(path, wanted.query(tab=name)) for name in TABS},
        earlier=address(path, own | ({"page": str(page - 1)} if page > 2 else {})) if page > 1 else "",
        later=address(path, own | {"page": str(page + 1)}) if page < pages else "",
        offered=_offered(running, ended),
    )


def row(service: Service, entry: RunningJob | RecentRun) -> JobRow:
    """Return a job as a list shows it."""
    return _of_running(service, entry) if isinstance(entry, RunningJob) else _of_ended(service, entry)


def titles(tab: Tab) -> list[Heading]:
    """Return the head of a table that cannot be sorted."""
    return [Heading(column.title, "", "", column.number) for column in COLUMNS[tab]]


def in_order(entries: Iterable[Any], column: Column, *, down: bool) -> list[Any]:
    """Return entries sorted by a column, those last of which its value is not known."""
    by = column.by
    if by is None:
        return list(entries)
    keyed = [(by(entry), entry) for entry in entries]
    known = [pair for pair in keyed if pair[0] is not None]
    known.sort(key=lambda pair: pair[0], reverse=down)
    return [entry for _, entry in known] + [entry for value, entry in keyed if value is None]


def _tab(given: str) -> Tab | None:
    if not given:
        return None
    found = next((tab for tab in TABS if tab == given), None)
    if found is None:
        raise queries.BadParameterError(f"tab={given[:40]!r} has to be running or ended.")
    return found


def _likely_tab(wanted: JobFilter, found: Mapping[Tab, Sequence[Any]]) -> Tab:
    """Return the list to show where none is chosen: running jobs, unless only ended ones can be meant."""
    only_ended = wanted.state or wanted.outside_band
    return "ended" if only_ended or (wanted.query() and found["ended"] and not found["running"]) else "running"


def column_of(tab: Tab, given: str) -> tuple[Column, bool]:
    """Return the column to sort by, and whether the largest comes first; BadParameterError where there is none."""
    name = given.removeprefix("-")
    found = next((column for column in COLUMNS[tab] if column.name == name and column.by is not None), None)
    if found is None:
        known = ", ".join(column.name for column in COLUMNS[tab] if column.by is not None)
        raise queries.BadParameterError(
            f"sort={given[:40]!r} has to be one of {known}, with a minus for the largest first."
        )
    return found, given.startswith("-")


def _heading(column: Column, by: Column, path: str, query: dict[str, str], *, down: bool) -> Heading:
    """Return a column as it stands in the head: a click on the one that is sorted by turns its order round."""
    is_sorted = column.name == by.name
    next_down = not down if is_sorted else column.down
    sort = f"{'-' if next_down else ''}{column.name}"
    href = address(path, query | {"sort": sort}) if column.by is not None else ""
    order: Literal["ascending", "descending"] = "descending" if down else "ascending"
    return Heading(column.title, href, order if is_sorted else "", column.number)


def _offered(running: Sequence[RunningJob], ended: Sequence[RecentRun]) -> dict[str, list[str]]:
    """Return what a reader may choose from: the names with the most jobs, sorted; others can be typed."""
    names: dict[str, Counter[str | None]] = {
        "application": Counter(job.application for job in running),
        "user": Counter(job.user for job in running),
        "partition": Counter(job.partition for job in running),
    }
    names["application"].update(
        {key_of(id_).application: count for id_, count in Counter(run.application_id for run in ended).items()}
    )
    names["user"].update(run.user for run in ended)
    names["partition"].update(run.partition for run in ended)
    return {
        kind: sorted(name for name, _ in counted.most_common(OFFERED_MAX) if name) for kind, counted in names.items()
    }


def _of_running(service: Service, job: RunningJob) -> JobRow:
    return JobRow(
        f"{job.system}/{job.job_id}",
        job_link(job.system, job.job_id),
        (
            _application(service, job.application or SESSION * job.session, job.input or "", id_of(job)),
            _user(job.user),
            (job.partition or "-", ""),
            ("-" if job.n is None else size(job.n), ""),
            (moment(job.start), ""),
            (moment(job.end) if job.known else "unknown", ""),
            (around(job.end, job.end_low, job.end_high) if job.known else "-", ""),
            (SESSION if job.session else percent(job.probability_exceeds_limit), ""),
        ),
        frozenset({7}) if hits(job.probability_exceeds_limit, session=job.session) else frozenset(),
    )


def _of_ended(service: Service, run: RecentRun) -> JobRow:
    key = key_of(run.application_id)
    return JobRow(
        f"{run.system}/{run.job_id}",
        job_link(run.system, run.job_id),
        (
            _application(service, key.application or SESSION * run.session, key.input, run.application_id or ""),
            _user(run.user),
            (run.partition or "-", ""),
            ("-" if run.n is None else size(run.n), ""),
            (moment(rfc3339(run.end_ms)), ""),
            (run.state, ""),
            (duration(run.run_time_s), ""),
            (share(filters.of_predicted(run)), ""),
            ("-" if run.energy_j is None else energy(run.energy_j), ""),
        ),
        frozenset({7}) if filters.is_outside(run) else frozenset(),
    )


def _application(service: Service, name: str, input_: str, id_: str) -> Cell:
    text = " ".join(filter(None, (name, input_)))
    known = id_ and service.prediction(id_) is not None
    return (text, f"/applications/{link(id_)}") if known else (text or "unknown", "")


def _user(user: str | None) -> Cell:
    return (user, user_link(user)) if user else ("-", "")


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
        usual = newest.predicted if point is None else job_messages.current_prediction(point)
        found = (
            job_messages.limit_advice(usual, newest.time_limit_s),
            job_messages.size_advice(entry, newest.n),
        )
        texts = [text for text in found if text]
        key = key_of(id_)
        if texts:
            href = f"/applications/{link(id_)}" if entry is not None else ""
            yield Advice(" ".join(filter(None, (key.application, key.input))), href, len(own), texts)
