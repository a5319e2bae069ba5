"""Autoregression of many series at once, by the recursion of Levinson and Durbin."""

import numpy as np
import numpy.typing as npt

from processors.models.forecast.layout import ORDER, Floats

EVERY = 100  # values between two fits
_RIDGE = 1e-6  # of the variance, so that a series that repeats itself has an answer


def fitted(recent: Floats) -> Floats:
    """Return coefficients (series, ORDER) of full rows of latest values, newest first, each of EVERY or more.

    The biased autocovariance makes each fit stable. A constant series gets coefficients of zero: it says its mean.
    Source: Durbin, "The fitting of time-series models" (1960).

    >>> wave = np.sin(np.arange(101) * 0.5, dtype=np.float32)[None]
    >>> bool(abs(predicted(wave[:, 1:], fitted(wave), wave.mean(axis=1, keepdims=True)) - wave[:, :1]) < 0.1)
    True
    """
    off = recent - recent.mean(axis=1, keepdims=True, dtype=np.float64)
    size = off.shape[1]
    covariance = [(off[:, lag:] * off[:, : size - lag]).sum(axis=1) for lag in range(ORDER + 1)]
    return _levinson(np.stack(covariance, axis=1)).astype(np.float32)


def predicted(recent: Floats, coefficients: Floats, mean: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the next value (series, 1) from at least ORDER latest ones, their mean (series, 1) and the coefficients.

    >>> predicted(np.ones((1, 5), dtype=np.float32), np.full((1, 5), 0.1, dtype=np.float32), np.zeros((1, 1))).round(3)
    array([[0.5]])
    """
    off = recent[:, :ORDER] - mean
    return np.asarray(mean + (np.where(np.isfinite(off), off, 0.0) * coefficients).sum(axis=1, keepdims=True))


def _levinson(covariance: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the solutions (series, p) of the Toeplitz systems of autocovariances (series, p + 1)."""
    order = covariance.shape[1] - 1
    found = np.zeros((len(covariance), order))
    error = covariance[:, 0] * (1 + _RIDGE)
    for k in range(order):
        left = covariance[:, k + 1] - (found[:, :k] * covariance[:, k:0:-1]).sum(axis=1)
        reflection = np.divide(left, error, out=np.zeros_like(left), where=error > 0)
        found[:, :k] -= reflection[:, None] * found[:, :k][:, ::-1]
        found[:, k] = reflection
        error = error * (1 - reflection**2)
    return found
