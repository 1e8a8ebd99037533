"""Which slices are views, and that those that may not be are copies as they were."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler import pipeline
from tripont.core.compiler.formats.artifact import Copy, While, walk
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.ir.control_flow import executable_computations
from tripont.core.compiler.memory.views import is_view
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu
from tripont.core.compiler.targets.sycl import for_device

from tests.core.compiler.loops import GENERATED, compiled, read
from tests.core.compiler.simulate import Simulation

K = 128
RNG = np.random.default_rng(3)


def random(*dims, dtype=np.float32):
    return (RNG.standard_normal(dims, np.float32) / 12).astype(dtype)


X, W = random(1, K), random(4, K, K)


def views(module) -> int:
    return sum(is_view(i) for c in executable_computations(module) for i in c.instructions)


def check(function, arguments, count, module=None):
    """The program has ``count`` views, and computes what it says."""
    module = compiled(function, arguments) if module is None else module
    assert views(module) == count
    simulation = Simulation(module)
    expected = evaluate(read(function, arguments), arguments)
    for a, b in zip(simulation.run(arguments), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)
    return simulation


def row(x, w, i):
    return x @ w[i]


def clamped(x, w, i):
    return x @ lax.dynamic_slice(w, (i, 0, 0), (1, K, K), allow_negative_indices=False)[0]


@pytest.mark.parametrize("index", [-9, -4, -1, 0, 3, 4, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("function", [row, clamped])
def test_indices_are_those_of_a_slice(function, index):
    """Negative ones and those behind the end."""
    check(function, [X, W, np.int32(index)], 1)


def test_wide_indices():
    with jax.enable_x64(True):
        for index in (2, 2**40, -(2**40)):
            check(row, [X, W, np.int64(index)], 1)


UNSIGNED = """
func.func @main(%x: tensor<1x128xf32>, %w: tensor<4x128x128xf32>, %i: tensor<TYPE>) -> tensor<1x128xf32> {
  %c = stablehlo.constant dense<0> : tensor<TYPE>
  %s = stablehlo.dynamic_slice %w, %i, %c, %c, sizes = [1, 128, 128]
    : (tensor<4x128x128xf32>, tensor<TYPE>, tensor<TYPE>, tensor<TYPE>) -> tensor<1x128x128xf32>
  %m = stablehlo.reshape %s : (tensor<1x128x128xf32>) -> tensor<128x128xf32>
  %y = stablehlo.dot_general %x, %m, contracting_dims = [1] x [0]
    : (tensor<1x128xf32>, tensor<128x128xf32>) -> tensor<1x128xf32>
  return %y : tensor<1x128xf32>
}"""


@pytest.mark.parametrize(("name", "dtype"), [("ui32", np.uint32), ("i8", np.int8)])
def test_other_types_of_indices_are_copies(name, dtype):
    """The runtime reads s32 and s64."""
    module = read_program(UNSIGNED.replace("TYPE", name).encode(), "mlir")
    module = pipeline.run(module, for_cpu(), Dump(), GENERATED)
    assert views(module) == 0
    for index in (0, 3, 100):
        (result,) = Simulation(module).run([X, W, dtype(index)])
        np.testing.assert_allclose(result, X @ W[min(index, 3)], rtol=1e-5, atol=1e-5)


def columns(x, w, i):
    return x @ w[:, i]


def every_other_row(x, w, i):
    return x[:, : K // 2] @ w[i, ::2]


def some_columns(x, w, i):
    return x @ w[i, :, : K // 2]


@pytest.mark.parametrize("function", [columns, every_other_row, some_columns])
def test_what_is_not_one_piece_is_a_copy(function):
    w = random(K, K, K)[:4] if function is not columns else random(K, 4, K)
    check(function, [X, w, np.int32(2)], 0)


def test_rows_that_do_not_start_where_arrays_start_are_copies():
    assert 90 * 90 * 4 % 64
    check(row, [random(1, 90), random(4, 90, 90), np.int32(2)], 0)


def test_small_slices_are_copies():
    """They cost less than a thunk more, and a small loop is one function without it."""
    check(row, [random(1, 32), random(4, 32, 32), np.int32(2)], 0)


def test_results_are_copies():
    check(lambda w, i: w[i], [W, np.int32(2)], 0)
    check(lambda w, i: (w[i], jnp.ones((1, K)) @ w[i]), [W, np.int32(2)], 0)


def test_a_device_that_runs_behind_the_host_copies():
    """The host would wait until the index is there."""
    module = pipeline.run(read(row, [X, W, np.int32(1)]), for_device("cpu"), Dump(), GENERATED)
    assert views(module) == 0


# ------------------------------------------------------------------------------------------- arrays that change


def steps(body, state):
    return lax.fori_loop(0, 3, body, state)


def read_then_updated(x, h, i):
    """The update waits for the product."""

    def body(i, s):
        x, h = s
        y = x @ h[i]
        return y, h.at[i + 1].set(jnp.outer(y[0], x[0]))

    return steps(body, (x, h))


def updated_then_read(x, h, i):
    def body(i, s):
        x, h = s
        h = h.at[i].multiply(0.5)
        return x @ h[i], h

    return steps(body, (x, h))


@pytest.mark.parametrize("function", [read_then_updated, updated_then_read])
def test_an_array_that_is_updated_before_or_after_is_viewed(function):
    simulation = check(function, [X, W, np.int32(0)], 1)
    inside = [t for t in walk(simulation.lowered.thunks) if isinstance(t, While)]
    assert not any(
        isinstance(t, Copy) and t.source.size >= W.nbytes for t in walk(inside[0].body)
    ), "the array is updated in place"


def read_around_an_update(x, h, i):
    """The first slice is multiplied by before and after the array is updated."""

    def body(i, s):
        x, h = s
        before = h[i]
        y = x @ before
        h = h.at[i].set(jnp.outer(y[0], x[0]))
        return (y + x @ h[i]) @ before, h

    return steps(body, (x, h))


def test_an_array_that_is_updated_between_is_copied():
    simulation = check(read_around_an_update, [X, W, np.int32(0)], 1)
    inside = [t for t in walk(simulation.lowered.thunks) if isinstance(t, While)]
    assert not any(
        isinstance(t, Copy) and t.source.size >= W.nbytes for t in walk(inside[0].body)
    ), "only the slice is copied"


def test_an_index_may_change_while_the_slice_is_read():
    """The counter is in the memory of the next one before the last product."""

    def function(x, w, i):
        def body(s):
            i, x = s
            layer = w[i]
            i = i + 1
            return i, (x @ layer) * i @ layer

        return lax.while_loop(lambda s: s[0] < 4, body, (i, x))

    check(function, [X, W, np.int32(0)], 1)


def test_an_array_whose_memory_is_wanted_is_not_kept_for_a_view():
    """An array that is computed here ends with its slice, and its memory is used again."""

    def function(x, w, i):
        w = jnp.sin(w)
        return jnp.cos(x @ w[i] @ jnp.ones((K, K)))

    check(function, [X, W, np.int32(1)], 0)


def test_a_donated_array_is_viewed_where_it_is_needed_later():
    def function(h, x, i):
        y = x @ h[i]
        return h.at[0, 0].set(y[0]), y

    for donated, count in (((), 1), ((0,), 1)):
        text = jax.jit(function, donate_argnums=donated).lower(W, X, np.int32(1)).as_text()
        module = pipeline.run(read_program(text.encode(), "mlir"), for_cpu(), Dump(), GENERATED)
        check(function, [W, X, np.int32(1)], count, module)


def test_slices_of_one_fusion():
    """Keys and values of a layer: two results of one kernel, with an index that it computes."""

    def function(x, k, v, order):
        def body(i, x):
            place = (order[i] + 1) % 4
            return jnp.tanh(x @ k[place]) @ v[place]

        return steps(body, x)

    check(function, [X, W, random(4, K, K), np.array([2, 0, 1], np.int32)], 2)


def test_a_view_in_a_branch_and_in_a_loop_of_a_branch():
    def function(x, w, i):
        def often(x):
            return steps(lambda j, x: jnp.tanh(x @ w[j]), x)

        return lax.cond(i > 1, often, lambda x: x @ w[i], x)

    for index in (0, 2):
        module = compiled(function, [X, W, np.int32(index)])
        check(function, [X, W, np.int32(index)], views(module), module)
