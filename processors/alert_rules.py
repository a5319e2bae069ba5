"""Alert rules: what findings mean to the person who is woken. Each name has a heading in the runbook."""

from collections.abc import Sequence
from typing import Final

from agent.contracts.names import ApplicationKey
from agent.contracts.outputs import AlertEvidence, Reliability, Severity
from agent.contracts.settings import AlertSettings
from processors.alerts import Condition
from processors.failures import FailureJudgement

SLOW_SIZE: Final = "SlowSize"
FAST_SIZE: Final = "FastSize"
STRANGE_RUN: Final = "StrangeRun"
REGRESSION: Final = "Regression"
IMPROVEMENT: Final = "Improvement"
PREDICTION_UNRELIABLE: Final = "PredictionUnreliable"
APPLICATION_FAILS: Final = "ApplicationFailureRate"
HOST_FAILS: Final = "HostFailureRate"
HOST_ANOMALY: Final = "HostAnomaly"
RACK_ANOMALY: Final = "RackAnomaly"
STRAGGLER_HOST: Final = "StragglerHost"
UNEXPLAINED_POWER: Final = "UnexplainedPower"
DISTURBED_RUN: Final = "DisturbedRun"
ALERT_NAMES: Final = (
    SLOW_SIZE, FAST_SIZE, STRANGE_RUN, REGRESSION, IMPROVEMENT, PREDICTION_UNRELIABLE, APPLICATION_FAILS, HOST_FAILS,
    HOST_ANOMALY, RACK_ANOMALY, STRAGGLER_HOST, UNEXPLAINED_POWER, DISTURBED_RUN,
)  # fmt: skip


def application_labels(key: ApplicationKey) -> dict[str, str]:
    """Return the labels that name an application.

    >>> application_labels(ApplicationKey("lammps", "archer2", "", "nodes"))["system"]
    'archer2'
    """
    return {"application": key.application, "system": key.system, "input": key.input, "unit": key.unit}


def strange_size(
    key: ApplicationKey,
    name: str,
    n: float,
    found: tuple[float, float] | None,
    *,
    settings: AlertSettings.SlowSize,
    now_ms: int,
) -> Condition:
    """Return the condition of a size that is slow or fast against the rest of its curve.

    `found` is what was observed and what the other sizes suggest, in seconds; None where it is no longer so.

    >>> key = ApplicationKey("lammps", "archer2", "", "nodes")
    >>> settings = AlertSettings.SlowSize()
    >>> strange_size(key, SLOW_SIZE, 8.0, (150.0, 100.0), settings=settings, now_ms=0).summary
    'lammps is 50 % slower on 8 nodes than its other sizes suggest.'
    >>> strange_size(key, SLOW_SIZE, 8.0, None, settings=settings, now_ms=0).holds
    False
    """
    labels = {**application_labels(key), "n": f"{n:g}"}
    if found is None:
        return over(name, labels, now_ms)
    observed_s, expected_s = found
    change = abs(observed_s / expected_s - 1)
    word = "slower" if name == SLOW_SIZE else "faster"
    return Condition(
        name=name,
        labels=labels,
        holds=True,
        time_ms=now_ms,
        severity="warning" if name == SLOW_SIZE else "info",
        for_ms=round(settings.for_s * 1000),
        keep_firing_ms=round(settings.keep_firing_s * 1000),
        summary=f"{key.application} is {change * 100:.0f} % {word} on {n:g} {key.unit} than its other sizes suggest.",
        description=f"Observed {observed_s:.4g} s, expected {expected_s:.4g} s from the curve through the other sizes.",
        evidence=AlertEvidence(observed=observed_s, expected=expected_s, n=n),
    )


def unreliable(
    key: ApplicationKey, said: Reliability, observations: int, settings: AlertSettings.Unreliable, now_ms: int
) -> list[Condition]:
    """Return one condition for each verdict that matters to users: holding for the present one, else not.

    >>> key, said = ApplicationKey("lammps", "archer2", "", "nodes"), Reliability("slowdown", ("slowdown",), ())
    >>> found = unreliable(key, said, 9, AlertSettings.Unreliable(), now_ms=0)
    >>> [(condition.labels["verdict"], condition.holds) for condition in found]
    [('high_error', False), ('slowdown', True)]
    """
    active = settings.enabled and observations >= settings.observations_min
    return [
        Condition(
            name=PREDICTION_UNRELIABLE,
            labels={**application_labels(key), "verdict": verdict},
            holds=active and said.verdict == verdict,
            time_ms=now_ms,
            kind="reliability",
            severity="info",
            for_ms=round(settings.for_s * 1000),
            summary=f"Predictions of {key.application} are not reliable ({verdict.replace('_', ' ')}).",
            description=" ".join(said.advice),
            evidence=AlertEvidence(detail={"reasons": ", ".join(said.reasons)}),
        )
        for verdict in settings.verdicts
    ]


def over(name: str, labels: dict[str, str], now_ms: int, *, forgotten: bool = False) -> Condition:
    """Return the condition of what no longer holds, or is `forgotten`: nobody knows any more whether it does.

    >>> over("SlowSize", {"n": "8"}, 0).holds
    False
    """
    return Condition(name=name, labels=labels, holds=False, time_ms=now_ms, forgotten=forgotten)


def forgotten(
    key: ApplicationKey, flagged: Sequence[tuple[str, float]], verdicts: Sequence[str], now_ms: int
) -> list[Condition]:
    """Return that nothing holds any more which a model said of its application.

    >>> key = ApplicationKey("lammps", "exa", "", "nodes")
    >>> [condition.name for condition in forgotten(key, [(SLOW_SIZE, 8.0)], ["slowdown"], 0)]
    ['SlowSize', 'PredictionUnreliable']
    """
    labels = application_labels(key)
    sizes = [(name, {**labels, "n": f"{n:g}"}) for name, n in flagged]
    judged = [(PREDICTION_UNRELIABLE, {**labels, "verdict": verdict}) for verdict in verdicts]
    return [over(name, of, now_ms, forgotten=True) for name, of in (*sizes, *judged)]


def failing(
    name: str, labels: dict[str, str], judged: FailureJudgement, settings: AlertSettings.FailureRate, now_ms: int
) -> Condition:
    """Return the condition of a failure rate; a host has to fail more than one application.

    >>> judged = FailureJudgement(20, 8, causes=3, past_rate=0.05, credibility=0.999, credible=True)
    >>> failing(HOST_FAILS, {"host": "nid1"}, judged, AlertSettings.FailureRate(), now_ms=0).summary
    '8 of the last 20 runs of nid1 failed.'
    """
    causes_min = 2 if name == HOST_FAILS else 1
    subject = labels.get("host") or labels.get("application", "")
    severity: Severity = "critical" if judged.recent_failures * 2 > judged.recent_runs else "warning"
    return Condition(
        name=name,
        labels=labels,
        holds=settings.enabled and judged.credible and judged.causes >= causes_min,
        time_ms=now_ms,
        kind="reliability",
        severity=severity,
        keep_firing_ms=round(settings.keep_firing_s * 1000),
        lasts_ms=round(settings.quiet_s * 1000) if name == HOST_FAILS else 0,
        summary=f"{judged.recent_failures} of the last {judged.recent_runs} runs of {subject} failed.",
        description=(
            f"Its rate before was {judged.past_rate * 100:.1f} %; with probability {judged.credibility:.3f} "
            "it is now above that and above the usual rate."
        ),
        evidence=AlertEvidence(observed=judged.recent_failures / max(judged.recent_runs, 1), expected=judged.past_rate),
    )


def sizes_no_longer(
    flagged: Sequence[tuple[str, float]], still: Sequence[tuple[str, float]]
) -> list[tuple[str, float]]:
    """Return what was flagged before and is not any more.

    >>> sizes_no_longer([("SlowSize", 8.0), ("SlowSize", 4.0)], [("SlowSize", 4.0)])
    [('SlowSize', 8.0)]
    """
    return [flag for flag in flagged if tuple(flag) not in set(still)]
