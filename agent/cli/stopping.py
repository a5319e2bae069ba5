"""A command that goes on until it is told to stop."""

import signal
import threading


def stopped_by_signals() -> threading.Event:
    """Return an event that SIGTERM and Ctrl-C set from now on, in the place of ending the process where it is.

    >>> import signal
    >>> before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    >>> stop = stopped_by_signals()
    >>> signal.raise_signal(signal.SIGTERM)
    >>> stop.is_set()
    True
    >>> _ = signal.signal(signal.SIGTERM, before[0]), signal.signal(signal.SIGINT, before[1])
    """
    stop = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    return stop
