"""The incomplete gamma function for large parameters: Temme's uniform expansion (DLMF 8.12; N. M. Temme, 1979).

    Q(a, x) = erfc(eta sqrt(a/2)) / 2 + e^(-a eta^2/2) / sqrt(2 pi a) S,   S = c_0(eta) + c_1(eta)/a + ...

with eta^2/2 = mu - log(1 + mu), mu = x/a - 1, of mu's sign. Of P and Q the smaller one is computed: as e^(-a eta^2/2)
times a factor, and the exponent, which may be large and has to be right to its last digits, has two words.

The functions c_k are polynomials here (benchmarks/uniform_gamma.py and minimax.py), beside each other to 2^-55 of the
result for a from 64 on and |eta| up to 1/2.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

from ..llvm_ir import Value
from . import gamma_coefficients
from .arithmetic import Arithmetic, Pair
from .error_function import scaled_erfc
from .exponential import exp_of_pair
from .logarithm import log_pair, without_log

LEAST: Final = 64.0  # the parameters
_MOST_PHI: Final = 0.125  # eta^2 / 2
_COEFFICIENTS: Final = (
    (-0.3333333333333333, 0.08333333333333333, -0.014814814814817313, 0.0011574074074074253,
     0.0003527336862274314, -0.00017875514403385703, 3.919262792252018e-05, -2.1854484872785134e-06,
     -1.8540178686887244e-06, 8.296708153817084e-07, -1.76921455148881e-07, 6.710330170009106e-09,
     1.1033674427475076e-08, -4.392974106673974e-09),
    (-0.0018518518518531664, -0.0034722222222227216, 0.0026455026458828807, -0.0009902263374009111,
     0.00020576129905007122, -4.0187888228751275e-07, -1.8098244474417197e-05, 7.649176177291787e-06,
     -1.614469169233276e-06, 4.564636935170488e-09, 1.4645271871370496e-07, -5.734588005182948e-08),
    (0.004133597883600855, -0.0026813271604582438, 0.0007716049375032266, 2.009384921791894e-06,
     -0.00010736649973373888, 5.2923513839180184e-05, -1.2761143073768379e-05, 3.3687974071980504e-08,
     1.3757996983021879e-06, -6.282329848394922e-07, 1.31021666459215e-07),
    (0.0006494341558108242, 0.00022947208843310504, -0.00046918939444432487, 0.0002677209164707239,
     -7.562087338226867e-05, -2.435332960065894e-07, 1.1111534158673686e-05, -5.658669479545378e-06,
     1.3034675863025888e-06),
    (-0.0008618882358793615, 0.000784039005250486, -0.00029907952204922015, -1.4543174635402881e-06,
     6.655513087784661e-05, -3.980153099191415e-05, 1.0490184139778647e-05, 5.556501761167117e-07),
    (-0.0003368055877463007, -6.970475036599216e-05, 0.0002777808905416108, -0.00019991857360459985,
     6.264871064439671e-05, 4.140902528848457e-06),
    (0.0005312917213142198, -0.0005932541756127203, 0.00027172906948051424, 1.8261603591842113e-05,
     -8.904070915496217e-05),
    (0.00034592271922929843, 0.00010412472584455211, -0.0003667733583368555),
)  # fmt: skip
# Beyond, e to the power of the negative is nothing; the second word may be NaN for infinity.
_NOTHING: Final = {"float": 150.0, "double": 800.0}


class Deviation(NamedTuple):
    """How far x is from a: mu = x/a - 1, phi = mu - log(1 + mu), and a phi, which is no more than what e is 0 of."""

    mu: Value
    phi: Value
    exponent: Pair

    def is_near(self, m: Arithmetic, a: Value) -> Value:
        """Where the expansion holds."""
        return m.both(m.compare("oge", a, LEAST), m.compare("ole", self.phi, _MOST_PHI))


def deviation(m: Arithmetic, a: Value, x: Value) -> Deviation:
    """The arguments are positive and finite, and a is at least 8."""
    whole = Pair(a, m.constant(0.0))
    mu = m.fast_two_sum(*m.pair_quotient(m.two_sum(x, m.negate(a)), whole))
    ratio = m.pair_quotient(Pair(x, m.constant(0.0)), whole)
    logarithm = m.fast_two_sum(*log_pair(m, m.fast_two_sum(*ratio)))
    phi = phi_of(m, mu, logarithm)
    return Deviation(mu.high, phi.high, exponent_of(m, phi, a))


def phi_of(m: Arithmetic, mu: Pair, logarithm: Pair) -> Pair:
    """mu - log(1 + mu), ``logarithm``: the latter, which only counts where mu is not small."""
    is_small = m.compare("olt", m.absolute(mu.high), 0.25)
    near = without_log(m, m.pair_select(is_small, mu, m.pair_constant(0.0, 0.0)))
    return m.pair_select(is_small, near, m.pair_add(mu, m.pair_negate(logarithm)))


def exponent_of(m: Arithmetic, phi: Pair, a: Value) -> Pair:
    """a phi, or what e is 0 of if that is more."""
    product = m.pair_scale(phi, a)
    is_less = m.compare("olt", product.high, _NOTHING[m.scalar])
    nothing = m.pair_constant(_NOTHING[m.scalar], 0.0)
    return m.fast_two_sum(*m.pair_select(is_less, product, nothing))


def factor_of_large(m: Arithmetic, a: Value, exponent: Pair) -> Value:
    """x^a e^-x / gamma(a) = sqrt(a / (2 pi)) e^(-a phi) / (1 + 1/(12 a) + ...), for a from 8 on."""
    inverse = m.div(1.0, a)
    tail = m.polynomial(m.mul(inverse, inverse), gamma_coefficients.STIRLING[m.scalar])
    total = m.two_sum(exponent.high, m.mul(tail, inverse))
    low = m.add(total.low, exponent.low)
    root = m.sqrt(m.mul(a, 0.5 / math.pi))
    return exp_of_pair(m, m.negate(total.high), m.negate(low), root)


def smaller_tail(m: Arithmetic, a: Value, of: Deviation) -> Value:
    """Q(a, x) for x >= a and P(a, x) for others, where the expansion holds."""
    eta, inverse = _eta(m, of), m.div(1.0, a)
    total = _series(m, eta, inverse)[0]
    signed = m.select(m.compare("olt", of.mu, 0.0), m.negate(total), total)
    half = m.mul(scaled_erfc(m, m.sqrt(of.exponent.high)), 0.5)
    return _times_power(m, m.fma(signed, _root(m, inverse), half), of)


def slope_by_parameter(m: Arithmetic, a: Value, of: Deviation) -> Value:
    """The derivative of P(a, x) by a, where the expansion holds.

    With l = log(1 + mu) that is -e^(-a eta^2/2) / sqrt(2 pi a) (l / eta + l S + dS/da - S / (2 a)), where eta is a
    function of a too: its derivative is -mu / (a eta).
    """
    eta, inverse = _eta(m, of), m.div(1.0, a)
    total, by_eta, by_inverse = _series(m, eta, inverse)
    at_zero = m.compare("oeq", eta, 0.0)
    ratio = m.select(at_zero, 1.0, m.div(of.mu, m.select(at_zero, 1.0, eta)))  # mu / eta
    logarithm = m.sub(of.mu, of.phi)
    small = m.fma(by_eta, ratio, m.fma(by_inverse, inverse, m.mul(total, 0.5)))
    value = m.fma(eta, -0.5, m.fnma(small, inverse, m.mul(logarithm, total)))
    value = m.mul(m.add(ratio, value), _root(m, inverse))
    return m.negate(_times_power(m, value, of))


def _eta(m: Arithmetic, of: Deviation) -> Value:
    return m.copysign(m.sqrt(m.add(of.phi, of.phi)), of.mu)


def _root(m: Arithmetic, inverse: Value) -> Value:
    """1 / sqrt(2 pi a)"""
    return m.sqrt(m.mul(inverse, 0.5 / math.pi))


def _times_power(m: Arithmetic, factor: Value, of: Deviation) -> Value:
    high, low = m.pair_negate(of.exponent)
    return exp_of_pair(m, high, low, factor)


def _series(m: Arithmetic, eta: Value, inverse: Value) -> tuple[Value, Value, Value]:
    """(S, its derivatives by eta and by 1/a)."""
    zero = m.constant(0.0)
    total, by_eta, by_inverse = zero, zero, zero
    for coefficients in reversed(_COEFFICIENTS):
        value, slope = m.constant(coefficients[-1]), zero
        for c in reversed(coefficients[:-1]):
            slope = m.fma(slope, eta, value)
            value = m.fma(value, eta, c)
        by_inverse = m.fma(by_inverse, inverse, total)
        total = m.fma(total, inverse, value)
        by_eta = m.fma(by_eta, inverse, slope)
    return total, by_eta, by_inverse
