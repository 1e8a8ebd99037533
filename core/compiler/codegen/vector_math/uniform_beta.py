"""The incomplete beta function for large parameters: tails of a distribution that is nearly normal.

With D = a phi(n x/a - 1) + b phi(n (1-x)/b - 1), n = a + b, phi(u) = u - log(1 + u), and z = sqrt(2 D) of the sign of
x - a/n, dI/dz is e^(-z^2/2) times a power series in z (N. M. Temme, 1992; DLMF 8.18(ii)). So the tail beyond |z| is

    e^(-z^2/2) / (G sqrt(2 pi)) (T_0 + p_1 T_1 + p_2 T_2 + ...)

where T_k is e^(z^2/2) times the integral of t^k e^(-t^2/2) from |z| to infinity,

    T_0 = sqrt(pi/2) e^(z^2/2) erfc(|z|/sqrt 2),   T_1 = 1,   T_k = |z|^(k-1) + (k-1) T_{k-2},

and G comes from Stirling's series. p_k is a polynomial in K = (b-a) / n sqrt(1/a + 1/b) and 1/n, both small; all its
terms are of order k/2 in 1/a and 1/b.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Iterable
from fractions import Fraction
from typing import Final

from ..llvm_ir import Value
from .arithmetic import Arithmetic
from .error_function import scaled_erfc

# The smaller parameter, and how many times z^2 it is. Then terms from the twelfth on are below 2^-53.
_LEAST: Final = 1024.0
_LEAST_SHARE: Final = 64.0
_TERMS: Final = 12

Polynomial = list[Fraction]  # coefficients from the constant on


def holds(m: Arithmetic, a: Value, b: Value, deviance: Value) -> Value:
    """Where the series is good; ``deviance``: D."""
    smaller = m.select(m.compare("olt", a, b), a, b)
    is_large = m.compare("oge", smaller, _LEAST)
    return m.both(is_large, m.compare("ole", m.mul(deviance, 2 * _LEAST_SHARE), smaller))


def tail_by_density(m: Arithmetic, a: Value, b: Value, deviance: Value, is_below: Value) -> Value:
    """The tail on the side where x is, G e^D times; ``is_below``: whether that is the lower one."""
    # Elsewhere than where the series holds: any number.
    deviance = m.at_most(deviance, 800.0 if m.is_double else 100.0)
    inverse = m.div(1.0, m.add(a, b))
    skewness = m.mul(m.mul(m.sub(b, a), inverse), m.sqrt(m.add(m.div(1.0, a), m.div(1.0, b))))
    skewness = m.select(is_below, m.negate(skewness), skewness)
    size = m.sqrt(m.add(deviance, deviance))
    moments = [m.mul(scaled_erfc(m, m.sqrt(deviance)), math.sqrt(math.pi / 2)), m.constant(1.0)]
    power = size
    for k in range(2, _TERMS):
        moments.append(m.fma(moments[k - 2], k - 1.0, power))
        power = m.mul(power, size)
    square = m.mul(skewness, skewness)
    # K^2j n^-i for j + i = k // 2
    products, total = [m.constant(1.0)], moments[0]
    for k, polynomial in enumerate(_density()[1:_TERMS], 1):
        if k % 2 == 0:
            products = [m.mul(products[0], inverse), *(m.mul(p, square) for p in products)]
        coefficient = m.constant(0.0)
        for c, product in zip(polynomial[k % 2 :: 2], products, strict=True):
            coefficient = m.fma(product, float(c), coefficient)
        if k % 2:
            coefficient = m.mul(coefficient, skewness)
        total = m.fma(coefficient, moments[k], total)
    return m.mul(total, 1 / math.sqrt(2 * math.pi))


@functools.cache
def _density() -> list[Polynomial]:
    """eta/s as a power series in eta, each coefficient a polynomial in K, where s ds/deta = eta (1 + K s - s^2).

    (eta = z / sqrt n, s = (x - a/n) n / sqrt(a b); K here without its root of n.)
    """
    s: list[Polynomial] = [[], [Fraction(1)]]
    for n in range(2, _TERMS + 1):
        squares = _sum(_product(s[i], s[n - 1 - i]) for i in range(1, n - 1))
        right = _sum([[Fraction(0), *s[n - 1]], _scaled(squares, Fraction(-1))])
        cross = _sum(_product(s[i], s[n + 1 - i]) for i in range(2, n))
        both = [_scaled(right, Fraction(2, n + 1)), _scaled(cross, Fraction(-1))]
        s.append(_scaled(_sum(both), Fraction(1, 2)))
    result: list[Polynomial] = [[Fraction(1)]]
    for n in range(1, _TERMS):
        terms = _sum(_product(s[1 + k], result[n - k]) for k in range(1, n + 1))
        result.append([*_scaled(terms, Fraction(-1)), *[Fraction(0)] * n][: n + 1])
    return result


def _sum(polynomials: Iterable[Polynomial]) -> Polynomial:
    columns = itertools.zip_longest(*polynomials, fillvalue=Fraction(0))
    return [sum(column, Fraction(0)) for column in columns]


def _scaled(p: Polynomial, factor: Fraction) -> Polynomial:
    return [factor * c for c in p]


def _product(p: Polynomial, q: Polynomial) -> Polynomial:
    result = [Fraction(0)] * max(len(p) + len(q) - 1, 0)
    for (i, c), (j, d) in itertools.product(enumerate(p), enumerate(q)):
        result[i + j] += c * d
    return result
