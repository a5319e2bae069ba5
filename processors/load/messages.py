"""Messages about run times under load: figures with their source and accuracy so far, or the reason why they are missing.

This module also holds the structural models of the configuration: the equation of each application, and the windows
that its values come from.
"""

import re
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Final, NamedTuple

import msgspec
import numpy as np

from processors.contracts.hosts import SHARES, Hosts
from processors.contracts.load import LoadHistogram, LoadSource, StructuralModel, UnderLoad, UnderLoadSettings
from processors.contracts.names import rfc3339
from processors.facts import PublishedPoint
from processors.load.prediction import (
    LearnedLoad,
    LoadPlace,
    LoadPrediction,
    TooLittleError,
    WindowLoad,
    by_equation,
    first_window,
    load,
    load_spread,
    loaded_run_time,
    quiet_run_time,
    slowdown,
    summary,
    waiting,
)
from processors.load.records import NetworkEffect
from processors.load.runs import HostLoad, Reckoned
from processors.load.scores import LoadScores
from processors.models.histogram import INTERVALS_MAX, Histogram, mixture, quantiles, scaled, variation_class
from processors.models.numerics.statistics import six_digits
from processors.models.structure.form import Alike, Value
from processors.models.structure.parse import DEDICATED, HOSTS, Equation, EquationError, parse

REMEMBERED: Final = 256  # cached places; a place with 128 hosts takes about 20 kB


class Slowdown(NamedTuple):
    """The factor by which the slowest of several hosts lengthens a run: as a histogram, its median, and the windows behind it.

    For a resource that is not a share, such as bandwidth, it is the time per unit instead, for example s/B.
    """

    factor: Histogram
    median: float
    load: WindowLoad


def _load(
    windows: Hosts, _changes: int, place: LoadPlace, resource: str, until_ms: int, source: LoadSource
) -> WindowLoad | TooLittleError:
    try:
        return load(windows, place, resource, until_ms, source)
    except TooLittleError as error:
        return error.with_traceback(None)  # errors are cached too, because callers repeat failed questions


CPU: Final = "cpu_available"
DEFAULT: Final = "default"
MASTER: Final = "master_"  # prefix of the names of values that only the first host of a job measures
RETAINED_MAX: Final = 10_000


class Structure(NamedTuple):
    """The parsed equation of a structural model, and the configuration of the model."""

    model: Equation
    settings: StructuralModel

    @property
    def needs_curve(self) -> bool:
        return DEDICATED in self.model.names


class LoadQuestion(NamedTuple):
    """A run of size `n` whose run time under load is wanted; `band` is the prediction that ignores load.

    Only windows before `until_ms` are used. `scores` are the scores of the application, `pool` those of its centre. `source` says
    whether the load comes from windows or from forecasts. `network` says whether to use the bandwidth of hosts; if None, past
    scores decide.
    """

    application: str | None
    place: LoadPlace
    n: float
    band: PublishedPoint | None
    until_ms: int
    scores: LoadScores | None = None
    pool: LoadScores | None = None
    source: LoadSource = "window"
    network: bool | None = None


class LoadFigures(NamedTuple):
    """A computed run time, and the quantities from which it was computed.

    `load` is the factor by which the load lengthens the run time on quiet hosts, `learned` has the learned parameters, `loads`
    the windows by resource. `equation` is the application pattern of the structural model or DEFAULT, `bandwidth` the least
    bandwidth of a host in B/s.
    """

    run_time: LoadPrediction
    load: float | None
    learned: LearnedLoad
    loads: Mapping[str, WindowLoad]
    equation: str = DEFAULT
    bandwidth: float | None = None


class LoadPredictor:
    """Predicts run times under load; holds the structural models of the configuration."""

    def __init__(self, settings: UnderLoadSettings) -> None:
        self._patterns = [(re.compile(model.application), model) for model in settings.models]
        self._found = lru_cache(RETAINED_MAX)(self._structure)
        self._bandwidth = settings.bandwidth
        self._loads = lru_cache(REMEMBERED)(_load)
        self._slowdowns = lru_cache(REMEMBERED)(self._slowdown_of)

    def has_equation(self, application: str) -> bool:
        return self._found(application) is not None

    def needs_curve(self, application: str | None) -> bool:
        """Return whether the run time of an application under load is computed from the prediction that ignores load."""
        structure = self._structure_of(application)
        return structure is None or structure.needs_curve

    def _structure(self, application: str) -> Structure | EquationError | None:
        """Return the structural model of the first pattern that matches; for an invalid model, return its error."""
        settings = next((model for pattern, model in self._patterns if pattern.search(application)), None)
        if settings is None:
            return None
        try:
            return Structure(parse(settings.equation, (*settings.parameters, *settings.resources)), settings)
        except EquationError as error:
            return error.with_traceback(None)

    def _structure_of(self, application: str | None) -> Structure | None:
        """Return the structural model of an application; None if no model is configured. Raise EquationError for an invalid model."""
        structure = self._found(application) if application and self._patterns else None
        if isinstance(structure, EquationError):
            raise structure.with_traceback(None)
        return structure

    def predict(self, windows: Hosts, question: LoadQuestion) -> UnderLoad:
        """Return the run time under load, or the reason why it is unknown.

        Forecasts of the load are used if they are available and have predicted better than windows.
        """
        if self._prefers_forecast(question):
            forecast = self._predicted(windows, question._replace(source="forecast"))
            if forecast.reason is None:
                return forecast
        return self._predicted(windows, question)

    def alternative(self, windows: Hosts, question: LoadQuestion, prediction: UnderLoad) -> Reckoned | None:
        """Return the prediction by the other source of load, windows or forecasts, so that both sources can be scored.

        None if that source is missing, or if `prediction` is by a structural model. Before its usual load is known, the result
        has a load but no run time.
        """
        if prediction.equation != DEFAULT or prediction.histogram is None:
            return None
        question = question._replace(source="window" if prediction.source == "forecast" else "forecast")
        scores = question.scores
        if scores is not None and scores.record(question.place.view, question.source).usual.at(question.n) is not None:
            return Reckoned.of(self._predicted(windows, question))
        load = self.load_of(windows, question)
        if load is None or load.load is None:
            return None
        return Reckoned(question.source, six_digits(load.load), bandwidth=load.bandwidth)

    def counterpart(self, windows: Hosts, question: LoadQuestion, prediction: UnderLoad) -> Reckoned | None:
        """Return `prediction` without the network if it uses the network, else with it; None if the network has no known effect."""
        if prediction.equation != DEFAULT or prediction.histogram is None or prediction.bandwidth is None:
            return None
        counts = prediction.communication_share > 0
        question = question._replace(source=prediction.source, network=not counts)
        return Reckoned.of(self._predicted(windows, question)) if counts or _network(question) is not None else None

    def _prefers_forecast(self, question: LoadQuestion) -> bool:
        """Return whether forecasts score better than windows (for the application, else for its centre) and a usual load is known."""
        scores, pool, view = question.scores, question.pool, question.place.view
        if scores is None or scores.record(view, "forecast").usual.at(question.n) is None:
            return False
        if self._structure_of(question.application):
            return False
        return (
            scores.record(view, "forecast").better or (pool.record(view, "forecast").better if pool else None)
        ) == "forecast"

    def _predicted(self, windows: Hosts, question: LoadQuestion) -> UnderLoad:
        place = question.place
        blank = UnderLoad(
            as_of=rfc3339(question.until_ms),
            hosts=place.text,
            hosts_count=float(place.hosts),  # a float, because a restored message has floats
            n=question.n,
            looked_at=len(place.names),
        )
        try:
            return _filled(blank, self.figures(windows, question), question)
        except TooLittleError as error:
            return msgspec.structs.replace(blank, reason=str(error), missing=error.missing)
        except EquationError as error:
            return msgspec.structs.replace(blank, reason=f"The equation has no value: {error}")

    def figures(self, windows: Hosts, question: LoadQuestion) -> LoadFigures:
        """Return the run time and its figures. Raise TooLittleError if too little is known, EquationError if an equation fails."""
        structure = self._structure_of(question.application)
        if structure is not None:
            return self._structural(structure, windows, question)
        band = _band(question)
        slowed = self._slowdown(windows, question, CPU)
        waits = self._waits(windows, question)
        quiet, learned = quiet_run_time(band, INTERVALS_MAX), _learned(question, network=waits is not None)
        run_time = loaded_run_time(quiet, slowed.factor, learned, waits.factor if waits else None)
        reckoned = summary(load_spread(run_time, learned.width))
        bandwidth = 1 / waits.median if waits else None
        return LoadFigures(reckoned, slowed.median, learned, {CPU: slowed.load}, bandwidth=bandwidth)

    def _waits(self, windows: Hosts, question: LoadQuestion) -> Slowdown | None:
        """Return the time in s/B that a run waits for the slowest network of its hosts; None if the bandwidth is not measured."""
        if self._bandwidth is None or not windows.any_measured(self._bandwidth):
            return None
        with suppress(TooLittleError):
            return self._slowdown(windows, question, self._bandwidth)
        return None

    def load_of(self, windows: Hosts, question: LoadQuestion) -> HostLoad | None:
        """Return the load of the hosts for the default equation; None if unknown, or if the application has a structural model.

        A structural model has only one usual load, that of its runs' own hosts.
        """
        if self._structure_of(question.application):
            return None
        try:
            slowed = self._slowdown(windows, question, CPU)
        except TooLittleError:
            return None
        waits = self._waits(windows, question)
        return HostLoad(slowed.median, six_digits(1 / waits.median) if waits else None)

    def _structural(self, structure: Structure, windows: Hosts, question: LoadQuestion) -> LoadFigures:
        settings = structure.settings
        values: dict[str, Value] = {"n": question.n, HOSTS: question.place.hosts, **settings.parameters}
        loads: dict[str, WindowLoad] = {}
        for resource in (name for name in settings.resources if name in structure.model.names):
            values[resource], window_load = self._value(windows, question, resource)
            if window_load is not None:
                loads[resource] = window_load
        if not structure.needs_curve:
            prediction = by_equation(structure.model, values, None)
            return LoadFigures(prediction, None, LearnedLoad(), loads, settings.application)
        usual = (question.scores.record("own").usual.at(question.n) if question.scores else None) or 1.0
        quiet = scaled(quiet_run_time(_band(question)), 1 / usual)
        prediction = by_equation(structure.model, values, quiet)
        stretch = prediction.quantiles_s[1] / float(quantiles(quiet, [0.5])[0])
        return LoadFigures(prediction, stretch, LearnedLoad(usual), loads, settings.application)

    def _value(self, windows: Hosts, question: LoadQuestion, resource: str) -> tuple[Value, WindowLoad | None]:
        """Return the value of a resource in an equation, and the state of its windows. Raise TooLittleError if windows are missing."""
        place, plain = question.place, resource.removeprefix(MASTER)
        if plain == resource:
            window_load = self._load(windows, question, resource)
            return (window_load.rows if place.each else Alike(window_load.rows.host(0))), window_load
        if place.first is None:  # any host of the partition may become the first host of the job
            window_load = self._load(windows, question, plain)
            return mixture(window_load.rows, window_load.counts), window_load
        for name in (resource, plain):
            window = first_window(windows, place, name, question.until_ms)
            if window is not None:
                return window, None
        raise TooLittleError(f"{place.first}, the first host, has no window of {plain}.")

    def _load(self, windows: Hosts, question: LoadQuestion, resource: str) -> WindowLoad:
        """Return the windows of a resource; TooLittleError if too many windows are missing."""
        place, until_ms = question.place, windows.moment(question.until_ms)
        read = place._replace(hosts=0.0, text="")  # windows do not depend on the number of hosts
        window_load = self._loads(windows, windows.changes(), read, resource, until_ms, question.source)
        if isinstance(window_load, TooLittleError):
            raise TooLittleError(str(window_load), window_load.missing)
        return window_load if place.each else window_load._replace(counts=np.array([float(place.hosts)]))

    def _slowdown(self, windows: Hosts, question: LoadQuestion, resource: str) -> Slowdown:
        """Return how much the slowest host of `question.place` lengthens a run. Raise TooLittleError as `_load` does."""
        place, until_ms = question.place._replace(text=""), windows.moment(question.until_ms)
        return self._slowdowns(windows, windows.changes(), place, resource, until_ms, question.source)

    def _slowdown_of(
        self, windows: Hosts, _changes: int, place: LoadPlace, resource: str, until_ms: int, source: LoadSource
    ) -> Slowdown:
        window_load = self._load(windows, LoadQuestion(None, place, 0.0, None, until_ms, source=source), resource)
        factor = slowdown(window_load) if resource in SHARES else waiting(window_load)
        return Slowdown(factor, float(quantiles(factor, [0.5])[0]), window_load)


def _filled(blank: UnderLoad, figures: LoadFigures, question: LoadQuestion) -> UnderLoad:
    prediction, loads, cpu = figures.run_time, figures.loads.values(), figures.loads.get(CPU)
    low_s, middle_s, high_s = (six_digits(value) for value in prediction.quantiles_s)
    has_own_scores = question.scores is not None and question.scores.known
    scores = question.scores if has_own_scores else question.pool
    network, usual = figures.learned.network, None
    if question.scores is not None and figures.bandwidth is not None:
        usual = question.scores.record(question.place.view, question.source).network.bandwidth(question.n)
    return msgspec.structs.replace(
        blank,
        missing=max((each.missing for each in loads), default=0),
        stale=max((each.stale for each in loads), default=0),
        thin=max((each.thin for each in loads), default=0),
        histogram=_histogram(prediction.histogram),
        mean_s=six_digits(prediction.mean_s),
        q05_s=low_s,
        q50_s=middle_s,
        q95_s=high_s,
        variation=variation_class(cpu.range_max) if cpu else None,
        load=six_digits(figures.load) if figures.load is not None else None,
        baseline_load=six_digits(figures.learned.baseline_load),
        follows=round(figures.learned.follows, 4),
        width=round(figures.learned.width, 4),
        equation=figures.equation,
        monte_carlo_gap=round(prediction.gap, 4) if prediction.gap is not None else None,
        quality=scores.quality("application" if has_own_scores else "centre", question.place.view) if scores else None,
        better=scores.better if scores else False,
        source=question.source,
        communication_share=round(network.share, 4) if network else 0.0,
        bandwidth=six_digits(figures.bandwidth) if figures.bandwidth else None,
        baseline_bandwidth=six_digits(usual) if usual else None,
    )


def _histogram(x: Histogram) -> LoadHistogram:
    edges = tuple(six_digits(float(edge)) for edge in x.edges)
    return LoadHistogram(edges, tuple(round(float(share), 9) for share in x.shares))


def _band(question: LoadQuestion) -> PublishedPoint:
    if question.band is None:
        raise TooLittleError("No run time is known for this size.")
    return question.band


def _learned(question: LoadQuestion, *, network: bool = False) -> LearnedLoad:
    """Return the parameters learned from the runs of the application; LearnedLoad() before its usual load is known.

    With few runs, they are drawn to those of the centre. `network` says whether the bandwidth of the hosts is known.
    """
    scores, pool, view, source = question.scores, question.pool, question.place.view, question.source
    usual = scores.record(view, source).usual.at(question.n) if scores else None
    if scores is None or usual is None:
        return LearnedLoad()
    follows, width = (
        (pool.share(view, 1.0, source), pool.record(view, source).followed.width(1.0)) if pool else (1.0, 1.0)
    )
    follows_network = _network(question) if network else None
    share = scores.share(view, follows, source, follows_network)
    return LearnedLoad(usual, share, scores.record(view, source).followed.width(width), follows_network)


def _network(question: LoadQuestion) -> NetworkEffect | None:
    """Return the effect of the network on run times if the network is to be used, else None."""
    scores, pool, view = question.scores, question.pool, question.place.view
    if scores is None:
        return None
    record = scores.record(view, question.source).network
    counts = record.earned if question.network is None else question.network
    return record.network(scores.communication_share(pool), question.n) if counts else None
