"""A loop does not stack cheap functions of numbers that it stacks anyway; everything else stays as it is."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler import pipeline
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.derived_stacks import derive_stacks
from tripont.core.compiler.passes.while_loops import simplify_loops
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.loops import GENERATED, loops, read

STEPS, WIDTH = 7, 40


def stacked(function, arguments):
    """The arrays of all steps that the first loop writes, without and with the pass, which changes no number."""
    place = GENERATED.index(derive_stacks)
    before = pipeline.run(read(function, arguments), for_cpu(), Dump(), GENERATED[:place])
    module = derive_stacks(before)
    for a, b in zip(evaluate(module, arguments), evaluate(before, arguments), strict=True):
        np.testing.assert_array_equal(a, b)
    counts = []
    for made in (before, module):
        first, *_ = loops(simplify_loops(made))
        results = first.called[1].results
        counts.append(sum(r.opcode == "dynamic-update-slice" for r in results))
    return counts


def numbers(dtype=np.float32):
    return (np.random.default_rng(3).normal(size=(STEPS, WIDTH)) * 0.5).astype(dtype)


def gated(x, *, reverse=False):
    """A layer whose gradient reads a gate, and the gate's derivative."""

    def step(c, x):
        gate = jax.nn.sigmoid(x + c)
        c = gate * c + (1 - gate) * jnp.tanh(x)
        return c, c

    start = jnp.zeros(x.shape[1:], x.dtype)
    return (lax.scan(step, start, x, reverse=reverse)[1] ** 2).sum()


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_derivatives_of_gates_are_computed_from_gates(reverse, dtype):
    def function(x):
        return jax.grad(lambda x: gated(x, reverse=reverse))(x)

    with jax.enable_x64(dtype is np.float64):
        before, now = stacked(function, [numbers(dtype)])
    assert now < before


def test_numbers_of_16_bits_are_stacked():
    """They are rounded where they are stacked."""
    before, now = stacked(jax.grad(gated), [numbers(jnp.bfloat16)])
    assert now == before


def two_loops(second, *, place=lambda i: i, derived=lambda a: 1 - a):
    """A loop that stacks a number and one derived from it, and a loop that takes steps of both."""

    def function(x):
        def write(i, state):
            c, stack, other = state
            c = jnp.sin(c + element(x, i))
            stack = lax.dynamic_update_index_in_dim(stack, c, i, 0)
            return c, stack, lax.dynamic_update_index_in_dim(other, derived(c), place(i), 0)

        empty = jnp.zeros((STEPS, WIDTH), x.dtype)
        _, stack, other = lax.fori_loop(0, STEPS, write, (x[0], empty, empty))
        return lax.fori_loop(0, STEPS, lambda i, c: second(i, c, stack, other), x[0])

    return function


def element(array, i):
    return lax.dynamic_index_in_dim(array, i, 0, keepdims=False)


def both(i, c, stack, other):
    return jnp.cos(c * element(stack, STEPS - 1 - i) + element(other, i))


def test_two_loops():
    assert stacked(two_loops(both), [numbers()]) == [2, 1]


def in_parts(*, rows=STEPS, place=lambda i: i, width=WIDTH, shape=(), end=STEPS, take=None):
    """Two loops of which the first writes both numbers at the same place: rows of so many elements, those of the second
    stack in another shape. ``take``: what the second loop makes of a carried number, its step and both stacks.
    """

    def function(x):
        def write(i, state):
            c, stack, other = state
            c = jnp.sin(c + element(x, i))
            stack = lax.dynamic_update_slice(stack, c[None, :width], (place(i), 0))
            derived = (1 - c[:width]).reshape(1, *(shape or (width,)))
            start = (place(i), *[0] * (other.ndim - 1))
            return c, stack, lax.dynamic_update_slice(other, derived, start)

        empty = jnp.zeros((rows, WIDTH), x.dtype)
        other = jnp.zeros((rows, *(shape or (WIDTH,))), x.dtype)
        _, stack, other = lax.fori_loop(0, STEPS, write, (x[0], empty, other))
        return lax.fori_loop(0, end, lambda i, state: take(i, *state), (x[0], stack, other))[0]

    return function


def in_order(i, c, stack, other):
    rows = stack.shape[0]
    c = jnp.cos(c + element(stack, rows - 1 - i) + element(other, i).reshape(WIDTH))
    return c, stack, other


def two_steps(i, c, stack, other):
    c = jnp.cos(c + element(stack, i) + lax.dynamic_slice_in_dim(other, i, 2).sum(0))
    return c, stack, other


def overwriting(i, c, stack, other):
    c = jnp.cos(c + element(stack, i) + element(other, STEPS - 1 - i))
    return c, lax.dynamic_update_index_in_dim(stack, c, i, 0), other


@pytest.mark.parametrize(
    "function",
    [
        in_parts(rows=STEPS + 2, end=STEPS + 2, take=in_order),
        in_parts(place=lambda i: i + 1, take=in_order),
        in_parts(width=WIDTH // 2, take=in_order),
        in_parts(shape=(4, WIDTH // 4), take=in_order),
        in_parts(take=two_steps),
        in_parts(take=overwriting),
    ],
    ids=["rows that stay", "first row", "half a row", "other shape", "two steps", "overwritten"],
)
def test_stacks_that_are_not_rows_of_all_steps(function):
    before, now = stacked(function, [numbers()])
    assert now == before > 0


@pytest.mark.parametrize(
    "function",
    [
        two_loops(
            lambda i, c, stack, other: jnp.cos(c + element(other, i))
        ),  # the other one is not given
        two_loops(lambda i, c, stack, other: jnp.cos(c * element(stack, i) + other.sum(0))),
        two_loops(both, place=lambda i: STEPS - 1 - i),
        two_loops(both, place=lambda i: i // 2),  # not all are written
        two_loops(both, derived=jnp.exp),
        two_loops(both, derived=lambda a: jnp.roll(a, 1)),
        two_loops(both, derived=lambda a: ((a * a - 1) * a + 3) * a - 0.5),
    ],
    ids=["alone", "whole", "backwards", "in part", "expensive", "moved", "long"],
)
def test_others_are_stacked(function):
    before, now = stacked(function, [numbers()])
    assert now == before > 0
