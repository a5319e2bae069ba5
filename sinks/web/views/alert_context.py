"""What the page of an alert answers beyond its evidence: how sure, whom it hits, what else happened then, what to reply."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from processors.contracts.errors import InvalidInputError
from processors.contracts.names import job_key, parse_rfc3339
from processors.contracts.outputs import Alert
from processors.contracts.racks import HostRack
from processors.contracts.running import RunningJob
from processors.contracts.service import Service
from sinks.web.access import Reader
from sinks.web.formatting import counted, share
from sinks.web.queries import is_in_rack
from sinks.web.views.explained import ExplainedRows, job_of
from sinks.web.views.jobs import job_link
from sinks.web.views.overview import application_labels_of

NEAR_MS: Final = 3_600_000
OTHERS_SHOWN: Final = 10
JOBS_SHOWN: Final = 12
USERS_SHOWN: Final = 12
REASONS_MAX: Final = 3
HOSTS_MAX: Final = 50_000
NO_FIGURE: Final = "The alert carries no figure for that. Judge by the evidence."


def how_sure(alert: Alert) -> str:
    """Return how sure an alert is, in a few sentences that follow from its evidence."""
    return " ".join(list(_sure(alert))[:REASONS_MAX]) or NO_FIGURE


def _sure(alert: Alert) -> Iterator[str]:
    known, detail, name = alert.evidence, alert.evidence.detail, alert.labels.get("alertname", "")
    numbers = {key: float(value) for key, value in detail.items() if isinstance(value, int | float)}
    if name == "RackAnomaly" and known.observed is not None and known.n is not None:
        yield f"{known.observed:.0f} of its {known.n:.0f} hosts are anomalous at once, which is no coincidence."
    if name == "StragglerHost":
        met = f" {counted(round(numbers['jobs']), 'job')} met it." if numbers.get("jobs") else ""
        yield f"It is compared, minute by minute, with hosts that do the same work.{met}"
    if name in ("SlowSize", "FastSize"):
        yield "It rests on all runs of this size, against the curve through the other sizes."
    if name.endswith("FailureRate") and known.observed is not None and known.expected is not None:
        usual = "are to be expected" if name == "HostFailureRate" else "before"
        yield f"{share(known.observed)} of the newest runs failed, {share(known.expected)} {usual}."
    if "conformal_p" in numbers:
        yield f"At most {share(numbers['conformal_p'])} of the newest runs deviated as much."
    if "deviations" in numbers:
        yield f"It is {abs(numbers['deviations']):.0f} robust standard deviations off."
    if name == "HostAnomaly" and len(detail) > 1:
        yield f"{len(detail)} resources are unlike their own past, close in time."
    elif (outside := _outside(alert)) is not None:
        yield f"The value lies {share(outside)} outside its usual range."
    if "runs" in numbers:
        yield f"{counted(round(numbers['runs']), 'run')} {'shows' if numbers['runs'] == 1 else 'show'} it."
    if "scored" in numbers:
        yield f"{counted(round(numbers['scored']), 'run')} had been predicted before they were learned."


def _outside(alert: Alert) -> float | None:
    """Return how far a value lies beyond the nearer end of its usual range, as a share of that end."""
    known = alert.evidence
    if known.observed is None or known.low is None or known.high is None or known.low <= known.observed <= known.high:
        return None
    end = known.high if known.observed > known.high else known.low
    return abs(known.observed - end) / abs(end) if end else None


class Link(msgspec.Struct, frozen=True):
    """A word and where it leads; empty where it leads nowhere."""

    text: str
    href: str


class Other(msgspec.Struct, frozen=True):
    """An alert that began at about the same time, and what it has in common with the one that is shown ("" for nothing)."""

    alert: Alert
    common: str


def others(service: Service, alerts: Sequence[Alert], shown: Alert) -> list[Other]:
    """Return the alerts that began within an hour of one, those of the same host, rack or application first."""
    at_ms = _start_ms(shown)
    if at_ms is None:
        return []
    found: dict[str, tuple[int, int, Other]] = {}
    for alert in alerts:
        start_ms = _start_ms(alert)
        if alert.fingerprint == shown.fingerprint or start_ms is None or abs(start_ms - at_ms) > NEAR_MS:
            continue
        rank, common = _common(service, alert.labels, shown.labels)
        found.setdefault(alert.fingerprint, (rank, abs(start_ms - at_ms), Other(alert, common)))
    return [other for _, _, other in sorted(found.values(), key=lambda each: each[:2])[:OTHERS_SHOWN]]


def _common(service: Service, labels: dict[str, str], shown: dict[str, str]) -> tuple[int, str]:
    """Return the place of an alert among others and what it has in common with the one that is shown."""
    if labels.get("system") != shown.get("system"):
        return 4, ""
    for rank, name in ((0, "host"), (1, "rack"), (2, "application")):
        if labels.get(name) and labels.get(name) == shown.get(name):
            return rank, f"same {name}"
    one, other = (_rack(service, each) for each in (labels, shown))
    if one is not None and other is not None and one.name == other.name:
        return 1, f"same rack{one.known_by or other.known_by}"
    return 3, "same system"


def _rack(service: Service, labels: dict[str, str]) -> HostRack | None:
    """Return the rack that an alert is about, or that of its host; None where neither is known."""
    if "host" in labels:
        return service.rack(labels.get("system", ""), labels["host"])
    return HostRack(labels["rack"], listed=True) if "rack" in labels else None


def _start_ms(alert: Alert) -> int | None:
    with suppress(InvalidInputError):
        return parse_rfc3339(alert.starts)
    return None


class Hit(msgspec.Struct, frozen=True):
    """Whom an alert hits: running jobs with their links, of how many, and who runs them, where the reader may know."""

    jobs: Sequence[Link]
    jobs_count: int
    users: Sequence[str]


def hit(service: Service, alert: Alert, explained: ExplainedRows | None, reader: Reader) -> Hit:
    """Return whom an alert hits; a service shows a reader only their own jobs."""
    running = [] if alert.ends else list(_running(service, alert))
    users: list[str | None] = [job.user for job in running]
    users += [row.user for row in explained.rows] if explained is not None else []
    for run_id in alert.evidence.runs:
        users += [run.user for run in service.runs_of_job(*job_of(run_id)) if run.run_id == run_id]
    named = dict.fromkeys(user for user in users if user and reader.sees(user))
    jobs = [Link(f"{job.system}/{job.job_id}", job_link(job.system, job.job_id)) for job in running[:JOBS_SHOWN]]
    return Hit(jobs, len(running), list(named)[:USERS_SHOWN] if reader.operator else ())


def _running(service: Service, alert: Alert) -> Iterator[RunningJob]:
    """Yield the running jobs on the host or the rack, or of the application, that an alert is about."""
    labels = alert.labels
    if "host" in labels:
        view = service.host(labels.get("system", ""), labels["host"])
        on_host = job_of(view.job) if view is not None and view.job else None
        yield from (job for job in service.running() if (job.system, job.job_id) == on_host)
    elif "rack" in labels:
        uses = service.host_uses(HOSTS_MAX)
        there = {use.job for use in uses if use.job and is_in_rack(service, use.system, use.host, labels)}
        yield from (job for job in service.running() if job_key(job.system, job.job_id) in there)
    elif "application" in labels:
        wanted = application_labels_of(labels)
        yield from (job for job in service.running() if (job.application, job.system, job.input, job.unit) == wanted)


class _Label(msgspec.Struct, frozen=True):
    fingerprint: str
    time: str
    real: bool
    comment: str


def label_line(alert: Alert) -> str:
    """Return the line of a file of labels that says of an alert that it was none.

    Its time is that of the alert's last change, when it was open for certain.
    """
    return msgspec.json.encode(_Label(alert.fingerprint, alert.time, real=False, comment="")).decode()
