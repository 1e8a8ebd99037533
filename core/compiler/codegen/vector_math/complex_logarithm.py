"""The logarithm of complex numbers and of 1 + z, and powers of complex numbers.

The real part of log z is half the logarithm of |z|^2. Near the unit circle it is as small as |z|^2 - 1, of which
nothing is left where the squares are rounded; so they have two words, as the logarithm does. A power x^y = e^(y log x)
has as many wrong digits as y log x has before the point, whatever rounds there; so y log x, the angle too, has two
words.

Zeros, infinities and NaN: the logarithms' as in C99 Annex G; x^0 is 1, 0^y is 0 for y with a real part above 0 and NaN
for others.
"""

from __future__ import annotations

from typing import Final

from ...targets.target import Target
from ..llvm_ir import Builder, Value
from .arithmetic import INFINITY, NAN, Arithmetic, Pair
from .exponential import exp
from .inverse_trigonometric import angle_of_point
from .logarithm import log_one_and, normalise
from .trigonometric import cos, sin

Parts = tuple[Value, Value]  # real and imaginary

# Of what is smaller the square's second word would be denormal, and the square counts for nothing.
_TINY: Final = {"float": 2.0**-40, "double": 2.0**-100}
# Beyond, the second word of an angle is no small angle.
_LARGEST_ANGLE: Final = {"float": 2.0**12, "double": 2.0**32}


def complex_log(builder: Builder, target: Target, z: Parts) -> Parts:
    """log z. float, double: each part below 1.1 ulp."""
    m, (x, y) = Arithmetic(builder, target, z[0].type), z
    return m.pair_sum(_log_of_size(m, x, y)), m.pair_sum(angle_of_point(m, y, x))


def complex_log1p(builder: Builder, target: Target, z: Parts) -> Parts:
    """log(1 + z). float, double: each part below 1.1 ulp.

    The real part is log1p(x (2 + x) + y^2) / 2 but where 1 + x is as good as exact.
    """
    m, (x, y) = Arithmetic(builder, target, z[0].type), z
    ax, ay = m.absolute(x), m.absolute(y)
    larger = builder.select(m.compare("ogt", ax, ay), ax, ay)
    squares = m.pair_add(m.two_product(x, x), m.two_product(y, y))
    f = m.pair_add(Pair(m.add(x, x), m.constant(0.0)), squares)
    near = m.pair_sum(_halved(m, log_one_and(m, f, m.integer(0))))
    shifted = m.add(x, 1.0)
    far = m.pair_sum(_log_of_size(m, shifted, y))
    is_near = m.both(m.compare("olt", larger, 1.5), m.compare("ogt", f.high, -0.9))
    tiny = m.compare("olt", larger, _TINY[m.scalar])
    simple = m.fma(m.mul(y, 0.5), y, x)
    size = m.select(tiny, simple, m.select(is_near, near, far))
    return size, m.pair_sum(angle_of_point(m, y, shifted))


def complex_pow(builder: Builder, target: Target, base: Parts, exponent: Parts) -> Parts:
    """base^exponent. float, double: the error is below 3 ulp of the result's size where angles are below 2^12, 2^32."""
    m = Arithmetic(builder, target, base[0].type)
    c, d = exponent
    size, angle = _log_of_size(m, *base), m.fast_two_sum(*angle_of_point(m, base[1], base[0]))
    # Where a part is infinite the second words are NaN, and the first ones alone count; there 0 times infinity is 0.
    grow, turn = (m.select(m.compare("oeq", v, 0.0), v, m.mul(v, size.high)) for v in (c, d))
    plain = m.sub(grow, m.mul(d, angle.high)), m.add(m.mul(c, angle.high), turn)
    scaled = [m.pair_scale(p, v) for v in (c, d) for p in (size, angle)]
    words = (
        m.pair_add(scaled[0], m.pair_negate(scaled[3])),
        m.pair_add(scaled[1], scaled[2]),
    )
    real, turned = (
        m.pair_select(m.compare("ord", w.low, w.high), w, Pair(p, m.constant(0.0)))
        for w, p in zip(words, plain, strict=True)
    )
    small = m.compare("olt", m.absolute(turned.high), _LARGEST_ANGLE[m.scalar])
    rest = m.select(small, turned.low, 0.0)
    sine, cosine = (f(builder, target, turned.high) for f in (sin, cos))
    grown = m.add(real.low, 1.0)
    parts = []
    for part in (m.fnma(sine, rest, cosine), m.fma(cosine, rest, sine)):
        parts.append(_times_exp(m, m.mul(part, grown), real.high))
    imag = m.select(m.compare("oeq", turned.high, 0.0), turned.high, parts[1])
    zero_base, zero_exponent = (
        m.both(m.compare("oeq", v, 0.0), m.compare("oeq", w, 0.0)) for v, w in (base, exponent)
    )
    of_zero = m.select(m.compare("ogt", c, 0.0), 0.0, m.constant(NAN))
    result = (m.select(zero_base, of_zero, v) for v in (parts[0], imag))
    return tuple(m.select(zero_exponent, v, w) for v, w in zip((1.0, 0.0), result, strict=True))  # type: ignore[return-value]


def _times_exp(m: Arithmetic, factor: Value, x: Value) -> Value:
    """factor * e^x, also where e^x alone is infinite."""
    whole, half = (exp(m.builder, m.target, v) for v in (x, m.mul(x, 0.5)))
    large = m.mul(m.mul(factor, half), half)
    return m.select(m.compare("oeq", whole, INFINITY), large, m.mul(factor, whole))


def _log_of_size(m: Arithmetic, x: Value, y: Value) -> Pair:
    """log|x + i y| in two words."""
    b = m.builder
    ax, ay = m.absolute(x), m.absolute(y)
    swap = m.compare("olt", ax, ay)
    large, small = b.select(swap, ay, ax), b.select(swap, ax, ay)
    mantissa, k = normalise(m, large)  # from sqrt(1/2) to sqrt 2
    rest = m.scale(small, m.int_sub(0, k))  # as a denormal number it counts for nothing
    square, other = m.two_product(mantissa, mantissa), m.two_product(rest, rest)
    f = m.two_sum(m.sub(square.high, 1.0), other.high)
    f = m.fast_two_sum(f.high, m.add(f.low, m.add(square.low, other.low)))
    value = _halved(m, log_one_and(m, f, m.int_add(k, k)))
    infinite = m.either(m.compare("oeq", ax, INFINITY), m.compare("oeq", ay, INFINITY))
    limit = m.select(m.compare("ord", x, y), -INFINITY, NAN)  # of 0, unless one is NaN
    limit = m.select(infinite, INFINITY, limit)
    ordinary = m.both(m.compare("ogt", large, 0.0), m.compare("olt", large, INFINITY))
    ordinary = m.both(ordinary, m.compare("ord", x, y))
    return m.pair_select(ordinary, value, Pair(limit, m.constant(0.0)))


def _halved(m: Arithmetic, x: Pair) -> Pair:
    return Pair(m.mul(x.high, 0.5), m.mul(x.low, 0.5))
