"""Settings given beside the file: what they change, and what is said of those that are wrong."""

import pytest

from agent.config.changes import changed, settings_of
from agent.config.load import loads
from processors.contracts.errors import ConfigError
from tests.kit.cases import each

SECTIONS = ("alerts", "run_time", "jobs", "identify")


def test_a_setting_changes_its_key_and_nothing_else() -> None:
    given = loads(
        "alerts: {slow_size: {keep_firing_s: 60}}\nhttp: {port: 9100}\nsystems: {exa: {aliases: [exa-login]}}"
    )
    assert given.systems_by_alias == {"exa-login": "exa"}
    found = changed(given, {"alerts.strange_run.factor_min": "1.5"}, SECTIONS)
    assert found.alerts.strange_run.factor_min == 1.5
    assert (found.alerts.slow_size.keep_firing_s, found.http.port) == (60, 9100)
    assert found.systems_by_alias == {"exa-login": "exa"}
    assert given.alerts.strange_run.factor_min == 1.15


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("alerts.slow_size.enabled", "false", False),
        ("alerts.unreliable.verdicts", "[unknown, uncertain]", ("unknown", "uncertain")),
        ("alerts.runbook_url", "https://wiki/runbook#x=1", "https://wiki/runbook#x=1"),
        ("run_time.cores_per_node", "null", None),
        ("identify.fallback", "[application, user]", ("application", "user")),
    ],
)
def test_values_are_written_as_in_the_file(key: str, text: str, value: object) -> None:
    found: object = changed(loads("run_time: {cores_per_node: 64}"), settings_of(f"{key}={text}"), SECTIONS)
    for part in key.split("."):
        found = getattr(found, part)
    assert found == value


def test_semicolons_join_settings() -> None:
    found = settings_of(" alerts.open_max = 5 ;alerts.unreliable.verdicts=[far]; ")
    assert found == {"alerts.open_max": "5", "alerts.unreliable.verdicts": "[far]"}


@each(
    ("text", "reported"),
    [
        ("", "needs KEY=VALUE"),
        ("alerts.open_max", "'alerts.open_max' is not KEY=VALUE"),
        ("=5", "is not KEY=VALUE"),
        ("alerts..x=5", "is not KEY=VALUE"),
        ("alerts.open_max=1; alerts.open_max=2", "sets alerts.open_max twice"),
        (
            "kafka.bootstrap=x",
            "kafka.bootstrap: only keys of the sections alerts, run_time, jobs, identify can be set.",
        ),
        ("alerts=5", "alerts: only keys of"),
        ("alerts.open_max.deep=5", "alerts.open_max.deep: has a value above it"),
        ("alerts.open_max=many", "alerts.open_max: must be a whole number, not 'many'."),
        ("alerts.open_max=0", "alerts.open_max: must be at least 1, not 0."),
        ("alerts.opn_max=5", "alerts.opn_max: is not a key of alerts; did you mean open_max?"),
        ("alerts.new.deep.key=5", "alerts.new: is not a key of alerts"),
        ("alerts.open_max=[", "alerts.open_max: this is not valid YAML"),
        ("identify.fallback=[nobody]", "identify.fallback[0]: must be"),
    ],
)
def test_a_wrong_setting_is_a_message(text: str, reported: str) -> None:
    with pytest.raises(ConfigError) as raised:
        changed(loads(""), settings_of(text), SECTIONS)
    assert str(raised.value).startswith("--set")
    assert reported in str(raised.value)
