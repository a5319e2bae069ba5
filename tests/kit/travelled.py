"""Which modules of the product run a function while a command handles some events; run as a program of its own.

`python -m tests.kit.travelled FILE OUT` replays a file of events twice, the first time so that no import counts, and prints the number
of modules of the second time, and of hand-overs between modules.
"""

import contextlib
import io
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

from agent.cli import main
from tests.kit.sources import PRODUCT, ROOT


class Trace:
    """A profile function that counts modules, and calls from one module into another."""

    def __init__(self) -> None:
        self.modules: set[str] = set()
        self.hand_overs = 0
        self._root = f"{ROOT}/"

    def module_of(self, frame: FrameType) -> str | None:
        path = frame.f_code.co_filename
        inside = path.removeprefix(self._root)
        return inside if inside != path and inside.split("/")[0] in PRODUCT else None

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        if event != "call" or frame.f_code.co_name.startswith("<"):
            return
        callee = self.module_of(frame)
        if callee is None:
            return
        self.modules.add(callee)
        caller = frame.f_back
        while caller is not None and self.module_of(caller) is None:
            caller = caller.f_back
        self.hand_overs += caller is not None and self.module_of(caller) != callee


def run(arguments: list[str], profile: Callable[[FrameType, str, Any], None] | None) -> None:
    """Run a command quietly, with or without a profile function."""
    threading.setprofile(profile)
    sys.setprofile(profile)
    try:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
            main(arguments)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)


if __name__ == "__main__":
    events, out = sys.argv[1:]
    run(["replay", events, "--out", str(Path(out) / "first")], None)
    trace = Trace()
    run(["replay", events, "--out", str(Path(out) / "second")], trace)
    print(len(trace.modules), trace.hand_overs)  # noqa: T201 - the result
