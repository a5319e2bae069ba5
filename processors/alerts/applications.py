"""Alerts about applications: functions that turn observations into a condition with texts and evidence."""

import math
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from processors.alerts import rules
from processors.alerts.lifecycle import Condition
from processors.alerts.policy import NO_RUN, About
from processors.alerts.rules import AlertType, application_labels, shortened
from processors.contracts.alerts import AlertSettings, DisturbedRun, UnexplainedPower
from processors.contracts.events import Attribute
from processors.contracts.names import ApplicationKey, measured, rfc3339, signed
from processors.contracts.outputs import AlertEvidence, Prediction, ProfileModel, Reliability, Severity
from processors.facts import Scored
from processors.jobs.memory import FailureJudgement
from processors.models.counters.model import AddedPart, Unusual
from processors.models.drift import Direction
from processors.models.numerics.conformal import PredictedBand
from processors.power.blame import NINE_OF_TEN, Blamed, JudgedPower, MovedCounter
from processors.power.by_size import COUNTER, NIC, RATE
from processors.power.model import ProfileFact, ProfileFinding
from processors.run_time.drift import RunJudgement, Shift

STILL_CREDIBLE: Final = 0.5
CAUSES_MIN: Final = 2  # fewest failing applications that make a host suspicious; a single one may be at fault itself
ALERT_OF: Final[dict[Direction, AlertType]] = {"regression": rules.REGRESSION, "improvement": rules.IMPROVEMENT}
SYSTEM: Final = "system"
TARGET: Final = "system_power_w"
# least share of host-minutes with measured power; counters always explain power that was estimated from them
MEASURED_MIN: Final = 0.8
PER: Final = {COUNTER: "per cycle", RATE: "per second", NIC: "per second"}
COUNTERS_SHOWN: Final = 3


def unusual_size(
    key: ApplicationKey,
    name: str,
    n: float,
    times_s: tuple[float, float] | None,
    *,
    settings: AlertSettings.SlowSize,
    now_ms: int,
) -> Condition:
    """Return the condition of a size that is slower or faster than expected from the other sizes of its curve.

    `times_s` is the pair of observed and expected run time, or None if the size is no longer unusual.
    """
    alert = rules.SLOW_SIZE if name == rules.SLOW_SIZE.name else rules.FAST_SIZE
    labels = {**application_labels(key), "n": f"{n:g}"}
    if times_s is None:
        return alert.over(labels, now_ms)
    observed_s, expected_s = times_s
    evidence = AlertEvidence(observed=observed_s, expected=expected_s, n=n)
    return alert.condition(labels, settings, now_ms, {"percent": abs(observed_s / expected_s - 1) * 100}, evidence)


def unreliable(
    key: ApplicationKey, reliability: Reliability, observations: int, settings: AlertSettings.Unreliable, now_ms: int
) -> list[Condition]:
    """Return one condition for each verdict that the settings list; only the condition of the present verdict holds."""
    active, labels = settings.enabled and observations >= settings.observations_min, application_labels(key)
    evidence = AlertEvidence(detail={"reasons": ", ".join(reliability.reasons)})
    alert = rules.PREDICTION_UNRELIABLE
    return [
        alert.condition(
            {**labels, "verdict": verdict},
            settings,
            now_ms,
            {"verdict_text": verdict.replace("_", " "), "advice": " ".join(reliability.advice)},
            evidence,
        )
        if active and reliability.verdict == verdict
        else alert.over({**labels, "verdict": verdict}, now_ms)
        for verdict in settings.verdicts
    ]


def slows_down(predicted: Prediction, settings: AlertSettings.SlowsDown, now_ms: int) -> Condition:
    """Return the condition of an application that takes longer at its largest sizes; the prediction may still be accurate."""
    key = ApplicationKey(predicted.application, predicted.system, predicted.input, predicted.unit)
    labels, fastest = application_labels(key), predicted.useful_n.slower_beyond
    if fastest is None or not settings.enabled or predicted.observations < settings.observations_min:
        return rules.SLOWS_DOWN.over(labels, now_ms)
    times_s = {point.n: point.run_time_s for point in predicted.curve}
    largest = predicted.sizes[-1]
    evidence = AlertEvidence(observed=times_s.get(largest), expected=times_s.get(fastest), n=largest)
    values = {"largest": f"{largest:g}", "fastest": f"{fastest:g}"}
    return rules.SLOWS_DOWN.condition(labels, settings, now_ms, values, evidence)


def forgotten(
    key: ApplicationKey,
    flagged: Sequence[tuple[str, float]],
    verdicts: Sequence[str],
    now_ms: int,
    *,
    withdrawn: bool = False,
) -> list[Condition]:
    """Return the conditions that end the alerts about a forgotten application, or with `withdrawn` only the alerts about its curve.

    `flagged` lists the open alerts about single sizes, each as (alert name, size).
    """
    labels, ends = application_labels(key), list[Condition]()
    for alert in rules.ALERTS.values():
        if alert.rests_on == "curve" or (alert.rests_on == "model" and not withdrawn):
            variants: dict[str, list[dict[str, str]]] = {
                "": [{}],
                "n": [{"n": f"{n:g}"} for name, n in flagged if name == alert.name],
                "verdict": [{"verdict": verdict} for verdict in verdicts],
            }
            ends += [alert.over({**labels, **variant}, now_ms, forgotten=True) for variant in variants[alert.per]]
    return ends


def failing(
    alert: AlertType,
    labels: dict[str, str],
    judged: FailureJudgement,
    settings: AlertSettings.FailureRate,
    now_ms: int,
    *,
    is_open: bool = False,
) -> Condition:
    """Return the condition of the failure rate of an application or a host.

    On a host at least two applications must fail. An open alert stays open while the rate probably exceeds the expected
    rate, so that the alert does not come and go.
    """
    credible = judged.credible or (is_open and judged.credibility > STILL_CREDIBLE)
    is_host = alert is rules.HOST_FAILS
    if not (settings.enabled and credible and not (is_host and judged.causes < CAUSES_MIN)):
        return alert.over(labels, now_ms)
    runs, failures = judged.recent_runs, judged.recent_failures
    values = {
        "failures": failures,
        "runs": runs,
        "causes": judged.causes,
        "expected": judged.expected_rate * runs,
        "percent": judged.expected_rate * 100,
        "credibility": min(judged.credibility, 0.999),
    }
    evidence = AlertEvidence(observed=failures / max(runs, 1), expected=judged.expected_rate)
    severity: Severity = "critical" if failures * 2 > runs else alert.severity
    return alert.condition(labels, settings, now_ms, values, evidence, severity=severity)


STRANGE_P_MAX: Final = 0.1  # a run is not strange if a tenth of the earlier runs were as far off


def strange_run(
    key: ApplicationKey, scored: Scored, judged: RunJudgement, settings: AlertSettings.StrangeRun, now_ms: int,
    *, about: About = NO_RUN,
) -> Condition | None:  # fmt: skip
    """Return the condition of a single run far outside its band; None if the run is normal or too few runs are known."""
    ratio = math.exp(scored.ln_ratio)
    far = max(ratio, 1.0 / ratio) >= settings.factor_min and judged.noise <= settings.scatter_max
    far = far and judged.conformal_p <= STRANGE_P_MAX
    if not (settings.enabled and judged.outlier and far and scored.observations >= settings.observations_min):
        return None
    run = scored.run
    share, place = judged.conformal_p * 100, _place_text(about)
    values = {"ratio": ratio, "observations": scored.observations, "percent": share, "place": place}
    band, detail = (scored.expected_s, scored.low_s, scored.high_s), {"conformal_p": judged.conformal_p}
    evidence = AlertEvidence(run.run_time_s, *band, run.n, (run.run_id,), detail={**detail, **about.place})
    labels = strange_run_labels(key, judged.outlier)
    return rules.STRANGE_RUN.condition(labels, settings, now_ms, values, evidence)


def _place_text(about: About) -> str:
    return "".join(f"{name.capitalize()}: {text}. " for name, text in about.place.items())


def size_turned(
    key: ApplicationKey,
    scored: Scored,
    moved: tuple[float, int],
    noise: float,
    *,
    settings: AlertSettings.StrangeRun,
    now_ms: int,
) -> Condition | None:
    """Return the condition of a size whose runs became permanently slower or faster, and which first looked like outliers.

    `moved` is a pair: the factor by which run times changed, and the number of changed runs. `noise` is the scatter of the
    runs. None if the change is too small or the scatter too large.
    """
    run, (factor, runs) = scored.run, moved
    if not settings.enabled or max(factor, 1 / factor) < settings.factor_min or noise > settings.scatter_max:
        return None
    labels = strange_run_labels(key, 1 if factor > 1 else -1)
    evidence = AlertEvidence(observed=run.run_time_s, expected=scored.expected_s, n=run.n, runs=(run.run_id,))
    values = {"factor": factor, "runs": runs}
    return rules.STRANGE_RUN.condition(labels, settings, now_ms, values, evidence, text=rules.SIZE_TURNED)


def strange_run_labels(key: ApplicationKey, outlier: int) -> dict[str, str]:
    """Return the labels of a strange run's alert; `outlier` is positive for a slow run."""
    return {**application_labels(key), "direction": "slow" if outlier > 0 else "fast"}


def shifted(
    key: ApplicationKey, shift: Shift, settings: AlertSettings.Shift, now_ms: int, moved: MovedCounter | None = None
) -> Condition | None:
    """Return the condition of an application that became slower or faster; None if the change is too small.

    `moved` is the counter that changed at the same time. An application whose runs scatter widely raises no alert, because
    several programs probably run under its name, and a change of their mix is no change of speed.
    """
    small = max(shift.factor, 1 / shift.factor) < settings.factor_min
    if not settings.enabled or small or shift.noise > settings.scatter_max:
        return None
    change = shift.change
    values = {
        "factor": shift.factor,
        "since": rules.clock(shift.since_ms),
        "runs": shift.runs,
        "change": f"; {change.name} changed from {change.before} to {change.after} then" if change else "",
        "scatter": shift.noise * 100,
        "counter": f"{_moved_text(moved, shift)} " if moved is not None else "",
    }
    detail, runs = _shift_detail(shift, moved), shift.run_ids or (shift.since_run,)
    evidence = AlertEvidence(shift.observed_s, shift.expected_s, n=shift.n, runs=runs, detail=detail)
    return ALERT_OF[shift.direction].condition(application_labels(key), settings, now_ms, values, evidence)


def _moved_text(moved: MovedCounter, shift: Shift) -> str:
    """Return a sentence about a changed counter, with the build that changed at the same time."""
    change = shift.change
    return f"{moved.text} with {change.name} {change.after}." if change else f"{moved.text}."


def _shift_detail(shift: Shift, moved: MovedCounter | None) -> dict[str, Attribute]:
    detail: dict[str, Attribute] = {
        "factor": shift.factor,
        "since": rfc3339(shift.since_ms),
        "since_run": shift.since_run,
        "runs": shift.runs,
        "scatter": shift.noise,
    }
    if change := shift.change:
        detail |= {"changed": change.name, "before": change.before or "", "after": change.after}
    if moved is not None:
        detail |= {
            "counter": f"{moved.counter} {moved.per}",
            "counter_before": moved.before,
            "counter_since": moved.since,
            "counter_runs": moved.runs,
        }
    return detail


class JudgedRun(NamedTuple):
    """A settled run of an application, and how it differs from the predictions of counter models that did not know it yet.

    `expected_s` is the run time published for its size; None if none was published. `ln_load` is the part of the run's ln run
    time that the load of its hosts explains. `added` lists the contribution of each counter to the power, relative to the mean
    run.
    """

    key: ApplicationKey
    fact: ProfileFact
    finding: ProfileFinding
    models: Sequence[ProfileModel]
    expected_s: float | None = None
    ln_load: float = 0.0
    added: Sequence[AddedPart] = ()

    @property
    def slower(self) -> float | None:
        """The ratio of the run time to the published run time, corrected for the load of the hosts, because load is not a disturbance."""
        return self.fact.run_time_s / self.expected_s * math.exp(-self.ln_load) if self.expected_s else None

    @property
    def text(self) -> str:
        return f"{shortened(self.key.application)} on {self.fact.n:g} {self.key.unit}"

    @property
    def job(self) -> str:
        return self.fact.run_id.partition("@")[0]


def judged_power(run: JudgedRun, hosts: Sequence[str], settings: UnexplainedPower) -> JudgedPower | None:
    """Return the measured power of a run compared with the power that its counters explain; None if the power cannot be judged."""
    fact, scored = run.fact, run.finding.scored.get(TARGET, 0)
    power = run.finding.expected.get(TARGET)
    if power is None or scored < settings.scored_min or fact.profile.measured.get(SYSTEM, 0.0) < MEASURED_MIN:
        return None
    observed_w, band = power
    count = max(fact.profile.hosts, 1)
    return JudgedPower(
        fact.run_id,
        run.key.id,
        tuple(hosts),
        count * (observed_w - band.value),
        count * (band.high - band.low) / (2 * NINE_OF_TEN),
        _outside(observed_w, band, settings),
    )


def unexplained_power(
    run: JudgedRun, judged: JudgedPower, settings: UnexplainedPower, now_ms: int, *, in_a_row: int = 1
) -> Condition:
    """Return the condition of power that counters do not explain; `in_a_row` successive runs, up to this one, had such power."""
    labels, power = application_labels(run.key), run.finding.expected.get(TARGET)
    if power is None or not (settings.enabled and judged.off):
        return rules.UNEXPLAINED_POWER.over(labels, now_ms)
    observed_w, band = power
    fact, scored = run.fact, run.finding.scored.get(TARGET, 0)
    model = next((model for model in run.models if model.target == TARGET), None)
    counters = ", ".join(part.counter for part in model.explained[:COUNTERS_SHOWN]) if model else ""
    text = f"The counters that explain power best are {counters}." if counters else "No counter explains power."
    if run.added:
        text = f"Deviation from the mean power by counter: {_added_text(run.added)}."
    values = {"run": run.text, "ratio": observed_w / band.value, "scored": scored, "counters": text}
    expected, name = (band.value, band.low, band.high), model.model if model else None
    detail: dict[str, Attribute] = {"target": TARGET, "counters": counters, "added": _added_text(run.added)}
    evidence = AlertEvidence(observed_w, *expected, fact.n, (fact.run_id,), name, detail | {"scored": scored})
    at_once: dict[str, Any] = {"for_ms": 0} if in_a_row >= settings.runs_min else {}
    return rules.UNEXPLAINED_POWER.condition(labels, settings, now_ms, values, evidence, **at_once)


def power_of_host(system: str, blamed: Blamed, run: JudgedRun, settings: UnexplainedPower, now_ms: int) -> Condition:
    """Return the condition of the host `blamed`, which draws more or less power than the counters of its runs explain."""
    labels = suspect_labels(system, blamed.hosts)
    if not settings.enabled:
        return rules.UNEXPLAINED_POWER.over(labels, now_ms)
    values = {
        "suspects": f"One of {blamed.hosts.replace(',', ', ')}" if "hosts" in labels else blamed.hosts,
        "excess": measured("power_w", abs(blamed.excess_w)),
        "direction": "more" if blamed.excess_w > 0 else "less",
        "runs": blamed.runs,
        "job": run.job,
        "application": run.key.application,
    }
    evidence = AlertEvidence(
        observed=blamed.excess_w, runs=(run.fact.run_id,), detail={"target": TARGET, "runs": blamed.runs}
    )
    return rules.UNEXPLAINED_POWER.condition(
        labels, settings, now_ms, values, evidence, text=rules.POWER_OF_HOST, for_ms=0
    )


def suspect_labels(system: str, hosts: str) -> dict[str, str]:
    """Return the labels of an alert about one host, or about several (`hosts`, joined by commas), one of which is to blame."""
    return {"system": system, "hosts": hosts} if "," in hosts else rules.host_labels(system, hosts)


def _added_text(added: Sequence[AddedPart]) -> str:
    return ", ".join(f"{part.counter} {signed('power_w', part.amount)}" for part in added[:COUNTERS_SHOWN])


def _outside(observed: float, band: PredictedBand, settings: UnexplainedPower) -> bool:
    """Return whether `observed` is too far from the band's middle: beyond `band_factor` half-widths and beyond `margin_share`, in ln."""
    off = math.log(observed / band.value)
    half_width = math.log(band.high / band.value) if off > 0 else math.log(band.value / band.low)
    return abs(off) > max(settings.band_factor * half_width, math.log1p(settings.margin_share))


def disturbed_run(run: JudgedRun, settings: DisturbedRun, now_ms: int, about: About = NO_RUN) -> Condition | None:
    """Return the condition of a slow run with unusual counters; None if the run is normal or too few runs are known."""
    far = [counter for counter in run.finding.unusual if _far(counter, settings)]
    runs = max((model.runs for model in run.models), default=0)
    is_known = len(far) >= settings.counters_min and runs >= settings.runs_min
    if not settings.enabled or not is_known or run.slower is None or run.slower < settings.slower_min:
        return None
    first, weight = far[0], run.finding.weight
    names = [_plain(counter.counter) for counter in far[:COUNTERS_SHOWN]]
    texts = ", ".join(_counter_text(counter) for counter in far[:COUNTERS_SHOWN])
    more = f" and {len(far) - COUNTERS_SHOWN} more" if len(far) > COUNTERS_SHOWN else ""
    values = {
        "run": run.text,
        "slower": run.slower,
        "counters": texts.replace(" times", " times its usual rate", 1) + more,
        "job": run.job,
        "place": _place_text(about),
        "counter": names[0],
        "rate": first.rate,
        "usual": first.usual,
        "deviations": abs(first.deviations),
    }
    detail: dict[str, Attribute] = {
        "target": names[0],
        "deviations": round(first.deviations, 1),
        "counters": ", ".join(names),
        "counters_off": len(far),
        "weight": weight,
        "slower": round(run.slower, 3),
        **about.place,
    }
    evidence = AlertEvidence(first.rate, first.usual, n=run.fact.n, runs=(run.fact.run_id,), detail=detail)
    return rules.DISTURBED_RUN.condition(application_labels(run.key), settings, now_ms, values, evidence)


def _far(counter: Unusual, settings: DisturbedRun) -> bool:
    difference_min = settings.difference_min * abs(counter.usual)
    return abs(counter.deviations) >= settings.deviations_min and abs(counter.rate - counter.usual) >= difference_min


def _counter_text(counter: Unusual) -> str:
    if counter.usual <= 0:
        return f"{_plain(counter.counter)} {counter.rate:.3g} instead of {counter.usual:.3g}"
    return f"{_plain(counter.counter)} at {counter.rate / counter.usual:.2f} times"


def _plain(counter: str) -> str:
    """Return a counter's name without its kind, followed by the text in PER for this kind, such as its denominator."""
    kind, colon, name = counter.partition(":")
    return f"{name} {PER[kind + colon]}" if kind + colon in PER else counter
