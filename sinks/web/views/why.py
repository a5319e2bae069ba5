"""Why a run took as long as it did: what was measured of its hosts, their load, its counters and its application, in one place.

The strongest cause that stands on a measurement comes first. Where none does, the page says so: a guess is no cause.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log
from statistics import fmean, median
from typing import Final
from urllib.parse import quote

import msgspec

from processors.alerts.rules import RACK_ANOMALY
from processors.contracts.errors import InvalidInputError
from processors.contracts.events import SUCCESS
from processors.contracts.hosts import HostLines, Line
from processors.contracts.load import UnderLoad
from processors.contracts.names import host_link, measured, parse_rfc3339, resource_name
from processors.contracts.nodes import expand_all, spread
from processors.contracts.outputs import Alert, CurvePoint, JobPrediction, Neighbour, PredictedAtStart, RecentRun
from processors.contracts.service import Service
from processors.contracts.telemetry import is_power
from sinks.web.filters import id_of, key_of
from sinks.web.formatting import moment, rounded, share, sized
from sinks.web.queries import is_in_rack, link, point_at
from sinks.web.views.alert_states import Alerts
from sinks.web.views.job_messages import is_near

SAMPLED_HOSTS_MAX: Final = 16  # of a run that are asked: of more, so many spread evenly
BANDWIDTH: Final = "bandwidth"
MEASURED: Final = ("cpu_available", "load1")  # what tells the load of a host, and is measured nearly everywhere


class MeasuredLoad(msgspec.Struct, frozen=True):
    """A resource of the hosts of a run while it ran: the mean of all, and that of the host with the most load."""

    mean: float
    worst: float


def prediction_before(service: Service, run: RecentRun) -> JobPrediction | None:
    """Return what was predicted of a run while it ran; None where that is no longer known."""
    found = service.ended(run.system, run.job_id)
    return found if found is not None and parse_rfc3339(found.start) == run.start_ms else None


def stretched_by(service: Service, run: RecentRun) -> float | None:
    """Return how many times as long as on idle hosts a run was to take by the load at its start; None where nobody knows."""
    before = prediction_before(service, run)
    return before.under_load.load if before is not None and before.under_load is not None else None


def bandwidth_left(load: UnderLoad) -> str:
    """Return what the host has left that has least bandwidth, and what is usual."""
    usual = "" if load.baseline_bandwidth is None else f", usually {measured(BANDWIDTH, load.baseline_bandwidth)}"
    return f"{measured(BANDWIDTH, load.bandwidth)}{usual}"


def is_of_network(load: UnderLoad) -> bool:
    """Return whether the network of its hosts stretches a run by more than their processors do."""
    share, left, usual = load.communication_share, load.bandwidth, load.baseline_bandwidth
    if not share or not left or not usual or load.load is None:
        return False
    by_network, by_load = usual / left, math.pow(load.load / load.baseline_load, load.follows)
    return share * (by_network - 1) > (1 - share) * (by_load - 1)


def measured_load(service: Service, run: RecentRun) -> dict[str, MeasuredLoad]:
    """Return what the hosts of a run measured of their load while it ran, by resource; nothing where no line goes back so far."""
    try:
        _, names = spread(run.hosts, SAMPLED_HOSTS_MAX)
    except InvalidInputError:
        return {}
    lines = [found for name in names if (found := service.reading(run.system).host_lines(name)) is not None]
    loads = {resource: [*_means(lines, resource, run)] for resource in MEASURED}
    return {
        resource: MeasuredLoad(fmean(means), min(means) if resource == "cpu_available" else max(means))
        for resource, means in loads.items()
        if means
    }


def _means(lines: Sequence[HostLines], resource: str, run: RecentRun) -> Iterator[float]:
    """Yield the mean of a resource over the time of a run, of each host that measured it then."""
    for of_host in lines:
        found = _within(of_host.day, resource, run) or _within(of_host.hour, resource, run)
        if found:
            yield fmean(found)


def _within(line: Line, resource: str, run: RecentRun) -> list[float]:
    band = line.resources.get(resource)
    if band is None:
        return []
    step_ms = line.step_s * 1000
    middles = (line.start_ms + place * step_ms + step_ms / 2 for place in range(len(band.mean)))
    pairs = zip(middles, band.mean, strict=True)
    return [mean for time_ms, mean in pairs if mean is not None and run.start_ms <= time_ms <= run.end_ms]


HOSTS_MAX: Final = 16_384  # of one job
OTHERS_MIN: Final = 5  # runs of the same size: of fewer nobody knows what is usual
COUNTERS_SHOWN: Final = 3
NEIGHBOURS_SHOWN: Final = 5
UNUSUAL: Final = 0.1  # off by so little, power and shared hosts are as usual
UNUSUAL_COUNTER: Final = 0.2
LOADED: Final = 1.1  # times as long by the load of its hosts
SHORT_S: Final = 10.0  # starting and ending take as long
OF_HOST: Final = ("StragglerHost", "HostAnomaly")
OF_SLOW_APPLICATION: Final = ("Regression", "SlowSize")
NOTHING: Final = "Nothing that was measured explains it."
SPEEDS: Final = ("frequency", "flops", "clock")  # parts of names of resources that are a speed


class Piece(msgspec.Struct, frozen=True):
    """A part of a text, and the address it leads to; empty where it is no link."""

    text: str
    href: str = ""


Text = tuple[Piece, ...]


class Why(msgspec.Struct, frozen=True):
    """Why a run took so long: one text for the top of its page, other causes after it, and what else was measured."""

    lead: Text
    others: Sequence[Text] = ()
    remarks: Sequence[str] = ()

    @property
    def plain(self) -> str:
        """The text at the top without links."""
        return plain(self.lead)


class _Stay(msgspec.Struct, frozen=True):
    """A run or a running job on its hosts: where, from when until when, of what."""

    system: str
    hosts: tuple[str, ...]
    start_ms: int
    end_ms: int
    application_id: str
    n: float | None
    partition: str | None = None
    ended: bool = True

    @property
    def of_hosts(self) -> str:
        """How a sentence about one of its hosts begins."""
        return f"One of its {len(self.hosts)} hosts, " if len(self.hosts) > 1 else "Its host, "


def plain(text: Iterable[Piece]) -> str:
    """Return a text without its links."""
    return "".join(piece.text for piece in text)


def why_ended(service: Service, run: RecentRun) -> Why:
    """Return why a run took as long as it did."""
    stay = _Stay(
        run.system, expanded(run.hosts), run.start_ms, run.end_ms, run.application_id or "", run.n, run.partition
    )
    others = _others(service, run)
    shown = run.predicted
    if run.state == SUCCESS and shown is not None and max(run.run_time_s, shown.run_time_s) < SHORT_S:
        return Why((Piece("It was too short to ask why: starting and ending take as long."),))
    if run.state == SUCCESS and run.slowed_by is None and shown is not None and shown.holds(run.run_time_s):
        loaded = " under the load of its hosts" if shown.source == "under_load" else ""
        return Why((Piece(f"It took as long as expected{loaded}."),), (), list(_remarks(run, others)))
    if run.state == SUCCESS and run.slowed_by is None and shown is not None and is_near(run.run_time_s, shown):
        return Why((Piece("It took nearly as long as expected."),), (), list(_remarks(run, others)))
    causes = list(_causes_of_run(service, run, stay, others))
    remarks = [*_remarks(run, others), *_unknown(stay)]
    if causes:
        return Why(causes[0], causes[1:], remarks)
    return Why((Piece(" ".join(filter(None, (_how(run), _unexplained(run))))),), (), remarks)


def why_running(service: Service, job: JobPrediction, now_ms: int) -> Why:
    """Return what slows a running job, or that nothing does as far as was measured."""
    application_id = id_of(job)
    hosts = tuple(service.reading(job.system).hosts_of_job(job.job_id))
    stay = _Stay(job.system, hosts, parse_rfc3339(job.start), now_ms, application_id, job.n, job.partition, ended=False)
    alerts, point = Alerts.of(service), _point(service, job)
    causes = [
        *_of_hosts(service, alerts, stay, None),
        *_of_load(job, point.run_time_s if point else None, _there_before(service, job, stay)),
        *_of_application(alerts, stay),
    ]
    late = _late(job, point, now_ms)
    remarks = _unknown(stay)
    if causes:
        return Why(causes[0], causes[1:], remarks)
    if late:
        return Why((Piece(f"{late} {NOTHING}"),), (), remarks)
    return Why((Piece("Nothing that was measured slows it down."),), (), remarks)


def expanded(lists: tuple[str, ...]) -> tuple[str, ...]:
    """Return the names of host lists, each once; none where they are too many, or no lists."""
    try:
        return tuple(dict.fromkeys(expand_all(lists, HOSTS_MAX)))
    except InvalidInputError:
        return ()


def _how(run: RecentRun) -> str:
    """Return how a run went against its prediction; nothing where it did not complete, or was not predicted."""
    shown = run.predicted
    if run.state != SUCCESS or shown is None or shown.run_time_s <= 0:
        return ""
    ratio = run.run_time_s / shown.run_time_s
    return f"It took {f'{ratio:.2f} times as long as' if ratio >= 2 else _part(ratio)} expected."


def _part(ratio: float) -> str:
    return f"{share(abs(ratio - 1))} {'longer' if ratio > 1 else 'less time'} than"


def _unexplained(run: RecentRun) -> str:
    if run.session:
        return "It was an interactive session: its user decides how long it takes."
    if run.state == SUCCESS and run.predicted is None:
        return "It had not been predicted, so nobody knows whether that is long."
    return NOTHING


def _causes_of_run(service: Service, run: RecentRun, stay: _Stay, others: Sequence[RecentRun]) -> Iterator[Text]:
    """Yield the causes of a run that took longer than expected, or ended otherwise than it should, the strongest first."""
    alerts, shown = Alerts.of(service), run.predicted
    if (
        run.state == "TIMEOUT"
        and shown is not None
        and run.time_limit_s is not None
        and run.time_limit_s < shown.high_s
    ):
        yield (Piece(f"Its time limit of {rounded(run.time_limit_s)} was too short: {_usual(shown)}."),)
        return
    if run.state == SUCCESS and shown is not None and run.run_time_s < shown.low_s:
        yield from _of_application(alerts, stay, ("Improvement",))
        return
    if run.state == SUCCESS and shown is None:
        return
    yield from _of_hosts(service, alerts, stay, run)
    if run.state not in (SUCCESS, "TIMEOUT"):
        yield from _of_failures(alerts, stay)
        return
    yield from _of_disturbance(alerts, run)
    if shown is not None and shown.source != "under_load":  # else the load is in what was expected
        yield from _of_load(prediction_before(service, run), shown.run_time_s)
    yield from _of_neighbours(run, others)
    yield from _of_application(alerts, stay)


def _usual(shown: PredictedAtStart) -> str:
    return f"runs like it take up to {rounded(shown.high_s)}"


def _of_hosts(service: Service, alerts: Alerts, stay: _Stay, run: RecentRun | None) -> Iterator[Text]:
    """Yield what was wrong with hosts meanwhile, first the one that settles why the run was slow."""
    found: dict[str, Alert] = {}
    mine = set(stay.hosts)
    for name in OF_HOST:
        for alert in alerts.known:
            host = alert.labels.get("host", "")
            there = alert.labels.get("system") == stay.system and host in mine
            if there and alert.labels.get("alertname") == name and _holds(alerts, alert, stay) and _slows(alert):
                found.setdefault(host, alert)
    slowed, racks = run.slowed_by if run is not None else None, _racks(service, alerts, stay)
    of_slowed = next((rack for rack in racks if slowed is not None and slowed.host in rack.hosts), None)
    if slowed is not None and of_slowed is not None and slowed.host not in found:
        racks.remove(of_slowed)
        yield _in_rack(stay, of_slowed, slowed.factor)
    elif slowed is not None:
        yield _slowed_by(service, stay, slowed.host, slowed.factor, found.pop(slowed.host, None))
    for host, alert in found.items():
        yield _odd_host(service, stay, host, alert)
    for rack in racks:
        yield _in_rack(stay, rack)


class _Rack(msgspec.Struct, frozen=True):
    """An alert about a rack, or about what stands in for it, and the hosts of a run that are in it."""

    alert: Alert
    hosts: frozenset[str]
    known_by: str = ""


def _racks(service: Service, alerts: Alerts, stay: _Stay) -> list[_Rack]:
    """Return the racks that were odd while a run was on hosts of them."""
    found = []
    for alert in alerts.known:
        labels = alert.labels
        is_there = labels.get("alertname") == RACK_ANOMALY.name and labels.get("system") == stay.system
        if is_there and _holds(alerts, alert, stay) and _slows(alert):
            own = frozenset(host for host in stay.hosts if _is_of(service, stay, host, labels))
            ways = {rack.known_by for host in own if (rack := service.rack(stay.system, host)) is not None}
            found += [_Rack(alert, own, max(ways, default=""))] if own else []
    return found


def _is_of(service: Service, stay: _Stay, host: str, labels: Mapping[str, str]) -> bool:
    """Return whether a host is in the rack, else in the partition, else in the system of an alert."""
    if "rack" in labels:
        return is_in_rack(service, stay.system, host, labels)
    return service.rack(stay.system, host) is None and labels.get("partition") in (None, stay.partition)


def _in_rack(stay: _Stay, rack: _Rack, factor: float | None = None) -> Text:
    """Return that hosts of a run were in a rack of which many hosts were odd."""
    labels, known = rack.alert.labels, rack.alert.evidence
    whole, own = len(stay.hosts), len(rack.hosts)
    which = "Its host" if whole == 1 else f"Its {whole} hosts" if own == whole else f"{own} of its {whole} hosts"
    verb = "is" if own == 1 else "are"
    kind = next((kind for kind in ("rack", "partition") if kind in labels), "system")
    many = f"{known.observed:g} of {known.n:g} hosts" if known.observed and known.n else "many hosts"
    taken = "" if factor is None else f": {_took(factor)}"
    return (
        Piece(f"{which} {verb} in {kind} "),
        Piece(labels[kind], f"/alerts/{rack.alert.fingerprint}"),
        Piece(
            f"{rack.known_by}, of which {many} were outside their own past since {moment(rack.alert.starts)} UTC{taken}."
        ),
    )


def _took(factor: float) -> str:
    return f"it took {factor:.2f} times as long as usual"


def _slowed_by(service: Service, stay: _Stay, host: str, factor: float, alert: Alert | None) -> Text:
    took = _took(factor)
    if alert is None:
        return (
            Piece(stay.of_hosts),
            Piece(host, _href(stay.system, host)),
            Piece(f", was out of the ordinary while it ran: {took}."),
        )
    return (*_odd_host(service, stay, host, alert)[:-1], Piece(f": {took}."))


def _odd_host(service: Service, stay: _Stay, host: str, alert: Alert) -> Text:
    """Return what is wrong with a host: by how much it differs from the others of the job, or from its own past."""
    since = _since(service, stay.system, host, alert)
    ratio = _speed(alert)
    if alert.labels.get("alertname") == "StragglerHost":
        what = f"ran at {_fraction(ratio)} the speed of the others" if ratio is not None else _against_others(alert)
    else:
        what = f"was outside its own past{_by(alert)}"
    return (
        Piece(stay.of_hosts),
        Piece(host, _href(stay.system, host)),
        Piece(f", {what} "),
        Piece(f"since {since}", f"/alerts/{alert.fingerprint}"),
        Piece("."),
    )


def _against_others(alert: Alert) -> str:
    known, name = alert.evidence, _resource(alert)
    if known.observed is None or known.expected is None or not name:
        return "was unlike the others"
    values = f"{measured(name, known.observed)} where they had {measured(name, known.expected)}"
    return f"was unlike the others, with {resource_name(name)} at {values},"


def _speed(alert: Alert) -> float | None:
    """Return the speed of a host as a share of that of its peers, where that is what was compared."""
    known, name = alert.evidence, _resource(alert)
    is_speed = any(part in name for part in SPEEDS)
    if not is_speed or known.observed is None or not known.expected or known.observed >= known.expected:
        return None
    return known.observed / known.expected


def _fraction(ratio: float) -> str:
    return "half" if round(ratio, 1) == 0.5 else f"{share(ratio)} of"


def _by(alert: Alert) -> str:
    names = [name for name, value in alert.evidence.detail.items() if isinstance(value, str) and not is_power(name)]
    return f" by {', '.join(map(resource_name, names[:COUNTERS_SHOWN]))}" if names else ""


def _resource(alert: Alert) -> str:
    return next((name for name in alert.evidence.detail if name not in ("job", "jobs")), "")


def _slows(alert: Alert) -> bool:
    """Return whether more is wrong with a host than its power: that alone makes no run slow."""
    names = [name for name in alert.evidence.detail if name not in ("job", "jobs")]
    return not names or not all(is_power(name) for name in names)


def _since(service: Service, system: str, host: str, alert: Alert) -> str:
    view = service.reading(system).host(host) if alert.ends is None else None
    finding = view.finding if view is not None else None
    known = (finding.differs_since or finding.anomalous_since) if finding is not None else None
    return f"{moment(min(known or alert.starts, alert.starts))} UTC"


def _holds(alerts: Alerts, alert: Alert, stay: _Stay) -> bool:
    """Return whether an alert was true while a run was there; what only pends is not known yet."""
    if alerts.state(alert) == "pending":
        return False
    ends_ms = parse_rfc3339(alert.ends) if alert.ends else None
    return parse_rfc3339(alert.starts) <= stay.end_ms and (ends_ms is None or ends_ms >= stay.start_ms)


def _of_disturbance(alerts: Alerts, run: RecentRun) -> Iterator[Text]:
    for alert in alerts.known:
        if alert.labels.get("alertname") == "DisturbedRun" and run.run_id in alert.evidence.runs:
            known = alert.evidence.detail.get("counters", "its counters")
            yield (
                Piece("Something "),
                Piece("disturbed it", f"/alerts/{alert.fingerprint}"),
                Piece(f": {known} {'were' if known == 'its counters' else 'was'} far from what is usual for it."),
            )


def _of_load(job: JobPrediction | None, expected_s: float | None, there_before: Text = ()) -> Iterator[Text]:
    """Yield what the load of its hosts at its start let expect of a job, where that is clearly more than without it."""
    load = job.under_load if job is not None else None
    if load is None or load.q50_s is None or not expected_s or load.q50_s < LOADED * expected_s:
        return
    expected = f"{rounded(load.q50_s)} were to be expected instead of {rounded(expected_s)}"
    if is_of_network(load):
        waits = f"{share(load.communication_share)} of its time waits for it, and {bandwidth_left(load)}, was left"
        yield (Piece(f"The network of its hosts was loaded when it started, by which {expected}: {waits}."),)
        return
    yield (Piece(f"Its hosts were loaded when it started, by which {expected}."), *there_before)


def _there_before(service: Service, job: JobPrediction, stay: _Stay) -> Text:
    """Return the jobs that were on the hosts of a running job before it; nothing where none is known."""
    before = [one for one in service.reading(job.system).neighbours(job.job_id) if one.start_ms < stay.start_ms]
    if not before:
        return ()
    return (Piece(" "), *_jobs(job.system, before, len(stay.hosts)), Piece(" ran there already."))


def neighbours(service: Service, job: JobPrediction) -> Text:
    """Return which other jobs run on the hosts of a running job; nothing where none is known."""
    found, hosts = (
        service.reading(job.system).neighbours(job.job_id),
        service.reading(job.system).hosts_of_job(job.job_id),
    )
    if not found:
        return ()
    return (*_jobs(job.system, found, len(hosts)), Piece(f" run{'s' if len(found) == 1 else ''} on its hosts, too."))


def _jobs(system: str, jobs: Sequence[Neighbour], hosts: int) -> Iterator[Piece]:
    """Yield the names of jobs with their links and on how many of the hosts each is, where that is not on all."""
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
    """Return the point of the application's curve at the size of a job."""
    entry = service.prediction(id_of(job)) if job.application is not None else None
    return point_at(entry, job.n)


def _of_neighbours(run: RecentRun, others: Sequence[RecentRun]) -> Iterator[Text]:
    known = [other.shared for other in others if other.shared is not None]
    if run.shared is None or len(known) < OTHERS_MIN or run.shared < median(known) + UNUSUAL:
        return
    usual = f", usually {share(median(known))}" if median(known) else ""
    yield (Piece(f"Other jobs ran on its hosts for {share(run.shared)} of the time{usual}."),)


def _of_application(alerts: Alerts, stay: _Stay, names: Sequence[str] = OF_SLOW_APPLICATION) -> Iterator[Text]:
    for alert in _about_application(alerts, stay, names):
        name, key, known = alert.labels.get("alertname"), key_of(stay.application_id), alert.evidence
        ratio = known.observed / known.expected if known.observed and known.expected else None
        many = "" if ratio is None else f" takes {ratio:.2f} times as long"
        what = f"{many} as its other sizes suggest" if name == "SlowSize" else f"{many} as before"
        whose = f" at {sized(stay.n, key.unit)}" if name == "SlowSize" and stay.n is not None else ""
        yield (
            Piece("Not this run alone: "),
            Piece(key.application, f"/applications/{link(stay.application_id)}"),
            Piece(f"{whose}{what if ratio is not None else ' has changed'} "),
            Piece(f"since {moment(_changed(alert))} UTC", f"/alerts/{alert.fingerprint}"),
            Piece(f"{_with_counter(alert)}."),
        )


def _with_counter(alert: Alert) -> str:
    """Return the counter that moved with an application, by how much; nothing where none was measured to."""
    known = alert.evidence.detail
    before, since = known.get("counter_before"), known.get("counter_since")
    if not isinstance(before, float) or not isinstance(since, float) or before <= 0:
        return ""
    return f", with {known.get('counter')} at {since / before:.2f} times what it was"


def _changed(alert: Alert) -> str:
    since = alert.evidence.detail.get("since")
    return since if isinstance(since, str) and since else alert.starts


def _about_application(alerts: Alerts, stay: _Stay, names: Sequence[str]) -> Iterator[Alert]:
    key = key_of(stay.application_id)
    wanted = (key.application, key.system, key.input, key.unit)
    for name in names:
        for alert in alerts.known:
            own = tuple(alert.labels.get(part) for part in ("application", "system", "input", "unit")) == wanted
            if own and alert.labels.get("alertname") == name and _meets(alerts, alert, stay):
                yield alert


def _meets(alerts: Alerts, alert: Alert, stay: _Stay) -> bool:
    """Return whether an alert about an application is about this run too: of its size, and of its time."""
    size = alert.labels.get("n")
    if alerts.state(alert) == "pending" or (size is not None and (stay.n is None or size != f"{stay.n:g}")):
        return False
    began = parse_rfc3339(_time(_changed(alert), alert.starts)) <= stay.end_ms
    return began and (alert.ends is None or parse_rfc3339(alert.ends) >= stay.start_ms)


def _time(text: str, default: str) -> str:
    try:
        parse_rfc3339(text)
    except InvalidInputError:
        return default
    return text


def _of_failures(alerts: Alerts, stay: _Stay) -> Iterator[Text]:
    """Yield what fails more than it should: a host of the run, or its application."""
    mine = set(stay.hosts)
    for alert in alerts.known:
        host, labels = alert.labels.get("host", ""), alert.labels
        here = labels.get("alertname") == "HostFailureRate" and labels.get("system") == stay.system and host in mine
        if here and _holds(alerts, alert, stay):
            yield (
                Piece(stay.of_hosts),
                Piece(host, _href(stay.system, host)),
                Piece(", has "),
                Piece("failed more runs than it should", f"/alerts/{alert.fingerprint}"),
                Piece("."),
            )
    for alert in _about_application(alerts, stay, ("ApplicationFailureRate",)):
        key = key_of(stay.application_id)
        yield (
            Piece("Not this run alone: "),
            Piece(key.application, f"/applications/{link(stay.application_id)}"),
            Piece(" "),
            Piece("fails more often than before", f"/alerts/{alert.fingerprint}"),
            Piece("."),
        )


def _late(job: JobPrediction, point: CurvePoint | None, now_ms: int) -> str:
    """Return that a job has run longer than runs like it do; nothing where it has not."""
    ran_s = (now_ms - parse_rfc3339(job.start)) / 1000
    if point is None or ran_s <= point.high_s:
        return ""
    return f"It has run for {rounded(ran_s)}, and runs like it take up to {rounded(point.high_s)}."


def _others(service: Service, run: RecentRun) -> list[RecentRun]:
    """Return completed runs of the same application at the same size."""
    known = service.runs(run.application_id) if run.application_id else ()
    return [other for other in known if other.n == run.n and other.run_id != run.run_id and other.state == SUCCESS]


def _remarks(run: RecentRun, others: Sequence[RecentRun]) -> Iterator[str]:
    """Yield what else was measured and is unlike other runs of the same size: no cause, but a place to look."""
    power = [other.power_w for other in others if other.power_w]
    if run.power_w and len(power) >= OTHERS_MIN and abs(run.power_w / median(power) - 1) > UNUSUAL:
        ratio = run.power_w / median(power)
        yield f"It drew {share(abs(ratio - 1))} {'more' if ratio > 1 else 'less'} power than other runs of its size."
    odd = unusual_counters(run.counters, [other.counters for other in others if other.counters])
    if odd:
        text = ", ".join(f"{name} {ratio:.2f} times" for name, ratio in odd)
        yield f"Rates of its counters against other runs of its size: {text}."


def unusual_counters(own: dict[str, float], others: Sequence[dict[str, float]]) -> list[tuple[str, float]]:
    """Return the counters outside of those of all other runs, with how many times their usual rate: the farthest first."""
    found = []
    for name, value in own.items():
        known = [other[name] for other in others if name in other]
        usual = median(known) if len(known) >= OTHERS_MIN else 0.0
        if (
            usual > 0
            and value > 0
            and not min(known) <= value <= max(known)
            and abs(value / usual - 1) > UNUSUAL_COUNTER
        ):
            found.append((name, value / usual))
    return sorted(found, key=lambda one: -abs(log(one[1])))[:COUNTERS_SHOWN]


def _unknown(stay: _Stay) -> list[str]:
    """Return what could not be looked at."""
    if stay.hosts:
        return []
    verb = "ran" if stay.ended else "runs"
    return [f"Which hosts it {verb} on is not known, so these were not looked at."]


def _href(system: str, host: str) -> str:
    return f"/hosts/{host_link(system, host)}"
