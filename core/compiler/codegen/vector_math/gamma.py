"""lgamma and digamma.

For x >= 8 Stirling's series. Below, x is shifted by a whole number into an interval of length 1, where a polynomial
has the function's zeros as factors:

    lgamma x = lgamma(2 + e) + log((x - 1) (x - 2) ...),    lgamma(2 + e) = e (1 + e) p(e),    |e| <= 1/2
    digamma x = digamma y + 1 / (x - 1) + 1 / (x - 2) ...,  digamma y = (y - r) p(y - r),      1 <= y < 2

with r, where digamma is 0, in two words. (For x < 3/2, or < 1, the shift goes the other way.)

For x < 0 both have a zero, or two, between any two poles, and the digits there are those that two large terms leave of
each other. So all is computed in two words, with x = n + d, n whole and |d| <= 1/2:

    lgamma x = lgamma(2 + d) - log(|d| (1 + d) (1 - d) (2 - d) ... (-n - d))
    digamma x = digamma(2 + d) - 1/d - 1/(1 + d) + 1/(1 - d) + 1/(2 - d) + ... + 1/(-n - d)

and where that gets long by reflection:

    lgamma x = log(pi / |x sin(pi d)|) - lgamma |x|,    digamma x = digamma |x| + 1/|x| - pi cot(pi d)

First the second words are right to a third of their digits, and that gets long at -8. Where the result is small, it
is computed again with all digits, by reflection from -12 (float) or -20 (double) on: there lgamma is small for no
number of the format. Each of these is entered only if an element needs it. What polynomials leave is beside their
coefficients (gamma_coefficients.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

from ...targets.target import Target
from .. import llvm_ir
from ..llvm_ir import Builder, Value
from . import gamma_coefficients as coefficients
from .arithmetic import INFINITY, NAN, Arithmetic, Pair
from .branches import where_any
from .logarithm import log, log1p, log_of_pair, log_one_and, log_pair, without_log

Compute = Callable[[Arithmetic, Value], Value]

# Places and weights of Gauss's rule on [0, 1].
_GAUSS: Final = (
    (0.06943184420297371, 0.17392742256872692), (0.33000947820757187, 0.3260725774312731),
    (0.6699905217924281, 0.3260725774312731), (0.9305681557970263, 0.17392742256872692),
)  # fmt: skip

_STIRLING_FROM: Final = 8.0
_REFLECTION_FROM: Final = {"float": 12.0, "double": 20.0}
_EARLY: Final = 8.0  # the first time
# Results below this are computed once more, with every digit of the second words.
_SMALL: Final = {"float": 2.0**-8, "double": 2.0**-6}
# So many coefficients have two words the first time.
_FIRST_WORDS: Final = 6
# Nearer to 0 both functions are their first terms, -log|x| and -1/x.
_TINY: Final = {"float": 2.0**-40, "double": 2.0**-70}
# Beyond, lgamma x rounds to x (log x - 1).
_HUGE: Final = {"float": 2.0**60, "double": 2.0**120}
# In two words of the format.
_HALF_LOG_2PI: Final = {
    "float": (0.9189385175704956, 1.563417661998301e-08),
    "double": (0.9189385332046728, -3.8782941580672414e-17),
}
_LOG_PI: Final = {
    "float": (1.1447298526763916, 3.317300922844879e-08),
    "double": (1.1447298858494002, 1.0265951162707826e-17),
}
_DIGAMMA_ROOT: Final = {
    "float": (1.4616321325302124, 1.243815006546356e-08),
    "double": (1.4616321449683622, 9.549995429965697e-17),
}


def lgamma(builder: Builder, target: Target, x: Value) -> Value:
    """log|gamma x|. float, double: below 1.9 ulp, beside the zeros too. 0, -1, -2, ... and +-inf -> inf."""
    m = Arithmetic(builder, target, x.type)
    a = m.absolute(x)
    value = where_any(
        m,
        _between(m, x, _EARLY),
        x,
        m.pair_sum(lgamma_of_positive(m, a)),
        "lgamma_near",
        _lgamma_near,
    )
    value = where_any(m, _below(m, x, _EARLY), x, value, "lgamma_far", _lgamma_far)
    near = m.both(_between(m, x, _REFLECTION_FROM[m.scalar]), _is_small(m, value))
    value = where_any(m, near, x, value, "lgamma_small", _all_digits(_lgamma_near))
    infinite = m.either(_is_pole(m, x), m.compare("oeq", a, INFINITY))
    return m.select(infinite, INFINITY, value)


def digamma(builder: Builder, target: Target, x: Value) -> Value:
    """The derivative of lgamma. float, double: below 2.6 ulp; 10 beside its zeros. 0, -1, -2, ... and -inf -> NaN."""
    m = Arithmetic(builder, target, x.type)
    value = digamma_of_positive(m, x)
    value = m.select(m.compare("olt", m.absolute(x), _TINY[m.scalar]), m.div(-1.0, x), value)
    value = where_any(m, _between(m, x, _EARLY), x, value, "digamma_near", _digamma_near)
    value = where_any(m, _below(m, x, _EARLY), x, value, "digamma_far", _digamma_far)
    is_small, far = _is_small(m, value), _REFLECTION_FROM[m.scalar]
    near = m.both(_between(m, x, far), is_small)
    value = where_any(m, near, x, value, "digamma_near_small", _all_digits(_digamma_near))
    beyond = m.both(_below(m, x, far), is_small)
    value = where_any(m, beyond, x, value, "digamma_far_small", _all_digits(_digamma_far))
    value = m.select(m.compare("oeq", x, INFINITY), INFINITY, value)
    return m.select(_is_pole(m, x), NAN, value)


def _all_digits(compute: Callable[..., Value]) -> Compute:
    return functools.partial(compute, every=True)


def _is_small(m: Arithmetic, value: Value) -> Value:
    return m.compare("olt", m.absolute(value), _SMALL[m.scalar])


def _between(m: Arithmetic, x: Value, end: float) -> Value:
    """Whether x is from -end to 0, but not so near to 0 that the first term is all."""
    return m.both(m.compare("olt", x, -_TINY[m.scalar]), m.compare("ogt", x, -end))


def _below(m: Arithmetic, x: Value, end: float) -> Value:
    return m.both(m.compare("ole", x, -end), m.compare("ogt", x, -INFINITY))


def _is_pole(m: Arithmetic, x: Value) -> Value:
    whole = m.compare("oeq", x, m.builder.intrinsic("trunc", [x]))
    return m.both(m.compare("ole", x, 0.0), whole)


# -------------------------------------------------------------------------------------------------------- lgamma


def lgamma_of_positive(m: Arithmetic, a: Value) -> Pair:
    """lgamma a in two words (not normalised), for a >= 0; anything for 0 and infinity."""
    is_large = m.compare("oge", a, _STIRLING_FROM)
    rest, product = a, m.constant(1.0)
    for _ in range(6):
        inside = m.compare("ogt", rest, 2.5)
        below = m.sub(rest, 1.0)
        product = m.select(inside, m.mul(product, below), product)
        rest = m.select(inside, below, rest)
    is_least, is_small = m.compare("olt", a, 0.5), m.compare("olt", a, 1.5)
    e = m.select(is_small, m.sub(a, 1.0), m.sub(rest, 2.0))
    e = m.select(is_least, a, e)
    argument = m.select(is_small, m.select(is_least, m.mul(a, m.add(a, 1.0)), a), product)
    logarithm = log_pair(m, Pair(m.select(is_large, a, argument), m.constant(0.0)))
    series = m.pair_product(m.two_product(e, m.add(e, 1.0)), _series(m, e, "LGAMMA"))
    signed = m.pair_select(is_small, m.pair_negate(logarithm), logarithm)
    shifted = m.two_sum(signed.high, series.high)
    shifted = Pair(shifted.high, m.add(shifted.low, m.add(signed.low, series.low)))
    return m.pair_select(is_large, _stirling(m, a, logarithm), shifted)


def stirling_rest(m: Arithmetic, a: Value) -> Pair:
    """lgamma a - ((a - 1/2) log a - a + log(2 pi)/2) in two words, for a > 0."""
    inverse = m.div(1.0, m.at_least(a, _STIRLING_FROM))
    far = m.mul(m.polynomial(m.mul(inverse, inverse), coefficients.STIRLING[m.scalar]), inverse)
    small, zero = m.at_most(a, _STIRLING_FROM), m.constant(0.0)
    logarithm = m.fast_two_sum(*log_pair(m, Pair(small, zero)))
    product = m.fast_two_sum(*m.pair_scale(logarithm, small))
    near = m.fast_two_sum(*lgamma_of_positive(m, small))
    near = m.pair_add(near, Pair(m.mul(logarithm.high, 0.5), m.mul(logarithm.low, 0.5)))
    near = m.pair_add(near, m.pair_negate(product))
    half = m.pair_constant(*_HALF_LOG_2PI[m.scalar])
    near = m.pair_add(near, m.pair_add(Pair(small, zero), m.pair_negate(half)))
    return m.pair_select(m.compare("olt", a, _STIRLING_FROM), near, Pair(far, zero))


def lgamma_step(m: Arithmetic, a: Value, b: Value, factor: Value) -> Value:
    """lgamma(a + b) - lgamma a + b log(factor), relative to b right, for a > 0 and 0 < b <= 1/2; ``factor`` near 1/a.

    From a + 8 on, for smaller a, by Stirling's series; the derivative of what that has beside elementary functions is
    integrated from a to a + b by Gauss's rule of four points.
    """
    product = m.constant(0.0)  # (1 + b/a) (1 + b/(a+1)) ... - 1
    for i in range(8):
        more = m.div(b, m.add(a, float(i)))
        product = m.add(product, m.fma(product, more, more))
    is_small = m.compare("olt", a, _STIRLING_FROM)
    shifted = m.select(is_small, m.add(a, 8.0), a)
    correction = m.select(is_small, log1p(m.builder, m.target, product), 0.0)
    ratio = m.div(b, shifted)
    rest = without_log(m, Pair(ratio, m.constant(0.0))).high
    total = m.fma(m.sub(ratio, rest), -0.5, m.negate(m.mul(shifted, rest)))
    integral = m.constant(0.0)
    for place, weight in _GAUSS:
        inverse = m.div(1.0, m.fma(b, place, shifted))
        z = m.mul(inverse, inverse)
        slope = m.mul(z, m.polynomial(z, coefficients.DIGAMMA_TAIL[m.scalar]))
        integral = m.fma(slope, weight, integral)
    logarithm = log(m.builder, m.target, m.mul(factor, m.add(shifted, b)))
    return m.sub(m.add(total, m.mul(b, m.sub(logarithm, integral))), correction)


def lgamma_of_one_and(m: Arithmetic, a: Value) -> Value:
    """lgamma(1 + a), for a from 0 to 1/2, with the digits of a small a."""
    linear = m.pair_product(m.two_product(a, m.add(a, 1.0)), _series(m, a, "LGAMMA"))
    logarithm = log_one_and(m, Pair(a, m.constant(0.0)), m.integer(0))
    return m.pair_sum(m.pair_add(m.fast_two_sum(*linear), m.pair_negate(logarithm)))


def _series(m: Arithmetic, x: Value, name: str) -> Pair:
    """A polynomial whose constant has two words, the others one."""
    constant, *others = getattr(coefficients, name)[m.scalar]
    total = m.fast_two_sum(m.constant(constant[0]), m.mul(x, m.polynomial(x, others)))
    return Pair(total.high, m.add(total.low, constant[1]))


def _stirling(m: Arithmetic, a: Value, logarithm: Pair) -> Pair:
    """lgamma a for a >= 8, by its logarithm: (a - 1/2) log a - a + log(2 pi)/2 + p(1/a^2)/a."""
    inverse = m.div(1.0, a)
    tail = m.polynomial(m.mul(inverse, inverse), coefficients.STIRLING[m.scalar])
    half = m.pair_constant(*_HALF_LOG_2PI[m.scalar])
    first = m.pair_scale(logarithm, m.sub(a, 0.5))
    total = m.fast_two_sum(first.high, m.negate(a))
    low = m.add(m.add(first.low, total.low), m.fma(tail, inverse, half.low))
    total = m.fast_two_sum(total.high, half.high)
    huge = m.mul(a, m.add(m.sub(logarithm.high, 1.0), logarithm.low))
    is_huge = m.compare("ogt", a, _HUGE[m.scalar])
    return Pair(m.select(is_huge, huge, total.high), m.select(is_huge, 0.0, m.add(total.low, low)))


def _lgamma_near(m: Arithmetic, x: Value, *, every: bool = False) -> Value:
    n = m.builder.intrinsic("roundeven", [x])
    d = m.sub(x, n)
    start = m.pair_scale(_one_and(m, d), m.absolute(d))
    with m.builder.loop_carrying(llvm_ir.i64(1), _steps(m, n, every), 1, start) as (
        i,
        carried,
        product,
    ):
        so_far, whole = Pair(*carried), _whole(m, i)
        longer = m.pair_product(so_far, m.fast_two_sum(whole, m.negate(d)))
        carried[:] = m.pair_select(m.compare("ole", n, m.negate(whole)), longer, so_far)
    logarithm = _log(m, m.fast_two_sum(*product), every)
    series = _words(m, Pair(d, m.constant(0.0)), "LGAMMA_WORDS", every)
    value = m.pair_product(m.pair_scale(_one_and(m, d), d), series)
    return m.pair_sum(m.pair_add(m.fast_two_sum(*value), m.pair_negate(logarithm)))


def _lgamma_far(m: Arithmetic, x: Value) -> Value:
    d = m.sub(x, m.builder.intrinsic("roundeven", [x]))
    a, zero = m.absolute(x), m.constant(0.0)
    sine = m.pair_polynomial(m.two_product(d, d), coefficients.SINE_WORDS[m.scalar])
    log_sine = log_pair(m, m.fast_two_sum(*m.pair_scale(sine, m.absolute(d))))
    log_a = log_pair(m, Pair(a, zero))
    rest = m.pair_add(log_a, m.fast_two_sum(*_stirling(m, a, log_a)))
    value = m.pair_add(m.pair_constant(*_LOG_PI[m.scalar]), m.pair_negate(rest))
    return m.pair_sum(m.pair_add(value, m.pair_negate(log_sine)))


def _log(m: Arithmetic, x: Pair, every: bool) -> Pair:
    return log_of_pair(m, x) if every else log_pair(m, x)


def _words(m: Arithmetic, x: Pair, name: str, every: bool) -> Pair:
    """A polynomial whose first coefficients have two words: all that do, or the first of them."""
    given = getattr(coefficients, name)[m.scalar]
    if not every:
        given = [
            c if n < _FIRST_WORDS or isinstance(c, float) else c[0] for n, c in enumerate(given)
        ]
    return m.pair_polynomial(x, given)


def _steps(m: Arithmetic, n: Value, every: bool) -> Value:
    """Where the loop over 1, 2, ..., -n ends: for the element with the most steps, but not beyond the reflection."""
    b = m.builder
    limited = m.at_most(m.negate(n), _REFLECTION_FROM[m.scalar] if every else _EARLY)
    counts = m.select(m.compare("olt", n, 0.0), limited, 0.0)
    lanes = [b.extract(counts, lane) for lane in range(m.lanes)]
    while len(lanes) > 1:
        pairs = zip(lanes[::2], lanes[1::2], strict=False)
        larger = [b.select(b.fcmp("ogt", v, w), v, w) for v, w in pairs]
        lanes = [*larger, *(lanes[-1:] if len(lanes) % 2 else [])]
    return b.add(b.cast("fptosi", lanes[0], "i64"), llvm_ir.i64(1))


def _whole(m: Arithmetic, i: Value) -> Value:
    """A loop's index in each lane."""
    return m.builder.splat(m.builder.cast("sitofp", i, m.scalar), m.lanes)


def _one_and(m: Arithmetic, d: Value) -> Pair:
    """1 + d, |d| <= 1."""
    return m.fast_two_sum(m.constant(1.0), d)


# ------------------------------------------------------------------------------------------------------- digamma


def digamma_of_positive(m: Arithmetic, x: Value) -> Value:
    """digamma x, for x > 0; anything for infinity."""
    root, root_low = _DIGAMMA_ROOT[m.scalar]
    is_least = m.compare("olt", x, 1.0)
    rest = x
    numerator = m.select(is_least, -1.0, m.constant(0.0))
    denominator = m.select(is_least, x, m.constant(1.0))
    for _ in range(7):
        inside = m.compare("oge", rest, 2.0)
        below = m.sub(rest, 1.0)
        longer = m.fma(numerator, below, denominator)
        numerator = m.select(inside, longer, numerator)
        denominator = m.select(inside, m.mul(denominator, below), denominator)
        rest = m.select(inside, below, rest)
    distance = m.select(is_least, m.sub(x, root - 1.0), m.sub(rest, root))
    factor = m.two_sum(distance, m.constant(-root_low))
    series = m.pair_product(factor, _series(m, factor.high, "DIGAMMA"))
    fraction = m.div(numerator, denominator)
    fraction_low = m.div(m.fnma(fraction, denominator, numerator), denominator)
    total = m.two_sum(fraction, series.high)
    shifted = m.add(total.high, m.add(total.low, m.add(fraction_low, series.low)))

    logarithm = log_pair(m, Pair(x, m.constant(0.0)))
    inverse = m.div(1.0, x)
    z = m.mul(inverse, inverse)
    tail = m.polynomial(z, coefficients.DIGAMMA_TAIL[m.scalar])
    tail = m.fma(inverse, 0.5, m.mul(z, tail))
    far = m.add(logarithm.high, m.sub(logarithm.low, tail))
    return m.select(m.compare("oge", x, _STIRLING_FROM), far, shifted)


def _digamma_near(m: Arithmetic, x: Value, *, every: bool = False) -> Value:
    n = m.builder.intrinsic("roundeven", [x])
    d = m.sub(x, n)
    # The sum of -1/d, -1/(1 + d) and 1/(i - d) as a fraction.
    numerator = m.pair_negate(m.fast_two_sum(m.constant(1.0), m.add(d, d)))
    start = [*numerator, *m.pair_scale(_one_and(m, d), d)]
    with m.builder.loop_carrying(llvm_ir.i64(1), _steps(m, n, every), 1, start) as (
        i,
        carried,
        fraction,
    ):
        top, bottom, whole = Pair(*carried[:2]), Pair(*carried[2:]), _whole(m, i)
        factor = m.fast_two_sum(whole, m.negate(d))
        more = m.compare("ole", n, m.negate(whole))
        longer = m.pair_add(m.pair_product(top, factor), bottom)
        top = m.pair_select(more, longer, top)
        bottom = m.pair_select(more, m.pair_product(bottom, factor), bottom)
        carried[:] = [*top, *bottom]
    quotient = m.pair_quotient(m.fast_two_sum(*fraction[:2]), m.fast_two_sum(*fraction[2:]))
    series = _words(m, Pair(d, m.constant(0.0)), "DIGAMMA_WORDS", every)
    return m.pair_sum(m.pair_add(series, m.fast_two_sum(*quotient)))


def _digamma_far(m: Arithmetic, x: Value, *, every: bool = False) -> Value:
    d = m.sub(x, m.builder.intrinsic("roundeven", [x]))
    zero = m.constant(0.0)
    a = Pair(m.absolute(x), zero)
    inverse = m.fast_two_sum(*m.pair_quotient(Pair(m.constant(1.0), zero), a))
    z = m.fast_two_sum(*m.pair_product(inverse, inverse))
    if every:
        tail = m.pair_product(z, m.pair_polynomial(z, coefficients.DIGAMMA_TAIL_WORDS[m.scalar]))
    else:
        single = m.polynomial(z.high, coefficients.DIGAMMA_TAIL[m.scalar])
        tail = Pair(m.mul(z.high, single), zero)
    half = Pair(m.mul(inverse.high, 0.5), m.mul(inverse.low, 0.5))
    value = m.pair_add(_log(m, a, every), m.pair_add(half, m.pair_negate(tail)))
    cotangent = _words(m, m.two_product(d, d), "COTANGENT_WORDS", every)
    quotient = m.pair_quotient(cotangent, Pair(d, zero))
    return m.pair_sum(m.pair_add(value, m.pair_negate(m.fast_two_sum(*quotient))))
