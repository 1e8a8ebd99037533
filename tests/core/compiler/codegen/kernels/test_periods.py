"""Loops whose elements alternate, because pads have gaps along their last dimension."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler.codegen.kernels.periods import cuts_of, period_of
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import BF16, C64, F32, F64, PRED, S8, S64, DType
from tripont.core.compiler.targets import host

from tests.core.compiler.codegen.harness import fusion, op
from tests.core.compiler.codegen.kernels.test_loops import check

S = hlo.Shape


def gaps(x: hlo.Instruction, low: int, interior: int, size: int) -> hlo.Instruction:
    """``x`` with gaps along its last dimension, padded with zeros to ``size`` elements there."""
    high = size - low - (x.dims[-1] + (x.dims[-1] - 1) * interior)
    others = (0,) * (len(x.dims) - 1)
    zero = hlo.constant(0, x.dtype)
    shape = S(x.dtype, (*x.dims[:-1], size))
    return op(
        "pad", shape, x, zero, low=(*others, low), high=(*others, high), interior=(*others, interior)
    )  # fmt: skip


def part(x: hlo.Instruction, start: int, stop: int, stride: int = 1) -> hlo.Instruction:
    others = (0,) * (len(x.dims) - 1)
    ones = (1,) * len(others)
    dims = (*x.dims[:-1], -(-(stop - start) // stride))
    return op(
        "slice", S(x.dtype, dims), x, starts=(*others, start), limits=(*x.dims[:-1], stop), strides=(*ones, stride)
    )  # fmt: skip


def plus(a: hlo.Instruction, b: hlo.Instruction) -> hlo.Instruction:
    return op("or" if a.dtype.kind == "pred" else "add", a.shape, a, b)


def pushed(even: hlo.Instruction, odd: hlo.Instruction) -> hlo.Instruction:
    """As the levels of an associative scan put their halves together."""
    size = even.dims[-1] + odd.dims[-1]
    return plus(gaps(even, 0, 1, size), gaps(odd, 1, 1, size))


def halves(dtype: DType, *dims: int) -> hlo.Instruction:
    size = dims[-1]
    x = hlo.parameter(0, S(dtype, (*dims[:-1], -(-size // 2))))
    y = hlo.parameter(1, S(dtype, (*dims[:-1], size // 2)))
    return fusion("loop", [x, y], pushed(x, y))


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("dtype", [F32, F64, BF16, S8, S64, PRED, C64], ids=lambda d: d.name)
def test_two_halves(dtype: DType, cpu: str) -> None:
    """Even and odd lengths; below, at and above where a period is worth it, with rests; rows and units of work."""
    target = host.for_cpu(cpu)
    for dims in ((7,), (64,), (129,), (1000,), (1003,), (3, 256), (2, 3, 261), (5000,), (9001,)):
        check(halves(dtype, *dims), target=target, splits=(1, 2))


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("interior", [1, 2, 3, 4])
def test_one_array_with_gaps(interior: int, cpu: str) -> None:
    """Gaps before, behind, and more of them; arrays that begin or end outside of the result."""
    target = host.for_cpu(cpu)
    for low in (-interior - 2, -1, 0, 1, interior, interior + 1, 3 * interior + 5):
        for high in (-3, 0, interior, 40):
            x = hlo.parameter(0, S(F32, (2, 101)))
            root = gaps(x, low, interior, 100 * (interior + 1) + 1 + low + high)
            check(fusion("loop", [x], op("negate", root.shape, root)), target=target)


def test_no_element_is_fetched_by_itself() -> None:
    """Every second element, its gradient, two halves: whole vectors are read, and none has lanes that are left out."""
    x, y = hlo.parameter(0, S(F32, (8, 512))), hlo.parameter(1, S(F32, (8, 256)))
    z = hlo.parameter(0, y.shape)
    for parameters, root in (
        ([x], gaps(part(x, 0, 512, 2), 0, 1, 512)),
        ([x, y], plus(gaps(y, 1, 1, 512), x)),
        ([z], pushed(z, op("negate", z.shape, z))),
    ):
        ir = check(fusion("loop", parameters, root)).ir
        assert "masked" not in ir, ir


def test_levels_of_a_scan_in_one_loop() -> None:
    """Halves of halves, of which the first is joined to a sum, as associative_scan makes them: periods of four."""
    for size in (1024, 4096, 6000):
        odd = hlo.parameter(0, S(F32, (size // 4,)))
        level = hlo.parameter(1, S(F32, (size // 2,)))
        whole = hlo.parameter(2, S(F32, (size,)))

        def longer(inner: hlo.Instruction, outer: hlo.Instruction) -> hlo.Instruction:
            sums = plus(part(inner, 0, inner.dims[-1] - 1), part(outer, 2, outer.dims[-1], 2))
            even = op("concatenate", inner.shape, part(outer, 0, 1), sums, dimension=0)
            return pushed(even, inner)

        root = longer(longer(odd, level), whole)
        assert period_of([root], 16) == 4
        ir = check(fusion("loop", [odd, level, whole], root), splits=(1, 3)).ir
        assert "masked.gather" not in ir


def test_negative_zeros_are_those_of_the_sum() -> None:
    kernel = check(halves(F32, 300))
    even, odd = np.full(150, -0.0, np.float32), np.full(150, -0.0, np.float32)
    assert not np.signbit(kernel.run([even, odd], [0])[0]).any()


def random_row(
    rng: np.random.Generator, size: int, depth: int, leaves: list[hlo.Instruction]
) -> hlo.Instruction:
    """An array [2, size] of pads with gaps, slices, sums and seams."""
    kind = rng.integers(0, 6) if depth and size > 8 else 0
    if kind == 0:
        leaves.append(hlo.parameter(len(leaves), S(F32, (2, size))))
        return leaves[-1]
    if kind in (1, 2):
        interior = int(rng.integers(1, 4))
        low, high = (int(n) for n in rng.integers(-2, 5, 2))
        inner = max((size - low - high - 1) // (interior + 1) + 1, 1)
        return gaps(random_row(rng, inner, depth - 1, leaves), low, interior, size)
    if kind == 3:
        stride, start = int(rng.integers(1, 4)), int(rng.integers(0, 3))
        stop = start + (size - 1) * stride + 1
        return part(
            random_row(rng, stop + int(rng.integers(0, 3)), depth - 1, leaves), start, stop, stride
        )
    if kind == 4:
        seam = int(rng.integers(1, size))
        pieces = [random_row(rng, n, depth - 1, leaves) for n in (seam, size - seam)]
        return op("concatenate", S(F32, (2, size)), *pieces, dimension=1)
    return plus(random_row(rng, size, depth - 1, leaves), random_row(rng, size, depth - 1, leaves))


@pytest.mark.parametrize("seed", range(40))
def test_random_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    leaves: list[hlo.Instruction] = []
    root = random_row(rng, int(rng.integers(70, 400)), 4, leaves)
    if root.opcode != "parameter":
        check(fusion("loop", leaves, root), seed=seed)


def test_a_period_needs_vectors_and_is_short() -> None:
    x = hlo.parameter(0, S(F32, (100,)))
    wide = gaps(x, 0, 1, 199)
    assert period_of([wide], 16) == 2
    assert period_of([wide], 1) == 1
    assert period_of([wide], 64) == 1
    assert period_of([gaps(x, 0, 2, 298), gaps(x, 0, 2, 298)], 8) == 3
    assert period_of([gaps(x, 0, 4, 496)], 8) == 1
    assert (
        period_of([part(wide, 0, 199, 2)], 8) == 1
    )  # every second element of gaps: the array itself
    assert period_of([plus(gaps(x, 0, 2, 300), gaps(x, 0, 1, 300))], 8) == 1  # of six


def test_seams_and_rests_are_where_code_changes() -> None:
    assert cuts_of([], 10, 2) == []
    assert cuts_of([], 11, 2) == [5]
    assert cuts_of([3, 6], 11, 2) == [1, 2, 3, 5]
