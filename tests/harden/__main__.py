"""`python -m tests.harden [--only kills|fuzz|amplify|soak] [--seed 1]`: the slow lane; one table at the end, exit 1 when a bound is broken.

Details go to harden-results/ as JSON.
"""

import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import click

import agent  # noqa: F401 - before numpy, whose threads it limits
from tests.bench import machine, result
from tests.bench.result import Row
from tests.harden import amplify, fuzz, kills, soak

FOLDER: Final = Path("harden-results")
PARTS: Final = ("kills", "fuzz", "amplify", "soak")


@click.command
@click.option("--only", type=click.Choice(PARTS), multiple=True, help="Run these alone; may be repeated.")
@click.option("--seed", default=1, show_default=True, help="Of everything that is left to chance.")
@click.option(
    "--kills", "kill_count", default=30, show_default=True, help="How many processes to kill, on each Kafka client."
)
@click.option("--faults", default=10, show_default=True, help="How many faults of the broker, on each Kafka client.")
@click.option("--records", default=1_000_000, show_default=True, help="How many records to fuzz.")
@click.option("--amplified", default=100_000, show_default=True, help="How many amplified records.")
@click.option("--minutes", default=20.0, show_default=True, help="How long to soak.")
def main(
    only: tuple[str, ...], *, seed: int, kill_count: int, faults: int, records: int, amplified: int, minutes: float
) -> None:
    """Kill processes and a broker under load, fuzz the decoders with hostile and amplified records, and soak: each against bounds."""
    parts: dict[str, Callable[[], Iterator[Row]]] = {
        "kills": lambda: kills.run(seed=seed, kills=kill_count, faults=faults, report=report),
        "fuzz": lambda: fuzz.run(seed=seed, records=records, report=report),
        "amplify": lambda: amplify.run(seed=seed, records=amplified, report=report),
        "soak": lambda: soak.run(seed=seed, minutes=minutes, report=report),
    }
    rows: list[Row] = []
    for part in only or PARTS:
        began_s = time.monotonic()
        rows += parts[part]()
        report(f"{part}: done after {(time.monotonic() - began_s) / 60:.1f} min")
    console = result.console()
    console.print(result.table(rows, title="Scalewatch: kills, fuzz, amplified records and soak"))
    path = FOLDER / f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}.json"
    result.write(path, {**machine.facts(), "seed": seed}, rows)
    console.print(f"Details: {path}")
    sys.exit(any(row.reached is False for row in rows))


def report(line: str) -> None:
    """Say how far it is."""
    click.echo(line, err=True)


if __name__ == "__main__":
    main()
