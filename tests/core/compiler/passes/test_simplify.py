"""Rewrite rules: what becomes of small expressions, and that their values stay."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes, hlo, verifier
from tripont.core.compiler.ir.hlo import Instruction
from tripont.core.compiler.passes.simplify import (
    MAXIMUM_FOLDED_TABLE,
    MAXIMUM_FOLDED_TABLES,
    simplify,
)
from tripont.core.compiler.reference.evaluate import evaluate

from tests.core.compiler.builders import (
    PRED,
    S32,
    arguments,
    compare,
    module,
    number,
    op,
    opcodes,
    parameter,
    reduce,
)

X = lambda *dims, dtype=dtypes.F32: parameter(0, *dims, dtype=dtype)
Make = Callable[[Instruction], Instruction]


def slice_(x, starts, limits, strides=None):
    strides = strides or (1,) * len(starts)
    dims = [-(-(b - a) // s) for a, b, s in zip(starts, limits, strides, strict=True)]
    return op(
        "slice", x, dims=dims, starts=tuple(starts), limits=tuple(limits), strides=tuple(strides)
    )


def transpose(x, *order):
    return op("transpose", x, dims=[x.dims[d] for d in order], dimensions=tuple(order))


def pad(x, value, low, high):
    dims = [d + a + b for d, a, b in zip(x.dims, low, high, strict=True)]
    return op(
        "pad", x, value, dims=dims, low=tuple(low), high=tuple(high), interior=(0,) * len(low)
    )


def concatenate(dimension, *pieces):
    dims = list(pieces[0].dims)
    dims[dimension] = sum(p.dims[dimension] for p in pieces)
    return op("concatenate", *pieces, dims=dims, dimension=dimension)


def gather_columns(x, places):
    """x[:, places], as JAX writes it."""
    indices = hlo.constant(np.array(places, np.int32)[:, None])
    return op(
        "gather", x, indices, dims=(x.dims[0], len(places)), slice_sizes=(x.dims[0], 1),
        indices_are_sorted=False, dimension_numbers=hlo.GatherDimensionNumbers((0,), (1,), (1,), 1),
    )  # fmt: skip


def gather_of_nothing(x, dims, sizes, places=S32):
    """Elements of a matrix at places along its rows, in batches, with slices of the given sizes."""
    numbers = hlo.GatherDimensionNumbers((), (0, 1), (0, 1), 2)
    indices = op("iota", dims=(*dims, 2), dtype=places, dimension=1)
    return op(
        "gather", x, indices, dims=dims, slice_sizes=sizes, indices_are_sorted=False,
        dimension_numbers=numbers,
    )  # fmt: skip


def gather_counted(x, count, dtype=S32, first=False):
    """x[:, iota], the columns behind the rows or (``first``) before them."""
    rows = x.dims[0]
    indices = op("iota", dims=(count, 1), dtype=dtype, dimension=0)
    return op(
        "gather", x, indices, dims=(count, rows) if first else (rows, count), slice_sizes=(rows, 1),
        indices_are_sorted=False,
        dimension_numbers=hlo.GatherDimensionNumbers((int(first),), (1,), (1,), 1),
    )  # fmt: skip


def counted(size, value, direction, dtype=S32):
    return compare(
        op("iota", dims=(size,), dtype=dtype, dimension=0),
        number(value, size, dtype=dtype),
        direction,
    )


CASES: dict[str, tuple[Instruction, Make, list[str]]] = {
    "x + -0": (X(4), lambda x: op("add", x, number(-0.0, 4)), []),
    "x + 0, whose negative zeros become zeros": (X(4), lambda x: op("add", number(0, 4), x), ["broadcast", "add"]),
    "x + 0 of what is no negative zero": (
        X(4),
        lambda x: op("add", op("subtract", op("add", op("abs", x), number(0, 4)), number(1, 4)), number(0, 4)),
        ["abs", "broadcast", "subtract"],
    ),
    "x + 0 of integers": (X(4, dtype=S32), lambda x: op("add", x, number(0, 4, dtype=S32)), []),
    "x - 0": (X(4), lambda x: op("subtract", x, number(0, 4)), []),
    "x - -0": (X(4), lambda x: op("subtract", x, number(-0.0, 4)), ["broadcast", "subtract"]),
    "dot of batches": (
        X(4, 3),
        lambda x: op(
            "dot", x, op("sine", x), dims=(4, 3),
            precision=None, dimension_numbers=hlo.DotDimensionNumbers((), (), (0, 1), (0, 1)),
        ),
        ["sine", "multiply"],
    ),
    "dot of batches, crossed": (
        X(3, 3),
        lambda x: op(
            "dot", x, x, dims=(3, 3),
            precision=None, dimension_numbers=hlo.DotDimensionNumbers((), (), (0, 1), (1, 0)),
        ),
        ["dot"],
    ),
    "outer product": (
        X(4),
        lambda x: op(
            "dot", x, op("sine", x), dims=(4, 4),
            precision=None, dimension_numbers=hlo.DotDimensionNumbers((), ()),
        ),
        ["sine", "broadcast", "broadcast", "multiply"],
    ),
    "a sum of one term": (
        X(4),
        lambda x: op(
            "dot", op("reshape", x, dims=(4, 1)), op("reshape", op("sine", x), dims=(1, 4)), dims=(4, 4),
            precision=None, dimension_numbers=hlo.DotDimensionNumbers((1,), (0,)),
        ),
        ["sine", "broadcast", "broadcast", "broadcast", "multiply", "add"],
    ),
    "a sum of two terms": (
        X(4, 2),
        lambda x: op(
            "dot", x, op("sine", x), dims=(4, 4),
            precision=None, dimension_numbers=hlo.DotDimensionNumbers((1,), (1,)),
        ),
        ["sine", "dot"],
    ),
    "a scale for each row": (
        X(4),
        lambda x: op(
            "dot", x, hlo.broadcast(op("sine", x), (4, 3), (0,)), dims=(4, 3),
            precision=None, dimension_numbers=hlo.DotDimensionNumbers((), (), (0,), (0,)),
        ),
        ["sine", "multiply", "broadcast"],
    ),
    "outer product in a wider type": (
        X(4, dtype=dtypes.BF16),
        lambda x: op(
            "dot", x, x, dims=(4, 4), dtype=dtypes.F32,
            precision=None, dimension_numbers=hlo.DotDimensionNumbers((), ()),
        ),
        ["convert", "broadcast", "convert", "broadcast", "multiply"],
    ),
    "outer product in a narrower type": (
        X(4),
        lambda x: op(
            "dot", x, x, dims=(4, 4), dtype=dtypes.BF16,
            precision=None, dimension_numbers=hlo.DotDimensionNumbers((), ()),
        ),
        ["dot"],
    ),
    "product of batches that stand behind": (
        X(3, 4),
        lambda x: op(
            "dot", x, x, dims=(4, 3, 3),
            precision=None, dimension_numbers=hlo.DotDimensionNumbers((), (), (1,), (1,)),
        ),
        ["dot"],
    ),
    "matrix product": (
        X(4, 4),
        lambda x: op(
            "dot", x, x, dims=(4, 4),
            precision=None, dimension_numbers=hlo.DotDimensionNumbers((1,), (0,)),
        ),
        ["dot"],
    ),
    "constant against a splat": (
        X(2, dtype=S32),
        lambda x: op(
            "multiply", x, op("add", hlo.constant(np.array([1, 0], np.int32)), number(2, 2, dtype=S32))
        ),
        ["multiply"],
    ),
    "gather of known columns": (
        X(5, 3), lambda x: gather_columns(x, [2, 0]), ["slice", "slice", "concatenate"]
    ),
    "gather of known columns, clamped": (
        X(5, 3), lambda x: gather_columns(x, [7, -2]), ["slice", "slice", "concatenate"]
    ),
    "a column of gathered columns": (
        X(5, 3), lambda x: slice_(gather_columns(x, [1, 0]), (0, 1), (5, 2)), ["slice"]
    ),
    "gather of all columns": (X(5, 3), lambda x: gather_counted(x, 3), []),
    "gather of the first columns": (X(5, 3), lambda x: gather_counted(x, 2), ["slice"]),
    "gather of more columns than there are": (
        X(5, 3), lambda x: gather_counted(x, 4), ["iota", "gather"]
    ),
    "gather of all columns, which stand first": (
        X(5, 3), lambda x: gather_counted(x, 3, first=True), ["iota", "gather"]
    ),
    "gather of all columns, by numbers that wrap around": (
        X(2, 300), lambda x: gather_counted(x, 300, dtype=dtypes.U8), ["iota", "gather"]
    ),
    "gather of all columns, by numbers that just do not": (
        X(2, 256), lambda x: gather_counted(x, 256, dtype=dtypes.U8), []
    ),
    "gather of rows that are none": (X(0, 5), lambda x: gather_of_nothing(x, (2, 3), (0, 1)), ["broadcast"]),
    "gather of columns that are none": (X(2, 0), lambda x: gather_of_nothing(x, (2, 3), (1, 0)), ["broadcast"]),
    "gather of empty slices of a matrix that has elements": (
        X(2, 5), lambda x: gather_of_nothing(x, (2, 3), (1, 0)), ["broadcast"]
    ),
    "gather of a bool that is none": (
        X(0, 5, dtype=PRED), lambda x: gather_of_nothing(x, (2, 3), (0, 1)), ["broadcast"]
    ),
    "gather of equal numbers that are none": (
        X(2, 3), lambda x: op("add", x, gather_of_nothing(number(7, 0, 5), (2, 3), (0, 1))), ["broadcast", "add"]
    ),
    "iota < 0": (X(9, dtype=PRED), lambda x: op("and", x, counted(9, 0, "LT")), ["broadcast"]),
    "iota >= 0": (X(9, dtype=PRED), lambda x: op("and", x, counted(9, 0, "GE")), []),
    "iota < 9": (X(9, dtype=PRED), lambda x: op("and", x, counted(9, 9, "LT")), []),
    "iota < 8": (
        X(9, dtype=PRED),
        lambda x: op("and", x, counted(9, 8, "LT")),
        ["iota", "broadcast", "compare", "and"],
    ),
    "iota <= 8": (X(9, dtype=PRED), lambda x: op("and", x, counted(9, 8, "LE")), []),
    "iota > 7": (
        X(9, dtype=PRED),
        lambda x: op("and", x, counted(9, 7, "GT")),
        ["iota", "broadcast", "compare", "and"],
    ),
    "iota > 8": (X(9, dtype=PRED), lambda x: op("and", x, counted(9, 8, "GT")), ["broadcast"]),
    "iota > -1": (X(9, dtype=PRED), lambda x: op("and", x, counted(9, -1, "GT")), []),
    "iota of a byte < 0": (
        X(200, dtype=PRED),
        lambda x: op("and", x, counted(200, 0, "LT", dtypes.S8)),
        ["iota", "broadcast", "compare", "and"],
    ),
    "gather of many columns": (X(5, 3), lambda x: gather_columns(x, [0, 1, 2, 1, 0]), ["gather"]),
    "i - i": (X(4, dtype=S32), lambda x: op("subtract", x, x), ["broadcast"]),
    "x * 1": (X(4), lambda x: op("multiply", x, number(1, 4)), []),
    "x * -1": (X(4), lambda x: op("multiply", x, number(-1, 4)), ["negate"]),
    "i * 0": (X(4, dtype=S32), lambda x: op("multiply", x, number(0, 4, dtype=S32)), ["broadcast"]),
    "x * 0 may be NaN": (X(4), lambda x: op("multiply", x, number(0, 4)), ["broadcast", "multiply"]),
    "x / 8": (X(4), lambda x: op("divide", x, number(8, 4)), ["broadcast", "multiply"]),
    "x / 3 is not exact": (X(4), lambda x: op("divide", x, number(3, 4)), ["broadcast", "divide"]),
    "x ^ 2": (X(4), lambda x: op("power", x, number(2, 4)), ["multiply"]),
    "1 ^ x": (X(4), lambda x: op("power", number(1, 4), op("log", x)), ["broadcast"]),
    "1 ^ i": (X(4, dtype=S32), lambda x: op("power", number(1, 4, dtype=S32), x), ["broadcast"]),
    "2 ^ x": (X(4), lambda x: op("power", number(2, 4), x), ["broadcast", "power"]),
    "1 ^ z": (
        X(4, dtype=dtypes.C64),
        lambda x: op("power", number(1, 4, dtype=dtypes.C64), x),
        ["broadcast", "power"],
    ),
    "--x": (X(4), lambda x: op("negate", op("negate", x)), []),
    "not not": (X(4, dtype=PRED), lambda x: op("not", op("not", x)), []),
    "not(i < j)": (
        X(4, dtype=S32),
        lambda x: op("not", compare(x, number(2, 4, dtype=S32), "LT")),
        ["broadcast", "compare"],
    ),
    "max(x, x)": (X(4), lambda x: op("maximum", x, x), []),
    "max(x, -inf)": (X(4), lambda x: op("maximum", x, number(-np.inf, 4)), []),
    "select(true)": (
        X(4),
        lambda x: op("select", number(True, 4, dtype=PRED), x, op("negate", x), dtype=dtypes.F32),
        [],
    ),
    "integers through floats to narrower ones saturate": (
        X(4, dtype=dtypes.U8),
        lambda x: op("convert", op("convert", x, dtype=dtypes.F32), dtype=dtypes.S8),
        ["convert", "convert"],
    ),
    "convert to itself": (X(4), lambda x: op("convert", x), []),
    "bf16 -> f32 -> bf16": (
        X(4, dtype=dtypes.BF16),
        lambda x: op("convert", op("convert", x, dtype=dtypes.F32), dtype=dtypes.BF16),
        [],
    ),
    "f32 -> bf16 -> f32 rounds": (
        X(4),
        lambda x: op("convert", op("convert", x, dtype=dtypes.BF16), dtype=dtypes.F32),
        ["convert", "convert"],
    ),
    "constants": (X(4), lambda x: op("add", x, op("exponential", number(1, 4))), ["broadcast", "add"]),
    "f(broadcast)": (
        X(4),
        lambda x: op("exponential", hlo.broadcast(x, (4, 9), (0,))),
        ["exponential", "broadcast"],
    ),
    "broadcast of broadcast": (
        X(4),
        lambda x: hlo.broadcast(hlo.broadcast(x, (4, 5), (0,)), (3, 4, 5), (1, 2)),
        ["broadcast"],
    ),
    "reshape back": (X(4, 6), lambda x: op("reshape", op("reshape", x, dims=(24,)), dims=(4, 6)), []),
    "f(reshape)": (
        X(4, 6),
        lambda x: op("reshape", op("negate", op("reshape", x, dims=(24,))), dims=(4, 6)),
        ["negate"],
    ),
    "keepdims": (
        X(4),
        lambda x: hlo.broadcast(op("exponential", op("reshape", x, dims=(4, 1))), (4, 1, 7), (0, 1)),
        ["exponential", "broadcast"],
    ),
    "transpose twice": (X(4, 6), lambda x: transpose(transpose(x, 1, 0), 1, 0), []),
    "transpose of a size 1": (X(4, 1, 6), lambda x: transpose(x, 1, 0, 2), ["reshape"]),
    "transpose of stacked rows": (
        X(1, 6),
        lambda x: transpose(concatenate(0, x, op("sine", x)), 1, 0),
        ["sine", "reshape", "reshape", "concatenate"],
    ),
    "transpose of stacked rows, to the middle": (
        X(1, 4, 6),
        lambda x: transpose(concatenate(0, x, op("sine", x)), 1, 0, 2),
        ["sine", "reshape", "reshape", "concatenate"],
    ),
    "transpose of stacked matrices that are transposed": (
        X(1, 4, 6),
        lambda x: transpose(concatenate(0, x, op("sine", x)), 2, 1, 0),
        ["sine", "concatenate", "transpose"],
    ),
    "transpose of stacked pairs of rows": (
        X(2, 6),
        lambda x: transpose(concatenate(0, x, op("sine", x)), 1, 0),
        ["sine", "concatenate", "transpose"],
    ),
    "transpose of many stacked rows": (
        X(1, 6),
        lambda x: transpose(concatenate(0, *[x] * 33), 1, 0),
        ["concatenate", "transpose"],
    ),
    "transpose of broadcast": (X(4), lambda x: transpose(hlo.broadcast(x, (4, 6), (0,)), 1, 0), ["broadcast"]),
    "whole slice": (X(4, 6), lambda x: slice_(x, (0, 0), (4, 6)), []),
    "slice of slice": (X(20), lambda x: slice_(slice_(x, (2,), (18,), (2,)), (1,), (7,), (3,)), ["slice"]),
    "slice of concatenation": (
        X(5),
        lambda x: slice_(concatenate(0, op("negate", x), x), (6,), (9,)),
        ["slice"],
    ),
    "slice inside padding": (X(5), lambda x: slice_(pad(x, number(1), (2,), (2,)), (3,), (6,)), ["slice"]),
    "no padding": (X(5), lambda x: pad(x, number(1), (0,), (0,)), []),
    "cropping": (X(5), lambda x: pad(x, number(1), (-1,), (-1,)), ["slice"]),
    "one piece": (X(5), lambda x: concatenate(0, x), []),
    "nested concatenation": (X(5), lambda x: concatenate(0, concatenate(0, x, x), x), ["concatenate"]),
    "reduce size 1": (X(4, 1), lambda x: reduce(op("abs", x), (1,)), ["abs", "reshape"]),
    "reduce size 1, with negative zeros": (
        X(4, 1),
        lambda x: reduce(x, (1,)),
        ["broadcast", "add", "reshape"],
    ),
    "reduce of transpose": (X(4, 6), lambda x: reduce(transpose(x, 1, 0), (0,)), ["reduce"]),
    "reduce of reduce": (X(4, 6, 3), lambda x: reduce(reduce(x, (2,)), (0,)), ["reduce"]),
    "known dynamic slice": (
        X(9),
        lambda x: op("dynamic-slice", x, number(7, dtype=S32), dims=(4,), slice_sizes=(4,)),
        ["slice"],
    ),
    "update of everything": (
        X(9),
        lambda x: op("dynamic-update-slice", op("negate", x), x, number(0, dtype=S32)),
        [],
    ),
    "update of a splat": (
        X(3, 4),
        lambda x: op(
            "dynamic-update-slice", number(2, 5, 7), x, number(-3, dtype=S32), number(2, dtype=S32)
        ),
        ["pad"],
    ),
    "update of a splat, past its end": (
        X(3, 4),
        lambda x: op(
            "dynamic-update-slice", number(2, 5, 4), x, number(9, dtype=S32), number(1, dtype=S32)
        ),
        ["pad"],
    ),
    "update of an array": (
        X(9),
        lambda x: op(
            "dynamic-update-slice",
            op("negate", x),
            op("slice", x, dims=(4,), starts=(0,), limits=(4,), strides=(1,)),
            number(2, dtype=S32),
        ),
        ["negate", "slice", "dynamic-update-slice"],
    ),
    "reverse of one": (X(1, 4), lambda x: op("reverse", x, dimensions=(0,)), []),
    "reverse twice": (X(3, 4), lambda x: op("reverse", op("reverse", x, dimensions=(0, 1)), dimensions=(0, 1)), []),
    "reverse of reverse": (
        X(3, 4, 2),
        lambda x: op("reverse", op("reverse", x, dimensions=(0, 1)), dimensions=(1, 2)),
        ["reverse"],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_rule(name: str) -> None:
    x, make, expected = CASES[name]
    before = module([x], make(x))
    before.assign_names()
    verifier.verify(before)
    after = simplify(before)
    after.assign_names()
    verifier.verify(after, "simplify")
    assert opcodes(after.entry) == expected
    values = arguments(before)
    for a, b in zip(evaluate(before, values), evaluate(after, values), strict=True):
        if name == "reduce of reduce":  # rounds in another order
            np.testing.assert_allclose(a, b, rtol=1e-5)
        else:
            np.testing.assert_array_equal(a, b)


def test_a_sum_of_one_term_has_its_zero() -> None:
    """A product of -0 is the sum 0, as the sum of 0 and -0 is."""
    x = X(3, 1)
    numbers = hlo.DotDimensionNumbers((1,), (0,))
    dot = op("dot", x, number(1.0, 1, 2), dims=(3, 2), precision=None, dimension_numbers=numbers)
    (result,) = evaluate(simplify(module([x], dot)), [np.float32([[-0.0], [0.0], [-2.0]])])
    np.testing.assert_array_equal(result, np.float32([[0, 0], [0, 0], [-2, -2]]))
    np.testing.assert_array_equal(np.signbit(result), [[False] * 2, [False] * 2, [True] * 2])


def test_splat_constants_become_scalars() -> None:
    x = X(100)
    after = simplify(module([x], op("multiply", x, hlo.constant(np.full(100, 2.5, np.float32)))))
    constants = [i for i in after.entry.instructions if i.opcode == "constant"]
    assert [c.dims for c in constants] == [()]


def test_nan_constant_is_one_value() -> None:
    x = X(6)
    after = simplify(module([x], op("add", x, hlo.constant(np.full(6, np.nan, np.float32)))))
    assert opcodes(after.entry) == ["broadcast", "add"]


def test_folding_is_bounded() -> None:
    big = hlo.constant(np.arange((1 << 18) + 1, dtype=np.float32))
    after = simplify(module([], op("exponential", big)))
    assert opcodes(after.entry) == ["exponential"]


def test_functions_of_a_table_are_a_table() -> None:
    """As positional encodings are: longer than other folded constants may be, but no larger than what they replace."""
    angles = np.linspace(-9, 9, 1 << 18).astype(np.float32)
    table = hlo.constant(angles)
    twice = op(
        "multiply", op("sine", table), hlo.broadcast(hlo.constant(np.float32(2)), table.dims)
    )
    (folded,) = simplify(module([], twice)).entry.results
    assert folded.opcode == "constant"
    expected = np.float32(2) * np.sin(angles.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(folded.attributes["literal"], expected)
    wider = hlo.Instruction("convert", hlo.Shape(dtypes.F64, table.dims), [table])
    assert "convert" in opcodes(simplify(module([], wider)).entry)
    exact = op("sine", hlo.constant(angles[:5000].astype(np.float64)))
    assert "sine" in opcodes(simplify(module([], exact)).entry)


def test_one_table_does_not_become_many() -> None:
    """A hundred multiples of a constant would be a hundred times its size in the compiled program."""
    table = hlo.constant(np.linspace(-9, 9, MAXIMUM_FOLDED_TABLE).astype(np.float32))
    x = X(MAXIMUM_FOLDED_TABLE)
    sum_ = x
    for n in range(2, 102):
        multiple = op("multiply", table, hlo.broadcast(hlo.constant(np.float32(n)), table.dims))
        sum_ = op("tanh", op("add", sum_, multiple))
    after = simplify(module([x], sum_)).entry
    elements = sum(i.elements for i in after.instructions if i.opcode == "constant")
    assert elements <= MAXIMUM_FOLDED_TABLE + MAXIMUM_FOLDED_TABLES + 100


@pytest.mark.parametrize("opcode", ["logistic", "rsqrt", "sign", "exponential-minus-one"])
def test_functions_of_complex_tables_are_left_to_kernels(opcode: str) -> None:
    """What is infinite, or overflows on the way, is NaN in NumPy."""
    table = hlo.constant((np.linspace(1, 3e6, 5000) + complex(0, math.inf)).astype(np.complex64))
    assert opcode in opcodes(simplify(module([], op(opcode, table))).entry)


def test_logistic_of_far_constants() -> None:
    far = np.array([-2200 - 9e18j, 2200 + 3j], np.complex64)
    (folded,) = simplify(module([], op("logistic", hlo.constant(far)))).entry.results
    np.testing.assert_array_equal(folded.attributes["literal"], [0, 1])
    tiny = hlo.constant(np.array([-89.5, -89.5, 0], ml_dtypes.bfloat16))
    (folded,) = simplify(module([], op("logistic", tiny))).entry.results
    expected = np.array([math.exp(-89.5), math.exp(-89.5), 0.5]).astype(ml_dtypes.bfloat16)
    np.testing.assert_array_equal(folded.attributes["literal"], expected)


def test_functions_of_decimal_arithmetic_are_folded_for_few_elements() -> None:
    few, many = (hlo.constant(np.linspace(1.5, 9, n, dtype=np.float32)) for n in (16, 17))
    assert "lgamma" not in opcodes(simplify(module([], op("lgamma", few))).entry)
    assert "lgamma" in opcodes(simplify(module([], op("lgamma", many))).entry)
    assert "zeta" in opcodes(simplify(module([], op("zeta", many, many))).entry)


def test_unchanged_program_is_the_same_object() -> None:
    x = X(4)
    before = module([x], op("exponential", x))
    assert simplify(before) is before


def test_division_by_denormal_power_stays() -> None:
    x = X(4)
    after = simplify(module([x], op("divide", x, number(2.0**-127, 4))))
    assert "divide" in opcodes(after.entry)
