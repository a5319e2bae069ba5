"""Keys that all alerts share stand once, under `alerts.defaults`."""

import pytest

from agent.config.changes import changed, changes
from agent.config.load import loads
from agent.config.reference import keys
from agent.config.tree import Config
from agent.config.yaml import InvalidConfigError

SOURCES = "sources: [{topics: [slurm.jobs], system: exa}]\n"


def read(alerts: str) -> Config:
    return loads(f"{SOURCES}alerts: {alerts}\n")


def test_all_alerts_take_a_key_from_the_defaults() -> None:
    alerts = read("{defaults: {dry_run: true}}").alerts
    assert {alerts.strange_run.dry_run, alerts.rack_anomaly.dry_run, alerts.slow_size.dry_run} == {True}


def test_an_alert_may_have_a_value_of_its_own() -> None:
    alerts = read("{defaults: {dry_run: true}, strange_run: {dry_run: false}}").alerts
    assert (alerts.strange_run.dry_run, alerts.slow_size.dry_run) == (False, True)


def test_a_built_in_value_of_an_alert_stays() -> None:
    usual, alerts = read("{}").alerts, read("{defaults: {keep_firing_s: 60}}").alerts
    assert alerts.peer_difference.keep_firing_s == usual.peer_difference.keep_firing_s != 60
    assert alerts.rack_anomaly.keep_firing_s == 60


def test_a_setting_on_the_command_line_reaches_all_alerts_that_inherit_it() -> None:
    config = read("{strange_run: {dry_run: false}}")
    assert changed(config, {"alerts.defaults.dry_run": "true"}, ("alerts",)).alerts.slow_size.dry_run


def test_a_change_of_the_defaults_is_listed_once() -> None:
    found = changes(read("{}"), read("{defaults: {dry_run: true}}"))
    assert [change.path for change in found] == [("alerts", "defaults", "dry_run")]


def test_a_bad_default_is_named_at_its_own_place() -> None:
    with pytest.raises(InvalidConfigError) as refused:
        read("{defaults: {dry_run: perhaps}}")
    assert [problem.path for problem in refused.value.problems] == [("alerts", "defaults", "dry_run")]


def test_the_reference_lists_a_shared_key_once() -> None:
    listed = [key.path for key in keys() if key.path[-1] == "dry_run"]
    assert listed == [("alerts", "defaults", "dry_run")]
