"""jax.numpy's functions, and jax.scipy.special's and jax.nn's: values, gradients and vmap of each in one program.

What is checked is that the right function is computed through every transformation, on doubles: half the digits must
agree with JAX's CPU backend. How exact the operations are that they are made of is tested elsewhere.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special as special
import numpy as np
import pytest
from jax import lax, nn

from tests.integration.comparison import Config, check, make_array
from tests.integration.tolerances import epsilon, is_inexact

FULL = os.environ.get("TRIPONT_CONFORMANCE") == "full"


@dataclass(frozen=True)
class HalfTheDigits:
    """sqrt(eps) of the largest finite magnitude of the result."""

    def allowed(self, expected: np.ndarray, arguments: tuple[Any, ...]) -> np.ndarray:
        if not is_inexact(expected.dtype):
            return np.zeros(())
        magnitude = np.abs(expected)
        finite = magnitude[np.isfinite(magnitude)]
        largest = float(finite.max()) if finite.size else 0.0
        return np.asarray(max(largest, 1.0) * epsilon(expected.dtype) ** 0.5)


def named(module: Any, names: str) -> list[tuple[str, Callable[..., Any]]]:
    return [(name, getattr(module, name)) for name in names.split()]


# Arguments -> functions of them. A line's functions are differentiated by all inexact arguments.
SMOOTH: list[tuple[str, list[tuple[str, Callable[..., Any]]]]] = [
    (
        "f64[5,7]",
        named(
            jnp,
            """abs absolute all any angle argmax argmin argsort around arctan arcsinh asinh atan atleast_1d
            atleast_2d atleast_3d average cbrt ceil column_stack conj conjugate copy corrcoef cos cosh count_nonzero cov
            cumprod cumsum deg2rad degrees diag diagflat diagonal diff ediff1d exp exp2 expm1 fabs flip
            fliplr flipud floor frexp gradient i0 imag isfinite isinf isnan isneginf isposinf isreal iscomplex max mean
            median min modf nan_to_num nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanprod
            nanstd nansum nanvar negative ones_like positive prod ptp rad2deg radians ravel real reciprocal
            rint rot90 round sign signbit sin sinc sinh sort square squeeze std sum tan tanh trapezoid
            trace transpose tril triu trunc unwrap var vstack hstack dstack zeros_like logical_not
            matrix_transpose sort_complex""",
        ),
    ),
    ("f64[5,7]", named(nn, """celu elu gelu hard_sigmoid hard_silu hard_swish hard_tanh leaky_relu log_sigmoid
            log_softmax logsumexp mish relu relu6 selu sigmoid silu soft_sign softmax softplus sparse_plus
            sparse_sigmoid squareplus standardize swish""")),
    ("f64[5,7]", named(special, "entr erf erfc expit i0 i0e i1 i1e log_ndtr ndtr")),
    ("f64[5,7]:0.1..0.9", named(special, "digamma erfinv gammaln gammasgn logit ndtri spence gamma expi exp1 factorial loggamma")),
    ("f64[5,7]:0.1..0.9", named(jnp, "arccos arcsin arctanh acos asin atanh log log10 log1p log2 sqrt rint")),
    ("f64[5,7]:1.1..4", named(jnp, "arccosh acosh")),
    (
        "f64[5,7] f64[5,7]",
        named(
            jnp,
            """add arctan2 atan2 copysign divide equal fmax fmin fmod greater greater_equal heaviside
            hypot inner kron less less_equal logaddexp logaddexp2 logical_and logical_or logical_xor maximum minimum
            mod multiply not_equal outer remainder subtract true_divide vdot vecdot floor_divide divmod append
            isclose allclose array_equal array_equiv""",
        ),
    ),
    ("f64[5,7]:0.5..2 f64[5,7]:0.5..2", [*named(jnp, "float_power pow power"), *named(special, "beta betaln gammainc gammaincc xlog1py xlogy zeta kl_div rel_entr poch")]),
    ("f64[3]:0.1..0.9", [("betainc", lambda x: special.betainc(1.5, 0.7, x))]),  # JAX derives it by x only
    ("f64[5,7] f64[7,4]", named(jnp, "dot matmul")),
    ("f64[5,7] f64[7]", named(jnp, "dot matmul matvec")),
    ("f64[5] f64[5,4]", named(jnp, "dot matmul vecmat")),
    ("f64[9] f64[4]", named(jnp, "convolve correlate polyadd polymul polysub polyval")),
    ("f64[4,3] f64[4,3]", named(jnp, "cross")),
    ("f64[9]:0..1 f64[5]:0..1", named(jnp, "searchsorted digitize isin")),
    ("s32[5,7]", named(jnp, "abs bitwise_count bitwise_not bitwise_invert sum prod max min argmax argmin cumsum sort argsort mean sign negative square median ptp diff")),
    ("s32[5,7] s32[5,7]:1..9", named(jnp, "add bitwise_and bitwise_or bitwise_xor floor_divide gcd lcm maximum minimum mod multiply remainder subtract fmod divmod left_shift right_shift bitwise_left_shift bitwise_right_shift true_divide")),
    ("u8[5,7]", named(jnp, "sum prod max argmax cumsum sort bitwise_not packbits unpackbits")),
    ("pred[5,7]", named(jnp, "all any sum argmax cumsum logical_not packbits count_nonzero")),
    ("c128[5,7]", named(jnp, "abs angle conj cos cosh cumprod cumsum exp imag isfinite log mean prod real reciprocal sign sin sinh sqrt square std sum tan tanh var expm1 log1p")),
    ("c128[5,7] c128[5,7]", named(jnp, "add divide multiply subtract vdot outer power")),
]  # fmt: skip

# Functions that need more than arrays: arguments -> name -> the function.
WITH_OPTIONS: list[tuple[str, dict[str, Callable[..., Any]]]] = [
    (
        "f64[5,7]",
        {
            "amax-axis": lambda x: jnp.max(x, axis=0, keepdims=True),
            "argpartition": lambda x: jnp.sort(jnp.argpartition(x, 3, axis=1)[:, :3]),
            "partition": lambda x: jnp.sort(jnp.partition(x, 3, axis=1)[:, :3]),
            "argwhere": lambda x: jnp.argwhere(x > 0, size=8),
            "nonzero": lambda x: jnp.nonzero(x > 0, size=8, fill_value=-1),
            "average-weights": lambda x: jnp.average(x, axis=1, weights=x**2),
            "block": lambda x: jnp.block([[x, x], [x, x]]),
            "broadcast_to": lambda x: jnp.broadcast_to(x, (3, 5, 7)),
            "choose": lambda x: jnp.choose(jnp.arange(7) % 3, [x[0], x[1], x[2]], mode="wrap"),
            "clip": lambda x: jnp.clip(x, -0.5, 0.5),
            "compress": lambda x: jnp.compress(np.arange(5) % 2 == 0, x, axis=0, size=3),
            "concatenate": lambda x: jnp.concatenate([x, 2 * x], axis=1),
            "cumsum-axis": lambda x: (jnp.cumsum(x, 0), jnp.cumprod(x, 1)),
            "cummax": lambda x: (lax.cummax(x, 0), lax.cummin(x, 1), lax.cumlogsumexp(x, 1)),
            "delete": lambda x: jnp.delete(x, 2, axis=1),
            "einsum": lambda x: jnp.einsum("ij,kj->ik", x, x),
            "einsum-trace": lambda x: jnp.einsum("ij,ij->", x, x),
            "expand_dims": lambda x: jnp.expand_dims(x, (0, 2)),
            "extract": lambda x: jnp.extract(x > 0, x, size=6),
            "fft": lambda x: (jnp.fft.fft(x), jnp.fft.rfft(x, axis=0), jnp.fft.ifft2(x)),
            "fftshift": lambda x: (jnp.fft.fftshift(x), jnp.fft.irfft(x + 0j, n=12), jnp.fft.hfft(x + 0j)),
            "gelu-exact": lambda x: nn.gelu(x, approximate=False),
            "glu": lambda x: nn.glu(x[:, :6]),
            "gradient-axis": lambda x: jnp.gradient(x, axis=1),
            "histogram": lambda x: jnp.histogram(x, bins=6, range=(-2, 2)),
            "histogram2d": lambda x: jnp.histogram2d(x[0], x[1], bins=4, range=[[-2, 2], [-2, 2]])[0],
            "insert": lambda x: jnp.insert(x, 2, 1.0, axis=1),
            "interp": lambda x: jnp.interp(x[0], jnp.linspace(-2, 2, 9), jnp.arange(9.0) ** 2),
            "lexsort": lambda x: jnp.lexsort((x[0], jnp.round(x[1]))),
            "linalg": lambda x: (jnp.linalg.norm(x), jnp.linalg.norm(x, axis=1, ord=3)),
            "linalg-square": lambda x: [f(x[:, :5] @ x[:, :5].T + jnp.eye(5)) for f in (jnp.linalg.inv, jnp.linalg.det, jnp.linalg.cholesky)],
            "logsumexp-axis": lambda x: nn.logsumexp(x, axis=0, b=jnp.arange(7.0) + 1),
            "moveaxis": lambda x: jnp.moveaxis(x[:, :, None], 0, 2),
            "multigammaln": lambda x: special.multigammaln(jnp.abs(x) + 3, 2),
            "nanquantile": lambda x: jnp.nanquantile(x, 0.3, axis=1),
            "pad-reflect": lambda x: jnp.pad(x, ((1, 2), (0, 3)), mode="reflect"),
            "pad-linear": lambda x: jnp.pad(x, 2, mode="linear_ramp", end_values=1.0),
            "pad-statistics": lambda x: [jnp.pad(x, 2, mode=m) for m in ("mean", "maximum", "symmetric")],
            "percentile": lambda x: jnp.percentile(x, jnp.array([10.0, 50.0, 99.0]), axis=0),
            "piecewise": lambda x: jnp.piecewise(x, [x < -1, x > 1], [jnp.sin, jnp.cos, jnp.exp]),
            "polygamma": lambda x: special.polygamma(2, jnp.abs(x) + 1),
            "polyder": lambda x: (jnp.polyder(x[0], 2), jnp.polyint(x[0])),
            "polydiv": lambda x: jnp.polydiv(x[0], x[1, :3] + 2),
            "put_along_axis": lambda x: jnp.put_along_axis(x, jnp.array([[1], [2], [0], [6], [4]]), 9.0, axis=1, inplace=False),
            "quantile": lambda x: [jnp.quantile(x, 0.7, axis=1, method=m) for m in ("linear", "lower", "nearest", "midpoint")],
            "repeat": lambda x: jnp.repeat(x, jnp.array([1, 0, 2, 1, 3]), axis=0, total_repeat_length=7),
            "resize": lambda x: jnp.resize(x, (4, 11)),
            "roll": lambda x: (jnp.roll(x, (1, -2), (0, 1)), jnp.roll(x, 3)),
            "select": lambda x: jnp.select([x > 1, x > 0], [x, 2 * x], 7.0),
            "split": lambda x: jnp.split(x, [2, 3], axis=1),
            "array_split": lambda x: jnp.array_split(x, 3, axis=1),
            "stack": lambda x: jnp.stack([x, -x], axis=1),
            "std-ddof": lambda x: (jnp.std(x, axis=0, ddof=1), jnp.var(x, axis=1, ddof=1)),
            "swapaxes": lambda x: jnp.swapaxes(x, 0, 1),
            "take": lambda x: (jnp.take(x, jnp.array([3, 0, 9]), axis=1, mode="clip"), jnp.take(x, jnp.array([1, 40]), mode="fill")),
            "take_along_axis": lambda x: jnp.take_along_axis(x, jnp.argsort(x, axis=1), axis=1),
            "tensordot": lambda x: jnp.tensordot(x, x, axes=[[0], [0]]),
            "tile": lambda x: jnp.tile(x, (2, 1, 3)),
            "top_k": lambda x: lax.top_k(x, 3),
            "approx_max_k": lambda x: lax.approx_max_k(x, 3, recall_target=1.0),
            "tri": lambda x: x[:, :5] * jnp.tri(5, k=1),
            "unique": lambda x: jnp.unique(jnp.round(x), size=5),
            "unwrap-axis": lambda x: jnp.unwrap(3 * x, axis=0),
            "vander": lambda x: jnp.vander(x[0], 4),
            "where": lambda x: jnp.where(x > 0, x, -2 * x),
            "index-update": lambda x: x.at[jnp.array([0, 2, 2]), 1].add(5.0).at[1].set(0).at[:, 3].multiply(2),
            "index-extremes": lambda x: x.at[jnp.array([0, 2, 2])].max(0.1).at[0].min(0.2),
            "segment_sum": lambda x: jax.ops.segment_sum(x, jnp.array([0, 1, 0, 2, 1]), 3),
            "associative_scan": lambda x: lax.associative_scan(jnp.multiply, x, axis=1),
            "scan": lambda x: lax.scan(lambda c, y: (jnp.tanh(c + y), c * y), x[0], x),
            "map": lambda x: lax.map(lambda y: jnp.sum(jnp.sin(y)), x),
            "cond": lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x),
            "switch": lambda x: lax.switch(2, [jnp.sin, jnp.cos, jnp.exp], x),
            "reduce_window": lambda x: lax.reduce_window(x, 0.0, lax.add, (2, 3), (1, 2), "SAME"),
            "max_pool": lambda x: lax.reduce_window(x, -jnp.inf, lax.max, (2, 2), (2, 2), "VALID"),
            "conv": lambda x: jnp.convolve(x[0], x[1], mode="same"),
            "conv-2d": lambda x: lax.conv(x[None, None], x[None, None, :2, :3], (1, 1), "SAME"),
            "custom_jvp-softplus": nn.softplus,
            "checkpoint": lambda x: jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x),
            "attention": lambda x: nn.softmax(x @ x.T / 7**0.5, where=jnp.tri(5, dtype=bool)) @ x,
            "vectorize": lambda x: jnp.vectorize(jnp.dot, signature="(n),(n)->()")(x, x),
            "apply_along_axis": lambda x: jnp.apply_along_axis(jnp.cumsum, 1, x),
            "apply_over_axes": lambda x: jnp.apply_over_axes(jnp.sum, x, (0, 1)),
            "hessian": lambda x: jax.hessian(lambda y: jnp.sum(jnp.tanh(y) ** 3))(x[0, :3]),
            "jacobian": lambda x: (jax.jacfwd(jnp.cumprod)(x[0]), jax.jacrev(nn.softmax)(x[0])),
        },
    ),
    (
        "s32[6]:0..5",
        {
            "bincount": lambda x: jnp.bincount(x, length=6),
            "one_hot": lambda x: nn.one_hot(x, 6),
            "ravel_multi_index": lambda x: jnp.ravel_multi_index((x, x), (5, 6), mode="clip"),
            "unravel_index": lambda x: jnp.unravel_index(x, (2, 3)),
            "union1d": lambda x: jnp.union1d(x, x + 2, size=8),
            "intersect1d": lambda x: jnp.intersect1d(x, x + 2, size=5, fill_value=-1),
            "setxor1d": lambda x: jnp.setxor1d(x, x + 2, size=8, fill_value=-1),
            "unique_all": lambda x: jnp.unique_all(x, size=5),
            "trim_zeros": lambda x: jnp.sum(jnp.where(x == 0, 0, x)),
            "integer_pow": lambda x: x**3,
            "factorial": lambda x: special.factorial(x),
        },
    ),
    (
        "",
        {
            "arange": lambda: (jnp.arange(3, 20, 4), jnp.arange(2.0, 3.0, 0.25)),
            "windows": lambda: [f(9) for f in (jnp.bartlett, jnp.blackman, jnp.hamming, jnp.hanning)] + [jnp.kaiser(9, 3.0)],
            "eye": lambda: (jnp.eye(4, 5, 1), jnp.identity(3), jnp.tri(3, 4)),
            "fromfunction": lambda: jnp.fromfunction(lambda i, j: i * j, (3, 4)),
            "spaces": lambda: (jnp.linspace(0, 1, 7), jnp.logspace(0, 2, 5), jnp.geomspace(1, 64, 7)),
            "meshgrid": lambda: jnp.meshgrid(jnp.arange(3), jnp.arange(4.0)),
            "indices": lambda: (jnp.indices((2, 3)), jnp.diag_indices(3), jnp.tril_indices(3), jnp.triu_indices(3)),
        },
    ),
]  # fmt: skip


def transformed(
    function: Callable[..., Any], arguments: tuple[np.ndarray, ...]
) -> Callable[..., Any]:
    """A function that gives ``function``'s value, forward and reverse derivatives and vmap over doubled arguments."""
    inexact = [n for n, a in enumerate(arguments) if is_inexact(a.dtype)]

    def everything(*args: Any) -> Any:
        def part(*values: Any) -> list[Any]:
            full = list(args)
            for n, value in zip(inexact, values, strict=True):
                full[n] = value
            leaves = jax.tree.leaves(function(*full))
            return [
                leaf for leaf in map(jnp.asarray, leaves) if jnp.issubdtype(leaf.dtype, jnp.inexact)
            ]

        results: dict[str, Any] = {"value": jax.tree.leaves(function(*args))}
        chosen = [args[n] for n in inexact]
        if args:
            doubled = [jnp.stack([a, a[::-1]]) for a in args]
            results["vmap"] = jax.tree.leaves(jax.vmap(function)(*doubled))
        if chosen and jax.eval_shape(part, *chosen):
            tangents = [jnp.cos(jnp.arange(a.size, dtype=a.dtype)).reshape(a.shape) for a in chosen]
            results["jvp"] = jax.jvp(part, chosen, tangents)[1]
            values, pull = jax.vjp(part, *chosen)
            results["vjp"] = pull(
                [jnp.sin(1 + jnp.arange(v.size)).astype(v.dtype).reshape(v.shape) for v in values]
            )
        return results

    return everything


def configs() -> list[Config]:
    """All of them if TRIPONT_CONFORMANCE=full, else every fourth."""
    table = [(spec, name, f) for spec, entries in SMOOTH for name, f in entries]
    table += [(spec, name, f) for spec, entries in WITH_OPTIONS for name, f in entries.items()]
    made = []
    for specification, name, function in table:
        arguments = tuple(make_array(s) for s in specification.split())
        label = "-".join([name, *(s.split("[")[0] for s in specification.split())])
        if not FULL and zlib.crc32(label.encode()) % 4:
            continue
        made.append(
            Config(
                label, transformed(function, arguments), specification, HalfTheDigits(), x64=True
            )
        )
    return made


@pytest.mark.parametrize("config", configs(), ids=str)
def test_value_derivatives_and_vmap(config: Config, xpu: Any, cpu: Any) -> None:
    check(config, xpu, cpu)
