"""What a change of the configuration is said to cost."""

import pytest

from agent.config.changes import changes
from agent.config.load import loads
from agent.config.reference import PRICES, keys
from agent.config.tree import config_hash

BASE = """
systems: {exa: {partition: 0}}
sources: [{topics: [slurm.jobs]}]
identify:
  rules:
    - {match: {job_name: ^gmx}, application: gromacs}
    - {match: {job_name: ^lmp}, application: lammps}
privacy: {salt: "${env:SALT}"}
"""
ENVIRONMENT = {"SALT": "pepper", "OTHER": "cinnamon"}


def predicted(new: str, old: str = BASE) -> list[str]:
    before, after = (loads(text, environment=ENVIRONMENT) for text in (old, new))
    return [str(change) for change in changes(before, after)]


def test_nothing_changes_between_a_configuration_and_itself() -> None:
    assert predicted(BASE) == []
    assert predicted(BASE + "http: {port: 8080}\n") == []  # the default, written out


def test_each_change_names_its_key_its_values_and_its_cost() -> None:
    assert predicted(BASE + "http: {port: 9100}\nlog: {level: debug}\n") == [
        "http.port: 8080 -> 9100 [reload: takes effect with a reload]",
        'log.level: "info" -> "debug" [reload: takes effect with a reload]',
    ]


def test_a_rule_put_in_front_is_one_change_and_states_that_learned_runs_keep_their_names() -> None:
    new = BASE.replace("  rules:\n", "  rules:\n    - {match: {job_name: ^wrf}, application: wrf}\n")
    (change,) = predicted(new)
    assert change.startswith(
        'identify.rules[0]: (absent) -> {"match":{"job_name":"^wrf"},"application":"wrf"} [rebuild'
    )


def test_a_changed_rule_is_named_by_the_key_in_it() -> None:
    (change,) = predicted(BASE.replace("application: lammps", "application: lmp"))
    assert change.startswith('identify.rules[1].application: "lammps" -> "lmp" [rebuild')


def test_a_removed_system_and_a_removed_rule_are_named() -> None:
    assert predicted(BASE.replace("systems: {exa: {partition: 0}}", ""))[0].startswith(
        "systems.exa: {} -> (absent) [reload"
    )
    assert predicted(BASE.replace("    - {match: {job_name: ^gmx}, application: gromacs}\n", ""))[0].startswith(
        'identify.rules[0]: {"match"'
    )


def test_a_changed_secret_is_reported_without_either_value() -> None:
    assert predicted(BASE.replace("env:SALT", "env:OTHER")) == [
        "privacy.salt: (secret) -> (secret) [reload: applies to new records; existing records stay unchanged]"
    ]


@pytest.mark.parametrize(
    "change",
    [
        "run_time: {unmerged_runs_max: 32}",
        "alerts: {strange_run: {factor_min: 1.2}}",
        "topics: {journal_partitions: 2}",
        "jobs: {settle_max_s: 60}",
    ],
)
def test_the_hash_changes_with_what_the_state_depends_on(change: str) -> None:
    assert config_hash(loads(BASE + change, environment=ENVIRONMENT)) != config_hash(
        loads(BASE, environment=ENVIRONMENT)
    )


@pytest.mark.parametrize(
    "change",
    [
        "kafka: {bootstrap: 'other:9093'}",
        "http: {host: 0.0.0.0, port: 1}",
        "log: {level: debug}",
        "topics: {answers_retention_s: 3600}",
        "learner: {checkpoint_interval_s: 5}",
        "metrics: {applications_max: 5}",
    ],
)
def test_the_hash_stays_with_hosts_ports_speed_and_log(change: str) -> None:
    assert config_hash(loads(BASE + change, environment=ENVIRONMENT)) == config_hash(
        loads(BASE, environment=ENVIRONMENT)
    )


def test_the_hash_does_not_depend_on_secrets_or_on_the_order_of_keys() -> None:
    other = BASE.replace("{job_name: ^gmx}, application: gromacs", "{job_name: ^gmx}, input: '', application: gromacs")
    assert config_hash(loads(BASE, environment=ENVIRONMENT)) == config_hash(loads(other, environment={"SALT": "salt"}))


def test_every_key_has_a_price_and_every_price_has_a_key() -> None:
    paths = {".".join(key.path) for key in keys()}
    assert {path.partition(".")[0] for path in paths} == {path.partition(".")[0] for path in PRICES}
    assert PRICES.keys() <= paths
