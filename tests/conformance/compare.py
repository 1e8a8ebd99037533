"""Distances between results, in units in the last place."""

from __future__ import annotations

import ml_dtypes
import numpy as np
from tripont.core.compiler.ir import dtypes


def ulps(
    actual: np.ndarray,
    expected: np.ndarray,
    zero_signs: bool = True,
    scale: np.ndarray | None = None,
) -> float:
    """The largest distance of two arrays; 0 if equal, infinite where no number of steps leads from one to the other.

    Floats: representable numbers between them (any NaN equals any NaN; with ``zero_signs`` -0 and 0 differ by
    infinity when they are the only difference). With ``scale`` (or for complex numbers, whose own magnitude it
    then is): the difference over the last place of ``scale``. Everything else is 0 or infinite.
    """
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return np.inf
    if actual.size == 0:
        return 0.0
    dtype = dtypes.from_numpy(expected.dtype)
    if dtype.is_complex or (scale is not None and dtype.is_float):
        return _scaled(actual, expected, scale)
    if not dtype.is_float:
        return 0.0 if np.array_equal(_plain(actual), _plain(expected)) else np.inf
    nan_a, nan_e = _isnan(actual), _isnan(expected)
    if (nan_a != nan_e).any():
        return np.inf
    steps = np.abs(_order(actual) - _order(expected))
    if zero_signs and dtype.size <= 8:
        zero = (_wide(expected) == 0) & (_wide(actual) == 0) & ~nan_e
        if (_bits(actual) != _bits(expected))[zero].any():
            return np.inf
    infinite = np.isinf(_wide(expected)) != np.isinf(_wide(actual))
    steps = np.where(nan_e, 0, steps).astype(np.float64)
    # Overflow is one step past the largest number: the order says so already.
    return float(np.max(np.where(infinite & (steps > 64), np.inf, steps)))


def worst(
    actual: np.ndarray, expected: np.ndarray, arguments: list[np.ndarray], limit: float
) -> str:
    """A line about the first element that is farther off than ``limit``, with the arguments there if they fit."""
    if actual.dtype != expected.dtype or actual.shape != expected.shape:
        return f"{actual.dtype}{actual.shape} instead of {expected.dtype}{expected.shape}"
    flat_a, flat_e = actual.reshape(-1), expected.reshape(-1)
    bad = [i for i in range(flat_a.size) if ulps(flat_a[i : i + 1], flat_e[i : i + 1]) > limit]
    if not bad:
        return "only in scale"
    lines = []
    for i in bad[:6]:
        given = [a.reshape(-1)[i] for a in arguments if a.size == flat_a.size]
        lines.append(f"at {i}: {flat_a[i]!r} instead of {flat_e[i]!r} for {given}")
    return f"{len(bad)} of {flat_a.size} wrong: " + "; ".join(lines)


def _plain(array: np.ndarray) -> np.ndarray:
    return array if array.dtype.kind in "biu" else array.astype(np.int64)


def _wide(array: np.ndarray) -> np.ndarray:
    return array if array.dtype == np.float64 else array.astype(np.float64)


def _isnan(array: np.ndarray) -> np.ndarray:
    return np.isnan(_wide(array))


def _bits(array: np.ndarray) -> np.ndarray:
    return array.view(f"u{array.dtype.itemsize}")


def _order(array: np.ndarray) -> np.ndarray:
    """Numbers numbered in order, as Python integers would be: 0 for both zeros."""
    if array.dtype.name == "float8_e8m0fnu":
        return _bits(array).astype(np.float64)
    width = dtypes.from_numpy(array.dtype).bits
    bits = _bits(array).astype(np.uint64) & np.uint64((1 << width) - 1)
    sign = np.uint64(1 << (width - 1))
    magnitude = (bits & np.uint64((1 << (width - 1)) - 1)).astype(np.int64).astype(np.longdouble)
    return np.where(bits & sign, -magnitude, magnitude)


def _scaled(actual: np.ndarray, expected: np.ndarray, scale: np.ndarray | None) -> float:
    component = dtypes.from_numpy(expected.dtype).component
    wide = np.clongdouble if expected.dtype.kind == "c" else np.longdouble
    a, e = (
        x.astype(np.float32).astype(wide) if x.dtype.kind not in "fc" else x.astype(wide)
        for x in (actual, expected)
    )
    same = (a == e) | (np.isnan(a) & np.isnan(e))
    with np.errstate(all="ignore"):
        size = (
            np.abs(e)
            if scale is None
            else np.broadcast_to(np.abs(scale).astype(np.longdouble), e.shape)
        )
        info = ml_dtypes.finfo(component.numpy)
        size = np.maximum(size, float(info.smallest_normal))
        unit = np.exp2(np.floor(np.log2(np.where(np.isfinite(size), size, 1)))) * float(info.eps)
        far = np.where(same, 0, np.abs(a - e) / unit)
    return float(np.max(np.where(np.isnan(far), np.inf, far)))
