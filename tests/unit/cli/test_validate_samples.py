"""`scalewatch validate --samples`: what a configuration makes of messages that producers wrote."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from agent.cli import main

CASES = Path(__file__).parents[2] / "cases" / "decode"
CRAY = CASES / "cray-hmcollector"
CONFIG = """
sources:
  - {topics: [slurm.jobs], format: slurm, system: exa}
  - {topics: ["^cray-telemetry-.*"], format: cray, system: exa}
  - {topics: [ldms], format: ldms, system: exa}
  - {topics: [telegraf], format: telegraf, system: exa}
reference: {nodes: nodes.csv}
privacy: {users: drop}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agent.yaml").write_text(CONFIG)
    (tmp_path / "nodes.csv").write_text((CRAY / "nodes.csv").read_text())
    return tmp_path


def validate(folder: Path, *samples: Path | str, options: tuple[str, ...] = ()) -> Result:
    given = [part for sample in samples for part in ("--samples", str(sample))]
    return CliRunner().invoke(main, ["validate", "-c", str(folder / "agent.yaml"), *given, *options])


def test_the_source_that_can_use_a_file_states_what_came_and_what_could_not_be_placed(folder: Path) -> None:
    result = validate(folder, CRAY / "input.jsonl")
    assert result.exit_code == 0
    assert result.output.splitlines()[2:] == [
        f"{CRAY / 'input.jsonl'}: 8 messages, decoded as cray (topic ^cray-telemetry-.*): 6 samples of 3 hosts and 1 event.",
        "  energy_total: 1, host.state: 1, power_w: 5",
        "  hosts missing from the file of nodes: x9000c3s1b0n0",
        "  ignored, because several hosts share the location: x9000c3",
        "  ignored sensors without a known unit: CrayTelemetry.Power NetworkingDevice/VoltageRegulator",
        "  ignored sensors, because another sensor reports the same resource: CrayTelemetry.Power Chassis/VoltageRegulator Output",
        "  ignored metrics: CrayTelemetry.Current",
        "  ignored: event 1, metric 1, null 1, second-sensor 1, shared 1, unit 1, unknown-host 1",
    ]


def test_programs_get_the_same_as_json(folder: Path) -> None:
    result = validate(folder, CRAY / "input.jsonl", options=("--json",))
    (report,) = json.loads(result.output)["samples"]
    assert (report["source"], report["samples"], report["hosts"]) == (
        1,
        {"power_w": 5, "energy_total": 1},
        ["x9000c3s1b0n0"],
    )


def test_messages_of_a_topic_are_read_as_its_source_would(folder: Path) -> None:
    messages = CRAY / "input.jsonl"
    assert validate(folder, f"cray-telemetry-power={messages}").exit_code == 0
    wrong = validate(folder, f"telegraf={messages}")
    assert wrong.exit_code == 2
    assert "decoded as telegraf (topic telegraf): nothing usable." in wrong.output
    assert f"{messages}:1: Object missing required field `name`." in wrong.output


def test_a_topic_that_no_source_reads_is_named(folder: Path) -> None:
    result = validate(folder, f"cray={CRAY / 'input.jsonl'}")
    assert result.exit_code == 2
    assert "No source of the configuration reads the topic 'cray'" in result.output


def test_without_the_file_of_nodes_nothing_of_cray_is_of_use_and_the_exit_code_reports_it(folder: Path) -> None:
    (folder / "agent.yaml").write_text(CONFIG.replace("reference: {nodes: nodes.csv}", ""))
    result = validate(folder, CRAY / "input.jsonl")
    assert result.exit_code == 2
    assert (
        "hosts missing from the file of nodes: x3000c0s17b0, x9000c3s0b0n0, x9000c3s0b0n1, x9000c3s1b0n0"
        in result.output
    )


def test_metrics_that_are_not_taken_and_hosts_that_are_not_listed_are_named_for_every_format(folder: Path) -> None:
    lines = [
        {"name": "cpu", "tags": {"cpu": "cpu-total", "host": host}, "fields": {"usage_idle": 3.0, "usage_user": 9.0}, "timestamp": 1787217284}
        for host in ("NID001042.hpc.example", "nid7")
    ] + [{"name": "sensors", "tags": {"host": "nid001042"}, "fields": {"temp": 40.0}, "timestamp": 1787217284}]  # fmt: skip
    (folder / "metrics.jsonl").write_text("\n".join(map(json.dumps, lines)))
    output = validate(folder, folder / "metrics.jsonl").output
    assert "3 messages, decoded as telegraf (topic telegraf): 2 samples of 2 hosts." in output
    assert "  hosts missing from the file of nodes: nid7\n" in output
    assert "  ignored metrics: cpu usage_user, sensors\n" in output


def test_a_number_of_ldms_that_is_not_listed_is_named(folder: Path) -> None:
    rows = [f'{{"timestamp":1787217284.5,"component_id":{number},"load1min":1.0}}' for number in (1042, 1044)]
    (folder / "rows.jsonl").write_text("\n".join(rows))
    output = validate(folder, folder / "rows.jsonl").output
    assert "2 messages, decoded as ldms (topic ldms): 2 samples of 1 host." in output
    assert "  hosts missing from the file of nodes: component_id 1044\n" in output


def test_jobs_are_of_use_as_well_and_an_empty_file_is_not(folder: Path) -> None:
    result = validate(folder, CASES / "slurm-26.05" / "input.jsonl")
    assert result.exit_code == 0
    assert "decoded as slurm (topic slurm.jobs): " in result.output
    (folder / "empty.jsonl").write_text("")
    assert validate(folder, folder / "empty.jsonl").exit_code == 2
    assert validate(folder, folder / "nowhere.jsonl").exit_code == 2


def test_messages_in_avro_are_read_by_the_schemas_of_the_configuration(folder: Path) -> None:
    case = CASES / "ldms-avro"
    for number in (37, 38):
        (folder / f"{number}.avsc").write_bytes((case / f"schema-{number}.avsc").read_bytes())
    text = """
sources: [{topics: [ldms], format: ldms, encoding: avro, system: exa}]
schema_registry: {schemas: [{id: 37, text: {file: 37.avsc}}, {id: 38, text: {file: 38.avsc}}]}
privacy: {users: drop}
"""
    (folder / "agent.yaml").write_text(text)
    result = validate(folder, case / "input.bin")
    assert result.exit_code == 0
    assert result.output.splitlines()[2:6] == [
        f"{case / 'input.bin'}: 9 messages, decoded as ldms (topic ldms): 3 samples of 1 host.",
        "  counter_delta: 2, memory_free: 1",
        "  ignored: metric 2",
        "  rejected: 7",
    ]
    assert f"{case / 'input.bin'}:3: The Avro schema 39 is not in the configuration." in result.output
    (folder / "agent.yaml").write_text(text.replace("format: ldms", "format: native"))
    assert "nothing usable" in validate(folder, case / "input.bin").output
