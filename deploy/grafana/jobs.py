"""The dashboard of running jobs: which partitions will have room, and how many jobs will hit their limit."""

from typing import Final

from deploy.grafana.frame import Line, Part, Sheet
from deploy.grafana.panels import GREEN, ORANGE, Panel, figure, lines, stacked
from deploy.grafana.queries import OF_SYSTEMS, latest, over_time, rows
from deploy.grafana.tables import linked, shaded, table
from deploy.grafana.variables import JOB, OF_JOBS

OF_PARTITIONS: Final = f'{OF_SYSTEMS}, partition=~"$partition"'
PLACE: Final = "system, partition"
LIST_URL: Final = (
    "${page}/jobs?system=${__data.fields.system:percentencode}&partition=${__data.fields.partition:percentencode}"
)
SOME: Final = {None: GREEN, 1.0: ORANGE}


def sheet() -> Sheet:
    """Return the dashboard.

    >>> sheet().name
    'jobs'
    """
    return Sheet(
        name="jobs",
        title="Jobs",
        means="Running jobs by partition: how many will hit their time limit, and when their nodes will be free.",
        variables=(JOB, *OF_JOBS),
        parts=(_now(), _partitions(), _over_time()),
        firing=f'scalewatch_alert_firing{{{OF_SYSTEMS}, partition=~"$partition|"}}',
        page="/jobs",
        shown="now-24h",
    )


def _now() -> Part:
    jobs = figure(
        "Running jobs",
        "Jobs that run now: those with a predicted end, and those of which nothing is known yet. Many unknown ones: look at "
        "how jobs are identified.",
        "none",
        [latest(f"sum by (end) (scalewatch_running_jobs{{{OF_PARTITIONS}}})", "{{end}}")],
    )
    limit = figure(
        "Will hit their limit",
        "Jobs that will probably be stopped at their time limit. The list on the agent's page names them; warn their users, or "
        "extend what is worth it.",
        "none",
        [latest(f"sum(scalewatch_running_jobs_hit_limit{{{OF_PARTITIONS}}})")],
        SOME,
    )
    held = figure(
        "Nodes in use",
        "Nodes that running jobs hold. Jobs whose producer does not say how many count as none.",
        "none",
        [latest(f"sum(scalewatch_running_nodes{{{OF_PARTITIONS}}})")],
    )
    free = [
        figure(
            f"Free in {hours} h",
            f"Nodes in use now that will be free within {hours} hours, by the predicted ends of their jobs. Nodes that are idle "
            "already come on top.",
            "none",
            [latest(_free(f"{hours}h"))],
        )
        for hours in (1, 4, 12)
    ]
    return Part("Now", (Line(4, tuple((4, each) for each in (jobs, limit, held, *free))),))


def _partitions() -> Part:
    def of(metric: str, extra: str = "") -> str:
        return f"sum by ({PLACE}) ({metric}{{{OF_PARTITIONS}{extra}}})"

    panel: Panel = table(
        "Partitions",
        "A row for each partition; of very many the smallest are one, other. A partition leads to the list of its jobs.",
        {
            "running": rows(of("scalewatch_running_jobs")),
            "unknown end": rows(of("scalewatch_running_jobs", ', end="unknown"')),
            "hit their limit": rows(of("scalewatch_running_jobs_hit_limit")),
            "nodes": rows(of("scalewatch_running_nodes")),
            "free in 1 h": rows(of("scalewatch_running_nodes_free", ', within="1h"')),
            "free in 4 h": rows(of("scalewatch_running_nodes_free", ', within="4h"')),
            "free in 12 h": rows(of("scalewatch_running_nodes_free", ', within="12h"')),
        },
    )
    linked(panel, "partition", "Jobs of ${__data.fields.partition}", LIST_URL)
    return Part("By partition", (Line(10, ((24, shaded(panel, "hit their limit", "none", SOME)),)),))


def _over_time() -> Part:
    held = stacked(
        "Nodes in use by partition",
        "Nodes that running jobs hold, over time.",
        "none",
        [over_time(f"sum by ({PLACE}) (scalewatch_running_nodes{{{OF_PARTITIONS}}})", "{{system}} {{partition}}")],
    )
    free = lines(
        "Nodes free soon",
        "Nodes in use that will be free within 1, 4 and 12 hours. Compare a line with what followed that much later: far off "
        "for long, look at the coverage of the applications that run.",
        "none",
        [over_time(f"sum by (within) (scalewatch_running_nodes_free{{{OF_PARTITIONS}}})", "{{within}}")],
    )
    limit = lines(
        "Jobs that will hit their limit",
        "By partition. A jump after maintenance or a new module: an application became slower than its users know.",
        "none",
        [
            over_time(
                f"sum by ({PLACE}) (scalewatch_running_jobs_hit_limit{{{OF_PARTITIONS}}})", "{{system}} {{partition}}"
            )
        ],
    )
    return Part("Over time", (Line(8, ((8, held), (8, free), (8, limit))),))


def _free(within: str) -> str:
    return f'sum(scalewatch_running_nodes_free{{{OF_PARTITIONS}, within="{within}"}})'
