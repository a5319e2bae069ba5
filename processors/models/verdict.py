"""The verdict on a prediction, with its reasons and what to do about each: evidence, judgement and advice put together."""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from processors.models import advice, reliability
from processors.models.curve import AnchoredCurve
from processors.models.patterns import Patterns
from processors.models.reliability import Evidence

Floats = NDArray[np.float64]

SUGGEST_FOR = frozenset({"insufficient", "linear", "runner_up", "far"})  # reasons that one more run may remove


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a prediction can be trusted: `verdict` is the gravest of `reasons`, or reliable where there is none.

    `advice` are sentences for people, `next_n` the size whose run would tell most (None: no size would help).

    >>> from processors.models.adept import study
    >>> study([1, 2, 4, 8], [100.0, 51.0, 26.5, 14.25]).verdict().reasons
    ('linear',)
    """

    verdict: str
    reasons: tuple[str, ...]
    advice: tuple[str, ...]
    next_n: float | None


@dataclass(frozen=True, eq=False)
class Judge:
    """Judges the predictions of one study; evidence is gathered once, on first use.

    `n` (k,) are distinct sizes, rising, `run_time_s` their times in any unit; `allowed_sizes` are those that may be
    suggested, empty for powers of two; `curves` has one per phase, or that of the favoured sizes first.

    >>> from processors.models.adept import study
    >>> study([4, 8, 16, 32], [262.0, 139.0, 78.5, 63.0]).verdict(1024).next_n
    64.0
    """

    n: Floats
    run_time_s: Floats
    noise: float
    allowed_sizes: tuple[float, ...]
    patterns: Patterns
    curves: tuple[AnchoredCurve, ...]

    def verdict(self, target: float | None, curve: int) -> Verdict:
        """Return the verdict on `target`, which the curve of that number answers; None: on twice the largest size."""
        evidence = self._evidence[0 if self.patterns.special is not None else curve]
        reasons = reliability.judge(evidence, target)
        if not reasons and self.patterns.phases is not None and (target is None or target > self.n[-1]):
            reasons = ("far",)  # after a step in the past the next one may come with any size
        next_n = self._next_n(reasons, target) if SUGGEST_FOR.intersection(reasons) else None
        facts = _facts(evidence, reasons, target, next_n)
        sentences = tuple(advice.sentence(reason, facts) for reason in reasons)
        return Verdict(reasons[0] if reasons else "reliable", reasons, sentences + self.pattern_advice, next_n)

    @cached_property
    def _evidence(self) -> tuple[Evidence, ...]:
        """What can be said about each curve; whether it slows down is judged on all sizes that are in line."""
        kept = self.patterns.kept
        fastest = reliability.fastest_before_slowdown(self.n[kept], self.run_time_s[kept], self.noise)
        judged = self.curves if self.patterns.special is None else self.curves[:1]
        gathered = (reliability.gather(*self._points(curve), noise=self.noise) for curve in judged)
        return tuple(replace(evidence, fastest_n=fastest) for evidence in gathered)

    def _points(self, curve: AnchoredCurve) -> tuple[Floats, Floats]:
        if curve.n.size == self.n.size and self.patterns.kept.all():
            return self.n, self.run_time_s
        inside = np.isin(self.n, curve.n) & self.patterns.kept
        return self.n[inside], self.run_time_s[inside]

    def _next_n(self, reasons: tuple[str, ...], target: float | None) -> float | None:
        candidates, towards = self._candidates, None
        if "far" in reasons:  # only a run on the target's side brings it nearer
            smallest = target is not None and target < self.n[0]
            towards = candidates < self.n[0] if smallest else candidates > self.n[-1]
            candidates = candidates[towards]
        if candidates.size <= 1:
            return float(candidates[0]) if candidates.size else None
        return advice.most_informative(candidates, self._sd_ln if towards is None else self._sd_ln[towards])

    @cached_property
    def _candidates(self) -> Floats:
        """Sizes that could be run next."""
        return advice.candidate_sizes(self.n, self.allowed_sizes)

    @cached_property
    def _sd_ln(self) -> Floats:
        """The standard deviation of ln T at each candidate."""
        return self.curves[0 if self.patterns.special is not None else -1].sd_ln(self._candidates)

    @cached_property
    def pattern_advice(self) -> tuple[str, ...]:
        """Sentences about what is unusual, whatever the verdict."""
        special, phases = self.patterns.special, self.patterns.phases
        sentences = [advice.anomaly_sentence(found.n, found.deviation) for found in self.patterns.anomalies]
        if special is not None:
            sentences.append(advice.special_sentence(special.name, special.slowdown))
        if phases is not None:
            pairs = zip(phases.phases[:-1], phases.phases[1:], strict=True)
            sentences += [advice.jump_sentence(before.last_n, after.first_n, after.jump) for before, after in pairs]
        return tuple(sentences)


def _facts(evidence: Evidence, reasons: tuple[str, ...], target: float | None, next_n: float | None) -> advice.Facts:
    reference = reliability.REACH * evidence.largest_n if target is None else target
    return advice.Facts(
        count=evidence.count,
        smallest_n=evidence.smallest_n,
        largest_n=evidence.largest_n,
        rms=evidence.rms,
        worst_n=evidence.worst_n,
        superlinear=evidence.superlinear or (0.0, 0.0),
        fastest_n=evidence.fastest_n or 0.0,
        disagreement=reliability.disagreement(evidence, reference) if "runner_up" in reasons else 0.0,
        reference_n=reference,
        target=target,
        next_n=next_n,
    )
