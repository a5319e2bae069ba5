"""Files of where hosts are in the network: tables, or Slurm's topology; what is wrong with them, and who follows them."""

from pathlib import Path

import pytest

from agent.app import compose
from agent.config.load import loads
from agent.config.yaml import InvalidConfigError
from agent.reference.nodes import read_topology
from processors.features.placements import Placements
from tests.kit.cases import each

TORUS = 'host,x,y,z\nn1,0,0,0\nn2,0,0,1\n"n[3-4]",0,3,1\n'
GROUPS = 'host,group,switch\n"n[1-2]",g1,s1\nn3,g1,s2\nn4,g2,s3\n'
LEAVES = 'host,switch\n"n[1-2]",s1\nn3,s2\nn4,s3\n'
SLURM = """SwitchName=s1 Nodes=n[1-2]
SwitchName=s2 Nodes=n3
SwitchName=s3 Nodes=n4
SwitchName=g1 Switches=s[1-2]
SwitchName=g2 Switches=s3
SwitchName=top Switches=g[1-2]
"""
PRINTED = """SwitchName=s1 Level=0 Nodes=n[1-2]
SwitchName=s2 Level=0 Nodes=n3
SwitchName=top Level=1 Nodes=n[1-3] Switches=s1,s2
"""


@pytest.mark.parametrize(
    ("text", "hosts", "hops"),
    [
        (TORUS, "n1,n2,n3", [1.0, 1.0]),
        (TORUS, "n3,n4", [0.0]),
        (GROUPS, "n[1-4]", [2.0, 4.0, 6.0]),
        (LEAVES, "n[1-4]", [2.0, 4.0, 4.0]),
        (SLURM, "n[1-4]", [2.0, 4.0, 6.0]),
        (PRINTED, "n[1-3]", [2.0, 4.0]),
    ],
)
def test_a_file_shows_how_far_apart_hosts_are(text: str, hosts: str, hops: list[float]) -> None:
    listed, wrong = read_topology(text)
    assert wrong == []
    found = Placements(listed).of("exa", (hosts,))
    assert found["next_avg_hops"] == pytest.approx(sum(hops) / len(hops))
    assert found["next_max_hops"] == max(hops)


def test_a_host_of_one_system_is_not_that_of_another() -> None:
    known = Placements(read_topology("host,x,system\nn1,0,exa\nn2,1,exa\nn1,0,mega\nn2,9,mega\nn3,5,mega\n")[0])
    found = {system: known.of(system, ("n[1-2]",)).get("next_max_hops") for system in ("exa", "mega", "giga")}
    assert found == {"exa": 1.0, "mega": 1.0, "giga": None}


@pytest.mark.parametrize("hosts", ["n[1-5]", "n1", "n[1-", "(null)", "n[1-99999999]"])
def test_hosts_that_are_not_all_known_or_one_alone_have_no_placement(hosts: str) -> None:
    known = Placements(read_topology(LEAVES)[0])
    assert known.of("exa", (hosts,)) == {}
    assert known.of("exa", ()) == {}


@each(
    ("text", "line", "message"),
    [
        ("host,x\nn[1-3,1\n", 2, "The host list has unbalanced brackets, empty names or blanks."),
        ('host,x\n"n[1-3]",1\nn2,2\n', 3, "'n2' has a place already (line 2)."),
        ("SwitchName=s1 Nodes=n[1-3]\nSwitchName=s2 Nodes=n3\n", 2, "'n3' has a place already (line 1)."),
        ("SwitchName=s1 Nodes=n1\nSwitchName=s2 Switches=s[1\n", 2, "The host list has unbalanced brackets, empty names or blanks."),
        ("SwitchName=a Switches=b\nSwitchName=b Switches=a\nSwitchName=c Nodes=n1\nSwitchName=a Switches=c\n", 3,
         "'c' has more than 16 switches above it."),
        ("host,x\nn1,-1\n", 2, "must be a whole number of 0 to 99999, not '-1'."),
        ("host,x,y\nn1,1,2\nn2,1\n", 3, "needs x, y, as the rows before it."),
        ("host,x,switch\nn1,1,s1\n", 2, "needs coordinates, or a switch and maybe its group, and not both."),
        ("host,x\nn1,\n", 2, "needs coordinates, or a switch and maybe its group, and not both."),
        ("host,group\nn1,g1\n", 2, "is missing."),
        ("host,x,system\nn1,1,other\n", 2, "'other' is none of the systems exa."),
        (f"host,switch\nn1,{'s' * 65}\n", 2, "must be a name of at most 64 characters."),
        ("host,x,y,z,a\nn1,99999,99999,99999,99999\n", 1, "is a torus of more than 1000000000000 nodes."),
        ("host,rack\nn1,r1\n", 1, "is not a column of this file; use host, x, y, z, a, b, c, d, e, group, switch, system."),
    ],
)  # fmt: skip
def test_what_is_wrong_is_shown_with_its_line(text: str, line: int, message: str) -> None:
    _, wrong = read_topology(text, ("exa",))
    assert any(fault.line == line and fault.message == message for fault in wrong), wrong


def test_the_configuration_names_the_file_and_the_learner_has_it(tmp_path: Path) -> None:
    (tmp_path / "topology.csv").write_text(TORUS)
    config = loads("reference: {topology: topology.csv}\n", folder=tmp_path)
    placements = compose.make_shard(config).state.settings.placements
    assert placements.of("exa", ("n[1-2]",))["next_avg_hops"] == 1.0
    (tmp_path / "topology.csv").write_text("host,x\nn1,east\n")
    with pytest.raises(InvalidConfigError, match=r"topology\.csv:2:1: x: must be a whole number"):
        loads("reference: {topology: topology.csv}\n", folder=tmp_path)
