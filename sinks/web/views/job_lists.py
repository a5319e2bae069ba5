"""Lists of running and ended jobs, which can be filtered, sorted and paged, and the pages of users and projects."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal

import msgspec

from processors.advice import current_prediction
from processors.contracts.events import SUCCESS
from processors.contracts.names import grouped
from processors.contracts.service import RecentRun, RunningJob, Service
from sinks.web import queries
from sinks.web.access import Reader
from sinks.web.formatting import View, counted, linked, share
from sinks.web.queries import JobFilter, address, key_of
from sinks.web.views.jobs import kilowatt_hours, limit_advice, size_advice

Tab = Literal["running", "ended"]
TABS: Final[tuple[Tab, ...]] = ("running", "ended")
PAGE: Final = 50
PATH: Final = "/jobs"
OFFERED_MAX: Final = 36  # maximum suggestions for a filter


class JobColumn(msgspec.Struct, frozen=True):
    """A column: name in the URL, title, sort key, and whether a first click sorts descending.

    A column without `by` cannot be sorted.
    """

    name: str
    title: str
    by: Callable[[Any], Any] | None = None
    down: bool = False
    number: bool = False


class Heading(msgspec.Struct, frozen=True):
    """The heading of a column: title, the URL that sorts by the column, and the current order."""

    title: str
    href: str
    sorted: Literal["", "ascending", "descending"]
    number: bool


_JOB: Final = JobColumn("job", "job", lambda job: (job.system, len(job.job_id), job.job_id))
_WHOSE: Final = (
    JobColumn("user", "user", lambda job: job.user),
    JobColumn("partition", "partition", lambda job: job.partition),
    JobColumn("size", "size", lambda job: job.n, down=True, number=True),
)
RUNNING: Final = (
    _JOB,
    JobColumn(
        "application", "application", lambda job: (job.application, job.input or "") if job.application else None
    ),
    *_WHOSE,
    JobColumn("start", "started", lambda job: job.start, down=True),
    JobColumn("end", "predicted end", lambda job: job.end),
    JobColumn("band", "earliest to latest"),
    JobColumn(
        "limit",
        "chance to hit limit",
        lambda job: None if job.session else job.probability_exceeds_limit,
        down=True,
        number=True,
    ),
)
ENDED: Final = (
    _JOB,
    JobColumn(
        "application",
        "application",
        lambda run: (key_of(run.application_id).application, run.application_id) if run.application_id else None,
    ),
    *_WHOSE,
    JobColumn("end", "ended", lambda run: run.end_ms, down=True),
    JobColumn("state", "state", lambda run: run.state),
    JobColumn("time", "run time", lambda run: run.run_time_s, down=True, number=True),
    JobColumn("against", "relative to prediction", queries.of_predicted, down=True, number=True),
    JobColumn("energy", "energy", lambda run: run.energy_j, down=True, number=True),
)
COLUMNS: Final[Mapping[Tab, tuple[JobColumn, ...]]] = {"running": RUNNING, "ended": ENDED}
FIRST: Final[Mapping[Tab, str]] = {"running": "-limit", "ended": "-end"}


def job_list(service: Service, reader: Reader, chosen: JobFilter, query: Mapping[str, str]) -> View:
    """Return a page of the jobs that a reader may see; raise BadParameterError if the tab or column does not exist.

    `total` counts the jobs that match the filters; `counts` holds that number for each tab.
    """
    running, ended = reader.own(service.running()), reader.own(service.recent_runs())
    matching: dict[Tab, list[Any]] = {"running": chosen.jobs(running, service.alerts()), "ended": chosen.runs(ended)}
    tab = _tab(query.get("tab", "")) or _likely_tab(chosen, matching)
    requested = query.get("sort", "")
    column, down = column_of(tab, requested or FIRST[tab])
    ordered = in_order(matching[tab], column, down=down)
    pages = max(1, -(-len(ordered) // PAGE))
    page = min(queries.whole(query, "page", 1, 10**6) or 1, pages)
    first = (page - 1) * PAGE
    base = chosen.query(tab=tab) | ({"sort": requested} if requested else {})
    return View(
        tab=tab,
        filter=chosen,
        headings=[_heading(heading, column, chosen.query(tab=tab), down=down) for heading in COLUMNS[tab]],
        rows=ordered[first : first + PAGE],
        total=len(ordered),
        first=first,
        page=page,
        pages=pages,
        counts={name: len(entries) for name, entries in matching.items()},
        tabs={name: address(PATH, chosen.query(tab=name)) for name in TABS},
        earlier=address(PATH, base | ({"page": str(page - 1)} if page > 2 else {})) if page > 1 else "",
        later=address(PATH, base | {"page": str(page + 1)}) if page < pages else "",
        offered=_offered(running, ended),
    )


def in_order(entries: Iterable[Any], column: JobColumn, *, down: bool) -> list[Any]:
    """Return entries sorted by a column; entries without a value come last."""
    by = column.by
    if by is None:
        return list(entries)
    keyed = [(by(entry), entry) for entry in entries]
    valued = [pair for pair in keyed if pair[0] is not None]
    valued.sort(key=lambda pair: pair[0], reverse=down)
    return [entry for _, entry in valued] + [entry for value, entry in keyed if value is None]


def _tab(name: str) -> Tab | None:
    tab = next((tab for tab in TABS if tab == name), None)
    if name and tab is None:
        raise queries.BadParameterError(f"tab={name[:40]!r} has to be running or ended.")
    return tab


def _likely_tab(chosen: JobFilter, matching: Mapping[Tab, Sequence[Any]]) -> Tab:
    """Return the default tab: running jobs, or ended jobs if only ended jobs match."""
    only_ended = chosen.state or chosen.outside_band
    return "ended" if only_ended or (chosen.query() and matching["ended"] and not matching["running"]) else "running"


def column_of(tab: Tab, order: str) -> tuple[JobColumn, bool]:
    """Return the column to sort by, and whether descending; raise BadParameterError if the column does not exist."""
    name = order.removeprefix("-")
    column = next((column for column in COLUMNS[tab] if column.name == name and column.by is not None), None)
    if column is None:
        names = ", ".join(column.name for column in COLUMNS[tab] if column.by is not None)
        raise queries.BadParameterError(
            f"sort={order[:40]!r} has to be one of {names}, with a minus for descending order."
        )
    return column, order.startswith("-")


def _heading(column: JobColumn, by: JobColumn, query: dict[str, str], *, down: bool) -> Heading:
    """Return the heading of a column; a click on the sorted column reverses its order."""
    is_sorted = column.name == by.name
    next_down = not down if is_sorted else column.down
    sort = f"{'-' if next_down else ''}{column.name}"
    href = address(PATH, query | {"sort": sort}) if column.by is not None else ""
    order: Literal["ascending", "descending"] = "descending" if down else "ascending"
    return Heading(column.title, href, order if is_sorted else "", column.number)


def _offered(running: Sequence[RunningJob], ended: Sequence[RecentRun]) -> dict[str, list[str]]:
    """Return the suggestions for each filter: the OFFERED_MAX names with the most jobs, sorted by name."""
    jobs: list[RunningJob | RecentRun] = [*running, *ended]
    names: dict[str, Counter[str | None]] = {
        "application": Counter(job.application for job in running),
        "user": Counter(job.user for job in jobs),
        "partition": Counter(job.partition for job in jobs),
    }
    names["application"].update(key_of(run.application_id).application for run in ended)
    return {
        kind: sorted(name for name, _ in counted.most_common(OFFERED_MAX) if name) for kind, counted in names.items()
    }


SHOWN: Final = 10
ADVICE_MAX: Final = 5
HOUR_S: Final = 3600.0
Kind = Literal["user", "account"]
NAMES: Final[dict[Kind, str]] = {"user": "User", "account": "Project"}


def owner_view(service: Service, reader: Reader, kind: Kind, name: str) -> View:
    """Return the page of a user or a project: facts, job lists, and advice for the applications with the most node-hours."""
    chosen = JobFilter(user=name) if kind == "user" else JobFilter(account=name)
    running = chosen.jobs(reader.own(service.running()), ())
    runs = chosen.runs(reader.own(service.recent_runs()))
    return View(
        title=NAMES[kind],
        name=name,
        facts=list(_facts(chosen, runs)),
        parts=[_part(chosen, "running", running), _part(chosen, "ended", runs)],
        is_known=bool(running or runs),
        advice=list(_advice(service, runs)),
    )


def _part(chosen: JobFilter, tab: Tab, matching: Sequence[Any]) -> View:
    """Return the first jobs of a list, their total number, and the URL of the whole list."""
    column, down = column_of(tab, FIRST[tab])
    shown = in_order(matching, column, down=down)[:SHOWN]
    href = address(PATH, chosen.query(tab=tab))
    headings = [Heading(column.title, "", "", column.number) for column in COLUMNS[tab]]
    return View(tab=tab, headings=headings, rows=shown, total=len(matching), href=href)


def _facts(chosen: JobFilter, runs: Sequence[RecentRun]) -> Iterator[tuple[str, str]]:
    completed = [run for run in runs if run.state == SUCCESS]
    compared = [run for run in completed if run.predicted is not None]
    outside = [run for run in compared if queries.is_outside(run)]
    yield "ended runs", str(len(runs))
    if runs:
        yield "completed", f"{len(completed)} ({share(len(completed) / len(runs))})"
    if compared:
        href = address(PATH, chosen.query(tab="ended", outside_band="1"))
        yield "outside their band", linked(f"{len(outside)} of {len(compared)} predicted runs", href)
    node_hours = [run.nodes * run.run_time_s / HOUR_S for run in runs if run.nodes is not None]
    if node_hours:
        total = sum(node_hours)
        digits = f"{total:.0f}" if total >= 10 else f"{total:.2g}"
        yield "node-hours", f"{digits}{_among(len(node_hours), len(runs))}"
    energies = [run.energy_j for run in runs if run.energy_j is not None]
    if energies:
        yield "energy", f"{kilowatt_hours(sum(energies))}{_among(len(energies), len(runs))}"


def _among(counted_runs: int, runs: int) -> str:
    return "" if counted_runs == runs else f" in {counted(counted_runs, 'run')}; unknown for the others"


def _advice(service: Service, runs: Sequence[RecentRun]) -> Iterator[View]:
    """Yield the advice for the next request, with key, id and number of runs, for the applications with the most node-hours."""
    by_application = grouped((run for run in runs if run.application_id), lambda run: run.application_id or "")
    costly = sorted(by_application.items(), key=lambda item: -sum((run.nodes or 1) * run.run_time_s for run in item[1]))
    for id_, of_application in costly[:ADVICE_MAX]:
        entry, newest = service.prediction(id_), of_application[0]
        advice = (limit_advice(current_prediction(entry, newest), newest.time_limit_s), size_advice(entry, newest.n))
        texts = [text for text in advice if text]
        if texts:
            yield View(key=key_of(id_), id=id_, runs=len(of_application), texts=texts)
