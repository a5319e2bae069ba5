"""What features explain of a run, on the page of an application and in what the interface returns."""

from starlette.applications import Starlette

from processors.contracts.outputs import FeatureModel
from tests.kit.get import get
from tests.kit.messages import prediction
from tests.kit.pages import HOSTILE, parsed, read
from tests.kit.service import FixedService

PAGE = "/applications/archer2/lammps/rhodo/nodes"
HALO = FeatureModel(
    features="communication", model="H4", runs=80, weight=0.9, scored=60, error=0.021, curve_error=0.112,
    combined_error=0.019, ranked=60, rcc=0.94, rcc_symmetric=0.93, r_squared=0.97,
    importances={"max_bytes": 0.7, "avg_buffer_to": 0.3},
)  # fmt: skip


def test_the_page_shows_how_well_features_order_runs_and_what_matters(app: Starlette, service: FixedService) -> None:
    service.held_predictions = [prediction(features=(HALO,))]
    text = read(app, PAGE)
    for shown in ("communication", "2.1 %", "11 %", "93 %", "97 %", "max_bytes 70 %, avg_buffer_to 30 %"):
        assert shown in text


def test_a_model_that_no_run_has_checked_shows_dashes_and_hostile_names_stay_in_their_place(
    app: Starlette, service: FixedService
) -> None:
    new = FeatureModel(features="communication", model="H1", runs=12, weight=0.0, scored=0, importances={HOSTILE: 1.0})
    service.held_predictions = [prediction(features=(new,))]
    text = read(app, PAGE)
    assert '<td class="number">-</td>' in text
    assert HOSTILE not in text
    parsed(text)


def test_the_interface_returns_order_variance_and_importances(app: Starlette, service: FixedService) -> None:
    service.held_predictions = [prediction(features=(HALO,))]
    shown = get(app, "/api/v1/applications/archer2/lammps/rhodo/nodes").json()["features"][0]
    assert (shown["rcc"], shown["r_squared"], shown["importances"]["max_bytes"]) == (0.94, 0.97, 0.7)
