"""Files of maintenance: what they withhold, and what is said of their mistakes."""

import json
from pathlib import Path
from typing import Any

import pytest

from agent.app import compose
from agent.config.load import load, loads
from agent.config.references import WINDOWS_MAX, calendar_digest, read_calendar
from agent.config.yaml import InvalidConfigError
from processors.alerts.lifecycle import Condition
from processors.alerts.policy import Policy

NOON_S = 1_795_262_400  # 2026-11-21T12:00:00Z
OWN = "maintenance:\n  - {start: 2026-11-21T11:00:00Z, end: 2026-11-21T13:00:00Z, hosts: 'nid[1-4]', comment: fans}\n"


def reservation(**fields: Any) -> dict[str, Any]:
    """A reservation as Slurm 24.11 and 26.05 print it, shortened by what is not read."""
    return {
        "name": "switches",
        "flags": ["MAINT", "IGNORE_JOBS", "SPEC_NODES"],
        "start_time": {"set": True, "infinite": False, "number": NOON_S - 3600},
        "end_time": {"set": True, "infinite": False, "number": NOON_S + 3600},
        "node_list": "nid[002-003]",
        "partition": "",
        **fields,
    }


def printed(*reservations: dict[str, Any], cluster: str = "exa", printed_s: int = NOON_S, **fields: Any) -> str:
    about = {"last_update": {"set": True, "number": printed_s}, "meta": {"slurm": {"cluster": cluster}}, "errors": []}
    return json.dumps({"reservations": reservations, **about, **fields})


def withheld(folder: Path, *files: str, system: str = "exa", host: str | None = "nid002", time_s: int = NOON_S) -> str:
    """Why an agent that reads these files does not send an alert about a host at a time."""
    for number, text in enumerate(files):
        (folder / f"{number}.json").write_text(text)
    named = ", ".join(f"{number}.json" for number in range(len(files)))
    config = f"systems: {{exa: {{aliases: [exa-slurm]}}, other: {{}}}}\nreference: {{calendar: [{named}]}}\n"
    (folder / "agent.yaml").write_text(config)
    settings = compose.make_shard(load(folder / "agent.yaml")).state.settings.alerts
    labels = {"system": system} | ({"host": host} if host else {"application": "lammps"})
    return Policy(settings).withheld_by(Condition(name="HostAnomaly", labels=labels, holds=True, time_ms=time_s * 1000))


def test_a_reservation_for_maintenance_withholds_alerts_of_its_hosts_while_it_lasts(tmp_path: Path) -> None:
    text = printed(reservation())
    assert withheld(tmp_path, text) == "maintenance (reservation switches)"
    assert withheld(tmp_path, text, host="nid004") == ""
    assert withheld(tmp_path, text, system="other") == ""
    assert withheld(tmp_path, text, time_s=NOON_S + 3600) == ""
    assert withheld(tmp_path, text, time_s=NOON_S - 3601) == ""


@pytest.mark.parametrize(
    "fields",
    [{"flags": ["SPEC_NODES"]}, {"flags": ["MAINT", "TIME_FLOAT"]}, {"node_list": ""}, {"node_list": None}],
)
def test_other_reservations_withhold_nothing(tmp_path: Path, fields: dict[str, Any]) -> None:
    assert withheld(tmp_path, printed(reservation(**fields))) == ""


def test_one_of_all_nodes_withholds_what_is_about_no_host_of_its_cluster_too(tmp_path: Path) -> None:
    text = printed(reservation(flags=["MAINT", "ALL_NODES"]))
    assert withheld(tmp_path, text, host=None) == "maintenance (reservation switches)"
    assert withheld(tmp_path, text, host=None, system="other") == ""
    assert withheld(tmp_path, printed(reservation()), host=None) == ""


def test_a_reservation_without_an_end_goes_on(tmp_path: Path) -> None:
    text = printed(reservation(end_time={"set": True, "infinite": True, "number": 0}))
    assert withheld(tmp_path, text, time_s=NOON_S + 10**8) == "maintenance (reservation switches)"


def test_times_may_be_plain_numbers_as_older_versions_write_them(tmp_path: Path) -> None:
    text = printed(reservation(start_time=NOON_S - 60, end_time=NOON_S + 60))
    assert withheld(tmp_path, text) == "maintenance (reservation switches)"


def test_a_cluster_may_go_by_the_other_name_of_its_system(tmp_path: Path) -> None:
    assert withheld(tmp_path, printed(reservation(), cluster="exa-slurm")) == "maintenance (reservation switches)"


def test_several_files_add_up_in_either_form(tmp_path: Path) -> None:
    files = (printed(), OWN)
    assert withheld(tmp_path, *files, host="nid3") == "maintenance (fans)"
    assert withheld(tmp_path, *files, host="nid002") == ""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (printed(cluster="elsewhere"), "0.json: is of the cluster 'elsewhere': list it in systems, or as an alias of one."),
        (printed(errors=[{"description": "Unable to contact slurm controller"}]), "Unable to contact slurm controller"),
        (printed(reservation(end_time=0)), "the reservation 'switches' is not understood: "),
        (printed(reservation(node_list="nid[1-")), "the reservation 'switches' is not understood: "),
        (printed(*[reservation()] * (WINDOWS_MAX + 1)), "has more than 256 reservations with the flag MAINT."),
        ('{"reservations": 7}', "is not JSON of `scontrol show reservations --json`: "),
        ("", "0.json: has to be a mapping with the key `maintenance`."),
        ("maintenance: [{start: 2026-11-21T11:00:00Z}]", "0.json:1:15: maintenance[0].end: is missing."),
        (OWN.replace("hosts", "node"), "0.json:2:"),
        (OWN.replace("2026-11-21T13", "2026-11-21T10"), "the end has to come after the start."),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_named_and_refuses_the_configuration(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(InvalidConfigError) as refused:
        withheld(tmp_path, text)
    assert message in str(refused.value)


def test_a_file_that_is_not_there_refuses_the_configuration(tmp_path: Path) -> None:
    with pytest.raises(InvalidConfigError, match=r"calendar\.json: cannot be read"):
        loads("reference: {calendar: [calendar.json]}", folder=tmp_path)


def test_without_listed_systems_a_reservation_is_about_its_hosts() -> None:
    windows, problems = read_calendar(printed(reservation(flags=["MAINT", "ALL_NODES"])), "x")
    assert ([(one.system, one.hosts) for one in windows], problems) == ([(None, "nid[002-003]")], [])
    assert read_calendar(printed(reservation(), cluster=""), "x", ["exa"])[0][0].system is None


def test_another_print_of_the_same_reservations_is_no_change() -> None:
    assert calendar_digest(printed(reservation())) == calendar_digest(printed(reservation(), printed_s=NOON_S + 300))
    assert calendar_digest(printed(reservation())) != calendar_digest(printed(reservation(node_list="nid002")))
    assert calendar_digest("no calendar") != calendar_digest("no calendar either")
