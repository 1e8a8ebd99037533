"""Fourier transforms along any dimension, which arrive between transposes, against SciPy's in twice the precision."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module
from tests.core.compiler.codegen.kernels.test_fft import check, operand, transform
from tests.core.compiler.codegen.kernels.test_packed_dot import cpu, of_each_width
from tests.core.compiler.test_native import NativeSimulation

Array = np.ndarray[Any, Any]
Order = Sequence[int]
__all__ = ["cpu"]


def transpose(x: hlo.Instruction, order: Order) -> hlo.Instruction:
    shape = hlo.Shape(x.dtype, tuple(x.dims[d] for d in order))
    return hlo.Instruction("transpose", shape, (x,), {"dimensions": tuple(order)})


def fft(kind: str, x: hlo.Instruction, n: int) -> hlo.Instruction:
    """Of the last dimension, which has ``n`` places where it is whole."""
    made = transform(kind, (n,), np.empty(x.dims, x.dtype.numpy))
    return made.replace(operands=[x])


def run(
    results: Sequence[hlo.Instruction], arrays: Sequence[Array], cpu: str = "x86-64-v3"
) -> tuple[list[Array], list[str]]:
    """What a program of ``results`` gives, and the opcodes of what it executes, and of what that calls."""
    root = results[0]
    if len(results) > 1:
        shapes = hlo.TupleShape(tuple(r.shape for r in results))
        root = hlo.Instruction("tuple", shapes, tuple(results))
    waiting, parameters = list(results), set()
    while waiting:
        i = waiting.pop()
        waiting += i.operands
        if i.opcode == "parameter":
            parameters.add(i)
    ordered = sorted(parameters, key=lambda p: int(p.attributes["index"]))
    after = pipeline.run(module(ordered, root), for_cpu(cpu, False), Dump())
    opcodes = [i.opcode for c in after.computations() for i in c.instructions]
    return NativeSimulation(after, cpu).run(list(arrays)), opcodes


def parameter(x: Array) -> hlo.Instruction:
    return hlo.parameter(0, hlo.Shape(dtypes.from_numpy(x.dtype), x.shape))


def array(dims: Sequence[int], wide: bool, kind: str = "FFT", axis: int = -1) -> Array:
    """An operand of a transform along ``axis``, of which ``dims`` are the whole array's."""
    moved = [*dims]
    n = moved.pop(axis)
    return np.moveaxis(operand(kind, moved, (n,), wide, sum(dims)), -1, axis).copy()


def behind(order: Order) -> list[int]:
    return [order.index(d) for d in range(len(order))]


def orders(rank: int, axis: int) -> list[list[int]]:
    """What brings a dimension to the end: it is moved there, or exchanged with the last one."""
    moved = [*(d for d in range(rank) if d != axis), axis]
    exchanged = list(range(rank))
    exchanged[axis], exchanged[-1] = exchanged[-1], axis
    return [moved] if moved == exchanged else [moved, exchanged]


def along(kind: str, dims: Sequence[int], axis: int, order: Order, wide: bool) -> list[str]:
    """Check a transform along ``axis``. Returns the opcodes of the compiled program."""
    x, n = array(dims, wide, kind, axis), dims[axis]
    made = transpose(fft(kind, transpose(parameter(x), order), n), behind(order))
    (got,), opcodes = run([made], [x])
    check(np.moveaxis(got, axis, -1), kind, (n,), np.moveaxis(x, axis, -1))
    return opcodes


KINDS = ["FFT", "IFFT", "RFFT", "IRFFT"]
COMPLEX = KINDS[:2]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "dims", [(24,), (1, 40), (40, 1), (20, 33), (64, 48), (5, 24, 18), (6, 1, 16), (3, 16, 5, 9), (2, 12, 4, 8)]
)  # fmt: skip
def test_every_dimension(kind: str, dims: tuple[int, ...]) -> None:
    for axis in range(len(dims)):
        for number, order in enumerate(orders(len(dims), axis)):
            along(kind, dims, axis, order, (axis + number) % 2 == 1)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dims", [(360, 256), (16, 64, 48), (2, 30, 8, 16), (101, 40), (1000, 37)])
def test_transposes_vanish(kind: str, dims: tuple[int, ...]) -> None:
    """Where vectors are full of neighbours along what is behind the transformed dimension."""
    for axis in range(len(dims) - 1):
        for number, order in enumerate(orders(len(dims), axis)):
            opcodes = along(kind, dims, axis, order, (axis + number + len(dims)) % 2 == 1)
            assert "transpose" not in opcodes
            assert opcodes.count("fft-pass") == 1


@pytest.mark.parametrize(
    ("n", "inner"),
    [
        *((1, 40), (2, 40), (3, 8), (16, 7), (17, 100), (199, 33), (211, 24), (227, 9), (1009, 16)),
        *((2048, 17), (2187, 9), (4096, 8), (8192, 16), (10_007, 2), (1 << 15, 3)),
    ],
)  # fmt: skip
def test_lengths(n: int, inner: int) -> None:
    """One pass, two, sums, convolutions: those without a kernel that is faster keep their transposes."""
    for number, kind in enumerate(KINDS):
        opcodes = along(kind, (n, inner), 0, (1, 0), (number + n) % 4 in (0, 3))
        if n in (211, 227, 1009, 10_007, 1 << 15):
            assert "transpose" in opcodes


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("dims", [(48, 64), (30, 17)])
def test_one_transpose(dims: tuple[int, ...], wide: bool) -> None:
    """Before the transform or behind it: a complex one reads columns and writes rows, or the inverse."""
    for kind in KINDS:
        x = array(dims, wide, kind, 0)
        (got,), opcodes = run([fft(kind, transpose(parameter(x), (1, 0)), dims[0])], [x])
        check(got, kind, dims[:1], x.T)
        x = array(dims, wide, kind)
        (other,), others = run([transpose(fft(kind, parameter(x), dims[1]), (1, 0))], [x])
        check(other.T, kind, dims[1:], x)
        if dims == (48, 64):
            assert ("transpose" in opcodes + others) == (kind not in COMPLEX)


@pytest.mark.parametrize(("rows", "stays"), [(1024, False), (1536, True), (2048, True)])
def test_columns_of_many_pages_stay_between_transposes(rows: int, stays: bool) -> None:
    """More pages than a CPU has addresses of at hand: two for each of the numbers, which are 4 KB apart."""
    p = hlo.parameter(0, hlo.Shape(dtypes.C128, (rows, 256)))
    made = transpose(fft("FFT", transpose(p, (1, 0)), rows), (1, 0))
    after = pipeline.run(module([p], made), for_cpu("x86-64-v3", False), Dump())
    opcodes = [i.opcode for c in after.computations() for i in c.instructions]
    assert ("transpose" in opcodes) == stays


def test_any_transposes() -> None:
    """They need not be the inverse of each other."""
    rng = np.random.default_rng(0)
    dims = (8, 6, 16, 10)
    for number in range(8):
        x = array(dims, number % 2 == 0)
        first, second = (tuple(map(int, rng.permutation(4))) for _ in range(2))
        turned = x.transpose(first)
        n = turned.shape[-1]
        made = transpose(fft("FFT", transpose(parameter(x), first), n), second)
        ((got,), _) = run([made], [x])
        check(got.transpose(behind(second)), "FFT", (n,), turned)


def test_what_others_read_stays() -> None:
    """The transform itself is a result, or is read twice; the transposed operand is one."""
    x = array((64, 48), False)
    before = transpose(parameter(x), (1, 0))
    made = fft("FFT", before, 64)
    (rows, columns), opcodes = run([made, transpose(made, (1, 0))], [x])
    check(rows, "FFT", (64,), x.T)
    np.testing.assert_array_equal(columns.T, rows)
    assert opcodes.count("fft-pass") == 1
    (turned, columns), _ = run([before, transpose(made, (1, 0))], [x])
    check(columns.T, "FFT", (64,), x.T)
    np.testing.assert_array_equal(turned, x.T)
    once = hlo.Instruction("multiply", made.shape, (made, made))
    (product, columns), _ = run([once, transpose(made, (1, 0))], [x])
    check(columns.T, "FFT", (64,), x.T)
    np.testing.assert_allclose(product, columns.T**2, rtol=1e-5)


def test_several_dimensions_keep_their_transposes() -> None:
    x = array((16, 24, 20), False)
    before = transpose(parameter(x), (2, 0, 1))
    made = transform("FFT", (16, 24), np.empty(before.dims, x.dtype)).replace(operands=[before])
    (got,), opcodes = run([transpose(made, (1, 2, 0))], [x])
    check(got.transpose(2, 0, 1), "FFT", (16, 24), x.transpose(2, 0, 1))
    assert "transpose" in opcodes


@pytest.mark.parametrize("dims", [(24, 64), (24, 61), (3, 24, 64), (3, 24, 33)])
def test_one_after_the_other(dims: tuple[int, ...]) -> None:
    """There and back with something between, so that arrays are written over where groups of vectors are whole."""
    axis, n = len(dims) - 2, 24
    order = orders(len(dims), axis)[0]
    x = array(dims, True)
    p = parameter(x)
    for kind in ("FFT", "IFFT"):
        p = hlo.Instruction("add", p.shape, (p, p))
        p = transpose(fft(kind, transpose(p, order), n), behind(order))
    ((got,), _) = run([p], [x])
    np.testing.assert_allclose(got, 4 * x, rtol=0, atol=1e-14)


@of_each_width
def test_instruction_sets(cpu: str) -> None:
    for dims, axis in (((60, 48), 0), ((3, 17, 21), 1), ((8, 5), 0)):
        for kind in KINDS:
            x, n = array(dims, axis == 1, kind, axis), dims[axis]
            order = orders(len(dims), axis)[0]
            made = transpose(fft(kind, transpose(parameter(x), order), n), behind(order))
            ((got,), _) = run([made], [x], cpu)
            check(np.moveaxis(got, axis, -1), kind, (n,), np.moveaxis(x, axis, -1))


@pytest.mark.parametrize("n", [30, 31])
def test_imaginary_parts_that_a_real_signal_cannot_have_are_ignored(n: int) -> None:
    x = array((n, 40), False, "IRFFT", 0)
    changed = x.copy()
    changed[0] += 100j
    if n % 2 == 0:
        changed[-1] -= 50j
    made = transpose(fft("IRFFT", transpose(parameter(x), (1, 0)), n), (1, 0))
    (got,), (other,) = (run([made], [a])[0] for a in (x, changed))
    np.testing.assert_array_equal(got, other)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [60, 45])
def test_what_is_not_finite_stays_in_its_column(kind: str, n: int) -> None:
    x = array((n, 40), False, kind, 0)
    x[3, 7], x[0, 20] = np.nan, np.inf
    ((got,), _) = run([transpose(fft(kind, transpose(parameter(x), (1, 0)), n), (1, 0))], [x])
    assert list(np.flatnonzero(~np.isfinite(got).all(0))) == [7, 20]
