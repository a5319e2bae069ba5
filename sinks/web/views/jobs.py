"""What the page of a job shows, worked out from the service: sentences, facts, and the chart of its application."""

from collections.abc import Iterator, Sequence
from typing import Final, TypeVar
from urllib.parse import quote, unquote, urlencode

import msgspec

from processors.contracts.events import SUCCESS
from processors.contracts.names import ApplicationKey, job_key, parse_rfc3339, rfc3339
from processors.contracts.outputs import JobPrediction, PredictedAtStart, Prediction, RecentRun, RunningJob
from processors.contracts.service import Service
from processors.jobs.remaining_time import source_of
from sinks.web.access import Reader
from sinks.web.charts import Chart, run_time_axis, size_axis
from sinks.web.filters import id_of
from sinks.web.formatting import around, between, chance, duration, energy, moment, power, rounded, share, sized
from sinks.web.queries import link, point_at
from sinks.web.views import job_messages
from sinks.web.views.why import Text, Why, neighbours, why_ended, why_running

RECORD_RUNS: Final = 50  # of the application, whose bands are counted
DEFAULT_UNIT: Final = "nodes"
ALIKE_MIN: Final = 3  # runs that have a median
FOREVER_S: Final = 3e9  # of an end later than that no date is shown


class RunView(msgspec.Struct, frozen=True, kw_only=True):
    """A run that ended, in sentences and facts; empty sentences have nothing to say."""

    run: RecentRun
    outcome: str
    trust: str
    record: str
    limit: str
    size: str
    energy: str
    ended: str
    facts: Sequence[tuple[str, str]]
    chart: Chart | None = None
    entry: Prediction | None = None
    application: str = ""


class RunningView(msgspec.Struct, frozen=True, kw_only=True):
    """A job that runs, in sentences and facts."""

    job: JobPrediction
    end: str
    limit: str
    trust: str
    facts: Sequence[tuple[str, str]]
    application: str = ""
    neighbours: Text = ()


class JobView(msgspec.Struct, frozen=True, kw_only=True):
    """A job: what runs now, and the runs that ended, newest first; a job that was put back into the queue has several.

    `settling` is the sentence about a run that has just ended and that nothing else is known of yet.
    """

    system: str
    job_id: str
    running: RunningView | None
    runs: Sequence[RunView]
    why: Why | None = None
    settling: str = ""
    comparisons: Sequence[tuple[str, str]] = ()
    about: Sequence[tuple[str, str]] = ()


def owners(service: Service, system: str, job_id: str) -> set[str | None]:
    """Return who ran a job, as the journal writes users; nobody where the job is not known."""
    shown = (service.job(system, job_id), service.ended(system, job_id))
    users = {run.user for run in service.runs_of_job(system, job_id)}
    return users | {job.user for job in shown if job is not None}


def may_see(reader: Reader, users: set[str | None]) -> bool:
    """Return whether a reader may see a job that these users ran."""
    return all(reader.sees(user) for user in users)


def job_view(service: Service, system: str, job_id: str) -> JobView | None:
    """Return what to show of a job; None where nothing is known of it."""
    running = service.job(system, job_id)
    runs = service.runs_of_job(system, job_id)
    ended = service.ended(system, job_id)
    settling = job_messages.settling(ended, runs) if ended is not None else ""
    if running is None and not runs and not settling:
        return None
    return JobView(
        system=system,
        job_id=job_id,
        running=None if running is None else running_view(service, running),
        runs=[run_view(service, run, newest=place == 0) for place, run in enumerate(runs)],
        why=_why(service, running, runs),
        settling=settling,
        about=_about(running or (runs[0] if runs else None)),
        comparisons=list(comparisons(service, runs[0])) if runs and running is None else (),
    )


def _about(of: JobPrediction | RecentRun | None) -> list[tuple[str, str]]:
    """Return where a job ran and for whom, each with a link."""
    if of is None:
        return []
    found = [(f"partition {of.partition}", "")] if of.partition else []
    found += [(f"user {of.user}", user_link(of.user))] if of.user else []
    return found + ([(f"project {of.account}", project_link(of.account))] if of.account else [])


def user_link(user: str) -> str:
    """Return the address of the page of a user; names come from outside, so they are escaped."""
    return f"/users/{quote(user, safe='')}"


def project_link(account: str) -> str:
    """Return the address of the page of a project."""
    return f"/projects/{quote(account, safe='')}"


def _why(service: Service, running: JobPrediction | None, runs: Sequence[RecentRun]) -> Why | None:
    """Return what a job's page begins with: why it takes so long while it runs, or why its newest run took so long."""
    if running is not None:
        return why_running(service, running, present_of(service, running))
    return why_ended(service, runs[0]) if runs else None


def present_of(service: Service, job: JobPrediction) -> int:
    """Return the present moment in ms: the newest tick, or at least when the job was predicted."""
    ticks = [role.folded_ms for role in service.health() if role.folded_ms is not None]
    return max([*ticks, parse_rfc3339(job.as_of)])


def comparisons(service: Service, run: RecentRun) -> Iterator[tuple[str, str]]:
    """Yield with what a run may be compared, and where: the run before it of the same application and size, and their median."""
    known = service.runs(run.application_id) if run.application_id else ()
    alike = [one for one in known if one.n == run.n and one.state == SUCCESS and one.job_id != run.job_id]
    before = next((one for one in alike if one.end_ms <= run.end_ms), None)
    if before is not None:
        yield "the run before", compare_link(run, before)
    if len(alike) >= ALIKE_MIN:
        ordered = sorted(alike, key=lambda one: one.run_time_s)
        yield f"the median of {len(alike)} runs", compare_link(run, ordered[len(ordered) // 2])


def compare_link(run: RecentRun, other: RecentRun) -> str:
    """Return the address of the comparison of two runs, the other one first: it is what is usual."""
    names = {"a": job_key(other.system, other.job_id), "b": job_key(run.system, run.job_id)}
    return f"/jobs/compare?{urlencode(names)}"


def running_view(service: Service, job: JobPrediction) -> RunningView:
    """Return what to show of a job that runs."""
    source = source_of(job.model)
    id_ = id_of(job)
    return RunningView(
        job=job,
        end=job_messages.expected_end(job),
        limit=job_messages.limit_chance(job),
        trust=job_messages.trust(job.reliability.verdict, source) if job.known else "",
        facts=list(_running_facts(job)),
        neighbours=neighbours(service, job),
        application=f"/applications/{link(id_)}" if id_ and service.prediction(id_) is not None else "",
    )


def _running_facts(job: JobPrediction) -> Iterator[tuple[str, str]]:
    yield "started", f"{moment(job.start)} UTC"
    if job.known and job.end is not None:
        yield "predicted end", f"{moment(job.end)} UTC ({around(job.end, job.end_low, job.end_high)})"
    if job.known and job.run_time_s is not None and job.low_s is not None and job.high_s is not None:
        yield "run time", f"{rounded(job.run_time_s)} ({between(job.low_s, job.high_s)})"
    yield "time limit", "not reported" if job.time_limit_s is None else duration(job.time_limit_s)
    yield "chance to reach it", chance(job.probability_exceeds_limit)
    if job.power_w is not None:
        yield "power of all its hosts", f"{power(job.power_w)} ({power(job.power_low_w)} to {power(job.power_high_w)})"
        if job.run_time_s is not None:
            yield "energy by its predicted end", energy(job.power_w * job.run_time_s)
    if job.under_load is not None and job.under_load.q50_s is not None:
        yield "run time under the load of its hosts", duration(job.under_load.q50_s)
    if job.coverage_measured is not None:
        runs = f" of {job.coverage_runs} runs" if job.coverage_runs is not None else ""
        yield "predictions that held so far", f"{share(job.coverage_measured)}{runs}"


def run_view(service: Service, run: RecentRun, *, newest: bool = True) -> RunView:
    """Return what to show of a run that ended; only the newest of a job gets a chart and advice."""
    entry = None if run.application_id is None else service.prediction(run.application_id)
    unit = _unit(run, entry)
    point = point_at(entry, run.n)
    usual = run.predicted if point is None else job_messages.current_prediction(point)
    others = service.runs(run.application_id)[:RECORD_RUNS] if newest and run.application_id else ()
    return RunView(
        run=run,
        outcome=job_messages.outcome(run, unit),
        trust=job_messages.trust(run.predicted.verdict, run.predicted.source) if run.predicted else "",
        record=job_messages.record(others),
        limit=job_messages.limit_advice(usual, run.time_limit_s) if newest else "",
        size=job_messages.size_advice(entry, run.n) if newest else "",
        energy=job_messages.energy_text(run, point),
        ended=moment(rfc3339(run.end_ms)),
        facts=list(_facts(run, unit)),
        chart=_chart(entry, run) if newest else None,
        entry=entry,
        application=f"/applications/{link(run.application_id)}" if entry is not None and run.application_id else "",
    )


def _unit(run: RecentRun, entry: Prediction | None) -> str:
    if entry is not None:
        return entry.unit
    try:
        return ApplicationKey.parse(run.application_id or "").unit
    except ValueError:
        return DEFAULT_UNIT


def _facts(run: RecentRun, unit: str) -> Iterator[tuple[str, str]]:
    yield "size", "not known" if run.n is None else sized(run.n, unit)
    yield "started", f"{moment(rfc3339(run.start_ms))} UTC"
    yield "ended", f"{moment(rfc3339(run.end_ms))} UTC, {run.state}"
    yield "run time", job_messages.run_time_text(run)
    if run.predicted is not None:
        yield "had been predicted", predicted_text(run.predicted)
        low, end, high = (
            rfc3339(run.start_ms + round(1000 * min(each, FOREVER_S)))
            for each in (run.predicted.low_s, run.predicted.run_time_s, run.predicted.high_s)
        )
        yield "predicted end", f"{moment(end)} UTC ({around(end, low, high)})"
    yield "time limit", "not reported" if run.time_limit_s is None else duration(run.time_limit_s)
    if run.power_w is not None:
        yield "mean power of all its hosts", power(run.power_w)
    if run.energy_j is not None:
        yield "energy", energy(run.energy_j)


def predicted_text(shown: PredictedAtStart) -> str:
    """Return what was predicted of a run at its start, with its band."""
    return f"{rounded(shown.run_time_s)} ({between(shown.low_s, shown.high_s)})"


def _chart(entry: Prediction | None, run: RecentRun) -> Chart | None:
    if entry is None or not entry.curve or run.n is None:
        return None
    return Chart(
        f"Run time of {entry.application} against {entry.unit}, and this run",
        size_axis([*(point.n for point in entry.curve), run.n], entry.unit),
        run_time_axis([*(end for point in entry.curve for end in (point.low_s, point.high_s)), run.run_time_s]),
    )


Owned = TypeVar("Owned", RunningJob, RecentRun)


def visible(jobs: Sequence[Owned], reader: Reader) -> Sequence[Owned]:
    """Return the jobs or runs that a reader may see, whatever a service shows."""
    return jobs if reader.operator else [job for job in jobs if reader.sees(job.user)]


def job_link(system: str, job_id: str) -> str:
    """Return the address of the page of a job; names come from outside, so they are escaped."""
    return f"/jobs/{quote(system, safe='')}/{quote(job_id, safe='')}"


def link_of_key(key: str) -> str:
    """Return the address of the page of a job by its key."""
    system, _, job_id = key.partition("/")
    return job_link(unquote(system), unquote(job_id))
