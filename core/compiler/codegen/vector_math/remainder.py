"""The remainder of a truncated division."""

from __future__ import annotations

from typing import Final

from ...targets.target import Target
from .. import llvm_ir
from ..llvm_ir import Builder, Value
from .arithmetic import Arithmetic
from .branches import where_any

# Quotients below these are exact but for the last rounding, which can make the integer one too large.
_LIMIT: Final = {"float": 2.0**23, "double": 2.0**52}
# Without fused multiply-add: q in so few bits that the parts of its product with any number are exact, and numbers
# whose parts neither overflow nor underflow.
_LIMIT_OF_PARTS: Final = 2.0**25
_LEAST, _GREATEST = 2.0**-900, 2.0**900


def remainder(builder: Builder, target: Target, x: Value, y: Value) -> Value:
    """x - y trunc(x / y), exactly, with the sign of x: C's fmod. float, double: no error.

    With q = trunc(|x| / |y|) rounded, r = |x| - q |y| is a multiple of the unit of |x| or |y| and at most |y| in
    magnitude, so that it is a number of the format: computed as if once rounded it is exact. The rounding of the
    quotient can make q one too large; then r is negative, and |y| is added, exactly. Vectors in which an element has
    a larger quotient, or an infinity, NaN or zero for a divisor, are done anew, one element after the other.

    A quotient that is not rounded to the nearest number can also make q one too small (of 6 / 3, say): a target that
    does not divide exactly computes the remainder itself.
    """
    m = Arithmetic(builder, target, x.type)
    if m.lanes == 1 or not target.divides_exactly:
        return builder.binary("frem", x, y)
    a, c = m.absolute(x), m.absolute(y)
    quotient = m.div(a, c)
    q = builder.intrinsic("trunc", [quotient])
    ordinary = m.compare("olt", quotient, _LIMIT[m.scalar])
    if m.has_fma:
        r = builder.intrinsic("fma", [m.negate(q), c, a])
    elif m.is_double:
        p = m.two_product(q, c)
        r = m.sub(m.sub(a, p.high), p.low)
        fits = m.both(m.compare("oge", a, _LEAST), m.compare("olt", a, _GREATEST))
        ordinary = m.both(m.compare("olt", quotient, _LIMIT_OF_PARTS), fits)
    else:
        d = Arithmetic(builder, target, llvm_ir.vector("double", m.lanes))
        wide = [builder.cast("fpext", v, d.type) for v in (a, q, c)]
        r = builder.cast("fptrunc", d.sub(wide[0], d.mul(wide[1], wide[2])), m.type)
    r = m.select(m.compare("olt", r, 0.0), m.add(r, c), r)
    below = m.compare("olt", a, c)
    r = m.copysign(m.select(below, a, r), x)
    others = m.is_not(m.either(below, ordinary))
    # (Another name than the whole function's, or it would call itself.)
    return where_any(m, others, (x, y), r, "remainder.each", _each)


def _each(m: Arithmetic, x: Value, y: Value) -> Value:
    """One element after the other."""
    b = m.builder
    start = [llvm_ir.poison(m.type)]
    with b.loop_carrying(llvm_ir.i64(0), llvm_ir.i64(m.lanes), 1, start) as (i, carried, rest):
        carried[:] = [b.insert(carried[0], b.binary("frem", b.extract(x, i), b.extract(y, i)), i)]
    return rest[0]
