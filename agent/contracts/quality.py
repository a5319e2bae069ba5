"""How good what was said has been, measured: every figure is of something said before its outcome was learned."""

import msgspec

from agent.contracts.horizons import Horizon


class HorizonQuality(msgspec.Struct, frozen=True):
    """How good predictions at one horizon have been: runs scored, median relative error, share inside the 90 % band."""

    horizon: Horizon
    scored: int
    median_error: float
    coverage_90: float


class Quality(msgspec.Struct, frozen=True):
    """How good the published predictions of this application have been: scored before learning.

    `horizons` tells it apart by how far the size lay from those known then; only horizons with runs are there.
    """

    scored: int = 0
    median_error: float | None = None
    coverage_90: float | None = None
    bias: float | None = None
    horizons: tuple[HorizonQuality, ...] = ()


class PowerQuality(msgspec.Struct, frozen=True, kw_only=True):
    """How good predictions of a run's power have been: scored before learning, as `Quality`.

    `measured` is the share of the runs' host-minutes with a power sensor, `estimated` that of those estimated from counters.
    """

    scored: int = 0
    median_error: float | None = None
    coverage_90: float | None = None
    measured: float = 1.0
    estimated: float = 0.0


class Explained(msgspec.Struct, frozen=True):
    """A counter that explains a target: its coefficient in the target's unit per rate, the same in deviations, and rho.

    rho is its rank correlation with the target.
    """

    counter: str
    coefficient: float
    standardised: float
    rho: float


class ProfileModel(msgspec.Struct, frozen=True, kw_only=True):
    """What profiles of runs say of one target (`run_time_s`, or `system_power_w`, `cpu_power_w`, ... per host).

    `model` is the one that answers from counters, `scored` the runs that were predicted before they were learned, with the
    median of their relative errors and the share inside the 90 % band. `explained` are the counters of the linear model.
    """

    target: str
    model: str
    runs: int
    scored: int
    median_error: float | None = None
    coverage_90: float | None = None
    explained: tuple[Explained, ...] = ()


class FeatureModel(msgspec.Struct, frozen=True, kw_only=True):
    """What features tell of the run times of an application: `attributes` of its jobs, or the `communication` of its runs.

    `model` is the one that answers of those that are tried (of communication: the set of features that is believed),
    `weight` its share where a request or a job tells the features. `scored` runs were compared with it before they were
    learned: `error` is the mean of |ln(observed / predicted)|, `curve_error` and `combined_error` those of the curve and of
    both together on the same runs; `coverage_90` the share of them in the band of both. Of the newest `ranked` of them,
    `rcc` is the share of pairs that are ordered as predicted (of a tie the first counts as above), `rcc_symmetric` the same
    with ties as half, `r_squared` the share of the variance that is explained. `importances` are the shares of features in
    what trees explain.
    """

    features: str
    model: str
    runs: int
    weight: float
    scored: int
    error: float | None = None
    curve_error: float | None = None
    combined_error: float | None = None
    coverage_90: float | None = None
    ranked: int = 0
    rcc: float | None = None
    rcc_symmetric: float | None = None
    r_squared: float | None = None
    importances: dict[str, float] = {}
