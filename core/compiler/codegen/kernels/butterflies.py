"""Discrete Fourier transforms of a few numbers, in registers.

A number is a pair of vectors, real and imaginary parts of as many transforms as a vector has lanes. Every function
gives the values, in the usual order, of

    sum over j of x[j] exp(-2 pi i j k / len(x))

Composite sizes are made of smaller ones: of coprime ones without factors between them (I. J. Good, The interaction
algorithm and practical Fourier analysis, 1958), of others as Cooley and Tukey do. Products and sums may become one
operation with one rounding.
"""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Final, NamedTuple

from ..llvm_ir import Builder, Value, floating

if TYPE_CHECKING:
    from ...targets.costs import Transforms

#: Primes of transforms in registers, and of those that are sums of all products (:mod:`.fft`); composite ones.
PRIMES: Final = (2, 3, 5, 7, 11, 13)
SUMMED_PRIMES: Final = tuple(p for p in range(17, 200) if all(p % d for d in range(2, 15)))
COMPOSITES: Final = (4, 6, 8, 9, 10, 12, 14, 15, 16)
_HALF_ROOT: Final = math.sqrt(0.5)


class Complex(NamedTuple):
    """Real and imaginary parts, in each lane of another transform."""

    re: Value
    im: Value


def root(numerator: int, denominator: int) -> tuple[float, float]:
    """exp(-2 pi i numerator / denominator), correct to double precision."""
    # Octants: arguments of cos and sin at most pi / 4.
    numerator %= denominator
    eighths, rest = divmod(8 * numerator, denominator)
    if eighths % 2:
        rest = denominator - rest
    angle = math.pi / 4 * (rest / denominator)
    c, s = math.cos(angle), math.sin(angle)
    c, s = ((c, s), (s, c), (-s, c), (-c, s), (-c, -s), (-s, -c), (s, -c), (c, -s))[eighths]
    return c, -s


class Butterflies:
    """Writes the transforms, for vectors of one type."""

    def __init__(self, builder: Builder, type_: str) -> None:
        self.b = builder
        self.type = type_

    # -- arithmetic
    def plus(self, a: Value, b: Value) -> Value:
        return self.b.binary("fadd contract", a, b)

    def minus(self, a: Value, b: Value) -> Value:
        return self.b.binary("fsub contract", a, b)

    def scaled(self, a: Value, factor: float) -> Value:
        return self.b.binary("fmul contract", a, floating(self.type, factor))

    def add(self, a: Complex, b: Complex) -> Complex:
        return Complex(self.plus(a.re, b.re), self.plus(a.im, b.im))

    def subtract(self, a: Complex, b: Complex) -> Complex:
        return Complex(self.minus(a.re, b.re), self.minus(a.im, b.im))

    def add_turned(self, a: Complex, b: Complex) -> Complex:
        """a - i b"""
        return Complex(self.plus(a.re, b.im), self.minus(a.im, b.re))

    def subtract_turned(self, a: Complex, b: Complex) -> Complex:
        """a + i b"""
        return Complex(self.minus(a.re, b.im), self.plus(a.im, b.re))

    def times(self, a: Complex, re: Value, im: Value) -> Complex:
        """a (re + i im)"""
        b = self.b
        return Complex(
            self.minus(b.binary("fmul contract", a.re, re), b.binary("fmul contract", a.im, im)),
            self.plus(b.binary("fmul contract", a.re, im), b.binary("fmul contract", a.im, re)),
        )

    def times_root(self, a: Complex, numerator: int, denominator: int) -> Complex:
        """a exp(-2 pi i numerator / denominator)"""
        common = math.gcd(numerator, denominator)
        numerator, denominator = numerator // common, denominator // common
        match numerator % denominator, denominator:
            case 0, 1:
                return a
            case 1, 2:
                return Complex(self.b.fneg(a.re), self.b.fneg(a.im))
            case 1, 4:
                return Complex(a.im, self.b.fneg(a.re))
            case 3, 4:
                return Complex(self.b.fneg(a.im), a.re)
            case k, 8:
                plus, minus = self.plus(a.re, a.im), self.minus(a.im, a.re)
                re, im = ((plus, minus), (minus, plus), (plus, minus), (minus, plus))[k // 2]
                signs = ((1, 1), (1, -1), (-1, -1), (-1, 1))[k // 2]
                return Complex(
                    self.scaled(re, signs[0] * _HALF_ROOT), self.scaled(im, signs[1] * _HALF_ROOT)
                )
        c, s = root(numerator, denominator)
        return self.times(a, floating(self.type, c), floating(self.type, s))

    # -- transforms
    def transform(self, x: list[Complex]) -> list[Complex]:
        """The transform of ``x``."""
        n = len(x)
        match n:
            case 1:
                return x
            case 2:
                return [self.add(x[0], x[1]), self.subtract(x[0], x[1])]
            case 4:
                return self.of_four(x)
        a, b = split(n)
        if b == 1:
            return self.of_prime(x)
        if math.gcd(a, b) == 1:
            return self.of_coprime(x, a, b)
        if b == 2:
            return self.of_even(x)
        return self.of_product(x, a, b)

    def of_four(self, x: list[Complex]) -> list[Complex]:
        sums, differences = self.add(x[0], x[2]), self.subtract(x[0], x[2])
        odd_sums, odd_differences = self.add(x[1], x[3]), self.subtract(x[1], x[3])
        return [
            self.add(sums, odd_sums),
            self.add_turned(differences, odd_differences),
            self.subtract(sums, odd_sums),
            self.subtract_turned(differences, odd_differences),
        ]

    def of_prime(self, x: list[Complex]) -> list[Complex]:
        """The terms of j and n - j have one cosine and opposite sines."""
        n = len(x)
        half = range(1, n // 2 + 1)
        sums = {j: self.add(x[j], x[n - j]) for j in half}
        differences = {j: self.subtract(x[j], x[n - j]) for j in half}
        first = x[0]
        for j in half:
            first = self.add(first, sums[j])
        result = [first] * n
        for k in half:
            even, odd = x[0], None
            for j in half:
                c, s = root(j * k, n)
                cosine, sine = floating(self.type, c), floating(self.type, -s)
                even = self.multiply_add(sums[j], cosine, even)
                odd = self.multiply_add(differences[j], sine, odd)
            assert odd is not None
            result[k] = self.add_turned(even, odd)
            result[n - k] = self.subtract_turned(even, odd)
        return result

    def multiply_add(self, a: Complex, factor: Value, more: Complex | None) -> Complex:
        """a factor + more"""
        b = self.b
        re = b.binary("fmul contract", a.re, factor)
        im = b.binary("fmul contract", a.im, factor)
        if more is None:
            return Complex(re, im)
        return Complex(self.plus(more.re, re), self.plus(more.im, im))

    def of_even(self, x: list[Complex]) -> list[Complex]:
        half = len(x) // 2
        even, odd = self.transform(x[0::2]), self.transform(x[1::2])
        low, high = [], []
        for k in range(half):
            if 2 * k == half:
                low.append(self.add_turned(even[k], odd[k]))
                high.append(self.subtract_turned(even[k], odd[k]))
                continue
            turned = self.times_root(odd[k], k, len(x))
            low.append(self.add(even[k], turned))
            high.append(self.subtract(even[k], turned))
        return low + high

    def of_product(self, x: list[Complex], a: int, b: int) -> list[Complex]:
        inner = [self.transform(x[i::b]) for i in range(b)]
        result = [x[0]] * len(x)
        for k in range(a):
            column = [self.times_root(inner[i][k], i * k, len(x)) for i in range(b)]
            result[k::a] = self.transform(column)
        return result

    def of_coprime(self, x: list[Complex], a: int, b: int) -> list[Complex]:
        n = len(x)
        inner = [self.transform([x[(b * i + a * j) % n] for i in range(a)]) for j in range(b)]
        of_a, of_b = b * pow(b, -1, a), a * pow(a, -1, b)
        result = [x[0]] * n
        for k in range(a):
            for m, value in enumerate(self.transform([inner[j][k] for j in range(b)])):
                result[(k * of_a + m * of_b) % n] = value
        return result


@functools.cache
def split(n: int) -> tuple[int, int]:
    """Two factors of ``n``, the second of them 1 for primes: coprime ones if there are such, else near each other."""
    pairs = [(n // b, b) for b in range(2, math.isqrt(n) + 1) if n % b == 0]
    if not pairs:
        return n, 1
    return next((p for p in reversed(pairs) if math.gcd(*p) == 1), pairs[-1] if n != 8 else (4, 2))


# Vector instructions for each number.
_INSTRUCTIONS: Final = {
    2: 2.0,
    3: 4.0,
    4: 4.0,
    5: 6.4,
    6: 6.0,
    7: 8.6,
    8: 6.5,
    9: 9.5,
    10: 8.4,
    12: 8.0,
    14: 10.6,
    15: 10.4,
    16: 10.0,
}


def instructions(radix: int) -> float:
    """Vector instructions of a transform of length ``radix`` for each of its numbers, roughly."""
    return _INSTRUCTIONS.get(radix, radix + (2.0 if radix in PRIMES else 12.0))


@functools.cache
def radices(n: int, registers: int, costs: Transforms) -> tuple[int, ...] | None:
    """The sizes of small transforms whose product is ``n``, those that take the least time together; None if a prime
    factor is too large. ``registers``: how many vectors the machine has.
    """
    if n == 1:
        return ()
    best: tuple[float, tuple[int, ...]] | None = None
    for radix in (*COMPOSITES, *PRIMES, *SUMMED_PRIMES):
        if n % radix:
            continue
        rest = radices(n // radix, registers, costs)
        if rest is None:
            continue
        total = sum(_time(r, registers, costs) for r in (radix, *rest))
        if best is None or total < best[0]:
            best = total, tuple(sorted((radix, *rest), reverse=True))
    return None if best is None else best[1]


def _time(radix: int, registers: int, costs: Transforms) -> float:
    """The time of a pass, in vector instructions for each number."""
    spilled = max(0.0, (2 * radix + 4 - registers) / radix) if radix in _INSTRUCTIONS else 1.0
    return costs.through + instructions(radix) + costs.spilled * spilled
