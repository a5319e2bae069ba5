"""Power, energy and what counters explain as metrics: of the applications with the most runs."""

from collections.abc import Sequence
from typing import Final

from prometheus_client.metrics_core import GaugeMetricFamily

from agent.contracts.outputs import CurvePoint, Prediction
from agent.contracts.quality import ProfileModel
from agent.metrics.power_table import POWER, TARGETS
from agent.metrics.scrape import gauge
from agent.metrics.sizes import size_text

COUNTERS_MAX: Final = 8  # of one target
NAME_MAX: Final = 128  # characters of a counter: what is longer is left out, a part of it would be another's name
SERIES_MAX: Final = 4 + len(TARGETS) * (2 + 2 * COUNTERS_MAX)  # of one application, besides its curve
Families = dict[str, GaugeMetricFamily]


def families() -> Families:
    """Return the families without samples.

    >>> len(families()) == len(POWER)
    True
    """
    return {declaration.name: gauge(declaration) for declaration in POWER}


def add(found: Families, entry: Prediction, curve: Sequence[CurvePoint]) -> None:
    """Add the series of an application: power and energy at the points of `curve`, and of its models.

    >>> found = families()
    >>> from types import SimpleNamespace
    >>> entry = SimpleNamespace(application="lammps", system="exa", input="", unit="nodes", power=None, profiles=())
    >>> add(found, entry, ())
    >>> sum(len(family.samples) for family in found.values())
    0
    """
    key = [entry.application, entry.system, entry.input, entry.unit]
    for point in curve:
        _add_point(found, key, point)
    if entry.power is not None:
        for name, extra, figure in (
            ("scalewatch_power_error_ratio", [], entry.power.median_error),
            ("scalewatch_power_coverage_ratio", [], entry.power.coverage_90),
            ("scalewatch_power_host_minutes_ratio", ["measured"], entry.power.measured),
            ("scalewatch_power_host_minutes_ratio", ["estimated"], entry.power.estimated),
        ):
            if figure is not None:
                found[name].add_metric([*key, *extra], figure)
    for target, model in {model.target: model for model in entry.profiles if model.target in TARGETS}.items():
        _add_model(found, [*key, target], model)


def _add_point(found: Families, key: list[str], point: CurvePoint) -> None:
    powers = (point.power_low_w, point.power_w, point.power_high_w)
    energies = (point.energy_low_j, point.energy_j, point.energy_high_j)
    for name, ends in (("scalewatch_predicted_power_watts", powers), ("scalewatch_predicted_energy_joules", energies)):
        for quantile, value in zip(("0.05", "0.5", "0.95"), ends, strict=True):
            if value is not None:
                found[name].add_metric([*key, size_text(point.n), quantile], value)


def _add_model(found: Families, labels: list[str], model: ProfileModel) -> None:
    for name, figure in (
        ("scalewatch_profile_error_ratio", model.median_error),
        ("scalewatch_profile_coverage_ratio", model.coverage_90),
    ):
        if figure is not None:
            found[name].add_metric(labels, figure)
    named = {each.counter: each for each in reversed(model.explained[:COUNTERS_MAX]) if len(each.counter) <= NAME_MAX}
    for counter, each in named.items():
        found["scalewatch_profile_counter_correlation"].add_metric([*labels, counter], each.rho)
        found["scalewatch_profile_counter_coefficient"].add_metric([*labels, counter], each.standardised)
