"""Which loops become a chain, those that nearly do, and that the program around them stays what it was."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler import pipeline
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.fusion.reach import Window, offsets_read, window_along
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.hlo import Instruction, Module
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.chain_loops import CHAIN
from tripont.core.compiler.reference.evaluate import evaluate

from tests.core.compiler.builders import priced
from tests.core.compiler.codegen.kernels.test_chain import loop, pad, roll, slice_
from tests.core.compiler.loops import GENERATED, read
from tests.core.compiler.simulate import Simulation

F32 = dtypes.F32
SHAPE = (40, 70)


def compiled(
    function: Callable,
    *dims: tuple[int, ...],
    least: int = 1,
    kept: int = 1 << 18,
    gain: float = 1.0,
) -> Module:
    """The module of ``function`` after all passes; arrays of ``least`` bytes between loops are worth a chain."""
    fusion = {"chained": least, "chained_rows": 1, "chained_gain": gain}
    target = priced(fusion=fusion, memory={"planes": kept}, thunks={"alternated": 256})
    arguments = [np.zeros(d, np.float32) for d in dims]
    return pipeline.run(read(function, arguments), target, Dump(), GENERATED)


def chains(module: Module) -> list[Instruction]:
    return [
        i
        for computation in module.computations()
        for i in computation.instructions
        if i.opcode == "fusion" and i.attributes["kind"] == CHAIN
    ]


def stencil(u):
    """A function of neighbours that is too much to be computed five times."""
    around = jnp.roll(u, 1, 0) + jnp.roll(u, -1, 0) + jnp.roll(u, 1, 1) + jnp.roll(u, -1, 1)
    return around - 4 * u - u * u * u


def runge_kutta(u):
    k1 = stencil(u)
    k2 = stencil(u + 0.5 * k1)
    k3 = stencil(u + 0.5 * k2)
    k4 = stencil(u + k3)
    return u + (k1 + 2 * k2 + 2 * k3 + k4) / 6


def squared_differences(u):
    inner = u[1:-1, 1:-1]
    return jnp.sum((u[2:, 1:-1] + u[:-2, 1:-1] + u[1:-1, 2:] + u[1:-1, :-2] - 4 * inner) ** 2)


def shallow_water(state):
    h, v = state
    speed = stencil(h) + v
    height = stencil(v) - h
    return stencil(speed) + height, stencil(height) * speed


def steps(u):
    return lax.fori_loop(0, 3, lambda _, u: 0.1 * runge_kutta(u), u)


def check(module: Module, function: Callable, *dims: tuple[int, ...]) -> None:
    """The module, simulated on real memory and evaluated, gives what the program gives as it was read."""
    chances = np.random.default_rng(1)
    arguments = [chances.integers(-2, 3, d).astype(np.float32) for d in dims]
    plain = read(function, arguments)
    flat = [np.asarray(a) for a in arguments]
    expected = evaluate(plain, flat)
    for results in (evaluate(module, flat), Simulation(module).run(flat)):
        for ours, theirs in zip(results, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    ("function", "loops"),
    [
        (lambda u: stencil(stencil(u)), 2),
        (lambda u: stencil(stencil(stencil(u))), 3),
        (runge_kutta, 4),
        (jax.grad(squared_differences), 2),
        (lambda u: stencil(stencil(u)) * jnp.cos(u), 2),
    ],
    ids=["two", "three", "runge-kutta", "gradient", "read at the end"],
)
def test_chains(function: Callable, loops: int) -> None:
    module = compiled(function, SHAPE)
    (chain,) = chains(module)
    assert len([i for i in chain.called[0].instructions if i.opcode == "fusion"]) == loops
    check(module, function, SHAPE)


def test_loops_with_several_results() -> None:
    def function(h, v):
        return shallow_water((h, v))

    module = compiled(function, SHAPE, SHAPE)
    assert chains(module)
    check(module, function, SHAPE, SHAPE)


def also_a_result(u):
    a = stencil(u)
    return a, stencil(a)


def fields(h, u, v):
    """A step of the midpoint method of three fields that read one another's neighbours."""

    def rates(h, u, v):
        return stencil(u) + stencil(v), stencil(h) - u * v, stencil(h) * 2 - v

    middle = [x + 0.5 * r for x, r in zip((h, u, v), rates(h, u, v), strict=True)]
    return [x + r for x, r in zip((h, u, v), rates(*middle), strict=True)]


def maxwell(e, x, y):
    x = x - 0.5 * (jnp.roll(e, -1, 1) - e)
    y = y + 0.5 * (jnp.roll(e, -1, 0) - e)
    return e + 0.5 * ((y - jnp.roll(y, 1, 0)) - (x - jnp.roll(x, 1, 1))), x, y


def read_elsewhere(u):
    """Running sums read the array between the stencils, and what is behind it."""
    a = stencil(u)
    b = stencil(a)
    return jnp.cumsum(a, 0), jnp.cos(b) + jnp.cumsum(b, 0), a


def padded(u):
    a = jnp.pad(u[1:] - u[:-1], ((0, 1), (0, 0)))
    b = jnp.pad(a[:-2] * a[2:], ((1, 1), (0, 0)))
    return a, b, jnp.pad(b[:, 3:], ((0, 0), (0, 3))) - a


@pytest.mark.parametrize(
    "function", [also_a_result, fields, maxwell, read_elsewhere, padded], ids=lambda f: f.__name__
)
def test_several_results(function: Callable) -> None:
    count = 3 if function in (fields, maxwell) else 1
    module = compiled(function, *[SHAPE] * count)
    assert len(chains(module)) == 1
    assert not isinstance(chains(module)[0].shape, hlo.Shape)
    check(module, function, *[SHAPE] * count)


def test_fields_in_a_loop_are_one_kernel_and_no_copy() -> None:
    def function(*state):
        return lax.fori_loop(0, 7, lambda _, s: tuple(0.1 * x for x in fields(*s)), state)

    module = compiled(function, SHAPE, SHAPE, SHAPE)
    (step,) = module.all_of("while")
    fusions = [i for i in step.called[1].instructions if i.opcode == "fusion"]
    large = [i.attributes["kind"] for i in fusions if i.called[0].results[0].dims]
    assert large == [CHAIN, CHAIN]
    thunks = list(artifact.walk(Simulation(module).lowered.thunks))
    copies = [t for t in thunks if isinstance(t, artifact.Copy)]
    assert not [c for c in copies if c.source.size >= 256]
    check(module, function, SHAPE, SHAPE, SHAPE)


def test_several_results_are_worth_less_traffic() -> None:
    """Fields that are written in place by themselves move little more than a chain, which is not in place."""
    assert chains(compiled(maxwell, SHAPE, SHAPE, SHAPE, gain=1.0))
    assert not chains(compiled(maxwell, SHAPE, SHAPE, SHAPE, gain=1.25))
    assert chains(compiled(fields, SHAPE, SHAPE, SHAPE, gain=1.25))


def test_in_the_body_of_a_loop() -> None:
    module = compiled(steps, SHAPE)
    assert chains(module)
    check(module, steps, SHAPE)


def whole_sum(u):
    a = stencil(u)
    return stencil(a) / jnp.sum(a)


def turned(u):
    a = stencil(u)
    return stencil(a) + a[::-1]


def far(u):
    a = stencil(u)
    return stencil(a) + jnp.roll(a, 20, 0)


def gathered(u):
    a = stencil(u)
    return stencil(a) + a[(jnp.arange(40) * 7) % 40]


def every_second(u):
    a = stencil(u)
    return stencil(a)[:20] + a[::2]


@pytest.mark.parametrize("function", [whole_sum, turned, far, gathered, every_second])
def test_nearly_chains(function: Callable) -> None:
    """An array that something else needs too, or that is not read in the neighbourhood of what is computed."""
    module = compiled(function, SHAPE)
    assert not chains(module)
    check(module, function, SHAPE)


@pytest.mark.parametrize(
    ("dims", "least", "kept"),
    [
        ((40, 70), 40 * 70 * 4 + 1, 1 << 18),
        ((40, 70), 1, 500),
        ((2000,), 1, 1 << 18),
        ((300, 63), 1, 1 << 18),
    ],
    ids=["small", "wide rows", "one dimension", "short rows"],
)
def test_shapes_without_chains(dims: tuple[int, ...], least: int, kept: int) -> None:
    def function(u):
        for _ in range(2):
            u = sum(jnp.roll(u, by, a) for a in range(u.ndim) for by in (1, -1)) - u * u * u * 0.5
        return u

    module = compiled(function, dims, least=least, kept=kept)
    assert not chains(module)
    check(module, function, dims)


def test_each_array_between_the_loops_is_without_memory() -> None:
    module = compiled(runge_kutta, SHAPE)
    simulation = Simulation(module)
    assert sum(a.size for a in simulation.assignment.allocations) < 3 * 40 * 70 * 4


# ------------------------------------------------------------------------------------------------------ what is read
def read_by(root: hlo.Instruction, x: hlo.Instruction) -> set:
    made = loop([x], root).called[0]
    found = offsets_read(made)
    assert found is not None
    return found[made.parameters[0]]


def test_offsets() -> None:
    x = hlo.parameter(0, hlo.Shape(F32, (10, 20)))
    assert read_by(slice_(x, 0, 3, 10), x) == {(3, 0)}
    assert read_by(pad(x, 1, 2, 0), x) == {(0, -2)}
    assert read_by(pad(slice_(x, 0, 1, 10), 0, 0, 1), x) == {(1, 0)}
    assert read_by(roll(x, 0, 1), x) == {(9, 0), (-1, 0)}
    columns = hlo.Instruction("reverse", x.shape, [x], {"dimensions": (1,)})
    assert read_by(columns, x) == {(0, None)}


def test_windows() -> None:
    assert window_along(0, [(-1, 0), (2, 0)], 10, 8) == Window(-1, 2)
    assert window_along(0, [(9, 0), (-1, 0)], 10, 10) == Window(-1, -1, wraps=True)
    assert window_along(1, [(0, None)], 20, 20) is None
