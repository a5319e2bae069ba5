"""From what was observed to the report of one variant."""

from collections.abc import Mapping

from agent.backtest.groups import Group, rows
from agent.backtest.observer import DISTANCES, OTHERS, UNNAMED, Key, Observer, OfApplication
from agent.backtest.report import Application, Comparison, Period, Row, Variant
from processors.contracts.events import STATES, SUCCESS
from processors.contracts.names import ApplicationKey, rfc3339
from processors.contracts.outputs import Prediction

NO_NAME = "jobs that nothing names"


def variant(name: str, settings: Mapping[str, str], observer: Observer, top: int, faults: int = 0) -> Variant:
    """Return the report of one variant with its `top` applications, those with the most runs first."""
    ran = sum(group.runs for group in observer.states.values())
    named = [key for key in observer.applications if key not in (UNNAMED, OTHERS)]
    chosen = sorted(observer.applications, key=lambda key: (-observer.applications[key].group.runs, key))[:top]
    return Variant(
        name=name,
        settings=dict(settings),
        total=observer.total.row("completed"),
        by_state=rows(observer.states, STATES),
        by_horizon=rows(observer.horizons, DISTANCES),
        by_verdict=rows(observer.verdicts),
        by_application=tuple(application(key, observer.applications[key], observer.curves.get(key)) for key in chosen),
        applications=len(named),
        comparisons=_comparisons(observer),
        periods=_periods(observer),
        quantiles=observer.quantiles.found(),
        limit=observer.limit.found(),
        limit_brier=observer.limit.brier,
        alerts=observer.alerts.counts(ran),
        faults=faults,
        profiled=observer.profiles.found(
            {ApplicationKey(*key).id: curve for key, curve in observer.curves.items()}, top
        ),
    )


def application(key: Key, found: OfApplication, curve: Prediction | None) -> Application:
    """Return the report of one application."""
    name, system, input_, unit = key
    return Application(
        application=name,
        system=system,
        input=input_,
        unit=unit,
        row=found.group.row(" ".join(part for part in (name, input_) if part) or NO_NAME),
        horizons=rows(found.horizons, DISTANCES),
        verdict=curve.reliability.verdict if curve else None,
        curve=curve.curve if curve else (),
        observed=found.sample.observed(),
    )


def _comparisons(observer: Observer) -> tuple[Comparison, ...]:
    others = set(observer.states) - {SUCCESS}  # without any, all runs are the completed ones
    every = observer.all.comparisons("all") if others else []
    return (*observer.completed.comparisons("completed"), *every)


def _periods(observer: Observer) -> tuple[Period, ...]:
    found = []
    for place, period in enumerate(observer.periods):
        if not period.group.runs:
            continue
        start, end = (rfc3339(edge_ms) for edge_ms in observer.edges_ms[place : place + 2])
        medians = {name: tally.figures().median_error for name, tally in period.baselines.items()}
        found.append(
            Period(
                start=start,
                end=end,
                row=_named(period.group, start),
                requested_median_error=medians["requested"],
                last_two_median_error=medians["last_two"],
            )
        )
    return tuple(found)


def _named(group: Group, start: str) -> Row:
    return group.row(start[:10])
