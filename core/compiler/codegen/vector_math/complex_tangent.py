"""tanh of complex numbers, all in two words until the last division.

With e = e^(2 |x|) - 1

    tanh(x + i y) = (+-e (e + 2) + 4 i (e + 1) sin y cos y) / (e^2 + 4 (e + 1) cos^2 y)

where +- is the sign of x: nothing leaves anything there, neither near 0 nor near the poles. Where e^2 would be infinite
the real part is 1, and the imaginary part 4 e^(-2 |x|) sin y cos y.

Zeros, infinities and NaN: C99 Annex G, but +-0 + i y for infinite y and NaN is +-0 + NaN i, as in NumPy.
"""

from __future__ import annotations

from typing import Final

from ...targets.target import Target
from ..llvm_ir import Builder, Value
from .arithmetic import INFINITY, Arithmetic, Pair
from .exponential import exp_of_pair, expm1_pair
from .trigonometric import sine_and_cosine

Parts = tuple[Value, Value]  # real and imaginary

# Beyond, the real part is 1. (e^2 is still a number here.)
_LARGE: Final = {"float": 20.0, "double": 170.0}
# From here on the imaginary part is less than half the smallest denormal number.
_NOTHING: Final = {"float": 60.0, "double": 400.0}
# Powers of two. Below the first one the real part is proportional to x, beside the poles too, so it may be computed for
# x times the second one. Without fused multiply-add it must: a product of denormal numbers has no exact low word there.
_TINY: Final = {"float": (-100, 48), "double": (-900, 500)}


def complex_tanh(builder: Builder, target: Target, z: Parts) -> Parts:
    """tanh z. float, double: each part below 1.9 ulp; below 1 ulp for real parts up to 20 and 170."""
    m, (x, y) = Arithmetic(builder, target, z[0].type), z
    size = m.absolute(x)
    is_large = m.compare("ogt", size, _LARGE[m.scalar])
    sine, cosine = sine_and_cosine(m, y)
    both = m.fast_two_sum(*m.pair_product(sine, cosine))
    given = m.select(is_large, 1.0, size)
    if m.has_fma:
        real, imag = _quotients(m, given, both, cosine)
    else:
        limit, up = _TINY[m.scalar]
        is_tiny = m.compare("olt", size, 2.0**limit)
        given = m.select(is_tiny, m.mul(given, 2.0**up), given)
        real, imag = _quotients(m, given, both, cosine)
        real = m.select(is_tiny, m.mul(real, 2.0**-up), real)

    far = m.at_most(size, _NOTHING[m.scalar])
    zero = m.constant(0.0)
    beyond = exp_of_pair(m, m.mul(far, -2.0), zero, m.mul(m.pair_sum(both), 4.0))
    # At infinity the angle counts for no more than a sign, if it has one.
    infinite = m.compare("oeq", size, INFINITY)
    without_angle = m.compare("uno", beyond, beyond)
    beyond = m.select(m.both(infinite, without_angle), m.copysign(zero, y), beyond)
    one = m.copysign(m.constant(1.0), x)
    one = m.select(m.either(infinite, m.compare("ord", both.high, zero)), one, both.high)
    real = m.select(is_large, one, m.copysign(real, x))
    imag = m.select(is_large, beyond, imag)
    return (
        m.select(m.compare("oeq", x, 0.0), x, real),
        m.select(m.compare("oeq", y, 0.0), y, imag),
    )


def _quotients(m: Arithmetic, a: Value, both: Pair, cosine: Pair) -> Parts:
    """tanh(a + i y) for a >= 0; ``both``: sin y cos y."""
    e = expm1_pair(m, m.add(a, a))
    share = m.pair_add(e, m.pair_constant(1.0, 0.0))
    share = Pair(m.mul(share.high, 4.0), m.mul(share.low, 4.0))
    squares = [m.fast_two_sum(*m.pair_product(v, v)) for v in (e, cosine)]
    denominator = m.pair_add(squares[0], m.pair_multiply(share, squares[1]))
    more = m.pair_add(e, m.pair_constant(2.0, 0.0))
    real, imag = (
        m.pair_sum(m.pair_quotient(m.pair_multiply(*factors), denominator))
        for factors in ((e, more), (share, both))
    )
    return real, imag
