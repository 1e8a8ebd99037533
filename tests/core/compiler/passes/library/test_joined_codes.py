"""Two codes of a byte that a program takes apart one by one and joins are computed where a product reads the bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.hlo import Instruction
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.library.joined_codes import joined_codes
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, number, op
from tests.core.compiler.codegen.kernels.test_packed_dot import F32, S8, U8, product
from tests.core.compiler.test_native import NativeSimulation

Codes = Callable[[Instruction], tuple[Instruction, Instruction]]


def constant(value: int, like: Instruction) -> Instruction:
    return number(value, *like.dims, dtype=like.dtype)


def shifted(opcode: str, w: Instruction) -> Instruction:
    return op(opcode, w, constant(4, w))


def unsigned(w: Instruction) -> tuple[Instruction, Instruction]:
    return op("and", w, constant(15, w)), shifted("shift-right-logical", w)


def centred(w: Instruction) -> tuple[Instruction, Instruction]:
    low, high = (op("convert", part, dtype=S8) for part in unsigned(w))
    return op("subtract", low, constant(8, low)), op("subtract", high, constant(8, high))


def masked_first(w: Instruction) -> tuple[Instruction, Instruction]:
    high = op("shift-right-logical", op("and", w, constant(240, w)), constant(4, w))
    return op("and", w, constant(15, w)), high


def masked_last(w: Instruction) -> tuple[Instruction, Instruction]:
    high = op("and", shifted("shift-right-logical", w), constant(15, w))
    return op("and", w, constant(15, w)), high


def signed(w: Instruction) -> tuple[Instruction, Instruction]:
    low = shifted("shift-right-arithmetic", shifted("shift-left", w))
    return low, shifted("shift-right-arithmetic", w)


FORMS: list[tuple[Codes, DType]] = [
    (unsigned, U8),
    (centred, U8),
    (masked_first, U8),
    (masked_last, U8),
    (signed, S8),
]
of_forms = pytest.mark.parametrize(("codes", "stored"), FORMS, ids=lambda x: str(x)[:20])


def joined(parts: tuple[Instruction, ...], place: int, *, stacks: bool) -> Instruction:
    """The parts along dimension ``place``, or, ``stacks``, a new one before it."""
    dims = list(parts[0].dims)
    if stacks:
        dims.insert(place, 1)
        parts = tuple(op("reshape", p, dims=dims) for p in parts)
    dims[place] *= len(parts)
    return op("concatenate", *parts, dims=dims, dimension=place)


@of_forms
@pytest.mark.parametrize("stacks", [True, False], ids=["stack", "concatenate"])
def test_numbers(codes: Codes, stored: DType, stacks: bool) -> None:
    """For each byte there is, at each place."""
    w = hlo.parameter(0, hlo.Shape(stored, (4, 64)))
    values = np.arange(256, dtype=np.uint8).reshape(4, 64).view(stored.numpy)
    for place in range(3 if stacks else 2):
        given = joined(codes(w), place, stacks=stacks)
        made = joined_codes(given)
        assert made is not None
        assert not any(i.opcode == "concatenate" for i in hlo.topological_order([made]))
        (wanted,) = evaluate(module([w], given), [values])
        (got,) = evaluate(module([w], made), [values])
        np.testing.assert_array_equal(got, wanted)


def test_what_stays() -> None:
    """Parts of two arrays, computed in two ways, of floats, of two sizes, and vectors of numbers of two parts."""
    a, b = (hlo.parameter(n, hlo.Shape(U8, (4, 64))) for n in (0, 1))
    low, high = unsigned(a)
    assert joined_codes(joined((low, high), 0, stacks=False)) is not None
    assert joined_codes(joined((low, high), 0, stacks=False), side_by_side=True) is None
    assert joined_codes(joined((low, high), 1, stacks=True), side_by_side=True) is not None
    assert joined_codes(joined((low, unsigned(b)[1]), 0, stacks=False)) is None
    assert joined_codes(joined((low, op("multiply", high, high)), 0, stacks=False)) is None
    floats = tuple(op("convert", part, dtype=F32) for part in (low, high))
    assert joined_codes(joined(floats, 0, stacks=False)) is None
    short = hlo.parameter(0, hlo.Shape(U8, (64, 4)))
    assert joined_codes(joined(unsigned(short), 1, stacks=False)) is None
    assert joined_codes(joined(unsigned(short), 0, stacks=False)) is not None
    two_sizes = op("concatenate", low, a, b, dims=(12, 64), dimension=0)
    assert joined_codes(two_sizes) is None


@of_forms
@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3", "x86-64-v4", "host"])
def test_products(codes: Codes, stored: DType, cpu: str) -> None:
    """Nothing of the matrix's size is in memory, with few rows and with more, and the sums are exact."""
    n, k = 192, 1024
    random = np.random.default_rng(0)
    for m, transposed, place, stacks in (
        (1, True, 2, True),
        (3, False, 1, True),
        (20, True, 2, True),
        (20, False, 1, True),
        (20, False, 0, False),
        (20, True, 1, False),
    ):
        x = hlo.parameter(0, hlo.Shape(F32, (m, k)))
        dims = (n, k // 2) if transposed else (k // 2, n)
        w = hlo.parameter(1, hlo.Shape(stored, dims))
        both = joined(codes(w), place, stacks=stacks)
        matrix = op("reshape", both, dims=(n, k) if transposed else (k, n))
        made = product((F32, F32), F32, m, n, k, (False, transposed))
        root = made.replace(operands=[x, op("convert", matrix, dtype=F32)])
        after = pipeline.run(module([x, w], root), for_cpu(cpu, False), Dump())
        assert all(i.elements < n * k for i in after.entry.instructions)
        values = [
            random.integers(-4, 5, (m, k)).astype(np.float32),
            random.integers(0, 256, dims).astype(np.uint8).view(stored.numpy),
        ]
        (weights,) = evaluate(module([x, w], matrix), values)
        wide = weights.astype(np.float32)
        (got,) = NativeSimulation(after, cpu).run(values)
        np.testing.assert_array_equal(got, values[0] @ (wide.T if transposed else wide))


def test_two_readers() -> None:
    """The codes are a result of the program too: they are in memory, and the sums are the same."""
    w = hlo.parameter(1, hlo.Shape(U8, (64, 256)))
    x = hlo.parameter(0, hlo.Shape(F32, (2, 128)))
    matrix = op("reshape", joined(unsigned(w), 1, stacks=True), dims=(128, 256))
    made = product((F32, F32), F32, 2, 256, 128)
    dot = made.replace(operands=[x, op("convert", matrix, dtype=F32)])
    shape = hlo.TupleShape((dot.shape, matrix.shape))
    root = hlo.Instruction("tuple", shape, (dot, matrix))
    after = pipeline.run(module([x, w], root), for_cpu("host", False), Dump())
    random = np.random.default_rng(0)
    values = [random.integers(-4, 5, p.dims).astype(p.dtype.numpy) for p in (x,)]
    values.append(random.integers(0, 256, w.dims).astype(np.uint8))
    got, codes = NativeSimulation(after, "host").run(values)
    wanted = np.stack([values[1] & 15, values[1] >> 4], 1).reshape(128, 256)
    np.testing.assert_array_equal(codes, wanted)
    np.testing.assert_array_equal(got, values[0] @ wanted.astype(np.float32))
