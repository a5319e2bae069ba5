"""The evidence of an alert in words and in numbers with their units."""

from collections.abc import Callable, Iterator
from typing import Final

from agent.contracts.events import Attribute
from agent.contracts.outputs import Alert
from agent.contracts.units import measured
from agent.words import duration, moment, power, share, sized

Words = Callable[[float], str]
TIMES: Final = frozenset({"SlowSize", "FastSize", "StrangeRun", "Regression", "Improvement"})
RATES: Final = frozenset({"ApplicationFailureRate", "HostFailureRate"})
OF_HOSTS: Final = frozenset({"HostAnomaly", "StragglerHost"})
RACK: Final = "RackAnomaly"
POWER: Final = "UnexplainedPower"
RUNS: Final = frozenset({"since_run"})  # details that name runs
JOB: Final = "job"
_NAMED: Final = {
    "conformal_p": "share of its last runs that were as far off",
    "factor": "run times changed by the factor",
    "since": "since",
    "runs": "runs since then",
    "scatter": "scatter of run times before",
    "changed": "what was new just then",
    "before": "it was",
    "after": "it is",
    "reasons": "reasons",
    "counters": "counters",
    "scored": "runs predicted before they were learned",
    "deviations": "robust standard deviations off",
    "counters_off": "counters that were off",
    "weight": "what it counts for the models, of a run",
    "slower": "it took so many times what was expected",
    "target": "what was compared",
}  # fmt: skip


def evidence_rows(alert: Alert) -> list[tuple[str, str]]:
    """Return what an alert rests on: a name and a value with its unit, for each thing that is known.

    >>> from types import SimpleNamespace
    >>> from agent.contracts.outputs import AlertEvidence
    >>> known = AlertEvidence(observed=108.0, expected=72.0, low=65.0, high=79.0)
    >>> evidence_rows(SimpleNamespace(labels={"alertname": "StrangeRun"}, evidence=known))[0::3]
    [('observed', '1 min 48 s'), ('usual range', '1 min 5 s to 1 min 19 s')]
    """
    return [*_values(alert), *_details(alert)]


def _values(alert: Alert) -> Iterator[tuple[str, str]]:
    known, words = alert.evidence, _words(alert)
    if _name(alert) == RACK:
        if known.observed is not None and known.n is not None:
            yield "hosts with an anomaly", f"{known.observed:.0f} of {known.n:.0f}"
        return
    if known.observed is not None:
        yield "observed", words(known.observed)
    if known.expected is not None:
        yield "expected", words(known.expected)
    if known.observed is not None and known.expected:
        yield "observed over expected", f"{known.observed / known.expected:.3g}"
    if known.low is not None and known.high is not None:
        yield "usual range", f"{words(known.low)} to {words(known.high)}"
    if known.n is not None:
        yield "size", sized(known.n, alert.labels.get("unit") or "nodes")
    if known.model is not None:
        yield "model", known.model


def _details(alert: Alert) -> Iterator[tuple[str, str]]:
    for name, value in alert.evidence.detail.items():
        if name not in RUNS and name != JOB and value != "":
            yield _NAMED.get(name, name), detail_words(name, value)


def detail_words(name: str, value: Attribute) -> str:
    """Return a detail of the evidence as people write it.

    >>> detail_words("scatter", 0.031), detail_words("factor", 1.25), detail_words("since", "2026-11-20T10:31:12Z")
    ('3.1 %', '1.25', '2026-11-20 10:31 UTC')
    """
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int | float):
        return share(value) if name in {"scatter", "conformal_p"} else f"{value:.4g}"
    return f"{moment(value)} UTC" if name == "since" else value


def _words(alert: Alert) -> Words:
    name = _name(alert)
    if name in TIMES:
        return duration
    if name in RATES:
        return share
    if name == POWER:
        return lambda value: f"{power(value)} a host"
    if name in OF_HOSTS:
        resource = next((entry for entry in alert.evidence.detail if entry != JOB), "")
        return lambda value: measured(resource, value, 4)
    return lambda value: f"{value:.4g}"


def _name(alert: Alert) -> str:
    return alert.labels.get("alertname", "")


def sentence(alert: Alert) -> str:
    """Return the sentence of an alert, or what it is where it has none.

    >>> from types import SimpleNamespace
    >>> sentence(SimpleNamespace(annotations={}, labels={"alertname": "SlowSize"}, kind="anomaly"))
    'SlowSize, without words.'
    """
    return alert.annotations.get("summary") or f"{_name(alert) or alert.kind}, without words."
