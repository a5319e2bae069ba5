"""No message costs more than its bytes: whatever is repeated in a record, time grows with its length and memory stays bounded."""

import io
import random
import time

import pytest

from agent.decode.files import default_telemetry, read_source
from agent.decode.formats import FORMATS
from agent.decode.message import DecodeOptions
from agent.decode.opening import OpenSource
from tests.harden.amplify import SIZES, Amplified, Cost, Repeat, cost, fault, repeats, rows, spelled, warm_bench
from tests.harden.corpus import corpus

OF_OTHERS = 40  # short texts repeated in real records


@pytest.mark.parametrize("name", sorted(corpus()))
def test_whatever_is_repeated_in_a_record_time_grows_with_its_length(name: str) -> None:
    dice = random.Random(name)  # noqa: S311 - the same records every time
    sample = b"" if name == "auto" else FORMATS[name].sample
    own, other = list(repeats(sample)), list(spelled(dice.choice(corpus()[name])))
    bench = warm_bench(name)

    def wrong(repeat: Repeat) -> str:
        return fault(lambda size: cost(bench, repeat.of_size(size)))[0]

    chosen = [*own, *dice.sample(other, min(len(other), OF_OTHERS))]
    assert {each.shown: what for each in chosen if (what := wrong(each))} == {}


def file_cost(value: bytes) -> Cost:
    began_s = time.process_time()
    for _ in read_source(
        "file", OpenSource(io.BytesIO(value)), 0, default_telemetry(DecodeOptions(default_system="exa"))
    ):
        pass
    return Cost(time.process_time() - began_s, 0.0)


@pytest.mark.parametrize("unit", [b" ", b"1", b"1 ", b"a", b"a|", b'"', b"[", b"a=", b"a,", b"-", b".", b"\t"])
@pytest.mark.parametrize("before", [b"", b"1 1", b"a", b'"', b"time", b"a,b=c d", b"JobID|"])
def test_whatever_is_repeated_in_the_first_line_of_a_file_it_is_recognised_in_linear_time(
    before: bytes, unit: bytes
) -> None:
    assert fault(lambda size: file_cost(Repeat(before, unit, b"1").of_size(size)))[0] == ""


def test_a_format_without_a_sample_is_no_format_of_messages() -> None:
    assert {name for name in FORMATS if name not in corpus() or not corpus()[name]} <= {
        name for name, form in FORMATS.items() if form.jobs is None and form.samples is None
    }


def squares(text: bytes) -> None:
    for begin in range(0, len(text), 16):
        text.count(b"x", begin)


def test_what_takes_the_square_of_its_length_is_a_fault() -> None:
    def costs_of(size: int) -> Cost:
        text = Repeat(b"a=", b"1", b"").of_size(6 * size)
        began_s = time.process_time()
        squares(text)
        return Cost(time.process_time() - began_s, 0.0)

    wrong, largest = fault(costs_of)
    assert "times the time for 4 times the bytes" in wrong or "s for" in wrong
    assert largest.cpu_s > 0


def test_a_record_that_is_slow_or_large_is_a_fault_even_if_it_is_linear() -> None:
    assert fault(lambda size: Cost(size / 1e5, 0.0))[0] == "2.00 s for 200,000 bytes"
    assert fault(lambda size: Cost(0.0, size / 1e3))[0] == "200 MB for 200,000 bytes"
    assert fault(lambda size: Cost(size / 1e6, size / 1e4)) == ("", Cost(0.2, 20.0))


def test_a_slow_moment_of_the_machine_is_no_fault() -> None:
    slow = iter([0.001, 0.001, 0.5, *[0.002] * 20])
    assert fault(lambda size: Cost(next(slow), 0.0))[0] == ""


def test_repeats_have_the_size_that_is_asked_for_and_their_numbers_differ() -> None:
    assert [len(Repeat(b"<", b"ab", b">").of_size(size)) - 2 for size in SIZES] == [size // 2 * 2 for size in SIZES]
    assert Repeat(b"{", b'"k\0#":1,', b"}").of_size(18) == b'{"k0":1,"k1":1,}'


def test_the_slowest_the_largest_and_each_fault_are_reported() -> None:
    found = Amplified("slurm")
    for number in range(20):
        found.take(Cost(number / 100, 20.0 - number), f"record {number}", "it is slow" if number == 19 else "")
    reported = {row.name: row for row in rows({"slurm": found})}
    assert "record 19" in reported["amplify: slurm, slowest"].meaning
    assert "record 0" in reported["amplify: slurm, largest"].meaning
    assert reported["amplify: fault of slurm"].meaning == "it is slow; record 19"
    assert reported["amplify: faults"].reached is False
