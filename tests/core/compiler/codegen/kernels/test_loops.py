"""Loop kernels against the reference evaluator: every indexable operation, every dtype, random compositions."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from tripont.core.compiler.codegen.kernels.emit import emit_kernel
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import (
    BF16,
    C64,
    F16,
    F32,
    F64,
    PRED,
    S8,
    S16,
    S32,
    S64,
    U8,
    U16,
    U32,
    U64,
)
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.ir.registry import OPS
from tripont.core.compiler.reference import evaluate
from tripont.core.compiler.targets import host

from tests.core.compiler.codegen.harness import Kernel, fusion, op, runnable

S = hlo.Shape


def values(rng: np.random.Generator, shape: hlo.Shape) -> np.ndarray:
    dtype, dims = shape.dtype, shape.dims
    if dtype.kind == "pred":
        return rng.integers(0, 2, dims).astype(bool)
    if dtype.is_integer:
        info = (
            (-(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1))
            if dtype.is_signed
            else (0, 2**dtype.bits)
        )
        wide = rng.integers(
            info[0], info[1], dims, dtype=np.int64 if dtype.is_signed else np.uint64
        )
        small = rng.integers(0, 4, dims)
        return np.where(rng.random(dims) < 0.5, wide, small.astype(wide.dtype)).astype(dtype.numpy)
    if dtype.is_complex:
        return (rng.normal(size=dims) + 1j * rng.normal(size=dims)).astype(dtype.numpy)
    return (rng.normal(size=dims) * 3).astype(np.float32).astype(dtype.numpy)


def check(
    instruction: hlo.Instruction, arguments=None, *, splits=(), rtol=None, seed=0, target=None
) -> Kernel:
    """Compile, run and compare with the evaluator."""
    rng = np.random.default_rng(seed)
    if arguments is None:
        arguments = [values(rng, o.shape) for o in instruction.operands]
    kernel = Kernel(instruction, target)
    cuts = splits or [kernel.emitted.work_count // 3, kernel.emitted.work_count // 2]
    got = kernel.run(arguments, cuts)
    body = instruction.called[0] if instruction.opcode == "fusion" else None
    if body is None:
        parameters = [hlo.parameter(n, o.shape) for n, o in enumerate(instruction.operands)]
        body = hlo.Computation.from_root("c", parameters, instruction.replace(operands=parameters))
    with np.errstate(all="ignore"):
        expected = evaluate.evaluate_computation(body, [np.asarray(a) for a in arguments])
    for a, b, shape in zip(got, expected, instruction.result_shapes, strict=True):
        assert a.shape == b.shape
        if shape.dtype.is_float or shape.dtype.is_complex:
            default = {16: 2e-2 if shape.dtype is BF16 else 2e-3, 64: 1e-5}.get(
                shape.dtype.bits, 1e-5
            )
            wide = np.complex128 if shape.dtype.is_complex else np.float64
            tolerance = default if rtol is None else rtol
            np.testing.assert_allclose(
                a.astype(wide), b.astype(wide), rtol=tolerance, atol=tolerance
            )
        else:
            np.testing.assert_array_equal(a, b)
    return kernel


def parameters(*shapes: hlo.Shape) -> list[hlo.Instruction]:
    return [hlo.parameter(n, s) for n, s in enumerate(shapes)]


REAL = [F32, F64, F16, BF16]
INTEGERS = [S8, S16, S32, S64, U8, U16, U32, U64]
FLOAT_UNARY = [
    "abs",
    "negate",
    "sign",
    "exponential",
    "exponential-minus-one",
    "cbrt",
    "tanh",
    "sine",
    "cosine",
    "tan",
    "logistic",
    "erf",
    "floor",
    "ceil",
    "round-nearest-afz",
    "round-nearest-even",
    "is-finite",
]


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize("opcode", [*FLOAT_UNARY, "log", "log-plus-one", "sqrt", "rsqrt"])
def test_float_unary(opcode, dtype):
    (x,) = parameters(S(dtype, (3, 37)))
    data = values(np.random.default_rng(1), x.shape)
    if opcode in ("log", "log-plus-one", "sqrt", "rsqrt"):
        data = np.abs(data)
    result = S(PRED if opcode == "is-finite" else dtype, (3, 37))
    check(fusion("loop", [x], op(opcode, result, x)), [data])


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize(("exponent", "has_root"), [(-1.5, True), (2.5, True), (1.75, False)])
def test_power_of_a_half_is_a_root(exponent, has_root, dtype):
    (x,) = parameters(S(dtype, (3, 37)))
    data = np.abs(values(np.random.default_rng(1), x.shape))
    constant = hlo.broadcast(hlo.constant(exponent, dtype), (3, 37))
    kernel = check(fusion("loop", [x], op("power", S(dtype, (3, 37)), x, constant)), [data])
    assert ("llvm.sqrt" in kernel.ir) == has_root


@pytest.mark.parametrize("dtype", REAL, ids=str)
@pytest.mark.parametrize(
    "opcode",
    ["add", "subtract", "multiply", "divide", "maximum", "minimum", "remainder", "atan2", "power"],
)
def test_float_binary(opcode, dtype):
    x, y = parameters(S(dtype, (2, 53)), S(dtype, (2, 53)))
    rng = np.random.default_rng(2)
    a, b = values(rng, x.shape), values(rng, y.shape)
    if opcode == "power":
        a = np.abs(a)
    if opcode in ("maximum", "minimum"):
        a[0, 3] = b[1, 5] = np.nan
    check(fusion("loop", [x, y], op(opcode, x.shape, x, y)), [a, b])


@pytest.mark.parametrize("dtype", INTEGERS, ids=str)
def test_integer_arithmetic(dtype):
    """All integer operations, with zeros, minus ones, extreme values and shifts past the width among the operands."""
    rng = np.random.default_rng(3)
    x, y = parameters(S(dtype, (203,)), S(dtype, (203,)))
    a, b = values(rng, x.shape), values(rng, y.shape)
    info = np.iinfo(dtype.numpy)
    a[:3], b[:3] = info.min, [-1 if dtype.is_signed else info.max, 0, 1]
    binary = [
        "add",
        "subtract",
        "multiply",
        "divide",
        "remainder",
        "maximum",
        "minimum",
        "and",
        "or",
        "xor",
        "shift-left",
        "shift-right-logical",
        "shift-right-arithmetic",
        "power",
    ]
    roots = [op(o, x.shape, x, y) for o in binary]
    unary = ["not", "sign", "popcnt", "count-leading-zeros", "abs"]
    roots += [op(o, x.shape, x) for o in [*unary, *(["negate"] if dtype.is_signed else [])]]
    shifts = b.copy()
    shifts[::2] = np.arange(len(shifts[::2])) % (dtype.bits + 3)
    check(fusion("loop", [x, y], *roots), [a, shifts])
    check(fusion("loop", [x, y], *roots), [a, b])


@pytest.mark.parametrize("dtype", [dtypes.S4, dtypes.U4], ids=str)
def test_sub_byte_integers(dtype):
    x, y = parameters(S(dtype, (19,)), S(dtype, (19,)))
    roots = [op(o, x.shape, x, y) for o in ("add", "multiply", "subtract", "maximum", "and", "xor")]
    check(fusion("loop", [x, y], *roots))


@pytest.mark.parametrize("divisor", [1, 3, 7, 8, -5, 0, -1])
def test_division_by_constant(divisor):
    (x,) = parameters(S(S32, (67,)))
    c = hlo.broadcast(hlo.constant(divisor, S32), (67,))
    check(fusion("loop", [x], op("divide", x.shape, x, c), op("remainder", x.shape, x, c)))


@pytest.mark.parametrize("exponent", [0, 1, 2, 5, -1])
def test_integer_power_of_constant(exponent):
    (x,) = parameters(S(S32, (20,)))
    c = hlo.broadcast(hlo.constant(exponent, S32), (20,))
    data = np.arange(-10, 10, dtype=np.int32)
    check(fusion("loop", [x], op("power", x.shape, x, c)), [data])


@pytest.mark.parametrize("dtype", [F32, F64, BF16, S32, U8, PRED], ids=str)
@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "LE", "GT", "GE"])
def test_compare(direction, dtype):
    x, y = parameters(S(dtype, (41,)), S(dtype, (41,)))
    rng = np.random.default_rng(4)
    a, b = values(rng, x.shape), values(rng, y.shape)
    b[::3] = a[::3]
    kind = "FLOAT" if dtype.is_float else "SIGNED" if dtype.is_signed else "UNSIGNED"
    types = [kind]
    if dtype.is_float:
        a[5], b[6], a[9], b[9], a[10], b[10] = np.nan, np.nan, 0.0, -0.0, np.inf, np.nan
        types.append("TOTALORDER")
    for comparison in types:
        root = op("compare", S(PRED, (41,)), x, y, direction=direction, comparison_type=comparison)
        check(fusion("loop", [x, y], root), [a, b])


def test_logic():
    x, y = parameters(S(PRED, (100,)), S(PRED, (100,)))
    roots = [op(o, x.shape, x, y) for o in ("and", "or", "xor", "maximum", "minimum")]
    check(fusion("loop", [x, y], *roots, op("not", x.shape, x)))


ALL = [d for d in dtypes.ALL if d.bits >= 4]


@pytest.mark.parametrize("source", ALL, ids=str)
def test_convert_from(source):
    """From each dtype to all others, with NaN, infinities, ties and out-of-range values."""
    rng = np.random.default_rng(5)
    (x,) = parameters(S(source, (300,)))
    if source.is_float and source.bits <= 8:
        data = np.resize(np.arange(256 if source.bits == 8 else 16, dtype=np.uint8), 300).view(
            source.numpy
        )
    elif source.is_float:
        special = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e30, -1e30, 3e-39, 255.5, 256.5, -128.5, 1e-6, 448.0, 464.0,
                   465.0, 65504.0, 65519.0, 65520.0, 1 + 2.0**-9, 1 + 3 * 2.0**-9, 2.0**-25, 2.0**-24]  # fmt: skip
        data = (rng.normal(size=300) * np.exp2(rng.integers(-20, 20, 300))).astype(source.numpy)
        with np.errstate(over="ignore"):
            data[: len(special)] = np.array(special).astype(source.numpy)
    else:
        data = values(rng, x.shape)
    for target in ALL:
        check_convert(x, data, source, target)


def convert(x: np.ndarray, source: dtypes.DType, target: dtypes.DType) -> np.ndarray:
    """StableHLO's convert, with Python's integers where NumPy leaves the result open."""
    if target.kind == "pred":
        return x.astype(np.complex128) != 0
    if source.is_complex and not target.is_complex:
        x = x.real
    if target.is_integer:
        low = -(2 ** (target.bits - 1)) if target.is_signed else 0
        high = 2 ** (target.bits - (1 if target.is_signed else 0)) - 1
        if source.is_float or source.is_complex:
            wide = np.nan_to_num(x.astype(np.float64), posinf=np.inf, neginf=-np.inf)
            numbers = [low if v <= low else high if v >= high else int(v) for v in wide]
        else:
            storage = np.uint64 if source.kind == "uint" else np.int64
            raw = [int(v) & ((1 << target.bits) - 1) for v in x.astype(storage)]
            numbers = [v - (1 << target.bits) if v > high else v for v in raw]
        return np.array(numbers, np.int64 if target.is_signed else np.uint64).astype(target.numpy)
    if source.bits < 16 or (target.is_float and target.bits < 32 and source is not F64):
        x = x.astype(np.float32)
    return x.astype(target.numpy)


def check_convert(x, data, source, target):
    kernel = Kernel(fusion("loop", [x], op("convert", S(target, (300,)), x)))
    (got,) = kernel.run([data])
    with np.errstate(all="ignore"):
        expected = convert(data, source, target)
    if target.is_float or target.is_complex:
        wide = np.complex128 if target.is_complex else np.float64
        np.testing.assert_array_equal(
            got.astype(wide), expected.astype(wide), err_msg=f"{source}->{target}"
        )
        if target.is_float:
            signs = [
                np.signbit(v.astype(np.float64)) & ~np.isnan(v.astype(np.float64))
                for v in (got, expected)
            ]
            np.testing.assert_array_equal(*signs, err_msg=f"{source}->{target}")
    else:
        np.testing.assert_array_equal(got, expected, err_msg=f"{source}->{target}")


def test_f64_to_f16_rounds_once():
    x, data = (
        parameters(S(F64, (2,)))[0],
        np.array([1 + 2.0**-11 + 2.0**-40, 1 + 2.0**-11 - 2.0**-40]),
    )
    (got,) = Kernel(fusion("loop", [x], op("convert", S(F16, (2,)), x))).run([data])
    np.testing.assert_array_equal(got, np.array([1 + 2.0**-10, 1.0], np.float16))


@pytest.mark.parametrize("dtype", [F16, BF16, dtypes.F8E5M2], ids=str)
def test_operations_that_jump_see_rounded_numbers(dtype):
    """A product of small floats is computed in f32: what is just below 2 there is 2 in the dtype."""
    count = 400
    shape = S(dtype, (count,))
    a, b, c = parameters(shape, shape, shape)
    rng = np.random.default_rng(3)
    first = rng.uniform(1, 8, count).astype(dtype.numpy)
    second = (rng.integers(1, 30, count) / first.astype(np.float64)).astype(dtype.numpy)
    exact = first.astype(np.float32) * second.astype(np.float32)
    product = exact.astype(dtype.numpy)
    data = [first, second, product]
    wide = product.astype(np.float32)
    assert (np.floor(exact) != np.floor(wide)).any()
    x = op("reverse", shape, op("multiply", shape, a, b), dimensions=(0,))
    for root, expected in (
        (op("floor", shape, x), np.floor(wide)),
        (op("ceil", shape, op("negate", shape, x)), np.ceil(-wide)),
        (op("convert", S(S32, (count,)), x), wide.astype(np.int32)),
    ):
        (got,) = Kernel(fusion("loop", [a, b, c], root)).run(data)
        np.testing.assert_array_equal(got.astype(np.float32)[::-1], expected.astype(np.float32))
    kind = {"direction": "EQ", "comparison_type": "FLOAT"}
    same = op("compare", S(PRED, (count,)), op("multiply", shape, a, b), c, **kind)
    (got,) = Kernel(fusion("loop", [a, b, c], same)).run(data)
    assert got.all()


@pytest.mark.parametrize(
    ("exponent", "mantissa"), [(5, 10), (8, 7), (4, 3), (8, 23), (5, 23), (2, 1)]
)
@pytest.mark.parametrize("dtype", [F32, F64], ids=str)
def test_reduce_precision(exponent, mantissa, dtype):
    (x,) = parameters(S(dtype, (200,)))
    rng = np.random.default_rng(6)
    data = (rng.normal(size=200) * np.exp2(rng.integers(-30, 30, 200))).astype(dtype.numpy)
    data[:4] = [np.nan, np.inf, -np.inf, -0.0]
    root = op("reduce-precision", x.shape, x, exponent_bits=exponent, mantissa_bits=mantissa)
    check(fusion("loop", [x], root), [data], rtol=0)


BITCASTS = [
    (F32, S32),
    (S32, F32),
    (F64, U64),
    (BF16, U16),
    (U16, F16),
    (F16, S16),
    (S64, F64),
    (U32, S32),
]


@pytest.mark.parametrize(("source", "target"), BITCASTS, ids=str)
def test_bitcast_convert(source, target):
    (x,) = parameters(S(source, (5, 9)))
    check(fusion("loop", [x], op("bitcast-convert", S(target, (5, 9)), x)))


@pytest.mark.parametrize(
    ("wide", "narrow"), [(F32, U8), (U64, U32), (F64, S16), (S32, BF16)], ids=str
)
def test_bitcast_convert_of_width(wide, narrow):
    parts = wide.size // narrow.size
    (x,) = parameters(S(wide, (3, 7)))
    check(fusion("loop", [x], op("bitcast-convert", S(narrow, (3, 7, parts)), x)))
    (y,) = parameters(S(narrow, (3, 7, parts)))
    check(fusion("loop", [y], op("bitcast-convert", S(wide, (3, 7)), y)))


def test_select_and_clamp_take_scalars():
    p, x, y, low = parameters(S(PRED), S(F32, (3, 20)), S(F32, (3, 20)), S(F32))
    root = op("select", x.shape, p, x, op("clamp", x.shape, low, y, hlo.constant(2.0, F32)))
    check(fusion("loop", [p, x, y, low], root))


DIMS = [
    (),
    (1,),
    (7,),
    (16,),
    (33,),
    (1000,),
    (5000,),
    (3, 5),
    (17, 64),
    (1, 300),
    (4, 1, 9),
    (2, 3, 4, 5),
    (3, 2050),
]


@pytest.mark.parametrize("dtype", [F32, S8, F64, BF16, C64, PRED], ids=str)
@pytest.mark.parametrize("dims", DIMS, ids=str)
def test_shapes(dims, dtype):
    x, y = parameters(S(dtype, dims), S(dtype, dims))
    root = op("or" if dtype is PRED else "add", x.shape, x, y)
    check(fusion("loop", [x, y], root))


def test_empty():
    x, y = parameters(S(F32, (0, 3)), S(F32, (0, 3)))
    kernel = Kernel(fusion("loop", [x, y], op("add", x.shape, x, y)))
    assert kernel.emitted.work_count == 0


@pytest.mark.parametrize("dtype", [F32, BF16, S64, C64, PRED], ids=str)
def test_data_movement(dtype):
    x, y, z = parameters(S(dtype, (6, 35)), S(dtype, (35,)), S(dtype, ()))
    start, other = hlo.parameter(3, S(S32)), hlo.parameter(4, S(U32))
    s = lambda *dims: S(dtype, dims)
    everything = {
        "row": op("broadcast", s(6, 35), y, dimensions=(1,)),
        "column": op("broadcast", s(35, 9), y, dimensions=(0,)),
        "scalar": op("broadcast", s(4, 70), z, dimensions=()),
        "middle": op("broadcast", s(6, 3, 35), x, dimensions=(0, 2)),
        "reshape": op("reshape", s(7, 30), x),
        "reshape 3": op("reshape", s(5, 6, 7), x),
        "transpose": op("transpose", s(35, 6), x, dimensions=(1, 0)),
        "slice": op("slice", s(3, 30), x, starts=(2, 3), limits=(5, 33), strides=(1, 1)),
        "strided": op("slice", s(2, 12), x, starts=(1, 1), limits=(6, 35), strides=(3, 3)),
        "pad": op("pad", s(9, 44), x, z, low=(1, 4), high=(2, 5), interior=(0, 0)),
        "crop": op("pad", s(5, 33), x, z, low=(-1, 3), high=(0, -5), interior=(0, 0)),
        "interior": op("pad", s(12, 107), x, z, low=(1, 2), high=(0, 2), interior=(1, 2)),
        "concatenate": op("concatenate", s(6, 140), x, x, x, x, dimension=1),
        "stack": op("concatenate", s(12, 35), x, x, dimension=0),
        "reverse": op("reverse", s(6, 35), x, dimensions=(1,)),
        "reverse 2": op("reverse", s(6, 35), x, dimensions=(0, 1)),
        "dynamic-slice": op("dynamic-slice", s(2, 30), x, start, other, slice_sizes=(2, 30)),
    }
    rng = np.random.default_rng(7)
    data = [values(rng, p.shape) for p in (x, y, z)]
    for start_value, other_value in [(1, 3), (-5, 2**31 + 5)]:
        for root in everything.values():
            arguments = [*data, np.int32(start_value), np.uint32(other_value)]
            check(fusion("loop", [x, y, z, start, other], root), arguments)


@pytest.mark.parametrize(
    ("low", "high", "dims"),
    [
        ((1, 0, 0), (-1, 0, 0), (3, 1, 5)),  # operand cropped away: nothing but padding
        ((0, 1, 2), (0, -1, 0), (3, 1, 5)),
        ((0, -1, 0), (0, -1, 0), (3, 3, 5)),  # one element of three
        ((-1, 0, 1), (-1, 0, 1), (3, 4, 5)),
        ((0, 1, -4), (0, 1, 0), (3, 4, 5)),
    ],
)
def test_padding_to_size_one(low, high, dims):
    x, z = parameters(S(F32, dims), S(F32))
    result = tuple(d + a + b for d, a, b in zip(dims, low, high, strict=True))
    root = op("pad", S(F32, result), x, z, low=low, high=high, interior=(0, 0, 0))
    check(fusion("loop", [x, z], root))


@pytest.mark.parametrize("n", [2, 3, 4])
def test_lanes_before_an_array_are_divided_with_those_in_it(n):
    """Along padded rows of a part of a broadcast array, whose places are quotients, lanes begin before the array."""
    x, z = parameters(S(F32, (4, 3, n)), S(F32))
    wide = hlo.broadcast(x, (4, 2, 3, n, n), (0, 2, 3))
    flat = op("reshape", S(F32, (24 * n * n,)), wide)
    part = op("slice", S(F32, (6 * n,)), flat, starts=(0,), limits=(6 * n,), strides=(1,))
    rows = op("reshape", S(F32, (6, n)), part)
    padded = op("pad", S(F32, (10, n)), rows, z, low=(2, 0), high=(2, 0), interior=(0, 0))
    root = op("transpose", S(F32, (n, 10)), padded, dimensions=(1, 0))
    check(fusion("loop", [x, z], root))


@pytest.mark.parametrize("cpu", ["host", "x86-64-v2"])
@pytest.mark.parametrize("dtype", [U8, BF16, F32, F64], ids=str)
@pytest.mark.parametrize("interior", [1, 3, 7, 15])
def test_dilated_padding_begins_before_the_array(interior, dtype, cpu):
    """Whole dilated elements before a vector's first one that counts: its lanes' places are negative there."""
    every = interior + 1
    for n in (5, 20, 50):
        for low, high in ((every, 0), (2 * every, 3), (every + 1, -1), (-every, every)):
            size = (n - 1) * every + 1 + low + high
            x, z = parameters(S(dtype, (2, n)), S(dtype))
            root = op(
                "pad",
                S(dtype, (2, size)),
                x,
                z,
                low=(0, low),
                high=(0, high),
                interior=(0, interior),
            )
            check(fusion("loop", [x, z], root), target=host.for_cpu(cpu))


@pytest.mark.parametrize("dtype", [F32, F64, S8, BF16, C64], ids=str)
@pytest.mark.parametrize("stride", [2, 3, 4, 5, 7, 12, 13])
def test_strided_slices(stride, dtype):
    for n in (70, 64 * stride, 64 * stride - stride + 1, 1000):
        (x,) = parameters(S(dtype, (3, n)))
        shape = S(dtype, (3, -(-n // stride)))
        root = op("slice", shape, x, starts=(0, 0), limits=(3, n), strides=(1, stride))
        check(fusion("loop", [x], root))
        back = op("reverse", shape, root, dimensions=(1,))
        check(fusion("loop", [x], back))


@pytest.mark.parametrize("dtype", [F32, S8, C64], ids=str)
def test_places_that_are_known_are_shuffled(dtype):
    """Strides, rows in reverse, and every third element of a row that is repeated: no element is read by itself."""
    (x,) = parameters(S(dtype, (4, 1536)))
    part = S(dtype, (4, 128))
    stride = 6 if dtype.is_complex else 12
    strided = op("slice", part, x, starts=(0, 0), limits=(4, 128 * stride), strides=(1, stride))
    back = op("reverse", x.shape, x, dimensions=(1,))
    both = op("slice", part, back, starts=(0, 5), limits=(4, 261), strides=(1, 2))
    for root in (strided, back, both):
        kernel = check(fusion("loop", [x], op("negate", root.shape, root)))
        assert "llvm.masked.gather" not in kernel.ir


def test_lanes_that_are_left_out_are_zeros():
    """Elements of a smaller array under a mask that is known: the first lanes of rows, and every third one."""
    for n, repeats in ((3, 5), (7, 3), (5, 12)):
        (x,) = parameters(S(F32, (6, n)))
        wide = hlo.broadcast(x, (6, n, repeats), (0, 1))
        row = op("reshape", S(F32, (6, n * repeats)), wide)
        check(fusion("loop", [x], op("negate", row.shape, row)))
        z = hlo.constant(2.0, F32)
        size = n * 3 - 2
        padded = op("pad", S(F32, (6, size)), x, z, low=(0, 0), high=(0, 0), interior=(0, 2))
        kernel = check(fusion("loop", [x], op("negate", padded.shape, padded)))
        assert "llvm.masked.gather" not in kernel.ir


@pytest.mark.parametrize("dtype", [U8, F32], ids=str)
def test_vectors_have_lengths_that_devices_know(dtype):
    """SPIR-V has vectors of powers of two: seven neighbours are two vectors of four."""
    for n in (3, 5, 6, 7, 13):
        (x,) = parameters(S(dtype, (4, n)))
        wide = hlo.broadcast(x, (4, n, 5), (0, 1))
        row = op("reshape", S(dtype, (4, n * 5)), wide)
        ir = check(fusion("loop", [x], op("add", row.shape, row, row))).ir
        lengths = {int(length) for length in re.findall(r"<(\d+) x ", ir)}
        assert all(length.bit_count() == 1 for length in lengths), (n, lengths)


@pytest.mark.parametrize("dtype", [F32, S8], ids=str)
def test_reversed_short_rows_are_shuffled(dtype):
    """An image that is turned about: whole vectors are read, no element by itself."""
    (x,) = parameters(S(dtype, (4, 130, 3)))
    back = op("reverse", x.shape, x, dimensions=(1,))
    kernel = check(fusion("loop", [x], op("negate", x.shape, back)))
    assert "llvm.masked.gather" not in kernel.ir


def test_many_pieces():
    """A vector of parameters flattened into one: no step lies across a seam."""
    sizes = [5, 1, 2000, 16, 33, 1024, 7, 4000]
    pieces = parameters(*(S(F32, (n,)) for n in sizes))
    whole = op("concatenate", S(F32, (sum(sizes),)), *pieces, dimension=0)
    for root in (whole, op("negate", whole.shape, op("abs", whole.shape, whole))):
        kernel = check(fusion("loop", pieces, root), splits=[1, 2, 3, 5, 7])
        assert kernel.emitted.work_count == sum(-(-n // 1024) for n in sizes)
    rows = parameters(*(S(F32, (3, n)) for n in sizes))
    wide = op("concatenate", S(F32, (3, sum(sizes))), *rows, dimension=1)
    check(fusion("loop", rows, wide))
    start, stop = 30, 3000
    part = op(
        "slice", S(F32, (stop - start,)), whole, starts=(start,), limits=(stop,), strides=(1,)
    )
    zero = hlo.constant(0.0, F32)
    padded = op("pad", S(F32, (stop - start + 9,)), part, zero, low=(4,), high=(5,), interior=(0,))
    check(fusion("loop", pieces, padded))
    many = parameters(*(S(F32, (3,)) for _ in range(300)))
    check(fusion("loop", many, op("concatenate", S(F32, (900,)), *many, dimension=0)))


@pytest.mark.parametrize("dimension", [0, 1, 2])
def test_iota(dimension):
    dims = (3, 5, 40)
    roots = [op("iota", S(d, dims), dimension=dimension) for d in (S32, F32, U8, F64, BF16)]
    for root in roots:
        check(fusion("loop", [], root))


def gather(
    operand,
    indices,
    dims,
    offset,
    collapsed,
    start_map,
    vector,
    sizes,
    batching=(),
    index_batching=(),
):
    numbers = hlo.GatherDimensionNumbers(
        offset, collapsed, start_map, vector, batching, index_batching
    )
    return op(
        "gather", S(operand.dtype, dims), operand, indices, dimension_numbers=numbers, slice_sizes=sizes,
        indices_are_sorted=False,
    )  # fmt: skip


def test_gather():
    table, ids = parameters(S(F32, (10, 40)), S(S32, (3, 4)))
    rows = gather(table, ids, (3, 4, 40), (2,), (0,), (0,), 2, (1, 40))
    check(fusion("loop", [table, ids], rows))
    columns = gather(table, ids, (3, 4, 10), (2,), (1,), (1,), 2, (10, 1))
    check(fusion("loop", [table, ids], columns))
    first = gather(table, ids, (10, 3, 4), (0,), (1,), (1,), 2, (10, 1))
    check(fusion("loop", [table, ids], first))
    pairs = hlo.parameter(1, S(S64, (23, 2)))
    points = gather(table, pairs, (23,), (), (0, 1), (0, 1), 1, (1, 1))
    check(fusion("loop", [table, pairs], points))
    swapped = hlo.parameter(1, S(U8, (2, 23)))
    windows = gather(table, swapped, (23, 3, 5), (1, 2), (), (1, 0), 0, (3, 5))
    check(fusion("loop", [table, swapped], windows))
    batch, at = parameters(S(F32, (3, 10, 8)), S(S32, (3, 5)))
    batched = gather(batch, at, (3, 5, 8), (2,), (1,), (1,), 2, (1, 1, 8), (0,), (0,))
    check(fusion("loop", [batch, at], batched))


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", "x86-64-v2"])
def test_places_outside_of_an_array_are_near_its_ends(cpu):
    """Whatever the type of their numbers: those of 32 bits are compared as such, not in twice as many registers."""
    rng = np.random.default_rng(0)
    for index in (S32, U32, S64, U64, S16, U8):
        table, at = parameters(S(F32, (7, 300)), S(index, (2, 75)))
        points = gather(table, at, (75,), (), (0, 1), (0, 1), 0, (1, 1))
        ends = np.iinfo(index.numpy)
        places = rng.integers(max(-3, int(ends.min)), min(303, int(ends.max)), (2, 75))
        places = places.astype(index.numpy)
        places[:, ::9] = ends.max
        places[:, 1::9] = ends.min
        given = [values(rng, table.shape), places]
        kernel = check(fusion("loop", [table, at], points), given, target=host.for_cpu(cpu))
        wide = re.search(r"@llvm\.[su](min|max)\.v\d+i64", kernel.ir)
        assert (wide is None) == (index.bits == 32)


def test_complex():
    x, y = parameters(S(C64, (4, 19)), S(C64, (4, 19)))
    a, b = parameters(S(F32, (4, 19)), S(F32, (4, 19)))
    roots = [op(o, x.shape, x, y) for o in ("add", "subtract", "multiply", "divide")]
    roots += [
        op("negate", x.shape, x),
        op("real", a.shape, x),
        op("imag", a.shape, x),
        op("abs", a.shape, x),
    ]
    check(fusion("loop", [x, y], *roots))
    check(fusion("loop", [a, b], op("complex", x.shape, a, b)))
    check(fusion("loop", [x], op("transpose", S(C64, (19, 4)), x, dimensions=(1, 0))))


COMPLEX_UNARY = [
    "exponential",
    "exponential-minus-one",
    "log",
    "log-plus-one",
    "sqrt",
    "rsqrt",
    "tanh",
    "tan",
    "sine",
    "cosine",
    "logistic",
    "sign",
]


@pytest.mark.parametrize("dtype", [C64, dtypes.C128], ids=str)
@pytest.mark.parametrize("opcode", COMPLEX_UNARY)
def test_complex_functions(opcode, dtype):
    (x,) = parameters(S(dtype, (50,)))
    check(fusion("loop", [x], op(opcode, x.shape, x)), rtol=1e-4 if dtype is C64 else 1e-11)


def test_complex_power():
    x, y = parameters(S(C64, (50,)), S(C64, (50,)))
    check(fusion("loop", [x, y], op("power", x.shape, x, y)), rtol=1e-3)


def test_map():
    a, b = hlo.parameter(0, S(F32)), hlo.parameter(1, S(F32))
    body = hlo.Computation.from_root(
        "body", [a, b], op("add", S(F32), op("multiply", S(F32), a, b), hlo.constant(1.0, F32))
    )
    x, y = parameters(S(F32, (3, 21)), S(F32, (3, 21)))
    check(fusion("loop", [x, y], op("map", x.shape, x, y, called=[body], dimensions=(0, 1))))


def test_constant_tables():
    rng = np.random.default_rng(8)
    for dtype in (F32, BF16, S8, C64, PRED, F64):
        c = hlo.constant(values(rng, S(dtype, (3, 11))), dtype)
        (x,) = parameters(S(dtype, (3, 11)))
        root = op("or" if dtype is PRED else "add", x.shape, x, c)
        check(fusion("loop", [x], root))


def random_graph(seed: int) -> hlo.Instruction:
    """A composition of indexable operations on small arrays."""
    rng = np.random.default_rng(seed)
    dtype = [F32, S32, BF16][seed % 3]
    pick = lambda *options: options[rng.integers(len(options))]
    dims = tuple(int(d) for d in rng.choice([1, 2, 3, 5, 8, 17, 40], rng.integers(1, 4)))
    start = hlo.parameter(1, S(S32))
    scalar = hlo.parameter(2, S(dtype))
    x = hlo.parameter(0, S(dtype, dims))
    pool = [x]
    for _ in range(rng.integers(2, 9)):
        v = pool[rng.integers(len(pool))] if rng.random() < 0.3 else pool[-1]
        dims = v.dims
        rank = len(dims)
        kind = pick("unary", "binary", "broadcast", "reshape", "transpose", "slice", "pad", "concatenate", "reverse",
                    "dynamic-slice", "iota")  # fmt: skip
        if kind == "unary":
            new = op(pick("negate", "abs"), v.shape, v)
        elif kind == "binary":
            others = [p for p in pool if p.dims == dims]
            new = op(
                pick("add", "subtract", "maximum"), v.shape, v, others[rng.integers(len(others))]
            )
        elif kind == "broadcast" and v.shape.elements < 3000 and rank < 4:
            at = int(rng.integers(rank + 1))
            shape = (*dims[:at], int(pick(1, 2, 3, 19)), *dims[at:])
            new = op(
                "broadcast",
                S(dtype, shape),
                v,
                dimensions=tuple(d if d < at else d + 1 for d in range(rank)),
            )
        elif kind == "reshape":
            flat = v.shape.elements
            factors = [f for f in (1, 2, 3, 5, 8, 17) if flat % f == 0]
            f = int(factors[rng.integers(len(factors))])
            new = op(
                "reshape",
                S(dtype, pick((f, flat // f), (flat // f, f), (flat,), (1, flat // f, f))),
                v,
            )
        elif kind == "transpose":
            order = tuple(int(d) for d in rng.permutation(rank))
            new = op("transpose", S(dtype, tuple(dims[d] for d in order)), v, dimensions=order)
        elif kind == "slice":
            starts = tuple(int(rng.integers(d)) if rng.random() < 0.5 else 0 for d in dims)
            strides = tuple(int(pick(1, 1, 2)) for _ in dims)
            shape = tuple(-(-(d - s) // t) for d, s, t in zip(dims, starts, strides, strict=True))
            new = op("slice", S(dtype, shape), v, starts=starts, limits=dims, strides=strides)
        elif kind == "pad" and v.shape.elements < 3000:
            low, high = (
                tuple(int(pick(0, 0, 1, 3, -1)) if d > 2 else 0 for d in dims) for _ in range(2)
            )
            interior = tuple(int(pick(0, 0, 1)) for _ in dims)
            shape = tuple(
                a + b + d + (d - 1) * n
                for a, b, d, n in zip(low, high, dims, interior, strict=True)
            )
            new = op("pad", S(dtype, shape), v, scalar, low=low, high=high, interior=interior)
        elif kind == "concatenate" and v.shape.elements < 3000:
            d = int(rng.integers(rank))
            fits = [p for p in pool if len(p.dims) == rank and all(
                p.dims[k] == dims[k] for k in range(rank) if k != d)]  # fmt: skip
            parts = [v, *(fits[rng.integers(len(fits))] for _ in range(int(rng.integers(1, 3))))]
            shape = (*dims[:d], sum(p.dims[d] for p in parts), *dims[d + 1 :])
            new = op("concatenate", S(dtype, shape), *parts, dimension=d)
        elif kind == "reverse":
            new = op(
                "reverse",
                v.shape,
                v,
                dimensions=tuple(d for d in range(rank) if rng.random() < 0.6),
            )
        elif kind == "dynamic-slice":
            shape = tuple(int(rng.integers(1, d + 1)) if rng.random() < 0.5 else d for d in dims)
            new = op("dynamic-slice", S(dtype, shape), v, *[start] * rank, slice_sizes=shape)
        else:
            new = op("add", v.shape, v, op("iota", v.shape, dimension=int(rng.integers(rank))))
        pool.append(new)
    return fusion("loop", [x, start, scalar], pool[-1])


@pytest.mark.parametrize("block", range(15))
def test_random_graphs(block):
    for seed in range(block * 10, block * 10 + 10):
        instruction = random_graph(seed)
        rng = np.random.default_rng(seed)
        arguments = [values(rng, o.shape) for o in instruction.operands]
        arguments[1] = np.int32(seed % 5 - 1)
        arguments = [a.clip(-100, 100) if i != 1 else a for i, a in enumerate(arguments)]
        try:
            check(instruction, arguments)
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error


@pytest.mark.parametrize("cpu", ["x86-64-v2", "x86-64-v3"])
def test_narrower_cpus(cpu):
    """The same results from the code for CPUs without AVX-512, or without AVX (which this CPU can run too)."""
    target = runnable(cpu)
    for seed in range(0, 60, 2):
        instruction = random_graph(seed)
        rng = np.random.default_rng(seed)
        arguments = [values(rng, o.shape) for o in instruction.operands]
        arguments[1] = np.int32(seed % 5 - 1)
        check(
            instruction,
            [a.clip(-100, 100) if i != 1 else a for i, a in enumerate(arguments)],
            target=target,
        )
    for dtype, dims in itertools.product([F16, BF16, F32, F64, S8, PRED], [(5,), (3, 1030)]):
        x, y = parameters(S(dtype, dims), S(dtype, dims))
        check(
            fusion("loop", [x, y], op("or" if dtype is PRED else "add", x.shape, x, y)),
            target=target,
        )
    (x,) = parameters(S(F32, (100,)))
    for opcode in ("exponential", "tanh", "sine", "log-plus-one"):
        check(
            fusion("loop", [x], op(opcode, x.shape, x)),
            [np.linspace(0, 3, 100, dtype=np.float32)],
            target=target,
        )


def test_long_chains():
    """Fusions may be long: neither elementwise chains nor chains of index arithmetic exhaust the stack."""
    (x,) = parameters(S(F32, (40,)))
    y = x
    for n in range(300):
        y = op("negate", x.shape, y) if n % 2 else op("abs", x.shape, y)
    check(fusion("loop", [x], y))
    y = x
    for _ in range(300):
        y = op("reverse", x.shape, y, dimensions=(0,))
        y = op("negate", x.shape, y)
    check(fusion("loop", [x], y))


@pytest.mark.parametrize("cpu", ["x86-64-v2", "generic-aarch64"])
def test_no_operation_needs_a_library(cpu):
    """Whatever LLVM makes of an operation on a small CPU, it is code and not a call that nobody provides."""
    target = host.for_cpu(cpu)
    module = target.module()
    count = itertools.count()
    emit = lambda i: emit_kernel(module, target, i, f"k{next(count)}")
    for dtype in (F32, F64, F16):
        x, y = parameters(S(dtype, (3,)), S(dtype, (3,)))
        for opcode in FLOAT_UNARY:
            emit(
                fusion(
                    "loop", [x], op(opcode, S(PRED if opcode == "is-finite" else dtype, (3,)), x)
                )
            )
        for opcode in ["add", "divide", "maximum", "remainder", "atan2", "power"]:
            emit(fusion("loop", [x, y], op(opcode, x.shape, x, y)))
    for dtype in (S8, S64, U32, U64):
        x, y = parameters(S(dtype, (3,)), S(dtype, (3,)))
        for opcode in ["divide", "remainder", "power"]:
            emit(fusion("loop", [x, y], op(opcode, x.shape, x, y)))
        for opcode in ["popcnt", "count-leading-zeros"]:
            emit(fusion("loop", [x], op(opcode, x.shape, x)))
    for source, goal in [
        (F64, BF16),
        (U64, F32),
        (F32, U64),
        (F16, dtypes.S4),
        (dtypes.F8E4M3FN, F64),
        (F32, dtypes.F8E5M2),
    ]:
        (x,) = parameters(S(source, (3,)))
        emit(fusion("loop", [x], op("convert", S(goal, (3,)), x)))
    assert len(target.compile(module).symbols) == next(count)


def test_what_is_not_indexable_is_refused():
    (x,) = parameters(S(F32, (4, 4)))
    target = host.for_cpu()
    cholesky = op("cholesky", x.shape, x, lower=True)
    with pytest.raises(CompileError, match="cholesky") as error:
        emit_kernel(target.module(), target, fusion("loop", [x], cholesky), "k")
    assert error.value.code == "UNIMPLEMENTED"
    assert not OPS["cholesky"].is_indexable


# --------------------------------------------------------------------------------------------- rows of few elements


def short_rows(dtype: dtypes.DType, *dims: int) -> hlo.Instruction:
    """Rows that do not merge with the dimension before: elements by a number of the row's, and in another order."""
    x, y = hlo.parameter(0, S(dtype, dims)), hlo.parameter(1, S(dtype, dims[:-1]))
    rank = len(dims)
    spread = hlo.broadcast(y, dims, tuple(range(rank - 1)))
    each = op("multiply" if dtype.kind != "pred" else "and", S(dtype, dims), x, spread)
    starts, ends = (0,) * rank, (*dims[:-1], 1)
    ones = (1,) * rank
    first = op("slice", S(dtype, ends), each, starts=starts, limits=ends, strides=ones)
    starts, shape = (*starts[1:], 1), S(dtype, (*dims[:-1], dims[-1] - 1))
    rest = op("slice", shape, x, starts=starts, limits=dims, strides=ones)
    turned = op("concatenate", S(dtype, dims), rest, first, dimension=rank - 1)
    return fusion("loop", [x, y], each, turned)


@pytest.mark.parametrize("cpu", ["host", "x86-64-v3", "x86-64-v2"])
@pytest.mark.parametrize("dtype", [F32, F64, F16, BF16, S8, U16, S64, PRED], ids=lambda d: d.name)
def test_rows_of_few_elements(dtype: dtypes.DType, cpu: str) -> None:
    """Lengths below, at and above a vector's, with rests; rows up to one more than the longest that is so computed."""
    for dims in ((16, 2), (67, 3), (3, 67, 4), (200, 5), (15, 3), (2, 5, 37, 3)):
        check(short_rows(dtype, *dims), target=host.for_cpu(cpu))


def test_rows_of_few_elements_in_threads() -> None:
    """Units of work of a long dimension, each its own call, and rows that are written past the caches."""
    check(short_rows(F32, 5000, 3), splits=(1, 2))
    check(short_rows(F32, 7, 2500, 4), splits=(3, 9))
    long = short_rows(F32, 1 << 20, 3)
    check(long)
