"""erf and erfc.

    |x| < a:  erf x = x + x P(x^2)
    |x| >= a: erf x = 1 - exp(-Q(|x|))       (Q approximates -log erfc, which is smooth)

with a = 0.9 (float) or 1 (double); both sides are computed and one is chosen. P is minimax for the
relative error of erf, Q for the error of exp(-Q) relative to erf (Remez exchange in 180-bit
arithmetic). Approximation errors: float 2^-26.0 and 2^-29.1, double 2^-55.9 and 2^-56.3.

    x < 0.5:  erfc x = 1 - erf x, for x < -0.5 2 - erfc |x|
    else:     erfc x = e^(-x^2) C(t) / (1 + 2 x),  t = (x - c)/(x + c)

with c = 3 (float) or 4 (double), x^2 in two words, C minimax for the relative error (2^-24.1 and 2^-54.2;
benchmarks/minimax.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ...targets.target import Target
from ..llvm_ir import Builder, Value
from .arithmetic import Arithmetic, Pair
from .exponential import exp_normal, exp_of_pair, expm1_and_power

_SMALL: Final = {
    "float": (
        0.12837915122509003, -0.3761250376701355, 0.11281921714544296, -0.026770493015646935, 0.004998959135264158,
        -0.0006020799046382308,
    ),
    "double": (
        0.1283791670955126, -0.376126389031841, 0.11283791670971098, -0.02686617064803129,
        0.005223977652694745, -0.0008548328535964479, 0.00012055386200784841,
        -1.4926881672835523e-05, 1.648106269684309e-06, -1.6557175180762087e-07,
        1.6013569496564703e-08, -1.6466195866428878e-09, 1.4346247052205468e-10,
    ),
}  # fmt: skip
_LARGE: Final = {
    "float": (
        0.00016645905270706862, 1.1277971267700195, 0.636976420879364, 0.10411322861909866, -0.022314906120300293,
        0.0030653863213956356, -0.0001982058020075783,
    ),
    "double": (
        5.031069963839165e-07, 1.128374087029624, 0.6366436388950415, 0.1027034100777239, -0.01899012345901168,
        -0.0004107043167859944, 0.0019160233801687433, -0.0007707082392391998, 0.00013509184168391546,
        2.0245793417645898e-05, -2.2814223801386388e-05, 8.664589526409223e-06, -2.1350573254512706e-06,
        3.7318958434652705e-07, -4.6407724654185335e-08, 3.932860108921448e-09, -2.0441674763551567e-10,
        4.926528530763418e-12,
    ),
}  # fmt: skip
# Of what is less P is its first coefficient and erfc is 1. (The square may be less than any number, which Intel's CPUs
# finish in microcode.)
_TINY: Final = {"float": 2.0**-30, "double": 2.0**-60}
# (where the second formula takes over, where erf rounds to 1)
_BOUNDS: Final = {"float": (0.9, 3.93), "double": (1.0, 5.95)}


# From 0 on, so that e^(x^2) erfc x is right there too.
_COMPLEMENT: Final = {
    "float": (
        1.2530080080032349, -0.1356211155653, -0.047562383115291595, 0.1296454221010208,
        -0.11927162110805511, 0.06830593943595886, -0.02378775179386139, 0.00252982578240335,
        0.001950414152815938, -0.0007416189764626324, -0.00018306240963283926, 3.5205208405386657e-05,
    ),
    "double": (
        1.2329951186255526, -0.13962111684056253, 0.015379652102619655, 0.06809705425469544,
        -0.10103906603629964, 0.09373283499825129, -0.06633036581231716, 0.03716751553908301,
        -0.016197734056679337, 0.005031969963682093, -0.0007577732964369486,
        -0.00019925661747933376, 0.000150621714477959, -2.4399475177288706e-05,
        -1.1222170944636217e-05, 5.710279574276886e-06, 2.941732997306232e-07,
        -8.260888284065896e-07, 7.404143392349088e-08, 1.1042486881609205e-07,
        -1.7385656321893878e-08, -1.4087600518492751e-08, 1.6384625046529316e-09,
        1.1870054045915423e-09,
    ),
}  # fmt: skip
# (the centre of t, where erfc is less than half the smallest denormal number)
_COMPLEMENT_BOUNDS: Final = {"float": (3.0, 10.1), "double": (4.0, 27.3)}


def erf(builder: Builder, target: Target, x: Value) -> Value:
    """The error function. float: below 1.4 ulp; double: below 0.7 ulp. NaN goes the first way."""
    m = Arithmetic(builder, target, x.type)
    threshold, limit = _BOUNDS[m.scalar]
    a = m.absolute(x)
    clamped = m.at_least(m.at_most(a, limit), _TINY[m.scalar])
    if m.is_double:
        small, large = _small_in_words(m, x, clamped), _large_in_words(m, clamped)
    else:
        small = m.fma(x, m.polynomial(m.mul(clamped, clamped), _SMALL[m.scalar]), x)
        large = m.sub(1.0, exp_normal(m, m.negate(m.polynomial(clamped, _LARGE[m.scalar]))))
    return m.select(m.compare("ult", a, threshold), small, m.copysign(large, x))


def _begin_in_words(m: Arithmetic, x: Pair, coefficients: Sequence[float]) -> Pair:
    """The polynomial, its last two steps in two words."""
    result = Pair(m.polynomial(x.high, coefficients[2:]), m.constant(0.0))
    for c in coefficients[1::-1]:
        product = m.pair_product(x, result)
        total = m.two_sum(m.constant(c), product.high)
        result = Pair(total.high, m.add(total.low, product.low))
    return result


def _small_in_words(m: Arithmetic, x: Value, size: Value) -> Value:
    square = m.two_product(size, size)
    series = m.pair_scale(_begin_in_words(m, square, _SMALL[m.scalar]), x)
    total = m.fast_two_sum(x, series.high)
    value = m.add(total.high, m.add(total.low, series.low))
    # Of the smallest numbers the low words would be less than any number; -0 stays.
    tiny = m.compare("olt", m.absolute(x), 2.0**-500)
    return m.select(tiny, m.fma(x, _SMALL[m.scalar][0], x), value)


def _large_in_words(m: Arithmetic, a: Value) -> Value:
    """1 - e^-Q = (1 - s) - s expm1(r), s a power of two."""
    q = _begin_in_words(m, Pair(a, m.constant(0.0)), _LARGE[m.scalar])
    y, s = expm1_and_power(m, m.negate(q.high), m.negate(q.low))
    return m.fnma(s, y, m.sub(1.0, s))


def erfc(builder: Builder, target: Target, x: Value) -> Value:
    """1 - erf x, accurate where that is near 0. float: below 4.4 ulp; double: below 3 ulp, denormal results too."""
    m = Arithmetic(builder, target, x.type)
    a = m.at_most(m.absolute(x), _COMPLEMENT_BOUNDS[m.scalar][1])
    a = m.at_least(a, _TINY[m.scalar])
    factor = scaled_erfc(m, a)
    square = m.two_product(a, a)
    large = exp_of_pair(m, m.negate(square.high), m.negate(square.low), factor)
    large = m.select(m.compare("olt", x, 0.0), m.sub(2.0, large), large)
    small = m.sub(1.0, m.fma(x, m.polynomial(m.mul(a, a), _SMALL[m.scalar]), x))
    return m.select(m.compare("olt", a, 0.5), small, large)


def scaled_erfc(m: Arithmetic, a: Value) -> Value:
    """e^(a^2) erfc a, for a from 0 to where erfc is 0; for larger ones anything."""
    centre, _ = _COMPLEMENT_BOUNDS[m.scalar]
    t = m.div(m.sub(a, centre), m.add(a, centre))
    return m.div(m.polynomial(t, _COMPLEMENT[m.scalar]), m.fma(a, 2.0, 1.0))
