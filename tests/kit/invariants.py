"""The invariants of the state of a shard, which tests check after each record."""

from collections.abc import Callable, Iterable, Mapping
from itertools import pairwise
from typing import Any, Final

from processors.alerts.lifecycle import AlertLife
from processors.alerts.policy import fingerprint
from processors.contracts.names import ApplicationKey
from processors.facts import PublishedCurve
from processors.inputs import INPUTS_MAX, ApplicationInputs
from processors.jobs.lifecycle import ENDED_MAX, IDENTITIES_MAX, REPORTED_MAX, Job
from processors.jobs.memory import (
    BUCKET_RUNS_MAX,
    EXPLAINED_MAX,
    PAST_RUNS_MAX,
    ExplainedRuns,
    FailureRate,
    FailureState,
    LowWater,
    RunDeduplication,
)
from processors.load.scores import LoadScores
from processors.pipeline.state import CENTRE, OF_APPLICATION, ShardState
from processors.run_time.calibration import BandPool
from processors.run_time.drift import Drift
from processors.run_time.members import Members
from processors.run_time.model import RunTime
from processors.run_time.related_curves import ScorePool
from processors.similar_runs import ModelComparison
from processors.store import digest64

# attribute that marks a checked curve, which need not be checked again because curves never change
VALIDATED: Final = "validated"


class InvalidStateError(AssertionError):
    """The state of a shard violates an invariant: the fold has a bug."""


def _ascend(values: Iterable[Any]) -> bool:
    return all(left < right for left, right in pairwise(values))


def _curve_is_valid(curve: PublishedCurve | None) -> bool:
    if curve is None or VALIDATED in vars(curve):
        return True
    vars(curve)[VALIDATED] = True
    verdicts = max(len(curve.verdicts), 1)
    return curve.n_min <= curve.n_max and all(
        _ascend(point.n for point in points)
        and all(0 < point.low_s <= point.run_time_s <= point.high_s for point in points)
        and all(0 <= point.verdict < verdicts for point in points)
        for points in (curve.points, curve.by_size)
    )


def _failures_are_counted(stored: FailureState) -> bool:
    return 0 <= stored.past_failures <= stored.past_runs <= PAST_RUNS_MAX


def _runs_are_counted(state: ShardState, _key: str, mark: LowWater) -> bool:
    buckets = map(state.known_runs.get, tuple(state.known_runs.keys()))
    return mark.runs == sum(len(bucket) for bucket in buckets if bucket is not None)


def _alert_has_its_key(_state: ShardState, key: str, alert: AlertLife) -> bool:
    condition = alert.snapshot().condition
    return condition is None or fingerprint(condition.name, condition.labels) == key


def _has_model(state: ShardState, key: str, _processor: object) -> bool:
    return key in state.models


def _named(key: str) -> str:
    return key.removeprefix(OF_APPLICATION)


INVARIANTS: Final[Mapping[type[Any], Mapping[str, Callable[[Any], bool]]]] = {
    Job: {
        "a job waits for a tick": lambda job: job.due_ms() is not None,
        "a job lists each of at most ENDED_MAX runs once": lambda job: (
            len({run.event.run_id for run in job.ended}) == len(job.ended) <= ENDED_MAX
        ),
        "only a running job has a forecast or a load": lambda job: (
            job.running is not None or job.forecast is job.start_load is None
        ),
        "evidence is bounded": lambda job: len(job.identities) <= IDENTITIES_MAX and len(job.networks) <= REPORTED_MAX,
        "network reports ascend by time": lambda job: _ascend(report.time_ms for report in job.networks),
    },
    RunTime: {
        "observed sizes ascend": lambda model: _ascend(model.sizes()),
        "a curve ascends inside its bands": lambda model: _curve_is_valid(model.published),
    },
    RunDeduplication: {"a bucket holds runs and is not overfull": lambda runs: 0 < len(runs) <= BUCKET_RUNS_MAX},
    FailureRate: {
        "failures are among the runs, and both fade": lambda rate: _failures_are_counted(rate.snapshot()),
        "a failure rate is a probability": lambda rate: 0 < rate.rate() < 1,
    },
    AlertLife: {"an alert that is over is removed": lambda alert: not alert.over},
    ApplicationInputs: {
        "inputs are distinct and bounded": lambda inputs: (
            0 < len({record.key for record in inputs.records}) == len(inputs.records) <= INPUTS_MAX
        )
    },
    ExplainedRuns: {
        "explained runs are bounded and counted": lambda runs: (
            0 < len(runs.explained.runs) <= min(EXPLAINED_MAX, runs.explained.count)
        )
    },
}

REFERENCES: Final[Mapping[type[Any], Mapping[str, Callable[[ShardState, str, Any], bool]]]] = {
    RunTime: {
        "the key of a model is an application id": lambda _state, key, _: ApplicationKey.parse(key).id == key,
        "a digest leads to a model": lambda state, key, _: state.application_id(digest64(key)) == key,
    },
    FailureRate: {
        "a digest leads to the application of a failure rate": lambda state, key, _: (
            not key.startswith(OF_APPLICATION) or state.application_id(digest64(_named(key))) == _named(key)
        )
    },
    LowWater: {"all remembered runs are counted": _runs_are_counted},
    AlertLife: {"the key of an alert is its fingerprint": _alert_has_its_key},
    Members: {"members belong to a model": _has_model},
    ModelComparison: {"a comparison belongs to a model": _has_model},
    Drift: {"drift belongs to a model": _has_model},
    LoadScores: {
        "load scores belong to a model or a centre": lambda state, key, _: key in state.models or key.count("/") == 1
    },
    BandPool: {"all applications share one pool of bands": lambda _state, key, _: key == CENTRE},
    ScorePool: {"all applications share one pool of scores": lambda _state, key, _: key == CENTRE},
}


def validate_state(state: ShardState, changed: Mapping[str, Iterable[str]], *, ticked: bool) -> None:
    """Check the processors with the keys in `changed`, by kind, after a record; `ticked` if the record was a new tick.

    Raise InvalidStateError for the first invariant that does not hold.
    """
    for store in state.stores():
        for key in changed.get(store.kind.name, ()):
            processor = store.get(key)
            if processor is None:
                continue
            if store._entries[key].due_ms != processor.due_ms():
                raise InvalidStateError(f"{store.kind.name}/{key} waits for another time than its processor says")
            kind = type(processor)
            broken = [text for text, holds in INVARIANTS.get(kind, {}).items() if not holds(processor)]
            broken += [text for text, holds in REFERENCES.get(kind, {}).items() if not holds(state, key, processor)]
            if broken:
                raise InvalidStateError(f"{store.kind.name}/{key}: not true that {', that '.join(broken)}")
        if ticked and len(store) > store.bound:
            raise InvalidStateError(f"{len(store)} states of {store.kind.name} exceed the bound of {store.bound}")
