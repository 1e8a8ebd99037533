"""Arrays that a loop writes from end to end begin as memory that nobody has written; all others keep their values."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler import pipeline
from tripont.core.compiler.formats.artifact import Copy, Kernel
from tripont.core.compiler.ir.control_flow import executable_computations
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.overwritten import forget_overwritten
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.loops import GENERATED, compiled, read
from tests.core.compiler.simulate import Simulation

STEPS, WIDTH = 12, 24


def unwritten(function, arguments):
    """How many states of loops begin as memory that nobody has written."""
    steps = GENERATED[: GENERATED.index(forget_overwritten) + 1]
    module = pipeline.run(read(function, arguments), for_cpu(), Dump(), steps)
    return sum(
        i.opcode == "allocate-buffer"
        for computation in executable_computations(module)
        for i in computation.instructions
    )


def given(dtype=np.float32):
    """A buffer, a row and a square matrix: what a step makes with the matrix does not run element by element."""
    rng = np.random.default_rng(3)
    shapes = ((STEPS, WIDTH), (WIDTH,), (WIDTH, WIDTH))
    return [(rng.random(shape) / WIDTH).astype(dtype) for shape in shapes]


def zeros(*dims):
    return jnp.zeros(dims, np.float32)


# ------------------------------------------------------------------------------------------ what is overwritten


def scanned(h, x, w):
    return lax.scan(lambda x, _: (x @ w, (x * 2, x[:1])), x, None, length=STEPS)


def scanned_from_the_end(h, x, w):
    return lax.scan(lambda x, _: (x @ w, x * 2), x, None, length=STEPS, reverse=True)


def gradient(h, x, w):
    def last(x):
        return lax.scan(lambda x, _: (jnp.sin(x @ w), None), x, None, length=STEPS)[0].sum()

    return jax.grad(last)(x)


def from_one(h, x, w):
    def step(i, s):
        h, x = s
        return h.at[i - 1].set(x), x @ w

    return lax.fori_loop(1, STEPS + 1, step, (zeros(STEPS, WIDTH), x))


def in_blocks(h, x, w):
    def step(i, s):
        h, x = s
        return lax.dynamic_update_slice(h, jnp.stack([x, x + 1, x + 2]), (3 * i, 0)), x @ w

    return lax.fori_loop(0, STEPS // 3, step, (zeros(STEPS, WIDTH), x))


def columns(h, x, w):
    def step(i, s):
        h, x = s
        return lax.dynamic_update_slice(h, x[:, None], (0, STEPS - 1 - i)), x @ w

    return lax.fori_loop(0, STEPS, step, (zeros(WIDTH, STEPS), x))


def of_an_argument(h, x, w):
    """The array has values, which nobody reads."""

    def step(i, s):
        h, x = s
        return lax.dynamic_update_slice(h, x[None], (i, 0)), x @ w

    return lax.fori_loop(0, STEPS, step, (h, x))


def inside_of_a_loop(h, x, w):
    """The inner loop's outputs are made anew in each step of the outer one."""

    def outer(x, _):
        x, rows = lax.scan(lambda x, _: (x @ w, x + 1), x, None, length=5)
        return x, rows.sum(0)

    return lax.scan(outer, x, None, length=STEPS)


OVERWRITTEN = [
    *((scanned, 2), (scanned_from_the_end, 1), (gradient, 1), (from_one, 1), (in_blocks, 1)),
    *((columns, 1), (of_an_argument, 1), (inside_of_a_loop, 2)),
]


@pytest.mark.parametrize(("form", "count"), OVERWRITTEN, ids=lambda f: getattr(f, "__name__", ""))
def test_arrays_that_are_written_from_end_to_end(form, count):
    assert unwritten(form, given()) == count
    check(form, given())


# ------------------------------------------------------------------------------------------- what only looks alike


def one_row_is_left(h, x, w):
    def step(i, s):
        h, x = s
        return lax.dynamic_update_slice(h, x[None], (i, 0)), x @ w

    return lax.fori_loop(0, STEPS - 1, step, (h, x))


def first_row_is_left(h, x, w):
    def step(i, s):
        h, x = s
        return lax.dynamic_update_slice(h, x[None], (i, 0)), x @ w

    return lax.fori_loop(1, STEPS, step, (h, x))


def last_row_twice(h, x, w):
    """As many steps as rows, but places from 1 on, of which the last is moved back into the array."""

    def step(i, s):
        h, x = s
        return lax.dynamic_update_slice(h, x[None], (i + 1, 0)), x @ w

    return lax.fori_loop(0, STEPS, step, (h, x))


def every_other_row(h, x, w):
    def step(i, s):
        h, x = s
        return lax.dynamic_update_slice(h, x[None], (2 * i, 0)), x @ w

    return lax.fori_loop(0, STEPS, step, (h, x))


def blocks_that_overlap(h, x, w):
    def step(i, s):
        h, x = s
        return lax.dynamic_update_slice(h, jnp.stack([x, x + 1]), (i, 0)), x @ w

    return lax.fori_loop(0, STEPS // 2, step, (h, x))


def part_of_each_row(h, x, w):
    def step(i, s):
        h, x = s
        return lax.dynamic_update_slice(h, x[None, :-1], (i, 0)), x @ w

    return lax.fori_loop(0, STEPS, step, (h, x))


def one_place(h, x, w):
    def step(i, s):
        h, x = s
        return lax.dynamic_update_slice(h, x[None], (3, 0)), x @ w

    return lax.fori_loop(0, STEPS, step, (h, x))


def place_that_is_computed(h, x, w):
    def step(i, s):
        h, x = s
        return lax.dynamic_update_slice(h, x[None], (i * i % STEPS, 0)), x @ w

    return lax.fori_loop(0, STEPS, step, (h, x))


def place_that_wraps(h, x, w):
    """The place is a number of 8 bits that goes from 127 to -128: it is moved into the array there."""

    def step(i, s):
        h, x, place = s
        return (
            lax.dynamic_update_slice(h, x[None], (place, jnp.int8(0))),
            x @ w,
            place + jnp.int8(1),
        )

    return lax.fori_loop(0, 140, step, (jnp.tile(h, (12, 1))[:140], x, jnp.int8(0)))[:2]


def other_row_is_read(h, x, w):
    def step(i, s):
        h, x = s
        row = lax.dynamic_slice(h, (STEPS - 1 - i, 0), (1, WIDTH))
        return lax.dynamic_update_slice(h, x[None], (i, 0)), x @ w + row[0]

    return lax.fori_loop(0, STEPS, step, (h, x))


def own_row_is_read(h, x, w):
    def step(i, s):
        h, x = s
        row = lax.dynamic_slice(h, (i, 0), (1, WIDTH))
        return lax.dynamic_update_slice(h, x[None] + row, (i, 0)), x @ w

    return lax.fori_loop(0, STEPS, step, (h, x))


def whole_is_read_afterwards(h, x, w):
    def step(i, s):
        h, x = s
        h = lax.dynamic_update_slice(h, x[None], (i, 0))
        return h, x @ w + h.sum(0)

    return lax.fori_loop(0, STEPS, step, (h, x))


def kept_by_another_state(h, x, w):
    def step(i, s):
        h, before, x = s
        h = lax.dynamic_update_slice(h, x[None], (i, 0))
        return h, h, x @ w + before[STEPS - 1]

    return lax.fori_loop(0, STEPS, step, (h, h, x))


def condition_reads_it(h, x, w):
    def step(s):
        i, h, x = s
        return i + 1, lax.dynamic_update_slice(h, x[None], (i, 0)), x @ w

    def more(s):
        i, h, _ = s
        return (i < STEPS) & (h[STEPS - 1, 0] < 2)

    return lax.while_loop(more, step, (0, h, x))[1:]


def condition_writes(h, x, w):
    def step(i, s):
        h, x = s
        written = lax.dynamic_update_slice(h, x[None], (i, 0))
        return lax.cond(x[0] > 0.02, lambda: written, lambda: h), x @ w

    return lax.fori_loop(0, STEPS, step, (h, x))


def chosen_writes(h, x, w):
    def step(i, s):
        h, x = s
        written = lax.dynamic_update_slice(h, x[None], (i, 0))
        return jnp.where(i % 2 == 0, written, h), x @ w

    return lax.fori_loop(0, STEPS, step, (h, x))


def two_writers(h, x, w):
    """One after the other, each of every other row."""

    def step(i, s):
        h, x = s
        h = lax.dynamic_update_slice(h, x[None], (2 * i, 0))
        return lax.dynamic_update_slice(h, x[None] * 2, (2 * i + 2, 0)), x @ w

    return lax.fori_loop(0, STEPS // 2, step, (h, x))


def states_change_places(h, x, w):
    """What is written becomes the other state, which is written in the next step."""

    def step(i, s):
        a, b, x = s
        return b, lax.dynamic_update_slice(a, x[None], (i, 0)), x @ w

    return lax.fori_loop(0, STEPS, step, (h, h + 1, x))


def as_many_steps_as_are_given(h, x, w):
    n = (x[0] > -1).astype(np.int32) * 7

    def step(i, s):
        h, x = s
        return lax.dynamic_update_slice(h, x[None], (i, 0)), x @ w

    return lax.fori_loop(0, n, step, (h, x))


def inner_loop_of_some_rows(h, x, w):
    """The inner loop writes all rows in all steps together, but not in each of them."""

    def outer(i, s):
        def inner(j, s):
            h, x = s
            return lax.dynamic_update_slice(h, x[None], (3 * i + j, 0)), x @ w

        return lax.fori_loop(0, 3, inner, s)

    return lax.fori_loop(0, STEPS // 3 - 1, outer, (h, x))


NEAR_MISSES = [
    *(one_row_is_left, first_row_is_left, last_row_twice, every_other_row, blocks_that_overlap),
    *(part_of_each_row, one_place, place_that_is_computed, place_that_wraps, other_row_is_read),
    *(own_row_is_read, whole_is_read_afterwards, kept_by_another_state, condition_reads_it),
    *(condition_writes, chosen_writes, two_writers, states_change_places),
    *(as_many_steps_as_are_given, inner_loop_of_some_rows),
]


@pytest.mark.parametrize("form", NEAR_MISSES, ids=lambda f: f.__name__)
def test_arrays_of_which_something_is_left(form):
    assert unwritten(form, given()) == 0
    check(form, given())


# ------------------------------------------------------------------------------------------------------- the memory


def check(form, arguments):
    """The compiled program, on memory full of garbage, computes what the program that was read does."""
    expected = evaluate(read(form, arguments), arguments)
    results = Simulation(compiled(form, arguments)).run(arguments)
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)


def test_the_loop_is_all_that_touches_its_outputs():
    """No kernel fills the outputs of a scan before it, and no copy gives each its zeros."""
    simulation = Simulation(compiled(scanned, given()))
    lowered = simulation.lowered
    large = WIDTH * STEPS * 4
    for thunk in lowered.thunks:
        if isinstance(thunk, Copy):
            assert thunk.source.size < large
        if isinstance(thunk, Kernel):
            assert lowered.instructions[thunk.debug].elements * 4 < large


def test_an_argument_that_is_overwritten_is_not_copied():
    simulation = Simulation(compiled(of_an_argument, given()))
    sizes = [t.source.size for t in simulation.lowered.thunks if isinstance(t, Copy)]
    assert max(sizes, default=0) < WIDTH * STEPS * 4


def test_an_argument_that_is_donated_gives_its_memory():
    module = read(of_an_argument, given())
    module.buffer_donors = (0,)
    simulation = Simulation(pipeline.run(module, for_cpu(), Dump(), GENERATED))
    assert any(a.aliased_parameter == 0 for a in simulation.assignment.allocations)
    expected = evaluate(read(of_an_argument, given()), given())
    for a, b in zip(simulation.run(given()), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5)
