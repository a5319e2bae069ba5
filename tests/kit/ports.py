"""Free ports of this machine that no other test takes meanwhile, also where tests run in several processes."""

import os
import random
import socket

FIRST, BEYOND = 15_000, 30_000  # below those that clients are given: a client that redials one of these meets nobody
_given: set[int] = set()


def free_ports(count: int) -> range:
    """Return so many free ports in a row, none of which was returned before."""
    mine = _share(os.environ.get("PYTEST_XDIST_WORKER", "gw0"), int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))
    while True:
        first = random.SystemRandom().randrange(mine.start, mine.stop - count)
        ports = range(first, first + count)
        if _given.isdisjoint(ports) and all(_is_free(port) for port in ports):
            _given.update(ports)
            return ports


def _share(worker: str, workers: int) -> range:
    """Return the ports of one of several test processes: between the look and the use nobody else takes one."""
    width = (BEYOND - FIRST) // workers
    first = FIRST + int(worker.removeprefix("gw")) % workers * width
    return range(first, first + width)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
