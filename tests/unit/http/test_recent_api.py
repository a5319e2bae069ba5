"""The JSON interface to what happened recently: settled runs, one job, dead letters, sources."""

from typing import Any

import pytest
from starlette.applications import Starlette

from agent.app import compose
from processors.contracts.outputs import PredictedAtStart
from processors.contracts.service import DeadLetterView, RecentRun, SourceStatus
from sinks.web.access import Access, Reader, Token, token_digest
from sinks.web.queries import id_of
from sinks.web.server import create_app
from tests.kit.get import get
from tests.kit.messages import job, prediction
from tests.kit.service import FixedService

REPORTED = PredictedAtStart(
    run_time_s=100.0, low_s=90.0, high_s=110.0, coverage=0.9, verdict="reliable", source="curve"
)
TOKENS = {"anna": "a-token-of-anna-123", "operator": "a-token-of-operators"}


def run(job_id: str, end_ms: int, user: str | None = "u-anna", **changes: Any) -> RecentRun:
    values: dict[str, Any] = {
        "application_id": "exa/lammps//nodes",
        "n": 8.0,
        "state": "COMPLETED",
        "predicted": REPORTED,
    }
    return RecentRun(
        run_id=f"exa/{job_id}@0",
        system="exa",
        job_id=job_id,
        start_ms=0,
        end_ms=end_ms,
        run_time_s=end_ms / 1000,
        user=user,
        **(values | changes),
    )


SERVICE = FixedService(
    jobs=[job("7", system="exa", user="u-anna"), job("8", system="exa", user="u-ben")],
    runs=[
        run("3/1", 95_000),
        run("2", 80_000, "u-ben"),
        run("1", 60_000),
        run("4", 50_000, "u-ben", application_id="exa/amber//nodes"),
    ],
    dead_letters=[
        DeadLetterView(time_ms=5, reason="not-json", detail="No JSON.", topic="slurm", partition=0, offset=7)
    ],
    sources=[SourceStatus(topic="slurm", events=3, newest_ms=60_000, messages=40, heard_ms=61_000)],
)


@pytest.fixture
def app() -> Starlette:
    return create_app(SERVICE, compose.metrics())


@pytest.fixture
def limited() -> Starlette:
    readers = {"anna": Reader(user="u-anna"), "operator": Reader(operator=True)}
    tokens = tuple(Token(token_digest(TOKENS[name].encode()), reader) for name, reader in readers.items())
    return create_app(SERVICE, compose.metrics(), access=Access(tokens=tokens))


def read(app: Starlette, path: str, as_: str | None = None) -> tuple[int, Any]:
    headers = [("Authorization", f"Bearer {TOKENS[as_]}")] if as_ else []
    response = get(app, path, headers=headers)
    return response.status_code, response.json()


def test_runs_of_an_application_come_with_what_was_predicted(app: Starlette) -> None:
    status, page = read(app, "/api/v1/runs?application=exa/lammps//nodes&limit=2")
    assert (status, page["total"], [row["job_id"] for row in page["rows"]]) == (200, 3, ["3/1", "2"])
    assert page["rows"][0]["predicted"] == {
        "run_time_s": 100.0, "low_s": 90.0, "high_s": 110.0, "coverage": 0.9, "verdict": "reliable", "source": "curve",
    }  # fmt: skip


def test_runs_of_an_application_are_found_by_its_name_and_an_unknown_one_is_not_found(app: Starlette) -> None:
    assert read(app, "/api/v1/runs?application=lammps")[1]["total"] == 3
    for name in ("lamps", "exa/other//nodes"):
        status, problem = read(app, f"/api/v1/runs?application={name}")
        assert (status, problem["error"]) == (404, f"There is no model of '{name}'.")


def test_an_application_without_such_runs_is_known_by_its_prediction_or_its_running_job() -> None:
    known = FixedService(predictions=[prediction("namd")], jobs=[job("7", application="vasp", user="u-anna")])
    app = create_app(known, compose.metrics())
    for name in ("namd", "vasp"):
        status, page = read(app, f"/api/v1/runs?application={name}")
        assert (status, page["rows"]) == (200, [])
    assert read(app, "/api/v1/runs?application=namdd")[1]["known"] == [id_of(prediction("namd"))]
    assert read(app, "/api/v1/runs?application=namd&state=FAILED")[0] == 200


def test_an_application_that_only_others_run_is_unknown_to_a_user(limited: Starlette) -> None:
    assert read(limited, "/api/v1/runs?application=amber", "operator")[0] == 200
    assert read(limited, "/api/v1/runs?application=amber", "anna")[0] == 404


def test_runs_of_all_applications_are_filtered(app: Starlette) -> None:
    status, page = read(app, "/api/v1/runs?limit=1")
    assert (status, len(page["rows"])) == (200, 1)
    status, problem = read(app, "/api/v1/runs?state=BROKEN")
    assert (status, problem["error"][:32]) == (400, "state='BROKEN' has to be one of ")


def test_a_job_shows_its_prediction_or_its_runs(app: Starlette) -> None:
    status, page = read(app, "/api/v1/jobs/exa/7")
    assert (status, page["running"]["job_id"], page["runs"]) == (200, "7", [])
    status, page = read(app, "/api/v1/jobs/exa/3%2F1")
    assert (status, page["running"], [row["end_ms"] for row in page["runs"]]) == (200, None, [95_000])


def test_a_job_that_nobody_knows_is_not_found(app: Starlette) -> None:
    status, page = read(app, "/api/v1/jobs/exa/99")
    assert (status, page["error"]) == (404, "The job '99' on 'exa' is unknown or no longer known.")


def test_dead_letters_and_sources_are_listed(app: Starlette) -> None:
    (dead_letter,) = read(app, "/api/v1/deadletters")[1]["rows"]
    why = {"time_ms": 5, "reason": "not-json", "detail": "No JSON.", "count": 1, "places": []}
    assert dead_letter == why | {"topic": "slurm", "partition": 0, "offset": 7}
    assert read(app, "/api/v1/sources")[1]["rows"] == [
        {"topic": "slurm", "events": 3, "newest_ms": 60_000, "messages": 40, "heard_ms": 61_000, "silent_s": 1800.0}
    ]


def test_a_user_sees_their_own_runs_and_jobs_alone(limited: Starlette) -> None:
    path = "/api/v1/runs?application=exa/lammps//nodes"
    assert [row["job_id"] for row in read(limited, path, "anna")[1]["rows"]] == ["3/1", "1"]
    assert len(read(limited, path, "operator")[1]["rows"]) == 3
    assert [row["job_id"] for row in read(limited, "/api/v1/jobs", "anna")[1]["rows"]] == ["7"]
    for name, other in (("/api/v1/jobs/exa/1", "/api/v1/jobs/exa/2"), ("/api/v1/jobs/exa/7", "/api/v1/jobs/exa/8")):
        assert read(limited, name, "anna")[0] == 200
        status, page = read(limited, other, "anna")
        assert status in {403, 404}
        assert "u-ben" not in str(page)
        assert read(limited, other, "operator")[0] == 200


def test_dead_letters_are_for_operators_and_nothing_is_for_strangers(limited: Starlette) -> None:
    assert read(limited, "/api/v1/deadletters", "anna")[0] == 403
    assert read(limited, "/api/v1/deadletters", "operator")[0] == 200
    assert read(limited, "/api/v1/sources", "anna")[0] == 200
    for path in ("/api/v1/runs?application=x", "/api/v1/jobs/exa/7", "/api/v1/deadletters", "/api/v1/sources"):
        assert read(limited, path)[0] == 401
