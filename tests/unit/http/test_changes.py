"""Open pages are told what changed."""

import asyncio
import json
from collections.abc import Callable
from itertools import islice

import httpx
import pytest
from starlette.applications import Starlette

from processors.contracts.errors import UnavailableError
from sinks.prometheus.registry import Metrics
from sinks.web.changes import HEARTBEAT_S, STREAMS_MAX, Changes, versions
from sinks.web.server import Server, create_app
from tests.kit.get import get
from tests.kit.messages import alert, job
from tests.kit.service import FixedService, busy_service


def heard(changes: Changes, count: int, stopping: Callable[[], bool] = bool) -> list[str]:
    """Return so many pieces of a stream, or as many as there are."""

    async def listen() -> list[str]:
        found: list[str] = []
        async for piece in changes.events(stopping):
            found.append(piece)
            if len(found) == count:
                break
        return found

    return asyncio.run(listen())


async def at_once(_seconds: float) -> None:
    """Time passes at once."""


def test_what_changed_has_another_version_and_the_rest_has_not(service: FixedService) -> None:
    before = versions(service)
    service.held_alerts.append(alert("f2"))
    after = versions(service)
    assert {name for name in before if before[name] != after[name]} == {"alerts"}


def test_a_stream_begins_with_the_versions_of_everything(service: FixedService) -> None:
    retry, first = heard(Changes(service), 2)
    assert retry == "retry: 3000\n\n"
    assert json.loads(first.removeprefix("data: ")) == versions(service)


def test_a_change_is_reported_at_the_next_look() -> None:
    service = busy_service()
    jobs = iter(str(number) for number in range(100))

    async def something_happens(_seconds: float) -> None:
        service.held_jobs.append(job(next(jobs)))
        changes._looks.clear()  # a second has passed

    changes = Changes(service, pause=something_happens)
    shown = heard(changes, 4)[1:]
    assert len({json.loads(piece.removeprefix("data: "))["jobs"] for piece in shown}) == 3
    assert len({json.loads(piece.removeprefix("data: "))["alerts"] for piece in shown}) == 1


def test_a_silent_stream_states_now_and_then_that_it_is_there(service: FixedService) -> None:
    pauses: list[float] = []

    async def passes(seconds: float) -> None:
        pauses.append(seconds)

    pieces = heard(Changes(service, pause=passes), 3)
    assert pieces[2].startswith(":")
    assert sum(pauses) == HEARTBEAT_S


def test_a_stream_ends_when_the_server_stops(service: FixedService) -> None:
    requested = iter([False] * 6)
    pieces = heard(Changes(service, pause=at_once), 100, lambda: next(requested, True))
    assert len(pieces) == 2


def test_models_that_are_away_are_no_change(service: FixedService) -> None:
    changes = Changes(service)
    before = changes.versions()

    def away() -> list[object]:
        raise UnavailableError("The learner starts again.")

    service.predictions = away  # type: ignore[assignment,method-assign]  # a read that fails for a while
    assert changes.versions() == before


def test_a_page_carries_the_versions_that_it_was_made_from(app: Starlette, service: FixedService) -> None:
    text = get(app, "/").text
    assert versions(service)["alerts"] in text


def test_an_answer_to_head_has_no_body_and_ends(app: Starlette) -> None:
    assert get(app, "/changes", "HEAD").headers["content-type"].startswith("text/event-stream")


def app_of(service: FixedService) -> Starlette:
    return create_app(service, Metrics(formats=(), reasons=(), processors=()))


def test_a_real_stream_reports_a_change_and_does_not_hold_up_the_stop(service: FixedService) -> None:
    with Server(app_of(service), "127.0.0.1", 0) as server, httpx.Client(timeout=5.0) as client:  # noqa: SIM117
        with client.stream("GET", f"{server.url}/changes") as response:
            assert response.headers["cache-control"] == "no-store"
            lines = (line for line in response.iter_lines() if line.startswith("data: "))
            first = next(lines)
            service.held_alerts.append(alert("f2"))
            assert json.loads(next(lines)[6:])["alerts"] != json.loads(first[6:])["alerts"]
            server.stop()
            assert list(islice(lines, 5)) == []  # it ended, and was not cut off


@pytest.mark.parametrize("streams_max", [2])
def test_beyond_so_many_streams_a_page_is_asked_to_ask_itself(service: FixedService, streams_max: int) -> None:
    changes = Changes(service, streams_max=streams_max)
    app = app_of(service)
    app.router.routes = [route for route in app.routes if getattr(route, "path", "") != "/changes"]
    app.add_route("/changes", changes.show)
    assert streams_max < STREAMS_MAX
    with Server(app, "127.0.0.1", 0) as server, httpx.Client(timeout=5.0) as client:
        url = f"{server.url}/changes"
        with client.stream("GET", url) as one, client.stream("GET", url) as two:
            assert (one.status_code, two.status_code) == (200, 200)
            refused = client.get(url)
            assert (refused.status_code, refused.headers["retry-after"]) == (503, "60")
    assert changes.open == 0
