"""Transposes of many small dimensions are gathered, exactly, and others stay."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.verifier import verify
from tripont.core.compiler.passes.scattered_transposes import gather_transposes, turn_blocks
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
    x = np.arange(math.prod(dims)).astype(np.complex128).reshape(dims)  # which has no blocks
    gathered = 0
    for order in itertools.permutations(range(len(dims))):
        m = gather_transposes(transposed(dims, order, dtypes.C128), SMALL)
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
    assert opcodes(m) & {"transpose", "block-transpose"} == {"block-transpose"}
    np.testing.assert_array_equal(evaluate(m, [x])[0], x.transpose(order))


REVERSED = tuple(reversed(range(12)))


@pytest.mark.parametrize(
    ("dims", "order", "becomes"),
    [
        ((2,) * 12, REVERSED, "block-transpose"),
        ((2,) * 11, REVERSED[1:], "transpose"),  # 2,048 elements
        ((3, 3, *(2,) * 9), REVERSED[1:], "gather"),  # 9 elements in the last two
        ((3, 4, *(2,) * 9), REVERSED[1:], "transpose"),
        ((1024, 2, 2), (0, 2, 1), "transpose"),  # small matrices, whose rows are neighbours
        ((1024, 2, 2, 2, 2), (0, 4, 3, 2, 1), "transpose"),  # 5 runs
        ((1024, 2, 2, 2, 2, 2), (0, 5, 4, 3, 2, 1), "block-transpose"),
        ((1024, 2, 2, 2, 2, 3), (0, 5, 4, 3, 2, 1), "gather"),  # 3 elements fill no vector
        ((2,) * 12, (6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5), "transpose"),  # two runs: a matrix
    ],
)
def test_what_is_turned_or_gathered(dims, order, becomes: str) -> None:
    after = opcodes(gather_transposes(transposed(dims, order), for_cpu()))
    assert after & {"transpose", "block-transpose", "gather"} == {becomes}


@pytest.mark.parametrize(
    ("dims", "order", "is_turned"),
    [
        ((64, 64, 2), (1, 0, 2), True),
        ((64, 64, 3), (1, 0, 2), False),  # 3 elements fill no vector
        ((60, 64, 2), (1, 0, 2), True),
        ((33, 64, 2), (1, 0, 2), False),  # what would be a vector of the result is in two rows
        ((64, 64, 16), (1, 0, 2), False),  # rows that fill vectors of AVX-512
        ((32, 32, 2), (1, 0, 2), False),  # 2,048 elements
        ((1024, 2, 2), (0, 2, 1), False),  # small matrices, whose rows are neighbours
        ((16, 16, 16, 2), (0, 2, 1, 3), True),  # larger ones
        ((256, 8, 8, 2), (0, 2, 1, 3), False),
        ((4096, 2), (1, 0), False),  # matrices are written in tiles
    ],
)
def test_what_is_turned_last(dims, order, is_turned: bool) -> None:
    m = turn_blocks(transposed(dims, order), for_cpu("x86-64-v4"))
    verify(m)
    assert ("block-transpose" in opcodes(m)) == is_turned
    x = np.arange(math.prod(dims), dtype=np.float32).reshape(dims)
    np.testing.assert_array_equal(evaluate(m, [x])[0], x.transpose(order))


def test_complex_numbers_of_sixteen_bytes_are_gathered() -> None:
    m = gather_transposes(transposed((2,) * 12, REVERSED, dtypes.C128), for_cpu())
    assert "gather" in opcodes(m)


def test_fused_loops_keep_their_transposes() -> None:
    """They run element by element, with small dimensions in registers."""
    x = parameter(0, 64, 64, 2)
    turned = op("transpose", x, dims=(64, 64, 2), dimensions=(1, 0, 2))
    inner = hlo.Computation.from_root("loop", [x], turned)
    fusion = hlo.Instruction("fusion", turned.shape, [x], {"kind": "while"}, [inner])
    after = turn_blocks(module([x], fusion), for_cpu())
    (body,) = after.entry.root.called
    assert body is inner


@pytest.mark.parametrize(("length", "row"), [(1024, 4096), (1025, 4)])
def test_a_long_dimension_is_not_part_of_a_large_table(length: int, row: int) -> None:
    dims, order = (2, 2, 2, length, 2, 3), (5, 2, 4, 3, 1, 0)
    m = gather_transposes(transposed(dims, order), for_cpu())
    tables = [i.elements for i in m.entry.instructions if i.opcode == "constant" and i.dims]
    assert tables == [row]
    x = np.arange(math.prod(dims), dtype=np.float32).reshape(dims)
    np.testing.assert_array_equal(evaluate(m, [x])[0], x.transpose(order))


def test_a_work_item_of_sycl_finds_its_place_itself() -> None:
    m = transposed((2,) * 12, REVERSED)
    assert gather_transposes(m, for_device("cpu")) is m
