"""Arguments that reach the edges of a dtype: zeros of both signs, extremes, subnormals, infinities, NaN."""

from __future__ import annotations

import zlib

import ml_dtypes
import numpy as np
from tripont.core.compiler.ir.dtypes import DType

Array = np.ndarray


def generator(seed: str) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(seed.encode()))


def specials(dtype: DType) -> Array:
    """The numbers of a dtype on which implementations differ, if they do."""
    if dtype.kind == "pred":
        return np.array([False, True])
    if dtype.is_integer:
        info = ml_dtypes.iinfo(dtype.numpy)
        wanted = [
            info.min,
            info.min + 1,
            -2,
            -1,
            0,
            1,
            2,
            3,
            5,
            dtype.bits - 1,
            dtype.bits,
            dtype.bits + 1,
        ]
        wanted += [info.max // 2, info.max - 1, info.max]
        return np.array(
            sorted({v for v in map(int, wanted) if info.min <= v <= info.max}), object
        ).astype(dtype.numpy)
    if dtype.is_complex:
        parts = np.array([0.0, -0.0, 1.0, -1.5, 1e3, 1e-3])
        grid = parts[:, None] + 1j * parts[None, :]
        return grid.reshape(-1).astype(dtype.numpy)
    info = ml_dtypes.finfo(dtype.numpy)
    big, small, tiny = float(info.max), float(info.smallest_normal), float(info.smallest_subnormal)
    wanted = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, 2.5, -2.5, 3.0, -3.0, 0.1, 7.0, -8.0]
    wanted += [
        big,
        -big,
        small,
        -small,
        tiny,
        -tiny,
        3 * tiny,
        small - tiny,
        np.inf,
        -np.inf,
        np.nan,
    ]
    with np.errstate(all="ignore"):
        array = np.array(wanted).astype(dtype.numpy)
    _, first = np.unique(array.view(f"u{dtype.size}"), return_index=True)
    return array[np.sort(first)]


def scattered(dtype: DType, count: int, seed: str) -> Array:
    """Numbers of every magnitude (and sign) that the dtype has, and of the size of one."""
    rng = generator(seed)
    if dtype.kind == "pred":
        return rng.random(count) < 0.5
    if dtype.is_integer:
        bits = rng.integers(0, 256, (count, dtype.size), np.uint8)
        if dtype.bits < 8:
            info = ml_dtypes.iinfo(dtype.numpy)
            return rng.integers(int(info.min), int(info.max) + 1, count).astype(dtype.numpy)
        wide = bits.reshape(-1).view(dtype.numpy).copy()
        wide[::3] = rng.integers(0, 20, len(wide[::3])).astype(dtype.numpy)
        return wide
    if dtype.is_complex:
        return (rng.standard_normal(count) + 1j * rng.standard_normal(count)).astype(dtype.numpy)
    values = rng.standard_normal(count) * np.exp2(rng.integers(-3, 5, count))
    with np.errstate(all="ignore"):
        array = values.astype(dtype.numpy)
    bits = rng.integers(0, 256, (count // 3, dtype.size), np.uint8)
    if dtype.bits < 8:
        bits &= (1 << dtype.bits) - 1
    array[: count // 3] = bits.reshape(-1).view(dtype.numpy)
    return array


def ordinary(dtype: DType, dims: tuple[int, ...], seed: str = "") -> Array:
    """Numbers of the size of one (integers below ten), as programs that sum have them."""
    rng = generator(f"{dtype.name}{dims}{seed}")
    if dtype.kind == "pred":
        return rng.random(dims) < 0.5
    if dtype.is_integer:
        info = ml_dtypes.iinfo(dtype.numpy)
        return rng.integers(max(-9, int(info.min)), min(10, int(info.max) + 1), dims).astype(
            dtype.numpy
        )
    values = rng.standard_normal(dims)
    if dtype.is_complex:
        return (values + 1j * rng.standard_normal(dims)).astype(dtype.numpy)
    if dtype.name == "f8e8m0fnu":
        values = np.exp2(np.round(values))
    return values.astype(dtype.numpy)


def unary(dtype: DType, count: int = 1000) -> Array:
    return np.concatenate([specials(dtype), scattered(dtype, count, f"unary {dtype.name}")])


def binary(dtype: DType, count: int = 1000) -> tuple[Array, Array]:
    """All pairs of special numbers, and ``count`` others."""
    edges = specials(dtype)
    left, right = np.repeat(edges, len(edges)), np.tile(edges, len(edges))
    return (
        np.concatenate([left, scattered(dtype, count, f"left {dtype.name}")]),
        np.concatenate([right, scattered(dtype, count, f"right {dtype.name}")]),
    )
