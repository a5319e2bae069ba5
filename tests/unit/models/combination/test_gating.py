"""Forecasts of one curve against numbers computed independently: losses, weights, offsets."""

from collections.abc import Sequence

import numpy as np
import pytest

from processors.models.combination.combine import summary
from processors.models.combination.evidence import (
    NO_RELATED,
    Curve,
    LawGate,
    Related,
    RelatedCurve,
    RelatedLosses,
    evidence,
    logits,
    related_losses,
    weights,
)
from processors.models.combination.replay import replay, rows
from tests.kit.combination import elasticities

CURVE = Curve("a", "s", (4.0, 8.0, 16.0, 32.0), (262.0, 139.0, 78.5, 63.0))
NOTHING_KNOWN = RelatedLosses(np.zeros((1, 9)), np.zeros(1))
LAST = np.array([2])
NO_WEIGHT = -1e9
# coefficients for which the forecasts of this curve were computed independently, of the first seven laws alone
GATE = LawGate(
    prior=(0.013, 0.845, -0.412, -0.340, 0.300, -0.185, -0.220, NO_WEIGHT, NO_WEIGHT),
    curvature=(-0.091, 0.229, 0.005, -0.039, -0.008, -0.066, -0.031, 0.0, 0.0),
    own=0.526,
    last=0.383,
    related=1.583,
)


def known(related_curves: Sequence[RelatedCurve], key: str, system: str, sizes: int = 9) -> RelatedLosses:
    return related_losses(Related(tuple(related_curves)), key, system, np.array([sizes]))


def test_losses_of_each_forecast_of_the_next_size() -> None:
    found = evidence(CURVE)
    assert found.losses[0] == pytest.approx([0.214, 2.030, 1.042, 0.214, 0.484, 1.424, 0.214, 4, 4], abs=6e-4)
    assert found.losses[1] == pytest.approx([4, 4, 4, 4, 3.143, 1.435, 4, 3.666, 3.666], abs=6e-4)
    assert found.own[-1, :7] == pytest.approx([1.537, 2.008, 1.752, 1.537, 1.290, 0.900, 1.537], abs=6e-4)
    assert found.last[-1].tolist() == found.losses[1].tolist()


def test_laws_at_twice_the_largest_size() -> None:
    at_64 = np.exp(evidence(CURVE).members.ln_run_times(np.array([2.0]))[-1, :, 0]) * 63.0
    assert at_64 == pytest.approx([74.927, 31.500, 50.561, 53.314, 63.819, 78.436, 48.893, 63, 63], rel=1e-4)


def test_the_flat_law_stays_and_the_rising_one_goes_on_only_where_times_rose() -> None:
    falls, rises = (evidence(Curve("a", "s", (1.0, 2.0, 4.0), (100.0, 60.0, last))) for last in (40.0, 90.0))
    later = [found.members.ln_run_times(np.array([4.0]))[-1, 7:, 0] for found in (falls, rises)]
    assert later[0].tolist() == [0.0, 0.0]
    assert later[1] == pytest.approx([0.0, 2.0 * np.log(1.5)])


def test_weights_and_forecasts_without_offsets() -> None:
    found = evidence(CURVE)
    shares = weights(logits(GATE, found, LAST, NOTHING_KNOWN)[0])
    assert shares[:7] == pytest.approx([0.0848, 0.2475, 0.0573, 0.0645, 0.2027, 0.2698, 0.0736], abs=6e-5)
    targets = np.array([1.5, 2.0, 4.0])
    elasticity = elasticities(found, targets) @ shares
    assert elasticity[1] == pytest.approx(-0.19622, abs=1e-5)
    assert 63.0 * targets**elasticity == pytest.approx([56.670, 54.989, 56.402], rel=1e-4)


def test_offsets_learned_from_the_curve_itself() -> None:
    learned = replay([rows(GATE, evidence(CURVE), NO_RELATED)]).offsets
    assert learned[:7] == pytest.approx([0.0008, -0.0263, -0.0045, 0.0008, 0.0142, 0.0142, 0.0008], abs=6e-5)
    shares = weights(logits(GATE, evidence(CURVE), LAST, NOTHING_KNOWN)[0] + np.array(learned))
    elasticity = elasticities(evidence(CURVE), np.array([1.5, 2.0])) @ shares
    assert 63.0 * np.array([1.5, 2.0]) ** elasticity == pytest.approx([56.834, 55.287], rel=1e-4)


def test_two_sizes_have_no_record_yet() -> None:
    found = evidence(CURVE._replace(n=CURVE.n[:2], median_s=CURVE.median_s[:2]))
    assert not found.own.any()
    assert not found.last.any()
    assert found.losses.size == 0


def test_a_curve_is_not_its_own_related_curve() -> None:
    reported = summary(evidence(CURVE))
    assert not known([reported], "a", "s").losses.any()
    assert known([reported], "a", "s").doubt.tolist() == [1.0]
    assert known([reported], "b", "s").losses[0] == pytest.approx(np.mean(reported.losses, axis=0) / 3)


def test_a_related_curve_elsewhere_weighs_less() -> None:
    reported = RelatedCurve("b", "there", ((3.0,) * 9,))
    assert known([reported], "a", "here").losses[0] == pytest.approx([0.6] * 9)


def test_a_forecast_in_hindsight_knows_no_more_of_related_curves_than_one_made_then() -> None:
    reported = RelatedCurve("b", "s", ((3.0,) * 9, (1.0,) * 9, (0.5,) * 9))
    of_first = [known([reported], "a", "s", sizes).losses[0, 0] for sizes in (2, 3, 4, 5, 6)]
    assert of_first == pytest.approx([0.0, 1.0, 2 / 3, 0.25, 0.25])


def test_the_order_of_curves_changes_no_bit() -> None:
    rng = np.random.default_rng(5)
    curves = [
        Curve(f"c{i}", "s", tuple(2.0 ** np.arange(6)), tuple(100 / 2.0 ** np.arange(6) * rng.lognormal(0, 0.1, 6)))
        for i in range(5)
    ]
    made = [rows(GATE, evidence(curve), NO_RELATED) for curve in curves]
    assert replay(made).offsets == replay(made[::-1]).offsets
