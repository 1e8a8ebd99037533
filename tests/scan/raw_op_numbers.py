"""Special numbers of every element type, and arrays in another type."""

from __future__ import annotations

import functools
import itertools
from typing import Any, Final

import ml_dtypes
import numpy as np

_WHOLE: Final = (0, 1, -1, 2, -2, 3, 7, 8, 31, 32, 63, 64, 255)
_REAL: Final = (
    *(np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0),
    *(0.5, -0.5, 1.5, 2.5, -2.5, 3.5, 127.5),  # ties
    *(2.0, 10.0, -10.0, 100.0, 1e-3, 3.14159265, 0.75, -20.5),
    *(2.0**24 + 1, 2.0**31, -(2.0**31), 2.0**32, 2.0**63, -(2.0**63), 2.0**64),
)
_PARTS: Final = (np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 0.5, -3.0, 1e-40, 3e38, 1e-3)


def is_float(dtype: Any) -> bool:
    """Whether NumPy or ml_dtypes has it as a type of real floats."""
    dtype = np.dtype(dtype)
    return dtype.kind == "f" or (dtype.kind == "V" and "float" in dtype.name)


@functools.cache
def special_numbers(dtype: Any) -> np.ndarray:
    """NaN, infinities, zeros, ties, denormals and the format's ends; of integers the ends; of complex numbers all pairs
    of such parts.
    """
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return np.array([False, True])
    with np.errstate(all="ignore"):
        if dtype.kind == "c":
            pairs = [complex(a, b) for a, b in itertools.product(_PARTS, repeat=2)]
            return np.array(pairs, dtype)
        if is_float(dtype):
            info = ml_dtypes.finfo(dtype)
            ends = [info.max, info.min, info.tiny, -info.tiny, info.smallest_subnormal]
            ends += [-info.smallest_subnormal, info.tiny / 2, info.eps, 1 + info.eps, 1 - info.eps]
            return np.concatenate(
                [
                    np.array(_REAL, np.float64).astype(dtype),
                    np.array([float(e) for e in ends]).astype(dtype),
                ]
            )
    info = ml_dtypes.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    ends = [low, low + 1, high, high - 1, high // 2, high // 2 + 1]
    return np.array([n for n in (*_WHOLE, *ends) if low <= n <= high], dtype)


def combined(dtypes: list[Any], nonzero: bool = False) -> list[np.ndarray]:
    """Arrays of one shape that have all pairs of special numbers of the first two, and several hundred elements.

    ``nonzero``: without 0, by which integers are not divided.
    """
    numbers = [special_numbers(d) for d in dtypes]
    if nonzero:
        numbers = [n[n != 0] for n in numbers]
    if len(numbers) == 1:
        return [np.resize(numbers[0], 263)]
    first, second = len(numbers[0]), len(numbers[1])
    arrays = [np.repeat(numbers[0], second), np.tile(numbers[1], first)]
    return arrays + [np.resize(np.roll(n, 5), first * second) for n in numbers[2:]]


def begun_with_special(array: np.ndarray) -> np.ndarray:
    """The array, of which as many elements as there are special numbers are such, but at most half."""
    numbers = special_numbers(array.dtype)[: array.size // 2 or 1]
    flat = np.concatenate([numbers, array.ravel()[len(numbers) :]])
    return np.resize(flat, array.shape).astype(array.dtype)


def converted(array: np.ndarray, dtype: Any) -> np.ndarray:
    """The array in another type: fractions become whole numbers of several sizes, and real numbers get other parts."""
    dtype = np.dtype(dtype)
    if dtype == array.dtype:
        return array
    whole = dtype.kind in "iu" or (dtype.kind == "V" and not is_float(dtype))
    with np.errstate(all="ignore"):
        if is_float(array.dtype) and whole:
            return np.round(np.asarray(array, np.float64) * 3).astype(np.int64).astype(dtype)
        if dtype.kind == "c" and array.dtype.kind != "c":
            return (array + 0.5j * np.flip(array)).astype(dtype)
        if array.dtype.kind == "c" and dtype.kind != "c":
            array = array.real
        return (
            array > 0
            if dtype == np.bool_
            else array.astype(np.float64 if is_float(dtype) else array.dtype).astype(dtype)
        )
