"""What a running agent shows to readers: HTTP, metrics and the demo see the learner through this and nothing else."""

from collections.abc import Sequence
from typing import Final, Protocol

import msgspec

from processors.contracts.events import PredictionRequested
from processors.contracts.hosts import Views
from processors.contracts.outputs import Alert, Answer, JobPrediction, Prediction, RecentThings

# How components measure: an injected object with closed names, so that they need not know Prometheus.


ROLE_REASONS: Final = ("unknown-system", "processor")
"""Why a role refuses an event that was decoded well: a system that is not listed, or a processor that raised."""


class Measures(Protocol):
    """Counters, gauges and histograms by their full names; labels come from closed lists."""

    def add(self, name: str, amount: float = 1.0, **labels: str) -> None:
        """Add to a counter."""

    def set(self, name: str, value: float, **labels: str) -> None:
        """Set a gauge."""

    def observe(self, name: str, value: float, **labels: str) -> None:
        """Put a value into a histogram."""


class Health(msgspec.Struct, frozen=True, kw_only=True):
    """How a role is: ready or why not, and how far it is behind.

    `lag_s` is the event time between the newest tick in the journal and the newest one folded; `checkpoint_age_s` the
    time since the last confirmed checkpoint; `folded_ms` the newest tick folded, which is now in event time. None where the
    role has no such thing.
    """

    role: str
    ready: bool
    reasons: tuple[str, ...] = ()
    restarts: int = 0
    partitions: tuple[int, ...] = ()
    lag_s: float | None = None
    checkpoint_age_s: float | None = None
    folded_ms: int | None = None


class Latest(Protocol):
    """What a process tells others by itself, as metrics and to Alertmanagers."""

    def predictions(self) -> Sequence[Prediction]:
        """Return the latest prediction of every application, sorted by application id."""

    def alerts(self) -> Sequence[Alert]:
        """Return open alerts, then the newest resolved ones (a bounded number), newest first."""

    def health(self) -> Sequence[Health]:
        """Return the health of every role in this process."""


class Service(Latest, Views, RecentThings, Protocol):
    """Reads of a running learner; safe from any thread, every result immutable. `Views` has those of hosts."""

    def prediction(self, application_id: str) -> Prediction | None:
        """Return the latest prediction of one application."""

    def jobs(self) -> Sequence[JobPrediction]:
        """Return the latest predictions of running jobs, sorted by job."""

    def ended(self, system: str, job_id: str) -> JobPrediction | None:
        """Return what was last told of a job that ended a short while ago; its run follows when it has settled."""

    def answer(self, request: PredictionRequested) -> Answer:
        """Answer a question from the models as they are now."""
