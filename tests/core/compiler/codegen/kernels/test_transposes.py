"""Transpose kernels against the reference evaluator."""

from __future__ import annotations

import re

import pytest
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import BF16, C64, F16, F32, F64, PRED, S8, U16
from tripont.core.compiler.memory import inplace

from tests.core.compiler.codegen.harness import fusion, op, runnable

from .test_loops import check, parameters

S = hlo.Shape


def transpose(x, order):
    return op("transpose", S(x.dtype, tuple(x.dims[d] for d in order)), x, dimensions=order)


CASES = [
    ((64, 64), (1, 0)), ((33, 70), (1, 0)), ((16, 16), (1, 0)), ((100, 5), (1, 0)), ((5, 100), (1, 0)), ((130,
    257), (1, 0)), ((3, 40, 50), (0, 2, 1)), ((20, 30, 40), (2, 1, 0)), ((20, 3, 40), (2, 0, 1)), ((20, 30, 40),
    (1, 0, 2)), ((2, 9, 9, 24), (0, 3, 1, 2)), ((2, 24, 9, 9), (0, 2, 3, 1)), ((3, 20, 4, 16), (0, 2, 3, 1)),
    ((8, 8), (1, 0)),
]  # fmt: skip


@pytest.mark.parametrize(("dims", "order"), CASES, ids=str)
@pytest.mark.parametrize("dtype", [F32, F64, BF16, S8, PRED, C64], ids=str)
def test_transpose(dims, order, dtype):
    (x,) = parameters(S(dtype, dims))
    check(fusion("transpose", [x], transpose(x, order)))


@pytest.mark.parametrize("dtype", [F32, BF16, F16, U16], ids=str)
@pytest.mark.parametrize("dims", [(64, 48), (70, 35)], ids=str)
def test_with_producers_and_consumers(dtype, dims):
    """(2x)^T + y, and y * x^T."""
    x, y = parameters(S(dtype, dims), S(dtype, dims[::-1]))
    row = hlo.parameter(2, S(dtype, dims[:1]))
    doubled = transpose(op("add", x.shape, x, x), (1, 0))
    plain = transpose(x, (1, 0))
    wide = hlo.broadcast(row, y.dims, (1,))
    first = op("add", y.shape, op("subtract", y.shape, doubled, y), wide)
    roots = [first, op("maximum", y.shape, y, plain)]
    check(fusion("transpose", [x, y, row], *roots), rtol=5e-2 if dtype.bits == 16 else None)


def test_comparison_of_transposes():
    x, y = parameters(S(F32, (40, 50)), S(F32, (40, 50)))
    p = op("compare", S(PRED, (40, 50)), x, y, direction="LT", comparison_type="FLOAT")
    check(fusion("transpose", [x, y], transpose(p, (1, 0))))
    chosen = op(
        "select", S(F32, (50, 40)), transpose(p, (1, 0)), transpose(x, (1, 0)), transpose(y, (1, 0))
    )
    check(fusion("transpose", [x, y], chosen))


def long_chain(x, y, length):
    """max(x - y, y), again and again; (x + y) - y of complex numbers, bits of others."""
    first, second = {PRED: ("and", "xor"), U16: ("and", "xor"), C64: ("add", "subtract")}.get(
        x.dtype, ("subtract", "maximum")
    )
    for _ in range(length):
        x = op(second, x.shape, op(first, x.shape, x, y), y)
    return x


@pytest.mark.parametrize("dtype", [F32, F64, BF16, PRED, U16, C64], ids=str)
@pytest.mark.parametrize("side", ["before", "behind", "both"])
def test_rows_of_much_code_are_a_loop(dtype, side):
    """Many operations before or behind the transposes: the same numbers, and not the code for each row of a tile."""
    length = 20
    x, y = parameters(S(dtype, (35, 52)), S(dtype, (35, 52)))
    z = hlo.parameter(2, S(dtype, (52, 35)))
    before = long_chain(x, y, length) if side != "behind" else x
    turned = [transpose(before, (1, 0)), transpose(y, (1, 0))]
    sum_ = op("or" if dtype in (PRED, U16) else "add", z.shape, *turned)
    behind = long_chain(sum_, z, length) if side != "before" else sum_
    # The reference rounds after every operation, the kernel at the end.
    kernel = check(fusion("transpose", [x, y, z], behind), rtol=1.0 if dtype is BF16 else None)
    written = length * (1 + (side == "both")) * (2 if dtype is C64 else 1)
    count = len(re.findall(r" = (?:fsub|xor)\b[^<\n]*<", kernel.ir))
    assert written <= count <= 5 * written
    assert ("define internal void @tripont.transpose." in kernel.ir) == (side != "before")


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3"])
def test_narrower_cpus(cpu):
    target = runnable(cpu)
    for dims, order in CASES:
        for dtype in (F32, BF16):
            (x,) = parameters(S(dtype, dims))
            check(fusion("transpose", [x], transpose(x, order)), target=target)


def test_large_ones_are_written_past_the_caches():
    (x,) = parameters(S(F32, (1040, 2048)))
    kernel = check(fusion("transpose", [x], transpose(x, (1, 0))))
    assert "!nontemporal" in kernel.ir
    assert "sfence" in kernel.ir
    n = 1 << 23
    (x,) = parameters(S(F32, (n,)))
    kernel = check(fusion("loop", [x], op("negate", x.shape, x)), splits=[1, 5000])
    assert "!nontemporal" in kernel.ir


@pytest.mark.parametrize("dims", [(64, 48), (70, 35), (3, 40)], ids=str)
def test_may_write_over_what_it_reads_as_a_loop(dims):
    """y + x^T over y, not over x; x^T * x^T reads nothing in place."""
    x, y, square = (*parameters(S(F32, dims), S(F32, dims[::-1])), hlo.parameter(0, S(F32, (8, 8))))
    turned = transpose(x, (1, 0))
    step = fusion("transpose", [x, y], op("add", y.shape, y, turned), turned)
    assert inplace.in_place_operands(step) == [(1,), (1,)]
    mixed = op("add", square.shape, square, transpose(square, (1, 0)))
    assert inplace.in_place_operands(fusion("transpose", [square], mixed)) == [()]
