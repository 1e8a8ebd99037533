"""The reference evaluator's elementwise functions, of the instruction and NumPy arrays.

They work on arrays of any shape, whatever the instruction's own shape is: so a scalar computation (the body of a
reduction) can be run on whole arrays at once. Each op is registered with its own (:mod:`..ops`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from statistics import NormalDist
from typing import Any

import numpy as np

from ..ir import dtypes
from ..ir.dtypes import DType
from ..ir.hlo import Instruction

Array = np.ndarray[Any, Any]


def wide(function: Callable[..., Any]) -> Callable[..., Any]:
    """A floating-point function computed in the next wider type, so that the rounding is the only
    error.
    """

    def apply(i: Instruction, *operands: Array) -> Array:
        dtype = operands[0].dtype
        if dtype.kind == "c":
            wide: Any = np.complex128
        else:
            wide = np.float32 if dtype.itemsize < 4 else np.float64
        return np.asarray(function(*[np.asarray(o).astype(wide) for o in operands])).astype(dtype)

    return apply


def plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda i, *operands: function(*operands)


def by_element(function: Callable[..., float]) -> Callable[..., Array]:
    return lambda x, *y: np.vectorize(function, otypes=[np.float64])(x, *y) if x.size else x


def erf_inv(x: float) -> float:
    """By Halley's method, on erfc where erf is near 1, from the inverse of the normal distribution."""
    if not abs(x) < 1:
        return math.copysign(math.inf, x) if abs(x) == 1 else math.nan
    if abs(x) < 1e-8:
        return x * math.sqrt(math.pi) / 2  # the next term of the series is x ** 2 smaller
    rest = 1 - abs(x)  # exact where it is small
    y = -NormalDist().inv_cdf(rest / 2) / math.sqrt(2)
    for _ in range(3):
        error = math.erf(y) - abs(x) if abs(x) < 0.5 else rest - math.erfc(y)
        step = error * math.sqrt(math.pi) / 2 * math.exp(y * y)
        y -= step / (1 + y * step)
    return math.copysign(y, x)


def logistic(x: Array) -> Array:
    """From the power that does not overflow: the other gives 0 for a denormal result, and NaN for complex numbers."""
    below = x.real < 0
    power = np.exp(np.where(below, x, -x))
    return np.asarray(np.where(below, power, 1) / (1 + power))


def sign(x: Array) -> Array:
    if x.dtype.kind == "c":
        magnitude = np.abs(x)
        return np.where(magnitude == 0, x, x / np.where(magnitude == 0, 1, magnitude))
    return np.sign(x) if x.dtype.kind in "iu" else np.where(x == 0, x, np.sign(x))


def _signed_range(dtype: np.dtype) -> tuple[int, int]:
    bits = dtypes.from_numpy(dtype).bits
    kind = dtypes.from_numpy(dtype).kind
    return (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if kind == "int" else (0, (1 << bits) - 1)


def divide(i: Instruction, a: Array, b: Array) -> Array:
    a, b = np.broadcast_arrays(a, b)
    if not i.dtype.is_integer:
        return np.asarray(a / b)
    native = i.dtype.numpy
    a, b = native_int(a), native_int(b)
    low, _ = _signed_range(native)
    zero = b == 0
    overflow = (a == low) & (b == -1) if i.dtype.is_signed else np.zeros_like(zero)
    safe = np.where(zero | overflow, np.ones_like(b), b)
    all_ones = (
        np.array(-1).astype(a.dtype)
        if i.dtype.is_signed
        else a.dtype.type(_signed_range(native)[1])
    )
    return np.where(zero, all_ones, np.where(overflow, a, _truncated(a, safe)))


def _differ(a: Array, b: Array) -> Array:
    return np.asarray((a < 0) != (b < 0))


def _truncated(a: Array, b: Array) -> Array:
    """Integer quotient rounded toward zero."""
    quotient = a // b
    return np.asarray(quotient + ((a - quotient * b != 0) & _differ(a, b)).astype(a.dtype))


def native_int(a: Array) -> Array:
    """Sub-byte integers as int8/uint8: ml_dtypes lacks some operations on them."""
    dtype = dtypes.from_numpy(a.dtype)
    return a.astype(np.int8 if dtype.is_signed else np.uint8) if dtype.bits < 8 else a


def remainder(i: Instruction, a: Array, b: Array) -> Array:
    a, b = np.broadcast_arrays(a, b)
    if not i.dtype.is_integer:
        wide = np.float64 if a.dtype == np.float64 else np.float32
        return np.asarray(np.fmod(a.astype(wide), b.astype(wide)))
    a, b = native_int(a), native_int(b)
    low, _ = _signed_range(i.dtype.numpy)
    special = (b == 0) | ((a == low) & (b == -1) if i.dtype.is_signed else False)
    safe = np.where(special, np.ones_like(b), b)
    return np.where(b == 0, a, a - _truncated(a, safe) * safe * (b != 0))


def power(i: Instruction, a: Array, b: Array) -> Array:
    if i.dtype.is_integer:
        base, exponent = np.broadcast_arrays(a, b)
        result = np.ones_like(base)
        negative = exponent < 0
        one, minus_one = base == 1, base == -1
        left, factor = np.where(negative, 0, exponent).astype(base.dtype), base.copy()
        for _ in range(i.dtype.bits):
            result = np.where(left & 1, result * factor, result)
            factor, left = factor * factor, left >> 1
        odd = (exponent & 1) != 0
        inverse = np.where(one, 1, np.where(minus_one, np.where(odd, -1, 1), 0)).astype(base.dtype)
        return np.where(negative, inverse, result)
    return np.asarray(wide(np.power)(i, a, b))


def shift(i: Instruction, a: Array, b: Array) -> Array:
    bits = i.dtype.bits
    unsigned = np.dtype(f"u{i.dtype.size}")
    amount = (
        b.astype(np.int64)
        if i.dtype.size < 8
        else b.view(unsigned)
        if b.ndim
        else b.astype(unsigned)
    )
    too_far = (amount >= bits) | (amount < 0)
    safe = np.where(too_far, 0, amount)
    if i.opcode == "shift-left":
        return np.where(too_far, 0, native_int(a) << safe.astype(native_int(a).dtype)).astype(
            a.dtype
        )
    if i.opcode == "shift-right-logical":
        mask = (1 << bits) - 1
        logical = a.astype(unsigned) & unsigned.type(mask)
        return (
            np.where(too_far, 0, logical >> safe.astype(unsigned)).astype(unsigned).astype(a.dtype)
        )
    signed = np.dtype(f"i{i.dtype.size}")
    spare = 8 * i.dtype.size - bits  # of less than a byte: the sign is extended
    arithmetic = a.astype(signed) << spare >> spare
    shifted = arithmetic >> np.where(too_far, bits - 1, amount).astype(signed)
    return np.asarray(shifted).astype(a.dtype)


def _bits_of(i: Instruction, a: Array) -> Array:
    unsigned = a.astype(np.dtype(f"u{i.dtype.size}")).astype(np.uint64)
    return np.asarray(unsigned & np.uint64((1 << i.dtype.bits) - 1))


def popcount(i: Instruction, a: Array) -> Array:
    unsigned = _bits_of(i, a)
    count = np.zeros(unsigned.shape, np.int64)
    for bit in range(i.dtype.bits):
        count += ((unsigned >> np.uint64(bit)) & np.uint64(1)).astype(np.int64)
    return count


def leading_zeros(i: Instruction, a: Array) -> Array:
    unsigned = _bits_of(i, a)
    count = np.full(unsigned.shape, i.dtype.bits, np.int64)
    for bit in range(i.dtype.bits):
        count = np.where((unsigned >> np.uint64(bit)) & np.uint64(1), i.dtype.bits - 1 - bit, count)
    return count


def convert(i: Instruction, a: Array) -> Array:
    a = np.asarray(a)
    target = i.dtype
    if (
        target.is_integer
        and a.dtype.kind not in "iub"
        and not dtypes.from_numpy(a.dtype).is_integer
    ):
        if a.dtype.kind == "c":
            a = a.real
        wide = a.astype(np.float64)  # out of range saturates and NaN is 0, as in XLA
        low, high = _signed_range(target.numpy)
        inside = np.clip(np.trunc(np.nan_to_num(wide, nan=0.0, posinf=0.0, neginf=0.0)), low, high)
        exact = np.where((inside > low) & (inside < high), inside, 0)
        result = exact.astype(np.uint64 if low == 0 else np.int64)
        result = np.where(wide >= high, np.array(high, result.dtype), result)
        result = np.where(wide <= low, np.array(low, result.dtype), result)
        return np.where(np.isnan(wide), np.zeros((), result.dtype), result).astype(target.numpy)
    if a.dtype.kind == "c" and not target.is_complex:
        a = a.real
    if target.kind == "pred":
        return np.asarray(a != 0)
    # ml_dtypes has no conversions between integers of less than a byte, nor between some of its floats.
    source = dtypes.from_numpy(a.dtype)
    if source.is_integer:
        a = native_int(a)
    elif source.is_float and source.bits <= 8:
        a = a.astype(np.float32)
    return a.astype(target.numpy)


def compare(i: Instruction, a: Array, b: Array) -> Array:
    if i.attributes["comparison_type"] == "TOTALORDER":
        a, b = total_order(a), total_order(b)
    match i.attributes["direction"]:
        case "EQ":
            return np.asarray(a == b)
        case "NE":
            return np.asarray(a != b)
        case "LT":
            return np.asarray(a < b)
        case "LE":
            return np.asarray(a <= b)
        case "GT":
            return np.asarray(a > b)
        case _:
            return np.asarray(a >= b)


def total_order(a: Array) -> Array:
    """Floats as integers that compare as IEEE totalOrder does: -NaN < -inf < ... < -0 < 0 < ... <
    NaN.
    """
    a = np.asarray(a)
    bits = np.atleast_1d(a).view(np.dtype(f"i{a.dtype.itemsize}")).astype(np.int64).reshape(a.shape)
    return np.where(bits < 0, bits ^ np.int64((1 << (8 * a.dtype.itemsize - 1)) - 1), bits)


def extremum(i: Instruction, a: Array, b: Array) -> Array:
    return _larger(i.dtype, a, b, i.opcode == "maximum")


def _larger(dtype: DType, a: Array, b: Array, maximum: bool) -> Array:
    """The larger of two numbers, or the smaller one; NaN if one is."""
    if dtype.is_complex:
        a, b = np.broadcast_arrays(a, b)
        first = (a.real > b.real) | ((a.real == b.real) & (a.imag >= b.imag))
        return np.where(first == maximum, a, b)
    if dtype.kind == "pred":
        return (a | b) if maximum else (a & b)
    best = np.asarray(np.maximum(a, b) if maximum else np.minimum(a, b))
    if dtype.is_float and (best == 0).any():  # of two zeros, +0 is the larger
        zeros = (np.asarray(a).astype(np.float32) == 0) & (np.asarray(b).astype(np.float32) == 0)
        negative = np.signbit(a) & np.signbit(b) if maximum else np.signbit(a) | np.signbit(b)
        signed = np.where(negative, -0.0, 0.0).astype(best.dtype)
        return np.where(zeros & (best == 0), signed, best)
    return best


def clamp(i: Instruction, low: Array, x: Array, high: Array) -> Array:
    return _larger(i.dtype, _larger(i.dtype, low, x, True), high, False)


def reduce_precision(i: Instruction, a: Array) -> Array:
    """As codegen/elements/elementwise.py rounds: the bits of f16 and f64 as they are, of other types as f32's.

    Subnormal numbers stay where the format has as many bits of exponent.
    """
    bits, mantissa = {dtypes.F16: (16, 10), dtypes.F64: (64, 52)}.get(i.dtype, (32, 23))
    wide = np.atleast_1d(a).astype(f"f{bits // 8}")
    exponent = bits - 1 - mantissa
    u = np.dtype(f"u{bits // 8}").type
    raw = wide.view(u)
    sign = raw & u(1 << (bits - 1))
    raw = raw ^ sign
    drop = u(max(mantissa - i.attributes["mantissa_bits"], 0))
    if drop:
        raw = (raw + (raw >> drop & u(1)) + u((1 << int(drop) - 1) - 1)) >> drop << drop
    if i.attributes["exponent_bits"] < exponent:
        bias, full = (1 << (i.attributes["exponent_bits"] - 1)) - 1, (1 << (exponent - 1)) - 1
        power = raw >> u(mantissa)
        raw = np.where(power > full + bias, u((1 << exponent) - 1 << mantissa), raw)
        raw = np.where(power <= full - bias, u(0), raw)
    result = (sign | raw).view(wide.dtype)
    no_number = np.inf if i.attributes["mantissa_bits"] == 0 else wide
    return np.where(np.isnan(wide), no_number, result).reshape(np.shape(a))


def invert(i: Instruction, a: Array) -> Array:
    return ~a


def complex_of(i: Instruction, a: Array, b: Array) -> Array:
    result = np.empty(np.broadcast_shapes(np.shape(a), np.shape(b)), i.dtype.numpy)
    result.real, result.imag = a, b
    return result


def round_away(x: Array) -> Array:
    return np.where(np.abs(x) < 2.0**52, np.copysign(np.floor(np.abs(x) + 0.5), x), x)


def cbrt(x: Array) -> Array:
    return np.asarray(x ** (1 / 3) if x.dtype.kind == "c" else np.cbrt(x))


def atan2(y: Array, x: Array) -> Array:
    if x.dtype.kind == "c":
        return np.asarray(-1j * np.log((x + 1j * y) / np.sqrt(x * x + y * y)))
    return np.asarray(np.arctan2(y, x))


def absolute(i: Instruction, a: Array) -> Array:
    floating = a.dtype.kind == "c" or not i.dtype.is_integer
    return np.asarray(np.abs(a) if floating else np.abs(native_int(a)))


def is_finite(i: Instruction, a: Array) -> Array:
    return np.asarray(np.isfinite(a.astype(np.float64)))


def add(i: Instruction, a: Array, b: Array) -> Array:
    return np.asarray(a | b if i.dtype.kind == "pred" else a + b)


def multiply(i: Instruction, a: Array, b: Array) -> Array:
    return np.asarray(a & b if i.dtype.kind == "pred" else a * b)


def select(i: Instruction, p: Array, a: Array, b: Array) -> Array:
    return np.where(p, a, b)
