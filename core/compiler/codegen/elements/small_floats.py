"""Floats narrower than 32 bits: decoding to f32 and encoding with rounding to nearest even.

A format is exponent bits, mantissa bits, bias and what stands for infinity and NaN. Encoding works on the bits
of an f32: normal results by adding half a unit in the last place less the tie bit, subnormal results by adding
a power of two whose own last place is the format's smallest subnormal, so that the addition rounds.
"""

from __future__ import annotations

import functools
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from ...ir import dtypes
from ...ir.dtypes import DType
from .. import llvm_ir
from ..llvm_ir import Value, lanes_of, vector

if TYPE_CHECKING:
    from ..generator import Generator


class Format(NamedTuple):
    """``largest``: code of the largest finite number. ``overflow`` and ``nan``: codes of what is larger, and of NaN.

    ``nan_signed``: NaN keeps the sign bit. ``negative_zero``: whether there is one.
    """

    exponent: int
    mantissa: int
    bias: int
    largest: int
    overflow: int
    nan: int
    nan_signed: bool = True
    negative_zero: bool = True


_FORMATS: Final[dict[DType, Format]] = {
    dtypes.F16: Format(5, 10, 15, 0x7BFF, 0x7C00, 0x7E00),
    dtypes.F8E5M2: Format(5, 2, 15, 0x7B, 0x7C, 0x7E),
    dtypes.F8E4M3: Format(4, 3, 7, 0x77, 0x78, 0x7C),
    dtypes.F8E3M4: Format(3, 4, 3, 0x6F, 0x70, 0x78),
    dtypes.F8E4M3FN: Format(4, 3, 7, 0x7E, 0x7F, 0x7F),
    dtypes.F8E4M3FNUZ: Format(4, 3, 8, 0x7F, 0x80, 0x80, False, False),
    dtypes.F8E4M3B11FNUZ: Format(4, 3, 11, 0x7F, 0x80, 0x80, False, False),
    dtypes.F8E5M2FNUZ: Format(5, 2, 16, 0x7F, 0x80, 0x80, False, False),
    # No NaN: a zero of the other sign stands for it.
    dtypes.F4E2M1FN: Format(2, 1, 1, 0x7, 0x7, 0x8),
    dtypes.F6E2M3FN: Format(2, 3, 1, 0x1F, 0x1F, 0x20),
    dtypes.F6E3M2FN: Format(3, 2, 3, 0x1F, 0x1F, 0x20),
}


def has_negative_zero(dtype: DType) -> bool:
    """Whether a float has a zero of either sign."""
    return dtype not in _FORMATS or _FORMATS[dtype].negative_zero


def _has_native_half(g: Generator) -> bool:
    return g.target.has_native_half


def decode(g: Generator, raw: Value, dtype: DType) -> Value:
    """The f32 value of stored bits (i16 or i8)."""
    b = g.builder
    count = lanes_of(raw.type)
    integer, float_ = vector("i32", count), vector("float", count)
    if dtype is dtypes.BF16:
        wide = b.cast("zext", raw, integer)
        return b.cast("bitcast", b.binary("shl", wide, llvm_ir.integer(integer, 16)), float_)
    if dtype is dtypes.F16:
        if _has_native_half(g):
            return b.cast("fpext", b.cast("bitcast", raw, vector("half", count)), float_)
        return _decode_half(g, raw)
    table = _decode_table(g, dtype)
    wide = b.cast("zext", raw, vector("i64", count))
    if count == 1:
        return b.load("float", b.gep("float", table, wide), 4)
    addresses = b.gep("float", table, wide)
    return b.gather(float_, addresses, 4)


def _decode_table(g: Generator, dtype: DType) -> Value:
    codes = np.arange(256, dtype=np.uint8)
    if dtype.bits < 8:
        codes &= (1 << dtype.bits) - 1
    values = codes.view(dtype.numpy).astype(np.float64)
    texts = [f"0x{struct.unpack('<Q', struct.pack('<d', v))[0]:016X}" for v in values]
    return g.builder.constant_array("float", texts)


def _decode_half(g: Generator, raw: Value) -> Value:
    """Without a conversion instruction: move the bits into place, and let a multiplication fix the exponent."""
    b = g.builder
    count = lanes_of(raw.type)
    integer, float_ = vector("i32", count), vector("float", count)
    c = functools.partial(llvm_ir.integer, integer)
    wide = b.cast("zext", raw, integer)
    magnitude = b.binary("and", wide, c(0x7FFF))
    scaled = b.cast("bitcast", b.binary("shl", magnitude, c(13)), float_)
    scaled = b.binary("fmul", scaled, llvm_ir.floating(float_, 2.0**112))
    bits = b.cast("bitcast", scaled, integer)
    special = b.icmp("uge", magnitude, c(0x7C00))
    bits = b.select(special, b.binary("or", bits, c(0x7F800000)), bits)
    sign = b.binary("shl", b.binary("and", wide, c(0x8000)), c(16))
    return b.cast("bitcast", b.binary("or", bits, sign), float_)


def encode(g: Generator, value: Value, dtype: DType) -> Value:
    """The bits (i16 or i8) of an f32 rounded to ``dtype``."""
    b = g.builder
    count = lanes_of(value.type)
    integer = vector("i32", count)
    narrow = vector(f"i{dtype.size * 8}", count)
    if dtype is dtypes.BF16:
        is_rounded = value.number in g.bfloat16
        bits = b.cast("bitcast", value, integer) if is_rounded else _round_bfloat16(g, value)
        return b.cast("trunc", b.binary("lshr", bits, llvm_ir.integer(integer, 16)), narrow)
    if dtype is dtypes.F16 and _has_native_half(g):
        return b.cast("bitcast", b.cast("fptrunc", value, vector("half", count)), narrow)
    if dtype is dtypes.F8E8M0FNU:
        return b.cast("trunc", _encode_exponent(g, value), narrow)
    return b.cast("trunc", _encode(g, value, _FORMATS[dtype]), narrow)


def round_to(g: Generator, value: Value, dtype: DType) -> Value:
    """An f32 rounded to ``dtype``, as an f32."""
    if dtype is dtypes.BF16:
        rounded = g.builder.cast("bitcast", _round_bfloat16(g, value), value.type)
        if rounded.number > 0:  # constants have none
            g.bfloat16.add(rounded.number)
        return rounded
    return decode(g, encode(g, value, dtype), dtype)


def _round_bfloat16(g: Generator, value: Value) -> Value:
    """The bits of an f32 rounded to bf16; the low half may hold anything where it was not NaN."""
    b = g.builder
    count = lanes_of(value.type)
    integer = vector("i32", count)
    c = functools.partial(llvm_ir.integer, integer)
    if value.number in g.normal and count == 16 and g.target.has("avx512bf16"):
        # The instruction takes a subnormal number for zero.
        name = "llvm.x86.avx512bf16.cvtneps2bf16.512"
        narrow = b.call(vector("bfloat", count), name, [value])
        wide = b.cast("zext", b.cast("bitcast", narrow, vector("i16", count)), integer)
        return b.binary("shl", wide, c(16))
    bits = b.cast("bitcast", value, integer)
    odd = b.binary("and", b.binary("lshr", bits, c(16)), c(1))
    rounded = b.binary("add", bits, b.binary("add", odd, c(0x7FFF)))
    rounded = b.binary("and", rounded, c(-0x10000))
    quiet = b.binary("and", b.binary("or", bits, c(0x400000)), c(-0x10000))
    return b.select(b.fcmp("uno", value, value), quiet, rounded)


def _encode(g: Generator, value: Value, form: Format) -> Value:
    b = g.builder
    count = lanes_of(value.type)
    integer, float_ = vector("i32", count), vector("float", count)
    c = functools.partial(llvm_ir.integer, integer)
    bits = b.cast("bitcast", value, integer)
    magnitude = b.binary("and", bits, c(0x7FFFFFFF))
    drop = 23 - form.mantissa
    # Normal: round off `drop` bits and change the bias.
    odd = b.binary("and", b.binary("lshr", magnitude, c(drop)), c(1))
    rounded = b.binary("add", magnitude, b.binary("add", odd, c((1 << (drop - 1)) - 1)))
    normal = b.binary(
        "sub", b.binary("lshr", rounded, c(drop)), c((127 - form.bias) << form.mantissa)
    )
    # Subnormal.
    magic = llvm_ir.floating(float_, 2.0 ** (24 - form.bias - form.mantissa))
    magic_bits = struct.unpack("<I", struct.pack("<f", 2.0 ** (24 - form.bias - form.mantissa)))[0]
    added = b.binary("fadd", b.cast("bitcast", magnitude, float_), magic)
    subnormal = b.binary("sub", b.cast("bitcast", added, integer), c(magic_bits))
    smallest_normal = (128 - form.bias) << 23
    code = b.select(b.icmp("ult", magnitude, c(smallest_normal)), subnormal, normal)
    code = b.select(b.icmp("sgt", code, c(form.largest)), c(form.overflow), code)
    nan = b.fcmp("uno", value, value)
    width = form.exponent + form.mantissa
    sign = b.binary("and", b.binary("lshr", bits, c(31 - width)), c(1 << width))
    if not form.negative_zero:
        keep = b.icmp("ne", b.binary("and", code, c(0x7F)), c(0))
        sign = b.select(keep, sign, c(0))
    signed = b.binary("or", code, sign)
    return b.select(
        nan, b.binary("xor", sign, c(form.nan)) if form.nan_signed else c(form.nan), signed
    )


def _encode_exponent(g: Generator, value: Value) -> Value:
    """f8e8m0fnu: powers of two from 2^-127 on (code 0), NaN (255) for NaN, infinities, zero and negative numbers.

    Halfway goes up, as in ml_dtypes (one does not have an odd or even mantissa of no bits).
    """
    b = g.builder
    integer = vector("i32", lanes_of(value.type))
    c = functools.partial(llvm_ir.integer, integer)
    bits = b.cast("bitcast", value, integer)
    exponent = b.binary("lshr", bits, c(23))
    mantissa = b.binary("and", bits, c(0x7FFFFF))
    # 2^-127 is itself 0x400000.
    half = b.select(b.icmp("eq", exponent, c(0)), c(0x400000), c(0x3FFFFF))
    up = b.icmp("ugt", mantissa, half)
    code = b.select(up, b.binary("add", exponent, c(1)), exponent)
    bad = b.icmp("ugt", b.binary("sub", bits, c(1)), c(0x7F7FFFFF - 1))
    return b.select(bad, c(255), code)


def truncate_to_odd(g: Generator, value: Value) -> Value:
    """An f64 as f32, rounded to odd where inexact: rounding that again to fewer bits is as if done at once."""
    b = g.builder
    count = lanes_of(value.type)
    integer, float_ = vector("i32", count), vector("float", count)
    near = b.cast("fptrunc", value, float_)
    back = b.cast("fpext", near, value.type)
    bits = b.cast("bitcast", near, integer)
    too_large = b.fcmp("ogt", b.intrinsic("fabs", [back]), b.intrinsic("fabs", [value]))
    bits = b.binary("sub", bits, b.cast("zext", too_large, integer))
    inexact = b.cast("zext", b.fcmp("one", back, value), integer)
    return b.cast("bitcast", b.binary("or", bits, inexact), float_)
