"""Transposes of many small dimensions are gathered, exactly, and others stay."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.verifier import verify
from tripont.core.compiler.passes.scattered_transposes import gather_transposes
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu
from tripont.core.compiler.targets.sycl import for_device

from ..builders import module, op, parameter, priced

# Small ones too, so that every order can be tried.
SMALL = priced(transposes={"least": 2, "runs": 2, "row": 4, "short": 16})


def transposed(dims: tuple[int, ...], order: tuple[int, ...], dtype: dtypes.DType = dtypes.F32):
    x = parameter(0, *dims, dtype=dtype)
    return module([x], op("transpose", x, dims=[dims[d] for d in order], dimensions=order))


def opcodes(m) -> set[str]:
    return {i.opcode for i in m.entry.instructions}


@pytest.mark.parametrize("dims", [(2, 2, 2, 2), (3, 2, 1, 4), (2, 5, 3), (1, 2, 1, 3)])
def test_every_order_gives_the_same_elements(dims: tuple[int, ...]) -> None:
    x = np.arange(math.prod(dims), dtype=np.float32).reshape(dims)
    gathered = 0
    for order in itertools.permutations(range(len(dims))):
        m = gather_transposes(transposed(dims, order), SMALL)
        verify(m)
        gathered += "gather" in opcodes(m)
        np.testing.assert_array_equal(evaluate(m, [x])[0], x.transpose(order), str(order))
    assert gathered > 1


@pytest.mark.parametrize("dtype", [dtypes.F64, dtypes.BF16, dtypes.S8, dtypes.PRED, dtypes.C64])
def test_many_dimensions_of_any_type(dtype: dtypes.DType) -> None:
    dims, order = (2,) * 13, (3, 7, 0, 12, 5, 9, 1, 11, 2, 10, 6, 8, 4)
    x = (np.arange(1 << 13) % 127).astype(dtype.numpy).reshape(dims)
    m = gather_transposes(transposed(dims, order, dtype), for_cpu())
    verify(m)
    assert ("gather" in opcodes(m)) == (dtype.bits >= 8)
    np.testing.assert_array_equal(evaluate(m, [x])[0], x.transpose(order))


REVERSED = tuple(reversed(range(12)))


@pytest.mark.parametrize(
    ("dims", "order", "is_gathered"),
    [
        ((2,) * 12, REVERSED, True),
        ((2,) * 11, REVERSED[1:], False),  # 2,048 elements
        ((3, 3, *(2,) * 9), REVERSED[1:], True),  # 9 elements in the last two
        ((3, 4, *(2,) * 9), REVERSED[1:], False),
        ((1024, 2, 2), (0, 2, 1), False),  # small matrices, whose rows are neighbours
        ((1024, 2, 2, 2, 2), (0, 4, 3, 2, 1), False),  # 5 runs
        ((1024, 2, 2, 2, 2, 2), (0, 5, 4, 3, 2, 1), True),
        ((2,) * 12, (6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5), False),  # two runs: a matrix
    ],
)
def test_what_is_gathered(dims, order, is_gathered: bool) -> None:
    m = transposed(dims, order)
    assert ("gather" in opcodes(gather_transposes(m, for_cpu()))) == is_gathered


@pytest.mark.parametrize(("length", "row"), [(1024, 4096), (1025, 4)])
def test_a_long_dimension_is_not_part_of_a_large_table(length: int, row: int) -> None:
    dims, order = (2, 2, 2, length, 2, 2), (5, 2, 4, 3, 1, 0)
    m = gather_transposes(transposed(dims, order), for_cpu())
    tables = [i.elements for i in m.entry.instructions if i.opcode == "constant" and i.dims]
    assert tables == [row]
    x = np.arange(math.prod(dims), dtype=np.float32).reshape(dims)
    np.testing.assert_array_equal(evaluate(m, [x])[0], x.transpose(order))


def test_a_work_item_of_sycl_finds_its_place_itself() -> None:
    m = transposed((2,) * 12, REVERSED)
    assert gather_transposes(m, for_device("cpu")) is m
