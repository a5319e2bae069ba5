"""Checkpoints that are written at some later time, by a seed: as a thread would, but the same with the same seed."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from agent.learner.learner import Save

SOON = 0.4  # the chance, at each look, that a save is done in the meantime


@dataclass
class Later:
    """One save. It is done when the dice say so, or when somebody waits for it."""

    work: Callable[[], float]
    dice: random.Random
    error: BaseException | None = None
    seconds: float | None = None

    def done(self) -> bool:
        """Return whether it has ended; it may do so now."""
        if not self.ended and self.dice.random() < SOON:
            self.run()
        return self.ended

    def result(self) -> float:
        """End it, and return how long it took or raise what it raised."""
        if not self.ended:
            self.run()
        if self.error is not None:
            raise self.error
        assert self.seconds is not None
        return self.seconds

    @property
    def ended(self) -> bool:
        """Whether it was done, well or badly."""
        return self.seconds is not None or self.error is not None

    def run(self) -> None:
        """Do it now."""
        try:
            self.seconds = self.work()
        except BaseException as error:  # noqa: BLE001 - a crash is none of the product's errors
            self.error = error


@dataclass
class Slow:
    """The threads of one process."""

    dice: random.Random
    saves: list[Later] = field(default_factory=list)

    def __call__(self, work: Callable[[], float]) -> Save:
        """Begin a save."""
        self.saves = [*(save for save in self.saves if not save.ended), Later(work, self.dice)]
        return self.saves[-1]

    def happen(self) -> None:
        """Let what is on its way end at a time when its process does not look, or is no more."""
        for save in self.saves:
            if not save.ended and self.dice.random() < SOON:
                save.run()
