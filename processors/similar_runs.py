"""What is told of a job from the distribution of runs like it: when it ends, how far to trust that, where it came from."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec

from agent.contracts.outputs import CurvePoint, Member, Model, Prediction, Reliability, UsefulSizes
from processors.job_ends import EndForecast
from processors.models.digits import six_digits
from processors.models.run_distribution import OVERRUN_S
from processors.quality import COVERAGE
from processors.run_distribution import ComingJob, Expected, GroupKind, RunHistory, expected

NAME: Final = "run-distribution"
RUNS_MIN: Final = 8  # of the centre, before anything is told
ALIKE_MIN: Final = 3.0  # runs of the same user, name, size and limit, fresh ones; a name alone has 5.6 at most
OTHER_ENDS_MIN: Final = 0.5  # scored best by Brier's rule at half, three quarters and nine tenths of the limit
NO_CURVE: Final = "no_curve"
NOT_BY_SIZE: Final = "not_by_size"
FEW_ALIKE: Final = "few_alike"
SENTENCES: Final = {
    NO_CURVE: "No curve by size is known here: it is told from how long similar runs took, and these differ.",
    NOT_BY_SIZE: "Its run times do not follow its size: the band is the spread of its past runs, another size changes little.",
    FEW_ALIKE: "Few runs are like it: name the application, or wait for more runs.",
}


class Told(NamedTuple):
    """What similar runs tell of a job; `coverage` is the share of late of runs that kept to such bands."""

    expected: Expected
    model: Model
    coverage: float | None


def told(job: ComingJob, histories: Mapping[GroupKind, RunHistory]) -> Told | None:
    """Return what the past of a job's groups tells of it; None where the centre has seen fewer than RUNS_MIN runs.

    >>> from processors.run_distribution import EndedJob
    >>> history = RunHistory.build()
    >>> for i in range(20): history.learn(EndedJob(f"{i}", ComingJob(n=4), run_time_s=90.0 + i))
    >>> told(ComingJob(n=4), {"centre": history}).model.name, told(ComingJob(n=4), {})
    ('run-distribution', None)
    """
    centre = histories.get("centre")
    if centre is None or centre.count < RUNS_MIN:
        return None
    found = expected(job, histories)
    held = [kind for kind, history in histories.items() if history.count]
    members = tuple(
        Member(kind, six_digits(share), {"runs": float(histories[kind].count)})
        for kind, share in zip(held, found.law.shares, strict=False)  # the last share is the prior's
    )
    return Told(found, Model(NAME, members), centre.coverage)


def reliability(alike: float, why: str) -> Reliability:
    """Return the verdict on what similar runs tell. It is never `reliable`: nothing explains these times.

    >>> reliability(12.0, NO_CURVE).verdict, reliability(1.0, NO_CURVE).reasons
    ('uncertain', ('few_alike', 'no_curve'))
    """
    reasons = (why,) if alike >= ALIKE_MIN else (FEW_ALIKE, why)
    verdict = "uncertain" if alike >= ALIKE_MIN else "insufficient"
    return Reliability(verdict, reasons, tuple(SENTENCES[reason] for reason in reasons))


def end_forecast(found: Expected, elapsed_s: float, limit_s: float | None) -> EndForecast:
    """Return when a job ends that has run for `elapsed_s` and has not ended: the distribution, cut off below that.

    >>> from processors.run_distribution import EndedJob
    >>> history = RunHistory.build()
    >>> for i in range(20): history.learn(EndedJob(f"{i}", ComingJob(n=4), run_time_s=90.0 + i))
    >>> found = expected(ComingJob(n=4), {"user": history})
    >>> end_forecast(found, 0.0, None).run_time_s < 105 < end_forecast(found, 104.0, None).run_time_s
    True
    """
    law = found.law
    passed = law.below(elapsed_s)
    exceeds = _exceeds(found, passed, elapsed_s, limit_s)
    first = law.quantile(0.0)
    if elapsed_s <= first:  # nothing is cut off yet
        return EndForecast(found.run_time_s, found.low_s, max(found.high_s, found.run_time_s), exceeds)
    low, middle, high = (max(law.quantile(passed + share * (1.0 - passed)), elapsed_s) for share in found.ends)
    if limit_s is not None and found.high_s > limit_s:
        high = max(high, limit_s + OVERRUN_S)
    return EndForecast(middle, min(low, middle), max(high, middle), exceeds)


def _exceeds(found: Expected, passed: float, elapsed_s: float, limit_s: float | None) -> float | None:
    """Return the probability to reach the limit of a job that outlived the share `passed` of the runs like it.

    However long it runs, other ends are half as probable as the limit at least: many a run ends a little before it.
    """
    reaching = found.law.reaching
    if limit_s is None or reaching is None:
        return None
    if elapsed_s >= limit_s:
        return 1.0
    return max(reaching, reaching / max(1.0 - passed, (1.0 + OTHER_ENDS_MIN) * reaching))


def points(found: Sequence[tuple[float, Told]], one: Told) -> tuple[CurvePoint, ...]:
    """Return the points of sizes; `one` is what is told of size 1.

    Speed-up and efficiency are what these times amount to. Nothing is extrapolated: the extrapolation is 1.

    >>> from processors.run_distribution import EndedJob
    >>> history = RunHistory.build()
    >>> for i in range(20): history.learn(EndedJob(f"{i}", ComingJob(n=4), run_time_s=90.0 + i))
    >>> said = told(ComingJob(n=4), {"centre": history})
    >>> [(point.n, point.source) for point in points([(4.0, said)], said)]
    [(4.0, 'similar_runs')]
    """
    one_s = one.expected.run_time_s
    return tuple(
        CurvePoint(
            n=n,
            run_time_s=six_digits(said.expected.run_time_s),
            low_s=six_digits(said.expected.low_s),
            high_s=six_digits(max(said.expected.high_s, said.expected.run_time_s)),
            coverage=COVERAGE,
            coverage_measured=None if said.coverage is None else six_digits(said.coverage),
            speedup=six_digits(one_s / said.expected.run_time_s),
            efficiency=six_digits(one_s / said.expected.run_time_s / n),
            extrapolation=1.0,
            source="similar_runs",
        )
        for n, said in found
    )


def spread(said: Prediction, found: Sequence[Told], one: Told) -> Prediction:
    """Return the prediction of an application whose times do not follow its size: the spread of its past runs.

    `found` are told of the sizes of its curve, which are kept. No size is worth more than another then. The laws of its
    curve stand beside, with their errors.

    >>> SENTENCES[NOT_BY_SIZE][:42]
    'Its run times do not follow its size: the '
    """
    sizes = [point.n for point in said.curve]
    similar = points(list(zip(sizes, found, strict=True)), one)
    curve = tuple(
        msgspec.structs.replace(new, source="observed") if old.source == "observed" else new
        for old, new in zip(said.curve, similar, strict=True)
    )
    laws = (msgspec.structs.replace(law, weight=0.0, role="beside") for law in said.model.members)
    return msgspec.structs.replace(
        said,
        model=Model(NAME, (*found[0].model.members, *laws), said.model.errors),
        curve=curve,
        useful_n=UsefulSizes(),
        reliable_n=None,
        reliability=reliability(ALIKE_MIN, NOT_BY_SIZE),
    )
