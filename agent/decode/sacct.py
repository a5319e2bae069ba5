"""Text of `sacct --parsable2` or `--parsable`, with any `--format` that has the columns it takes; and key=value lines.

Job rows of finished jobs become events. Steps and unfinished jobs are counted and left out. Times are local and carry
no zone, unless the file says so: the option `timezone` names it, UTC otherwise.
"""

import csv
import re
from collections.abc import Callable
from datetime import tzinfo
from typing import Final

from agent.contracts.decoding import Decode, Decoded
from agent.contracts.errors import InvalidInputError
from agent.decode.message import DecodeOne, checked
from agent.decode.options import DecodeOptions
from agent.decode.reasons import invalid, shown
from agent.decode.sacct_row import Row, finished_job, ignored_row
from agent.decode.times import zone_of

NEEDED: Final = (  # of each group one column
    ("jobidraw", "jobid"),
    ("state",),
    ("elapsedraw", "elapsed", "end"),
    ("start", "end"),
    ("allocnodes", "nnodes", "nodelist", "alloccpus", "ncpus", "reqcpus", "alloctres"),
)
FREE_TEXT: Final = ("jobname", "comment", "workdir", "admincomment", "systemcomment", "submitline", "constraints")
COLUMNS_MAX: Final = 200
PAIRS: Final = re.compile(r'"?[A-Za-z]+=[^|]*?,"?[A-Za-z]+=')
SONAR_COLUMNS: Final = (
    *("JobIDRaw", "JobID", "User", "Account", "State", "Start", "End", "AveCPU", "AveDiskRead", "AveDiskWrite"),
    *("AveRSS", "AveVMSize", "ElapsedRaw", "ExitCode", "Layout", "MaxRSS", "MaxVMSize", "MinCPU", "ReqCPUS", "ReqMem"),
    *("ReqNodes", "Reservation", "Submit", "Suspended", "SystemCPU", "TimelimitRaw", "UserCPU", "NodeList"),
    *("Partition", "AllocTRES", "Priority", "JobName"),
)

_HEADER = re.compile(r"([A-Za-z]+)([^A-Za-z0-9]*)")


class SacctTable:
    """The columns of a table and what parts them; cuts a line into a row.

    A job name may hold the delimiter. Where it is the only column of free text it takes what the line has too much.

    >>> table = SacctTable.of_header("JobID|JobName|State|Elapsed|End|NNodes")
    >>> table.row("812|a|b|COMPLETED|00:01:00|2026-11-20T10:00:00|4")["jobname"]
    'a|b'
    """

    def __init__(self, columns: tuple[str, ...], delimiter: str) -> None:
        self.columns = tuple(column.strip().partition("%")[0].lower() for column in columns)
        self.delimiter = delimiter
        missing = [group for group in NEEDED if not set(group) & set(self.columns)]
        if missing:
            raise invalid("columns", f"The table has no column {' or '.join(missing[0])}.")
        if len(self.columns) > COLUMNS_MAX:
            raise invalid("columns", f"The table has more than {COLUMNS_MAX} columns.")
        free = [index for index, column in enumerate(self.columns) if column in FREE_TEXT]
        self._free = free[0] if len(free) == 1 else None
        self._ends_with_delimiter = False  # as --parsable, unlike --parsable2, ends each line

    @classmethod
    def of_header(cls, line: str) -> "SacctTable":
        """Return the table of a header line; what follows its first name is the delimiter."""
        first = _HEADER.match(line)
        if first is None or not first[2]:
            raise invalid("columns", f"{shown(line)} is no header line of sacct.")
        delimiter = first[2]
        table = cls(tuple(line.removesuffix(delimiter).split(delimiter)), delimiter)
        table._ends_with_delimiter = line.endswith(delimiter)
        return table

    def row(self, line: str) -> Row:
        """Return the row of a line; InvalidInputError (``columns``) where it does not fit the columns."""
        cells = self._cells(line.removesuffix(self.delimiter) if self._ends_with_delimiter else line)
        surplus = len(cells) - len(self.columns)
        if surplus > 0 and self._free is not None:
            end = self._free + surplus + 1
            cells[self._free : end] = [self.delimiter.join(cells[self._free : end])]
        if len(cells) != len(self.columns):
            raise invalid("columns", f"The row has {len(cells)} cells for {len(self.columns)} columns.")
        return dict(zip(self.columns, cells, strict=True))

    def _cells(self, line: str) -> list[str]:
        if self.delimiter == "," and '"' in line:
            return quoted_cells(line)
        return line.split(self.delimiter)


def quoted_cells(line: str) -> list[str]:
    """Return the cells of a line with commas between them, of which some are quoted.

    >>> quoted_cells('JobID=812,"AllocTRES=cpu=4,node=1"')
    ['JobID=812', 'AllocTRES=cpu=4,node=1']
    """
    try:
        return next(csv.reader([line]), [])
    except csv.Error:
        raise invalid("columns", "The row is no line of comma-separated values.") from None


def pairs_row(line: str) -> Row:
    """Return the row of a line of ``Key=Value`` cells.

    >>> pairs_row("v=0.1.0,JobID=812,State=COMPLETED")["state"]
    'COMPLETED'
    """
    row = {}
    for cell in quoted_cells(line):
        name, separator, value = cell.partition("=")
        if not separator:
            raise invalid("columns", f"The cell {shown(cell)} is no Key=Value.")
        row[name.lower()] = value
    return row


def sacct_lines(read_row: Callable[[str], Row], options: DecodeOptions) -> DecodeOne:
    """Return the decoder of single lines below the header: `SacctTable.row`, or `pairs_row`.

    >>> decoded = Decoded()
    >>> sacct_lines(pairs_row, DecodeOptions())(b"JobID=812.batch,State=COMPLETED", 0, decoded)
    >>> decoded.ignored
    {'step': 1}
    """
    zone: tzinfo = zone_of(options.timezone)

    def decode_one(value: bytes, received_ms: int, decoded: Decoded) -> None:
        row = read_row(line_text(value, options))
        reason = ignored_row(row)
        if reason is None:
            decoded.events.append(finished_job(row, zone, received_ms, options))
        else:
            decoded.ignored[reason] = decoded.ignored.get(reason, 0) + 1

    return decode_one


def line_text(value: bytes, options: DecodeOptions) -> str:
    """Return a line as text without its end, or raise InvalidInputError.

    >>> line_text(b"812|COMPLETED" + bytes([13, 10]), DecodeOptions())
    '812|COMPLETED'
    """
    try:
        return checked(value, options).decode().rstrip("\r\n")
    except UnicodeDecodeError:
        raise invalid("encoding", "The line holds text that is not UTF-8.") from None


def table_of(first_line: str) -> tuple[SacctTable, bool]:
    """Return the table that a first line opens, and whether that line is a header.

    Without a header, only the layout that Sonar asks `sacct` for is known.

    >>> table_of("JobIDRaw|State|Start|End|NCPUS")[1]
    True
    """
    if "jobid" in first_line[:80].lower():
        return SacctTable.of_header(first_line), True
    cells = first_line.split("|")
    if len(cells) >= len(SONAR_COLUMNS) and cells[0].partition(".")[0].isdigit() and cells[0] == cells[1]:
        return SacctTable(SONAR_COLUMNS, "|"), False
    if len(cells) < 3:
        raise invalid("unknown-format", "This is neither JSON, nor a table of sacct, nor a workload log.")
    raise invalid("columns", "The table has no header line; print it without --noheader.")


def sacct_decoder(options: DecodeOptions) -> Decode:
    """Return the decoder of a message that is a whole table, or key=value lines.

    >>> decode = sacct_decoder(DecodeOptions(default_system="exa"))
    >>> text = b"JobID|State|Start|Elapsed|NCPUS" + bytes([10]) + b"812|COMPLETED|2026-11-20T10:00:00|00:01:00|8"
    >>> decode(text, 1795170700000).events[0].evidence.sizes
    {'cores': 8.0}
    """

    def decode(value: bytes, received_ms: int) -> Decoded:
        lines = [line for line in checked(value, options).split(b"\n") if line.strip()]
        if len(lines) > options.elements_max:
            raise invalid("array-bomb", f"The table has more rows than {options.elements_max}.")
        decode_one, below = sacct_opened(line_text(lines[0], options), options)
        decoded = Decoded()
        for line in lines[1:] if below else lines:
            try:
                decode_one(line, received_ms, decoded)
            except InvalidInputError as error:
                decoded.rejects.append(error)
        return decoded

    return decode


def sacct_opened(first_line: str, options: DecodeOptions) -> tuple[DecodeOne, bool]:
    """Return the decoder of lines that a first line asks for, and whether that line is a header and no row.

    >>> sacct_opened("v=0.1.0,JobID=812,State=COMPLETED", DecodeOptions())[1]
    False
    """
    if PAIRS.match(first_line):
        return sacct_lines(pairs_row, options), False
    table, header = table_of(first_line)
    return sacct_lines(table.row, options), header
