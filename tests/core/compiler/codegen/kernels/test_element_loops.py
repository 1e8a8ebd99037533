"""Kernels that are whole loops against the reference evaluator: lengths, dtypes, registers and strips, CPUs."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler.codegen.kernels import element_loops as kernels
from tripont.core.compiler.codegen.kernels.emit import emit_kernel
from tripont.core.compiler.fusion import element_loops
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.reference.evaluate import evaluate_computation
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.codegen.harness import Kernel, aligned
from tests.core.compiler.loops import compiled, fused_loops

CPUS = ("x86-64-v2", "x86-64-v3", "x86-64-v4")


def f32(*dims, seed=0):
    return np.random.default_rng(seed).uniform(0.1, 0.9, dims).astype(np.float32)


def fusion_of(function, arguments) -> hlo.Instruction:
    """The fused loop of a program, with parameters for operands."""
    (fusion,) = fused_loops(compiled(function, arguments))
    return fusion.replace(operands=fusion.called[0].parameters)


def loop_of(fusion: hlo.Instruction) -> hlo.Instruction:
    return next(i for i in fusion.called[0].instructions if i.opcode == "while")


def form_of(fusion: hlo.Instruction, cpu: str = "x86-64-v4") -> kernels.Form:
    plan = element_loops.plan(loop_of(fusion))
    axis = kernels.lane_axis(plan)
    return kernels.form_of(for_cpu(cpu), loop_of(fusion), plan, plan.axes[axis])


def arguments_of(fusion: hlo.Instruction) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    arguments = []
    for o in fusion.operands:
        if o.dtype.kind == "pred":
            arguments.append(rng.random(o.dims) < 0.5)
        elif o.dtype.is_integer:
            arguments.append(rng.integers(0, 20, o.dims).astype(o.dtype.numpy))
        else:
            arguments.append(rng.uniform(0.1, 0.9, o.dims).astype(o.dtype.numpy))
    return arguments


def check(function, arguments, cpu="host", tolerance=1e-5) -> hlo.Instruction:
    """Run the fused loop's kernel, its blocks last first in two pieces, and compare with the evaluator."""
    fusion = fusion_of(function, arguments)
    values = arguments_of(fusion)
    expected = evaluate_computation(fusion.called[0], values)
    for a, b in zip(run(fusion, values, cpu), expected, strict=True):
        if a.dtype.kind in "iub":
            np.testing.assert_array_equal(a, b)
        else:
            wide = np.complex128 if a.dtype.kind == "c" else np.float64
            np.testing.assert_allclose(
                a.astype(wide), b.astype(wide), rtol=tolerance, atol=tolerance
            )
    return fusion


def run(fusion: hlo.Instruction, values, cpu="host") -> list[np.ndarray]:
    """The results of the fused loop's kernel, whose blocks run last first in two pieces."""
    kernel = Kernel(fusion, for_cpu(cpu))
    results = [aligned(s.dims, s.dtype.numpy) for s in fusion.result_shapes]
    inputs = []
    for value in values:
        inputs.append(aligned(np.shape(value), value.dtype))
        inputs[-1][...] = value
    for result, operand in fusion.attributes["in_place"]:
        results[result] = inputs[operand]
    kernel.call([*inputs, *results], [kernel.emitted.work_count // 2])
    return results


def elementwise(x, r):
    return lax.fori_loop(0, 7, lambda _, x: r * x * (1 - x), x)


def lorenz(y):
    def step(_, y):
        a, b, c = y
        return y + 0.01 * jnp.array([10 * (b - a), a * (28 - c) - b, a * b - 2.5 * c])

    return jax.vmap(lambda y: lax.fori_loop(0, 5, step, y))(y)


def gate(x, xs):
    """A long chain of operations in each step, rows that are read and rows that are written."""

    def step(x, y):
        z = jax.nn.sigmoid(x + y)
        x = (1 - z) * jnp.tanh(y * z) + z * x
        return x, (x, z)

    return lax.scan(step, x, xs)


def frozen(y, limit):
    def solve(y, limit):
        def unfinished(s):
            return (s[0].sum() < limit) & (s[1] < 20)

        return lax.while_loop(unfinished, lambda s: (s[0] * 1.25, s[1] + 1), (y, 0))

    return jax.vmap(solve)(y, limit)


@pytest.mark.parametrize("size", [8, 9, 15, 16, 17, 31, 33, 64, 100, 1023, 4096, 5000])
def test_length(size):
    check(elementwise, [f32(size), f32(size)])
    check(lorenz, [f32(size, 3)])


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("size", [13, 64, 1000])
def test_cpu(cpu, size):
    check(elementwise, [f32(size), f32(size)], cpu)
    check(lorenz, [f32(size, 3)], cpu)
    check(frozen, [f32(size, 3), 9 * f32(size)], cpu)
    check(gate, [f32(size), f32(6, size)], cpu)


@pytest.mark.parametrize("size", [8, 17, 130, 1000, 4099, 20_000])
def test_strips(size):
    fusion = check(gate, [f32(size), f32(5, size)])
    assert form_of(fusion).is_strip == (size >= 32)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("size", [17, 130, 4099])
def test_rows_of_what_a_state_was(cpu, size):
    """What a step writes of a state that it replaces by something else, which no other value reads."""

    def shift(a, b, c, xs):
        def step(state, x):
            a, b, c = state
            return (b * 0.5, c + x, x), (a, a + c, b)

        return lax.scan(step, (a, b, c), xs)

    arguments = [f32(size, seed=n) for n in range(3)]
    fusion = check(shift, [*arguments, f32(7, size, seed=3)], cpu, tolerance=0)
    assert size == 17 or form_of(fusion, cpu).is_strip


def test_short_steps_stay_in_registers():
    assert not form_of(fusion_of(elementwise, [f32(4096), f32(4096)])).is_strip
    assert not form_of(fusion_of(frozen, [f32(4096, 3), f32(4096)])).is_strip


@pytest.mark.parametrize("dims", [(3, 40), (40, 3), (5, 7, 9), (2, 100, 2), (70, 70)])
def test_several_axes(dims):
    check(elementwise, [f32(*dims), f32(*dims)])


@pytest.mark.parametrize(
    "dtype",
    [
        *("float64", "bfloat16", "float16", "int8", "uint8", "int16", "int32", "uint32", "int64"),
        *("uint64", "complex64", "complex128"),
    ],
)
@pytest.mark.parametrize("strip", [False, True])
def test_dtype(dtype, strip):
    """Small floats are rounded in each step, as in memory; pred states are states as well."""
    with jax.enable_x64(True):
        numbers = (f32(200) * (90 if "int" in dtype else 1)).astype(dtype)

        def step(s, x):
            value, odd = s
            value = jnp.where(odd, value * 3 + x, value + x)
            return (value, ~odd), (value if strip else None)

        def function(x, xs):
            return lax.scan(step, (x, jnp.real(x) > 0.5), xs)

        function = functools.partial(function)
        rows = np.broadcast_to(numbers, (6, 200)).copy()
        tolerance = {"bfloat16": 2e-2, "float16": 2e-3}.get(dtype, 1e-5)
        check(function, [numbers, rows], tolerance=tolerance)


@pytest.mark.parametrize(("size", "strip"), [(64, True), (4096, False)])
def test_small_floats_are_rounded_in_each_step(size, strip):
    """1 + 2^-9 is 1 in bf16, however often it is added."""

    def function(x):
        return lax.fori_loop(0, 1000, lambda _, x: x + jnp.bfloat16(2**-9), x)

    x = np.ones(size, jnp.bfloat16)
    fusion = fusion_of(function, [x])
    assert form_of(fusion).is_strip == strip
    (result,) = Kernel(fusion).run([x])
    np.testing.assert_array_equal(result, x)


@pytest.mark.parametrize("count", [2, 3])
def test_unknown_number_of_steps(count):
    def function(x, n):
        return lax.fori_loop(0, n, lambda i, x: x * 0.9 + i, x)

    fusion = fusion_of(function, [f32(50), np.int32(count)])
    kernel = Kernel(fusion)
    for n in (0, 1, count):
        values = [
            f32(50) if o.dims else np.int32(n if k else 0) for k, o in enumerate(fusion.operands)
        ]
        expected = evaluate_computation(fusion.called[0], values)
        for a, b in zip(kernel.run(values), expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-6)


def test_rows_that_are_not_written_stay():
    """The array that is updated is the operand's memory, and only its rows 1 to 3 are touched."""

    def function(x, h):
        def step(i, s):
            x, h = s
            return x * 0.5, lax.dynamic_update_index_in_dim(h, x, i + 1, 0)

        return lax.fori_loop(0, 3, step, (x, h))

    x, h = f32(100), f32(6, 100, seed=2)
    fusion = fusion_of(function, [x, h])
    ((result, operand),) = fusion.attributes["in_place"]
    values = [x if len(o.dims) == 1 else h.copy() for o in fusion.operands]
    expected = evaluate_computation(fusion.called[0], values)
    arrays = [np.zeros(s.dims, s.dtype.numpy) for s in fusion.result_shapes]
    arrays[result] = values[operand]
    Kernel(fusion).call([*values, *arrays])
    for a, b in zip(arrays, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


@pytest.mark.parametrize("cpu", ["host", "x86-64-v2"])
def test_rows_that_the_last_steps_wrote(cpu):
    def mean(x, y):
        def step(i, x):
            window = lax.dynamic_slice(x, (i - 8,), (8,))
            return lax.dynamic_update_slice(x, window.mean(keepdims=True) + y[i], (i,))

        return lax.fori_loop(8, 40, step, x)

    def backwards(x, y):
        def step(k, x):
            i = 37 - k
            return x.at[i].set(0.5 * x[i + 1] - y[i] * x[i + 2])

        return lax.fori_loop(0, 38, step, x)

    for function in (mean, backwards):
        check(function, [f32(40), f32(40, seed=1)], cpu)


def test_what_is_the_same_for_all_elements():
    """A state that all elements share takes a step with each block, in registers and in strips."""

    def function(x, key):
        def step(s, _):
            x, key = s
            key, used = jax.random.split(jax.random.wrap_key_data(key))
            noise = jax.random.uniform(used, x.shape)
            return (0.9 * x + 0.1 * noise, jax.random.key_data(key)), None

        return lax.scan(step, (x, key), length=4)[0]

    for size in (8, 1000):
        fusion = check(function, [f32(size), np.array([1, 2], np.uint32)])
        assert form_of(fusion).is_strip == (size > 8)


def test_a_state_without_elements():
    """It changes, and there is nothing to carry, nor to store."""

    def function(x, y, z):
        return lax.fori_loop(0, 3, lambda _, s: (0.5 * s[0], s[2], s[2]), (x, y, z))[:2]

    for size in (8, 1000):
        fusion = check(function, [f32(size), f32(8, 3, 0), f32(8, 3, 0)])
        assert [s.elements for s in fusion.result_shapes] == [size, 0]


def test_nested_loops():
    def function(x, n):
        def outer(i, x):
            x = lax.fori_loop(0, n, lambda j, x: x * 0.5 + j, x)
            return lax.fori_loop(0, 3, lambda j, x: jnp.tanh(x) + i, x)

        return lax.fori_loop(0, 4, outer, x)

    check(function, [f32(100), np.int32(3)])


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "int8", "complex64"])
def test_products_of_an_elements_numbers(dtype):
    """Matrices that all elements share, and one for each; sums of products in the result's type."""
    with jax.enable_x64(True):
        y, a, b = ((8 * f32(*dims)).astype(dtype) for dims in ((50, 3), (3, 3), (50, 3, 3)))

        def step(_, y):
            y = jnp.einsum("ij,nj->ni", a / 8 if dtype != "int8" else a, y)
            y = jnp.einsum("nij,nj->ni", b, y, preferred_element_type=y.dtype) / 8
            return (y + jnp.einsum("ni,ni->n", y, y)[:, None] / 64).astype(dtype)

        tolerance = {"bfloat16": 5e-2}.get(dtype, 2e-5)
        check(lambda y, b: lax.fori_loop(0, 3, step, y), [y, b], tolerance=tolerance)


@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
@pytest.mark.parametrize("size", [1, 50])
def test_sums_of_negative_zeros_are_zero(size, dtype):
    """A sum begins with 0, of an element's numbers as of others, for one system and for many."""
    y, a = np.zeros((size, 3)).astype(dtype), (-np.ones((3, 3))).astype(dtype)
    with jax.enable_x64(True):
        fusion = fusion_of(
            lambda y, a: lax.fori_loop(0, 5, lambda _, y: jnp.einsum("ni,ij->nj", y, a), y), [y, a]
        )
        values = [
            -np.ones(o.dims, o.dtype.numpy) if o.dims == (3, 3) else np.zeros(o.dims, o.dtype.numpy)
            for o in fusion.operands
        ]
        results = run(fusion, values)
    (got,) = (r for r in results if r.size == y.size)
    assert not np.signbit(got.astype(np.complex128).view(np.float64)).any()


def test_products_of_matrices():
    def function(m, a):
        def step(_, m):
            return 0.3 * jnp.einsum("nij,njk->nik", m, a) + m.transpose(0, 2, 1)

        return lax.fori_loop(0, 4, step, m)

    check(function, [f32(30, 3, 3), f32(30, 3, 3)])


def test_numbers_in_any_order():
    """Stacks, slices, reversals, paddings, sums and tables along the dimensions that are not the elements'."""

    def function(x, table):
        def step(i, x):
            a, b, c = x[:, 0], x[:, 1], x[:, 2]
            y = jnp.stack([c, a, b, jnp.sum(x, 1)], 1)[:, ::-1]
            y = jnp.pad(y, ((0, 0), (1, 2)))[:, 1:4] + jnp.max(x, 1, keepdims=True)
            y = y * table[(jnp.abs(x[:, :1]) * 3).astype(jnp.int32) % 5]
            return jnp.concatenate([y[:, 2:], y[:, :2]], 1) * 0.3 + lax.dynamic_index_in_dim(
                table, i
            )

        return lax.fori_loop(0, 5, step, x)

    check(function, [f32(77, 3), f32(5)])


# ------------------------------------------------------------------------------------------------ random bodies


def random_loop(seed: int, few: bool = False):
    """A loop of some steps, and its arguments: the body moves, mixes and sums an element's numbers. ``few``: there are
    so few elements that they are numbers too.
    """
    rng = np.random.default_rng(seed)
    size, count, steps = int(rng.integers(8, 200)), int(rng.integers(1, 5)), int(rng.integers(2, 6))
    if few:
        size = 1 + size % 4
    first = bool(rng.integers(0, 2))  # whether the elements' dimension is the first one
    rows, unknown = bool(rng.integers(0, 2)), bool(rng.integers(0, 2))
    axis = 1 if first else 0  # of an element's numbers
    choices = [
        tuple(int(n) for n in rng.integers(0, 1 << 16, 4)) for _ in range(int(rng.integers(3, 9)))
    ]

    def one(v, other, table, i, choice):
        kind, a, b, _ = choice
        match kind % 15:
            case 0:
                return jnp.stack([jnp.take(v, k, axis) for k in rng_order(count, a)], axis)
            case 1:
                return v + jnp.sum(other, axis, keepdims=True)
            case 2:
                return jnp.roll(v, a % 3, axis)
            case 3:
                return jnp.flip(v, axis) * 0.5
            case 4:
                return (v.T * 0.7 + other.T).T
            case 5:
                return jnp.where(v > other, v, other * 0.3)
            case 6:
                return jnp.tanh(v) + i.astype(v.dtype)
            case 7:
                return v * table[jnp.abs(other * 4).astype(jnp.int32) % 7]
            case 8:
                cut = a % (count + 1)
                parts = jnp.split(v, [cut], axis)
                return jnp.concatenate([parts[1], parts[0]], axis)
            case 9:
                return jnp.max(v, axis, keepdims=True) - other
            case 10:
                return v * table[i % 7] + b % 5
            case 11:
                return (v[None] * jnp.arange(1.0, 3.0, dtype=v.dtype)[:, None, None]).sum(0)
            case 12:
                pads = [(0, 0), (0, 0)]
                pads[axis] = (1, 0)
                return jax.lax.slice_in_dim(jnp.pad(v, pads), 0, count, axis=axis) + other
            case 13:
                return jnp.minimum(v, jnp.abs(other)) - jnp.prod(v, axis, keepdims=True) * 0.1
            case _:
                return jax.lax.reduce_precision(v * other, 8, 12)

    def rng_order(n, a):
        return np.random.default_rng(a).integers(0, n, n)

    def body(i, x, y):
        x, y = x * 0.5, y
        for choice in choices:
            x, y = one(x, y, TABLE, i, choice), x
            x = jnp.clip(x, -10, 10)
        return x, y

    TABLE = jnp.asarray(f32(7, seed=seed))
    dims = (size, count) if first else (count, size)
    arguments = [f32(*dims, seed=seed), f32(*dims, seed=seed + 1)]
    if rows:

        def function(x, y, xs):
            def step(s, r):
                i, x, y = s
                a, b = body(i, x, y)
                # Former states are written where the numbers of choices say so.
                former = len(choices) % 2 and (b * 0.5 if choices[0][3] % 2 else r, x)
                return (i + 1, a + r, former[0] if former else b), (
                    (y, former[1]) if former else (a, jnp.sum(b, axis))
                )

            return lax.scan(step, (jnp.int32(0), x, y), xs, reverse=unknown)

        return function, [*arguments, f32(steps, *dims, seed=seed + 2)]
    if unknown:
        return (
            lambda x, y, n: lax.fori_loop(0, n, lambda i, s: body(i, *s), (x, y)),
            [*arguments, np.int32(steps)],
        )
    return lambda x, y: lax.fori_loop(0, steps, lambda i, s: body(i, *s), (x, y)), arguments


def check_random(seed: int, few: bool = False) -> bool:
    """Whether the loop of a seed became a kernel; it is right then."""
    function, arguments = random_loop(seed, few)
    found = fused_loops(compiled(function, arguments))
    if len(found) != 1:
        return False
    check(function, arguments, CPUS[seed % 3], tolerance=2e-4)
    return True


@pytest.mark.parametrize("first", range(0, 24, 8))
def test_random_bodies(first):
    assert sum(check_random(seed) for seed in range(first, first + 8)) >= 4


@pytest.mark.parametrize("first", range(0, 24, 8))
def test_random_bodies_of_few_numbers(first):
    assert sum(check_random(seed, few=True) for seed in range(first, first + 8)) >= 2


# ------------------------------------------------------------------------------------------------------ few numbers


def filtered(a, q, ys):
    """A filter's mean and covariance, with what its gradient needs."""

    def step(carry, y):
        mean, covariance = carry
        mean, covariance = a @ mean, a @ covariance @ a.T + q
        gain = covariance[:, 0] / (covariance[0, 0] + a.dtype.type(0.25))
        error = y - mean[0]
        new = mean + gain * error, covariance - jnp.outer(gain, covariance[0])
        return new, (error, *new)

    return lax.scan(step, (jnp.zeros(3, a.dtype), jnp.eye(3, dtype=a.dtype)), ys)


@pytest.mark.parametrize("cpu", CPUS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "bfloat16", "complex64"])
def test_one_system(cpu, dtype):
    with jax.enable_x64(True):
        arguments = [
            f32(*dims, seed=n).astype(dtype) for n, dims in enumerate(((3, 3), (3, 3), (7,)))
        ]
        fusion = check(filtered, arguments, cpu, {"bfloat16": 5e-2}.get(dtype, 2e-5))
    assert not element_loops.plan(loop_of(fusion)).axes


def test_integers_of_one_system_are_exact():
    def function(x, w):
        return lax.fori_loop(0, 9, lambda i, x: w @ x + x[::-1] * i, x)

    x, w = (
        np.random.default_rng(3).integers(-(2**31), 2**31, n).astype(np.int32) for n in (4, (4, 4))
    )
    check(function, [x, w])


@pytest.mark.parametrize("count", [0, 1, 5])
def test_one_system_until_a_condition(count):
    """The condition reads numbers of states; a loop may take no step at all."""

    def function(x, n):
        return lax.while_loop(
            lambda s: (s[1] < n) & (s[0].sum() < 1e6),
            lambda s: (s[0] + s[0][::-1], s[1] + 1),
            (x, 0),
        )

    fusion = fusion_of(function, [f32(3), np.int32(count)])
    values = [f32(3) if o.dims else np.int32(count) for o in fusion.operands]
    expected = evaluate_computation(fusion.called[0], values)
    for a, b in zip(Kernel(fusion).run(values), expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-6)


def test_small_floats_of_one_system_are_rounded_in_each_step():
    """1 + 2^-9 is 1 in bf16, however often it is added."""

    def function(x):
        return lax.fori_loop(0, 1000, lambda _, x: x[::-1] + jnp.bfloat16(2**-9), x)

    x = np.ones(3, jnp.bfloat16)
    (result,) = Kernel(fusion_of(function, [x])).run([x])
    np.testing.assert_array_equal(result, x)


def inventory(demand):
    """Each step writes an element, and waits for the comparisons of the one before."""

    def step(t, x):
        stock = jnp.where(x[t] <= 0.25, 2.0, x[t])
        return x.at[t + 1].set(jnp.maximum(stock - demand[t], 0.0))

    n = len(demand)
    return lax.fori_loop(0, n, step, jnp.full(n + 1, 0.75, demand.dtype))


@pytest.mark.parametrize(("cpu", "masks"), [("znver4", False), ("sapphirerapids", True)])
def test_where_masks_are_slow_one_system_does_without(cpu, masks):
    module = for_cpu(cpu).module()
    emit_kernel(module, for_cpu(cpu), fusion_of(inventory, [f32(50)]), "kernel")
    assert ("llvm.x86.sse.cmp.ss" in str(module)) != masks
    check(inventory, [f32(50)])


def test_an_update_costs_what_it_writes():
    """However long the array is, its loop of so many steps takes as long."""

    def cost(n):
        loop = loop_of(fusion_of(inventory, [f32(n)]))
        return kernels.cost_of(for_cpu(), loop) / loop.attributes["trip_count"]

    assert cost(50) == cost(50_000)
