"""Functions of JAX on arrays without elements and on arrays of more than a million, which other kernels compute."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.scan.arguments import complexes, integers, normal, positive
from tests.scan.call import Call
from tests.scan.jax_ways import call

_L: Final = jnp.linalg
Entry = tuple[Callable[..., Any], Sequence[np.ndarray]]


def _empties() -> dict[str, Entry]:
    none, rows, columns = normal(0), normal(0, 3), normal(3, 0)
    table: dict[str, Entry] = {}
    shapes = {"[0]": none, "[0, 3]": rows, "[3, 0]": columns, "[2, 0, 3]": normal(2, 0, 3)}
    for of, x in shapes.items():
        for name in [
            "sum",
            "prod",
            "mean",
            "var",
            "std",
            "max",
            "min",
            "argmax",
            "argmin",
            "any",
            "all",
            "cumsum",
            "cumprod",
            "sort",
            "argsort",
            "median",
            "nanmean",
            "nansum",
            "ptp",
            "flip",
            "ravel",
            "transpose",
            "unique_values",
            "nan_to_num",
            "diff",
            "count_nonzero",
            "average",
            "linalg.norm",
        ]:
            function: Any = jnp
            for part in name.split("."):
                function = getattr(function, part)
            table[f"{name} of {of}"] = function, [x]
            table[f"{name} of {of} along -1"] = (lambda x, f=function: f(x, axis=-1)), [x]
            table[f"{name} of {of} along 0"] = (lambda x, f=function: f(x, axis=0)), [x]
        for name in ["fft", "rfft", "ifft", "hfft", "irfft", "fft2", "rfft2"]:
            table[f"{name} of {of}"] = getattr(jnp.fft, name), [x]
        table[f"roll of {of}"] = (lambda x: jnp.roll(x, 3, -1)), [x]
        table[f"pad of {of}"] = (lambda x: jnp.pad(x, 1)), [x]
        table[f"pad by edges of {of}"] = (lambda x: jnp.pad(x, 1, "edge")), [x]
        table[f"reflected of {of}"] = (lambda x: jnp.pad(x, 1, "reflect")), [x]
        table[f"take of {of}"] = (lambda x: jnp.take(x, jnp.array([0, 1]), -1)), [x]
        table[f"softmax of {of}"] = jax.nn.softmax, [x]
        table[f"logsumexp of {of}"] = jax.nn.logsumexp, [x]
        table[f"gradient of logsumexp of {of}"] = (
            jax.grad(lambda x: jnp.sum(jax.nn.logsumexp(x, -1))),
            [x],
        )
        table[f"top_k of {of}"] = (lambda x: lax.top_k(x, 0)), [x]
        table[f"scan of {of}"] = (
            (lambda x: lax.scan(lambda c, r: (c + jnp.sum(r), r * c), 0.0, x)),
            [x],
        )
        table[f"associative scan of {of}"] = (lambda x: lax.associative_scan(jnp.add, x)), [x]
        table[f"map of {of}"] = (lambda x: lax.map(jnp.sin, x)), [x]
        table[f"vmap of {of}"] = jax.vmap(lambda r: r + 1), [x]
        table[f"concatenate of {of}"] = (lambda x: jnp.concatenate([x, x])), [x]
        table[f"where of {of}"] = (lambda x: jnp.where(x > 0, x, -x)), [x]
        table[f"histogram of {of}"] = (lambda x: jnp.histogram(x, 4, (0, 1))), [x]
        table[f"bincount of {of}"] = (lambda x: jnp.bincount(x.ravel().astype(int), length=4)), [x]
        table[f"searchsorted of {of}"] = (
            (lambda x: jnp.searchsorted(x.ravel(), jnp.array([0.5]))),
            [x],
        )
        table[f"interp of {of}"] = (
            (lambda x: jnp.interp(x.ravel(), jnp.array([0.0, 1]), jnp.array([0.0, 1]))),
            [x],
        )
    products: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...] = (
        ((0, 3), (3, 4)),
        ((3, 0), (0, 4)),
        ((2, 0, 3), (2, 3, 0)),
        ((2, 3, 0), (0, 4)),
        ((0,), (0,)),
        ((0, 2, 3), (0, 3, 4)),
    )
    for a, b in products:
        x, y = normal(*a), normal(*b)
        table[f"product of {list(a)} and {list(b)}"] = jnp.matmul, [x, y]
        table[f"gradient of product of {list(a)} and {list(b)}"] = (
            jax.grad(lambda x, y: jnp.sum(jnp.sin(x @ y)), (0, 1)),
            [x, y],
        )
    for shape in ((0, 0), (2, 0, 0), (0, 3, 3)):
        for name in [
            "cholesky",
            "inv",
            "det",
            "slogdet",
            "eigh",
            "eigvalsh",
            "qr",
            "svd",
            "pinv",
            "matrix_rank",
            "eig",
        ]:
            table[f"{name} of {list(shape)}"] = getattr(_L, name), [normal(*shape)]
        table[f"solve of {list(shape)}"] = _L.solve, [normal(*shape), normal(*shape)]
        table[f"expm of {list(shape)}"] = jax.scipy.linalg.expm, [normal(*shape)]
        table[f"lu of {list(shape)}"] = jax.scipy.linalg.lu, [normal(*shape)]
    for shape in ((0, 4), (4, 0), (2, 0, 3)):
        for name in ["qr", "svd", "pinv"]:
            table[f"{name} of {list(shape)}"] = getattr(_L, name), [normal(*shape)]
    convolutions = {
        "batch": ((0, 3, 8, 8), (4, 3, 3, 3), 1),
        "input channels": ((2, 0, 8, 8), (4, 0, 3, 3), 1),
        "output channels": ((2, 3, 8, 8), (0, 3, 3, 3), 1),
        "rows": ((2, 3, 0, 8), (4, 3, 3, 3), 1),
        "kernel": ((2, 3, 8, 8), (4, 3, 0, 3), 1),
    }
    for name, (a, b, groups) in convolutions.items():
        for padding in ("SAME", "VALID"):
            convolve = lambda x, w, p=padding, g=groups: lax.conv_general_dilated(
                x, w, (1, 1), p, feature_group_count=g
            )
            table[f"convolution without {name}, {padding}"] = convolve, [normal(*a), normal(*b)]
            gradient = jax.grad(lambda x, w, f=convolve: jnp.sum(jnp.sin(f(x, w))), (0, 1))
            table[f"gradient of convolution without {name}, {padding}"] = (
                gradient,
                [normal(*a), normal(*b)],
            )
    return table


def _large() -> dict[str, Entry]:
    x, y, z = normal(1_200_007), normal(1100, 1000), complexes(1 << 20)
    whole = integers(1_500_000, most=1000)
    table: dict[str, Entry] = {}
    for name in [
        "sum",
        "mean",
        "var",
        "max",
        "min",
        "argmax",
        "argmin",
        "cumsum",
        "cumprod",
        "sort",
        "argsort",
        "median",
        "prod",
        "any",
        "ptp",
    ]:
        table[f"{name} of 1.2 million"] = getattr(jnp, name), [x]
        table[f"{name} of 1100 x 1000 along 0"] = (
            functools.partial(getattr(jnp, name), axis=0),
            [y],
        )
        table[f"{name} of 1100 x 1000 along 1"] = (
            functools.partial(getattr(jnp, name), axis=1),
            [y],
        )
    for name in ["sin", "exp", "log1p", "tanh", "sqrt", "abs", "floor", "sign"]:
        table[f"{name} of 1.2 million"] = getattr(jnp, name), [np.abs(x)]
    table |= {
        "sum of whole numbers": (jnp.sum, [whole]),
        "cumsum of whole numbers": (jnp.cumsum, [whole]),
        "sort of whole numbers": (jnp.sort, [whole]),
        "stable argsort of whole numbers": (jnp.argsort, [whole]),
        "bincount": (lambda x: jnp.bincount(x, length=1000), [whole]),
        "segment_sum": (lambda x, i: jax.ops.segment_sum(x, i, 1000), [whole, whole]),
        "segment_max": (lambda x, i: jax.ops.segment_max(x, i, 1000), [whole, whole]),
        "gather": (lambda x, i: x[i], [x, whole]),
        "scatter": (lambda x, i: x.at[i].add(1.0), [x, whole]),
        "unique": (lambda x: jnp.unique(x, size=1000), [whole]),
        "searchsorted": (lambda x, y: jnp.searchsorted(jnp.sort(x), y), [x, x[:200_000]]),
        "top_k": (lambda x: lax.top_k(x, 100), [x]),
        "fft": (jnp.fft.fft, [z]),
        "fft of a prime": (jnp.fft.fft, [complexes(100_003)]),
        "rfft": (jnp.fft.rfft, [normal(1 << 20)]),
        "product": (jnp.matmul, [y, y.T]),
        "product with a vector": (jnp.matmul, [y, y[0]]),
        "transpose": (lambda x: x.T + 1, [y]),
        "reversed": (lambda x: x[::-1, ::-1], [y]),
        "softmax": (jax.nn.softmax, [y]),
        "layer norm": (lambda x: (x - x.mean(-1, keepdims=True)) / x.std(-1, keepdims=True), [y]),
        "convolution": (
            lambda x, w: lax.conv_general_dilated(x, w, (1, 1), "SAME"),
            [normal(2, 8, 300, 300), normal(8, 8, 3, 3)],
        ),
        "pooling": (
            lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (1, 3, 3), (1, 2, 2), "SAME"),
            [normal(8, 400, 401)],
        ),
        "associative scan": (lambda x: lax.associative_scan(jnp.maximum, x), [x]),
        "select": (lambda x: jnp.where(x > 0, x, 0).sum(), [x]),
        "pad": (lambda x: jnp.pad(x, 3, "reflect"), [y]),
        "roll": (lambda x: jnp.roll(x, 12345), [x]),
        "repeat": (lambda x: jnp.repeat(x, 2), [x]),
        "quantile": (lambda x: jnp.quantile(x, jnp.array([0.1, 0.5, 0.9])), [x]),
        "outer": (jnp.outer, [x[:1500], x[:1400]]),
        "power": (lambda x: x**2.5, [positive(1_100_000)]),
        "lanes of 5": (lambda x: x.reshape(-1, 5).sum(1), [normal(1_500_000)]),
        "gradient": (jax.grad(lambda x: jnp.sum(jnp.tanh(x) * jnp.cumsum(x))), [x]),
    }
    return table


def calls() -> Iterator[Call]:
    for name, (function, arrays) in (_empties() | _large()).items():
        yield call(name, function, arrays)
