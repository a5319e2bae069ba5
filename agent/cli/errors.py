"""Errors as a user sees them: one sentence on standard error, and the exit code."""

import traceback
from typing import Final

import click

from processors.contracts.errors import ConfigError, ScalewatchError

DONE: Final = 0
FAILED: Final = 1
WRONG: Final = 2  # usage or configuration


def report(error: Exception, *, verbose: bool) -> int:
    """Write the sentence, and with `verbose` the trace before it; return the exit code."""
    if verbose:
        click.echo("".join(traceback.format_exception(error)), err=True, nl=False)
    for line in sentence(error).splitlines():
        click.echo(f"scalewatch: {line}", err=True)
    return WRONG if isinstance(error, ConfigError) else FAILED


def sentence(error: Exception) -> str:
    """Return what an error means; one that nobody foresaw says so."""
    if isinstance(error, ScalewatchError):
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename!r}." if error.filename else f"{error.strerror}."
    text = " ".join(str(error).split())[:200]
    return f"This should not have happened ({type(error).__name__}: {text}); --verbose before the command shows where."
