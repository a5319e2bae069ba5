"""Many small cases in one test: as tests of their own they would cost more than they check."""

import inspect
from collections.abc import Callable, Iterable
from functools import wraps
from typing import Any

import pytest


def each(names: str | tuple[str, ...], cases: Iterable[Any]) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Run a test for each case, as `pytest.mark.parametrize` does, but as one test; it reports all cases that fail."""
    keys = [name.strip() for name in names.split(",")] if isinstance(names, str) else list(names)
    arguments = [dict(zip(keys, case if len(keys) > 1 else (case,), strict=True)) for case in cases]
    assert arguments, "a test without a case tests nothing"

    def decorate(test: Callable[..., None]) -> Callable[[], None]:
        assert set(inspect.signature(test).parameters) == set(keys), "fixtures would be shared by all cases"

        @wraps(test)
        def test_each() -> None:
            failures: list[BaseException] = []
            for case in arguments:
                try:
                    test(**case)
                except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - raised below, with those of other cases
                    error.add_note(f"case: {case!r:.500}")
                    failures.append(error)
            if failures:
                raise BaseExceptionGroup(f"{len(failures)} of {len(arguments)} cases failed", failures)

        test_each.__signature__ = inspect.Signature()  # type: ignore[attr-defined] # pytest would ask for fixtures
        return test_each

    return decorate
