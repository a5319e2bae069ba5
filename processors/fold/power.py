"""Power and energy on what is published: predictions, answers and forecasts of running jobs."""

from collections.abc import Sequence
from functools import partial

import msgspec

from agent.contracts.outputs import AnswerPoint, CurvePoint, Prediction, Range, UsefulSizes
from processors.energy import PowerBand, changed, powered, relied_on, with_least_energy
from processors.fold.desk import Desk
from processors.outlook import RELIABLE
from processors.profile_models import ProfileModels
from processors.run_time import RunTime
from processors.similar_runs import NAME as NOT_BY_SIZE


class Power:
    """What the models of profiles say of power in one shard; nothing where power was never measured.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> Power(make_shard(Config()).desk).at("exa/lammps//nodes", [4.0])
    (None,)
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    def at(self, application_id: str | None, sizes: Sequence[float]) -> tuple[PowerBand | None, ...]:
        """Return the power of all hosts together at sizes, None where it is not known."""
        models = self._desk.profile_models.get(application_id) if application_id else None
        if models is None:
            return (None,) * len(sizes)
        try:
            return tuple(models.power(sizes))
        except Exception:  # noqa: BLE001  what is told of power must not cost the run time
            self._desk.tally["fault", ProfileModels.name] += 1
            return (None,) * len(sizes)

    def predicted(self, application_id: str, said: Prediction) -> Prediction:
        """Return a prediction with what profiles say: power and energy, the sizes that take least, and their models."""
        models = self._desk.profile_models.get(application_id)
        if models is None:
            return said
        try:
            told, quality = models.models(), models.power_quality()
        except Exception:  # noqa: BLE001  as above
            self._desk.tally["fault", ProfileModels.name] += 1
            return said
        found = self.at(application_id, [point.n for point in said.curve])
        curve = tuple(powered(point, power) for point, power in zip(said.curve, found, strict=True))
        useful = said.useful_n
        if said.model.name != NOT_BY_SIZE:
            useful = with_least_energy(useful, relied_on(curve, partial(_within, said.reliable_n)))
        return msgspec.structs.replace(said, curve=curve, useful_n=useful, power=quality, profiles=told)

    def known(self, application_id: str, model: RunTime) -> bool:
        """Tell whether power is known at any of the sizes that were run."""
        return any(power is not None for power in self.at(application_id, model.sizes()))

    def answered(self, application_id: str, points: Sequence[AnswerPoint]) -> tuple[AnswerPoint, ...]:
        """Return the points of an answer with power and energy."""
        found = self.at(application_id, [point.n for point in points])
        return tuple(powered(point, power) for point, power in zip(points, found, strict=True))

    def note(self, application_id: str) -> None:
        """Let a prediction be published again where what it told of power has changed since."""
        model = self._desk.models.get(application_id)
        published = model.published if model is not None else None
        if model is None or published is None:
            return
        if changed(published.power_w, self.at(application_id, [point.n for point in published.points])):
            model.tell_again(self._desk.now_ms)
            self._desk.model_changed(application_id, model)


def least_energy(useful: UsefulSizes, points: Sequence[AnswerPoint]) -> UsefulSizes:
    """Return sizes worth asking for with those of least energy; each point has a verdict of its own.

    >>> least_energy(UsefulSizes(), ()).least_energy
    """
    relied = relied_on(points, _reliable)
    return with_least_energy(useful, relied)


def _reliable(point: AnswerPoint) -> bool:
    return point.reliability.verdict == RELIABLE


def _within(reliable: Range | None, point: CurvePoint) -> bool:
    return reliable is not None and reliable.min <= point.n <= reliable.max
