"""Who tells when a running job ends: its application's curve, other inputs of it, or similar runs."""

from typing import NamedTuple

from agent.contracts.events import JobStarted
from agent.contracts.outputs import Model, Reliability
from processors.curve import PublishedCurve
from processors.facts import N_MAX, N_MIN
from processors.feature_messages import DECIDES
from processors.fold.desk import Desk, Identified
from processors.fold.features import NOTHING, Features, Told
from processors.fold.histories import Histories, coming, home
from processors.fold.unseen import Unseen
from processors.forecast import Forecast, FromInputs
from processors.inputs import Inputs
from processors.job_ends import EndForecast, forecast
from processors.other_inputs import NAME, UNSEEN
from processors.quality import coverages
from processors.run_time import RunTime
from processors.similar_runs import NO_CURVE, NOT_BY_SIZE, end_forecast, reliability

NOT_KNOWN = Reliability("unknown", ("no_model",), ())
COLD_START = Reliability(
    "uncertain", (UNSEEN,), ("No curve of this input is known: this comes from other inputs of the application.",)
)
OF_CURVE = Model("curve", ())
OF_INPUTS = Model(NAME, ())
BAND_MAX = 1e4  # a curve whose band is wider says nothing
REVISE_SHARE = 0.25  # of the time it has run: a broad distribution changes with every minute, but not by much


class EndOutlook(NamedTuple):
    """When a job ends, and where that came from; `end` is None where nothing is known.

    `measured` is the share of late of runs that kept to such bands, `revise_s` how long it may stay as it is at least.
    """

    end: EndForecast | None
    model: Model | None
    reliability: Reliability
    measured: float | None = None
    revise_s: float = 0.0
    from_inputs: FromInputs | None = None


UNKNOWN = EndOutlook(None, None, NOT_KNOWN)


class EndOutlooks:
    """Asks those who may know of one shard's jobs, the one that knows most first.

    The published curve of its application answers. Similar runs do where there is none, where it knows one size alone,
    and where they have told more of its runs than it did; an input that was never run is told by other inputs first.

    >>> from agent.app.compose import make_shard
    >>> from agent.config.tree import Config
    >>> from agent.contracts.events import Evidence
    >>> desk = make_shard(Config()).desk
    >>> started = JobStarted("exa", job_id="1", run_id="exa/1@0", start_ms=0, evidence=Evidence(application="lammps"))
    >>> found = desk.identify(started.evidence, "exa", (), None)
    >>> EndOutlooks(desk, Histories(desk)).first(started, found).reliability.verdict
    'unknown'
    """

    def __init__(self, desk: Desk, histories: Histories) -> None:
        self._desk = desk
        self._histories = histories
        self._unseen = Unseen(desk)
        self._features = Features(desk)

    def first(self, started: JobStarted, found: Identified, told: Told = NOTHING) -> EndOutlook:
        """Return when a job ends that has just been taken for something; `told` is known of it besides its size."""
        key = found.key.id if found.key else None
        by_curve = self._by_features(key, found.n, started, told) or self._by_curve(key, found.n, started)
        return by_curve or self._by_inputs(self._from_inputs(found), started) or self._else(key, found.n, started)

    def again(self, started: JobStarted, last: Forecast, told: Told = NOTHING) -> EndOutlook:
        """Return when a job ends of which something was told before."""
        key = last.application_id
        by_curve = self._by_features(key, last.n, started, told) or self._by_curve(key, last.n, started)
        return by_curve or self._by_inputs(last.from_inputs, started) or self._else(key, last.n, started)

    def _by_features(
        self, application_id: str | None, n: float | None, started: JobStarted, told: Told
    ) -> EndOutlook | None:
        """Return what features and the curve say; None where they say nothing, or less than similar runs."""
        if application_id is None or n is None or told == NOTHING:
            return None
        found = self._features.forecast(application_id, n, told)
        if found is None:
            return None
        said, curve = found.said, self._desk.models.open(application_id).published
        if sum(said.shares.values()) < DECIDES and curve and self._prefers_similar(application_id, curve, n):
            return None
        elapsed_s, limit_s = self._elapsed_s(started), _limit_s(started)
        end = forecast(said.run_time_s, said.low_s, said.high_s, elapsed_s, limit_s)
        return EndOutlook(end, found.model, found.reliability, said.coverage)

    def _by_curve(self, application_id: str | None, n: float | None, started: JobStarted) -> EndOutlook | None:
        model = self._desk.models.get(application_id) if application_id else None
        curve = model.published if model else None
        if model is None or curve is None or application_id is None or n is None:
            return None
        if self._prefers_similar(application_id, curve, n):
            why = NO_CURVE if curve.of_one_size else NOT_BY_SIZE
            similar = self._by_similar(application_id, n, started, why)
            if similar is not None:
                return similar
        return self._of_curve(model, curve, n, started)

    def _prefers_similar(self, application_id: str, curve: PublishedCurve, n: float) -> bool:
        point = curve.at(n)
        useless = point is not None and point.high_s > BAND_MAX * point.low_s
        return useless or self._histories.prefers_similar(application_id, n, of_one_size=curve.of_one_size)

    def _of_curve(self, model: RunTime, curve: PublishedCurve, n: float, started: JobStarted) -> EndOutlook | None:
        point = curve.at(n)
        if point is None:
            return None
        end = forecast(point.run_time_s, point.low_s, point.high_s, self._elapsed_s(started), _limit_s(started))
        measured = coverages(model.scores).get(curve.horizon(n))
        return EndOutlook(end, OF_CURVE, Reliability(curve.verdict, curve.reasons), measured)

    def _from_inputs(self, found: Identified) -> FromInputs | None:
        """Return the run time by other inputs of the application; None where these tell nothing."""
        if found.key is None or found.n is None or not found.input_sizes or not N_MIN <= found.n <= N_MAX:
            return None
        try:
            return self._unseen.forecast(found.key, found.input_sizes, found.n)
        except Exception:  # noqa: BLE001  what can not be reckoned must not cost the forecast
            self._desk.tally["fault", Inputs.name] += 1
            return None

    def _by_inputs(self, band: FromInputs | None, started: JobStarted) -> EndOutlook | None:
        if band is None:
            return None
        end = forecast(band.run_time_s, band.low_s, band.high_s, self._elapsed_s(started), _limit_s(started))
        return EndOutlook(end, OF_INPUTS, COLD_START, from_inputs=band)

    def _else(self, application_id: str | None, n: float | None, started: JobStarted) -> EndOutlook:
        """Return what similar runs tell of a job without a curve; a size beyond a curve is not known."""
        model = self._desk.models.get(application_id) if application_id else None
        if model is not None and model.published is not None:
            return UNKNOWN
        return self._by_similar(application_id, n, started, NO_CURVE) or UNKNOWN

    def _by_similar(
        self, application_id: str | None, n: float | None, started: JobStarted, why: str
    ) -> EndOutlook | None:
        job = coming(application_id, n, started.evidence)
        told = self._histories.told(home(started.system, application_id), job)
        if told is None or job is None:
            return None
        elapsed_s = self._elapsed_s(started)
        end = end_forecast(told.expected, elapsed_s, job.time_limit_s)
        judged = reliability(told.expected.alike, why)
        return EndOutlook(end, told.model, judged, told.coverage, REVISE_SHARE * elapsed_s)

    def _elapsed_s(self, started: JobStarted) -> float:
        return max(self._desk.now_ms - started.start_ms, 0) / 1000


def _limit_s(started: JobStarted) -> float | None:
    return started.evidence.time_limit_s
