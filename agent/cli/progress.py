"""How far a long command is."""

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn


def progress(*, quiet: bool = False) -> Progress:
    """Return a bar on standard error that leaves nothing behind; none where that is no terminal.

    >>> with progress(quiet=True) as bar:
    ...     bar.finished
    True
    """
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, disable=quiet or not console.is_terminal, transient=True)
