"""What to ask for next time: the time limit, the size, and what a run costs in energy; plain sentences."""

import math
from collections.abc import Sequence
from typing import Final

import msgspec

from agent.contracts.outputs import CurvePoint, Prediction
from agent.contracts.recent import RecentRun, Told
from agent.http.job_words import DOUBTFUL
from agent.http.rounded import next_limit, rounded
from agent.words import INSIDE, energy, explained, share, sized

MARGIN: Final = 1.1
GENEROUS: Final = 1.5  # so many times what is needed is no mistake
LITTLE: Final = 0.25  # longer with half the size
USED_UP: Final = 1.05  # beyond the largest useful size by more than rounding
ALIKE: Final = 0.05


class Limit(msgspec.Struct, frozen=True):
    """A time limit worth asking for, in seconds, and why.

    >>> Limit(2400.0, "").limit_s
    2400.0
    """

    limit_s: float
    sentence: str


def told_now(point: CurvePoint, verdict: str) -> Told:
    """Return what the curve says of one of its points, in the form in which it is told of a run.

    >>> from types import SimpleNamespace
    >>> told_now(SimpleNamespace(run_time_s=9.0, low_s=8.0, high_s=10.0, coverage=0.9), "reliable").high_s
    10.0
    """
    return Told(
        run_time_s=point.run_time_s,
        low_s=point.low_s,
        high_s=point.high_s,
        coverage=point.coverage,
        verdict=verdict,
        source="curve",
    )


def limit_advice(usual: Told | None, had_s: float | None) -> Limit | None:
    """Return the time limit to ask for next time: the upper end of the band with a tenth to spare, rounded up.

    `had_s` is the limit that the run had. None where nothing is known of such runs.

    >>> usual = Told(run_time_s=1800.0, low_s=1620.0, high_s=2040.0, coverage=0.9, verdict="reliable", source="curve")
    >>> limit_advice(usual, 4 * 3600.0).sentence
    'Ask for 40 min: 19 of 20 runs like it end within 34 min. You asked for 4 h; a shorter limit may let it start sooner.'
    """
    if usual is None or not 0 < usual.high_s < math.inf:
        return None
    limit_s = next_limit(usual.high_s * MARGIN)
    why = f"{_within(usual.coverage)} end within {rounded(usual.high_s)}"
    if usual.verdict in DOUBTFUL or usual.source == "similar_runs":
        asked = f"ask for no less than {rounded(limit_s)}"
        return Limit(limit_s, f"Stay generous and {asked}: {why}, as far as anybody can tell.")
    if had_s is not None and limit_s <= had_s <= GENEROUS * limit_s:
        return Limit(had_s, f"Your limit of {rounded(had_s)} fits: {why}.")
    return Limit(limit_s, f"Ask for {rounded(limit_s)}: {why}.{_about(had_s, limit_s)}")


def _within(coverage: float) -> str:
    """Return how many runs stay below the upper end of a band that holds so many."""
    below = (1 + coverage) / 2
    twentieths = below * 20
    whole = abs(twentieths - round(twentieths)) < 0.01
    return f"{twentieths:.0f} of 20 runs like it" if whole else f"{share(below)} of runs like it"


def _about(had_s: float | None, limit_s: float) -> str:
    if had_s is None:
        return ""
    if had_s < limit_s:
        return f" Your limit of {rounded(had_s)} is tight."
    return f" You asked for {rounded(had_s)}; a shorter limit may let it start sooner."


def time_at(points: Sequence[CurvePoint], n: float) -> float | None:
    """Return the run time at a size between those that were run, in seconds; None outside of them.

    Between two points a straight line on logarithmic axes.

    >>> from types import SimpleNamespace
    >>> points = [SimpleNamespace(n=8.0, run_time_s=100.0, source="observed"), SimpleNamespace(n=32.0, run_time_s=25.0, source="observed")]
    >>> round(time_at(points, 16.0), 6), time_at(points, 64.0)
    (50.0, None)
    """
    known = sorted((point.n, point.run_time_s) for point in points if point.source in INSIDE and point.run_time_s > 0)
    for (low, low_s), (high, high_s) in zip(known, known[1:] or known, strict=False):
        if low == n:
            return low_s
        if low <= n <= high:
            part = 0.0 if high == low else math.log(n / low) / math.log(high / low)
            return math.exp(math.log(low_s) * (1 - part) + math.log(high_s) * part)
    return known[0][1] if known and known[0][0] == n else None


def size_advice(entry: Prediction | None, n: float | None) -> str:
    """Return what to know of the size: whether it helped, and what half of it would have cost; empty where nobody knows.

    >>> from types import SimpleNamespace
    >>> points = [SimpleNamespace(n=n, run_time_s=s, source="observed") for n, s in ((32.0, 1100.0), (64.0, 1000.0))]
    >>> entry = SimpleNamespace(curve=points, unit="nodes", useful_n=SimpleNamespace(max=None),
    ...                         reliability=SimpleNamespace(verdict="reliable"))
    >>> size_advice(entry, 64.0)
    'Half the size costs little: 32 nodes take about 18 min, 10 % longer, and leave the rest to others.'
    """
    if entry is None or n is None:
        return ""
    if entry.reliability.verdict in DOUBTFUL:
        return f"Which size is best can not be said yet. {explained(entry.reliability.verdict)}"
    most = entry.useful_n.max
    if most is not None and n > most * USED_UP:
        return _too_many(entry, n, most)
    took_s, half_s = time_at(entry.curve, n), time_at(entry.curve, n / 2)
    if took_s is None or half_s is None or n < 2:
        return "" if most is None else f"Up to {sized(most, entry.unit)} more still help."
    return _against_half(sized(n / 2, entry.unit), took_s, half_s, alone=n == 2)


def _against_half(half: str, took_s: float, half_s: float, *, alone: bool) -> str:
    longer = half_s / took_s - 1
    told = f"{half} {'takes' if alone else 'take'} about {rounded(half_s)}"
    if longer < ALIKE:
        return f"Half the size is as good: {told}."
    if longer <= LITTLE:
        return f"Half the size costs little: {told}, {share(longer)} longer, and leave{'s' if alone else ''} the rest to others."
    return f"The size is well used: {told}, {share(longer)} longer."


def _too_many(entry: Prediction, n: float, most: float) -> str:
    at_most_s = time_at(entry.curve, most)
    instead = f", and {sized(most, entry.unit)} take about {rounded(at_most_s)}" if at_most_s else ""
    return f"Ask for {sized(most, entry.unit)}: more hardly help{instead}. You asked for {sized(n, entry.unit)}."


def energy_words(run: RecentRun, point: CurvePoint | None) -> str:
    """Return what a run used in energy against what is usual; empty where it was not measured.

    >>> run = RecentRun(run_id="exa/1@0", system="exa", job_id="1", application_id=None, n=8.0, start_ms=0, end_ms=0,
    ...                 run_time_s=60.0, state="COMPLETED", energy_j=7.2e7)
    >>> energy_words(run, None)
    'It used 20 kWh (72 MJ).'
    """
    used_j = run.energy_j
    if used_j is None:
        return ""
    said = f"It used {kilowatt_hours(used_j)} ({energy(used_j)})"
    usual_j = point.energy_j if point is not None else None
    if not usual_j or run.state != "COMPLETED":
        return f"{said}."
    ratio = used_j / usual_j
    if abs(ratio - 1) < ALIKE:
        return f"{said}, as much as usual."
    return f"{said}, {share(abs(ratio - 1))} {'more' if ratio > 1 else 'less'} than usual."


def kilowatt_hours(joules: float) -> str:
    """Return an energy in the unit of bills.

    >>> kilowatt_hours(7.2e7), kilowatt_hours(7.2e3), kilowatt_hours(7.2e9)
    ('20 kWh', '0.002 kWh', '2000 kWh')
    """
    amount = joules / 3.6e6
    return f"{amount:.0f} kWh" if amount >= 100 else f"{amount:.3g} kWh"
