"""exp, expm1, sin and cos of complex numbers.

    e^(x + i y) = e^x cos y + i e^x sin y
    sin(x + i y) = sin x cosh y + i cos x sinh y,    cos(x + i y) = cos x cosh y - i sin x sinh y

A part may be a number where e^x or cosh y is infinite, so the powers of 2 in them come last. Zeros, infinities and NaN:
C99 Annex G.
"""

from __future__ import annotations

from typing import Final

from ...targets.target import Target
from ..llvm_ir import Builder, Value
from .arithmetic import INFINITY, Arithmetic
from .exponential import cosh_of_modest, exp_times, expm1, sinh_of_modest
from .trigonometric import cos, sin

Parts = tuple[Value, Value]  # real and imaginary

# From here on cosh y and |sinh y| are e^|y| / 2, and e^y - 1 is e^y.
_ONLY_EXP: Final = {"float": 20.0, "double": 40.0}


def complex_exp(builder: Builder, target: Target, z: Parts) -> Parts:
    """e^z. float, double: each part below 2.1 ulp. For infinite x without an angle: infinity + i NaN, and 0."""
    m, (x, y) = Arithmetic(builder, target, z[0].type), z
    sine, cosine = (f(builder, target, y) for f in (sin, cos))
    real, imag = exp_times(m, x, [cosine, sine])
    lost = m.both(m.compare("uno", sine, sine), m.compare("oeq", m.absolute(x), INFINITY))
    left = m.compare("olt", x, 0.0)
    real = m.select(lost, m.select(left, 0.0, INFINITY), real)
    imag = m.select(m.both(lost, left), 0.0, imag)
    return real, m.select(m.compare("oeq", y, 0.0), y, imag)


def complex_expm1(builder: Builder, target: Target, z: Parts) -> Parts:
    """e^z - 1: the real part is (e^x - 1) cos y - 2 sin^2(y/2). float, double: below 2.3 ulp of the number."""
    m, (x, y) = Arithmetic(builder, target, z[0].type), z
    half = sin(builder, target, m.mul(y, 0.5))
    sine, cosine = (f(builder, target, y) for f in (sin, cos))
    grown, imag = exp_times(m, x, [cosine, sine])
    near = m.mul(expm1(builder, target, x), cosine)
    grown = m.select(m.compare("ogt", x, _ONLY_EXP[m.scalar]), grown, near)
    real = m.fnma(m.mul(half, 2.0), half, grown)
    imag = m.select(m.compare("oeq", y, 0.0), y, imag)
    return real, m.select(m.compare("uno", half, half), half, imag)  # no angle, no value


def complex_sin(builder: Builder, target: Target, z: Parts) -> Parts:
    """sin z. float, double: each part below 3 ulp. Without an angle, 0 stays 0, and the imaginary part infinite."""
    m, (x, y) = Arithmetic(builder, target, z[0].type), z
    sine, cosine = (f(builder, target, x) for f in (sin, cos))
    by_cosh, by_sinh = _times_cosh_and_sinh(m, (sine, cosine), y)
    stays = m.either(m.compare("oeq", y, 0.0), m.compare("oeq", m.absolute(y), INFINITY))
    return by_cosh, m.select(m.both(m.compare("uno", sine, sine), stays), y, by_sinh)


def complex_cos(builder: Builder, target: Target, z: Parts) -> Parts:
    """cos z. float, double: each part below 3 ulp. Without an angle, 0 stays 0, and the real part infinite."""
    m, (x, y) = Arithmetic(builder, target, z[0].type), z
    sine, cosine = (f(builder, target, x) for f in (sin, cos))
    real, imag = _times_cosh_and_sinh(m, (cosine, sine), y)
    size, without = m.absolute(y), m.compare("uno", sine, sine)
    real = m.select(m.both(without, m.compare("oeq", size, INFINITY)), size, real)
    imag = m.select(m.both(without, m.compare("oeq", y, 0.0)), size, m.negate(imag))
    return real, imag


def _times_cosh_and_sinh(m: Arithmetic, factors: Parts, y: Value) -> Parts:
    """(the first factor times cosh y, the second times sinh y)."""
    size = m.absolute(y)
    is_large = m.compare("ogt", size, _ONLY_EXP[m.scalar])
    grown = exp_times(m, size, factors, -1)
    modest = m.select(is_large, 1.0, size)
    by_cosh = m.mul(factors[0], cosh_of_modest(m, modest))
    by_sinh = m.mul(factors[1], sinh_of_modest(m, modest))
    by_cosh, by_sinh = (
        m.select(m.compare("oeq", f, 0.0), f, m.select(is_large, g, v))  # also where y is NaN
        for f, g, v in zip(factors, grown, (by_cosh, by_sinh), strict=True)
    )
    sign = m.int_and(m.bits(y), m.bits_of(-0.0))
    return by_cosh, m.from_bits(m.int_xor(m.bits(by_sinh), sign))
