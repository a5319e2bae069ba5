"""Accounting of schedulers that is not read: named when it is met, with what to do."""

import re
from typing import Final

from agent.decode.message import invalid

_ADVICE: Final = "convert its finished jobs to native job.completed events or to a table with the columns of sacct"
OTHER_LOGS: Final = (
    (
        "accounting of LSF (lsb.acct or lsb.events)",
        re.compile(rb'"[A-Z_]{3,40}" "[0-9.]{1,10}" [0-9]{9,11} '),
    ),
    (
        "accounting of Grid Engine (accounting, one job a line)",
        re.compile(
            rb"[^:\s]{1,256}:[^:\s]{1,256}:(?:[^:]{0,1024}:){3}[0-9]{1,10}:(?:[^:]{0,4096}:){2,4}[0-9]{1,14}:[0-9]{1,14}:"
        ),
    ),
    ("output of qacct of Grid Engine", re.compile(rb"(?:={20,}\s*$|qname\s{2,}\S)")),
    ("a log in the Grid Workloads Format (GWF)", re.compile(rb"\s*-?[0-9.]+(?:[ \t,]+[^\s,]+){28}\s*$")),
    ("output of qstat -f of PBS", re.compile(rb"Job Id: \S")),
    ("a log of the PBS server", re.compile(rb"[0-9/]{10} [0-9:]{8}(?:\.[0-9]{1,9})?;[0-9a-f]{4};")),
)
"""What a file is, and how its first line begins. Sources: lsb.acct(5), accounting(5) of Grid Engine, and the pages of GWF."""


def refuse_other_logs(line: bytes) -> None:
    """Raise InvalidInputError (``unknown-format``) if a first line is one of such a log.

    >>> refuse_other_logs(b"812|COMPLETED")
    """
    for name, begins in OTHER_LOGS:
        if begins.match(line):
            raise invalid("unknown-format", f"This is {name}, which is not read: {_ADVICE}.")
