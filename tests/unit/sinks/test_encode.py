import json

import msgspec
import pytest

from processors.contracts.events import DeadLetter
from processors.contracts.outputs import Answer, Prediction, Run
from sinks.topics import KINDS, Output, emission, encode, tombstone
from tests.kit.messages import COMMON, alert, job, prediction

ANSWER = Answer(
    **COMMON,
    id="r9",
    request_id="r9",
    known=False,
    detail="Nothing is known of vasp.",
    application="vasp",
    system="archer2",
    input=None,
    unit=None,
    identified_by="application",
    confidence=1.0,
    observations=0,
    points=(),
    model=None,
    useful_n=None,
    quality=None,
)
RUN = Run(
    **COMMON,
    id="archer2/812@1",
    run_id="archer2/812@1",
    application_id=None,
    identified_by="none",
    confidence=0.0,
    n=64.0,
    run_time_s=1872.0,
    state="COMPLETED",
    event=msgspec.Raw(b'{"type":"job.completed"}'),
    identities=(msgspec.Raw(b'{"source":"xalt"}'),),
)
DEAD_LETTER = DeadLetter(
    "s/1", "raw/0/7/0", "", "empty", "The value is empty.", "raw", 0, 7, "auto", "", 0, truncated=False
)


@pytest.mark.parametrize(
    ("message", "kind", "key"),
    [
        (prediction(input="a/b"), "predictions", "archer2/lammps/a%2Fb/nodes"),
        (job("8/12"), "job_predictions", "archer2/8%2F12"),
        (ANSWER, "answers", "r9"),
        (alert("f7"), "alerts", "f7"),
        (RUN, "runs", "archer2/812@1"),
        (DEAD_LETTER, "deadletters", "raw/0/7/0"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_every_message_goes_to_its_topic_under_its_key(message: Output, kind: str, key: str) -> None:
    record = emission(message)
    assert (record.kind, record.key) == (kind, key)
    assert record.value is not None
    assert json.loads(record.value)["schema"] == message.schema


def test_a_message_comes_back_from_its_bytes() -> None:
    assert msgspec.json.decode(encode(prediction()), type=Prediction) == prediction()


def test_a_settled_run_carries_its_journalled_evidence_as_plain_json() -> None:
    value = json.loads(encode(RUN))
    assert value["event"] == {"type": "job.completed"}
    assert value["identities"] == [{"source": "xalt"}]


def test_the_order_in_which_labels_were_made_does_not_show() -> None:
    forward = alert(labels={"a": "1", "b": "2"})
    backward = alert(labels={"b": "2", "a": "1"})
    assert encode(forward) == encode(backward)


def test_the_published_name_of_the_half_efficiency_size_is_kept() -> None:
    assert json.loads(encode(prediction()))["useful_n"]["at_efficiency_0.5"] == 80.0


@pytest.mark.parametrize("kind", KINDS)
def test_a_tombstone_has_a_key_and_no_value(kind: str) -> None:
    assert (tombstone(kind, "k").kind, tombstone(kind, "k").key, tombstone(kind, "k").value) == (kind, "k", None)


def test_a_tombstone_of_no_topic_is_refused_with_the_topics_there_are() -> None:
    with pytest.raises(ValueError, match="'jobs' is not a kind of output; the kinds are predictions"):
        tombstone("jobs", "k")
