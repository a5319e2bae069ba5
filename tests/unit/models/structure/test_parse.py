"""Equations as people write them, right and wrong."""

from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from processors.models.structure.parse import LENGTH_MAX, EquationError, parse
from tests.kit.cases import each
from tests.kit.effort import examples

NAMES = ("a", "b", "bandwidth")


def refusal(text: str) -> str:
    with pytest.raises(EquationError) as refused:
        parse(text, NAMES)
    return str(refused.value)


@each(
    ("text", "message"),
    [
        ("a + * b", "line 1, column 5: a number, a name or a parenthesis is missing."),
        ("", "line 1, column 1: a number, a name or a parenthesis is missing."),
        ("2a", "line 1, column 1: this is no number; write * between a number and a name."),
        ("a b", "line 1, column 3: a sign such as + or * is missing between two values."),
        ("(a", "line 1, column 3: a closing parenthesis is missing."),
        ("a)", "line 1, column 2: this parenthesis closes nothing."),
        ("a ** 2", "line 1, column 3: there is no power; write x * x."),
        ("a ^ 2", "line 1, column 3: there is no power; write x * x."),
        ("a . b", "line 1, column 3: '.' stands within numbers only."),
        ("1e999", "line 1, column 1: 1e999 is too large a number."),
        ("bandwith", "line 1, column 1: bandwith has no value here; did you mean bandwidth?"),
        ("sqrt(a)", "line 1, column 1: sqrt is no function; there are max, min, max_over, min_over and T(n)."),
        ("max_ovr(hosts, a)", "line 1, column 1: max_ovr is no function; did you mean max_over?"),
        ("max(a)", "line 1, column 1: max compares two or more values."),
        ("max + 1", "line 1, column 1: max is a function; write max(...)."),
        ("max_over(n, a)", "line 1, column 10: max_over is over the hosts of the job; write max_over(hosts, ...)."),
        ("min_over(hosts)", "line 1, column 15: what min_over looks at is missing; write min_over(hosts, ...)."),
        ("T + 1", "line 1, column 1: T alone has no value here; write T(n)."),
        ("T(64)", "line 1, column 3: T is known for the size of the job only; write T(n)."),
        ("a = 3\na", "line 1, column 1: a has a meaning already; choose another name."),
        ("hosts = 3\na", "line 1, column 1: hosts has a meaning already; choose another name."),
        ("x = 1\nx = 2\nx", "line 2, column 1: x is defined twice."),
        ("x = a = 2", "line 1, column 7: a name stands left of =, and nothing else."),
        ("3\n4", "line 1, column 1: this line has no name, so it has to be the last; write `name = ...`."),
        ("y = 2 * x\nx = 3\ny", "line 1, column 9: x has no value here; there are a, b, bandwidth, hosts, n."),
        ("T = 2 * (a +\n  b) * ]", "line 2, column 8: ']' means nothing here."),
    ],
)
def test_what_is_wrong_is_reported_with_its_place(text: str, message: str) -> None:
    assert refusal(text) == message


def test_a_result_may_have_a_name_or_none_and_parts_stand_on_lines_or_between_semicolons() -> None:
    for text in (
        "T = a + b",
        "a + b",
        "x = a; x + b",
        "# sum\nx = a  # first\n\nT = x +\n  b\n",
        "x = (a\n + b)\nx;\n",
        "  x = a\n x + b",
        "x = a;; x + b",
        "x =\n a\nx + b",
    ):
        assert parse(text, NAMES).names == {"a", "b"}


def test_words_of_python_are_names_like_others() -> None:
    model = parse("if = lambda / None\nif + 010 * or", ("lambda", "None", "or"))
    assert model.names == {"lambda", "None", "or"}
    assert list(model.definitions) == ["if"]
    with pytest.raises(EquationError, match=r"column 10: or has no value here; there are hosts, lambda, n\."):
        parse("lambda + or", ("lambda",))


@each("text", ["0x10", "1_000", "1j", "1e5a", "a // b", "max(*a, b)", "max(a, b)(a)", "(a, b)", "()", "a ,", "2(a)", "(a+)"])  # fmt: skip
def test_what_is_python_and_no_equation_is_refused(text: str) -> None:
    assert refusal(text).startswith("line 1, column ")


def test_names_that_are_used_are_known() -> None:
    model = parse("x = T(n) / bandwidth\nmax_over(hosts, x) * n", NAMES)
    assert model.names == {"T(n)", "bandwidth", "hosts", "n"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("(" * 60 + "a" + ")" * 60, "nested more than 40 deep"),
        ("-" * 60 + "a", "nested more than 40 deep"),
        ("-" * 3990 + "a", "nested more than 40 deep"),
        ("a*(b+" * 41 + "a" + ")" * 41, "nested more than 40 deep"),
        ("\n".join(["x0 = a", *(f"x{i} = x{i - 1} + 1" for i in range(1, 60))]), "nested more than 40 deep"),
        ("+".join(["a"] * 201), "more than 200 numbers and names"),
        ("a" + " " * LENGTH_MAX, f"longer than {LENGTH_MAX} characters"),
    ],
)
def test_an_equation_has_limits(text: str, message: str) -> None:
    assert message in refusal(text)


@each("text", ["__import__('os')", "a.__class__", "a if b else a", "lambda: a", "[a for a in b]", "a @ b", "f'{a}'", "a\x00b", "é", "\\"])  # fmt: skip
def test_nothing_but_equations_is_understood(text: str) -> None:
    assert refusal(text).startswith("line 1, column ")


PIECES = st.lists(
    st.sampled_from(["a", "bandwidth", "2", "+", "-", "*", "/", "(", ")", ",", "=", "\n", ";", "max", "max_over", "hosts", "T", "n", "x", "#"]),
    max_size=25,
)  # fmt: skip


@settings(max_examples=examples(150), deadline=None)
@given(PIECES.map(" ".join) | st.text(max_size=40))
def test_any_text_is_read_or_refused_with_a_place_in_it(text: str) -> None:
    with suppress(EquationError):
        parse(text, NAMES)
        return
    with pytest.raises(EquationError) as refused:
        parse(text, NAMES)
    place, lines = refused.value.place, text.split("\n")
    assert 1 <= place.line <= len(lines)
    assert 1 <= place.column <= len(lines[place.line - 1]) + 1
    assert refused.value.message.endswith((".", "?"))
