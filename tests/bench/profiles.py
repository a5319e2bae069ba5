"""Profiles of runs: what a minute of all hosts costs, a large run that settles, a step of a fit, and a restore."""

import statistics
import time
from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np

from agent.app import compose
from agent.app.roles import Garbage
from agent.config.tree import Config
from processors.contracts.events import (
    Evidence,
    HostMinute,
    JobCompleted,
    JobStarted,
    JournalRecord,
    Origin,
    ResourceMinute,
    Tick,
    decode_record,
    encode_record,
)
from processors.contracts.hosts import Profile
from processors.contracts.names import run_id
from processors.contracts.outputs import Run
from processors.contracts.settings import ProfileSettings
from processors.models.counters.model import KINDS
from processors.models.numerics import scipy_functions
from processors.models.training.runs import LearnedRun
from processors.models.training.trainer import Trainer
from processors.pipeline.shard import Shard
from processors.power.by_size import TARGETS, targets_of, values_of
from processors.power.model import ProfileFact, ProfileModels, ProfileModelsState
from processors.store import StoredState
from tests.bench.result import Row
from tests.bench.workload import START_MS

SYSTEM: Final = "bench"
HOSTS: Final = 10_000
COUNTERS: Final = tuple(f"counter_delta>event_{k:02d}" for k in range(17))
QUANTITIES: Final = (*COUNTERS, "energy_total>cpu:0", "energy_total>memory", "counter_total>cycles")
HOSTS_OF_JOB: Final = 1_000
MINUTES: Final = 8
TICK_MS: Final = 10_000
MINUTE_MS: Final = 60_000
SETTLED_S: Final = 400
RUNS: Final = (256, 512)
RATES: Final = 40
APPLICATIONS: Final = 300
GOAL_MS: Final = 50.0


def run(*, quick: bool) -> Iterator[Row]:
    """Yield what profiles cost; all on one core."""
    scipy_functions.load()  # both as a learner does once
    Garbage(0.0).restrain()
    yield from _hosts(HOSTS // 10 if quick else HOSTS)
    for runs in RUNS[:1] if quick else RUNS:
        yield from _fits(runs)
    yield from _restore(APPLICATIONS // 10 if quick else APPLICATIONS)


def _hosts(hosts: int) -> Iterator[Row]:
    """Yield a minute of all hosts, and the settlement of runs on all of them."""
    shard = compose.make_shard(Config(profiles=ProfileSettings(resources_max=hosts * len(QUANTITIES))))
    for job in range(hosts // HOSTS_OF_JOB):
        _timed(shard, JournalRecord(_started(job)))
    dice, seconds, longest_tick_s, longest_s = np.random.default_rng(1), [], 0.0, 0.0
    totals = np.zeros((hosts, 3))
    for minute in range(MINUTES):
        totals += dice.uniform(3_000.0, 9_000.0, totals.shape)
        records = [encode_record(record) for record in _minute(totals, minute, dice)]
        taken_s = 0.0
        for value in records:
            before_s = time.process_time()
            record = decode_record(value)
            shard.fold(record)
            spent_s = time.process_time() - before_s
            taken_s, longest_s = taken_s + spent_s, max(longest_s, spent_s)
            if isinstance(record.event, Tick):
                longest_tick_s = max(longest_tick_s, spent_s)
        seconds.append(taken_s)
    name = f"{hosts:,} hosts x {len(QUANTITIES)}"
    later_s, meaning = (
        statistics.median(seconds[4:]),
        "decoded from the journal, closed, given to runs; median of later minutes",
    )
    yield Row(f"profiles, a minute of {name}", later_s, "s per core", meaning, details={"minutes_s": seconds})
    yield Row(f"profiles, longest tick of {name}", longest_tick_s * 1000, "ms", "closes a minute of all hosts at once")
    yield Row(f"profiles, longest fold of {name}", longest_s * 1000, "ms", "of one record; readers wait for so long")
    yield _settled(shard)


def _settled(shard: Shard) -> Row:
    """Return how long the fold takes that settles a run on 1,000 hosts, the only one that ends."""
    end_ms = START_MS + MINUTES * MINUTE_MS
    first = _started(0)
    seconds = (end_ms - START_MS) / 1000
    shard.fold(
        JournalRecord(JobCompleted(SYSTEM, "0", first.run_id, START_MS, end_ms, seconds, "COMPLETED", first.evidence))
    )
    found, spent = None, []
    for tick_ms in range(shard.now_ms + TICK_MS, end_ms + SETTLED_S * 1000, TICK_MS):
        before_s = time.process_time()
        prediction = shard.fold(JournalRecord(Tick("", time_ms=tick_ms)))
        spent.append(time.process_time() - before_s)
        run = next((message for message in prediction if isinstance(message, Run)), None)
        if run is not None:
            found = run
            break
    if found is None or found.profile is None:
        raise AssertionError("The run did not settle with a profile.")
    profile = found.profile
    if profile.hosts != HOSTS_OF_JOB or profile.coverage < 0.9 or len(profile.counters) < len(COUNTERS):
        raise AssertionError(f"The profile is not whole: {profile}.")
    began_s = time.process_time()
    if shard.hosts.profile(f"{SYSTEM}/0", first.run_id) is None:
        raise AssertionError("The run is forgotten already.")
    requested_s = time.process_time() - began_s
    meaning = "the tick in which it settles: its profile, and what models learn of it"
    details = {"profile_ms": requested_s * 1000, "ticks_before_ms": [1000 * each for each in spent[:-1]]}
    return Row(f"a settled job with {HOSTS_OF_JOB:,} hosts", spent[-1] * 1000, "ms", meaning, GOAL_MS, details=details)


def _started(job: int) -> JobStarted:
    first = job * HOSTS_OF_JOB
    reported = Evidence(
        application="app",
        hosts=(f"nid[{first:06d}-{first + HOSTS_OF_JOB - 1:06d}]",),
        partition="standard",
        sizes={"nodes": float(HOSTS_OF_JOB)},
    )
    return JobStarted(SYSTEM, str(job), run_id(SYSTEM, str(job), START_MS), START_MS, reported)


def _minute(totals: np.ndarray, minute: int, dice: np.random.Generator) -> Iterator[JournalRecord]:
    """Yield what all hosts reported a minute, and the ticks of the next."""
    begin_ms = START_MS + minute * MINUTE_MS
    grew = dice.uniform(1e9, 2e9, (len(totals), len(COUNTERS))).round()
    for host, own in enumerate(grew.tolist()):
        resources = {name: ResourceMinute(1, count, count, count) for name, count in zip(COUNTERS, own, strict=True)}
        for name, total in zip(QUANTITIES[len(COUNTERS) :], totals[host].tolist(), strict=True):
            resources[name] = ResourceMinute(1, total, total, total, last=total)
        event = HostMinute(SYSTEM, f"meters/{host % 8}", f"nid{host:06d}", begin_ms, resources)
        yield JournalRecord(event, Origin("meters", host % 8, minute * len(totals) + host))
    for tick_ms in range(begin_ms + MINUTE_MS + TICK_MS, begin_ms + 2 * MINUTE_MS + TICK_MS, TICK_MS):
        yield JournalRecord(Tick("", time_ms=tick_ms))


def _timed(shard: Shard, record: JournalRecord) -> float:
    before_s = time.process_time()
    shard.fold(record)
    return time.process_time() - before_s


def _fits(runs: int) -> Iterator[Row]:
    """Yield the longest step of a fit to so many runs, and all steps together."""
    trainer = _filled(runs)
    steps = []
    while trainer.wants:
        before_s = time.process_time()
        trainer.tick()
        steps.append(time.process_time() - before_s)
    name = f"re-selection, {runs} runs x {RATES} counters"
    meaning = "the fold is held for so long; all targets of an application"
    yield Row(f"longest step of a {name}", max(steps) * 1000, "ms", meaning, GOAL_MS, details={"steps": len(steps)})
    yield Row(f"whole {name}", sum(steps), "s per core", f"in {len(steps)} steps, over several ticks")
    models = ProfileModels(ProfileSettings(runs_max=runs), ProfileModelsState(trainer=trainer.snapshot()))
    fact, dice = _fact(runs, np.random.default_rng(2)), np.random.default_rng(3)
    models.learn(_fact(runs + 1, dice))
    began_s = time.process_time()
    models.learn(fact)
    yield Row(
        f"one more run, {runs} runs known", (time.process_time() - began_s) * 1000, "ms", "scored and learned", GOAL_MS
    )


def _filled(runs: int) -> Trainer:
    """Return what learns of an application, with so many runs that are not fitted yet."""
    dice = np.random.default_rng(runs)
    trainer = Trainer(dict.fromkeys(TARGETS, KINDS), runs)
    for fact in (_fact(number, dice) for number in range(runs)):
        values, targets = values_of(fact.n, fact.profile), targets_of(fact.run_time_s, fact.profile)
        trainer.learn(LearnedRun(fact.run_id, fact.end_ms, values, targets))
    return trainer


def _fact(number: int, dice: np.random.Generator) -> ProfileFact:
    """Return a run whose power follows three of its counters."""
    n = float(2 ** (number % 6))
    rates = dice.lognormal(0.0, 0.3, RATES)
    counters = {"PAPI_TOT_CYC": 1e11} | {f"event_{k:02d}": 1e9 * rate for k, rate in enumerate(rates.tolist())}
    watts = 200.0 + float(rates[:3] @ np.array([60.0, 40.0, 20.0]))
    power = {"system": watts, "cpu": 0.6 * watts, "memory": 0.1 * watts}
    profile = Profile(
        hosts=int(n), minutes=50, expected=50, counters=counters, power_w=power, measured=dict.fromkeys(power, 1.0)
    )
    return ProfileFact(f"{SYSTEM}/{number}@0", n, 600.0 + 1000.0 / n, START_MS + number * MINUTE_MS, profile)


def _restore(applications: int) -> Iterator[Row]:
    """Yield how long models are away after a restart: states put back, then each asked once."""
    settings = ProfileSettings()
    trainer = _filled(settings.runs_max)
    while trainer.wants:
        trainer.tick()
    state = msgspec.json.encode(ProfileModelsState(trainer=trainer.snapshot()))
    value = msgspec.json.encode(StoredState(ProfileModels.version, START_MS, None, msgspec.Raw(state)))
    states = {f"profile_models/{SYSTEM}/app{i:04d}//nodes": bytes(bytearray(value)) for i in range(applications)}
    twin = compose.make_shard(Config(profiles=settings))
    began_s = time.process_time()
    twin.restore(states, START_MS)
    put_s = time.process_time() - began_s
    spent = []
    for i in range(applications):
        before_s = time.process_time()
        found = twin.state.profile_models.get(f"{SYSTEM}/app{i:04d}//nodes")
        if found is None or found.power_w([4.0])[0] is None:
            raise AssertionError("A model did not come back.")
        spent.append(time.process_time() - before_s)
    meaning = f"{settings.runs_max} runs x {RATES} counters each, decoded and asked for their power"
    details = {"bytes": len(value), "put_s": put_s, "spent_ms": [round(1000 * each, 1) for each in sorted(spent)]}
    yield Row(
        f"restore of {applications} applications with profiles",
        put_s + sum(spent),
        "s per core",
        meaning,
        details=details,
    )
    yield Row("first question after a restore", max(spent) * 1000, "ms", "the longest of these applications", GOAL_MS)
