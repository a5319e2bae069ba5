"""Attributes that changed: new builds are told, measures of the problem are not, and memory is bounded."""

from processors.run_time.drift import (
    ATTRIBUTES_MAX,
    VALUE_LENGTH,
    VALUES_MAX,
    AttributeChange,
    KnownAttributes,
    change_at,
    remembered,
)


def after(*builds: str) -> KnownAttributes:
    known: KnownAttributes = {}
    for index, build in enumerate(builds):
        known = remembered(known, {"build": build}, index)
    return known


def test_a_change_at_a_run_is_reported_with_what_was_before() -> None:
    known = after(*"aaaaaaaaaabbb")
    assert change_at(known, {"build": "b"}, 11) == AttributeChange("build", "a", "b")
    assert change_at(known, {"build": "b"}, 30) is None
    assert change_at(known, {"build": "a"}, 11) is None
    assert change_at(known, {"other": 1}, 11) is None


def test_what_differs_from_run_to_run_is_no_build() -> None:
    known = after(*(str(i) for i in range(VALUES_MAX + 5)))
    assert change_at(known, {"build": "new"}, VALUES_MAX + 4) is None


def test_names_values_and_their_length_are_bounded() -> None:
    known: KnownAttributes = {}
    for i in range(100):
        known = remembered(known, {f"{j:02}" + "x" * 1000: f"{i}" + "y" * 1000 for j in range(50)}, i)
    assert len(known) == ATTRIBUTES_MAX
    assert all(len(text) <= VALUE_LENGTH for name, values in known.items() for text in (name, *values))
    assert all(len(values) <= VALUES_MAX for values in known.values())


def test_what_was_known_is_not_changed() -> None:
    known = after("a")
    remembered(known, {"build": "b"}, 1)
    assert known == after("a")
