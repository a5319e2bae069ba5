"""Facts about the machine and what ran on it, so that figures can be compared."""

import os
import platform
import statistics
import subprocess
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import scipy

LOOPS: Final = 9
LOOP_STEPS: Final = 20_000


def facts() -> dict[str, Any]:
    """Return what the figures depend on."""
    return {
        "time": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": _after("/proc/cpuinfo", "model name"),
        "cores": os.cpu_count(),
        "memory": _after("/proc/meminfo", "MemTotal"),
        "system": platform.platform(),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "msgspec": msgspec.__version__,
        "commit": _commit(),
        "load_average": os.getloadavg(),
        "busiest": _busiest(),
    }


def slowness() -> float:
    """Return how long a fixed piece of pure Python takes now, in ms of processor time: neighbours slow a core down too.

    Figures of different runs compare when this is about the same.
    """
    times_ms = []
    for _ in range(LOOPS):
        began_s = time.process_time()
        sum({str(number): number for number in range(LOOP_STEPS)}.values())
        times_ms.append((time.process_time() - began_s) * 1000)
    return statistics.median(times_ms)


def _after(path: str, name: str) -> str:
    lines = Path(path).read_text().splitlines() if Path(path).exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def _commit() -> str:
    done = subprocess.run(["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _busiest() -> list[str]:
    """Return the names of the programs that use the most processor time, other than this one."""
    command = ["ps", "-eo", "pcpu,comm", "--sort=-pcpu", "--no-headers"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return [line.strip() for line in done.stdout.splitlines()[:5]]
