"""Fuzzing: a million hostile records over every format, in two processes, and a table of what became of them."""

from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from typing import Final

from tests.bench.result import Row
from tests.harden.corpus import corpus
from tests.harden.fuzz_chunk import Outcome, fuzz

CHUNK: Final = 4_000
WORKERS: Final = 2
REPORT_EACH: Final = 50_000  # records
SLOWEST_MS_MAX: Final = 1_000.0  # far below what keeps a collector from its group
SHOWN_BYTES: Final = 300  # of the smallest example of a defect


def run(*, seed: int, records: int, report: Callable[[str], object]) -> Iterator[Row]:
    """Yield what became of so many records."""
    outcomes = {name: Outcome(name) for name in corpus()}
    done = 0
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        pieces = [
            pool.submit(fuzz, *piece) for piece in chunks(records, min(CHUNK, -(-records // len(outcomes))), seed)
        ]
        for piece in as_completed(pieces):
            outcome = piece.result()
            outcomes[outcome.format].add(outcome)
            if (done + outcome.records) // REPORT_EACH > done // REPORT_EACH:
                report(f"fuzz: {done + outcome.records:,} of {records:,} records")
            done += outcome.records
    yield from rows(outcomes)


def chunks(records: int, size: int, seed: int) -> Iterator[tuple[str, int, int]]:
    """Yield format, seed and count of pieces of work, the formats in turn, so that each has its share of the records.

    >>> sum(count for _, _, count in chunks(1_000_000, 4_000, 1))
    1000000
    """
    names, left, number = tuple(corpus()), records, 0
    while left:
        count = min(size, left)
        yield names[number % len(names)], seed * 1_000_000 + number // len(names), count
        left -= count
        number += 1


def rows(outcomes: dict[str, Outcome]) -> Iterator[Row]:
    """Yield a line for each format, then what must not be: backstop hits and other defects, with the smallest record of each."""
    for name, each in outcomes.items():
        refused = ", ".join(f"{reason} {count:,}" for reason, count in each.reasons.most_common())
        meaning = f"{each.accepted:,} accepted, {each.folded:,} folded; dead letters: {refused}"
        details = {"accepted": each.accepted, "folded": each.folded, "reasons": dict(each.reasons)}
        yield Row(f"fuzz: {name}", float(each.records), "records", meaning, details=details)
    for name, each in outcomes.items():
        yield Row(
            f"fuzz: {name}, slowest", each.slowest_ms, "ms",
            f"of a processor, one record of {len(each.slowest.value):,} bytes: {each.slowest.how}", SLOWEST_MS_MAX,
        )  # fmt: skip
    for title, decoder in (("backstop hits", True), ("other defects", False)):
        found = {
            (name, what): count
            for name, each in outcomes.items()
            for what, count in each.hits.items()
            if what.startswith("decoder") is decoder
        }
        yield Row(f"fuzz: {title}", float(sum(found.values())), "", "in all formats", 0.0)
        for (name, what), count in found.items():
            example = outcomes[name].defects[what]
            shown = f"{what}; {example.how}; {example.value[:SHOWN_BYTES]!r}"
            yield Row(f"fuzz: {title} of {name}", float(count), "", shown, 0.0, details={"value": ascii(example.value)})
