"""The page of the agent: roles, sources, and each kind of trouble with advice."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from processors.contracts.errors import DECODER
from processors.contracts.events import CollectorReport
from processors.contracts.names import rfc3339
from processors.contracts.service import DeadLetterView, Health, SourceStatus, late
from sinks.prometheus.registry import Metrics
from sinks.web.formatting import anchor, behind, counted, duration, moment
from sinks.web.views.overview import SourceRow, source_rows

FAULT: Final = "processor"  # reason of dead letters whose event made a processor fail
CLOCK_AHEAD_S: Final = 60.0
HEARD_S: Final = 60.0  # collectors report every few seconds
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
    """A recommended action for an operator, in one sentence, and the runbook heading that explains it."""

    message: str
    heading: str

    @property
    def href(self) -> str:
        """The section of the runbook."""
        return f"/runbook#{anchor(self.heading)}"


_WAITS: Final = Advice("Check the connection to the broker; no data is lost while the role waits.", "Not ready")
_BEHIND: Final = Advice(
    "After an outage, wait. Otherwise add replicas of the collector or shards of the learner.", "Lag"
)
_AHEAD: Final = Advice(
    "Correct the wrong clock, then rebuild: until then no run settles and no alert resolves.", "Clock ahead"
)
_UNSAVED: Final = Advice("Repair transactions on the broker, or stop a second learner of this shard.", "Checkpoint age")
_RESTARTED: Final = Advice(
    "Fix the cause that the log names at each restart; a single restart is no incident.", "Role restarted"
)
_DEAD_LETTERS: Final = Advice(
    "Fix the producer or the configuration, then replay them with scalewatch deadletter replay.",
    "Dead letters rising",
)
_FAULTS: Final = Advice(
    "This is a bug of Scalewatch: report it with the details of the dead letters.", "Processor faults"
)
_REFUSALS: Final = Advice(
    "Usually nothing to do: refused reports change no model. scalewatch rebuild applies late corrections.",
    "Refused runs",
)
_SILENT: Final = Advice(
    "Check whether the producer still writes; hosts and models do not change meanwhile.", "Source silent"
)
_UNREADABLE: Final = Advice(
    "Find the program that wrote these records, which the log names; readers see the previous message, or none.",
    "Unreadable outputs",
)
_EMPTY: Final = Advice(
    "Check whether the producer writes to this topic on this broker, and check the name under sources.",
    "Source never spoke",
)
_REFUSED_FILE: Final = Advice(
    "Correct what the log names, check the file with scalewatch validate, and reload; until then the old configuration stays.",
    "Configuration refused",
)
_LEFT: Final = Advice("Restart the agent to take over the keys that the log names.", "Configuration refused")
_GONE: Final = Advice("Check its process and the last lines of its log.", "Down")
_BOUNDS: Final = Advice("Raise the bound, or group names that appear only once by a rule.", "Bounds hit")


class RoleRow(msgspec.Struct, frozen=True, kw_only=True):
    """A role with its state, and advice about its problems.

    A collector is a process of its own (`is_elsewhere`); its row shows its last report.
    """

    name: str
    health: Health
    partitions: str
    lag: str
    saved: str
    advice: Sequence[Advice]
    is_elsewhere: bool = False
    dead_letters: int = 0
    heard: str = ""


class FaultRow(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of trouble since the start: counts by name, each with its meaning, and advice.

    `message` sums it up. A `grave` kind is a fault of the agent rather than of its input.
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


class DeadLetterRow(msgspec.Struct, frozen=True):
    """A dead letter, its position in the topic, and the command that shows it."""

    dead_letter: DeadLetterView
    time: str
    place: str
    command: str


class AgentView(msgspec.Struct, frozen=True, kw_only=True):
    """The page of the agent."""

    roles: Sequence[RoleRow]
    sources: Sequence[SourceRow]
    source_advice: Sequence[Advice]
    faults: Sequence[FaultRow]
    dead_letters: Sequence[DeadLetterRow]
    dead_letters_known: int
    reasons: Sequence[tuple[str, int]]


def agent_view(
    health: Sequence[Health],
    sources: Sequence[SourceStatus],
    dead_letters: Sequence[DeadLetterView],
    troubles: Sequence[FaultRow],
    now_ms: int | None,
    *,
    collectors: Sequence[CollectorReport] = (),
) -> AgentView:
    """Return the page of the agent; `now_ms` is the event time against which the delay of sources is measured."""
    rows = source_rows(sources, now_ms or 0)
    present_ms = (now_ms or 0) + 1000 * max((role.lag_s or 0.0 for role in health), default=0.0)
    return AgentView(
        roles=[*map(role_row, health), *(collector_row(report, present_ms) for report in collectors)],
        sources=rows,
        source_advice=[
            *([_SILENT] if any(row.is_silent for row in rows) else []),
            *([_EMPTY] if any(row.waits for row in rows) else []),
        ],
        faults=troubles,
        dead_letters=[dead_letter_row(dead_letter) for dead_letter in dead_letters[:DEAD_LETTERS_SHOWN]],
        dead_letters_known=len(dead_letters),
        reasons=sorted(
            Counter(dead_letter.reason for dead_letter in dead_letters).items(), key=lambda item: (-item[1], item[0])
        ),
    )


def role_row(role: Health) -> RoleRow:
    return RoleRow(
        name=role.role,
        health=role,
        partitions=ranges(role.partitions),
        lag="-" if role.lag_s is None else behind(role.lag_s).removesuffix(" behind"),
        saved="-" if role.checkpoint_age_s is None else f"{duration(role.checkpoint_age_s)} ago",
        advice=list(_advice(role)),
    )


def collector_row(report: CollectorReport, now_ms: float) -> RoleRow:
    """Return the row of a collector by its last report."""
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
    return RoleRow(
        name=f"collector {report.member}",
        health=health,
        partitions="-",
        lag="-" if report.lag_s is None else duration(report.lag_s),
        saved="-",
        advice=[_GONE] if gone else list(_advice(health)),
        is_elsewhere=True,
        dead_letters=sum(report.dead_letters.values()),
        heard=f"{duration(heard_s)} ago" if heard_s >= 1 else "now",
    )


def _advice(role: Health) -> Iterator[Advice]:
    if not role.ready and not late(role.lag_s):
        yield _WAITS
    if late(role.lag_s):
        yield _BEHIND
    if role.lag_s is not None and role.lag_s < -CLOCK_AHEAD_S:
        yield _AHEAD
    if role.checkpoint_age_s is not None and role.checkpoint_age_s > CHECKPOINT_OLD_S:
        yield _UNSAVED
    for text in role.unanswered:
        yield Advice(f"{text}; its known silences are shown until they end.", "What is not sent")
    for text in role.floods:
        yield Advice(f"{text}; they take turns with the others.", "Bounds hit")
    if role.restarts:
        yield _RESTARTED


def ranges(numbers: Sequence[int]) -> str:
    """Return whole numbers as text, with consecutive numbers as ranges."""
    runs: list[list[int]] = []
    for number in sorted(set(numbers)):
        if runs and runs[-1][-1] == number - 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    text = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return ", ".join(text) or "none"


def dead_letter_row(dead_letter: DeadLetterView) -> DeadLetterRow:
    """Return the row of a dead letter; names from outside are quoted for a shell."""
    since = rfc3339(dead_letter.time_ms)
    command = f"scalewatch deadletter list -c agent.yaml --reason {quoted(dead_letter.reason)} --topic {quoted(dead_letter.topic)}"
    parts = parts_text(dead_letter.count, dead_letter.places)
    place = f"{dead_letter.topic} / {dead_letter.partition} / {dead_letter.offset}{parts}"
    return DeadLetterRow(dead_letter, moment(since), place, f"{command} --since {since} --limit 1 --json")


def parts_text(count: int, places: Sequence[str]) -> str:
    """Return the number of affected parts of a message and where the first are, after a comma; empty for a whole message."""
    if count == 1 and not places:
        return ""
    shown = ", ".join(places[:PLACES_SHOWN]) + (" ..." if count > PLACES_SHOWN else "")
    return f", {counted(count, 'part')}" + (f" ({shown})" if places else "")


def quoted(text: str) -> str:
    """Return a text as one word for a shell."""
    plain = text and all(character.isascii() and (character.isalnum() or character in "-_.") for character in text)
    return text if plain else "'" + text.replace("'", "'\\''") + "'"


def faults(metrics: Metrics, collectors: Sequence[CollectorReport] = ()) -> list[FaultRow]:
    """Return each kind of trouble, faults first; empty if there is none. A fault must not look like silence.

    The counts of dead letters are those of this process and those in the reports of `collectors`.
    """
    dead_letters, processor_faults, refused, bounds, unreadable = (
        metrics.above_zero(f"scalewatch_{name}_total")
        for name in ("dead_letters", "processor_faults", "runs_refused", "bounds_hit", "outputs_unreadable")
    )
    for report in collectors:
        for reason, count in report.dead_letters.items():
            dead_letters[reason] = dead_letters.get(reason, 0.0) + count
    if FAULT in dead_letters:
        processor_faults["events that became dead letters"] = dead_letters.pop(FAULT)
    decoders = {"messages that became dead letters": dead_letters.pop(DECODER)} if DECODER in dead_letters else {}
    troubles = [
        *_reloads(metrics),
        _fault("Faults of processors", processor_faults, "A processor failed {}", "time", _FAULTS, grave=True),
        _fault("Faults of decoders", decoders, "A decoder failed {}", "time", _FAULTS, grave=True),
        _fault("Dead letters", dead_letters, "{} could not be processed", "message", _DEAD_LETTERS),
        _fault("Reports of runs that changed no model", refused, "{} of runs refused", "report", _REFUSALS),
        _fault("Records of output topics", unreadable, "{} of output topics could not be read", "record", _UNREADABLE),
        _fault("Bounds that were reached", bounds, "A bound was reached {}", "time", _BOUNDS),
    ]
    return [fault for fault in troubles if fault.counts]


def _reloads(metrics: Metrics) -> Iterator[FaultRow]:
    """Yield what the last reload refused, or left for a restart."""
    problems, waiting = (round(metrics.value(f"scalewatch_config_{name}")) for name in ("problems", "keys_waiting"))
    if problems:
        meaning = "the new file has errors, so the previous configuration stays in use"
        yield _reload("Configuration refused", "errors in the file", problems, meaning, _REFUSED_FILE)
    if waiting:
        meaning = "some changed keys need a restart; all others are in use"
        yield _reload("Configuration waits for a restart", "changed keys that wait", waiting, meaning, _LEFT)


def _reload(title: str, thing: str, count: int, meaning: str, advice: Advice) -> FaultRow:
    return FaultRow(title=title, message=f"{title}: {meaning}.", counts=[(thing, count, meaning)], advice=advice)


def _fault(
    title: str, counts: Mapping[str, float], template: str, thing: str, advice: Advice, *, grave: bool = False
) -> FaultRow:
    rows = [(name, round(count)) for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    total = counted(sum(count for _, count in rows), thing)
    listed = ", ".join(f"{name} {count}" for name, count in rows)
    return FaultRow(
        title=title,
        message=f"{template.format(total)} since the start: {listed}.",
        counts=[(name, count, _REFUSED.get(name, "")) for name, count in rows],
        advice=advice,
        grave=grave,
    )


def standing(view: AgentView) -> str:
    """Return the state of the agent in one sentence."""
    waiting = [row.name for row in view.roles if not row.health.ready]
    if not view.roles:
        return "No role has started yet."
    if waiting:
        return f"Not ready: {', '.join(waiting)}."
    troubled = [row for row in view.roles if row.advice]
    silent = [row.topic for row in view.sources if row.is_silent]
    text = (
        [f"{counted(len(troubled), 'role')} {'needs' if len(troubled) == 1 else 'need'} attention"] if troubled else []
    )
    text += [f"{counted(len(silent), 'source')} {'is' if len(silent) == 1 else 'are'} silent"] if silent else []
    text += [row.message for row in view.sources if row.waits]
    text += [f"{counted(len(view.faults), 'kind')} of trouble since the start"] if view.faults else []
    if not text:
        return "All is well: every role is ready, and no message was lost or refused since the start."
    first, *others = text
    return f"Every role is ready. {'; '.join((first[:1].upper() + first[1:], *others))}."
