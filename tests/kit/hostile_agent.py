"""The agent with a decoder that ends its process at certain messages, and a watchdog that is soon impatient.

python -m tests.kit.hostile_agent run -c agent.yaml
"""

import ctypes
import os
import re
import signal
import sys
from collections.abc import Callable
from typing import Final

from agent.app import supervisor
from agent.cli import main, run
from agent.decode.guard import guarded
from processors.contracts.events import Decode, Decoded

ENTRY: Final = "tests.kit.hostile_agent"
PATIENCE_S: Final = 3.0
FREEZE, CRASH, KILL = b"freeze", b"crash", b"kill"
ENDS: Final[dict[bytes, Callable[[], object]]] = {
    FREEZE: lambda: re.match("(a+)+$", "a" * 60 + "b"),  # for years, and it holds the interpreter's lock
    CRASH: lambda: ctypes.string_at(0),
    KILL: lambda: os.kill(os.getpid(), signal.SIGKILL),  # as the kernel does where memory is short
}


def hostile(decode: Decode) -> Decode:
    """Return a decoder that ends its process at the messages of ENDS."""

    def decode_or_end(value: bytes, received_ms: int) -> Decoded:
        ENDS.get(value, bool)()
        return decode(value, received_ms)

    return decode_or_end


def install() -> None:
    """Put the hostile decoder and the short bound into this process and those that it starts."""
    arguments = run._CommandLine.arguments
    supervisor.READING_MAX_S = PATIENCE_S  # type: ignore[misc] # a test waits no minute
    run._CommandLine.arguments = lambda given, role: [  # type: ignore[method-assign, assignment]
        ENTRY if argument == "agent.cli" else argument for argument in arguments(given, role)
    ]
    if "--role" in sys.argv:
        from agent.app import compose

        compose.guarded = lambda decode: hostile(guarded(decode))  # type: ignore[attr-defined]


if __name__ == "__main__":
    install()
    main()
