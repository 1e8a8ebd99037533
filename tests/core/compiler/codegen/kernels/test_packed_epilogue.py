"""What is computed from a packed product before it is written, against NumPy in f64."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.codegen.kernels import packed_dot
from tripont.core.compiler.codegen.kernels.emit import Frame
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import DType
from tripont.core.compiler.ir.hlo import Instruction
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, number, op, reduce
from tests.core.compiler.codegen.kernels.test_few_rows import arguments_of, dequantised
from tests.core.compiler.codegen.kernels.test_packed_dot import (
    cpu,
    kinds,
    of_floats,
    of_integers,
    of_products,
    product,
    random,
)
from tests.core.compiler.test_native import NativeSimulation

Array = np.ndarray[Any, Any]
__all__ = ["cpu"]
S8, S32 = dtypes.S8, dtypes.S32
BF16, F16, F32, F64 = dtypes.BF16, dtypes.F16, dtypes.F32, dtypes.F64
Epilogue = Callable[[hlo.Instruction, hlo.Instruction, hlo.Instruction], hlo.Instruction]


def along_columns(vector: hlo.Instruction, like: hlo.Instruction) -> hlo.Instruction:
    return op("broadcast", vector, dims=like.dims, dimensions=(len(like.dims) - 1,))


def relu(c: hlo.Instruction, bias: hlo.Instruction, _: hlo.Instruction) -> hlo.Instruction:
    return op("maximum", op("add", c, along_columns(bias, c)), number(0.0, *c.dims, dtype=c.dtype))


def silu(c: hlo.Instruction, _: hlo.Instruction, residual: hlo.Instruction) -> hlo.Instruction:
    """The product is read twice, and a residual is added."""
    return op("add", residual, op("multiply", c, op("logistic", c)))


def reshaped(c: hlo.Instruction, bias: hlo.Instruction, _: hlo.Instruction) -> hlo.Instruction:
    """A bias for each of two groups of columns, as heads have it."""
    m, n = c.dims[-2:]
    split = op("reshape", c, dims=(*c.dims[:-2], m, 2, n // 2))
    heads = op("reshape", bias, dims=(2, n // 2))
    rank = len(split.dims)
    heads = op("broadcast", heads, dims=split.dims, dimensions=(rank - 2, rank - 1))
    return op("reshape", op("tanh", op("add", split, heads)), dims=c.dims)


def check(
    types: tuple[DType, DType, DType],
    sizes: tuple[int, int, int],
    epilogue: Epilogue,
    cpu: str,
    batch: int = 0,
    small: int = 0,
) -> None:
    """``small``: kernels of scalars in front of the product."""
    made = product(types[:2], types[2], *sizes, batch=batch)
    bias = hlo.parameter(2, hlo.Shape(types[2], made.dims[-1:]))
    residual = hlo.parameter(3, made.shape)
    root = epilogue(made, bias, residual)
    parameters = [*made.operands, bias, residual]
    after = pipeline.run(module(parameters, root), for_cpu(cpu, False), Dump())
    found = [k for k in kinds(after) if k not in ("pack", "bitcast", "constant")]
    assert found == ["loop"] * small + ["packed-dot"], found
    values = [random(p.dtype, p.dims, i) for i, p in enumerate(parameters)]
    (got,) = NativeSimulation(after, cpu).run(values)
    near(got, root, parameters, values, sizes[2])


def near(
    got: Array,
    root: hlo.Instruction,
    parameters: list[hlo.Instruction],
    values: list[Array],
    k: int,
) -> None:
    """The same in f64. The epilogues have slopes of at most 1.1, and are of numbers that are less than 8 sqrt(k)."""
    new: dict[hlo.Instruction, hlo.Instruction] = {
        p: hlo.parameter(i, p.shape.with_dtype(F64)) for i, p in enumerate(parameters)
    }
    for i in hlo.topological_order([root]):
        if i not in new and i.opcode == "constant":
            new[i] = hlo.constant(float(i.attributes["literal"]), F64)
        elif i not in new:
            shape = i.shape.with_dtype(F64)
            new[i] = i.replace(shape=shape, operands=[new[o] for o in i.operands])
    wide = [v.astype(np.float64) for v in values]
    (exact,) = evaluate(module([new[p] for p in parameters], new[root]), wide)
    size = 8 * k**0.5
    rounding = {BF16: 2.0**-8, F16: 2.0**-10}.get(root.dtype, 2.0**-23)
    # The sum, the product's own rounding, the epilogue's functions (some ulps) and the last rounding.
    bound = (k + 1) * 2.0**-24 * k * 2 + 2 * rounding * size + rounding * np.abs(exact)
    bound = np.minimum(bound, 4 * rounding * size) + 8 * 2.0**-24 * size + (k + 1) * 2.0**-24 * size
    assert (np.abs(got.astype(np.float64) - exact) <= bound).all()


@of_products((BF16, BF16, BF16), (F16, F16, F16), (F32, F32, F32))
def test_epilogues(types: tuple[DType, DType, DType], cpu: str) -> None:
    check(types, (87, 90, 83), relu, cpu)
    check(types, (33, 40, 2051), silu, cpu)  # sums in several pieces
    check(types, (50, 70, 69), reshaped, cpu, batch=3)


@of_products((F32, F32, F32))
def test_cheap_functions_of_arrays_that_are_read(
    types: tuple[DType, DType, DType], cpu: str
) -> None:
    """x (1 - x) is no array in memory beside x."""

    def slope(c: hlo.Instruction, _: hlo.Instruction, x: hlo.Instruction) -> hlo.Instruction:
        derived = op("multiply", x, op("subtract", number(1.0, *x.dims), x))
        return op("add", op("multiply", c, x), derived)

    def flat(c: hlo.Instruction, bias: hlo.Instruction, x: hlo.Instruction) -> hlo.Instruction:
        dims = (c.elements,)
        return slope(op("reshape", c, dims=dims), bias, op("reshape", x, dims=dims))

    check(types, (87, 90, 83), slope, cpu)
    check(types, (50, 70, 69), flat, cpu, batch=3)


@of_floats
def test_scalars(cpu: str) -> None:
    """What a clamp and a select have for all elements."""

    def clamped(
        c: hlo.Instruction, bias: hlo.Instruction, residual: hlo.Instruction
    ) -> hlo.Instruction:
        low, high = (hlo.constant(x, c.dtype) for x in (0.0, 6.0))
        first = op("slice", bias, dims=(1,), starts=(0,), limits=(1,), strides=(1,))
        first = op("reshape", first, dims=())
        up = op("compare", first, low, dtype=dtypes.PRED, direction="GE", comparison_type="FLOAT")
        value = Instruction("clamp", c.shape, (low, c, high))
        return Instruction("select", c.shape, (up, value, op("negate", value)))

    check((BF16, BF16, BF16), (87, 90, 83), clamped, cpu, small=1)


@of_floats
def test_conversion_of_the_result(cpu: str) -> None:
    check((BF16, BF16, BF16), (257, 300, 520), lambda c, bias, residual: c, cpu)


@of_floats
def test_products_are_rounded_where_they_are_stored(cpu: str) -> None:
    """A bf16 product is f32 in its kernel, as other values are: what its rounding would lose can be seen there.

    It is rounded if the program may not have excess precision, and if the program itself converts it.
    """
    made = product((BF16, BF16), BF16, 70, 96, 64)
    rounded = hlo.parameter(2, made.shape)
    values = [random(o.dtype, o.dims, i) for i, o in enumerate(made.operands)]
    sums = values[0].astype(np.float64) @ values[1].astype(np.float64)
    values.append(sums.astype(BF16.numpy))

    def difference(of: hlo.Instruction, exact: bool) -> Array:
        before = replace(
            module([*made.operands, rounded], op("subtract", of, rounded)), exact=exact
        )
        after = pipeline.run(before, for_cpu(cpu, False), Dump())
        assert kinds(after)[-1] == "packed-dot"
        (got,) = NativeSimulation(after, cpu).run(values)
        return got.astype(np.float64)

    lost = sums - values[2].astype(np.float64)
    error = (
        65
        * 2.0**-24
        * (np.abs(values[0]).astype(np.float64) @ np.abs(values[1]).astype(np.float64))
    )
    assert (np.abs(difference(made, False) - lost) <= error + 2.0**-8 * np.abs(lost)).all()
    wide = made.replace(shape=made.shape.with_dtype(F32))
    for of, exact in ((made, True), (op("convert", wide, dtype=BF16), False)):
        got = difference(of, exact)
        # 0, but where the sums in f32 and in f64 are rounded to different neighbours.
        assert np.count_nonzero(got) < got.size // 100


def test_results_are_rounded_once() -> None:
    """A product that was converted to bf16 is stored without looking for NaN a second time."""
    kernel = text_of(lambda c, bias, residual: c)
    assert kernel.count("fcmp uno") == kernel.count("store <16 x i16>") == 2


def test_residuals_are_fetched() -> None:
    """The lines of a residual are asked for when those of the result are, before the sums."""

    def fetched(epilogue: Epilogue) -> int:
        return text_of(epilogue).count("@llvm.prefetch.p0(ptr")

    results = fetched(relu)
    assert fetched(silu) > results + 8


def text_of(epilogue: Epilogue) -> str:
    """The code of a product of bf16 with an epilogue, for AVX-512."""
    made = product((BF16, BF16), BF16, 128, 256, 512)
    bias = hlo.parameter(2, hlo.Shape(BF16, (256,)))
    residual = hlo.parameter(3, made.shape)
    root = epilogue(made, bias, residual)
    target = for_cpu("x86-64-v4", False)
    after = pipeline.run(module([*made.operands, bias, residual], root), target, Dump())
    (fusion,) = (i for i in after.entry.instructions if i.opcode == "fusion")
    code = target.module()
    packed_dot.emit(code, target, fusion, "kernel")
    return str(code)


@of_integers
def test_quantised(cpu: str) -> None:
    """s8 by s8, times a scale for each column, and rounded to f16: from the registers with the exact sums."""
    made = product((S8, S8), S32, 70, 100, 90)
    scale = hlo.parameter(2, hlo.Shape(F32, (100,)))
    value = op("convert", made, dtype=F32)
    value = op("convert", op("multiply", value, along_columns(scale, value)), dtype=F16)
    parameters = [*made.operands, scale]
    after = pipeline.run(module(parameters, value), for_cpu(cpu, False), Dump())
    assert [k for k in kinds(after) if k != "pack"] == ["packed-dot"]
    values = [random(p.dtype, p.dims, i) for i, p in enumerate(parameters)]
    values[2] = np.abs(values[2]) * np.float32(1e-3)
    (got,) = NativeSimulation(after, cpu).run(values)
    exact = values[0].astype(np.int64) @ values[1].astype(np.int64)
    wanted = (exact.astype(np.float32) * values[2]).astype(np.float16)
    np.testing.assert_array_equal(got, wanted)


@of_integers
@pytest.mark.parametrize("transposed", [False, True], ids=["kn", "nk"])
def test_weights_that_are_made_and_an_epilogue(transposed: bool, cpu: str) -> None:
    """Both are in one kernel. The residual dies there, and is as large as the integers that the matrix is made of."""
    m = n = k = 96
    for given in (F32, BF16):
        matrix, weights = dequantised(S8, given, n, k, 32, transposed, "scale")
        made = product((given, given), given, m, n, k, (False, transposed))
        made = made.replace(operands=[made.operands[0], matrix])
        bias = hlo.parameter(3, hlo.Shape(given, (n,)))
        residual = hlo.parameter(4, made.shape)
        root = op("add", relu(made, bias, residual), residual)
        parameters = [made.operands[0], *weights, bias, residual]
        after = pipeline.run(module(parameters, root), for_cpu(cpu, False), Dump())
        found = [i for i in kinds(after) if i not in ("loop", "bitcast", "constant")]
        assert found == ["packed-dot"], kinds(after)
        values = arguments_of(parameters)
        values[2] = (values[2].astype(np.float32) / 8).astype(given.numpy)  # weights of at most 1
        (got,) = NativeSimulation(after, cpu).run(values)
        near(got, root, parameters, values, k)


def test_what_others_read_stays_outside() -> None:
    """A product that is a result too, one that its own sums come back to, and a wider copy of a result."""
    types = (BF16, BF16, BF16)

    def softmax(c: hlo.Instruction, _: hlo.Instruction, __: hlo.Instruction) -> hlo.Instruction:
        sums = reduce(c, [1])
        return op("subtract", c, op("broadcast", sums, dims=c.dims, dimensions=(0,)))

    made = product(types[:2], BF16, 87, 90, 83)
    bias = hlo.parameter(2, hlo.Shape(BF16, (90,)))
    residual = hlo.parameter(3, made.shape)
    parameters = [*made.operands, bias, residual]
    values = [random(p.dtype, p.dims, i) for i, p in enumerate(parameters)]
    active = relu(made, bias, residual)
    root = hlo.Instruction("tuple", hlo.TupleShape((made.shape, active.shape)), [made, active])
    after = pipeline.run(module(parameters, root), for_cpu("host", False), Dump())
    results = NativeSimulation(after).run(values)
    near(results[0], made, parameters, values, 83)
    near(results[1], active, parameters, values, 83)
    wide = op("convert", active, dtype=F32)
    after = pipeline.run(module(parameters, wide), for_cpu("host", False), Dump())
    assert [k for k in kinds(after) if k != "pack"] == ["packed-dot", "loop"]
    (got,) = NativeSimulation(after).run(values)
    near(got.astype(BF16.numpy), active, parameters, values, 83)
    root = softmax(made, bias, residual)
    after = pipeline.run(module(parameters, root), for_cpu("host", False), Dump())
    (got,) = NativeSimulation(after).run(values)
    exact = made.replace(shape=made.shape.with_dtype(F64))
    (c,) = evaluate(module(parameters, exact), values)
    wanted = c - c.sum(1, keepdims=True)
    # A sum of 90 rounded products, and the difference, rounded to 8 bits.
    bound = 2.0**-8 * (np.abs(c).sum(1, keepdims=True) + 2 * np.abs(wanted) + np.abs(c))
    assert (np.abs(got.astype(np.float64) - wanted) <= bound).all()


def test_sums_that_fill_the_registers_take_one_step_at_a_time() -> None:
    """With what the epilogue needs LLVM puts sums of two steps on the stack, in each of them."""
    target = for_cpu("znver4", False)
    made = product((F32, F32), F32, 5000, 64, 64)
    rectified = op("maximum", made, number(0.0, *made.dims))
    unrolled = []
    for root in (made, rectified):
        after = pipeline.run(module(made.operands, root), target, Dump())
        (instruction,) = (i for i in after.entry.instructions if i.opcode != "parameter")
        frame = Frame(target.module(), target, instruction, "kernel", collapsed=False)
        kernel = packed_dot.PackedDot(frame)
        assert (kernel.rows, kernel.vectors) == (14, 2)  # and two of rhs, and one of lhs
        unrolled.append(kernel.unroll)
    assert unrolled == [2, 1]


def test_two_products_in_one_sum() -> None:
    """Each has its own kernel; the second one adds the first one's result."""
    first = product((BF16, BF16), BF16, 87, 90, 83)
    second = product((BF16, BF16), BF16, 87, 90, 83)
    others = [hlo.parameter(2 + i, o.shape) for i, o in enumerate(second.operands)]
    second = second.replace(operands=others)
    parameters = [*first.operands, *others]
    root = op("add", op("negate", first), op("negate", second))
    after = pipeline.run(module(parameters, root), for_cpu("host", False), Dump())
    assert [k for k in kinds(after) if k != "pack"] == ["packed-dot", "packed-dot"]
    values = [random(p.dtype, p.dims, i) for i, p in enumerate(parameters)]
    (got,) = NativeSimulation(after).run(values)
    near(got, root, parameters, values, 2 * 83)
