"""What shared nodes draw is split between their jobs by a stated rule, and never more of it than they drew."""

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from processors.contracts.events import Evidence, JobStarted, JournalEvent
from processors.contracts.hosts import Profile
from processors.contracts.settings import MachineSettings, RunTimeSettings
from processors.pipeline.host_profiles import node_share
from processors.power.by_size import energy_of_run
from processors.power.profiles.splitting import NodeShare, Stays, split
from tests.kit.profiled_hosts import ended, folded, in_time, level, minute, of_run, started

MINUTE_MS = 60_000
NODE = {"cores_per_node": 128, "idle_power_w": 100.0}
RUNS = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.floats(0.0, 1.0),
        st.floats(0.0, 500.0),
        st.integers(-90_000, 59_999),
        st.integers(1, 200_000),
    ),
    min_size=1,
    max_size=12,
)


def allocated(event: JobStarted, cores: float, *, exclusive: bool | None = None) -> JobStarted:
    nodes = float(len(event.evidence.hosts))
    evidence = msgspec.structs.replace(
        event.evidence, sizes={"nodes": nodes, "cores": cores * nodes}, exclusive=exclusive
    )
    return msgspec.structs.replace(event, evidence=evidence)


def power(host: str, first: int, last: int, watts: float) -> list[JournalEvent]:
    return [minute(host, number, {"power_w>system": level(watts)}) for number in range(first, last)]


@given(RUNS, st.lists(st.one_of(st.just(float("nan")), st.floats(0.0, 1e6)), min_size=4, max_size=4))
def test_the_jobs_of_a_node_never_get_more_than_it_drew_and_none_gets_less_than_nothing(
    runs: list[tuple[int, float, float, int, int]], energy_j: list[float]
) -> None:
    host, share, idle_w, start_ms, length_ms = (np.array(column) for column in zip(*runs, strict=True))
    end_ms = np.maximum(start_ms + length_ms, 1)
    stays = Stays(host, np.arange(len(runs)), start_ms, end_ms, share.astype(float), idle_w.astype(float))
    found = split(0, np.array(energy_j), stays)
    assert (found.energy_j >= 0.0).all()
    for number, drawn in enumerate(energy_j):
        of = found.energy_j[np.isin(found.run, np.flatnonzero(host == number))].sum()
        assert of <= (0.0 if np.isnan(drawn) else drawn * (1 + 1e-12))
    turned = stays.at(np.arange(len(runs))[::-1])
    assert split(0, np.array(energy_j), turned).energy_j.tolist() == found.energy_j.tolist()


def test_idle_power_goes_by_allocated_cores_and_what_is_beyond_it_to_the_jobs_alone() -> None:
    """A node of 128 cores draws 300 W, 100 W of it idle: jobs of 32 and 64 cores get a quarter and a half of the idle, and all of the rest."""
    jobs = [allocated(started("1", 0, "nid1"), 32), allocated(started("2", 0, "nid1"), 64)]
    events = [*jobs, *power("nid1", 0, 12, 300.0), ended("1", 0, 10), ended("2", 0, 10)]
    hosts = folded(*in_time(events, until=14), machine=NODE)
    small, large = of_run(hosts, "1"), of_run(hosts, "2")
    assert small.split_j == pytest.approx((25.0 + 200.0 / 3) * 600)
    assert large.split_j == pytest.approx((50.0 + 400.0 / 3) * 600)
    assert (small.split, small.shared, small.expected, small.power_w) == (10.0, 10, 10, {})
    used = energy_of_run(small, None)
    assert (used.energy_j, used.measured, used.estimated, used.unknown) == (small.split_j, 0.0, 1.0, 0.0)


def test_without_an_idle_power_all_power_goes_by_allocated_cores() -> None:
    jobs = [allocated(started("1", 0, "nid1"), 32), allocated(started("2", 0, "nid1"), 64)]
    events = [*jobs, *power("nid1", 0, 12, 300.0), ended("1", 0, 10), ended("2", 0, 10)]
    hosts = folded(*in_time(events, until=14), machine={"cores_per_node": 128})
    assert [of_run(hosts, job).split_j for job in ("1", "2")] == pytest.approx([75.0 * 600, 150.0 * 600])


def whole_nodes(cores: float, count: int) -> list[JournalEvent]:
    """Runs of the day before that had whole nodes: each says how many cores that are."""
    found: list[JournalEvent] = []
    for number in range(count):
        first = -1000 + 10 * number
        start = allocated(started(f"w{number}", first, "nid9"), cores)
        end = ended(f"w{number}", first, first + 5)
        found += [start, msgspec.structs.replace(end, evidence=start.evidence)]
    return found


@pytest.mark.parametrize(
    ("before", "expected"), [(whole_nodes(128, 3), [75.0, 150.0]), (whole_nodes(128, 2), [0.0, 0.0]), ([], [0.0, 0.0])]
)
def test_without_a_setting_cores_are_those_that_runs_had_on_a_node(
    before: list[JournalEvent], expected: list[float]
) -> None:
    jobs = [allocated(started("1", 0, "nid1"), 32), allocated(started("2", 0, "nid1"), 64)]
    events = [*before, *jobs, *power("nid1", 0, 12, 300.0), ended("1", 0, 10), ended("2", 0, 10)]
    hosts = folded(*in_time(events, until=14))
    assert [of_run(hosts, job).split_j for job in ("1", "2")] == pytest.approx([600 * each for each in expected])


def test_a_setting_goes_before_what_runs_had_on_a_node() -> None:
    jobs = [allocated(started("1", 0, "nid1"), 32), allocated(started("2", 0, "nid1"), 64)]
    events = [*whole_nodes(64, 3), *jobs, *power("nid1", 0, 12, 300.0), ended("1", 0, 10), ended("2", 0, 10)]
    hosts = folded(*in_time(events, until=14), machine={"cores_per_node": 128})
    assert [of_run(hosts, job).split_j for job in ("1", "2")] == pytest.approx([75.0 * 600, 150.0 * 600])


def test_a_corrected_report_takes_back_what_the_first_one_made_of_the_node() -> None:
    wrong = [each for each in whole_nodes(256, 3) if not isinstance(each, JobStarted)]
    jobs = [allocated(started("1", 0, "nid1"), 32), allocated(started("2", 0, "nid1"), 64)]
    right = [each for each in whole_nodes(128, 3) if not isinstance(each, JobStarted)]
    events = [*jobs, *power("nid1", 0, 12, 300.0), ended("1", 0, 10), ended("2", 0, 10)]
    hosts = folded(*wrong, *right, *in_time(events, until=14))
    assert [of_run(hosts, job).split_j for job in ("1", "2")] == pytest.approx([75.0 * 600, 150.0 * 600])


def test_minutes_of_its_own_are_measured_and_those_it_shares_are_estimated() -> None:
    jobs = [allocated(started("1", 0, "nid1"), 64), allocated(started("2", 5, "nid1"), 64)]
    events = [*jobs, *power("nid1", 0, 12, 300.0), ended("2", 5, 10), ended("1", 0, 10)]
    found = of_run(folded(*in_time(events, until=14), machine=NODE))
    used = energy_of_run(found, None)
    assert (found.minutes, found.shared, found.split) == (5, 5, 5.0)
    assert (used.measured, used.estimated) == (0.5, 0.5)
    assert used.energy_j == pytest.approx(300.0 * 300 + 150.0 * 300)


def test_a_minute_in_which_one_job_follows_another_is_split_by_their_time() -> None:
    jobs = [allocated(started(job, start, "nid1"), 1, exclusive=True) for job, start in (("1", 0), ("2", 5.25))]
    events = [*jobs, *power("nid1", 0, 14, 200.0), ended("1", 0, 5.25), ended("2", 5.25, 10)]
    hosts = folded(*in_time(events, until=14), machine=NODE)
    assert of_run(hosts, "1").split_j == pytest.approx(200.0 * 15)
    assert of_run(hosts, "2", 5.25).split_j == pytest.approx(200.0 * 45)


@pytest.mark.parametrize("machine", [None, NODE])
def test_a_node_gives_nothing_where_the_allocation_of_a_job_is_not_known(
    machine: dict[str, float] | None,
) -> None:
    jobs = [allocated(started("1", 0, "nid1"), 32), started("2", 0, "nid1")]
    events = [*jobs, *power("nid1", 0, 12, 300.0), ended("1", 0, 10), ended("2", 0, 10)]
    found = of_run(folded(*in_time(events, until=14), machine=machine))
    assert (found.split, found.split_j, energy_of_run(found, None).unknown) == (0.0, 0.0, 1.0)


def test_a_partition_of_its_own_kind_of_nodes_goes_before_its_system() -> None:
    machines = {
        "exa": MachineSettings(cores_per_node=64, idle_power_w=80.0),
        "exa/fat": MachineSettings(cores_per_node=256),
    }
    settings = RunTimeSettings(machines=machines)
    evidence = Evidence(sizes={"cores": 32.0}, hosts=("nid1",))
    assert node_share(evidence, "exa", settings) == NodeShare(0.5, 80.0)
    assert node_share(msgspec.structs.replace(evidence, partition="fat"), "exa", settings) == NodeShare(0.125, 80.0)
    assert node_share(msgspec.structs.replace(evidence, sizes={"cores": 999.0}), "exa", settings).share == 1.0
    assert node_share(evidence, "other", RunTimeSettings(cores_per_node=32)) == NodeShare(1.0, 0.0)


def test_a_run_without_minutes_of_its_own_has_what_was_split_before_the_meter_of_the_scheduler() -> None:
    profile = Profile(hosts=1, expected=10, shared=10, split=4.0, split_j=900.0)
    used = energy_of_run(profile, 99_999.0)
    assert (used.energy_j, used.estimated, used.unknown) == (900.0, 0.4, 0.6)
