import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.contracts.outputs import VERDICTS
from sinks.web.formatting import attention, duration, explained, share, size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.0, "0 s"), (0.5, "0.5 s"), (9.96, "10 s"), (59.4, "59.4 s"), (59.96, "60 s"), (60.0, "1 min"),
        (61.0, "1 min 1 s"), (3599.6, "1 h"), (3600.0, "1 h"), (5400.0, "1 h 30 min"), (86_400.0, "1 d"),
        (90_000.0, "1 d 1 h"), (-30.0, "-30 s"), (1e12, "1e+12 s"), (float("inf"), "inf s"),
    ],
)  # fmt: skip
def test_a_duration_is_reported_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert duration(seconds) == text


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
