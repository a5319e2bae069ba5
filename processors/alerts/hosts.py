"""Alerts about hosts and racks: functions that turn detector findings into a condition with texts and evidence."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from processors.alerts import rules
from processors.alerts.lifecycle import Condition
from processors.alerts.rules import clock, shortened
from processors.contracts.alerts import HostAnomaly, PeerDifference, RackAnomaly
from processors.contracts.events import Attribute
from processors.contracts.names import measured, measured_apart, resource_name
from processors.contracts.outputs import AlertEvidence
from processors.hosts.detectors import Mark
from processors.hosts.peers import Difference

SHOWN: Final = 8  # most resources or hosts that an alert lists by name; the alert only counts any others
IN_SUMMARY: Final = 3
GUESSED: Final = " Rack guessed from host names. Set `reference.racks` to be sure."
WAYS: Final = {  # the step test gives no range, because the new value may lie between earlier values
    "value": "{value} ({low} to {high} until then)",
    "step": "{value}, a jump larger than any before",
    "hour": "{value} ({low} to {high} at this hour until then)",
}
DEVIATED: Final = "Its resources deviated {:.1f} times as much as usual. "
# an event and its time: the anomaly may be over when the alert is sent
RECORDS: Final = "{count} of {of} resources became anomalous at {since}: {resources}"
FAR: Final = "{count} of {of} resources moved far from their means at {since}: {resources}"
BY_HOUR: Final = (
    "at {since} its resources began to differ from the same hour of other days, {resource} most: "
    "{observed} where {expected} is usual"
)
CONTRADICTS: Final = (
    "its metrics stopped fitting together as usual at {since}, {resource} least: "
    "{observed} where the others predict {expected}"
)


class Contradicts(NamedTuple):
    """The resource of a host that deviates most from the value that the other resources of the host predict (`expected`).

    `far` lists the resources that are far from their means at the same time, if there are many. If `by_hour` is set, the
    resources differ from the same hour of other days, and `expected` is the mean of this hour on the other days. `ratio` is
    the deviation of all resources divided by its usual level. `fired` is True if this is the reason for the alert, False if the marks
    are.
    """

    resource: str
    observed: float
    expected: float
    since_ms: int
    far: tuple[str, ...] = ()
    by_hour: bool = False
    ratio: float = 0.0
    fired: bool = False


class Odd(NamedTuple):
    """The anomaly of a host: the marks of its anomalous resources, a contradiction, if any, and the number of all `resources`.

    `jobs` are the keys of the jobs that run on the host.
    """

    since_ms: int
    marks: Mapping[str, Mark]
    resources: int
    contradicts: Contradicts | None = None
    jobs: tuple[str, ...] = ()


class Differing(NamedTuple):
    """How a host differs from its peers: `job` is the key of its present job ("" if idle), `jobs` the number of affected jobs."""

    job: str
    jobs: int
    since_ms: int
    differences: Mapping[str, Difference]


class Rack(NamedTuple):
    """A group of hosts for one alert: a rack, or else a partition, or else a whole system (`name` is "")."""

    system: str
    kind: str
    name: str

    @property
    def labels(self) -> dict[str, str]:
        return {"system": self.system} if self.kind == "system" else {"system": self.system, self.kind: self.name}

    @property
    def text(self) -> str:
        return f"{self.kind} {shortened(self.name)} on {self.system}" if self.name else f"system {self.system}"


def host_anomaly(labels: dict[str, str], odd: Odd, settings: HostAnomaly, now_ms: int) -> Condition:
    """Return the condition of an anomalous host; the reason that raised the alert comes first, even if it is over."""
    contradicts = odd.contradicts
    first = None if contradicts and contradicts.fired else next(iter(odd.marks.values()), None)
    since = {name: f"{_mark_text(name, mark)} since {clock(mark.since_ms)}" for name, mark in odd.marks.items()}
    detail: dict[str, Attribute] = {name: since[name] for name in list(since)[:SHOWN]}
    findings = [_records_text(odd)] if odd.marks else []
    if contradicts is not None:
        findings.insert(0 if first is None else 1, _contradiction_text(contradicts, odd.resources))
        number = measured_apart(contradicts.resource, (contradicts.observed, contradicts.expected))
        text = f"{number(contradicts.observed)}; its other resources predict {number(contradicts.expected)}"
        detail.setdefault(contradicts.resource, text)
    evidence = AlertEvidence(
        observed=first.observed if first else contradicts.observed if contradicts else None,
        expected=contradicts.expected if contradicts and not first else None,
        low=first.low if first else None,
        high=first.high if first else None,
        detail=detail,
    )
    ranges = _listed([f"{_short(name)} {text}" for name, text in since.items()], SHOWN)
    values = {
        "findings": "; ".join(findings),
        "jobs": f"It runs {_listed([f'job {job}' for job in odd.jobs], IN_SUMMARY)}. " if odd.jobs else "",
        "sure": DEVIATED.format(contradicts.ratio) if contradicts and contradicts.ratio > 1 else "",
        "ranges": f" Ranges: {ranges}." if ranges else "",
    }
    return rules.HOST_ANOMALY.condition(labels, settings, now_ms, values, evidence)


def _records_text(odd: Odd) -> str:
    texts = [
        f"{_short(name)} {_mark_text(name, mark) if place == 0 else measured(name, mark.observed)}"
        # with the ranges of all resources the text would be too long
        for place, (name, mark) in enumerate(odd.marks.items())
    ]
    resources = _listed(texts, IN_SUMMARY)
    return RECORDS.format(count=len(texts), of=odd.resources, since=clock(odd.since_ms), resources=resources)


def _contradiction_text(contradicts: Contradicts, resources: int) -> str:
    number = measured_apart(contradicts.resource, (contradicts.observed, contradicts.expected))
    template = FAR if contradicts.far else BY_HOUR if contradicts.by_hour else CONTRADICTS
    return template.format(
        since=clock(contradicts.since_ms),
        count=len(contradicts.far),
        of=resources,
        resources=_listed([*map(_short, contradicts.far)], IN_SUMMARY),
        resource=_short(contradicts.resource),
        observed=number(contradicts.observed),
        expected=number(contradicts.expected),
    )


def _short(resource: str) -> str:
    return shortened(resource_name(resource))


def rack_anomaly(
    rack: Rack, hosts: Sequence[str], of: int, resources: Mapping[str, int], since_ms: int,
    *, settings: RackAnomaly, now_ms: int, end_is_seen: bool, by_name: bool = False,
) -> Condition:  # fmt: skip
    """Return the condition of a rack with the anomalous hosts `hosts`.

    `of` is the number of all hosts of the rack, `resources` the number of anomalous hosts by resource. With `by_name`, the rack
    was guessed from host names. `end_is_seen` says that the normal range of a resource is stored for at least half of `hosts`: the
    caller renews the alert while they are outside of this range, and the alert ends `clear_s` after the last renewal.
    """
    common = sorted(resources.items(), key=lambda item: (-item[1], item[0]))
    counts = _listed([f"{_short(name)} on {count}" for name, count in common], IN_SUMMARY)
    values = {
        "anomalous": len(hosts),
        "hosts": of,
        "place": rack.text,
        "since": clock(since_ms),
        "resources": f": {counts}" if counts else "",
        "names": _listed(list(hosts), SHOWN),
        "guessed": GUESSED if by_name else "",
    }
    evidence = AlertEvidence(
        observed=float(len(hosts)),
        expected=0.0,
        n=float(of),
        detail={name: f"on {count} hosts" for name, count in common[:SHOWN]},
    )
    clears: dict[str, Any] = {"keep_firing_ms": round(settings.clear_s * 1000)} if end_is_seen else {}
    return rules.RACK_ANOMALY.condition(rack.labels, settings, now_ms, values, evidence, **clears)


def peer_difference(labels: dict[str, str], differing: Differing, settings: PeerDifference, now_ms: int) -> Condition:
    """Return the condition of a host that differs from the other hosts of its job, or from idle hosts of its partition."""
    texts = {
        name: f"{_short(name)} {_difference_text(name, difference)}"
        for name, difference in differing.differences.items()
    }
    first = next(iter(differing.differences.values()))
    peers, meaning = "the other idle hosts of its partition", "Look for processes of an earlier job that still run."
    if differing.job:
        peers = f"the other hosts of job {differing.job}"
        meaning = "The job waits for its slowest host. Drain the host when the job is over."
    values = {
        "peers": peers,
        "since": clock(differing.since_ms),
        "differences": _listed([*texts.values()], IN_SUMMARY),
        "meaning": meaning,
    }
    shown: dict[str, Attribute] = {name: texts[name] for name in list(texts)[:SHOWN]}
    detail = {"job": differing.job, "jobs": differing.jobs, **shown}
    evidence = AlertEvidence(observed=first.observed, expected=first.usual, detail=detail)
    return rules.PEER_DIFFERENCE.condition(labels, settings, now_ms, values, evidence)


def _difference_text(name: str, difference: Difference) -> str:
    number = measured_apart(name, (difference.observed, difference.usual))
    return f"{number(difference.observed)}, peers {number(difference.usual)}"


def muted(host: str, state: str) -> str:
    return f"{host} is out of service ({state}). It raises no alerts until it is back."


def _mark_text(name: str, mark: Mark) -> str:
    figures = (mark.observed, mark.low, mark.high)
    value, low, high = map(measured_apart(name, figures), figures)
    return WAYS[mark.way].format(value=value, low=low, high=high)


def _listed(text: Sequence[str], most: int) -> str:
    more = f", and {len(text) - most} more" if len(text) > most else ""
    return ", ".join(text[:most]) + more
