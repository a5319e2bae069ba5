import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.contracts.outputs import VERDICTS
from sinks.web.formatting import attention, chance, clock, duration, explained, share, size
from tests.kit.cases import each


@each(
    ("seconds", "text"),
    [
        (0.0, "0 s"), (0.5, "0.5 s"), (9.96, "10 s"), (59.4, "59.4 s"), (59.96, "60 s"), (60.0, "1 min"),
        (61.0, "1 min 1 s"), (3599.6, "1 h"), (3600.0, "1 h"), (5400.0, "1 h 30 min"), (86_400.0, "1 d"),
        (90_000.0, "1 d 1 h"), (6109.0, "1 h 42 min"), (7199.0, "2 h"), (86_399.0, "1 d"), (-30.0, "-30 s"), (1e12, "1e+12 s"), (float("inf"), "inf s"),
    ],
)  # fmt: skip
def test_a_duration_is_reported_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("probability", "text"), [(None, "-"), (0.0, "below 1 %"), (0.014, "1 %"), (0.44, "44 %"), (1.0, "above 99 %")]
)
def test_a_chance_is_reported_no_closer_than_it_is_known(probability: float | None, text: str) -> None:
    assert chance(probability) == text


def test_a_moment_of_today_is_reported_without_its_day() -> None:
    assert clock("2026-11-20T10:31:00Z", "2026-11-20T10:00:00Z") == "10:31"
    assert clock("2026-11-21T00:10:00Z", "2026-11-20T10:00:00Z") == "2026-11-21 00:10"


@given(st.floats(), st.floats(0.001, 1e300))
def test_no_number_is_without_words(seconds: float, n: float) -> None:
    assert duration(seconds).endswith(("s", "n", "h", "d"))
    assert size(n)
    assert share(seconds)


def test_every_verdict_has_a_message_and_a_place() -> None:
    assert len({explained(verdict) for verdict in VERDICTS}) == len(VERDICTS)
    assert max(VERDICTS, key=attention) == "reliable"
    assert attention("of a later version") == len(VERDICTS)
    assert explained("of a later version") == ""
