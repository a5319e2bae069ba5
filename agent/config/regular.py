"""Files that are named in other files: only regular ones are opened."""

import errno
import os
import stat
from io import BufferedReader
from pathlib import Path


def open_regular(path: Path) -> BufferedReader:
    """Open a file for reading; OSError if it is no regular file, because a named pipe keeps its reader waiting for ever."""
    mode = path.stat().st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # a directory is refused by the system, in its own words
        raise OSError(errno.EINVAL, "it is no regular file", os.fspath(path))
    return path.open("rb")
