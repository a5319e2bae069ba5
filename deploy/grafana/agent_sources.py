"""The part of the agent's dashboard about what it reads: its sources, and the agent's own topics."""

from deploy.grafana.agent_parts import NONE, hourly
from deploy.grafana.frame import Line, Part
from deploy.grafana.panels import GREEN, ORANGE, RED, figure, lines
from deploy.grafana.queries import OF_AGENT, latest, over_time


def sources() -> Part:
    """Return the part about sources and topics.

    >>> sources().title
    'Sources and topics'
    """
    age_s = f"(time() - (max by (topic) (scalewatch_source_newest_message_timestamp_seconds{{{OF_AGENT}}}) > 0))"
    age = lines(
        "Age of the newest message, by source",
        "How long ago the newest message of each source topic came, by the clock of the collector. A slope without end: its "
        "producer writes no more.",
        "s",
        [over_time(age_s, "{{topic}}")],
    )
    messages = lines(
        "Messages per second, by source",
        "What producers write into each source topic, whether it is read or not.",
        "cps",
        [over_time(f"max by (topic) (rate(scalewatch_source_messages{{{OF_AGENT}}}[$__rate_interval]))", "{{topic}}")],
    )
    silence = lines(
        "Silence of sources",
        "Age of the newest message as a share of how long the source may be silent (sources[].silent_s). Above 100 %: see "
        "Source silent in the runbook.",
        "percentunit",
        [
            over_time(
                f"{age_s} / max by (topic) (scalewatch_source_silent_threshold_seconds{{{OF_AGENT}}})", "{{topic}}"
            )
        ],
        steps={None: GREEN, 0.5: ORANGE, 1.0: RED},
    )
    dead_letters = hourly(
        "Dead letters by source",
        "Messages of each source, or parts of them, that could not be used in the last hour. One source, suddenly: its "
        "producer changed.",
        "scalewatch_source_dead_letters_total",
        "source",
    )
    deleted = hourly(
        "Records deleted unread, by source",
        "Records that retention deleted in the last hour before a collector had read them. See Records deleted unread in the "
        "runbook.",
        "scalewatch_source_records_deleted_total",
        "source",
    )
    faults = figure(
        "Faults of the agent's topics",
        "Settings of the agent's own topics that lose data, copies and rights that are missing. `scalewatch topics` names "
        "them; see Topics wrong in the runbook.",
        "none",
        [latest(f"max(scalewatch_topic_faults{{{OF_AGENT}}})")],
        NONE,
    )
    return Part(
        "Sources and topics",
        (Line(8, ((8, age), (8, messages), (8, silence))), Line(8, ((8, dead_letters), (8, deleted), (8, faults)))),
    )
