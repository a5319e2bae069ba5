"""The slow lane's fuzzing, in short: a few thousand hostile records over every format, and what it would say of a defect."""

import json
import random

import pytest

from agent.decode.formats import DECODERS, TELEMETRY
from agent.decode.message import DecodeOptions
from processors.contracts.events import Decode, Decoded, JobStarted
from processors.pipeline.jobs import Jobs
from tests.harden.corpus import corpus
from tests.harden.fuzz import chunks, rows
from tests.harden.fuzz_chunk import Outcome, fuzz
from tests.harden.mutate import HOSTILE, document, mutant, replaced

SEED = 7
RECORDS = 96  # of each format
BAD = b'"\xff"'


@pytest.fixture(scope="module", params=sorted(corpus()))
def outcome(request: pytest.FixtureRequest) -> Outcome:
    return fuzz(request.param, SEED, RECORDS)


def test_hostile_records_are_taken_or_refused_and_nothing_fails_on_them(outcome: Outcome) -> None:
    assert outcome.defects == {}
    assert outcome.records == RECORDS
    assert outcome.accepted + sum(outcome.reasons.values()) >= RECORDS


def test_a_part_of_what_passes_reaches_the_shard(outcome: Outcome) -> None:
    assert 0 < outcome.accepted < RECORDS
    assert outcome.folded > 0


def test_every_format_that_a_source_or_a_file_may_have_is_fuzzed() -> None:
    assert set(corpus()) == {*DECODERS, *TELEMETRY}
    assert all(records for records in corpus().values())


def test_a_decoder_that_raises_is_reported_with_the_smallest_record(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = DECODERS["slurm"]

    def broken(options: DecodeOptions) -> Decode:
        decode = whole(options)

        def raising(value: bytes, received_ms: int) -> Decoded:
            if BAD in value:
                raise OverflowError("too large")
            return decode(value, received_ms)

        return raising

    monkeypatch.setitem(DECODERS, "slurm", broken)
    found = fuzz("slurm", SEED, 1_600)
    ((what, example),) = found.defects.items()
    assert what == "decoder: The decoder raised OverflowError: too large"
    assert BAD in example.value
    assert len(example.value) <= max(map(len, corpus()["slurm"])) + 10
    hits = next(row for row in rows({"slurm": found}) if row.name == "fuzz: backstop hits")
    assert hits.value == found.reasons["decoder"] == found.hits[what] > 0
    assert hits.reached is False


def test_a_stage_that_raises_is_reported_with_its_record(monkeypatch: pytest.MonkeyPatch) -> None:
    def raising(_jobs: Jobs, _work: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Jobs, "remember", raising)
    found = fuzz("slurm", SEED, 200)
    (what,) = found.defects
    assert what.startswith("the shard refuses: ZeroDivisionError in raising")
    assert found.defects[what].how == JobStarted.__name__


def dice(seed: int) -> random.Random:
    return random.Random(seed)  # noqa: S311 - the same records every time


def test_the_same_seed_makes_the_same_records() -> None:
    records = corpus()["auto"]
    first, second = dice(SEED), dice(SEED)
    assert all(mutant(record, records, first) == mutant(record, records, second) for record in records)


def test_one_value_alone_is_replaced() -> None:
    record = b'{"a": [1, 2], "b": {"c": "d"}}'
    found = document(record)
    assert found is not None
    assert [found.text[value.begin : value.end] for value in found.values] == [
        b"1", b"2", b"[1,2]", b'"d"', b'{"c":"d"}', b'{"a":[1,2],"b":{"c":"d"}}',
    ]  # fmt: skip
    hostile = next(text for text in HOSTILE if text == b"[[]]")
    made = {replaced(record, dice(seed)).value for seed in range(1_500)}
    assert {json.dumps({"a": [1, []], "b": {"c": "d"}}, separators=(",", ":")).encode()} <= made
    assert b'{"a":[1,2],"b":{"c":' + hostile + b"}}" in made


def test_each_format_has_its_share_and_no_piece_comes_twice() -> None:
    pieces = list(chunks(120_000, 1_000, seed=1))
    assert sum(count for _, _, count in pieces) == 120_000
    assert len({(name, seed) for name, seed, _ in pieces}) == len(pieces)
    shares = [sum(count for name, _, count in pieces if name == each) for each in corpus()]
    assert max(shares) - min(shares) <= 1_000, "they differ by no more than a piece"
