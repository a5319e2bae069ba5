"""The page of the agent itself: how its roles are, what came in, what went wrong, and what to do about it."""

from collections.abc import Sequence

import pytest
from starlette.applications import Starlette

from processors.contracts.events import CollectorReport
from processors.contracts.service import DeadLetterView, Health, SourceStatus
from sinks.prometheus.registry import Metrics
from sinks.web.access import Reader
from sinks.web.server import create_app
from tests.kit.pages import HOSTILE, parsed, read
from tests.kit.read_by import ReadBy, text_of
from tests.kit.recent import NOON_MS, dead_letter_view, source
from tests.kit.service import FixedService

WELL = (Health(role="learner", ready=True, partitions=(0, 1, 2), lag_s=1.5, checkpoint_age_s=4.0),)


def metrics() -> Metrics:
    return Metrics(formats=(), reasons=("not-json", "future", "processor"), processors=("jobs", "run_time"))


def app_of(
    health: Sequence[Health] = WELL,
    dead_letters: Sequence[DeadLetterView] = (),
    sources: Sequence[SourceStatus] = (),
    counted: Metrics | None = None,
) -> Starlette:
    return create_app(FixedService(health=health, dead_letters=dead_letters, sources=sources), counted or metrics())


def page_text(app: Starlette) -> str:
    text = read(app, "/agent")
    parsed(text)
    return text_of(text)


def test_while_all_is_well_the_page_reports_it() -> None:
    page = page_text(app_of())
    assert "All is well: every role is ready, and no message was lost or refused since the start." in page
    assert "partitions 0 to 2 age of the newest event 1.5 s last checkpoint 4 s ago restarts 0" in page
    assert "No recent dead letters." in page
    assert "No events processed since the start" in page


@pytest.mark.parametrize(
    ("health", "advice", "heading"),
    [
        (Health(role="learner", ready=False, reasons=("No broker answers.",)), "No broker answers.", "not-ready"),
        (Health(role="collector", ready=True, lag_s=900.0), "15 min", "lag"),
        (Health(role="learner", ready=True, lag_s=-7200.0), "2 h ahead", "clock-ahead"),
        (Health(role="learner", ready=True, checkpoint_age_s=7200.0), "2 h ago", "checkpoint-age"),
        (Health(role="learner", ready=True, restarts=3), "a single restart is no incident", "role-restarted"),
        (
            Health(
                role="learner", ready=True, unanswered=("The silences of the Alertmanager a:9093 could not be read",)
            ),
            "a:9093 could not be read; its known silences are shown until they end.",
            "what-is-not-sent",
        ),
    ],
)
def test_a_role_that_is_not_well_states_why_and_what_to_do(health: Health, advice: str, heading: str) -> None:
    text = read(app_of([health]), "/agent")
    assert advice in text
    assert f'href="/runbook#{heading}"' in text
    assert "All is well" not in text


def test_a_configuration_that_was_refused_or_not_taken_whole_is_reported_with_what_to_do() -> None:
    counted = metrics()
    counted.set("scalewatch_config_problems", 2)
    counted.set("scalewatch_config_keys_waiting", 1)
    page = page_text(app_of(counted=counted))
    assert "errors in the file : the new file has errors, so the previous configuration stays in use 2" in page
    assert "changed keys that wait : some changed keys need a restart; all others are in use 1" in page
    assert "Correct what the log names, check the file with scalewatch validate, and reload" in page
    assert "All is well" not in page


def test_without_roles_it_states_that_none_has_started() -> None:
    assert "No role has started yet." in page_text(app_of([]))


def test_a_source_is_silent_too_when_all_of_them_are() -> None:
    ticking = [Health(role="learner", ready=True, folded_ms=NOON_MS + 3_600_000)]
    page = text_of(read(app_of(ticking, sources=[source()]), "/agent")).lower()
    assert "1 source is silent" in page
    assert "1 h behind" in page


def test_sources_report_how_old_they_are_against_the_newest_of_all() -> None:
    text = read(app_of(sources=[source(), source("ldms", newest_ms=NOON_MS - 3_600_000, events=7)]), "/agent")
    page = text_of(text)
    assert "slurm.jobs 1,200 2026-11-20 12:00 newest" in page
    assert "ldms 7 2026-11-20 11:00 1 h" in page
    assert '<span class="bad">1 h behind</span>' in text
    assert "1 source is silent" in page.lower()
    assert 'href="/runbook#source-silent"' in text


def test_a_source_that_is_quiet_by_nature_is_not_silent_before_its_own_time() -> None:
    nightly = source("nightly", newest_ms=NOON_MS - 7_200_000, silent_s=86_400.0)
    page = page_text(app_of(sources=[source(), nightly]))
    assert "2 h behind" in page
    assert "All is well" in page


def test_an_empty_topic_is_waited_for_and_nothing_is_well_meanwhile() -> None:
    empty = SourceStatus(topic="slurm.jobs", messages=0)
    app = app_of(sources=[empty, SourceStatus(topic="ldms")])
    page = page_text(app)
    assert "slurm.jobs has had no message" in page
    assert "aiting for a collector to look up ldms" in page
    assert "All is well" not in page
    assert 'href="/runbook#source-never-spoke"' in read(app, "/agent")
    overview = text_of(read(app, "/"))
    assert "slurm.jobs has had no message" in overview
    assert "2 empty sources" in overview
    assert "unusual" not in overview


def test_each_collector_is_shown_with_its_restarts_and_dead_letters_and_what_it_reported_last() -> None:
    ticking = [Health(role="learner", ready=True, folded_ms=NOON_MS, lag_s=0.0)]
    well = CollectorReport(member="a:8080", time_ms=NOON_MS - 3000, lag_s=1.5, restarts=3, dead_letters={"not-json": 4})
    late = CollectorReport(member="b:8080", time_ms=NOON_MS, lag_s=300.0, reasons=("It is 5 minutes behind.",))
    gone = CollectorReport(member="c:8080", time_ms=NOON_MS - 600_000)
    service = FixedService(health=ticking, collectors=[well, late, gone])
    page = page_text(create_app(service, metrics()))
    assert "collector a:8080 ready age of the newest event 1.5 s dead letters 4 last report 3 s ago restarts 3" in page
    assert "collector b:8080 not ready It is 5 minutes behind." in page
    assert "The collector has not reported for 10 min." in page
    assert "not-json 4" in page
    assert "Not ready: collector b:8080, collector c:8080." in page


def test_faults_are_counted_by_name_each_with_its_meaning_and_advice() -> None:
    counted = metrics()
    counted.add("scalewatch_dead_letters_total", 5, reason="not-json")
    counted.add("scalewatch_dead_letters_total", 1, reason="processor")
    counted.add("scalewatch_processor_faults_total", 2, processor="jobs")
    counted.add("scalewatch_runs_refused_total", 3, reason="not_one_size")
    counted.add("scalewatch_bounds_hit_total", 4, bound="applications_max")
    text = read(app_of(counted=counted), "/agent")
    page = text_of(text)
    assert "4 kinds of trouble since the start" in page.lower()
    for prediction_for in (
        "not-json 5",
        "jobs 2",
        "events that became dead letters 1",
        "not_one_size : changed its size while it ran, or is part of a heterogeneous job 3",
        "applications_max 4",
    ):
        assert prediction_for in page, prediction_for
    for heading in ("processor-faults", "dead-letters-rising", "refused-runs", "bounds-hit"):
        assert f'href="/runbook#{heading}"' in text, heading


def test_each_heading_that_the_page_links_to_is_in_the_runbook() -> None:
    counted = metrics()
    for name, label in (
        ("dead_letters", "reason"),
        ("runs_refused", "reason"),
        ("bounds_hit", "bound"),
        ("processor_faults", "processor"),
    ):
        counted.add(f"scalewatch_{name}_total", 1, **{label: "other"})
    app = app_of([Health(role="learner", ready=False, lag_s=9e3, checkpoint_age_s=9e3, restarts=1),
                  Health(role="collector", ready=False)], counted=counted,
                 sources=[source(), source("old", newest_ms=0), SourceStatus(topic="power", messages=0)])  # fmt: skip
    wanted = {link.partition("#")[2] for link in parsed(read(app, "/agent")).links if link.startswith("/runbook#")}
    runbook = read(app, "/runbook")
    assert len(wanted) == 10
    assert [name for name in wanted if f'id="{name}"' not in runbook] == []


def test_the_newest_dead_letters_state_where_they_lie_and_how_to_look_closer() -> None:
    dead_letters = [dead_letter_view(offset=number) for number in range(40)] + [
        dead_letter_view(reason="future", topic=HOSTILE, detail=HOSTILE)
    ]
    page = page_text(app_of(dead_letters=dead_letters))
    assert "41 dead letters of the whole agent (newest 20 shown): not-json 40, future 1." in page
    assert "slurm.jobs / 3 / 4" in page
    assert (
        "scalewatch deadletter list -c agent.yaml --reason not-json --topic slurm.jobs --since 2026-11-20T12:00:00Z"
        in page
    )
    parsed(read(app_of(dead_letters=dead_letters[-1:]), "/agent"))


def test_what_messages_reported_is_for_operators_alone() -> None:
    app = ReadBy(app_of(dead_letters=[dead_letter_view(detail="secret of somebody")]), Reader(user="u-1"))
    text = read(app, "/agent")
    assert "secret of somebody" not in text
    assert "Only operators can see dead letters" in text
