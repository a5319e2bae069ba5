"""What other learners tell, for the readers of this one: read again now and then, in a thread of its own."""

import threading
from collections.abc import Callable
from typing import Final

from agent.app import logs
from agent.clock import Clock

FOLLOW_S: Final = 30.0


def start(follow: Callable[[], None], clock: Clock, stop: threading.Event) -> threading.Thread:
    """Start the thread that follows until `stop` is set; a failure is told once, and the next time may be better.

    >>> from agent.clock import SystemClock
    >>> stop = threading.Event()
    >>> stop.set()
    >>> start(print, SystemClock(), stop).join(10.0)
    """
    thread = threading.Thread(target=_run, args=(follow, clock, stop), name="others", daemon=True)
    thread.start()
    return thread


def _run(follow: Callable[[], None], clock: Clock, stop: threading.Event) -> None:
    say, failing = logs.logger("others"), False
    while not clock.sleep(FOLLOW_S, stop):
        try:
            follow()
        except Exception as error:  # noqa: BLE001  whatever a broker does, readers see what was seen before
            if not failing:
                say.warning("what other learners tell could not be read", reason=f"{type(error).__name__}: {error}")
            failing = True
            continue
        if failing:
            say.info("what other learners tell can be read again")
        failing = False
