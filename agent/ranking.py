"""Who is right on an application: the laws of run time in the order of their errors, for the page and the commands."""

from collections.abc import Sequence
from typing import Final

import msgspec

from agent.contracts.horizons import HORIZONS, Horizon
from agent.contracts.outputs import HorizonError, Member, Model

INSIDE: Final[Horizon] = "inside"
PREDICTION: Final = "prediction"  # in the place of a law: what was published
_LAWS: Final = {
    PREDICTION: "what was predicted",
    "usl": "universal scalability (Gunther)",
    "ideal": "perfect speed-up from the largest size",
    "last_two": "slope of the two largest sizes",
    "amdahl_short": "Amdahl, from the nearest sizes",
    "root_short": "growth with the square root, from the nearest sizes",
    "linear_short": "linear growth, from the nearest sizes",
    "amdahl_middle": "Amdahl, from the nearer sizes",
    "kazmina": "Kazmina and Antonov",
    "barnes_linear": "Barnes, linear",
    "barnes_quadratic": "Barnes, quadratic",
    "amdahl": "Amdahl",
    "amdahl_log": "Amdahl with logarithmic communication",
    "sup5": "five terms",
    "downey": "Downey, average of his curves",
    "adept": "ADEPT in two steps",
    "attributes": "attributes of the job",
    "communication": "communication of the run",
    "curve": "its published curve",
}


class Ranked(msgspec.Struct, frozen=True):
    """A law in its place: name, what it is, weight (None: beside the prediction), errors by horizon, and a remark."""

    name: str
    law: str
    weight: float | None
    errors: dict[str, HorizonError]
    remark: str
    parameters: dict[str, float]


def ranked(model: Model) -> list[Ranked]:
    """Return the laws and the prediction itself, the one with the least error first; without errors the weightiest.

    Errors outside of the sizes that were run decide, once there are any.

    >>> away = (HorizonError("inside", 9, 0.1), HorizonError("up_to_2x", 2, 0.01))
    >>> amdahl, usl = Member("amdahl", 0.0, {}, "beside", errors=away), Member("usl", 1.0, {}, errors=away[:1])
    >>> [law.name for law in ranked(Model("combination", (usl, amdahl)))]
    ['amdahl', 'usl']
    """
    rows = [_ranked(member) for member in model.members]
    if model.errors:
        rows.append(Ranked(PREDICTION, _LAWS[PREDICTION], None, _by_horizon(model.errors), "", {}))
    deciding: Sequence[Horizon] = [
        name for name in HORIZONS if name != INSIDE and any(name in row.errors for row in rows)
    ] or [INSIDE]
    return sorted(rows, key=lambda row: (_mean(row, deciding), -(row.weight or 0.0), row.name))


def horizons(rows: Sequence[Ranked]) -> list[str]:
    """Return the horizons at which any of the laws has been scored, the nearest first.

    >>> horizons([])
    []
    """
    return [name for name in HORIZONS if any(name in row.errors for row in rows)]


def _ranked(member: Member) -> Ranked:
    weight = member.weight if member.role == "part" else None
    law = _LAWS.get(member.name, member.name.replace("_", " "))
    return Ranked(member.name, law, weight, _by_horizon(member.errors), _remark(member), member.parameters)


def _by_horizon(errors: Sequence[HorizonError]) -> dict[str, HorizonError]:
    return {error.horizon: error for error in errors}


def _remark(member: Member) -> str:
    if member.answers == "larger sizes":
        return "for larger sizes than were run"
    if member.answers == "nothing":
        return f"needs {member.sizes_min} sizes, or does not apply"
    return ""


def _mean(row: Ranked, deciding: Sequence[str]) -> float:
    parts = [row.errors[name] for name in deciding if name in row.errors]
    scored = sum(part.scored for part in parts)
    return sum(part.error * part.scored for part in parts) / scored if scored else float("inf")
