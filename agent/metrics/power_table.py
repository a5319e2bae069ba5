"""Metrics of power, energy and what counters explain."""

from typing import Final

from agent.metrics.declarations import APPLICATION, Declaration, Label

TARGETS: Final = ("run_time_s", "system_power_w", "cpu_power_w", "memory_power_w", "gpu_power_w")
_QUANTILE: Final = Label("quantile", values=("0.05", "0.5", "0.95"))
_TARGET: Final = Label("target", values=TARGETS)
POWER: Final = (
    Declaration(
        "scalewatch_predicted_power_watts", "gauge",
        "Predicted power of all hosts of a run together at a size; 0.05 and 0.95 are the ends of its band.",
        (*APPLICATION, Label("n"), _QUANTILE), at_scrape=True,
    ),
    Declaration(
        "scalewatch_predicted_energy_joules", "gauge",
        "Predicted energy of a whole run at a size; 0.05 and 0.95 are the ends of its band.",
        (*APPLICATION, Label("n"), _QUANTILE), at_scrape=True,
    ),
    Declaration(
        "scalewatch_power_error_ratio", "gauge",
        "Median relative error of power by size, of runs that were predicted before they were learned.", APPLICATION,
        at_scrape=True,
    ),
    Declaration(
        "scalewatch_power_coverage_ratio", "gauge", "Share of these runs whose power was inside the 90 % band.",
        APPLICATION, at_scrape=True,
    ),
    Declaration(
        "scalewatch_power_host_minutes_ratio", "gauge",
        "Share of the host-minutes of runs whose power a sensor measured, and share that was estimated from counters.",
        (*APPLICATION, Label("source", values=("measured", "estimated"))), at_scrape=True,
    ),
    Declaration(
        "scalewatch_profile_error_ratio", "gauge",
        "Median relative error of what was expected of runs from their counters, before they were learned.",
        (*APPLICATION, _TARGET), at_scrape=True,
    ),
    Declaration(
        "scalewatch_profile_coverage_ratio", "gauge", "Share of these runs inside the 90 % band.",
        (*APPLICATION, _TARGET), at_scrape=True,
    ),
    Declaration(
        "scalewatch_profile_counter_correlation", "gauge",
        "Rank correlation of a counter with a target, of the few counters of its linear model.",
        (*APPLICATION, _TARGET, Label("counter")), at_scrape=True,
    ),
    Declaration(
        "scalewatch_profile_counter_coefficient", "gauge",
        "Coefficient of such a counter: deviations of the target for one deviation of the counter.",
        (*APPLICATION, _TARGET, Label("counter")), at_scrape=True,
    ),
)  # fmt: skip
