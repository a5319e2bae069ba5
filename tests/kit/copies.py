"""Costly beginnings that several tests share: each is lived through once by a worker, and each test gets a copy of its own."""

import copy
from collections.abc import Callable
from functools import cache, wraps
from typing import ParamSpec, TypeVar, cast

P = ParamSpec("P")
T = TypeVar("T")


def copied(build: Callable[P, T]) -> Callable[P, T]:
    """Let a function with hashable arguments run once for each of them, and return deep copies of its result."""
    built = cast(Callable[P, T], cache(build))

    @wraps(build)
    def copy_of(*args: P.args, **kwargs: P.kwargs) -> T:
        return copy.deepcopy(built(*args, **kwargs))

    return copy_of
