"""Alert rules about runs: a strange one, and applications that became slower or faster for good."""

import math
from datetime import UTC, datetime, timedelta
from typing import Final

from agent.contracts.events import Attribute
from agent.contracts.moments import rfc3339
from agent.contracts.names import ApplicationKey
from agent.contracts.outputs import AlertEvidence, Severity
from agent.contracts.settings import AlertSettings
from processors.alert_rules import IMPROVEMENT, REGRESSION, STRANGE_RUN, application_labels
from processors.alerts import Condition
from processors.drift import RunJudgement, Shift
from processors.facts import Scored
from processors.models.drift import Direction

ALERT_OF: Final[dict[Direction, str]] = {"regression": REGRESSION, "improvement": IMPROVEMENT}
LEARNED: Final = "The model has learned the new level: it expects such run times now."
BACK: Final = "Its run times are back where they were."
OVERTAKEN: Final = "Its run times have changed again."
FORGOTTEN: Final = "Nothing is known of it any more."
EXPLAINED: Final = "It was no single run: the application's run times have changed for good."
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def strange_run(
    key: ApplicationKey, scored: Scored, judged: RunJudgement, settings: AlertSettings.StrangeRun, now_ms: int
) -> Condition | None:
    """Return the condition of a run that is strange by itself; None where it is not, or too little is known.

    >>> from processors.facts import RunFact
    >>> run = RunFact("r", n=4, run_time_s=150.0, start_ms=0, end_ms=1, seen_ms=1)
    >>> scored = Scored(run, 100.0, 90.0, 110.0, math.log(1.5), 0.1, inside=False, horizon="inside", observations=9)
    >>> judged = RunJudgement(scored.ln_ratio, 0.05, band_p=1e-9, conformal_p=0.005, strange=1)
    >>> key = ApplicationKey("lammps", "archer2", "", "nodes")
    >>> strange_run(key, scored, judged, AlertSettings.StrangeRun(), now_ms=0).summary
    'lammps on 4 nodes took 150 s, 1.50 times longer than the 100 s expected.'
    """
    ratio = math.exp(scored.ln_ratio)
    factor = max(ratio, 1.0 / ratio)
    known = scored.observations >= settings.observations_min
    told = known and factor >= settings.factor_min and judged.noise <= settings.scatter_max
    if not (settings.enabled and judged.strange and told):
        return None
    run = scored.run
    summary = (
        f"{key.application} on {run.n:g} {key.unit} took {run.run_time_s:.4g} s, {factor:.2f} times "
        f"{'longer' if ratio > 1 else 'shorter'} than the {scored.expected_s:.4g} s expected."
    )
    return Condition(
        name=STRANGE_RUN,
        labels=strange_run_labels(key, judged.strange),
        holds=True,
        momentary=True,
        time_ms=now_ms,
        severity="warning" if ratio > 1 else "info",
        keep_firing_ms=round(settings.keep_firing_s * 1000),
        summary=summary,
        description=(
            f"The band was {scored.low_s:.4g} to {scored.high_s:.4g} s; {scored.observations} runs were known. "
            f"At most {judged.conformal_p * 100:.1f} % of its newest runs were as far off."
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


def strange_run_labels(key: ApplicationKey, strange: int) -> dict[str, str]:
    """Return the labels of a strange run's alert; `strange` is 1 for a slow one.

    >>> strange_run_labels(ApplicationKey("lammps", "exa", "", "nodes"), 1)["direction"]
    'slow'
    """
    return {**application_labels(key), "direction": "slow" if strange > 0 else "fast"}


def shifted(key: ApplicationKey, shift: Shift, settings: AlertSettings.Shift, now_ms: int) -> Condition | None:
    """Return the condition of an application that became slower or faster; None where that is too little to tell.

    An application whose runs scatter very much is several things under one name: a batch of one of them is no shift.

    >>> from processors.changed_attributes import AttributeChange
    >>> change = AttributeChange("build", "2026.1", "2026.2")
    >>> shift = Shift("regression", 1.24, 1795183500000, "archer2/812@0", 1795190000000, runs=6, change=change)
    >>> shifted(ApplicationKey("lammps", "archer2", "", "nodes"), shift, AlertSettings.Shift(), now_ms=0).summary
    'lammps on archer2 takes 1.24 times as long since 14:05 on 20 Nov (UTC, run archer2/812@0), 6 runs; build...'
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
            f"{moment:%H:%M} on {moment.day} {moment:%b} (UTC, run {shift.since_run}), {shift.runs} runs{then}."
        ),
        description=LEARNED,
        evidence=AlertEvidence(
            observed=shift.observed_s,
            expected=shift.expected_s,
            n=shift.n,
            runs=shift.run_ids or (shift.since_run,),
            detail=_detail(shift),
        ),
    )


def ended(name: str, labels: dict[str, str], why: str, now_ms: int) -> Condition:
    """Return the condition with which an open alert about runs ends at the next tick.

    >>> ended(REGRESSION, {}, BACK, now_ms=0).keep_firing_ms
    0
    """
    severity: Severity = "info" if name == IMPROVEMENT or labels.get("direction") == "fast" else "warning"
    return Condition(
        name=name, labels=labels, holds=True, momentary=True, time_ms=now_ms, severity=severity, summary=why
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
