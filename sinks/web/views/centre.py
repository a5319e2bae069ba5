"""The first line of the overview: whether the centre is well, what needs its operators, and how fresh the data are."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Literal, NamedTuple

from processors.contracts.hosts import HostCounts
from processors.contracts.names import duration
from processors.contracts.outputs import Alert
from processors.contracts.service import Health, late
from sinks.web.formatting import counted, moment, when
from sinks.web.views.agent import SourceRow

SUBJECTS: Final = (
    "rack",
    "host",
    "job",
    "application",
)  # the label of an alert that names its subject, the first that it has


class Sentence(NamedTuple):
    """A sentence about the centre, the part of a page with more, and its colour."""

    text: str
    href: str
    kind: Literal["good", "warning", "critical", "plain"] = "plain"


def sentences(
    alerts: Iterable[Alert],
    *,
    jobs_late: int,
    sources: Sequence[SourceRow],
    health: Iterable[Health],
    hosts: HostCounts,
    now_ms: int | None,
) -> list[Sentence]:
    """Return the sentences of the line; `alerts` are the open alerts, `jobs_late` counts the jobs likely to hit their limit."""
    return [*_needed(alerts), *_jobs(jobs_late), *_fresh(sources, health, now_ms), *_learning(hosts)]


def _needed(alerts: Iterable[Alert]) -> Iterator[Sentence]:
    needed = [alert for alert in alerts if alert.severity != "info"]
    subjects = {(_kind(alert), *(alert.labels.get(name, "") for name in (_kind(alert), "system"))) for alert in needed}
    counts = Counter(kind for kind, *_ in subjects)
    if not counts:
        yield Sentence("Nothing needs you.", "#alerts", "good")
        return
    named = [counted(counts[kind], kind) for kind in (*SUBJECTS, "system") if counts[kind]]
    text = " and ".join(filter(None, (", ".join(named[:-1]), named[-1])))
    is_critical = any(alert.severity == "critical" for alert in needed)
    verb = "needs" if counts.total() == 1 else "need"
    yield Sentence(f"{text} {verb} you.", "#alerts", "critical" if is_critical else "warning")


def _kind(alert: Alert) -> str:
    return next((name for name in SUBJECTS if alert.labels.get(name)), "system")


def _jobs(jobs_late: int) -> Iterator[Sentence]:
    if jobs_late:
        yield Sentence(f"{counted(jobs_late, 'job')} will probably hit the limit.", "#jobs", "warning")


def _fresh(sources: Sequence[SourceRow], health: Iterable[Health], now_ms: int | None) -> Iterator[Sentence]:
    lag_s = max((role.lag_s for role in health if late(role.lag_s) and role.lag_s), default=0.0)
    if lag_s and now_ms is not None:
        yield Sentence(
            f"The agent catches up: it is {when(now_ms)} UTC here, {duration(lag_s)} behind.", "/agent", "warning"
        )
    silent = [source.topic for source in sources if source.is_silent or source.waits]
    if silent:
        yield Sentence(
            f"No data from {silent[0] if len(silent) == 1 else counted(len(silent), 'source')}.", "#sources", "warning"
        )
    elif sources and not lag_s:
        yield Sentence("All data are fresh.", "#sources", "good")


def _learning(hosts: HostCounts) -> Iterator[Sentence]:
    if hosts.learning:
        subject = "1 host is" if hosts.learning == 1 else f"{hosts.learning:,} hosts are"
        yield Sentence(f"{subject} being learned, without alerts until {moment(hosts.learned_until)} UTC.", "#hosts")
