"""Regular expressions of a configuration: one that users could make slow is refused, with its line and what to write."""

import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from agent.cli import main
from agent.config.checks import pattern_fault
from agent.config.load import loads
from agent.config.tree import Config
from processors.contracts.errors import ConfigError
from tests.kit.cases import each

SLOW = [
    r"^(a+)+$", r"(a*)*b", r"(a|a)*b", r"(a|ab|b|ba)*c", r"^job-(\w+\s?)*$", r"(x+x+)+y", r"([a-m]+|[k-z]+)+1",
    r"^(([a-z])+.)+[A-Z]([a-z])+$", r"(.*a){20}", r"(?i)(?:lmp|lammps)-(\d+|\w+)+x", r".*.*.*.*=", r"((a+)b?)+c",
    r"(?P<application>[a-z]+)(?:-?\d*)*!", r"(a{1,50}){1,50}b", r"(?=(a+)+$)x", r"^(?:(?:[^,]*),?)*;", r"^(?:[^-]+)+-$",
    r"^(?>b)(a+)+$", r"(b)?(?(1)(a+)+$|x)", r"(?:\D+\S+\W*)+1",
]  # fmt: skip
FAST = [
    r"(?P<application>.+)", r"^(?P<application>[a-z0-9]+)[-_].*", r".*lammps.*in\.(?P<input>\w+).*", r"(?:[a-z]+_)+x",
    r"^wf_(?P<application>\w+)_\d+$", r"lmp|lammps", r"", r"^(\d+\.)*\d+$", r"\s+x", r"(?P<a>x)(?P=a)+", r"(?:a++)+b",
    r"(((a{1000}){1000}){1000}){1000}b+",
]  # fmt: skip


@each("pattern", SLOW)
def test_an_expression_that_a_name_could_make_slow_is_found_at_once(pattern: str) -> None:
    begin_s = time.thread_time()
    message = pattern_fault(pattern)
    assert time.thread_time() - begin_s < 2.0
    assert message is not None
    assert message.startswith(f"{pattern!r} takes too long on texts such as ")


@each("pattern", FAST)
def test_an_expression_without_such_names_stays(pattern: str) -> None:
    assert pattern_fault(pattern) is None


def test_what_is_no_expression_is_reported() -> None:
    assert "is not a regular expression: " in (pattern_fault("(a") or "")


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("identify:\n  rules:\n  - match:\n      job_name: ^(a+)+$\n", "4: identify.rules[0].match.job_name"),
        ("identify:\n  rules:\n  - match: {nothing: ^(a+)+$}\n", "3: identify.rules[0].match.nothing"),
        ("sources:\n- topics: ['^(a+)+$']\n", "2: sources[0].topics[0]"),
        ("alerts: {peer_difference: {resources: ^(a+)+$}}\n", "1: alerts.peer_difference.resources"),
        ("alerts: {rack_anomaly: {pattern: ^(a+)+$}}\n", "1: alerts.rack_anomaly.pattern"),
        (
            "under_load: {models: [{application: ^(a+)+$, equation: 'w / n', parameters: {w: 1}}]}\n",
            "1: under_load.models[0].application",
        ),
    ],
)
def test_a_slow_expression_is_refused_with_its_line_wherever_it_stands(text: str, place: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loads(text, "agent.yaml")
    line, _, key = place.partition(": ")
    found = [problem for problem in str(refused.value).splitlines() if "takes too long" in problem]
    assert len(found) == 1
    assert f":{line}:" in found[0]
    assert key in found[0]
    assert "such as ^a+$ in place of ^(a+)+$." in found[0]


def test_validate_refuses_the_rule_that_would_freeze_a_learner(tmp_path: Path) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text("sources: [{topics: [jobs]}]\nidentify:\n  rules:\n  - match: {job_name: '^(a+)+$'}\n")
    shown = CliRunner().invoke(main, ["validate", "-c", str(config)])
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert f"{config}:4:" in shown.stderr


def test_the_defaults_are_fast() -> None:
    assert pattern_fault(Config().alerts.peer_difference.resources) is None
