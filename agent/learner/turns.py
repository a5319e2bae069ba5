"""Turns: the fold and those who ask touch the shards one at a time, in the order in which they came."""

import threading


class Turns:
    """A lock that is fair: whoever waits has it before one who had it just now.

    The fold takes it record by record, and for a tick that fits a hundred curves slice by slice. With a plain lock it would
    have it again before anybody else woke up.
    """

    def __init__(self) -> None:
        self._next, self._held = threading.Lock(), threading.Lock()

    def __enter__(self) -> None:
        with self._next:  # one waits, and all others behind it
            self._held.acquire()

    def __exit__(self, *_error: object) -> None:
        self._held.release()

    @property
    def awaited(self) -> bool:
        """Whether anybody waits for a turn."""
        return self._next.locked()

    def give_way(self) -> None:
        """Let whoever waits go first, in the midst of one's own turn."""
        self._held.release()
        self.__enter__()
