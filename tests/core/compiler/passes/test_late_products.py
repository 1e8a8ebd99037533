"""Sums of products over the steps of a loop are one product behind it; everything else stays where it is."""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler import pipeline
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.late_products import multiply_late
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.loops import GENERATED, compiled, loops, read

STEPS, ROWS, WIDTH = 12, 4, 64
CPU = "x86-64-v3"


def before_the_pass(function, arguments, **options):
    place = GENERATED.index(multiply_late)
    program = replace(read(function, arguments), **options)
    return pipeline.run(program, for_cpu(CPU), Dump(), GENERATED[:place])


def after(function, arguments):
    """The products in the loops and those of the entry after the pass, and whether the program is what it was."""
    before = before_the_pass(function, arguments)
    module = multiply_late(before, for_cpu(CPU))
    expected = [np.asarray(x) for x in evaluate(before, arguments)]
    results = [np.asarray(x) for x in evaluate(module, arguments)]
    for a, b in zip(results, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        # Both are sums of at most STEPS * ROWS terms in f32, rounded in another order.
        bound = STEPS * ROWS * np.finfo(np.float32).eps * np.abs(b).max()
        np.testing.assert_allclose(a, b, rtol=0, atol=bound)
    return *products(module), module is before


def products(module):
    inside = [
        i.dims for loop in loops(module) for i in loop.called[1].instructions if i.opcode == "dot"
    ]
    return inside, [i.dims for i in module.entry.instructions if i.opcode == "dot"]


def given(*, width=WIDTH, rows=ROWS):
    random = np.random.default_rng(5)
    return [
        (random.normal(size=shape) * 0.2).astype(np.float32)
        for shape in ((width, width), (width, width), (STEPS, rows, width))
    ]


def recurrent(wide, own, x, *, reverse=False):
    def step(h, x):
        h = jnp.tanh(x @ wide + h @ own)
        return h, h

    start = jnp.zeros(x.shape[1:], x.dtype)
    return (lax.scan(step, start, x, reverse=reverse)[1] ** 2).sum()


@pytest.mark.parametrize("reverse", [False, True])
def test_gradients_of_recurrent_weights_are_one_product_each(reverse):
    """The gradients of both weights and of the inputs leave the loop; the gradient of the state stays."""

    def function(*arguments):
        return jax.grad(lambda *a: recurrent(*a, reverse=reverse), argnums=(0, 1, 2))(*arguments)

    inside, outside, _ = after(function, given())
    assert sorted(outside) == [(STEPS, ROWS, WIDTH), (WIDTH, WIDTH), (WIDTH, WIDTH)]
    assert inside == [(ROWS, WIDTH)] * 3  # two of them are the forward loop's


def test_the_loop_no_longer_carries_the_sum():
    module = compiled(jax.grad(recurrent, argnums=(0, 1)), given())
    carried = [s.dims for i in loops(module) for s in i.result_shapes]
    assert (STEPS, ROWS, WIDTH) in carried
    backward = [i for i in loops(module) if len(products(module)[0])]
    assert backward
    adds = [
        i.dims for loop in loops(module) for i in loop.called[1].instructions if i.opcode == "add"
    ]
    assert (WIDTH, WIDTH) not in adds


def test_a_sum_that_starts_at_something_keeps_it():
    def function(start, other, x):
        def step(s, rows):
            return s + rows.T @ rows, rows[0]

        return lax.scan(step, start, x)

    inside, outside, _ = after(function, given())
    assert (inside, outside) == ([], [(WIDTH, WIDTH)])


def summed(change, result=lambda s: s):
    """A scan that adds products of inputs; ``change`` makes of the sum and of the product what follows."""

    def function(start, other, x):
        def step(s, rows):
            return change(s, rows.T @ rows, rows), result(s)[0]

        return lax.scan(step, start, x)

    return function


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda s, p, rows: s - p, id="subtracted"),
        pytest.param(lambda s, p, rows: 0.5 * s + p, id="decayed"),
        pytest.param(lambda s, p, rows: s + jnp.tanh(p), id="not linear"),
        pytest.param(lambda s, p, rows: s + p + s, id="added twice"),
    ],
)
def test_other_sums_stay(change):
    assert after(summed(change, lambda s: jnp.zeros(1)), given())[2]


def test_a_sum_that_a_step_reads_stays():
    assert after(summed(lambda s, p, rows: s + p), given())[2]


def test_a_sum_that_the_condition_reads_stays():
    def function(start, other, x):
        def advance(state):
            i, s = state
            return i + 1, s + x[i].T @ x[i]

        return lax.while_loop(
            lambda state: (state[0] < STEPS) & (state[1].sum() < 1e9),
            advance,
            (jnp.int32(0), start),
        )

    assert after(function, given())[2]


def test_small_sums_stay():
    """Small loops become one kernel, and what they add stays in registers."""
    assert after(jax.grad(recurrent, argnums=(0, 1)), given(width=8))[2]


def test_factors_as_large_as_the_sum_stay():
    assert after(jax.grad(recurrent, argnums=(0, 1)), given(rows=WIDTH))[2]


def test_no_more_is_kept_than_the_loop_has_of_its_steps():
    """A loss in chunks, whose logits are never there at once: keeping them would defeat its purpose."""
    random = np.random.default_rng(5)
    head = random.normal(size=(WIDTH, 512)).astype(np.float32) * 0.1
    x = random.normal(size=(STEPS, ROWS, WIDTH)).astype(np.float32)

    def function(head, x):
        def loss(head):
            add = lambda total, rows: (total + jax.nn.logsumexp(rows @ head, -1).sum(), None)
            return lax.scan(jax.checkpoint(add), jnp.float32(0), x)[0]

        return jax.grad(loss)(head)

    inside, outside, _ = after(function, [head, x])
    assert (WIDTH, 512) in inside or (512, WIDTH) in inside
    assert outside == []


def test_an_output_that_a_step_reads_stays():
    """Behind the loop it would be computed a second time."""

    def function(start, own, x):
        def step(state, rows):
            total, before = state
            factor = jnp.sin(rows + before)
            output = factor @ own
            return (total + rows.T @ factor, output), output

        return lax.scan(step, (start, x[0]), x)

    inside, outside, _ = after(function, given())
    assert (inside, outside) == ([(ROWS, WIDTH)], [(WIDTH, WIDTH)])


def added(start, x):
    return lax.scan(lambda s, rows: (s + rows.T @ rows, rows[0]), start, x)


def test_a_sum_of_small_floats_is_rounded_once():
    """The product of all steps is 100,000, which f16 does not have; the sum is 40,000."""
    start = np.full((WIDTH, WIDTH), -60_000, np.float16)
    x = np.full((STEPS, ROWS, WIDTH), (100_000 / STEPS / ROWS) ** 0.5, np.float16)
    module = multiply_late(before_the_pass(added, [start, x]), for_cpu(CPU))
    assert products(module)[0] == []
    total = np.asarray(evaluate(module, [start, x])[0])
    exact = STEPS * ROWS * np.float64(x[0, 0, 0]) ** 2 - 60_000
    np.testing.assert_array_equal(total, np.full_like(start, exact))


@pytest.mark.parametrize(
    ("dtype", "stays"), [(np.float16, True), (jnp.bfloat16, True), (np.float32, False)]
)
def test_sums_that_are_rounded_in_every_step_stay(dtype, stays):
    """With ``xla_allow_excess_precision`` off."""
    start, _, x = (a.astype(dtype) for a in given())
    before = before_the_pass(added, [start, x], exact=True)
    assert (multiply_late(before, for_cpu(CPU)) is before) == stays


def test_weights_with_as_many_rows_as_there_are_steps_are_not_arrays_of_steps():
    """They are there once, however often a step reads them."""
    random = np.random.default_rng(5)
    total, a, b, c = random.normal(size=(4, STEPS, 1024)).astype(np.float32)
    x = random.normal(size=(STEPS, 2, STEPS)).astype(np.float32)

    def function(total, a, b, c, x):
        def step(total, rows):
            factor = jnp.tanh(rows @ a) * jnp.tanh(rows @ b) * jnp.tanh(rows @ c)
            return total + rows.T @ factor, rows.sum()

        return lax.scan(step, total, x)

    assert after(function, [total, a, b, c, x])[2]
