"""Why a run took as long as it did, judged by its hosts, their load, its counters and its application.

The strongest measured cause comes first. Without one the page says so, because a guess is no cause.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import median
from typing import Final
from urllib.parse import quote

import msgspec

from processors.advice import is_near, point_at
from processors.alerts.rules import RACK_ANOMALY
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import SUCCESS
from processors.contracts.load import UnderLoad
from processors.contracts.names import host_link, measured, parse_rfc3339, resource_name
from processors.contracts.nodes import expand_all
from processors.contracts.outputs import Alert, CurvePoint, JobPrediction, RecentRun
from processors.contracts.running import Neighbour
from processors.contracts.service import Service
from processors.contracts.telemetry import is_power
from processors.jobs.remaining_time import UNDER_LOAD
from sinks.web.filters import id_of, key_of
from sinks.web.formatting import moment, rounded, share, sized
from sinks.web.queries import is_in_rack, link
from sinks.web.views.alert_states import Alerts

BANDWIDTH: Final = "bandwidth"
HOSTS_MAX: Final = 16_384  # of one job
OTHERS_MIN: Final = 5  # runs of the same size, below which nobody knows what is usual
COUNTERS_SHOWN: Final = 3
NEIGHBOURS_SHOWN: Final = 5
UNUSUAL: Final = 0.1  # power and shared time that deviate less are as usual
UNUSUAL_COUNTER: Final = 0.2
LOADED: Final = 1.1  # run time under load over run time without, from which load is a cause
SHORT_S: Final = 10.0  # starting and ending take as long
OF_HOST: Final = ("StragglerHost", "HostAnomaly")
OF_SLOW_APPLICATION: Final = ("Regression", "SlowSize")
NO_CAUSE: Final = "No measurement explains why."
SPEEDS: Final = ("frequency", "flops", "clock")  # parts of the names of resources that are a speed


class Piece(msgspec.Struct, frozen=True):
    """A part of a text, and the address it links to; empty if it is no link."""

    text: str
    href: str = ""


Text = tuple[Piece, ...]


class Why(msgspec.Struct, frozen=True):
    """Why a run took so long: the text at the top of its page, further causes, and other unusual measurements."""

    lead: Text
    others: Sequence[Text] = ()
    remarks: Sequence[str] = ()

    @property
    def plain(self) -> str:
        """The text at the top without links."""
        return plain(self.lead)


class _Stay(msgspec.Struct, frozen=True):
    """A run or a running job on its hosts, with its time and its application."""

    system: str
    hosts: tuple[str, ...]
    start_ms: int
    end_ms: int
    application_id: str
    n: float | None
    partition: str | None = None
    ended: bool = True

    def host(self, name: str, text: str) -> Text:
        """Return the beginning of a sentence about one of the hosts, up to `text`."""
        which = f" (one of {len(self.hosts)})" if len(self.hosts) > 1 else ""
        href = f"/hosts/{host_link(self.system, name)}"
        return Piece("Host "), Piece(name, href), Piece(f"{which} {text}")

    def meets(self, alerts: Alerts, alert: Alert, since: str = "") -> bool:
        """Return whether an alert was true during the run; a pending alert is not known to be true yet."""
        if alerts.state(alert) == "pending":
            return False
        ends_ms = parse_rfc3339(alert.ends) if alert.ends else None
        starts_ms = parse_rfc3339(since or alert.starts)
        return starts_ms <= self.end_ms and (ends_ms is None or ends_ms >= self.start_ms)


def plain(text: Iterable[Piece]) -> str:
    """Return a text without its links."""
    return "".join(piece.text for piece in text)


def prediction_before(service: Service, run: RecentRun) -> JobPrediction | None:
    """Return the prediction that was published while a run ran; None if it is no longer known."""
    job = service.ended(run.system, run.job_id)
    return job if job is not None and parse_rfc3339(job.start) == run.start_ms else None


def bandwidth_left(load: UnderLoad) -> str:
    """Return the bandwidth left on the host with the least of it, and the usual value."""
    usual = "" if load.baseline_bandwidth is None else f" (usually {measured(BANDWIDTH, load.baseline_bandwidth)})"
    return f"{measured(BANDWIDTH, load.bandwidth)}{usual}"


def is_of_network(load: UnderLoad) -> bool:
    """Return whether the network of its hosts stretches a run by more than their processors do."""
    part, left, usual = load.communication_share, load.bandwidth, load.baseline_bandwidth
    if not part or not left or not usual or load.load is None:
        return False
    by_network, by_load = usual / left, math.pow(load.load / load.baseline_load, load.follows)
    return part * (by_network - 1) > (1 - part) * (by_load - 1)


def why_ended(service: Service, run: RecentRun) -> Why:
    """Return why a run took as long as it did."""
    stay = _Stay(
        run.system, expanded(run.hosts), run.start_ms, run.end_ms, run.application_id or "", run.n, run.partition
    )
    others = _others(service, run)
    predicted = run.predicted
    if run.state == SUCCESS and predicted is not None and max(run.run_time_s, predicted.run_time_s) < SHORT_S:
        return Why((Piece("The run was too short to explain: starting and ending take as long."),))
    if run.state == SUCCESS and run.slowed_by is None and predicted is not None:
        remarks = list(_remarks(run, others))
        if predicted.holds(run.run_time_s):
            loaded = " under the load of its hosts" if predicted.source == UNDER_LOAD else ""
            return Why((Piece(f"The run took as long as expected{loaded}."),), (), remarks)
        if is_near(run.run_time_s, predicted):
            return Why((Piece("The run took nearly as long as expected."),), (), remarks)
    causes = list(_causes_of_run(service, run, stay, others))
    remarks = [*_remarks(run, others), *_unknown(stay)]
    if causes:
        return Why(causes[0], causes[1:], remarks)
    return Why((Piece(" ".join(filter(None, (_deviation(run), _unexplained(run))))),), (), remarks)


def why_running(service: Service, job: JobPrediction, now_ms: int) -> Why:
    """Return what slows a running job, or that no measurement shows anything."""
    hosts = tuple(service.reading(job.system).hosts_of_job(job.job_id))
    stay = _Stay(job.system, hosts, parse_rfc3339(job.start), now_ms, id_of(job), job.n, job.partition, ended=False)
    alerts, point = Alerts.of(service), _point(service, job)
    causes = [
        *_of_hosts(service, alerts, stay, None),
        *_of_load(job, point.run_time_s if point else None, _there_before(service, job, stay)),
        *_of_application(alerts, stay),
    ]
    remarks = _unknown(stay)
    if causes:
        return Why(causes[0], causes[1:], remarks)
    late = _late(job, point, now_ms)
    return Why(
        (Piece(f"{late} {NO_CAUSE}" if late else "No measurement shows that anything slows the job."),), (), remarks
    )


def expanded(lists: tuple[str, ...]) -> tuple[str, ...]:
    """Return the host names of host lists, each once; none if the lists are malformed or have too many hosts."""
    try:
        return tuple(dict.fromkeys(expand_all(lists, HOSTS_MAX)))
    except InvalidInputError:
        return ()


def _deviation(run: RecentRun) -> str:
    """Return by how much a completed run deviated from its prediction; empty for other runs."""
    predicted = run.predicted
    if run.state != SUCCESS or predicted is None or predicted.run_time_s <= 0:
        return ""
    ratio = run.run_time_s / predicted.run_time_s
    if ratio >= 2:
        return f"The run took {ratio:.2f} times as long as expected."
    return f"The run took {share(abs(ratio - 1))} {'longer' if ratio > 1 else 'less time'} than expected."


def _unexplained(run: RecentRun) -> str:
    if run.session:
        return "The run was an interactive session: its user decides how long it takes."
    if run.state != SUCCESS:
        return "No measurement explains how the run ended."
    return NO_CAUSE if run.predicted is not None else "The run had no prediction, so its run time cannot be judged."


def _causes_of_run(service: Service, run: RecentRun, stay: _Stay, others: Sequence[RecentRun]) -> Iterator[Text]:
    """Yield the causes of a run that took longer than expected or did not complete, the strongest first."""
    alerts, predicted, limit_s = Alerts.of(service), run.predicted, run.time_limit_s
    if run.state == "TIMEOUT" and predicted is not None and limit_s is not None and limit_s < predicted.high_s:
        most = rounded(predicted.high_s)
        yield (Piece(f"The time limit of {rounded(limit_s)} was too short: such runs take up to {most}."),)
        return
    if run.state == SUCCESS and predicted is not None and run.run_time_s < predicted.low_s:
        yield from _of_application(alerts, stay, ("Improvement",))
        return
    if run.state == SUCCESS and predicted is None:
        return
    yield from _of_hosts(service, alerts, stay, run)
    if run.state not in (SUCCESS, "TIMEOUT"):
        yield from _of_failures(alerts, stay)
        return
    yield from _of_disturbance(alerts, run)
    if predicted is not None and predicted.source != UNDER_LOAD:  # else the prediction includes the load
        yield from _of_load(prediction_before(service, run), predicted.run_time_s)
    yield from _of_neighbours(run, others)
    yield from _of_application(alerts, stay)


def _of_hosts(service: Service, alerts: Alerts, stay: _Stay, run: RecentRun | None) -> Iterator[Text]:
    """Yield what was wrong with hosts during the run, first the host to which the slow run was attributed."""
    by_host: dict[str, Alert] = {}
    names = set(stay.hosts)
    for kind in OF_HOST:
        for alert in _of_kind(alerts, kind, stay):
            host = alert.labels.get("host", "")
            if host in names and stay.meets(alerts, alert) and _slows(alert):
                by_host.setdefault(host, alert)
    slowed, racks = run.slowed_by if run is not None else None, _racks(service, alerts, stay)
    slow_rack = next((rack for rack in racks if slowed is not None and slowed.host in rack.hosts), None)
    if slowed is not None and slow_rack is not None and slowed.host not in by_host:
        racks.remove(slow_rack)
        yield _in_rack(stay, slow_rack, slowed.factor)
    elif slowed is not None:
        yield _slowed_by(service, stay, slowed.host, slowed.factor, by_host.pop(slowed.host, None))
    for host, alert in by_host.items():
        yield _abnormal_host(service, stay, host, alert)
    for rack in racks:
        yield _in_rack(stay, rack)


def _of_kind(alerts: Alerts, kind: str, stay: _Stay) -> Iterator[Alert]:
    """Yield the alerts of a name in the system of a run."""
    for alert in alerts.entries:
        if alert.labels.get("alertname") == kind and alert.labels.get("system") == stay.system:
            yield alert


class _Rack(msgspec.Struct, frozen=True):
    """An alert about a rack, or about the partition or system that stands in for it, and the hosts of a run in it."""

    alert: Alert
    hosts: frozenset[str]
    known_by: str = ""


def _racks(service: Service, alerts: Alerts, stay: _Stay) -> list[_Rack]:
    """Return the racks that were abnormal while the run used hosts in them."""
    racks = []
    for alert in _of_kind(alerts, RACK_ANOMALY.name, stay):
        if stay.meets(alerts, alert) and _slows(alert):
            hosts = frozenset(host for host in stay.hosts if _is_in(service, stay, host, alert.labels))
            ways = {rack.known_by for host in hosts if (rack := service.rack(stay.system, host)) is not None}
            racks += [_Rack(alert, hosts, max(ways, default=""))] if hosts else []
    return racks


def _is_in(service: Service, stay: _Stay, host: str, labels: Mapping[str, str]) -> bool:
    """Return whether a host is in the rack, else in the partition, else in the system of an alert."""
    if "rack" in labels:
        return is_in_rack(service, stay.system, host, labels)
    return service.rack(stay.system, host) is None and labels.get("partition") in (None, stay.partition)


def _in_rack(stay: _Stay, rack: _Rack, factor: float | None = None) -> Text:
    """Return the sentence about hosts of a run in a rack with many abnormal hosts."""
    labels, evidence = rack.alert.labels, rack.alert.evidence
    total, inside = len(stay.hosts), len(rack.hosts)
    which = "The host" if total == 1 else f"All {total} hosts" if inside == total else f"{inside} of {total} hosts"
    verb = "is" if inside == 1 else "are"
    kind = next((kind for kind in ("rack", "partition") if kind in labels), "system")
    many = f"{evidence.observed:g} of {evidence.n:g} hosts" if evidence.observed and evidence.n else "many hosts"
    took = "" if factor is None else f"; {_took(factor)}"
    since = moment(rack.alert.starts)
    return (
        Piece(f"{which} {verb} in {kind} "),
        Piece(labels[kind], f"/alerts/{rack.alert.fingerprint}"),
        Piece(f"{rack.known_by}, where {many} have behaved abnormally since {since} UTC{took}."),
    )


def _took(factor: float) -> str:
    return f"the run took {factor:.2f} times as long as usual"


def _slowed_by(service: Service, stay: _Stay, host: str, factor: float, alert: Alert | None) -> Text:
    if alert is None:
        return stay.host(host, f"was abnormal during the run; {_took(factor)}.")
    return (*_abnormal_host(service, stay, host, alert)[:-1], Piece(f"; {_took(factor)}."))


def _abnormal_host(service: Service, stay: _Stay, host: str, alert: Alert) -> Text:
    """Return how a host differs from the other hosts of the job, or from its own past."""
    ratio = _speed(alert)
    if alert.labels.get("alertname") != "StragglerHost":
        text = f"behaved abnormally{_resources(alert)}"
    elif ratio is not None:
        text = f"ran at {'half' if round(ratio, 1) == 0.5 else f'{share(ratio)} of'} the speed of the others"
    else:
        text = f"differed from the others{_against_others(alert)}"
    since = _since(service, stay.system, host, alert)
    return *stay.host(host, f"{text} "), Piece(f"since {since}", f"/alerts/{alert.fingerprint}"), Piece(".")


def _against_others(alert: Alert) -> str:
    evidence, name = alert.evidence, _resource(alert)
    if evidence.observed is None or evidence.expected is None or not name:
        return ""
    return f" ({resource_name(name)} {measured(name, evidence.observed)} against {measured(name, evidence.expected)})"


def _speed(alert: Alert) -> float | None:
    """Return the speed of a host as a share of its peers' speed; None if the alert compares something else."""
    evidence, name = alert.evidence, _resource(alert)
    is_speed = any(part in name for part in SPEEDS)
    if not is_speed or evidence.observed is None or not evidence.expected or evidence.observed >= evidence.expected:
        return None
    return evidence.observed / evidence.expected


def _resources(alert: Alert) -> str:
    names = [name for name, value in alert.evidence.detail.items() if isinstance(value, str) and not is_power(name)]
    return f" ({', '.join(map(resource_name, names[:COUNTERS_SHOWN]))})" if names else ""


def _resource(alert: Alert) -> str:
    return next((name for name in alert.evidence.detail if name not in ("job", "jobs")), "")


def _slows(alert: Alert) -> bool:
    """Return whether an alert is about more than the power of a host, which alone slows no run."""
    names = [name for name in alert.evidence.detail if name not in ("job", "jobs")]
    return not names or not all(is_power(name) for name in names)


def _since(service: Service, system: str, host: str, alert: Alert) -> str:
    view = service.reading(system).host(host) if alert.ends is None else None
    finding = view.finding if view is not None else None
    began = (finding.differs_since or finding.anomalous_since) if finding is not None else None
    return f"{moment(min(began or alert.starts, alert.starts))} UTC"


def _of_disturbance(alerts: Alerts, run: RecentRun) -> Iterator[Text]:
    for alert in alerts.entries:
        if alert.labels.get("alertname") == "DisturbedRun" and run.run_id in alert.evidence.runs:
            counters = alert.evidence.detail.get("counters", "its counters")
            yield (
                Piece("The run was "),
                Piece("disturbed", f"/alerts/{alert.fingerprint}"),
                Piece(f": the rate of {counters} was far from usual."),
            )


def _of_load(job: JobPrediction | None, expected_s: float | None, there_before: Text = ()) -> Iterator[Text]:
    """Yield the run time that the load of the hosts at the start implied, if clearly more than without the load."""
    load = job.under_load if job is not None else None
    if load is None or load.q50_s is None or not expected_s or load.q50_s < LOADED * expected_s:
        return
    expected = f"{rounded(load.q50_s)} were expected instead of {rounded(expected_s)}"
    if is_of_network(load):
        waits = f"The job waits for the network for {share(load.communication_share)} of its time"
        left = f"{bandwidth_left(load)} were left"
        yield (Piece(f"The network was loaded when the job started: {expected}. {waits}, and {left}."),)
        return
    yield (Piece(f"The hosts were loaded when the job started: {expected}."), *there_before)


def _there_before(service: Service, job: JobPrediction, stay: _Stay) -> Text:
    """Return the sentence about jobs that ran on the hosts before this job started; empty if none is known."""
    before = [other for other in service.reading(job.system).neighbours(job.job_id) if other.start_ms < stay.start_ms]
    if not before:
        return ()
    were = "was" if len(before) == 1 else "were"
    return (Piece(" "), *_jobs(job.system, before, len(stay.hosts)), Piece(f" {were} already running there."))


def neighbours(service: Service, job: JobPrediction) -> Text:
    """Return the sentence about other jobs on the hosts of a running job; empty if none is known."""
    jobs, hosts = (
        service.reading(job.system).neighbours(job.job_id),
        service.reading(job.system).hosts_of_job(job.job_id),
    )
    if not jobs:
        return ()
    return (*_jobs(job.system, jobs, len(hosts)), Piece(f" run{'s' if len(jobs) == 1 else ''} on the same hosts."))


def _jobs(system: str, jobs: Sequence[Neighbour], hosts: int) -> Iterator[Piece]:
    """Yield linked job names; each with its number of shared hosts unless it shares all."""
    yield Piece("Job " if len(jobs) == 1 else "Jobs ")
    shown = jobs[:NEIGHBOURS_SHOWN]
    for place, job in enumerate(shown):
        if place:
            yield Piece(" and " if place == len(jobs) - 1 else ", ")
        yield Piece(job.job_id, f"/jobs/{quote(system, safe='')}/{quote(job.job_id, safe='')}")
        if job.hosts < hosts:
            yield Piece(f" (on {job.hosts} of {hosts})")
    if len(jobs) > len(shown):
        yield Piece(f" and {len(jobs) - len(shown)} more")


def _point(service: Service, job: JobPrediction) -> CurvePoint | None:
    entry = service.prediction(id_of(job)) if job.application is not None else None
    return point_at(entry, job.n)


def _of_neighbours(run: RecentRun, others: Sequence[RecentRun]) -> Iterator[Text]:
    shares = [other.shared for other in others if other.shared is not None]
    if run.shared is None or len(shares) < OTHERS_MIN or run.shared < median(shares) + UNUSUAL:
        return
    usual = f" (usually {share(median(shares))})" if median(shares) else ""
    yield (Piece(f"Other jobs shared the hosts for {share(run.shared)} of the time{usual}."),)


def _of_application(alerts: Alerts, stay: _Stay, names: Sequence[str] = OF_SLOW_APPLICATION) -> Iterator[Text]:
    for alert in _about_application(alerts, stay, names):
        is_size, evidence = alert.labels.get("alertname") == "SlowSize", alert.evidence
        text = f" at {sized(stay.n, key_of(stay.application_id).unit)}" if is_size and stay.n is not None else ""
        if evidence.observed and evidence.expected:
            compared = "as its other sizes suggest" if is_size else "as before"
            text += f" has taken {evidence.observed / evidence.expected:.2f} times as long {compared}"
        else:
            text += " has changed"
        yield (
            *_application(stay, f"{text} "),
            Piece(f"since {moment(_changed(alert))} UTC", f"/alerts/{alert.fingerprint}"),
            Piece(f"{_with_counter(alert)}."),
        )


def _application(stay: _Stay, text: str) -> Text:
    """Return the beginning of a sentence about the application of a run, up to `text`."""
    name, href = key_of(stay.application_id).application, f"/applications/{link(stay.application_id)}"
    return Piece("Other runs are affected, too: "), Piece(name, href), Piece(text)


def _with_counter(alert: Alert) -> str:
    """Return the counter that changed together with an application, and by how much; empty if none did."""
    detail = alert.evidence.detail
    before, since = detail.get("counter_before"), detail.get("counter_since")
    if not isinstance(before, float) or not isinstance(since, float) or before <= 0:
        return ""
    return f", with {detail.get('counter')} at {since / before:.2f} times its former rate"


def _changed(alert: Alert) -> str:
    """Return when the application of an alert changed, or when the alert began if the evidence has no valid time."""
    since = alert.evidence.detail.get("since")
    if not isinstance(since, str) or not since:
        return alert.starts
    try:
        parse_rfc3339(since)
    except InvalidInputError:
        return alert.starts
    return since


def _about_application(alerts: Alerts, stay: _Stay, names: Sequence[str]) -> Iterator[Alert]:
    """Yield the alerts with these names about the application of a run, at its size and time."""
    key = key_of(stay.application_id)
    for name in names:
        for alert in _of_kind(alerts, name, stay):
            labels = alert.labels
            is_same = all(labels.get(part) == getattr(key, part) for part in ("application", "system", "input", "unit"))
            at_size = "n" not in labels or (stay.n is not None and labels["n"] == f"{stay.n:g}")
            if is_same and at_size and stay.meets(alerts, alert, _changed(alert)):
                yield alert


def _of_failures(alerts: Alerts, stay: _Stay) -> Iterator[Text]:
    """Yield the host of a run, and its application, if they fail more often than expected."""
    for alert in _of_kind(alerts, "HostFailureRate", stay):
        host = alert.labels.get("host", "")
        if host in stay.hosts and stay.meets(alerts, alert):
            more = Piece("failed more runs than expected", f"/alerts/{alert.fingerprint}")
            yield (*stay.host(host, "has "), more, Piece("."))
    for alert in _about_application(alerts, stay, ("ApplicationFailureRate",)):
        more = Piece("fails more often than before", f"/alerts/{alert.fingerprint}")
        yield (*_application(stay, " "), more, Piece("."))


def _late(job: JobPrediction, point: CurvePoint | None, now_ms: int) -> str:
    """Return that a job has run longer than such runs take; empty if it has not."""
    ran_s = (now_ms - parse_rfc3339(job.start)) / 1000
    if point is None or ran_s <= point.high_s:
        return ""
    return f"The job has run for {rounded(ran_s)}; such runs take up to {rounded(point.high_s)}."


def _others(service: Service, run: RecentRun) -> list[RecentRun]:
    """Return completed runs of the same application at the same size."""
    runs = service.runs(run.application_id) if run.application_id else ()
    return [other for other in runs if other.n == run.n and other.run_id != run.run_id and other.state == SUCCESS]


def _remarks(run: RecentRun, others: Sequence[RecentRun]) -> Iterator[str]:
    """Yield unusual power and counters: no cause of a slow run, but a place to look."""
    powers = [other.power_w for other in others if other.power_w]
    if run.power_w and len(powers) >= OTHERS_MIN and abs(run.power_w / median(powers) - 1) > UNUSUAL:
        ratio = run.power_w / median(powers)
        yield f"The run drew {share(abs(ratio - 1))} {'more' if ratio > 1 else 'less'} power than other runs of its size."
    unusual = unusual_counters(run.counters, [other.counters for other in others if other.counters])
    if unusual:
        text = ", ".join(f"{name} {ratio:.2f} times as high" for name, ratio in unusual)
        yield f"Counter rates compared with other runs of this size: {text}."


def unusual_counters(counters: dict[str, float], others: Sequence[dict[str, float]]) -> list[tuple[str, float]]:
    """Return the counters outside the range of all other runs, each with its ratio to the median, the farthest first."""
    unusual = []
    for name, value in counters.items():
        rates = [other[name] for other in others if name in other]
        usual = median(rates) if len(rates) >= OTHERS_MIN else 0.0
        if usual <= 0 or value <= 0 or min(rates) <= value <= max(rates):
            continue
        if abs(value / usual - 1) > UNUSUAL_COUNTER:
            unusual.append((name, value / usual))
    return sorted(unusual, key=lambda pair: -abs(math.log(pair[1])))[:COUNTERS_SHOWN]


def _unknown(stay: _Stay) -> list[str]:
    if stay.hosts:
        return []
    return [f"The hosts of the {'run' if stay.ended else 'job'} are unknown, so they were not examined."]
