"""Bands are as wide as the evidence of their own horizon: repeats of sizes that were run teach nothing of sizes far out."""

import math

import numpy as np
import pytest

from tests.kit.scenario import DAY_MS, Scenario

EVERY_MS = 900_000


def ln_widths(repeats: int) -> list[float]:
    """Return ln of high over low at 2, 4 and 8 times the largest of four sizes that were run so often, with noise of 1 %."""
    random, centre, runs = np.random.default_rng(0), Scenario(), 0
    for n in (1, 2, 4, 8) * repeats:
        runs += 1
        centre.at_ms(DAY_MS + runs * EVERY_MS)
        centre.ran(f"r{runs}", "app", n, (100.0 / n + 1.0) * math.exp(random.normal(0.0, 0.01)))
    centre.at_ms(DAY_MS + (runs + 4) * EVERY_MS)
    points = centre.asks("q", 16.0, 32.0, 64.0, application="app")["points"]
    return [math.log(point["high_s"] / point["low_s"]) for point in points]


def test_repeats_do_not_narrow_the_band_far_out() -> None:
    assert ln_widths(10) == pytest.approx(ln_widths(1), rel=0.15)
