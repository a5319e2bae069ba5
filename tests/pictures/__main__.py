"""Make the pictures of the README and of the pages: the demo at a fixed seed, seen by a real browser.

python -m tests.pictures [--out FOLDER] [--hours HOURS]
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from agent.app.demo import Demo
from agent.clock import SystemClock
from sinks.web.server import Server, create_app
from tests.pictures.stamp import NAME, stamp
from tests.pictures.views import take

SEED = 1
SPEED = 3600.0  # seconds of the centre in a second of the demo's clock, which is not waited for
STEPS_AN_HOUR = 4
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "deploy" / "pictures"


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.pictures")
    parser.add_argument("--out", type=Path, default=FOLDER)
    parser.add_argument(
        "--hours", type=float, default=9.0, help="of the simulated centre before the pictures are taken"
    )
    reported = parser.parse_args(arguments)
    demo = Demo(SEED, SPEED, SystemClock())
    try:
        for step in range(round(reported.hours * STEPS_AN_HOUR)):
            demo.advance((step + 1) / STEPS_AN_HOUR)
        with Server(create_app(demo.service, demo.agent.metrics, demo.truth), "127.0.0.1", 0) as server:
            take(server.url, demo.service, reported.out)
        (reported.out / NAME).write_text(stamp(ROOT))
    finally:
        demo.close()


if __name__ == "__main__":
    main()
