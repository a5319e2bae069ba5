"""The configuration and the pages that are shipped agree with the code and with each other."""

import re
from pathlib import Path

import jsonschema
import pytest
import yaml

from agent.config.load import load, loads
from agent.config.reference import json_schema
from agent.config.tree import Config
from agent.identify import Identifier
from processors.contracts.events import Evidence

DEPLOY = Path(__file__).parents[3] / "deploy"
ENVIRONMENT = {"SCALEWATCH_KAFKA_PASSWORD": "x", "SCALEWATCH_REGISTRY_PASSWORD": "z", "SCALEWATCH_SALT": "y"}


@pytest.fixture
def everything() -> Config:
    """The shipped configuration with every example in it switched on."""
    text = re.sub(r"^( *)#(?=[^ #\n])", r"\1", (DEPLOY / "agent.yaml").read_text(), flags=re.MULTILINE)
    return loads(text, folder=DEPLOY, environment=ENVIRONMENT, sources_required=True)


def test_the_shipped_configuration_is_good_as_it_is() -> None:
    config = load(DEPLOY / "agent.yaml", environment={}, sources_required=True)
    assert config.kafka.bootstrap == "127.0.0.1:9092"
    assert [topic for source in config.sources for topic in source.topics] == [
        "slurm.jobs", "slurm.jobs.started", "scalewatch.events",
    ]  # fmt: skip
    jsonschema.validate(yaml.safe_load((DEPLOY / "agent.yaml").read_text()), json_schema())


def test_it_reports_nothing_but_defaults_where_it_states_something() -> None:
    config = load(DEPLOY / "agent.yaml", environment={})
    assert config.model_copy(update={"sources": ()}) == Config()


def test_every_example_in_it_is_good_too(everything: Config) -> None:
    assert set(everything.systems) == {"centre", "other"}
    assert everything.topics.journal_partitions == 2
    assert len(everything.identify.rules) == 5


@pytest.mark.parametrize(
    ("evidence", "application", "input_", "unit"),
    [
        (Evidence(job_name="gmx_prod_07"), "gromacs", "prod", "nodes"),
        (Evidence(job_name="gmx_equil_3"), "gromacs", "equil", "nodes"),
        (Evidence(executable="/opt/namd/2.14/namd2_gpu", sizes={"nodes": 2, "gpus": 8}), "namd2_gpu", "", "nodes"),
        (Evidence(executable="/opt/lammps/lmp_gpu", sizes={"nodes": 2, "gpus": 8}), "lammps", "", "gpus"),
        (Evidence(script="#!/bin/bash\nsrun /opt/cp2k/bin/cp2k.psmp -i x\n", job_name="run7"), "cp2k", "", "nodes"),
        (Evidence(job_name="health-0712"), None, "", "nodes"),
    ],
)
def test_its_rules_do_what_its_comments_state(
    everything: Config, evidence: Evidence, application: str | None, input_: str, unit: str
) -> None:
    found = Identifier(everything.identify, everything.systems_by_alias).identify(evidence, "centre")
    assert (found.application, found.input, found.unit) == (application, input_, unit)


def test_the_page_on_slurm_and_the_configuration_name_the_same_topics() -> None:
    page = (DEPLOY / "SLURM.md").read_text()
    config = load(DEPLOY / "agent.yaml", environment={})
    lines = re.findall(r"^JobCompParams=(.*)$", page, flags=re.MULTILINE)
    assert len(lines) == 2
    reported = {value for line in lines for value in re.findall(r"topic(?:_job_start)?=([^,\s]+)", line)}
    made = set(re.findall(r"--create --topic (\S+)", page))
    assert reported == made == set(config.sources[0].topics)
    assert [("enable_job_start" in line) for line in lines] == [False, True]
    assert not any("send_script" in line or "send_comment" in line for line in lines)


def test_no_page_or_example_holds_a_secret() -> None:
    with_values = re.compile(r"(password|salt)\s*[:=]\s*(?!\$\{env:|\.\.\.|none)\S", re.IGNORECASE)
    for name in ("agent.yaml", "SLURM.md"):
        assert not with_values.search((DEPLOY / name).read_text())
