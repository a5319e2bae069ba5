"""The processors that have state, for the reference."""

from typing import Final

from processors.alerts import AlertLife
from processors.asked import Asked
from processors.failures import FailureRate, HostFailureRate
from processors.jobs import Job
from processors.laws import Laws, Pool
from processors.run_time import RunTime
from processors.seen import LowWater, SeenRuns

PROCESSORS: Final = (Job, RunTime, FailureRate, HostFailureRate, AlertLife, Asked, SeenRuns, LowWater, Laws, Pool)
