"""A prediction as flat rows, one per size: the form of the local table."""

from collections.abc import Iterator

import msgspec

from agent.contracts.outputs import Prediction


class Row(msgspec.Struct, frozen=True, kw_only=True):
    """One size of one application; units as in the message.

    `reliable` tells whether the size lies where the prediction can be relied on. `useful_n_max` is the largest size worth
    asking for, `knee_n` where more begins to bring little; None where that is not known.
    """

    application_id: str
    system: str
    application: str
    input: str
    unit: str
    n: float
    run_time_s: float
    low_s: float
    high_s: float
    coverage: float
    reliable: bool
    verdict: str
    useful_n_max: float | None
    knee_n: float | None
    power_w: float | None
    energy_j: float | None
    as_of: str
    valid_until: str | None


def rows(application_id: str, prediction: Prediction) -> Iterator[Row]:
    """Yield the sizes of a curve, in their order.

    >>> import msgspec
    >>> said = {"schema": "", "id": "", "time": "", "as_of": "2026-11-20T10:00:00Z", "agent_version": "1", "quality": {}}
    >>> said |= {"application": "lammps", "system": "exa", "input": "", "unit": "nodes", "observations": 9, "sizes": [4]}
    >>> said |= {"model": {"name": "", "members": []}, "useful_n": {"max": 8}, "reliable_n": {"min": 1, "max": 4}}
    >>> point = {"n": 4, "run_time_s": 60, "low_s": 50, "high_s": 70, "coverage": 0.9, "coverage_measured": None}
    >>> point |= {"speedup": 3, "efficiency": 0.8, "extrapolation": 1, "source": "observed"}
    >>> said |= {"curve": [point], "preferred_n": None, "reliability": {"verdict": "reliable"}}
    >>> [(row.n, row.run_time_s, row.reliable) for row in rows("exa/lammps//nodes", msgspec.convert(said, Prediction))]
    [(4.0, 60.0, True)]
    """
    reach = prediction.reliable_n
    for point in prediction.curve:
        yield Row(
            application_id=application_id,
            system=prediction.system,
            application=prediction.application,
            input=prediction.input,
            unit=prediction.unit,
            n=point.n,
            run_time_s=point.run_time_s,
            low_s=point.low_s,
            high_s=point.high_s,
            coverage=point.coverage,
            reliable=reach is not None and reach.min <= point.n <= reach.max,
            verdict=prediction.reliability.verdict,
            useful_n_max=prediction.useful_n.max,
            knee_n=prediction.useful_n.knee,
            power_w=point.power_w,
            energy_j=point.energy_j,
            as_of=prediction.as_of,
            valid_until=prediction.valid_until,
        )
