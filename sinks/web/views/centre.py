"""The state of a centre: whether it is well, what needs its operators, and how fresh the data are."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal

import msgspec

from processors.contracts.hosts import HostCounts
from processors.contracts.names import duration
from processors.contracts.outputs import RELIABLE, Alert
from processors.contracts.service import RunningJob, Service, hits, late
from sinks.web.formatting import counted, moment, when
from sinks.web.queries import present_ms
from sinks.web.views.agent import SourceRow, source_rows
from sinks.web.views.alert_states import Alerts

# the kind of subject by the label that names it; the first of these labels that an alert has counts
SUBJECTS: Final = {"rack": "rack", "host": "host", "hosts": "host", "job": "job", "application": "application"}


class Sentence(msgspec.Struct, frozen=True):
    """A sentence about the centre, the part of a page with more, and its colour."""

    text: str
    href: str
    kind: Literal["good", "warning", "critical", "plain"] = "plain"


class CentreState(msgspec.Struct, frozen=True, kw_only=True):
    """The sentences about a centre, and the numbers of its hosts, jobs, applications and open alerts."""

    sentences: tuple[Sentence, ...]
    hosts: HostCounts
    jobs: int
    jobs_late: int
    applications: int
    reliable: int
    open_alerts: int
    sources: tuple[SourceRow, ...]


def state_of_centre(service: Service, running: Sequence[RunningJob]) -> CentreState:
    """Return the state of a centre; `running` are the running jobs that the reader may see."""
    alerts, predictions, hosts = Alerts.of(service).open, service.predictions(), service.host_counts()
    now_ms = present_ms(service)
    jobs_late = sum(hits(job.probability_exceeds_limit, session=job.session) for job in running)
    sources = source_rows(service.sources(), now_ms or 0)
    lag_s = max((role.lag_s for role in service.health() if late(role.lag_s) and role.lag_s), default=0.0)
    fresh = _fresh(sources, lag_s, "-" if now_ms is None else when(now_ms))
    return CentreState(
        sentences=(*_needed(alerts), *_jobs(jobs_late), *fresh, *_learning(hosts)),
        hosts=hosts,
        jobs=len(running),
        jobs_late=jobs_late,
        applications=len(predictions),
        reliable=sum(prediction.reliability.verdict == RELIABLE for prediction in predictions),
        open_alerts=len(alerts),
        sources=tuple(sources),
    )


def _needed(alerts: Iterable[Alert]) -> Iterator[Sentence]:
    needed = [alert for alert in alerts if alert.severity != "info"]
    counts = Counter(kind for kind, *_ in {_subject(alert) for alert in needed})
    if not counts:
        yield Sentence("Nothing needs you.", "#alerts", "good")
        return
    named = [counted(counts[kind], kind) for kind in dict.fromkeys((*SUBJECTS.values(), "system")) if counts[kind]]
    text = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
    is_critical = any(alert.severity == "critical" for alert in needed)
    verb = "needs" if counts.total() == 1 else "need"
    yield Sentence(f"{text} {verb} you.", "#alerts", "critical" if is_critical else "warning")


def _subject(alert: Alert) -> tuple[str, str, str]:
    """Return the kind of the subject of an alert, its name and its system."""
    label = next((name for name in SUBJECTS if alert.labels.get(name)), "system")
    return SUBJECTS.get(label, label), alert.labels.get(label, ""), alert.labels.get("system", "")


def _jobs(jobs_late: int) -> Iterator[Sentence]:
    if jobs_late:
        yield Sentence(f"{counted(jobs_late, 'job')} will probably hit the limit.", "#jobs", "warning")


def _fresh(sources: Sequence[SourceRow], lag_s: float, now: str) -> Iterator[Sentence]:
    if lag_s:
        yield Sentence(f"The agent catches up: it is {now} UTC here, {duration(lag_s)} behind.", "/agent", "warning")
    silent = [source.topic for source in sources if source.is_silent or source.waits]
    if silent:
        named = silent[0] if len(silent) == 1 else counted(len(silent), "source")
        yield Sentence(f"No data from {named}.", "#sources", "warning")
    elif sources and not lag_s:
        yield Sentence("All data are fresh.", "#sources", "good")


def _learning(hosts: HostCounts) -> Iterator[Sentence]:
    if hosts.learning:
        subject = "1 host is" if hosts.learning == 1 else f"{hosts.learning:,} hosts are"
        yield Sentence(f"{subject} being learned, without alerts until {moment(hosts.learned_until)} UTC.", "#hosts")
