"""Answers from similar runs: where nothing names the job, no curve is known, or times do not follow the size."""

from collections.abc import Sequence

import msgspec

from agent.contracts.events import PredictionRequested
from agent.contracts.names import ApplicationKey
from agent.contracts.outputs import AnswerPoint, Model
from processors.fold.histories import Histories, coming, home
from processors.run_time import RunTime
from processors.similar_runs import NO_CURVE, NOT_BY_SIZE, points, reliability

Said = tuple[tuple[AnswerPoint, ...], Model]


class SimilarAnswers:
    """The points of answers, each with a verdict, and the model behind them.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> from agent.contracts.events import Evidence
    >>> answers = SimilarAnswers(Histories(make_shard(Config()).desk))
    >>> answers.of_strangers(PredictionRequested("exa", "r9", (4.0,), Evidence(user="u-1")), None, [4.0])
    """

    def __init__(self, histories: Histories) -> None:
        self._histories = histories

    def of_strangers(self, event: PredictionRequested, key: ApplicationKey | None, n: Sequence[float]) -> Said | None:
        """Return what is told where no run of the application is known.

        None unless the request tells what is similar: a user of whom runs are known, or a time limit.
        """
        application_id = key.id if key else None
        system = home(event.system, application_id)
        job = coming(application_id, n[0], event.evidence) if n else None
        if job is None or (job.time_limit_s is None and not self._histories.known_user(system, job)):
            return None
        return self._said(system, application_id, event, n, NO_CURVE)

    def of_spread(
        self,
        event: PredictionRequested,
        key: ApplicationKey,
        model: RunTime,
        n: Sequence[float],
        beside: Sequence[float] = (),
    ) -> Said | None:
        """Return what is told where times do not follow the size, or where the one size is asked for that was run.

        None where the curve has to answer. Sizes `beside` those that were asked for are told, too.
        """
        sizes = model.sizes()
        own_size = len(sizes) == 1 and tuple(n) == sizes
        not_by_size = self._histories.not_by_size(key.id)
        if not not_by_size and not (own_size and self._histories.prefers_similar(key.id, sizes[0], of_one_size=True)):
            return None
        return self._said(key.system, key.id, event, (*n, *beside), NO_CURVE if len(sizes) == 1 else NOT_BY_SIZE)

    def _said(
        self, system: str, application_id: str | None, event: PredictionRequested, n: Sequence[float], why: str
    ) -> Said | None:
        jobs = [coming(application_id, each, event.evidence) for each in (1.0, *n)]
        told = [said for job in jobs if (said := self._histories.told(system, job)) is not None]
        if not n or len(told) < len(jobs):
            return None
        made = (
            AnswerPoint(**msgspec.structs.asdict(point), reliability=reliability(said.expected.alike, why))
            for point, said in zip(points(list(zip(n, told[1:], strict=True)), told[0]), told[1:], strict=True)
        )
        return tuple(made), told[1].model
