"""Worlds of measured curves: what is known in each, and what is asked."""

import json

import pytest

from processors.contracts.names import ApplicationKey
from processors.models.combination.combine import Coefficients
from processors.pipeline.state import shipped
from tests.quality.curves import Measured
from tests.quality.product import answers, messages
from tests.quality.worlds import World, worlds

SIZES = (1, 2, 4, 8, 16, 32, 64)


def measured(application: str, system: str, given: str = "small", sizes: tuple[int, ...] = SIZES) -> Measured:
    runs: dict[int, tuple[float, ...]] = {n: (100.0 / n + 1.0, 101.0 / n + 1.0) for n in sizes}
    return Measured("set", "set", application, system, f"{given}|{system}|nodes", runs)


def by_curve(world: World, runs: str = "later") -> dict[str, list[int]]:
    found: dict[str, set[int]] = {}
    for run in getattr(world, runs):
        found.setdefault(run.curve.system, set()).add(run.n)
    return {system: sorted(sizes) for system, sizes in found.items()}


def test_each_split_is_a_world_with_what_is_left_out_of_it_requested() -> None:
    found = worlds([measured("lammps", "exa")])
    known = {name: by_curve(world)["exa"] for name, world in found.items() if not name.startswith("siblings")}
    assert known == {
        "first4": [1, 2, 4, 8],
        "minus1": [1, 2, 4, 8, 16, 32],
        "minus2": [1, 2, 4, 8, 16],
        **{f"loo{i}": [n for n in SIZES if n != SIZES[i]] for i in range(1, 6)},
    }
    for name, sizes in known.items():
        assert sorted([*sizes, *(request.n for request in found[name].requests)]) == list(SIZES)


@pytest.mark.parametrize(("name", "horizons"), [("first4", ["<=2x", "2-4x", ">4x"]), ("loo2", ["inside"])])
def test_a_request_knows_how_far_out_it_is(name: str, horizons: list[str]) -> None:
    requests = worlds([measured("lammps", "exa")])[name].requests
    assert [request.horizon for request in requests] == horizons


def test_curves_of_an_application_take_turns_to_be_cut_while_the_others_ran_whole_before() -> None:
    systems = {"exa", "peta", "tera"}
    curves = [measured("lammps", system) for system in sorted(systems)]
    found = worlds([*curves, measured("other", "giga")], ["siblings*"])
    assert {system for world in found.values() for system in by_curve(world)} == systems
    for world in found.values():
        (cut,) = by_curve(world)
        assert by_curve(world) == {cut: [1, 2, 4, 8]}
        whole = {*systems, "giga"} - {cut}  # a curve without another one is never cut
        assert by_curve(world, "earlier") == {system: list(SIZES) for system in whole}


def test_later_runs_start_when_all_earlier_ones_have_ended() -> None:
    world = worlds([measured("lammps", system) for system in ("exa", "peta", "tera")], ["siblings0"])["siblings0"]
    events = [json.loads(message) for message in messages(world)]
    earlier, later = events[: len(world.earlier)], events[len(world.earlier) :]
    assert max(event["end"] for event in earlier) <= min(event["start"] for event in later)
    assert len({event["job_id"] for event in events}) == len(events)


def test_a_short_curve_takes_no_part() -> None:
    assert worlds([measured("lammps", "exa", sizes=(1, 2, 4, 8))]) == {}


def test_an_application_is_predicted_by_its_own_coefficients_beside_others() -> None:
    def left_out(key: ApplicationKey) -> Coefficients:
        own = shipped(key)
        other = own._replace(gate=own.gate._replace(prior=own.gate.prior[::-1]))
        return own if key.application == "lammps" else other

    world = worlds([measured("lammps", "exa"), measured("other", "exa")], ["first4"])["first4"]
    (plain, chosen) = ([point for _, point in answers(world, by)] for by in (shipped, left_out))
    of_lammps = [request.curve.application == "lammps" for request in world.requests]
    times = [[point.run_time_s for point in points if point is not None] for points in (plain, chosen)]
    same = [before == after for before, after in zip(*times, strict=True)]
    assert same == of_lammps
