"""Which loops run element by element: those that may, and those that nearly may and must not."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler import pipeline
from tripont.core.compiler.fusion import element_loops
from tripont.core.compiler.observe import pass_checks
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.loops import GENERATED, compiled, fused_loops, loops, read
from tests.core.compiler.simulate import Simulation

_rng = np.random.default_rng(3)


def f32(*dims):
    return _rng.uniform(0.1, 0.9, dims).astype(np.float32)


def lorenz(y):
    a, b, c = y
    return y + 0.01 * jnp.array([10 * (b - a), a * (28 - c) - b, a * b - 2.5 * c])


def systems(y):
    return jax.vmap(lambda y: lax.fori_loop(0, 5, lambda _, y: lorenz(y), y))(y)


def elementwise(x, r):
    return lax.fori_loop(0, 7, lambda _, x: r * x * (1 - x), x)


def unknown_count(x, n):
    return lax.fori_loop(0, n, lambda i, x: x * 0.9 + i, x)


def outputs(x, xs):
    def step(x, y):
        x = 0.5 * x + y
        return x, (x, x * 2)

    return lax.scan(step, x, xs)


def backwards(x, xs):
    return lax.scan(lambda x, y: (0.5 * x + y, x), x, xs, reverse=True)


def frozen(y, limit):
    def solve(y, limit):
        def unfinished(s):
            return (s[0].sum() < limit) & (s[1] < 20)

        return lax.while_loop(unfinished, lambda s: (s[0] * 1.25, s[1] + 1), (y, 0))

    return jax.vmap(solve)(y, limit)


def partly_written(x, h):
    """Rows of an array are written, and others stay as they are."""

    def step(i, s):
        x, h = s
        return x * 0.5, lax.dynamic_update_index_in_dim(h, x, i + 1, 0)

    return lax.fori_loop(0, 3, step, (x, h))


def nested(x):
    def outer(i, x):
        return lax.fori_loop(0, 3, lambda j, x: x * 0.5 + j, x) + i

    return lax.fori_loop(0, 4, outer, x)


def stacked(q, w):
    def step(_, q):
        a, b = q[..., 0], q[..., 1]
        q = q + 0.1 * jnp.stack([-b * w, a * w], -1)
        return q / jnp.sqrt(jnp.sum(q * q, -1, keepdims=True))

    return lax.fori_loop(0, 4, step, q)


def turned(x):
    """The state's dimensions are exchanged and exchanged back in each step."""
    return lax.fori_loop(0, 4, lambda i, x: (x.T[:, ::-1] * 0.5 + i)[:, ::-1].T, x)


def tables(x, table):
    """Each element reads a table that does not change, where it says."""
    return lax.fori_loop(0, 4, lambda i, x: 0.5 * x + table[(x * 4).astype(jnp.int32)], x)


def write_history(h, steps):
    def step(i, s):
        x, written = s
        x = x * 0.5 + h[i]
        return x, lax.dynamic_update_index_in_dim(written, x, 4 - i, 0)

    return lax.fori_loop(0, steps, step, (h[0] * 0, h))[1]


def overwritten_history(h):
    """All rows are written: into another array than the one that is read."""
    return write_history(h, 5)


RIGHT = {
    "systems": (systems, [f32(40, 3)], (40,)),
    "elementwise": (elementwise, [f32(100), f32(100)], (100,)),
    "two_axes": (elementwise, [f32(9, 40), f32(9, 40)], (9, 40)),
    "unknown_count": (unknown_count, [f32(50), np.int32(4)], (50,)),
    "outputs": (outputs, [f32(33), f32(6, 33)], (33,)),
    "outputs_of_rows": (outputs, [f32(33, 2), f32(6, 33, 2)], (33, 2)),
    "backwards": (backwards, [f32(33), f32(6, 33)], (33,)),
    "overwritten_history": (overwritten_history, [f32(5, 64)], (64,)),
    "partly_written": (partly_written, [f32(33), f32(6, 33)], (33,)),
    "frozen": (frozen, [f32(40, 3), 9 * f32(40)], (40,)),
    "nested": (nested, [f32(64)], (64,)),
    "stacked": (stacked, [f32(5, 30, 2), f32(5, 30)], (5, 30)),
    "turned": (turned, [f32(3, 48)], (48,)),
    "tables": (tables, [f32(48), f32(8)], (48,)),
}


@functools.cache
def module_of(name):
    function, arguments, *_ = (RIGHT | WRONG)[name]
    return compiled(function, arguments)


@functools.cache
def expected_of(name):
    function, arguments, *_ = (RIGHT | WRONG)[name]
    return evaluate(read(function, arguments), arguments)


@pytest.mark.parametrize("name", RIGHT)
def test_loop_becomes_one_kernel(name):
    axes = RIGHT[name][2]
    module = module_of(name)
    (fusion,) = fused_loops(module)
    assert not loops(module)
    loop = next(i for i in fusion.called[0].instructions if i.opcode == "while")
    assert element_loops.plan(loop).axes == axes


@pytest.mark.parametrize("name", RIGHT)
def test_fused_loop_is_right(name):
    results = Simulation(module_of(name)).run(RIGHT[name][1])
    for a, b in zip(results, expected_of(name), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", RIGHT)
def test_passes_are_right_on_data(name):
    function, arguments, _ = RIGHT[name]
    report = pass_checks.check(read(function, arguments), pipeline.named(GENERATED, for_cpu()))
    assert not report.wrong
    assert report.checked


# ---------------------------------------------------------------------------------------------------- near misses


def neighbours(x):
    return lax.fori_loop(0, 5, lambda _, x: x + 0.1 * jnp.roll(x, 1), x)


def reversed_(x):
    return lax.fori_loop(0, 5, lambda _, x: x * 0.5 + x[::-1], x)


def total(x):
    return lax.fori_loop(0, 5, lambda _, x: x / jnp.sum(x), x)


def total_counted(x):
    """The sum over elements is only counted, but it is a state."""
    return lax.fori_loop(0, 5, lambda _, s: (s[0] * 0.5, s[1] + jnp.sum(s[0])), (x, 0.0))


def own_transpose(x):
    return lax.fori_loop(0, 5, lambda _, x: 0.5 * (x + x.T), x)


def until_all(x):
    """Elements go on while any of them is too large: no element is frozen."""
    return lax.while_loop(lambda x: jnp.any(x > 0.1), lambda x: x * 0.5, x)


def frozen_by_another(x):
    """Elements are frozen by another condition than the one that ends the loop."""

    def step(x):
        return jnp.where(x > 0.2, x * 0.5, x)

    return lax.while_loop(lambda x: jnp.any(x > 0.3), step, x)


def partly_frozen(x, n):
    """One state is frozen, the other goes on."""

    def step(s):
        x, n = s
        return jnp.where(x > 0.1, x * 0.5, x), n + 1

    return lax.while_loop(lambda s: jnp.any(s[0] > 0.1), step, (x, n))


def until_sum(x):
    return lax.while_loop(lambda x: jnp.sum(x) > 1.0, lambda x: x * 0.5, x)


def history_read(x, h):
    """What is written is read again."""

    def step(i, s):
        x, h = s
        x = x * 0.5 + h[0]
        return x, lax.dynamic_update_index_in_dim(h, x, i % 2, 0)

    return lax.fori_loop(0, 5, step, (x, h))


def history_of_itself(h):
    """The array that is written, but for a row, is also read as it was before the loop."""
    return write_history(h, 4)


def own_table(x):
    """Elements read other elements, where they say."""
    return lax.fori_loop(0, 4, lambda i, x: 0.5 * x + x[(x * 4).astype(jnp.int32)], x)


def split(x):
    """A reshape that takes the elements' dimension apart: sums of neighbours."""
    return lax.fori_loop(0, 4, lambda i, x: (x.reshape(-1, 2) * 0.4).sum(1).repeat(2), x)


def mixed(x, w):
    return lax.fori_loop(0, 4, lambda _, x: w @ x * 0.1, x)


def many_products(x, w):
    return lax.fori_loop(0, 4, lambda _, x: x @ w * 0.01, x)


def many_numbers(x):
    return lax.fori_loop(0, 4, lambda _, x: x + jnp.roll(x, 1, axis=1), x)


def longer_mixed(x, w):
    """A product of one number more than a loop of single numbers may have."""
    return lax.fori_loop(0, 4, lambda _, x: w @ x * 0.1, x)


def softmax(x):
    """Eight exponentials are one vector's."""
    return lax.fori_loop(0, 4, lambda _, x: jax.nn.softmax(x), x)


def mostly_vectors(x):
    def step(_, x):
        for _ in range(3):
            x = x - 0.1 * jnp.sum(x)
        return x

    return lax.fori_loop(0, 4, step, x)


def scalars(x, y):
    return lax.fori_loop(0, 4, lambda _, s: (s[0] * 0.5 + s[1], s[0]), (x, y))


def long_rows(x, xs):
    """A step reads a row that is no number's, and writes one."""
    return lax.scan(lambda x, r: (x * 0.5 + r.sum(), r + x[0]), x, xs)


def long_table(x, table):
    return lax.fori_loop(0, 4, lambda _, x: x * 0.5 + (table * x[0]).sum(), x)


def read_of_a_long_sum(x, table):
    """Each element of a long sum would be computed where it is read, with all of its terms."""

    def step(i, s):
        t, x = s
        read = lax.dynamic_index_in_dim((table * t).sum(0), i % table.shape[1], keepdims=False)
        return t * 0.5 + read * 1e-3, x * t + read

    t, x = lax.fori_loop(0, 4, step, (x[0], x))
    return x + t


def running_sum(x):
    return lax.fori_loop(0, 4, lambda _, x: jnp.cumsum(x) * 0.1, x)


def gathers_of_gathers(x, at):
    """Each link reads the one before at two places: written at each place, the code doubles six times."""

    def step(i, total):
        y = x
        for _ in range(6):
            y = 0.5 * y + 0.4 * jax.vmap(jnp.roll)(y, at + i)
        return total + y

    return lax.fori_loop(0, 3, step, x)


WRONG = {
    "gathers_of_gathers": (gathers_of_gathers, [f32(8, 64), np.arange(8, dtype=np.int32)]),
    "neighbours": (neighbours, [f32(64)]),
    "reversed": (reversed_, [f32(64)]),
    "total": (total, [f32(64)]),
    "total_counted": (total_counted, [f32(64)]),
    "own_transpose": (own_transpose, [f32(16, 16)]),
    "until_all": (until_all, [f32(64)]),
    "frozen_by_another": (frozen_by_another, [f32(64)]),
    "partly_frozen": (partly_frozen, [f32(64), np.zeros(64, np.int32)]),
    "until_sum": (until_sum, [f32(64)]),
    "history_read": (history_read, [f32(64), f32(2, 64)]),
    "history_of_itself": (history_of_itself, [f32(5, 64)]),
    "own_table": (own_table, [f32(64)]),
    "split": (split, [f32(64)]),
    "mixed": (mixed, [f32(64), f32(64, 64)]),
    "many_products": (many_products, [f32(20, 9), f32(9, 9)]),
    "many_numbers": (many_numbers, [f32(8, 200)]),
    "neighbours_17": (neighbours, [f32(17)]),
    "own_table_4": (own_table, [f32(4)]),
    "history_read_3": (history_read, [f32(3), f32(2, 3)]),
    "history_of_itself_3": (history_of_itself, [f32(5, 3)]),
    "longer_mixed": (longer_mixed, [f32(9), f32(9, 9)]),
    "softmax": (softmax, [f32(8)]),
    "mostly_vectors": (mostly_vectors, [f32(16)]),
    "scalars": (scalars, [np.float32(0.5), np.float32(2)]),
    "long_rows": (long_rows, [f32(3), f32(4, 20)]),
    "long_table": (long_table, [f32(3), f32(20)]),
    "read_of_a_long_sum": (read_of_a_long_sum, [f32(2), f32(65, 8)]),
    "running_sum": (running_sum, [f32(64)]),
}


@pytest.mark.parametrize("name", WRONG)
def test_loop_that_does_not_fit_takes_the_general_way(name):
    module = module_of(name)
    assert not fused_loops(module)
    results = Simulation(module).run(WRONG[name][1])
    for a, b in zip(results, expected_of(name), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def filtered(a, q, ys):
    """The mean and the covariance of a filter: one system, whose numbers are registers."""

    def step(carry, y):
        mean, covariance = carry
        mean, covariance = a @ mean, a @ covariance @ a.T + q
        gain = covariance[:, 0] / (covariance[0, 0] + 0.1)
        error = y - mean[0]
        new = mean + gain * error, covariance - jnp.outer(gain, covariance[0])
        return new, (error, *new)

    return lax.scan(step, (jnp.zeros(3, a.dtype), jnp.eye(3, dtype=a.dtype)), ys)


FEW = {
    "filtered": (filtered, [f32(3, 3), f32(3, 3), f32(9)]),
    "filtered_gradient": (
        jax.grad(lambda *a: sum((x**2).sum() for x in jax.tree.leaves(filtered(*a)))),
        [f32(3, 3), f32(3, 3), f32(9)],
    ),
    "neighbours_3": (neighbours, [f32(3)]),
    "reversed_7": (reversed_, [f32(7)]),
    "total_5": (total, [f32(5)]),
    "total_counted_4": (total_counted, [f32(4)]),
    "own_transpose_3": (own_transpose, [f32(3, 3)]),
    "until_all_3": (lambda x: until_all(x) + 1, [f32(3)]),
    "frozen_3": (frozen, [f32(3, 2), 9 * f32(3)]),
    "frozen_by_another_3": (lambda x: frozen_by_another(x) + 1, [f32(3)]),
    "partly_frozen_3": (partly_frozen, [f32(3), np.zeros(3, np.int32)]),
    "until_sum_3": (lambda x: until_sum(x) + 1, [f32(3)]),
    "split_4": (split, [f32(4)]),
    "mixed_8": (mixed, [f32(8), f32(8, 8)]),
    "systems_2": (systems, [f32(2, 3)]),
    "backwards_2": (backwards, [f32(2), f32(9, 2)]),
    "partly_written_3": (partly_written, [f32(3), f32(6, 3)]),
    "nested_3": (nested, [f32(3)]),
    "unknown_count_3": (unknown_count, [f32(3), np.int32(4)]),
}


@pytest.mark.parametrize("name", FEW)
def test_loop_over_few_numbers_is_one_kernel(name):
    function, arguments = FEW[name]
    module = compiled(function, arguments)
    assert fused_loops(module)
    assert not loops(module)
    assert all(not element_loops.plan(_loop_of(f)).axes for f in fused_loops(module))
    expected = evaluate(read(function, arguments), arguments)
    for a, b in zip(Simulation(module).run(arguments), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5)


def _loop_of(fusion):
    return next(i for i in fusion.called[0].instructions if i.opcode == "while")


def test_a_scan_of_many_steps_writes_single_rows():
    """How much a step computes does not depend on the length of what it writes into."""
    for dims in ((3,), (64,)):
        module = compiled(outputs, [f32(*dims), f32(5000, *dims)])
        assert len(fused_loops(module)) == 1


def test_inner_loop_is_fused_where_the_outer_one_cannot_be():
    def outer(_, x):
        x = lax.fori_loop(0, 6, lambda _, x: 0.9 * x * (1 - x), x)
        return x / jnp.sum(x)

    arguments = [f32(64)]
    module = compiled(lambda x: lax.fori_loop(0, 3, outer, x), arguments)
    assert len(fused_loops(module)) == len(loops(module)) == 1
    expected = evaluate(read(lambda x: lax.fori_loop(0, 3, outer, x), arguments), arguments)
    np.testing.assert_allclose(Simulation(module).run(arguments)[0], expected[0], rtol=1e-5)


def test_deep_nests_are_looked_at_from_the_inside():
    """A loop of more than four levels runs step by step down to the fourth from the inside."""

    def nest(depth):
        if depth == 0:
            return lambda _, x: x * 0.5 + 1
        return lambda _, x: lax.fori_loop(0, 2, nest(depth - 1), x)

    module = compiled(lambda x: nest(7)(0, x), [f32(64)])
    assert len(fused_loops(module)) == 1
    assert len(loops(module)) == 7 - element_loops.MAXIMUM_DEPTH


def test_program_without_loops_stays_the_same_object():
    from tripont.core.compiler.passes.fuse_loops import fuse_loops

    module = read(lambda x: x * 2, [f32(8)])
    assert fuse_loops(module, for_cpu()) is module


def test_states_that_begin_with_one_constant():
    """One that the loop writes everywhere, which the kernel makes itself, and one that it updates in memory."""
    steps, length = 12, 100

    def write(state, x, at):
        starts = (at, jnp.int32(0))
        return lax.dynamic_update_slice(state, x[None], starts, allow_negative_indices=False)

    def function(x):
        zeros = jnp.zeros((steps, length), jnp.float32)

        def step(state):
            i, everywhere, sparse, x = state
            return i + 1, write(everywhere, x, i), write(sparse, x, i // 2), x * 0.9 + 1

        start = (jnp.int32(0), zeros, zeros, x)
        return lax.while_loop(lambda state: state[0] < steps, step, start)[1:]

    x = np.linspace(0, 1, length, dtype=np.float32)
    module = compiled(function, [x])
    assert fused_loops(module)
    everywhere, sparse, last = Simulation(module).run([x])
    expected = [x]
    for _ in range(steps):
        expected.append(expected[-1] * np.float32(0.9) + np.float32(1))
    close = functools.partial(np.testing.assert_allclose, rtol=2 * steps * 2.0**-24)
    close(everywhere, expected[:steps])
    close(sparse[: steps // 2], expected[1:steps:2])
    assert not sparse[steps // 2 :].any()
    close(last, expected[steps])
