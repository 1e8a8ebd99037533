"""JAX functions, one or more for each operation that the importer reads, by family.

An entry is ``name: (function, *arguments)``. Arguments are NumPy arrays, so that making them needs no device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
from jax import lax

Program = tuple[Any, ...]

_rng = np.random.default_rng(11)
X = _rng.uniform(0.1, 0.9, (4, 5)).astype(np.float32)
Y = _rng.uniform(0.1, 0.9, (4, 5)).astype(np.float32)
V = _rng.uniform(0.1, 0.9, (5,)).astype(np.float32)
C = (X + 1j * Y).astype(np.complex64)
I = _rng.integers(0, 4, (4, 5)).astype(np.int32)
B = X > 0.5
SQUARE = (X @ X.T + np.eye(4)).astype(np.float32)
IMAGE = _rng.standard_normal((2, 8, 8, 3)).astype(np.float32)
KERNEL = _rng.standard_normal((3, 3, 3, 4)).astype(np.float32)
ROWS = np.array([0, 2], np.int32)
KEY = np.array([3, 7], np.uint32)
NHWC = ("NHWC", "HWIO", "NHWC")

_UNARY = (
    "abs sin cos tan sinh cosh tanh asin acos atan asinh atanh exp exp2 expm1 log log1p sqrt rsqrt cbrt erf erfc"
    " erf_inv lgamma digamma floor ceil round sign is_finite neg logistic bessel_i0e bessel_i1e square"
)
_COMPLEX = "sin cos tan tanh exp log sqrt rsqrt abs conj real imag sign log1p expm1 logistic asin acosh atan square"
_BINARY = "add sub mul div rem pow atan2 max min nextafter igamma igammac zeta complex polygamma random_gamma_grad"
_INTEGER = "shift_left shift_right_logical shift_right_arithmetic bitwise_and bitwise_or bitwise_xor div rem max"
_DTYPES = (
    "bfloat16 float16 float64 float8_e4m3fn float8_e5m2 float8_e4m3b11fnuz float8_e5m2fnuz float8_e4m3fnuz"
    " float8_e3m4 float8_e4m3 int8 uint8 int16 uint16 int64 uint64 uint32 complex64 complex128 bool"
)


def _converter(name: str) -> Callable[[Any], Any]:
    return lambda x: x.astype(name)


def _constants(name: str) -> Callable[[Any], Any]:
    """Small, splat and large constants of a dtype."""
    dtype = np.dtype(getattr(ml_dtypes, name, name))
    small, large = np.array([1, 0, 3]).astype(dtype), (np.arange(400) % 3).astype(dtype)
    return lambda x: (
        x,
        jnp.asarray(small),
        jnp.asarray(np.ones(200).astype(dtype)),
        jnp.asarray(large),
    )


def _reduction(name: str) -> Callable[[Any], Any]:
    return lambda x: getattr(jnp, name)(x, axis=1)


def _distribution(name: str, rest: tuple[Any, ...]) -> Callable[[Any], Any]:
    return lambda key: getattr(jax.random, name)(key, *rest)


def _decomposition(name: str) -> Callable[[Any], Any]:
    return lambda a: getattr(jnp.linalg, name)(a)


_REDUCTIONS = "sum prod max min argmax argmin any all mean var cumsum cumprod ptp median"
_DECOMPOSITIONS = "cholesky qr svd eigh inv det slogdet pinv"

ELEMENTWISE: dict[str, Program] = {
    **{name: (getattr(lax, name), X) for name in _UNARY.split()},
    **{f"complex_{name}": (getattr(lax, name), C) for name in _COMPLEX.split()},
    **{name: (getattr(lax, name), X + 1, Y) for name in _BINARY.split()},
    **{f"integer_{name}": (getattr(lax, name), I, I + 1) for name in _INTEGER.split()},
    **{name: (getattr(lax, name), X, Y) for name in ("eq", "ne", "lt", "le", "gt", "ge")},
    **{
        f"pred_{name}": (getattr(lax, name), B, ~B) for name in ("eq", "ne", "lt", "le", "gt", "ge")
    },
    **{f"convert_{name}": (_converter(name), X) for name in _DTYPES.split()},
    "acosh": (lax.acosh, X + 1),
    "betainc": (lax.betainc, X, Y, X),
    "complex_eq": (lax.eq, C, C),
    "population_count": (lax.population_count, I),
    "clz": (lax.clz, I),
    "not": (lax.bitwise_not, I),
    "integer_pow": (lambda x: x**5, X),
    "clamp": (lax.clamp, np.float32(0.2), X, np.float32(0.6)),
    "select_n": (lax.select_n, B, X, Y),
    "select_among_three": (lambda p, x, y: lax.select_n(p, x, y, x + y), I % 3, X, Y),
    "reduce_precision": (lambda x: lax.reduce_precision(x, 5, 3), X),
    "bitcast": (lambda x: lax.bitcast_convert_type(x, jnp.int32), X),
    "bitcast_to_narrower": (lambda x: lax.bitcast_convert_type(x, jnp.uint8), X),
    "bitcast_to_wider": (
        lambda x: lax.bitcast_convert_type(x, jnp.float32),
        np.ones((3, 4), np.uint8),
    ),
    "infinities": (lambda x: (jnp.isinf(x), jnp.isposinf(x), jnp.isneginf(x), jnp.isnan(x)), X),
}

CONSTANTS: dict[str, Program] = {name: (_constants(name), X) for name in _DTYPES.split()}

DATA_MOVEMENT: dict[str, Program] = {
    "iota": (lambda: lax.broadcasted_iota(jnp.int32, (3, 4), 1),),
    "broadcast": (lambda v: jnp.broadcast_to(v[:, None], (5, 7)), V),
    "transpose": (lambda x: x.T.reshape(2, 10)[::-1], X),
    "slice": (lambda x: x[1:3, ::2], X),
    "pad": (lambda x: lax.pad(x, np.float32(0), ((1, 2, 1), (-1, 0, 0))), X),
    "concatenate": (lambda x: jnp.concatenate([x, x, x], 1), X),
    "stack_of_one": (lambda x: jnp.stack([x]), X),
    "dynamic_slice": (lambda x, i: lax.dynamic_slice(x, (i, 0), (2, 2)), X, np.int32(1)),
    "dynamic_update_slice": (
        lambda x, i: lax.dynamic_update_slice(x, x[:2, :2], (i, 0)),
        X,
        np.int32(1),
    ),
    "gather_rows": (lambda x, i: x[i], X, ROWS),
    "gather_points": (lambda x, i: x[i, i], X, ROWS),
    "take_along_axis": (lambda x, i: jnp.take_along_axis(x, i, 1), X, I),
    "gather_with_batching_dims": (jax.vmap(lambda x, i: x[i]), X, I),
    "scatter": (lambda x, i: x.at[i].set(1.0), X, ROWS),
    "scatter_add": (lambda x, i: x.at[i].add(2.0), X, ROWS),
    "scatter_multiply": (lambda x, i: x.at[i].multiply(2.0), X, ROWS),
    "scatter_min": (lambda x, i: x.at[i].min(0.5), X, ROWS),
    "scatter_apply": (lambda x, i: x.at[i].apply(jnp.sin), X, ROWS),
    "scatter_with_batching_dims": (jax.vmap(lambda x, i: x.at[i].add(1.0)), X, I),
    "one_hot": (lambda i: jax.nn.one_hot(i, 7), I),
    "empty": (lambda x: x[:0].sum(0), X),
}

REDUCTIONS: dict[str, Program] = {
    **{name: (_reduction(name), X) for name in _REDUCTIONS.split()},
    "cumulative_max": (lambda x: (lax.cummax(x), lax.cumlogsumexp(x)), X),
    "bf16_sum": (lambda x: x.astype(jnp.bfloat16).sum(), X),
    "variadic": (
        lambda x, y: lax.reduce(
            (x, y),
            (np.float32(0), np.int32(0)),
            lambda a, b: (a[0] + b[0], jnp.maximum(a[1], b[1])),
            (1,),
        ),
        X,
        I,
    ),
    "and": (lambda b: lax.reduce(b, np.bool_(True), lax.bitwise_and, (0,)), B),
    "body_with_constant": (
        lambda x: lax.reduce(x, np.float32(0), lambda a, b: jnp.where(a > b * 2.5, a, b), (0,)),
        X,
    ),
    "max_pool": (
        lambda a: lax.reduce_window(a, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"),
        IMAGE,
    ),
    "average_pool_gradient": (
        jax.grad(
            lambda a: lax.reduce_window(a, 0.0, lax.add, (1, 3, 3, 1), (1, 2, 2, 1), "VALID").sum()
        ),
        IMAGE,
    ),
    "dilated_window": (
        lambda a: lax.reduce_window(
            a,
            np.float32(0),
            lax.add,
            (1, 3, 3, 1),
            (1, 2, 2, 1),
            [(0, 0), (1, 2), (0, 1), (0, 0)],
            base_dilation=(1, 2, 1, 1),
            window_dilation=(1, 1, 2, 1),
        ),
        IMAGE,
    ),
    "max_pool_gradient": (
        jax.grad(
            lambda a: lax.reduce_window(
                a, -np.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "SAME"
            ).sum()
        ),
        IMAGE,
    ),
    "sort": (lambda a: jnp.sort(a, axis=0), X),
    "sort_pairs": (lambda a, b: lax.sort((a, b), dimension=0, num_keys=1), X, I),
    "sort_complex": (jnp.sort, C),
    "argsort": (jnp.argsort, X),
    "top_k": (lambda a: lax.top_k(a, 2), X),
    "top_k_of_integers": (lambda a: lax.top_k(a, 2), I),
    "approx_max_k": (lambda a: lax.approx_max_k(a, 2), X),
    "searchsorted": (lambda x: jnp.searchsorted(x[0], x), np.sort(X)),
    "histogram": (lambda x: jnp.histogram(x, 5), X),
    "unique": (lambda x: jnp.unique(x, size=3), I),
}

CONTRACTIONS: dict[str, Program] = {
    "vector": (jnp.dot, X, V),
    "matmul": (lambda a, b: a @ b.T, X, Y),
    "batched": (
        lambda a, b: jnp.einsum("bij,bkj->ibk", a, b),
        np.ones((2, 3, 4)),
        np.ones((2, 5, 4)),
    ),
    "bf16_to_f32": (
        lambda a: lax.dot_general(
            a.astype(jnp.bfloat16),
            a.astype(jnp.bfloat16),
            (((1,), (1,)), ((), ())),
            preferred_element_type=jnp.float32,
        ),
        X,
    ),
    "int8_to_int32": (
        lambda a: lax.dot_general(a, a, (((1,), (1,)), ((), ())), preferred_element_type=jnp.int32),
        I.astype(np.int8),
    ),
    "highest_precision": (lambda a: jnp.dot(a, a.T, precision="highest"), X),
    "ragged": (
        lax.ragged_dot,
        np.ones((8, 4), np.float32),
        np.ones((2, 4, 3), np.float32),
        np.array([3, 5], np.int32),
    ),
    "convolution_all_options": (
        lambda a, w: lax.conv_general_dilated(
            a,
            w,
            (2, 1),
            [(1, 1), (0, 2)],
            lhs_dilation=(1, 2),
            rhs_dilation=(2, 1),
            dimension_numbers=NHWC,
        ),
        IMAGE,
        KERNEL,
    ),
    "depthwise": (
        lambda a, w: lax.conv_general_dilated(
            a, w, (1, 1), [(1, 0), (0, 1)], feature_group_count=3, dimension_numbers=NHWC
        ),
        IMAGE,
        np.ones((3, 3, 1, 6), np.float32),
    ),
    "depthwise_gradient": (
        jax.grad(
            lambda a, w: lax.conv_general_dilated(
                a, w, (1, 1), "VALID", feature_group_count=3, dimension_numbers=NHWC
            ).sum(),
            argnums=(0, 1),
        ),
        IMAGE,
        np.ones((3, 3, 1, 6), np.float32),
    ),
    "transposed_convolution": (
        lambda a, w: lax.conv_transpose(a, w, (2, 2), "SAME", dimension_numbers=NHWC),
        IMAGE,
        KERNEL,
    ),
    "convolution_1d": (
        lambda a, w: lax.conv_general_dilated(a, w, (1,), "SAME"),
        np.ones((2, 3, 8), np.float32),
        np.ones((4, 3, 3), np.float32),
    ),
    "convolution_0d": (
        lambda a, w: lax.conv(a, w, (), "SAME"),
        np.ones((2, 3), np.float32),
        np.ones((4, 3), np.float32),
    ),
    "fft": (
        lambda c: (jnp.fft.fft(c), jnp.fft.ifft2(c), jnp.fft.rfft(c.real), jnp.fft.irfft(c)),
        C,
    ),
}

CONTROL_FLOW: dict[str, Program] = {
    "while": (
        lambda x: lax.while_loop(lambda c: c[0] < 10, lambda c: (c[0] + 1, c[1] * 0.9), (0, x)),
        X,
    ),
    "while_single": (lambda n: lax.while_loop(lambda c: c < 10, lambda c: c + n, 0), 5),
    "fori_with_capture": (lambda x: lax.fori_loop(0, 10, lambda k, a: a + k * x, x), X),
    "nested_capture": (
        lambda x, y: lax.fori_loop(
            0, 3, lambda k, a: lax.fori_loop(0, 2, lambda j, b: b + y * a, a), x
        ),
        X,
        Y,
    ),
    "scan": (lambda x, v: lax.scan(lambda c, y: (c + y, c * y), v, x), X, V),
    "scan_gradient": (
        jax.grad(lambda x, v: lax.scan(lambda c, y: (jnp.sin(c + y), c * y), v, x)[0].sum()),
        X,
        V,
    ),
    "cond": (lambda p, x: lax.cond(p, lambda a: a + x, lambda a: a * 2, x), True, X),
    "cond_without_operands": (lambda p, x: lax.cond(p, lambda: x, lambda: x * 2), False, X),
    "switch": (
        lambda p, x: lax.switch(
            p, [lambda a: (a + x, a), lambda a: (a * 2, x), lambda a: (a, a)], x
        ),
        1,
        X,
    ),
    "associative_scan": (lambda x: lax.associative_scan(jnp.add, x), X),
    "barrier": (lambda x: lax.optimization_barrier((x, x + 1)), X),
    "barrier_of_one": (lambda x: lax.optimization_barrier(x), X),
    "checkpoint": (jax.grad(lambda x: jax.checkpoint(lambda y: jnp.sin(jnp.sin(y)))(x).sum()), X),
    "nested_calls": (lambda x: jax.jit(jax.jit(jnp.sin))(x) + jax.jit(jnp.sin)(x), X),
    "no_results": (lambda x: (), X),
    "passed_through": (lambda x, y: (x, y, x), X, Y),
}


def _with_key(implementation: str) -> Callable[[Any], Any]:
    def draw(data: Any) -> Any:
        key = jax.random.wrap_key_data(data, impl=implementation)
        return (
            jax.random.normal(key, (7,)),
            jax.random.randint(key, (3,), 0, 9),
            jax.random.key_data(jax.random.split(key, 3)),
            jax.random.bernoulli(key, 0.3, (2,)),
            jax.random.permutation(key, 10),
        )

    return draw


_DISTRIBUTIONS: dict[str, tuple[Any, ...]] = {
    "gamma": (2.0,),
    "poisson": (3.0,),
    "categorical": (V,),
    "gumbel": (),
    "laplace": (),
    "exponential": (),
    "truncated_normal": (-1.0, 1.0),
    "choice": (10,),
}

RANDOM: dict[str, Program] = {
    "threefry2x32": (_with_key("threefry2x32"), KEY),
    "rbg": (_with_key("rbg"), np.arange(4, dtype=np.uint32)),
    "unsafe_rbg": (_with_key("unsafe_rbg"), np.arange(4, dtype=np.uint32)),
    **{name: (_distribution(name, rest), KEY) for name, rest in _DISTRIBUTIONS.items()},
}

_ACTIVATIONS = "relu gelu silu softplus softmax log_softmax elu selu celu glu leaky_relu hard_tanh logsumexp mish"


def _attention_loss(q: Any) -> Any:
    return jax.nn.dot_product_attention(q, q, q, is_causal=True).sum()


NEURAL_NETWORKS: dict[str, Program] = {
    **{name: (getattr(jax.nn, name), X[:, :4]) for name in _ACTIVATIONS.split()},
    "attention_gradient": (
        jax.grad(_attention_loss),
        _rng.standard_normal((2, 8, 2, 4)).astype(np.float32),
    ),
}

FAMILIES: dict[str, dict[str, Program]] = {
    "elementwise": ELEMENTWISE,
    "constants": CONSTANTS,
    "data_movement": DATA_MOVEMENT,
    "reductions": REDUCTIONS,
    "contractions": CONTRACTIONS,
    "control_flow": CONTROL_FLOW,
    "random": RANDOM,
    "neural_networks": NEURAL_NETWORKS,
}

# Programs that hold custom calls of JAX's CPU lowering, which XLA cannot run from our proto: read and verified only.
CUSTOM_CALLS: dict[str, Program] = {
    **{name: (_decomposition(name), SQUARE) for name in _DECOMPOSITIONS.split()},
    "triangular_solve": (
        lambda a: lax.linalg.triangular_solve(a, a, left_side=True, lower=True, transpose_a=True),
        SQUARE,
    ),
}
