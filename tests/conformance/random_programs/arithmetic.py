"""Operations element by element."""

from __future__ import annotations

from typing import Final

from tripont.core.compiler.ir import dtypes

from tests.conformance.programs import tensor
from tests.conformance.random_programs.builder import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    Builder,
    Entry,
    operation,
)

_INTEGER: Final = [
    "add",
    "subtract",
    "multiply",
    "maximum",
    "minimum",
    "and",
    "or",
    "xor",
    "shift_left",
    "shift_right_logical",
    "shift_right_arithmetic",
]
_PRED: Final = ["and", "or", "xor", "maximum", "minimum", "add", "multiply"]
_FLOAT: Final = ["add", "subtract", "multiply", "maximum", "minimum"]
_COMPLEX: Final = ["add", "subtract", "multiply"]

# Functions whose value, doubled and moved by a quarter, is nowhere near a whole number for small whole arguments.
_FUNCTIONS: Final = [
    "sine",
    "cosine",
    "tanh",
    "logistic",
    "exponential",
    "log",
    "sqrt",
    "rsqrt",
    "cbrt",
    "exponential_minus_one",
    "log_plus_one",
]


def names(a: Entry) -> list[str]:
    """The operations of two operands that a dtype has."""
    if a.dtype.kind == "pred":
        return _PRED
    if a.dtype.is_complex:
        return _COMPLEX
    return _INTEGER if a.dtype.is_integer else _FLOAT


@operation(4)
def binary(b: Builder) -> None:
    x = b.any()
    y = b.like(x)
    b.keep(b.binary(b.choose(names(x)), x, y))


@operation(2)
def unary(b: Builder) -> None:
    a = b.any()
    if a.dtype.kind == "pred":
        options = ["not"]
    elif a.dtype.is_integer:
        options = ["negate", "not", "popcnt", "count_leading_zeros"]
        options += ["abs", "sign"] if a.dtype.is_signed else []
    elif a.dtype.is_complex:
        options = ["negate"]
    else:
        options = ["negate", "abs", "sign"]
        if a.dtype.bits > 8:  # the interpreter rounds some numbers of f8E3M4 to NaN
            options += ["floor", "ceil", "round_nearest_even", "round_nearest_afz"]
    b.values.append(b.unary(b.choose(options), a))


@operation()
def function(b: Builder) -> None:
    """floor(2 f(x) + 1/4), in f32 or f64."""
    a = b.convert(b.any(), b.choose([dtypes.F32, dtypes.F64]))
    a = b.unary(b.choose(_FUNCTIONS), b.tame(a))
    a = b.binary("multiply", a, b.full(a.dtype, a.dims, 2))
    quarter = b.emit(f"stablehlo.constant dense<0.25> : {a.type}", a.dtype, a.dims)
    b.keep(b.unary("floor", b.binary("add", a, quarter)))


@operation()
def quotient(b: Builder) -> None:
    """Whole quotients of floats, also by zero."""
    a = b.pick(lambda v: v.dtype in FLOATS)
    if a is None:
        return
    c = b.like(a)
    if b.chance():
        b.keep(b.unary(b.choose(["floor", "ceil"]), b.binary("divide", a, c)))
    else:
        b.keep(b.binary("remainder", a, c))


@operation()
def divide(b: Builder) -> None:
    """By an odd number: the interpreter ends the process at zero."""
    a = b.pick(lambda v: v.dtype.is_integer)
    if a is None:
        return
    ones = b.full(a.dtype, a.dims, 1)
    odd = b.binary("or", b.like(a), ones)
    if a.dtype.is_signed:  # nor the smallest number by -1
        odd = b.binary("maximum", odd, ones)
    b.keep(b.binary(b.choose(["divide", "remainder"]), a, odd))


@operation(2)
def change_type(b: Builder) -> None:
    b.values.append(b.convert(b.any(), b.choose(b.types)))


@operation(2)
def select(b: Builder) -> None:
    a = b.any()
    c, d = b.like(a), b.like(a)
    directions = ["EQ", "NE"] if a.dtype.is_complex else ["LT", "EQ", "GE", "GT", "LE", "NE"]
    mask = b.compare(b.choose(directions), a, c)
    if b.chance():
        b.values.append(mask)
    if a.size and b.integer(0, 3) == 0:  # one truth value for all elements
        low = [0] * len(a.dims)
        ends = ", ".join(f"{n}:{n + 1}" for n in low)
        one = tensor(dtypes.PRED, *[1] * len(a.dims))
        mask = b.emit(
            f"stablehlo.slice {mask.name} [{ends}] : ({mask.type}) -> {one}",
            dtypes.PRED,
            [1] * len(a.dims),
        )
        mask = b.reshape(mask, ())
    b.values.append(b.select(mask, d, a))


@operation()
def around_zero(b: Builder) -> None:
    """A number or a conversion of it, zeros and ones, chosen once or more by the sign of either, and converted back."""
    a = b.pick(lambda v: v.dtype in FLOATS) or b.convert(b.any(), b.choose(FLOATS))
    converted = b.convert(a, b.choose([dtypes.F16, dtypes.F32, dtypes.F64]))
    compared = b.choose([a, converted])
    sign = b.choose([0.0, -0.0])
    zero = b.full(compared.dtype, compared.dims, sign)
    mask = b.compare(b.choose(["LT", "GE", "GT", "LE"]), compared, zero)
    if b.chance():
        mask = b.unary("not", mask)
    chosen = converted
    for _ in range(b.integer(1, 3)):
        constant = b.full(chosen.dtype, chosen.dims, b.choose([0.0, 0.0, -0.0, 1.0]))
        others = b.shuffled([chosen, b.choose([converted, constant, constant])])
        chosen = b.select(mask, *others)
    b.keep(b.convert(chosen, a.dtype) if b.chance() else chosen)


@operation()
def truth(b: Builder) -> None:
    """Comparisons combined as truth values, and made numbers again."""
    a = b.any()
    c, d = b.like(a), b.like(a)
    directions = ["EQ", "NE"] if a.dtype.is_complex else ["LT", "EQ", "NE", "GE"]
    flags = [b.compare(b.choose(directions), x, y) for x, y in ((a, c), (c, d))]
    both = b.binary(b.choose(["and", "or", "xor", "maximum", "minimum"]), *flags)
    b.values.append(b.convert(both, b.choose(b.types)))


@operation()
def clamp(b: Builder) -> None:
    a = b.pick(lambda v: not v.dtype.is_complex and v.dtype.kind != "pred")
    if a is None:
        return
    low, high = b.like(a), b.like(a)
    if b.integer(0, 2) == 0:
        low = b.constant(a.dtype, 0)
    kinds = f"({low.type}, {a.type}, {high.type}) -> {a.type}"
    b.values.append(
        b.emit(f"stablehlo.clamp {low.name}, {a.name}, {high.name} : {kinds}", a.dtype, a.dims)
    )


@operation()
def parts(b: Builder) -> None:
    """A complex number's parts, or two numbers as one."""
    a = b.pick(lambda v: v.dtype.is_complex)
    if a is not None and b.chance():
        b.values.append(b.unary(b.choose(["real", "imag"]), a, a.dtype.component))
        return
    a = b.pick(lambda v: v.dtype in (dtypes.F32, dtypes.F64))
    if a is None or not set(COMPLEX) & set(b.types):
        return
    whole = dtypes.C64 if a.dtype is dtypes.F32 else dtypes.C128
    zero = b.full(a.dtype, a.dims, 0)  # complex products of infinities are a chapter of their own
    real, imaginary = (b.select(b.is_finite(x), x, zero) for x in (a, b.like(a)))
    b.values.append(
        b.emit(
            f"stablehlo.complex {real.name}, {imaginary.name} : {tensor(whole, *a.dims)}",
            whole,
            a.dims,
        )
    )


@operation()
def precision(b: Builder) -> None:
    a = b.pick(lambda v: v.dtype in FLOATS)
    if a is None:
        return
    bits = b.choose(["e5m2", "e8m7", "e4m1", "e5m10"])
    b.values.append(
        b.emit(f"stablehlo.reduce_precision {a.name}, format = {bits} : {a.type}", a.dtype, a.dims)
    )


@operation()
def bits(b: Builder) -> None:
    """Integers read as others: as wide, or split or joined along a last dimension."""
    a = b.pick(lambda v: v.dtype.is_integer and v.dtype.bits >= 8)
    if a is None:
        return
    dtype = b.choose([d for d in INTEGERS if d.bits >= 8])
    ratio = max(a.dtype.bits // dtype.bits, dtype.bits // a.dtype.bits)
    if a.dtype.bits == dtype.bits:
        dims = a.dims
    elif a.dtype.bits > dtype.bits:
        dims = (*a.dims, ratio)
        if not b.fits(a.size * ratio) or len(dims) > 4:
            return
    else:
        if not a.dims or a.dims[-1] < ratio:
            return
        a = b.fit(a, a.dtype, (*a.dims[:-1], ratio))
        dims = a.dims[:-1]
    target = tensor(dtype, *dims)
    b.values.append(
        b.emit(f"stablehlo.bitcast_convert {a.name} : ({a.type}) -> {target}", dtype, dims)
    )
