"""Arrays in the order of a sort are what the sort gives, and sorts carry along what is read alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir.hlo import Module
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.sorted_gathers import gather_by_sorting
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.conformance import device
from tests.core.compiler.loops import GENERATED, read

N = 70


def numbers(dtype: type, *dims: int, seed: int = 0) -> np.ndarray:
    """Many equal ones; of floats also both zeros, infinities and NaNs."""
    values = np.random.default_rng(seed).integers(-9, 9, dims or (N,)).astype(dtype)
    if dtype is np.float32:
        values.reshape(-1)[[3, 5, 7, 8, 20]] = [-0.0, np.nan, np.inf, -np.nan, -np.inf]
    return values


def carried(function: Callable[..., Any], *arguments: np.ndarray) -> tuple[list[int], int]:
    """How many operands the program's sorts have with the pass, and how many gathers are left; no bit changes."""
    place = GENERATED.index(gather_by_sorting)
    before = pipeline.run(read(function, arguments), for_cpu(), Dump(), GENERATED[:place])
    after = gather_by_sorting(before)
    assert sum(_gathers(before)) > 0 or len(_operands(before)) > 0
    executable = device.compile_program(jax.jit(function).lower(*arguments).as_text())
    expected = evaluate(before, arguments)
    for found in (evaluate(after, arguments), device.run(executable, arguments)):
        for a, b in zip(found, expected, strict=True):
            assert a.tobytes() == b.tobytes()
    return _operands(after), sum(_gathers(after))


def _operands(module: Module) -> list[int]:
    return [len(i.operands) for i in module.all_of("sort")]


def _gathers(module: Module) -> list[int]:
    return [1 for _ in module.all_of("gather")]


@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8])
def test_sorted_numbers_are_the_sorts(dtype: type) -> None:
    x = numbers(dtype)
    assert carried(lambda x: x[jnp.argsort(x)], x) == ([1], 0)
    assert carried(lambda x: x[jnp.argsort(x)[::-1]], x) == ([1], 0)
    assert carried(lambda x: x[jnp.argsort(x)[::-1][2:9:3]], x) == ([1], 0)
    assert carried(lambda x: (x[jnp.argsort(x)], jnp.argsort(x)), x) == ([2], 0)


@pytest.mark.parametrize("axis", [0, 1])
def test_rows_and_columns(axis: int) -> None:
    x, y = numbers(np.float32, 6, 11), numbers(np.int32, 6, 11, seed=1)

    def along(array: jax.Array, keys: jax.Array) -> jax.Array:
        return jnp.take_along_axis(array, jnp.argsort(keys, axis), axis)

    assert carried(lambda x: along(x, x), x) == ([1], 0)
    assert carried(along, y, x) == ([2], 0)


def test_places_that_are_gathered_stay() -> None:
    """The numbers of all places, gathered at a sort's places, are these places, whose results then are two."""
    x, y = numbers(np.float32), numbers(np.int32, seed=1)

    def both(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
        places = jnp.argsort(x)
        return jnp.arange(N, dtype=places.dtype)[places], y[places]

    assert carried(both, x, y) == ([2], 1)
    assert carried(lambda x: both(x, x)[0], x) == ([2], 0)


def test_an_array_takes_the_place_of_the_places() -> None:
    x, y = numbers(np.float32), numbers(np.int16, seed=1)
    assert carried(lambda x, y: y[jnp.argsort(x)], x, y) == ([2], 0)
    assert carried(lambda x, y: (x[jnp.argsort(x)], y[jnp.argsort(x)]), x, y) == ([2], 0)
    assert carried(lambda x, y: y[jnp.lexsort((x, y))], x, y) == ([2], 0)
    complex_ = numbers(np.float64, N, seed=2) * (1 + 2j)
    assert carried(lambda x, z: z[jnp.argsort(x)], x, complex_.astype(np.complex64)) == ([2], 0)


def test_places_that_are_read_stay() -> None:
    x, y = numbers(np.float32), numbers(np.float32, seed=1)
    for function in (
        lambda x, y: (y[jnp.argsort(x)], jnp.argsort(x)),
        lambda x, y: (y[jnp.argsort(x)], (2 * y)[jnp.argsort(x)]),
        lambda x, y: y[jnp.argsort(x)] * jnp.argsort(x),
        lambda x, y: y[N - 1 - jnp.argsort(x)],
        lambda x, y: (y[jnp.argsort(x)] * y)[jnp.argsort(x)],
    ):
        assert carried(function, x, y)[0] == [2]
        assert carried(function, x, y)[1] > 0


def test_other_numbers_of_places_stay() -> None:
    """Near misses: another order of numbers, another number of elements, another dimension."""
    x, y = numbers(np.float32), numbers(np.float32, N + 1, seed=1)
    square = numbers(np.float32, 8, 8)
    assert carried(lambda x, y: y[jnp.argsort(x)], x, y) == ([2], 1)

    def halves(x: jax.Array) -> jax.Array:
        places = lax.sort_key_val(x, jnp.arange(N, dtype=np.int32) // 2)[1]
        return x[places]

    assert carried(halves, x) == ([2], 1)
    assert carried(lambda s: jnp.take_along_axis(s, jnp.argsort(s, 0), 1), square) == ([2], 1)
    assert carried(lambda s: s[jnp.argsort(s[:, 0])], square) == ([2], 1)


def test_what_is_carried_for_nobody_is_left_out() -> None:
    x, y, z = numbers(np.float32), numbers(np.int32, seed=1), numbers(np.float32, seed=2)
    assert carried(lambda x, y, z: lax.sort((x, y, z), num_keys=1)[0], x, y, z) == ([1], 0)
    assert carried(lambda x, y, z: lax.sort((x, y, z), num_keys=1)[2], x, y, z) == ([2], 0)
    assert carried(lambda x, y, z: lax.sort((x, y, z), num_keys=2)[2], x, y, z) == ([3], 0)
    assert carried(lambda x, y, z: lax.sort((x, y, z), num_keys=2)[0], x, y, z) == ([2], 0)


def test_places_that_wrap_are_no_places() -> None:
    """Numbers of 8 bits do not count 200 elements."""
    x = numbers(np.float32, 200)

    def wrapped(x: jax.Array) -> jax.Array:
        return x[lax.sort_key_val(x, lax.iota(np.int8, 200))[1].astype(np.int32)]

    assert carried(wrapped, x) == ([2], 1)


@pytest.mark.parametrize("size", [1, 2, 3000, 200_000])
def test_unique_numbers(size: int) -> None:
    x = np.random.default_rng(size).integers(0, 50, size).astype(np.int32)
    function = jax.jit(lambda x: jnp.unique(x, size=64, fill_value=-1))
    executable = device.compile_program(function.lower(x).as_text())
    (found,) = device.run(executable, [x])
    expected = np.unique(x)
    np.testing.assert_array_equal(found[: len(expected)], expected)
    np.testing.assert_array_equal(found[len(expected) :], -1)
