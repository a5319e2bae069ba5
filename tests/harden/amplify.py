"""Amplified records: a token or a group of a real one repeated to hundreds of kB; time and memory must not grow faster than the record."""

import gc
import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Final, NamedTuple

from tests.bench.result import Row
from tests.harden.corpus import corpus
from tests.harden.fuzz import chunks
from tests.harden.fuzz_chunk import Bench
from tests.harden.mutate import document

SIZES: Final = (12_500, 50_000, 200_000)  # bytes of what is repeated, four times as many each
FLOOR_S: Final = 0.05  # below it a ratio says nothing: beside other workers, 0.02 s looked quadratic once
RATIO_MAX: Final = 8.0  # 4 is linear, 16 is quadratic
SURE_S: Final = 0.3  # below it memory that is asked of the system for the first time may look like growth: four times as many bytes tell
TIMES: Final = 3  # that a suspicious record is measured: what is slow once may be slow because of something else
CPU_S_MAX: Final = 1.0  # for 200 kB; a collector that takes longer answers nobody meanwhile
PEAK_MB_MAX: Final = 150.0
CHUNK: Final = 250
WORKERS: Final = 2
SLOWEST_SHOWN: Final = 5
ALPHABET: Final = (
    b"0", b"9", b".", b"-", b"e", b",", b"=", b";", b"|", b":", b"/", b" ", b"_", b"(", b"[", b"]", b"{", b"%", b"&", b"+", b"#", b"~",
    b"a1", b"a,", b"a=", b"a.", b"a b ", b"a|", b"a/", b"1,", b"1-", b"1:", b"1.", b"[1]", b"n[1-9],", b"a=1,", b"\\\\", b'\\"', b"\\n", b"\\u00e9",
    "é".encode(), "\u2028".encode(), b"org/", b"function=", b"K", b"T", b"i,",
)  # fmt: skip
"""Texts that also stand in the place of each token, repeated; within a string of JSON they are valid."""
_TOKEN: Final = re.compile(rb"\w+|\s+|[^\w\s]+")
_GROUP: Final = re.compile(rb'[^\s,;|&]+[\s,;|&]|\[[^\[\]]*\]|\{[^{}]*\},?|"[^"]*"[,:]?|\w+[=:/.\-]|[=:/.\-]\w+')

_CELL: Final = re.compile(rb"[^\s,;|&]+")
_SEPARATORS: Final = (b"", b",", b" ", b"|", b"/")


class Repeat(NamedTuple):
    """A record in which `unit` is repeated between two parts of it, with its number in place of a zero byte."""

    before: bytes
    unit: bytes
    after: bytes

    def of_size(self, size: int) -> bytes:
        """Return the record with so many bytes of repeats."""
        count = max(size // len(self.unit), 1)
        if b"\0#" in self.unit:
            parts = self.unit.split(b"\0#")
            return self.before + b"".join([(b"%d" % number).join(parts) for number in range(count)]) + self.after
        return self.before + self.unit * count + self.after

    @property
    def shown(self) -> str:
        """What is repeated, and where."""
        return ascii((self.before[-40:] + b" <" + self.unit[:60] + b"> " + self.after[:20]).decode(errors="replace"))


class Cost(NamedTuple):
    """What a record cost a collector: seconds of a processor, and MB of memory beyond those it had."""

    cpu_s: float
    peak_mb: float


def repeats(record: bytes) -> Iterator[Repeat]:
    """Yield the record with each of its tokens, groups and values repeated.

    >>> sorted({each.unit for each in repeats(b"a=1")})
    [b'1', b'=', b'a', b'a=', b'a=1', b'a=1\\n', b'a=1 ', b'a=1,', b'a=1/', b'a=1|']
    """
    found = document(record)
    text = record if found is None else found.text
    for match in [*_TOKEN.finditer(text), *_GROUP.finditer(text)]:
        yield Repeat(text[: match.start()], match[0], text[match.end() :])
    if found is None:  # what fits nearly to its end may be tried again and again, so the rest is left out
        for match in _CELL.finditer(text):
            yield from (Repeat(text[: match.start()], match[0] + separator, b"") for separator in _SEPARATORS)
    yield Repeat(b"", text + b"\n", b"")
    if found is not None:
        yield Repeat(b"[" + text, b"," + text, b"]")
        for value in found.values:
            yield from _of_value(text, value.begin, value.end)
        for name in found.names:
            yield Repeat(text[: name.begin], text[name.begin : name.end - 1] + b'\0#":1,', text[name.begin :])
    elif not record.isascii():
        for begin in range(0, len(record), 3):
            for length in (1, 2, 4, 16):
                yield Repeat(record[:begin], record[begin : begin + length], record[begin:])


def spelled(record: bytes) -> Iterator[Repeat]:
    """Yield the record with each text of the alphabet repeated, in the place of each word and behind it."""
    found = document(record)
    text = record if found is None else found.text
    for match in re.finditer(rb"\w+", text):
        for unit in ALPHABET:
            yield Repeat(text[: match.start()], unit, text[match.end() :])
            yield Repeat(text[: match.end()], unit, text[match.end() :])


def _of_value(text: bytes, begin: int, end: int) -> Iterator[Repeat]:
    """Yield a value of JSON many times in a list, within ever more lists or objects, and under ever more names."""
    value = text[begin:end]
    yield Repeat(text[:begin] + b"[" + value, b"," + value, b"]" + text[end:])
    yield Repeat(text[:end], b"," + value, text[end:])
    yield Repeat(text[:begin], b"[", text[begin:])
    yield Repeat(text[:begin], b'{"a":', text[begin:])
    yield Repeat(text[:begin] + b'{"a":' + value, b',"k\0#":' + value, b"}" + text[end:])


def cost(bench: Bench, value: bytes) -> Cost:
    """Let a collector take a record, and return what that cost."""
    before_mb = _reset_peak_mb()
    began_s = time.process_time()
    bench.take([value])
    return Cost(time.process_time() - began_s, _peak_mb() - before_mb)


def _reset_peak_mb() -> float:
    """Let Linux forget the peak of this process's memory; return what it has now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak_mb()


def _peak_mb() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def fault(costs_of: Callable[[int], Cost]) -> tuple[str, Cost]:
    """Return what is wrong with the cost of a record by its size, if anything, and that of the largest one measured.

    >>> fault(lambda size: Cost(size / 1e6, 1.0))[0], fault(lambda size: Cost((size / 5e4) ** 2 / 4, 1.0))[0]
    ('', '16 times the time for 4 times the bytes: 0.25 s for 50,000')
    """
    before = costs_of(SIZES[0])
    if before.cpu_s > CPU_S_MAX / 4 and min(costs_of(SIZES[0]) for _ in range(TIMES)).cpu_s > CPU_S_MAX / 4:
        return f"{before.cpu_s:.2f} s for {SIZES[0]:,} bytes", before  # the larger ones could take hours
    for smaller, size in pairwise(SIZES):
        now = costs_of(size)
        if _grows_too_fast(before, now) or now.cpu_s > CPU_S_MAX or now.peak_mb > PEAK_MB_MAX:
            before = min(costs_of(smaller) for _ in range(TIMES))
            now = min(now, *(costs_of(size) for _ in range(TIMES - 1)))
        if _grows_too_fast(before, now) and (now.cpu_s > SURE_S or _grows_too_fast(now, costs_of(4 * size))):
            ratio = now.cpu_s / before.cpu_s
            return f"{ratio:.0f} times the time for 4 times the bytes: {now.cpu_s:.2f} s for {size:,}", now
        if now.cpu_s > CPU_S_MAX:
            return f"{now.cpu_s:.2f} s for {size:,} bytes", now
        if now.peak_mb > PEAK_MB_MAX:
            return f"{now.peak_mb:.0f} MB for {size:,} bytes", now
        before = now
    return "", before


def _grows_too_fast(smaller: Cost, larger: Cost) -> bool:
    return larger.cpu_s > max(FLOOR_S, RATIO_MAX * smaller.cpu_s)


@dataclass
class Amplified:
    """What became of amplified records of a format: how many, the slowest and largest ones, and what is wrong."""

    format: str
    records: int = 0
    slowest: list[tuple[Cost, str]] = field(default_factory=list)
    faults: dict[str, str] = field(default_factory=dict)

    def take(self, cost: Cost, shown: str, wrong: str) -> None:
        """Take one record."""
        self.records += 1
        self._add([(cost, shown)])
        if wrong:
            self.faults[shown] = wrong

    def add(self, other: "Amplified") -> None:
        """Add what became of others."""
        self.records += other.records
        self._add(other.slowest)
        self.faults |= other.faults

    def _add(self, others: Sequence[tuple[Cost, str]]) -> None:
        every = [*self.slowest, *others]
        largest = max(every, key=lambda each: each[0].peak_mb)
        self.slowest = sorted(every, reverse=True)[:SLOWEST_SHOWN]
        if largest not in self.slowest:
            self.slowest.append(largest)


def warm_bench(format_name: str) -> Bench:
    """Return a collector that has met the real records of a format: those like them are read in other ways."""
    bench = Bench(format_name)
    bench.take(corpus()[format_name])
    gc.freeze()  # else a record that makes many objects pays for looking through all those of the process
    return bench


@cache
def every_repeat(format_name: str) -> tuple[Repeat, ...]:
    """Return all repeats in all records of a format."""
    return tuple(each for record in corpus()[format_name] for each in (*repeats(record), *spelled(record)))


def amplify(format_name: str, seed: int, count: int) -> Amplified:
    """Let a collector take so many amplified records of a format, by chance, and of any pair of two units."""
    dice = random.Random(f"amplify/{format_name}/{seed}")  # noqa: S311 - the same records for the same seed
    choices = every_repeat(format_name)
    found, bench = Amplified(format_name), warm_bench(format_name)
    for _ in range(count):
        one, other = dice.choice(choices), dice.choice(choices)
        pair = one if dice.random() < 0.7 else Repeat(one.before, one.unit + other.unit[:1_000], one.after)
        wrong, largest = fault(lambda size, pair=pair: cost(bench, pair.of_size(size)))  # type: ignore[misc]  # of a default
        found.take(largest, pair.shown, wrong)
    return found


def _amplify(piece: tuple[str, int, int]) -> Amplified:
    return amplify(*piece)


def run(*, seed: int, records: int, report: Callable[[str], object]) -> Iterator[Row]:
    """Yield the slowest and largest of so many amplified records, and each that breaks a bound."""
    outcomes = {name: Amplified(name) for name in corpus()}
    done = 0
    # a pool of concurrent.futures waits for ever when its workers have done their last task
    with get_context("spawn").Pool(WORKERS, maxtasksperchild=20) as pool:
        for outcome in pool.imap_unordered(_amplify, chunks(records, CHUNK, seed)):
            outcomes[outcome.format].add(outcome)
            if (done + outcome.records) // 10_000 > done // 10_000:
                report(f"amplify: {done + outcome.records:,} of {records:,} records")
            done += outcome.records
    yield from rows(outcomes)


def rows(outcomes: dict[str, Amplified]) -> Iterator[Row]:
    """Yield the slowest record of each format with its peak of memory, the largest one, then all that breaks a bound."""
    for name, each in outcomes.items():
        if not each.slowest:
            continue
        slowest, shown = each.slowest[0]
        largest = max(each.slowest, key=lambda one: one[0].peak_mb)
        details = {"slowest": [f"{one.cpu_s:.3f} s, {one.peak_mb:.0f} MB: {text}" for one, text in each.slowest]}
        meaning = f"of a processor and {slowest.peak_mb:.0f} MB, of {each.records:,} records: {shown}"
        yield Row(f"amplify: {name}, slowest", slowest.cpu_s * 1000, "ms", meaning, CPU_S_MAX * 1000, details=details)
        yield Row(
            f"amplify: {name}, largest", largest[0].peak_mb, "MB", f"beyond what it had: {largest[1]}", PEAK_MB_MAX
        )
    faults = {(name, shown): wrong for name, each in outcomes.items() for shown, wrong in each.faults.items()}
    yield Row("amplify: faults", float(len(faults)), "", "worse than linear, or above a bound, in all formats", 0.0)
    for (name, shown), wrong in faults.items():
        yield Row(f"amplify: fault of {name}", 1.0, "", f"{wrong}; {shown}", 0.0)
