"""Loops that read what their last steps wrote: the rows are a state of their own, and the array is only written."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler import pipeline
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.carried_rows import DEEPEST, carry_rows
from tripont.core.compiler.passes.fuse_loops import fuse_loops
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.loops import GENERATED, compiled, fused_loops, loops, read
from tests.core.compiler.simulate import Simulation

LENGTH = 40


def given(*dims, dtype=np.float32):
    rng = np.random.default_rng(4)
    return [rng.random((LENGTH, *dims)).astype(dtype), rng.random(LENGTH).astype(dtype)]


def windows(form, arguments):
    """The shapes of the states that loops of the program get."""
    before = GENERATED[: GENERATED.index(fuse_loops)]
    module = pipeline.run(read(form, arguments), for_cpu(), Dump(), before)
    found = []
    for loop in loops(module):
        carried = carry_rows(loop)
        if carried is not None:
            found += [o.dims for o in carried.operands[len(loop.operands) :]]
    return found


def check(form, arguments, rtol=1e-6):
    """The compiled program, on memory full of garbage, computes what the program that was read does."""
    expected = evaluate(read(form, arguments), arguments)
    results = Simulation(compiled(form, arguments)).run(arguments)
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_allclose(a.astype(np.float64), b.astype(np.float64), rtol=rtol)


# -------------------------------------------------------------------------------------------------- recurrences


def next_one(x, y):
    return lax.fori_loop(0, LENGTH - 1, lambda i, x: x.at[i + 1].set(0.5 * x[i] + y[i]), x)


def next_of_two(x, y):
    return lax.fori_loop(2, LENGTH, lambda i, x: x.at[i].set(0.5 * x[i - 1] - x[i - 2] * y[i]), x)


def distant(x, y):
    """Only the value of five steps before."""
    return lax.fori_loop(5, LENGTH, lambda i, x: x.at[i].set(0.5 * x[i - 5] + y[i]), x)


def mean_of_a_window(x, y):
    def step(i, x):
        window = lax.dynamic_slice(x, (i - 8,), (8,))
        return lax.dynamic_update_slice(x, window.mean(keepdims=True) + y[i], (i,))

    return lax.fori_loop(8, LENGTH, step, x)


def backwards(x, y):
    def step(k, x):
        i = LENGTH - 3 - k
        return x.at[i].set(0.5 * x[i + 1] - y[i] * x[i + 2])

    return lax.fori_loop(0, LENGTH - 2, step, x)


def in_zeros(x, y):
    """The first rows are known when the program is compiled."""
    return next_of_two(jnp.ones(LENGTH, x.dtype), y)


def with_another_state(x, y):
    def step(i, s):
        x, total = s
        return x.at[i].set(0.5 * x[i - 1] + y[i]), total + x[i - 1]

    return lax.fori_loop(1, LENGTH, step, (x, jnp.zeros((), x.dtype)))


def by_a_while_loop(x, y):
    def step(s):
        i, x = s
        return i + 1, x.at[i].set(0.5 * x[i - 1] + y[i])

    return lax.while_loop(lambda s: s[0] < LENGTH, step, (1, x))[1]


RECURRENCES = [
    *((next_one, 1), (next_of_two, 2), (distant, 5), (mean_of_a_window, 8), (backwards, 2)),
    *((in_zeros, 2), (with_another_state, 1), (by_a_while_loop, 1)),
]


@pytest.mark.parametrize(("form", "depth"), RECURRENCES, ids=lambda f: getattr(f, "__name__", ""))
def test_rows_that_were_just_written_are_a_state(form, depth):
    assert windows(form, given()) == [(depth,)]
    module = compiled(form, given())
    assert not loops(module)
    (fused,) = fused_loops(module)
    inside = next(i for i in fused.called[0].instructions if i.opcode == "while").called[1]
    written = {i.operands[0] for i in inside.instructions if i.opcode == "dynamic-update-slice"}
    assert written
    assert all(i.operands[0] not in written for i in inside.instructions if i.opcode == "dynamic-slice")  # fmt: skip
    check(form, given())


@pytest.mark.parametrize("dtype", [np.float64, ml_dtypes.bfloat16, np.float16])
@pytest.mark.parametrize("form", [next_of_two, backwards], ids=lambda f: f.__name__)
def test_dtypes(form, dtype):
    """A state in a register has been rounded as in memory."""
    with jax.enable_x64(True):
        assert windows(form, given(dtype=dtype)) == [(2,)]
        check(form, given(dtype=dtype), rtol=0.02 if np.dtype(dtype).itemsize == 2 else 1e-6)


@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.complex64])
def test_other_numbers(dtype):
    def form(x, y):
        return lax.fori_loop(2, LENGTH, lambda i, x: x.at[i].set(x[i - 1] + x[i - 2] * y[i]), x)

    rng = np.random.default_rng(5)
    arguments = [rng.integers(0, 3, LENGTH).astype(dtype) for _ in range(2)]
    assert windows(form, arguments) == [(2,)]
    expected = evaluate(read(form, arguments), arguments)
    np.testing.assert_array_equal(Simulation(compiled(form, arguments)).run(arguments), expected)


def test_rows_of_many_elements_run_element_by_element():
    def form(x, y):
        return lax.fori_loop(2, LENGTH, lambda i, x: x.at[i].set(x[i - 1] * y[i] - x[i - 2]), x)

    arguments = given(100)
    assert windows(form, arguments) == [(2, 100)]
    assert not loops(compiled(form, arguments))
    check(form, arguments, rtol=1e-4)


def test_columns():
    def form(x, y):
        return lax.fori_loop(1, LENGTH, lambda i, x: x.at[:, i].set(x[:, i - 1] * 0.5 + y[i]), x.T)

    arguments = given(100)
    assert windows(form, arguments) == [(100, 1)]
    check(form, arguments)


def test_recurrence_inside_of_a_loop():
    def form(x, y):
        return lax.fori_loop(0, 3, lambda _, x: next_one(x, y) * 0.5, x)

    assert windows(form, given()) == [(1,)]
    check(form, given())


def test_array_that_is_donated():
    module = read(next_of_two, given())
    module.buffer_donors = (0,)
    simulation = Simulation(pipeline.run(module, for_cpu(), Dump(), GENERATED))
    assert any(a.aliased_parameter == 0 for a in simulation.assignment.allocations)
    (expected,) = evaluate(read(next_of_two, given()), given())
    np.testing.assert_allclose(simulation.run(given())[0], expected, rtol=1e-6)


# ------------------------------------------------------------------------------------------ what only looks alike


def own_row(x, y):
    return lax.fori_loop(0, LENGTH, lambda i, x: x.at[i].set(0.5 * x[i] + y[i]), x)


def row_ahead(x, y):
    return lax.fori_loop(0, LENGTH - 1, lambda i, x: x.at[i].set(0.5 * x[i + 1] + y[i]), x)


def last_row_at_first(x, y):
    """x[-1] is the last row, which nobody has written yet."""
    return lax.fori_loop(0, LENGTH, lambda i, x: x.at[i].set(0.5 * x[i - 1] + y[i]), x)


def before_the_array(x, y):
    """The window begins before the array in the first steps, and is moved into it."""

    def step(i, x):
        window = lax.dynamic_slice(x, (jnp.maximum(i - 4, -2),), (4,), allow_negative_indices=False)
        return lax.dynamic_update_slice(x, window.sum(keepdims=True) * 0.2, (i,))

    return lax.fori_loop(1, LENGTH, step, x)


def clamped_window(x, y):
    def step(i, x):
        window = lax.dynamic_slice(x, (i - 4,), (4,), allow_negative_indices=False)
        return lax.dynamic_update_slice(x, window.sum(keepdims=True) * 0.2, (i,))

    return lax.fori_loop(1, LENGTH, step, x)


def other_step(x, y):
    return lax.fori_loop(1, LENGTH // 2, lambda i, x: x.at[2 * i].set(0.5 * x[i] + y[i]), x)


def every_other(x, y):
    return lax.fori_loop(1, LENGTH // 2, lambda i, x: x.at[2 * i].set(0.5 * x[2 * i - 1]), x)


def first_row(x, y):
    return lax.fori_loop(1, LENGTH, lambda i, x: x.at[i].set(0.5 * x[0] + x[i - 1]), x)


def window_with_the_own_row(x, y):
    def step(i, x):
        window = lax.dynamic_slice(x, (i - 3,), (4,))
        return lax.dynamic_update_slice(x, window.mean(keepdims=True), (i,))

    return lax.fori_loop(3, LENGTH, step, x)


def deep_window(x, y):
    def step(i, x):
        window = lax.dynamic_slice(x, (i - DEEPEST - 1,), (DEEPEST + 1,))
        return lax.dynamic_update_slice(x, window.mean(keepdims=True), (i,))

    return lax.fori_loop(DEEPEST + 1, LENGTH, step, x)


def two_writers(x, y):
    def step(i, x):
        return x.at[i].set(0.5 * x[i - 1]).at[i + 1].set(y[i])

    return lax.fori_loop(1, LENGTH - 1, step, x)


def write_that_depends(x, y):
    def step(i, x):
        return jnp.where(y[i] > 0.5, x.at[i].set(0.5 * x[i - 1]), x)

    return lax.fori_loop(1, LENGTH, step, x)


def read_by_another_state(x, y):
    """What was written is another state, too: it is read a step later."""

    def step(i, s):
        x, before = s
        return x.at[i].set(0.5 * x[i - 1] + before[0]), x

    return lax.fori_loop(1, LENGTH, step, (x, x))


def read_after_the_write(x, y):
    def step(i, s):
        x, total = s
        x = x.at[i].set(0.5 * x[i - 1])
        return x, total + x[LENGTH - 1 - i]

    return lax.fori_loop(1, LENGTH, step, (x, jnp.zeros((), x.dtype)))


def unknown_number_of_steps(x, y):
    n = (y[0] < 2).astype(np.int32) * 7
    return lax.fori_loop(1, n, lambda i, x: x.at[i].set(0.5 * x[i - 1] + y[i]), x)


def beyond_the_end(x, y):
    """The last steps write nothing."""
    return lax.fori_loop(1, LENGTH + 3, lambda i, x: x.at[i].set(0.5 * x[i - 1]), x)


def moved_into_the_array(x, y):
    """The last steps write the last row, and read the one before."""

    def step(i, x):
        row = lax.dynamic_slice(x, (i - 1,), (1,))
        return lax.dynamic_update_slice(x, 0.5 * row + y[0], (i,))

    return lax.fori_loop(1, LENGTH + 3, step, x)


def condition_reads(x, y):
    def step(s):
        i, x = s
        return i + 1, x.at[i].set(0.5 * x[i - 1] + 1)

    def more(s):
        i, x = s
        return (i < LENGTH) & (x[i - 1] < 1.9)

    return lax.while_loop(more, step, (1, x))[1]


NEAR_MISSES = [
    *(own_row, row_ahead, last_row_at_first, before_the_array, clamped_window, other_step),
    *(every_other, first_row, window_with_the_own_row, deep_window, two_writers),
    *(write_that_depends, read_by_another_state, read_after_the_write, unknown_number_of_steps),
    *(beyond_the_end, moved_into_the_array, condition_reads),
]


@pytest.mark.parametrize("form", NEAR_MISSES, ids=lambda f: f.__name__)
def test_what_only_looks_alike(form):
    assert windows(form, given()) == []
    check(form, given(), rtol=1e-5)
