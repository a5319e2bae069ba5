"""Job tables as printed by `sacct`: any public column names, any delimiter, and rows that free text has split."""

import csv
import re
from collections.abc import Iterator, Mapping
from typing import Final

from agent.decode.message import DecodeOptions, checked, invalid, shown
from agent.decode.opening import BYTE_ORDER_MARK, STDERR, Numbered
from processors.contracts.errors import ConfigError, InvalidInputError

Row = Mapping[str, str]
"""Texts by lower-case column name; a missing column and a blank text are equivalent."""

NEEDED: Final = (  # a table needs one column of each group
    ("jobidraw", "jobid"),
    ("state",),
    ("elapsedraw", "elapsed", "end"),
    ("start", "end"),
    ("allocnodes", "nnodes", "nodes", "nodelist", "alloccpus", "ncpus", "reqcpus", "ntasks", "alloctres"),
)
OPTIONAL: Final = (
    *("cluster", "jobname", "user", "account", "partition", "qos", "submit", "timelimit", "timelimitraw", "exitcode"),
    *("reqnodes", "ngpus", "workdir", "comment", "reservation", "container", "constraints", "wckey", "failednode"),
    *("consumedenergyraw", "suspended"),
)
FREE_TEXT: Final = frozenset((
    "jobname", "comment", "workdir", "admincomment", "systemcomment", "submitline", "constraints", "container",
    "extra", "wckey", "stdin", "stdout", "stderr",
))  # fmt: skip
# column names in public logs, Slurm's database and its HTTP interface, in lower case and without punctuation
OTHER_NAMES: Final = {
    other: column
    for column, others in {
        "jobid": "idjob jid jobnumber slurmjobid cobaltjobid",
        "jobname": "name jname",
        "cluster": "system machine machinename clustername",
        "user": "username userid iduser usernamegenid",
        "account": "project projectname projectid accountname projectnamegenid",
        "partition": "queue queuename partitionname",
        "qos": "qosname",
        "state": "jobstate jobstatus finalstate exitstate",
        "submit": "submittime timesubmit submissiontime queuedtimestamp",
        "start": "starttime timestart starttimestamp begintime",
        "end": "endtime timeend endtimestamp completiontime",
        "elapsedraw": "elapsedtime elapseds elapsedseconds runtime runtimes runtimeseconds wallclockused duration",
        "nnodes": "nodecount numnodes nodesalloc nodesused allocatednodes numnodesalloc",
        "reqnodes": "nodesreq nodesrequested",
        "ncpus": "cores ncores corecount numcores cpus numcpus cpucount coresused numcoresalloc",
        "reqcpus": "cpusreq coresrequested processorsreq",
        "ntasks": "processes numtasks taskcount tasksrequested",
        "ngpus": "gpus gpucount numgpus gpusalloc numgpusalloc",
        "nodelist": "hosts hostlist",
        "timelimit": "wallclocklimit wallclockreq walltimelimit",
        "alloctres": "tresalloc",
        "exitcode": "exitstatus",
    }.items()
    for other in others.split()
}
COLUMNS_MAX: Final = 200
CELLS_TRIED_MAX: Final = 2_000  # maximum combinations tried to find the end of free text in a row with too many cells
ROW_LINES_MAX: Final = 1_000
PREAMBLE_LINES_MAX: Final = 20  # maximum lines before a header, such as a prompt or standard error

SONAR_COLUMNS: Final = (
    *("JobIDRaw", "JobID", "User", "Account", "State", "Start", "End", "AveCPU", "AveDiskRead", "AveDiskWrite"),
    *("AveRSS", "AveVMSize", "ElapsedRaw", "ExitCode", "Layout", "MaxRSS", "MaxVMSize", "MinCPU", "ReqCPUS", "ReqMem"),
    *("ReqNodes", "Reservation", "Submit", "Suspended", "SystemCPU", "TimelimitRaw", "UserCPU", "NodeList"),
    *("Partition", "AllocTRES", "Priority", "JobName"),
)
_XDMOD = (
    *("JobID", "JobIDRaw", "Cluster", "Partition", "QOS", "Account", "Group", "GID", "User", "UID", "Submit"),
    *("Eligible", "Start", "End", "Elapsed", "ExitCode", "State", "NNodes", "NCPUS", "ReqCPUS", "ReqMem", "ReqTRES"),
    *("AllocTRES", "Timelimit", "NodeList", "JobName"),
)
# columns of tables without a header: Sonar's, XDMoD's, and XDMoD's before it requested QOS and AllocTRES
LAYOUTS: Final = (
    SONAR_COLUMNS,
    _XDMOD,
    tuple({"AllocTRES": "ReqTRES", "ReqTRES": "ReqGRES"}.get(name, name) for name in _XDMOD if name != "QOS"),
)

_TIME = r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d\S*|\d{9,10}|Unknown|None|N/A|"
_COUNT = r"\d[\d.]*[KMGkm]?|"
_PATH = r"/.*|"
_WORD = r"[\w.,@+-]*"
_TYPES: Final = {  # column patterns that show where a row continues after free text with delimiters
    **dict.fromkeys(("jobid", "jobidraw"), re.compile(r"\d+(?:[_+.\[].*)?|")),
    **dict.fromkeys(("start", "end", "submit", "eligible"), re.compile(_TIME)),
    **dict.fromkeys(("allocnodes", "nnodes", "reqnodes", "alloccpus", "ncpus", "reqcpus", "ntasks", "elapsedraw"), re.compile(_COUNT)),
    **dict.fromkeys(("workdir", "container", "stdin", "stdout", "stderr"), re.compile(_PATH)),
    **dict.fromkeys(("user", "account", "partition", "qos", "cluster"), re.compile(_WORD)),
    **dict.fromkeys(("jobname", "comment", "admincomment", "submitline"), re.compile(r"(?!\s).*|", re.DOTALL)),
    "state": re.compile(r"[A-Za-z_]{2,}(?: by \w+)?\+?|\d{1,2}|"),
    "elapsed": re.compile(r"-?(?:\d+-)?\d+:[\d:.]+|"),
    "exitcode": re.compile(r"\d+(?::\d+)?|"),
    "alloctres": re.compile(r"(?:[\w/]+[:=].*)?"),
}  # fmt: skip
_RESOURCE = re.compile(r"[a-z][\w/:]*=[\w.]+")  # a resource count, as in AllocTRES
_DELIMITERS: Final = "|,;\t"
_QUOTED_GAP = re.compile(r'"[^"]*"([^"\w]+)"')
_GAP = re.compile(r"[A-Za-z][\w%]*([^\w%]+)")
_NAME = re.compile(r"[A-Za-z][\w %/().-]*")
_SIGNS = re.compile(r"[^a-z0-9]")


def plain_name(name: str) -> str:
    """Return a column name in lower case without punctuation and without a width such as ``%20``."""
    return _SIGNS.sub("", name.partition("%")[0].lower())


def renamed_columns(columns: Mapping[str, str]) -> dict[str, str]:
    """Return the agent's column names, keyed by the plain column name in the file; `columns` is the option `--columns`.

    Raise ConfigError for a column that the agent does not read.

    >>> renamed_columns({"job_id": "id_job", "nodes": "Nodes Used"})
    {'idjob': 'jobid', 'nodesused': 'nnodes'}
    """
    taken = {*OPTIONAL, *(column for group in NEEDED for column in group)}
    renamed = {}
    for column, name in columns.items():
        target = {"nodes": "nnodes"}.get(column, OTHER_NAMES.get(plain_name(column), plain_name(column)))
        if target not in taken:
            raise ConfigError(f"--columns {column}={name}: no column {column} is read; {', '.join(sorted(taken))} are.")
        renamed[plain_name(name)] = target
    return renamed


class JobTable:
    """The columns and the delimiter of a table; splits a line into a row.

    Free text may contain the delimiter. The types of other columns (times, counts, states) then show where the row continues.

    >>> table = JobTable.of_header("JobID|JobName|WorkDir|State|Elapsed|End|NNodes")
    >>> table.row("812|a|b|/home/u1|COMPLETED|00:01:00|2026-11-20T10:00:00|4")["jobname"]
    'a|b'
    """

    def __init__(self, names: tuple[str, ...], delimiter: str, renamed: Mapping[str, str] | None = None) -> None:
        self.columns = _columns(names, renamed or {})
        self.delimiter = delimiter
        missing = [" or ".join(group) for group in NEEDED if not set(group) & set(self.columns)]
        if missing:
            advice = f"if its columns {shown(', '.join(names))} have other names, give them with --columns, such as job_id=NAME"
            raise invalid("columns", f"The table has no column {'; no column '.join(missing)}; {advice}.")
        if len(self.columns) > COLUMNS_MAX:
            raise invalid("columns", f"The table has more than {COLUMNS_MAX} columns.")
        self._texts = [index for index, column in enumerate(self.columns) if column in FREE_TEXT]
        self._mark = delimiter.encode()
        self._ends_with_delimiter = False  # --parsable ends each line with a delimiter, --parsable2 does not

    @classmethod
    def of_header(cls, line: str, renamed: Mapping[str, str] | None = None) -> "JobTable":
        """Return the table of a header line. Raise InvalidInputError (``columns``) if it is not a header or lacks required columns."""
        gap = _QUOTED_GAP.match(line) or _GAP.match(line)
        delimiter = gap[1] if gap else ""
        if delimiter.strip(" ") == "":
            delimiter = max(_DELIMITERS, key=line.count)
            if gap and line.count(delimiter) < 2 and "jobid" in line.lower():
                raise invalid(
                    "columns", "This table of sacct is cut to the width of a screen; print it with --parsable2."
                )
        names = [name.strip(' "') for name in line.removesuffix(delimiter).split(delimiter)]
        if len(names) < 3 or not all(map(_NAME.fullmatch, names)):
            raise invalid("columns", f"{shown(line)} is no header line of sacct.")
        table = cls(tuple(names), delimiter, renamed)
        table._ends_with_delimiter = line.endswith(delimiter)
        return table

    def row(self, line: str) -> Row:
        """Return the row of a line. Raise InvalidInputError (``columns``) if the line does not fit the columns."""
        cells = self._cells(line.removesuffix(self.delimiter) if self._ends_with_delimiter else line)
        if len(cells) > len(self.columns) and self.delimiter == ",":
            cells = rejoined(cells)
        if len(cells) > len(self.columns) and self._texts:
            cells = self._realigned(cells)
        if len(cells) != len(self.columns):
            hint = "; a comma may part a cell, print it with --parsable2" if self.delimiter == "," else ""
            raise invalid("columns", f"The row has {len(cells)} cells for {len(self.columns)} columns{hint}.")
        return dict(zip(self.columns, cells, strict=True))

    def counts(self, line: bytes) -> tuple[int, int]:
        """Return the number of delimiters and of quotes in a line; quotes are 0 for delimiters other than comma and semicolon."""
        return line.count(self._mark), line.count(b'"') if self.delimiter in ",;" else 0

    def is_whole(self, delimiters: int, quotes: int) -> bool:
        """Return whether lines with this many delimiters and quotes contain all cells of a row."""
        return delimiters + (not self._ends_with_delimiter) >= len(self.columns) and quotes % 2 == 0

    def continues(self, line: bytes, *, whole: bool) -> bool:
        """Return whether a line continues the previous row; `whole` says whether that row already has all its cells."""
        complete = self.is_whole(*self.counts(line))
        if not whole:
            return not (complete and self._begins(line))
        return not complete and self.columns[-1] in FREE_TEXT and not self._begins(line)

    def _begins(self, line: bytes) -> bool:
        cells = line.decode(errors="replace").rstrip("\r\n").split(self.delimiter)
        stop = self._texts[0] if self._texts else len(self.columns)
        ahead = [(column, cell) for column, cell in zip(self.columns[:stop], cells, strict=False) if cell]
        return len(cells) > 1 and any(column in _TYPES for column, _ in ahead) and all(_fits(*pair) for pair in ahead)

    def fits(self, line: str) -> bool:
        """Return whether the line has a valid cell for every column; used to recognise tables without a header."""
        cells = line.split(self.delimiter)[: len(self.columns)]
        return len(cells) == len(self.columns) and cells[0] != "" and all(map(_fits, self.columns, cells))

    def _cells(self, line: str) -> list[str]:
        if len(self.delimiter) == 1 and self.delimiter in ",;\t" and '"' in line:
            return quoted_cells(line, self.delimiter)
        return line.split(self.delimiter)

    def _realigned(self, cells: list[str]) -> list[str]:
        """Return the cells with surplus cells joined to free text, so that as few other cells as possible have a wrong type."""
        surplus = len(cells) - len(self.columns)
        if len(self._texts) > 1 and (surplus + 1) * len(self.columns) > CELLS_TRIED_MAX:
            return cells
        # for each surplus assigned so far: the number of wrong cells, and the negative surplus after each free text;
        # negative so that ties assign most surplus cells to the first free text
        best: list[tuple[int, tuple[int, ...]]] = [(0, ()), *[(COLUMNS_MAX, ())] * surplus]
        for text, following in zip(self._texts, self._texts[1:], strict=False):
            least, shifted = best[0], []
            for shift, reached in enumerate(best):
                least = min(least, reached)
                others = range(text + 1, following + 1)
                wrong = sum(not _fits(self.columns[other], cells[other + shift]) for other in others)
                shifted.append((least[0] + wrong, (*least[1], -shift)))
            best = shifted
        shifts = dict(zip(self._texts, (*min(best)[1], -surplus), strict=True))
        whole, begin = [], 0
        for index in range(len(self.columns)):
            end = index - shifts[index] + 1 if index in shifts else begin + 1
            whole.append(self.delimiter.join(cells[begin:end]))
            begin = end
        return whole


def _columns(names: tuple[str, ...], renamed: Mapping[str, str]) -> tuple[str, ...]:
    """Return the agent's name for each column of a file; if two columns would get the same name, the later column keeps its own name."""
    plain = [plain_name(name) for name in names]
    taken = {*plain, *renamed.values()} - renamed.keys()
    columns = []
    for name in plain:
        usual = OTHER_NAMES.get(name, name)
        if name in renamed:
            columns.append(renamed[name])
        elif usual != name and usual not in taken:
            taken.add(usual)
            columns.append(usual)
        else:
            columns.append(f"other {name}" if name in renamed.values() else name)
    return tuple(columns)


def _fits(column: str, cell: str) -> bool:
    form = _TYPES.get(column)
    return form is None or form.fullmatch(cell) is not None


def rejoined(cells: list[str]) -> list[str]:
    """Return the cells, with host lists in brackets and resource counts joined again if commas split them.

    >>> rejoined(["812", "r1n[01", "04-07]", "cpu=8", "node=2"])
    ['812', 'r1n[01,04-07]', 'cpu=8,node=2']
    """
    whole: list[list[str]] = []
    depth, resources = 0, False
    for cell in cells:
        is_resource = _RESOURCE.fullmatch(cell) is not None
        if whole and (depth > 0 or (resources and is_resource)):
            whole[-1].append(cell)
        else:
            whole.append([cell])
            depth, resources = 0, is_resource
        depth += cell.count("[") - cell.count("]")
    return [",".join(parts) for parts in whole]


def quoted_cells(line: str, delimiter: str = ",") -> list[str]:
    """Return the cells of a line in which some cells are quoted.

    >>> quoted_cells('JobID=812,"AllocTRES=cpu=4,node=1"')
    ['JobID=812', 'AllocTRES=cpu=4,node=1']
    """
    try:
        return next(csv.reader([line], delimiter=delimiter), [])
    except csv.Error:
        raise invalid("columns", "The row is not a line of comma-separated values.") from None


def line_text(value: bytes, options: DecodeOptions) -> str:
    """Return a line as text without its line end; U+FFFD replaces bytes that are not UTF-8.

    >>> line_text(b"812|m" + bytes([252, 124, 13, 10]), DecodeOptions())
    '812|m�|'
    """
    return checked(value, options).decode(errors="replace").rstrip("\r\n").replace("\n", " ")


def table_of(line: str, options: DecodeOptions) -> tuple[JobTable, bool]:
    """Return the table that begins with a first line, and whether that line is a header. Raise InvalidInputError for other lines."""
    for layout in LAYOUTS:
        table = JobTable(layout, "|")
        if table.fits(line):
            return table, False
    if max(line.count(delimiter) for delimiter in _DELIMITERS) < 2 and "jobid" not in line[:80].lower():
        raise invalid("unknown-format", "This is neither JSON, nor a table of sacct, nor a workload log.")
    if not line[:1].isalpha() and line[:1] != '"':
        advice = "print it without --noheader, or put one before it, such as JobID|State|Start|End|NNodes"
        raise invalid("columns", f"The table has no header line; {advice}.")
    return JobTable.of_header(line, renamed_columns(options.columns)), True


def header_of(line: bytes, options: DecodeOptions) -> JobTable | None:
    """Return the table of a header line; None if the line is not a header."""
    if not (line[:1].isalpha() or line[:1] == b'"') or (b"job" not in line.lower() and not options.columns):
        return None
    try:
        return JobTable.of_header(line_text(line, options), renamed_columns(options.columns))
    except InvalidInputError:
        return None


def whole_rows(lines: Numbered, table: JobTable, options: DecodeOptions) -> Numbered:
    """Yield the rows of a table, and further header lines, each with the number of its first line.

    A line feed in a text splits a row over several lines. These lines are joined, up to ROW_LINES_MAX lines and the maximum
    size of a message.

    >>> table = JobTable.of_header("JobID|JobName|State|Start|End|NNodes")
    >>> list(whole_rows(iter([(b"1|two ", 2), (b"lines|FAILED|0|0|4", 3)]), table, DecodeOptions()))
    [(b'1|two lines|FAILED|0|0|4', 2)]
    """
    row: list[bytes] = []
    first = size = delimiters = quotes = 0
    for each, number in lines:
        line = each.removeprefix(BYTE_ORDER_MARK)  # each dump in a file may begin with a byte order mark
        if STDERR.match(line):
            continue
        header = header_of(line, options)
        full = len(row) >= ROW_LINES_MAX or size + len(line) > options.max_message_bytes
        whole = table.is_whole(delimiters, quotes)
        if row and (header is not None or full or not table.continues(line, whole=whole)):
            yield b"".join(row), first
            row, size, delimiters, quotes = [], 0, 0, 0
        if header is not None:
            table = header
            yield line, number
            continue
        first = first if row else number
        row.append(line)
        size += len(line)
        counted = table.counts(line)
        delimiters, quotes = delimiters + counted[0], quotes + counted[1]
    if row:
        yield b"".join(row), first


def opened_table(
    lines: Iterator[tuple[bytes, int]], options: DecodeOptions
) -> tuple[JobTable, list[tuple[bytes, int]]]:
    """Return the table at the start of the lines; without a header, also return the first line, because it is already a row.

    Lines before a header, such as errors of `sacct`, are skipped. Raise the error of the first line if there is no table.
    """
    refused: InvalidInputError | None = None
    for _, (line, number) in zip(range(PREAMBLE_LINES_MAX), lines, strict=False):
        try:
            table, is_header = table_of(line_text(line, options), options)
        except InvalidInputError as error:
            refused = refused or error
            continue
        return table, [] if is_header else [(line, number)]
    raise refused or invalid("empty", "The table is empty.")
