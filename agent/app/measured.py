"""What was measured of the agent, each figure with the command that measures it: what plans of a centre rest on.

Two cores of an Intel Xeon (2026), Python 3.11. Other processors are slower or faster; memory and bytes stay the same.
"""

from typing import Final

import msgspec

HOSTS: Final = "python -m tests.bench --only hosts"
FOOTPRINT: Final = "python -m tests.bench --only footprint"
WINDOWS: Final = "python -m tests.bench --only windows"
LEARNER: Final = "python -m tests.bench --only learner"
STATE: Final = "python -m tests.bench --only state"
KAFKA: Final = "python -m tests.bench --only kafka"
TELEMETRY: Final = "python -m tests.bench --only telemetry-kafka"


class Figure(msgspec.Struct, frozen=True):
    """A measured figure: what it is of, its unit, and the command that measures it.

    >>> SAMPLE.value, SAMPLE.measured_by
    (1.21e-05, 'python -m tests.bench --only telemetry-kafka')
    """

    name: str
    value: float
    unit: str
    measured_by: str


# seconds of a processor
SAMPLE: Final = Figure("a sample, in a collector", 12.1e-6, "s", TELEMETRY)  # one sample a record, the dearest form
COLLECTED_JOB: Final = Figure("a completion, in a collector", 557e-6, "s", KAFKA)
RESOURCE_MINUTE: Final = Figure("a minute of a resource of a host, in a learner", 44.8e-6, "s", HOSTS)
JOB_EVENT: Final = Figure("a start or a completion, in a learner", 1.64e-3, "s", LEARNER)  # of 2,000 applications

# bytes of memory
PROCESS: Final = Figure("a process", 129e6, "bytes", FOOTPRINT)
LEARNED_RESOURCE: Final = Figure("a resource of a host, in a learner", 3_590.0, "bytes", FOOTPRINT)
SAVED_RESOURCE: Final = Figure("the same while it is saved", 8_090.0, "bytes", FOOTPRINT)
WINDOW: Final = Figure("a window, in a collector", 29.5, "bytes", WINDOWS)
WINDOW_SAMPLE: Final = Figure("each sample that it holds", 8.54, "bytes", WINDOWS)
APPLICATION_IN_USE: Final = Figure("an application in use", 40_600.0, "bytes", STATE)
APPLICATION_AT_REST: Final = Figure("an application at rest", 7_820.0, "bytes", STATE)

# bytes of messages
HOST_MINUTE: Final = Figure("a minute of a host, in the journal", 179.0, "bytes", FOOTPRINT)
HOST_MINUTE_RESOURCE: Final = Figure("each resource of it", 190.0, "bytes", FOOTPRINT)
JOURNALLED_JOB: Final = Figure("a job, in the journal", 796.0, "bytes", FOOTPRINT)
TICK: Final = Figure("a tick, in the journal", 75.0, "bytes", FOOTPRINT)
RUN: Final = Figure("a settled run", 912.0, "bytes", FOOTPRINT)
PREDICTION: Final = Figure("a prediction", 8_020.0, "bytes", FOOTPRINT)
JOB_PREDICTION: Final = Figure("a prediction of a running job", 586.0, "bytes", FOOTPRINT)
WRITTEN_PREDICTIONS: Final = Figure("predictions written for a job", 2_870.0, "bytes", FOOTPRINT)
WRITTEN_JOB_PREDICTIONS: Final = Figure("predictions written while a job runs", 1_610.0, "bytes", FOOTPRINT)
STATE_RESOURCE: Final = Figure("state of a resource of a host", 2_860.0, "bytes", HOSTS)
STATE_APPLICATION: Final = Figure("state of an application", 7_420.0, "bytes", STATE)

FIGURES: Final = (
    SAMPLE, COLLECTED_JOB, RESOURCE_MINUTE, JOB_EVENT,
    PROCESS, LEARNED_RESOURCE, SAVED_RESOURCE, WINDOW, WINDOW_SAMPLE, APPLICATION_IN_USE, APPLICATION_AT_REST,
    HOST_MINUTE, HOST_MINUTE_RESOURCE, JOURNALLED_JOB, TICK, RUN, PREDICTION, JOB_PREDICTION, WRITTEN_PREDICTIONS,
    WRITTEN_JOB_PREDICTIONS, STATE_RESOURCE, STATE_APPLICATION,
)  # fmt: skip
