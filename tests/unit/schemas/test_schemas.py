"""The schemas say of messages what the code does with them."""

import json
from typing import Any

import jsonschema
import msgspec
import pytest

from agent.decode.message import DecodeOptions, TelemetryOptions, dead_letter
from agent.decode.native import native_decoder
from agent.decode.telemetry.native import load_decoder
from agent.describe.describe import DIALECT, INPUTS, NAMES, schema
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import JobCompleted, Origin, Refusal, Refused
from processors.contracts.load import LoadHistogram, LoadQuality, UnderLoad
from processors.contracts.outputs import (
    SCHEMAS,
    Alert,
    AlertEvidence,
    Answer,
    CurvePoint,
    JobPrediction,
    Member,
    Model,
    Prediction,
    Quality,
    Range,
    Reliability,
    Run,
    UsefulSizes,
)
from processors.contracts.telemetry import SeriesIndex
from tests.kit.cases import each
from tests.kit.messages import host_report

HEAD: dict[str, Any] = {
    "id": "1",
    "time": "2026-11-20T10:00:00Z",
    "as_of": "2026-11-20T10:00:00Z",
    "agent_version": "0.1.0",
}
WHERE: dict[str, Any] = {"application": "lammps", "system": "exa", "input": "", "unit": "nodes"}
POINT = CurvePoint(
    n=4, run_time_s=10, low_s=9, high_s=11, coverage=0.9, coverage_measured=None, speedup=3.5, efficiency=0.9,
    extrapolation=1, source="observed", reliability=Reliability("reliable"),
)  # fmt: skip
MODEL = Model(name="combination", members=(Member("downey", 1.0, {"A": 12.0}),))
TRUST = Reliability("reliable")
QUALITY = LoadQuality(
    of="centre",
    scored=3,
    in_range=1,
    hits=(0, 0, 1, 0, 0),
    expected=(0.1, 0.2, 0.4, 0.2, 0.1),
    crps_ratio=0.8,
    pit=(0.1,) * 10,
)
LOADED = UnderLoad(
    as_of="2026-11-20T10:00:00Z", hosts="nid[1-4]", hosts_count=4, n=4, looked_at=4, mean_s=12, q05_s=10, q50_s=12, q95_s=14,
    histogram=LoadHistogram((10, 11, 12, 13, 14, 15), (0.1, 0.2, 0.4, 0.2, 0.1)), variation="low", load=1.2, quality=QUALITY,
)  # fmt: skip
MESSAGES = (
    host_report(),
    Prediction(
        schema="scalewatch.prediction/1", **HEAD, **WHERE, observations=3, sizes=(4.0,), model=MODEL, curve=(POINT,),
        useful_n=UsefulSizes(max=8), reliable_n=Range(1, 8), preferred_n=None, reliability=TRUST, quality=Quality(),
        under_load=LOADED,
    ),
    JobPrediction(
        schema="scalewatch.job-prediction/1", **HEAD, **WHERE, job_id="812", n=4, start="2026-11-20T10:00:00Z",
        time_limit_s=None, known=True, run_time_s=10, low_s=9, high_s=11, coverage=0.9, end=None, end_low=None,
        end_high=None, probability_exceeds_limit=None, reliability=TRUST,
    ),
    Answer(
        schema="scalewatch.answer/1", **HEAD, **WHERE, request_id="r9", known=False, detail="Nothing is known.",
        identified_by="none", confidence=0, observations=0, points=(), model=None, useful_n=None, quality=None,
    ),
    Alert(
        schema="scalewatch.alert/1", **HEAD, fingerprint="a", status="firing", kind="anomaly", severity="warning",
        labels={}, annotations={}, starts="2026-11-20T10:00:00Z", ends=None, evidence=AlertEvidence(observed=2.0),
    ),
    Run(
        schema="scalewatch.run/1", **HEAD, run_id="exa/812@1", application_id=None, identified_by="none", confidence=0,
        n=None, run_time_s=3, state="COMPLETED", event=msgspec.Raw(b"{}"), identities=(),
    ),
    dead_letter(
        Refusal(Origin("slurm.jobs", 0, 1), Refused(InvalidInputError("not-json", "It is no JSON.")), "slurm", b"x", 1)
    ),
)  # fmt: skip


@each("name", NAMES)
def test_every_schema_is_a_valid_schema_with_its_name(name: str) -> None:
    found = schema(name)
    jsonschema.Draft202012Validator.check_schema(found)
    assert (found["$id"], found["$schema"]) == (name, DIALECT)


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: type(message).__name__)
def test_a_message_as_written_fits_the_schema_that_it_names(message: Any) -> None:
    written = json.loads(msgspec.json.encode(message))
    found = schema(written["schema"])
    jsonschema.validate(written, found)
    assert set(written) <= set(found["properties"])
    for field in found["required"]:
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate({name: value for name, value in written.items() if name != field}, found)


def test_every_output_message_has_a_schema_and_a_sample() -> None:
    assert {message.schema for message in MESSAGES} == set(SCHEMAS)


def test_a_reader_of_today_takes_fields_of_tomorrow() -> None:
    for name in SCHEMAS:
        assert schema(name).get("additionalProperties", True) is True


STARTED = {"type": "job.started", "system": "exa", "job_id": "812", "start": "2026-11-20T10:00:00Z"}
COMPLETED = {
    "type": "job.completed", "system": "exa", "job_id": "812", "n": 4, "unit": "nodes",
    "start": "2026-11-20T10:00:00Z", "end": "2026-11-20T10:01:00Z",
}  # fmt: skip
IDENTITY = {"type": "identity", "system": "exa", "job_id": 812, "source": "xalt", "executable": "/opt/lmp"}
NETWORK = {
    "type": "network", "system": "exa", "job_id": 812, "time": "2026-11-20T10:00:00Z", "features": {"max_fifo": 5},
}  # fmt: skip
REQUEST = {"type": "prediction.requested", "system": "exa", "request_id": "r9", "n": [64, 128]}


@each(
    "event",
    [
        STARTED,
        STARTED | {"n": 4, "unit": "nodes", "attributes": {"atoms": 32000}, "hosts": ["nid[1-4]"]},
        COMPLETED,
        COMPLETED | {"run_time_s": 60.0, "state": "FAILED", "exit_code": 1},
        IDENTITY,
        REQUEST,
        REQUEST | {"n": 64, "unit": "cores", "job_name": "gmx_prod"},
        COMPLETED | {"unknown": 1},
        STARTED | {"n": 4},
        STARTED | {"unit": "nodes"},
        STARTED | {"n": 0, "unit": "nodes"},
        STARTED | {"n": 4, "unit": "racks"},
        STARTED | {"system": ""},
        STARTED | {"system": 3},
        {name: value for name, value in STARTED.items() if name != "start"},
        {name: value for name, value in COMPLETED.items() if name != "n"},
        {name: value for name, value in COMPLETED.items() if name != "end"},
        COMPLETED | {"state": "GREAT"},
        COMPLETED | {"run_time_s": "a minute"},
        COMPLETED | {"application": "x" * 257},
        COMPLETED | {"attributes": {str(i): i for i in range(33)}},
        {name: value for name, value in IDENTITY.items() if name != "source"},
        REQUEST | {"n": []},
        REQUEST | {"n": [0]},
        REQUEST | {"unit": "racks"},
        NETWORK,
        NETWORK | {"features": None, "links": {"bytes": [1.0], "buffered": [0], "received": [3]}},
        NETWORK | {"features": None, "fifo_messages": [1, 2]},
        NETWORK | {"features": None},
        NETWORK | {"features": {str(i): i for i in range(65)}},
        NETWORK | {"links": {"bytes": [1.0], "buffered": [0]}},
        NETWORK | {"messages": {"hops": [-1], "bytes": [0]}},
    ],
)  # fmt: skip
def test_the_schema_takes_an_event_exactly_where_the_decoder_does(event: dict[str, Any]) -> None:
    decode = native_decoder(DecodeOptions())
    try:
        taken = not decode(json.dumps(event).encode(), 1795170000000).rejects
    except InvalidInputError:
        taken = False
    fitting = schema(f"scalewatch.event.{event['type']}/1")
    assert jsonschema.Draft202012Validator(fitting).is_valid(event) == taken


def test_a_number_that_became_a_text_on_its_way_is_taken_though_the_schema_asks_producers_for_a_number() -> None:
    event = COMPLETED | {"run_time_s": "60"}
    (found,) = native_decoder(DecodeOptions())(json.dumps(event).encode(), 1795170000000).events
    assert isinstance(found, JobCompleted)
    assert found.run_time_s == 60.0
    assert not jsonschema.Draft202012Validator(schema("scalewatch.event.job.completed/1")).is_valid(event)


@each(
    "sample",
    [
        {"type": "load", "resource": "load1", "value": 3.5},
        {"type": "load", "resource": "bandwidth", "peer": "g3", "value": 3.5},
        {"type": "power", "component": "cpu:0", "power_w": 210.5, "job_id": 812},
        {"type": "power", "component": "gpu", "power_w": None},
        {"type": "counters", "interval_s": 60, "counters": {"PAPI_TOT_CYC": 1.2e11, "PAPI_TOT_INS": None}},
        {"type": "counters", "counters": {}, "cumulative": True, "job_id": "812"},
        {"type": "load", "resource": "load1"},
        {"type": "power", "component": "fan", "power_w": 210.5},
        {"type": "power", "component": "cpu:0#7", "power_w": 210.5},
        {"type": "power", "component": "cpu", "power_w": "210.5"},
        {"type": "counters", "interval_s": 0, "counters": {"a": 1}},
        {"type": "counters", "counters": {"": 1}},
        {"type": "counters", "counters": {str(i): i for i in range(257)}},
        {"type": "counters"},
    ],
)
def test_the_schema_takes_a_sample_exactly_where_the_decoder_does(sample: dict[str, Any]) -> None:
    sample = {"system": "exa", "host": "nid1", "time": "2026-11-20T10:00:00Z", **sample}
    batch = load_decoder(TelemetryOptions())([json.dumps(sample).encode()], [1795170000000], SeriesIndex(300))
    fitting = schema(f"scalewatch.event.{sample['type']}/1")
    assert jsonschema.Draft202012Validator(fitting).is_valid(sample) == (
        not any(one.rejects for _, one in batch.others)
    )


def test_every_native_type_of_event_has_a_schema() -> None:
    types = [schema(name)["properties"]["type"]["enum"] for name in INPUTS]
    assert [kind for (kind,) in types] == [
        "job.started", "job.completed", "identity", "prediction.requested", "network", "load", "power", "counters",
    ]  # fmt: skip
    assert {schema(name)["$id"] for name in NAMES} == set(NAMES)
