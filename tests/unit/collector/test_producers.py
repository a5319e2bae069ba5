"""Telemetry of producers that have other names for hosts becomes minutes of the hosts that jobs run on."""

from pathlib import Path

import pytest

from agent.config.load import loads
from processors.contracts.events import HostMinute, HostState, Identity
from processors.contracts.names import rfc3339
from tests.unit.collector.test_telemetry import START_MS, Centre

NODES = "host,xname,nid,aliases\nnid001042,x9c3s0b0n0,1042,gpu7\nnid001043,x9c3s0b0n1,1043,\n"


def power(second: int, value: float, place: str = "x9c3s0b0n0", context: str = "Chassis") -> bytes:
    sensor = (
        f'{{"Timestamp":"{rfc3339(START_MS + second * 1000)}","Location":"{place}","ParentalContext":"{context}",'
        f'"PhysicalContext":"VoltageRegulator","Index":0,"PhysicalSubContext":"Input","Value":"{value}"}}'
    )
    return f'{{"Context":"x","Events":[{{"MessageId":"CrayTelemetry.Power","Oem":{{"Sensors":[{sensor}]}}}}]}}'.encode()


def switched(node: int, state: str) -> bytes:
    path = f'"/redfish/v1/Systems/Node{node}"'
    return (
        '{"Context":"x9c3s0b0","Events":[{"EventTimestamp":"2026-11-20T10:00:30Z","MessageArgs":'
        f'[{path},"{state}"],"MessageId":"ResourceEvent.1.0.ResourcePowerStateChanged"}}]}}'
    ).encode()


@pytest.mark.parametrize("source_format", ["auto", "cray"])
def test_power_of_places_ldms_numbers_and_aliases_meet_at_one_host(tmp_path: Path, source_format: str) -> None:
    (tmp_path / "nodes.csv").write_text(NODES)
    config = loads(
        f"reference: {{nodes: nodes.csv}}\nsources: [{{topics: [raw], format: {source_format}, system: exa}}]",
        folder=tmp_path,
    )
    centre = Centre(config=config)
    collector = centre.collector()
    others = [
        b'{"timestamp":1795168815.5,"component_id":1042,"load1min":1.0}',
        b"system,host=gpu7.hpc.example load5=2,load1=3 1795168825",
    ]
    for second in range(0, 60, 10):
        centre.send(second, power(second, 400.0 + second))
    centre.send(
        60, power(3, 900.0, "x9c3"), power(3, 900.0, "x1c0s0b0n0"), power(3, 20.0, context="ASIC"), switched(1, "Off")
    )
    centre.send(61, *(others if source_format == "auto" else []))
    centre.send(240, power(240, 400.0, "x9c3s0b0n1"))
    centre.work(collector)
    minutes = {
        event.host: event for event in centre.journal() if isinstance(event, HostMinute) and event.minute_ms == START_MS
    }
    reported = minutes["nid001042"].resources
    assert reported["power_w>system"].mean == 425.0
    assert reported["power_w>system"].energy_j == pytest.approx(425.0 * 60, rel=0.02)
    assert (reported.get("load1") is not None) == (source_format == "auto")
    assert set(minutes) == {"nid001042"}
    assert [(event.host, event.state) for event in centre.journal() if isinstance(event, HostState)] == [
        ("nid001043", "down")
    ]
    assert [centre.left_out(reason) for reason in ("shared", "unknown_host", "no_unit")] == [1, 1, 1]
    assert centre.dead_letters() == []


def test_programs_of_jobs_that_sonar_sees_are_evidence_in_the_journal() -> None:
    centre = Centre(config=loads("sources: [{topics: [raw], format: sonar}]"))
    collector = centre.collector()
    attributes = '"time":"2026-11-20T10:00:00Z","cluster":"saga","node":"c1","jobs":[{"job":812,"processes":[{"cmd":"gmx_mpi","cpu_time":9}]}]'
    message = f'{{"meta":{{}},"data":{{"type":"sample","attributes":{{{attributes}}}}}}}'.encode()
    centre.send(1, message, message)
    centre.work(collector)
    found = [event for event in centre.journal() if isinstance(event, Identity)]
    assert [(event.system, event.job_id, event.source, event.evidence.executable) for event in found] == [
        ("saga", "812", "sonar", "gmx_mpi")
    ]


def test_the_topic_of_mqtt_may_be_the_key_of_the_record() -> None:
    centre = Centre(config=loads("sources: [{topics: [raw], format: examon}]"))
    collector = centre.collector()
    topic = b"org/e4/cluster/exa/node/cn01/plugin/ganglia_pub/chnl/data/load_one"
    for second in range(0, 60, 10):
        centre.send(second, f"2.5;{START_MS // 1000 + second}.000".encode(), key=topic)
    centre.send(240, f"2.5;{START_MS // 1000 + 240}.000".encode(), key=topic)
    centre.send(241, b"2.5;1795168815.000")
    centre.work(collector)
    minutes = [event for event in centre.journal() if isinstance(event, HostMinute)]
    assert [(event.host, event.resources["load1"].mean) for event in minutes[:1]] == [("cn01", 2.5)]
    assert centre.dead_letters() == [("missing-field", 7)]
