"""The page of the agent: roles, sources, and kinds of trouble with advice."""

import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from processors.contracts.errors import DECODER
from processors.contracts.events import CollectorReport
from processors.contracts.names import rfc3339
from processors.contracts.nodes import consecutive
from processors.contracts.service import DeadLetterView, Health, Service, SourceStatus, late
from sinks.prometheus.registry import Metrics
from sinks.web.formatting import View, anchor, counted, duration, in_short, when

FAULT: Final = "processor"  # reason of dead letters for events on which a processor failed
CLOCK_AHEAD_S: Final = 60.0
HEARD_S: Final = 60.0  # collectors report every few seconds, so an older report means that the collector is gone
CHECKPOINT_OLD_S: Final = 600.0
DEAD_LETTERS_SHOWN: Final = 20
PLACES_SHOWN: Final = 3
_REFUSED: Final = {
    "too_old": "ended before the remembered runs begin, so it may have been counted already",
    "correction_too_late": "corrects a run that the model has already merged",
    "not_one_size": "changed its size while it ran, or is part of a heterogeneous job",
    "implausible": "has no size, or impossible times",
    "network_of_no_run": "network use of a run that never ended, or has already settled",
}


class Advice(msgspec.Struct, frozen=True):
    """A recommended action for an operator, in one sentence, and the heading of the runbook section that explains it."""

    heading: str
    message: str

    @property
    def href(self) -> str:
        return f"/runbook#{anchor(self.heading)}"


def advice(heading: str) -> Advice:
    return Advice(heading, in_short()[heading])


class RoleRow(msgspec.Struct, frozen=True):
    """A role of this process, or a collector in another process, with advice about its problems.

    For a collector, `report` is its last report, and `heard_s` the age of this report in s.
    """

    name: str
    health: Health
    advice: Sequence[Advice]
    report: CollectorReport | None = None
    heard_s: float = 0.0


class FaultRow(msgspec.Struct, frozen=True):
    """One kind of trouble since the start: counts by name, the meaning of each name, and advice.

    `message` summarises the trouble. `grave` marks a defect of the agent; other troubles come from its input.
    """

    title: str
    message: str
    counts: Sequence[tuple[str, int, str]]
    advice: Advice
    grave: bool = False

    @property
    def anchor(self) -> str:
        return anchor(self.title)


Faults = Callable[[], Sequence[FaultRow]]


class SourceRow(msgspec.Struct, frozen=True):
    """A source topic with its number of events and the time and delay of its newest event.

    A source is waiting before its first event, and silent if its newest event is too old.
    """

    topic: str
    events: int
    newest: str
    behind: str
    message: str
    is_silent: bool
    waits: bool


def agent_view(service: Service, troubles: Sequence[FaultRow], now_ms: int | None, *, operator: bool) -> View:
    """Return the data of the agent's page. `now_ms` is the present event time, from which the delays of sources are computed."""
    health, dead_letters = service.health(), service.dead_letters() if operator else ()
    sources = source_rows(service.sources(), now_ms or 0)
    present_ms = (now_ms or 0) + 1000 * max((role.lag_s or 0.0 for role in health), default=0.0)
    source_advice = [advice("Source silent")] if any(row.is_silent for row in sources) else []
    source_advice += [advice("Source never spoke")] if any(row.waits for row in sources) else []
    return View(
        roles=[
            *(RoleRow(role.role, role, list(_advice(role))) for role in health),
            *(collector_row(report, present_ms) for report in service.collectors()),
        ],
        sources=sources,
        source_advice=source_advice,
        faults=troubles,
        dead_letters=[(letter, command_of(letter)) for letter in dead_letters[:DEAD_LETTERS_SHOWN]],
        dead_letters_known=len(dead_letters),
        reasons=_largest_first(Counter(letter.reason for letter in dead_letters)),
    )


def source_rows(sources: Sequence[SourceStatus], now_ms: int = 0) -> list[SourceRow]:
    """Return the sources: sources without an event first, then by decreasing delay.

    Delays refer to the present event time `now_ms`, or to the newest event of all sources if that is later.
    """
    now_ms = max([now_ms, *(source.moved_ms or 0 for source in sources)])
    rows = []
    for source in sorted(sources, key=lambda source: (source.moved_ms or 0, source.topic)):
        topic, moved_ms = source.topic, source.moved_ms
        newest = "-" if moved_ms is None else when(moved_ms)
        if moved_ms is not None:
            behind_s = (now_ms - moved_ms) / 1000
            behind = "newest" if behind_s < 1 else f"{duration(behind_s)} behind"
            message = f"{counted(source.events, 'event')}, newest {newest}"
        elif source.messages is None:
            behind, message = "not looked up yet", f"waiting for a collector to look up {topic}"
        else:
            behind, message = "waiting", f"{topic} {'has no message left' if source.messages else 'has had no message'}"
        is_silent = source.is_silent(now_ms)
        rows.append(SourceRow(topic, source.events, newest, behind, message, is_silent, moved_ms is None))
    return rows


def collector_row(report: CollectorReport, now_ms: float) -> RoleRow:
    heard_s = max(0.0, (now_ms - report.time_ms) / 1000)
    gone = heard_s > HEARD_S
    reasons = (f"The collector has not reported for {duration(heard_s)}.",) if gone else report.reasons
    health = Health(
        role="collector",
        ready=not reasons,
        reasons=reasons,
        restarts=report.restarts,
        lag_s=report.lag_s,
        working=not reasons or bool(late(report.lag_s)),
    )
    what_to_do = [advice("Down")] if gone else list(_advice(health))
    return RoleRow(f"collector {report.member}", health, what_to_do, report, heard_s)


def _advice(role: Health) -> Iterator[Advice]:
    if not role.ready and not late(role.lag_s):
        yield advice("Not ready")
    if late(role.lag_s):
        yield advice("Lag")
    if role.lag_s is not None and role.lag_s < -CLOCK_AHEAD_S:
        yield advice("Clock ahead")
    if role.checkpoint_age_s is not None and role.checkpoint_age_s > CHECKPOINT_OLD_S:
        yield advice("Checkpoint age")
    for text in role.unanswered:
        yield Advice("What is not sent", f"{text}; its known silences are shown until they end.")
    for text in role.floods:
        yield Advice("Bounds hit", f"{text}; they take turns with the others.")
    if role.restarts:
        yield advice("Role restarted")


def ranges(numbers: Iterable[int]) -> str:
    """Return whole numbers as ranges in a text such as "0 to 3, 7"."""
    runs = consecutive(sorted(set(numbers)))
    text = [f"{a} to {b}" if b - a > 1 else f"{a}, {b}" if b > a else f"{a}" for a, b in runs]
    return ", ".join(text) or "none"


def command_of(dead_letter: DeadLetterView) -> str:
    """Return the command that shows a dead letter; names from outside are quoted for a shell."""
    reason, topic = shlex.quote(dead_letter.reason), shlex.quote(dead_letter.topic)
    since = rfc3339(dead_letter.time_ms)
    chosen = f"--reason {reason} --topic {topic} --since {since}"
    return f"scalewatch deadletter list -c agent.yaml {chosen} --limit 1 --json"


def parts_text(count: int, places: Sequence[str]) -> str:
    """Return the number and places of the rejected parts of a message, with a leading comma; empty if the whole message was rejected."""
    if count == 1 and not places:
        return ""
    shown = ", ".join(places[:PLACES_SHOWN]) + (" ..." if count > PLACES_SHOWN else "")
    return f", {counted(count, 'part')}" + (f" ({shown})" if places else "")


def faults(metrics: Metrics, collectors: Sequence[CollectorReport] = ()) -> list[FaultRow]:
    """Return each kind of trouble. Defects of the agent come first, because a defect can look like a centre without events.

    Dead letters are the sum of those of this process and those in the reports of `collectors`.
    """
    dead_letters, processor_faults, refused, bounds, unreadable = (
        dict(metrics.above_zero(f"scalewatch_{name}_total"))
        for name in ("dead_letters", "processor_faults", "runs_refused", "bounds_hit", "outputs_unreadable")
    )
    for report in collectors:
        for reason, count in report.dead_letters.items():
            dead_letters[reason] = dead_letters.get(reason, 0.0) + count
    if FAULT in dead_letters:
        processor_faults["events that became dead letters"] = dead_letters.pop(FAULT)
    decoders = {"messages that became dead letters": dead_letters.pop(DECODER)} if DECODER in dead_letters else {}
    problems, waiting = (round(metrics.value(f"scalewatch_config_{name}")) for name in ("problems", "keys_waiting"))
    restart = Advice("Configuration refused", "Restart the agent to take over the keys that the log names.")
    troubles = [
        _reload(
            "Configuration refused", problems, "errors in the file",
            "the new file has errors, so the previous configuration stays in use", advice("Configuration refused"),
        ),
        _reload(
            "Configuration waits for a restart", waiting, "changed keys that wait",
            "some changed keys need a restart; all others are in use", restart,
        ),
        _fault("Faults of processors", processor_faults, "A processor failed {}", "time", "Processor faults", grave=True),
        _fault("Faults of decoders", decoders, "A decoder failed {}", "time", "Processor faults", grave=True),
        _fault("Dead letters", dead_letters, "{} could not be processed", "message", "Dead letters rising"),
        _fault("Reports of runs that changed no model", refused, "{} of runs refused", "report", "Refused runs"),
        _fault("Records of output topics", unreadable, "{} of output topics could not be read", "record", "Unreadable outputs"),
        _fault("Bounds that were reached", bounds, "A bound was reached {}", "time", "Bounds hit"),
    ]  # fmt: skip
    return [fault for fault in troubles if fault.counts]


def _reload(title: str, count: int, thing: str, meaning: str, what_to_do: Advice) -> FaultRow:
    return FaultRow(title, f"{title}: {meaning}.", [(thing, count, meaning)] if count else (), what_to_do)


def _fault(
    title: str, counts: Mapping[str, float], template: str, thing: str, heading: str, *, grave: bool = False
) -> FaultRow:
    rows = [(name, round(count), _REFUSED.get(name, "")) for name, count in _largest_first(counts)]
    total = counted(sum(count for _, count, _ in rows), thing)
    listed = ", ".join(f"{name} {count}" for name, count, _ in rows)
    return FaultRow(title, f"{template.format(total)} since the start: {listed}.", rows, advice(heading), grave)


def _largest_first(counts: Mapping[str, float]) -> list[tuple[str, float]]:
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def standing(roles: Sequence[RoleRow], sources: Sequence[SourceRow], faults: Sequence[FaultRow]) -> str:
    waiting = [row.name for row in roles if not row.health.ready]
    if not roles:
        return "No role has started yet."
    if waiting:
        return f"Not ready: {', '.join(waiting)}."
    troubled = sum(bool(row.advice) for row in roles)
    silent = sum(row.is_silent for row in sources)
    text = [f"{counted(troubled, 'role')} {'needs' if troubled == 1 else 'need'} attention"] if troubled else []
    text += [f"{counted(silent, 'source')} {'is' if silent == 1 else 'are'} silent"] if silent else []
    text += [row.message for row in sources if row.waits]
    text += [f"{counted(len(faults), 'kind')} of trouble since the start"] if faults else []
    if not text:
        return "All is well: every role is ready, and no message was lost or refused since the start."
    sentence = "; ".join(text)
    return f"Every role is ready. {sentence[0].upper()}{sentence[1:]}."
