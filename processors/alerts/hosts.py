"""Alert rules about hosts: what anomalies mean to the person who is woken. Each name has a heading in the runbook."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from processors.alerts.applications import HOST_ANOMALY, RACK_ANOMALY, STRAGGLER_HOST
from processors.alerts.lifecycle import Condition
from processors.contracts.alerts import HostAnomaly, RackAnomaly
from processors.contracts.events import Attribute
from processors.contracts.names import measured, measured_apart, resource_name
from processors.contracts.outputs import AlertEvidence
from processors.hosts.detectors import Mark
from processors.hosts.peers import Difference

SHOWN: Final = 8  # resources or hosts that an alert lists; of more it says how many
IN_SUMMARY: Final = 3
BY_NAME: Final = " Their names tell the rack: no list of racks does."
WAYS: Final = {  # of a step no range is shown: what it came to may lie between values that were seen before
    "value": "{value} ({low} to {high} until then)",
    "step": "{value}, a jump larger than any before",
    "hour": "{value} ({low} to {high} at this hour until then)",
}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


class Contradicts(NamedTuple):
    """The resource of a host that goes with the others the least, and what those let expect of it.

    `far` are the resources that are far from their means at once, where these are many. Where it is `by_hour`, they are elsewhere
    than at this hour of other days, and `expected` is the mean of the hour.
    """

    resource: str
    observed: float
    expected: float
    since_ms: int
    far: tuple[str, ...] = ()
    by_hour: bool = False


class Odd(NamedTuple):
    """What is odd about a host since when: records by resource, of how many it has, and the contradiction if one is."""

    since_ms: int
    marks: Mapping[str, Mark]
    resources: int
    contradicts: Contradicts | None = None


class Differing(NamedTuple):
    """How a host differs from its peers, since when, in which job now ("" for none), and how many jobs met it."""

    job: str
    jobs: int
    since_ms: int
    differences: Mapping[str, Difference]


class Rack(NamedTuple):
    """Hosts that belong together: a rack, else a partition, else a whole system ("" then)."""

    system: str
    kind: str
    name: str

    @property
    def labels(self) -> dict[str, str]:
        """The labels that name it."""
        return {"system": self.system} if self.kind == "system" else {"system": self.system, self.kind: self.name}

    @property
    def text(self) -> str:
        """Its name in a sentence."""
        return f"system {self.system}" if self.kind == "system" else f"{self.kind} {self.name} on {self.system}"


def host_labels(system: str, host: str) -> dict[str, str]:
    """Return the labels that name a host."""
    return {"system": system, "host": host}


def host_anomaly(labels: dict[str, str], odd: Odd, settings: HostAnomaly, now_ms: int) -> Condition:
    """Return the condition of a host with an anomaly."""
    first = next(iter(odd.marks.values()), None)
    against = odd.contradicts
    where = f"{labels['host']} on {labels['system']}"
    text = [
        f"{resource_name(name)} {_mark_text(name, mark) if place == 0 else measured(name, mark.observed)}"
        for place, (name, mark) in enumerate(odd.marks.items())  # ranges of all would be cut off
    ]
    number = measured_apart(against.resource, (against.observed, against.expected)) if against is not None else str
    parts = []
    if text:
        few = f"{len(text)} of {odd.resources} resources have been anomalous since {_clock(odd.since_ms)}"
        parts.append(f"{few}: {_listed(text, IN_SUMMARY)}")
    if against is not None and against.far:
        many = f"{len(against.far)} of {odd.resources} resources have been far from their means"
        parts.append(
            f"{many} since {_clock(against.since_ms)}: {_listed([*map(resource_name, against.far)], IN_SUMMARY)}"
        )
    elif against is not None and against.by_hour:
        parts.append(
            f"its resources have been elsewhere than at this hour of other days since {_clock(against.since_ms)}, "
            f"{resource_name(against.resource)} most: {number(against.observed)} where "
            f"{number(against.expected)} is usual"
        )
    elif against is not None:
        parts.append(
            f"its resources have contradicted each other since {_clock(against.since_ms)}, "
            f"{resource_name(against.resource)} most: "
            f"{number(against.observed)} where the others predict "
            f"{number(against.expected)}"
        )
    return Condition(
        name=HOST_ANOMALY,
        labels=labels,
        holds=True,
        momentary=True,
        time_ms=now_ms,
        keep_firing_ms=round(settings.keep_firing_s * 1000),
        summary=f"{where}: {'; '.join(parts)}.",
        description=_listed(
            [
                f"{resource_name(name)} {_mark_text(name, mark)} since {_clock(mark.since_ms)}"
                for name, mark in odd.marks.items()
            ],
            SHOWN,
        ),
        evidence=AlertEvidence(
            observed=first.observed if first else against.observed if against else None,
            expected=against.expected if against and not first else None,
            low=first.low if first else None,
            high=first.high if first else None,
            detail=_detail(odd),
        ),
    )


def rack_anomaly(
    rack: Rack, hosts: Sequence[str], of: int, resources: Mapping[str, int], since_ms: int,
    *, settings: RackAnomaly, now_ms: int, end_is_seen: bool, by_name: bool = False,
) -> Condition:  # fmt: skip
    """Return the condition of a rack: which of its `of` hosts, and on how many of them each resource is odd.

    `end_is_seen` says that most hosts are outside of ranges that are kept: whoever looks at those renews it while it lasts.
    `by_name` says that the names of hosts are all that tells their rack.
    """
    common = sorted(resources.items(), key=lambda one: (-one[1], one[0]))
    odd = _listed([f"{resource_name(name)} on {count}" for name, count in common], IN_SUMMARY)
    return Condition(
        name=RACK_ANOMALY,
        labels=rack.labels,
        holds=True,
        momentary=True,
        time_ms=now_ms,
        severity="critical",
        keep_firing_ms=round((settings.clear_s if end_is_seen else settings.keep_firing_s) * 1000),
        summary=(
            f"{len(hosts)} of {of} hosts of {rack.text} have been anomalous since {_clock(since_ms)}"
            f"{': ' + odd if odd else ''}."
        ),
        description=f"Hosts: {_listed(list(hosts), SHOWN)}.{BY_NAME if by_name else ''}",
        evidence=AlertEvidence(
            observed=float(len(hosts)),
            expected=0.0,
            n=float(of),
            detail={name: f"on {count} hosts" for name, count in common[:SHOWN]},
        ),
    )


def straggler(labels: dict[str, str], differing: Differing, now_ms: int) -> Condition:
    """Return the condition of a host unlike the others of its job, or, without a job, the idle ones of its partition."""
    found = differing.differences
    text = [
        f"{resource_name(name)} {', peers '.join(map(measured_apart(name, (one.observed, one.usual)), (one.observed, one.usual)))}"
        for name, one in found.items()
    ]
    peers = f"the other hosts of job {differing.job}" if differing.job else "the other idle hosts of its partition"
    first = next(iter(found.values()))
    shown: dict[str, Attribute] = dict(list(zip(found, text, strict=True))[:SHOWN])
    return Condition(
        name=STRAGGLER_HOST,
        labels=labels,
        holds=True,
        time_ms=now_ms,
        summary=f"{labels['host']} has differed from {peers} since {_clock(differing.since_ms)}: {_listed(text, IN_SUMMARY)}.",
        description="The job waits for its slowest host."
        if differing.job
        else "Processes of an earlier job may still be running.",
        evidence=AlertEvidence(
            observed=first.observed,
            expected=first.usual,
            detail={"job": differing.job, "jobs": differing.jobs, **shown},
        ),
    )


def muted(host: str, state: str) -> str:
    """Return why alerts of a host end that is out of service."""
    return f"{host} is out of service ({state}): its measurements raise no alerts until it is back."


def _mark_text(name: str, mark: Mark) -> str:
    known = (mark.observed, mark.low, mark.high)
    value, low, high = map(measured_apart(name, known), known)
    return WAYS[mark.way].format(value=value, low=low, high=high)


def _detail(odd: Odd) -> dict[str, Attribute]:
    shown = list(odd.marks.items())[:SHOWN]
    detail: dict[str, Attribute] = {
        name: f"{_mark_text(name, mark)} since {_clock(mark.since_ms)}" for name, mark in shown
    }
    if odd.contradicts is not None:
        one = odd.contradicts
        number = measured_apart(one.resource, (one.observed, one.expected))
        text = f"{number(one.observed)}, predicted by the others {number(one.expected)}"
        detail.setdefault(one.resource, text)
    return detail


def _listed(text: Sequence[str], most: int) -> str:
    more = f", and {len(text) - most} more" if len(text) > most else ""
    return ", ".join(text[:most]) + more


def _clock(time_ms: int) -> str:
    moment = _EPOCH + timedelta(milliseconds=time_ms)
    return f"{moment:%H:%M} on {moment.day} {moment:%b} (UTC)"
