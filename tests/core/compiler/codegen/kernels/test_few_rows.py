"""Products of a few rows by a large matrix: read once, as it is stored, within the bound of their sums."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.codegen.kernels.staged import arrays_by_column
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, number, op, priced
from tests.core.compiler.codegen.kernels.test_packed_dot import (
    cpu,
    kinds,
    near,
    of_each_width,
    product,
    random,
)
from tests.core.compiler.test_native import NativeSimulation

Array = np.ndarray[Any, Any]
__all__ = ["cpu"]
S8, S4, U8, S32 = dtypes.S8, dtypes.S4, dtypes.U8, dtypes.S32
BF16, F16, F32, F64 = dtypes.BF16, dtypes.F16, dtypes.F32, dtypes.F64
# One matrix with the contracted dimension first and one with it last, of sizes that nothing divides, and an even one.
SHAPES = [(517, 1031, False), (1031, 517, True), (512, 1024, False), (1024, 512, True)]
FLOATS = [
    (F32, F32, F32),
    (F64, F64, F64),
    (BF16, BF16, BF16),
    (BF16, BF16, F32),
    (F16, F16, F16),
    (F32, BF16, F32),
]


def optimised(root: hlo.Instruction, parameters: Sequence[hlo.Instruction], cpu: str) -> hlo.Module:
    return pipeline.run(module(parameters, root), for_cpu(cpu, False), Dump())


@of_each_width
@pytest.mark.parametrize("types", FLOATS, ids=str)
def test_floats(types: tuple[DType, DType, DType], cpu: str) -> None:
    target = priced(cpu, False, products={"pairs_matrix": 0, "swapped_rows": 0})  # as most CPUs
    for m, (n, k, transposed) in zip((1, 5, 8, 3), SHAPES, strict=True):
        made = product(types[:2], types[2], m, n, k, (False, transposed))
        values = [random(o.dtype, o.dims, i) for i, o in enumerate(made.operands)]
        after = pipeline.run(module(made.operands, made), target, Dump())
        assert "dot" in kinds(after)
        assert not {"pack", "packed-dot", "library-call", "transpose"} & set(kinds(after))
        (got,) = NativeSimulation(after, cpu).run(values)
        near(got, made, values)


@pytest.mark.parametrize("transposed", [False, True])
def test_small_matrices_that_are_made_of_bytes(transposed: bool) -> None:
    """They are made in registers too: writing them takes longer than reading a matrix of floats of that size."""
    k, n = 192, 200
    for stored, is_made in ((S8, True), (F32, False)):
        made = product((F32, F32), F32, 1, n, k, (False, transposed))
        x, weights = made.operands
        if is_made:
            weights = hlo.parameter(1, hlo.Shape(stored, weights.dims))
            made = made.replace(operands=[x, op("convert", weights, dtype=F32)])
        after = optimised(made, [x, weights], "x86-64-v3")
        dots = [i for i in after.entry.instructions if i.attributes.get("kind") == "dot"]
        assert bool(dots) == is_made
        values = [random(o.dtype, o.dims, i) for i, o in enumerate((x, weights))]
        (got,) = NativeSimulation(after, "x86-64-v3").run(values)
        left, right = (v.astype(np.float64) for v in values)
        right = right.T if transposed else right
        bound = k * 2.0**-24 * (np.abs(left) @ np.abs(right))
        assert (np.abs(got - left @ right) <= bound).all()


@pytest.mark.parametrize("transposed", [False, True])
def test_small_matrices_that_are_made_of_bytes_and_scales(transposed: bool) -> None:
    """Of a little more than half of their memory: bf16 of s8 with scales for groups of 32."""
    k, n = 192, 200
    weights, parameters = dequantised(S8, BF16, n, k, 32, transposed, "scale")
    made = product((BF16, BF16), BF16, 1, n, k, (False, transposed))
    made = made.replace(operands=[made.operands[0], weights])
    arrays = [made.operands[0], *parameters]
    after = optimised(made, arrays, "x86-64-v3")
    assert not any(i.dims == weights.dims and i.dtype is BF16 for i in after.entry.instructions)
    values = [random(o.dtype, o.dims, i) for i, o in enumerate(arrays)]
    (got,) = NativeSimulation(after, "x86-64-v3").run(values)
    left, wide = values[0].astype(np.float64), values[1].astype(np.float64)
    scales = values[2].astype(np.float64)
    right = wide * np.repeat(scales, 32, 1 if transposed else 0)
    right = right.T if transposed else right
    bound = 2.0**-7 * (np.abs(left) @ np.abs(right))
    assert (np.abs(got.astype(np.float64) - left @ right) <= bound).all()


@pytest.mark.parametrize("type_", [F32, BF16], ids=str)
@pytest.mark.parametrize("transposed", [(False, False), (True, False), (False, True), (True, True)])
def test_matrix_on_the_left(type_: DType, transposed: tuple[bool, bool]) -> None:
    for columns in (1, 5):
        made = product((type_, type_), type_, 700, columns, 401, transposed)
        values = [random(o.dtype, o.dims, i) for i, o in enumerate(made.operands)]
        (got,) = NativeSimulation(optimised(made, made.operands, "host")).run(values)
        near(got, made, values)


def test_integers(cpu: str) -> None:
    for m, (n, k, transposed) in zip((1, 4), SHAPES[:2], strict=True):
        made = product((S8, S8), S32, m, n, k, (False, transposed))
        values = [random(S8, o.dims, i) for i, o in enumerate(made.operands)]
        (got,) = NativeSimulation(optimised(made, made.operands, cpu), cpu).run(values)
        right = values[1].astype(np.int64)
        exact = values[0].astype(np.int64) @ (right.T if transposed else right)
        np.testing.assert_array_equal(got, exact.astype(np.int32))


def dequantised(
    stored: DType, given: DType, n: int, k: int, group: int, transposed: bool, form: str
) -> tuple[hlo.Instruction, list[hlo.Instruction]]:
    """A [k, n] or, ``transposed``, [n, k] matrix of ``given``, with a scale for each channel (no ``group``) or group.

    Forms: "scale", "offset" (a zero point is subtracted first), "affine" (an offset is added behind), "apart" (the
    array is stored as groups), "linear" (the matrix is [n, k], and its transpose is what the product reads).
    """
    if form == "linear":
        matrix, parameters = dequantised(stored, given, n, k, group, not transposed, "scale")
        return op("transpose", matrix, dims=matrix.dims[::-1], dimensions=(1, 0)), parameters
    dims = (n, k) if transposed else (k, n)
    split = dims
    axis = 1 if transposed else 0
    if group:
        split = (n, k // group, group) if transposed else (k // group, group, n)
    scale_dims = tuple(d for i, d in enumerate(split) if i != (len(split) - 1 if transposed else 1))
    kept = tuple(i for i in range(len(split)) if i != (len(split) - 1 if transposed else 1))
    if not group:
        scale_dims, kept = (n,), (1 - axis,)
    array = hlo.parameter(1, hlo.Shape(stored, split if form == "apart" else dims))
    scales = hlo.parameter(2, hlo.Shape(given, scale_dims))
    parameters = [array, scales]
    value = array if array.dims == split else op("reshape", array, dims=split)
    value = op("convert", value, dtype=given)
    if form == "offset":
        value = op("subtract", value, number(3.0, *split, dtype=given))
    value = op("multiply", value, op("broadcast", scales, dims=split, dimensions=kept))
    if form == "affine":
        offsets = hlo.parameter(3, scales.shape)
        parameters.append(offsets)
        value = op("add", value, op("broadcast", offsets, dims=split, dimensions=kept))
    return (value if split == dims else op("reshape", value, dims=dims)), parameters


def arguments_of(parameters: Sequence[hlo.Instruction]) -> list[Array]:
    """Floats, and integers that fit into four bits."""
    return [
        random(p.dtype, p.dims, i)
        if p.dtype.is_float
        else np.random.default_rng(i)
        .integers(0 if p.dtype is U8 else -8, 8, p.dims)
        .astype(p.dtype.numpy)
        for i, p in enumerate(parameters)
    ]


def check_dequantised(
    matrix: hlo.Instruction,
    parameters: list[hlo.Instruction],
    m: int,
    transposed: bool,
    cpu: str,
    fused: bool = True,
) -> None:
    """The product with ``matrix`` does not make it in memory, and is what NumPy says of its f64 value."""
    n, k = matrix.dims if transposed else matrix.dims[::-1]
    given = matrix.dtype
    made = product((given, given), given, m, n, k, (False, transposed))
    parameters = [made.operands[0], *parameters]
    root = made.replace(operands=[parameters[0], matrix])
    after = optimised(root, parameters, cpu)
    stored = max(p.shape.bytes for p in parameters)
    largest = max(i.shape.bytes for i in after.entry.instructions)
    assert (largest <= stored) is fused, kinds(after)
    values = arguments_of(parameters)
    (got,) = NativeSimulation(after, cpu).run(values)
    # Weights that are rounded to 16 bits are as good as those that are not: the bound has their rounding.
    wide = [v.astype(np.float64) for v in values]
    exact, sizes = (
        wide_product(matrix, parameters, w, transposed) for w in (wide, [np.abs(v) for v in wide])
    )
    bound = (k + 4) * 2.0**-24 * np.abs(sizes)
    rounding = {BF16: 2.0**-8, F16: 2.0**-10}.get(given, 0.0)
    bound = bound + rounding * np.abs(exact) + 2.0**-24
    assert (np.abs(got.astype(np.float64) - exact) <= bound).all()


def wide_product(
    matrix: hlo.Instruction,
    parameters: list[hlo.Instruction],
    values: list[Array],
    transposed: bool,
) -> Array:
    """The product in f64, of programs whose parameters are f64 too."""
    new: dict[hlo.Instruction, hlo.Instruction] = {
        p: hlo.parameter(i, p.shape.with_dtype(F64)) for i, p in enumerate(parameters)
    }
    for i in hlo.topological_order([matrix]):
        if i not in new:
            if i.opcode == "constant":
                new[i] = hlo.constant(float(i.attributes["literal"]), F64)
            else:
                shape = i.shape.with_dtype(F64)
                new[i] = i.replace(shape=shape, operands=[new[o] for o in i.operands])
    (weights,) = evaluate(module([new[p] for p in parameters], new[matrix]), values)
    return values[0] @ (weights.T if transposed else weights)


@of_each_width
@pytest.mark.parametrize("transposed", [False, True], ids=["kn", "nk"])
def test_dequantised(transposed: bool, cpu: str) -> None:
    for stored, given, m, n, k, group, form in (
        (S8, F32, 1, 1031, 517, 0, "scale"),
        (S4, BF16, 3, 515, 704, 64, "scale"),
        (S8, BF16, 8, 512, 1024, 128, "affine"),
        (S4, F32, 1, 768, 640, 32, "apart"),
        (U8, F32, 5, 530, 600, 40, "offset"),
        (S8, BF16, 1, 600, 500, 0, "linear"),
    ):
        matrix, parameters = dequantised(stored, given, n, k, group, transposed, form)
        check_dequantised(matrix, parameters, m, transposed, cpu)


@of_each_width
@pytest.mark.parametrize("given", [BF16, F16], ids=str)
def test_scales_of_groups_are_converted_in_the_product(given: DType, cpu: str) -> None:
    """The last tile of columns overlaps the one before it; 24 scales are not a whole number of vectors. Buffers hold
    4,096 scales, so that one of two arrays of 2,200, or none of 4,400, is read from there.
    """
    for m, n, k, group, form in (
        (1, 263, 1536, 256, "scale"),
        (1, 22, 17600, 32, "affine"),
        (1, 19, 35200, 32, "scale"),
        (8, 131, 2112, 32, "affine"),
    ):
        matrix, parameters = dequantised(S8, given, n, k, group, True, form)
        check_dequantised(matrix, parameters, m, True, cpu)
        made = product((given, given), given, m, n, k, (False, True))
        root = made.replace(operands=[made.operands[0], matrix])
        after = optimised(root, [made.operands[0], *parameters], cpu)
        written = [i for i in after.entry.instructions if i.opcode != "parameter"]
        assert all(i.elements <= m * max(n, k) for i in written), written


def test_arrays_that_a_matrix_reads_in_the_same_row() -> None:
    """A buffer for a tile's rows must not be taken for what is read in other rows too, or behind the product."""
    n, groups, k = 8, 4, 32
    rows, bias = (hlo.parameter(p, hlo.Shape(BF16, d)) for p, d in ((6, (n, k)), (7, (n, groups))))
    array = hlo.parameter(0, hlo.Shape(S8, (n, k)))
    scales, turned, both, wide, exact = (
        hlo.parameter(p, hlo.Shape(t, (n, groups)))
        for p, t in enumerate((BF16, BF16, F16, F32, S8), 1)
    )

    def spread(i: hlo.Instruction) -> hlo.Instruction:
        if i is rows:
            return op("convert", i, dtype=F32)
        converted = op("convert", i, dtype=F32)
        split = op("broadcast", converted, dims=(n, groups, k // groups), dimensions=(0, 1))
        return op("reshape", split, dims=(n, k))

    matrix = op("convert", array, dtype=F32)
    for i in (scales, both, wide, exact, rows, bias):
        matrix = op("multiply", matrix, spread(i))
    for i in (turned, both):
        matrix = op("add", matrix, op("reverse", spread(i), dimensions=(0,)))
    numbers = hlo.DotDimensionNumbers((1,), (1,))
    few = op("convert", rows, dtype=F32)
    product_ = op("dot", few, matrix, dims=(n, n), dimension_numbers=numbers)
    column = op(
        "slice", bias, dims=(n, 1), start_indices=(0, 0), limit_indices=(n, 1), strides=(1, 1)
    )
    column = op("broadcast", op("convert", column, dtype=F32), dims=(n, n), dimensions=(0, 1))
    assert arrays_by_column(product_, matrix, [op("add", product_, column)]) == [scales]
    assert set(arrays_by_column(product_, matrix, [product_])) == {scales, bias}


def unpacked(
    stored: DType, n: int, k: int, axis: int, transposed: bool, form: str
) -> tuple[hlo.Instruction, list[hlo.Instruction]]:
    """A [k, n] or, ``transposed``, [n, k] matrix of numbers that lie next to each other in words, along ``axis``.

    Forms: "shifts" (a broadcast word is shifted by a constant array and masked), "apart" (two numbers of a byte, masked
    and shifted on their own and joined), "five" (as "shifts", with a mask of five bits: the neighbour's bit counts),
    "given" (as "shifts", by shifts that the caller gives).
    """
    dims = (n, k) if transposed else (k, n)
    count = 2 if form == "apart" else stored.bits // 4
    few = tuple(d // count if i == axis else d for i, d in enumerate(dims))
    split = (*few[: axis + 1], count, *few[axis + 1 :])
    kept = tuple(d for d in range(3) if d != axis + 1)
    words = hlo.parameter(1, hlo.Shape(stored, few))
    parameters = [words]
    if form == "apart":
        one = (*few[: axis + 1], 1, *few[axis + 1 :])
        low = op("and", words, number(15, *few, dtype=stored))
        high = op("shift-right-logical", words, number(4, *few, dtype=stored))
        parts = [op("reshape", part, dims=one) for part in (low, high)]
        value = op("concatenate", *parts, dims=split, dimension=axis + 1)
    else:
        shifts = hlo.constant(np.arange(count, dtype=stored.numpy) * 4, stored)
        if form == "given":
            shifts = hlo.parameter(2, hlo.Shape(stored, (count,)))
            parameters.append(shifts)
        by = op("broadcast", shifts, dims=split, dimensions=(axis + 1,))
        wide = op("broadcast", words, dims=split, dimensions=kept)
        mask = number(31 if form == "five" else 15, *split, dtype=stored)
        value = op("and", op("shift-right-logical", wide, by), mask)
    numbers = op("convert", op("reshape", value, dims=dims), dtype=F32)
    return op("subtract", numbers, number(8.0, *dims)), parameters


@of_each_width
@pytest.mark.parametrize("transposed", [False, True], ids=["kn", "nk"])
@pytest.mark.parametrize("form", ["shifts", "apart", "five", "given"])
def test_packed_words(form: str, transposed: bool, cpu: str) -> None:
    """Words of several numbers, along either dimension: all of it exact, for the sums are small integers."""
    n = 528
    for m, k, axis, stored in (
        (1, 1032, 0, dtypes.U32),
        (5, 1032, 1, S32),
        (3, 1024, 0, U8),
        (1, 1056, 1, U8),
        (2, 1024, 1, S32),
        (1, 1152, 1, dtypes.U32),
    ):
        if form == "apart" and stored is not U8:
            continue
        matrix, parameters = unpacked(stored, n, k, axis, transposed, form)
        made = product((F32, F32), F32, m, n, k, (False, transposed))
        root = made.replace(operands=[made.operands[0], matrix])
        parameters = [made.operands[0], *parameters]
        after = optimised(root, parameters, cpu)
        random_ = np.random.default_rng(m)
        words = random_.integers(0, 1 << stored.bits, parameters[1].dims, np.uint64)
        small = words.astype(f"u{stored.size}").view(stored.numpy)
        values = [random_.integers(-4, 5, (m, k)).astype(np.float32), small]
        if form == "given":
            values.append(np.arange(parameters[2].dims[0]).astype(stored.numpy) * 4)
        (weights,) = evaluate(module(parameters, matrix), values)
        (got,) = NativeSimulation(after, cpu).run(values)
        np.testing.assert_array_equal(got, values[0] @ (weights.T if transposed else weights))
        if form in ("shifts", "apart") and axis == int(transposed):
            largest = max(i.shape.bytes for i in after.entry.instructions)
            assert largest <= max(p.shape.bytes for p in parameters), kinds(after)


@of_each_width
@pytest.mark.parametrize("given", [BF16, F32], ids=str)
@pytest.mark.parametrize("group", [8, 16, 32, 64, 128])
def test_neighbours_that_share_a_scale_gather_nothing(group: int, given: DType, cpu: str) -> None:
    """A vector of words along k has numbers of several groups. Their scales lie side by side: one load and a shuffle
    instead of a gather, which takes as long as the rest of the product. All of it is exact: scales are powers of two.
    """
    m, n, k = 3, 530, 1152
    matrix, parameters = unpacked(dtypes.U32, n, k, 1, True, "shifts")
    scales = hlo.parameter(2, hlo.Shape(given, (n, k // group)))
    wide = op("convert", scales, dtype=F32)
    wide = op("broadcast", wide, dims=(n, k // group, group), dimensions=(0, 1))
    matrix = op("multiply", matrix, op("reshape", wide, dims=(n, k)))
    made = product((F32, F32), F32, m, n, k, (False, True))
    parameters = [made.operands[0], *parameters, scales]
    after = optimised(made.replace(operands=[parameters[0], matrix]), parameters, cpu)
    random_ = np.random.default_rng(group)
    values = [
        random_.integers(-4, 5, (m, k)).astype(np.float32),
        random_.integers(0, 1 << 32, parameters[1].dims, np.uint32),
        (2.0 ** random_.integers(-2, 3, scales.dims)).astype(given.numpy),
    ]
    (weights,) = evaluate(module(parameters, matrix), values)
    native = NativeSimulation(after, cpu)
    (got,) = native.run(values)
    np.testing.assert_array_equal(got, values[0] @ weights.T)
    assert ".gather." not in str(native.code)


@of_each_width
@pytest.mark.parametrize("plus_one", [False, True])
@pytest.mark.parametrize("axis", [0, 1])
def test_zero_points_of_words_are_subtracted_as_floats(axis: int, plus_one: bool, cpu: str) -> None:
    """Codes less zero points, in bytes as GPTQ's and AWQ's kernels have them: what cannot wrap is no sum of bytes."""
    m, n, k, group = 2, 1040, 1024, 64
    dims, zeros_dims = (k, n), (k // group, n)

    def codes(parameter: int, dims: tuple[int, int], axis: int) -> hlo.Instruction:
        few = tuple(d // 8 if i == axis else d for i, d in enumerate(dims))
        words = hlo.parameter(parameter, hlo.Shape(S32, few))
        split = (*few[: axis + 1], 8, *few[axis + 1 :])
        shifts = hlo.constant(np.arange(8, dtype=np.int32) * 4, S32)
        by = op("broadcast", shifts, dims=split, dimensions=(axis + 1,))
        kept = tuple(d for d in range(3) if d != axis + 1)
        wide = op("broadcast", words, dims=split, dimensions=kept)
        value = op("shift-right-arithmetic", wide, by)
        value = op("and", value, number(15, *split, dtype=S32))
        found.append(words)
        return op("reshape", op("convert", value, dtype=S8), dims=dims)

    found: list[hlo.Instruction] = []
    value, zeros = codes(1, dims, axis), codes(2, zeros_dims, 1)
    if plus_one:
        zeros = op("add", zeros, number(1, *zeros_dims, dtype=S8))
    split = (k // group, group, n)
    spread = op("broadcast", zeros, dims=split, dimensions=(0, 2))
    matrix = op("subtract", op("reshape", value, dims=split), spread)
    matrix = op("convert", op("reshape", matrix, dims=dims), dtype=F32)
    made = product((F32, F32), F32, m, n, k, (False, False))
    parameters = [made.operands[0], *found]
    after = optimised(made.replace(operands=[parameters[0], matrix]), parameters, cpu)
    random_ = np.random.default_rng(axis)
    values = [random_.integers(-4, 5, (m, k)).astype(np.float32)]
    values += [
        random_.integers(-(1 << 31), 1 << 31, p.dims).astype(np.int32) for p in parameters[1:]
    ]
    (weights,) = evaluate(module(parameters, matrix), values)
    (got,) = NativeSimulation(after, cpu).run(values)
    np.testing.assert_array_equal(got, values[0] @ weights)
    inside = [i for e in after.entry.instructions for c in e.called for i in c.instructions]
    assert any(i.opcode == "dot" for i in inside)
    assert [i.dtype for i in inside if i.opcode == "subtract"] == [F32]


def interleaved(after: hlo.Module) -> list[int]:
    """How many numbers of a word the rows of each product are laid out for."""
    inside = [c for i in after.entry.instructions for c in i.called]
    instructions = [i for c in (after.entry, *inside) for i in c.instructions]
    return [i.attributes.get("interleaved", 1) for i in instructions if i.opcode == "dot"]


def test_rows_are_laid_out_for_words_that_the_product_unpacks() -> None:
    """Rows in the order of words make the product read any other matrix with a stride: words that are unpacked before
    the product, and integers of which each is for several neighbours, such as zero points.
    """
    m, n, k = 3, 528, 1152
    made = product((F32, F32), F32, m, n, k, (True, True))
    words, stored = unpacked(dtypes.U32, n, k, 1, True, "shifts")
    expensive = op("sine", op("sine", words))  # it takes more time in the product than outside
    eights = (n, k // 8, 8)
    bytes_, zeros = (hlo.parameter(p, hlo.Shape(S8, d)) for p, d in ((1, (n, k)), (2, eights[:2])))
    wide = op("broadcast", zeros, dims=eights, dimensions=(0, 1))
    wide = op("reshape", op("convert", wide, dtype=S32), dims=(n, k))
    integers = op("subtract", op("convert", bytes_, dtype=S32), wide)
    cases = [(words, stored, 8), (expensive, stored, 1)]
    cases.append((op("convert", integers, dtype=F32), [bytes_, zeros], 1))
    for matrix, of, expected in cases:
        parameters = [made.operands[0], *of]
        root = made.replace(operands=[made.operands[0], matrix])
        after = optimised(root, parameters, "host")
        assert interleaved(after) == [expected], matrix
        values = [random(p.dtype, p.dims, i) for i, p in enumerate(parameters)]
        (got,) = NativeSimulation(after).run(values)
        (weights,) = evaluate(module(parameters, matrix), values)
        exact = values[0].astype(np.float64).T @ weights.astype(np.float64).T
        bound = np.abs(values[0]).astype(np.float64).T @ np.abs(weights).astype(np.float64).T
        # The terms of a sum in any order, and two functions within an ulp on either side.
        assert np.all(np.abs(got - exact) <= (k + 8) * 2.0**-24 * bound)


@of_each_width
@pytest.mark.parametrize("opcode", ["divide", "rsqrt"])
def test_nothing_is_computed_behind_the_end(opcode: str, cpu: str) -> None:
    """Lanes behind the contracted dimension's end are loaded as zeros, whose reciprocal must not reach the sum."""
    for m, n, k in ((1, 600, 513), (4, 600, 517), (8, 257, 1003)):
        stored = hlo.parameter(1, hlo.Shape(F32, (n, k)))
        matrix = op(opcode, *((number(1.0, n, k), stored) if opcode == "divide" else (stored,)))
        made = product((F32, F32), F32, m, n, k, (False, True))
        parameters = [made.operands[0], stored]
        after = optimised(made.replace(operands=[parameters[0], matrix]), parameters, cpu)
        values = [random(F32, (m, k), 0), np.abs(random(F32, (n, k), 1)) + 1]
        (got,) = NativeSimulation(after, cpu).run(values)
        weights = values[1].astype(np.float64)
        weights = 1 / weights if opcode == "divide" else weights**-0.5
        rows = values[0].astype(np.float64)
        bound = (k + 8) * 2.0**-24 * (np.abs(rows) @ np.abs(weights.T))
        assert (np.abs(got - rows @ weights.T) <= bound).all()


def test_other_programs_take_the_general_path(cpu: str) -> None:
    """What costs more than reading it saves is made in memory, and so is what has no order of its own."""
    n, k = 520, 512
    matrix, parameters = dequantised(S8, F32, n, k, 0, False, "scale")
    far = op("exponential", op("multiply", matrix, number(1e-3, k, n)))
    check_dequantised(op("sine", far), parameters, 2, False, cpu, fused=False)
    made = product((F32, F32), F32, 9, n, k)
    root = made.replace(operands=[made.operands[0], matrix])
    after = optimised(root, [made.operands[0], *parameters], cpu)
    assert "dot" not in kinds(after)


def test_scalars_in_the_weights() -> None:
    """A clamp with scalars is computed in front of the product; what follows it is part of the product."""
    n, k = 520, 512
    matrix, parameters = dequantised(S8, F32, n, k, 0, False, "scale")
    low, high = (hlo.constant(x, F32) for x in (-2.0, 2.0))
    clamped = hlo.Instruction("clamp", matrix.shape, (low, matrix, high))
    halved = op("multiply", clamped, number(0.5, k, n))
    made = product((F32, F32), F32, 2, n, k)
    parameters = [made.operands[0], *parameters]
    after = optimised(made.replace(operands=[parameters[0], halved]), parameters, "host")
    values = [random(p.dtype, p.dims, i) for i, p in enumerate(parameters)]
    (got,) = NativeSimulation(after).run(values)
    weights = np.clip(values[1].astype(np.float64) * values[2], -2, 2) * 0.5
    exact = values[0].astype(np.float64) @ weights
    bound = (k + 4) * 2.0**-24 * (np.abs(values[0]).astype(np.float64) @ np.abs(weights))
    assert (np.abs(got - exact) <= bound).all()


def test_equal_products_are_one_kernel() -> None:
    x = hlo.parameter(0, hlo.Shape(F32, (1, 512)))
    parameters, value = [x], x
    for layer in range(3):
        matrix, made = dequantised(S8, F32, 512, 512, 64, False, "scale")
        new = {p: hlo.parameter(2 * layer + 1 + i, p.shape) for i, p in enumerate(made)}
        parameters += new.values()
        for i in hlo.topological_order([matrix]):
            new.setdefault(i, i.replace(operands=[new.get(o, o) for o in i.operands]))
        numbers = hlo.DotDimensionNumbers((1,), (0,))
        attributes = {"dimension_numbers": numbers, "precision": ("DEFAULT", "DEFAULT")}
        value = op("dot", value, new[matrix], dims=(1, 512), **attributes)
    after = optimised(value, parameters, "host")
    called = [i.called[0] for i in after.entry.instructions if i.opcode == "fusion"]
    assert len(called) == 3
    assert len(set(called)) == 1


@of_each_width
@pytest.mark.parametrize("transposed", [False, True], ids=["kn", "nk"])
def test_long_sums(transposed: bool, cpu: str) -> None:
    """Terms of 0.1, whose roundings have one sign in a running sum: blocks of 64 at most, in at most five levels."""
    m, n, k = 3, 96, 1 << 17
    made = product((F32, F32), F32, m, n, k, (False, transposed))
    values = [np.full(o.dims, v, np.float32) for o, v in zip(made.operands, (0.1, 1), strict=True)]
    (got,) = NativeSimulation(optimised(made, made.operands, cpu), cpu).run(values)
    exact = float(np.float32(0.1)) * k
    assert np.abs(got - exact).max() <= 5 * 64 * 2.0**-24 * exact


@pytest.mark.parametrize("n", [1031, 9000])
def test_results_do_not_depend_on_how_the_work_is_shared_out(n: int) -> None:
    """A thread that has several blocks of many columns takes them at once; the last block ends with the matrix."""
    for transposed in (False, True):
        matrix, parameters = dequantised(S8, F32, n, 640, 64, transposed, "scale")
        made = product((F32, F32), F32, 3, n, 640, (False, transposed))
        parameters = [made.operands[0], *parameters]
        root = made.replace(operands=[parameters[0], matrix])
        simulation = NativeSimulation(optimised(root, parameters, "host"))
        values = [random(p.dtype, p.dims, i) for i, p in enumerate(parameters)]
        (pieces,) = simulation.run(values)
        simulation.pieces = 1
        (whole,) = simulation.run(values)
        np.testing.assert_array_equal(pieces, whole)
