"""Attention as one kernel, against NumPy in f64: the forms that programs have, near misses, extreme values."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.codegen.kernels.test_packed_dot import cpu, kinds, of_each_width
from tests.core.compiler.test_native import NativeSimulation

Array = np.ndarray[Any, Any]
__all__ = ["cpu"]
LEAST = float(-0.7 * np.finfo(np.float32).max)
UNIT = {"float32": 2.0**-24, "bfloat16": 2.0**-9, "float16": 2.0**-12, "float64": 2.0**-53}


def read(function: Callable[..., Any], arguments: list[Array]) -> hlo.Module:
    """The program as JAX gives it, with all of its parameters."""
    return read_program(
        jax.jit(function, keep_unused=True).lower(*arguments).as_text().encode(), "mlir"
    )


def compiled(before: hlo.Module, cpu: str = "host") -> hlo.Module:
    return pipeline.run(before, for_cpu(cpu, False), Dump())


def is_fused(after: hlo.Module) -> bool:
    """Whether it is one kernel, and no array has as many elements as there are scores."""
    return "attention" in kinds(after)


def heads(
    batch: int, m: int, n: int, depth: int, count: int = 2, groups: int = 1, dtype: str = "float32"
) -> list[Array]:
    """Queries [batch, m, count * groups, depth], keys and values [batch, n, count, depth]."""
    rng = np.random.default_rng(m * n + depth)
    dims = [(batch, m, count * groups, depth), (batch, n, count, depth), (batch, n, count, depth)]
    return [rng.standard_normal(d).astype(jnp.dtype(dtype)) for d in dims]


def check(
    got: Array, q: Array, k: Array, v: Array, bias: Any = 0.0, mask: Any = True, scale: float = 0.0
) -> None:
    """That ``got`` [b, m, h, d] is softmax(scale * q k + bias) v, within the bound of its sums.

    Scores are sums of d terms; an error e of a logit is a factor of up to 1 + e of a weight and of the sum of all; the
    weights are sums of n terms, and so are the results.
    """
    unit, own = UNIT["float64" if got.dtype == np.float64 else "float32"], UNIT[str(got.dtype)]
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    groups = q.shape[2] // k.shape[2]
    k, v = (np.repeat(x, groups, axis=2) for x in (k, v))
    scale = scale or q.shape[-1] ** -0.5
    logits = np.einsum("bihd,bjhd->bhij", q, k) * scale + bias
    logits = np.where(mask, logits, LEAST)
    sizes = np.einsum("bihd,bjhd->bhij", abs(q), abs(k)) * scale
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    exact = np.einsum("bhij,bjhd->bihd", weights, v)
    error = ((q.shape[-1] + 6) * unit * sizes + 4 * unit * np.abs(bias)).max(-1)
    error = 2 * error + (len(k[0]) + 24) * unit
    bound = np.einsum("bhij,bjhd->bihd", weights, abs(v)) * np.swapaxes(error, 1, 2)[..., None]
    assert (np.abs(got.astype(np.float64) - exact) <= bound + 2 * own * abs(exact)).all()


def standard(**settings: Any) -> Callable[..., Any]:
    return lambda q, k, v: jax.nn.dot_product_attention(q, k, v, **settings)


def by_hand(q: Any, k: Any, v: Any) -> Any:
    """Heads in front, masked with -inf, divided behind the exponential."""
    q, k, v = (x.swapaxes(1, 2) for x in (q, k, v))
    scores = q @ k.swapaxes(-1, -2) * q.shape[-1] ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones(scores.shape[-2:], bool)), scores, -jnp.inf)
    weights = jnp.exp(scores - scores.max(-1, keepdims=True))
    return (weights / weights.sum(-1, keepdims=True) @ v).swapaxes(1, 2)


def scaled_before(q: Any, k: Any, v: Any) -> Any:
    """The factor is on the queries, keys come first in the product, and weights are times 1 / sum."""
    scores = jnp.einsum("bkhd,bqhd->bhkq", k, q * q.shape[-1] ** -0.5).swapaxes(-1, -2)
    weights = jnp.exp(scores - jax.lax.stop_gradient(scores.max(-1, keepdims=True)))
    weights = weights * (1.0 / weights.sum(-1, keepdims=True))
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def merged(q: Any, k: Any, v: Any) -> Any:
    """Batch and heads are one dimension in the products, and two in between."""
    b, m, h, d = q.shape
    n = k.shape[1]
    q, k, v = (x.swapaxes(1, 2).reshape(b * h, -1, d) for x in (q, k, v))
    scores = jnp.einsum("bqd,bkd->bqk", q, k).reshape(b, h, m, n) * d**-0.5
    weights = jax.nn.softmax(scores, -1).reshape(b * h, m, n)
    return (weights @ v).reshape(b, h, m, d).swapaxes(1, 2)


def triangle(m: int, n: int) -> Array:
    return np.arange(m)[:, None] >= np.arange(n)


def window(m: int, n: int, before: int, behind: int) -> Array:
    distance = np.arange(m)[:, None] - np.arange(n)
    return (distance <= before) & (distance >= -behind)


def lengths(q: Any, k: Any, v: Any) -> Any:
    return standard(key_value_seq_lengths=jnp.array([7, 70]))(q, k, v)


FORMS: dict[str, tuple[Callable[..., Any], Callable[[int, int], Any]]] = {
    "plain": (standard(), lambda m, n: True),
    "causal": (standard(is_causal=True), triangle),
    "local": (
        standard(is_causal=True, local_window_size=(16, 0)),
        lambda m, n: triangle(m, n) & window(m, n, 16, 0),
    ),
    "around": (standard(local_window_size=(9, 40)), lambda m, n: window(m, n, 9, 40)),
    "by hand": (by_hand, triangle),
    "scaled before": (scaled_before, lambda m, n: True),
    "merged": (merged, lambda m, n: True),
    "lengths": (
        lengths,
        lambda m, n: (np.arange(n) < np.array([[7], [70]]))[:, None, None, :],
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_forms(form: str) -> None:
    function, mask = FORMS[form]
    for m, n, depth in ((83, 83, 64), (150, 101, 24)):
        values = heads(2, m, n, depth)
        after = compiled(read(function, values))
        assert is_fused(after)
        assert all(
            i.elements < 4 * m * n
            for i in after.entry.instructions
            if isinstance(i.shape, hlo.Shape)
        )
        check(NativeSimulation(after).run(values)[0], *values, mask=mask(m, n))


@of_each_width
@pytest.mark.parametrize("form", ["causal", "around"])
def test_instruction_sets(form: str, cpu: str) -> None:
    function, mask = FORMS[form]
    for m, n, depth, dtype in ((70, 83, 40, "float32"), (96, 96, 64, "bfloat16")):
        values = heads(2, m, n, depth, dtype=dtype)
        after = compiled(read(function, values), cpu)
        assert is_fused(after)
        check(NativeSimulation(after, cpu).run(values)[0], *values, mask=mask(m, n))


def dropped(q: Any, k: Any, v: Any, keep: Any) -> Any:
    """Dropout, and a soft cap before it."""
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * q.shape[-1] ** -0.5
    weights = jax.nn.softmax(jnp.tanh(scores / 5) * 5, -1)
    weights = jnp.where(keep, weights / 0.75, 0)
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def test_dropout_and_soft_cap() -> None:
    q, k, v = heads(2, 90, 75, 32)
    keep = np.random.default_rng(1).random((2, 2, 90, 75)) < 0.75
    after = compiled(read(dropped, [q, k, v, keep]))
    assert is_fused(after)
    (got,) = NativeSimulation(after).run([q, k, v, keep])
    wide = [x.astype(np.float64) for x in (q, k, v)]
    scores = np.tanh(np.einsum("bqhd,bkhd->bhqk", *wide[:2]) * 32**-0.5 / 5) * 5
    weights = np.exp(scores - scores.max(-1, keepdims=True))
    weights = np.where(keep, weights / weights.sum(-1, keepdims=True) / 0.75, 0)
    # Sums of 75 terms, of which weights are right within 100 units.
    bound = 256 * UNIT["float32"] * np.einsum("bhqk,bkhd->bqhd", weights, abs(wide[2]))
    assert (abs(got - np.einsum("bhqk,bkhd->bqhd", weights, wide[2])) <= bound).all()


def test_bias_and_mask() -> None:
    q, k, v = heads(2, 70, 101, 48)
    rng = np.random.default_rng(2)
    bias = rng.standard_normal((1, 2, 70, 101)).astype(np.float32)
    mask = rng.random((2, 1, 70, 101)) < 0.8
    for a, b in ((bias, True), (0.0, mask), (bias, mask)):
        given = {name: x for name, x in (("bias", a), ("mask", b)) if isinstance(x, np.ndarray)}
        values = [q, k, v, *given.values()]

        def attend(q: Any, k: Any, v: Any, *rest: Any, names: Any = tuple(given)) -> Any:
            return standard(**dict(zip(names, rest, strict=True)))(q, k, v)

        after = compiled(read(attend, values))
        assert is_fused(after)
        check(NativeSimulation(after).run(values)[0], q, k, v, bias=a, mask=b)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_types(dtype: str) -> None:
    wide = dtype == "float64"  # JAX's own has an f32 softmax
    with jax.enable_x64(wide):
        values = heads(1, 65, 129, 80, groups=1 if wide else 3, dtype=dtype)
        after = compiled(read(by_hand if wide else standard(is_causal=True), values))
        assert is_fused(after)
        check(NativeSimulation(after).run(values)[0], *values, mask=triangle(65, 129))


@pytest.mark.parametrize("groups", [1, 4, 16])
def test_a_query(groups: int) -> None:
    """Decoding: one query, and keys up to a position."""
    values = heads(2, 1, 515, 64, groups=groups)
    until = np.array([300, 3], np.int32)

    def attend(q: Any, k: Any, v: Any, until: Any) -> Any:
        mask = (jnp.arange(515) <= until[:, None])[:, None, None]
        return standard(mask=mask)(q, k, v)

    after = compiled(read(attend, [*values, until]))
    assert is_fused(after)
    mask = (np.arange(515) <= until[:, None])[:, None, None]
    check(NativeSimulation(after).run([*values, until])[0], *values, mask=mask)


def nothing_left(fill: float) -> Callable[..., Any]:
    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bqhd,bkhd->bhqk", q, k)
        i, j = (jax.lax.broadcasted_iota(jnp.int32, scores.shape[-2:], d) for d in (0, 1))
        scores = jnp.where((i - j >= 40) & (i - j < 90), scores, fill)
        return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores, -1), v)

    return attend


@pytest.mark.parametrize("fill", [-math.inf, LEAST, -1e9, -30.0, 0.0])
def test_rows_without_keys(fill: float) -> None:
    """Of 40 rows all keys are masked: the general way's mean, or NaN. -30 and 0 weigh something in other rows too."""
    values = heads(1, 200, 200, 16)
    values[0] *= 4
    before = read(nothing_left(fill), values)
    (exact,) = evaluate(before, values)
    after = compiled(before)
    assert is_fused(after)
    (got,) = NativeSimulation(after).run(values)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    assert np.isnan(exact).any() == (fill == -math.inf)
    assert np.nanmax(abs(got - exact)) < 300 * UNIT["float32"] * 64


@pytest.mark.parametrize("value", [math.inf, -math.inf, math.nan, 1e30, -1e30])
@pytest.mark.parametrize("form", ["plain", "causal"])
def test_extreme_scores(form: str, value: float) -> None:
    """Of some queries and keys; as the general way has it, but for values of keys that a causal mask leaves out."""
    q, k, v = heads(1, 130, 130, 32)
    q[0, 50, 0, 3], k[0, 90, 1, 5] = value, value
    before = read(FORMS[form][0], [q, k, v])
    (exact,) = evaluate(before, [q, k, v])
    (got,) = NativeSimulation(compiled(before)).run([q, k, v])
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    finite = ~np.isnan(exact)
    assert (abs(got - exact)[finite] <= 300 * UNIT["float32"] * 8).all()


@pytest.mark.parametrize(
    ("dtype", "size"), [("float32", 3e38), ("bfloat16", 3e38), ("float64", 1e308), ("float16", 6e4)]
)
@pytest.mark.parametrize("scale", [1e-3, 4.0])
def test_large_values(dtype: str, size: float, scale: float) -> None:
    """The mean of numbers is of their size, though their sum overflows."""
    with jax.enable_x64(dtype == "float64"):
        q, k, v = heads(1, 70, 301, 32, dtype=dtype)
        q = (q * scale).astype(q.dtype)
        v = np.full_like(v, size)
        after = compiled(read(by_hand if dtype == "float64" else standard(), [q, k, v]))
        assert is_fused(after)
        (got,) = NativeSimulation(after).run([q, k, v])
    mask = triangle(70, 301) if dtype == "float64" else True
    check(got, q, k, v, mask=mask)


def test_large_values_and_factors() -> None:
    """A factor of the weights that would overflow with exponentials of 1."""

    def attend(q: Any, k: Any, v: Any) -> Any:
        weights = jax.nn.softmax(jnp.einsum("bqhd,bkhd->bhqk", q, k), -1)
        return jnp.einsum("bhqk,bkhd->bqhd", weights * (3e37 * (k[0, :, 0, 0] * 0 + 1)) * 30.0, v)

    q, k, v = heads(1, 70, 301, 32)
    q *= 1e-3
    v = np.full_like(v, 0.25)
    after = compiled(read(attend, [q, k, v]))
    assert is_fused(after)
    (got,) = NativeSimulation(after).run([q, k, v])
    np.testing.assert_allclose(got, 30 * 3e37 / 4, rtol=400 * UNIT["float32"])


def softmax_parts(q: Any, k: Any) -> tuple[Any, Any, Any]:
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) * 0.25
    largest = scores.max(-1, keepdims=True)
    exp = jnp.exp(scores - largest)
    return scores, exp, exp.sum(-1, keepdims=True)


def values_of(weights: Any, v: Any) -> Any:
    return jnp.einsum("bhqk,bkhd->bqhd", weights, v)


def other_maximum(q: Any, k: Any, v: Any) -> Any:
    scores, _, _ = softmax_parts(q, k)
    exp = jnp.exp(scores - (scores * 0.5).max(-1, keepdims=True))
    return values_of(exp / exp.sum(-1, keepdims=True), v)


def other_axis(q: Any, k: Any, v: Any) -> Any:
    scores, _, _ = softmax_parts(q, k)
    return values_of(jax.nn.softmax(scores, -2), v)


def other_sum(q: Any, k: Any, v: Any) -> Any:
    _, exp, _ = softmax_parts(q, k)
    return values_of(exp / (exp * exp).sum(-1, keepdims=True), v)


def squared(q: Any, k: Any, v: Any) -> Any:
    _, exp, total = softmax_parts(q, k)
    weights = exp / total
    return values_of(weights * weights, v)


def shifted(q: Any, k: Any, v: Any) -> Any:
    """An extra logit of 0, whose value is 0."""
    _, exp, total = softmax_parts(q, k)
    return values_of(exp / (total + 1), v)


def offset(q: Any, k: Any, v: Any) -> Any:
    _, exp, total = softmax_parts(q, k)
    return values_of(exp / total + 0.01, v)


def with_weights(q: Any, k: Any, v: Any) -> Any:
    _, exp, total = softmax_parts(q, k)
    return values_of(exp / total, v), exp / total


def with_scores(q: Any, k: Any, v: Any) -> Any:
    scores, exp, total = softmax_parts(q, k)
    return values_of(exp / total, v), scores.sum()


def values_of_queries(q: Any, k: Any, v: Any) -> Any:
    """Each query has values of its own."""
    _, exp, total = softmax_parts(q, k)
    return jnp.einsum("bhqk,bqhkd->bqhd", exp / total, v[:, None].swapaxes(2, 3) * q[:, :, :, None])


def along_both(q: Any, k: Any, v: Any) -> Any:
    scores, _, _ = softmax_parts(q, k)
    exp = jnp.exp(scores - scores.max((-2, -1), keepdims=True))
    return values_of(exp / exp.sum((-2, -1), keepdims=True), v)


NEAR_MISSES = [
    *(other_maximum, other_axis, other_sum, squared, shifted, offset, with_weights, with_scores),
    *(values_of_queries, along_both),
]


@pytest.mark.parametrize("function", NEAR_MISSES, ids=lambda f: f.__name__)
def test_near_misses(function: Callable[..., Any]) -> None:
    """What is almost attention is computed in the general way, and right."""
    values = heads(2, 64, 64, 16)
    before = read(function, values)
    after = compiled(before)
    assert not is_fused(after)
    for got, exact in zip(
        NativeSimulation(after).run(values), evaluate(before, values), strict=True
    ):
        np.testing.assert_allclose(got, exact, rtol=1e-4, atol=1e-4)


def test_the_fusion_says_what_it_means() -> None:
    """The fusion's own computation is the program: evaluated, it gives what the kernel gives."""
    values = heads(2, 83, 70, 24)
    after = compiled(read(standard(is_causal=True), values))
    (fusion,) = (i for i in after.entry.instructions if i.attributes.get("kind") == "attention")
    assert fusion.name.startswith("attention")
    assert {i.dtype for i in fusion.called[0].parameters} == {dtypes.F32}
    check(evaluate(after, values)[0], *values, mask=triangle(83, 70))


def test_exact_rounding_takes_the_general_way() -> None:
    values = heads(1, 64, 64, 32, dtype="bfloat16")
    before = read(standard(), values)
    before.exact = True
    assert not is_fused(compiled(before))


def guarded(q: Any, k: Any, v: Any, mask: Any) -> Any:
    """PyTorch's softmax, which gives 0 for rows without keys, as PyTorch/XLA has it."""
    b, m, h, d = q.shape
    q, k, v = (x.swapaxes(1, 2).reshape(b * h, -1, d) for x in (q, k, v))
    scores = jnp.einsum("bqd,bkd->bqk", q, k).reshape(b, h, m, -1)
    scores = jnp.where(mask, scores, -jnp.inf)
    nothing = (scores == -jnp.inf).all(-1, keepdims=True)
    weights = jnp.where(nothing, 0.0, jax.nn.softmax(scores, -1)).reshape(b * h, m, -1)
    return (weights @ v).reshape(b, h, m, d).swapaxes(1, 2)


def test_rows_without_keys_may_be_zero() -> None:
    q, k, v = heads(2, 70, 83, 16)
    q[0, 5, 1, 3] = math.nan
    mask = np.random.default_rng(1).random((70, 83)) < 0.5
    mask[[7, 30]] = False
    before = read(guarded, [q, k, v, mask])
    (exact,) = evaluate(before, [q, k, v, mask])
    after = compiled(before)
    assert is_fused(after)
    (got,) = NativeSimulation(after).run([q, k, v, mask])
    assert not got[:, 7].any()
    assert np.isnan(got[0, 5, 1]).all()
    np.testing.assert_array_equal(np.isnan(got), np.isnan(exact))
    assert np.nanmax(abs(got - exact)) < 300 * UNIT["float32"] * 16


@pytest.mark.parametrize("fill", [-math.inf, -1e9])
@pytest.mark.parametrize("factor", ["before", "behind"])
def test_what_an_added_mask_leaves_out(fill: float, factor: str) -> None:
    """Blocks that an added -inf masks by their positions are not computed: a NaN in their values does not arrive. What
    is added otherwise may not be the last word on a logit, and all are computed.
    """
    q, k, v = heads(2, 300, 300, 32)
    k[:, 299, :, 0] = 1.0

    def attend(q: Any, k: Any, v: Any) -> Any:
        scores = jnp.einsum("bihd,bjhd->bhij", q, k)
        i, j = (jax.lax.broadcasted_iota(jnp.int32, (300, 300), d) for d in (0, 1))
        mask = jnp.where(i >= j, 0.0, fill)
        scores = scores * 0.25 + mask if factor == "before" else mask + scores * 0.25
        return jnp.einsum("bhij,bjhd->bihd", jax.nn.softmax(scores, -1), v)

    after = compiled(read(attend, [q, k, v]))
    assert is_fused(after)
    (got,) = NativeSimulation(after).run([q, k, v])
    check(got, q, k, v, mask=np.tri(300, dtype=bool), scale=0.25)
    v[:, 299] = math.nan
    (got,) = NativeSimulation(after).run([q, k, v])
    assert np.isnan(got[:, 299]).all()
    assert np.isnan(got[:, :64]).any() == (fill != -math.inf)
