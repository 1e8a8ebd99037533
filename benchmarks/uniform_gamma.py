"""The coefficients of Temme's uniform expansion of the incomplete gamma function, as functions for :mod:`.minimax`.

    Q(a, x) = erfc(eta sqrt(a/2)) / 2 + e^(-a eta^2/2) / sqrt(2 pi a) (c_0(eta) + c_1(eta)/a + c_2(eta)/a^2 + ...)

with eta^2/2 = mu - log(1 + mu), mu = x/a - 1, of mu's sign (DLMF 8.12; N. M. Temme, 1979). From the derivative by x

    c_0 = 1/mu - 1/eta,    c_k = c_{k-1}'/eta + (-1)^k g_k/mu

with g_k from Stirling's series of the gamma function; the poles at 0 leave each other. All as power series in eta,
which converge for |eta| below 2 sqrt(pi), with rational coefficients.
"""

from __future__ import annotations

import functools
from fractions import Fraction
from typing import Any

import mpmath  # type: ignore[import-untyped]

_TERMS = 80
_MOST = 10  # functions


def series(k: int, eta: Any) -> Any:
    """c_k(eta), for |eta| up to 1 or so."""
    coefficients = _coefficients()[k]
    return mpmath.polyval(
        [mpmath.mpf(c.numerator) / c.denominator for c in reversed(coefficients)], eta
    )


def _inverse_of_mu(count: int) -> list[Fraction]:
    """eta/mu as a power series in eta."""
    # mu mu' = eta (1 + mu)
    mu = [Fraction(0), Fraction(1)]
    for n in range(2, count + 2):
        cross = sum(mu[i] * mu[n + 1 - i] for i in range(2, n))
        mu.append((2 * mu[n - 1] / (n + 1) - cross) / 2)
    result = [Fraction(1)]
    for n in range(1, count):
        result.append(-sum((mu[1 + k] * result[n - k] for k in range(1, n + 1)), Fraction(0)))
    return result


def _stirling(count: int) -> list[Fraction]:
    """g_0, g_1, ...: gamma(a) = sqrt(2 pi / a) (a/e)^a (g_0 + g_1/a + ...)."""
    logarithm = {
        2 * k - 1: Fraction(*mpmath.bernfrac(2 * k)) / (2 * k * (2 * k - 1))
        for k in range(1, count)
    }
    g = [Fraction(1)]
    for n in range(1, count):
        terms = (j * c * g[n - j] for j, c in logarithm.items() if j <= n)
        g.append(sum(terms, Fraction(0)) / n)
    return g


@functools.cache
def _coefficients() -> list[list[Fraction]]:
    inverse = _inverse_of_mu(_TERMS + 2 * _MOST)
    g = _stirling(_MOST)
    functions = [inverse[1:]]
    for k in range(1, _MOST):
        slope = [n * c for n, c in enumerate(functions[-1])][1:]
        pole = (-1) ** k * g[k]
        assert slope[0] + pole == 0
        functions.append([s + pole * i for s, i in zip(slope[1:], inverse[1:], strict=False)])
    return functions
