"""Answers: each request gets one, also where nothing is known."""

from collections.abc import Sequence

import msgspec

from processors.contracts.events import PredictionRequested
from processors.contracts.names import ApplicationKey
from processors.contracts.outputs import Answer, AnswerPoint, Model, UsefulSizes
from processors.facts import N_MAX, N_MIN
from processors.inputs import NAME, Inputs
from processors.jobs.deduplication import KEEP_MS, MINUTE_MS, minute
from processors.pipeline.features import Features
from processors.pipeline.fits import Teaching
from processors.pipeline.inputs import Unseen
from processors.pipeline.load import UnderLoads
from processors.pipeline.power import Power, least_energy
from processors.pipeline.similar_runs import Histories, coming, home
from processors.pipeline.state import Desk, Identified
from processors.run_time.messages import cold_start, curve_sizes, judged_points, model_of, useful
from processors.run_time.model import RunTime
from processors.run_time.prediction import Outlook
from processors.similar_runs import NO_CURVE, NOT_BY_SIZE, points, reliability

# Answers from similar runs: where nothing names the job, no curve is known, or times do not follow the size.


Said = tuple[tuple[AnswerPoint, ...], Model]


class SimilarAnswers:
    """The points of answers, each with a verdict, and the model behind them."""

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


SIZES_MAX = 64


class Answering:
    """Answers from the models as they are at that place of the journal."""

    def __init__(self, desk: Desk, histories: Histories) -> None:
        self._desk = desk
        self._similar = SimilarAnswers(histories)
        self._teaching = Teaching(desk)
        self._unseen = Unseen(desk)
        self._under_loads = UnderLoads(desk)
        self._features = Features(desk)
        self._power = Power(desk)

    def requested(self, event: PredictionRequested) -> None:
        """Answer a request of the journal, once."""
        now_ms = self._desk.now_ms
        minutes = [minute(now_ms - back) for back in range(0, KEEP_MS + 1, MINUTE_MS)]
        if any(self._desk.asked.open(key).score(event.identity) for key in minutes):
            self._desk.tally["event", "repeated"] += 1
            return
        asked = self._desk.asked.open(minutes[0])
        asked.learn((event.identity, now_ms))
        self._desk.asked.changed(minutes[0], asked, now_ms)
        self._desk.outbox.append(self.answer(event))

    def answer(self, event: PredictionRequested) -> Answer:
        """Return the answer to a question; changes nothing."""
        found = self._desk.identify(event.evidence, event.system, (), event.unit)
        return self._under_loads.answered(event, found.key, self._answer(event, found))

    def _answer(self, event: PredictionRequested, found: Identified) -> Answer:
        key = found.key
        model = self._desk.models.get(key.id) if key else None
        if key is None or model is None or not model.observations:
            answer = self._unknown(event, found, key) if key else None
            return answer if answer is not None and answer.known else self._of_strangers(event, found)
        try:
            return self._known(event, found, key, model)
        except Exception:  # noqa: BLE001  a model that can not be fitted must not cost the answer
            self._desk.tally["fault", RunTime.name] += 1
            detail = f"{model.observations} runs are known, but no curve fits them."
            return msgspec.structs.replace(self._blank(event, found), detail=detail)

    def _known(self, event: PredictionRequested, found: Identified, key: ApplicationKey, model: RunTime) -> Answer:
        asked = _asked(event)
        answer = msgspec.structs.replace(
            self._blank(event, found),
            known=True,
            detail=f"{model.observations} runs at {len(model.sizes())} sizes are known.{_left_out(event, asked)}",
            observations=model.observations,
            quality=model.quality,
        )
        told = self._features.of_request(event)
        others = self._features.sizes(key.id, told, asked)
        points, source, useful_n = self._by_size(event, key, model, asked, others)
        points, source, words = self._features.answered(key.id, told, points, source)
        return msgspec.structs.replace(
            answer,
            detail=answer.detail + words,
            points=self._power.answered(key.id, [point for point in points if point.n in asked]),
            model=source,
            useful_n=useful_n,
        )

    def _by_size(
        self, event: PredictionRequested, key: ApplicationKey, model: RunTime, asked: list[float], others: list[float]
    ) -> tuple[tuple[AnswerPoint, ...], Model, UsefulSizes | None]:
        """Return what sizes alone say: the curve, or similar runs where times do not follow the size."""
        similar = self._similar.of_spread(event, key, model, asked, others)
        if similar is not None:
            return *similar, None
        outlook = self._teaching.outlook(key, model)
        curve = _points(outlook, [*asked, *others], model)
        source = model_of(outlook, self._desk.members.get(key.id))
        return curve, source, self._useful(key, model, outlook)

    def _useful(self, key: ApplicationKey, model: RunTime, outlook: Outlook) -> UsefulSizes:
        """Return the sizes worth asking for; those of least energy are among the sizes of the whole curve."""
        found = useful(outlook.study)
        if not self._power.known(key.id, model):
            return found
        sizes = curve_sizes(model.sizes(), self._desk.settings.run_time.curve_factor_max)
        return least_energy(found, self._power.answered(key.id, _points(outlook, sizes, model)))

    def _of_strangers(self, event: PredictionRequested, found: Identified) -> Answer:
        """Answer from runs of other applications, where the request tells which are similar."""
        blank, asked = msgspec.structs.replace(self._blank(event, found), detail=self._why(event, found)), _asked(event)
        said = self._similar.of_strangers(event, found.key, asked)
        if said is None:
            return blank
        detail = f"{blank.detail} It is told from similar runs.{_left_out(event, asked)}"
        return msgspec.structs.replace(blank, known=True, detail=detail, points=said[0], model=said[1])

    def _unknown(self, event: PredictionRequested, found: Identified, key: ApplicationKey) -> Answer:
        """Answer about an input that was never run, from the other inputs of its application where these tell."""
        blank = msgspec.structs.replace(self._blank(event, found), detail=self._why(event, found))
        try:
            others = self._unseen.others(key, found.input_sizes)
            asked = _asked(event)
            if others is None or not asked:
                return blank
            detail = (
                f"No run of {key.application} with input {key.input or '(none)'} is known: this is from {others.shown}."
            )
            points = cold_start(others, asked)
            return msgspec.structs.replace(blank, known=True, detail=detail, points=points, model=Model(NAME, ()))
        except Exception:  # noqa: BLE001  what can not be reckoned must not cost the answer
            self._desk.tally["fault", Inputs.name] += 1
            return blank

    def tick(self) -> None:
        """Forget requests of long ago."""
        for key in self._desk.asked.due(self._desk.now_ms, 1000):
            self._desk.asked.remove(key)

    def _why(self, event: PredictionRequested, found: Identified) -> str:
        key = found.key
        if key is None:
            return f"The request could not be identified: {found.reason or 'nothing names a program'}."
        prefix = key.id.rsplit("/", 2)[0] + "/"
        near = [ApplicationKey.parse(other) for other in self._desk.models.keys() if other.startswith(prefix)]  # noqa: SIM118  no mapping
        if not near:
            return f"No run of {key.application} on {event.system} is known."
        some = ", ".join(sorted({f"{other.input or 'no input'} in {other.unit}" for other in near})[:5])
        return f"No run of {key.application} with input {key.input or '(none)'} in {key.unit} is known; known: {some}."

    def _blank(self, event: PredictionRequested, found: Identified) -> Answer:
        context, key = self._desk.context, found.key
        return Answer(
            schema="scalewatch.answer/1",
            id=f"{event.system}:{event.request_id}@{context.now_ms}",
            time=context.time,
            as_of=context.time,
            agent_version=context.agent_version,
            request_id=event.request_id,
            known=False,
            detail="",
            application=key.application if key else None,
            system=event.system,
            input=key.input if key else None,
            unit=key.unit if key else None,
            identified_by=found.source,
            confidence=found.confidence,
            observations=0,
            points=(),
            model=None,
            useful_n=None,
            quality=None,
        )


def _points(outlook: Outlook, sizes: Sequence[float], model: RunTime) -> tuple[AnswerPoint, ...]:
    judged = judged_points(outlook, sizes, model)
    return tuple(AnswerPoint(**msgspec.structs.asdict(point), reliability=said) for point, said in judged)


def _asked(event: PredictionRequested) -> list[float]:
    """Return the sizes that are answered: real ones, rising, not too many."""
    return sorted(n for n in set(event.n) if N_MIN <= n <= N_MAX)[:SIZES_MAX]


def _left_out(event: PredictionRequested, asked: list[float]) -> str:
    left_out = len(set(event.n)) - len(asked)
    return f" {left_out} of the sizes asked for are left out: too many, or no real sizes." if left_out else ""
