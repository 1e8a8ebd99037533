"""Transforms of real rows in the "fft" kernel, by complex ones.

A row of even length is taken for half as many complex numbers, pairs of neighbours: :meth:`RealRows.from_pairs` makes
the spectrum of the row of that of the pairs, and :meth:`RealRows.to_pairs` is its inverse. The spectrum of a row of odd
length is half of a whole one, which :meth:`RealRows.mirror` completes.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..llvm_ir import Value, i64
from .butterflies import Butterflies, Complex
from .fft_vectors import Factors, Numbers, Vectors


class RealRows:
    """Works on ``n`` complex numbers on the stack. ``halves``: where in the table exp(-i pi k / n) begin."""

    def __init__(
        self, vectors: Vectors, ops: Butterflies, factors: Factors, n: int, halves: int
    ) -> None:
        self.b, self.zero = vectors.b, vectors.zero
        self.ops = ops
        self.factors = factors
        self.n = n
        self.halves = halves

    def from_pairs(self, numbers: Numbers) -> None:
        """From the transform of the pairs (x[2k], x[2k + 1]) the first n + 1 numbers of that of x."""
        ops, n = self.ops, self.n
        first = numbers.load(numbers.pointer)
        numbers.store(numbers.pointer, Complex(ops.plus(first.re, first.im), self.zero))
        numbers.store(numbers.pointer, Complex(ops.minus(first.re, first.im), self.zero), n)
        with self.mirrored(numbers) as (low, high, w):
            a, c = numbers.load(low), numbers.load(high)
            even = Complex(ops.plus(a.re, c.re), ops.minus(a.im, c.im))
            # -i (a - conj c)
            odd = Complex(ops.plus(a.im, c.im), ops.minus(c.re, a.re))
            even = Complex(*(ops.scaled(part, 0.5) for part in even))
            odd = Complex(*(ops.scaled(part, 0.5) for part in odd))
            turned = ops.times(odd, *w)
            numbers.store(low, ops.add(even, turned))
            other = ops.subtract(even, turned)
            numbers.store(high, Complex(other.re, self.b.fneg(other.im)))

    def to_pairs(self, numbers: Numbers) -> None:
        """The inverse of :meth:`from_pairs`, with real and imaginary parts exchanged for the inverse transform."""
        ops, n = self.ops, self.n
        first, last = numbers.load(numbers.pointer).re, numbers.load(numbers.pointer, n).re
        numbers.store(
            numbers.pointer,
            Complex(
                ops.scaled(ops.minus(first, last), 0.5), ops.scaled(ops.plus(first, last), 0.5)
            ),
        )
        with self.mirrored(numbers) as (low, high, (re, im)):
            a, c = numbers.load(low), numbers.load(high)
            even = Complex(
                *(ops.scaled(v, 0.5) for v in (ops.plus(a.re, c.re), ops.minus(a.im, c.im)))
            )
            odd = Complex(
                *(ops.scaled(v, 0.5) for v in (ops.minus(a.re, c.re), ops.plus(a.im, c.im)))
            )
            odd = ops.times(odd, re, self.b.fneg(im))
            # even + i odd, and the conjugate of even - i odd.
            numbers.store(low, Complex(ops.plus(even.im, odd.re), ops.minus(even.re, odd.im)))
            numbers.store(high, Complex(ops.minus(odd.re, even.im), ops.plus(even.re, odd.im)))

    @contextmanager
    def mirrored(self, numbers: Numbers) -> Iterator[tuple[Value, Value, tuple[Value, Value]]]:
        """The places of numbers k and n - k, and exp(-i pi k / n), for 1 <= k <= n / 2."""
        b = self.b
        with b.loop(i64(1), i64(self.n // 2 + 1)) as k:
            place = b.add(b.mul(k, i64(2)), i64(self.halves))
            w = self.factors.address(place)
            low, high = numbers.at(k), numbers.at(b.sub(i64(self.n), k))
            yield low, high, self.factors.load(w)

    def mirror(self, numbers: Numbers) -> None:
        """The other half of the spectrum of real rows of odd length, with real and imaginary parts exchanged."""
        b = self.b
        first = numbers.load(numbers.pointer)
        numbers.store(numbers.pointer, Complex(self.zero, first.re))
        with b.loop(i64(1), i64(self.n // 2 + 1)) as k:
            low, high = numbers.at(k), numbers.at(b.sub(i64(self.n), k))
            value = numbers.load(low)
            numbers.store(low, Complex(value.im, value.re))
            numbers.store(high, Complex(b.fneg(value.im), value.re))
