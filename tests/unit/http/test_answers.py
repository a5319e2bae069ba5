"""The box "what if I ask for n"."""

import re

import msgspec
import pytest
from starlette.applications import Starlette
from starlette.datastructures import QueryParams

from processors.contracts.errors import UnavailableError
from processors.contracts.events import PredictionRequested
from processors.contracts.outputs import Answer, AnswerPoint, Prediction, Range, Reliability, UsefulSizes
from processors.contracts.service import RecentRun
from sinks.prometheus.registry import Metrics
from sinks.web.formatting import View
from sinks.web.queries import named, not_named
from sinks.web.server import create_app
from sinks.web.views.application import answer_view, both, usual_size
from tests.kit.messages import curve_point, prediction, under_load
from tests.kit.pages import HOSTILE, read
from tests.kit.service import FixedService

APPLICATION = "/applications/archer2/lammps/rhodo/nodes"


class Answering(FixedService):
    """Answers with points of its own, in the order of their sizes, as the models do."""

    points: tuple[AnswerPoint, ...] = ()

    def answer(self, request: PredictionRequested) -> Answer:
        return msgspec.structs.replace(
            super().answer(request), points=tuple(sorted(self.points, key=lambda point: point.n))
        )


def point(n: float, run_time_s: float, verdict: str = "reliable", **changes: float | None) -> AnswerPoint:
    values = msgspec.structs.asdict(curve_point(n, run_time_s)) | {"reliability": Reliability(verdict)} | changes
    return AnswerPoint(**values)


def run(n: float, number: int = 1) -> RecentRun:
    return RecentRun(run_id=f"a/{number}@0", system="archer2", job_id=str(number), application_id="archer2/lammps/rhodo/nodes",
                     n=n, start_ms=0, end_ms=60_000, run_time_s=60.0, state="COMPLETED")  # fmt: skip


def answered(query: str, *points: AnswerPoint, entry: Prediction | None = None, usual: float = 16.0) -> View:
    entry = entry or prediction()
    service = Answering([entry])
    service.points = points
    return answer_view(service, entry, QueryParams(query), [run(usual)])


def text_of(text: str) -> str:
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text))


def test_a_size_is_answered_beside_the_usual_one() -> None:
    shown = answered("n=64", point(64.0, 120.0), point(16.0, 240.0))
    assert list(shown["messages"]) == [
        "At 64 nodes a run takes about 2 min; 90 % of such runs take 1 min 48 s to 2 min 12 s.",
        "So far 92 % of the runs at similar sizes fell inside their bands.",
        "Compared with the usual 16 nodes, the run is 2 times as fast and uses 2 times the node-hours.",
    ]
    assert shown["warning"] == ""
    assert both(shown, "nodes")[0] == ("run time", "2 min", "4 min")


def test_energy_is_reported_where_it_is_known() -> None:
    shown = answered("n=8", point(8.0, 400.0, energy_j=9e6), point(16.0, 240.0, energy_j=1e7))
    assert shown["messages"][2] == (
        "Compared with the usual 16 nodes, the run is 1.7 times as slow and uses 17 % less node-hours and 10 % less energy."
    )
    assert both(shown, "nodes")[-1] == ("energy", "9 MJ", "10 MJ")


def test_the_usual_size_itself_has_nothing_beside_it() -> None:
    shown = answered("n=16", point(16.0, 240.0, coverage_measured=None))
    assert len(shown["messages"]) == 2
    assert shown["messages"][1] == "This band has not been tested by enough runs yet."


def test_beyond_the_useful_size_the_box_reports_it() -> None:
    entry = prediction(useful_n=UsefulSizes(max=192.0))
    assert "beyond the largest useful size, 192" in answered("n=256", point(256.0, 14.0), entry=entry)["warning"]


def test_a_size_beyond_the_useful_one_that_is_faster_is_reported_as_that() -> None:
    curve = (curve_point(32.0, 60.0), curve_point(51.0, 45.0), curve_point(64.0, 40.0))
    entry = prediction(curve=curve, useful_n=UsefulSizes(max=51.0))
    assert "the run is faster" in answered("n=64", point(64.0, 40.0), entry=entry)["warning"]


def test_a_size_beyond_the_fastest_that_was_run_is_reported_to_be_slower() -> None:
    entry = prediction(useful_n=UsefulSizes(max=16.0, slower_beyond=16.0))
    assert answered("n=64", point(64.0, 40.0), entry=entry)["warning"] == "Runs get slower beyond 16 nodes."


def test_outside_of_what_can_be_relied_on_the_box_reports_it() -> None:
    entry = prediction(useful_n=UsefulSizes(), reliable_n=Range(1.0, 128.0))
    assert (
        answered("n=200", point(200.0, 14.0, "uncertain"), entry=entry)["warning"]
        == "Predictions are reliable from 1 to 128 nodes."
    )


def test_a_verdict_that_is_not_reliable_is_explained() -> None:
    shown = answered("n=200", point(200.0, 14.0, "uncertain"))
    assert (
        shown["messages"][-1]
        == "A run may differ from the prediction by more than 30 %, or the size is far from those that were run."
    )


@pytest.mark.parametrize(
    ("query", "refusal"),
    [
        ("n=many", "n='many' is not a size: it has to be a number above 0 and at most 1e9."),
        ("n=-3", "n='-3' is not a size: it has to be a number above 0 and at most 1e9."),
        ("n=1,2", "Enter one size at a time; the table below the chart has all sizes."),
        ("n=" + "9" * 400, "is not a size"),
        ("n=%F0%9F%90%8C", "is not a size"),
    ],
)
def test_what_is_no_size_is_refused_in_one_message_on_the_page(app: Starlette, query: str, refusal: str) -> None:
    text = text_of(read(app, f"{APPLICATION}?{query}").replace("&#39;", "'"))
    assert refusal in text


def test_models_that_are_away_are_reported_in_one_message() -> None:
    class Away(FixedService):
        def answer(self, request: PredictionRequested) -> Answer:
            raise UnavailableError(f"The models of {request.system} are not in this process.")

    shown = answer_view(Away(), prediction(), QueryParams("n=8"), [])
    assert shown["refusal"] == "The models of archer2 are not in this process."


def test_the_usual_size_is_the_one_that_most_of_the_newest_runs_had() -> None:
    entry = prediction(under_load=under_load(n=32.0))
    assert usual_size(entry, [run(8.0, 1), run(16.0, 2), run(16.0, 3)]) == 16.0
    assert usual_size(entry, []) == 32.0
    assert usual_size(prediction(), []) == 8.0
    assert usual_size(prediction(sizes=()), []) is None


def test_the_page_of_an_application_answers_without_script(app: Starlette) -> None:
    text = text_of(read(app, f"{APPLICATION}?n=48"))
    assert "At 48 nodes a run takes about" in text
    assert "Compared with the usual 8 nodes" in text


def test_the_overview_answers_for_the_application_that_was_chosen(app: Starlette) -> None:
    text = read(app, "/?application=archer2/nektar//nodes&n=32")
    assert "At 32 nodes a run takes about" in text_of(text)
    assert 'value="nektar (archer2, nodes)"' in text
    assert "No application is called" in read(app, "/?application=archer2/vasp//nodes&n=32")


@pytest.mark.parametrize("called", ["archer2/nektar//nodes", "nektar (archer2, nodes)", "Nektar", " nektar "])
def test_an_application_goes_by_its_id_its_full_name_or_its_name_alone(called: str) -> None:
    known = [prediction(application="nektar", input=""), prediction(application="nektar++")]
    assert named(known, called) == known[0]


NEKTARS = (("nektar", "archer2"), ("nektar", "lumi"), ("vasp", "lumi"))


def test_a_name_that_several_have_is_answered_with_their_full_names() -> None:
    known = [prediction(application=name, system=system, input="") for name, system in NEKTARS]
    assert named(known, "nektar") is None
    assert not_named(known, "nekt") == (
        "'nekt' is not the full name of one application. Similar names: nektar (archer2, nodes), nektar (lumi, nodes)."
    )


def test_the_box_suggests_some_names_and_takes_any() -> None:
    service = FixedService([prediction(application=f"app{number:04}") for number in range(2000)])
    app = create_app(service, Metrics(formats=(), reasons=(), processors=()))
    text = read(app, "/?application=app1999&n=32")
    assert text.count("<option value") == 50
    assert "At 32 nodes a run takes about" in text_of(text)


def test_what_is_typed_comes_back_as_text(app: Starlette) -> None:
    assert "<script>" not in read(app, f"{APPLICATION}?n={HOSTILE}")
    assert "<script>" not in read(app, f"/?application={HOSTILE}&n={HOSTILE}")
