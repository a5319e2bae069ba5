"""Run times under the load of hosts: predicted for starting jobs, requests and published curves, scored when runs end."""

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
from processors.jobs.lifecycle import SAME_START_MS, Forecast, Job, Placement
from processors.load.messages import LoadQuestion
from processors.load.prediction import LoadPlace, TooLittleError, of_hosts, of_partition
from processors.load.runs import StartLoad
from processors.load.scores import LoadScores
from processors.pipeline.inputs import Machines
from processors.pipeline.stage import guard
from processors.pipeline.state import ShardState
from processors.run_time.machine import Machine

POINTS_MAX: Final = 16  # most sizes of an answer that are predicted under load
LOOK_AGAIN_MS: Final = 300_000  # time between two samples of the load of a running job's hosts: the length of a window


class UnderLoads:
    """Predicts and scores run times under load in one shard."""

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self._load_predictor = state.load_predictor
        self._machines = Machines(state)

    def at_start(self, started: JobStarted, forecast: Forecast) -> StartLoad | None:
        """Return the run time predicted from the load of the hosts before the start; None without load data.

        `forecast` is the forecast that ignores load.
        """
        with guard(self._state, LoadScores.name):  # an exception in load must not prevent the forecast
            return self._at_start(started, forecast)
        return None

    def answered(self, event: PredictionRequested, key: ApplicationKey | None, answer: Answer) -> Answer:
        """Return an answer with points under the load of the hosts or the partition that the request names."""
        if not (event.evidence.hosts or event.evidence.partition):
            return answer
        points = tuple(self._point(event, key, answer, i, point) for i, point in enumerate(answer.points))
        return msgspec.structs.replace(answer, points=points)

    def published(self, key: ApplicationKey, prediction: Prediction, curve: PublishedCurve) -> Prediction:
        """Return a prediction with the run time under the present load of the application's usual partition, at the newest size."""
        scores = self._state.loads.get(key.id)
        if scores is None or scores.partition is None:
            return prediction
        n, machine = scores.n, self._machines.of_partition(key.system, scores.partition)
        with guard(self._state, LoadScores.name), suppress(TooLittleError):
            place = of_partition(
                self._state.windows, key.system, scores.partition, self._hosts(n, key.unit, {}, machine)
            )
            under_load = self._report(key, place, n, curve.at(n), self._state.now_ms)
            return msgspec.structs.replace(prediction, under_load=under_load) if _is_useful(under_load) else prediction
        return prediction

    def meanwhile(self, retained: StartLoad, started: JobStarted, now_ms: int) -> StartLoad:
        """Return the start record of a running job, with one more sample of the load of its hosts if the next sample is due."""
        if retained.view != "own" or now_ms - max(retained.met_ms, started.start_ms) < LOOK_AGAIN_MS:
            return retained
        return self._looked_at(retained, started, now_ms)

    def explained(self, job: Job, event: JobCompleted, placement: Placement) -> float:
        """Return how much the load of its hosts changed the ln(run time) of a run that has just ended; 0 if unknown.

        The load during the run is compared with the usual load for runs of this size. The difference is weighted by how closely
        past run times followed the load. This weight is about 0 for jobs that have their hosts alone, because they cause the load
        themselves.
        """
        retained, started = job.start_load, job.running
        scores = self._state.loads.get(retained.application_id) if retained else None
        if retained is None or started is None or scores is None or not self._same(retained, started, event, placement):
            return 0.0
        with guard(self._state, LoadScores.name):
            met = self._looked_at(retained, started, event.end_ms).met_by
            pool = self._state.loads.get(centre(started.system))
            return scores.explained(met, retained.prediction.n, pool)
        return 0.0

    def ended(self, retained: StartLoad, started: JobStarted, event: JobCompleted, placement: Placement) -> None:
        """Score the prediction made at the start of a run and learn the load of the run, if application and size have not changed since."""
        same = self._same(retained, started, event, placement)
        same = same and retained.application_id in self._state.models  # scores are deleted together with the model
        if not same or event.state != SUCCESS or not plausible(retained.prediction.n, event.run_time_s):
            return
        application_scores = self._state.loads.open(retained.application_id)
        start = self._looked_at(retained, started, event.end_ms)
        run = application_scores.judged(start, event.run_time_s, self._state.loads.get(centre(started.system)))
        for key in (retained.application_id, centre(started.system)):
            self._state.loads.learn(key, run, self._state.now_ms)

    @staticmethod
    def _same(retained: StartLoad, started: JobStarted, event: JobCompleted, placement: Placement) -> bool:
        """Return whether the run still has the application, size and start time that were recorded at its start."""
        same = (placement.application_id, placement.n) == (retained.application_id, retained.prediction.n)
        return same and abs(event.start_ms - started.start_ms) <= SAME_START_MS

    def _looked_at(self, retained: StartLoad, started: JobStarted, until_ms: int) -> StartLoad:
        """Return `retained` with one more sample of the load of the run's own hosts; unchanged if the load is unknown."""
        with guard(self._state, LoadScores.name), suppress(TooLittleError):
            if retained.view == "own" and until_ms > max(retained.met_ms, started.start_ms):
                key = ApplicationKey.parse(retained.application_id)
                place = of_hosts(started.system, started.evidence.hosts)
                question = LoadQuestion(key.application, place, retained.prediction.n, None, until_ms)
                host_load = self._load_predictor.load_of(self._state.windows, question)
                return retained.looked_at(host_load, until_ms) if host_load is not None else retained
        return retained

    def _at_start(self, started: JobStarted, forecast: Forecast) -> StartLoad | None:
        evidence, n = started.evidence, forecast.n
        if forecast.application_id is None or n is None or not (evidence.hosts or evidence.partition):
            return None
        key = ApplicationKey.parse(forecast.application_id)
        windows, system = self._state.windows, started.system
        if not windows.any_measured() and not self._load_predictor.has_equation(key.application):
            return None  # the default equation needs a window
        end = forecast.band
        band = PublishedPoint(n, end.run_time_s, end.low_s, end.high_s) if end is not None else None
        if band is None and self._load_predictor.needs_curve(key.application):
            return None
        place = pool = None
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
            pool_load = self._load_predictor.load_of(
                windows, LoadQuestion(key.application, pool, n, band, started.start_ms)
            )
        question = self._question(key, where, n, band, started.start_ms)
        return StartLoad(
            key.id,
            where.view,
            prediction,
            band,
            pool_load.load if pool_load else None,
            evidence.partition,
            other=self._load_predictor.alternative(windows, question, prediction),
            pool_bandwidth=pool_load.bandwidth if pool_load else None,
            counterpart=self._load_predictor.counterpart(windows, question, prediction),
        )

    def _point(
        self, event: PredictionRequested, key: ApplicationKey | None, answer: Answer, index: int, point: AnswerPoint
    ) -> AnswerPoint:
        with guard(self._state, LoadScores.name):
            try:
                if index >= POINTS_MAX:
                    raise TooLittleError(f"Only the first {POINTS_MAX} sizes of a request are predicted under load.")  # noqa: TRY301
                place = self._place(event, answer.unit or event.unit or "", point.n)
                band = PublishedPoint(point.n, point.run_time_s, point.low_s, point.high_s)
                under_load = self._report(key, place, point.n, band, self._state.now_ms)
            except TooLittleError as error:
                under_load = UnderLoad(as_of=answer.as_of, hosts="", hosts_count=0.0, n=point.n, reason=str(error))
            return msgspec.structs.replace(point, under_load=under_load)
        return point

    def _place(self, event: PredictionRequested, unit: str, n: float) -> LoadPlace:
        evidence, system = event.evidence, event.system
        machine = self._machines.of_partition(system, evidence.partition)
        if evidence.hosts:
            try:
                needed: float | None = self._hosts(n, unit, evidence.sizes, machine)
            except TooLittleError:
                needed = None  # the job then gets all hosts in the lists
            return of_hosts(system, evidence.hosts, needed)
        hosts = self._hosts(n, unit, evidence.sizes, machine)
        return of_partition(self._state.windows, system, evidence.partition or "", hosts)

    @staticmethod
    def _hosts(n: float, unit: str, sizes: Mapping[str, float], machine: Machine) -> float:
        """Return the number of hosts of a job at size `n`. Raise TooLittleError if the number is unknown."""
        cores = machine.cores_per_node
        if unit == "nodes" or "nodes" in sizes:
            return max(n if unit == "nodes" else sizes["nodes"], 1.0)
        if unit in ("cores", "processes") and cores:
            return float(math.ceil(n / cores))
        raise TooLittleError(f"How many hosts {n:g} {unit} are is not known.")

    def _report(
        self, key: ApplicationKey | None, place: LoadPlace, n: float, band: PublishedPoint | None, until_ms: int
    ) -> UnderLoad:
        return self._load_predictor.predict(self._state.windows, self._question(key, place, n, band, until_ms))

    def _question(
        self, key: ApplicationKey | None, place: LoadPlace, n: float, band: PublishedPoint | None, until_ms: int
    ) -> LoadQuestion:
        loads = self._state.loads
        scores = loads.get(key.id) if key else None
        application = key.application if key else None
        return LoadQuestion(application, place, n, band, until_ms, scores, loads.get(centre(place.system)))


def centre(system: str) -> str:
    """Return the key of the scores of all runs of a centre; the key cannot equal an application id, which has more parts."""
    return f"centre/{escaped(system)}"


def _is_useful(prediction: UnderLoad) -> bool:
    return prediction.histogram is not None or prediction.missing < prediction.looked_at
