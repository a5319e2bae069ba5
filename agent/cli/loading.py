"""Loading of modules: nothing looks for garbage meanwhile."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def lasting() -> Iterator[None]:
    """Look for no garbage until the end of the block, and never in what it made: it lasts as long as the process.

    A look at all objects takes as long as ten modules, and without this a role takes several while it starts.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
