"""The demo: the same seed gives the same centre and the same predictions, however time is cut."""

import msgspec

from agent.app.demo import START_MS, Demo
from tests.kit.clock import FakeClock


def advanced(seed: int, *seconds: float) -> Demo:
    demo = Demo(seed=seed, speed=3600.0, clock=FakeClock())
    for moment in seconds:
        demo.advance(moment)
    return demo


def told(demo: Demo) -> bytes:
    service = demo.agent.service
    return msgspec.json.encode([service.predictions(), service.jobs(), service.alerts()])


def test_the_same_seed_gives_the_same_predictions_jobs_and_alerts_to_the_byte() -> None:
    first, second = advanced(1, 1.0, 2.0, 3.0), advanced(1, 1.0, 2.0, 3.0)
    assert len(first.agent.service.predictions()) > 3
    assert told(first) == told(second)


def test_another_seed_gives_another_centre() -> None:
    assert told(advanced(1, 2.0)) != told(advanced(2, 2.0))


def test_time_passes_at_the_speed_that_was_asked_for() -> None:
    demo = advanced(1, 0.5)
    assert demo.now_ms == START_MS + 1_800_000
    assert demo.headline() == "simulated centre, 2026-11-20T10:30:00Z, 3600 times real time"


def test_predictions_come_near_the_truth_that_the_agent_does_not_know() -> None:
    demo = advanced(1, 2.0, 4.0, 6.0)
    errors = []
    for said in demo.agent.service.predictions():
        for point in said.curve:
            truth = demo.truth(f"{said.system}/{said.application}/{said.input}/{said.unit}", point.n)
            if truth is not None and point.source == "observed" and said.observations >= 20:
                errors.append(abs(point.run_time_s / truth - 1))
    assert len(errors) > 10
    assert sorted(errors)[len(errors) // 2] < 0.1


def test_the_application_that_becomes_slower_half_way_is_told_with_its_factor() -> None:
    demo = advanced(1, *(moment / 2 for moment in range(1, 20)))
    names = [alert.labels["alertname"] for alert in demo.agent.service.alerts()]
    assert "Regression" not in names, "everything is as it was until then"
    for moment in range(20, 29):
        demo.advance(moment / 2)
    told_of = [alert for alert in demo.agent.service.alerts() if alert.labels["alertname"] == "Regression"]
    assert [alert.labels["application"] for alert in told_of] == ["crash-test"]
    assert "crash-test on simulated takes 1.3" in told_of[0].annotations["summary"]
