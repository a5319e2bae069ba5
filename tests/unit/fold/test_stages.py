"""Stages write what they declare and nothing else: who reads the table of stages knows who changes what."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from processors.contracts.events import HostState, JobProfile, Network, PredictionRequested, Tick
from processors.contracts.hosts import Profile
from processors.pipeline.shard import Shard
from processors.pipeline.stage import STOP, Line, MayStop, Stage, tick_stage
from processors.pipeline.state import Outgoing
from processors.store import Store
from tests.kit.scenario import SYSTEM, Scenario, evidence

Written = dict[tuple[str, str], set[str]]


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Written:
    """Note by kind of record and stage which kinds of state are written, in all shards that are made from now on."""
    now: list[set[str]] = [set()]
    found: Written = {}

    def noting(method: Callable[..., None]) -> Callable[..., None]:
        def note(store: Store[Any], key: str, *rest: Any) -> None:
            now[0].add(store.kind.name)
            method(store, key, *rest)

        return note

    def watched(kind: type, stage: Stage) -> Stage:
        def run(work: Any) -> Sequence[Outgoing] | MayStop:
            now[0] = found.setdefault((kind.__name__, stage.name), set())
            try:
                result = stage.run(work)
                return result if result is None or result is STOP else list(result)
            finally:
                now[0] = set()

        run.__name__ = stage.name
        return stage._replace(run=run)

    begin = Shard.__init__

    def watching(shard: Shard, *given: Any) -> None:
        begin(shard, *given)
        shard.lines = {
            kind: Line(line.begin, tuple(watched(kind, stage) for stage in line.stages))
            for kind, line in shard.lines.items()
        }

    monkeypatch.setattr(Store, "changed", noting(Store.changed))
    monkeypatch.setattr(Store, "remove", noting(Store.remove))
    monkeypatch.setattr(Shard, "__init__", watching)
    return found


def declared() -> Written:
    lines = Scenario().shard.lines
    return {
        (kind.__name__, stage.name): {each.name for each in stage.writes}
        for kind, line in lines.items()
        for stage in line.stages
    }


def busy_day() -> None:
    """Let everything happen once: starts, ends, corrections, failures, other evidence, requests, profiles, forgetting."""
    centre = Scenario(features={"attributes": ("solver",)}, run_time={"applications_max": 3, "similar_runs_max": 2}).at(
        "06:00"
    )
    for i in range(40):
        n, solver = (1, 2, 4, 8)[i % 4], ("cg", "amg")[i % 2]
        centre.at_ms(centre.now_ms + 300_000)
        centre.starts(f"s{i}", "lammps", nodes=n, user="u-anna", time_limit_s=4000.0)
        state = "FAILED" if i % 9 == 8 else "COMPLETED"
        run_time_s = (600.0 / n + 10.0) * (2.0 if i > 30 else 1.0)
        event = centre.ran(f"h{i}", "lammps", n, run_time_s, state=state, attributes={"solver": solver}, hosts=("h1",))
        centre.fold(Network(SYSTEM, f"h{i}", centre.now_ms, {"avg_bytes": 50.0 + i}))
        centre.fold(
            JobProfile(
                SYSTEM,
                f"h{i}",
                event.run_id,
                Profile(hosts=1, minutes=9, expected=9, power_w={"system": 400.0 + i}, measured={"system": 1.0}),
            )
        )
    centre.ran("h39", "lammps", 8, 90.0, attributes={"solver": "cg"})
    centre.report_from("xalt", "h39", application="gromacs")
    centre.report_from("xalt", "s39", application="gromacs")
    for name in ("a", "b", "c"):
        centre.scales(name, 1, 2, 4, prefix=name)
    centre.fold(HostState(SYSTEM, "h1", "drain", centre.now_ms))
    centre.fold(PredictionRequested(SYSTEM, "r1", (4.0,), evidence("lammps")))
    for _ in range(30):
        centre.at_ms(centre.now_ms + 600_000)


def test_a_stage_writes_only_what_it_declares(written: Written) -> None:
    busy_day()
    allowed = declared()
    assert {way: names - allowed[way] for way, names in written.items() if names - allowed[way]} == {}
    assert set(written) == set(allowed), "and every stage was run"


def test_a_stage_that_writes_more_is_found(written: Written) -> None:
    scenario = Scenario()
    scenario.at("08:00").starts("1", "lammps", nodes=4)
    assert written["JobStarted", "keep"] == {"job"}
    assert written["JobStarted", "forecast_end"] == {"forecast_allowance"}


def test_a_fault_costs_the_result_of_an_optional_stage_and_the_record_of_a_required_one() -> None:
    def fails(_work: object) -> None:
        raise ArithmeticError("a defect")

    scenario = Scenario()
    shard, ran = scenario.shard, list[HostState]()
    stages = (Stage(fails, optional=True), Stage(ran.append), Stage(lambda _work: STOP), Stage(fails))
    shard.lines[HostState] = Line(lambda event: event, stages)
    scenario.fold(HostState(SYSTEM, "h1", "drain", 1))
    assert len(ran) == 1
    assert scenario.tally["fault:fails"] == 1
    shard.lines[HostState] = Line(lambda event: event, (Stage(fails),))
    with pytest.raises(ArithmeticError):
        scenario.fold(HostState(SYSTEM, "h1", "drain", 2))


def test_a_stage_of_ticks_rests_while_its_stores_are_neither_due_nor_overfull() -> None:
    scenario = Scenario()
    shard, ran = scenario.shard, list[Any]()
    line, store = shard.lines[Tick], shard.state.explained_runs
    shard.lines[Tick] = Line(line.begin, (line.stages[0], tick_stage(ran.append, (store,))))
    scenario.at("08:00")
    assert ran == []
    store.next_due_ms = due_ms = scenario.now_ms + 60_000
    scenario.at_ms(due_ms)
    assert [work.event.time_ms for work in ran] == [due_ms]
    store.next_due_ms, store.overfull = due_ms + 3_600_000, True
    scenario.at_ms(due_ms + 10_000)
    assert len(ran) == 2
