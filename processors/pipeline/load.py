"""Run times under the load of hosts: told for jobs that start, for requests and with predictions; scored when runs end."""

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

import msgspec

from processors.contracts.events import SUCCESS, JobCompleted, JobStarted, PredictionRequested
from processors.contracts.load import UnderLoad
from processors.contracts.names import ApplicationKey, escaped
from processors.contracts.outputs import Answer, AnswerPoint, Prediction
from processors.facts import PublishedCurve, PublishedPoint, plausible
from processors.jobs.lifecycle import Placement
from processors.jobs.remaining_time import Forecast
from processors.load.messages import LoadPredictor, Question
from processors.load.prediction import Place, TooLittleError, of_hosts, of_partition
from processors.load.scores import LoadedRun, LoadScores, StartLoad
from processors.pipeline.machines import Machines
from processors.pipeline.stage import guard
from processors.pipeline.state import ShardState
from processors.run_time.machine import Machine

POINTS_MAX: Final = 16  # sizes of an answer
SAME_START_MS: Final = 60_000  # two producers may differ by so much about when a run began


class UnderLoads:
    """Tells and scores run times under load in one shard."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._load_predictor = LoadPredictor(state.settings.under_load)
        self._machines = Machines(state)

    def at_start(self, started: JobStarted, forecast: Forecast) -> StartLoad | None:
        """Return what is reported a run by the windows of its hosts before its start; None where they say nothing.

        `forecast` is what is reported it without them.
        """
        with guard(self._state, LoadScores.name):  # the load must not cost the forecast
            return self._at_start(started, forecast)
        return None

    def answered(self, event: PredictionRequested, key: ApplicationKey | None, answer: Answer) -> Answer:
        """Return an answer with its points under the load of the hosts or the partition that the request names."""
        if not (event.evidence.hosts or event.evidence.partition):
            return answer
        points = tuple(self._point(event, key, answer, i, point) for i, point in enumerate(answer.points))
        return msgspec.structs.replace(answer, points=points)

    def published(self, key: ApplicationKey, prediction: Prediction, curve: PublishedCurve) -> Prediction:
        """Return a prediction with the run time at the size that was run last, on the partition where it usually runs."""
        scores = self._state.loads.get(key.id)
        if scores is None or scores.partition is None:
            return prediction
        n, machine = scores.newest_n, self._machines.of_partition(key.system, scores.partition)
        with guard(self._state, LoadScores.name), suppress(TooLittleError):
            place = of_partition(
                self._state.windows, key.system, scores.partition, self._hosts(n, key.unit, {}, machine)
            )
            found = self._report(key, place, n, curve.at(n), self._state.now_ms)
            return msgspec.structs.replace(prediction, under_load=found) if _is_useful(found) else prediction
        return prediction

    def ended(self, retained: StartLoad, started: JobStarted, event: JobCompleted, placement: Placement) -> None:
        """Score what was reported a run at its start, and learn what load it met, where it is what it was taken for then."""
        same = (placement.application_id, placement.n) == (retained.application_id, retained.prediction.n)
        same = same and abs(event.start_ms - started.start_ms) <= SAME_START_MS
        same = same and retained.application_id in self._state.models  # the scores go when the model does
        if not same or event.state != SUCCESS or not plausible(retained.prediction.n, event.run_time_s):
            return
        own = self._state.loads.open(retained.application_id)
        run = LoadedRun(
            retained,
            event.run_time_s,
            own.usual("own", retained.prediction.n),
            own.usual("pool", retained.prediction.n),
        )
        for key in (retained.application_id, centre(started.system)):
            scores = self._state.loads.open(key)
            scores.learn(run)
            self._state.loads.changed(key, scores, self._state.now_ms)

    def _at_start(self, started: JobStarted, forecast: Forecast) -> StartLoad | None:
        evidence, n = started.evidence, forecast.n
        if forecast.application_id is None or n is None or not (evidence.hosts or evidence.partition):
            return None
        key = ApplicationKey.parse(forecast.application_id)
        band = _point(n, forecast)
        if band is None and self._load_predictor.needs_curve(key.application):
            return None
        windows, system, pool = self._state.windows, started.system, None
        try:
            place = of_hosts(system, evidence.hosts) if evidence.hosts else None
            if evidence.partition:
                machine = self._machines.of_partition(system, evidence.partition)
                hosts = place.hosts if place else self._hosts(n, key.unit, evidence.sizes, machine)
                pool = of_partition(windows, system, evidence.partition, hosts)
        except TooLittleError:
            pass
        where = place or pool
        prediction = self._report(key, where, n, band, started.start_ms) if where else None
        if prediction is None or where is None or not _is_useful(prediction):
            return None
        pool_load = None
        if place is not None and pool is not None:
            pool_load = self._load_predictor.pool_load(
                windows, Question(key.application, pool, n, band, started.start_ms)
            )
        return StartLoad(key.id, where.view, prediction, band, pool_load, evidence.partition)

    def _point(
        self, event: PredictionRequested, key: ApplicationKey | None, answer: Answer, index: int, point: AnswerPoint
    ) -> AnswerPoint:
        with guard(self._state, LoadScores.name):
            try:
                if index >= POINTS_MAX:
                    raise TooLittleError(f"Only the first {POINTS_MAX} sizes of a request are predicted under load.")  # noqa: TRY301
                place = self._place(event, answer.unit or event.unit or "", point.n)
                band = PublishedPoint(point.n, point.run_time_s, point.low_s, point.high_s)
                found = self._report(key, place, point.n, band, self._state.now_ms)
            except TooLittleError as error:
                found = UnderLoad(as_of=answer.as_of, hosts="", hosts_count=0.0, n=point.n, reason=str(error))
            return msgspec.structs.replace(point, under_load=found)
        return point

    def _place(self, event: PredictionRequested, unit: str, n: float) -> Place:
        evidence, system = event.evidence, event.system
        machine = self._machines.of_partition(system, evidence.partition)
        if evidence.hosts:
            try:
                needed: float | None = self._hosts(n, unit, evidence.sizes, machine)
            except TooLittleError:
                needed = None  # then it gets all that are named
            return of_hosts(system, evidence.hosts, needed)
        hosts = self._hosts(n, unit, evidence.sizes, machine)
        return of_partition(self._state.windows, system, evidence.partition or "", hosts)

    @staticmethod
    def _hosts(n: float, unit: str, sizes: Mapping[str, float], machine: Machine) -> float:
        """Return how many hosts a job of a size has; TooLittleError where that is not known."""
        cores = machine.cores_per_node
        if unit == "nodes" or "nodes" in sizes:
            return max(n if unit == "nodes" else sizes["nodes"], 1.0)
        if unit in ("cores", "processes") and cores:
            return float(math.ceil(n / cores))
        raise TooLittleError(f"How many hosts {n:g} {unit} are is not known.")

    def _report(
        self, key: ApplicationKey | None, place: Place, n: float, band: PublishedPoint | None, until_ms: int
    ) -> UnderLoad:
        loads = self._state.loads
        own = loads.get(key.id) if key else None
        application = key.application if key else None
        question = Question(application, place, n, band, until_ms, own, loads.get(centre(place.system)))
        return self._load_predictor.predict(self._state.windows, question)


def centre(system: str) -> str:
    """Return the key of the scores of all runs of a centre; ids of applications have more parts."""
    return f"centre/{escaped(system)}"


def _is_useful(prediction: UnderLoad) -> bool:
    """Return whether anything is known of the hosts."""
    return prediction.histogram is not None or prediction.missing < prediction.looked_at


def _point(n: float, forecast: Forecast) -> PublishedPoint | None:
    band = forecast.band
    return PublishedPoint(n, band.run_time_s, band.low_s, band.high_s) if band is not None else None
