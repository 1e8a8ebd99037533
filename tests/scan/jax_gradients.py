"""Derivatives of JAX's functions, backward and forward, and the functions themselves: of ``jax.numpy``, ``jax.nn`` and
``jax.scipy``, for arrays without elements, with one and with odd numbers of them, and in several types.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import jax
import jax.numpy as jnp
import jax.scipy as jsp
import ml_dtypes
import numpy as np

from tests.scan.arguments import complexes, definite, integers, normal, positive, special, unit
from tests.scan.call import Call
from tests.scan.jax_ways import call

Function = Callable[..., Any]
_SHAPES: Final = ((), (0,), (1,), (17,), (3, 37), (2, 0, 3), (5, 1, 33), (129, 65))
_REDUCED: Final = ((1,), (17,), (3, 37), (2, 0, 3), (5, 1, 33), (130, 65), (1030, 7))

_OF_NUMBERS: Final = [
    "abs", "arcsinh", "arctan", "cbrt", "cos", "cosh", "degrees", "exp", "exp2", "expm1", "fabs", "negative",
    "positive", "radians", "sin", "sinc", "sinh", "square", "tan", "tanh", "sign", "floor", "rint", "nan_to_num",
    "i0", "deg2rad",
]  # fmt: skip
_OF_POSITIVES: Final = ["log", "log10", "log1p", "log2", "sqrt", "reciprocal"]
_OF_UNITS: Final = ["arccos", "arcsin", "arctanh"]
_OF_TWO: Final = [
    "add", "arctan2", "copysign", "divide", "float_power", "fmax", "fmin", "fmod", "hypot", "logaddexp",
    "logaddexp2", "maximum", "minimum", "mod", "multiply", "power", "remainder", "subtract", "heaviside",
]  # fmt: skip
_REDUCTIONS: Final = [
    "sum", "prod", "mean", "var", "std", "max", "min", "cumsum", "cumprod", "sort", "nansum", "nanprod",
    "nanmean", "nanstd", "nanmax", "nanmin", "median", "ptp", "average", "nancumsum", "linalg.norm",
]  # fmt: skip
_ACTIVATIONS: Final = [
    "celu", "elu", "gelu", "glu", "hard_sigmoid", "hard_silu", "hard_swish", "hard_tanh", "leaky_relu",
    "log_sigmoid", "log_softmax", "logsumexp", "mish", "relu", "relu6", "selu", "sigmoid", "silu", "soft_sign",
    "softmax", "softplus", "sparse_plus", "sparse_sigmoid", "squareplus", "standardize", "swish", "logmeanexp",
]  # fmt: skip
_DENSITIES: Final = {
    "norm": (), "cauchy": (), "laplace": (), "logistic": (), "expon": (), "gumbel_l": (), "gumbel_r": (), "uniform": (),
    "t": (2.5,), "chi2": (3.0,), "gamma": (2.5,), "pareto": (1.5,), "gennorm": (1.5,), "beta": (1.5, 2.5),
    "truncnorm": (-2.0, 2.0), "wrapcauchy": (0.5,),
}  # fmt: skip


def derivatives(function: Function) -> Function:
    """What ``function`` gives for arrays, its slopes by those of them that are floats, towards fixed numbers, and the
    change of the result for a fixed change of these.
    """

    def compute(*arrays: jax.Array) -> Any:
        moved = [n for n, a in enumerate(arrays) if jnp.issubdtype(a.dtype, jnp.inexact)]

        def of_some(*some: jax.Array) -> Any:
            whole = list(arrays)
            for n, a in zip(moved, some, strict=True):
                whole[n] = a
            made = jax.tree.leaves(function(*whole))
            return [y for y in made if jnp.issubdtype(y.dtype, jnp.inexact)]

        given = [arrays[n] for n in moved]
        results, back = jax.vjp(of_some, *given)
        _, forward = jax.jvp(of_some, given, [_ramp(a) for a in given])
        return results, back([_ramp(y) for y in results]), forward

    return compute


def _ramp(x: jax.Array) -> jax.Array:
    """Numbers of its shape and type that depend on nothing."""
    numbers = np.cos(0.7 * np.arange(x.size) + 0.3).reshape(x.shape)
    return jnp.asarray(numbers, x.dtype)


def _named(name: str, of: Any = jnp) -> Function:
    found: Function = functools.reduce(getattr, name.split("."), of)
    return found


def _elementwise() -> Iterator[Call]:
    kinds = ((_OF_NUMBERS, normal), (_OF_POSITIVES, positive), (_OF_UNITS, unit))
    for names, draw in kinds:
        for name in names:
            for shape in _SHAPES:
                yield call(f"{name} of {list(shape)}", derivatives(_named(name)), [draw(*shape)])
            x = draw(3, 37)
            yield from _in_types(name, _named(name), [x])
    for name in _OF_TWO:
        for shape in _SHAPES:
            arrays = [positive(*shape), positive(*shape, seed=1)]
            yield call(f"{name} of {list(shape)}", derivatives(_named(name)), arrays)
        rows = [positive(3, 37), positive(37, seed=1)]
        yield call(f"{name} of rows", derivatives(_named(name)), rows)
        yield from _in_types(name, _named(name), rows)


def _in_types(name: str, function: Function, arrays: Sequence[np.ndarray]) -> Iterator[Call]:
    """A call for numbers at the ends of the format, and calls in other types."""
    yield call(f"{name}, special", derivatives(function), special(arrays))
    for dtype in (np.float16, ml_dtypes.bfloat16):
        narrow = [a.astype(dtype) if a.dtype.kind == "f" else a for a in arrays]
        yield call(f"{name}, {np.dtype(dtype).name}", derivatives(function), narrow)
    wide = [a.astype(np.float64) if a.dtype.kind == "f" else a for a in arrays]
    yield call(f"{name}, float64", derivatives(function), wide, wide=True)


def _reductions() -> Iterator[Call]:
    for name in _REDUCTIONS:
        of = _named(name)
        for shape in _REDUCED:
            for axis in (None, 0, -1):
                if axis is None and name == "linalg.norm" and len(shape) > 2:
                    continue
                along = functools.partial(of, axis=axis)
                what = f"{name} of {list(shape)} along {axis}"
                yield call(what, derivatives(along), [normal(*shape)])
        yield from _in_types(f"{name} of rows", functools.partial(of, axis=-1), [normal(9, 65)])
    for name in _ACTIVATIONS:
        of = getattr(jax.nn, name, None)
        if of is None:
            continue
        for shape in ((2,), (4, 34), (2, 0, 4), (5, 1, 66), (130, 64)):
            yield call(f"{name} of {list(shape)}", derivatives(of), [normal(*shape)])
        yield from _in_types(name, of, [normal(4, 34)])


def _moves() -> Iterator[Call]:
    x, y, places = normal(5, 37), normal(5, 37, seed=1), integers(2, 9, most=5)
    table: dict[str, tuple[Function, list[np.ndarray]]] = {
        "take": (lambda x, i: jnp.take(x, i, 0), [x, places]),
        "take_along_axis": (lambda x, i: jnp.take_along_axis(x, i, 1), [x[:2], places]),
        "rows": (lambda x, i: x[i], [x, places]),
        "concatenate": (lambda x, y: jnp.concatenate([x, y[:, :0], y], 1), [x, y]),
        "stack": (lambda x, y: jnp.stack([x, y], -1), [x, y]),
        "pad": (lambda x: jnp.pad(x, ((1, 2), (0, 3))), [x]),
        **{
            f"pad {m}": (lambda x, m=m: jnp.pad(x, ((1, 2), (4, 3)), m), [x])
            for m in ("edge", "reflect", "symmetric", "wrap", "linear_ramp", "mean")
        },
        "roll": (lambda x: jnp.roll(x, (1, -5), (0, 1)), [x]),
        "flip": (lambda x: x[::-1, ::-2], [x]),
        "tile": (lambda x: jnp.tile(x, (2, 3)), [x]),
        "repeat": (lambda x: jnp.repeat(x, 3, 1), [x]),
        "tril": (lambda x: jnp.tril(x, 2), [x]),
        "diagonal": (lambda x: jnp.diagonal(x, 1), [x]),
        "trace": (jnp.trace, [x]),
        "diff": (lambda x: jnp.diff(x, 2), [x]),
        "gradient": (lambda x: jnp.gradient(x, axis=1), [x]),
        "where": (lambda x, y: jnp.where(x > 0, x, y), [x, y]),
        "clip": (lambda x: jnp.clip(x, -0.5, 0.5), [x]),
        "select": (lambda x, y: jnp.select([x > 1, y > 0], [x, y], x * y), [x, y]),
        "interp": (lambda x, a, b: jnp.interp(x, a, b), [x, np.sort(normal(9)), normal(9, seed=1)]),
        "convolve": (lambda x, y: jnp.convolve(x, y, "same"), [x[0], y[0, :6]]),
        "correlate": (lambda x, y: jnp.correlate(x, y, "full"), [x[0], y[0, :6]]),
        "polyval": (jnp.polyval, [normal(5), x]),
        "outer": (jnp.outer, [x[0], y[0]]),
        "kron": (jnp.kron, [x, y[:2, :3]]),
        "cross": (jnp.cross, [normal(7, 3), normal(7, 3, seed=1)]),
        "vander": (lambda x: jnp.vander(x, 4), [x[0]]),
        "percentile": (lambda x: jnp.percentile(x, 30.0, axis=1), [x]),
        "trapezoid": (lambda x: jnp.trapezoid(x, dx=0.1), [x]),
        "cov": (jnp.cov, [x]),
        "corrcoef": (jnp.corrcoef, [x]),
        "unwrap": (lambda x: jnp.unwrap(x * 4), [x]),
        "einsum": (lambda x, y: jnp.einsum("ij,kj->ik", x, y), [x, y]),
        "einsum of triangles": (
            lambda x, y: jnp.where(
                jnp.arange(37)[:, None] >= jnp.arange(37), jnp.einsum("ij,ik->jk", x, y), -jnp.inf
            ),
            [x, y],
        ),
        "segment_sum": (lambda x, i: jax.ops.segment_sum(x, i, 4), [normal(9, 3), integers(9)]),
        "segment_max": (lambda x, i: jax.ops.segment_max(x, i, 4), [normal(9, 3), integers(9)]),
        "segment_prod": (lambda x, i: jax.ops.segment_prod(x, i, 4), [normal(9, 3), integers(9)]),
    }
    for name, (function, arrays) in table.items():
        yield call(name, derivatives(function), arrays)
        yield from _in_types(name, function, arrays)


def _scipy() -> Iterator[Call]:
    for name, parameters in _DENSITIES.items():
        family = getattr(jsp.stats, name, None)
        for kind in ("logpdf", "pdf", "cdf", "logcdf", "sf", "logsf"):
            of = getattr(family, kind, None)
            if of is None:
                continue
            function: Function = lambda x, f=of, p=parameters: f(x, *p)
            yield call(f"{name}.{kind}", derivatives(function), [unit(3, 17)])
            yield from _in_types(f"{name}.{kind}", function, [unit(3, 17)])
    x, wave = normal(3, 40), normal(3, 65)
    table: dict[str, tuple[Function, list[np.ndarray]]] = {
        "signal.convolve": (lambda x, y: jsp.signal.convolve(x, y, "same"), [x, normal(2, 5)]),
        "signal.fftconvolve": (
            lambda x, y: jsp.signal.fftconvolve(x, y, "full", axes=0),
            [normal(65, 3), normal(7, 3)],
        ),
        "signal.correlate2d": (jsp.signal.correlate2d, [x, normal(2, 5)]),
        "signal.detrend": (jsp.signal.detrend, [x]),
        "signal.stft": (lambda x: jsp.signal.stft(x, nperseg=16)[2], [wave]),
        "signal.welch": (lambda x: jsp.signal.welch(x, nperseg=16)[1], [wave]),
        "fft.dct": (lambda x: jsp.fft.dct(x, axis=0), [normal(17, 5)]),
        "fft.idctn": (jsp.fft.idctn, [normal(17, 5)]),
        "linalg.expm": (jsp.linalg.expm, [normal(2, 5, 5)]),
        "linalg.cho_solve": (
            lambda a, b: jsp.linalg.cho_solve(jsp.linalg.cho_factor(a), b),
            [definite(5, 5), normal(5, 3)],
        ),
        "linalg.solve_triangular": (
            lambda a, b: jsp.linalg.solve_triangular(a, b, lower=True),
            [definite(33, 33), normal(33, 3)],
        ),
        "linalg.lu_solve": (
            lambda a, b: jsp.linalg.lu_solve(jsp.linalg.lu_factor(a), b),
            [definite(17, 17), normal(17, 3)],
        ),
        "linalg.eigh": (lambda a: jsp.linalg.eigh(a + a.T, eigvals_only=True), [definite(9, 9)]),
        "linalg.block_diag": (jsp.linalg.block_diag, [normal(3, 2), normal(1, 4)]),
        "linalg.toeplitz": (jsp.linalg.toeplitz, [normal(7), normal(5)]),
        "ndimage.map_coordinates": (
            lambda x, at: jsp.ndimage.map_coordinates(x, list(at), 1),
            [x, unit(2, 9) * 3],
        ),
        "integrate.trapezoid": (lambda x: jsp.integrate.trapezoid(x, dx=0.3), [x]),
        "logsumexp with signs": (lambda x, b: jsp.special.logsumexp(x, -1, b), [x, normal(3, 40)]),
        "interpolate": (
            lambda v, at: (
                jsp.interpolate.RegularGridInterpolator((jnp.arange(3.0), jnp.arange(40.0)), v)(at)
                if hasattr(jsp, "interpolate")
                else v
            ),
            [x, unit(9, 2)],
        ),
        "stats.gaussian_kde": (
            lambda x, at: jsp.stats.gaussian_kde(x).evaluate(at),
            [normal(2, 33), normal(2, 5)],
        ),
        "stats.multivariate_normal": (
            lambda x, c: jsp.stats.multivariate_normal.logpdf(x, jnp.zeros(5), c),
            [normal(9, 5), definite(5, 5)],
        ),
        "linalg.inv": (jnp.linalg.inv, [definite(2, 17, 17)]),
        "linalg.det": (jnp.linalg.det, [definite(2, 5, 5)]),
        "linalg.slogdet": (jnp.linalg.slogdet, [definite(2, 5, 5)]),
        "linalg.cholesky": (jnp.linalg.cholesky, [definite(2, 33, 33)]),
        "linalg.solve": (jnp.linalg.solve, [definite(2, 9, 9), normal(2, 9, 3)]),
        "linalg.svdvals": (lambda a: jnp.linalg.svd(a, compute_uv=False), [normal(2, 9, 5)]),
        "linalg.pinv": (jnp.linalg.pinv, [normal(9, 5)]),
        "linalg.qr": (lambda a: jnp.linalg.qr(a), [normal(2, 9, 5)]),
        "linalg.matrix_power": (lambda a: jnp.linalg.matrix_power(a, 5), [normal(2, 5, 5)]),
        "linalg.multi_dot": (
            lambda a, b, c: jnp.linalg.multi_dot([a, b, c]),
            [normal(3, 65), normal(65, 2), normal(2, 33)],
        ),
    }
    for name, (function, arrays) in table.items():
        yield call(name, derivatives(function), arrays)
        wide = [a.astype(np.float64) for a in arrays]
        yield call(f"{name}, float64", derivatives(function), wide, wide=True)


def _transforms() -> Iterator[Call]:
    """Fourier transforms along each dimension: whole ones, cut, padded, of the lengths that have ways of their own."""
    for shape in (
        (7,),
        (1, 16),
        (16, 1),
        (30, 5),
        (64, 17),
        (17, 64, 3),
        (3, 128, 33),
        (2, 0, 3),
        (101, 4),
    ):
        for axis in range(len(shape)):
            for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
                for n in (None, shape[axis] + 3, max(1, shape[axis] // 2)):
                    function: Function = lambda x, f=name, n=n, a=axis: getattr(jnp.fft, f)(x, n, a)
                    draw = normal if name in ("rfft", "ihfft") else complexes
                    what = f"{name} of {list(shape)} along {axis}, {n}"
                    yield call(what, derivatives(function), [draw(*shape)])
                wide = draw(*shape).astype(np.float64 if draw is normal else np.complex128)
                what = f"{name} of {list(shape)} along {axis}, in doubles"
                yield call(what, derivatives(function), [wide], wide=True)
    several: dict[str, tuple[Function, np.ndarray]] = {
        "fft2 along 0 and 1": (lambda x: jnp.fft.fft2(x, axes=(0, 1)), complexes(16, 17, 5)),
        "ifftn along 0 and 2": (lambda x: jnp.fft.ifftn(x, axes=(0, 2)), complexes(8, 3, 30)),
        "rfft2 along 1 and 0": (lambda x: jnp.fft.rfft2(x, axes=(1, 0)), normal(16, 24, 5)),
        "irfftn along 0 and 1": (lambda x: jnp.fft.irfftn(x, axes=(0, 1)), complexes(9, 13, 4)),
        "filter along 0": (
            lambda x: jnp.fft.irfft(jnp.fft.rfft(x, axis=0) * 2, x.shape[0], 0),
            normal(64, 33),
        ),
        "transposed before and behind": (
            lambda x: jnp.transpose(jnp.fft.fft(jnp.transpose(x, (2, 0, 1))), (1, 2, 0)),
            complexes(6, 32, 17),
        ),
        "turned": (lambda x: jnp.transpose(jnp.fft.fft(x, axis=1), (1, 2, 0)), complexes(6, 32, 17)),
        "read twice": (lambda x: (lambda y: y.T + y[0, :1])(jnp.fft.fft(x.T)), complexes(32, 6)),
    }  # fmt: skip
    for name, (function, x) in several.items():
        yield call(name, derivatives(function), [x])
        yield call(f"{name}, special", derivatives(function), special([x]))


def calls() -> Iterator[Call]:
    yield from _elementwise()
    yield from _reductions()
    yield from _moves()
    yield from _scipy()
    yield from _transforms()
