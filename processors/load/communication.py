"""What part of a run waits for the network: learned from what runs met, and used where predictions with it were better.

    T / T(n) = (1 - share) (load / usual load)^follows  +  share (usual bandwidth / bandwidth)^persistence

Load and bandwidth are those of the hosts while a run was there; each is 1 where it was as usual. Linear in both stretches,
so the share is the slope over that of the network, at a given load. It is believed as far as runs support it: where
bandwidth never varies, or where run times scatter more than it explains, it stays at what is known of the centre, and there
at none.

Source: the equation is that of Schopf, Berman (2001); the share's prior is a normal one, which makes its slope that of a
ridge regression.
"""

import math
from typing import Final, NamedTuple

import msgspec

from processors.load.usual import FOLLOW_PRIOR, FORGETTING, LN_MAX, RUNS_MIN, Followed, Usual, digits

SHARE_MIN: Final = 0.02  # smaller shares count as 0
COMPUTES_MIN: Final = 0.05  # least computing part of a run for which the load of processors counts
SHARE_DEVIATION: Final = 0.2  # of the shares of applications from that of their centre
WAIT_PRIOR: Final = 0.1  # sum of squares of the stretch by the network that says nothing of the share
NOISE: Final = 0.1
NOISE_PRIOR: Final = 5.0  # runs that scatter so, by a tenth
SCORE_MAX: Final = 1.0
EARNED: Final = 0.99  # ratio of the scores with and without the network; a smaller gain is chance
STRETCH_MAX: Final = math.exp(2 * LN_MAX)  # limit of a stretch


class CommunicationShare(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """Means over runs of the stretch by load, the stretch by the network and run / curve, and sums of their products.

    `weight` is the sum of the weights of runs: newer runs weigh more, and long ones less, because run times scatter in proportion.
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
        """Return the part of a run that waits for the network, from 0 to 1; `prior` until runs decide."""
        by_load = self.ll + FOLLOW_PRIOR
        slope = (self.lr + FOLLOW_PRIOR) / by_load  # of run times over load alone
        varies = max(self.ww - self.lw * self.lw / by_load, 0.0)
        follows = self.wr - self.lw * slope
        left = self.rr - 2 * slope * self.lr + slope * slope * self.ll
        left -= follows * follows / varies if varies > 0 else 0.0
        noise = (max(left, 0.0) + NOISE_PRIOR * NOISE * NOISE) / (self.weight + NOISE_PRIOR)
        doubt = WAIT_PRIOR + noise / SHARE_DEVIATION**2
        return min(max(prior + (follows - varies * prior) / (varies + doubt), 0.0), 1.0)


class NetworkEffect(NamedTuple):
    """How a run time follows the network of its hosts: `share` of it waits for a usual bandwidth of `bandwidth` (B/s).

    `persistence` is the power with which an unusual bandwidth before the start persists in the run: 1 if all of it lasts.
    """

    share: float
    bandwidth: float
    persistence: float = 1.0

    def stretched(self, load: float, bandwidth: float) -> float:
        """Return run / curve, given the stretch `load` by processors alone and the present `bandwidth` (B/s)."""
        return (1 - self.share) * load + self.share * math.pow(self.bandwidth / bandwidth, self.persistence)


class NetworkRecord(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """What runs showed of the bandwidth in one view: the usual value, its persistence, and scores with and without the network.

    `usual` is of 1 / bandwidth in s/B. The fading sums are over x = ln(load / usual), z the same for 1 / bandwidth in this view, and z'
    for the bandwidth during the run. `runs` counts those predicted with and without the network; `score` and `plain_score` are
    fading sums, lower is better.
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
        """The share of an unusual bandwidth before the start that persists in the run, as a power from 0 to 1."""
        return min(max((self.zm + FOLLOW_PRIOR) / (self.zz + FOLLOW_PRIOR), 0.0), 1.0)

    def bandwidth(self, n: float) -> float | None:
        """Return the usual bandwidth (B/s) at a size; None while unknown."""
        usual = self.usual.at(n, least=0.0)
        return 1 / usual if usual else None

    def met(self, n: float, bandwidth: float | None) -> "NetworkRecord":
        """Return the record with the bandwidth of one more run."""
        if not bandwidth:
            return self
        return msgspec.structs.replace(self, usual=self.usual.met(n, 1 / bandwidth))

    def ran(self, x: float, z: float, met: float | None) -> "NetworkRecord":
        """Return the record with one more run; `met` is z', None while unknown."""
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
        """Return the record with the scores of one more run, with the network and without.

        A score is cut at 1, the length of the run itself: a wide band of the curve would otherwise outweigh all others.
        """
        return msgspec.structs.replace(
            self,
            runs=self.runs + 1,
            score=digits(FORGETTING * self.score + min(score, SCORE_MAX)),
            plain_score=digits(FORGETTING * self.plain_score + min(plain_score, SCORE_MAX)),
        )

    def network(self, share: float, n: float) -> NetworkEffect | None:
        """Return how run times of a size follow the network; None without a usual bandwidth, or with a negligible share."""
        bandwidth = self.bandwidth(n)
        return NetworkEffect(share, bandwidth, self.persistence) if bandwidth and share >= SHARE_MIN else None

    def follows(self, followed: Followed, prior: float, network: NetworkEffect) -> float:
        """Return how closely the computing part of runs follows the load, which may come with network load."""
        computes = max(1 - network.share, COMPUTES_MIN)
        return followed.share(prior, computes, network.share * network.persistence * self.xz)
