"""The page of a job: sentences about its runs, and the chart of its application."""

import math
from collections.abc import Iterator, Sequence
from typing import Final
from urllib.parse import urlencode

from processors.advice import (
    ALIKE,
    current_prediction,
    enough_limit,
    gains,
    is_dependable,
    is_near,
    point_at,
    run_time_at,
)
from processors.contracts.events import SUCCESS
from processors.contracts.names import job_key, parse_rfc3339, rfc3339
from processors.contracts.outputs import RELIABLE, CurvePoint, JobPrediction, PredictedAtStart, Prediction
from processors.contracts.service import RecentRun, Service, hits
from processors.jobs.lifecycle import UNDER_LOAD, source_of
from processors.similar_runs import MODEL_NAME as SIMILAR_RUNS
from sinks.web.access import Reader
from sinks.web.charts import Chart, curve_chart
from sinks.web.formatting import (
    View,
    around,
    between,
    chance,
    clock,
    duration,
    energy,
    explained,
    linked,
    moment,
    rounded,
    share,
    size,
    sized,
    span,
)
from sinks.web.queries import application_page, id_of, key_of, present_ms
from sinks.web.views.why import SHORT_S, Why, neighbours, why_ended, why_running

RECORD_RUNS: Final = 50  # newest runs of the application for which bands are checked
ALIKE_MIN: Final = 3  # minimum number of runs for a median
FOREVER_S: Final = 3e9  # a later end is shown without a date
FAR: Final = 1000.0  # a larger factor is shown as "far longer"
# verdicts for applications without a reliable curve
NO_CURVE: Final = frozenset({"high_error", "insufficient", "unknown"})
HARDLY: Final = 0.05
GENEROUS: Final = 1.5  # a limit up to this factor above the recommended limit is fine
LITTLE: Final = 0.25  # maximum relative increase of the run time at half the size that counts as small
USED_UP: Final = 1.05  # factor beyond the largest useful size, to allow for rounding
ALIKE_SHARE: Final = 0.05
_ENDED: Final = {
    "FAILED": "The run failed after {time}",
    "OUT_OF_MEMORY": "The run ran out of memory after {time}",
    "NODE_FAIL": "A host of the run failed after {time}",
    "BOOT_FAIL": "The hosts of the run did not boot; it ended after {time}",
    "CANCELLED": "The run was cancelled after {time}",
    "DEADLINE": "The run was ended by its deadline after {time}",
    "PREEMPTED": "The run was preempted by another job after {time}",
    "REQUEUED": "The run was put back into the queue after {time}",
}


def owners(service: Service, system: str, job_id: str) -> set[str | None]:
    """Return the users of a job in the form of the journal; empty if the job is unknown."""
    predictions = (service.job(system, job_id), service.ended(system, job_id))
    users = {run.user for run in service.runs_of_job(system, job_id)}
    return users | {job.user for job in predictions if job is not None}


def may_see(reader: Reader, users: set[str | None]) -> bool:
    return all(reader.sees(user) for user in users)


def job_view(service: Service, system: str, job_id: str) -> View | None:
    """Return a job: its current run, and its ended runs, newest first; a requeued job has several. None if the job is unknown.

    `settling` is the sentence about a run that has ended and is not settled yet. `about` is the running job, or else the newest
    run.
    """
    running, runs = service.job(system, job_id), service.runs_of_job(system, job_id)
    ended = service.ended(system, job_id)
    unsettled = settling(ended, runs) if ended is not None else ""
    if running is None and not runs and not unsettled:
        return None
    why: Why | None = why_ended(service, runs[0]) if runs else None
    if running is not None:
        why = why_running(service, running, max(present_ms(service) or 0, parse_rfc3339(running.as_of)))
    return View(
        system=system,
        job_id=job_id,
        running=None if running is None else running_view(service, running),
        runs=[run_view(service, run, newest=place == 0) for place, run in enumerate(runs)],
        why=why,
        settling=unsettled,
        about=running or (runs[0] if runs else None),
        comparisons=list(comparisons(service, runs[0])) if runs and running is None else (),
    )


def comparisons(service: Service, run: RecentRun) -> Iterator[str]:
    """Yield links that compare a run with the previous run and with the median run of the same application and size."""
    runs = service.runs(run.application_id) if run.application_id else ()
    alike = [other for other in runs if other.n == run.n and other.state == SUCCESS and other.job_id != run.job_id]
    before = next((other for other in alike if other.end_ms <= run.end_ms), None)
    if before is not None:
        yield linked("the run before", compare_link(run, before))
    if len(alike) >= ALIKE_MIN:
        ordered = sorted(alike, key=lambda other: other.run_time_s)
        yield linked(f"the median of {len(alike)} runs", compare_link(run, ordered[len(ordered) // 2]))


def compare_link(run: RecentRun, usual: RecentRun) -> str:
    """Return the URL of the page that compares `run` with `usual`, which becomes the first run of the page."""
    names = {"a": job_key(usual.system, usual.job_id), "b": job_key(run.system, run.job_id)}
    return f"/jobs/compare?{urlencode(names)}"


def running_view(service: Service, job: JobPrediction) -> View:
    return View(
        job=job,
        application=linked(job.application or "", application_page(service, id_of(job))),
        end=expected_end(job),
        limit=limit_chance(job),
        trust=trust(job.reliability.verdict, source_of(job.model)) if job.known else "",
        neighbours=neighbours(service, job),
    )


def run_view(service: Service, run: RecentRun, *, newest: bool = True) -> View:
    """Return an ended run in sentences, each empty if it does not apply. Only the newest run of a job gets a chart and advice."""
    entry = None if run.application_id is None else service.prediction(run.application_id)
    unit = entry.unit if entry is not None else key_of(run.application_id).unit
    same_application = service.runs(run.application_id)[:RECORD_RUNS] if newest and run.application_id else ()
    return View(
        run=run,
        unit=unit,
        outcome=outcome(run, unit),
        trust=trust(run.predicted.verdict, run.predicted.source) if run.predicted else "",
        record=record(same_application),
        limit=limit_advice(current_prediction(entry, run), run.time_limit_s) if newest else "",
        size=size_advice(entry, run.n) if newest else "",
        energy=energy_text(run, point_at(entry, run.n)),
        run_time=run_time_text(run),
        predicted_end="" if run.predicted is None else _predicted_end(run, run.predicted),
        chart=_chart(entry, run) if newest else None,
        entry=entry,
    )


def _predicted_end(run: RecentRun, predicted: PredictedAtStart) -> str:
    low, end, high = (
        rfc3339(run.start_ms + round(1000 * min(seconds, FOREVER_S)))
        for seconds in (predicted.low_s, predicted.run_time_s, predicted.high_s)
    )
    return f"{moment(end)} UTC ({around(end, low, high)})"


def predicted_text(predicted: PredictedAtStart) -> str:
    return f"{rounded(predicted.run_time_s)} ({between(predicted.low_s, predicted.high_s)})"


def _chart(entry: Prediction | None, run: RecentRun) -> Chart | None:
    if entry is None or not entry.curve or run.n is None:
        return None
    title = f"Run time of {entry.application} against {entry.unit}, and this run"
    return curve_chart(title, entry.curve, entry.unit, [(run.n, run.run_time_s)])


def outcome(run: RecentRun, unit: str) -> str:
    if run.state == SUCCESS:
        return _completed(run, unit)
    if run.state == "TIMEOUT":
        return _timed_out(run)
    template = _ENDED.get(run.state, "The run ended with state {state} after {time}")
    text = template.format(state=run.state or "unknown", time=rounded(run.run_time_s))
    return f"{text}{_usually(run.predicted)}."


def _completed(run: RecentRun, unit: str) -> str:
    predicted, took = run.predicted, f"The run took {run_time_text(run)}"
    if predicted is None or predicted.run_time_s <= 0:
        return f"{took}. {_not_compared(run)}"
    if max(run.run_time_s, predicted.run_time_s) < SHORT_S:
        return f"{took}. Runs this short are not compared, because start-up and shutdown dominate."
    against = _against(run.run_time_s / predicted.run_time_s, _usual(predicted, run.n, unit))
    most = _most_runs(predicted)
    if predicted.holds(run.run_time_s):
        return f"{took}, {against}; {most}."
    if is_near(run.run_time_s, predicted):
        return f"{took}, {against}, slightly outside the usual range: {most}."
    return f"{took}, {against}. That is unusual: {most}."


def run_time_text(run: RecentRun) -> str:
    """Return a run time in minutes, or in seconds if minutes would hide on which side of a narrow band it lies."""
    ends = () if run.predicted is None else (rounded(run.predicted.low_s), rounded(run.predicted.high_s))
    narrow = len(set(ends)) == 1 or (
        run.predicted is not None and not run.predicted.holds(run.run_time_s) and rounded(run.run_time_s) in ends
    )
    return duration(run.run_time_s) if narrow else rounded(run.run_time_s)


def _against(ratio: float, usual: str) -> str:
    if abs(ratio - 1) < ALIKE:
        return f"as long as {usual}"
    if ratio >= FAR:
        return f"far longer than {usual}"
    if ratio >= 2:
        return f"{ratio:.2g} times as long as {usual}" if ratio < 99 else f"{ratio:.0f} times as long as {usual}"
    return f"{share(abs(ratio - 1))} {'longer' if ratio > 1 else 'shorter'} than {usual}"


def _usual(predicted: PredictedAtStart, n: float | None, unit: str) -> str:
    if predicted.source == SIMILAR_RUNS:
        return "similar runs"
    at_size = "" if n is None else f" at {sized(n, unit)}"
    if predicted.source == UNDER_LOAD:
        return f"predicted{at_size} under the load of the hosts"
    return f"usual with its settings{at_size}" if predicted.source == "features" else f"usual{at_size}"


def _most_runs(predicted: PredictedAtStart) -> str:
    which = "runs under such load" if predicted.source == UNDER_LOAD else "such runs"
    return f"{_portion(predicted.coverage, 10)} {which} take {between(predicted.low_s, predicted.high_s)}"


def _portion(part: float, whole: int) -> str:
    """Return a share of `whole` runs as "9 of 10" if it is a whole number of runs, else as "93 % of"."""
    count = part * whole
    # records come from outside, so the share may be infinite
    if math.isfinite(count) and abs(count - round(count)) < 0.01:
        return f"{count:.0f} of {whole}"
    return f"{share(part)} of"


def _timed_out(run: RecentRun) -> str:
    predicted, limit_s = run.predicted, run.time_limit_s
    text = "The run was ended by its time limit"
    text += f" of {rounded(limit_s)}" if limit_s else f" after {rounded(run.run_time_s)}"
    if run.session:
        return f"{text}, as usual for an interactive session."
    if predicted is None or limit_s is None:
        return f"{text}{_usually(predicted)}."
    if limit_s < predicted.high_s:
        return f"{text}. The limit was too short: {_most_runs(predicted)}."
    return f"{text}, although {_most_runs(predicted)}. Something slowed the run, or it had more work than usual."


def _usually(predicted: PredictedAtStart | None) -> str:
    return "" if predicted is None else f"; {_most_runs(predicted)}"


def _not_compared(run: RecentRun) -> str:
    if run.session:
        return "Interactive sessions are not compared with other runs."
    if run.n is None:
        return "Its size is unknown or changed during the run, so it is not compared with other runs."
    if run.application_id is None:
        return "Its application could not be identified, so it is not compared with other runs."
    return "It had no prediction to compare with, like the first runs of each application and size."


def trust(verdict: str, source: str = "curve") -> str:
    if source == SIMILAR_RUNS:
        return "Use the prediction with care. It rests on runs of the same user, name or kind, not on a scaling curve."
    if verdict == RELIABLE:
        return "The prediction is reliable."
    return f"Use the prediction with care. {explained(verdict)}".rstrip()


def record(runs: Sequence[RecentRun]) -> str:
    """Return how many predicted runs fell inside their bands; empty if no run had a prediction."""
    predicted = [(run, run.predicted) for run in runs if run.predicted is not None and run.state == SUCCESS]
    if not predicted:
        return ""
    covered = sum(prediction.holds(run.run_time_s) for run, prediction in predicted)
    if len(predicted) == 1:
        return f"The last predicted run fell {'inside' if covered else 'outside'} its band."
    return f"Of the last {len(predicted)} predicted runs, {covered} fell inside their bands."


def expected_end(job: JobPrediction) -> str:
    if not job.known or job.end is None or job.run_time_s is None or job.coverage is None:
        return f"The end of the job cannot be predicted yet. {explained(job.reliability.verdict)}".rstrip()
    end = clock(job.end, job.as_of)
    after_s = (parse_rfc3339(job.end) - parse_rfc3339(job.start)) / 1000  # its limit may end it before its run time
    return (
        f"The job should end at about {end} UTC, {rounded(after_s)} after its start; "
        f"{_portion(job.coverage, 10)} such jobs end {_between(job.end_low, job.end_high)}."
    )


def _between(low: str | None, high: str | None) -> str:
    if low is None or high is None:
        return "at unknown times"
    same_day = moment(low)[:10] == moment(high)[:10]
    text = f"{moment(low)[-5:]} and {moment(high)[-5:]}" if same_day else span(low, high).replace(" to ", " and ")
    return f"between {text}"


def limit_chance(job: JobPrediction) -> str:
    """Return how likely a running job is to reach its time limit; empty if the job has no limit."""
    limit_s, probability = job.time_limit_s, job.probability_exceeds_limit
    if limit_s is None:
        return ""
    limit = f"its time limit of {duration(limit_s)}"
    if job.session:
        return f"The job is an interactive session: it ends when its user leaves, or at {limit}."
    if probability is None:
        return f"The chance that the job reaches {limit} is unknown."
    if probability < HARDLY:
        return f"The job will hardly reach {limit} (chance {chance(probability)})."
    if not hits(probability, session=job.session):
        return f"The job may reach {limit} (chance {chance(probability)})."
    return (
        f"The job will probably be ended by {limit} (chance {chance(probability)}). "
        "Let it save its work, or ask the centre for more time."
    )


def settling(ended: JobPrediction, runs: Sequence[RecentRun]) -> str:
    """Return the sentence about a run that has ended and is not settled yet; empty if the run is among the settled `runs`."""
    start_ms = parse_rfc3339(ended.start)
    if any(run.start_ms >= start_ms for run in runs):
        return ""
    return "The run has ended. Its outcome appears here once all reports are in, some minutes after the end."


def limit_advice(usual: PredictedAtStart | None, requested_s: float | None) -> str:
    """Return the time limit to request next time; empty without a prediction. `requested_s` is the limit of the last run."""
    if usual is None or not 0 < usual.high_s < math.inf:
        return ""
    limit_s = enough_limit(usual.high_s)
    why = f"{_portion((1 + usual.coverage) / 2, 20)} such runs end within {rounded(usual.high_s)}"
    if not is_dependable(usual):
        return f"Request at least {rounded(limit_s)}: {why}, but this prediction is uncertain."
    if requested_s is not None and limit_s <= requested_s <= GENEROUS * limit_s:
        return f"Your limit of {rounded(requested_s)} fits: {why}."
    return f"{rounded(limit_s)} is enough: {why}.{_about_limit(requested_s, limit_s)}"


def _about_limit(requested_s: float | None, limit_s: float) -> str:
    if requested_s is None:
        return ""
    if requested_s < limit_s:
        return f" Your limit of {rounded(requested_s)} is tight."
    return f" You requested {rounded(requested_s)}; with a shorter limit the job may start sooner."


def size_advice(entry: Prediction | None, n: float | None) -> str:
    """Return whether the size helped, compared with half the size; empty if the curve covers neither size."""
    if entry is None or n is None:
        return ""
    if entry.reliability.verdict in NO_CURVE or entry.model.name == SIMILAR_RUNS:
        return f"The best size is not known yet. {explained(entry.reliability.verdict)}"
    most = entry.useful_n.max
    run_time_s, half_s = run_time_at(entry.curve, n), run_time_at(entry.curve, n / 2)
    if most is not None and n > most * USED_UP and not gains(entry, most, n):
        return _too_many(entry, n, most)
    if run_time_s is None or half_s is None or n < 2:
        return "" if most is None or n >= most else f"Runs get faster up to {sized(most, entry.unit)}."
    return _against_half(sized(n / 2, entry.unit), run_time_s, half_s, is_one=n == 2)


def _against_half(half: str, run_time_s: float, half_s: float, *, is_one: bool) -> str:
    longer = half_s / run_time_s - 1
    text = f"{half} {'takes' if is_one else 'take'} about {rounded(half_s)}"
    if longer < ALIKE_SHARE:
        return f"Half the size is as fast: {text}."
    if longer <= LITTLE:
        return f"Half the size is nearly as fast: {text}, {share(longer)} longer."
    return f"The size is worth it: {text}, {share(longer)} longer."


def _too_many(entry: Prediction, n: float, most: float) -> str:
    most_s = run_time_at(entry.curve, most)
    time = f" and take about {rounded(most_s)}" if most_s else ""
    return f"{sized(most, entry.unit)} are enough{time}. {size(n)} are hardly faster."


def energy_text(run: RecentRun, point: CurvePoint | None) -> str:
    """Return the energy of a run, compared with the prediction at its size; empty if the energy was not measured."""
    if run.energy_j is None:
        return ""
    text = f"The run used {kilowatt_hours(run.energy_j)} ({energy(run.energy_j)})"
    usual_j = point.energy_j if point is not None else None
    if not usual_j or run.state != SUCCESS:
        return f"{text}."
    ratio = run.energy_j / usual_j
    if abs(ratio - 1) < ALIKE_SHARE:
        return f"{text}, as much as usual."
    return f"{text}, {share(abs(ratio - 1))} {'more' if ratio > 1 else 'less'} than usual."


def kilowatt_hours(joules: float) -> str:
    """Return an energy in kWh, the unit of bills."""
    amount = joules / 3.6e6
    return f"{amount:.0f} kWh" if amount >= 100 else f"{amount:.3g} kWh"
