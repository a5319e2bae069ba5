"""Where a checkpoint is written: at once, or in a thread of its own while the fold goes on.

What is written was encoded before, so nothing that is folded meanwhile can change it.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Protocol


class Save(Protocol):
    """A checkpoint on its way."""

    def done(self) -> bool:
        """Tell whether it has ended, well or badly."""

    def result(self) -> float:
        """Wait for its end and return how long it took in seconds; raises what it raised."""


Saving = Callable[[Callable[[], float]], Save]


def at_once(work: Callable[[], float]) -> Save:
    """Write before anything else is done.

    >>> at_once(lambda: 0.5).result()
    0.5
    """
    ended: Future[float] = Future()
    try:
        ended.set_result(work())
    except Exception as error:  # noqa: BLE001  it is raised where the result is asked for
        ended.set_exception(error)
    return ended


def in_thread(work: Callable[[], float]) -> Save:
    """Write in a thread; whoever closes what it writes to has to wait for the result first.

    >>> in_thread(lambda: 0.5).result()
    0.5
    """
    ended: Future[float] = Future()

    def run() -> None:
        try:
            ended.set_result(work())
        except BaseException as error:  # noqa: BLE001  it is raised where the result is asked for
            ended.set_exception(error)

    threading.Thread(target=run, name="checkpoint", daemon=True).start()
    return ended
