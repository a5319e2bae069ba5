"""Answers to prediction requests: each request gets an answer, even if no model knows the application."""

import msgspec

from processors.contracts.events import PredictionRequested
from processors.contracts.names import ApplicationKey, Identification
from processors.contracts.outputs import Answer
from processors.facts import N_MAX, N_MIN
from processors.features.times import STAGES
from processors.jobs.memory import minutes_back
from processors.pipeline.features import Features
from processors.pipeline.inputs import UnseenInputs
from processors.pipeline.load import UnderLoads
from processors.pipeline.power import PowerPredictions
from processors.pipeline.predictor import Predicted, Predictor, Question
from processors.pipeline.stage import STOP, MayStop, TickWork
from processors.pipeline.state import ShardState
from processors.run_time.messages import in_known_digits
from processors.run_time.model import RunTime
from processors.windows.settings import MINUTE_MS

SIZES_MAX = 64


class Answering:
    """Answers prediction requests from the models at the present offset of the journal."""

    def __init__(
        self, state: ShardState, predictor: Predictor, features: Features, unseen: UnseenInputs, power: PowerPredictions
    ) -> None:
        self._state = state
        self._predictor = predictor
        self._features = features
        self._unseen_inputs = unseen
        self._power = power
        self._under_loads = UnderLoads(state)

    def deduplicate(self, event: PredictionRequested) -> MayStop:
        """Remember a request of the journal; end its processing if it was answered before."""
        now_ms = self._state.now_ms
        minutes = minutes_back(now_ms // MINUTE_MS)
        answered, identity = map(self._state.answered_requests.get, minutes), event.identity
        if any(requests is not None and requests.score(identity) for requests in answered):
            self._state.tally["event", "repeated"] += 1
            return STOP
        self._state.answered_requests.learn(minutes[0], (identity, now_ms), now_ms)
        return None

    def publish(self, event: PredictionRequested) -> tuple[Answer]:
        """Answer a request of the journal."""
        return (self.answer(event),)

    def answer(self, event: PredictionRequested) -> Answer:
        """Return the answer to a request; changes no state."""
        match = self._state.identify(event.evidence, event.system, (), event.unit)
        answer = self._under_loads.answered(event, match.key, self._answer(event, match))
        return msgspec.structs.replace(answer, points=tuple(map(in_known_digits, answer.points)))

    def _answer(self, event: PredictionRequested, match: Identification) -> Answer:
        requested, key = _requested(event), match.key
        question = Question(
            event.system, key, event.evidence, match.input_sizes, self._features.of_request(event), explained=True
        )
        points, predicted = self._predictor.points(question, requested)
        model = self._state.models.get(key.id) if key else None
        blank = self._blank(event, match)
        has_runs = model is not None and model.observations > 0
        if not points and (requested or not has_runs):
            detail = self._why_unknown(question, match)
            if has_runs and model is not None:
                detail = f"{model.observations} runs are known, but no curve fits them."
            return msgspec.structs.replace(blank, detail=detail)
        first = predicted[points[0].n] if points else None
        curve = self._predictor.curve(key) if key is not None else None
        return msgspec.structs.replace(
            blank,
            known=True,
            detail=self._detail(question, match, model, first) + _left_out(event, requested),
            observations=model.observations if has_runs and model is not None else 0,
            points=self._power.answered(key.id, points) if key else points,
            model=first.model if first is not None else None,
            useful_n=curve.useful if curve is not None else None,
            quality=model.quality if has_runs and model is not None else None,
        )

    def _detail(self, question: Question, match: Identification, model: RunTime | None, first: Predicted | None) -> str:
        """Return the sentences that explain the source of an answer."""
        key = question.key
        if model is not None and model.observations and key is not None:
            shares = {member.name: member.weight for member in first.model.members} if first else {}
            of_features: dict[str, float] = {stage: shares[stage] for stage in STAGES if stage in shares}
            runs = f"{model.observations} runs at {len(model.sizes())} sizes are known."
            return runs + self._features.explanation(key.id, question.known, of_features)
        if first is not None and first.source == "transfer" and key is not None:
            inputs = self._unseen_inputs.others(key, question.input_sizes)
            shown = inputs.shown if inputs is not None else "other inputs"
            return f"No run of {key.application} with input {key.input or '(none)'} is known. The prediction comes from runs with {shown}."
        return f"{self._why_unknown(question, match)} It is predicted from similar runs."

    def forget_old(self, _work: TickWork) -> None:
        self._state.answered_requests.forget_due(self._state.now_ms, 1000)

    def _why_unknown(self, question: Question, match: Identification) -> str:
        key = question.key
        if key is None:
            return f"The request could not be identified: {match.reason or 'nothing names a program'}."
        prefix = key.id.rsplit("/", 2)[0] + "/"
        near = [ApplicationKey.parse(other) for other in self._state.models.keys() if other.startswith(prefix)]  # noqa: SIM118  no mapping
        if not near:
            return f"No run of {key.application} on {question.system} is known."
        some = ", ".join(sorted({f"{other.input or 'no input'} in {other.unit}" for other in near})[:5])
        return f"No run of {key.application} with input {key.input or '(none)'} in {key.unit} is known. Known inputs: {some}."

    def _blank(self, event: PredictionRequested, match: Identification) -> Answer:
        context, key = self._state.context, match.key
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
            identified_by=match.source,
            confidence=match.confidence,
            observations=0,
            points=(),
            model=None,
            useful_n=None,
            quality=None,
        )


def _requested(event: PredictionRequested) -> list[float]:
    """Return the requested sizes that are plausible, ascending; the number of sizes is limited."""
    return sorted(n for n in set(event.n) if N_MIN <= n <= N_MAX)[:SIZES_MAX]


def _left_out(event: PredictionRequested, requested: list[float]) -> str:
    left_out = len(set(event.n)) - len(requested)
    return f" {left_out} of the sizes asked for are left out: too many, or no real sizes." if left_out else ""
