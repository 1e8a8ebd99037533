"""Programs that read or write at computed places: sums by segment, histograms, sparse matrices, interpolation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..program import Registry

PROGRAMS = Registry("gather and scatter", __name__)


def normal(random: np.random.Generator, *shape: int) -> np.ndarray:
    return random.normal(size=shape).astype(np.float32)


IMAGE = 512


def warp_jax() -> Callable[..., Any]:
    from jax.scipy.ndimage import map_coordinates

    return lambda image, y, x: map_coordinates(image, [y, x], order=1, mode="nearest")


def warp_scipy() -> Callable[..., Any]:
    from scipy.ndimage import map_coordinates

    return lambda image, y, x: map_coordinates(image, [y, x], order=1, mode="nearest")


def warp_torch() -> Callable[..., Any]:
    import torch

    def run(image: Any, y: Any, x: Any) -> Any:
        grid = torch.stack([x, y], -1)[None] * (2 / (IMAGE - 1)) - 1
        return torch.nn.functional.grid_sample(
            image[None, None], grid, padding_mode="border", align_corners=True
        )[0, 0]

    return run


def warp_inputs(random: np.random.Generator) -> tuple[np.ndarray, ...]:
    y, x = np.mgrid[:IMAGE, :IMAGE].astype(np.float32)
    return normal(random, IMAGE, IMAGE), y + 5 * np.sin(x / 20), x + 5 * np.cos(y / 20)


PROGRAMS.add(
    "image_warp",
    f"linear interpolation of a {IMAGE}x{IMAGE} image at as many places",
    warp_inputs,
    jax=warp_jax,
    numpy=warp_scipy,
    torch=warp_torch,
    bytes=16.0 * IMAGE**2,
    flops=12.0 * IMAGE**2,
    terms=4,
)

SEGMENTS, ROWS = 10_000, 200_000


def segment_jax() -> Callable[..., Any]:
    import jax

    return lambda data, ids: jax.ops.segment_sum(data, ids, SEGMENTS)


def segment_torch() -> Callable[..., Any]:
    import torch

    return lambda data, ids: torch.zeros(SEGMENTS, *data.shape[1:]).index_add_(0, ids, data)


def segment_numpy() -> Callable[..., Any]:
    return lambda data, ids: np.bincount(ids, data, SEGMENTS).astype(np.float32)


PROGRAMS.add(
    "segment_sum",
    f"{ROWS:,} numbers into {SEGMENTS:,} sums, places at random",
    lambda r: (normal(r, ROWS), r.integers(0, SEGMENTS, ROWS).astype(np.int32)),
    jax=segment_jax,
    torch=segment_torch,
    numpy=segment_numpy,
    bytes=8.0 * ROWS + 4 * SEGMENTS,
    terms=40,
)
PROGRAMS.add(
    "segment_sum_rows",
    f"{ROWS:,} rows of 64 into {SEGMENTS:,} sums (a layer of a graph network)",
    lambda r: (normal(r, ROWS, 64), r.integers(0, SEGMENTS, ROWS).astype(np.int32)),
    jax=segment_jax,
    torch=segment_torch,
    bytes=4.0 * 65 * ROWS + 256 * SEGMENTS,
    terms=40,
)
PROGRAMS.add(
    "gather_rows",
    f"{ROWS:,} rows of 64 of {SEGMENTS:,}, places at random",
    lambda r: (normal(r, SEGMENTS, 64), r.integers(0, SEGMENTS, ROWS).astype(np.int32)),
    jax=lambda: lambda table, ids: table[ids],
    torch=lambda: lambda table, ids: table[ids],
    numpy=lambda: lambda table, ids: table[ids],
    bytes=4.0 * 65 * ROWS,
)


def bincount_jax() -> Callable[..., Any]:
    import jax.numpy as jnp

    return lambda ids: jnp.bincount(ids, length=256)


def bincount_torch() -> Callable[..., Any]:
    import torch

    return lambda ids: torch.bincount(ids, minlength=256)


PROGRAMS.add(
    "bincount_256",
    "a million integers into 256 counts",
    lambda r: (r.integers(0, 256, 1 << 20).astype(np.int32),),
    jax=bincount_jax,
    torch=bincount_torch,
    numpy=lambda: lambda ids: np.bincount(ids, minlength=256),
    bytes=4.0 * (1 << 20),
)


def histogram_jax() -> Callable[..., Any]:
    import jax.numpy as jnp

    return lambda x: jnp.histogram(x, 100, (-4.0, 4.0))[0]


def histogram_torch() -> Callable[..., Any]:
    import torch

    return lambda x: torch.histc(x, 100, -4.0, 4.0)


def binned(random: np.random.Generator) -> tuple[np.ndarray]:
    """Numbers away from the edges of the bins, so that rounding moves none of them into another bin."""
    places = random.integers(0, 100, 1 << 20) + random.uniform(0.1, 0.9, 1 << 20)
    return ((places * 0.08 - 4.0).astype(np.float32),)


PROGRAMS.add(
    "histogram_100",
    "a million floats into 100 equal bins",
    binned,
    jax=histogram_jax,
    torch=histogram_torch,
    numpy=lambda: lambda x: np.histogram(x, 100, (-4.0, 4.0))[0],
    bytes=4.0 * (1 << 20),
)


def interpolate_jax() -> Callable[..., Any]:
    import jax.numpy as jnp

    return jnp.interp


PROGRAMS.add(
    "interp_1d",
    "a million places in a table of 1,000 (jnp.interp)",
    lambda r: (
        r.uniform(0, 1, 1 << 20).astype(np.float32),
        np.sort(r.uniform(0, 1, 1000)).astype(np.float32),
        normal(r, 1000),
    ),
    jax=interpolate_jax,
    numpy=lambda: np.interp,
    bytes=8.0 * (1 << 20),
    terms=4,
)


def sparse_jax() -> Callable[..., Any]:
    from jax.experimental import sparse

    def product(data: Any, indices: Any, x: Any) -> Any:
        return sparse.BCOO((data, indices), shape=(ROWS // 4, ROWS // 4), indices_sorted=True) @ x

    return product


def sparse_scipy() -> Callable[..., Any]:
    import scipy.sparse

    def product(data: Any, indices: Any, x: Any) -> Any:
        shape = (ROWS // 4, ROWS // 4)
        return scipy.sparse.coo_array((data, (indices[:, 0], indices[:, 1])), shape) @ x

    return product


def sparse_inputs(random: np.random.Generator) -> tuple[np.ndarray, ...]:
    n = ROWS // 4
    indices = random.integers(0, n, (20 * n, 2)).astype(np.int32)
    indices = indices[np.lexsort((indices[:, 1], indices[:, 0]))]
    return normal(random, len(indices)), indices, normal(random, n)


PROGRAMS.add(
    "sparse_by_vector",
    f"BCOO {ROWS // 4:,}x{ROWS // 4:,} with 20 entries a row, by a vector",
    sparse_inputs,
    jax=sparse_jax,
    numpy=sparse_scipy,
    bytes=12.0 * 5 * ROWS + 8.0 * ROWS / 4,
    flops=2.0 * 5 * ROWS,
    terms=40,
)


def unique_jax() -> Callable[..., Any]:
    import jax.numpy as jnp

    return lambda x: jnp.unique(x, size=1000, fill_value=0)


PROGRAMS.add(
    "unique",
    "unique values of 200,000 integers",
    lambda r: (np.concatenate([np.arange(1000), r.integers(0, 1000, ROWS)]).astype(np.int32),),
    jax=unique_jax,
    numpy=lambda: np.unique,
    bytes=4.0 * ROWS,
)
