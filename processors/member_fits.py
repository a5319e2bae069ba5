"""The laws of a publication: those of the combination as it has them, the classic ones fitted when there is news for them."""

from collections.abc import Mapping
from typing import Final

from processors.members import Fits
from processors.models import battery_fit
from processors.models.combination.evidence import LAWS
from processors.outlook import Outlook

NOTHING: Final[tuple[tuple[float, ...], ...]] = ((),) * len(LAWS)
GROWTH: Final = 2  # laws beside the combination are fitted anew with a new size, or twice the runs


def fits(outlook: Outlook, runs: int, before: Fits | None = None, least_s: Mapping[float, float] | None = None) -> Fits:
    """Return the laws of an application as it looks now; `before` are those of the last publication.

    `least_s` has the least run time at a size, where its repeats differ.

    >>> from processors.models.adept import study
    >>> found = fits(Outlook(study([4, 8, 16, 32], [262.0, 139.0, 78.5, 63.0]), None), runs=4)
    >>> found.n_max, [len(own) for own in found.parameters]
    (32.0, [0, 0, 0, 0, 0, 0, 0, 3, 2, 3, 2, 3, 5, 6, 3])
    """
    found = outlook.combination.evidence if outlook.combination is not None else None
    study = outlook.study
    n = found.curve.n if found is not None else tuple(study.n.tolist())
    run_time_s = found.curve.median_s if found is not None else tuple(study.run_time_s.tolist())
    laws = battery_fit.combined(found) if found is not None else NOTHING
    if before is not None and _no_news(before, n, runs):
        beside, at, fitted_to = before.parameters[len(LAWS) :], before.knots, before.runs
    else:
        at, fitted_to = battery_fit.rounded(*battery_fit.knots(n)), runs
        least = tuple((least_s or {}).get(size, time_s) for size, time_s in zip(n, run_time_s, strict=True))
        beside = battery_fit.beside(n, run_time_s, at, study, least)
    weights = tuple(round(weight, 4) for weight in outlook.weights.values()) if found is not None else ()
    return Fits(n[0], n[-1], run_time_s[-1], len(n), fitted_to, (*laws, *beside), at, weights)


def _no_news(before: Fits, n: tuple[float, ...], runs: int) -> bool:
    return (before.sizes, before.n_min, before.n_max) == (len(n), n[0], n[-1]) and runs < GROWTH * before.runs
