"""`python -m tests.bench [--quick] [--only NAME]`: one table of figures here, the details in bench-results/ as JSON."""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

import agent  # noqa: F401 - before numpy, whose threads it limits
from tests.bench import (
    answers,
    collecting,
    counters,
    decoding,
    fairness,
    footprint,
    host_reports,
    hosts,
    kafka_clients,
    kafka_path,
    machine,
    pages,
    profiles,
    refit,
    result,
    roles,
    starting,
    state,
    stops,
    story,
    telemetry,
    telemetry_kafka,
    under_load,
    windows,
)
from tests.bench import costs as costs_of
from tests.bench.growth import table as growth
from tests.bench.result import Row

Benchmark = Callable[..., Iterator[Row]]
FOLDER: Final = Path("bench-results")
BENCHMARKS: Final[dict[str, Benchmark]] = {
    "start": starting.run,
    "decode": decoding.run,
    "telemetry": telemetry.run,
    "counters": counters.run,
    "collecting": collecting.run,
    "collector": roles.collector,
    "story": story.run,
    "stops": stops.run,
    "learner": roles.learner,
    "hosts": hosts.run,
    "host-reports": host_reports.run,
    "footprint": footprint.run,
    "memory": roles.whole_path,
    "refit": refit.run,
    "under-load": under_load.run,
    "state": state.sizes,
    "restore": state.restore_memory,
    "windows": windows.run,
    "profiles": profiles.run,
    "pages": pages.run,
    "clients": kafka_clients.run,
    "kafka": kafka_path.throughput,
    "telemetry-kafka": telemetry_kafka.run,
    "answers": answers.run,
    "kafka-restore": state.restore_kafka,
    "growth": growth.run,
    "fairness": fairness.run,
}


@click.command
@click.option("--quick", is_flag=True, help="Shorter streams and fewer repeats: about a minute and a half in all.")
@click.option(
    "--short", is_flag=True, help="Growth without its largest sizes: ten minutes of a small machine, not an hour."
)
@click.option("--only", type=click.Choice(list(BENCHMARKS)), multiple=True, help="Run these alone; may be repeated.")
@click.option(
    "--costs",
    metavar="FILE",
    help="Write what `scalewatch plan` reckons with into this file, as far as it was measured.",
)
@click.option("--against", metavar="COMMIT", help="Show the figures of this commit beside, from bench-results/.")
def main(*, quick: bool, short: bool, only: tuple[str, ...], costs: str | None, against: str | None) -> None:
    """Measure the hot paths. Rates of one role are per processor second, so that a busy machine changes them little."""
    before = result.figures(FOLDER, against) if against else None
    facts, rows = machine.facts(), []
    slowness_ms: dict[str, float] = {}
    for name in only or BENCHMARKS:
        slowness_ms[name] = machine.slowness()
        click.echo(f"{name} ... (a fixed piece of work takes {slowness_ms[name]:.1f} ms now)", err=True)
        size = {"short": short} if name == "growth" else {}
        rows += list(BENCHMARKS[name](quick=quick, **size))
    console = result.console()
    console.print(result.table(rows, before))
    console.print(
        f"{facts['cores']} cores of {facts['processor']}; load average at the start {facts['load_average'][0]:.1f}"
    )
    path = FOLDER / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{facts['commit']}.json"
    result.write(path, {**facts, "quick": quick, "slowness_ms": slowness_ms}, rows)
    console.print(f"Details: {path}")
    if costs:
        found = costs_of.update(Path(costs), path)
        console.print(f"{costs}: {len(found)} of {len(costs_of.FROM)} figures are of this run")


if __name__ == "__main__":
    main()
