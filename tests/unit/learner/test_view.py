"""What readers see of the newest messages."""

import msgspec

from agent.learner.view import ENDED_MAX, View
from processors.contracts.outputs import Alert, Emission, JobPrediction, Prediction
from tests.kit.messages import alert, job, prediction


def test_what_was_reported_of_a_job_is_kept_for_a_while_after_it_ended() -> None:
    view = View()
    published = msgspec.json.encode(job())
    view.apply(Emission(kind="job_predictions", key="archer2/812", value=published))
    assert view.ended("archer2/812") is None, "it runs"
    view.apply(Emission(kind="job_predictions", key="archer2/812", value=None))
    assert view.ended("archer2/812") == job()
    view.apply(Emission(kind="job_predictions", key="archer2/812", value=published))
    assert view.ended("archer2/812") is None, "it was put back into the queue and runs again"


def test_jobs_that_ended_are_kept_within_a_bound() -> None:
    view = View()
    published = msgspec.json.encode(job())
    for number in range(ENDED_MAX + 1):
        view.apply(Emission(kind="job_predictions", key=f"a/{number}", value=published))
        view.apply(Emission(kind="job_predictions", key=f"a/{number}", value=None))
    assert view.ended("a/0") is None
    assert view.ended("a/1") is not None
    assert view.ended(f"a/{ENDED_MAX}") is not None


def test_a_view_takes_over_what_others_report_their_systems_and_keeps_what_it_knows_of_its_own() -> None:
    view, fresh = View(), View()
    for reported, system, application in (
        (view, "own", "mine"),
        (view, "other", "old"),
        (fresh, "own", "late"),
        (fresh, "other", "new"),
    ):
        published = prediction(system=system, application=application)
        reported.apply(
            Emission(kind="predictions", key=f"{system}/{application}//nodes", value=msgspec.json.encode(published))
        )
        raised = alert(fingerprint=f"{system}-{application}", labels={"system": system})
        reported.apply(Emission(kind="alerts", key=f"{system}-{application}", value=msgspec.json.encode(raised)))
        ended = alert(fingerprint=application, status="resolved", labels={"system": system})
        reported.apply(Emission(kind="alerts", key=application, value=msgspec.json.encode(ended)))
    view.adopt(fresh, lambda system: system == "own")
    assert {entry.application for entry in view.latest("predictions", Prediction)} == {"mine", "new"}
    assert {entry.fingerprint for entry in view.latest("alerts", Alert)} == {"own-mine", "other-new"}
    assert [entry.fingerprint for entry in view.resolved()] == ["mine", "new"]


def test_what_is_read_again_is_the_same_but_for_what_changed() -> None:
    view = View()
    for number in range(3):
        published = msgspec.json.encode(job(job_id=f"{number}"))
        view.apply(Emission(kind="job_predictions", key=f"archer2/{number}", value=published))
    first = view.latest("job_predictions", JobPrediction)
    assert view.latest("job_predictions", JobPrediction) is first
    later = msgspec.json.encode(job(job_id="1", run_time_s=5.0))
    view.apply(Emission(kind="job_predictions", key="archer2/1", value=later))
    view.apply(Emission(kind="job_predictions", key="archer2/2", value=None))
    second = view.latest("job_predictions", JobPrediction)
    assert [(entry.job_id, entry.run_time_s) for entry in second] == [("0", first[0].run_time_s), ("1", 5.0)]
    assert second[0] is first[0], "it was not decoded again"
