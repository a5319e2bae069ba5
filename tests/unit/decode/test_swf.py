import pytest

from agent.decode.message import DecodeOptions, TelemetryOptions
from agent.decode.opening import TextFile
from agent.decode.swf import is_workload_log, swf_decoder, swf_file
from processors.contracts.events import JobCompleted
from tests.kit.cases import each
from tests.kit.job_records import RECEIVED_MS, refusal

HEADER = "; Version: 2.2\n; Computer: IBM SP2\n; Installation: KTH\n; UnixStartTime: 843480031\n;\n"
JOB = "7 100 60 3600 56 -1 -1 64 7200 -1 1 12 13 14 15 1 -1 -1"


def only(line: str, header: str = HEADER, **options: str) -> JobCompleted:
    decode = swf_decoder(DecodeOptions(default_system=options.get("default_system")))
    (event,) = decode((header + line).encode(), RECEIVED_MS).events
    assert isinstance(event, JobCompleted)
    return event


def test_a_job_starts_after_its_submission_and_its_wait() -> None:
    event = only(JOB)
    assert event.start_ms == (843480031 + 160) * 1000
    assert (event.end_ms - event.start_ms, event.run_time_s) == (3_600_000, 3600.0)


def test_numbers_become_names_and_the_rest_of_the_evidence() -> None:
    evidence = only(JOB).evidence
    assert (evidence.application, evidence.user, evidence.account, evidence.partition) == (
        "app14",
        "user12",
        "group13",
        "queue15",
    )
    assert (evidence.sizes, evidence.time_limit_s, evidence.submit_ms) == ({"cores": 56.0}, 7200.0, 843480131000)


def test_what_is_unknown_stays_out() -> None:
    evidence = only("7 100 -1 3600 -1 -1 -1 64 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1").evidence
    assert (evidence.application, evidence.user, evidence.partition, evidence.time_limit_s) == (None, None, None, None)
    assert evidence.sizes == {"cores": 64.0}


def test_an_unknown_wait_is_no_wait() -> None:
    assert only(JOB.replace(" 60 ", " -1 ")).start_ms == (843480031 + 100) * 1000


@pytest.mark.parametrize(
    ("status", "state"), [("1", "COMPLETED"), ("0", "FAILED"), ("5", "CANCELLED"), ("-1", "COMPLETED")]
)
def test_the_status_reports_how_a_job_ended(status: str, state: str) -> None:
    assert only(JOB.replace("-1 1 12", f"-1 {status} 12")).state == state


@pytest.mark.parametrize(
    ("line", "ignored"),
    [
        (JOB.replace("3600", "-1"), "no-run-time"),
        (JOB.replace("3600", "0"), "no-run-time"),
        (JOB.replace("-1 1 12", "-1 2 12"), "partial"),
        (JOB.replace("-1 1 12", "-1 4 12"), "partial"),
    ],
)
def test_what_did_not_run_or_is_a_part_is_counted_and_left_out(line: str, ignored: str) -> None:
    decoded = swf_decoder(DecodeOptions())((HEADER + line).encode(), RECEIVED_MS)
    assert (decoded.events, decoded.ignored) == ([], {ignored: 1})


@each(
    ("line", "reason"),
    [
        ("1 2 3", "columns"),
        (JOB.replace("3600", "nan"), "wrong-type"),
        (JOB.replace("3600", "1e10"), "out-of-range"),
        (JOB.replace("3600", "1e999"), "wrong-type"),
        (JOB + " 1" * 11, "columns"),
        (JOB.replace("3600", "9" * 15), "out-of-range"),
        (JOB.replace("-1 1 12", "-1 9 12"), "out-of-range"),
        (JOB.replace("7 100", "7 -100"), "out-of-range"),
        (JOB.replace("7 100", "7 599999999"), "future"),
    ],
)
def test_a_row_that_cannot_be_used_is_refused_and_its_neighbours_are_taken(line: str, reason: str) -> None:
    future = "; UnixStartTime: 1795000000\n" if reason == "future" else HEADER
    decoded = swf_decoder(DecodeOptions())(f"{future}{line}\n{JOB}".encode(), RECEIVED_MS)
    assert [error.reason for error in decoded.rejects] == [reason]
    assert len(decoded.events) == 1


@pytest.mark.parametrize(
    "line",
    [f"{JOB} 0", f"{JOB} 0.5 flag", f"{JOB} ; killed", JOB.replace("3600", "3.6e3"), JOB.replace(" 60 ", " 60.0 ")],
)
def test_columns_of_simulators_comments_and_other_forms_of_numbers_are_no_fault(line: str) -> None:
    assert is_workload_log(line.encode())
    assert only(line).run_time_s == 3600.0
    assert only(f"{line}\n; end of log\n# done").run_time_s == 3600.0


@pytest.mark.parametrize(
    "start", ["843480031 (Feb 06 2007)", "843480031.0", "843480031 GMT", "8.43480031e8", "843480031000"]
)
def test_words_may_follow_the_number_of_a_comment(start: str) -> None:
    for header in (f"; UnixStartTime: {start}\n", f";UnixStartTime = {start}\n", f" ;  UnixStartTime: {start}\n"):
        assert is_workload_log(header.encode())
        assert only(JOB, header).start_ms == (843480031 + 160) * 1000


@pytest.mark.parametrize("header", ["; UnixStartTime: 0\n", "", "; UnixStartTime: 843480031\n"])
def test_submissions_since_1970_need_no_date(header: str) -> None:
    line = JOB.replace("7 100", "7 1688169600")
    event = only(line, header)
    assert (event.start_ms, event.evidence.submit_ms) == (1688169660000, 1688169600000)
    lines = [(text.encode(), 1) for text in (header, line) if text]
    assert swf_file(TextFile("a.swf", lines[0][0], iter(lines)), TelemetryOptions()).remark is None


def test_a_log_that_does_not_state_when_it_began_is_refused() -> None:
    assert refusal(swf_decoder(DecodeOptions()), f"; Computer: IBM SP2\n{JOB}".encode()).reason == "missing-field"


@pytest.mark.parametrize(
    ("header", "options", "system"),
    [
        (HEADER, {"default_system": "kth"}, "kth"),
        (HEADER, {}, "IBM SP2"),
        ("; Installation: KTH\n; UnixStartTime: 843480031\n", {}, "KTH"),
        ("; UnixStartTime: 843480031\n", {}, "swf"),
    ],
)
def test_the_system_is_the_operators_word_or_that_of_the_log(header: str, options: dict[str, str], system: str) -> None:
    assert only(JOB, header, **options).system == system
