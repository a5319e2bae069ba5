"""The demo: the same seed gives the same centre and the same predictions, however often it is looked at."""

import threading

import msgspec

from agent.app.demo import START_MS, Demo
from tests.kit.clock import FakeClock

HOUR = 1.0  # of the centre, in seconds of the clock at this speed
ANALYSIS = "simulated/image-analysis//nodes"


def demo_of(seed: int) -> Demo:
    return Demo(seed=seed, speed=3600.0, clock=FakeClock(), measure=lambda: {"cpu_available": 0.25})


def advanced(seed: int, *seconds: float) -> Demo:
    demo = demo_of(seed)
    for moment in seconds:
        demo.advance(moment)
    return demo


def predicted(demo: Demo) -> bytes:
    service = demo.agent.service
    return msgspec.json.encode([service.predictions(), service.jobs(), service.alerts(), service.hosts(100)])


def test_a_seed_gives_the_same_predictions_jobs_alerts_and_hosts_to_the_byte_and_another_seed_gives_others() -> None:
    first, second, other = advanced(1, 0.3, 0.6), advanced(1, 0.15, 0.6), advanced(2, 0.6)
    assert len(first.service.predictions()) > 3
    assert predicted(first) == predicted(second)
    assert predicted(first) != predicted(other)


def test_time_passes_at_the_speed_that_was_asked_for() -> None:
    demo = advanced(1, 0.1)
    assert demo.now_ms == START_MS + 360_000
    assert demo.headline() == "simulated centre, 2026-11-20T10:06:00Z, 3600 times real time"


def test_a_machine_that_cannot_keep_up_reports_how_fast_time_really_passes() -> None:
    clock = FakeClock()
    demo = Demo(seed=1, speed=3600.0, clock=clock, measure=lambda: {"cpu_available": 0.25})
    demo.advance(0.02)
    clock.advance(10.0)
    demo.advance(0.22)
    assert (
        demo.headline()
        == "simulated centre, 2026-11-20T10:13:12Z, 73.2 times real time; this machine cannot keep up with 3600"
    )


def test_who_looks_early_reads_how_much_of_the_past_is_still_to_come_and_can_stop_it() -> None:
    clock, stop = FakeClock(), threading.Event()
    demo = Demo(seed=1, speed=None, clock=clock, measure=lambda: {"cpu_available": 0.25})
    assert demo.headline() == "simulated centre, 2026-11-20T01:45:00Z, the last 8.2 hours are still to come"
    stop.set()
    demo.step(stop=stop)
    demo.run(stop)
    assert demo.now_ms == demo.start_ms
    assert not demo.is_live
    assert [source.topic for source in demo.service.sources() if source.topic.startswith("local")] == []
