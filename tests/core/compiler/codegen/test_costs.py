"""Estimates of time: what a kernel reads of an array that it takes parts of."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler.codegen import costs
from tripont.core.compiler.compile import compile_program
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.formats.artifact import Copy, Kernel
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.hlo import GatherDimensionNumbers, Instruction
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import S32, module, op, parameter, reduce

TARGET = for_cpu("x86-64-v3")
FEW, MANY = 4, 1 << 20


def estimate(parameters: list[Instruction], *results: Instruction) -> float:
    """Nanoseconds of a kernel with these parameters and results."""
    return costs.of_computation(TARGET, module(parameters, *results).entry)


def row(x: Instruction, place: Instruction) -> Instruction:
    """One row of ``x``, [rows, 8], as [1, 8]."""
    starts = [place, hlo.constant(0, S32)]
    return op("dynamic-slice", x, *starts, dims=(1, 8), slice_sizes=(1, 8))


def gathered(x: Instruction, places: Instruction) -> Instruction:
    """The rows of ``x``, [rows, 8], at ``places``, [n], as [n, 8]."""
    numbers = GatherDimensionNumbers((1,), (0,), (0,), 1)
    return op(
        "gather",
        x,
        places,
        dims=(*places.dims, 8),
        dimension_numbers=numbers,
        slice_sizes=(1, 8),
        indices_are_sorted=False,
    )


def of_row(rows: int) -> float:
    x, place = parameter(0, rows, 8), parameter(1, dtype=S32)
    return estimate([x, place], op("negate", row(x, place)))


def of_reshaped_row(rows: int) -> float:
    x, place = parameter(0, rows, 2, 4), parameter(1, dtype=S32)
    return estimate([x, place], row(op("reshape", x, dims=(rows, 8)), place))


def of_slice(rows: int) -> float:
    x = parameter(0, rows, 8)
    part = op("slice", x, dims=(2, 8), starts=(1, 0), limits=(3, 8), strides=(1, 1))
    return estimate([x], op("negate", part))


def of_gather(rows: int) -> float:
    x, places = parameter(0, rows, 8), parameter(1, 3, dtype=S32)
    return estimate([x, places], gathered(x, places))


@pytest.mark.parametrize("of", [of_row, of_reshaped_row, of_slice])
def test_the_rest_of_an_array_costs_nothing(of) -> None:
    assert of(FEW) == of(MANY)


def test_a_gather_costs_a_line_for_each_part() -> None:
    """As much from a large array as from one that is larger still, and never more than the whole."""
    assert of_gather(FEW) <= of_gather(1 << 10) == of_gather(MANY)
    x, places = parameter(0, FEW, 8), parameter(1, 1, dtype=S32)
    whole = estimate([x, places], op("negate", x), gathered(x, places))
    assert estimate([x, places], gathered(x, places)) < whole


def sliced(x: Instruction, starts: tuple[int, ...], strides: tuple[int, ...]) -> Instruction:
    """The elements of ``x`` from ``starts`` on."""
    numbers = zip(x.dims, starts, strides, strict=True)
    dims = [-(-(size - start) // stride) for size, start, stride in numbers]
    return op("slice", x, dims=dims, starts=starts, limits=x.dims, strides=strides)


def test_elements_apart_cost_the_lines_that_they_lie_in() -> None:
    x = parameter(0, 1 << 10, 1 << 10)
    whole = estimate([x], reduce(x, (0, 1)))
    lines = estimate([x], reduce(sliced(x, (0, 0), (1, 16)), (0, 1)))
    column = estimate([x], reduce(sliced(x, (0, 1023), (1, 1)), (0, 1)))
    rows = estimate([x], reduce(sliced(x, (1023, 0), (1, 1)), (0, 1)))
    call = TARGET.costs.kernels.call
    assert lines - call == pytest.approx(whole - call, rel=1e-3)
    assert column - call == pytest.approx((whole - call) / 64, rel=1e-2)  # one line of 64 in a row
    assert rows - call == pytest.approx((whole - call) / 1024, rel=1e-2)


def test_an_array_that_is_read_as_a_whole_too() -> None:
    x, place = parameter(0, MANY, 8), parameter(1, dtype=S32)
    parts = estimate([x, place], row(x, place))
    for other in (op("negate", x), x):
        assert estimate([x, place], row(x, place), other) > 1e6 > parts


def test_parts_that_overlap_are_not_more_than_the_whole() -> None:
    x, places = parameter(0, 1000, 8), [parameter(n, dtype=S32) for n in range(1, 40)]
    rows = [op("negate", x), *(row(x, p) for p in places)]
    assert estimate([x, *places], *rows) < 2 * estimate([x], rows[0]) + 100 * len(places)


@pytest.mark.parametrize("steps", [10, 5000])
def test_the_gradient_of_a_scan_is_functions_alone(steps: int) -> None:
    """Its steps read rows of what the scan has stored: none of them is worth a thread, however many there are."""

    def loss(x: jax.Array) -> jax.Array:
        def step(state: tuple[jax.Array, jax.Array], _: None) -> tuple[Any, jax.Array]:
            x, v = state
            apart = x[None] - x[:, None]
            v += 0.01 * (apart * ((apart**2).sum(-1) + jnp.eye(3))[..., None] ** -1.5).sum(1)
            return (x + 0.01 * v, v), x[0, 0]

        return (lax.scan(step, (x, x), None, length=steps)[1] ** 2).mean()

    text = jax.jit(jax.grad(loss)).lower(np.ones((3, 3), np.float32)).as_text()
    executable = artifact.deserialize(compile_program(text.encode(), "mlir", b"", {}))
    assert {type(t) for t in executable.thunks} <= {Kernel, Copy}
