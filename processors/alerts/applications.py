"""Alert rules: what findings mean to the person who is woken. Each name has a heading in the runbook."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

from processors.alerts.lifecycle import Condition
from processors.alerts.messages import TEXT_MAX
from processors.contracts.alerts import AlertSettings
from processors.contracts.events import Attribute
from processors.contracts.names import ApplicationKey, duration, rfc3339
from processors.contracts.outputs import AlertEnd, AlertEvidence, Prediction, Reliability, Severity
from processors.facts import Scored
from processors.jobs.failures import FailureJudgement, HostFailureJudgement
from processors.models.drift import Direction
from processors.power.blame import MovedCounter
from processors.run_time.drift import RunJudgement, Shift

SLOW_SIZE: Final = "SlowSize"
FAST_SIZE: Final = "FastSize"
STRANGE_RUN: Final = "StrangeRun"
REGRESSION: Final = "Regression"
IMPROVEMENT: Final = "Improvement"
PREDICTION_UNRELIABLE: Final = "PredictionUnreliable"
SLOWS_DOWN: Final = "SlowsDown"
APPLICATION_FAILS: Final = "ApplicationFailureRate"
HOST_FAILS: Final = "HostFailureRate"
HOST_ANOMALY: Final = "HostAnomaly"
RACK_ANOMALY: Final = "RackAnomaly"
STRAGGLER_HOST: Final = "StragglerHost"
UNEXPLAINED_POWER: Final = "UnexplainedPower"
DISTURBED_RUN: Final = "DisturbedRun"
STILL_CREDIBLE: Final = 0.5
CAUSES_MIN: Final = 2  # applications of which a host has to fail runs: one by itself may be to blame
ALERT_NAMES: Final = (
    SLOW_SIZE, FAST_SIZE, STRANGE_RUN, REGRESSION, IMPROVEMENT, PREDICTION_UNRELIABLE, SLOWS_DOWN, APPLICATION_FAILS, HOST_FAILS,
    HOST_ANOMALY, RACK_ANOMALY, STRAGGLER_HOST, UNEXPLAINED_POWER, DISTURBED_RUN,
)  # fmt: skip


def application_labels(key: ApplicationKey) -> dict[str, str]:
    """Return the labels that name an application."""
    return {"application": key.application, "system": key.system, "input": key.input, "unit": key.unit}


def unusual_size(
    key: ApplicationKey,
    name: str,
    n: float,
    found: tuple[float, float] | None,
    *,
    settings: AlertSettings.SlowSize,
    now_ms: int,
) -> Condition:
    """Return the condition of a size that is slow or fast against the rest of its curve.

    `found` is what was observed and what the other sizes suggest, in seconds; None where it is no longer so.
    """
    labels = {**application_labels(key), "n": f"{n:g}"}
    if found is None:
        return over(name, labels, now_ms)
    observed_s, expected_s = found
    change = abs(observed_s / expected_s - 1)
    word = "slower" if name == SLOW_SIZE else "faster"
    return Condition(
        name=name,
        labels=labels,
        holds=True,
        time_ms=now_ms,
        severity="warning" if name == SLOW_SIZE else "info",
        for_ms=round(settings.for_s * 1000),
        keep_firing_ms=round(settings.keep_firing_s * 1000),
        summary=f"{key.application} is {change * 100:.0f} % {word} on {n:g} {key.unit} than its other sizes suggest.",
        description=f"Observed {duration(observed_s)}, expected {duration(expected_s)} from the curve through the other sizes.",
        evidence=AlertEvidence(observed=observed_s, expected=expected_s, n=n),
    )


def unreliable(
    key: ApplicationKey, text: Reliability, observations: int, settings: AlertSettings.Unreliable, now_ms: int
) -> list[Condition]:
    """Return one condition for each verdict that matters to users: holding for the present one, else not."""
    active, labels = settings.enabled and observations >= settings.observations_min, application_labels(key)
    return [
        over(PREDICTION_UNRELIABLE, {**labels, "verdict": verdict}, now_ms)
        if not active or text.verdict != verdict
        else Condition(
            name=PREDICTION_UNRELIABLE,
            labels={**labels, "verdict": verdict},
            holds=True,
            time_ms=now_ms,
            kind="reliability",
            severity="info",
            for_ms=round(settings.for_s * 1000),
            summary=f"Predictions of {key.application} are not reliable ({verdict.replace('_', ' ')}).",
            description=" ".join(text.advice),
            evidence=AlertEvidence(detail={"reasons": ", ".join(text.reasons)}),
        )
        for verdict in settings.verdicts
    ]


def slows_down(predicted: Prediction, settings: AlertSettings.SlowsDown, now_ms: int) -> Condition:
    """Return the condition of an application that takes longer on its largest sizes: its prediction may be as good as any."""
    key = ApplicationKey(predicted.application, predicted.system, predicted.input, predicted.unit)
    fastest = predicted.useful_n.slower_beyond
    if fastest is None:
        return over(SLOWS_DOWN, application_labels(key), now_ms)
    times_s = {point.n: point.run_time_s for point in predicted.curve}
    largest = predicted.sizes[-1]
    return Condition(
        name=SLOWS_DOWN,
        labels=application_labels(key),
        holds=settings.enabled and predicted.observations >= settings.observations_min,
        time_ms=now_ms,
        kind="reliability",
        severity="info",
        for_ms=round(settings.for_s * 1000),
        summary=f"{key.application} is slower on {largest:g} {key.unit} than on {fastest:g}.",
        description=f"More than {fastest:g} {key.unit} only cost: no run was faster on more.",
        evidence=AlertEvidence(observed=times_s.get(largest), expected=times_s.get(fastest), n=largest),
    )


def over(
    name: str, labels: dict[str, str], now_ms: int, *, forgotten: bool = False, by: AlertEnd = "itself"
) -> Condition:
    """Return the condition of what no longer holds, or is `forgotten`: nobody knows any more whether it does."""
    return Condition(name=name, labels=labels, holds=False, time_ms=now_ms, forgotten=forgotten, ended_by=by)


def forgotten(
    key: ApplicationKey, flagged: Sequence[tuple[str, float]], verdicts: Sequence[str], now_ms: int
) -> list[Condition]:
    """Return that nothing holds any more which a model said of its application."""
    labels = application_labels(key)
    sizes = [(name, {**labels, "n": f"{n:g}"}) for name, n in flagged]
    judged = [(PREDICTION_UNRELIABLE, {**labels, "verdict": verdict}) for verdict in verdicts]
    return [over(name, of, now_ms, forgotten=True) for name, of in (*sizes, *judged, (SLOWS_DOWN, labels))]


def failing(
    labels: dict[str, str],
    judged: FailureJudgement,
    settings: AlertSettings.FailureRate,
    now_ms: int,
    *,
    is_open: bool = False,
) -> Condition:
    """Return the condition of an application's failure rate.

    One that is open holds for as long as the rate is more likely than not above what it was, or it would come and go.
    """
    return Condition(
        name=APPLICATION_FAILS,
        labels=labels,
        holds=settings.enabled and _credible(judged, is_open=is_open),
        time_ms=now_ms,
        kind="reliability",
        severity=_failing_severity(judged.recent_failures, judged.recent_runs),
        keep_firing_ms=round(settings.keep_firing_s * 1000),
        summary=f"{judged.recent_failures} of the last {judged.recent_runs} runs of {labels['application']} failed.",
        description=(
            f"The rate was {judged.past_rate * 100:.1f} % before; with probability {judged.credibility:.3f} "
            "it is now above both that and the usual rate."
        ),
        evidence=AlertEvidence(observed=judged.recent_failures / max(judged.recent_runs, 1), expected=judged.past_rate),
    )


def host_failing(
    labels: dict[str, str],
    judged: HostFailureJudgement,
    settings: AlertSettings.FailureRate,
    now_ms: int,
    *,
    is_open: bool = False,
) -> Condition:
    """Return the condition of a host that fails more runs than their applications do elsewhere, of two applications at least.

    One that is open holds for as long as that is more likely than not.
    """
    runs = max(judged.recent_runs, 1)
    return Condition(
        name=HOST_FAILS,
        labels=labels,
        holds=settings.enabled and _credible(judged, is_open=is_open) and judged.causes >= CAUSES_MIN,
        time_ms=now_ms,
        kind="reliability",
        severity=_failing_severity(judged.recent_failures, judged.recent_runs),
        keep_firing_ms=round(settings.keep_firing_s * 1000),
        expires_after_ms=round(settings.quiet_s * 1000),
        summary=(
            f"{judged.recent_failures} of the last {judged.recent_runs} runs on {labels['host']} failed, "
            f"of {judged.causes} applications, where {judged.expected:.1f} were to be expected."
        ),
        description="That is what these applications do elsewhere; failures of jobs on many hosts are shared among these.",
        evidence=AlertEvidence(observed=judged.recent_failures / runs, expected=judged.expected / runs),
    )


def _credible(judged: FailureJudgement | HostFailureJudgement, *, is_open: bool) -> bool:
    return judged.credible or (is_open and judged.credibility > STILL_CREDIBLE)


def _failing_severity(failures: int, runs: int) -> Severity:
    return "critical" if failures * 2 > runs else "warning"


ALERT_OF: Final[dict[Direction, str]] = {"regression": REGRESSION, "improvement": IMPROVEMENT}
LEARNED: Final = "The model has learned the new level and now expects such run times."
BACK: Final = "The run times are back to their previous level."
OVERTAKEN: Final = "The run times have changed again."
FORGOTTEN: Final = "It is no longer tracked."
EXPLAINED: Final = "This was not a single run: the run times of the application have changed for good."
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def strange_run(
    key: ApplicationKey, scored: Scored, judged: RunJudgement, settings: AlertSettings.StrangeRun, now_ms: int
) -> Condition | None:
    """Return the condition of a run that is strange by itself; None where it is not, or too little is known."""
    ratio = math.exp(scored.ln_ratio)
    factor = max(ratio, 1.0 / ratio)
    known = scored.observations >= settings.observations_min
    given = known and factor >= settings.factor_min and judged.noise <= settings.scatter_max
    if not (settings.enabled and judged.outlier and given):
        return None
    run = scored.run
    summary = (
        f"{key.application} on {run.n:g} {key.unit} took {duration(run.run_time_s)}, {ratio:.2f} times "
        f"as long as the {duration(scored.expected_s)} expected."
    )
    return Condition(
        name=STRANGE_RUN,
        labels=strange_run_labels(key, judged.outlier),
        holds=True,
        momentary=True,
        time_ms=now_ms,
        severity="warning" if ratio > 1 else "info",
        keep_firing_ms=round(settings.keep_firing_s * 1000),
        summary=summary,
        description=(
            f"The band was {duration(scored.low_s)} to {duration(scored.high_s)}; {scored.observations} runs were known. "
            f"At most {judged.conformal_p * 100:.1f} % of its newest runs deviated as much."
        ),
        evidence=AlertEvidence(
            observed=run.run_time_s,
            expected=scored.expected_s,
            low=scored.low_s,
            high=scored.high_s,
            n=run.n,
            runs=(run.run_id,),
            detail={"conformal_p": judged.conformal_p},
        ),
    )


def size_turned(
    key: ApplicationKey,
    scored: Scored,
    moved: tuple[float, int],
    noise: float,
    *,
    settings: AlertSettings.StrangeRun,
    now_ms: int,
) -> Condition | None:
    """Return the condition of strange runs that were a size which has become slow or fast for good; None if not to be told.

    `moved` says by which factor it takes longer, and in how many runs; `noise` is how far runs scatter.
    """
    run, (factor, runs) = scored.run, moved
    if not settings.enabled or max(factor, 1 / factor) < settings.factor_min or noise > settings.scatter_max:
        return None
    return Condition(
        name=STRANGE_RUN,
        labels=strange_run_labels(key, 1 if factor > 1 else -1),
        holds=True,
        momentary=True,
        time_ms=now_ms,
        severity="warning" if factor > 1 else "info",
        keep_firing_ms=round(settings.keep_firing_s * 1000),
        summary=(
            f"{key.application} on {run.n:g} {key.unit} takes {factor:.2f} times as long as before, "
            f"in its last {runs} runs."
        ),
        description="The prediction of this size follows; its other sizes are as before.",
        evidence=AlertEvidence(observed=run.run_time_s, expected=scored.expected_s, n=run.n, runs=(run.run_id,)),
    )


def strange_run_labels(key: ApplicationKey, outlier: int) -> dict[str, str]:
    """Return the labels of a strange run's alert; `strange` is 1 for a slow one."""
    return {**application_labels(key), "direction": "slow" if outlier > 0 else "fast"}


def shifted(
    key: ApplicationKey, shift: Shift, settings: AlertSettings.Shift, now_ms: int, moved: MovedCounter | None = None
) -> Condition | None:
    """Return the condition of an application that became slower or faster; None where that is too little to tell.

    `moved` is the counter that moved with it, where one was measured to. An application whose runs scatter very much is several things under one name: a batch of one of them is no shift.
    """
    small = max(shift.factor, 1 / shift.factor) < settings.factor_min
    if not settings.enabled or small or shift.noise > settings.scatter_max:
        return None
    moment = _EPOCH + timedelta(milliseconds=shift.since_ms)
    change = shift.change
    then = f"; {change.name} changed from {change.before} to {change.after} then" if change else ""
    return Condition(
        name=ALERT_OF[shift.direction],
        labels=application_labels(key),
        holds=True,
        momentary=True,
        time_ms=now_ms,
        severity="warning" if shift.direction == "regression" else "info",
        keep_firing_ms=round(settings.keep_firing_s * 1000),
        summary=(
            f"{key.application} on {key.system} takes {shift.factor:.2f} times as long since "
            f"{moment:%H:%M} on {moment.day} {moment:%b} (UTC), as {shift.runs} runs show{then}."
        ),
        description=f"{_moved_text(moved, shift)} {LEARNED}" if moved is not None else LEARNED,
        evidence=AlertEvidence(
            observed=shift.observed_s,
            expected=shift.expected_s,
            n=shift.n,
            runs=shift.run_ids or (shift.since_run,),
            detail=_detail(shift) | (_moved_detail(moved) if moved is not None else {}),
        ),
    )


def _moved_text(moved: MovedCounter, shift: Shift) -> str:
    """Return a sentence about a counter, with the build where that changed then and there is room for it."""
    change = shift.change
    named = f"{moved.text} with {change.name} {change.after}." if change else f"{moved.text}."
    return named if len(named) + len(LEARNED) < TEXT_MAX else f"{moved.text}."


def _moved_detail(moved: MovedCounter) -> dict[str, Attribute]:
    return {
        "counter": f"{moved.counter} {moved.per}",
        "counter_before": moved.before,
        "counter_since": moved.since,
        "counter_runs": moved.runs,
    }


def ended(name: str, labels: dict[str, str], why: str, now_ms: int, *, by: AlertEnd = "itself") -> Condition:
    """Return the condition with which an open alert ends at the next tick, and what ends it."""
    severity: Severity = "info" if name == IMPROVEMENT or labels.get("direction") == "fast" else "warning"
    return Condition(
        name=name, labels=labels, holds=True, momentary=True, time_ms=now_ms, severity=severity, summary=why,
        ended_by=by,
    )  # fmt: skip


def _detail(shift: Shift) -> dict[str, Attribute]:
    change = shift.change
    changed = {"changed": change.name, "before": change.before or "", "after": change.after} if change else {}
    return {
        "factor": shift.factor,
        "since": rfc3339(shift.since_ms),
        "since_run": shift.since_run,
        "runs": shift.runs,
        "scatter": shift.noise,
        **changed,
    }
