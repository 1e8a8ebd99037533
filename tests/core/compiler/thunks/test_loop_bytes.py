"""What a step of a loop moves does not depend on the size of a buffer that it updates in place.

Thirty ways to write such a loop. Bytes that the thunks of a step read and write are counted from the compiled program,
for two sizes of the buffer: they must be equal.
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler.formats.artifact import Kernel, While
from tripont.core.compiler.reference.evaluate import evaluate

from tests.core.compiler.loops import compiled
from tests.core.compiler.loops import read as read_module
from tests.core.compiler.moved import of_thunks, step
from tests.core.compiler.simulate import Simulation

SIZES = (64, 4096)


def f32(*dims):
    return np.zeros(dims, np.float32)


def bytes_of_step(function, arguments) -> int:
    """The bytes of one step of the program's outermost loop."""
    simulation = Simulation(compiled(function, arguments))
    lowered = simulation.lowered
    loops = [t for t in lowered.thunks if isinstance(t, While)]
    if loops:
        return sum(of_thunks([*t.condition, *t.body], lowered.instructions) for t in loops)
    fused = [
        i
        for t in lowered.thunks
        if isinstance(t, Kernel)
        for i in [lowered.instructions[t.debug]]
        if i.opcode == "fusion" and i.attributes["kind"] == "while"
    ]
    assert fused
    return sum(step(i) for f in fused for i in f.called[0].instructions if i.opcode == "while")


# -------------------------------------------------------------------------------------------------- forms of loops
# Each takes a buffer [n, 8], a row [8] and a number of steps that is not known.


def set_row(h, x, n):
    return lax.fori_loop(0, n, lambda i, h: h.at[i].set(x * i), h)


def add_to_row(h, x, n):
    return lax.fori_loop(0, n, lambda i, h: h.at[i].add(x), h)


def multiply_row(h, x, n):
    return lax.fori_loop(0, n, lambda i, h: h.at[i].multiply(x), h)


def largest_of_row(h, x, n):
    return lax.fori_loop(0, n, lambda i, h: h.at[i].max(x), h)


def set_element(h, x, n):
    return lax.fori_loop(0, n, lambda i, h: h.at[i, 3].set(x[0] * i), h)


def set_element_at_computed_place(h, x, n):
    return lax.fori_loop(0, n, lambda i, h: h.at[i, i % 8].set(x[1]), h)


def row_from_the_row_before(h, x, n):
    return lax.fori_loop(0, n, lambda i, h: h.at[i + 1].set(h[i] * 0.5 + x), h)


def row_from_two_rows_before(h, x, n):
    return lax.fori_loop(2, n, lambda i, h: h.at[i].set(h[i - 1] + h[i - 2]), h)


def update_slice(h, x, n):
    return lax.fori_loop(0, n, lambda i, h: lax.dynamic_update_slice(h, x[None], (i, 0)), h)


def update_in_dimension(h, x, n):
    return lax.fori_loop(0, n, lambda i, h: lax.dynamic_update_index_in_dim(h, x, i, 0), h)


def while_with_counter(h, x, n):
    return lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, s[1].at[s[0]].set(x)), (0, h))[1]


def while_until_a_row_is_large(h, x, n):
    def step(s):
        i, h, x = s
        return i + 1, h.at[i].set(x), x * 1.5

    return lax.while_loop(lambda s: s[2].sum() < n, step, (0, h, x))[1]


def append(h, x, n):
    """A buffer with the number of its rows."""

    def step(_, s):
        h, count = s
        return h.at[count].set(x), count + 1

    return lax.fori_loop(0, n, step, (h, 0))


def ring(h, x, n):
    return lax.fori_loop(0, n, lambda i, h: h.at[i % h.shape[0]].set(x), h)


def from_the_end(h, x, n):
    return lax.fori_loop(0, n, lambda i, h: h.at[h.shape[0] - 1 - i].set(x), h)


def two_buffers(h, x, n):
    def step(i, s):
        a, b = s
        return a.at[i].set(x), b.at[i].add(a[i])

    return lax.fori_loop(0, n, step, (h, h * 2))


def two_rows(h, x, n):
    return lax.fori_loop(0, n, lambda i, h: h.at[i].set(x).at[i + 1].set(x * 2), h)


def swap_rows(h, x, n):
    def step(i, h):
        a, b = h[i], h[i + 1]
        return h.at[i].set(b).at[i + 1].set(a)

    return lax.fori_loop(0, n, step, h)


def dictionary(h, x, n):
    def step(i, s):
        return {"h": s["h"].at[i].set(s["x"]), "x": s["x"] * 0.5, "w": s["w"]}

    return lax.fori_loop(0, n, step, {"h": h, "x": x, "w": jnp.ones(8)})


def large_constant(h, x, n):
    """A row of an array that does not change."""
    table = h * 3
    return lax.fori_loop(0, n, lambda i, s: (s[0].at[i].set(table[i] + s[1]), s[1]), (h, x))


def updated_if(h, x, n):
    return lax.fori_loop(0, n, lambda i, h: h.at[i].set(jnp.where(i % 2 == 0, x, h[i])), h)


def branch(h, x, n):
    def step(i, h):
        return lax.cond(i % 2 == 0, lambda h: h.at[i].set(x), lambda h: h, h)

    return lax.fori_loop(0, n, step, h)


def branch_of_two_updates(h, x, n):
    def step(i, h):
        return lax.cond(i % 2 == 0, lambda h: h.at[i].set(x), lambda h: h.at[i].add(x), h)

    return lax.fori_loop(0, n, step, h)


def inner_loop(h, x, n):
    def outer(i, h):
        return lax.fori_loop(0, 4, lambda j, h: h.at[i, j].set(x[j]), h)

    return lax.fori_loop(0, n, outer, h)


def inner_loop_of_rows(h, x, n):
    def outer(i, h):
        return lax.fori_loop(0, 3, lambda j, h: h.at[i + j].add(x), h)

    return lax.fori_loop(0, n, outer, h)


def scan_that_carries(h, x, n):
    def step(s, k):
        i, h = s
        return (i + 1, h.at[i].set(x * k)), None

    return lax.scan(step, (0, h), jnp.arange(5.0))[0]


def scan_that_reads_and_carries(h, x, n):
    def step(s, k):
        h, x = s
        return (h.at[k].set(x), x + h[k]), x.sum()

    return lax.scan(step, (h, x), jnp.arange(5))


def rows_by_indices(h, x, n):
    return lax.fori_loop(0, n, lambda i, h: h.at[jnp.array([1, 5, 7]) + i].add(x), h)


def columns(h, x, n):
    """A buffer whose last dimension is the long one."""
    return lax.fori_loop(0, n, lambda i, h: h.at[:, i].set(x), h.T)


def cache_of_keys(h, x, n):
    """A block of rows at a time, of heads."""
    h = h.reshape(-1, 2, 4)

    def step(i, s):
        h, x = s
        h = lax.dynamic_update_slice(h, x.reshape(1, 2, 4), (i, 0, 0))
        row = lax.dynamic_slice(h, (i, 0, 0), (1, 2, 4))
        return h, x + row.reshape(8)

    return lax.fori_loop(0, n, step, (h, x))


FORMS = [
    *(
        set_row,
        add_to_row,
        multiply_row,
        largest_of_row,
        set_element,
        set_element_at_computed_place,
    ),
    *(row_from_the_row_before, row_from_two_rows_before, update_slice, update_in_dimension),
    *(while_with_counter, while_until_a_row_is_large, append, ring, from_the_end, two_buffers),
    *(two_rows, swap_rows, dictionary, large_constant, updated_if, branch, branch_of_two_updates),
    *(inner_loop, inner_loop_of_rows, scan_that_carries, scan_that_reads_and_carries),
    *(rows_by_indices, columns, cache_of_keys),
]


def test_there_are_thirty_forms():
    assert len({f.__name__ for f in FORMS}) == 30


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_step_does_not_depend_on_the_buffer(form):
    small, large = (bytes_of_step(form, [f32(n, 8), f32(8), np.int32(5)]) for n in SIZES)
    assert 0 < small == large


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_form_is_right(form):
    rng = np.random.default_rng(5)
    arguments = [rng.random((12, 8), np.float32), rng.random(8, np.float32), np.int32(5)]
    expected = evaluate(read_module(form, arguments), arguments)
    results = Simulation(compiled(form, arguments)).run(arguments)
    for a, b in zip(results, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("n", SIZES)
def test_a_step_that_copies_the_buffer_is_seen(n):
    """The counter can fail: the whole buffer is read and written, or copied, in each of these."""

    def whole(h, x, n):
        return lax.fori_loop(0, n, lambda i, h: h.at[i].set(x) * 0.5, h)

    def kept(h, x, n):
        def step(i, s):
            h, _ = s
            return h.at[i].set(x), h

        return lax.fori_loop(0, n, step, (h, h))

    for function in (whole, kept):
        assert bytes_of_step(function, [f32(n, 8), f32(8), np.int32(5)]) >= 2 * n * 8 * 4
