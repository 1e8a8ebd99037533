"""Fourier transforms by a convolution in the "fft" kernel, with all numbers on the stack: for lengths with large prime
factors (L. Bluestein, A linear filtering approach to the computation of discrete Fourier transform, 1970), and for
primes (C. M. Rader, Discrete Fourier transforms when the number of data samples is prime, 1968).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import llvm_ir
from ..llvm_ir import Value, i64
from .emit import Frame
from .fft_lengths import inner_length
from .fft_pass import Transform
from .fft_tables import cycle, end_of_halves, halves_of, is_cyclic
from .fft_vectors import Lines, loop


def transforms_of(
    frame: Frame, config: Mapping[str, Any], reads: int = 0, writes: int = 0
) -> list[Transform]:
    """The transforms of ``halves``, done one after the other, with one place on the stack for the numbers of all.
    ``reads``, ``writes``: bytes of the array that the first one reads and the last one writes, 0 on the stack.
    """
    parts = halves_of(config, frame.target)
    # The elements of a row, where halves are those of one.
    row = 0 if "between" in config else 2 * config["n"]
    arrays = [(reads, 0), *[(0, 0)] * (len(parts) - 2), (0, writes)]

    def made(number: int, stack: Sequence[Value] | None = None) -> Transform:
        return Transform(frame, *parts[number], stack, arrays[number], row)

    def numbers(number: int) -> int:
        half, _ = parts[number]
        return (inner_length(half) + 1) * int(half["lanes"])

    every = range(len(parts))
    most = max(every, key=numbers)
    largest = made(most)
    return [largest if number == most else made(number, largest.stack) for number in every]


def run_both(halves: Sequence[Transform], source: Value, between: Value, target: Value) -> None:
    """Both halves of a transform, with the numbers between them in the array ``between``."""
    for half, from_, to in zip(halves, (source, between), (between, target), strict=True):
        with loop(half.b, half.groups) as group:
            half.unit(from_, to, (), group)


class Convolution:
    """Writes the transform of a row by a convolution."""

    def __init__(self, frame: Frame, config: Mapping[str, Any]) -> None:
        self.b = frame.builder
        self.config = config
        self.n, self.length = config["n"], config["length"]
        transforms = transforms_of(frame, config)
        self.forward, self.inverse = transforms[:2], transforms[2:]
        self.nanoseconds = sum(half.nanoseconds * half.groups for half in transforms)
        widest = max(self.forward, key=lambda half: half.lanes)
        self.vectors, self.ops = widest.vectors, widest.ops
        self.arrays = [self.b.alloca(self.vectors.scalar, 2 * self.length) for _ in range(3)]
        self.factors = frame.operands[1].pointer
        self.place = end_of_halves(config, frame.target)  # in the table, behind the transforms'

    def row(self, operand: Value, result: Value, number: Value) -> None:
        """Write row ``number`` of the result."""
        b, scalar = self.b, self.vectors.scalar
        place = b.mul(number, i64(2 * self.n))
        source, target = (b.gep(scalar, array, place) for array in (operand, result))
        (self.by_powers if is_cyclic(self.config) else self.by_chirps)(source, target)

    def by_chirps(self, operand: Value, result: Value) -> None:
        """Bluestein's algorithm."""
        b, v, (one, two, _) = self.b, self.vectors, self.arrays
        n, length = self.n, self.length
        self.multiply(operand, one, n, self.place)
        with self.blocks(2 * (length - n)) as index:
            address = b.gep(v.scalar, one, b.add(index, i64(2 * n)))
            b.store(v.zero, address, v.size)
        self.transform(self.forward, one, two)
        self.multiply(two, one, length, self.place + 2 * n)
        self.transform(self.inverse, one, two)
        self.multiply(two, result, n, self.place)

    def by_powers(self, operand: Value, result: Value) -> None:
        """Rader's algorithm: number 0 apart, which is added to all results by the sum of all in the spectrum."""
        b, v, (one, two, _) = self.b, self.vectors, self.arrays
        inverse, _ = self.config["exchanged"]
        scale = llvm_ir.floating(v.scalar, self.config["scale"])
        order, results, _ = cycle(self.n, inverse, self.config["scale"])

        def parts(pointer: Value) -> list[Value]:
            return [v.element(pointer, part) for part in (0, 1)]

        first = [b.load(v.scalar, part, v.size) for part in parts(operand)]
        self.move(operand, one, order, scattered=False)
        self.transform(self.forward, one, two)
        self.multiply(two, one, self.length, self.place)
        for own, whole, spectrum, to in zip(
            first, parts(two), parts(one), parts(result), strict=True
        ):
            scaled = b.binary("fmul", own, scale)
            total = b.binary("fadd", own, b.load(v.scalar, whole, v.size))
            b.store(b.binary("fmul", total, scale), to, v.size)
            b.store(b.binary("fadd", b.load(v.scalar, spectrum, v.size), scaled), spectrum, v.size)
        self.transform(self.inverse, one, two)
        self.move(two, result, results, scattered=True)

    # ------------------------------------------------------------------------------------------------------- the steps
    def transform(self, halves: Sequence[Transform], source: Value, target: Value) -> None:
        run_both(halves, source, self.arrays[2], target)

    @contextmanager
    def blocks(self, size: int) -> Iterator[Value]:
        """The starts of vectors that cover [0, size)."""
        b, lanes = self.b, self.vectors.lanes
        with loop(b, -(-size // lanes)) as number:
            yield b.intrinsic("smin", [b.mul(number, i64(lanes)), i64(size - lanes)])

    def multiply(self, source: Value, target: Value, size: int, place: int) -> None:
        """``size`` numbers by the factors at ``place``."""
        b, v = self.b, self.vectors
        read = Lines(v, source, 1, exchanged=False)
        written = Lines(v, target, 1, exchanged=False)
        with self.blocks(size) as index:
            factors = b.gep(v.scalar, self.factors, b.add(i64(place), index))
            parts = (v.element(factors, part * size) for part in (0, 1))
            re, im = (b.load(v.type, part, v.size) for part in parts)
            value = self.ops.times(read.load(read.at(index)), re, im)
            written.store(written.at(index), value)

    def move(self, source: Value, target: Value, places: np.ndarray, scattered: bool) -> None:
        """The numbers at ``places`` of ``source`` to ``target``, one behind the other. ``scattered``: the reverse."""
        b, size = self.b, self.vectors.size
        number = "i64" if size == 4 else llvm_ir.vector("double", 2)
        table = b.constant_array("i32", map(str, places.tolist()))
        step = 4 if len(places) % 4 == 0 else 2
        with b.loop(i64(0), i64(len(places)), step) as index:
            moved = []
            for offset in range(step):
                near = b.add(index, i64(offset))
                far = b.cast("zext", b.load("i32", b.gep("i32", table, near), 4), "i64")
                from_, to = (near, far) if scattered else (far, near)
                moved.append((b.load(number, b.gep(number, source, from_), size), to))
            for value, to in moved:
                b.store(value, b.gep(number, target, to), size)
