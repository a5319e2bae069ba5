"""When will a running job end: the published band as a log-normal law, given that the job still runs."""

import math
from statistics import NormalDist

import msgspec

from processors.models.log_normal import Z95

_NORMAL = NormalDist()
_SURVIVAL_MIN = 1e-9
_SPREAD_MAX = 50.0  # of ln T: beyond it nothing is known, and the numbers of the machine end


class EndForecast(msgspec.Struct, frozen=True):
    """Run time in seconds with its 90 % band, and the probability that it exceeds the time limit."""

    run_time_s: float
    low_s: float
    high_s: float
    exceeds: float | None


def forecast(run_time_s: float, low_s: float, high_s: float, elapsed_s: float, limit_s: float | None) -> EndForecast:
    """Return the run time of a job that has run for `elapsed_s` and has not ended.

    The law is ln T ~ N(ln run_time_s, s^2) with s from the width of the 90 % band, cut off below the elapsed time.

    >>> forecast(100, 80, 125, elapsed_s=0, limit_s=None).run_time_s
    100.0
    >>> round(forecast(100, 80, 125, elapsed_s=130, limit_s=140).run_time_s)
    135
    """
    spread = min(max((math.log(high_s) - math.log(low_s)) / (2 * Z95), 1e-6), _SPREAD_MAX)
    centre = math.log(run_time_s)

    def below(time_s: float) -> float:
        return _NORMAL.cdf((math.log(time_s) - centre) / spread) if time_s > 0 else 0.0

    passed = below(elapsed_s)
    alive = max(1.0 - passed, _SURVIVAL_MIN)

    def quantile(share: float) -> float:
        level = min(max(passed + share * alive, 1e-12), 1 - 1e-12)
        return max(math.exp(centre + spread * _NORMAL.inv_cdf(level)), elapsed_s)

    exceeds = None if limit_s is None else min(max((1.0 - below(limit_s)) / alive, 0.0), 1.0)
    point = run_time_s if passed < 1e-6 else quantile(0.5)  # nothing is cut off yet
    return EndForecast(float(point), min(quantile(0.05), point), max(quantile(0.95), point), exceeds)


def noteworthy(old: tuple[float, float, float] | None, new: EndForecast, tolerance: float = 0.02) -> bool:
    """Tell whether a forecast differs enough from the last one (run time, low, high) to be published.

    >>> noteworthy((100, 80, 125), EndForecast(100, 80, 125, None)), noteworthy(None, EndForecast(1, 1, 1, None))
    (False, True)
    """
    if old is None:
        return True
    pairs = zip(old, (new.run_time_s, new.low_s, new.high_s), strict=True)
    return any(abs(math.log(b / a)) > tolerance for a, b in pairs)
