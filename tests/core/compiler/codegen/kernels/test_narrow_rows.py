"""Loops whose rows have a few elements, in vectors across the rows."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler.codegen.kernels.narrow_rows import NarrowRows, narrow_rows_of
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import C64, F32, F64, S8, S32, S64, DType
from tripont.core.compiler.targets import host

from tests.core.compiler.codegen.harness import fusion, op
from tests.core.compiler.codegen.kernels.test_loops import check

S = hlo.Shape


def no_seams(_: int) -> list[int]:
    return []


def biased(dtype: DType, *dims: int) -> hlo.Instruction:
    """Rows with a number for each and one for each place in them."""
    x, scale, bias = (
        hlo.parameter(n, S(dtype, d)) for n, d in enumerate((dims, dims[:-1], dims[-1:]))
    )
    rank = len(dims)
    scales = hlo.broadcast(scale, dims, tuple(range(rank - 1)))
    biases = hlo.broadcast(bias, dims, (rank - 1,))
    shape = S(dtype, dims)
    root = op("add", shape, op("multiply", shape, x, scales), biases)
    return fusion("loop", [x, scale, bias], root, op("subtract", shape, biases, scales))


@pytest.mark.parametrize("cpu", ["host", "x86-64-v4", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("dtype", [F32, S32, F64, S64, S8, C64], ids=lambda d: d.name)
def test_a_number_for_each_row_and_place(dtype: DType, cpu: str) -> None:
    """Rows that fill steps, and rests of every width; few rows; leading dimensions."""
    target = host.for_cpu(cpu)
    for dims in (
        (64, 5),
        (101, 5),
        (3, 77, 6),
        (10, 5),
        (2, 3, 9, 5),
        (40, 2, 3),
        (7, 33, 2, 2),
        (1, 6),
    ):
        check(biased(dtype, *dims), target=target)


def test_steps_are_units_of_work() -> None:
    kernel = check(biased(F32, 2000, 5), splits=(1, 3, 70), target=host.for_cpu("x86-64-v4"))
    assert kernel.emitted.work_count == 2000 * 5 // 80
    kernel = check(biased(F32, 4, 1001, 6), splits=(1, 126, 127), target=host.for_cpu("x86-64-v4"))
    assert kernel.emitted.work_count == 4004 * 6 // 48 + 1  # the leading dimensions are one
    check(biased(F32, 1 << 18, 5))  # past the caches


@pytest.mark.parametrize("cpu", ["host", "x86-64-v4"])
def test_pieces_of_rows(cpu: str) -> None:
    """What stands at a place of a row, and whether it is padding, is known for each lane."""
    x = hlo.parameter(0, S(F32, (123, 4)))
    y = hlo.parameter(1, S(F32, (123, 2)))
    zero = hlo.constant(-1.5, F32)
    shape = S(F32, (123, 6))
    padded = op("pad", shape, x, zero, low=(0, 1), high=(0, 1), interior=(0, 0))
    joined = op("concatenate", shape, y, x, dimension=1)
    back = op("reverse", shape, joined, dimensions=(1,))
    places = op("iota", shape, dimension=1)
    both = op("add", shape, op("multiply", shape, padded, back), places)
    kernel = check(fusion("loop", [x, y], both), target=host.for_cpu(cpu))
    assert "masked.gather" not in kernel.ir


def test_pixels_that_are_repeated() -> None:
    """``jnp.repeat`` along both sides of an image of three colours."""
    x = hlo.parameter(0, S(F32, (4, 16, 32, 3)))
    rows = hlo.broadcast(x, (4, 16, 2, 32, 3), (0, 1, 3, 4))
    flat = op("reshape", S(F32, (4, 32, 32, 3)), rows)
    root = hlo.broadcast(flat, (4, 32, 32, 2, 3), (0, 1, 2, 4))
    assert narrow_rows_of([root], 16, no_seams) == NarrowRows(2, (32, 2, 3), 16, 48)
    kernel = check(fusion("loop", [x], root), target=host.for_cpu("x86-64-v4"))
    assert "masked.gather" not in kernel.ir
    assert "masked.store" not in kernel.ir


def test_rows_that_are_written_by_themselves() -> None:
    """Longer ones, few ones, small elements, and rows along which operands do not lie."""
    wide, x = hlo.parameter(0, S(F32, (5, 64))), hlo.parameter(0, S(F32, (64, 5)))
    turned = op("transpose", S(F32, (64, 5)), wide, dimensions=(1, 0))
    assert narrow_rows_of([op("negate", x.shape, x)], 16, no_seams) == NarrowRows(
        0, (64, 5), 16, 80
    )
    assert narrow_rows_of([op("negate", x.shape, turned)], 16, no_seams) is None
    assert narrow_rows_of([op("negate", x.shape, x)], 16, lambda _: [3]) is None
    assert narrow_rows_of([op("negate", x.shape, x)], 8, no_seams) is None
    for dims in ((64, 7), (64, 1), (64,), (5, 5)):
        y = hlo.parameter(0, S(F32, dims))
        assert narrow_rows_of([op("negate", y.shape, y)], 16, no_seams) is None, dims
    small = hlo.parameter(0, S(S8, (640, 5)))
    assert narrow_rows_of([op("negate", small.shape, small)], 64, no_seams) is None


def test_values_of_each_place() -> None:
    """NumPy's own: a sum with a number for each of five classes."""
    rng = np.random.default_rng(0)
    x, s, b = (rng.standard_normal(d).astype(np.float32) for d in ((96, 5), (96,), (5,)))
    kernel = check(biased(F32, 96, 5), [x, s, b])
    np.testing.assert_array_equal(kernel.run([x, s, b], [0])[1], b - s[:, None])
