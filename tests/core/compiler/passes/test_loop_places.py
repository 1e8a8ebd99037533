"""What the steps of a loop that counts say about the places that it reads and writes."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir.hlo import Instruction, Module
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.loop_places import settle_places
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.loops import GENERATED, read

ROWS = 10


def given():
    rng = np.random.default_rng(6)
    return [rng.random((ROWS, 3)).astype(np.float32), rng.random(3).astype(np.float32)]


def settled(form) -> Module:
    """The program after the pass, which computes what it did before it."""
    before = pipeline.run(
        read(form, given()), for_cpu(), Dump(), GENERATED[: GENERATED.index(settle_places)]
    )
    after = settle_places(before)
    for a, b in zip(evaluate(after, given()), evaluate(before, given()), strict=True):
        np.testing.assert_array_equal(a, b)
    return after


def inside(module: Module) -> list[Instruction]:
    """The instructions of the bodies of all loops."""
    loops = [i for c in module.computations() for i in c.instructions if i.opcode == "while"]
    return [i for loop in loops for i in loop.called[1].instructions]


def opcodes(form) -> set[str]:
    return {i.opcode for i in inside(settled(form))}


def set_row(h, x):
    return lax.fori_loop(0, ROWS, lambda i, h: h.at[i].set(x * i), h)


def set_row_from_the_end(h, x):
    return lax.fori_loop(0, ROWS, lambda i, h: h.at[ROWS - 1 - i].set(x * i), h)


def set_row_by_a_negative_index(h, x):
    return lax.fori_loop(1, ROWS, lambda i, h: h.at[-i].set(x * i), h)


def set_element(h, x):
    return lax.fori_loop(0, 3, lambda i, h: h.at[2 * i + 1, i].set(x[0] * i), h)


def set_column(h, x):
    return lax.fori_loop(0, 3, lambda i, h: h.at[:, i].set(x[0] * i), h)


def set_by_another_counter(h, x):
    def step(_, s):
        h, at = s
        return h.at[at].set(x), at - 2

    return lax.fori_loop(0, 4, step, (h, jnp.int32(8)))


@pytest.mark.parametrize(
    "form",
    [
        *(set_row, set_row_from_the_end, set_row_by_a_negative_index, set_element, set_column),
        set_by_another_counter,
    ],
    ids=lambda f: f.__name__,
)
def test_scatter_of_a_window_in_the_array_is_an_update(form):
    found = opcodes(form)
    assert "dynamic-update-slice" in found
    assert not found & {"scatter", "select"}


def beyond_the_end(h, x):
    """The last step writes nothing."""
    return lax.fori_loop(0, ROWS + 1, lambda i, h: h.at[i].set(x * i), h)


def before_the_array(h, x):
    """The first step writes nothing."""

    def step(i, h):
        return h.at[i - 1].set(x * i, wrap_negative_indices=False)

    return lax.fori_loop(0, ROWS, step, h)


def column_beyond_the_end(h, x):
    return lax.fori_loop(0, 4, lambda i, h: h.at[i, i].set(x[0]), h)


def add_to_row(h, x):
    """What was there counts."""
    return lax.fori_loop(0, ROWS, lambda i, h: h.at[i].add(x * i), h)


def two_rows(h, x):
    return lax.fori_loop(0, ROWS - 1, lambda i, h: h.at[jnp.stack([i, i + 1])].set(x * i), h)


def place_of_the_data(h, x):
    def step(i, h):
        return h.at[(h[i, 0] * ROWS).astype(np.int32)].set(x * i)

    return lax.fori_loop(0, ROWS, step, h)


def counter_that_wraps(h, x):
    """From 127 the place goes to -128, which is no place."""

    def step(_, s):
        h, at = s
        return h.at[at].set(x, wrap_negative_indices=False), at + jnp.int8(1)

    return lax.fori_loop(0, 20, step, (h, jnp.int8(120)))


def unknown_number_of_steps(h, x):
    n = (x[0] < 2).astype(np.int32) * (ROWS + 2)
    return lax.fori_loop(0, n, lambda i, h: h.at[i].set(x), h)


@pytest.mark.parametrize(
    "form",
    [
        *(beyond_the_end, before_the_array, column_beyond_the_end, add_to_row, two_rows),
        *(place_of_the_data, counter_that_wraps, unknown_number_of_steps),
    ],
    ids=lambda f: f.__name__,
)
def test_other_scatters_stay(form):
    found = opcodes(form)
    assert "scatter" in found
    assert "dynamic-update-slice" not in found


def test_an_index_that_changes_its_sign_is_chosen_in_each_step():
    def form(h, x):
        return lax.fori_loop(0, ROWS, lambda i, s: s + h[i - 3], x)

    assert "select" in opcodes(form)


def test_an_index_that_keeps_its_sign_is_not_chosen():
    def form(h, x):
        return lax.fori_loop(3, ROWS, lambda i, s: s + h[i - 3] + h[-i], x)

    assert "select" not in opcodes(form)
