"""Numbers times powers of two of which some are denormal, or 0.

Intel's CPUs finish an operation in microcode, some 300 cycles a vector, if a result of it is denormal or is rounded to
0.
"""

from __future__ import annotations

from typing import Final

from .. import llvm_ir
from ..llvm_ir import Value, mangle
from .arithmetic import Arithmetic
from .branches import function_of, if_any

# Numbers near 1 times 2 to the power of this are normal.
_NORMAL: Final = {"float": -100, "double": -900}


def scale_gradually(m: Arithmetic, x: Value, n: Value, n_integer: Value) -> Value:
    """x * 2^n as :meth:`Arithmetic.scale` computes it, on x86 without microcode for x near 1; n in both types."""
    if not m.target.is_x86:
        return m.scale(x, n_integer)
    name = f"tripont.scale.{mangle(m.type)}"
    if has_scalef(m):
        far = m.compare("olt", n, float(_NORMAL[m.scalar]))
        # Without a call, which would have all vectors of the loop around it saved.
        return if_any(m, far, [x, n], name, lambda m, _, x, n: _scaled(m, x, n), scalef)
    if name not in m.builder.module.functions:
        function_of(m, name, 2, _product, "cold noinline")
    call = lambda m, _, *factors: m.builder.call(m.type, name, factors)
    far = m.int_compare("slt", n_integer, _NORMAL[m.scalar])
    return if_any(m, far, m.scale_factors(x, n_integer), f"{name}.if", call, Arithmetic.mul)


def _scaled(m: Arithmetic, x: Value, n: Value) -> Value:
    """x * 2^n by AVX-512's instruction."""
    denormal, there = _denormal(m, scalef(m, x, m.add(n, float(_units(m)))))
    return scalef(m, x, n, there, denormal)


def _product(m: Arithmetic, part: Value, power: Value) -> Value:
    """part * power, for a power of two."""
    half = _units(m) // 2
    count = m.mul(m.mul(part, 2.0**half), m.mul(power, 2.0 ** (_units(m) - half)))
    denormal, there = _denormal(m, count)
    normal = m.bits(m.mul(part, m.select(there, power, 0.0)))
    # Not a choice, from which the compiler would conclude that the product may be one with the power in any case.
    return m.from_bits(m.int_or(normal, m.builder.select(there, m.integer(0), m.bits(denormal))))


def _units(m: Arithmetic) -> int:
    """The smallest number is 2 to the power of its negative."""
    return m.format.bias - 1 + m.format.mantissa


def _denormal(m: Arithmetic, count: Value) -> tuple[Value, Value]:
    """(count times the smallest number where that is denormal or 0, whether it is not).

    Its representation is the count, rounded as a whole number: what the low bits of the count plus 2^mantissa are.
    """
    one = m.constant(2.0**m.format.mantissa)
    representation = m.int_sub(m.bits(m.add(count, m.copysign(one, count))), m.bits(one))
    exponent = m.int_and(representation, (2 * m.format.bias + 1) << m.format.mantissa)
    return m.from_bits(representation), m.int_compare("ne", exponent, 0)


def has_scalef(m: Arithmetic) -> bool:
    """Whether AVX-512's instruction for x * 2^n is there for vectors of this size."""
    width = m.lanes * m.format.bits
    if width in (128, 256):
        return m.target.has("avx512vl")
    return width == 512 and m.target.has("avx512f")


def scalef(
    m: Arithmetic, x: Value, n: Value, there: Value | None = None, other: Value | float = 0.0
) -> Value:
    """x * 2^n by that instruction; ``other``, without computing it, where not ``there``."""
    width = m.lanes * m.format.bits
    suffix = f"{'pd' if m.is_double else 'ps'}.{width}"
    mask_type = f"i{max(m.lanes, 8)}"
    mask = llvm_ir.integer(mask_type, -1)
    if there is not None:
        if m.lanes < 8:
            lanes = [min(lane, m.lanes) for lane in range(8)]
            there = m.builder.shuffle(there, llvm_ir.zero(there.type), lanes)
        mask = m.builder.cast("bitcast", there, mask_type)
    # 4: the current rounding mode.
    arguments = [x, n, m.constant(other), mask] + (
        [llvm_ir.integer("i32", 4)] if width == 512 else []
    )
    name = f"llvm.x86.avx512.mask.scalef.{suffix}"
    m.builder.module.declare(name, m.type, [a.type for a in arguments])
    return m.builder.call(m.type, name, arguments)
