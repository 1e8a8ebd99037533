"""Fourier transforms as generated kernels.

A transform of several dimensions is one along each. One along a dimension of length n is, by what takes the least time,

* an ``fft-pass`` (:mod:`...codegen.kernels.fft`), if the prime factors of n are small and its numbers, as many times as
  vectors have lanes, leave room for others in the nearer caches;
* two of them for n = a * b (D. H. Bailey, FFTs in external or hierarchical memory, 1990): transforms of length a along
  the columns of the a by b matrix, multiplied by exp(-2 pi i k l / n), and of length b along its rows, with the result
  turned. So one row fills vectors too, and long ones stay in the caches;
* a convolution of another length, with two transforms, if n has larger prime factors (L. Bluestein, A linear filtering
  approach to the computation of discrete Fourier transform, 1970), or of length n - 1, if n is a prime (C. M. Rader,
  Discrete Fourier transforms when the number of data samples is prime, 1968), where rows that fill vectors are done
  together: the order in which it takes a row's numbers costs nothing then.

Two dimensions of matrices that the nearer caches hold are one kernel, which reads and writes memory once.

Real arrays whose kernels are not made for them take the way of complex ones of half the length, or of the same one if
it is odd. What is multiplied, padded and cut on these ways are instructions like any others, to be fused.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...codegen.kernels import fft_lengths, fft_tables
from ...codegen.kernels.butterflies import SUMMED_PRIMES
from ...ir.dtypes import C64, C128
from ...ir.hlo import Instruction, Shape, broadcast, constant
from ...ir.moves import concatenate, cut, pad
from ...ir.patterns import reshape

if TYPE_CHECKING:
    from ...targets.target import Target

_LONGEST: Final = 1 << 24  # numbers
_LONGEST_PASS: Final = 1 << 13  # whose numbers are on the stack
# How many times as long as another way one may take that counts as long: sums in another order are rounded differently.
_SAME: Final = 1 + 1e-9
# Numbers of a table that has one for each group and each number of a transform.
_LONGEST_PRODUCTS: Final = 1 << 18
# Bytes of all factors of an instruction. They lie in the artifact, and NumPy takes a few times as many to compute them;
# the library call computes its own where the program runs. In f32, complex transforms stay below with all lengths of
# small factors, real ones with up to a million numbers, and convolutions with up to some 260,000.
_LARGEST_TABLES: Final = 8 << 20


@dataclass(frozen=True)
class _Plan:
    """How to do some transforms. ``way``: "pass", "two", "convolution", "cyclic" (that of a prime length, a row in each
    lane) or "real"; ``parts``: a and b, or the length of the convolution; ``cost``: vector instructions for all.
    """

    way: str
    cost: float
    parts: tuple[int, ...] = ()


def generate(fft: Instruction, target: Target) -> Instruction | None:
    """Kernels that compute ``fft`` (not an empty one), or None if there are none for it on this target, or if their
    factors would make the artifact large.
    """
    if not target.packs_products:
        return None
    if any(n > _LONGEST for n in fft.attributes["fft_length"]):
        return None
    try:
        return _Transform(fft, target).result()
    except _LargeTablesError:
        return None


@dataclass(frozen=True, order=True)
class Line:
    """A dimension along which transforms, or the numbers of one, lie: how many places it has, and how far apart these
    are in the operand and in the result, in elements.
    """

    source: int
    target: int
    size: int


def strided(
    fft: Instruction,
    x: Instruction,
    shape: Shape,
    lines: Sequence[Line],
    steps: Line,
    target: Target,
) -> Instruction:
    """The kernel of the one-dimensional transforms ``fft``, which reads numbers where they lie in ``x`` and writes a
    result of ``shape``: the transforms lie along ``lines``, and the numbers of each along ``steps``.
    """
    return _Transform(fft, target).strided(x, shape, lines, steps)


class _LargeTablesError(Exception):
    """The factors of a transform are more than an artifact should hold; none was computed past the bound."""


class Plans:
    """The choice of ways for numbers whose parts have ``size`` bytes."""

    def __init__(self, target: Target, size: int) -> None:
        self.target = target
        self.size = size
        self.most_lanes = target.lane_count(size)
        self.costs = target.costs.transforms

    def lanes(self, m: int, n: int) -> tuple[int, float]:
        """How many of ``m`` transforms of length ``n`` to do at a time, and the time of all, relative to that of a
        vector of all lanes. (0, infinity) if their numbers are too many for the stack.
        """
        best = 0, math.inf
        for number, width in enumerate(self.costs.widths):
            lanes = self.most_lanes >> number
            if not 1 <= lanes <= m:
                continue
            time = -(-m // lanes) * width
            if (
                time < best[1]
                and fft_lengths.stack_bytes(n, lanes, self.size) <= fft_lengths.LARGEST_STACK
            ):
                best = lanes, time
        return best

    def one_pass(self, n: int, m: int, others: int, more: float) -> float:
        """The time of ``m * others`` transforms of length ``n``, some of the ``m`` at a time, with ``more`` vector
        instructions for each number.
        """
        lanes, time = self.lanes(m, n)
        if not lanes or fft_lengths.radices_of(n, self.target) is None:
            return math.inf
        each = fft_lengths.vector_instructions(n, lanes, self.size, self.target)
        return self.costs.launch + time * others * n * (each + more)

    def rows(self, n: int, rows: int) -> float:
        """The time of transforms of rows that are contiguous."""
        return self.one_pass(n, rows, 1, 2 * self.costs.turned)

    def along_inner(self, n: int, rows: int, inner: int) -> float:
        return self.one_pass(n, inner, rows, 0.0)

    def along_rows(self, n: int, rows: int, inner: int) -> float:
        return self.one_pass(n, rows, inner, self.costs.gathered)

    def strided(self, kind: str, lines: Sequence[Line], steps: Line) -> tuple[float, int]:
        """The least time of transforms that lie along ``lines``, each of the numbers along ``steps``, and which line it
        is whose neighbours are in the lanes.
        """
        count = math.prod(line.size for line in lines)
        times = [self.lanes_along(kind, line, count // line.size, steps) for line in lines]
        best = min(times)
        return best, times.index(best)

    def lanes_along(self, kind: str, line: Line, others: int, steps: Line) -> float:
        """The time of transforms of the numbers along ``steps``, of which neighbours along ``line`` are in the lanes.
        Infinity where single numbers would be gathered, and real ones turned. Vectors of fewer lanes than all take as
        long as whole ones, since what the passes wait for is the stack.
        """
        is_real = kind in ("RFFT", "IRFFT")
        n = steps.size // 2 if is_real and steps.size % 2 == 0 else steps.size
        lanes, _ = self.lanes(line.size, n)
        if not lanes or fft_lengths.radices_of(n, self.target) is None:
            return math.inf
        places = ((line.source, steps.source), (line.target, steps.target))
        turned = sum(apart != 1 for apart, _ in places)
        if any(1 not in place for place in places) or (is_real and turned):
            return math.inf
        units = -(-line.size // lanes) * others
        each = fft_lengths.vector_instructions(n, lanes, self.size, self.target)
        each += turned * self.costs.turned + self.translated(kind, n, steps)
        return self.costs.launch + units * n * each

    def translated(self, kind: str, n: int, steps: Line) -> float:
        """The vector instructions for each of ``n`` numbers along ``steps`` in whose time the addresses of pages are
        found, where each element is on another one, and there are more of them than addresses at hand.
        """
        forms = ("RFFT", steps.source), ("IRFFT", steps.target)
        pages = 0
        for real, step in forms:
            parts = 1 if kind == real else 2
            if step * parts * self.size >= fft_lengths.PAGE:
                pages += steps.size if kind == real else n
        if pages <= self.costs.pages:
            return 0.0
        return self.costs.far * self.target.costs.memory.line * pages / n

    def along_last(self, kind: str, n: int, rows: int) -> float:
        """The time of one-dimensional transforms of rows that are contiguous."""
        if kind in ("FFT", "IFFT"):
            return self.best(n, rows, 1).cost
        half, plan = self.real(n, rows)
        return plan.cost + (self.elementwise(4 * rows * half) if plan.way != "real" else 0)

    def moved(self, numbers: int) -> float:
        """The time of a transpose, whose elements are moved one by one, however long they are."""
        return self.costs.launch + self.costs.gathered * numbers / self.target.lane_count(4)

    def matrices(self, kind: str, a: int, n: int, count: int) -> float:
        """The time of the transforms of both dimensions of ``count`` matrices, of which the kernel takes one at a time
        and each is ``a`` rows of length ``n``, or infinity.
        """
        columns = n // 2 + 1 if "R" in kind else n
        length = n // 2 if "R" in kind and n % 2 == 0 else n
        if 2 * a * self.padded(columns) * self.size > self.costs.matrix:
            return math.inf
        if count < self.target.costs.threads.units and a * columns > self.costs.short:
            return math.inf
        both = self.one_pass(length, a, count, 2 * self.costs.turned)
        return both + self.one_pass(a, columns, count, 0.0) - self.costs.launch

    def padded(self, columns: int) -> int:
        """The complex numbers from row to row of a matrix on the stack: an odd number of lines of memory, so that rows
        do not compete for few places in the caches.
        """
        line = self.target.costs.memory.line // (2 * self.size)
        return (-(-columns // line) | 1) * line

    def between(self, kind: str, a: int, n: int, count: int) -> float:
        """The time in which what is between two kernels is written and read."""
        numbers = count * a * (n // 2 + 1 if "R" in kind else n)
        size = 2 * 2 * self.size * numbers
        return self.elementwise(numbers) + (
            self.costs.far * size if size > self.costs.matrix else 0
        )

    def apart(self, kind: str, a: int, n: int, count: int) -> float:
        """As :meth:`matrices` with a kernel for each dimension."""
        columns = n // 2 + 1 if "R" in kind else n
        return self.along_last(kind, n, count * a) + self.best(a, count, columns).cost

    def elementwise(self, numbers: int) -> float:
        """The time of a kernel that multiplies, adds or moves ``numbers``."""
        return self.costs.launch + self.costs.elementwise * numbers / self.most_lanes

    def stays_near(self, n: int, rows: int) -> bool:
        """Whether both passes over a row are in one kernel: its numbers fit the stack, and there are enough rows for
        all threads, or the transforms are short.
        """
        fits = 2 * n * self.size <= fft_lengths.LARGEST_STACK // 2
        return fits and (rows >= self.target.costs.threads.units or n <= self.costs.short)

    def convolves_near(self, n: int, length: int) -> bool:
        """Whether a convolution of ``n`` numbers, with three arrays of this length, fits the stack beside the passes'
        numbers. The kernel goes over the n numbers, and the zeros behind them, in whole vectors.
        """
        if n < self.most_lanes:
            return False
        fits = 3 * 2 * length * self.size <= fft_lengths.LARGEST_STACK // 2
        return fits and bool(self.two(length, 1).parts)

    @property
    def has_long_columns(self) -> bool:
        """Whether of two factors the longer one is that of the columns: shorter rows turn less of the stack. With
        vectors of 32 bytes less is turned, and long rows, whose results lie nearer each other, are faster.
        """
        return self.target.vector_bytes != 32

    def two(self, n: int, rows: int) -> _Plan:
        """The best factors of ``n`` for two passes."""
        best = _Plan("two", math.inf)
        for a, b in _pairs(n):
            cost = self.one_pass(a, b, rows, self.costs.multiplied)
            cost += self.one_pass(b, a, rows, self.costs.turned)
            if self.stays_near(n, rows):
                cost -= self.costs.launch
            if not math.isfinite(cost):
                continue
            # Of a b and b a, which cost the same, one is faster (:meth:`has_long_columns`).
            is_other = self.has_long_columns and cost <= best.cost * _SAME
            if is_other or cost < best.cost / _SAME:
                best = _Plan("two", cost, (a, b))
        return best

    def smooth(self, n: int, rows: int, inner: int) -> _Plan:
        """The best way of those that need small factors, for the middle of [rows, n, inner]."""
        if inner > 1:
            cost = min(self.along_inner(n, rows, inner), self.along_rows(n, rows, inner))
            return _Plan("pass", cost)
        best = _Plan("pass", self.rows(n, rows))
        if n < 4 * self.most_lanes:
            return best
        two = self.two(n, rows)
        return two if two.cost < best.cost else best

    def best(self, n: int, rows: int, inner: int) -> _Plan:
        """The way that takes the least time for transforms along the middle of [rows, n, inner]."""
        best = self.smooth(n, rows, inner)
        found = fft_lengths.radices_of(n, self.target) or (n,)
        if math.isfinite(best.cost) and not any(radix in SUMMED_PRIMES for radix in found):
            return best
        for length in _smooth_lengths(2 * n - 1):
            product = self.elementwise(rows * inner * length)
            cost = 2 * (product + self.smooth(length, rows, inner).cost) + product
            if cost < best.cost:
                best = _Plan("convolution", cost, (length,))
        if found == (n,) and inner == 1 and _is_prime(n) and self.convolves_near(n, n - 1):
            # Each number is moved alone before and after.
            product = self.elementwise(rows * n)
            cost = 2 * self.smooth(n - 1, rows, 1).cost + product + self.costs.alone * rows * n
            if cost < best.cost:
                best = _Plan("convolution", cost, (n - 1,))
        if found == (n,) and inner == 1 and _is_prime(n):
            cost = self.cyclic(n, rows)
            if best.way == "convolution":
                cost *= self.costs.together
            if cost < best.cost:
                best = _Plan("cyclic", cost, (n - 1,))
        return best

    def cyclic(self, n: int, rows: int) -> float:
        """The time of transforms of ``rows`` of a prime length ``n`` by convolutions, a row in each lane. What is read,
        and what is written, goes through the stack, where it is in another order.
        """
        length = n - 1
        lanes, time = self.lanes(rows, length)
        if not lanes or fft_lengths.radices_of(length, self.target) is None:
            return math.inf
        each = fft_lengths.vector_instructions(length, lanes, self.size, self.target)
        each += self.costs.turned + self.costs.multiplied + 2 * self.costs.through
        return self.costs.launch + 2 * time * length * each

    def real(self, n: int, rows: int) -> tuple[int, _Plan]:
        """The length of the complex transforms that those of ``rows`` of ``n`` real numbers become, and the way: "real"
        is a pass that reads or writes the real numbers itself.
        """
        half = n // 2 if n % 2 == 0 else n
        direct = self.rows(half, rows)
        plan = self.best(half, rows, 1)
        more = self.elementwise(4 * rows * half)
        if math.isfinite(direct) and direct <= plan.cost + more:
            return half, _Plan("real", direct)
        return half, plan


@cache
def _pairs(n: int) -> Sequence[tuple[int, int]]:
    """All a and b with a * b = ``n`` that a pass can do."""
    smaller = range(2, min(n // 2, _LONGEST_PASS) + 1)
    return [(a, n // a) for a in smaller if n % a == 0 and n // a <= _LONGEST_PASS]


def _is_prime(n: int) -> bool:
    return n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1))


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
        self.plans = Plans(target, self.real.size)
        self.tables: dict[tuple[object, ...], Instruction] = {}
        self.held = 0

    def result(self) -> Instruction | None:
        """None where a dimension is too long for these kernels."""
        inverse = self.kind in ("IFFT", "IRFFT")
        x = self.fft.operands[0]
        rank, count = len(x.dims), len(self.lengths)
        # The last factor of all dimensions is in the last pass.
        scale = 1.0 / math.prod(self.lengths) if inverse else 1.0
        axes = range(rank - count, rank)
        real = self.kind in ("RFFT", "IRFFT")  # of which the last dimension is another matter
        both = count > 1 and self.are_near()  # the last two dimensions at once
        outer = axes[: -2 if both else -1] if both or real else axes
        y: Instruction | None = x
        if both and self.kind != "IRFFT":
            y = self.matrices(x, scale if count == 2 else 1.0)
        elif self.kind == "RFFT":
            y = self.from_real(x, self.lengths[-1])
        for axis in reversed(outer):
            if y is None:
                return None
            last = axis == axes[0] and self.kind == "IFFT"
            n = self.lengths[axis - axes[0]]
            y = self.along(y, axis, n, inverse, scale if last else 1.0)
        if self.kind == "IRFFT" and y is not None:
            if both:
                return self.matrices(y, scale)
            y = self.to_real(y, self.lengths[-1], scale)
        return y

    # ------------------------------------------------------------------------------------------------ two dimensions
    def are_near(self) -> bool:
        """Whether the transforms of the last two dimensions are one kernel, which does a matrix in the caches: what is
        between them need not go through memory.
        """
        (*outer, _, _), (*_, a, n) = self.fft.dims, self.lengths
        size = self.kind, a, n, math.prod(outer)
        near = self.plans.matrices(*size)
        return math.isfinite(near) and near <= self.plans.apart(*size) + self.plans.between(*size)

    def matrices(self, x: Instruction, scale: float) -> Instruction:
        """The transforms of the last two dimensions."""
        *_, a, n = self.lengths
        real = self.kind in ("RFFT", "IRFFT")
        inverse = self.kind in ("IFFT", "IRFFT")
        columns = n // 2 + 1 if real else n
        padded = self.plans.padded(columns)
        count = math.prod(x.dims[:-2])
        # Strides of real arrays of an even length are those of pairs.
        length = n // 2 if real and n % 2 == 0 else n
        along_rows = self.config(n, inverse, 1.0) | {
            "sizes": (a,),
            "source": (length, 1),
            "target": (padded, 1),
        }
        along_columns = self.config(a, inverse, scale) | {
            "sizes": (columns,),
            "source": (1, padded),
            "target": (1, columns),
        }
        form = {"RFFT": "from_real", "IRFFT": "to_real"}.get(self.kind, "complex")
        halves = (along_rows | {"form": form}, along_columns)
        cplx, real_ = self.cplx, self.real
        shape = Shape(cplx, (*x.dims[:-1], columns))
        if self.kind == "IRFFT":
            if n % 2 == 0:
                scale *= 2.0  # a transform of half the length
            along_columns |= {"scale": 1.0, "source": (1, columns), "target": (1, padded)}
            along_rows |= {"scale": scale, "form": form, "source": (padded, 1)}
            halves = (along_columns, along_rows | {"target": (length, 1)})
            shape = Shape(real_, (*x.dims[:-1], n))
        config = self.config(a * n, inverse, scale) | {
            "form": form,
            "sizes": (count,),
            "halves": tuple(self.with_lanes(half) for half in halves),
            "between": a * padded,
        }
        return self.kernel(x, config, shape)

    # ------------------------------------------------------------------------------------------------ complex arrays
    def along(
        self, x: Instruction, axis: int, n: int, inverse: bool, scale: float
    ) -> Instruction | None:
        """The transform of the complex ``x`` along one dimension."""
        rows, inner = math.prod(x.dims[:axis]), math.prod(x.dims[axis + 1 :])
        plan = self.plans.best(n, rows, inner)
        if math.isinf(plan.cost):
            return None
        flat = (rows, n, inner)
        if plan.way == "convolution":
            result = self.convolution(reshape(x, flat), plan.parts[0], inverse, scale)
            return None if result is None else reshape(result, x.dims)
        if plan.way == "cyclic":
            return self.cyclic(x, n, rows, inverse, scale)
        return self.passes(x, flat, inverse, scale, x.shape)

    def passes(
        self, x: Instruction, flat: tuple[int, int, int], inverse: bool, scale: float, shape: Any
    ) -> Instruction:
        """One or two passes along the middle of the complex numbers ``flat``, which ``x`` holds in whatever shape; the
        result has ``shape``.
        """
        rows, n, inner = flat
        plan = self.plans.smooth(n, rows, inner)
        config = self.config(n, inverse, scale)
        if plan.way == "two":
            first, second = self.halves(n, rows, inverse, scale)
            if self.plans.stays_near(n, rows):
                return self.kernel(x, config | {"sizes": (rows,), "halves": (first, second)}, shape)
            a, b = plan.parts
            first |= {"sizes": (rows, b), "source": (n, 1, b), "target": (n, 1, b)}
            second |= {"sizes": (rows, a), "source": (n, b, 1), "target": (n, 1, a)}
            between = Shape(self.cplx, (rows, a, b))
            return self.kernel(self.kernel(x, first, between), second, shape)
        if inner == 1:
            config |= {"sizes": (rows,), "source": (n, 1), "target": (n, 1)}
        elif self.plans.along_inner(n, rows, inner) <= self.plans.along_rows(n, rows, inner):
            strides = (n * inner, 1, inner)
            config |= {"sizes": (rows, inner), "source": strides, "target": strides}
        else:
            strides = (1, n * inner, inner)
            config |= {"sizes": (inner, rows), "source": strides, "target": strides}
        return self.one(x, config, shape)

    def strided(
        self, x: Instruction, shape: Shape, lines: Sequence[Line], steps: Line
    ) -> Instruction:
        """One pass over numbers wherever they lie."""
        n, inverse = steps.size, self.kind in ("IFFT", "IRFFT")
        _, lanes = self.plans.strided(self.kind, lines, steps)
        order = [*lines[:lanes], *lines[lanes + 1 :], lines[lanes]]
        # Real ones of an even length are transforms of half of it.
        scale = (2.0 if self.kind == "IRFFT" and n % 2 == 0 else 1.0) / n if inverse else 1.0
        config = self.config(n, inverse, scale) | {
            "sizes": tuple(line.size for line in order),
            "source": (*(line.source for line in order), steps.source),
            "target": (*(line.target for line in order), steps.target),
        }
        if self.kind in ("RFFT", "IRFFT"):
            form = "from_real" if self.kind == "RFFT" else "to_real"
            config |= {"form": form, "columns": True}
        return self.one(x, config, shape)

    def config(self, n: int, inverse: bool, scale: float) -> dict[str, Any]:
        """The configuration of a complex transform, as far as its place in memory does not matter."""
        return {
            "n": n,
            "form": "complex",
            "exchanged": (inverse, inverse),
            "scale": scale,
            "spread": 0,
            "products": 1,
        }

    def halves(
        self, n: int, rows: int, inverse: bool, scale: float = 1.0
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        """The configurations of two passes over a row of ``n`` numbers."""
        a, b = self.plans.two(n, rows).parts
        lanes, _ = self.plans.lanes(b, a)
        products = 3 if 2 * a * -(-b // lanes) > _LONGEST_PRODUCTS else 2
        first = self.config(a, inverse, 1.0) | {
            "sizes": (b,),
            "source": (1, b),
            "target": (1, b),
            "exchanged": (inverse, False),
            "spread": n,
            "products": 1 if n <= self.plans.costs.whole else products,
        }
        second = self.config(b, inverse, scale) | {
            "sizes": (a,),
            "source": (b, 1),
            "target": (1, a),
            "exchanged": (False, inverse),
        }
        return self.with_lanes(first), self.with_lanes(second)

    def with_lanes(self, config: dict[str, Any]) -> dict[str, Any]:
        lanes, _ = self.plans.lanes(config["sizes"][-1], fft_lengths.inner_length(config))
        return config | {"lanes": lanes}

    def one(self, x: Instruction, config: dict[str, Any], shape: Any) -> Instruction:
        """A kernel of one pass."""
        return self.kernel(x, self.with_lanes(config), shape)

    def kernel(self, x: Instruction, config: dict[str, Any], shape: Any) -> Instruction:
        table = self.table(config)
        return self.fft.derive("fft-pass", (x, table), {"config": config}, shape=shape)

    def table(self, config: dict[str, Any]) -> Instruction:
        """The factors of a kernel: one constant for all kernels of this transform that have the same."""
        one = config.get("halves", (config.get("pass", config),))
        deciding = ("n", "form", "spread", "products", "lanes")
        key: tuple[object, ...] = tuple((*(c[k] for k in deciding), c["sizes"][-1]) for c in one)
        if "length" in config:
            key += (config["n"], config["length"], config["exchanged"], config["scale"])
        if key not in self.tables:
            self.hold(fft_tables.table_elements(config, self.target) * self.real.size)
            self.tables[key] = constant(fft_tables.table(config, self.real, self.target))
        return self.tables[key]

    def hold(self, size: int) -> None:
        """Called before factors of ``size`` bytes are computed. Raises _LargeTablesError."""
        self.held += size
        if self.held > _LARGEST_TABLES:
            raise _LargeTablesError

    def cyclic(self, x: Instruction, n: int, rows: int, inverse: bool, scale: float) -> Instruction:
        """Rader's algorithm along the last dimension of the complex ``x``, a row in each lane."""
        lines = {"sizes": (rows,), "source": (n, 1), "target": (n, 1), "exchanged": (False, True)}
        one = self.with_lanes(self.config(n - 1, False, 1.0) | lines)
        config = self.config(n, inverse, scale) | {"sizes": (rows,), "length": n - 1, "pass": one}
        return self.kernel(x, config, x.shape)

    def convolution(
        self, x: Instruction, length: int, inverse: bool, scale: float
    ) -> Instruction | None:
        """Bluestein's algorithm along the middle of the complex ``x``."""
        rows, n, inner = x.dims
        if inner == 1 and self.plans.convolves_near(n, length):
            config = self.config(n, inverse, scale) | {"sizes": (rows,), "length": length}
            halves = (*self.halves(length, rows, False), *self.halves(length, rows, True))
            return self.kernel(x, config | {"halves": halves}, x.shape)
        self.hold((n + length) * self.cplx.size)
        factors, spectrum = fft_tables.chirps(n, length, inverse, scale)
        chirp = constant(factors.astype(self.cplx.numpy))
        x = self.times(x, chirp)
        zero = constant(0, self.cplx)
        shape = Shape(self.cplx, (rows, length, inner))
        x = pad(x, zero, (0, 0, 0), (0, length - n, 0), metadata=self.fft.metadata)
        flat = (rows, length, inner)
        transformed = self.passes(x, flat, False, 1.0, shape)
        x = self.times(transformed, constant(spectrum.astype(self.cplx.numpy)))
        x = self.part(self.passes(x, flat, True, 1.0, shape), 1, 0, n)
        return self.times(x, chirp)

    # --------------------------------------------------------------------------------------------------- real arrays
    def from_real(self, x: Instruction, n: int) -> Instruction | None:
        rows = math.prod(x.dims[:-1])
        columns = n // 2 + 1
        shape = Shape(self.cplx, (*x.dims[:-1], columns))
        half, plan = self.plans.real(n, rows)
        if plan.way == "real":
            strides = {"source": (half, 1), "target": (columns, 1)}
            config = self.config(n, False, 1.0) | {"form": "from_real", "sizes": (rows,)} | strides
            return self.one(x, config, shape)
        if math.isinf(plan.cost):
            return None
        flat = Shape(self.cplx, (rows, half))
        if n % 2:
            whole = Instruction("convert", Shape(self.cplx, (rows, n)), (reshape(x, (rows, n)),))
            y = self.along(whole, 1, n, False, 1.0)
            return None if y is None else reshape(self.part(y, 1, 0, columns), shape.dims)
        z: Instruction | None
        if plan.way not in ("pass", "two"):
            pairs = reshape(x, (rows, half, 2))
            parts = [reshape(self.part(pairs, 2, p, p + 1), (rows, half)) for p in (0, 1)]
            z = self.along(Instruction("complex", flat, parts), 1, half, False, 1.0)
        else:
            z = self.passes(x, (rows, half, 1), False, 1.0, flat)
        if z is None:
            return None
        # X[k] = (Z[k] + conj Z[half - k]) / 2 + exp(-i pi k / half) (Z[k] - conj Z[half - k]) / 2i, for Z[half] = Z[0].
        z = concatenate((z, self.part(z, 1, 0, 1)), 1)
        other = self.conjugate(self.reversed(z))
        even = self.half(self.binary("add", z, other))
        odd = self.times(self.binary("subtract", z, other), self.turns(-0.5j, half, columns))
        return reshape(self.binary("add", even, odd), shape.dims)

    def to_real(self, x: Instruction, n: int, scale: float) -> Instruction | None:
        rows = math.prod(x.dims[:-1])
        columns = n // 2 + 1
        shape = Shape(self.real, (*x.dims[:-1], n))
        half, plan = self.plans.real(n, rows)
        if n % 2 == 0:
            scale *= 2.0  # a transform of half the length
        if plan.way == "real":
            strides = {"source": (columns, 1), "target": (half, 1)}
            config = self.config(n, True, scale) | {"form": "to_real", "sizes": (rows,)} | strides
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
        zeros = broadcast(constant(0, self.real), x.dims)
        mask = broadcast(constant(may), x.dims, (1,))
        imaginary = Instruction("select", reals.shape, (mask, self.parts(x, "imag"), zeros))
        x = Instruction("complex", x.shape, (reals, imaginary))
        if n % 2:
            other = self.reversed(self.conjugate(self.part(x, 1, 1, columns)))
            y = self.along(concatenate((x, other), 1), 1, n, True, scale)
            return None if y is None else reshape(self.parts(y, "real"), shape.dims)
        other = self.part(self.conjugate(self.reversed(x)), 1, 0, half)
        x = self.part(x, 1, 0, half)
        even = self.half(self.binary("add", x, other))
        odd = self.times(self.binary("subtract", x, other), self.turns(0.5j, -half, half))
        z = self.binary("add", even, odd)
        if plan.way in ("pass", "two"):
            return self.passes(z, (rows, half, 1), True, scale, shape)
        y = self.along(z, 1, half, True, scale)
        if y is None:
            return None
        reals, others = (reshape(self.parts(y, part), (rows, half, 1)) for part in ("real", "imag"))
        return reshape(concatenate((reals, others), 2), shape.dims)

    # -------------------------------------------------------------------------------------------------- instructions
    def binary(self, opcode: str, a: Instruction, b: Instruction) -> Instruction:
        return self.fft.derive(opcode, (a, b), shape=a.shape)

    def times(self, x: Instruction, factors: Instruction) -> Instruction:
        """``x`` by factors along its dimension 1."""
        return self.binary("multiply", x, broadcast(factors, x.dims, (1,)))

    def half(self, x: Instruction) -> Instruction:
        """``x`` / 2."""
        value = constant(0.5, self.real)
        scale = broadcast(value, x.dims)
        parts = [self.binary("multiply", self.parts(x, p), scale) for p in ("real", "imag")]
        return self.fft.derive("complex", parts, shape=x.shape)

    def turns(self, factor: complex, half: int, count: int) -> Instruction:
        """factor * exp(-i pi k / half) for the first ``count`` k."""
        self.hold(count * self.cplx.size)
        numerators = np.arange(count) * (1 if half > 0 else -1)
        values = fft_tables.roots(numerators, 2 * abs(half)).view(np.complex128)[..., 0]
        return constant((factor * values).astype(self.cplx.numpy))

    def part(self, x: Instruction, dimension: int, start: int, stop: int) -> Instruction:
        """The places [start, stop) of a dimension."""
        return cut(x, dimension, start, stop, self.fft.metadata)

    def reversed(self, x: Instruction) -> Instruction:
        return Instruction("reverse", x.shape, (x,), {"dimensions": (1,)})

    def parts(self, x: Instruction, part: str) -> Instruction:
        """The real or imaginary parts."""
        return Instruction(part, Shape(self.real, x.dims), (x,))

    def conjugate(self, x: Instruction) -> Instruction:
        imaginary = self.parts(x, "imag")
        negative = Instruction("negate", imaginary.shape, (imaginary,))
        return Instruction("complex", x.shape, (self.parts(x, "real"), negative))
