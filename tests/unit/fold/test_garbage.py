"""What the fold drops is freed at once: nothing of it waits for the garbage collector, which looks at everything rarely."""

import gc

from tests.kit.scenario import Scenario

SIZES = (1.0, 2.0, 4.0, 8.0, 16.0)
RECORDS_EACH_CYCLE = 100  # a few cycles of libraries do no harm; some a record would fill the memory


def test_the_fold_leaves_no_cycles() -> None:
    centre = Scenario()
    centre.at("08:00").scales("lammps", *SIZES, *SIZES)
    centre.at("09:00")
    gc.collect()
    gc.disable()
    try:
        before = len(centre.events)
        for hour in range(10, 14):
            for job, nodes in enumerate(SIZES):
                centre.starts(f"{hour}{job}", "lammps", nodes)
            centre.asks(f"r{hour}", 32.0)
            centre.at(f"{hour}:20")
            for job in range(len(SIZES)):
                centre.ends(f"{hour}{job}")
            centre.at(f"{hour}:59").checkpoint()
        records = len(centre.events) - before
        assert records > 40
        assert gc.collect() <= records / RECORDS_EACH_CYCLE
    finally:
        gc.enable()
