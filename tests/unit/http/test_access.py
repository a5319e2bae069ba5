"""Who is let in, as whom, and what they are told who are not."""

from collections.abc import Sequence

import httpx
import pytest
from starlette.applications import Starlette

from sinks.prometheus.registry import Metrics
from sinks.web.server import Server, create_app
from tests.kit.get import get
from tests.kit.pages import parsed
from tests.kit.readers import ANNS_JOB, BOBS_JOB, TOKENS, centre, get_as, limited, limited_app

PROXY = "10.1.2.3"


@pytest.fixture
def app() -> Starlette:
    return limited_app(centre())


def jobs_visible(app: Starlette, headers: Sequence[tuple[str, str]], address: str = PROXY) -> set[str] | int:
    response = get(app, "/api/v1/jobs", headers=headers, address=address)
    return {row["job_id"] for row in response.json()["rows"]} if response.status_code == 200 else response.status_code


def test_a_user_sees_their_own_jobs_and_an_operator_all(app: Starlette) -> None:
    seen = {name: jobs_visible(app, [("Authorization", f"Bearer {token}")]) for name, (token, _) in TOKENS.items()}
    assert seen == {"ann": {ANNS_JOB}, "bob": {BOBS_JOB}, "operator": {ANNS_JOB, BOBS_JOB}, "prometheus": set()}


def test_a_proxy_that_is_trusted_names_the_user(app: Starlette) -> None:
    assert jobs_visible(app, [("X-Forwarded-User", "ann")]) == {ANNS_JOB}
    assert jobs_visible(app, [("x-forwarded-user", " bob ")]) == {BOBS_JOB}
    assert jobs_visible(app, [("X-Forwarded-User", "root")]) == {ANNS_JOB, BOBS_JOB}
    assert jobs_visible(app, [("X-Forwarded-User", "ann")], "fd00::7") == {ANNS_JOB}


@pytest.mark.parametrize("address", ["127.0.0.1", "192.0.2.1", "11.0.0.1", "::1", "testclient", ""])
def test_the_header_of_anybody_else_is_ignored(app: Starlette, address: str) -> None:
    assert jobs_visible(app, [("X-Forwarded-User", "root")], address) == 401
    named = [("X-Forwarded-User", "root"), ("Authorization", f"Bearer {TOKENS['ann'][0]}")]
    assert jobs_visible(app, named, address) == {ANNS_JOB}


def test_an_address_of_ipv4_is_known_on_a_port_that_serves_both(app: Starlette) -> None:
    assert jobs_visible(app, [("X-Forwarded-User", "ann")], "::ffff:10.1.2.3") == {ANNS_JOB}
    assert jobs_visible(app, [("X-Forwarded-User", "ann")], "::ffff:192.0.2.1") == 401


@pytest.mark.parametrize("names", [["ann", "root"], [""], [" "], ["x" * 300]])
def test_a_header_that_comes_twice_or_names_nobody_is_no_log_in(app: Starlette, names: list[str]) -> None:
    assert jobs_visible(app, [("X-Forwarded-User", name) for name in names]) == 401


def test_what_a_proxy_states_goes_before_a_token_that_it_passed_on(app: Starlette) -> None:
    both = [("X-Forwarded-User", "ann"), ("Authorization", f"Bearer {TOKENS['operator'][0]}")]
    assert jobs_visible(app, both) == {ANNS_JOB}
    assert jobs_visible(app, [("X-Forwarded-User", "ann"), ("Authorization", "Bearer of-the-centre")]) == {ANNS_JOB}


@pytest.mark.parametrize(
    "page",
    [
        "Bearer wrong-token-0123456789",
        "Bearer",
        "Bearer ",
        "Basic dG9rZW4=",
        TOKENS["ann"][0],
        f"Bearer {TOKENS['ann'][0]}x",
        "Bearer " + "x" * 5000,
        "Bearer \u00e9\u00e9",
    ],
)
def test_nobody_else_is_let_in(app: Starlette, page: str) -> None:
    response = get(app, "/api/v1/jobs", headers=[("Authorization", page)])
    assert (response.status_code, response.json()["error"]) == (401, "Unknown token.")
    assert response.headers["www-authenticate"] == 'Bearer realm="scalewatch", error="invalid_token"'


def test_a_stranger_is_shown_how_to_come_in(app: Starlette) -> None:
    response = get_as(None, app, "/api/v1/applications")
    assert response.status_code == 401
    assert response.json() == {"error": "Authentication required: sign in through your centre, or send a bearer token."}
    assert response.headers["www-authenticate"] == 'Bearer realm="scalewatch"'
    page = get_as(None, app, "/")
    assert (page.status_code, page.headers["content-type"]) == (401, "text/html; charset=utf-8")
    assert "Authentication required" in page.text
    parsed(page.text)
    for refused in (response, page):
        assert refused.headers["content-security-policy"].startswith("default-src 'none'")
        assert refused.headers["cache-control"] == "no-store"


def test_probes_need_no_token_and_are_shown_no_reasons(app: Starlette) -> None:
    assert get_as(None, app, "/healthz").json() == {"status": "alive"}
    unready = get_as(None, app, "/readyz")
    assert (unready.status_code, unready.json()["reasons"]) == (503, ["learner: Only operators see the reason."])
    assert "Broker" in get_as("operator", app, "/readyz").text
    assert "Broker" not in get_as("ann", app, "/").text


def test_what_is_the_same_for_everybody_is_open(app: Starlette) -> None:
    assert get_as(None, app, "/static/style.css").status_code == 200
    assert get_as(None, app, "/static/../agent").status_code in (401, 404)


def test_metrics_ask_for_a_token_unless_they_are_open(app: Starlette) -> None:
    assert get_as(None, app, "/metrics").status_code == 401
    assert get_as("prometheus", app, "/metrics").status_code == 200
    opened = limited_app(centre(), metrics_open=True)
    assert get_as(None, opened, "/metrics").status_code == 200
    assert get_as(None, opened, "/metrics/x").status_code == 401
    assert get_as(None, opened, "/").status_code == 401


def test_dead_letters_are_for_operators(app: Starlette) -> None:
    for path in ("/api/v1/deadletters", "/api/v1/deadletters/", "/api/v1/deadletters/x"):
        assert get_as("ann", app, path).status_code == 403
        assert "Operators" in get_as("ann", app, path).text
        assert get_as("operator", app, path).status_code != 403
        assert get_as(None, app, path).status_code == 401


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("path", ["/", "/api/v1/jobs", "/metrics", "/healthz", "/hosts", "/static/style.css"])
def test_nothing_is_written_by_anybody(app: Starlette, method: str, path: str) -> None:
    assert get_as("operator", app, path, method).status_code == 405
    assert get_as(None, app, path, method).status_code in (401, 405)


@pytest.mark.parametrize("path", ["/", "/api/v1/jobs", "/metrics", "/hosts"])
def test_asking_for_headers_alone_needs_the_same_right(app: Starlette, path: str) -> None:
    refused = get_as(None, app, path, "HEAD")
    assert (refused.status_code, "www-authenticate" in refused.headers) == (401, True)


def test_no_token_is_kept_or_shown() -> None:
    access = limited()
    for token, _ in TOKENS.values():
        assert token not in repr(access)
        assert token not in repr(vars(type(access)))


def test_no_token_is_logged_or_answered(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("DEBUG")
    wrong = "wrong-token-0123456789"
    with Server(limited_app(centre()), "127.0.0.1", 0) as server:
        answers = [
            httpx.get(f"{server.url}{path}", headers={"Authorization": f"Bearer {token}"})
            for path in ("/", "/api/v1/jobs", "/metrics", "/nothing", "/api/v1/jobs?limit=x")
            for token in (TOKENS["ann"][0], wrong)
        ]
    page = "".join(
        [answer.text + str(answer.headers) for answer in answers]
        + [record.getMessage() for record in caplog.records if record.name != "httpcore"]
    )
    assert len(answers) == 10
    for token in (TOKENS["ann"][0], wrong):
        assert token not in page


def test_a_real_server_believes_the_address_that_connects_and_not_what_it_states() -> None:
    with Server(limited_app(centre()), "127.0.0.1", 0) as server:
        from_inside = {"X-Forwarded-For": PROXY, "X-Real-IP": PROXY, "Forwarded": f"for={PROXY}"}
        named = from_inside | {"X-Forwarded-User": "root"}
        assert httpx.get(f"{server.url}/api/v1/jobs", headers=named).status_code == 401
        shown = from_inside | {"Authorization": f"Bearer {TOKENS['ann'][0]}"}
        answered = httpx.get(f"{server.url}/api/v1/jobs", headers=shown).json()
    assert [row["job_id"] for row in answered["rows"]] == [ANNS_JOB]


def test_without_limits_everybody_sees_everything() -> None:
    app = create_app(centre(), Metrics(formats=(), reasons=(), processors=()))
    assert jobs_visible(app, []) == {ANNS_JOB, BOBS_JOB}
