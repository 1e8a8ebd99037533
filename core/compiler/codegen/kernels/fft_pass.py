"""Fourier transforms along one dimension, as many at a time as a vector has lanes: a unit of work of an "fft" kernel.

A length is a product of small ones (:func:`.butterflies.radices`), each a pass over the numbers, by Stockham's autosort
algorithm: from[stride * (p + rest * j) + q] to to[stride * (radix * p + k) + q]. Between passes numbers lie on the
stack. The first pass reads the operand, and the last one writes the result, where these are whole vectors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..llvm_ir import Value, i64
from .butterflies import SUMMED_PRIMES, Butterflies, Complex
from .emit import Frame
from .fft_copies import Copies
from .fft_lengths import inner_length, registers_of, vector_instructions
from .fft_real import RealRows
from .fft_tables import Stage, Table
from .fft_vectors import Ahead, Factors, Lines, Numbers, Vectors, loop

# What a stage reads and writes.
Places = Numbers | Lines


class Transform:
    """Writes units of work of one configuration (:mod:`.fft`), whose factors begin at ``place`` in the table.
    ``stack``: two arrays that are long enough for its numbers, or None for arrays of its own. ``arrays``: bytes of
    those that it reads and writes, 0 for one on the stack. ``row``: elements of the row of which this is a half, or 0.
    """

    def __init__(
        self,
        frame: Frame,
        config: Mapping[str, Any],
        place: int = 0,
        stack: Sequence[Value] | None = None,
        arrays: tuple[int, int] = (0, 0),
        row: int = 0,
    ) -> None:
        self.frame = frame
        self.b = frame.builder
        self.config = config
        self.form: str = config["form"]
        self.n = inner_length(config)
        self.lanes: int = config["lanes"]
        self.sizes: tuple[int, ...] = config["sizes"]
        self.vectors = Vectors(self.b, frame.operands[1].shape.dtype, self.lanes, frame.target)
        self.table = Table(config, frame.target, place)
        self.factors = Factors(self.vectors, frame.operands[1].pointer)
        self.ops = Butterflies(self.b, self.vectors.type)
        real = RealRows(self.vectors, self.ops, self.factors, self.n, self.table.halves)
        ahead = Ahead(self.vectors, *arrays, row)
        self.copies = Copies(config, self.vectors, self.ops, real, ahead)
        self.stack = stack or [self.vectors.array(self.n + 1) for _ in range(2)]
        self.scratch = [Numbers(self.vectors, pointer) for pointer in self.stack]
        self.groups = -(-self.sizes[-1] // self.lanes)
        each = vector_instructions(self.n, self.lanes, self.vectors.size, frame.target)
        transforms = frame.target.costs.transforms
        self.nanoseconds = transforms.unit + self.n * each * transforms.instruction

    # ------------------------------------------------------------------------------------------------- a unit of work
    def unit(self, operand: Value, result: Value, outer: Sequence[Value], group: Value) -> None:
        """Write a unit: group ``group`` of the last dimension, at ``outer`` in the others."""
        from_, to = self.places(operand, result, outer, group)
        copies, (a, c) = self.copies, self.scratch
        source: Places | None = copies.source_lines(from_)
        target = copies.target_lines(to)
        if source is None:
            copies.read(from_, a)
            source, a, c = a, c, a
        last = self.run_stages(source, target, a, c)
        if target is None:
            copies.write(last, to)

    def places(
        self, operand: Value, result: Value, outer: Sequence[Value], group: Value
    ) -> tuple[Value, Value]:
        """Where a unit reads and writes, which is the current one from here on."""
        b = self.b
        self.group = group
        start = b.mul(group, i64(self.lanes))
        if self.sizes[-1] % self.lanes:
            start = b.intrinsic("smin", [start, i64(self.sizes[-1] - self.lanes)])
        self.start = start
        index = (*outer, start)
        from_ = self.first_element(operand, index, "source")
        return from_, self.first_element(result, index, "target")

    def first_element(self, array: Value, index: Sequence[Value], name: str) -> Value:
        """Where the transforms at ``index`` begin in the operand ("source") or the result ("target")."""
        b = self.b
        place: Value = i64(0)
        for value, stride in zip(index, self.config[name], strict=False):
            place = b.add(place, b.mul(value, i64(stride)))
        real = {"from_real": "source", "to_real": "target"}.get(self.form)
        parts = 1 if name == real and (self.copies.columns or not self.copies.pairs) else 2
        return b.gep(self.vectors.scalar, array, b.mul(place, i64(parts)))

    def run_stages(self, source: Places, target: Places | None, a: Numbers, c: Numbers) -> Numbers:
        """All passes from ``source`` to ``target``, by the arrays ``a`` and ``c`` on the stack in turns. If there is no
        target, the last pass writes to the array that is returned.
        """
        stages = self.table.stages or [Stage(1, 1, 1)]
        for stage in stages[:-1]:
            self.run(stage, source, a)
            source, a, c = a, c, a
        self.run(stages[-1], source, a if target is None else target)
        return a

    def run(self, stage: Stage, source: Places, target: Places) -> None:
        """A pass over all numbers."""
        if stage.radix in SUMMED_PRIMES:
            _Sums(self, stage, source, target).run()
        else:
            self.run_butterflies(stage, source, target)

    def run_butterflies(self, stage: Stage, source: Places, target: Places) -> None:
        """A pass of transforms that are written out."""
        radix, rest, stride = stage[:3]
        with self.each(stage) as (index, result, factors):
            read = source.at(index)
            x = self.ops.transform([source.load(read, j * stride * rest) for j in range(radix)])
            written = target.at(result)
            for k, value in enumerate(x):
                if rest > 1 and k:
                    value = self.ops.times(value, *self.factors.load(factors, k - 1))
                if isinstance(target, Lines):
                    value = self.finished(value, self.b.add(result, i64(k * stride)))
                target.store(written, value, k * stride)

    @contextmanager
    def each(self, stage: Stage) -> Iterator[tuple[Value, Value, Value]]:
        """The numbers of the first input and of the first output of each small transform of a pass, and the address of
        its factors.
        """
        b = self.b
        with loop(b, stage.rest) as p:
            place = b.add(i64(stage.factors), b.mul(p, i64(2 * (stage.radix - 1))))
            factors = self.factors.address(place)
            with loop(b, stage.stride) as q:
                first = b.add(b.mul(p, i64(stage.stride)), q)
                yield first, b.add(b.mul(p, i64(stage.stride * stage.radix)), q), factors

    # ---------------------------------------------------------------------------------------------------- the result
    def finished(self, value: Complex, k: Value) -> Complex:
        """Number ``k`` of the result, with what it is multiplied by."""
        if self.config["spread"]:
            if self.config["products"] == 1:
                value = self.times_factor_of_line(value, k)
            else:
                value = self.times_factors_of_group(value, k)
        return self.copies.scaled(value)

    def times_factor_of_line(self, value: Complex, k: Value) -> Complex:
        """Number ``k`` by its factors, of which the table has one for each lane of the line."""
        b, line = self.b, self.sizes[-1]
        place = b.add(b.add(i64(self.table.first), b.mul(k, i64(line))), self.start)
        return self.ops.times(value, *self.factors.in_lanes(place, self.n * line))

    def times_factors_of_group(self, value: Complex, k: Value) -> Complex:
        """Number ``k`` by its factors, each the product of the group's and of the lane's."""
        b = self.b
        of_group = self.factor_of_group(k)
        place = b.add(b.mul(k, i64(2 * self.lanes)), i64(self.table.second))
        of_lane = Complex(*self.factors.in_lanes(place, self.lanes))
        return self.ops.times(value, *self.ops.times(of_lane, *of_group))

    def factor_of_group(self, k: Value) -> tuple[Value, Value]:
        """The factor of number ``k`` that all lanes of the group have in common."""
        b, table = self.b, self.table
        if self.config["products"] == 2:
            place = b.add(b.mul(self.group, i64(self.n)), k)
            return self.factors.number(table.first, place)
        place, shift = b.mul(k, self.start), i64(table.shift)
        high = b.binary("lshr", place, shift)
        low = b.sub(place, b.binary("shl", high, shift))
        first = Complex(*self.factors.number(table.first, high))
        return self.ops.times(first, *self.factors.number(table.low, low))


class _Sums:
    """A pass of transforms of a larger prime length n: sums of all products, a few results at a time.

    Results k and n - k are sums of the same terms: of x[j] + x[n - j] by cosines, and of x[j] - x[n - j] by sines.
    """

    def __init__(self, transform: Transform, stage: Stage, source: Places, target: Places) -> None:
        self.transform, self.stage = transform, stage
        self.source, self.target = source, target
        self.b, self.ops, self.factors = transform.b, transform.ops, transform.factors
        self.n, self.half = stage.radix, stage.radix // 2
        # The sum of each pair of numbers and their difference.
        self.terms = Numbers(transform.vectors, transform.vectors.array(2 * self.half))

    def run(self) -> None:
        b, half = self.b, self.half
        together = 4 if registers_of(self.transform.frame.target) > 16 else 2
        with self.transform.each(self.stage) as (index, result, factors):
            x = self.source.load(self.source.at(index))
            self.put(self.add_pairs(x, index), None, result, factors)
            main = half // together * together
            with b.loop(i64(1), i64(main + 1), together) as k:
                self.add_up(x, k, together, result, factors)
            if main < half:
                self.add_up(x, i64(main + 1), half - main, result, factors)

    def add_pairs(self, x: Complex, index: Value) -> Complex:
        """Make the terms of the transform that begins with ``x`` at ``index``. Returns the sum of all its numbers."""
        b, ops, source = self.b, self.ops, self.source
        step = self.stage.stride * self.stage.rest
        with b.loop_carrying(i64(1), i64(self.half + 1), 1, list(x)) as (j, carried, total):
            low = source.load(source.at(b.add(index, b.mul(j, i64(step)))))
            high = source.load(source.at(b.add(index, b.mul(b.sub(i64(self.n), j), i64(step)))))
            pair = self.terms.at(b.mul(b.sub(j, i64(1)), i64(2)))
            plus = ops.add(low, high)
            self.terms.store(pair, plus)
            self.terms.store(pair, ops.subtract(low, high), 1)
            carried[:] = ops.add(Complex(*carried), plus)
        return Complex(*total)

    def add_up(self, x: Complex, k: Value, count: int, result: Value, factors: Value) -> None:
        """Results k to k + count, and those of n minus these."""
        b, ops, half = self.b, self.ops, self.half
        zero = self.transform.vectors.zero
        table = b.add(b.mul(b.sub(k, i64(1)), i64(2 * half)), i64(self.stage.sums))
        initial = [x.re, x.im, zero, zero] * count
        with b.loop_carrying(i64(0), i64(half), 1, initial) as (j, carried, sums):
            pair = self.terms.at(b.mul(j, i64(2)))
            plus, minus = self.terms.load(pair), self.terms.load(pair, 1)
            place = self.factors.address(b.add(table, b.mul(j, i64(2))))
            for m in range(count):
                cosine, sine = self.factors.load(place, m * half)
                even = ops.multiply_add(plus, cosine, Complex(*carried[4 * m : 4 * m + 2]))
                odd = ops.multiply_add(minus, sine, Complex(*carried[4 * m + 2 : 4 * m + 4]))
                carried[4 * m : 4 * m + 4] = [*even, *odd]
        for m in range(count):
            even, odd = Complex(*sums[4 * m : 4 * m + 2]), Complex(*sums[4 * m + 2 : 4 * m + 4])
            number = b.add(k, i64(m))
            self.put(ops.add_turned(even, odd), number, result, factors)
            self.put(ops.subtract_turned(even, odd), b.sub(i64(self.n), number), result, factors)

    def put(self, value: Complex, k: Value | None, result: Value, factors: Value) -> None:
        """Write result ``k`` of a transform, or its first one (None), which no factor belongs to."""
        b, place = self.b, result
        if k is not None:
            if self.stage.rest > 1:
                address = b.gep(self.transform.vectors.scalar, factors, b.mul(k, i64(2)))
                value = self.ops.times(value, *self.factors.load(address, -1))
            place = b.add(result, b.mul(k, i64(self.stage.stride)))
        if isinstance(self.target, Lines):
            value = self.transform.finished(value, place)
        self.target.store(self.target.at(place), value)
