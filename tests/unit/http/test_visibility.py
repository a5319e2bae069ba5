"""What a reader learns of jobs that are not theirs: nothing, whatever they ask for."""

import re
from collections.abc import Iterator, Mapping
from urllib.parse import quote, urlencode

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import BaseRoute, Mount, Route

from processors.contracts.outputs import AlertEvidence
from sinks.web.access import PRESENT, Reader, VisibilityFilter
from sinks.web.changes import Changes
from tests.kit.effort import examples
from tests.kit.messages import alert
from tests.kit.readers import ANN, ANNS_JOB, APPLICATION, BOBS, BOBS_JOB, BOBS_PAST_JOB, centre, get_as, limited_app

STREAMS = frozenset({"/changes"})  # they never end, and say no more than that something has changed
COUNTS = frozenset({"/metrics"})  # of everybody together
PARAMETER = re.compile(r"\{(\w+)(?::\w+)?\}")
WITH_BOB, WITHOUT_BOB = limited_app(centre()), limited_app(centre(with_bob=False))


def paths(routes: list[BaseRoute], prefix: str = "") -> Iterator[str]:
    for route in routes:
        if isinstance(route, Mount) and route.routes:
            yield from paths(route.routes, prefix + route.path)
        elif isinstance(route, Route):
            yield prefix + route.path


ROUTES = sorted(set(paths(WITH_BOB.routes)) - STREAMS)
VALUES = [
    APPLICATION, quote(APPLICATION, safe=""), "archer2/nid1", "archer2/nid2", f"archer2/{ANNS_JOB}", f"archer2/{BOBS_JOB}",
    f"archer2/{BOBS_PAST_JOB}", "archer2/4712", "archer2", "nid2", "f1", "f2", BOBS_JOB, BOBS_PAST_JOB, "u-bob", "nothing",
]  # fmt: skip
NAMES = [
    "application", "system", "job_id", "user", "host", "hosts", "search", "status", "kind", "severity", "limit", "offset", "n",
    "q", "id", "refresh", "state", "tab", "sort", "partition", "account", "outside_band", "hits_limit", "hangs", "a", "b",
]  # fmt: skip
queries = st.dictionaries(
    st.sampled_from(NAMES),
    st.sampled_from([*VALUES, "lammps", "firing", "1", "0", "64", "ended", "-end", "COMPLETED"]),
    max_size=3,
)
fills = st.lists(st.sampled_from(VALUES), min_size=3, max_size=3)


def url(path: str, fill: list[str], query: dict[str, str]) -> str:
    values = iter(fill)
    return PARAMETER.sub(lambda _: next(values), path) + (f"?{urlencode(query)}" if query else "")


@settings(max_examples=examples(150), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(path=st.sampled_from([path for path in ROUTES if path not in COUNTS]), fill=fills, query=queries)
def test_no_route_reports_anything_that_depends_on_the_jobs_of_another(
    path: str, fill: list[str], query: dict[str, str]
) -> None:
    requested = url(path, fill, query)
    with_bob, without_bob = (get_as("ann", app, requested) for app in (WITH_BOB, WITHOUT_BOB))
    assert (with_bob.status_code, with_bob.text) == (without_bob.status_code, without_bob.text)
    assert with_bob.status_code < 500 or path == "/readyz"


@pytest.mark.parametrize("path", ROUTES)
def test_no_route_names_another_user_or_their_jobs_of_its_own_accord(path: str) -> None:
    for fill in (APPLICATION, "archer2/nid2", f"archer2/{ANNS_JOB}", "f1", "f2"):
        for reader in ("ann", "prometheus", None):
            shown = get_as(reader, WITH_BOB, url(path, [fill, ANNS_JOB, ""], {}))
            assert not [secret for secret in BOBS if secret in shown.text], (path, reader)


def test_an_operator_sees_what_users_do_not() -> None:
    shown = "".join(get_as("operator", WITH_BOB, url(path, [APPLICATION, "", ""], {})).text for path in ROUTES)
    assert BOBS_JOB in shown


def test_an_alert_names_the_runs_of_its_reader_and_none_of_others() -> None:
    service = centre()
    first, second, _, hanging = VisibilityFilter(service, lambda: Reader(user=ANN)).alerts()
    assert hanging == service.held_alerts[3], "the alert about Ann's own job; the one about Bob's job is hidden"
    assert first.evidence.runs == ("archer2/4712@1795168800000",)
    assert first.annotations["summary"] == "lammps takes 1.2 times as long (another user's run), 6 runs."
    assert second.annotations["summary"] == "nid2 has differed from the other hosts of another user's job for 6 min."
    assert second.annotations["description"] == "power_w 300, cpu_available 0.3"
    assert second.evidence.detail == {}
    assert list(VisibilityFilter(service, lambda: Reader(operator=True)).alerts()) == service.held_alerts


def test_a_users_own_job_is_named_to_them() -> None:
    service = centre()
    shown = f"nid1 has differed from the other hosts of job archer2/{ANNS_JOB} for 6 min: power_w#{ANNS_JOB} 300."
    service.held_alerts = [
        alert(
            labels={"system": "archer2"},
            annotations={"summary": shown, "description": "This is run archer2/4712@1795168800000."},
            evidence=AlertEvidence(detail={"job": f"archer2/{ANNS_JOB}", "power": 300.0}),
        )
    ]
    assert list(VisibilityFilter(service, lambda: Reader(user=ANN)).alerts()) == service.held_alerts


def test_a_run_that_is_known_no_longer_is_nobodys() -> None:
    service = centre()
    service.held_runs.clear()
    service.held_alerts = [alert(annotations={"description": "This is run archer2/4712@1795168800000. Runs like it"})]
    (seen,) = VisibilityFilter(service, lambda: Reader(user=ANN)).alerts()
    assert seen.annotations["description"] == "This is another user's run. Runs like it"
    assert seen.evidence.runs == ()


def test_hosts_are_for_everybody_but_not_what_runs_on_them() -> None:
    service = centre()
    seen = VisibilityFilter(service, lambda: Reader(user=ANN))
    first, second = seen.hosts(10)
    assert (first.job, [entry.resource for entry in first.resources]) == (
        f"archer2/{ANNS_JOB}",
        ["cpu_available", f"power_w#{ANNS_JOB}"],
    )
    assert (second.job, [entry.resource for entry in second.resources]) == (None, ["cpu_available"])
    assert seen.reading("archer2").host("nid2") == second
    assert seen.reading("archer2").host("nid9") is None
    assert [use.job for use in seen.host_uses(10)] == [first.job, None]


def test_dead_letters_and_reasons_are_for_operators() -> None:
    seen = VisibilityFilter(centre(), lambda: Reader(user=ANN))
    assert (seen.dead_letters(), seen.health()[0].reasons) == ((), ("Only operators see the reason.",))
    assert [source.topic for source in seen.sources()] == ["slurm"]
    full = VisibilityFilter(centre(), lambda: Reader(operator=True))
    assert (len(full.dead_letters()), full.health()[0].reasons) == (1, ("Broker u-bob is away.",))


def test_one_reader_is_not_shown_when_what_another_sees_has_changed() -> None:
    service = centre()
    changes = Changes(VisibilityFilter(service))

    def versions(reader: Reader) -> Mapping[str, str]:
        token = PRESENT.set(reader)
        try:
            return changes.versions()
        finally:
            PRESENT.reset(token)

    ann, operator = Reader(user=ANN), Reader(operator=True)
    before = versions(ann), versions(operator)
    service.held_jobs = [entry for entry in service.held_jobs if entry.user == ANN]
    assert versions(ann) == before[0]
    assert {name for name, seen in versions(operator).items() if seen != before[1][name]} == {"jobs"}


def test_who_reads_is_a_stranger_until_it_is_shown() -> None:
    assert VisibilityFilter(centre()).jobs() == []


def test_routes_are_found(app: Starlette) -> None:
    assert {"/", "/api/v1/jobs", "/hosts/{name:path}", "/readyz", "/metrics"} <= set(paths(app.routes))
