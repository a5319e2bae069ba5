"""Questions that are answered in the midst of long work of the fold change nothing of what it sends and keeps."""

import pytest

from processors.contracts.events import Evidence, PredictionRequested
from tests.kit.agent_topics import host_states
from tests.kit.host_minutes import minute
from tests.kit.scenario import Scenario

SIZES = (1, 2, 4, 8, 16) * 4
NAMES = ("nid1", "nid2", "nid3", "nid4")
EVIDENCE = Evidence(application="lammps", partition="standard")


class Questions:
    """Asks about the application at each chance, and counts the chances."""

    def __init__(self, centre: Scenario) -> None:
        self._centre, self.count = centre, 0

    def __call__(self) -> None:
        """Ask for the run time on the hosts of the partition."""
        self.count += 1
        question = PredictionRequested("exa", f"between-{self.count}", (4.0, 8.0), EVIDENCE, unit="nodes")
        self._centre.shard.answer(question)


def lived(*, questions: bool) -> tuple[Scenario, Questions]:
    """Return a centre after half an hour of jobs on hosts whose load changes each minute, and who asked."""
    centre = Scenario(jobs={"settle_max_s": 60.0})
    asking = Questions(centre)
    if questions:
        centre.shard.give_way_by(asking)
    centre.at("08:00").scales("lammps", *SIZES)
    centre.at("10:00")
    for number in range(30):
        for place, name in enumerate(NAMES):
            left = 0.4 + 0.05 * ((number + place) % 10)
            centre.fold(minute(name, centre.now_ms // 60_000 - 1, cpu_available=(left, left + 0.05)))
        centre.at_ms(centre.now_ms + 20_000)  # the minutes are taken in, and some ask meanwhile
        centre.starts(f"job{number}", "lammps", nodes=4, hosts=("nid[1-4]",), partition="standard")
        centre.asks(f"r{number}", 4, application="lammps", partition="standard")
        centre.at_ms(centre.now_ms + 40_000)
        if number % 3 == 2:
            centre.ends(f"job{number}")
    return centre, asking


@pytest.mark.parametrize("kind", ["predictions", "job_predictions", "answers", "alerts", "runs"])
def test_questions_between_slices_change_no_message(kind: str) -> None:
    (alone, _), (among, asking) = lived(questions=False), lived(questions=True)
    assert asking.count > 100
    assert among.messages(kind) == alone.messages(kind)


def test_questions_between_slices_change_no_state() -> None:
    (alone, _), (among, _) = lived(questions=False), lived(questions=True)
    assert host_states(among.shard) == host_states(alone.shard)
    assert among.shard.unsaved(with_hosts=True).states() == alone.shard.unsaved(with_hosts=True).states()
