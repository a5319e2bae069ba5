"""What readers see of the newest messages."""

import msgspec

from agent.contracts.outputs import Emission
from agent.learner.view import ENDED_MAX, View
from tests.kit.messages import job


def test_what_was_told_of_a_job_is_kept_for_a_while_after_it_ended() -> None:
    view = View()
    said = msgspec.json.encode(job())
    view.apply(Emission(kind="job_predictions", key="archer2/812", value=said))
    assert view.ended("archer2/812") is None, "it runs"
    view.apply(Emission(kind="job_predictions", key="archer2/812", value=None))
    assert view.ended("archer2/812") == job()
    view.apply(Emission(kind="job_predictions", key="archer2/812", value=said))
    assert view.ended("archer2/812") is None, "it was put back into the queue and runs again"


def test_jobs_that_ended_are_kept_within_a_bound() -> None:
    view = View()
    said = msgspec.json.encode(job())
    for number in range(ENDED_MAX + 1):
        view.apply(Emission(kind="job_predictions", key=f"a/{number}", value=said))
        view.apply(Emission(kind="job_predictions", key=f"a/{number}", value=None))
    assert view.ended("a/0") is None
    assert view.ended("a/1") is not None
    assert view.ended(f"a/{ENDED_MAX}") is not None
