"""Attention whose masks, biases, factors or scores are read in several orders of dimensions or are in other dimensions
than the products, and attention with PyTorch's softmax, beside NumPy in f64.

All these programs are square, so that an array and its transpose have the same shape.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.core.compiler.codegen.kernels.test_attention import compiled, is_fused, read
from tests.core.compiler.codegen.kernels.test_packed_dot import kinds
from tests.core.compiler.test_native import NativeSimulation
from tests.fuzz.attention_functions import softmax_of_torch

Array = np.ndarray[Any, Any]
UNIT = 2.0**-24
EIGHTH = 0.125


def near(b: Any, direction: int) -> Any:
    """Whether positions are less than 90 apart, counted in a direction."""
    i, j = (jax.lax.broadcasted_iota(jnp.int32, b.shape[-2:], d) for d in (0, 1))
    return (i - j) * direction < 90


def with_keys(m: Any, numpy: Any) -> Any:
    """``m``, of which every seventh row has no key."""
    return m & (numpy.arange(m.shape[-2]) % 7 != 3)[:, None]


@dataclass(frozen=True)
class Form:
    """Weights as JAX computes them of scores, ``b`` and ``m``; and the same in numbers: logits are
    ``own * s + turned * s.T + bias`` where ``kept``, and softmax is multiplied by ``factor``.
    """

    weights: Callable[[Any, Any, Any], Any]
    own: Callable[[Array, Array], Any] = lambda b, m: 1.0
    turned: float = 0.0
    bias: Callable[[Array, Array], Any] = lambda b, m: 0.0
    kept: Callable[[Array, Array], Any] = lambda b, m: True
    factor: Callable[[Array, Array], Any] = lambda b, m: 1.0
    dims: tuple[int, ...] = (256,)
    is_fused: bool = True
    # All dimensions before the last two are one in the products, as in PyTorch's bmm.
    joined: bool = False


softmax = jax.nn.softmax
FORMS = {
    "bias and its transpose": Form(lambda s, b, m: softmax(s + b + b.T), bias=lambda b, m: b + b.T),
    "factor and bias": Form(
        lambda s, b, m: softmax(s * b.T + b), own=lambda b, m: b.T, bias=lambda b, m: b
    ),
    "scores and their transpose": Form(
        lambda s, b, m: softmax(s + s.T), turned=1.0, is_fused=False
    ),
    "the transpose first": Form(lambda s, b, m: softmax(s.T * 0.3 + s), turned=0.3, is_fused=False),
    "factors of the weights": Form(
        lambda s, b, m: softmax(s) * b * b.T, factor=lambda b, m: b * b.T
    ),
    "masks of both": Form(
        lambda s, b, m: jnp.where(m, 0, softmax(jnp.where(m.T, -jnp.inf, s))),
        kept=lambda b, m: ~m.T,
        factor=lambda b, m: ~m,
    ),
    "dropout": Form(
        lambda s, b, m: jnp.where(m, softmax(jnp.where(m.T, s, -1e30)) / 0.8, 0),
        kept=lambda b, m: m.T,
        factor=lambda b, m: m / 0.8,
    ),
    "positions": Form(
        lambda s, b, m: softmax(jnp.where(near(b, 1) & near(b, 1).T, s, -jnp.inf)),
        kept=lambda b, m: abs(np.arange(256)[:, None] - np.arange(256)) < 90,
    ),
    "joined and reshaped": Form(  # the reshape has other dimensions apart than what it reads
        lambda s, b, m: softmax(
            s
            + jnp.concatenate(
                [b[:24].reshape(3, 8, 64, 64), b[8:48].reshape(5, 8, 64, 64)]
            ).reshape(s.shape)
        ),
        bias=lambda b, m: np.concatenate([b[:24], b[8:48]]),
        dims=(64, 64),
    ),
    "three dimensions": Form(
        lambda s, b, m: softmax(s + b + b.transpose(1, 0, 2) + b.transpose(2, 1, 0)),
        bias=lambda b, m: b + b.transpose(1, 0, 2) + b.transpose(2, 1, 0),
        dims=(64, 64),
    ),
    "PyTorch's softmax": Form(lambda s, b, m: softmax_of_torch(s, -1)),
    "PyTorch's softmax, joined": Form(
        lambda s, b, m: softmax_of_torch(s, -1), dims=(2, 3, 64), joined=True
    ),
    "rows without keys": Form(
        lambda s, b, m: softmax_of_torch(jnp.where(with_keys(m, jnp), s, -jnp.inf), -1),
        kept=lambda b, m: with_keys(m, np),
    ),
    "rows without keys, joined": Form(
        lambda s, b, m: softmax_of_torch(jnp.where(with_keys(m, jnp), s + b, -jnp.inf), -1),
        bias=lambda b, m: b,
        kept=lambda b, m: with_keys(m, np),
        dims=(2, 3, 64),
        joined=True,
    ),
    "rows without keys in dropout": Form(
        lambda s, b, m: jnp.where(
            m, softmax_of_torch(jnp.where(with_keys(m, jnp), s, -jnp.inf), -1) / 0.8, 0
        ),
        kept=lambda b, m: with_keys(m, np),
        factor=lambda b, m: m / 0.8,
    ),
    "masked with zeros": Form(  # not the guard: rows without a true element have weights all the same
        lambda s, b, m: jnp.where(with_keys(m, jnp).any(-1, keepdims=True), softmax(s), 0),
        factor=lambda b, m: with_keys(m, np).any(-1, keepdims=True),
    ),
    "a guard along the queries": Form(
        lambda s, b, m: jnp.where((s == -jnp.inf).all(-2, keepdims=True), 0, softmax(s)),
        is_fused=False,
    ),
}


def arguments(form: Form) -> list[Array]:
    """Queries, keys, values, the result's gradient, ``b`` and ``m``."""
    rng = np.random.default_rng(3)
    arrays = [rng.standard_normal((*form.dims, 64)).astype(np.float32) for _ in range(4)]
    square = (*form.dims, form.dims[-1])
    b, m = rng.standard_normal(square).astype(np.float32), rng.random(square) < 0.5
    return [*arrays, b, m]


def exact(form: Form, values: list[Array]) -> tuple[list[Array], list[Array]]:
    """Result and gradients in f64, and bounds of their errors.

    A score is a sum of 64 terms and has an error of as many units of the sum of their sizes; what is made of it adds a
    few units. An error of a logit is one of the same factor in its weight, and again in the sum of all; sums along the
    queries and keys add less than their numbers in units.
    """
    q, k, v, t = (x.astype(np.float64) for x in values[:4])
    b, m = values[4].astype(np.float64), values[5]
    own, bias, kept, factor = (part(b, m) for part in (form.own, form.bias, form.kept, form.factor))

    def turned(x: Array) -> Array:
        return x.swapaxes(-1, -2)

    def logits(s: Array, own: Any, bias: Any) -> Array:
        return own * s + form.turned * turned(s) + bias

    def of_scores(changes: Array, own: Any) -> Array:
        changes = changes * kept
        return (own * changes + form.turned * turned(changes)) * EIGHTH

    made = np.where(kept, logits(q @ turned(k) * EIGHTH, own, bias), -math.inf)
    largest = np.maximum(made.max(-1, keepdims=True), -1e30)
    weights = np.exp(made - largest)
    weights /= np.maximum(weights.sum(-1, keepdims=True), 1e-30)
    slopes = t @ turned(v) * factor
    changes = of_scores(weights * (slopes - (weights * slopes).sum(-1, keepdims=True)), own)
    final = weights * factor
    results = [final @ v, changes @ k, turned(changes) @ q, turned(final) @ t]
    a, c, d, e = (abs(x) for x in (q, k, v, t))
    sizes = np.where(kept, logits(a @ turned(c) * EIGHTH, abs(own), abs(bias)), 0)
    n = form.dims[-1]
    error = (2 * 80 * sizes.max(-1, keepdims=True) + 2 * n + 64) * UNIT
    final = error * weights * abs(factor)
    slopes = e @ turned(d) * abs(factor)
    total = slopes + (weights * slopes).sum(-1, keepdims=True)
    changes = of_scores(2 * error * weights * total, abs(own))
    return results, [final @ d, changes @ c, turned(changes) @ a, turned(final) @ e]


def check(got: list[Array], form: Form, values: list[Array]) -> None:
    for mine, right, bound in zip(got, *exact(form, values), strict=False):
        assert (abs(mine - right) <= bound).all()


def attend(form: Form) -> Callable[..., Any]:
    def run(q: Any, k: Any, v: Any, b: Any, m: Any) -> Any:
        if not form.joined:
            return form.weights(q @ k.swapaxes(-1, -2) * EIGHTH, b, m) @ v
        first, second, third = (x.reshape(-1, *x.shape[-2:]) for x in (q, k, v))
        scores = (first * EIGHTH @ second.swapaxes(-1, -2)).reshape(b.shape)
        weights = form.weights(scores, b, m)
        return (weights.reshape(-1, *b.shape[-2:]) @ third).reshape(v.shape)

    return run


@pytest.mark.parametrize("name", FORMS)
def test_results(name: str) -> None:
    form = FORMS[name]
    values = arguments(form)
    given = [*values[:3], *values[4:]]
    after = compiled(read(attend(form), given))
    assert is_fused(after) == form.is_fused
    check(NativeSimulation(after).run(given), form, values)


@pytest.mark.parametrize("name", FORMS)
def test_gradients(name: str) -> None:
    form = FORMS[name]
    values = arguments(form)

    def run(q: Any, k: Any, v: Any, t: Any, b: Any, m: Any) -> Any:
        result, back = jax.vjp(lambda *x: attend(form)(*x, b, m), q, k, v)
        return result, *back(t)

    after = compiled(read(run, values))
    assert ("attention-gradient" in kinds(after)) == form.is_fused
    check(NativeSimulation(after).run(values), form, values)
