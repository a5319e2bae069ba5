"""The alert types. Each type has settings, texts and a unit, and builds the conditions of its alerts."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Literal, NamedTuple

import msgspec

from processors.alerts.lifecycle import Condition
from processors.contracts.alerts import AlertName, AlertRule
from processors.contracts.names import ApplicationKey, duration, measured
from processors.contracts.outputs import AlertEnd, AlertEvidence, AlertKind, Severity

Unit = Literal["number", "seconds", "share", "watts", "resource", "hosts"]
Timing = Literal["for_s", "keep_firing_s", "quiet_s"]
SUMMARY_MAX: Final = 300  # characters; longer ones do not fit on the screen of a phone
DESCRIPTION_MAX: Final = 600
NAME_MAX: Final = 48  # of a name within a text, so that the figures of the reason fit into the summary
_SHOWN: Final[dict[str, Callable[[float], str]]] = {"seconds": duration, "watts": partial(measured, "power_w")}


class Text(NamedTuple):
    """Templates of summary and description; the fields in braces are labels of the alert and values of its condition."""

    summary: str
    description: str = ""


class AlertType(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of alert.

    `section` names the settings under `alerts`; `timing` lists the durations in this section that apply. The condition of a
    `momentary` alert holds only at its own time (a single run was slow); other conditions hold until the opposite is reported.
    `unit` is the unit of the observed and expected values. If `rests_on` is "curve" or "model", the alert ends when the
    application loses its curve or model; `per` is the label that distinguishes several such alerts of an application. `sure` is
    the template of the sentence about certainty on a page, with the fields `observed`, `expected` and `n` of the evidence.
    """

    name: AlertName
    subject: Literal["application", "host", "rack", "job"]
    section: str
    text: Text
    severity: Severity = "warning"
    kind: AlertKind = "anomaly"
    momentary: bool = False
    timing: tuple[Timing, ...] = ()
    unit: Unit = "number"
    rests_on: Literal["", "curve", "model"] = ""
    per: Literal["", "n", "verdict"] = ""
    sure: str = ""

    @property
    def anchor(self) -> str:
        """The anchor of the alert's heading in the runbook."""
        return self.name.lower()

    def condition(
        self,
        labels: dict[str, str],
        settings: AlertRule,
        now_ms: int,
        values: Mapping[str, object],
        evidence: AlertEvidence,
        *,
        text: Text | None = None,
        **changes: Any,
    ) -> Condition:
        """Return a condition that holds now; `changes` replace fields of the Condition.

        The texts are filled with `labels`, the figures of `evidence` in the unit of the alert, and `values`.
        """
        names = {label: shortened(name) for label, name in labels.items()}
        words = names | _figures(evidence, self.unit) | dict(values)
        for_ms, keep_firing_ms, expires_after_ms = (
            round(getattr(settings, key) * 1000) if key in self.timing else 0
            for key in ("for_s", "keep_firing_s", "quiet_s")
        )
        condition = Condition(
            name=self.name,
            labels=labels,
            holds=True,
            momentary=self.momentary,
            time_ms=now_ms,
            kind=self.kind,
            severity=self.severity,
            for_ms=for_ms,
            keep_firing_ms=keep_firing_ms,
            expires_after_ms=expires_after_ms,
            summary=(text or self.text).summary.format_map(words),
            description=(text or self.text).description.format_map(words),
            evidence=evidence,
        )
        return msgspec.structs.replace(condition, **changes) if changes else condition

    def over(
        self, labels: dict[str, str], now_ms: int, *, forgotten: bool = False, by: AlertEnd = "itself"
    ) -> Condition:
        """Return a condition that does not hold any more; `forgotten` if the data behind it is gone, `by` is the reason for the end."""
        return Condition(name=self.name, labels=labels, holds=False, time_ms=now_ms, forgotten=forgotten, ended_by=by)

    def ended(self, labels: dict[str, str], reason: str, now_ms: int, *, by: AlertEnd = "itself") -> Condition:
        """Return the condition that ends an open alert at the next tick; `reason` becomes the last summary."""
        changes = {"holds": True, "momentary": True, "severity": self.severity, "summary": reason}
        return msgspec.structs.replace(self.over(labels, now_ms, by=by), **changes)


def _figures(evidence: AlertEvidence, unit: Unit) -> dict[str, str]:
    """Return the size and, for alerts in seconds or watts, the observed and expected value and the band as text, by name."""
    figures = {} if evidence.n is None else {"n": f"{evidence.n:g}"}
    if unit in _SHOWN:
        values = {name: getattr(evidence, name) for name in ("observed", "expected", "low", "high")}
        figures |= {name: _SHOWN[unit](value) for name, value in values.items() if value is not None}
    return figures


def application_labels(key: ApplicationKey) -> dict[str, str]:
    return {"application": key.application, "system": key.system, "input": key.input, "unit": key.unit}


def host_labels(system: str, host: str) -> dict[str, str]:
    return {"system": system, "host": host}


def shortened(text: str, characters_max: int = NAME_MAX) -> str:
    """Return a text of at most `characters_max`, cut after a whole finding, else a sentence, a part of a list or a word."""
    if len(text) <= characters_max:
        return text
    head = text[: characters_max - 1]
    kept = next((head.rpartition(mark)[0] + mark for mark in ("; ", ". ", ", ", " ") if mark in head), head)
    return f"{kept}\N{HORIZONTAL ELLIPSIS}"


def clock(time_ms: int) -> str:
    moment = datetime.fromtimestamp(time_ms / 1000, UTC)
    return f"{moment:%H:%M} on {moment.day} {moment:%b} (UTC)"


SLOW_SIZE: Final = AlertType(
    name="SlowSize",
    subject="application",
    section="slow_size",
    timing=("for_s", "keep_firing_s"),
    unit="seconds",
    rests_on="curve",
    per="n",
    text=Text(
        "{application} on {system} is {percent:.0f} % slower at {n} {unit} than its other sizes suggest.",
        "Over all runs, this size takes {observed}; the curve through the other sizes gives {expected}. "
        "Advise its users to prefer a neighbouring size, or compare hosts and inputs.",
    ),
    sure="It rests on all runs at this size and on the curve through the other sizes.",
)
FAST_SIZE: Final = msgspec.structs.replace(
    SLOW_SIZE,
    name="FastSize",
    severity="info",
    text=Text(
        "{application} on {system} is {percent:.0f} % faster at {n} {unit} than its other sizes suggest.",
        "Over all runs, this size takes {observed}; the curve through the other sizes gives {expected}. "
        "Check that these runs did all their work.",
    ),
)
STRANGE_RUN: Final = AlertType(
    name="StrangeRun",
    subject="application",
    section="strange_run",
    severity="info",
    momentary=True,
    timing=("keep_firing_s",),
    unit="seconds",
    text=Text(
        "{application} on {n} {unit} took {observed}, {ratio:.2f} times as long as the {expected} expected.",
        "{place}The predicted range was {low} to {high}, from {observations} earlier runs. Of the newest runs, at most {percent:.1f} % "
        "were as far off. Compare hosts and input with those of normal runs.",
    ),
)
SIZE_TURNED: Final = Text(
    "{application} on {n} {unit} has taken {factor:.2f} times as long as before in its last {runs} runs.",
    "This run time is now the expected one at this size. Predictions for other sizes are unchanged.",
)
REGRESSION: Final = AlertType(
    name="Regression",
    subject="application",
    section="shift",
    momentary=True,
    timing=("keep_firing_s",),
    unit="seconds",
    rests_on="model",
    text=Text(
        "{application} on {system} has taken {factor:.2f} times as long as before since {since}, in {runs} runs{change}.",
        "{counter}The model has learned the new level and predicts it from now on. Single runs scatter by {scatter:.1f} %. "
        "Tell the owner of the application.",
    ),
)
IMPROVEMENT: Final = msgspec.structs.replace(REGRESSION, name="Improvement", severity="info")
PREDICTION_UNRELIABLE: Final = AlertType(
    name="PredictionUnreliable",
    subject="application",
    section="unreliable",
    severity="info",
    kind="reliability",
    timing=("for_s",),
    rests_on="curve",
    per="verdict",
    text=Text("Predictions of {application} on {system} are unreliable: {verdict_text}.", "Do not use them. {advice}"),
)
SLOWS_DOWN: Final = AlertType(
    name="SlowsDown",
    subject="application",
    section="slows_down",
    severity="info",
    kind="reliability",
    timing=("for_s",),
    rests_on="curve",
    text=Text(
        "{application} on {system} is slower at {largest} {unit} than at {fastest}.",
        "No run on more than {fastest} {unit} was faster. Advise its users to take at most {fastest} {unit}.",
    ),
)
APPLICATION_FAILS: Final = AlertType(
    name="ApplicationFailureRate",
    subject="application",
    section="failure_rate",
    kind="reliability",
    timing=("keep_firing_s",),
    unit="share",
    text=Text(
        "{failures} of the last {runs} runs of {application} on {system} failed.",
        "Before, {percent:.1f} % of its runs failed. With a probability of at least {credibility:.3f}, more fail now than "
        "before and than is usual in the centre. Look at the states of the failed runs.",
    ),
    sure="{observed} of the newest runs failed; {expected} failed before.",
)
HOST_FAILS: Final = AlertType(
    name="HostFailureRate",
    subject="host",
    section="failure_rate",
    kind="reliability",
    timing=("keep_firing_s", "quiet_s"),
    unit="share",
    text=Text(
        "{failures} of the last {runs} runs on {host} of {system} failed, from {causes} applications; {expected:.1f} failures "
        "were expected.",
        "Runs fail more often here than on other hosts with the same applications (probability at least {credibility:.3f}). "
        "A failed job counts as a part of a failure for each of its hosts. Drain the host and run its health check.",
    ),
    sure="{observed} of the newest runs failed; {expected} were expected to fail.",
)
HOST_ANOMALY: Final = AlertType(
    name="HostAnomaly",
    subject="host",
    section="host_anomaly",
    momentary=True,
    timing=("keep_firing_s",),
    unit="resource",
    text=Text(
        "{host} on {system}: {findings}.",
        "{jobs}{sure}Compare the host with its neighbours. If it is at fault, drain it and run its health check.{ranges}",
    ),
)
RACK_ANOMALY: Final = AlertType(
    name="RackAnomaly",
    subject="rack",
    section="rack_anomaly",
    severity="critical",
    momentary=True,
    timing=("keep_firing_s",),
    unit="hosts",
    text=Text(
        "{anomalous} of {hosts} hosts of {place} have been anomalous since {since}{resources}.",
        "Hosts: {names}. Look at the power, cooling, switch and file system that they share.{guessed}",
    ),
    sure="{observed} of the {n} hosts are anomalous at once, which is no coincidence.",
)
PEER_DIFFERENCE: Final = AlertType(
    name="PeerDifference",
    subject="host",
    section="peer_difference",
    unit="resource",
    text=Text("{host} has differed from {peers} since {since}: {differences}.", "{meaning}"),
    sure="Every minute the host is compared with hosts that do the same work.",
)
UNEXPLAINED_POWER: Final = AlertType(
    name="UnexplainedPower",
    subject="application",
    section="unexplained_power",
    timing=("for_s", "quiet_s"),
    unit="watts",
    rests_on="model",
    text=Text(
        "{run} drew {observed} per host, {ratio:.2f} times the {expected} that its counters explain.",
        "Nine of ten such runs draw {low} to {high}. The model predicted {scored} runs before it learned them. {counters} "
        "Check the sensors and power limits of its hosts.",
    ),
)
POWER_OF_HOST: Final = Text(
    "{suspects} on {system} draws {excess} {direction} than the counters of its runs explain.",
    "{runs} runs show it, most recently job {job} of {application}; counters explain the power of runs on other hosts. "
    "Check its sensor and its power limit.",
)
DISTURBED_RUN: Final = AlertType(
    name="DisturbedRun",
    subject="application",
    section="disturbed_run",
    severity="info",
    momentary=True,
    timing=("keep_firing_s",),
    rests_on="model",
    text=Text(
        "{run} was disturbed: it took {slower:.2f} times as long as expected, with {counters}.",
        "{place}In job {job} {counter} was {rate:.4g}, {deviations:.0f} robust standard deviations from {usual:.4g}, the median of "
        "similar runs. Look for a neighbour on the same resources or a faulty host.",
    ),
)
HANGING_JOB: Final = AlertType(
    name="HangingJob",
    subject="job",
    section="hanging_job",
    timing=("for_s", "quiet_s"),
    unit="seconds",
    text=Text(
        "Job {job} ({application}) on {system} may hang: it has run for {observed}, {ratio:.1f} times the longest expected.",
        "Nine of ten such runs take {low} to {high}. No telemetry tells whether its hosts are busy. Look at its output.",
    ),
    sure="At most one run in twenty takes longer than the predicted range.",
)
IDLE_JOB: Final = Text(
    "Job {job} ({application}) on {system} probably hangs: it has run for {observed}, and its hosts are idle.",
    "Nine of ten such runs take {low} to {high}. Its processors, GPUs and network are idle. Look at its output, then end it.",
)
SLOW_JOB: Final = msgspec.structs.replace(
    HANGING_JOB,
    name="SlowJob",
    severity="info",
    text=Text(
        "Job {job} ({application}) on {system} is slow: it has run for {observed}, {ratio:.1f} times the longest expected.",
        "Nine of ten such runs take {low} to {high}. Its hosts are busy, but a hanging MPI program keeps them busy, too. Look at its "
        "output. If it progresses, compare its input and hosts.",
    ),
)
JOB_NEAR_LIMIT: Final = msgspec.structs.replace(
    HANGING_JOB,
    name="JobNearLimit",
    section="job_near_limit",
    severity="info",  # it is for the user of the job
    kind="reliability",
    timing=("quiet_s",),
    text=Text(
        "Job {job} ({application}) on {system} will probably be ended by its limit of {limit} at {end}.",
        "The chance is at least {percent:.0f} %. It has run for {observed}. Let it save its work, or ask the centre for more time.",
    ),
    sure="The chance comes from the predicted run time, given that the job still runs.",
)
ALERTS: Final[dict[str, AlertType]] = {
    value.name: value for value in list(globals().values()) if isinstance(value, AlertType)
}

BACK: Final = "The run times of {application} on {system} are back to their previous level."
OVERTAKEN: Final = "The run times of {application} on {system} have changed again."
DISTURBED: Final = "The run of {application} on {system} was disturbed; DisturbedRun names the counters that show it."
EXPLAINED: Final = "The run times of {application} on {system} have changed for good: this was not a single run."
