"""Events that a role has taken and of which nothing became yet, from the counters."""

from typing import Final

from prometheus_client.parser import text_string_to_metric_families

from sinks.prometheus.registry import Metrics

_SIGNS: Final = {"received": 1.0, "processed": -1.0, "rejected": -1.0, "dropped": -1.0}


def unaccounted(metrics: Metrics) -> dict[tuple[str, str], float]:
    """Return, by role and format, received - processed - rejected - dropped: what is in work, at rest nothing."""
    in_work: dict[tuple[str, str], float] = {}
    for family in text_string_to_metric_families(metrics.exposition().decode()):
        for sample in family.samples:
            if sample.name == "scalewatch_events_total":
                key = sample.labels["role"], sample.labels["format"]
                in_work[key] = in_work.get(key, 0.0) + _SIGNS.get(sample.labels["outcome"], 0.0) * sample.value
    return {key: value for key, value in in_work.items() if value}
