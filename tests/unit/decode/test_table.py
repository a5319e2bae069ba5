"""Tables of jobs as people have them: other columns, several dumps, texts with delimiters and line feeds."""

import io
import time
from typing import Any

import pytest

from agent.decode.files import default_telemetry, read_source
from agent.decode.message import DecodeOptions, FileRecord
from agent.decode.opening import OpenSource
from agent.decode.table import CELLS_TRIED_MAX, ROW_LINES_MAX, JobTable, rejoined, renamed_columns
from processors.contracts.errors import ConfigError, InvalidInputError
from processors.contracts.events import JobCompleted
from processors.contracts.names import parse_rfc3339
from processors.contracts.telemetry import Keep
from tests.kit.cases import each
from tests.kit.job_records import RECEIVED_MS

HEAD = "JobID|JobName|User|State|Start|End|ElapsedRaw|NNodes|NCPUS\n"
ROW = "{0}|{1}|u1|COMPLETED|2026-03-02T10:00:00|2026-03-02T11:00:00|3600|4|128\n"
TEXTS = "JobID|JobName|WorkDir|User|Comment|State|Start|End|ElapsedRaw|NNodes|SubmitLine\n"
TEXTS_ROW = "{0}|{1}|/home/u1|u1|{2}|COMPLETED|2026-03-02T10:00:00|2026-03-02T11:00:00|3600|4|{3}\n"
LATE = "User|JobName|State|Start|End|ElapsedRaw|NNodes|JobID\n"
LATE_ROW = "u1|{1}|COMPLETED|2026-03-02T10:00:00|2026-03-02T11:00:00|3600|4|{0}\n"


def records(text: str | bytes, **options: Any) -> list[FileRecord]:
    data = text.encode() if isinstance(text, str) else text
    known = DecodeOptions(default_system="exa", **options)
    return list(read_source("jobs.txt", OpenSource(io.BytesIO(data)), RECEIVED_MS, default_telemetry(known)))


def runs(text: str | bytes, *, refused: int = 0, **options: Any) -> list[JobCompleted]:
    read = records(text, **options)
    assert sum((record.error is not None) + len(record.decoded.rejects) for record in read) == refused
    return [event for record in read for event in record.decoded.events if isinstance(event, JobCompleted)]


@pytest.mark.parametrize(
    "name",
    [
        "a|b",
        "two\nlines",
        "\n",
        "a\n\n|b\nc",
        "cat a | grep b |\nwc",
        "m\udcfcller",
        "tab\there",
        "\x1b[31m",
        "12|34",
        "|",
    ],
)
@pytest.mark.parametrize(("head", "row"), [(HEAD, ROW), (LATE, LATE_ROW)])
def test_a_run_and_its_neighbours_arrive_whatever_its_name_holds(head: str, row: str, name: str) -> None:
    text = head + row.format(1, "solver") + row.format(2, name) + row.format(3, "solver")
    read = runs(text.encode(errors="surrogateescape"))
    assert [(run.job_id, run.run_time_s, run.evidence.sizes["nodes"]) for run in read] == [
        (number, 3600.0, 4.0) for number in ("1", "2", "3")
    ]


@pytest.mark.parametrize(
    ("name", "comment", "submitted"),
    [
        ("a | b", "", "sbatch x"),
        ("a", "x | y", "sbatch x"),
        ("a | b", "x | y", "srun a | tee b"),
        ("two\nlines", "three\nmore\nlines", "srun bash -c echo one &&\necho two | wc\necho three"),
        ("a", "", "sbatch --wrap=for i in 1 2; do\n srun a |\n tee\ndone"),
    ],
)
def test_several_texts_may_hold_delimiters_and_line_feeds(name: str, comment: str, submitted: str) -> None:
    text = TEXTS + "".join(TEXTS_ROW.format(number, name, comment, submitted) for number in range(1, 6))
    read = runs(text, keep=Keep(paths=True, comment=True))
    assert [run.job_id for run in read] == ["1", "2", "3", "4", "5"]
    assert {(run.run_time_s, run.evidence.user, run.evidence.work_dir) for run in read} == {(3600.0, "u1", "/home/u1")}
    assert {run.evidence.job_name for run in read} == {name.replace("\n", " ")}
    assert {run.evidence.comment for run in read} == {comment.replace("\n", " ") or None}


def test_a_torn_row_is_refused_and_its_neighbours_are_taken() -> None:
    read = runs(HEAD + ROW.format(1, "a") + "2|torn|u1\n" + ROW.format(3, "a"), refused=1)
    assert [run.job_id for run in read] == ["1", "3"]


def test_lines_without_end_are_joined_within_bounds_and_in_linear_time() -> None:
    began = time.process_time()
    read = records(HEAD + "x\n" * 20 * ROW_LINES_MAX + ROW.format(1, "a" + "|" * 50_000))
    assert time.process_time() - began < 5.0
    assert len(read) == 21
    assert read[-1].decoded.events


def test_rejoined_cells_take_linear_time() -> None:
    began = time.process_time()
    assert len(rejoined(["n[1", *["2"] * 400_000])) == 1
    assert len(rejoined(["a=1"] * 400_000)) == 1
    assert time.process_time() - began < 3.0


def test_a_row_of_many_texts_has_a_bound_on_what_is_tried() -> None:
    table = JobTable.of_header(TEXTS.strip())
    row = TEXTS_ROW.format(1, "a|" * (CELLS_TRIED_MAX // 12), "", "x").strip()
    assert table.row(row)["user"] == "u1"
    with pytest.raises(InvalidInputError, match="cells for 11 columns"):
        table.row(TEXTS_ROW.format(1, "a|" * CELLS_TRIED_MAX, "", "x").strip())


@pytest.mark.parametrize("second", [HEAD, LATE, LATE.replace("|", "^"), LATE.replace("|", "^|^")])
def test_several_dumps_stand_in_one_file(second: str) -> None:
    row = LATE_ROW if second != HEAD else ROW
    mark = "^|^" if "^|^" in second else "^" if "^" in second else "|"
    text = HEAD + ROW.format(1, "a") + second + row.format(2, "b").replace("|", mark) + HEAD + ROW.format(3, "c")
    assert [run.evidence.job_name for run in runs(text)] == ["a", "b", "c"]


@pytest.mark.parametrize(
    "before",
    [
        "sacct: error: Problem talking to the database, retrying\n",
        "slurm_load_jobs error: Unable to contact slurm controller\nsacct: error: no answer\n",
        "[root@login1 ~]$ sacct -aP --format=JobID,State > jobs.txt\n",
        "\n\n  \n",
        "Last login: Mon Mar 2 09:00:00 2026 from 10.0.0.1\nWelcome | to | exa\n",
    ],
)
def test_what_stands_before_a_header_is_passed_over(before: str) -> None:
    assert [run.job_id for run in runs(before + HEAD + ROW.format(1, "a"))] == ["1"]


@pytest.mark.parametrize("mark", ["^|^", "::", "\x1f", "\x01", " | ", "\u00a6", "~~~~"])
def test_a_delimiter_may_have_several_or_unusual_characters(mark: str) -> None:
    text = (HEAD + ROW.format(1, "a")).replace("|", mark)
    assert [run.run_time_s for run in runs(text)] == [3600.0]


def test_lines_of_standard_error_and_byte_order_marks_may_stand_between_rows() -> None:
    text = (
        HEAD
        + ROW.format(1, "a")
        + "sacct: error: retrying\n"
        + ROW.format(2, "a\nb")
        + "\ufeff"
        + HEAD
        + ROW.format(3, "c")
    )
    assert [run.job_id for run in runs(text + "slurmdbd: warning: slow\n")] == ["1", "2", "3"]


XDMOD = (
    "{0}|{0}|hub|general|normal|grp|grp|918273|u1|192837|2026-02-26T13:57:00|2026-02-26T13:57:00|2026-02-28T02:55:50|"
    "2026-03-03T02:55:50|3-00:00:00|1:0|TIMEOUT|3|24|24|3000Mc||billing=24,cpu=24,gres/gpu=2,mem=3000M,node=3|3-00:00:00|"
    "d07n07s02,d09n04s[01-02]|{1}\n"
)
XDMOD_WITHOUT_QOS = XDMOD.replace("|normal|", "|").replace("||billing", "|gpu:2|billing")


@pytest.mark.parametrize("row", [XDMOD, XDMOD_WITHOUT_QOS])
def test_the_layouts_of_xdmod_are_known_without_a_header(row: str) -> None:
    read = runs(row.format(41, "a|b") + row.format("42_7", "two\nlines") + row.format(43, "c"))
    assert [(run.system, run.run_time_s, run.evidence.sizes["nodes"]) for run in read] == [("hub", 259_200.0, 3.0)] * 3


PUBLIC = {
    "slurmdbd": "id_job,job_name,id_user,account,partition,state,time_submit,time_start,time_end,nodes_alloc,tres_alloc,timelimit\n"
    '1,a,7,p,batch,3,1772440000,1772445600,1772449200,4,"1=128,4=4,1001=8",120\n',
    "quoted": '"job_id";"state";"start_time";"end_time";"node_count"\n"1";"COMPLETED";"2026-03-02T10:00:00";"2026-03-02T11:00:00";"4"\n',
    "run-time": "job_id,job_state,start_time,run_time,num_nodes\n1,COMPLETE,2026-03-02 10:00:00,3600.0,4.0\n",
    "zone": "Job ID,State,Start Time,End Time,Nodes Used\n1,COMPLETED,2026-03-02 03:00:00-07:00,2026-03-02 04:00:00-07:00,4\n",
    "nodes-of-either-kind": 'job_id,state,start_time,end_time,nodes\n1,COMPLETED,2026-03-02T10:00:00,2026-03-02T11:00:00,"n[1-4]"\n',
    "a-count-of-nodes": "job_id,state,start_time,end_time,nodes\n1,COMPLETED,2026-03-02T10:00:00,2026-03-02T11:00:00,4\n",
}  # fmt: skip


@pytest.mark.parametrize("name", PUBLIC)
def test_well_known_names_of_columns_are_recognised(name: str) -> None:
    (run,) = runs(PUBLIC[name])
    assert (run.job_id, run.state, run.run_time_s, run.evidence.sizes["nodes"]) == ("1", "COMPLETED", 3600.0, 4.0)
    assert run.start_ms == parse_rfc3339("2026-03-02T10:00:00Z")


def test_a_table_that_lacks_columns_names_them_and_the_option() -> None:
    (record,) = records("user_ID,submit_time,begin,ended,node_count,result\n7,2026,2026,2026,4,OK\n")
    message = str(record.error)
    assert "no column jobidraw or jobid; no column state; no column elapsedraw or elapsed or end" in message
    assert "--columns" in message
    assert "header" not in message


def test_columns_are_named_by_an_option() -> None:
    text = "run;what;begin;ended;used nodes\n1;COMPLETED;2026-03-02T10:00:00;2026-03-02T11:00:00;4\n"
    names = {"job_id": "run", "state": "what", "start": "begin", "end": "ended", "nodes": "used nodes"}
    (run,) = runs(text, columns=names)
    assert (run.job_id, run.evidence.sizes) == ("1", {"nodes": 4.0})
    assert [run.job_id for run in runs(text + text, columns=names)] == ["1", "1"]


def test_a_named_column_comes_before_one_that_has_its_name() -> None:
    text = HEAD.replace("NNodes", "NNodes|Real") + ROW.format(1, "a").replace("|4|", "|4|8|")
    assert runs(text, columns={"nnodes": "Real"})[0].evidence.sizes["nodes"] == 8.0


def test_an_unknown_column_in_the_option_is_a_wrong_configuration() -> None:
    with pytest.raises(ConfigError, match="--columns colour=x: no column colour is read"):
        renamed_columns({"colour": "x"})


@pytest.mark.parametrize(
    ("column", "text", "nodes"),
    [("AllocNodes", "1K", 1024), ("ReqNodes", "1.50K", 1536), ("NNodes", "1.95K", 1997), ("NNodes", "2k", 2048)],
)
def test_counts_of_nodes_are_read_as_sacct_prints_them(column: str, text: str, nodes: int) -> None:
    row = ROW.format(1, "a").replace("|4|", f"|{text}|")
    assert runs(HEAD.replace("NNodes", column) + row)[0].evidence.sizes["nodes"] == nodes


def test_counts_of_cores_and_tasks_are_read_as_sacct_prints_them() -> None:
    text = HEAD.replace("NCPUS", "AllocCPUS|NTasks") + ROW.format(1, "a").replace("|128", "|1.50M|64K")
    assert runs(text)[0].evidence.sizes == {"nodes": 4.0, "cores": 1_572_864.0, "processes": 65_536.0}


def test_the_parts_of_a_heterogeneous_job_are_marked_and_kept() -> None:
    head, row = HEAD.replace("JobID|", "JobID|JobIDRaw|"), ROW.replace("{0}|", "123+{0}|{2}|")
    read = runs(head + row.format(0, "a", 123) + row.format(1, "a", 124))
    assert [(run.job_id, run.evidence.attributes) for run in read] == [
        ("123", {"het_job_id": "123"}),
        ("124", {"het_job_id": "123"}),
    ]


@pytest.mark.parametrize(
    "row",
    [
        "1|a|u1|CANCELLED by 7|Unknown|2026-03-02T10:00:00|-86400|0|0\n",
        "1|a|u1|CANCELLED|2026-03-03T10:00:00|2026-03-02T10:00:00|0|0|0\n",
        "1|a|u1|DEADLINE|None|None|0|0|0\n",
    ],
)
def test_a_job_that_ended_before_its_planned_start_is_ignored(row: str) -> None:
    assert [record.decoded.ignored for record in records(HEAD + row)] == [{"never-started": 1}]


@each(
    ("start", "end", "elapsed", "start_utc", "run_time_s"),
    [
        ("02:30", "03:30", "3600", "01:30", 3600),
        ("02:30", "03:30", "7200", "00:30", 7200),
        ("02:50", "02:10", "1200", "00:50", 1200),
        ("02:50", "02:10", "", "00:50", 1200),
        ("02:10", "02:50", "2400", "00:10", 2400),
        ("02:10", "02:50", "6000", "00:10", 6000),
        ("01:30", "02:30", "7200", "23:30", 7200),
        ("01:00", "04:00", "", "23:00", 14_400),
    ],
)
def test_in_the_repeated_hour_the_elapsed_time_decides(
    start: str, end: str, elapsed: str, start_utc: str, run_time_s: int
) -> None:
    text = HEAD + f"1|a|u1|COMPLETED|2026-10-25T{start}:00|2026-10-25T{end}:00|{elapsed}|4|128\n"
    (run,) = runs(text, timezone="Europe/Oslo")
    day = "2026-10-24" if start_utc.startswith("23") else "2026-10-25"
    assert run.start_ms == parse_rfc3339(f"{day}T{start_utc}:00Z")
    assert (run.run_time_s, run.end_ms - run.start_ms) == (run_time_s, run_time_s * 1000)


def test_a_resized_row_takes_no_longer_than_from_its_start_to_its_end() -> None:
    (run,) = runs(HEAD + ROW.format(1, "a").replace("|3600|", "|36000|"))
    assert run.run_time_s == 3600.0
