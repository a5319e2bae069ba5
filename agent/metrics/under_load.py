"""Run times under the load of hosts as metrics, and how good they have been: of the applications with the most runs."""

from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily

from agent.contracts.outputs import Prediction
from agent.contracts.under_load import LoadQuality, UnderLoad
from agent.metrics.scrape import gauge
from agent.metrics.table import UNDER_LOAD

SERIES_MAX: Final = 28  # of one application: 3 quantiles, 2 loads, and 23 of its quality
Families = dict[str, GaugeMetricFamily]


def families() -> Families:
    """Return the families without samples.

    >>> len(families()) == len(UNDER_LOAD)
    True
    """
    return {declaration.name: gauge(declaration) for declaration in UNDER_LOAD}


def add(found: Families, entry: Prediction) -> None:
    """Add the series of an application, where its prediction has a run time under load.

    >>> found = families()
    >>> from types import SimpleNamespace
    >>> add(found, SimpleNamespace(under_load=None))
    >>> sum(len(family.samples) for family in found.values())
    0
    """
    said = entry.under_load
    if said is None:
        return
    key = [entry.application, entry.system, entry.input, entry.unit]
    _add_figures(found, key, said)
    if said.quality is not None and said.quality.of == "application":
        _add_quality(found, key, said.quality)


def _add_figures(found: Families, key: list[str], said: UnderLoad) -> None:
    for name, extra, value in (
        ("scalewatch_under_load_run_time_seconds", "0.05", said.q05_s),
        ("scalewatch_under_load_run_time_seconds", "0.5", said.q50_s),
        ("scalewatch_under_load_run_time_seconds", "0.95", said.q95_s),
        ("scalewatch_under_load_factor", "now", said.load),
        ("scalewatch_under_load_factor", "usual", said.usual_load),
    ):
        if value is not None:
            found[name].add_metric([*key, extra], value)
    if said.monte_carlo_gap is not None:
        found["scalewatch_under_load_monte_carlo_gap_ratio"].add_metric(key, said.monte_carlo_gap)


def _add_quality(found: Families, key: list[str], quality: LoadQuality) -> None:
    found["scalewatch_under_load_in_range_ratio"].add_metric(key, quality.in_range)
    if quality.crps_ratio is not None:
        found["scalewatch_under_load_crps_ratio"].add_metric(key, quality.crps_ratio)
    for kind, shares in (("observed", quality.hits), ("expected", quality.expected)):
        for number, value in enumerate(shares, 1):
            found["scalewatch_under_load_interval_ratio"].add_metric([*key, str(number), kind], value)
    for number, value in enumerate(quality.pit, 1):
        found["scalewatch_under_load_pit_ratio"].add_metric([*key, str(number)], value)
