"""Digits: what is told or kept of a number."""


def six_digits(value: float) -> float:
    """Return a number rounded to six digits; what is not finite stays as it is.

    >>> six_digits(1234.56789), six_digits(float("inf"))
    (1234.57, inf)
    """
    return to_digits(value, 6)


def to_digits(value: float, digits: int) -> float:
    """Return a number rounded to so many digits; what is not finite stays as it is.

    >>> to_digits(1234.56789, 3)
    1230.0
    """
    return float(f"{value:.{digits}g}")
