"""Applications with a history, and what a user who asks about them is given."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from tests.kit.scenario import DAY_MS, Scenario

EVERY_MS = 7_200_000
APPLICATION = "app"
EVERYWHERE = tuple(2.0 ** (i / 2) for i in range(4, 19))


def kazmina(n: float) -> float:
    """Return the law of Kazmina and Antonov with its minimum at 52."""
    return 0.5 * n + 1000.0 / n + 100.0 / math.sqrt(n)


class Given(NamedTuple):
    """What is answered of one size: run time and band in seconds, verdict."""

    n: float
    run_time_s: float
    low_s: float
    high_s: float
    verdict: str

    @property
    def width(self) -> float:
        """ln of high over low."""
        return math.log(self.high_s / self.low_s)

    def holds(self, run_time_s: float) -> bool:
        return self.low_s <= run_time_s <= self.high_s


class Story:
    """One application in a centre of its own; its runs end every two hours, one after another."""

    def __init__(self, seed: int = 0, noise: float = 0.01, unit: str = "nodes", **run_time: Any) -> None:
        self.centre = Scenario(run_time=run_time)
        self.unit = unit
        self._random = np.random.default_rng(seed)
        self._noise = noise
        self._runs = 0
        self._answers = 0

    def ran(self, law: Callable[[float], float], sizes: Iterable[float], application: str = APPLICATION) -> "Story":
        """Let a run of each size end, with log-normal noise around its law."""
        for n in sizes:
            self._ended(n, law(n) * math.exp(self._random.normal(0.0, self._noise)), application)
        return self

    def repeated(self, law: Callable[[float], float], sizes: Sequence[int], rounds: int) -> "Story":
        """Let every size run so many times, each round in another order."""
        for _ in range(rounds):
            self.ran(law, self._random.permutation(sizes).tolist())
        return self

    def failed(self, n: float, run_time_s: float, count: int) -> "Story":
        """Let so many jobs fail after a time."""
        for _ in range(count):
            self._ended(n, run_time_s, APPLICATION, "FAILED")
        return self

    def answer(self, *sizes: float, application: str = APPLICATION) -> dict[str, Any]:
        """Return the answer at sizes once all runs have settled."""
        self._answers += 1
        self.centre.at_ms(self.centre.now_ms + 2 * EVERY_MS)
        return self.centre.asks(f"q{self._answers}", *map(float, sizes), unit=self.unit, application=application)

    def given(self, *sizes: float, application: str = APPLICATION) -> list[Given]:
        """Return what is answered of each size."""
        points = self.answer(*sizes, application=application)["points"]
        return [
            Given(each["n"], each["run_time_s"], each["low_s"], each["high_s"], each["reliability"]["verdict"])
            for each in points
        ]

    def _ended(self, n: float, run_time_s: float, application: str, state: str = "COMPLETED") -> None:
        self._runs += 1
        self.centre.at_ms(DAY_MS + self._runs * EVERY_MS)
        sizes = {self.unit: float(n)}
        self.centre.ran(f"r{self._runs}", application, None, run_time_s, sizes=sizes, state=state)
