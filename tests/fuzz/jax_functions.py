"""Functions as users of JAX write them: jax.numpy, jax.lax and jax.nn in chains, with loops and transforms."""

from __future__ import annotations

import contextlib
import math
import warnings
from collections.abc import Callable
from random import Random
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.fuzz.judge import Case

Array = Any
Step = Callable[["Writer", Array], Array]

_SHAPES: Final = [
    (3, 5),
    (17,),
    (2, 3, 4),
    (1, 9),
    (),
    (33,),
    (4, 1, 3),
    (8, 16),
    (70,),
    (6, 6),
    (2, 4, 4, 3),
    (40, 7),
]
_LARGE_SHAPES: Final = [(64, 65), (1000,), (5, 300), (16, 8, 24), (4099,)]
_DTYPES: Final = [
    "float32",
    "float32",
    "float64",
    "bfloat16",
    "float16",
    "int32",
    "int64",
    "uint8",
    "int8",
    "uint32",
    "bool",
    "complex64",
]
_MOST: Final = 6000
_DEEPEST: Final = 2

UNARY: Final = [
    jnp.sin,
    jnp.cos,
    jnp.tanh,
    jnp.arctan,
    jnp.sinh,
    jnp.arcsinh,
    jnp.expm1,
    jnp.floor,
    jnp.round,
    jnp.sign,
    jnp.square,
    jnp.negative,
    jnp.abs,
    jnp.cbrt,
    jnp.exp2,
    jnp.trunc,
    jnp.sinc,
    jnp.isfinite,
    jnp.signbit,
    jax.nn.relu,
    jax.nn.gelu,
    jax.nn.silu,
    jax.nn.softplus,
    jax.nn.sigmoid,
    jax.nn.elu,
    jax.nn.log_sigmoid,
    jax.nn.hard_tanh,
    lax.erf,
    lax.erfc,
    lax.logistic,
    jax.scipy.special.ndtr,
    lambda x: jnp.log1p(jnp.abs(x)),
    lambda x: jnp.sqrt(jnp.abs(x)),
    lambda x: lax.rsqrt(jnp.abs(x) + 1),
    lambda x: jnp.log(jnp.abs(x) + 0.5),
    lambda x: jnp.exp(-jnp.abs(x)),
    lambda x: 1 / (1 + x * x),
    lambda x: x**3,
    lambda x: jnp.arcsin(jnp.clip(x, -1, 1)),
    lambda x: lax.stop_gradient(x),
    lambda x: jnp.modf(x)[0],
    lambda x: jnp.frexp(x)[0],
    lambda x: jnp.nan_to_num(x / (x - x)),
    lambda x: lax.reduce_precision(x, 8, 7),
]
BINARY: Final = [
    jnp.add,
    jnp.subtract,
    jnp.multiply,
    jnp.maximum,
    jnp.minimum,
    jnp.hypot,
    jnp.logaddexp,
    jnp.arctan2,
    jnp.copysign,
    lambda x, y: x / (1 + y * y),
    lambda x, y: jnp.where(x > y, x, y),
    lambda x, y: jnp.where(x == y, 1, x - y),
    lambda x, y: jnp.fmod(x, 1 + y * y),
    lambda x, y: jnp.remainder(x, 1 + y * y),
    lambda x, y: jnp.abs(x) ** jnp.clip(y, -2, 2),
    lambda x, y: jnp.floor_divide(x, 1 + y * y),
    lambda x, y: jnp.fmax(x, y),
    lambda x, y: jnp.float_power(1.5, jnp.clip(y, -4, 4)) + x,
]
BITWISE: Final = [
    jnp.bitwise_and,
    jnp.bitwise_or,
    jnp.bitwise_xor,
    jnp.left_shift,
    jnp.right_shift,
    jnp.add,
    jnp.subtract,
    jnp.multiply,
    jnp.maximum,
    jnp.minimum,
    lambda x, y: x // (y | 1),
    lambda x, y: x % (y | 1),
    lambda x, y: lax.div(x, y | 1),
    lambda x, y: lax.rem(x, y | 1),
    lambda x, y: lax.shift_right_logical(x, y),
    lambda x, y: jnp.where(x < y, x, y),
    lambda x, y: lax.population_count(x ^ y),
    lambda x, y: lax.clz(x & y),
    jnp.gcd,
]
REDUCTIONS: Final = [
    jnp.sum,
    jnp.mean,
    jnp.max,
    jnp.min,
    jnp.std,
    jnp.var,
    jnp.argmax,
    jnp.argmin,
    jnp.any,
    jnp.all,
    jnp.ptp,
    jnp.count_nonzero,
    jax.nn.logsumexp,
    jnp.median,
    jnp.nansum,
    jnp.nanmax,
    lambda x, axis: jnp.linalg.norm(x, axis=axis),
    lambda x, axis: jnp.prod(jnp.tanh(x), axis=axis),
]
ALONG: Final = [
    jnp.cumsum,
    jnp.sort,
    jnp.argsort,
    jnp.flip,
    jax.nn.softmax,
    jax.nn.log_softmax,
    jax.nn.standardize,
    lambda x, axis: jnp.roll(x, 2, axis),
    lambda x, axis: lax.cummax(x, axis % x.ndim),
    lambda x, axis: (
        lax.cumlogsumexp(x, axis % x.ndim) if jnp.issubdtype(x.dtype, jnp.floating) else x
    ),
    lambda x, axis: jnp.repeat(x, 2, axis),
    lambda x, axis: jnp.diff(x, axis=axis),
    lambda x, axis: jnp.cumprod(jnp.tanh(x), axis),
    lambda x, axis: lax.associative_scan(jnp.maximum, x, axis=axis),
    lambda x, axis: jnp.gradient(x, axis=axis) if x.shape[axis] > 1 else x,
    lambda x, axis: lax.associative_scan(lambda a, b: a * 0.5 + b, x, axis=axis),
    lambda x, axis: jnp.sort(x, axis, descending=True),
    lambda x, axis: jnp.take_along_axis(x, jnp.argsort(x, axis), axis),
    lambda x, axis: jnp.take_along_axis(jnp.flip(x, axis), jnp.argsort(x, axis), axis),
]


class Writer:
    """Writes a function: each choice is drawn from ``chances``, so that the same seed writes the same function."""

    def __init__(self, chances: Random, depth: int = 0) -> None:
        self.chances, self.depth = chances, depth
        self.values: list[Array] = []

    def choose(self, options: Any) -> Any:
        return self.chances.choice(list(options))

    def integer(self, low: int, high: int) -> int:
        return self.chances.randint(low, max(low, high))

    def any(self, wanted: Callable[[Array], bool] = lambda x: True) -> Array | None:
        fitting = [v for v in self.values if wanted(v)]
        return fitting[-1 - self.integer(0, min(4, len(fitting) - 1))] if fitting else None

    def keep(self, x: Array) -> None:
        if 0 in x.shape or x.size > _MOST or x.ndim > 5:
            return
        if is_inexact(x) and self.integer(0, 1):
            x = jnp.clip(x, -8, 8) if not jnp.iscomplexobj(x) else x / (1 + jnp.abs(x))
        self.values.append(x)

    def like(self, x: Array) -> Array:
        """Another value that broadcasts with ``x``, of its dtype."""
        y = self.any()
        assert y is not None
        try:
            np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            y = jnp.resize(y, x.shape if self.integer(0, 1) else x.shape[-1:])
        if math.prod(np.broadcast_shapes(x.shape, y.shape)) > _MOST:
            y = jnp.resize(y, x.shape)
        return cast(y, x.dtype)

    def axis(self, x: Array) -> int:
        return self.integer(-x.ndim, x.ndim - 1)

    def grow(self, count: int) -> None:
        for _ in range(count):
            x = self.any()
            assert x is not None
            with contextlib.suppress(
                TypeError, ValueError, NotImplementedError, AssertionError
            ):  # shapes or types do not fit
                made = self.choose(STEPS)(self, x)
                if made is not None:
                    self.keep(made)

    def inner(self, *values: Array, count: int = 3) -> Array:
        """A value of a function of its own, which sees ``values`` alone."""
        inside = Writer(self.chances, self.depth + 1)
        inside.values = list(values)
        inside.grow(self.integer(1, count))
        return inside.values[-1]


def is_inexact(x: Array) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.inexact))


def is_real(x: Array) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.floating))


def cast(x: Array, dtype: Any) -> Array:
    if jnp.iscomplexobj(x) and not jnp.issubdtype(dtype, jnp.complexfloating):
        x = x.real
    if (
        is_inexact(x)
        and not jnp.issubdtype(dtype, jnp.inexact)
        and jnp.dtype(dtype) != jnp.dtype(bool)
    ):
        x = jnp.clip(jnp.nan_to_num(x), 0, 100)
    return x.astype(dtype)


def floating(w: Writer, x: Array) -> Array:
    return x if is_real(x) else cast(x, w.choose(["float32", "float64", "float16"]))


# ------------------------------------------------------------------------------------------------------- steps


def unary(w: Writer, x: Array) -> Array:
    if jnp.iscomplexobj(x):
        return w.choose([jnp.exp, jnp.conj, jnp.real, jnp.abs, jnp.sin, jnp.angle, jnp.sqrt])(x)
    return w.choose(UNARY)(floating(w, x))


def binary(w: Writer, x: Array) -> Array:
    y = w.like(x)
    if is_real(x):
        return w.choose(BINARY)(x, y)
    if jnp.iscomplexobj(x) or x.dtype == bool:
        return w.choose([jnp.multiply, jnp.add])(x, y)
    return w.choose(BITWISE)(x, y)


def reduction(w: Writer, x: Array) -> Array | None:
    if not x.ndim or jnp.iscomplexobj(x):
        return None
    axis = w.axis(x) if w.integer(0, 3) else None
    made = w.choose(REDUCTIONS)(floating(w, x) if w.integer(0, 1) else x, axis=axis)
    return (
        jnp.broadcast_to(jnp.expand_dims(made, axis), x.shape)
        if axis is not None and w.integer(0, 1)
        else made
    )


def along(w: Writer, x: Array) -> Array | None:
    if not x.ndim or jnp.iscomplexobj(x) or x.dtype == bool:
        return None
    return w.choose(ALONG)(floating(w, x) if w.integer(0, 1) else x, axis=w.axis(x))


def reorder(w: Writer, x: Array) -> Array:
    order = w.chances.sample(range(x.ndim), x.ndim)
    kind = w.integer(0, 6)
    if kind == 0:
        return jnp.transpose(x, order)
    if kind == 1:
        return x.reshape(w.choose([(-1,), (1, *x.shape), (*x.shape, 1), x.shape[::-1]]))
    if kind == 2 and x.ndim:
        return x[
            (slice(None),) * w.integer(0, x.ndim - 1)
            + (slice(w.integer(0, 1), None, w.integer(1, 3)),)
        ]
    if kind == 3 and x.ndim:
        mode = w.choose(["constant", "edge", "reflect", "wrap", "symmetric"])
        return jnp.pad(
            x,
            [(w.integer(0, min(2, d - 1)), w.integer(0, min(2, d - 1))) for d in x.shape],
            mode=mode,
        )
    if kind == 4 and x.ndim:
        return jnp.concatenate([x, jnp.flip(x, 0), x[:1]], 0)
    if kind == 5 and x.ndim >= 2:
        return w.choose([jnp.tril, jnp.triu, jnp.diagonal, jnp.rot90])(x)
    return jnp.stack([x, w.like(jnp.zeros_like(x)) + jnp.zeros_like(x)], w.integer(0, x.ndim))


def change_type(w: Writer, x: Array) -> Array:
    if w.integer(0, 4) == 0 and x.dtype in (jnp.float32, jnp.int32, jnp.uint32) and x.ndim:
        return lax.bitcast_convert_type(x, w.choose([jnp.int32, jnp.uint32, jnp.uint8]))
    return cast(x, w.choose(_DTYPES))


def places(w: Writer, shape: tuple[int, ...], limit: int) -> Array:
    """Indices, some of them out of bounds, that depend on a value."""
    seed = cast(w.any(), "int32").sum() % 7
    return (jnp.arange(math.prod(shape), dtype="int32").reshape(shape) * w.integer(1, 7) + seed) % (
        limit + w.integer(0, 2)
    )


def index(w: Writer, x: Array) -> Array | None:
    if not x.ndim:
        return None
    n, axis = x.shape[0], w.axis(x)
    kind = w.integer(0, 6)
    if kind == 0:
        return x[places(w, (w.integer(1, 6),), n)]
    if kind == 1:
        return jnp.take(
            x, places(w, (2, 3), x.shape[axis]), axis=axis, mode=w.choose(["clip", "wrap", "fill"])
        )
    if kind == 2:
        at = places(w, x.shape, x.shape[axis]) % x.shape[axis]
        return jnp.take_along_axis(x, at, axis)
    if kind == 3 and x.ndim >= 2:
        return x[places(w, (4,), n), places(w, (4,), x.shape[1])]
    if kind == 4:
        return lax.dynamic_slice_in_dim(x, places(w, (), n), w.integer(1, n), 0)
    if kind == 5:
        return jax.nn.one_hot(places(w, (5,), 6), 6) if w.integer(0, 1) else x[::-1]
    return x[cast(w.any(), "int32").sum() % n]


def put(w: Writer, x: Array) -> Array | None:
    if not x.ndim or x.dtype == bool:
        return None
    n = x.shape[0]
    at = places(w, (w.integer(1, 5),), n)
    rows = x[(at * 3 + 1) % n]
    how = w.choose(["set", "add", "multiply", "max", "min"])
    if jnp.iscomplexobj(x) or how == "set":  # one place twice: the last one wins nowhere by rule
        at = (jnp.arange(min(n, 3)) + at[0]) % n
        rows, how = x[(at + 1) % n], "set"
    kind = w.integer(0, 3)
    if kind == 0:
        return lax.dynamic_update_slice_in_dim(x, x[: w.integer(1, n)], places(w, (), n), 0)
    if kind == 1:
        return jax.ops.segment_sum(x, places(w, (n,), 5), 5)
    return getattr(x.at[at], how)(rows)


def contract(w: Writer, x: Array) -> Array | None:
    x = cast(
        x, w.choose(["float32", "float32", "float64", "bfloat16", "int32", "complex64", "int8"])
    )
    kind = w.integer(0, 5)
    if kind == 0 and x.ndim >= 1:
        y = jnp.resize(cast(w.any(), x.dtype), (x.shape[-1], w.integer(1, 6)))
        return x @ y
    if kind == 1 and x.ndim >= 2:
        return jnp.einsum("...ij,...kj->...ik", x, x)
    if kind == 2 and x.ndim == 1:
        return jnp.convolve(
            x, jnp.resize(cast(w.any(), x.dtype), (3,)), mode=w.choose(["same", "full", "valid"])
        )
    if kind == 3:
        return jnp.tensordot(x, cast(w.like(x), x.dtype) + jnp.zeros_like(x), x.ndim)
    if kind == 4 and x.size >= 8 and not jnp.iscomplexobj(x) and is_inexact(x):
        image = jnp.resize(x, (1, 6, 6, 2))
        kernel = jnp.resize(
            cast(w.any(), x.dtype), (w.integer(1, 3), w.integer(1, 3), 2, w.integer(1, 4))
        )
        return lax.conv_general_dilated(
            image,
            kernel,
            (w.integer(1, 2),) * 2,
            w.choose(["SAME", "VALID"]),
            dimension_numbers=("NHWC", "HWIO", "NHWC"),
        )
    if x.ndim >= 1:
        return jnp.outer(x.reshape(-1)[:20], x.reshape(-1)[-9:])
    return None


def others(w: Writer, x: Array) -> Array | None:
    kind = w.integer(0, 7)
    if kind == 0 and x.ndim and not jnp.iscomplexobj(x) and x.dtype != bool:
        return lax.top_k(x, w.integer(1, x.shape[-1]))[w.integer(0, 1)]
    if kind == 1:
        return jax.random.normal(jax.random.key(w.integer(0, 99)), (w.integer(1, 40),)) * jnp.max(
            cast(x, "float32")
        )
    if kind == 2:
        return jax.random.permutation(jax.random.key(w.integer(0, 9)), x) if x.ndim else None
    if kind == 3 and x.ndim:
        return jnp.searchsorted(
            jnp.sort(cast(x, "float32").reshape(-1)), cast(w.any(), "float32").reshape(-1)
        )
    if kind == 4 and x.ndim:
        image = jnp.resize(cast(x, "float32"), (1, 6, 6, 2))
        window = (1, 2, w.integer(1, 3), 1)
        return lax.reduce_window(
            image,
            -jnp.inf,
            lax.max,
            window,
            (1, w.integer(1, 2), 1, 1),
            w.choose(["SAME", "VALID"]),
        )
    if kind == 5 and x.ndim:
        return jnp.fft.fft(cast(x, "complex64")) / x.shape[-1]
    if kind == 6 and x.ndim:
        return lax.sort((cast(x, "int32"), w.like(x) + jnp.zeros_like(x)), num_keys=1)[1]
    return jnp.histogram(cast(x, "float32"), bins=4, range=(-2.0, 2.0))[0] if x.ndim else None


def attention(w: Writer, x: Array) -> Array | None:
    if x.ndim != 2 or not is_real(x):
        return None
    scores = x @ x.T / x.shape[-1] ** 0.5
    if w.integer(0, 1):
        scores = jnp.where(
            jnp.tril(jnp.ones(scores.shape, bool)), scores, -1e9 if x.dtype != jnp.float16 else -6e4
        )
    return jax.nn.softmax(scores, -1) @ x


def loop(w: Writer, x: Array) -> Array | None:
    """A loop whose state keeps its shape: fori, while, or a scan over rows that stacks what it makes."""
    if w.depth >= _DEEPEST:
        return None
    seed = w.integer(0, 1 << 30)

    def body(i: Any, state: Array) -> Array:
        inside = Writer(Random(seed), w.depth + 1)
        made = inside.inner(state, jnp.asarray(i, state.dtype) if state.dtype != bool else state)
        return cast(jnp.resize(made, state.shape), state.dtype)

    kind = w.integer(0, 3)
    if kind == 0:
        return lax.fori_loop(0, w.integer(0, 4), body, x)
    if kind == 1:
        limit = w.integer(1, 5)
        return lax.while_loop(
            lambda s: s[0] < limit, lambda s: (s[0] + 1, body(s[0], s[1])), (0, x)
        )[1]
    if kind == 2 and x.ndim:
        return (
            lax.scan(lambda c, row: ((y := body(1, c + row)), y), x[0], x)[w.integer(0, 1)]
            if x.dtype != bool
            else None
        )
    if not x.ndim:
        return None

    def shifted(i: Any, state: Array) -> Array:  # rows from the row before
        row = lax.dynamic_index_in_dim(state, i, 0, keepdims=False)
        return lax.dynamic_update_index_in_dim(state, body(i, row), i + 1, 0)

    return lax.fori_loop(0, x.shape[0], shifted, x)


def branch(w: Writer, x: Array) -> Array | None:
    if w.depth >= _DEEPEST:
        return None
    seeds = [w.integer(0, 1 << 30) for _ in range(w.integer(2, 3))]

    def of(seed: int) -> Callable[[Array], Array]:
        return lambda v: cast(
            jnp.resize(Writer(Random(seed), w.depth + 1).inner(v), v.shape), v.dtype
        )

    which = cast(w.any(), "int32").sum() % (len(seeds) + 1)
    if len(seeds) == 2:
        return lax.cond(which > 0, of(seeds[0]), of(seeds[1]), x)
    return lax.switch(which, [of(s) for s in seeds], x)


def transformed(w: Writer, x: Array) -> Array | None:
    """A gradient, a batch or a derivative in one direction of a function."""
    if w.depth >= _DEEPEST or not is_real(x):
        return None
    seed = w.integer(0, 1 << 30)

    def f(v: Array) -> Array:
        made = Writer(Random(seed), w.depth + 1).inner(v, count=4)
        return made.real if jnp.iscomplexobj(made) else made

    def smooth(v: Array) -> Array:
        made = f(v)
        return (
            jnp.sum(made.astype(v.dtype))
            if not is_inexact(made)
            else jnp.sum(jnp.tanh(made)).astype(v.dtype)
        )

    kind = w.integer(0, 4)
    if kind == 0 and x.ndim:
        return jax.vmap(f)(x)
    if kind == 1:
        return jax.jvp(smooth, (x,), (jnp.ones_like(x),))[1]
    if kind == 2:
        return jax.grad(jax.checkpoint(smooth))(x)
    if kind == 3 and x.ndim:
        return jax.vmap(jax.grad(smooth))(x)
    return jax.grad(smooth)(x)


STEPS: Final[list[Step]] = [
    *[unary] * 4,
    *[binary] * 6,
    *[reduction] * 3,
    *[along] * 4,
    *[reorder] * 4,
    change_type,
    *[index] * 3,
    *[put] * 3,
    *[contract] * 3,
    *[others] * 2,
    attention,
    *[loop] * 3,
    *[branch] * 2,
    *[transformed] * 4,
]


def lowered(
    function: Callable[..., Any], arguments: list[np.ndarray], donated: tuple[int, ...]
) -> str:
    """The program of a function as JAX lowers it; it warns of what is donated and cannot be used."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        traced = jax.jit(function, donate_argnums=donated, keep_unused=True).trace(*arguments)
        return traced.lower(lowering_platforms=("cpu",)).as_text()  # type: ignore[no-any-return]


def make(seed: int) -> Case:
    """A function of one to three arrays, as JAX lowers it."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    chances = Random(seed)
    rng = np.random.default_rng(seed)
    large = chances.random() < 0.15
    arguments = []
    for _ in range(chances.randint(1, 3)):
        dtype, shape = chances.choice(_DTYPES), chances.choice(_LARGE_SHAPES if large else _SHAPES)
        values = rng.standard_normal(shape) * 2
        if dtype == "complex64":
            values = values + 1j * rng.standard_normal(shape)
        elif not dtype.startswith(("float", "bfloat")):
            values = rng.integers(0, 2 if dtype == "bool" else 12, shape)
        arguments.append(np.asarray(values).astype(jnp.dtype(dtype)))
    length, later = chances.randint(2, 10), chances.randint(0, 1 << 30)

    def function(*given: Array) -> list[Array]:
        writer = Writer(Random(later))
        writer.values = list(given)
        writer.grow(length)
        made = writer.values[-min(3, len(writer.values)) :]
        return list(made)

    donated = tuple(n for n in range(len(arguments)) if seed % 4 == 0 and n % 2 == 0)
    return Case(lowered(function, arguments, donated), arguments, exact=False, xla=True)
