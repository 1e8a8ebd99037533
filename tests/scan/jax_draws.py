"""``jax.random`` of JAX: every distribution, of 32 and 64 bits, with parameters at the ends of what they may be."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np

from tests.scan.arguments import definite, normal, positive
from tests.scan.call import Call
from tests.scan.jax_ways import call

_R: Final = jax.random
Draw = Callable[..., Any]
# By its name: a distribution for a key, a shape and arrays of parameters, and those arrays.
_DRAWS: Final[dict[str, tuple[Draw, list[list[Any]]]]] = {
    "bits": (lambda k, s: _R.bits(k, s), [[]]),
    "bits of 8": (lambda k, s: _R.bits(k, s, "uint8"), [[]]),
    "uniform": (
        lambda k, s, a, b: _R.uniform(k, s, minval=a, maxval=b),
        [[0.0, 1.0], [-3.0, 5.0], [2.0, 2.0], [0.0, 1e-40], [-3e38, 3e38]],
    ),
    "randint": (
        lambda k, s, a, b: _R.randint(k, s, a, b),
        [[0, 10], [-5, 5], [3, 3], [5, 2], [-(2**31), 2**31 - 1]],
    ),
    "normal": (lambda k, s: _R.normal(k, s), [[]]),
    "truncated_normal": (
        lambda k, s, a, b: _R.truncated_normal(k, a, b, s),
        [[-1.0, 1.0], [3.0, 9.0], [-np.inf, np.inf]],
    ),
    "bernoulli": (lambda k, s, p: _R.bernoulli(k, p, s), [[0.3], [0.0], [1.0], [np.nan]]),
    "beta": (
        lambda k, s, a, b: _R.beta(k, a, b, s),
        [[2.0, 3.0], [0.01, 0.02], [1e4, 1e-3], [0.0, 1.0], [np.inf, 1.0]],
    ),
    "binomial": (
        lambda k, s, n, p: _R.binomial(k, n, p, s),
        [[10.0, 0.3], [1000.0, 0.9], [0.0, 0.5], [5.0, 0.0], [5.0, 1.0], [-1.0, 0.5]],
    ),
    "cauchy": (lambda k, s: _R.cauchy(k, s), [[]]),
    "chisquare": (lambda k, s, n: _R.chisquare(k, n, shape=s), [[3.0], [0.1], [1e6]]),
    "exponential": (lambda k, s: _R.exponential(k, s), [[]]),
    "f": (lambda k, s, a, b: _R.f(k, a, b, s), [[3.0, 5.0], [0.5, 100.0]]),
    "gamma": (
        lambda k, s, a: _R.gamma(k, a, s),
        [[2.5], [0.01], [1e6], [0.0], [-1.0], [np.inf], [np.nan]],
    ),
    "loggamma": (lambda k, s, a: _R.loggamma(k, a, s), [[2.5], [0.01], [1e6], [1e-30]]),
    "generalized_normal": (lambda k, s, p: _R.generalized_normal(k, p, s), [[2.0], [0.5]]),
    "geometric": (lambda k, s, p: _R.geometric(k, p, s), [[0.3], [1.0], [1e-6]]),
    "gumbel": (lambda k, s: _R.gumbel(k, s), [[]]),
    "laplace": (lambda k, s: _R.laplace(k, s), [[]]),
    "logistic": (lambda k, s: _R.logistic(k, s), [[]]),
    "lognormal": (lambda k, s, a: _R.lognormal(k, a, s), [[1.0], [50.0]]),
    "maxwell": (lambda k, s: _R.maxwell(k, s), [[]]),
    "pareto": (lambda k, s, b: _R.pareto(k, b, s), [[2.0], [0.01]]),
    "poisson": (
        lambda k, s, lam: _R.poisson(k, lam, s),
        [[2.0], [0.0], [30.0], [1e5], [-1.0], [np.inf], [np.nan]],
    ),
    "rademacher": (lambda k, s: _R.rademacher(k, s), [[]]),
    "rayleigh": (lambda k, s, a: _R.rayleigh(k, a, s), [[2.0]]),
    "t": (lambda k, s, n: _R.t(k, n, s), [[3.0], [0.1]]),
    "triangular": (
        lambda k, s, a, b, c: _R.triangular(k, a, b, c, s),
        [[0.0, 0.5, 1.0], [1.0, 1.0, 1.0]],
    ),
    "wald": (lambda k, s, m: _R.wald(k, m, s), [[1.0], [1e-3], [1e4]]),
    "weibull": (lambda k, s, a, c: _R.weibull_min(k, a, c, s), [[1.0, 2.0], [1.0, 0.1]]),
    "ball": (lambda k, s: _R.ball(k, 3, 2, s), [[]]),
    "double_sided_maxwell": (lambda k, s: _R.double_sided_maxwell(k, 0.0, 1.0, s), [[]]),
}
_P: Final = positive(4)
# Those whose shapes are their own: a function of a key and arrays.
_OTHERS: Final[dict[str, tuple[Draw, list[Any]]]] = {
    "categorical": (lambda k, x: _R.categorical(k, x), [normal(6, 4)]),
    "categorical of -inf": (
        lambda k, x: _R.categorical(k, x),
        [np.where(normal(6, 4) > 0, -np.inf, 0.0).astype(np.float32)],
    ),
    "categorical without replacement": (
        lambda k, x: _R.categorical(k, x, shape=(3, 6), replace=False, axis=-1),
        [normal(6, 4)],
    ),
    "choice": (lambda k, x: _R.choice(k, x, (7,)), [normal(5, 2)]),
    "choice weighted": (lambda k, x, p: _R.choice(k, x, (3,), p=p / p.sum()), [normal(4, 2), _P]),
    "choice weighted without replacement": (
        lambda k, x, p: _R.choice(k, x, (3,), False, p / p.sum()),
        [normal(4, 2), _P],
    ),
    "choice without replacement": (
        lambda k, x: _R.choice(k, x, (3,), False, axis=1),
        [normal(2, 5)],
    ),
    "dirichlet": (lambda k, a: _R.dirichlet(k, a, (5,)), [_P]),
    "dirichlet of little": (lambda k, a: _R.dirichlet(k, a * 1e-6, (5,)), [_P]),
    "multinomial": (lambda k, p: _R.multinomial(k, 10.0, p / p.sum(), shape=(5, 4)), [_P]),
    "multivariate_normal cholesky": (
        lambda k, m, c: _R.multivariate_normal(k, m, c, (5,)),
        [normal(3), definite(3, 3)],
    ),
    "multivariate_normal eigh": (
        lambda k, m, c: _R.multivariate_normal(k, m, c, (5,), method="eigh"),
        [normal(3), definite(3, 3)],
    ),
    "multivariate_normal svd": (
        lambda k, m, c: _R.multivariate_normal(k, m, c, (5,), method="svd"),
        [normal(3), definite(3, 3)],
    ),
    "orthogonal": (lambda k: _R.orthogonal(k, 4, (2,)), []),
    "permutation": (lambda k, x: _R.permutation(k, x, 1), [normal(3, 9)]),
    "permutation of numbers": (lambda k: _R.permutation(k, 1000), []),
    "permutation independent": (
        lambda k, x: _R.permutation(k, x, 1, independent=True),
        [normal(3, 9)],
    ),
    "split": (lambda k: _R.split(k, (3, 2)), []),
    "fold_in": (lambda k: _R.fold_in(k, 7), []),
    "hypergeometric split": (lambda k: _R.uniform(_R.split(k, 3)[1], (0, 3)), []),
}
_SHAPES: Final = ((), (7,), (0, 3), (3, 5), (1021,))


def calls() -> Iterator[Call]:
    for wide, kind in itertools.product((False, True), ("threefry2x32", "rbg", "unsafe_rbg")):
        for name, (draw, parameters) in _DRAWS.items():
            for values, shape in itertools.product(
                parameters, _SHAPES if kind == "threefry2x32" else [(7,)]
            ):
                # 64-bit numbers wherever the parameters are of 64 bits.
                arrays = [np.asarray(v, _type(v, wide)) for v in values]
                yield call(
                    f"{name} of {values}, {list(shape)}, {kind}, {64 if wide else 32} bits",
                    lambda *a, d=draw, s=shape, k=kind: d(_R.key(42, impl=k), s, *a),
                    arrays,
                    wide=wide,
                    exact=True,
                )
        for name, (draw, arrays) in _OTHERS.items():
            yield call(
                f"{name}, {kind}, {64 if wide else 32} bits",
                lambda *a, d=draw, k=kind: d(_R.key(42, impl=k), *a),
                [a.astype(np.float64) if wide else a for a in arrays],
                wide=wide,
                exact=True,
            )
    for name, size in (
        ("normal", 1_100_000),
        ("uniform", 2_000_000),
        ("bits", 1_000_001),
        ("gumbel", 1_100_000),
    ):
        yield call(
            f"{name} of {size}",
            lambda n=name, s=size: getattr(_R, n)(_R.key(3), (s,)),
            [],
            exact=True,
        )
    yield call(
        "permutation of a million",
        lambda: _R.permutation(_R.key(3), jnp.int32(0) + jnp.arange(1_000_000)),
        [],
        exact=True,
    )


def _type(value: Any, wide: bool) -> str:
    kind = "float" if isinstance(value, float) else "int"
    return f"{kind}{64 if wide else 32}"
