"""Quotients of tiny numbers, of which some are denormal.

Intel's CPUs finish a division with a denormal operand or result in microcode, some 300 cycles a vector. Here such
elements are divided as multiples of the smallest number, which their representations count; results have the same
bits. That is done in a function that vectors without tiny elements do not call.
"""

from __future__ import annotations

from typing import Final

from ..llvm_ir import Value, mangle
from .arithmetic import Arithmetic
from .branches import function_of, if_any

# Numbers from 2 to the power of this on, divided by one of an ordinary size, are normal.
_TINY: Final = {"float": -100, "double": -980}
# So much is ordinary, and its inverse: tiny numbers divided by the smallest one and by an ordinary one are finite.
_ORDINARY: Final = 2.0**60


def divide_powers(m: Arithmetic, x: Value, y: Value) -> Value:
    """x / y for x >= 0 of which some may be tiny, as powers of e are."""
    if not (m.target.is_x86 and m.has_fma and m.lanes > 1):
        return m.div(x, y)
    name = f"tripont.divide.tiny.{mangle(m.type)}"
    if name not in m.builder.module.functions:
        function_of(m, name, 2, _divide, "cold noinline")
    call = lambda m, _, x, y: m.builder.call(m.type, name, [x, y])
    # Less one 0 is the largest integer.
    tiny = m.int_compare("ult", m.int_sub(m.bits(x), 1), _limit(m) - 1)
    return if_any(m, tiny, [x, y], f"{name}.if", call, Arithmetic.div)


def _limit(m: Arithmetic) -> int:
    """The representation of the least number that is not tiny."""
    return (m.format.bias + _TINY[m.scalar]) << m.format.mantissa


def _divide(m: Arithmetic, x: Value, y: Value) -> Value:
    divisor = m.absolute(y)
    ordinary = m.both(
        m.compare("olt", divisor, _ORDINARY), m.compare("ogt", divisor, 1 / _ORDINARY)
    )
    # The division of other numbers has a greater one in place of a tiny one. (Not by a choice between the two, before
    # which the compiler would put the division.)
    least = m.builder.select(ordinary, m.integer(_limit(m)), m.integer(0))
    others = m.div(m.from_bits(m.builder.intrinsic("smax", [m.bits(x), least])), y)
    counted = m.both(ordinary, m.int_compare("slt", m.bits(x), _limit(m)))
    return m.select(counted, _divide_tiny(m, x, y), others)


def _divide_tiny(m: Arithmetic, x: Value, y: Value) -> Value:
    """x / y for tiny x and ordinary y, for others any number."""
    one = m.constant(2.0**m.format.mantissa)  # what is added to it is rounded to a whole number
    units = (
        m.format.bias - 1 + m.format.mantissa
    ) << m.format.mantissa  # as an exponent: the smallest number
    bits, divisor = m.int_at_most(m.bits(x), _limit(m)), m.absolute(y)
    denormal = m.int_compare("ult", bits, 1 << m.format.mantissa)
    whole = m.sub(m.from_bits(m.int_or(bits, m.bits(one))), one)
    count = m.select(denormal, whole, m.from_bits(m.int_add(bits, units)))
    quotient = m.div(count, divisor)
    rest = m.fnma(quotient, divisor, count)
    # Rounding the quotient once more is wrong where it is in the middle of two whole numbers and the true one is not.
    rounded = m.add(quotient, one)
    off = m.sub(quotient, m.sub(rounded, one))
    representation = m.int_sub(m.bits(rounded), m.bits(one))
    up = m.both(m.compare("oeq", off, 0.5), m.compare("ogt", rest, 0.0))
    down = m.both(m.compare("oeq", off, -0.5), m.compare("olt", rest, 0.0))
    for wrong, step in ((up, 1), (down, -1)):
        representation = m.builder.select(wrong, m.int_add(representation, step), representation)
    normal = m.int_sub(m.bits(quotient), units)
    magnitude = m.builder.select(m.compare("oge", quotient, one), normal, representation)
    return m.copysign(m.from_bits(magnitude), y)
