"""Fourier transforms as generated kernels.

A transform of several dimensions is one along each. One along a dimension of length n is, by what takes the least time,

* an ``fft-pass`` (:mod:`...codegen.kernels.fft`), if the prime factors of n are small and its numbers, as many times as
  vectors have lanes, leave room for others in the nearer caches;
* two of them for n = a * b (D. H. Bailey, FFTs in external or hierarchical memory, 1990): transforms of length a along
  the columns of the a by b matrix, multiplied by exp(-2 pi i k l / n), and of length b along its rows, with the result
  turned. So one row fills vectors too, and long ones stay in the caches;
* a convolution of another length, with two transforms, if n has larger prime factors (L. Bluestein, A linear filtering
  approach to the computation of discrete Fourier transform, 1970).

Real arrays whose kernels are not made for them take the way of complex ones of half the length, or of the same one if
it is odd. What is multiplied, padded and cut on these ways are instructions like any others, to be fused.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...codegen.kernels import fft as kernel
from ...codegen.kernels.butterflies import SUMMED_PRIMES, radices
from ...ir.dtypes import C64, C128
from ...ir.hlo import Instruction, Shape, broadcast, constant
from ...ir.patterns import reshape

if TYPE_CHECKING:
    from ...targets.target import Target

# What vectors of all lanes, of half of them, of a quarter ... take, relative to each other.
_WIDTHS: Final = (1.0, 0.6, 0.45, 0.4, 0.4)
_TURNED: Final = 6.0  # vector instructions for a number that is turned in registers
_GATHERED: Final = 24.0
_LAUNCH: Final = 400.0  # vector instructions in the time of a launch
_ELEMENTWISE: Final = 6.0  # for a number of an elementwise kernel
#: Factors of longer transforms are products of two.
_MOST_FACTORS: Final = 1 << 15
_LONGEST: Final = 1 << 24


@dataclass(frozen=True)
class _Machine:
    """What the choice goes by: lanes of a vector, bytes of an element, and the number of vector registers."""

    lanes: int
    size: int
    registers: int


@dataclass(frozen=True)
class _Plan:
    """How to do some transforms. ``way``: "pass", "two" or "convolution"; ``parts``: a and b, or the length of the
    convolution; ``cost``: vector instructions for all transforms.
    """

    way: str
    cost: float
    parts: tuple[int, ...] = ()


def generate(fft: Instruction, target: Target) -> Instruction | None:
    """Kernels that compute ``fft`` (not an empty one), or None if there are none for it on this target."""
    if not target.packs_products:
        return None
    if any(n > _LONGEST for n in fft.attributes["fft_length"]):
        return None
    return _Transform(fft, target).result()


def _lanes(m: int, machine: _Machine, n: int) -> tuple[int, float]:
    """How many of ``m`` transforms of length ``n`` to do at a time, and the time of all relative to full vectors."""
    best: tuple[int, float] | None = None
    for number, width in enumerate(_WIDTHS):
        lanes = machine.lanes >> number
        if lanes < 1:
            break
        if lanes > m or kernel.stack_bytes(n, lanes, machine.size) > kernel.LARGEST_STACK:
            continue
        time = -(-m // lanes) * width
        if best is None or time < best[1]:
            best = lanes, time
    return best or (0, math.inf)


def _pass_cost(n: int, m: int, others: int, machine: _Machine, turns: int) -> float:
    """The time of ``m * others`` transforms of length ``n``, some of the ``m`` at a time. Squares are turned ``turns``
    times.
    """
    if radices(n, machine.registers) is None:
        return math.inf
    lanes, time = _lanes(m, machine, n)
    if not lanes:
        return math.inf
    each = kernel.passes_cost(n, lanes, machine.size, machine.registers)
    return _LAUNCH + time * others * n * (each + turns * _TURNED)


@functools.cache
def _two(n: int, rows: int, machine: _Machine) -> _Plan | None:
    """The best factors of ``n`` for two passes."""
    best: _Plan | None = None
    for a in range(2, n // 2 + 1):
        if n % a or a > 1 << 13 or n // a > 1 << 13:
            continue
        b = n // a
        cost = _pass_cost(a, b, rows, machine, 0) + 3.0 * rows * n / machine.lanes
        cost += _pass_cost(b, a, rows, machine, 1)
        if math.isfinite(cost) and (best is None or cost < best.cost):
            best = _Plan("two", cost, (a, b))
    return best


@functools.cache
def _plan(n: int, rows: int, inner: int, machine: _Machine) -> _Plan:
    """The way that takes the least time for transforms along the middle of [rows, n, inner]."""
    best = _smooth_plan(n, rows, inner, machine)
    found = radices(n, machine.registers)
    if (
        found is not None
        and math.isfinite(best.cost)
        and max(found, default=1) not in SUMMED_PRIMES
    ):
        return best
    for length in _smooth_lengths(2 * n - 1):
        both = 2 * _smooth_plan(length, rows, inner, machine).cost
        cost = both + _ELEMENTWISE * 3 * rows * inner * length / machine.lanes
        if cost < best.cost:
            best = _Plan("convolution", cost, (length,))
    return best


@functools.cache
def _smooth_plan(n: int, rows: int, inner: int, machine: _Machine) -> _Plan:
    if inner == 1:
        best = _Plan("pass", _pass_cost(n, rows, 1, machine, 2))
        two = _two(n, rows, machine) if n >= 4 * machine.lanes else None
        return two if two is not None and two.cost < best.cost else best
    return _Plan(
        "pass", min(_along_inner(n, rows, inner, machine), _along_rows(n, rows, inner, machine))
    )


def _along_inner(n: int, rows: int, inner: int, machine: _Machine) -> float:
    return _pass_cost(n, inner, rows, machine, 0)


def _along_rows(n: int, rows: int, inner: int, machine: _Machine) -> float:
    return _pass_cost(n, rows, inner, machine, 0) + _GATHERED * rows * n * inner / machine.lanes


def _smooth_lengths(least: int) -> Sequence[int]:
    """Lengths from ``least`` on, not much longer, that have small factors."""
    found = []
    for odd in (1, 3, 5, 7, 9, 15, 21, 25, 27, 35, 45, 49, 63, 75, 81):
        n = odd
        while n < least:
            n *= 2
        found.append(n)
    shortest = min(found)
    return sorted(n for n in found if n <= 1.35 * shortest)


class _Transform:
    def __init__(self, fft: Instruction, target: Target) -> None:
        self.fft = fft
        self.target = target
        self.kind: str = fft.attributes["fft_type"]
        self.lengths: tuple[int, ...] = fft.attributes["fft_length"]
        operand = fft.operands[0]
        self.cplx = C128 if operand.dtype.component.size == 8 else C64
        self.real = self.cplx.component
        size = self.real.size
        self.machine = _Machine(target.lane_count(size), size, kernel.registers_of(target))

    def result(self) -> Instruction | None:
        """None where a dimension is too long for these kernels."""
        inverse = self.kind in ("IFFT", "IRFFT")
        x = self.fft.operands[0]
        rank, count = len(x.dims), len(self.lengths)
        # The last factor of all dimensions is in the last pass.
        scale = 1.0 / math.prod(self.lengths) if inverse else 1.0
        axes = range(rank - count, rank)
        real = self.kind in ("RFFT", "IRFFT")  # of which the last dimension is another matter
        y: Instruction | None = x
        if self.kind == "RFFT":
            y = self.from_real(x, self.lengths[-1])
        for axis in reversed(axes[:-1] if real else axes):
            if y is None:
                return None
            last = axis == axes[0] and self.kind == "IFFT"
            n = self.lengths[axis - axes[0]]
            y = self.along(y, axis, n, inverse, scale if last else 1.0)
        if self.kind == "IRFFT" and y is not None:
            y = self.to_real(y, self.lengths[-1], scale)
        return y

    # ------------------------------------------------------------------------------------------------ complex arrays
    def along(
        self, x: Instruction, axis: int, n: int, inverse: bool, scale: float
    ) -> Instruction | None:
        """The transform of the complex ``x`` along one dimension."""
        rows, inner = math.prod(x.dims[:axis]), math.prod(x.dims[axis + 1 :])
        plan = _plan(n, rows, inner, self.machine)
        if math.isinf(plan.cost):
            return None
        flat = (rows, n, inner)
        if plan.way == "convolution":
            result = self.convolution(reshape(x, flat), plan.parts[0], inverse, scale)
            return None if result is None else reshape(result, x.dims)
        return self.passes(x, flat, inverse, scale, x.shape)

    def passes(
        self, x: Instruction, flat: tuple[int, int, int], inverse: bool, scale: float, shape: Any
    ) -> Instruction:
        """One or two passes along the middle of the complex numbers ``flat``, which ``x`` holds in whatever shape; the
        result has ``shape``.
        """
        rows, n, inner = flat
        plan = _smooth_plan(n, rows, inner, self.machine)
        config: dict[str, Any] = {
            "n": n,
            "form": "complex",
            "exchanged": (inverse, inverse),
            "scale": scale,
            "spread": 0,
            "whole": True,
        }
        if plan.way == "two":
            a, b = plan.parts
            whole = n <= _MOST_FACTORS
            first = config | {
                "n": a,
                "sizes": (rows, b),
                "source": (n, 1, b),
                "target": (n, 1, b),
                "exchanged": (inverse, False),
                "scale": 1.0,
                "spread": n,
                "whole": whole,
            }
            second = config | {
                "n": b,
                "sizes": (rows, a),
                "source": (n, b, 1),
                "target": (n, 1, a),
                "exchanged": (False, inverse),
            }
            between = Shape(self.cplx, (rows, a, b))
            return self.one(self.one(x, first, between), second, shape)
        if inner == 1:
            config |= {"sizes": (rows,), "source": (n, 1), "target": (n, 1)}
        elif _along_inner(n, rows, inner, self.machine) <= _along_rows(
            n, rows, inner, self.machine
        ):
            strides = (n * inner, 1, inner)
            config |= {"sizes": (rows, inner), "source": strides, "target": strides}
        else:
            strides = (1, n * inner, inner)
            config |= {"sizes": (inner, rows), "source": strides, "target": strides}
        return self.one(x, config, shape)

    def one(self, x: Instruction, config: dict[str, Any], shape: Any) -> Instruction:
        """A kernel."""
        length = kernel.inner_length(config)
        lanes, _ = _lanes(config["sizes"][-1], self.machine, length)
        config = config | {"lanes": lanes}
        table = constant(kernel.table(config, self.real, self.target))
        return Instruction(
            "fft-pass", shape, (x, table), {"config": config}, metadata=self.fft.metadata
        )

    def convolution(
        self, x: Instruction, length: int, inverse: bool, scale: float
    ) -> Instruction | None:
        """Bluestein's algorithm along the middle of the complex ``x``: j k = (j^2 + k^2 - (k - j)^2) / 2."""
        rows, n, inner = x.dims
        k = np.arange(n, dtype=object if n > 1 << 30 else np.int64)
        chirp = kernel.roots((k * k) % (2 * n), 2 * n).view(np.complex128)[..., 0]
        if inverse:
            chirp = chirp.conj()
        wrapped = np.zeros(length, np.complex128)
        wrapped[:n] = chirp.conj()
        wrapped[length - n + 1 :] = chirp.conj()[:0:-1]
        spectrum = np.fft.fft(wrapped) * (scale / length)
        x = self.times(x, chirp)
        zero = constant(np.zeros((), self.cplx.numpy))
        padding = {"low": (0, 0, 0), "high": (0, length - n, 0), "interior": (0, 0, 0)}
        shape = Shape(self.cplx, (rows, length, inner))
        x = Instruction("pad", shape, (x, zero), padding, metadata=self.fft.metadata)
        flat = (rows, length, inner)
        x = self.times(self.passes(x, flat, False, 1.0, shape), spectrum)
        x = self.part(self.passes(x, flat, True, 1.0, shape), 1, 0, n)
        return self.times(x, chirp)

    # --------------------------------------------------------------------------------------------------- real arrays
    def from_real(self, x: Instruction, n: int) -> Instruction | None:
        rows = math.prod(x.dims[:-1])
        columns = n // 2 + 1
        shape = Shape(self.cplx, (*x.dims[:-1], columns))
        half = n // 2 if n % 2 == 0 else n
        direct = _pass_cost(half, rows, 1, self.machine, 2)
        plan = _plan(half, rows, 1, self.machine)
        more = _LAUNCH + 4 * _ELEMENTWISE * rows * half / self.machine.lanes
        if direct <= plan.cost + more and math.isfinite(direct):
            config = {
                "n": n,
                "form": "from_real",
                "sizes": (rows,),
                "source": (half, 1),
                "target": (columns, 1),
                "exchanged": (False, False),
                "scale": 1.0,
                "spread": 0,
                "whole": True,
            }
            return self.one(x, config, shape)
        if math.isinf(plan.cost):
            return None
        flat = Shape(self.cplx, (rows, half))
        if n % 2:
            whole = Instruction("convert", Shape(self.cplx, (rows, n)), (reshape(x, (rows, n)),))
            y = self.along(whole, 1, n, False, 1.0)
            return None if y is None else reshape(self.part(y, 1, 0, columns), shape.dims)
        z: Instruction | None
        if plan.way == "convolution":
            pairs = reshape(x, (rows, half, 2))
            parts = [reshape(self.part(pairs, 2, p, p + 1), (rows, half)) for p in (0, 1)]
            z = self.along(Instruction("complex", flat, parts), 1, half, False, 1.0)
        else:
            z = self.passes(x, (rows, half, 1), False, 1.0, flat)
        if z is None:
            return None
        # X[k] = (Z[k] + conj Z[half - k]) / 2 + exp(-i pi k / half) (Z[k] - conj Z[half - k]) / 2i, for Z[half] = Z[0].
        z = self.join(z, self.part(z, 1, 0, 1), 1)
        other = self.conjugate(self.reversed(z))
        even = self.times(self.binary("add", z, other), np.full(columns, 0.5 + 0j))
        factors = -0.5j * kernel.roots(np.arange(columns), 2 * half).view(np.complex128)[..., 0]
        odd = self.times(self.binary("subtract", z, other), factors)
        return reshape(self.binary("add", even, odd), shape.dims)

    def to_real(self, x: Instruction, n: int, scale: float) -> Instruction | None:
        rows = math.prod(x.dims[:-1])
        columns = n // 2 + 1
        shape = Shape(self.real, (*x.dims[:-1], n))
        half = n // 2 if n % 2 == 0 else n
        if n % 2 == 0:
            scale *= 2.0  # a transform of half the length
        direct = _pass_cost(half, rows, 1, self.machine, 2)
        plan = _plan(half, rows, 1, self.machine)
        more = _LAUNCH + 4 * _ELEMENTWISE * rows * half / self.machine.lanes
        if direct <= plan.cost + more and math.isfinite(direct):
            config = {
                "n": n,
                "form": "to_real",
                "sizes": (rows,),
                "source": (columns, 1),
                "target": (half, 1),
                "exchanged": (True, True),
                "scale": scale,
                "spread": 0,
                "whole": True,
            }
            return self.one(x, config, shape)
        if math.isinf(plan.cost):
            return None
        x = reshape(x, (rows, columns))
        # Imaginary parts that a real signal cannot have are ignored.
        may = np.ones(columns, bool)
        may[0] = False
        if n % 2 == 0:
            may[-1] = False
        reals = self.parts(x, "real")
        zeros = broadcast(constant(np.zeros((), self.real.numpy)), x.dims)
        mask = broadcast(constant(may), x.dims, (1,))
        imaginary = Instruction("select", reals.shape, (mask, self.parts(x, "imag"), zeros))
        x = Instruction("complex", x.shape, (reals, imaginary))
        if n % 2:
            other = self.reversed(self.conjugate(self.part(x, 1, 1, columns)))
            y = self.along(self.join(x, other, 1), 1, n, True, scale)
            return None if y is None else reshape(self.parts(y, "real"), shape.dims)
        other = self.part(self.conjugate(self.reversed(x)), 1, 0, half)
        x = self.part(x, 1, 0, half)
        factors = 0.5j * kernel.roots(-np.arange(half), 2 * half).view(np.complex128)[..., 0]
        even = self.times(self.binary("add", x, other), np.full(half, 0.5 + 0j))
        z = self.binary("add", even, self.times(self.binary("subtract", x, other), factors))
        if plan.way != "convolution":
            return self.passes(z, (rows, half, 1), True, scale, shape)
        y = self.along(z, 1, half, True, scale)
        if y is None:
            return None
        reals, others = (reshape(self.parts(y, part), (rows, half, 1)) for part in ("real", "imag"))
        return reshape(self.join(reals, others, 2), shape.dims)

    # -------------------------------------------------------------------------------------------------- instructions
    def binary(self, opcode: str, a: Instruction, b: Instruction) -> Instruction:
        return Instruction(opcode, a.shape, (a, b), metadata=self.fft.metadata)

    def times(self, x: Instruction, factors: np.ndarray) -> Instruction:
        """``x`` by factors along its dimension 1."""
        values = constant(factors.astype(self.cplx.numpy))
        return self.binary("multiply", x, broadcast(values, x.dims, (1,)))

    def part(self, x: Instruction, dimension: int, start: int, stop: int) -> Instruction:
        """The places [start, stop) of a dimension."""
        starts = tuple(start if d == dimension else 0 for d in range(len(x.dims)))
        limits = tuple(stop if d == dimension else n for d, n in enumerate(x.dims))
        dims = tuple(b - a for a, b in zip(starts, limits, strict=True))
        bounds = {"starts": starts, "limits": limits, "strides": (1,) * len(dims)}
        return Instruction("slice", Shape(x.dtype, dims), (x,), bounds, metadata=self.fft.metadata)

    def join(self, a: Instruction, b: Instruction, dimension: int) -> Instruction:
        dims = list(a.dims)
        dims[dimension] += b.dims[dimension]
        shape = Shape(a.dtype, tuple(dims))
        return Instruction("concatenate", shape, (a, b), {"dimension": dimension})

    def reversed(self, x: Instruction) -> Instruction:
        return Instruction("reverse", x.shape, (x,), {"dimensions": (1,)})

    def parts(self, x: Instruction, part: str) -> Instruction:
        """The real or imaginary parts."""
        return Instruction(part, Shape(self.real, x.dims), (x,))

    def conjugate(self, x: Instruction) -> Instruction:
        imaginary = self.parts(x, "imag")
        negative = Instruction("negate", imaginary.shape, (imaginary,))
        return Instruction("complex", x.shape, (self.parts(x, "real"), negative))
