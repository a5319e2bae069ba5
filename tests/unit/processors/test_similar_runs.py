"""What a scheduler is reported a job without a curve, and the histories behind it."""

import math

import msgspec
import numpy as np
import pytest

from processors.facts import Band, RunFact
from processors.models.similar_runs import RUNS_MAX, BandLevels
from processors.run_time.drift import Drift, ScoredRun
from processors.similar_runs import (
    RETAINED_MAX,
    SCORED_PER_TICK,
    ComingJob,
    EndedJob,
    GroupKind,
    SimilarRuns,
    SimilarRunsState,
    conditioned,
    expected,
    group_keys,
    model_job,
    scored,
)

HOUR_S = 3600.0
WHOLE = Band(100.0, 80.0, 125.0)  # of the whole run; what is conditioned is the distribution


class Centre:
    """All histories by key, as a store would keep them."""

    def __init__(self) -> None:
        self.similar_runs: dict[str, SimilarRuns] = {}

    def of(self, job: ComingJob) -> dict[GroupKind, SimilarRuns]:
        keys = group_keys("archer2", job)
        return {kind: self.similar_runs.setdefault(key, SimilarRuns()) for kind, key in keys.items()}

    def ended(self, run_id: str, job: ComingJob, run_time_s: float) -> None:
        reported = expected(job, self.of(job))
        self.of(job)["centre"].note(run_time_s, reported)
        for history in self.of(job).values():
            history.learn(EndedJob(run_id, job, run_time_s))


def snapshot(history: SimilarRuns) -> SimilarRunsState:
    return msgspec.json.decode(msgspec.json.encode(history.snapshot()), type=SimilarRunsState)


def test_each_user_is_reported_by_the_own_past() -> None:
    centre = Centre()
    for i in range(30):
        centre.ended(f"a{i}", ComingJob(n=4, name="cfd", user="u1", time_limit_s=HOUR_S), 3000.0 + i)
        centre.ended(f"b{i}", ComingJob(n=4, name="test", user="u2", time_limit_s=HOUR_S), 20.0 + i / 10)
    for user, name, run_time_s in (("u1", "cfd", 3020.0), ("u2", "test", 22.0)):
        job = ComingJob(n=4, name=name, user=user, time_limit_s=HOUR_S)
        reported = expected(job, centre.of(job))
        assert reported.run_time_s == pytest.approx(run_time_s, rel=0.02)
        assert reported.low_s <= reported.run_time_s <= reported.upper_s <= reported.high_s
        assert reported.law.alike > 5


def test_a_new_user_is_reported_by_the_name_and_by_the_centre() -> None:
    centre = Centre()
    for i in range(60):
        centre.ended(f"a{i}", ComingJob(n=4, name="cfd", user=f"u{i}"), 1000.0)
    for job in (ComingJob(n=4, name="cfd", user="new"), ComingJob(n=4, user="new"), ComingJob(n=8)):
        assert expected(job, centre.of(job)).run_time_s == pytest.approx(1000, rel=0.05)


def test_before_anything_is_learned_the_limit_answers() -> None:
    reported = expected(ComingJob(n=4, time_limit_s=HOUR_S), {})
    assert 0 < reported.low_s < reported.run_time_s < reported.upper_s <= reported.high_s <= HOUR_S + 120
    assert reported.law.alike == 0


def test_nine_of_ten_runs_keep_to_the_band_though_users_change_their_ways() -> None:
    generator = np.random.default_rng(2)
    centre, retained = Centre(), []
    for i in range(1500):
        user = f"u{generator.integers(6)}"
        job = ComingJob(n=4, name=f"{user}-{i // 150}", user=user, time_limit_s=10 * HOUR_S)
        centre_s = 200 * (1 + (i // 150 + int(user[1])) % 4) ** 2
        run_time_s = float(np.exp(math.log(centre_s) + generator.normal(0, 0.3)))
        reported = expected(job, centre.of(job))
        retained.append(reported.low_s <= run_time_s <= reported.high_s)
        centre.ended(f"r{i}", job, run_time_s)
    assert 0.87 < np.mean(retained[300:]) < 0.93


def test_a_run_that_reaches_the_limit_may_end_a_little_after_it() -> None:
    centre, job = Centre(), ComingJob(n=4, user="u1", time_limit_s=HOUR_S)
    for i in range(20):
        centre.ended(f"a{i}", job, HOUR_S + 5)
    reported = expected(job, centre.of(job))
    assert reported.run_time_s == pytest.approx(HOUR_S, rel=0.01)
    assert reported.high_s >= HOUR_S + 120


def exceeds(centre: Centre, job: ComingJob, elapsed_s: float = 0.0) -> float:
    found = conditioned(expected(job, centre.of(job)), WHOLE, elapsed_s, job.time_limit_s).exceeds_limit
    assert found is not None
    return found


def test_a_job_meets_its_limit_as_often_as_runs_like_it_met_theirs() -> None:
    """It is drawn to how often all do, which is half here."""
    centre = Centre()
    for i in range(60):
        limit_s = HOUR_S * (1 + i % 3)
        for user, share in (("never", 0.98), ("half", 0.5 + i % 2 / 2), ("always", 1.001)):
            centre.ended(f"{user}{i}", ComingJob(n=4, user=user, time_limit_s=limit_s), share * limit_s)
    reported = [exceeds(centre, ComingJob(n=4, user=user, time_limit_s=HOUR_S)) for user in ("never", "half", "always")]
    assert reported == [pytest.approx(0.2, abs=0.1), pytest.approx(0.5, abs=0.1), pytest.approx(0.8, abs=0.1)]
    assert exceeds(centre, ComingJob(n=4, user="new", time_limit_s=HOUR_S)) == pytest.approx(0.5, abs=0.1)


def test_the_limit_comes_nearer_to_a_job_that_goes_on() -> None:
    centre, job = Centre(), ComingJob(n=4, user="u1", time_limit_s=HOUR_S)
    for i in range(60):
        centre.ended(f"a{i}", job, (300.0 + i) if i % 4 else HOUR_S)
    reported = [exceeds(centre, job, elapsed_s) for elapsed_s in (0.0, 300.0, 330.0, 1800.0, 3599.0, 3600.0)]
    assert reported[0] == pytest.approx(0.25, abs=0.05)
    assert reported == sorted(reported)
    assert reported[3] > 0.6
    assert reported[-1] == 1.0


def test_a_run_without_a_limit_met_none() -> None:
    centre, job = Centre(), ComingJob(n=4, user="u1", time_limit_s=HOUR_S)
    for i in range(60):
        centre.ended(f"a{i}", ComingJob(n=4, user="u1"), 2 * HOUR_S)
    assert exceeds(centre, job) < 0.05
    assert conditioned(expected(job, {}), WHOLE, 0.0, HOUR_S).exceeds_limit == pytest.approx(0.05)
    assert conditioned(expected(ComingJob(n=4), centre.of(job)), WHOLE, 0.0, None).exceeds_limit is None


def test_a_repeat_changes_nothing_and_a_correction_replaces() -> None:
    history, job = SimilarRuns(), ComingJob(n=4, user="u1")
    history.learn(EndedJob("a", job, 100.0))
    history.learn(EndedJob("b", job, 50.0))
    before = snapshot(history)
    history.learn(EndedJob("a", job, 100.0))
    assert snapshot(history) == before
    history.learn(EndedJob("a", job, 400.0))
    assert history.score(job).run_times_s() == pytest.approx([50, 400])


def test_a_run_that_left_long_ago_counts_as_a_new_one() -> None:
    history, job = SimilarRuns(), ComingJob(n=4, user="u1")
    for i in range(RUNS_MAX + 1):
        history.learn(EndedJob(f"r{i}", job, 100.0))
    history.learn(EndedJob("r0", job, 400.0))
    assert history.score(job).run_times_s()[0] == pytest.approx(400)
    assert history.past.count == RUNS_MAX


def test_the_band_widens_where_runs_were_longer_than_it_held() -> None:
    history, job = SimilarRuns(), ComingJob(n=4)
    for i in range(RUNS_MAX):
        history.learn(EndedJob(f"r{i}", job, 100.0 * 1.02**i))
    before = expected(job, {"centre": history})
    for _ in range(20):
        history.note(2 * before.high_s, before)
    after = expected(job, {"centre": history})
    assert after.run_time_s == before.run_time_s
    assert after.upper_s > before.upper_s
    assert after.high_s > before.high_s
    assert after.low_s > before.low_s


def test_between_two_ticks_only_some_runs_are_scored_also_after_a_restore() -> None:
    history, job = SimilarRuns(), ComingJob(n=4)
    reported = expected(job, {"centre": history})
    for _ in range(SCORED_PER_TICK):
        assert history.wants(now_ms=60_000)
        history.note(100.0, reported, now_ms=60_000)
    history = SimilarRuns(snapshot(history))
    assert not history.wants(now_ms=60_000)
    assert history.wants(now_ms=70_000)


def test_a_restored_history_goes_on_as_if_nothing_had_been() -> None:
    generator = np.random.default_rng(3)
    history = SimilarRuns()
    twin = SimilarRuns()
    for i in range(150):
        job = ComingJob(float(2 ** generator.integers(5)), f"name{i % 3}", "u1", (None, HOUR_S, 600.0)[i % 3])
        ended = EndedJob(f"r{i}", job, float(np.exp(generator.normal(5, 1))))
        twin = SimilarRuns(snapshot(twin))
        for each in (history, twin):
            reported = expected(job, {"user": each, "centre": each})
            each.note(ended.run_time_s, reported)
            each.learn(ended)
    assert snapshot(history) == snapshot(twin)
    job = ComingJob(4, "name1", "u1", HOUR_S)
    reported, again = (expected(job, {"user": each, "centre": each}) for each in (history, twin))
    assert (reported.run_time_s, reported.low_s, reported.upper_s, reported.high_s) == (
        again.run_time_s, again.low_s, again.upper_s, again.high_s
    )  # fmt: skip


def test_the_state_is_small_and_bounded() -> None:
    history = SimilarRuns()
    for i in range(5 * RUNS_MAX):
        history.learn(EndedJob(f"run-{i}", ComingJob(64.0, "a long name " * 20, "u" * 200, HOUR_S), 1234.5678))
    state = history.snapshot()
    assert history.past.count == RUNS_MAX
    assert len(msgspec.json.encode(state)) < 1900


def test_a_history_of_a_name_keeps_fewer_runs() -> None:
    history = SimilarRuns()
    for i in range(5 * RUNS_MAX):
        history.learn(EndedJob(f"run-{i}", ComingJob(64.0, time_limit_s=HOUR_S), 1.0 + i), RETAINED_MAX["name"])
    assert history.score(ComingJob(64.0)).run_times_s() == [5.0 * RUNS_MAX - i for i in range(RETAINED_MAX["name"])]
    assert len(msgspec.json.encode(history.snapshot())) < 950


def test_a_run_that_is_taken_away_leaves_the_others_in_their_order() -> None:
    history, job = SimilarRuns(), ComingJob(n=4, user="u1")
    for i in range(4):
        history.learn(EndedJob(f"r{i}", job, 100.0 + i))
    assert (history.forget("r1"), history.forget("r1")) == (True, False)
    assert history.score(job).run_times_s() == [103.0, 102.0, 100.0]
    history.learn(EndedJob("r1", job, 500.0))
    assert history.score(job).run_times_s() == [500.0, 103.0, 102.0, 100.0]


def test_a_correction_of_a_run_that_is_not_held_changes_nothing() -> None:
    history, job = SimilarRuns(), ComingJob(n=4, user="u1")
    history.learn(EndedJob("a", job, 100.0))
    before = snapshot(history)
    assert not history.correct(EndedJob("b", job, 7.0))
    assert snapshot(history) == before


def test_the_share_of_runs_inside_the_band_is_reported_once_enough_were_scored() -> None:
    history, job = SimilarRuns(), ComingJob(n=4)
    for i in range(40):
        history.learn(EndedJob(f"a{i}", job, 100.0 + i))
    reported = expected(job, {"centre": history})
    for i in range(40):
        assert history.measured is None or i > 20
        history.note(reported.run_time_s if i % 4 else 10 * reported.high_s, reported)
    assert history.measured is not None
    assert history.measured.coverage == pytest.approx(0.75, abs=0.02)


def test_a_snapshot_is_a_copy_and_scoring_changes_nothing() -> None:
    history, job = SimilarRuns(), ComingJob(n=4, user="u1")
    history.learn(EndedJob("a", job, 100.0))
    before = history.snapshot()
    expected(job, {"user": history, "centre": history})
    assert history.snapshot() == before
    history.learn(EndedJob("b", job, 200.0))
    assert len(before.ids) == 4
    assert history.due_ms() is None


def test_a_first_state_is_no_run_and_the_levels_of_the_model() -> None:
    assert snapshot(SimilarRuns()) == SimilarRunsState(levels=BandLevels())
    assert SimilarRuns().levels == BandLevels()


@pytest.mark.parametrize("job", [ComingJob(n=0.0), ComingJob(n=math.nan), ComingJob(n=4, time_limit_s=-1.0)])
def test_garbage_is_refused_and_leaves_no_trace(job: ComingJob) -> None:
    history = SimilarRuns()
    history.learn(EndedJob("a", ComingJob(n=4), 100.0))
    before = snapshot(history)
    with pytest.raises(ValueError, match="must be"):
        history.learn(EndedJob("b", job, 100.0))
    with pytest.raises(ValueError, match="must be"):
        history.learn(EndedJob("b", ComingJob(n=4), math.nan))
    assert snapshot(history) == before


def test_keys_distinguish_systems_users_and_kinds_and_hide_names() -> None:
    job = ComingJob(n=4, name="secret", user="secret")
    keys = [*group_keys("archer2", job).values(), *group_keys("lumi", job).values()]
    assert len(set(keys)) == 8
    assert not any("secret" in key for key in keys)
    assert model_job(job).name != model_job(ComingJob(n=4, name="other")).name


def test_a_name_without_a_curve_that_becomes_slower_is_found() -> None:
    centre, watch, found = Centre(), Drift(), []
    generator = np.random.default_rng(5)
    job = ComingJob(n=4, name="cfd", user="u1")
    for i in range(80):
        run_time_s = float(np.exp(6 + generator.normal(0, 0.05))) * (1.5 if i >= 60 else 1.0)
        run = RunFact(f"r{i}", 4, run_time_s, i, i, i)
        taken = watch.take(ScoredRun(scored(run, expected(job, centre.of(job)))))
        found += [(i, taken.found.direction)] if taken.found else []
        centre.ended(run.run_id, job, run_time_s)
    assert [direction for _, direction in found] == ["regression"]
    assert 60 < found[0][0] < 68
