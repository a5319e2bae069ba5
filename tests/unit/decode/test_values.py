import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.decode.fields import gpus, parse_duration, parse_limit, parse_time, parse_tres, run_identity
from processors.contracts.errors import InvalidInputError
from processors.contracts.names import parse_rfc3339, run_id
from processors.contracts.nodes import count as count_hosts
from tests.kit.cases import each


@each(
    ("text", "count"),
    [
        ("nid001042", 1),
        ("nid[001042-001045,7]", 5),
        ("nid[1-2]-ib0,login1", 3),
        ("rack[0-1]node[00-15]", 32),
        ("a[1,3,5]b[1-2]c[7],x,y", 8),
        ("a,a", 2),
        ("", 0),
        ("None assigned", 0),
        ("(null)", 0),
    ],
)
def test_the_hosts_of_a_list_are_counted(text: str, count: int) -> None:
    assert count_hosts(text) == count


@each(
    "text",
    [
        "nid[1-",
        "nid]1[",
        "nid[5-3]",
        "nid[]",
        "nid[a-b]",
        "nid[1--2]",
        "nid[1-2-3]",
        "a,,b",
        ",a",
        "a,",
        "a b",
        "a[1,]",
    ],
)
def test_what_is_no_host_list_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError) as refused:
        count_hosts(text)
    assert refused.value.reason == "hosts"


@pytest.mark.parametrize(
    "text", ["nid[0-99999999999]", "a[0-9999]b[0-9999]", "n[1-9]" * 5000, "n" + "[0-999999]," * 99]
)
def test_a_list_of_impossibly_many_hosts_is_refused_without_counting_them_one_by_one(text: str) -> None:
    with pytest.raises(InvalidInputError):
        count_hosts(text)


@given(st.text(alphabet="nid[]0123-,", max_size=40))
def test_every_text_is_counted_or_refused(text: str) -> None:
    try:
        count = count_hosts(text)
    except InvalidInputError:
        return
    assert count == 0 if not text else count > 0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("00:00:40", 40),
        ("1-18:14:10", 152_050),
        ("00:11.369", 11),
        ("01:26:54", 5214),
        ("2-12", 216_000),
        ("2-12:30", 217_800),
        ("90", 5400),
    ],
)
def test_durations_of_slurm_are_seconds(text: str, seconds: float) -> None:
    assert parse_duration(text) == seconds


@each("text", ["", "x", "1:2:3:4", "-1", "1-", "٣", "1" * 30, "999999-00:00:00"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(InvalidInputError):
        parse_duration(text)


@pytest.mark.parametrize("text", ["", "UNLIMITED", "Partition_Limit", "00:00:00"])
def test_no_limit_is_none(text: str) -> None:
    assert parse_limit(text) is None


@each(
    ("text", "resources"),
    [
        ("cpu=512,mem=1920G,energy=5", {"cpu": 512.0, "mem": 1920.0 * 1024**3, "energy": 5.0}),
        ("1=512,2=7,1001=16", {"cpu": 512.0, "mem": 7.0, "1001": 16.0}),
        ("mem=1.5K", {"mem": 1536.0}),
        ("3=18446744073709551614", {}),
        ("energy=18446744073709551615", {}),
        ("mem=99999P,cpu=1", {"cpu": 1.0}),
        ("cpu=-4,node=,=7,x,mem=1e9,gres/gpu=" + "9" * 40, {}),
        ("", {}),
        (None, {}),
    ],
)
def test_resources_are_read_and_no_value_is_no_amount(text: str | None, resources: dict[str, float]) -> None:
    assert parse_tres(text) == resources


def test_gpus_without_any_are_none() -> None:
    assert gpus(parse_tres("cpu=4,gres/nic=2")) == 0.0


@given(st.text(max_size=20), st.text(max_size=20), st.integers(0, 2**42))
def test_the_fast_identity_of_a_run_is_that_of_the_contract(system: str, job_id: str, start_ms: int) -> None:
    if any("\ud800" <= character <= "\udfff" for character in system + job_id):
        return
    assert run_identity(system, job_id, start_ms) == run_id(system, job_id, start_ms)


@given(st.datetimes(timezones=st.none() | st.timezones()).map(lambda moment: moment.isoformat()) | st.text(max_size=30))
def test_the_fast_reading_of_a_time_is_that_of_the_contract(text: str) -> None:
    def outcome(read: object) -> object:
        try:
            return read(text)  # type: ignore[operator]
        except InvalidInputError as error:
            return error.reason

    assert outcome(parse_time) == outcome(parse_rfc3339)
