"""Counting what rules make of very many jobs takes bounded memory."""

import pytest

from agent.cli import identify as module
from agent.cli.identify import Survey
from agent.identify import Identifier
from processors.contracts.events import Evidence, Identity, JobCompleted
from processors.contracts.settings import IdentifySettings


def job(number: int, name: str) -> JobCompleted:
    evidence = Evidence(job_name=name, sizes={"nodes": float(number + 1)})
    return JobCompleted("exa", str(number), f"exa/{number}", 0, 1000, 1.0, "COMPLETED", evidence)


def test_names_beyond_the_bound_are_counted_and_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "GROUPS_MAX", 2)
    monkeypatch.setattr(module, "NAMES_MAX", 2)
    monkeypatch.setattr(module, "SIZES_MAX", 3)
    survey = Survey(Identifier(IdentifySettings()))
    for number, name in enumerate(("alpha", "beta", "gamma", "bash", "sh", "zsh")):
        survey.take(job(number, name))
    for number in range(10):
        survey.take(job(number, "alpha"))
    assert [(group.application, group.jobs) for group in survey.groups()] == [("alpha", 11), ("beta", 1)]
    assert len(survey.groups()[0].sizes) == 3
    assert len(survey.nameless()) == 2
    assert (survey.jobs, survey.left_out) == (16, 2)


def test_evidence_of_jobs_that_never_end_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDENTITIES_MAX", 2)
    survey = Survey(Identifier(IdentifySettings()))
    for number in range(5):
        survey.take(Identity("exa", str(number), "xalt", Evidence(executable=f"/opt/lmp{number}")))
    for number in (0, 4):
        survey.take(job(number, "run7"))
    assert {group.application for group in survey.groups()} == {"run#", "lmp4"}
