"""The comparison of golden folders finds what is wrong, and nothing else."""

import json
from typing import Any

from tests.kit.cases import each
from tests.kit.golden import differences, text

MESSAGES: list[Any] = [
    {
        "key": "exa/lammps",
        "value": {"n": 4, "known": True, "low_s": 12.3456, "curve": [{"n": 1.0, "speedup": 1.0}, {"n": 2.0, "speedup": None}]},
    },
    {"key": "exa/gone", "value": None},
]  # fmt: skip


def changed(**fields: Any) -> list[Any]:
    return [{"key": "exa/lammps", "value": MESSAGES[0]["value"] | fields}, MESSAGES[1]]


@each(
    ("found", "prediction"),
    [
        (changed(curve=[{"n": 1.0, "speedup": 0.05}]), ["[0].value.curve[0].speedup: 0.05 in the place of 1.0",
                                                        '[0].value.curve[1]: missing, {"n": 2.0, "speedup": null} is expected']),
        (changed(known=1), ["[0].value.known: 1 in the place of true"]),
        (changed(n=5), ["[0].value.n: 5 in the place of 4"]),
        (changed(low_s=12.346), ["[0].value.low_s: 12.346 in the place of 12.3456"]),
        (changed(low_s=None), ["[0].value.low_s: null in the place of 12.3456"]),
        (changed(more="x"), ['[0].value.more: "x", which is not expected']),
        (MESSAGES[:1], ['[1]: missing, {"key": "exa/gone", "value": null} is expected']),
        ([MESSAGES[0], MESSAGES[0] | {"key": "exa/gone"}],
         [f"[1].value: {json.dumps(MESSAGES[0]['value'], sort_keys=True)} in the place of null"]),
    ],
)  # fmt: skip
def test_what_is_wrong_is_named_with_its_place(found: list[Any], prediction: list[str]) -> None:
    assert list(differences(found, MESSAGES)) == prediction


def test_the_last_digits_of_a_number_with_a_fraction_may_differ() -> None:
    assert not list(differences(changed(low_s=12.3457, n=4.0), MESSAGES))


def test_a_text_holds_its_messages_and_the_same_whatever_the_order_of_their_keys() -> None:
    written = text(MESSAGES)
    assert json.loads(written) == MESSAGES
    assert text([{"value": MESSAGES[0]["value"], "key": "exa/lammps"}, MESSAGES[1]]) == written
    assert '      {"n": 1.0, "speedup": 1.0},\n' in text(changed(curve=5 * MESSAGES[0]["value"]["curve"]))


def test_a_text_of_nothing_is_an_empty_list() -> None:
    assert json.loads(text([])) == []
