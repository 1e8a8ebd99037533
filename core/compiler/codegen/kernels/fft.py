"""The "fft" kernel: Fourier transforms along one dimension, as many at a time as a vector has lanes.

Each number of a transform is a pair of vectors, its real and its imaginary parts in several transforms (`lanes`), so
that all steps are vector instructions without shuffles, whatever the length. The transforms of a unit of work are
neighbours along one dimension of the arrays (`lanes` consecutive ones; the last unit of a line begins early enough to
be full). Where that dimension is contiguous, numbers are read and written as whole vectors; where the transformed one
is, squares are turned in registers; else elements are gathered.

A length is a product of small ones (:func:`.butterflies.radices`), each a pass over the numbers, by Stockham's autosort
algorithm: from[stride * (p + rest * j) + q] to to[stride * (radix * p + k) + q]. Between passes numbers lie on the
stack. The first pass reads the operand, and the last one writes the result, where these are whole vectors.

Real rows of an even length n are taken for n / 2 complex numbers; of others the imaginary parts are zeros.

Attributes (``config``):

``n``               the length, in complex numbers if ``form`` is "complex", else in real ones
``form``            "complex"; "from_real" and "to_real": the real array is that of n, the complex one has n // 2 + 1
``lanes``           transforms at a time
``sizes``           of the dimensions along which the transforms lie; the last is that of the lanes
``source``          strides of these dimensions in the operand, and that of the transformed one, in its elements; those
                    of a real operand with even ``n`` are in pairs
``target``          likewise of the result
``exchanged``       whether real and imaginary parts are exchanged when they are read, and when they are written: an
                    inverse transform is a transform with both
``scale``           what the result is multiplied by
``spread``          0, or the length of a transform of which this is the first half (:mod:`...passes.library.fft`):
                    number k of transform l along the last dimension is multiplied by exp(-2 pi i k l / spread)
``products``        of how many numbers in the table each factor of ``spread`` is the product (:class:`_Table`)

The second operand is the table of factors, made by :func:`table`.

With ``halves``, two such configurations, a unit of work is a row of ``n`` contiguous complex numbers, and ``sizes`` the
number of rows: the first is the transform of the row's columns, the second that of its rows, and what is between them
stays on the stack. With ``between`` too, a unit is a matrix of ``n`` numbers, the halves are the transforms along its
dimensions, and so many complex numbers are between them. With ``length``, a row is a convolution of that length, and
``halves`` are four, those of its transform and of the inverse one, which have one table. The convolution is C. M.
Rader's if its length is n - 1, for a prime n, else L. Bluestein's.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from ...ir import dtypes
from .. import llvm_ir
from ..generator import Index
from ..llvm_ir import Value, i64
from ..representation import memory_type
from .butterflies import SUMMED_PRIMES, Butterflies, Complex, instructions, radices
from .emit import EmittedKernel, Frame, emitter
from .loops import count

if TYPE_CHECKING:
    from ...targets.target import Target

#: Bytes of numbers on the stack that one kernel may have: room for powers of two, with the number that the real forms
#: have besides.
LARGEST_STACK: Final = (1 << 18) + (1 << 12)
_PAGE: Final = 1 << 12


def registers_of(target: Target) -> int:
    """How many vectors the machine has."""
    return 16 if target.is_x86 and target.vector_bytes < 64 else 32


def radices_of(n: int, target: Target) -> tuple[int, ...] | None:
    """:func:`.butterflies.radices` on a target."""
    return radices(n, registers_of(target), target.costs.transforms)


def inner_length(config: Mapping[str, Any]) -> int:
    """The complex numbers that are transformed."""
    n: int = config["n"]
    return n // 2 if config["form"] != "complex" and n % 2 == 0 else n


def stack_bytes(n: int, lanes: int, size: int) -> int:
    """Bytes on the stack for transforms of ``n`` complex numbers with parts of ``size`` bytes."""
    return 2 * 2 * (n + 1) * lanes * size


# ------------------------------------------------------------------------------------------------------------- factors


def roots(numerators: np.ndarray, denominator: int) -> np.ndarray:
    """exp(-2 pi i numerators / denominator) in double precision, as [real, imaginary] along a last dimension."""
    # As butterflies.root: arguments of cos and sin at most pi / 4.
    eighths, rest = np.divmod(8 * (numerators % denominator), denominator)
    rest = np.where(eighths % 2, denominator - rest, rest)
    angle = np.pi / 4 * (rest / denominator)
    c, s = np.cos(angle), np.sin(angle)
    re = np.choose(eighths, [c, s, -s, -c, -c, -s, s, c])
    im = np.choose(eighths, [s, c, c, s, -s, -c, -c, -s])
    return np.stack([re, -im], -1)


def _factors(radix: int, rest: int) -> np.ndarray:
    """What the results of the transforms of a pass are multiplied by, but for the first of each."""
    return roots(np.outer(np.arange(rest), np.arange(1, radix)), radix * rest)


def _cosines(prime: int) -> np.ndarray:
    """The cosines and sines of a transform of prime length, for each result and each pair of terms."""
    half = np.arange(1, prime // 2 + 1)
    return roots(-np.outer(half, half), prime)


class _Stage(NamedTuple):
    """A pass. ``factors`` and ``sums``: the places of its factors, and of a long transform's cosines and sines."""

    radix: int
    rest: int
    stride: int
    factors: int = 0
    sums: int = 0


class _Table:
    """Where in the table the factors of each kind begin, in numbers. Nothing is computed before :meth:`values`.

    Factor k l of ``spread``, for transform l of a group that begins with l0, is one number, the product of those of
    k l0 and of k (l - l0), or, in the longest transforms, the latter by two numbers whose product is that of
    k l0 = high * step + low: for those tables of about sqrt(spread) numbers suffice.
    """

    def __init__(self, config: Mapping[str, Any], target: Target, place: int = 0) -> None:
        n = inner_length(config)
        self.parts: list[Callable[[], np.ndarray]] = []
        self.size = place  # in elements, with what stands before
        self.stages: list[_Stage] = []
        found = radices_of(n, target)
        assert found is not None
        rest, stride = n, 1
        for radix in found:
            rest //= radix
            count = 2 * (radix - 1) * rest if rest > 1 else 0
            place = self.add(count, functools.partial(_factors, radix, rest))
            sums = 0
            if radix in SUMMED_PRIMES:
                sums = self.add(2 * (radix // 2) ** 2, functools.partial(_cosines, radix))
            self.stages.append(_Stage(radix, rest, stride, place, sums))
            stride *= radix
        pairs = config["form"] != "complex" and config["n"] % 2 == 0
        self.halves = self.add(
            2 * (n // 2 + 1) if pairs else 0, lambda: roots(np.arange(n // 2 + 1), 2 * n)
        )
        spread, lanes, line = config["spread"], config["lanes"], config["sizes"][-1]
        self.first = self.second = self.low = self.shift = 0
        products = config["products"] if spread else 0
        if products == 1:
            self.first = self.add(
                2 * n * line,
                lambda: np.moveaxis(roots(np.outer(np.arange(n), np.arange(line)), spread), -1, 0),
            )
        elif products == 2:
            starts = np.minimum(np.arange(-(-line // lanes)) * lanes, line - lanes)
            self.first = self.add(
                2 * n * len(starts), lambda: roots(np.outer(starts, np.arange(n)), spread)
            )
        elif products == 3:
            self.shift = (spread.bit_length() + 1) // 2
            step = 1 << self.shift
            high = -(-spread // step)
            self.first = self.add(2 * high, lambda: roots(step * np.arange(high), spread))
            self.low = self.add(2 * step, lambda: roots(np.arange(step), spread))
        if products > 1:
            self.second = self.add(
                2 * n * lanes,
                lambda: np.moveaxis(roots(np.outer(np.arange(n), np.arange(lanes)), spread), -1, 1),
            )

    def add(self, size: int, make: Callable[[], np.ndarray]) -> int:
        place = self.size
        if size:
            self.parts.append(make)
        self.size += size
        return place

    def values(self) -> list[np.ndarray]:
        return [np.ravel(make()) for make in self.parts]


def _halves(config: Mapping[str, Any], target: Target) -> list[tuple[Mapping[str, Any], int]]:
    """The configurations of the passes of a kernel, and where in the table their factors begin."""
    first, second, *inverse = config["halves"]
    halves = [(first, 0), (second, _Table(first, target).size)]
    # The factors of an inverse transform are those of the transform: its numbers are exchanged.
    return halves + [(half, place) for half, (_, place) in zip(inverse, halves, strict=False)]


def _end_of_halves(config: Mapping[str, Any], target: Target) -> int:
    """Where in the table what follows on the factors of the passes begins."""
    last, place = _halves(config, target)[1]
    return _Table(last, target, place).size


def _tables(config: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    """The configurations whose factors are in the table of ``config``, one behind the other."""
    return config["halves"][:2] if "halves" in config else (config,)


def table_elements(config: Mapping[str, Any], target: Target) -> int:
    """How many numbers :func:`table` has, without computing one."""
    size = sum(_Table(half, target).size for half in _tables(config))
    if "length" in config:
        size += 2 * ((0 if _is_cyclic(config) else config["n"]) + config["length"])
    return max(1, size)


def table(config: Mapping[str, Any], dtype: dtypes.DType, target: Target) -> np.ndarray:
    """The factors that a kernel reads, rounded once to ``dtype``."""
    made = [values for half in _tables(config) for values in _Table(half, target).values()]
    if "length" in config:
        inverse, _ = config["exchanged"]
        arrays: Sequence[np.ndarray]
        if _is_cyclic(config):
            arrays = cycle(config["n"], inverse, config["scale"])[-1:]
        else:
            arrays = chirps(config["n"], config["length"], inverse, config["scale"])
        for factors in arrays:
            made += [factors.real, factors.imag]
    values = np.concatenate(made) if made else np.zeros(1)
    return values.astype(dtype.numpy)


def _is_cyclic(config: Mapping[str, Any]) -> bool:
    """Whether a convolution is that of a prime length, by the powers of a primitive root."""
    cyclic: bool = config["length"] < config["n"]
    return cyclic


def cycle(prime: int, inverse: bool, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What Rader's algorithm needs for a transform of ``prime`` numbers: which of them are convolved, in their order;
    which numbers of the result that gives; and what it multiplies their transform by (C. M. Rader, Discrete Fourier
    transforms when the number of data samples is prime, 1968).
    """
    length = prime - 1
    factors = [d for d in range(2, length + 1) if length % d == 0]
    root = next(g for g in range(2, prime) if all(pow(g, length // d, prime) > 1 for d in factors))
    order = np.array([pow(root, m, prime) for m in range(length)])
    results = np.roll(order[::-1], 1)  # the powers of the inverse
    terms = roots(results, prime).view(np.complex128)[..., 0]
    spectrum = np.fft.fft(terms.conj() if inverse else terms)
    return order, results, spectrum * (scale / length)


def chirps(n: int, length: int, inverse: bool, scale: float) -> tuple[np.ndarray, np.ndarray]:
    """What Bluestein's algorithm multiplies ``n`` numbers by, before and after a convolution of ``length``, and what it
    multiplies their transform by: j k = (j^2 + k^2 - (k - j)^2) / 2.
    """
    k = np.arange(n)
    chirp = roots((k * k) % (2 * n), 2 * n).view(np.complex128)[..., 0]
    if inverse:
        chirp = chirp.conj()
    wrapped = np.zeros(length, np.complex128)
    wrapped[:n] = chirp.conj()
    wrapped[length - n + 1 :] = chirp.conj()[:0:-1]
    return chirp, np.fft.fft(wrapped) * (scale / length)


def vector_instructions(n: int, lanes: int, size: int, target: Target) -> float:
    """Vector instructions for each number of transforms of length ``n``, roughly."""
    found = radices_of(n, target)
    assert found is not None
    costs = target.costs.transforms
    is_near = stack_bytes(n, lanes, size) <= target.costs.memory.panel
    through = costs.through if is_near else costs.far_through
    return costs.through + sum(instructions(radix) for radix in found) + through * (len(found) - 1)


# -------------------------------------------------------------------------------------------------------------- arrays


class _Numbers:
    """Complex numbers on the stack, vectors of real and of imaginary parts."""

    def __init__(self, kernel: _Fft, pointer: Value) -> None:
        self.kernel = kernel
        self.pointer = pointer

    def at(self, index: Value) -> Value:
        """The place of number ``index``."""
        k = self.kernel
        return k.b.gep(k.scalar, self.pointer, k.b.mul(index, i64(2 * k.lanes)))

    def load(self, place: Value, offset: int = 0) -> Complex:
        k = self.kernel
        address = [k.b.gep(k.scalar, place, i64((2 * offset + part) * k.lanes)) for part in (0, 1)]
        return Complex(*(k.b.load(k.type, a, k.align) for a in address))

    def store(self, place: Value, value: Complex, offset: int = 0) -> None:
        k = self.kernel
        for part in (0, 1):
            address = k.b.gep(k.scalar, place, i64((2 * offset + part) * k.lanes))
            k.b.store(value[part], address, k.align)


class _Lines:
    """Complex numbers of an array whose lanes are neighbours."""

    def __init__(self, kernel: _Fft, pointer: Value, step: int, exchanged: bool) -> None:
        self.kernel = kernel
        self.pointer = pointer
        self.step = step
        self.exchanged = exchanged

    def at(self, index: Value) -> Value:
        k = self.kernel
        return k.b.gep(k.scalar, self.pointer, k.b.mul(index, i64(2 * self.step)))

    def load(self, place: Value, offset: int = 0) -> Complex:
        k = self.kernel
        start = k.b.gep(k.scalar, place, i64(2 * self.step * offset))
        low = k.b.load(k.type, start, k.size)
        high = k.b.load(k.type, k.b.gep(k.scalar, start, i64(k.lanes)), k.size)
        return k.parted(low, high, self.exchanged)

    def prefetch(self, place: Value, offset: int = 0) -> None:
        """Ask for the numbers at the same place of the following unit."""
        k = self.kernel
        line = k.frame.target.costs.memory.line // k.size
        for ahead in range(2 * k.lanes, 4 * k.lanes, line):
            following = i64(2 * self.step * offset + ahead)
            k.b.prefetch(k.b.gep(k.scalar, place, following, inbounds=False))

    def store(self, place: Value, value: Complex, offset: int = 0) -> None:
        k = self.kernel
        start = k.b.gep(k.scalar, place, i64(2 * self.step * offset))
        low, high = k.joined(value, self.exchanged)
        k.b.store(low, start, k.size)
        k.b.store(high, k.b.gep(k.scalar, start, i64(k.lanes)), k.size)


# -------------------------------------------------------------------------------------------------------------- kernel


@emitter(collapsed=False)
def emit(frame: Frame) -> EmittedKernel:
    """The kernel of an ``fft-pass`` instruction."""
    config = frame.instruction.attributes["config"]
    if "length" in config:
        return _emit_convolution(frame, config)
    if "halves" in config:
        return _emit_both(frame, config)
    kernel = _Fft(frame, config)
    dims = [*kernel.sizes[:-1], kernel.groups]
    operand, result = (a.pointer for a in (frame.operands[0], frame.results[0]))

    def unit(index: Index) -> None:
        *outer, group = (c.base for c in index)
        kernel.unit(operand, result, outer, group)

    count(frame.generator, frame.begin, frame.end, dims, unit)
    return _finish(frame, math.prod(dims), kernel.nanoseconds)


def _emit_both(frame: Frame, config: Mapping[str, Any]) -> EmittedKernel:
    """A kernel whose units are rows or matrices: both halves of a transform, with the numbers between them on the
    stack.
    """
    b, (units,) = frame.builder, config["sizes"]
    first, second = _passes(frame, _halves(config, frame.target))
    between = b.alloca(first.scalar, 2 * config.get("between", config["n"]))

    def unit(index: Index) -> None:
        operand, result = (
            b.gep(
                first.scalar,
                a.pointer,
                b.mul(index[0].base, i64(a.shape.bytes // (units * first.size))),
            )
            for a in (frame.operands[0], frame.results[0])
        )
        for half, source, target in ((first, operand, between), (second, between, result)):
            with half.loop(half.groups) as group:
                half.unit(source, target, (), group)

    count(frame.generator, frame.begin, frame.end, [units], unit)
    each = sum(half.nanoseconds * half.groups for half in (first, second))
    return _finish(frame, units, each)


def _passes(frame: Frame, parts: Sequence[tuple[Mapping[str, Any], int]]) -> list[_Fft]:
    """Passes that are done one after the other, with one place on the stack for the numbers of all."""
    config, place = max(parts, key=lambda part: (inner_length(part[0]) + 1) * part[0]["lanes"])
    largest = _Fft(frame, config, place)
    return [
        largest if part is config else _Fft(frame, part, place, largest.stack)
        for part, place in parts
    ]


def _emit_convolution(frame: Frame, config: Mapping[str, Any]) -> EmittedKernel:
    """A kernel whose units are rows: a transform by a convolution, with all that it needs on the stack."""
    b, n, length, (rows,) = frame.builder, config["n"], config["length"], config["sizes"]
    convolution = _Convolution(frame, config)

    def unit(index: Index) -> None:
        place = b.mul(index[0].base, i64(2 * n))
        operand, result = (
            b.gep(convolution.scalar, a.pointer, place)
            for a in (frame.operands[0], frame.results[0])
        )
        (convolution.by_powers if length < n else convolution.by_chirps)(operand, result)

    count(frame.generator, frame.begin, frame.end, [rows], unit)
    each = sum(half.nanoseconds * half.groups for half in convolution.passes)
    return _finish(frame, rows, each)


class _Convolution:
    """Writes the transform of a row by a convolution."""

    def __init__(self, frame: Frame, config: Mapping[str, Any]) -> None:
        self.b = frame.builder
        self.config = config
        self.n, self.length = config["n"], config["length"]
        self.passes = _passes(frame, _halves(config, frame.target))
        self.widest = max(self.passes[:2], key=lambda half: half.lanes)
        self.scalar = self.widest.scalar
        self.arrays = [self.b.alloca(self.scalar, 2 * self.length) for _ in range(3)]
        self.factors = frame.operands[1].pointer
        self.place = _end_of_halves(config, frame.target)  # in the table, behind the passes'

    @contextmanager
    def blocks(self, size: int) -> Iterator[Value]:
        """The starts of vectors that cover [0, size)."""
        b, lanes = self.b, self.widest.lanes
        with self.widest.loop(-(-size // lanes)) as number:
            yield b.intrinsic("smin", [b.mul(number, i64(lanes)), i64(size - lanes)])

    def multiply(self, source: Value, target: Value, size: int, place: int) -> None:
        """``size`` numbers by the factors at ``place``."""
        b, any_ = self.b, self.widest
        read = _Lines(any_, source, 1, exchanged=False)
        written = _Lines(any_, target, 1, exchanged=False)
        with self.blocks(size) as index:
            factors = b.gep(self.scalar, self.factors, b.add(i64(place), index))
            parts = (b.gep(self.scalar, factors, i64(part * size)) for part in (0, 1))
            re, im = (b.load(any_.type, part, any_.size) for part in parts)
            value = any_.ops.times(read.load(read.at(index)), re, im)
            written.store(written.at(index), value)

    def transform(self, passes: list[_Fft], source: Value, target: Value) -> None:
        between = self.arrays[2]
        for half, from_, to in zip(passes, (source, between), (between, target), strict=True):
            with half.loop(half.groups) as group:
                half.unit(from_, to, (), group)

    def by_chirps(self, operand: Value, result: Value) -> None:
        """Bluestein's algorithm."""
        b, (one, two, _) = self.b, self.arrays
        n, length = self.n, self.length
        self.multiply(operand, one, n, self.place)
        with self.blocks(2 * (length - n)) as index:
            address = b.gep(self.scalar, one, b.add(index, i64(2 * n)))
            b.store(llvm_ir.zero(self.widest.type), address, self.widest.size)
        self.transform(self.passes[:2], one, two)
        self.multiply(two, one, length, self.place + 2 * n)
        self.transform(self.passes[2:], one, two)
        self.multiply(two, result, n, self.place)

    def by_powers(self, operand: Value, result: Value) -> None:
        """Rader's algorithm: number 0 apart, which is added to all results by the sum of all in the spectrum."""
        b, (one, two, _) = self.b, self.arrays
        inverse, _ = self.config["exchanged"]
        scale = llvm_ir.floating(self.scalar, self.config["scale"])
        order, results, _ = cycle(self.n, inverse, self.config["scale"])
        size = self.widest.size

        def parts(pointer: Value) -> list[Value]:
            return [b.gep(self.scalar, pointer, i64(part)) for part in (0, 1)]

        first = [b.load(self.scalar, part, size) for part in parts(operand)]
        self.move(operand, one, order, scattered=False)
        self.transform(self.passes[:2], one, two)
        self.multiply(two, one, self.length, self.place)
        for own, whole, spectrum, to in zip(
            first, parts(two), parts(one), parts(result), strict=True
        ):
            scaled = b.binary("fmul", own, scale)
            total = b.binary("fadd", own, b.load(self.scalar, whole, size))
            b.store(b.binary("fmul", total, scale), to, size)
            b.store(b.binary("fadd", b.load(self.scalar, spectrum, size), scaled), spectrum, size)
        self.transform(self.passes[2:], one, two)
        self.move(two, result, results, scattered=True)

    def move(self, source: Value, target: Value, places: np.ndarray, scattered: bool) -> None:
        """The numbers at ``places`` of ``source`` to ``target``, one behind the other. ``scattered``: the reverse."""
        b, size = self.b, self.widest.size
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


def _finish(frame: Frame, units: int, each: float) -> EmittedKernel:
    """The kernel, of units that take ``each`` nanoseconds."""
    nanoseconds = frame.target.costs.kernels.call + units * each
    return frame.finish(units, nanoseconds)


class _Fft:
    """Writes units of work of one pass, whose factors begin at ``place`` in the table. ``stack``: two arrays that are
    long enough for its numbers, or None for arrays of its own.
    """

    def __init__(
        self,
        frame: Frame,
        config: Mapping[str, Any],
        place: int = 0,
        stack: Sequence[Value] | None = None,
    ) -> None:
        self.frame = frame
        self.b = frame.builder
        self.config = config
        self.form: str = config["form"]
        self.real_length: int = config["n"]
        self.n = inner_length(config)
        self.pairs = self.form != "complex" and self.real_length % 2 == 0
        self.lanes: int = config["lanes"]
        self.sizes: tuple[int, ...] = config["sizes"]
        self.dtype = frame.operands[1].shape.dtype
        self.size = self.dtype.size
        self.scalar = memory_type(self.dtype)
        self.type = llvm_ir.vector(self.scalar, self.lanes)
        self.align = self.lanes * self.size
        self.table = _Table(config, frame.target, place)
        self.factors = frame.operands[1].pointer
        self.ops = Butterflies(self.b, self.type)
        self.exchanged_in, self.exchanged_out = config["exchanged"]
        self.scale: float = config["scale"]
        elements = 2 * (self.n + 1) * self.lanes
        self.stack = stack or [self.b.alloca(self.scalar, elements) for _ in range(2)]
        self.scratch = [_Numbers(self, pointer) for pointer in self.stack]
        # Each number is on another page: no CPU fetches it by itself.
        self.ahead = 2 * self.size * config["source"][-1] >= _PAGE
        self.groups = -(-self.sizes[-1] // self.lanes)
        each = vector_instructions(self.n, self.lanes, self.size, frame.target)
        transforms = frame.target.costs.transforms
        self.nanoseconds = transforms.unit + self.n * each * transforms.instruction

    def unit(self, operand: Value, result: Value, outer: Sequence[Value], group: Value) -> None:
        """Write a unit: group ``group`` of the last dimension, at ``outer`` in the others."""
        b = self.b
        self.group = group
        start = b.mul(group, i64(self.lanes))
        if self.sizes[-1] % self.lanes:
            start = b.intrinsic("smin", [start, i64(self.sizes[-1] - self.lanes)])
        self.start = start
        pointers = []
        real = (
            {"from_real": "source", "to_real": "target"}.get(self.form) if not self.pairs else None
        )
        for pointer, name in ((operand, "source"), (result, "target")):
            place: Value = i64(0)
            for value, stride in zip((*outer, start), self.config[name], strict=False):
                place = b.add(place, b.mul(value, i64(stride)))
            place = b.mul(place, i64(1 if name == real else 2))
            pointers.append(b.gep(self.scalar, pointer, place))
        self.from_, self.to = pointers
        *_, self.from_lane, self.from_step = self.config["source"]
        *_, self.to_lane, self.to_step = self.config["target"]
        source: Any = _Lines(self, self.from_, self.from_step, self.exchanged_in)
        target: Any = _Lines(self, self.to, self.to_step, self.exchanged_out)
        a, c = self.scratch
        if self.form != "complex" or self.from_lane != 1:
            self.read()
            source, a, c = a, c, a
        if self.form != "complex" or self.to_lane != 1:
            target = None
        stages = self.table.stages
        for number, stage in enumerate(stages):
            into = target if number == len(stages) - 1 and target is not None else a
            (self.run_sums if stage.radix in SUMMED_PRIMES else self.run)(stage, source, into)
            source, a, c = into, c, a
        if not stages:
            self.run(_Stage(1, 1, 1), source, a if target is None else target)
            source = a
        if target is None:
            self.write(source)

    @contextmanager
    def each(self, stage: _Stage) -> Iterator[tuple[Value, Value, Value]]:
        """The numbers of the first input and of the first output of each small transform of a pass, and the place of
        its factors.
        """
        b = self.b
        with self.loop(stage.rest) as p:
            place = b.add(i64(stage.factors), b.mul(p, i64(2 * (stage.radix - 1))))
            factors = b.gep(self.scalar, self.factors, place)
            with self.loop(stage.stride) as q:
                first = b.add(b.mul(p, i64(stage.stride)), q)
                yield first, b.add(b.mul(p, i64(stage.stride * stage.radix)), q), factors

    def run(self, stage: _Stage, source: Any, target: Any) -> None:
        """A pass over all numbers."""
        radix, rest, stride = stage[:3]
        with self.each(stage) as (index, result, factors):
            read = source.at(index)
            if isinstance(source, _Lines) and self.ahead:
                for j in range(radix):
                    source.prefetch(read, j * stride * rest)
            x = self.ops.transform([source.load(read, j * stride * rest) for j in range(radix)])
            written = target.at(result)
            for k, value in enumerate(x):
                if rest > 1 and k:
                    value = self.ops.times(value, *self.factor(factors, k - 1))
                if isinstance(target, _Lines):
                    value = self.finished(value, self.b.add(result, i64(k * stride)))
                target.store(written, value, k * stride)

    def run_sums(self, stage: _Stage, source: Any, target: Any) -> None:
        """A pass of transforms of a larger prime length n: sums of all products, a few results at a time."""
        b, ops = self.b, self.ops
        n, rest, stride = stage[:3]
        half = n // 2
        terms = _Numbers(self, b.alloca(self.scalar, 4 * half * self.lanes))
        together = 4 if registers_of(self.frame.target) > 16 else 2

        def put(value: Complex, k: Value, result: Value, factors: Value) -> None:
            if rest > 1:
                value = ops.times(
                    value, *self.factor(b.gep(self.scalar, factors, b.mul(k, i64(2))), -1)
                )
            place = b.add(result, b.mul(k, i64(stride)))
            if isinstance(target, _Lines):
                value = self.finished(value, place)
            target.store(target.at(place), value)

        def add_up(x: Complex, k: Value, count: int, result: Value, factors: Value) -> None:
            """Results k to k + count, and those of n minus these."""
            zero = llvm_ir.zero(self.type)
            table = b.add(b.mul(b.sub(k, i64(1)), i64(2 * half)), i64(stage.sums))
            initial = [x.re, x.im, zero, zero] * count
            with b.loop_carrying(i64(0), i64(half), 1, initial) as (j, carried, sums):
                pair = terms.at(b.mul(j, i64(2)))
                plus, minus = terms.load(pair), terms.load(pair, 1)
                place = b.gep(self.scalar, self.factors, b.add(table, b.mul(j, i64(2))))
                for m in range(count):
                    cosine, sine = self.factor(place, m * half)
                    even = ops.multiply_add(plus, cosine, Complex(*carried[4 * m : 4 * m + 2]))
                    odd = ops.multiply_add(minus, sine, Complex(*carried[4 * m + 2 : 4 * m + 4]))
                    carried[4 * m : 4 * m + 4] = [*even, *odd]
            for m in range(count):
                even, odd = Complex(*sums[4 * m : 4 * m + 2]), Complex(*sums[4 * m + 2 : 4 * m + 4])
                number = b.add(k, i64(m))
                put(ops.add_turned(even, odd), number, result, factors)
                put(ops.subtract_turned(even, odd), b.sub(i64(n), number), result, factors)

        with self.each(stage) as (index, result, factors):
            x = source.load(source.at(index))
            with b.loop_carrying(i64(1), i64(half + 1), 1, list(x)) as (j, carried, total):
                step = stride * rest
                low = source.load(source.at(b.add(index, b.mul(j, i64(step)))))
                high = source.load(source.at(b.add(index, b.mul(b.sub(i64(n), j), i64(step)))))
                pair = terms.at(b.mul(b.sub(j, i64(1)), i64(2)))
                plus = ops.add(low, high)
                terms.store(pair, plus)
                terms.store(pair, ops.subtract(low, high), 1)
                carried[:] = ops.add(Complex(*carried), plus)
            first = Complex(*total)
            if isinstance(target, _Lines):
                first = self.finished(first, result)
            target.store(target.at(result), first)
            main = half // together * together
            with b.loop(i64(1), i64(main + 1), together) as k:
                add_up(x, k, together, result, factors)
            if main < half:
                add_up(x, i64(main + 1), half - main, result, factors)

    def factor(self, place: Value, number: int = 0) -> tuple[Value, Value]:
        """Real and imaginary part of factor ``number`` at ``place``, in all lanes."""
        b = self.b
        addresses = (b.gep(self.scalar, place, i64(2 * number + part)) for part in (0, 1))
        loaded = [b.load(self.scalar, address, self.size) for address in addresses]
        return b.splat(loaded[0], self.lanes), b.splat(loaded[1], self.lanes)

    def number(self, start: int, index: Value) -> tuple[Value, Value]:
        """Factor ``index`` of those that begin at ``start`` in the table, in all lanes."""
        place = self.b.add(self.b.mul(index, i64(2)), i64(start))
        return self.factor(self.b.gep(self.scalar, self.factors, place))

    def finished(self, value: Complex, k: Value) -> Complex:
        """Number ``k`` of the result, with what it is multiplied by."""
        b, spread = self.b, self.config["spread"]
        products = self.config["products"] if spread else 0
        if products == 1:
            line = self.sizes[-1]
            place = b.add(b.add(i64(self.table.first), b.mul(k, i64(line))), self.start)
            address = b.gep(self.scalar, self.factors, place)
            re = b.load(self.type, address, self.size)
            im = b.load(self.type, b.gep(self.scalar, address, i64(self.n * line)), self.size)
            value = self.ops.times(value, re, im)
        elif products:
            if products == 2:
                place = b.add(b.mul(self.group, i64(self.n)), k)
                of_group = self.number(self.table.first, place)
            else:
                place, shift = b.mul(k, self.start), i64(self.table.shift)
                high = b.binary("lshr", place, shift)
                low = b.sub(place, b.binary("shl", high, shift))
                first = Complex(*self.number(self.table.first, high))
                of_group = self.ops.times(first, *self.number(self.table.low, low))
            place = b.add(b.mul(k, i64(2 * self.lanes)), i64(self.table.second))
            other = b.gep(self.scalar, self.factors, place)
            re, im = (
                b.load(self.type, b.gep(self.scalar, other, i64(m * self.lanes)), self.size)
                for m in (0, 1)
            )
            turned = self.ops.times(Complex(re, im), *of_group)
            value = self.ops.times(value, *turned)
        return self.scaled(value)

    def scaled(self, value: Complex) -> Complex:
        if self.scale == 1.0:
            return value
        return Complex(*(self.ops.scaled(part, self.scale) for part in value))

    @contextmanager
    def loop(self, count: int) -> Iterator[Value]:
        """A loop over [0, count); none for one."""
        if count == 1:
            yield i64(0)
            return
        with self.b.loop(i64(0), i64(count)) as index:
            yield index

    # ---------------------------------------------------------------------------------------------- reading, writing
    def read(self) -> None:
        """All numbers from the operand to the first array on the stack."""
        numbers = self.scratch[0]
        if self.form == "from_real" and not self.pairs:
            self.read_real(numbers)
            return
        length = self.n if self.form != "to_real" else self.real_length // 2 + 1
        # Real and imaginary parts are exchanged by what follows on these.
        exchanged = self.exchanged_in and self.form == "complex"
        with self.blocks(length, max(1, self.lanes // 2), self.from_step) as (index, width):
            loaded = self.read_block(index, width, exchanged)
            place = numbers.at(index)
            for offset, value in enumerate(loaded):
                numbers.store(place, value, offset)
        if self.form == "to_real":
            (self.to_pairs if self.pairs else self.mirror)(numbers)

    def write(self, numbers: _Numbers) -> None:
        """All numbers to the result."""
        if self.form == "to_real" and not self.pairs:
            self.write_real(numbers)
            return
        if self.form == "from_real" and self.pairs:
            self.from_pairs(numbers)
        length = self.n if self.form != "from_real" else self.real_length // 2 + 1
        with self.blocks(length, max(1, self.lanes // 2), self.to_step) as (index, width):
            place = numbers.at(index)
            values = [self.scaled(numbers.load(place, offset)) for offset in range(width)]
            self.write_block(index, values)

    @contextmanager
    def blocks(self, length: int, width: int, step: int) -> Iterator[tuple[Value, int]]:
        """Blocks of ``width`` numbers, or of 1, that cover [0, length)."""
        b = self.b
        if step != 1 or length < width:
            with self.loop(length) as index:
                yield index, 1
            return
        with self.loop(-(-length // width)) as number:
            index = b.mul(number, i64(width))
            if length % width:
                index = b.intrinsic("smin", [index, i64(length - width)])
            yield index, width

    def read_block(self, index: Value, width: int, exchanged: bool) -> list[Complex]:
        """Numbers [index, index + width) of all lanes."""
        b, lanes = self.b, self.lanes
        first = b.gep(self.scalar, self.from_, b.mul(index, i64(2 * self.from_step)))
        if width == 1 and lanes > 2:
            parts = [self.gather(first, part, 2 * self.from_lane) for part in (0, 1)]
            return [Complex(*(reversed(parts) if exchanged else parts))]
        lines = [
            b.load(self.type, b.gep(self.scalar, first, i64(2 * lane * self.from_lane)), self.size)
            if lanes > 1
            else first
            for lane in range(lanes)
        ]
        if lanes == 1:
            parts = [
                b.load(self.scalar, b.gep(self.scalar, first, i64(m)), self.size) for m in (0, 1)
            ]
            return [Complex(*(reversed(parts) if exchanged else parts))]
        low = self.turned(lines[: lanes // 2], 2)
        high = self.turned(lines[lanes // 2 :], 2)
        return [self.parted(*pair, exchanged) for pair in zip(low, high, strict=True)]

    def write_block(self, index: Value, values: list[Complex]) -> None:
        b, lanes = self.b, self.lanes
        first = b.gep(self.scalar, self.to, b.mul(index, i64(2 * self.to_step)))
        exchanged = (self.exchanged_out and self.form == "complex") or self.form == "to_real"
        if (len(values) == 1 and lanes > 2) or lanes == 1:
            for part, value in enumerate(reversed(values[0]) if exchanged else values[0]):
                self.scatter(value, first, part, 2 * self.to_lane)
            return
        joined = [self.joined(value, exchanged) for value in values]
        lines = self.turned([low for low, _ in joined], 2) + self.turned(
            [high for _, high in joined], 2
        )
        for lane, line in enumerate(lines):
            b.store(line, b.gep(self.scalar, first, i64(2 * lane * self.to_lane)), self.size)

    def read_real(self, numbers: _Numbers) -> None:
        """Real rows of odd length."""
        b = self.b
        zero = llvm_ir.zero(self.type)
        with self.blocks(self.n, self.lanes, self.from_step) as (index, width):
            first = b.gep(self.scalar, self.from_, b.mul(index, i64(self.from_step)))
            if width == 1:
                values = [self.gather(first, 0, self.from_lane)]
            else:
                values = self.turned(
                    [
                        b.load(
                            self.type,
                            b.gep(self.scalar, first, i64(lane * self.from_lane)),
                            self.size,
                        )
                        for lane in range(self.lanes)
                    ],
                    1,
                )
            place = numbers.at(index)
            for offset, value in enumerate(values):
                numbers.store(place, Complex(value, zero), offset)

    def write_real(self, numbers: _Numbers) -> None:
        """Real rows of odd length: the real parts, which stand in the places of imaginary ones."""
        b = self.b
        with self.blocks(self.n, self.lanes, self.to_step) as (index, width):
            first = b.gep(self.scalar, self.to, b.mul(index, i64(self.to_step)))
            place = numbers.at(index)
            values = [self.scaled(numbers.load(place, offset)).im for offset in range(width)]
            if width == 1:
                self.scatter(values[0], first, 0, self.to_lane)
                return
            for lane, line in enumerate(self.turned(values, 1)):
                b.store(line, b.gep(self.scalar, first, i64(lane * self.to_lane)), self.size)

    def gather(self, first: Value, offset: int, stride: int) -> Value:
        """Elements ``stride`` apart, one a lane."""
        b = self.b
        if self.lanes == 1:
            return b.load(self.scalar, b.gep(self.scalar, first, i64(offset)), self.size)
        addresses = b.gep(
            self.scalar,
            b.gep(self.scalar, first, i64(offset)),
            b.lane_offsets(self.lanes, stride),
        )
        return b.gather(self.type, addresses, self.size)

    def scatter(self, value: Value, first: Value, offset: int, stride: int) -> None:
        b = self.b
        for lane in range(self.lanes):
            place = b.gep(self.scalar, first, i64(offset + lane * stride))
            b.store(b.extract(value, lane), place, self.size)

    # ---------------------------------------------------------------------------------------------------- real numbers
    def from_pairs(self, numbers: _Numbers) -> None:
        """From the transform of the pairs (x[2k], x[2k + 1]) the first n + 1 numbers of that of x."""
        ops, n = self.ops, self.n
        first = numbers.load(numbers.pointer)
        zero = llvm_ir.zero(self.type)
        numbers.store(numbers.pointer, Complex(ops.plus(first.re, first.im), zero))
        numbers.store(numbers.pointer, Complex(ops.minus(first.re, first.im), zero), n)
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

    def to_pairs(self, numbers: _Numbers) -> None:
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
    def mirrored(self, numbers: _Numbers) -> Iterator[tuple[Value, Value, tuple[Value, Value]]]:
        """The places of numbers k and n - k, and exp(-i pi k / n), for 1 <= k <= n / 2."""
        b = self.b
        with b.loop(i64(1), i64(self.n // 2 + 1)) as k:
            place = b.add(b.mul(k, i64(2)), i64(self.table.halves))
            w = b.gep(self.scalar, self.factors, place)
            low, high = numbers.at(k), numbers.at(b.sub(i64(self.n), k))
            yield low, high, self.factor(w)

    def mirror(self, numbers: _Numbers) -> None:
        """The other half of the spectrum of real rows of odd length, with real and imaginary parts exchanged."""
        b = self.b
        first = numbers.load(numbers.pointer)
        numbers.store(numbers.pointer, Complex(llvm_ir.zero(self.type), first.re))
        with b.loop(i64(1), i64(self.n // 2 + 1)) as k:
            low, high = numbers.at(k), numbers.at(b.sub(i64(self.n), k))
            value = numbers.load(low)
            numbers.store(low, Complex(value.im, value.re))
            numbers.store(high, Complex(b.fneg(value.im), value.re))

    # -------------------------------------------------------------------------------------------------------- shuffles
    def parted(self, low: Value, high: Value, exchanged: bool) -> Complex:
        """Real and imaginary parts of numbers one after the other in two vectors."""
        re, im = low, high
        if self.lanes > 1:
            re, im = (self.b.shuffle(low, high, range(m, 2 * self.lanes, 2)) for m in (0, 1))
        return Complex(im, re) if exchanged else Complex(re, im)

    def joined(self, value: Complex, exchanged: bool) -> tuple[Value, Value]:
        """The inverse of :meth:`parted`."""
        re, im = reversed(value) if exchanged else value
        if self.lanes == 1:
            return re, im
        mask = [lane // 2 + lane % 2 * self.lanes for lane in range(2 * self.lanes)]
        return (
            self.b.shuffle(re, im, mask[: self.lanes]),
            self.b.shuffle(re, im, mask[self.lanes :]),
        )

    def turned(self, lines: list[Value], unit: int) -> list[Value]:
        """The transpose of a square of units of ``unit`` elements."""
        size, lines = len(lines), list(lines)
        step = 1
        while step < size:
            first, second = _exchange(size, step, unit)
            for line in range(size):
                if not line & step:
                    a, c = lines[line], lines[line | step]
                    lines[line] = self.b.shuffle(a, c, first)
                    lines[line | step] = self.b.shuffle(a, c, second)
            step *= 2
        return lines


@functools.cache
def _exchange(size: int, step: int, unit: int) -> tuple[list[int], list[int]]:
    """Shuffles of two lines ``step`` apart that exchange the squares off the diagonal."""
    all_lanes = size * unit
    first: list[int] = []
    second: list[int] = []
    for place in range(size):
        own, other = ((place, size + (place ^ step)), (place ^ step, size + place))
        for mask, (near, far) in ((first, own), (second, other)):
            start = (far if place & step else near) * unit
            mask.extend(range(start, start + unit))
    assert len(first) == all_lanes
    return first, second
