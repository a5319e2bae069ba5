"""What a job is taken for: rules first, then the evidence, best first."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.identify import Identifier
from processors.contracts.errors import ConfigError
from processors.contracts.events import Attribute, Evidence, Identity
from processors.contracts.names import ApplicationKey, Identification
from processors.contracts.settings import IdentifySettings, Rule
from tests.kit.cases import each


def identified(evidence: Evidence, *also: Identity, rules: tuple[Rule, ...] = ()) -> Identification:
    return Identifier(IdentifySettings(rules=rules)).identify(evidence, "exa", also)


def xalt(**fields: Any) -> Identity:
    return Identity(system="exa", job_id="812", source="xalt", evidence=Evidence(**fields))


def test_an_explicit_application_is_trusted_fully() -> None:
    found = identified(Evidence(application="lammps", executable="/opt/lmp", job_name="run7"))
    assert (found.application, found.source, found.confidence) == ("lammps", "application", 1.0)


def test_the_first_rule_that_matches_decides_even_against_an_explicit_application() -> None:
    rules = (
        Rule(match={"job_name": "^vasp"}, application="vasp"),
        Rule(match={"job_name": "^gmx_(?P<kind>[a-z]+)"}, application="gromacs", input="{kind}", confidence=0.95),
        Rule(match={"job_name": "gmx"}, application="never"),
    )
    found = identified(Evidence(application="other", job_name="gmx_prod_07"), rules=rules)
    assert (found.application, found.input, found.source, found.confidence) == ("gromacs", "prod", "rule 2", 0.95)


def test_every_pattern_of_a_rule_has_to_be_found() -> None:
    rules = (Rule(match={"job_name": "gmx", "account": "^chem"}, application="gromacs"),)
    assert identified(Evidence(job_name="gmx_prod", account="phys"), rules=rules).source == "job_name"
    assert identified(Evidence(job_name="gmx_prod", account="chem1"), rules=rules).source == "rule 1"


def test_a_rule_sees_the_evidence_of_other_sources() -> None:
    rules = (Rule(match={"executable": "/lammps/", "job_name": "^run"}, application="lammps"),)
    assert (
        identified(Evidence(job_name="run7"), xalt(executable="/opt/lammps/lmp"), rules=rules).application == "lammps"
    )


def test_a_rule_may_take_the_name_from_a_group_and_from_attributes() -> None:
    rules = (Rule(match={"attributes.case": r"^(?P<application>[a-z]+)-(?P<case>\d+)$"}, input="{case}"),)
    found = identified(Evidence(attributes={"case": "ocean-5"}), rules=rules)
    assert (found.application, found.input) == ("ocean", "5")


def test_a_rule_whose_group_stays_empty_does_not_match() -> None:
    rules = (Rule(match={"job_name": "^gmx(_(?P<application>[a-z]+))?"}),)
    assert identified(Evidence(job_name="gmx"), rules=rules).source == "job_name"


def test_a_rule_that_drops_gives_no_application_and_reports_it() -> None:
    found = identified(
        Evidence(application="x", job_name="health-check"), rules=(Rule(match={"job_name": "health"}, drop=True),)
    )
    assert (found.application, found.reason, found.key) == (None, "rule 1 drops the job", None)


def test_the_executable_of_another_source_is_better_than_the_job_name() -> None:
    found = identified(Evidence(job_name="gmx_prod"), xalt(executable="/opt/gromacs/gmx_mpi"))
    assert (found.application, found.source, found.confidence) == ("gmx_mpi", "executable from xalt", 0.9)


def test_an_interpreter_is_no_application_and_the_next_best_evidence_counts() -> None:
    found = identified(Evidence(executable="/usr/bin/python3.11", module="pytorch/2.4", job_name="train_3"))
    assert (found.application, found.source) == ("pytorch", "module")


def test_a_job_that_nothing_names_has_no_application_and_a_reason() -> None:
    assert identified(Evidence(job_name="bash")).reason == "the job name 'bash' names no program"
    nothing = identified(Evidence())
    assert (nothing.application, nothing.confidence, nothing.source) == (None, 0.0, "none")
    assert nothing.reason == "nothing in its evidence names a program"


def test_a_vague_job_name_gives_little_confidence() -> None:
    assert identified(Evidence(job_name="run7")).confidence < identified(Evidence(job_name="gmx_prod_07")).confidence


def test_the_order_of_other_sources_does_not_matter() -> None:
    a = Identity(system="exa", job_id="1", source="a", evidence=Evidence(executable="/bin/one"))
    b = Identity(system="exa", job_id="1", source="b", evidence=Evidence(executable="/bin/two"))
    assert identified(Evidence(), a, b) == identified(Evidence(), b, a)


@each(
    ("sizes", "requested", "rule_unit", "expected"),
    [
        ({"cores": 128.0}, None, None, ("cores", 128.0)),
        ({"cores": 128.0}, None, "nodes", ("cores", 128.0)),
        ({"nodes": 4.0, "cores": 512.0}, None, None, ("nodes", 4.0)),
        ({"nodes": 4.0, "cores": 512.0, "gpus": 16.0}, None, "gpus", ("gpus", 16.0)),
        ({"nodes": 4.0, "cores": 512.0}, None, "gpus", ("nodes", 4.0)),
        ({"nodes": 4.0, "cores": 512.0}, "cores", "nodes", ("cores", 512.0)),
        ({"processes": 8.0, "cores": 16.0}, None, None, ("cores", 16.0)),
        ({"nodes": 0.0, "cores": 0.0}, None, None, ("nodes", None)),
        ({}, None, "gpus", ("gpus", None)),
        ({}, None, None, ("nodes", None)),
    ],
)
def test_a_job_is_sized_in_one_unit(
    sizes: dict[str, float], requested: str | None, rule_unit: str | None, expected: tuple[str, float | None]
) -> None:
    rule = Rule(match={"job_name": "x"}, application="x", unit=rule_unit)
    found = Identifier(IdentifySettings(rules=(rule,))).identify(
        Evidence(job_name="x", sizes=sizes), "exa", unit=requested
    )
    assert (found.unit, found.n) == expected


def test_sizes_of_other_sources_fill_up_but_never_change_the_unit_a_job_was_reported_in() -> None:
    other = Identity(system="exa", job_id="1", source="xalt", evidence=Evidence(sizes={"processes": 256.0}))
    assert identified(Evidence(sizes={"cores": 64.0}), other).unit == "cores"
    assert identified(Evidence(), other).n == 256.0


def test_the_input_is_explicit_or_comes_from_the_configured_attributes() -> None:
    identifier = Identifier(IdentifySettings(input_attributes=("atoms", "build", "tuned")))
    attributes: dict[str, Attribute] = {"atoms": 32000.0, "tuned": True, "other": 1}
    assert identifier.identify(Evidence(attributes=attributes), "exa").input == "atoms=32000,tuned=true"
    assert identifier.identify(Evidence(input="rhodo", attributes=attributes), "exa").input == "rhodo"
    assert identifier.identify(Evidence(), "exa").input == ""


def test_input_sizes_come_from_attributes_rules_or_the_name_of_the_input() -> None:
    rule = Rule(match={"job_name": r"_(?P<steps>\d+)$"}, application="lmp", input="{steps}")
    identifier = Identifier(IdentifySettings(rules=(rule,), input_sizes=("atoms", "steps")))
    by_rule = identifier.identify(Evidence(job_name="lmp_500", attributes={"atoms": "32000"}), "exa")
    assert (by_rule.input, by_rule.input_sizes) == ("500", (("atoms", 32000.0), ("steps", 500.0)))
    named = identifier.identify(Evidence(application="lmp", input="solver=cg;atoms=4e3;steps=x"), "exa")
    assert named.input_sizes == (("atoms", 4000.0),)
    built = identifier.identify(Evidence(application="lmp", attributes={"steps": 5, "atoms": 7}), "exa")
    assert (built.input, built.input_sizes) == ("atoms=7,steps=5", (("atoms", 7.0), ("steps", 5.0)))


@each("value", [0, -3, True, "nan", "inf", "1_0x", "", float("nan"), 10**400])
def test_what_is_no_number_above_zero_is_no_size(value: str | float | bool) -> None:  # noqa: FBT001  kinds of attributes
    identifier = Identifier(IdentifySettings(input_sizes=("atoms",)))
    assert identifier.identify(Evidence(application="lmp", attributes={"atoms": value}), "exa").input_sizes == ()


def test_sizes_are_not_looked_for_where_none_are_configured() -> None:
    assert identified(Evidence(application="lmp", input="atoms=5", attributes={"atoms": 5})).input_sizes == ()


def test_an_alias_of_a_system_is_the_system() -> None:
    identifier = Identifier(IdentifySettings(), {"exa-login": "exa"})
    found = identifier.identify(Evidence(application="lammps", input="rhodo"), "exa-login")
    assert found.key == ApplicationKey(application="lammps", system="exa", input="rhodo", unit="nodes")


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Rule(match={"job_name": "x"}), "gives no application"),
        (Rule(match={"job_name": "x"}, application="{program}"), "{program} in application is not a named group"),
        (Rule(match={"job_name": "x"}, application="x", input="{kind"), "input has an unmatched brace"),
        (Rule(match={"job_name": "(?P<k>x)"}, application="{k!r}"), "is not a named group"),
        (Rule(match={"job_name": "(?P<k>x)"}, application="{k.__class__}"), "is not a named group"),
        (Rule(match={"job_name": "x"}, application="x", drop=True), "drops its jobs"),
    ],
)
def test_a_rule_that_cannot_work_is_refused_at_start(rule: Rule, message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        Identifier(IdentifySettings(rules=(rule,)))
    assert message in str(refused.value)


TEXTS = st.none() | st.text(max_size=400)
EVIDENCE = st.builds(
    Evidence,
    sizes=st.dictionaries(st.sampled_from(["nodes", "cores", "gpus"]), st.floats(0, 1e9), max_size=3),
    application=TEXTS,
    input=TEXTS,
    executable=TEXTS,
    module=TEXTS,
    container=TEXTS,
    job_name=TEXTS,
    attributes=st.dictionaries(st.sampled_from(["a", "b"]), st.text() | st.integers() | st.floats() | st.booleans()),
)


@given(EVIDENCE, EVIDENCE)
def test_any_evidence_gives_bounded_printable_names(evidence: Evidence, other: Evidence) -> None:
    settings = IdentifySettings(
        rules=(Rule(match={"job_name": "(?P<application>.*)"}, input="{application}"),), input_attributes=("a", "b")
    )
    also = [Identity(system="exa", job_id="1", source="xalt", evidence=other)]
    for identifier in (Identifier(settings), Identifier(IdentifySettings(input_attributes=("a", "b")))):
        found = identifier.identify(evidence, "exa", also)
        assert found == identifier.identify(evidence, "exa", also)
        for text in (found.application or "x", found.input):
            assert len(text) <= 256
            assert not text or text.isprintable()
        assert (found.application is None) == (found.reason is not None)
