"""Files of racks: a table, or Slurm's topology; what is wrong with them, and who follows them."""

from pathlib import Path

import pytest

from agent.app import compose
from agent.config.load import loads
from agent.config.yaml import InvalidConfigError
from agent.reference.nodes import TableFault, read_racks
from processors.contracts.nodes import HostRack, Racks

TABLE = 'host,rack\n"nid[001-003,7]",r1\nlogin1,r2\n'
TOPOLOGY = """# topology.conf
SwitchName=s1 Nodes=nid[001-003],nid7 LinkSpeed=100
SwitchName=s2 \\
  Nodes=nid[004-006]
SwitchName=top Switches=s[1-2]
"""
PRINTED = """SwitchName=s1 Level=0 LinkSpeed=1 Nodes=nid[001-003],nid7
SwitchName=s2 Level=0 LinkSpeed=1 Nodes=nid[004-006]
SwitchName=top Level=1 LinkSpeed=1 Nodes=nid[001-007] Switches=s1,s2
"""
BLOCKS = "BlockName=b1 BlockIndex=0 Nodes=nid[001-003],nid7 BlockSize=4\n"


@pytest.mark.parametrize(
    ("text", "racks"),
    [
        (TABLE, {"nid002": "r1", "nid7": "r1", "login1": "r2", "nid004": None}),
        (TOPOLOGY, {"nid002": "s1", "nid7": "s1", "nid005": "s2", "login1": None}),
        (PRINTED, {"nid002": "s1", "nid7": "s1", "nid005": "s2", "nid007": None}),
        (BLOCKS, {"nid002": "b1", "nid7": "b1", "nid005": None}),
    ],
    ids=["a table", "topology.conf", "scontrol show topology", "blocks"],
)
def test_a_file_names_the_rack_of_each_host(text: str, racks: dict[str, str | None]) -> None:
    rows, wrong = read_racks(text)
    assert wrong == []
    known = Racks(rows)
    found = {host: known.of("exa", host) for host in racks}
    assert {host: rack and rack.name for host, rack in found.items()} == racks


def test_a_host_of_one_system_is_not_that_of_another() -> None:
    known = Racks(read_racks("host,rack,system\nn1,r1,exa\nn1,r9,mega\n")[0])
    assert [known.of(system, "n1") for system in ("exa", "mega", "giga")] == [
        HostRack("r1", listed=True), HostRack("r9", listed=True), None,
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        ("host,rack\nn[1-3,r1\n", 2, "The host list has unbalanced brackets, empty names or blanks."),
        ('host,rack\n"n[1-3]",r1\nn2,r2\n', 3, "'n2' is in rack r1 already (line 2)."),
        ("SwitchName=s1 Nodes=n[1-3]\nSwitchName=s2 Nodes=n3\n", 2, "'n3' is in rack s1 already (line 1)."),
        (f"host,rack\nn1,{'r' * 65}\n", 2, "must be a name of at most 64 characters."),
        ("host,rack\nn[1-9999999],r1\n", 2, "More than 200000 hosts are named."),
        ("host,rack,system\nn1,r1,other\n", 2, "'other' is none of the systems exa."),
        ("host,shelf\nn1,r1\n", 1, "is not a column of this file; use host, rack, system."),
    ],
)
def test_what_is_wrong_is_shown_with_its_line(text: str, line: int, message: str) -> None:
    _, wrong = read_racks(text, ("exa",))
    assert any(fault.line == line and fault.message == message for fault in wrong), wrong
    assert all(isinstance(fault, TableFault) for fault in wrong)


def test_alerts_and_pages_follow_the_same_list_and_guess_where_it_is_silent(tmp_path: Path) -> None:
    (tmp_path / "racks.csv").write_text(TABLE)
    config = loads("reference: {racks: racks.csv}\n", folder=tmp_path)
    known = compose.racks(config)
    assert [known.of("exa", host) for host in ("nid003", "x1000c0s1b0n0", "nid9")] == [
        HostRack("r1", listed=True), HostRack("x1000", listed=False), None,
    ]  # fmt: skip
    assert compose.make_shard(config).hosts.state.settings.racks is known
    (tmp_path / "racks.csv").write_text("host,rack\nn1\n")
    with pytest.raises(InvalidConfigError, match=r"racks\.csv:2:1: rack: is missing\."):
        loads("reference: {racks: racks.csv}\n", folder=tmp_path)
