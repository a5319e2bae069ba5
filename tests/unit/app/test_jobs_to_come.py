"""A job that is described before it runs is identified as it would be when it runs."""

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from agent.cli.predict import learned
from agent.config.load import loads
from sinks.web.server import create_app
from tests.kit.get import get

RULES = """
  rules:
    - {match: {script: 'gromacs'}, application: gromacs}
    - {match: {executable: '/vasp_std$'}, application: vasp}
"""


def found(tmp_path: Path, config: str, jobs: Sequence[dict[str, str]], query: str) -> list[str]:
    """Return the applications whose curves answer a question to an agent that has learned from four runs of each of these jobs."""
    path = tmp_path / "history.jsonl"
    runs = [
        {"type": "job.completed", "system": "exa", "job_id": f"{index}-{n}", "n": n, "unit": "nodes", "run_time_s": 800 / n,
         "start": "2026-11-20T00:00:00Z", "state": "COMPLETED", **job}
        for index, job in enumerate(jobs) for n in (1, 2, 4, 8)
    ]  # fmt: skip
    path.write_text("".join(f"{json.dumps(run)}\n" for run in runs))
    with learned(loads(config, environment={}), [str(path)]) as agent:
        response = get(create_app(agent.service, agent.metrics), f"/api/v1/curves?system=exa&{query}")
    if response.status_code == 404:
        return []
    return sorted({json.loads(line)["application"] for line in response.text.splitlines()})


@pytest.mark.parametrize(
    ("users", "name"), [("hash", r"jobs of u-[0-9a-f]{16}"), ("plain", "jobs of alice"), ("drop", "md")]
)
def test_a_user_is_named_as_the_configuration_wants_it_before_anything_is_identified(
    tmp_path: Path, users: str, name: str
) -> None:
    config = f"privacy: {{users: {users}}}\nidentify: {{fallback: [user, job_name]}}"
    (application,) = found(tmp_path, config, [{"job_name": "md", "user": "alice"}], "job_name=md&user=alice")
    assert re.fullmatch(name, application)


@pytest.mark.parametrize(("keep", "name"), [("true", "gromacs"), ("false", "md")])
def test_a_script_counts_where_a_source_keeps_scripts_also_for_runs_from_files(
    tmp_path: Path, keep: str, name: str
) -> None:
    other = "    - {match: {job_name: never}, application: never}\n"
    config = f"sources: [{{topics: [jobs], keep: {{script: {keep}}}}}]\nidentify:\n  rules:\n{other}"
    config += "    - {match: {script: 'gromacs'}, application: gromacs}\n" if keep == "true" else ""
    job = {"job_name": "md", "script": "module load gromacs"}
    assert found(tmp_path, config, [job], "job_name=md&script=module+load+gromacs") == [name]


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("job_name=md&executable=/opt/vasp_std", ["vasp"]),  # a rule says that sources report executables
        ("job_name=md&executable=/opt/namd", ["md"]),  # Slurm reports none
        ("job_name=new&executable=/opt/md", ["md"]),
        ("executable=/opt/md", ["md"]),
        ("job_name=new&executable=/opt/new", []),
    ],
)
def test_an_executable_counts_by_a_rule_and_else_where_the_name_is_unknown(
    tmp_path: Path, query: str, name: list[str]
) -> None:
    jobs = [{"job_name": "md"}, {"executable": "/opt/vasp_std"}, {"executable": "/opt/namd"}]
    assert found(tmp_path, f"identify:{RULES}", jobs, query) == name
