"""How far two correct implementations may differ, derived from the arithmetic that was done.

A tolerance is a function of the expected result and the arguments that gives the largest allowed absolute difference,
an array that broadcasts against the result. None of them is tuned to what happens to come out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol

import ml_dtypes
import numpy as np


class Tolerance(Protocol):
    def allowed(self, expected: np.ndarray, arguments: tuple[np.ndarray, ...]) -> np.ndarray: ...


def is_inexact(dtype: np.dtype) -> bool:
    return bool(np.issubdtype(dtype, np.inexact)) or dtype in (
        np.dtype(ml_dtypes.bfloat16),
        np.dtype(ml_dtypes.float8_e4m3fn),
        np.dtype(ml_dtypes.float8_e5m2),
    )


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The floating-point type of a number's parts."""
    return {
        np.dtype(np.complex64): np.dtype(np.float32),
        np.dtype(np.complex128): np.dtype(np.float64),
    }.get(dtype, dtype)


def epsilon(dtype: np.dtype) -> float:
    """The distance from 1 to the next number: twice the unit roundoff."""
    return float(ml_dtypes.finfo(real_dtype(dtype)).eps)


def unit_in_last_place(values: np.ndarray) -> np.ndarray:
    """The distance between neighbouring numbers of ``values``' type at each value, in f64.

    At least that of the smallest normal number: XLA's CPU backend flushes subnormal results to zero.
    """
    dtype = real_dtype(values.dtype)
    magnitude = np.abs(values.astype(np.complex128 if values.dtype.kind == "c" else np.float64))
    smallest = float(ml_dtypes.finfo(dtype).smallest_normal)
    magnitude = np.where(np.isfinite(magnitude), np.maximum(magnitude, smallest), smallest)
    return np.exp2(np.floor(np.log2(magnitude))) * epsilon(dtype)


@dataclass(frozen=True)
class Exact:
    """The same number, bit for bit but for the sign of NaN."""

    def allowed(self, expected: np.ndarray, arguments: tuple[np.ndarray, ...]) -> np.ndarray:
        return np.zeros(expected.shape)


@dataclass(frozen=True)
class Ulps:
    """``count`` units in the last place of the result: the sum of both implementations' error bounds.

    ``floor``: an absolute part, for results that cancel (sin near a multiple of pi).
    """

    count: float
    floor: float = 0.0

    def allowed(self, expected: np.ndarray, arguments: tuple[np.ndarray, ...]) -> np.ndarray:
        if not is_inexact(expected.dtype):
            return np.zeros(expected.shape)
        return self.count * unit_in_last_place(expected) + self.floor


@dataclass(frozen=True)
class Accumulated:
    """A sum of products of the arguments, in any order: the classical bound ``terms * eps * sum |products|``.

    ``magnitude`` computes the result from the arguments' absolute values, which is the sum of the terms' absolute
    values (in f64 with NumPy or on JAX's CPU). ``accumulator``: the type that sums. Both sides err, and both round the
    result once more.
    """

    terms: int
    magnitude: Callable[..., Any]
    accumulator: Any = np.float32

    def allowed(self, expected: np.ndarray, arguments: tuple[np.ndarray, ...]) -> np.ndarray:
        if not is_inexact(expected.dtype):
            return np.zeros(expected.shape)
        absolute = [
            np.abs(a.astype(np.float32 if a.dtype.kind not in "fc" else a.dtype)) for a in arguments
        ]
        total = np.asarray(self.magnitude(*absolute)).astype(np.float64)
        return 2 * self.terms * epsilon(
            np.dtype(self.accumulator)
        ) * total + 2 * unit_in_last_place(expected)


@dataclass(frozen=True)
class Normwise:
    """``roundings`` roundings, each relative to the largest element of the result.

    For programs of several steps, where every step adds an error of the size of its largest value.
    """

    roundings: float

    def allowed(self, expected: np.ndarray, arguments: tuple[np.ndarray, ...]) -> np.ndarray:
        if not is_inexact(expected.dtype):
            return np.zeros(expected.shape)
        finite = np.abs(
            expected.astype(np.complex128 if expected.dtype.kind == "c" else np.float64)
        )
        finite = finite[np.isfinite(finite)]
        largest = float(finite.max()) if finite.size else 0.0
        return np.full(expected.shape, self.roundings * epsilon(expected.dtype) * largest)
