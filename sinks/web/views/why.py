"""Explains why a run took as long as it did, from its hosts, their load, its counters and its application.

The strongest measured cause comes first. Without a measured cause the page says so, because a guess is no cause.
"""

import math
from collections.abc import Iterator, Sequence
from statistics import median
from typing import Final

import msgspec
from markupsafe import Markup

from processors.advice import is_near, point_at
from processors.alerts.rules import RACK_ANOMALY
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import SUCCESS
from processors.contracts.load import UnderLoad
from processors.contracts.names import measured, parse_rfc3339, resource_name
from processors.contracts.nodes import expand_all
from processors.contracts.outputs import Alert, CurvePoint, JobPrediction
from processors.contracts.service import Neighbour, RecentRun, Service
from processors.contracts.telemetry import is_power
from processors.jobs.lifecycle import UNDER_LOAD
from sinks.web.formatting import linked, moment, rounded, share, sized
from sinks.web.queries import alert_link, application_link, host_page, id_of, is_in_rack, job_link, key_of
from sinks.web.views.alert_states import Alerts

BANDWIDTH: Final = "bandwidth"
HOSTS_MAX: Final = 16_384  # maximum hosts of one job
OTHERS_MIN: Final = 5  # minimum number of runs of the same size to know the usual values
COUNTERS_SHOWN: Final = 3
NEIGHBOURS_SHOWN: Final = 5
UNUSUAL: Final = 0.1  # smaller relative deviations of power and shared time are ignored
UNUSUAL_COUNTER: Final = 0.2
LOADED: Final = 1.1  # minimum ratio of run time under load to run time without load for the load to count as a cause
SHORT_S: Final = 10.0  # in shorter runs, start-up and shutdown take about as long as the work itself
OF_SLOW_APPLICATION: Final = ("Regression", "SlowSize")
NO_CAUSE: Final = "No measurement explains why."
SPEEDS: Final = ("frequency", "flops", "clock")  # parts of resource names that mean a speed


class Why(msgspec.Struct, frozen=True):
    """The reasons for the run time of a run: the strongest one (`lead`), all others, and unusual measurements that prove no cause."""

    lead: Markup
    others: Sequence[Markup] = ()
    remarks: Sequence[str] = ()


class _Stay(msgspec.Struct, frozen=True):
    """The stay of a running or ended job on its hosts: where, when, and for which application."""

    service: Service
    known_alerts: Alerts
    system: str
    hosts: tuple[str, ...]
    start_ms: int
    end_ms: int
    application_id: str
    n: float | None
    partition: str | None = None

    def host(self, name: str) -> Markup:
        """Return the words "Host NAME" with a link, and the number of the run's hosts if there are several; the caller adds the rest."""
        which = f" (one of {len(self.hosts)})" if len(self.hosts) > 1 else ""
        return Markup("Host {}{}").format(linked(name, host_page(self.system, name)), which)

    def alerts(self, *names: str) -> Iterator[Alert]:
        """Yield the alerts of this system with one of `names` whose condition held during the run.

        Pending alerts are excluded, because their condition is not confirmed yet.
        """
        for name in names:
            for alert in self.known_alerts.entries:
                if alert.name != name or alert.labels.get("system") != self.system:
                    continue
                ends_ms = parse_rfc3339(alert.ends) if alert.ends else self.start_ms
                held = parse_rfc3339(_changed(alert)) <= self.end_ms and ends_ms >= self.start_ms
                if held and self.known_alerts.state(alert) != "pending":
                    yield alert

    def alerts_of_application(self, *names: str) -> Iterator[Alert]:
        """Yield the alerts with one of `names` about the application of the run; an alert about a size must name the size of the run."""
        key = key_of(self.application_id)
        for alert in self.alerts(*names):
            labels = alert.labels
            is_same = all(labels.get(part) == getattr(key, part) for part in ("application", "system", "input", "unit"))
            if is_same and ("n" not in labels or (self.n is not None and labels["n"] == f"{self.n:g}")):
                yield alert


def prediction_before(service: Service, run: RecentRun) -> JobPrediction | None:
    """Return the prediction that was published while a run was running; None if it is no longer stored."""
    job = service.ended(run.system, run.job_id)
    return job if job is not None and parse_rfc3339(job.start) == run.start_ms else None


def bandwidth_left(load: UnderLoad) -> str:
    """Return the bandwidth left on the busiest host as text, followed by the usual bandwidth left if it is known."""
    usual = "" if load.baseline_bandwidth is None else f" (usually {measured(BANDWIDTH, load.baseline_bandwidth)})"
    return f"{measured(BANDWIDTH, load.bandwidth)}{usual}"


def is_of_network(load: UnderLoad) -> bool:
    """Return whether network load slows a run more than the load of its hosts' processors."""
    part, left, usual = load.communication_share, load.bandwidth, load.baseline_bandwidth
    if not part or not left or not usual or load.load is None:
        return False
    by_network, by_load = usual / left, math.pow(load.load / load.baseline_load, load.follows)
    return part * (by_network - 1) > (1 - part) * (by_load - 1)


def why_ended(service: Service, run: RecentRun) -> Why:
    """Return the causes of an ended run's run time."""
    alike, predicted = _alike(service, run), run.predicted
    remarks = list(_remarks(run, alike))
    if run.state == SUCCESS and predicted is not None:
        if max(run.run_time_s, predicted.run_time_s) < SHORT_S:
            return Why(Markup("The run was too short to explain: start-up and shutdown dominate."))
        if run.slowed_by is None and predicted.holds(run.run_time_s):
            loaded = " under the load of its hosts" if predicted.source == UNDER_LOAD else ""
            return Why(Markup("The run took as long as expected{}.").format(loaded), (), remarks)
        if run.slowed_by is None and is_near(run.run_time_s, predicted):
            return Why(Markup("The run took nearly as long as expected."), (), remarks)
    hosts, application_id = expanded(run.hosts), run.application_id or ""
    stay = _Stay(
        service, Alerts.of(service), run.system, hosts, run.start_ms, run.end_ms, application_id, run.n, run.partition
    )
    if not hosts:
        remarks.append("The hosts of the run are unknown, so they were not examined.")
    causes = list(_causes_of_run(run, stay, alike))
    return _why(causes, f"{_deviation(run)}{_unexplained(run)}", remarks)


def why_running(service: Service, job: JobPrediction, now_ms: int) -> Why:
    """Return the causes that slow a running job, or the statement that no measurement shows a cause."""
    hosts, start_ms = tuple(service.reading(job.system).hosts_of_job(job.job_id)), parse_rfc3339(job.start)
    stay = _Stay(service, Alerts.of(service), job.system, hosts, start_ms, now_ms, id_of(job), job.n, job.partition)
    point = point_at(service.prediction(id_of(job)), job.n) if job.application is not None else None
    causes = [
        *_of_hosts(stay, None),
        *_of_load(job, point.run_time_s if point else None, _there_before(job, stay)),
        *_of_application(stay, *OF_SLOW_APPLICATION),
    ]
    remarks = [] if hosts else ["The hosts of the job are unknown, so they were not examined."]
    return _why(causes, _late(job, point, now_ms), remarks)


def _why(causes: Sequence[Markup], otherwise: str, remarks: Sequence[str]) -> Why:
    return Why(causes[0], causes[1:], remarks) if causes else Why(Markup("{}").format(otherwise), (), remarks)


def expanded(lists: tuple[str, ...]) -> tuple[str, ...]:
    """Return the host names in host lists, each once; empty if the lists are malformed or have too many hosts."""
    try:
        return tuple(dict.fromkeys(expand_all(lists, HOSTS_MAX)))
    except InvalidInputError:
        return ()


def _deviation(run: RecentRun) -> str:
    """Return the deviation of a completed run from its prediction as text; empty for other runs."""
    predicted = run.predicted
    if run.state != SUCCESS or predicted is None or predicted.run_time_s <= 0:
        return ""
    ratio = run.run_time_s / predicted.run_time_s
    if ratio >= 2:
        return f"The run took {ratio:.2f} times as long as expected. "
    return f"The run took {share(abs(ratio - 1))} {'longer' if ratio > 1 else 'less time'} than expected. "


def _unexplained(run: RecentRun) -> str:
    if run.session:
        return "The run was an interactive session: its user decides how long it takes."
    if run.state != SUCCESS:
        return "No measurement explains how the run ended."
    return NO_CAUSE if run.predicted is not None else "The run had no prediction, so its run time cannot be judged."


def _causes_of_run(run: RecentRun, stay: _Stay, alike: Sequence[RecentRun]) -> Iterator[Markup]:
    """Yield the causes of a run that took longer than expected or did not complete, strongest first."""
    predicted, limit_s = run.predicted, run.time_limit_s
    if run.state == "TIMEOUT" and predicted is not None and limit_s is not None and limit_s < predicted.high_s:
        limit, longest = rounded(limit_s), rounded(predicted.high_s)
        yield Markup("The time limit of {} was too short: such runs take up to {}.").format(limit, longest)
        return
    if run.state == SUCCESS and predicted is None:
        return
    if run.state == SUCCESS and predicted is not None and run.run_time_s < predicted.low_s:
        yield from _of_application(stay, "Improvement")
        return
    yield from _of_hosts(stay, run)
    if run.state not in (SUCCESS, "TIMEOUT"):
        yield from _of_failures(stay)
        return
    yield from _of_disturbance(stay, run)
    if predicted is not None and predicted.source != UNDER_LOAD:  # otherwise the prediction already includes the load
        yield from _of_load(prediction_before(stay.service, run), predicted.run_time_s)
    yield from _of_neighbours(run, alike)
    yield from _of_application(stay, *OF_SLOW_APPLICATION)


class _Rack(msgspec.Struct, frozen=True):
    """An alert about a rack, and the hosts of a run in it. If the rack is unknown, the alert is about a partition or system."""

    alert: Alert
    hosts: frozenset[str]
    known_by: str = ""


def _of_hosts(stay: _Stay, run: RecentRun | None) -> Iterator[Markup]:
    """Yield sentences about abnormal hosts and racks during the run. The host that slowed the run, if known, comes first."""
    by_host: dict[str, Alert] = {}
    for alert in stay.alerts("PeerDifference", "HostAnomaly"):
        host = alert.labels.get("host", "")
        if host in stay.hosts and _slows(alert):
            by_host.setdefault(host, alert)
    racks = list(_racks(stay))
    slowed = run.slowed_by if run is not None else None
    if slowed is not None:
        took = f"; the run took {slowed.factor:.2f} times as long as usual"
        slow_rack = next((rack for rack in racks if slowed.host in rack.hosts), None)
        if slowed.host in by_host:
            yield _abnormal_host(stay, slowed.host, by_host.pop(slowed.host), took)
        elif slow_rack is not None:
            racks.remove(slow_rack)
            yield _in_rack(stay, slow_rack, took)
        else:
            yield Markup("{} was abnormal during the run{}.").format(stay.host(slowed.host), took)
    for host, alert in by_host.items():
        yield _abnormal_host(stay, host, alert)
    for rack in racks:
        yield _in_rack(stay, rack)


def _racks(stay: _Stay) -> Iterator[_Rack]:
    """Yield the racks that were abnormal while the run used hosts in them."""
    for alert in stay.alerts(RACK_ANOMALY.name):
        hosts = frozenset(host for host in stay.hosts if _is_in(stay, host, alert.labels))
        if hosts and _slows(alert):
            racks = (stay.service.rack(stay.system, host) for host in hosts)
            yield _Rack(alert, hosts, max((rack.known_by for rack in racks if rack is not None), default=""))


def _is_in(stay: _Stay, host: str, labels: dict[str, str]) -> bool:
    """Return whether an alert about a rack covers a host; without a rack, it covers the hosts without a known rack in its partition or system."""
    if "rack" in labels:
        return is_in_rack(stay.service, stay.system, host, labels)
    return stay.service.rack(stay.system, host) is None and labels.get("partition") in (None, stay.partition)


def _in_rack(stay: _Stay, rack: _Rack, took: str = "") -> Markup:
    """Return the sentence about the run's hosts in a rack with many abnormal hosts."""
    labels, evidence = rack.alert.labels, rack.alert.evidence
    total, inside = len(stay.hosts), len(rack.hosts)
    kind = next((kind for kind in ("rack", "partition") if kind in labels), "system")
    return Markup("{} {} in {} {}{}, where {} have behaved abnormally since {} UTC{}.").format(
        "The host" if total == 1 else f"All {total} hosts" if inside == total else f"{inside} of {total} hosts",
        "is" if inside == 1 else "are",
        kind,
        linked(labels[kind], alert_link(rack.alert)),
        rack.known_by,
        f"{evidence.observed:g} of {evidence.n:g} hosts" if evidence.observed and evidence.n else "many hosts",
        moment(rack.alert.starts),
        took,
    )


def _abnormal_host(stay: _Stay, host: str, alert: Alert, took: str = "") -> Markup:
    """Return the sentence about how a host differs from the other hosts of the job, or from its own past."""
    text = f"behaved abnormally{_resources(alert)}" if alert.name != "PeerDifference" else _against_others(alert)
    since = linked(f"since {_since(stay, host, alert)}", alert_link(alert))
    return Markup("{} {} {}{}.").format(stay.host(host), text, since, took)


def _against_others(alert: Alert) -> str:
    """Return how a host differs from its peers: in its speed, or in another measurement."""
    observed, expected, name = alert.evidence.observed, alert.evidence.expected, next(iter(_resource_names(alert)), "")
    if observed is None or expected is None or not name:
        return "differed from the others"
    if 0 <= observed < expected and any(part in name for part in SPEEDS):
        ratio = observed / expected
        return f"ran at {'half' if round(ratio, 1) == 0.5 else f'{share(ratio)} of'} the speed of the others"
    compared = f"{resource_name(name)} {measured(name, observed)} against {measured(name, expected)}"
    return f"differed from the others ({compared})"


def _resources(alert: Alert) -> str:
    names = [name for name, value in alert.evidence.detail.items() if isinstance(value, str) and not is_power(name)]
    return f" ({', '.join(map(resource_name, names[:COUNTERS_SHOWN]))})" if names else ""


def _resource_names(alert: Alert) -> list[str]:
    return [name for name in alert.evidence.detail if name not in ("job", "jobs")]


def _slows(alert: Alert) -> bool:
    """Return whether an alert is about more than the power of a host; power alone slows no run."""
    names = _resource_names(alert)
    return not names or not all(map(is_power, names))


def _since(stay: _Stay, host: str, alert: Alert) -> str:
    view = stay.service.reading(stay.system).host(host) if alert.ends is None else None
    finding = view.finding if view is not None else None
    began = (finding.differs_since or finding.anomalous_since) if finding is not None else None
    return f"{moment(min(began or alert.starts, alert.starts))} UTC"


def _of_disturbance(stay: _Stay, run: RecentRun) -> Iterator[Markup]:
    for alert in stay.known_alerts.entries:
        if alert.name == "DisturbedRun" and run.run_id in alert.evidence.runs:
            counters = alert.evidence.detail.get("counters", "its counters")
            disturbed = linked("disturbed", alert_link(alert))
            yield Markup("The run was {}: the rate of {} was far from usual.").format(disturbed, counters)


def _of_load(job: JobPrediction | None, expected_s: float | None, there_before: str = "") -> Iterator[Markup]:
    """Yield a sentence with the run time that was expected under the hosts' load at the start, if it clearly exceeds `expected_s`."""
    load = job.under_load if job is not None else None
    if load is None or load.q50_s is None or not expected_s or load.q50_s < LOADED * expected_s:
        return
    expected = f"{rounded(load.q50_s)} were expected instead of {rounded(expected_s)}"
    if is_of_network(load):
        yield Markup(
            "The network was loaded when the job started: {}. "
            "The job waits for the network for {} of its time, and {} were left."
        ).format(expected, share(load.communication_share), bandwidth_left(load))
    else:
        yield Markup("The hosts were loaded when the job started: {}.{}").format(expected, there_before)


def _there_before(job: JobPrediction, stay: _Stay) -> Markup:
    """Return the sentence about jobs that ran on the hosts before this job started; empty if none is known."""
    neighbours = stay.service.reading(job.system).neighbours(job.job_id)
    before = [neighbour for neighbour in neighbours if neighbour.start_ms < stay.start_ms]
    if not before:
        return Markup()
    verb = "was" if len(before) == 1 else "were"
    return Markup(" {} {} already running there.").format(_jobs(job.system, before, len(stay.hosts)), verb)


def neighbours(service: Service, job: JobPrediction) -> Markup:
    """Return the sentence about other jobs on the hosts of a running job; empty if none is known."""
    views = service.reading(job.system)
    jobs = views.neighbours(job.job_id)
    if not jobs:
        return Markup()
    names = _jobs(job.system, jobs, len(views.hosts_of_job(job.job_id)))
    return Markup("{} {} on the same hosts.").format(names, "runs" if len(jobs) == 1 else "run")


def _jobs(system: str, jobs: Sequence[Neighbour], hosts: int) -> Markup:
    """Return linked job names, each with its number of shared hosts unless it shares all hosts."""
    names = []
    for job in jobs[:NEIGHBOURS_SHOWN]:
        on = f" (on {job.hosts} of {hosts})" if job.hosts < hosts else ""
        names.append(Markup("{}{}").format(linked(job.job_id, job_link(system, job.job_id)), on))
    if len(jobs) == 1:
        return Markup("Job {}").format(names[0])
    if len(jobs) > NEIGHBOURS_SHOWN:
        return Markup("Jobs {} and {} more").format(Markup(", ").join(names), len(jobs) - NEIGHBOURS_SHOWN)
    return Markup("Jobs {} and {}").format(Markup(", ").join(names[:-1]), names[-1])


def _of_neighbours(run: RecentRun, alike: Sequence[RecentRun]) -> Iterator[Markup]:
    shares = [other.shared for other in alike if other.shared is not None]
    if run.shared is None or len(shares) < OTHERS_MIN or run.shared < median(shares) + UNUSUAL:
        return
    usual = f" (usually {share(median(shares))})" if median(shares) else ""
    yield Markup("Other jobs shared the hosts for {} of the time{}.").format(share(run.shared), usual)


def _of_application(stay: _Stay, *names: str) -> Iterator[Markup]:
    for alert in stay.alerts_of_application(*names):
        is_size, evidence = alert.name == "SlowSize", alert.evidence
        text = f" at {sized(stay.n, key_of(stay.application_id).unit)}" if is_size and stay.n is not None else ""
        if evidence.observed and evidence.expected:
            compared = "as its other sizes suggest" if is_size else "as before"
            text += f" has taken {evidence.observed / evidence.expected:.2f} times as long {compared}"
        else:
            text += " has changed"
        since = linked(f"since {moment(_changed(alert))} UTC", alert_link(alert))
        yield Markup("{}{} {}{}.").format(_application(stay), text, since, _with_counter(alert))


def _application(stay: _Stay) -> Markup:
    """Return the words "Other runs are affected, too" with a link to the application, to which the caller adds the reason."""
    name = linked(key_of(stay.application_id).application, application_link(stay.application_id))
    return Markup("Other runs are affected, too: {}").format(name)


def _with_counter(alert: Alert) -> str:
    """Return the counter that changed together with an application, and by how much; empty if no counter changed."""
    detail = alert.evidence.detail
    before, since = detail.get("counter_before"), detail.get("counter_since")
    if not isinstance(before, float) or not isinstance(since, float) or before <= 0:
        return ""
    return f", with {detail.get('counter')} at {since / before:.2f} times its former rate"


def _changed(alert: Alert) -> str:
    """Return the time in `since` of the alert's evidence; the start of the alert if the evidence has no valid time."""
    since = str(alert.evidence.detail.get("since", ""))
    try:
        parse_rfc3339(since)
    except InvalidInputError:
        return alert.starts
    return since


def _of_failures(stay: _Stay) -> Iterator[Markup]:
    """Yield sentences about the host and the application of a run if they fail more often than expected."""
    for alert in stay.alerts("HostFailureRate"):
        host = alert.labels.get("host", "")
        if host in stay.hosts:
            more = linked("failed more runs than expected", alert_link(alert))
            yield Markup("{} has {}.").format(stay.host(host), more)
    for alert in stay.alerts_of_application("ApplicationFailureRate"):
        more = linked("fails more often than before", alert_link(alert))
        yield Markup("{} {}.").format(_application(stay), more)


def _late(job: JobPrediction, point: CurvePoint | None, now_ms: int) -> str:
    """Return the sentence that a job has run longer than its band, or else that no measurement shows a cause of slowness."""
    ran_s = (now_ms - parse_rfc3339(job.start)) / 1000
    if point is None or ran_s <= point.high_s:
        return "No measurement shows that anything slows the job."
    return f"The job has run for {rounded(ran_s)}; such runs take up to {rounded(point.high_s)}. {NO_CAUSE}"


def _alike(service: Service, run: RecentRun) -> list[RecentRun]:
    """Return the other completed runs of the same application at the same size."""
    runs = service.runs(run.application_id) if run.application_id else ()
    return [other for other in runs if other.n == run.n and other.run_id != run.run_id and other.state == SUCCESS]


def _remarks(run: RecentRun, alike: Sequence[RecentRun]) -> Iterator[str]:
    """Yield remarks on unusual power and counters, which are no cause of a slow run but a starting point for a search."""
    powers = [other.power_w for other in alike if other.power_w]
    if run.power_w and len(powers) >= OTHERS_MIN and abs(run.power_w / median(powers) - 1) > UNUSUAL:
        ratio = run.power_w / median(powers)
        yield f"The run drew {share(abs(ratio - 1))} {'more' if ratio > 1 else 'less'} power than other runs of its size."
    unusual = unusual_counters(run.counters, [other.counters for other in alike if other.counters])
    if unusual:
        text = ", ".join(f"{name} {ratio:.2f} times as high" for name, ratio in unusual)
        yield f"Counter rates compared with other runs of this size: {text}."


def unusual_counters(counters: dict[str, float], of_others: Sequence[dict[str, float]]) -> list[tuple[str, float]]:
    """Return the counters outside the range of all other runs, each with its ratio to their median, largest deviation first."""
    unusual = []
    for name, value in counters.items():
        rates = [rates_by_name[name] for rates_by_name in of_others if name in rates_by_name]
        usual = median(rates) if len(rates) >= OTHERS_MIN else 0.0
        if usual <= 0 or value <= 0 or min(rates) <= value <= max(rates):
            continue
        if abs(value / usual - 1) > UNUSUAL_COUNTER:
            unusual.append((name, value / usual))
    return sorted(unusual, key=lambda pair: -abs(math.log(pair[1])))[:COUNTERS_SHOWN]
