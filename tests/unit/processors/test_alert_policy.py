"""Which alerts are withheld, and why: exclusions, maintenance, short runs and dry runs."""

from typing import Any, get_args

import pytest
from pydantic import ValidationError

from processors.alerts.lifecycle import Condition
from processors.alerts.policy import NO_RUN, About, Policy
from processors.alerts.rules import ALERTS
from processors.contracts.alerts import AlertName, AlertSettings
from processors.contracts.events import Evidence
from tests.kit.cases import each

NOON_MS = 1_795_262_400_000  # 2026-11-21T12:00:00Z
RUN = About(
    Evidence(
        partition="debug-1", user="ann", account="physics", qos="low", reservation="course", hosts=("nid[001-004]",)
    ),
    120.0,
)
SLOW = {"application": "lammps", "system": "exa", "input": "", "unit": "nodes"}
HOST = {"system": "exa", "host": "nid003"}


def withheld(labels: dict[str, str] = SLOW, about: About = RUN, name: str = "StrangeRun", **settings: Any) -> str:
    policy = Policy(AlertSettings.model_validate(settings))
    return policy.withheld_by(Condition(name=name, labels=labels, holds=True, time_ms=NOON_MS), about)


def excluded(labels: dict[str, str] = SLOW, about: About = RUN, name: str = "StrangeRun", **given: Any) -> bool:
    return withheld(labels, about, name, exclusions=[{**given, "comment": "trials"}]) == "exclusion 1 (trials)"


def test_every_alert_has_its_section_and_its_name_in_the_configuration() -> None:
    assert set(ALERTS) == set(get_args(AlertName))
    assert {alert.section for alert in ALERTS.values()} <= set(AlertSettings.model_fields)


def test_nothing_is_withheld_by_default() -> None:
    assert withheld() == ""


@each(
    "given",
    [
        {"system": "ex*"}, {"application": "lammps"}, {"partition": "debug*"}, {"user": "ann"}, {"account": "phys*"},
        {"qos": "low"}, {"hosts": "nid[003-009]"}, {"alerts": ["StrangeRun"]}, {"user": "ann", "partition": "debug-1"},
        {"reservation": "cour*"},
    ],
)  # fmt: skip
def test_an_alert_about_what_is_excluded_is_withheld(given: dict[str, Any]) -> None:
    assert excluded(**given)


@each(
    "given",
    [
        {"system": "other"}, {"application": "gromacs"}, {"partition": "standard"}, {"user": "bob"}, {"account": "chem"},
        {"qos": "high"}, {"hosts": "nid[005-009]"}, {"alerts": ["Regression"]}, {"user": "ann", "partition": "standard"},
        {"reservation": "maint*"},
    ],
)  # fmt: skip
def test_one_about_anything_else_is_sent(given: dict[str, Any]) -> None:
    assert not excluded(**given)


def test_alerts_about_hosts_and_partitions_are_excluded_by_their_labels() -> None:
    assert excluded(HOST, NO_RUN, "HostAnomaly", hosts="nid[001-004]")
    assert not excluded(HOST, NO_RUN, "HostAnomaly", hosts="nid[005-009]")
    assert excluded({"system": "exa", "partition": "debug-1"}, NO_RUN, "RackAnomaly", partition="debug-1")
    assert not excluded(HOST, NO_RUN, "HostAnomaly", user="ann"), "nobody's run is known"


def test_maintenance_withholds_what_is_about_its_part_while_it_lasts() -> None:
    plan = {"start": "2026-11-21T11:00:00Z", "end": "2026-11-21T14:00:00+01:00", "comment": "switches"}
    assert withheld(maintenance=[plan]) == "maintenance (switches)"
    assert withheld(maintenance=[{**plan, "hosts": "nid001"}]) == "maintenance (switches)"
    assert withheld(maintenance=[{**plan, "hosts": "nid009"}]) == ""
    assert withheld(maintenance=[{**plan, "end": "2026-11-21T12:00:00Z"}]) == ""


def test_short_runs_raise_nothing_where_a_minimum_is_set() -> None:
    assert withheld(strange_run={"run_time_min_s": 121.0}) == "short run"
    assert withheld(strange_run={"run_time_min_s": 120.0}) == ""
    assert withheld(about=NO_RUN, strange_run={"run_time_min_s": 121.0}) == ""


def test_a_dry_run_withholds_its_alert_alone() -> None:
    assert withheld(strange_run={"dry_run": True}) == "dry run"
    assert withheld(strange_run={"dry_run": True}, name="Regression") == ""


@pytest.mark.parametrize(
    "settings",
    [
        {"exclusions": [{"comment": "nothing is given"}]},
        {"exclusions": [{"user": "ann"}]},
        {"exclusions": [{"hosts": "nid[1-", "comment": "a slip"}]},
        {"exclusions": [{"alerts": ["NoSuchAlert"], "comment": "a slip"}]},
        {"maintenance": [{"start": "2026-11-21T11:00:00Z", "end": "2026-11-21T10:00:00Z"}]},
        {"maintenance": [{"start": "2026-11-21T11:00:00", "end": "2026-11-21T12:00:00Z"}]},
    ],
)
def test_a_slip_in_the_configuration_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AlertSettings.model_validate(settings)
