"""Figures that no agent would write, in records that are well formed: they may look odd and break no page."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from processors.contracts.errors import InvalidInputError
from processors.contracts.outputs import Alert, JobPrediction, Prediction
from sinks.prometheus.registry import Metrics, PredictionCollector
from sinks.topics import decoded
from sinks.web.server import create_app
from tests.kit.get import get
from tests.kit.messages import alert, curve, job, power_fields, powered_curve, prediction, under_load
from tests.kit.service import FixedService

FIGURES = (0, 1e308)
RICH = power_fields() | {"curve": powered_curve()[:1]}
HELD = {Prediction: "held_predictions", JobPrediction: "held_jobs", Alert: "held_alerts"}
Steps = tuple[str | int, ...]


def numbers(node: Any, path: Steps = ()) -> Iterator[Steps]:
    """Yield where each number of a message is."""
    inner = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for name, below in inner:
        yield from numbers(below, (*path, name))
    if isinstance(node, int | float) and not isinstance(node, bool):
        yield path


def put(node: Any, path: Steps, figure: float) -> Any:
    """Return a message with another figure at a place."""
    if not path:
        return figure
    name, *rest = path
    copy = node.copy()
    copy[name] = put(node[name], tuple(rest), figure)
    return copy


def read(value: bytes, of: type[Prediction] | type[JobPrediction] | type[Alert]) -> list[Any]:
    """Return what readers have of a record; nothing where they leave it out."""
    try:
        return [decoded(value, of)]
    except InvalidInputError:
        return []


@pytest.mark.parametrize("figure", FIGURES)
@pytest.mark.parametrize(
    ("message", "pages"),
    [
        (prediction(under_load=under_load(), **RICH), ("/applications/archer2/lammps/rhodo/nodes",)),
        (job(), ("/jobs", "/jobs/archer2/812")),
        (alert(), ("/alerts/f1",)),
    ],
    ids=["prediction", "job", "alert"],
)
def test_no_figure_of_a_record_breaks_a_page(
    message: Prediction | JobPrediction | Alert, pages: tuple[str, ...], figure: float
) -> None:
    service, metrics = FixedService([prediction()]), Metrics(formats=(), reasons=(), processors=())
    metrics.register(PredictionCollector(service, lambda: 0))
    app = create_app(service, metrics)
    plain = msgspec.json.decode(msgspec.json.encode(message))
    for path in numbers(plain):
        messages = read(msgspec.json.encode(put(plain, path, figure)), type(message))
        setattr(service, HELD[type(message)], messages)
        broken = [page for page in (*pages, "/metrics") if messages and get(app, page).status_code >= 500]
        assert broken == [], path


@pytest.mark.parametrize("changes", [{"n": 0.0}, {"n": -4.0}, {"run_time_s": 0.0}])
def test_a_curve_that_readers_would_have_to_divide_by_is_no_message(changes: dict[str, float]) -> None:
    first, *others = curve()
    curved = prediction(curve=(msgspec.structs.replace(first, **changes), *others))
    assert read(msgspec.json.encode(curved), Prediction) == []
