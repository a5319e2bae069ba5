"""Two things are said of how far to trust an application: among the sizes that were run, and beyond them."""

from typing import Any

import pytest

from processors.contracts.outputs import HorizonQuality, Quality, Range, Reliability, UsefulSizes
from sinks.web.views.overview import Trust, inside_error, trust_of
from tests.kit.messages import curve_point, prediction

UNMEASURED: dict[str, Any] = {"quality": Quality()}


def test_a_card_has_the_measured_error_inside_and_what_is_beyond() -> None:
    measured = Quality(scored=30, horizons=(HorizonQuality("inside", 30, 0.011, 0.93),))
    entry = prediction(quality=measured, reliability=Reliability("uncertain"))
    assert trust_of(entry) == Trust("good, 1.1 %", "unknown", inside_good=True, beyond_good=False)


def test_before_runs_were_scored_the_bands_give_the_error() -> None:
    entry = prediction(curve=(curve_point(1, 100.0), curve_point(128, 5.0, low_s=0.1, high_s=99.0)), **UNMEASURED)
    assert inside_error(entry) == pytest.approx(0.042, abs=0.001), "what lies beyond the data has no say in it"
    assert trust_of(entry).inside == "good, 4.2 %"
    assert trust_of(prediction(curve=(), **UNMEASURED)).inside == "unknown"


def test_a_rough_inside_is_reported_as_that() -> None:
    entry = prediction(curve=(curve_point(1, 100.0, low_s=40.0, high_s=250.0),), **UNMEASURED)
    assert trust_of(entry).inside.startswith("rough, ")
    assert not trust_of(entry).inside_good


def test_beyond_is_good_as_far_as_it_can_be_relied_on() -> None:
    assert trust_of(prediction(reliable_n=Range(1.0, 128.0))).beyond == "good up to 128"


def test_an_application_that_slows_down_is_good_inside_all_the_same() -> None:
    found = trust_of(prediction(useful_n=UsefulSizes(max=16.0, slower_beyond=16.0), **UNMEASURED))
    assert found.beyond == "gets slower beyond 16"
    assert not found.beyond_good
    assert found.inside_good
