"""Files of nodes and of units: what they say, and what is said of their mistakes."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.app.compose import source_decoders, telemetry_options
from agent.config.load import load, loads
from agent.reference import nodes
from agent.reference.nodes import COLUMNS, read_nodes, read_units
from processors.contracts.errors import ConfigError
from processors.contracts.telemetry import Sensor, SeriesIndex
from tests.kit.cases import each

COMPONENTS = "use power_w>system, power_w>cpu, power_w>memory, power_w>gpu"
NODES = """# written by a script
host,system,xname,nid,component_id,aliases,partition,cores,sockets,power_max_w
nid001042,,x9000c3s0b0n0,1042,7,"c9-0, m1042",standard,128,2,900

nid001043.hpc,,X9000C3S0B0N1,1043,,,standard,128,2,900.5
"""


def faults(text: str, *systems: str) -> list[str]:
    return [f"{fault.line} {fault.field}: {fault.message}" for fault in read_nodes(text, systems)[1]]


@each(
    ("name", "host"),
    [
        ("nid001042", "nid001042"),
        ("NID001042", "nid001042"),
        ("nid001042.hpc.example", "nid001042"),
        ("nid1042", "nid001042"),
        ("nid01042.hpc", "nid001042"),
        ("x9000c3s0b0n0", "nid001042"),
        ("m1042", "nid001042"),
        ("7", "nid001042"),
        ("1043", "nid001043.hpc"),
        ("nid001043", "nid001043.hpc"),
        ("x9000c3s0b0n1", "nid001043.hpc"),
        ("1042", None),  # is a nid, and the component id of nobody
        ("x9000c3s0b0", None),
        ("login1", None),
        ("", None),
    ],
)
def test_any_name_of_a_node_leads_to_its_host(name: str, host: str | None) -> None:
    nodes, wrong = read_nodes(NODES)
    assert wrong == []
    assert nodes.host(name) == host


def test_what_is_known_of_a_node_can_be_asked_for() -> None:
    node = read_nodes(NODES)[0].node("m1042")
    assert node is not None
    assert (node.partition, node.cores, node.sockets, node.power_max_w) == ("standard", 128, 2, 900.0)


def test_a_name_may_be_another_node_in_each_system() -> None:
    nodes, wrong = read_nodes("host,system,nid\nn1-exa,exa,1\nn1-mega,mega,1\nlogin,,2\n")
    assert wrong == []
    assert [nodes.host("nid1", system) for system in ("exa", "mega", "other")] == ["n1-exa", "n1-mega", None]
    assert nodes.components("mega") == {1: "n1-mega", 2: "login"}


def test_a_short_name_that_two_nodes_would_share_leads_nowhere() -> None:
    nodes, wrong = read_nodes("host\nn1.exa\nn1.mega\n")
    assert wrong == []
    assert (nodes.host("n1"), nodes.host("n1.mega")) == (None, "n1.mega")


@each(
    ("text", "expected"),
    [
        ("", [f"1 : the file is empty; its first line names the columns: {', '.join(COLUMNS)}."]),
        ("host,xnam\n", ["1 xnam: is not a column of this file; did you mean xname?"]),
        ("host,nid,nid\n", ["1 nid: names two columns."]),
        ("nid\n1\n", ["1 host: is missing among the columns."]),
        ("host,nid\n,1\n", ["2 host: is missing."]),
        ("host\na,b\n", ["2 : has 2 cells, but there are 1 columns."]),
        ("host,nid\na,x\n", ["2 nid: must be a whole number of 0 to 1000000000000, not 'x'."]),
        ("host,cores\na,0\n", ["2 cores: must be a whole number of 1 to 65536, not '0'."]),
        ("host,power_max_w\na,nan\n", ["2 power_max_w: must be a power in W of up to 1e+07, not 'nan'."]),
        ("host,xname\na,x9c3s0b0\n", ["2 xname: 'x9c3s0b0' is not a node location, such as x9000c3s0b0n0."]),
        ("host,nid\na,1\nb,1\n", ["3 nid: 1 already stands for a (line 2)."]),
        ("host,nid,component_id\na,1,\nb,2,1\n", []),
        ("host,component_id\na,1\nb,1\n", ["3 component_id: 1 already stands for a (line 2)."]),
        ("host,aliases\na,\nb,A\n", ["3 aliases: 'a' already stands for a (line 2)."]),
        ("host,system\na,\na,exa\n", ["3 host: 'a' already stands for a (line 2)."]),
        ("host,system\na,exa\na,\n", ["3 host: 'a' already stands for a (line 2)."]),
        ('host\n"a\n', ["2 : this is not CSV: unexpected end of data."]),
        ("host\na\x1b[2J\n", ["2 host: is longer than 1024 characters, or has control characters."]),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_of_nodes_is_reported_with_its_line_and_column(text: str, expected: list[str]) -> None:
    assert faults(text) == expected


def test_nodes_are_of_systems_that_are_listed() -> None:
    assert faults("host,system\na,exa\nb,mega\n", "exa", "giga") == [
        "3 system: 'mega' is none of the systems exa, giga."
    ]


def test_a_component_id_goes_before_the_nid_of_another_node() -> None:
    nodes, wrong = read_nodes("host,nid,component_id\na,1,\nb,2,1\nc,3,9\n")
    assert wrong == []
    assert nodes.components() == {1: "b", 9: "c"}
    assert [nodes.host(name) for name in ("nid1", "1", "3", "9")] == ["a", "b", None, "c"]


def test_rows_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nodes, "ROWS_MAX", 3)
    listed, (fault,) = read_nodes("host\na\nb\nc\nd\n")
    assert (len(listed), fault.message) == (3, "has more than 3 rows before it.")


@each(
    ("row", "expected"),
    [
        ("Power,,power_w>system,J", ["2 unit: must be one of W, mW, kW for power_w."]),
        ("Power,,power_w>system,", ["2 unit: must be one of W, mW, kW for power_w."]),
        ("Energy,,energy_total>system,W", ["2 unit: must be one of J, mJ, kJ, MJ, Wh, kWh for energy_total."]),
        ("Power,,power_w,W", [f"2 resource: 'power_w' names no component: {COMPONENTS}, with :INDEX for one of several."]),
        ("Power,,Power W,W", ["2 resource: 'Power W' is not a resource, such as power_w>system, or ignore."]),
        ("Power,x,power_w>gpu:0,W", ["2 index: must be a whole number, not 'x'."]),
        (",,power_w>gpu:0,W", ["2 message: is missing."]),
        ("Temperature,,inlet_temperature,1", []),
        ("Temperature,,inlet_temperature,", []),
        ("Power,3,ignore,", []),
        ("Power,0,power_w>cpu:{parent},kW", []),
    ],
)  # fmt: skip
def test_a_mistake_in_the_file_of_units_is_reported_with_its_line_and_column(row: str, expected: list[str]) -> None:
    found = read_units(f"message,index,resource,unit\n{row}\n")[1]
    assert [f"{fault.line} {fault.field}: {fault.message}" for fault in found] == expected


def test_a_rule_may_ask_for_the_place_the_index_and_that_there_is_no_context() -> None:
    sensors, wrong = read_units(
        "message,parental_context,index,location,source,resource,unit\n"
        "Power,-,0,x3???c*,River,power_w>system,kW\n"
        "CrayTelemetry.Power,CPU,,,,power_w>cpu:{parent},W\n"
    )
    assert wrong == []
    river = Sensor("CrayTelemetry.Power", "x3000c0s17b0", number=0, source="River")
    found = sensors.find(river)
    assert found is not None
    assert (found.rank, found.rule.factor) == (0, 1000.0)
    for other in (
        river._replace(parental_context="PDU"), river._replace(number=1), river._replace(location="x1000c0s1b0"),
        river._replace(source="nC"), river._replace(message="CrayTelemetry.Voltage"),
    ):  # fmt: skip
        assert sensors.find(other) is None
    cpu = Sensor("Power", "x1c0s0b0n0", "CPU", 1)
    assert sensors.find(cpu) is None  # whose rule wants the whole name
    named = sensors.find(cpu._replace(message="CrayTelemetry.Power"))
    assert named is not None
    assert named.rule.named(cpu) == "power_w>cpu:1"
    assert named.rule.named(cpu._replace(parental_index=-1)) == "power_w>cpu"


@given(text=st.text(alphabet=st.sampled_from('host,nidxame\n"#;>0-9 \x00\ud7ff'), max_size=200))
def test_whatever_is_in_a_file_it_is_read_or_shown_what_is_wrong(text: str) -> None:
    for read in (read_nodes, read_units):
        _, wrong = read(text)
        assert all(fault.line > 0 and fault.message.endswith((".", "?")) for fault in wrong)


def test_every_problem_of_the_files_comes_with_those_of_the_configuration(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("host,nid\na,x\n")
    file = tmp_path / "agent.yaml"
    file.write_text("http: {port: x}\nreference: {nodes: nodes.csv, units: units.csv}\n")
    with pytest.raises(ConfigError) as refused:
        load(file, environment={})
    assert str(refused.value).splitlines() == [
        f"{file}:1:8: http.port: must be a whole number, not 'x'.",
        f"{tmp_path}/nodes.csv:2:1: nid: must be a whole number of 0 to 1000000000000, not 'x'.",
        f"{tmp_path}/units.csv: cannot be read: No such file or directory.",
    ]


def test_a_file_that_is_no_text_is_named(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_bytes(b"host\n\xff\xfe\n")
    with pytest.raises(ConfigError, match=r"nodes\.csv: cannot be read: it is not UTF-8 text\."):
        loads("reference: {nodes: nodes.csv}", folder=tmp_path)


def test_decoders_of_a_source_know_the_files(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("host,system,nid,aliases\nn1,exa,1042,node1\nn2,mega,1042,node1\n")
    config = loads(
        "systems: {exa: {aliases: [exa-login]}, mega: {}}\nreference: {nodes: nodes.csv}\n"
        "sources: [{topics: [a], format: ldms, system: exa-login}, {topics: [b], format: line-protocol, system: mega}]",
        folder=tmp_path,
    )
    assert [telemetry_options(config, source).hosts for source in config.sources] == [{1042: "n1"}, {1042: "n2"}]
    ldms, lines = (source_decoders(config, source).telemetry for source in config.sources)
    assert ldms is not None
    assert lines is not None
    index = SeriesIndex(9)
    ldms()([b'{"timestamp":1787217284.5,"component_id":1042,"load1min":1}'], [1787217285000], index)
    lines()([b"system,host=node1 load1=1 1787217284"], [1787217285000], index)
    assert {index[number].host for number in range(len(index))} == {"n1", "n2"}
