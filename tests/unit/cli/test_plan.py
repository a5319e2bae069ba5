"""`scalewatch plan`: what a centre needs, and that it follows from what was measured."""

import ast
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from agent.cli import main
from agent.cli.plan import BUSY, PlannedCentre, ResourcePlan, plan
from agent.config.load import loads
from agent.config.tree import Config, TopicNames
from agent.describe.measurements import Costs, costs, encoded, shipped
from processors.contracts.hosts import HostSettings
from tests.bench.__main__ import BENCHMARKS
from tests.bench.costs import FROM

COSTS = costs(shipped())
COSTS_ON = min(figure.processor for figure in shipped().figures.values())
FIGURE = (
    '{"schema": "scalewatch.measurements/1", "figures": {"%s": '
    '{"value": %d, "bench": "state", "commit": "1", "time": "2026-11-23", "processor": "x"}}}'
)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["plan", *arguments], catch_exceptions=False, env={"COLUMNS": "200"})


def as_json(*arguments: str) -> dict[str, Any]:
    shown = run(*arguments, "--json")
    assert shown.exit_code == 0, shown.stderr
    found: dict[str, Any] = json.loads(shown.stdout)
    return found


def planned(config: Config | None = None, journal_days: float = 7.0, **changes: Any) -> ResourcePlan:
    usual: dict[str, Any] = {
        "hosts": 1000,
        "resources": 10,
        "interval_s": 10.0,
        "jobs_per_day": 10_000.0,
        "applications": 1000,
    }
    return plan(PlannedCentre(**(usual | changes)), config or Config(), journal_days, COSTS)


def amounts(found: ResourcePlan) -> list[float]:
    roles = [
        amount
        for role in found.roles
        for amount in (role.cores * role.replicas, role.memory_largest_mi * role.replicas)
    ]
    return [*roles, *(topic.written_bytes_per_day for topic in found.topics), found.disk_bytes, found.source_partitions]


def test_a_small_centre_needs_one_process_of_each_and_little_of_them() -> None:
    found = as_json("--hosts", "100", "--jobs-per-day", "1000", "--applications", "100")
    assert [(role["role"], role["replicas"]) for role in found["roles"]] == [("collector", 1), ("learner", 1)]
    assert all(role["memory_largest_mi"] <= 256 for role in found["roles"])
    assert found["disk_bytes"] < 10e9
    assert (found["settings"], found["remarks"], found["source_partitions"]) == ([], [], 1)


def test_a_large_centre_needs_more_collectors_higher_bounds_and_is_shown_what_is_too_much() -> None:
    found = as_json("--hosts", "50000", "--resources", "40", "--interval", "1", "--applications", "50000")
    collector, learner = found["roles"]
    assert collector["replicas"] * BUSY >= 2_000_000 * COSTS.sample_s
    assert collector["cores"] <= BUSY
    assert found["source_partitions"] % collector["replicas"] == 0
    assert {
        entry["key"]: entry["wanted"] >= needed
        for entry, needed in zip(found["settings"], (2_000_000, 50_000), strict=True)
    } == {
        "hosts.series_max": True,
        "run_time.applications_max": True,
    }
    assert learner["memory_largest_mi"] > 8_000
    assert "topics.journal_partitions: " in found["remarks"][0]


def test_a_centre_without_telemetry_has_jobs_alone_in_its_journal() -> None:
    journal = planned(hosts=0).topics[0]
    assert journal.written_bytes_per_day == pytest.approx(
        10_000 * COSTS.journalled_job_bytes + 5 * 86_400 * COSTS.tick_bytes
    )


sizes = st.fixed_dictionaries(
    {
        "hosts": st.integers(0, 20_000),
        "resources": st.integers(0, 50),
        "interval_s": st.floats(1, 60),
        "jobs_per_day": st.floats(0, 1e6),
        "applications": st.integers(0, 20_000),
    }
)


@given(centre=sizes, grown=st.sampled_from(["hosts", "resources", "jobs_per_day", "applications"]))
def test_more_of_anything_never_needs_less(centre: dict[str, Any], grown: str) -> None:
    before, after = planned(**centre), planned(**centre | {grown: 2 * centre[grown] + 1})
    memory = {3, 1}  # in all processes together: one more collector may mean less for each
    for place, (few, many) in enumerate(zip(amounts(before), amounts(after), strict=True)):
        assert many >= few * (1 - 1e-9) or place in memory


@given(centre=sizes)
def test_no_process_is_busier_than_it_should_be_without_a_word(centre: dict[str, Any]) -> None:
    found = planned(**centre)
    collector, learner = found.roles
    assert collector.cores <= BUSY * (1 + 1e-9)
    assert learner.cores <= BUSY or found.remarks
    assert all(role.memory_mi <= role.memory_largest_mi for role in found.roles)


def test_what_is_measured_more_often_costs_collectors_and_not_learners() -> None:
    (slow, _), (fast, _) = planned(interval_s=60.0).roles, planned(interval_s=1.0).roles
    assert fast.cores * fast.replicas > 50 * slow.cores * slow.replicas
    assert planned(interval_s=60.0).roles[1] == planned(interval_s=1.0).roles[1]
    assert planned(interval_s=60.0).topics == planned(interval_s=1.0).topics


def test_copies_days_shards_and_rhythm_come_from_the_configuration(tmp_path: Path) -> None:
    file = tmp_path / "agent.yaml"
    file.write_text(
        "topics: {replication: 3, journal_retention_s: 86400, journal_partitions: 2, prefix: hpc}\n"
        "sources: [{topics: [slurm], format: slurm}]\nreference: {nodes: nodes.csv}\n"
    )
    (tmp_path / "nodes.csv").write_text("host\nnid1\nnid2\nnid3\n")
    found = as_json("-c", str(file))
    assert (found["centre"]["hosts"], found["shards"], found["journal_days"]) == (3, 2, 1.0)
    journal = found["topics"][0]
    assert (journal["topic"], journal["partitions"]) == ("hpc.journal", 2)
    assert journal["retained_bytes"] == pytest.approx(3 * journal["written_bytes_per_day"])
    assert 2 * journal["retention_bytes"] == pytest.approx(1.25 * journal["written_bytes_per_day"], rel=0.01)
    assert as_json("-c", str(file), "--retention-days", "2")["topics"][0]["retained_bytes"] == pytest.approx(
        2 * journal["retained_bytes"]
    )


def test_shards_part_the_work_of_learners() -> None:
    whole, parted = planned(hosts=10_000), planned(Config(topics=TopicNames(journal_partitions=4)), hosts=10_000)
    assert parted.roles[1].replicas == 4
    assert parted.roles[1].cores == pytest.approx(whole.roles[1].cores / 4)
    assert parted.roles[1].memory_largest_mi < whole.roles[1].memory_largest_mi


def test_a_bound_that_is_high_enough_is_left_alone() -> None:
    assert [entry.key for entry in planned(hosts=20_000).settings] == ["hosts.series_max"]
    assert planned(Config(hosts=HostSettings(series_max=200_000)), hosts=20_000).settings == ()


def test_values_for_helm_are_settings_that_the_agent_takes() -> None:
    found = as_json("--hosts", "20000", "--applications", "30000")
    config = loads(json.dumps(found["helm_values"]["config"]))
    assert (config.hosts.series_max, config.run_time.applications_max) == (220_000, 33_000)
    assert found["helm_values"]["collector"]["resources"]["requests"].keys() == {"cpu", "memory"}
    shown = run("--hosts", "20000", "--applications", "30000").output
    assert "    series_max: 220000" in shown
    assert "Raise hosts.series_max from 120000 to 220000." in shown


def test_every_figure_states_how_and_where_it_was_measured() -> None:
    listed = as_json("--hosts", "1")["measured"]
    assert tuple(listed) == Costs.__struct_fields__
    for name, figure in listed.items():
        assert figure["value"] > 0
        assert FROM[name][0] == figure["bench"]
        assert figure["bench"] in BENCHMARKS
        assert all(figure[part] for part in ("commit", "time", "processor"))
    assert "Measured on " + COSTS_ON in run("--hosts", "1").output


def test_no_cost_is_a_number_in_the_code_of_plan() -> None:
    tree = ast.parse(Path(plan.__code__.co_filename).read_text())
    left_out = ("BUSY", "ROOM", "COMPACTED", "IN_JSON")
    numbers = {
        target.id
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(target := node.target, ast.Name)
        for value in ast.walk(node)
        if isinstance(value, ast.Constant) and isinstance(value.value, float)
    }
    assert numbers <= {*left_out, "DAY_S", "RETAINED_S"}, "a cost belongs into the file of measurements"
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and not node.decorator_list]
    used = {node.attr for each in functions for node in ast.walk(each) if isinstance(node, ast.Attribute)}
    assert set(Costs.__struct_fields__) <= used, "every figure that is measured is reckoned with"


def test_a_site_plans_with_what_it_measured_itself(tmp_path: Path) -> None:
    file = tmp_path / "site.json"
    own = msgspec.structs.replace(shipped().figures["sample_s"], value=10 * COSTS.sample_s, processor="own")
    file.write_bytes(encoded({"sample_s": own}))
    usual, dearer = as_json("--hosts", "1000"), as_json("--hosts", "1000", "--measured", str(file))
    assert dearer["measured"]["sample_s"]["processor"] == "own"
    assert dearer["roles"][0]["cores"] > 5 * usual["roles"][0]["cores"]
    assert dearer["topics"] == usual["topics"], "what the file lacks is as shipped"


@pytest.mark.parametrize(
    ("content", "output"),
    [
        ("{", "is not a file of measurements"),
        ('{"schema": "scalewatch.measurements/2", "figures": {}}', "is not a file of measurements"),
        (FIGURE % ("sample_s", -1), "is not a file of measurements"),
        (FIGURE % ("sample_h", 1), "sample_h is not a cost that plans use"),
    ],
)
def test_a_file_that_holds_something_else_is_refused_with_its_name(tmp_path: Path, content: str, output: str) -> None:
    file = tmp_path / "site.json"
    file.write_text(content)
    shown = run("--hosts", "1", "--measured", str(file))
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert output in shown.stderr
    assert "site.json" in shown.stderr


def test_every_cost_has_a_benchmark_that_measures_it() -> None:
    assert FROM.keys() == set(Costs.__struct_fields__)


@pytest.mark.parametrize(
    ("arguments", "output"),
    [
        ([], "The number of hosts is unknown. Give --hosts, or set reference.nodes in the configuration."),
        (["--hosts", "-1"], "Invalid value for '--hosts'"),
        (["--hosts", "1", "--interval", "0"], "Invalid value for '--interval'"),
        (["--hosts", "1", "--jobs-per-day", "nan"], "--jobs-per-day"),
        (["--hosts", "1", "-c", "missing.yaml"], "missing.yaml: cannot be read: No such file or directory."),
    ],
)
def test_what_cannot_be_planned_exits_with_2(arguments: Sequence[str], output: str) -> None:
    shown = run(*arguments)
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert output in shown.stderr


def test_a_learner_of_its_own_takes_about_as_much_memory_as_was_planned() -> None:
    hosts = 200
    shown = subprocess.run(
        [sys.executable, "-m", "tests.bench.footprint", str(hosts)], check=True, capture_output=True, text=True
    )
    at_rest, _ = map(float, shown.stdout.split())
    reckoned = COSTS.process_bytes + hosts * 10 * COSTS.learned_resource_bytes
    assert at_rest == pytest.approx(reckoned, rel=0.2)


def test_applications_that_are_learned_by_attributes_need_memory_up_to_its_bound() -> None:
    features = [{}, {"attributes": ["atoms"]}, {"attributes": ["atoms"], "bytes_max": 2**30}]
    usual = [planned(Config.model_validate({"features": each})).roles[1].memory_mi for each in features]
    assert usual[1] - usual[0] > 256
    assert usual[2] - usual[1] > 512


def test_hosts_that_are_published_are_counted_by_how_often() -> None:
    never, rare, often = (
        planned(Config(hosts=HostSettings(publish_s=seconds)), hosts=5000) for seconds in (0.0, 600.0, 60.0)
    )
    topics = [{topic.topic: topic for topic in found.topics} for found in (never, rare, often)]
    assert "scalewatch.hosts" not in topics[0]
    written = [found["scalewatch.hosts"].written_bytes_per_day for found in topics[1:]]
    message = COSTS.host_report_bytes + 10 * COSTS.host_report_resource_bytes
    assert written == pytest.approx([5000 * 144 * message, 5000 * 1440 * message])
    cores = [next(role.cores for role in found.roles if role.role == "learner") for found in (never, rare, often)]
    assert cores[2] - cores[0] == pytest.approx(10 * (cores[1] - cores[0]))
    assert cores[2] - cores[0] == pytest.approx(5000 * 10 / 60 * COSTS.published_resource_s)
    assert never.disk_bytes < rare.disk_bytes <= often.disk_bytes, (
        "of a compacted topic one segment at most is not cleaned"
    )


def test_the_topic_of_hosts_is_that_of_the_configuration() -> None:
    config = Config(hosts=HostSettings(publish_s=60.0), topics=TopicNames(prefix="exa"))
    assert "exa.hosts" in {topic.topic for topic in planned(config).topics}
