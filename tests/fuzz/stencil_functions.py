"""Stencils of stencils on grids, as JAX's users write solvers and filters: what the compiler computes plane by plane.

Neighbours come by ``jnp.roll``, by slices and by padded slices, along any axes; several arrays depend on one another;
what was computed before is read again later; some steps read what is no neighbourhood. All numbers are small whole
ones.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax

from tests.fuzz.jax_functions import lowered
from tests.fuzz.judge import Case

Array = Any

# Arrays of 64 KB and more (Costs.fusion.chained), some with rows that no vector fills.
_GRIDS: Final = [
    (64, 260), (130, 200), (257, 129), (1000, 64), (2000, 16), (33, 700), (16, 33, 65), (40, 41, 17),
    (70, 16, 67), (9, 64, 64), (128, 20, 8), (6, 33, 9, 64), (20000, 3), (40000,),
]  # fmt: skip
_DTYPES: Final = [
    "float32",
    "float32",
    "float32",
    "float64",
    "int32",
    "int16",
    "bfloat16",
    "complex64",
]
_LONGEST_SUM: Final = 300  # of running sums, of which the evaluator makes as many as elements
_LARGEST: Final = 16  # a sum of a few of these is a number of every dtype


def bounded(x: Array) -> Array:
    """Numbers that every dtype has, and sums of a few of them; of complex ones the real part."""
    if jnp.iscomplexobj(x):
        return x.real.clip(-_LARGEST, _LARGEST) + 1j * x.imag.clip(-_LARGEST, _LARGEST)
    return jnp.clip(x, -_LARGEST, _LARGEST)


def moved(chances: Random, x: Array) -> Array:
    """The neighbours of each place along some axes."""
    for axis in chances.sample(range(x.ndim), chances.choice([0, 1, 1, min(2, x.ndim)])):
        by = chances.choice([-3, -2, -1, -1, 1, 1, 2, 3])
        size = x.shape[axis]
        if abs(by) >= size:
            continue
        way = chances.randrange(4)
        if way == 0:
            x = jnp.roll(x, by, axis)
        elif way == 1:
            kept = lax.slice_in_dim(x, max(-by, 0), size - max(by, 0), axis=axis)
            widths = [(0, 0)] * x.ndim
            widths[axis] = (max(by, 0), max(-by, 0))
            x = jnp.pad(kept, widths)
        elif way == 2:
            kept = lax.slice_in_dim(x, max(-by, 0), size - max(by, 0), axis=axis)
            end = lax.slice_in_dim(x, 0, abs(by), axis=axis)
            x = jnp.concatenate([end, kept] if by > 0 else [kept, end], axis)
        else:
            at = jnp.arange(size).reshape([-1 if n == axis else 1 for n in range(x.ndim)])
            x = jnp.where((at < 2) | (at >= size - 1), x, jnp.roll(x, by, axis))
    return x


def stage(chances: Random, values: list[Array]) -> Array:
    """A few neighbours of a few of the last values, added up."""
    total = None
    for _ in range(chances.choice([2, 3, 5])):
        x = moved(chances, chances.choice(values[-3:]))
        more = chances.choice(
            [x, x, -x, x + x]
        )  # (an infinite complex number times 1 is not itself)
        total = x if total is None else total + more
    assert total is not None
    return bounded(total)


def _far(chances: Random, x: Array) -> Array:
    """What is no neighbourhood, or an edge."""
    axis = chances.randrange(x.ndim)
    ways = [
        lambda: jnp.flip(x, axis),
        lambda: jnp.roll(x, x.shape[axis] // 2, axis),
        lambda: x.at[(slice(None),) * axis + (0,)].set(1),
        lambda: jnp.repeat(lax.slice_in_dim(x, 0, 1, axis=axis), x.shape[axis], axis),
    ]
    if x.dtype != jnp.bfloat16:  # which has too few digits for long sums
        ways.append(lambda: bounded(x - x.sum(axis, keepdims=True, dtype=x.dtype)))
        if x.shape[axis] <= _LONGEST_SUM:
            ways.append(lambda: bounded(jnp.cumsum(x, axis, dtype=x.dtype)))
    return chances.choice(ways)()


def _program(chances: Random) -> Callable[..., Array]:
    seed = chances.getrandbits(32)
    stages = chances.choice([2, 2, 3, 4, 5])
    in_a_loop = chances.random() < 0.4
    results = chances.choice([1, 1, 1, 2, 3])
    far = chances.random() < 0.3

    def function(*arguments: Array) -> tuple[Array, ...]:
        inner = Random(seed)
        values = list(arguments)
        for _ in range(stages):
            values.append(stage(inner, values))
            if far and inner.random() < 0.3:
                values.append(_far(inner, values[-1]))
        if results == 1:
            return (bounded(values[-1] + values[0]),)
        if (
            inner.random() < 0.5
        ):  # fields of a solver, each made of the last stages and of what it was
            fields = [stage(inner, values) for _ in range(results)]
            return tuple([bounded(f + values[n % len(values)]) for n, f in enumerate(fields)])
        return tuple(values[-1 : -1 - min(results, stages) : -1])

    if not in_a_loop:
        return function
    steps = chances.choice([1, 2, 3, 4, 5])
    is_known = chances.random() < 0.6

    def loop(*arguments: Array) -> tuple[Array, ...]:
        def step(_: Array, state: tuple[Array, ...]) -> tuple[Array, ...]:
            return (*function(*state), *state)[: len(state)]

        # No argument is so large, which the compiler does not know.
        more = (arguments[0].real.reshape(-1)[0] > 100).astype(int)
        count = steps if is_known else steps + more
        return lax.fori_loop(0, count, step, arguments)

    return loop


def make(seed: int) -> Case:
    """The program of a seed, as JAX lowers it."""
    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_platforms", "cpu")
    chances, numbers = Random(seed), np.random.default_rng(seed)
    dims, dtype = chances.choice(_GRIDS), jnp.dtype(chances.choice(_DTYPES))
    count = chances.choice([1, 2, 3])
    arguments = [numbers.integers(-4, 5, dims).astype(dtype) for _ in range(count)]
    donated = (0,) if seed % 3 == 0 else ()
    return Case(lowered(_program(chances), arguments, donated), arguments, xla=True)
