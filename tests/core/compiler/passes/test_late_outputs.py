"""Outputs of scans that no step reads are computed behind the loop; everything else stays where it is."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir.control_flow import executable_computations
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.late_outputs import compute_outputs_late
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.loops import GENERATED, loops, read

STEPS = 500
CPU = "x86-64-v4"


def after(function, arguments):
    """The program after the pass, and whether it is what it was."""
    place = GENERATED.index(compute_outputs_late)
    before = pipeline.run(read(function, arguments), for_cpu(CPU), Dump(), GENERATED[:place])
    module = compute_outputs_late(before, for_cpu(CPU))
    expected = [np.asarray(x) for x in evaluate(before, arguments)]
    results = [np.asarray(x) for x in evaluate(module, arguments)]
    for a, b in zip(results, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        np.testing.assert_array_equal(a, b)
    return module, module is before


def opcodes(module):
    """What loops compute in each step, and what is computed beside them."""
    inside = {i.opcode for loop in loops(module) for c in loop.called for i in c.instructions}
    outside = {i.opcode for i in module.entry.instructions}
    return inside, outside


def given(*, rows=1, dtype=np.float32):
    return [np.random.default_rng(3).uniform(0.1, 0.9, (STEPS, rows)).astype(dtype)[:, :rows]]


def scalars():
    return [given()[0][:, 0]]


def scan(output, *, reverse=False):
    def function(x):
        def step(y, d):
            y = y * 0.5 + d
            return y, output(y, d)

        return lax.scan(step, x[0] * 0, x, reverse=reverse)[1]

    return function


# --------------------------------------------------------------------------------------------- what comes behind it

LATE = {
    "of the state": lambda y, d: jnp.sin(y),
    "of the input": lambda y, d: jnp.log(d),
    "of both": lambda y, d: jnp.log(y) * d + 1,
    "several": lambda y, d: (jnp.sin(y), y, jnp.cos(y) + jnp.sin(y)),
    "with a choice": lambda y, d: jnp.where(y > 0.5, jnp.sin(y), 2.0),
    "of a constant array": lambda y, d: jnp.sin(y) + jnp.arange(3, dtype=jnp.float32),
    "another type": lambda y, d: (jnp.sin(y) * 100).astype(np.int32),
}


@pytest.mark.parametrize("reverse", [False, True], ids=["forward", "reverse"])
@pytest.mark.parametrize("output", LATE.values(), ids=LATE)
def test_outputs_are_computed_behind_the_loop(output, reverse):
    module, _ = after(scan(output, reverse=reverse), scalars())
    inside, outside = opcodes(module)
    functions = {"sine", "cosine", "log"}
    assert not inside & functions
    assert outside & functions


def test_of_the_state_before_the_step():
    def function(x):
        return lax.scan(lambda y, d: (y * 0.5 + d, jnp.sin(y)), x[0], x)

    inside, outside = opcodes(after(function, scalars())[0])
    assert "sine" in outside - inside


def test_of_what_does_not_change():
    def function(x, w):
        def step(s, d):
            y, w = s
            return (y * 0.5 + d, w), jnp.sin(y * w)

        return lax.scan(step, (x[0], w), x)[1]

    inside, outside = opcodes(after(function, [*scalars(), np.float32(3)])[0])
    assert "sine" in outside - inside


def test_few_numbers_of_vectors():
    """A predicate, and a limit, for all numbers of a row."""

    def output(y, d):
        return jnp.where(y[0] > 0.5, jnp.sin(y), lax.clamp(y[0], y, y[1]))

    inside, outside = opcodes(after(scan(output), given(rows=2))[0])
    assert "sine" in outside - inside


@pytest.mark.parametrize("rows", [3, 9])
def test_rows_that_leave_much_of_a_vector_empty(rows):
    """Of 16 lanes a row of nine uses nine, and vectors of steps use all of them."""
    module, _ = after(scan(lambda y, d: jnp.sin(jnp.log(1 + y * y))), given(rows=rows))
    inside, outside = opcodes(module)
    assert {"log", "sine"} <= outside - inside


def test_a_number_for_all_steps_is_spread_at_once():
    """Not to steps first and then to rows: dimensions between which a number changes are not taken together."""

    def output(y, d):
        return jnp.clip(jnp.log(1 + y * y), 0.25, 0.5)

    module, _ = after(scan(output), given(rows=3))
    spread = [i for i in module.entry.instructions if i.opcode == "broadcast"]
    assert {
        i.operands[0].dims for i in spread if i.dims == (STEPS, 1, 3) or i.dims == (STEPS, 3)
    } == {()}


def test_what_is_kept_already_is_read():
    module, _ = after(scan(LATE["several"]), scalars())
    (loop,) = loops(module)
    assert sum(r.opcode == "dynamic-update-slice" for r in loop.called[1].results) == 1


def test_in_a_loop():
    def function(x):
        return lax.fori_loop(0, 3, lambda _, x: scan(LATE["of both"])(x), x)

    outer, inner = sorted(
        loops(after(function, scalars())[0]), key=lambda i: i.attributes["trip_count"]
    )
    assert "log" in {i.opcode for i in outer.called[1].instructions}
    assert "log" not in {i.opcode for i in inner.called[1].instructions}


def test_a_loop_that_writes_in_both_directions():
    """The state is kept twice, once for the outputs of each direction."""

    def function(x):
        def step(i, s):
            y, up, down = s
            y = y * 0.5 + x[i]
            return y, up.at[i].set(jnp.sin(y)), down.at[STEPS - 1 - i].set(jnp.cos(y))

        return lax.fori_loop(0, STEPS, step, (x[0], jnp.zeros(STEPS), jnp.zeros(STEPS)))

    inside, outside = opcodes(after(function, scalars())[0])
    assert {"sine", "cosine"} <= outside - inside


def test_inputs_of_the_other_direction():
    """The step reads from the end and writes from the beginning: the inputs are kept like any other value."""

    def function(x):
        def step(i, s):
            y, out = s
            y = y * 0.5 + 1
            return y, out.at[i].set(jnp.sin(y + x[STEPS - 1 - i]))

        return lax.fori_loop(0, STEPS, step, (x[0], jnp.zeros(STEPS)))

    inside, outside = opcodes(after(function, scalars())[0])
    assert "sine" in outside - inside


def test_a_gradient():
    def function(x):
        def step(y, d):
            y = jnp.sin(y * d)
            return y, jnp.log(y * y + 1)

        return jax.grad(lambda x: lax.scan(step, x[0], x)[1].sum())(x)

    after(function, scalars())


# --------------------------------------------------------------------------------------------------------- what stays

STAYS = {
    "the state itself": lambda y, d: y,
    "cheap": lambda y, d: y * 2 + d,
}


@pytest.mark.parametrize("output", STAYS.values(), ids=STAYS)
def test_not_worth_it(output):
    assert after(scan(output), scalars())[1]


def test_where_much_would_be_kept_nothing_moves():
    """The output is one number, of three states that are not stacked otherwise."""

    def function(x):
        def step(s, d):
            a, b, c = s
            a, b, c = a * 0.5 + d, b * a + d, c * b + d
            return (a, b, c), jnp.sin(a) * jnp.sin(b) * jnp.sin(c)

        return lax.scan(step, (x[0], x[1], x[2]), x)[1]

    assert after(function, scalars())[1]


def test_rows_that_fill_vectors_stay():
    assert after(scan(LATE["of the state"]), given(rows=16))[1]


def test_few_steps_stay():
    assert after(scan(LATE["of the state"]), [scalars()[0][:5]])[1]


def test_what_a_step_reads_stays():
    def function(x):
        def step(i, s):
            y, out = s
            y = y * 0.5 + out[i]
            return y, out.at[i].set(jnp.sin(y))

        return lax.fori_loop(0, STEPS, step, (x[0], x))

    assert after(function, scalars())[1]


def test_what_is_not_written_from_end_to_end_stays():
    def function(x):
        def step(i, s):
            y, out = s
            y = y * 0.5 + x[i]
            return y, out.at[i].set(jnp.sin(y))

        return lax.fori_loop(0, STEPS - 1, step, (x[0], x))

    assert after(function, scalars())[1]


def test_what_a_step_needs_stays_in_it():
    def function(x):
        def step(y, d):
            y = jnp.sin(y + d)
            return y, jnp.cos(y)

        return lax.scan(step, x[0], x)

    inside, outside = opcodes(after(function, scalars())[0])
    assert "sine" in inside - outside
    assert "cosine" in outside - inside


def test_calls_are_left_alone():
    """A loop in the step computes the output: its result is kept, and nothing but what is made of it moves."""

    def output(y, d):
        total = lax.fori_loop(0, 20, lambda _, t: jnp.tanh(t + d), y)
        return jnp.sin(total)

    module, _ = after(scan(output), scalars())
    assert "sine" in opcodes(module)[1]
    assert any(
        i.opcode == "tanh"
        for c in executable_computations(module)
        for i in c.instructions
        if c is not module.entry
    )
