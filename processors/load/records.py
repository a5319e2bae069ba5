"""Statistics of past runs under load: the usual load of their hosts, and how closely run times follow load and network.

A curve is measured under some load, and larger runs have a higher load, because the slowest of many hosts is slower. The load
in the minutes before a start predicts a short run under steady load well. This load predicts nothing if the load changes
quickly, or if a job has its hosts alone. The model learns from runs which case holds; until then, run times are assumed to
follow the load fully.

    T / T(n) = (1 - share) (load / usual load)^follows  +  share (usual bandwidth / bandwidth)^persistence

Load and bandwidth are those of the hosts during a run. The equation is linear in both stretches, so `share` is the slope of run
times over the stretch by the network, at a given load. If the bandwidth never varies, or if run times scatter more than the
bandwidth explains, the share of an application stays at the share of the centre, and the share of the centre stays at 0.

Source: Schopf, Berman (2001). The share has a normal prior, which makes its slope that of a ridge regression.
"""

import math
from typing import Final, NamedTuple

import msgspec

from processors.contracts.load import LoadSource

FORGETTING: Final = 0.98  # weight of the previous runs at each new run: about the newest fifty count
RUNS_MIN: Final = 12  # scored runs before an application's own figures are used
USUAL_MIN: Final = 3  # fewest runs with a known load for a usual load
SLOPE_PRIOR: Final = 0.05  # prior variance of ln n for the growth of load with the size
LN_MAX: Final = 1.5  # largest counted distance in ln
FOLLOW_PRIOR: Final = 0.1  # prior sum of squares of ln load, for the slope of ln run time over ln load
SPREAD_PRIOR: Final = 5.0  # weight of the prior scatter, in runs
WIDTH_MIN: Final = 0.2
WIDTH_MAX: Final = 1.25  # not larger, because the band of the curve widens by itself if runs leave the band
OFF_MAX: Final = 2.5  # largest counted error, in standard deviations
NORMAL_MEAN: Final = math.sqrt(2 / math.pi)  # mean absolute deviation of a normal distribution, in standard deviations


def digits(value: float) -> float:
    """Return a number rounded to five significant digits, as in the stored form."""
    return float(f"{value:.5g}")


class Usual(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The loads of past runs, from which the usual load at a size follows. Newer runs weigh more.

    `ln_n` and `ln_load` are means of ln n and ln load, `nn` is the variance of ln n, `nl` the covariance of ln n and ln load.
    """

    runs: int = 0
    ln_n: float = 0.0
    ln_load: float = 0.0
    nn: float = 0.0
    nl: float = 0.0

    def met(self, n: float, load: float | None) -> "Usual":
        if load is None or not 0 < load < math.inf:
            return self
        runs = self.runs + 1
        weight = max(1 / runs, 1 - FORGETTING)
        off_n, off_load = math.log(n) - self.ln_n, math.log(load) - self.ln_load
        return Usual(
            runs,
            digits(self.ln_n + weight * off_n),
            digits(self.ln_load + weight * off_load),
            digits((1 - weight) * (self.nn + weight * off_n * off_n)),
            digits((1 - weight) * (self.nl + weight * off_n * off_load)),
        )

    def at(self, n: float, least: float = 1.0) -> float | None:
        """Return the usual load at size `n`, at least `least`; None for too few runs."""
        if self.runs < USUAL_MIN:
            return None
        slope = min(max(self.nl / (self.nn + SLOPE_PRIOR), 0.0), 1.0)
        off_n = min(max(math.log(n) - self.ln_n, -LN_MAX), LN_MAX)
        return max(math.exp(self.ln_load + slope * off_n), least)


class Followed(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """How closely run times followed the load, as exponentially weighted sums over `runs` runs.

    `xx` and `xy` are the sums of x^2 and x y, with x = ln(load / usual load) and y = ln(run time / curve). `off` is the sum of
    |ln(run time / prediction)|, each in standard deviations of that prediction.
    """

    runs: float = 0.0
    xx: float = 0.0
    xy: float = 0.0
    off: float = 0.0

    def ran(self, x: float, y: float, distance: float) -> "Followed":
        x, y = (min(max(value, -LN_MAX), LN_MAX) for value in (x, y))
        sums = (self.runs, 1.0), (self.xx, x * x), (self.xy, x * y), (self.off, min(distance, OFF_MAX))
        return Followed(*(digits(FORGETTING * old + new) for old, new in sums))

    def share(self, prior: float, computes: float = 1.0, besides: float = 0.0) -> float:
        """Return how closely run times follow the load, from 0 to 1; with few runs, close to `prior`.

        `computes` is the share of the run time that does not wait for the network; `besides` is the part of the sum of x y that the
        network causes.
        """
        follows = (self.xy - besides + FOLLOW_PRIOR * prior * computes) / (computes * (self.xx + FOLLOW_PRIOR))
        return min(max(follows, 0.0), 1.0)

    def width(self, prior: float) -> float:
        """Return the factor for the spread of predictions; with few runs, close to `prior`."""
        weighted_runs = NORMAL_MEAN * (self.runs + SPREAD_PRIOR)
        return min(max((self.off + SPREAD_PRIOR * NORMAL_MEAN * prior) / weighted_runs, WIDTH_MIN), WIDTH_MAX)


SHARE_MIN: Final = 0.02  # smaller shares count as 0
COMPUTES_MIN: Final = 0.05  # least computing part of a run for which the load of processors counts
SHARE_DEVIATION: Final = 0.2  # standard deviation of the shares of applications around that of their centre
WAIT_PRIOR: Final = 0.1  # prior sum of squares of the stretch by the network, for the share (ridge)
NOISE: Final = 0.1  # prior scatter of run times
NOISE_PRIOR: Final = 5.0  # weight of the prior NOISE, in runs
SCORE_MAX: Final = 1.0
EARNED: Final = 0.99  # largest ratio of the scores with and without the network; a smaller gain counts as chance
STRETCH_MAX: Final = math.exp(2 * LN_MAX)  # largest counted stretch


class CommunicationShare(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Statistics of three factors over runs: the factor of the load, the factor of the network, and run time / curve.

    `load`, `wait` and `run` are weighted means; `ll` to `rr` are weighted sums of products of deviations from these means.
    `weight` is the sum of the weights: newer runs weigh more, and long runs less, because run times scatter in proportion to their
    length.
    """

    weight: float = 0.0
    load: float = 0.0
    wait: float = 0.0
    run: float = 0.0
    ll: float = 0.0
    lw: float = 0.0
    ww: float = 0.0
    lr: float = 0.0
    wr: float = 0.0
    rr: float = 0.0

    def ran(self, load: float, wait: float, run: float) -> "CommunicationShare":
        load, wait, run = (min(max(value, 1 / STRETCH_MAX), STRETCH_MAX) for value in (load, wait, run))
        run_weight, before = 1 / (run * run), FORGETTING * self.weight
        weight = before + run_weight
        off_load, off_wait, off_run = load - self.load, wait - self.wait, run - self.run
        part, scale = run_weight / weight, run_weight * before / weight
        means = (self.load + part * off_load, self.wait + part * off_wait, self.run + part * off_run)
        products = (off_load**2, off_load * off_wait, off_wait**2, off_load * off_run, off_wait * off_run, off_run**2)
        sums = (self.ll, self.lw, self.ww, self.lr, self.wr, self.rr)
        faded = (FORGETTING * old + scale * new for old, new in zip(sums, products, strict=True))
        return CommunicationShare(*(digits(value) for value in (weight, *means, *faded)))

    def share(self, prior: float = 0.0) -> float:
        """Return the share of the run time that waits for the network, from 0 to 1; with few runs, close to `prior`."""
        by_load = self.ll + FOLLOW_PRIOR
        slope = (self.lr + FOLLOW_PRIOR) / by_load  # slope of run times over load alone
        varies = max(self.ww - self.lw * self.lw / by_load, 0.0)
        follows = self.wr - self.lw * slope
        left = self.rr - 2 * slope * self.lr + slope * slope * self.ll
        left -= follows * follows / varies if varies > 0 else 0.0
        noise = (max(left, 0.0) + NOISE_PRIOR * NOISE * NOISE) / (self.weight + NOISE_PRIOR)
        doubt = WAIT_PRIOR + noise / SHARE_DEVIATION**2
        return min(max(prior + (follows - varies * prior) / (varies + doubt), 0.0), 1.0)


class NetworkEffect(NamedTuple):
    """The effect of the network on a run time: the part `share` of the run time waits for the network.

    `bandwidth` is the usual bandwidth in B/s. `persistence` is the exponent for a bandwidth measured before the start: 1 if the
    deviation from the usual bandwidth lasts through the run, 0 if it does not.
    """

    share: float
    bandwidth: float
    persistence: float = 1.0

    def stretched(self, load: float, bandwidth: float) -> float:
        """Return run time / curve, given the factor `load` of the processors alone and the `bandwidth` of the hosts in B/s."""
        return (1 - self.share) * load + self.share * math.pow(self.bandwidth / bandwidth, self.persistence)


class NetworkRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Statistics of the bandwidth in one view, and the scores of predictions with and without the network.

    `usual` describes 1 / bandwidth in s/B. `xz`, `zz` and `zm` are exponentially weighted sums of products: x is ln(load / usual
    load), z is ln(usual bandwidth / bandwidth) in this view, m the same as z during the run. `runs` counts the runs predicted both
    with and without the network; `score` and `plain_score` are weighted sums of the two scores, lower is better.
    """

    usual: Usual = Usual()
    xz: float = 0.0
    zz: float = 0.0
    zm: float = 0.0
    runs: int = 0
    score: float = 0.0
    plain_score: float = 0.0

    @property
    def earned(self) -> bool:
        """Whether enough predictions with the network were better than those without."""
        return self.runs >= RUNS_MIN and self.score < EARNED * self.plain_score

    @property
    def persistence(self) -> float:
        """The share, from 0 to 1, of an unusual bandwidth before the start (in ln) that remains during the run."""
        return min(max((self.zm + FOLLOW_PRIOR) / (self.zz + FOLLOW_PRIOR), 0.0), 1.0)

    def bandwidth(self, n: float) -> float | None:
        """Return the usual bandwidth (B/s) at a size; None while unknown."""
        usual = self.usual.at(n, least=0.0)
        return 1 / usual if usual else None

    def met(self, n: float, bandwidth: float | None) -> "NetworkRecord":
        if not bandwidth:
            return self
        return msgspec.structs.replace(self, usual=self.usual.met(n, 1 / bandwidth))

    def ran(self, x: float, z: float, met: float | None) -> "NetworkRecord":
        """Return the record with one more run: `x` is ln(load / usual load), `z` is ln(usual bandwidth / bandwidth) in this view.

        `met` is the same as `z`, but during the run; None if unknown.
        """
        x, z = (min(max(value, -LN_MAX), LN_MAX) for value in (x, z))
        zz, zm = (z * z, z * min(max(met, -LN_MAX), LN_MAX)) if met is not None else (0.0, 0.0)
        keep = FORGETTING if met is not None else 1.0
        return msgspec.structs.replace(
            self,
            xz=digits(FORGETTING * self.xz + x * z),
            zz=digits(keep * self.zz + zz),
            zm=digits(keep * self.zm + zm),
        )

    def scored(self, score: float, plain_score: float) -> "NetworkRecord":
        """Return the record with one more run, scored with the network (`score`) and without (`plain_score`).

        Scores count at most SCORE_MAX, because one run with a very wide band would otherwise outweigh all others.
        """
        return msgspec.structs.replace(
            self,
            runs=self.runs + 1,
            score=digits(FORGETTING * self.score + min(score, SCORE_MAX)),
            plain_score=digits(FORGETTING * self.plain_score + min(plain_score, SCORE_MAX)),
        )

    def network(self, share: float, n: float) -> NetworkEffect | None:
        """Return the effect of the network at size `n`; None without a usual bandwidth, or with a negligible share."""
        bandwidth = self.bandwidth(n)
        return NetworkEffect(share, bandwidth, self.persistence) if bandwidth and share >= SHARE_MIN else None

    def follows(self, followed: Followed, prior: float, network: NetworkEffect) -> float:
        """Return how closely the part of a run that does not wait for the network follows the load.

        A high load often comes with a busy network; the effect of the network is subtracted first.
        """
        computes = max(1 - network.share, COMPUTES_MIN)
        return followed.share(prior, computes, network.share * network.persistence * self.xz)


class ViewRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The statistics of past runs for one view of their load.

    In a view by forecasts, `runs` counts the runs predicted from both forecasts and windows; `crps` and `window_crps` are the
    exponentially weighted sums of the CRPS of ln T of these two predictions.
    """

    usual: Usual = Usual()
    followed: Followed = Followed()
    network: NetworkRecord = NetworkRecord()
    runs: int = 0
    crps: float = 0.0
    window_crps: float = 0.0

    @property
    def better(self) -> LoadSource | None:
        """The source of load with the better predictions; None for too few runs."""
        if self.runs < RUNS_MIN:
            return None
        return "forecast" if self.crps < EARNED * self.window_crps else "window"
