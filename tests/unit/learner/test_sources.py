"""Which raw topics the learner has heard of, and how new what they told is."""

from agent.app import compose
from agent.collector.sources import MINUTE_MS, TOPICS_MAX, Collectors, Sources, combined
from agent.config.topics import own_topics
from agent.config.tree import Config, Source
from agent.learner.learner import Learner
from agent.log.memory import MemoryLog
from processors.contracts.events import (
    CollectorReport,
    Evidence,
    HostMinute,
    HostState,
    Identity,
    JournalEvent,
    JournalRecord,
    Network,
    Origin,
    Tick,
    TopicReport,
    encode_record,
)  # fmt: skip
from processors.contracts.service import SILENT_S, SourceStatus
from tests.kit.scenario import completed

NOW_MS = 1_795_168_800_000


def seen(*records: tuple[JournalEvent, str | None], now_ms: int = NOW_MS) -> list[SourceStatus]:
    sources = Sources()
    for event, topic in records:
        sources.note(JournalRecord(event, Origin(topic, 0, 0) if topic else None), now_ms)
    return sources.status()


def test_each_topic_has_its_number_of_events_and_its_newest_moment_the_last_to_speak_first() -> None:
    found = seen(
        (completed("1", NOW_MS - 90_000, 60.0), "slurm"),
        (completed("2", NOW_MS - 70_000, 60.0), "slurm"),
        (completed("3", NOW_MS - 95_000, 60.0), "slurm"),
        (HostState("exa", "nid1", "drain", NOW_MS - 5_000), "states"),
        (Network("exa", job_id="1", time_ms=NOW_MS - 80_000), "fabric"),
    )
    assert found == [
        SourceStatus(topic="states", events=1, newest_ms=NOW_MS - 5_000),
        SourceStatus(topic="slurm", events=3, newest_ms=NOW_MS - 10_000),
        SourceStatus(topic="fabric", events=1, newest_ms=NOW_MS - 80_000),
    ]


def test_what_has_no_time_of_its_own_is_as_new_as_the_tick_before_it() -> None:
    xalt = Identity("exa", job_id="1", source="xalt", evidence=Evidence(executable="/opt/lmp"))
    assert seen((xalt, "xalt")) == [SourceStatus(topic="xalt", events=1, newest_ms=NOW_MS)]


def test_a_clock_that_is_ahead_does_not_make_a_source_look_alive_for_ever() -> None:
    ahead = completed("1", NOW_MS + 10**9, 60.0)
    assert seen((ahead, "slurm"))[0].newest_ms == NOW_MS


def test_minutes_of_hosts_are_of_the_topic_that_they_name_and_ticks_of_none() -> None:
    minute = HostMinute("exa", "ldms/3", "nid1", NOW_MS - 2 * MINUTE_MS, {})
    found = seen((minute, None), (minute, "journal"), (Tick("", time_ms=NOW_MS), None))
    assert found == [SourceStatus(topic="ldms", events=2, newest_ms=NOW_MS - MINUTE_MS)]


def test_more_topics_than_can_be_followed_are_counted() -> None:
    metrics = compose.metrics()
    sources = Sources()
    for number in range(TOPICS_MAX + 7):
        sources.note(JournalRecord(completed("1", 0, 60.0), Origin(f"raw-{number}", 0, 0)), NOW_MS)
    sources.report(metrics)
    assert len(sources.status()) == TOPICS_MAX
    assert metrics.above_zero("scalewatch_bounds_hit_total") == {"source_topics_max": 7}


def test_a_learner_reports_the_sources_of_its_journal() -> None:
    config, log = Config(sources=(Source(topics=("slurm",), format="native"),)), MemoryLog()
    log.create(own_topics(config))
    learner = Learner(
        log, compose.plan(config), compose.metrics(), "a", on_emission=lambda _: None, monotonic_s=lambda: 0.0
    )
    producer = log.producer()
    for number in range(3):
        record = JournalRecord(completed(f"{number}", NOW_MS, 60.0 + number), Origin("slurm", 0, number))
        producer.send(config.topics.journal, encode_record(record), None, 0)
    producer.flush(1.0)
    while not learner.step(0.0, 0.0):
        pass
    assert learner.sources.status() == [SourceStatus(topic="slurm", events=3, newest_ms=NOW_MS + 62_000)]


def test_files_of_a_backfill_are_no_sources() -> None:
    plan = compose.plan(Config(sources=(Source(topics=("slurm", "^ldms[.].*"), format="native"),)))
    sources = Sources(plan.is_source)
    for topic in ("slurm", "ldms.cpu", "/var/log/sacct-2025.txt"):
        sources.note(JournalRecord(completed("1", NOW_MS - 90_000, 60.0), Origin(topic, 0, 0)), NOW_MS)
    assert {source.topic for source in sources.status()} == {"slurm", "ldms.cpu"}


def test_a_configured_topic_that_never_spoke_is_a_source_without_messages() -> None:
    folded = [SourceStatus(topic="slurm", events=3, newest_ms=NOW_MS)]
    reported = [TopicReport("slurm", 7, NOW_MS), TopicReport("power")]
    found = combined(["slurm", "power", "^ldms.*"], folded, reported, lambda _: SILENT_S)
    assert [(source.topic, source.events, source.messages) for source in found] == [
        ("slurm", 3, 7),
        ("^ldms.*", 0, None),
        ("power", 0, 0),
    ]


def test_each_source_may_be_silent_for_as_long_as_is_configured() -> None:
    config = Config(
        sources=(
            Source(topics=("slurm", "^ldms[.].*"), silent_s=86_400.0),
            Source(topics=("ldms.cpu", "power"), silent_s=60.0),
            Source(topics=("xalt",)),
        )
    )
    folded = [SourceStatus(topic=topic, newest_ms=NOW_MS) for topic in ("slurm", "ldms.cpu", "power", "xalt")]
    found = combined(compose.wanted_topics(config), folded, (), compose.silent_after(config))
    assert {source.topic: source.silent_s for source in found} == {
        "slurm": 86_400.0, "ldms.cpu": 86_400.0, "power": 60.0, "xalt": SILENT_S,
    }  # fmt: skip

    def silent(minutes: int) -> set[str]:
        return {source.topic for source in found if source.is_silent(NOW_MS + minutes * MINUTE_MS)}

    assert [silent(1), silent(2), silent(31)] == [set(), {"power"}, {"power", "xalt"}]
    assert not SourceStatus(topic="power").is_silent(NOW_MS)


def test_of_each_collector_the_newest_report_is_kept_until_a_day_has_passed() -> None:
    collectors = Collectors()
    for member, time_ms, restarts in (("a", NOW_MS, 1), ("b", NOW_MS, 0), ("a", NOW_MS - 9, 0)):
        collectors.take(CollectorReport(member=member, time_ms=time_ms, restarts=restarts))
    assert [(report.member, report.restarts) for report in collectors.latest()] == [("a", 1), ("b", 0)]
    collectors.take(CollectorReport(member="a", time_ms=NOW_MS + 90_000_000))
    assert [report.member for report in collectors.latest()] == ["a"]
