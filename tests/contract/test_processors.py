"""One suite for every kind of processor. Test ids are ``kind:check``; a check that a kind is spared is in SPARED, with why."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec
import numpy as np
import pytest

from processors.alerts.lifecycle import AlertLife, HostAlertLife
from processors.contracts.alerts import AlertSettings
from processors.contracts.hosts import ExplainedRun
from processors.contracts.settings import ProfileSettings, RunTimeSettings
from processors.facts import Outcome
from processors.features.shared import CommunicationPool, CommunicationPoolState
from processors.features.times import FeatureTimes, FeatureTimesState
from processors.hosts import jobs
from processors.hosts.lines import LINE_KINDS
from processors.hosts.rate import DailyMaxima
from processors.inputs import ApplicationInputs
from processors.jobs.lifecycle import ForecastAllowance, Job
from processors.jobs.memory import (
    REQUESTS_MAX,
    AnsweredRequests,
    AnsweredRequestsState,
    ExplainedRuns,
    FailureRate,
    FailureState,
    HostFailureRate,
    HostFailureState,
    KnownRun,
    LowWater,
    RunDeduplication,
    RunDeduplicationState,
)
from processors.load.scores import LoadScores
from processors.models.combination.scores import NO_SCORES
from processors.models.detect.multivariate import FIGURES
from processors.pipeline import host_state
from processors.pipeline.host_state import ARRAYS
from processors.pipeline.shard import PROCESSORS
from processors.power.blame import JudgedPower, PowerBlame
from processors.power.model import ProfileModels, ProfileModelsState
from processors.power.profiles.attribution import ProfileRun, ReportedStarts
from processors.power.profiles.finalisation import HostPower
from processors.run_time.calibration import BandPool
from processors.run_time.drift import Drift
from processors.run_time.machine import (
    Allocations,
    HostNodeShapes,
    NodeShapes,
    RunAllocation,
)
from processors.run_time.members import Members
from processors.run_time.model import RunTime, RunTimeState
from processors.run_time.related_curves import CurveRecord, RelatedCurves, ScorePool
from processors.similar_runs import ModelComparison, SimilarRuns, SimilarRunsState
from tests.kit.contract_facts import START_MS, condition, input_fact, job_fact, job_learns, run_fact
from tests.kit.drifting import scored_run
from tests.kit.featured_runs import featured_run, features_learn, question_of, shared_learn, shared_run
from tests.kit.hosts_used import allocated, drained, one_run_on_hosts, power_sample, run_on_hosts
from tests.kit.law_members import member_fact, members_learn
from tests.kit.loaded_runs import loaded_run
from tests.kit.past_jobs import ended_job, score_pair
from tests.kit.profiled_runs import profiled_run, profiles_learn
from tests.kit.scenario import SYSTEM

FACTS_MANY = 10_000


class Subject(msgspec.Struct, frozen=True):
    """A kind under test: how it is built, its i-th fact, how it learns one, what `score` is asked of one.

    `bytes_max` is the bound of its stored form after `facts_many` facts.
    """

    state: type[msgspec.Struct]
    build: Callable[[Any], Any]
    fact: Callable[[int], Any]
    bytes_max: int
    learn: Callable[[Any, Any], Any] = lambda processor, fact: processor.learn(fact)
    question: Callable[[Any], Any] = lambda fact: fact
    facts_many: int = FACTS_MANY


RATES = AlertSettings().failure_rate
SUBJECTS: dict[str, Subject] = {
    Job.name: Subject(Job, Job.snapshot, job_fact, 8_000, learn=job_learns),
    RunTime.name: Subject(RunTimeState, partial(RunTime, RunTimeSettings()), run_fact, 10_000),
    RunDeduplication.name: Subject(
        RunDeduplicationState,
        RunDeduplication,
        lambda i: (f"{SYSTEM}/{i}", KnownRun(i, i)),
        28 * FACTS_MANY,
        question=lambda fact: fact[0],
    ),
    ForecastAllowance.name: Subject(ForecastAllowance, ForecastAllowance.snapshot, lambda i: START_MS + i, 40),
    LowWater.name: Subject(LowWater, LowWater.snapshot, lambda i: f"{i:010d}.0", 40),
    FailureRate.name: Subject(
        FailureState,
        partial(FailureRate, RATES),
        lambda i: Outcome(f"r{i}", failed=i % 4 == 0, of=str(i)),
        1600,
        question=lambda _: 0.05,
    ),
    HostFailureRate.name: Subject(
        HostFailureState,
        partial(HostFailureRate, RATES),
        lambda i: Outcome(f"r{i}", failed=i % 4 == 0, of=str(i), expected=0.1, share=0.25),
        1600,
        question=lambda _: 100,
    ),
    AlertLife.name: Subject(AlertLife, AlertLife.snapshot, condition, 500),
    AnsweredRequests.name: Subject(
        AnsweredRequestsState,
        AnsweredRequests,
        lambda i: (f"request-{i}", START_MS + i),
        210_100,
        question=lambda fact: fact[0],
    ),
    RelatedCurves.name: Subject(
        RelatedCurves,
        RelatedCurves.snapshot,
        lambda i: CurveRecord(f"{SYSTEM}/a{i}//nodes", SYSTEM, ((i / 7.0,) * 9,) * 10, runs=i),
        55_000,  # 32 curves of twelve sizes
    ),
    ScorePool.name: Subject(
        ScorePool,
        ScorePool.snapshot,
        lambda i: (NO_SCORES, np.eye(1, NO_SCORES.size, i % 200, dtype=np.int64)[0]),
        4_000,
    ),
    BandPool.name: Subject(
        BandPool,
        BandPool.snapshot,
        lambda i: ({}, {i % 200: 1}),
        4_000,
    ),
    Allocations.name: Subject(
        Allocations,
        Allocations.snapshot,
        lambda i: RunAllocation(START_MS + i, i, f"p{i % 3}", 1 + i % 128, 1 + i % 40),
        700,
    ),
    NodeShapes.name: Subject(
        NodeShapes,
        NodeShapes.snapshot,
        lambda i: RunAllocation(START_MS + i, i, f"p{i % 100}", 1 + i * 7 % 300),
        12_000,
        question=lambda fact: fact.partition,
    ),
    HostNodeShapes.name: Subject(
        HostNodeShapes,
        HostNodeShapes.snapshot,
        lambda i: RunAllocation(START_MS + i, i, f"p{i % 100}", 1 + i * 7 % 300),
        12_000,
        question=lambda fact: fact.partition,
    ),
    Members.name: Subject(Members, Members.snapshot, member_fact, 1_600, learn=members_learn),
    ApplicationInputs.name: Subject(ApplicationInputs, ApplicationInputs.snapshot, input_fact, 6_000),
    SimilarRuns.name: Subject(SimilarRunsState, SimilarRuns, ended_job, 1_900, question=lambda ended: ended.job),
    ModelComparison.name: Subject(
        ModelComparison, ModelComparison.snapshot, score_pair, 600, question=lambda score_pair: score_pair.n
    ),
    Drift.name: Subject(Drift, Drift.snapshot, scored_run, 2_500),
    PowerBlame.name: Subject(
        PowerBlame,
        PowerBlame.snapshot,
        lambda i: JudgedPower(
            f"exa/{i}@{START_MS + i}", f"exa/a{i % 3}", (f"n{i % 5}", f"n{i % 7}"), 10.0 * (i % 3), 5.0, i % 3 == 2
        ),
        8_000,
        question=lambda fact: fact.hosts,
    ),
    ExplainedRuns.name: Subject(
        ExplainedRuns,
        ExplainedRuns.snapshot,
        lambda i: ExplainedRun(f"exa/{i}@{START_MS}", "exa/lammps", 1.5, START_MS + i),
        3_000,
    ),
    jobs.HostJob.name: Subject(jobs.HostJob, jobs.HostJob.snapshot, run_on_hosts, 100),
    jobs.PartitionHosts.name: Subject(jobs.PartitionHostsState, jobs.PartitionHosts, allocated, 120_000),
    jobs.HostCondition.name: Subject(jobs.HostCondition, jobs.HostCondition.snapshot, drained, 60),
    HostAlertLife.name: Subject(HostAlertLife, HostAlertLife.snapshot, condition, 500),
    ProfileRun.name: Subject(ProfileRun, ProfileRun.snapshot, one_run_on_hosts, 200),
    ReportedStarts.name: Subject(ReportedStarts, ReportedStarts.snapshot, lambda i: START_MS + i, 40),
    HostPower.name: Subject(
        HostPower, HostPower.snapshot, power_sample, 16_000, question=lambda fact: np.array([fact.rates])
    ),
    DailyMaxima.name: Subject(
        DailyMaxima, DailyMaxima.snapshot, lambda i: np.full((1, FIGURES), i % 250 / 50.0 - 2.0), 8_000
    ),
    LoadScores.name: Subject(LoadScores, LoadScores.snapshot, loaded_run, 800),
    ProfileModels.name: Subject(
        ProfileModelsState,
        partial(ProfileModels, ProfileSettings(runs_max=16)),
        profiled_run,
        60_000,
        learn=profiles_learn,
        facts_many=200,  # twelve times what it retains; each takes milliseconds
    ),
    FeatureTimes.name: Subject(
        FeatureTimesState,
        partial(FeatureTimes, 64),
        featured_run,
        130_000,
        learn=features_learn,
        question=question_of,
        facts_many=1000,  # fifteen times what it retains
    ),
    CommunicationPool.name: Subject(
        CommunicationPoolState,
        CommunicationPool,
        shared_run,
        70_000,
        learn=shared_learn,
    ),
}
SPARED: dict[str, str] = {
    "forecast_allowance:learning_a_fact_twice_is_learning_it_once": "a fact is a start that its job had not known: the job "
    "tells repeats apart, and is stored in the same checkpoint",
    "profile_power:learning_a_fact_twice_is_learning_it_once": "a minute is closed once: which were is known from the tick "
    "that the states were stored at, and its samples come from nowhere else",
    "host_daily_maxima:learning_a_fact_twice_is_learning_it_once": "a day of a host ends once: its row is stored in the "
    "same checkpoint",
    "load_scores:learning_a_fact_twice_is_learning_it_once": "a run is scored when it ends for the first time, against "
    "what its job kept since its start: that leaves with the end, and is stored in the same checkpoint",
    "model_comparison:learning_a_fact_twice_is_learning_it_once": "a run is compared once, at its first report: that a report is "
    "the first is known from the runs seen, which are stored in the same checkpoint",
    "score_pool:learning_a_fact_twice_is_learning_it_once": "a fact is a change of an application's share, which its "
    "record of laws hands over once: the record is a fact's only source and is stored in the same checkpoint",
    "band_pool:learning_a_fact_twice_is_learning_it_once": "a fact is a change of an application's share, which its "
    "model hands over once: the model is a fact's only source and is stored in the same checkpoint",
    "members:learning_a_fact_twice_is_learning_it_once": "runs are told apart before: only the first report of a run, as "
    "the memory of runs that were seen knows it, is scored and comes here",
}


def bytes_of(processor: Any) -> bytes:
    return msgspec.json.encode(processor.snapshot())


def transferred(subject: Subject, facts: Sequence[int]) -> Any:
    processor = subject.build(subject.state())
    for i in facts:
        subject.learn(processor, subject.fact(i))
    return processor


def stored_and_back(subject: Subject, processor: Any) -> Any:
    return subject.build(msgspec.json.decode(bytes_of(processor), type=subject.state))


def scoring_changes_nothing(subject: Subject) -> None:
    processor = transferred(subject, range(40))
    before = bytes_of(processor)
    for i in (0, 39, 40, 77):
        question = subject.question(subject.fact(i))
        assert repr(processor.score(question)) == repr(processor.score(question))
    assert (bytes_of(processor), processor.due_ms()) == (before, stored_and_back(subject, processor).due_ms())


def scoring_works_before_any_learning(subject: Subject) -> None:
    processor = subject.build(subject.state())
    before = bytes_of(processor)
    processor.score(subject.question(subject.fact(0)))
    assert bytes_of(processor) == before


def learning_a_fact_twice_is_learning_it_once(subject: Subject) -> None:
    twice = transferred(subject, [i for i in range(12) for _ in range(2)])
    assert bytes_of(twice) == bytes_of(transferred(subject, range(12)))
    last = subject.fact(11)
    subject.learn(twice, last)
    assert bytes_of(twice) == bytes_of(transferred(subject, range(12)))


def a_stored_processor_is_the_same_and_goes_on_the_same(subject: Subject) -> None:
    processor = transferred(subject, range(100))
    twin = stored_and_back(subject, processor)
    assert bytes_of(twin) == bytes_of(processor)
    for i in range(100, 130):
        question = subject.question(subject.fact(i))
        assert repr(twin.score(question)) == repr(processor.score(question))
        for each in (processor, twin):
            subject.learn(each, subject.fact(i))
        assert twin.due_ms() == processor.due_ms()
    assert bytes_of(twin) == bytes_of(processor)


def a_snapshot_is_a_copy(subject: Subject) -> None:
    processor = transferred(subject, range(30))
    snapshot = processor.snapshot()
    before = msgspec.json.encode(snapshot)
    for i in range(30, 60):
        subject.learn(processor, subject.fact(i))
    assert bytes_of(processor) != before
    assert msgspec.json.encode(snapshot) == before


def a_state_that_was_built_from_stays_as_it_was(subject: Subject) -> None:
    snapshot = transferred(subject, range(30)).snapshot()
    before = msgspec.json.encode(snapshot)
    processor = subject.build(snapshot)
    for i in range(30, 60):
        subject.learn(processor, subject.fact(i))
    assert msgspec.json.encode(snapshot) == before


def facts_stay_as_they_were(subject: Subject) -> None:
    processor = subject.build(subject.state())
    for i in range(20):
        fact = subject.fact(i)
        before = repr(fact)
        processor.score(subject.question(fact))
        subject.learn(processor, fact)
        assert repr(fact) == before


def the_state_is_bounded(subject: Subject) -> None:
    processor = transferred(subject, range(subject.facts_many))
    assert len(bytes_of(processor)) <= subject.bytes_max


def its_time_agrees_after_a_restore(subject: Subject) -> None:
    processor = subject.build(subject.state())
    for i in range(60):
        subject.learn(processor, subject.fact(i))
        assert stored_and_back(subject, processor).due_ms() == processor.due_ms()


def it_has_a_name_and_a_version(subject: Subject) -> None:
    processor = subject.build(subject.state())
    assert processor.name in PROCESSORS
    assert processor.version >= 1


CHECKS = (
    scoring_changes_nothing,
    scoring_works_before_any_learning,
    learning_a_fact_twice_is_learning_it_once,
    a_stored_processor_is_the_same_and_goes_on_the_same,
    a_snapshot_is_a_copy,
    a_state_that_was_built_from_stays_as_it_was,
    facts_stay_as_they_were,
    the_state_is_bounded,
    its_time_agrees_after_a_restore,
    it_has_a_name_and_a_version,
)
CASES = {f"{kind}:{check.__name__}": (subject, check) for kind, subject in SUBJECTS.items() for check in CHECKS}


@pytest.mark.parametrize("case", [case for case in CASES if case not in SPARED])
def test_processor(case: str) -> None:
    subject, check = CASES[case]
    check(subject)


def test_every_processor_of_the_fold_is_under_this_suite() -> None:
    others = {kind.name for kind in host_state.COLUMNS} | {
        *ARRAYS,
        *LINE_KINDS,
    }  # columns have a suite of their own, the others no kind
    assert set(SUBJECTS) == set(PROCESSORS) - others


def test_whatever_is_spared_exists_and_states_why() -> None:
    assert all(case in CASES and len(reason) > 20 for case, reason in SPARED.items())


def test_a_minute_of_requests_holds_no_more_than_its_bound() -> None:
    requested = AnsweredRequests(AnsweredRequestsState())
    for i in range(REQUESTS_MAX + 10):
        requested.learn((str(i), START_MS))
    assert len(requested.snapshot().requests) == REQUESTS_MAX
    requested.learn((str(REQUESTS_MAX), START_MS))
    assert [requested.score(str(i)) for i in (9, 10, REQUESTS_MAX + 9)] == [False, True, True], (
        "a repeat pushes nothing out"
    )
