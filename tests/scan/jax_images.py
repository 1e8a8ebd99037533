"""``jax.image`` of JAX: resizing by every method, and what scales and moves, with gradients."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, Final

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax.scipy import ndimage

from tests.scan.arguments import normal, special
from tests.scan.call import Call
from tests.scan.jax_ways import call

_METHODS: Final = ("nearest", "linear", "cubic", "lanczos3", "lanczos5")
_SIZES: Final = ((6, 7, 2), (3, 11, 2), (13, 2, 2), (1, 1, 2), (17, 19, 3), (6, 0, 2))
_IMAGE: Final = normal(6, 7, 2)
_MODES: Final = ("reflect", "nearest", "constant", "wrap", "mirror")


def calls() -> Iterator[Call]:
    yield from _resized()
    yield from _scaled()
    yield from _interpolated()


def _resized() -> Iterator[Call]:
    for method, size, antialias in itertools.product(_METHODS, _SIZES, (True, False)):

        def resize(
            x: jax.Array, m: str = method, s: tuple[int, ...] = size, a: bool = antialias
        ) -> Any:
            return jax.image.resize(x, s, m, antialias=a)

        of = f"{method} to {list(size)}{', antialiased' if antialias else ''}"
        yield call(f"resize {of}", resize, [_IMAGE])
        yield call(
            f"gradient of resize {of}",
            jax.grad(lambda x, f=resize: jnp.sum(jnp.sin(f(x)))),
            [_IMAGE],
        )
        yield call(f"resize {of}, special", resize, special([_IMAGE]))
        yield call(f"resize {of}, bytes", resize, [np.arange(84, dtype=np.uint8).reshape(6, 7, 2)])
        yield call(f"resize {of}, bfloat16", resize, [_IMAGE.astype(ml_dtypes.bfloat16)])
        yield call(f"resize of nothing {of}", resize, [_IMAGE[:, :0]])
    big = normal(1100, 900)
    for method, sizes in itertools.product(_METHODS, ((1024, 1024), (300, 1900))):
        yield call(
            f"resize large {method} to {list(sizes)}",
            lambda x, m=method, s=sizes: jax.image.resize(x, s, m),
            [big],
        )


def _scaled() -> Iterator[Call]:
    scales = (
        [1.0, 1.0],
        [0.5, 2.3],
        [3.0, 0.1],
        [-1.0, 1.0],
        [0.0, 1.0],
        [1e-20, 1e20],
        [np.nan, 1.0],
        [np.inf, 1.0],
    )
    moves = ([0.0, 0.0], [1.5, -2.25], [100.0, -1e9], [np.nan, np.inf])
    for method, antialias, scale, move in itertools.product(
        _METHODS[1:], (True, False), scales, moves
    ):

        def scaled(
            x: jax.Array, s: jax.Array, t: jax.Array, m: str = method, a: bool = antialias
        ) -> Any:
            return jax.image.scale_and_translate(x, (5, 9, 2), (0, 1), s, t, m, antialias=a)

        of = f"{method} by {scale} and {move}{', antialiased' if antialias else ''}"
        arrays = [_IMAGE, np.array(scale, np.float32), np.array(move, np.float32)]
        yield call(f"scale_and_translate {of}", scaled, arrays)
        if np.isfinite([*scale, *move]).all() and max(map(abs, [*scale, *move])) < 1000:
            gradient = jax.grad(lambda x, s, t, f=scaled: jnp.sum(jnp.sin(f(x, s, t))), (0, 1, 2))
            yield call(f"gradient of scale_and_translate {of}", gradient, arrays)


def _interpolated() -> Iterator[Call]:
    places = normal(2, 9) * 4
    for order, mode in itertools.product((0, 1), _MODES):

        def interpolated(x: jax.Array, at: jax.Array, o: int = order, m: str = mode) -> Any:
            return ndimage.map_coordinates(x, list(at), o, m, 0.5)

        of = f"{mode}, order {order}"
        yield call(f"map_coordinates {of}", interpolated, [_IMAGE[..., 0], places])
        yield call(f"map_coordinates {of}, far", interpolated, [_IMAGE[..., 0], places * 1e6])
        gradient = jax.grad(lambda x, at, f=interpolated: jnp.sum(jnp.sin(f(x, at))), (0, 1))
        yield call(f"gradient of map_coordinates {of}", gradient, [_IMAGE[..., 0], places])
