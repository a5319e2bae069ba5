import pytest

from agent.decode.message import DecodeOptions, TelemetryOptions
from agent.decode.telemetry.line_protocol import line_protocol_decoder, parse_head, parse_line, whole_records
from processors.contracts.errors import InvalidInputError
from processors.contracts.telemetry import DecodedBatch, MetricMapping, Series, SeriesIndex, Telemetry
from tests.kit.cases import each


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (b"a=1", {"a": 1.0}),
        (b"a=-1.5e3,b=+2,c=.5,d=3.", {"a": -1500.0, "b": 2.0, "c": 0.5, "d": 3.0}),
        (b"a=7i,b=8u,c=9.5", {"a": 7.0, "b": 8.0, "c": 9.5}),
        (b"a=t,b=FALSE,c=1", {"a": None, "b": None, "c": 1.0}),
        (rb'a="x, y=\"z\" \\",b=2', {"a": None, "b": 2.0}),
        (rb"a\ b\,c\=d=1", {"a b,c=d": 1.0}),
    ],
)
def test_fields_are_numbers_or_known_to_be_none(fields: bytes, expected: dict[str, float | None]) -> None:
    assert parse_line(b"m,host=a " + fields + b" 1787217284").fields == expected


@each(
    "line",
    [
        b"m",
        b"m f",
        b"m f=",
        b"m f=1,",
        b"m ,f=1",
        b"m =1 5",
        b"m f=1=2,3 5",
        b"m f=1_000 5",
        b"m f=0x10 5",
        b"m f=1.5i 5",
        b'm f="x 5',
        b"m f=1 5x",
        b"m f=1 5 6",
        b",host=a f=1",
        b" m f=1",
        b"m f=1e 5",
        b"m f=--1 5",
    ],
)
def test_what_is_no_line_protocol_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_line(line)
    assert caught.value.reason == "columns"


@each("bad", ["nan", "NaN", "-inf", "+Inf", "Infinity", "N/A", "null", "1_000", "0x10", "1.5i", "1e", "", "12abc"])
def test_a_field_that_is_no_number_costs_its_line_no_other_field(bad: str) -> None:
    assert parse_line(f"m,host=a load1=1.5,load5={bad},load15=2 5".encode()).fields == {
        "load1": 1.5,
        "load5": None,
        "load15": 2.0,
    }


def test_a_line_of_what_is_not_finite_is_a_line_without_numbers() -> None:
    assert parse_line(b"m load1=NaN,load5=-Inf 5").fields == {"load1": None, "load5": None}


TWO_LINES = (b'system,host=a load1=1,note="two\n', b'lines, and = \\"x\\"",load5=2 1787217284\n')
AFTER = b"system,host=b load1=3 1787217285\n"


def records(*lines: bytes) -> list[tuple[bytes, int]]:
    return list(whole_records(zip(lines, range(1, 99), strict=False)))


def test_a_text_field_may_go_on_in_the_next_line() -> None:
    (first, number), second = records(*TWO_LINES, AFTER)
    assert parse_line(first.rstrip()).fields == {"load1": 1.0, "note": None, "load5": 2.0}
    assert (number, second) == (1, (AFTER, 3))
    decode = line_protocol_decoder(TelemetryOptions(decode=DecodeOptions(default_system="exa")))
    batch = decode([b"".join(TWO_LINES) + AFTER], [0], SeriesIndex(9))
    assert batch.samples.value.tolist() == [1.0, 3.0]
    assert not any(other.rejects for _, other in batch.others)


def test_a_text_field_may_have_many_lines_and_another_one_may_follow() -> None:
    lines = (b'm a=1,b="1\n', b"2\n", b'3",c="\n', b'",d=4 5\n')
    assert records(*lines, AFTER) == [(b"".join(lines).rstrip(), 1), (AFTER, 5)]


@pytest.mark.parametrize("cut", [b'm a=1,b="cut', b'm a=1,b="cut\\'])
def test_a_line_cut_within_a_text_costs_no_line_after_it(cut: bytes) -> None:
    assert [line for line, _ in records(cut, AFTER, cut, *TWO_LINES, cut)] == [
        cut, AFTER, cut, b"".join(TWO_LINES).rstrip(), cut,
    ]  # fmt: skip


def test_lines_that_each_open_a_text_are_read_in_linear_time() -> None:
    for line in (b'm a="x', b'm a="x",b="', b'"', b'","', b'm" a="', b"x"):
        assert len(records(b'm a="', *[line] * 90)) <= 91
    lines = [b'm a="'] + [b'","'] * 100_000
    assert (
        len(list(whole_records((line, 0) for line in lines * 2))) > 100_000
    )  # a join of all for each would take hours


@pytest.mark.parametrize("line", [b"m f=1,f=2 5", b"m f=1,f=t 5"])
def test_a_field_named_twice_is_refused(line: bytes) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_line(line)
    assert caught.value.reason == "duplicate-key"


@pytest.mark.parametrize(
    ("head", "reason"), [(b"m,a=1,a=2", "duplicate-key"), (b"m,a", "columns"), (b"m,a=", "columns"), (b"m,", "columns")]
)
def test_tags_that_are_none_are_refused(head: bytes, reason: str) -> None:
    with pytest.raises(InvalidInputError) as caught:
        parse_head(head)
    assert caught.value.reason == reason


def test_of_several_lines_each_stands_for_itself() -> None:
    decode = line_protocol_decoder(TelemetryOptions(decode=DecodeOptions(default_system="exa")))
    value = b"system,host=a load1=1 1787217284\nbroken\r\n\n# note\nsystem,host=b load1=2 1787217284\n"
    batch = decode([value], [0], SeriesIndex(9))
    assert batch.samples.value.tolist() == [1.0, 2.0]
    assert [error.reason for _, other in batch.others for error in other.rejects] == ["columns"]


def test_a_long_hostile_line_is_refused_at_once() -> None:
    for line in (b"m f=" + b"1" * 200_000 + b"x 5", b"m,a=" + b"\\" * 200_001 + b" f", b'm f="' + b'\\"' * 100_000):
        with pytest.raises(InvalidInputError):
            parse_line(line)


def sampled(batch: DecodedBatch, index: SeriesIndex) -> list[tuple[Series, int, float]]:
    """Return the samples, in an order that is not that of the fields."""
    columns = (batch.samples.series, batch.samples.time_ms, batch.samples.value)
    return sorted(
        (index[number], time_ms, value)
        for number, time_ms, value in zip(*(column.tolist() for column in columns), strict=True)
    )


def test_of_two_fields_of_one_series_the_first_counts_in_whichever_order_they_come() -> None:
    metrics = tuple(MetricMapping(measurement="m", field=field, resource="load1") for field in ("a", "b"))
    options = TelemetryOptions(decode=DecodeOptions(default_system="exa"), taken=Telemetry(metrics=metrics))
    index, decode = SeriesIndex(9), line_protocol_decoder(options)
    lines = [b"m,host=x a=1,b=2 1787217284", b"m,host=x b=2,a=1 1787217285"]
    for _ in range(3):
        assert decode(lines, [0, 0], index).samples.value.tolist() == [1.0, 2.0, 2.0, 1.0]


def test_many_lines_of_several_measurements_with_odd_ones_among_them_keep_their_order() -> None:
    options = TelemetryOptions(
        decode=DecodeOptions(default_system="exa"), taken=Telemetry(resources=("load1", "load5", "memory_free"))
    )
    lines = []
    for at in range(500):
        fields = {3: f"load1={at}i,load5=nan", 7: f"load5={at},load1=-0", 9: f"load1={at}"}.get(
            at % 10, f"load1={at},load5={at}.5"
        )
        lines.append(f"system,host=h{at % 4} {fields} {1787217284 + at}".encode())
        lines.append(f"mem,host=h{at % 3} free={at}i,used={at}u {1787217284 + at}".encode())
    index, decode = SeriesIndex(99), line_protocol_decoder(options)
    decode(lines, [0] * len(lines), index)
    found, alone = decode(lines, [0] * len(lines), index), [decode([line], [0], index) for line in lines]
    expected = [(at, value) for at, batch in enumerate(alone) for value in batch.samples.value.tolist()]
    assert sorted(zip(found.sample_message.tolist(), found.samples.value.tolist(), strict=True)) == sorted(expected)
    assert found.sample_message.tolist() == sorted(found.sample_message.tolist())
    assert [at for at, other in found.others if other.rejects] == [
        at for at, batch in enumerate(alone) if any(other.rejects for _, other in batch.others)
    ]


FIELDS = [
    "load1=1,load5=2", "load1=1=load5,2", "load1=1,load5=2,", "load1=1,load5=2i", "load1=1,load5=nan", "load1=1,load5=1_0",
    "load1=1,load5=t", 'load1=1,load5="x"', "load5=2,load1=1", "load1=1", "load1=1,load5=", "load1=1,load5=2,load5=2",
    "load1=1,load1=2", "load1==1,load5=2", "load1=1,,load5=2", "load1=%s,load5=2", "load1=1e999,load5=2", "load5=2", "users=1,x=2",
    "load1=.5,load5=5.", "load1=1e,load5=2", "load1=--1,load5=2", "load1=1,load5=-1", "a%d=1,load1=2", r"a\,b=1,load1=2",
    "", 'load1=1},{"load1":2,load5=2', 'load1=1,load5":2}=3', r"\u006coad1=1,load5=2", "load1=1,load5={", "load1=1,load5=\t2", "load1=1.5i,load5=2e3i",
]  # fmt: skip


@each("begin", FIELDS)
def test_what_a_line_yields_does_not_depend_on_the_line_before(begin: str) -> None:
    options = TelemetryOptions(
        decode=DecodeOptions(default_system="exa"), taken=Telemetry(resources=("load1", "load5"), time_unit="s")
    )
    index, decode = SeriesIndex(9), line_protocol_decoder(options)
    for fields in FIELDS:
        decode([f"system,host=a {begin} 1787217284".encode()] * 2, [0, 0], index)
        for stamp in ("1787217284", "x", "9", ""):
            line = f"system,host=a {fields} {stamp}".encode()
            primed, fresh_index = decode([line], [0], index), SeriesIndex(9)
            fresh = line_protocol_decoder(options)([line], [0], fresh_index)
            assert sampled(primed, index) == sampled(fresh, fresh_index)
            assert [([error.reason for error in other.rejects], other.ignored) for _, other in primed.others] == [
                ([error.reason for error in other.rejects], other.ignored) for _, other in fresh.others
            ]
