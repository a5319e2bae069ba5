"""Alert rules about profiles of runs: power that counters do not explain, and runs that were disturbed."""

import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from processors.alerts.applications import DISTURBED_RUN, UNEXPLAINED_POWER, application_labels, over
from processors.alerts.lifecycle import Condition
from processors.contracts.alerts import DisturbedRun, UnexplainedPower
from processors.contracts.names import ApplicationKey, measured, signed
from processors.contracts.outputs import AlertEvidence, ProfileModel
from processors.models.counters.model import AddedPart, Unusual
from processors.models.training.table import PredictedBand
from processors.power.blame import NINE_OF_TEN, Blamed, JudgedPower
from processors.power.by_size import COUNTER, NIC, RATE
from processors.power.model import ProfileFact, ProfileFinding

SYSTEM: Final = "system"
TARGET: Final = "system_power_w"
MEASURED_MIN: Final = 0.8  # of a run's host-minutes: power that was estimated from counters is always explained by them
PER: Final = {COUNTER: "per cycle", RATE: "per second", NIC: "per second"}
NAMED_MAX: Final = 3  # counters that a sentence names


class JudgedRun(NamedTuple):
    """A settled run of an application, what was found of it before it was learned, and the models that found it.

    `expected_s` is the run time that is published for its size, None where none is, and `ln_load` what the load of its hosts
    explains of its run time. `added` is what its counters add to the power of the mean run.
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
        """The run time over what is published for its size, under the load of its hosts: that is no disturbance."""
        return self.fact.run_time_s / self.expected_s * math.exp(-self.ln_load) if self.expected_s else None

    @property
    def where(self) -> str:
        """What ran, and on how much."""
        return f"{self.key.application} on {self.fact.n:g} {self.key.unit}"


def judged_power(run: JudgedRun, hosts: Sequence[str], settings: UnexplainedPower) -> JudgedPower | None:
    """Return how far a run's power is from what its counters explain; None where nobody can tell."""
    fact, scored = run.fact, run.finding.scored.get(TARGET, 0)
    found = run.finding.expected.get(TARGET)
    measured = fact.profile.measured.get(SYSTEM, 0.0) >= MEASURED_MIN
    if found is None or scored < settings.scored_min or not measured:
        return None
    observed_w, band = found
    count = max(fact.profile.hosts, 1)
    deviation_w = count * (band.high - band.low) / (2 * NINE_OF_TEN)
    return JudgedPower(
        fact.run_id,
        run.key.id,
        tuple(hosts),
        count * (observed_w - band.value),
        deviation_w,
        _outside(observed_w, band, settings),
    )


def unexplained_power(
    run: JudgedRun, judged: JudgedPower, settings: UnexplainedPower, now_ms: int, *, in_a_row: int = 1
) -> Condition:
    """Return whether a run's power is one that its counters do not explain; so many of the newest are, `in_a_row`."""
    labels, found = application_labels(run.key), run.finding.expected.get(TARGET)
    if found is None or not (settings.enabled and judged.off):
        return over(UNEXPLAINED_POWER, labels, now_ms)
    observed_w, band = found
    fact, scored = run.fact, run.finding.scored.get(TARGET, 0)
    model = next((each for each in run.models if each.target == TARGET), None)
    counters = ", ".join(each.counter for each in model.explained[:NAMED_MAX]) if model else ""
    by_what = _by_what(run.added, counters)
    return Condition(
        name=UNEXPLAINED_POWER,
        labels=labels,
        holds=True,
        time_ms=now_ms,
        severity=settings.severity,
        for_ms=0 if in_a_row >= settings.runs_min else round(settings.for_s * 1000),
        expires_after_ms=round(settings.quiet_s * 1000),
        summary=(
            f"{run.where} drew {measured('power_w', observed_w)} per host, "
            f"{observed_w / band.value:.2f} times the {measured('power_w', band.value)} that its counters explain."
        ),
        description=(
            f"Nine of ten runs lie between {measured('power_w', band.low)} and {measured('power_w', band.high)}; {scored} were predicted before "
            f"they were learned. {by_what}"
        ),
        evidence=AlertEvidence(
            observed=observed_w,
            expected=band.value,
            low=band.low,
            high=band.high,
            n=fact.n,
            runs=(fact.run_id,),
            model=model.model if model else None,
            detail={"target": TARGET, "counters": counters, "added": _named(run.added), "scored": scored},
        ),
    )


def power_of_host(system: str, blamed: Blamed, run: JudgedRun, settings: UnexplainedPower, now_ms: int) -> Condition:
    """Return the condition of a host that draws more, or less, than the counters of what runs on it explain."""
    word = "more" if blamed.excess_w > 0 else "less"
    return Condition(
        name=UNEXPLAINED_POWER,
        labels={"system": system, "host": blamed.host},
        holds=settings.enabled,
        time_ms=now_ms,
        severity=settings.severity,
        expires_after_ms=round(settings.quiet_s * 1000),
        summary=f"{blamed.host} on {system} draws {measured('power_w', abs(blamed.excess_w))} {word} than the counters of its runs explain.",
        description=(
            f"{blamed.runs} runs on it were judged; the last is job {run.fact.run_id.partition('@')[0]} of {run.key.application}. Runs on other hosts "
            "are explained."
        ),
        evidence=AlertEvidence(
            observed=blamed.excess_w,
            runs=(run.fact.run_id,),
            detail={"target": TARGET, "runs": blamed.runs},
        ),
    )


def _by_what(added: Sequence[AddedPart], counters: str) -> str:
    """Return what the expected power follows from: what counters add at this run, else which ones explain power best."""
    if added:
        return f"To the power of the mean run its counters add: {_named(added)}."
    return f"The counters that explain it best are {counters}." if counters else "No counter explains it."


def _named(added: Sequence[AddedPart]) -> str:
    """Return the counters that add most, and how much."""
    return ", ".join(f"{each.counter} {signed('power_w', each.amount)}" for each in added[:NAMED_MAX])


def _outside(observed: float, band: PredictedBand, settings: UnexplainedPower) -> bool:
    """Return whether a value is outside a band by both margins; both ends of the band are widened alike, in ln."""
    off = math.log(observed / band.value)
    half_width = math.log(band.high / band.value) if off > 0 else math.log(band.value / band.low)
    return abs(off) > max(settings.band_factor * half_width, math.log1p(settings.margin_share))


def disturbed_run(run: JudgedRun, settings: DisturbedRun, now_ms: int) -> Condition | None:
    """Return the condition of a run that something disturbed; None where it is like others, or too little is known."""
    fact, weight, slower = run.fact, run.finding.weight, run.slower
    far = [each for each in run.finding.unusual if _far(each, settings)]
    known = max((model.runs for model in run.models), default=0)
    if not settings.enabled or len(far) < settings.counters_min or known < settings.runs_min:
        return None
    if slower is None or slower < settings.slower_min:
        return None
    first = far[0]
    named = ", ".join(_counter_text(each) for each in far[:NAMED_MAX]).replace(" times", " times its usual rate", 1)
    names = [_plain(each.counter) for each in far[:NAMED_MAX]]
    more = f" and {len(far) - NAMED_MAX} more" if len(far) > NAMED_MAX else ""
    return Condition(
        name=DISTURBED_RUN,
        labels=application_labels(run.key),
        holds=True,
        momentary=True,
        time_ms=now_ms,
        severity=settings.severity,
        keep_firing_ms=round(settings.keep_firing_s * 1000),
        summary=f"{run.where} was disturbed: it took {slower:.2f} times as long as expected, with {named}{more}.",
        description=(
            f"This is job {fact.run_id.partition('@')[0]}. Similar runs have {names[0]} at {first.usual:.4g}; this one had {first.rate:.4g}, "
            f"{abs(first.deviations):.0f} robust standard deviations away. Either something else used the same resources, or a "
            f"host was faulty. The models give this run a weight of {weight:.2g}."
        ),
        evidence=AlertEvidence(
            observed=first.rate,
            expected=first.usual,
            n=fact.n,
            runs=(fact.run_id,),
            detail={
                "target": names[0],
                "deviations": round(first.deviations, 1),
                "counters": ", ".join(names),
                "counters_off": len(far),
                "weight": weight,
                "slower": round(slower, 3),
            },
        ),
    )


def forgotten(key: ApplicationKey, now_ms: int) -> list[Condition]:
    """Return that nothing holds any more which profiles said of an application."""
    labels = application_labels(key)
    return [over(name, labels, now_ms, forgotten=True) for name in (UNEXPLAINED_POWER, DISTURBED_RUN)]


def _far(each: Unusual, settings: DisturbedRun) -> bool:
    return abs(each.deviations) >= settings.deviations_min and abs(
        each.rate - each.usual
    ) >= settings.difference_min * abs(each.usual)


def _counter_text(each: Unusual) -> str:
    if each.usual <= 0:
        return f"{_plain(each.counter)} {each.rate:.3g} instead of {each.usual:.3g}"
    return f"{_plain(each.counter)} at {each.rate / each.usual:.2f} times"


def _plain(value: str) -> str:
    """Return the name of a counter as its producer told it, with what it is relative to."""
    kind, colon, name = value.partition(":")
    return f"{name} {PER[kind + colon]}" if kind + colon in PER else value
