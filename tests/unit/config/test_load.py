"""What an operator sees of a configuration file, right or wrong."""

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.config.load import FILE_BYTES_MAX, PROBLEMS_MAX, load, loads
from agent.config.tree import Config
from agent.config.yaml import InvalidConfigError, Problem
from processors.contracts.errors import ConfigError
from tests.kit.cases import each

CASES = Path(__file__).parents[2] / "cases" / "config" / "bad"
BAD = sorted(CASES.glob("*.yaml"))


@each("file", BAD)
def test_a_bad_configuration_gives_exactly_its_messages(file: Path) -> None:
    with pytest.raises(ConfigError) as refused:
        load(file, environment={})
    text = str(refused.value).replace(f"{file}:", "").replace("\n ", "\n").strip()
    assert text == file.with_suffix(".txt").read_text().strip()


def test_every_bad_configuration_has_its_message() -> None:
    assert {file.stem for file in BAD} == {file.stem for file in CASES.glob("*.txt")}


def test_an_empty_file_is_the_default_configuration() -> None:
    assert loads("") == Config()
    assert loads("# nothing yet\n") == Config()


def test_sections_with_all_their_lines_commented_out_are_as_if_absent() -> None:
    assert loads("identify:\n  rules:\n    # - match: {}\nlog:\nsystems:\n  exa:\n") == loads("systems: {exa: {}}")


def test_values_of_every_kind_reach_the_tree() -> None:
    config = loads(
        """
        systems: {exa: {partition: 1, aliases: [exa-login]}, mega: {}}
        topics: {prefix: hpc, journal_partitions: 2, journal: events}
        sources:
          - topics: [slurm.jobs, '^mega\\.jobs.*']
            format: slurm
            system: mega
            keep: {script: true}
        identify:
          rules:
            - match: {job_name: '^gmx_(?P<kind>[a-z]+)', attributes.build: '2026'}
              application: gromacs
              input: '{kind}'
              unit: gpus
          fallback: [executable, job_name]
        run_time: {allowed_sizes: [1, 2, 4.5]}
        jobs: {settle_max_s: 1e2}
        http: {host: '::', port: 0}
        """
    )
    assert config.journal_partition("exa-login") == 1
    assert config.journal_partition("other") is None
    assert (config.topics.job_predictions, config.topics.journal) == ("hpc.job-predictions", "events")
    assert config.sources[0].keep.script
    assert config.identify.rules[0].match["attributes.build"] == "2026"
    assert config.systems_by_alias == {"exa-login": "exa"}
    assert config.run_time.allowed_sizes == (1.0, 2.0, 4.5)
    assert config.jobs.settle_max_s == 100.0
    assert config.http.host == "::"


@pytest.mark.parametrize("text", ["no", "on", "12:30", "0o17", "2026-01-03", "1_000"])
def test_a_text_that_other_yaml_readers_take_for_something_else_stays_a_text(text: str) -> None:
    assert loads(f"kafka: {{security: {{protocol: sasl_tls, mechanism: PLAIN, username: {text}, password: '${{env:P}}'}}}}",
                 environment={"P": "p"}).kafka.security.username == text  # fmt: skip


def test_secrets_come_from_the_environment_and_from_files_next_to_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "salt").write_text("pepper\n")
    file = tmp_path / "agent.yaml"
    file.write_text(
        "kafka:\n"
        "  bootstrap: ${env:BROKER}:9092\n"
        "  security: {protocol: sasl_tls, mechanism: PLAIN, username: agent, password: '${env:PASSWORD}'}\n"
        "privacy: {salt: {file: salt}}\n"
    )
    config = load(file, environment={"BROKER": "kafka1", "PASSWORD": "hunter2"})
    assert config.kafka.bootstrap == "kafka1:9092"
    assert config.kafka.security.password is not None
    assert config.kafka.security.password.get_secret_value() == "hunter2"
    assert config.privacy.salt.get_secret_value() == "pepper"
    for shown in (repr(config), str(config), config.model_dump_json()):
        assert "hunter2" not in shown
        assert "pepper" not in shown


def test_a_named_pipe_in_the_place_of_a_file_is_a_problem_and_keeps_nobody_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    file = tmp_path / "agent.yaml"
    file.write_text("privacy: {salt: {file: pipe}}\nreference: {nodes: pipe}\n")
    with pytest.raises(ConfigError) as refused:
        load(file, environment={})
    assert "the file 'pipe' cannot be read: it is not a regular file." in str(refused.value)


def test_a_file_can_be_checked_where_its_secrets_are_not(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text("privacy: {salt: '${env:NOT_HERE}'}\n")
    with pytest.raises(ConfigError):
        load(file, environment={})
    assert load(file, environment={}, reveal_secrets=False).privacy.users == "hash"


@pytest.mark.parametrize("value", ["hunter2", "12345", "[hunter2]", "{hunter2: 1}", "x${env:PATH}hunter2"])
def test_a_secret_written_into_the_file_is_refused_and_never_repeated(value: str) -> None:
    with pytest.raises(ConfigError) as refused:
        loads(f"privacy: {{salt: {value}}}", environment={"PATH": "x"})
    assert "hunter2" not in str(refused.value)
    assert "12345" not in str(refused.value)


def test_an_agent_that_runs_needs_sources() -> None:
    for text in ("http: {port: 1}", "sources: []", "sources:"):
        with pytest.raises(ConfigError, match="sources: is missing: the agent would read nothing"):
            loads(text, sources_required=True)
        loads(text)


def test_a_file_that_is_missing_or_too_long_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.yaml: cannot be read: No such file or directory"):
        load(tmp_path / "nowhere.yaml")
    long = tmp_path / "long.yaml"
    long.write_text("#" * (FILE_BYTES_MAX + 1))
    with pytest.raises(ConfigError, match="is longer than"):
        load(long)


def test_aliases_that_blow_up_a_file_are_refused_in_time() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 10)]
    with pytest.raises(ConfigError, match="more than 100000 values"):
        loads("\n".join(lines))


@each(
    "text",
    [
        "a: " + "[" * 5000,
        "a: &a [*a, *a]",
        "a: &a {b: *a}",
        "- " * 300,
        "&a *a",
        '"\\ud800": 1',
        'x: "\\ud800"',
        "? [1]\n: 2",
        "\x00",
        "a: b: c",
        "%YAML 9.9\n---\n",
    ],
)
def test_hostile_yaml_is_refused_with_a_message(text: str) -> None:
    with pytest.raises(InvalidConfigError) as refused:
        loads(text)
    assert all(problem.message.endswith((".", "?")) for problem in refused.value.problems)


def test_a_flood_of_problems_is_cut() -> None:
    with pytest.raises(InvalidConfigError) as refused:
        loads("\n".join(f"key{i}: 1" for i in range(1000)))
    assert len(refused.value.problems) == PROBLEMS_MAX + 1
    assert str(refused.value).endswith("and 900 more problems.")


YAML = st.recursive(
    st.sampled_from(["1", "-1", "1e9", "true", "no", "null", "''", "text", "'^('", "${env:A}", "[]", "{}"]),
    lambda below: (
        st.lists(below, max_size=3).map(lambda items: f"[{', '.join(items)}]")
        | st.dictionaries(
            st.sampled_from(["topics", "match", "job_name", "rules", "file", "exa", "port", "prefix", "partition"]),
            below,
            max_size=3,
        ).map(lambda items: "{" + ", ".join(f"{key}: {value}" for key, value in items.items()) + "}")
    ),
    max_leaves=8,
)


def problems(text: str) -> tuple[Problem, ...]:
    try:
        assert isinstance(loads(text), Config)
    except InvalidConfigError as refused:
        return refused.problems
    return ()


@given(st.dictionaries(st.sampled_from(list(Config.model_fields)), YAML, max_size=5))
def test_any_values_are_taken_or_refused_with_positions_and_messages(sections: dict[str, str]) -> None:
    for problem in problems("\n".join(f"{key}: {value}" for key, value in sections.items())):
        assert problem.line >= 1
        assert problem.message.endswith((".", "?"))


@given(st.text())
def test_any_text_is_taken_or_refused(text: str) -> None:
    assert all(problem.message for problem in problems(text))
