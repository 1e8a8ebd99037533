"""Elementwise operations on register values, with StableHLO's semantics.

``emit`` is the way in. An op is registered with its functions, ``generate`` (bool, integers, floats) and
``generate_complex`` (:mod:`.complex_math`). They take (generator, instruction, operands) with operands of equal numbers
of lanes.

Multiplications and additions carry ``contract``: inside a kernel they may fuse, as they may in XLA's CPU code.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from ...ir import dtypes, errors, hlo
from ...ir.dtypes import DType
from ...ir.registry import CHOOSES, EXACT, IN_DTYPE, OPS
from .. import effort, llvm_ir
from ..llvm_ir import Value, lanes_of, scalar_of, vector
from ..representation import Complex, Element, register_type, unify
from . import conversion, nibbles, small_floats
from .extrema import maximum, minimum

if TYPE_CHECKING:
    from ..generator import Generator

Operation = Callable[["Generator", hlo.Instruction, list[Value]], Value]


def emit(g: Generator, instruction: hlo.Instruction, operands: list[Element]) -> Element:
    """The result of an elementwise instruction, made at the outermost loop level its operands allow.

    Raises CompileError UNIMPLEMENTED for an opcode or dtype that is not here.
    """
    key = (instruction, *operands)
    hit = g.recall(key)
    if hit is None:
        operands = unify(g.splat, operands)
        hit = g.pure(key, operands, lambda: _emit(g, instruction, operands))
    return hit  # type: ignore[no-any-return]


def _is_rounded(instruction: hlo.Instruction, depth: int = 6) -> bool:
    """Whether the register of a value of at most 16 bits holds a number of that dtype."""
    rounding = OPS[instruction.opcode].rounding
    if rounding == IN_DTYPE or not instruction.dtype.is_float:
        return True
    if depth == 0 or rounding not in (EXACT, CHOOSES):
        return False
    return all(_is_rounded(o, depth - 1) for o in instruction.operands)


def _is_zero(instruction: hlo.Instruction) -> bool:
    while instruction.opcode == "broadcast":
        instruction = instruction.operands[0]
    return instruction.opcode == "constant" and not np.any(instruction.attributes["literal"])


def _rounded(g: Generator, instruction: hlo.Instruction, operands: list[Element]) -> list[Element]:
    """The operands as they would be if they were stored: small floats are computed in f32."""
    if not any(o.dtype.is_float and o.dtype.bits <= 16 for o in instruction.operands):
        return operands
    # Rounding keeps signs.
    if instruction.opcode == "compare" and any(_is_zero(o) for o in instruction.operands):
        return operands
    return [
        value if _is_rounded(of) else conversion.round_to(g, value, of.dtype)  # type: ignore[arg-type]
        for of, value in zip(instruction.operands, operands, strict=True)
    ]


def _emit(g: Generator, instruction: hlo.Instruction, operands: list[Element]) -> Element:
    opcode = instruction.opcode
    op = OPS[opcode]
    if op.jumps or (opcode == "convert" and instruction.dtype.is_integer):
        operands = _rounded(g, instruction, operands)
    if opcode == "convert":
        return of_convert(g, instruction, operands)  # between all kinds of numbers
    if instruction.operands[-1].dtype.is_complex or instruction.dtype.is_complex:
        operation = op.generate_complex
        if operation is None:
            raise errors.of_instruction(
                "UNIMPLEMENTED", "not available for complex numbers", instruction
            )
        value: Element = operation(g, instruction, operands)
        return value
    real = op.generate
    if real is None:
        raise errors.of_instruction(
            "UNIMPLEMENTED", "no code generation for this operation", instruction
        )
    result: Value = real(g, instruction, operands)
    dtype = instruction.dtype
    if dtype.is_integer:
        nibbles.note_result(g, instruction, operands, result)  # type: ignore[arg-type]
        return conversion.wrap(g, result, dtype)
    # What such a type cannot hold it has no infinity for: a register must not hold it either.
    if dtype.is_float and dtype.bits < 8 and op.rounding != CHOOSES:
        return conversion.round_to(g, result, dtype)
    if dtype.is_float and not small_floats.has_negative_zero(dtype):
        return g.builder.binary("fadd", result, llvm_ir.floating(result.type, 0.0))
    return result


# ------------------------------------------------------------------------------------------------------ helpers


# How often the code of a function of vector_math is written out in one kernel; from then on it is called. A kernel with
# more transcendental functions than that spends its time in them, and LLVM would spend a second on a few hundred.
# (Without full effort none is written out.)
WRITTEN_OUT: Final = 8


def math_function(g: Generator, name: str, *arguments: Value) -> Value:
    """A function of :mod:`..vector_math` on float or double values."""
    from .. import vector_math

    g.math_functions[name] += 1
    written_out = WRITTEN_OUT if effort.is_careful(g.builder.module) else 0
    if g.math_functions[name] > written_out and g.target.calls_vectors:
        return vector_math.call(g.builder, g.target, name, *arguments)
    return vector_math.FUNCTIONS[name](g.builder, g.target, *arguments)


def math(name: str) -> Operation:
    return lambda g, i, o: math_function(g, name, *o)


def intrinsic(name: str) -> Operation:
    return lambda g, i, o: g.builder.intrinsic(name, o)


def by_kind(
    integer: str | Operation,
    floating: str | Operation,
    unsigned: str | Operation | None = None,
    pred: str = "",
) -> Operation:
    """An LLVM binary opcode (or an operation) for each kind of operand."""

    def operation(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
        dtype = i.operands[-1].dtype
        which: str | Operation
        if dtype.is_float:
            which = floating
        elif dtype.kind == "pred":
            which = pred
        elif dtype.is_signed or unsigned is None:
            which = integer
        else:
            which = unsigned
        if not which:
            raise errors.of_instruction("UNIMPLEMENTED", "not available for this dtype", i)
        return g.builder.binary(which, o[0], o[1]) if isinstance(which, str) else which(g, i, o)

    return operation


def _constant(value: Value, number: float) -> Value:
    """A constant of the value's type."""
    if scalar_of(value.type) in ("float", "double"):
        return llvm_ir.floating(value.type, number)
    return llvm_ir.integer(value.type, int(number))


def bits_of(g: Generator, value: Value) -> Value:
    """A float's bits as integers of its width."""
    width = "i64" if scalar_of(value.type) == "double" else "i32"
    return g.builder.cast("bitcast", value, vector(width, lanes_of(value.type)))


# ---------------------------------------------------------------------------------------------------- arithmetic


def of_abs(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
    dtype = i.dtype
    if dtype.is_float:
        return g.builder.intrinsic("fabs", o)
    if not dtype.is_signed:
        return o[0]
    type_ = o[0].type
    return g.builder.call(type_, f"llvm.abs.{llvm_ir.mangle(type_)}", [o[0], llvm_ir.FALSE])


def of_negate(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
    if i.dtype.is_float:
        return g.builder.fneg(o[0])
    return g.builder.binary("sub", llvm_ir.zero(o[0].type), o[0])


def of_sign(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
    b, x = g.builder, o[0]
    if i.dtype.is_float:  # NaN and zeros of either sign stay
        one = b.intrinsic("copysign", [_constant(x, 1.0), x])
        return b.select(b.fcmp("one", x, _constant(x, 0.0)), one, x)
    one = b.cast("zext", b.icmp("ne", x, llvm_ir.zero(x.type)), x.type)
    if not i.dtype.is_signed:
        return one
    negative = b.binary("ashr", x, _constant(x, i.dtype.bits - 1 if i.dtype.bits >= 8 else 7))
    return b.binary("or", negative, one)


def of_not(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
    return g.builder.binary("xor", o[0], llvm_ir.integer(o[0].type, -1))


def integer_extremum(name: str) -> Operation:
    return lambda g, i, o: g.builder.intrinsic(name, o)


def _divide_integers(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
    """x / 0 is -1 (all ones), and the smallest integer / -1 is itself."""
    b = g.builder
    x, y = o
    signed = i.dtype.is_signed
    zero = b.icmp("eq", y, llvm_ir.zero(y.type))
    if signed:
        minus = b.icmp("eq", y, _constant(y, -1))
        safe = b.select(b.binary("or", zero, minus), _constant(y, 1), y)
        quotient = b.select(
            minus, b.binary("sub", llvm_ir.zero(x.type), x), _quotient(g, i.dtype, x, safe)
        )
    else:
        quotient = _quotient(g, i.dtype, x, b.select(zero, _constant(y, 1), y))
    return b.select(zero, _constant(x, -1), quotient)


def _remainder_integers(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
    """x % 0 is x, and x % -1 is 0."""
    b = g.builder
    x, y = o
    zero = b.icmp("eq", y, llvm_ir.zero(y.type))
    unsafe = zero
    if i.dtype.is_signed:
        unsafe = b.binary("or", zero, b.icmp("eq", y, _constant(y, -1)))
    safe = b.select(unsafe, _constant(y, 1), y)
    rest = b.binary("sub", x, b.binary("mul", _quotient(g, i.dtype, x, safe), safe))
    return b.select(zero, x, rest)


def _quotient(g: Generator, dtype: DType, x: Value, y: Value) -> Value:
    """Truncating division by something that is neither 0 nor, for signed integers, -1.

    Vectors of 32 bits and less go through floats that hold them exactly, if those are divided exactly: CPUs have no
    integer vector division.
    """
    b = g.builder
    signed = dtype.is_signed
    count = lanes_of(x.type)
    exact = g.target.divides_exactly
    by_floats = (dtype.bits < 32 and exact) or (dtype.bits == 32 and g.target.has_double)
    if count == 1 or not by_floats or y.is_constant:
        return b.binary("sdiv" if signed else "udiv", x, y)
    type_ = vector("double" if dtype.bits == 32 else "float", count)
    to, back = ("sitofp", "fptosi") if signed else ("uitofp", "fptoui")
    quotient = b.binary("fdiv", b.cast(to, x, type_), b.cast(to, y, type_))
    return b.cast(back, quotient, x.type)


def divide_constant(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
    """Integer division; the checks go away when the divisor is a harmless constant."""
    if _is_harmless(o[1]):
        return g.builder.binary("sdiv" if i.dtype.is_signed else "udiv", o[0], o[1])
    return _divide_integers(g, i, o)


def divide_floats(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
    from ..vector_math.arithmetic import Arithmetic
    from ..vector_math.gradual import divide_powers
    from ..vector_math.quotient import divide_by

    x = i.operands[0]
    if x.opcode == "exponential" and not o[1].is_constant:
        return divide_powers(Arithmetic(g.builder, g.target, o[0].type), *o)
    whole = x.opcode == "convert" and x.operands[0].dtype.is_integer
    return divide_by(g.builder, g.target, *o, whole=whole)


def remainder_constant(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
    if _is_harmless(o[1]):
        return g.builder.binary("srem" if i.dtype.is_signed else "urem", o[0], o[1])
    return _remainder_integers(g, i, o)


def _is_harmless(value: Value) -> bool:
    return isinstance(value.constant, int) and value.constant not in (0, -1)


def of_power(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
    from ..vector_math.power import HALVES, half_power

    if i.dtype.is_float:
        if o[0].constant == 2:
            return math_function(g, "exp2", o[1])
        exponent = o[1].constant
        if isinstance(exponent, float) and 2 * exponent in HALVES:
            return half_power(g.builder, g.target, o[0], int(2 * exponent))
        return math_function(g, "pow", *o)
    return _integer_power(g, i.dtype, o[0], o[1])


def _integer_power(g: Generator, dtype: DType, x: Value, y: Value) -> Value:
    """By squaring, one step a bit of the exponent. A negative exponent gives 1/x truncated: 0 unless x is 1 or -1."""
    b = g.builder
    one = _constant(x, 1)
    result, square = one, x
    bits = dtype.bits
    constant = y.constant if isinstance(y.constant, int) and y.constant >= 0 else None
    if constant is not None:
        bits = constant.bit_length()
    for n in range(bits):
        if constant is not None:
            if constant >> n & 1:
                result = square if result is one else b.binary("mul", result, square)
        else:
            odd = b.icmp("ne", b.binary("and", y, _constant(y, 1 << n)), llvm_ir.zero(y.type))
            result = b.select(odd, b.binary("mul", result, square), result)
        if n + 1 < bits:
            square = b.binary("mul", square, square)
    if constant is not None or not dtype.is_signed:
        return result
    # x is 1, -1 or else: for a negative exponent, 1, +-1 by parity, or 0 (and -1 for the 1/0 of x == 0, as
    # division has it).
    odd = b.icmp("ne", b.binary("and", y, _constant(y, 1)), llvm_ir.zero(y.type))
    inverse = b.select(b.icmp("eq", x, one), one, llvm_ir.zero(x.type))
    minus = b.select(odd, _constant(x, -1), one)
    inverse = b.select(b.icmp("eq", x, _constant(x, -1)), minus, inverse)
    return b.select(b.icmp("slt", y, llvm_ir.zero(y.type)), inverse, result)


def shift(opcode: str) -> Operation:
    def operation(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
        b = g.builder
        x, by = o
        bits = i.dtype.bits
        if (
            opcode == "lshr" and bits < 8 and i.dtype.is_signed
        ):  # the sign extension is not part of the value
            x = b.binary("and", x, _constant(x, (1 << bits) - 1))
        if opcode == "ashr" and bits < 8 and not i.dtype.is_signed:  # its top bit is the sign
            x = b.binary("ashr", b.binary("shl", x, _constant(x, 8 - bits)), _constant(x, 8 - bits))
        if bits < 8:
            by = b.binary("and", by, _constant(by, 0xFF if i.dtype.is_signed else (1 << bits) - 1))
        if isinstance(by.constant, int) and 0 <= by.constant < bits:
            return b.binary(opcode, x, by)
        inside = b.icmp("ult", by, _constant(by, bits))
        if opcode == "ashr":
            return b.binary("ashr", x, b.select(inside, by, _constant(by, bits - 1)))
        shifted = b.binary(opcode, x, b.select(inside, by, llvm_ir.zero(by.type)))
        return b.select(inside, shifted, llvm_ir.zero(x.type))

    return operation


def of_count_leading_zeros(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
    b, x, bits = g.builder, o[0], i.dtype.bits
    if bits < 8:
        x = b.binary("and", x, _constant(x, (1 << bits) - 1))
    count = b.call(x.type, f"llvm.ctlz.{llvm_ir.mangle(x.type)}", [x, llvm_ir.FALSE])
    return b.binary("sub", count, _constant(x, 8 - bits)) if bits < 8 else count


def of_popcnt(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
    x = o[0]
    if i.dtype.bits < 8:
        x = g.builder.binary("and", x, _constant(x, (1 << i.dtype.bits) - 1))
    return g.builder.intrinsic("ctpop", [x])


def of_is_finite(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
    b, x = g.builder, o[0]
    if i.operands[0].dtype in (
        dtypes.F16,
    ):  # computed in f32: what would not fit f16 is not finite
        return b.fcmp("olt", b.intrinsic("fabs", [x]), _constant(x, 65520.0))
    return b.fcmp("one", b.intrinsic("fabs", [x]), _constant(x, float("inf")))


_FLOAT_PREDICATES: Final = {
    "EQ": "oeq",
    "NE": "une",
    "LT": "olt",
    "LE": "ole",
    "GT": "ogt",
    "GE": "oge",
}
_INTEGER_PREDICATES: Final = {
    "EQ": "eq",
    "NE": "ne",
    "LT": "lt",
    "LE": "le",
    "GT": "gt",
    "GE": "ge",
}


def of_compare(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
    b = g.builder
    dtype = i.operands[0].dtype
    direction = i.attributes["direction"]
    signed = dtype.is_signed
    if dtype.is_float:
        if i.attributes["comparison_type"] != "TOTALORDER":
            return b.fcmp(_FLOAT_PREDICATES[direction], o[0], o[1])
        o, signed = [total_order_key(g, v) for v in o], True
    predicate = _INTEGER_PREDICATES[direction]
    if predicate not in ("eq", "ne"):
        if dtype.kind == "pred":  # by logic: not every LLVM backend orders vectors of bits
            false, true = o if predicate[0] == "l" else o[::-1]  # what must be so in LT and GT
            inverse = b.binary("xor", false, llvm_ir.integer(false.type, -1))
            return b.binary("or" if predicate[1] == "e" else "and", inverse, true)
        predicate = ("s" if signed else "u") + predicate
    return b.icmp(predicate, o[0], o[1])


def total_order_key(g: Generator, value: Value) -> Value:
    """Integers that compare as signed the way floats compare in IEEE total order (-NaN < -inf < -0 < 0 < inf < NaN)."""
    b = g.builder
    bits = bits_of(g, value)
    width = int(scalar_of(bits.type)[1:])
    sign = b.binary("ashr", bits, _constant(bits, width - 1))
    return b.binary("xor", bits, b.binary("lshr", sign, _constant(bits, 1)))


def of_select(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
    return g.builder.select(o[0], o[1], o[2])


def of_clamp(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
    low, x, high = o
    if i.dtype.is_float:
        return minimum(g, None, [maximum(g, None, [x, low]), high])
    prefix = "s" if i.dtype.is_signed else "u"
    return g.builder.intrinsic(
        prefix + "min", [g.builder.intrinsic(prefix + "max", [x, low]), high]
    )


def of_reduce_precision(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
    exponent_bits, mantissa_bits = i.attributes["exponent_bits"], i.attributes["mantissa_bits"]
    if i.dtype is dtypes.F16:  # its subnormals are rounded as they are stored
        raw = small_floats.encode(g, o[0], dtypes.F16)
        raw = _reduce_bits(g, raw, (5, 10), exponent_bits, mantissa_bits)
        rounded = small_floats.decode(g, raw, dtypes.F16)
        return _keep_nan(g, o[0], rounded, mantissa_bits)
    return reduce_precision(g, o[0], exponent_bits, mantissa_bits)


def reduce_precision(g: Generator, x: Value, exponent_bits: int, mantissa_bits: int) -> Value:
    """Round to a narrower format, as XLA defines it: too large becomes infinity, too small a zero of its sign."""
    full = (11, 52) if scalar_of(x.type) == "double" else (8, 23)
    result = _reduce_bits(g, bits_of(g, x), full, exponent_bits, mantissa_bits)
    return _keep_nan(g, x, g.builder.cast("bitcast", result, x.type), mantissa_bits)


def _keep_nan(g: Generator, x: Value, rounded: Value, mantissa_bits: int) -> Value:
    """NaN stays NaN; a format without a mantissa has infinity in its place."""
    nan = _constant(x, float("inf")) if mantissa_bits == 0 else x
    return g.builder.select(g.builder.fcmp("uno", x, x), nan, rounded)


def _reduce_bits(
    g: Generator, bits: Value, full: tuple[int, int], exponent_bits: int, mantissa_bits: int
) -> Value:
    """The bits of numbers with ``full`` = (exponent, mantissa) bits, rounded to fewer."""
    b = g.builder
    full_exponent, full_mantissa = full
    c = functools.partial(llvm_ir.integer, bits.type)
    sign_bit = 1 << (full_exponent + full_mantissa)
    result = bits
    if mantissa_bits < full_mantissa:
        drop = full_mantissa - mantissa_bits
        odd = b.binary("and", b.binary("lshr", bits, c(drop)), c(1))
        result = b.binary("add", result, b.binary("add", odd, c((1 << (drop - 1)) - 1)))
        result = b.binary("and", result, c(-(1 << drop)))
    if exponent_bits < full_exponent:
        bias, full_bias = (1 << (exponent_bits - 1)) - 1, (1 << (full_exponent - 1)) - 1
        exponent = b.binary("and", result, c(((1 << full_exponent) - 1) << full_mantissa))
        sign = b.binary("and", result, c(sign_bit))
        overflows = b.icmp("ugt", exponent, c((full_bias + bias) << full_mantissa))
        underflows = b.icmp("ule", exponent, c((full_bias - bias) << full_mantissa))
        infinity = b.binary("or", sign, c(((1 << full_exponent) - 1) << full_mantissa))
        result = b.select(overflows, infinity, result)
        result = b.select(underflows, sign, result)
    return result


def bitcast_convert(g: Generator, element: Element, source: DType, target: DType) -> Element:
    """The same bits as another dtype of the same width."""
    if isinstance(element, Complex) or source.is_complex or target.is_complex:
        if source is target:
            return element
        raise errors.unimplemented(f"bitcast-convert from {source} to {target}")
    b = g.builder
    count = lanes_of(element.type)
    value = element
    integer = vector(f"i{max(source.bits, 8)}", count)
    if source.is_float:
        if source in (dtypes.F32, dtypes.F64):
            value = b.cast("bitcast", value, integer)
        else:
            value = small_floats.encode(g, value, source)
    elif source.kind == "pred":
        value = b.cast("zext", value, integer)
    if target.is_float:
        if target in (dtypes.F32, dtypes.F64):
            return b.cast("bitcast", value, vector(register_type(target), count))
        return small_floats.decode(g, value, target)
    if target.kind == "pred":
        return b.icmp("ne", value, llvm_ir.zero(value.type))
    return conversion.wrap(g, value, target)


def of_convert(g: Generator, i: hlo.Instruction, o: list[Element]) -> Element:
    return conversion.convert(g, o[0], i.operands[0].dtype, i.dtype)


def of_bitcast_convert(g: Generator, i: hlo.Instruction, o: list[Value]) -> Value:
    return bitcast_convert(g, o[0], i.operands[0].dtype, i.dtype)  # type: ignore[return-value]
