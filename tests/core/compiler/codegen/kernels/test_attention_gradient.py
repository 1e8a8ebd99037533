"""The gradients of attention as one kernel, against NumPy in f64: forms, sizes, instruction sets and near misses."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.reference.evaluate import evaluate

from tests.core.compiler.codegen.kernels.test_attention import (
    FORMS,
    UNIT,
    compiled,
    cpu,
    heads,
    read,
    standard,
)
from tests.core.compiler.codegen.kernels.test_packed_dot import kinds, of_each_width
from tests.core.compiler.test_native import NativeSimulation

Array = np.ndarray[Any, Any]
__all__ = ["cpu"]


def gradients(function: Callable[..., Any]) -> Callable[..., Any]:
    """The result, and the gradients for a given gradient of the result."""

    def run(q: Any, k: Any, v: Any, t: Any) -> Any:
        result, back = jax.vjp(function, q, k, v)
        return result, *back(t)

    return run


def is_fused(after: hlo.Module) -> bool:
    found = kinds(after)
    return found.count("attention") == 1 == found.count("attention-gradient")


def sums(weights: Array, values: Array) -> Array:
    return np.einsum("bhij,bjhd->bihd", weights, values)


def turned(weights: Array, values: Array) -> Array:
    return np.einsum("bhij,bihd->bjhd", weights, values)


def check(got: list[Array], q: Array, k: Array, v: Array, t: Array, mask: Any = True) -> None:
    """Compare with the gradients in f64.

    A score is a sum of d terms and has an error of d units of the sum of their sizes, which is an error of the same
    factor in its weight, twice with that of the sum of all. Slopes have the same of the values. What the sums along
    queries and keys add is less than their numbers in units.
    """
    own = UNIT[str(got[1].dtype)]
    groups = q.shape[2] // k.shape[2]
    a, b, c, d = (x.astype(np.float64) for x in (q, k, v, t))
    b, c = (np.repeat(x, groups, axis=2) for x in (b, c))
    depth, n = a.shape[-1], b.shape[1]
    scale = depth**-0.5
    logits = np.where(mask, np.einsum("bihd,bjhd->bhij", a, b) * scale, -1e30)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    unit = max(UNIT["float32"], own)
    slopes = np.einsum("bihd,bjhd->bhij", d, c)
    changes = weights * (slopes - (weights * slopes).sum(-1, keepdims=True)) * scale
    exact = sums(changes, b), turned(changes, a), turned(weights, d)
    sizes = np.einsum("bihd,bjhd->bhij", abs(a), abs(b)) * scale
    error = 2 * ((depth + 8) * UNIT["float32"] * sizes + 2 * own * abs(logits * (weights > 0))).max(
        -1, keepdims=True
    )
    error = error + (n + len(a[0]) + 64) * UNIT["float32"] + 8 * (unit if own > 1e-6 else 0)
    slopes = np.einsum("bihd,bjhd->bhij", abs(d), abs(c))
    total = slopes + (weights * slopes).sum(-1, keepdims=True)
    changes = 2 * error * weights * total * scale
    bounds = sums(changes, abs(b)), turned(changes, abs(a)), turned(error * weights, abs(d))
    for number, (mine, right, bound) in enumerate(zip(got[1:], exact, bounds, strict=True)):
        if groups > 1 and number:
            dims = (*right.shape[:2], -1, groups, right.shape[-1])
            right, bound = (x.reshape(dims).sum(3) for x in (right, bound))
        assert (abs(mine.astype(np.float64) - right) <= bound + 2 * own * abs(right)).all()


def case(
    form: str, m: int, n: int, depth: int, groups: int = 1, dtype: str = "float32"
) -> tuple[Callable[..., Any], list[Array], Any]:
    function, mask = FORMS[form]
    q, k, v = heads(2, m, n, depth, groups=groups, dtype=dtype)
    t = np.random.default_rng(7).standard_normal(q.shape).astype(q.dtype)
    return function, [q, k, v, t], mask(m, n)


# The maximum of "by hand" has a gradient of its own.
@pytest.mark.parametrize("form", [form for form in FORMS if form != "by hand"])
def test_forms(form: str) -> None:
    for m, n, depth in ((83, 83, 64), (150, 101, 32)):
        function, values, mask = case(form, m, n, depth)
        after = compiled(read(gradients(function), values))
        assert is_fused(after)
        assert all(
            i.elements < 4 * m * n
            for i in after.entry.instructions
            if isinstance(i.shape, hlo.Shape)
        )
        check(NativeSimulation(after).run(values), *values, mask=mask)


INSTRUCTION_SETS = ((70, 83, 40, 2, "float32"), (96, 96, 64, 1, "bfloat16"))


@of_each_width
@pytest.mark.parametrize("form", ["causal", "around"])
def test_instruction_sets(form: str, cpu: str) -> None:
    for sizes in INSTRUCTION_SETS:
        function, values, mask = case(form, *sizes)
        after = compiled(read(gradients(function), values), cpu)
        assert is_fused(after)
        check(NativeSimulation(after, cpu).run(values), *values, mask=mask)


def test_the_fusion_says_what_it_means() -> None:
    function, values, mask = case("causal", 83, 70, 24)
    after = compiled(read(gradients(function), values))
    assert is_fused(after)
    check(evaluate(after, values), *values, mask=mask)


def test_the_gradient_of_the_maximum_takes_the_general_way() -> None:
    function, values, mask = case("by hand", 83, 70, 24)
    after = compiled(read(gradients(function), values))
    assert not {"attention", "attention-gradient"} & set(kinds(after))
    check(NativeSimulation(after).run(values), *values, mask=mask)


@pytest.mark.parametrize("form", ["causal", "merged"])
def test_weights_that_are_computed_again(form: str) -> None:
    """The gradients alone, as rematerialisation and programs of their own for the backward pass have them."""
    function, values, mask = case(form, 83, 70, 24)

    def back(q: Any, k: Any, v: Any, t: Any) -> Any:
        return jax.vjp(function, q, k, v)[1](t)

    after = compiled(read(back, values))
    assert is_fused(after)
    got = NativeSimulation(after).run(values)
    check([got[0], *got], *values, mask=mask)


def twice(q: Any, k: Any, v: Any) -> Any:
    """Weights are times a factor, and its square stands in a sum along the keys."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    factor = 1.0 + jnp.arange(k.shape[1]) / 64
    weights = jax.nn.softmax(scores, -1) * factor * factor
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def dropped(q: Any, k: Any, v: Any) -> Any:
    """Dropout, and a soft cap before it."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    weights = jax.nn.softmax(jnp.tanh(scores / 5) * 5, -1)
    i, j = (jax.lax.broadcasted_iota(jnp.int32, scores.shape[-2:], d) for d in (0, 1))
    weights = jnp.where((i * 7 + j * 3) % 5 != 0, weights / 0.8, 0)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def nothing_left(fill: float) -> Callable[..., Any]:
    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
        i, j = (jax.lax.broadcasted_iota(jnp.int32, scores.shape[-2:], d) for d in (0, 1))
        scores = jnp.where((i - j >= 40) & (i - j < 90), scores, fill)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)

    return attend


@pytest.mark.parametrize(
    "function",
    [dropped, twice, *(nothing_left(fill) for fill in (-math.inf, -1e30, -30.0, 0.0))],
    ids=["dropout", "factors", "-inf", "-1e30", "-30", "0"],
)
def test_as_the_general_way(function: Callable[..., Any]) -> None:
    """Dropout; masks by position that leave rows without keys, or weigh something."""
    q, k, v = heads(1, 200, 200, 16)
    t = np.random.default_rng(7).standard_normal(q.shape).astype(q.dtype)
    before = read(gradients(function), [q, k, v, t])
    after = compiled(before)
    assert is_fused(after)
    got = NativeSimulation(after).run([q, k, v, t])
    for mine, right in zip(got, evaluate(before, [q, k, v, t]), strict=True):
        np.testing.assert_array_equal(np.isnan(mine), np.isnan(right))
        finite = ~np.isnan(right)
        # Sums of 200 terms whose sizes are less than 100 together.
        assert (abs(mine - right)[finite] <= 600 * UNIT["float32"] * 100).all()


def other_factor(q: Any, k: Any, v: Any) -> Any:
    """A factor of the scores that is computed from them, as no derivative is taken of it."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
    scores = scores * jax.lax.stop_gradient(scores.mean(-1, keepdims=True))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)


def with_bias(q: Any, k: Any, v: Any) -> Any:
    """The scores have a part that is computed from the queries: their gradient is read twice."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) + q.swapaxes(1, 2)[..., :1]
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores * 0.3, -1), v)


def values_are_keys(q: Any, k: Any, v: Any) -> Any:
    """Keys get two gradients."""
    return standard()(q, k, k * v)


@pytest.mark.parametrize("function", [other_factor, with_bias, values_are_keys])
def test_near_misses(function: Callable[..., Any]) -> None:
    """Whether or not it is one kernel, it is right."""
    q, k, v = heads(2, 64, 64, 16)
    t = np.random.default_rng(7).standard_normal(q.shape).astype(q.dtype)
    before = read(gradients(function), [q, k, v, t])
    after = compiled(before)
    for mine, right in zip(
        NativeSimulation(after).run([q, k, v, t]), evaluate(before, [q, k, v, t]), strict=True
    ):
        np.testing.assert_allclose(mine, right, rtol=1e-3, atol=1e-3)


def test_powers_of_a_factor() -> None:
    """A factor of the weights that is squared 40 times: each instruction is looked at once."""
    q, k, v = (x[0, :, 0] for x in heads(1, 256, 256, 64))
    t = np.random.default_rng(7).standard_normal(q.shape).astype(q.dtype)
    b = np.random.default_rng(8).integers(-1, 2, (256, 256)).astype(np.float32)

    def run(q: Any, k: Any, v: Any, t: Any, b: Any) -> Any:
        def attend(q: Any, k: Any, v: Any) -> Any:
            m = b
            for _ in range(40):
                m = m * m
            return (jax.nn.softmax(q @ k.T / 8, -1) * m) @ v

        result, back = jax.vjp(attend, q, k, v)
        return result, *back(t)

    after = compiled(read(run, [q, k, v, t, b]))
    assert is_fused(after)
    got = NativeSimulation(after).run([q, k, v, t, b])
    q, k, v, t, b = (x.astype(np.float64) for x in (q, k, v, t, b))
    weights = np.exp(q @ k.T / 8)
    weights /= weights.sum(-1, keepdims=True)
    slopes = t @ v.T * b * b
    changes = weights * (slopes - (weights * slopes).sum(-1, keepdims=True)) / 8
    exact = [(weights * b * b) @ v, changes @ k, changes.T @ q, (weights * b * b).T @ t]
    for mine, right in zip(got, exact, strict=True):
        # Weights are right within 100 units and sums have 256 terms, whose sizes are less than 200 together.
        assert (abs(mine - right) <= 400 * UNIT["float32"] * 200).all()
