"""Reductions over the same dimensions of one iteration space: accumulators, their terms, and loops that carry them.

Accumulators are a flat list of values, of one lane or of many: the parts of the numbers that each reduction carries.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from ...ir import errors, hlo
from ...ir.patterns import constant_value
from ...reference import evaluate
from .. import llvm_ir
from ..elements.elemental import element, inline
from ..generator import Coordinate, Generator, Index, fixed
from ..llvm_ir import Value, i64
from ..representation import Complex, Element, components, literal
from . import accumulation, loops
from .emit import Frame

UNROLLED: Final = 4  # an innermost reduced dimension of at most this size has no loop,
UNROLLED_SIZE: Final = 64  # if what is written out then is not more than this
# A sum of at most so many elements, which are cheap, is taken of scalars. In a loop it often reads elements that the
# steps before have just written one by one: a vector would have to wait until all of them are in the nearest cache.
SCALARS: Final = 8
SCALARS_SIZE: Final = 8.0


def identity(reduce: hlo.Instruction) -> Element | None:
    """The neutral element of a reduction (or reduce-window) by one commutative operation; None for any other.

    For sums and products of floats it is the initial value itself where that is known to be 0 or 1. Otherwise it is
    -0.0 for sums, because +0.0 takes the sign of an initial value -0.0 away, and there is none for complex products:
    1+0j times an infinity has a NaN.
    """
    body = reduce.called[0]
    root = body.root
    if len(reduce.operands) != 2 or set(root.operands) != set(body.parameters):
        return None
    operand, initial = reduce.operands
    dtype = operand.dtype
    if root.dtype is not dtype:
        return None
    infinity = {
        "maximum": -math.inf
        if dtype.is_float
        else -(1 << (dtype.bits - 1))
        if dtype.is_signed
        else 0,
        "minimum": math.inf
        if dtype.is_float
        else (1 << (dtype.bits - (1 if dtype.is_signed else 0))) - 1,
    }
    if dtype.kind == "pred":
        infinity = {"maximum": 0, "minimum": 1}
    value = {"add": 0, "multiply": 1, "and": -1, "or": 0, "xor": 0, **infinity}.get(root.opcode)
    if value is None or (dtype.is_complex and root.opcode not in ("add", "multiply")):
        return None
    if root.opcode in ("add", "multiply") and (dtype.is_float or dtype.is_complex):
        known = constant_value(initial)
        if known is not None and known == value:
            return literal(dtype, known)
        if root.opcode == "add":
            return literal(dtype, complex(-0.0, -0.0) if dtype.is_complex else -0.0)
        if dtype.is_complex:
            return None
    return literal(dtype, value)


def starts_once(reduces: Sequence[hlo.Instruction]) -> bool:
    """Whether some initial values may be taken in only once.

    Lanes, unrolled steps and work-items have accumulators of their own, which all start from them: harmless if they are
    neutral, or if combining them with themselves changes nothing (as -infinity and 0 of an argmax). Others, of an
    operation that is not known or of several results, are not: 5 of a product would be multiplied in again and again.
    """
    return any(not _may_repeat(reduce) for reduce in reduces)


def _may_repeat(reduce: hlo.Instruction) -> bool:
    number = len(reduce.operands) // 2
    body = reduce.called[0]
    if identity(reduce) is not None:
        return True
    values = []
    for start in reduce.operands[number:]:
        if start.opcode != "constant":  # a parameter: what is outside of the fusion does not count
            return False
        values.append(np.asarray(start.attributes["literal"]))
    try:
        combined = evaluate.evaluate_computation(body, [*values, *values])
    except errors.CompileError:  # an operation that only kernels know
        return False
    return all(
        np.asarray(c).tobytes() == v.tobytes() for c, v in zip(combined, values, strict=True)
    )


class Reduction:
    """Reductions over the same dimensions of one space. ``full``: values of the whole space to store in the same pass,
    each with its array and the first dimension of the index that the array has; ``last``: results one a kept index.
    """

    def __init__(self, frame: Frame, reduces: list[hlo.Instruction]) -> None:
        self.frame = frame
        self.g: Generator = frame.generator
        self.reduces = reduces
        first = reduces[0]
        self.dims = first.operands[0].dims
        self.reduced = tuple(sorted(first.attributes["dimensions"]))
        self.kept = tuple(d for d in range(len(self.dims)) if d not in self.reduced)
        self.kept_dims = tuple(self.dims[d] for d in self.kept)
        for other in reduces:
            if (
                other.operands[0].dims != self.dims
                or tuple(sorted(other.attributes["dimensions"])) != self.reduced
            ):
                raise errors.of_instruction(
                    "INTERNAL", "reductions of one kernel differ in dimensions", frame.instruction
                )
        results = frame.computation.results
        arrays = frame.results
        self.full = [(r, a, 0) for r, a in zip(results, arrays, strict=True) if r.dims == self.dims]
        # Whether the arrays of ``full`` have room for a whole vector behind their last element. A vector that is
        # written as a whole can be read back at once, one that is written under a mask only from the cache.
        self.has_room = False
        self.last = [(r, a) for r, a in zip(results, arrays, strict=True) if r.dims != self.dims]
        self.lanes = loops.lanes_for(frame.target, frame.computation)
        self.masked = loops.can_mask(frame.target, frame.computation)
        self.size = sum(frame.target.costs.weight(i) for i in frame.computation.instructions)
        self.shared = False  # whether the work-items of a group do a row together
        self.once = starts_once(reduces)
        self.blocked = not self.once and accumulation.rounds(r.called[0] for r in reduces)
        # Whether terms are put together before an accumulator takes them, which holds nothing but terms. (A product is
        # added to an accumulator for nothing, by a fused multiply-add.)
        self.pairs = self.blocked and all(
            r.operands[0].opcode != "multiply" and identity(r) is not None for r in reduces
        )
        self.unroll = 8 if self.size <= 2 else 4 if self.size <= 8 else 2 if self.size <= 24 else 1
        if not self.kept and math.prod(self.dims) <= SCALARS and self.size <= SCALARS_SIZE:
            self.lanes = 1

    # ------------------------------------------------------------------------------------------ accumulators
    def initial(self, count: int) -> list[Value]:
        """The accumulators at the start, of ``count`` lanes: neutral elements, or the initial values."""
        flat: list[Value] = []
        for reduce in self.reduces:
            number = len(reduce.operands) // 2
            neutral = identity(reduce)
            starts = (
                [neutral]
                if neutral is not None
                else [element(self.g, o, ()) for o in reduce.operands[number:]]
            )
            for start in starts:
                flat += [self.g.splat(v, count) for v in components(start)]
        return flat

    def structured(self, flat: Sequence[Value]) -> list[list[Element]]:
        """Flat accumulators as elements for each reduction."""
        result: list[list[Element]] = []
        position = 0
        for reduce in self.reduces:
            number = len(reduce.operands) // 2
            elements: list[Element] = []
            for operand in reduce.operands[:number]:
                if operand.dtype.is_complex:
                    elements.append(Complex(flat[position], flat[position + 1]))
                    position += 2
                else:
                    elements.append(flat[position])
                    position += 1
            result.append(elements)
        return result

    def combine(self, flat: Sequence[Value], operands: list[list[Element]]) -> list[Value]:
        """The bodies applied to accumulators and as many operands."""
        result: list[Value] = []
        count = llvm_ir.lanes_of(flat[0].type)
        for reduce, mine, theirs in zip(self.reduces, self.structured(flat), operands, strict=True):
            for value in inline(self.g, reduce.called[0], [*mine, *theirs]):
                result += [self.g.splat(v, count) for v in components(value)]
        return result

    def split(self, flat: Sequence[Value], width: int) -> list[list[Value]]:
        """Several sets of accumulators, of ``width`` values each."""
        return [list(flat[n : n + width]) for n in range(0, len(flat), width)]

    def merge(self, a: Sequence[Value], b: Sequence[Value], width: int) -> list[Value]:
        """Several sets of accumulators, put together with as many others."""
        pairs = zip(self.split(a, width), self.split(b, width), strict=True)
        return [v for x, y in pairs for v in self.combine(x, self.structured(y))]

    def terms(self, index: Index, mask: Value | None) -> list[list[Element]]:
        """What each reduction takes in at ``index``; writes the results of the whole space there."""
        g = self.g
        operands = [
            [element(g, o, index) for o in reduce.operands[: len(reduce.operands) // 2]]
            for reduce in self.reduces
        ]
        written = [element(g, root, index) for root, _, _ in self.full]
        for (_, array, first), value in zip(self.full, written, strict=True):
            g.store(array, index[first:], value, None if self.has_room else mask)
        return operands

    def step(self, flat: Sequence[Value], index: Index, mask: Value | None) -> list[Value]:
        """Take in the elements at ``index``; write the results of the whole space there."""
        new = self.combine(flat, self.terms(index, mask))
        if mask is None:
            return new
        return [self.g.builder.select(mask, n, o) for n, o in zip(new, flat, strict=True)]

    def step_in_pairs(self, flat: Sequence[Value], indices: Sequence[Index]) -> list[Value]:
        """Take in the elements at ``indices``, which are put together in pairs before: for :attr:`pairs`."""
        count = llvm_ir.lanes_of(flat[0].type)
        parts = [
            [
                self.g.splat(v, count)
                for each in self.terms(i, None)
                for e in each
                for v in components(e)
            ]
            for i in indices
        ]
        while len(parts) > 1:
            joined = [
                self.combine(a, self.structured(b))
                for a, b in zip(parts[::2], parts[1::2], strict=False)
            ]
            parts = [*joined, *parts[2 * len(joined) :]]
        return self.combine(flat, self.structured(parts[0]))

    def joined(self, sets: list[list[Value]]) -> list[Value]:
        """The accumulators of all ``sets`` as those of one, halving their number."""
        while len(sets) > 1:
            half = (len(sets) + 1) // 2
            pairs = zip(sets[:half], sets[half:], strict=False)
            pairs_joined = [self.combine(a, self.structured(b)) for a, b in pairs]
            sets = [*pairs_joined, *sets[len(pairs_joined) : half]]
        return sets[0]

    def across_lanes(self, flat: list[Value]) -> list[Value]:
        """Scalar accumulators from vector ones, halving the lanes."""
        b = self.g.builder
        count = llvm_ir.lanes_of(flat[0].type)
        while count > 1:
            count //= 2
            if count == 1:
                low = [b.extract(v, 0) for v in flat]
                high = [b.extract(v, 1) for v in flat]
            else:
                low = [b.shuffle(v, v, range(count)) for v in flat]
                high = [b.shuffle(v, v, range(count, 2 * count)) for v in flat]
            self.g.note(*low, *high)
            flat = self.combine(low, self.structured(high))
        return flat

    def across_lanes_of_rows(self, rows: Sequence[list[Value]]) -> list[Value]:
        """The accumulators of as many rows, at most as many as they have lanes, in the lanes of one set of vectors.

        A step puts halves of two rows' lanes together, where :meth:`across_lanes` has one row's: each number is made
        of the same numbers in the same order, by a quarter of the instructions for sixteen rows.
        """
        b = self.g.builder
        count = llvm_ir.lanes_of(rows[0][0].type)

        def halved(first: list[Value], second: list[Value], part: int, lanes: int) -> list[Value]:
            """The first halves of all rows with their second halves. A row has ``part`` lanes of a vector; the rows of
            ``first`` and ``second`` come in turns, or those of ``first`` alone if ``lanes`` is half its own.
            """
            both = lanes == llvm_ir.lanes_of(first[0].type)
            starts = [
                start + of
                for start in range(0, llvm_ir.lanes_of(first[0].type), part)
                for of in ((0, lanes) if both else (0,))
            ]
            half = part // 2
            picks = [
                [start + offset + n for start in starts for n in range(half)]
                for offset in (0, half)
            ]
            low, high = (
                [b.shuffle(v, w, pick) for v, w in zip(first, second, strict=True)]
                for pick in picks
            )
            self.g.note(*low, *high)
            return self.combine(low, self.structured(high))

        def together(rows: Sequence[list[Value]]) -> list[Value]:
            if len(rows) == 1:
                return rows[0]
            even, odd = together(rows[::2]), together(rows[1::2])
            return halved(even, odd, 2 * count // len(rows), count)

        flat, lanes = together(rows), count
        while lanes > len(rows):
            flat = halved(flat, flat, lanes // len(rows), lanes // 2)
            lanes //= 2
        return flat

    # ----------------------------------------------------------------------------------------------- results
    def values(self, flat: Sequence[Value]) -> dict[hlo.Instruction, Element]:
        """What each reduction (or element of one with several results) gives, from the accumulators at the end."""
        g = self.g
        result: dict[hlo.Instruction, Element] = {}
        parts: dict[tuple[hlo.Instruction, int], Element] = {}
        for reduce, elements in zip(self.reduces, self.structured(flat), strict=True):
            if len(elements) == 1:
                neutral = identity(reduce)
                start = element(g, reduce.operands[1], ())
                if neutral is not None and start != neutral:
                    elements = inline(g, reduce.called[0], [start, *elements])
            parts.update({(reduce, k): value for k, value in enumerate(elements)})
            if isinstance(reduce.shape, hlo.Shape):
                result[reduce] = elements[0]
        for i in self.frame.computation.instructions:
            if i.opcode == "get-tuple-element" and i.operands[0] in self.reduces:
                result[i] = parts[i.operands[0], i.attributes["index"]]
        return result

    def write(self, flat: Sequence[Value], index: Index, mask: Value | None) -> None:
        """The epilogue: the results of the kept dimensions at ``index``."""
        g = self.g
        g.bound.update(self.values(flat))
        results = [element(g, root, index) for root, _ in self.last]
        for (_, array), value in zip(self.last, results, strict=True):
            g.store(array, index, value, mask)
        g.bound.clear()

    def index(self, kept: Index, reduced: dict[int, Coordinate]) -> Index:
        """A full index from the kept coordinates and the reduced ones by dimension."""
        by_dim = {**dict(zip(self.kept, kept, strict=True)), **reduced}
        return tuple(by_dim[d] for d in range(len(self.dims)))

    def nest(
        self,
        dims: Sequence[int],
        flat: list[Value],
        body: Callable[[dict[int, Coordinate], list[Value]], list[Value]],
        fresh: accumulation.Fresh,
        merge: accumulation.Merge,
        terms: int = 1,
    ) -> list[Value]:
        """Loops over reduced dimensions that carry the accumulators, of which each takes ``terms`` in the body."""

        def inside(
            dims: Sequence[int], at: dict[int, Coordinate], flat: list[Value]
        ) -> list[Value]:
            if not dims:
                return body(at, flat)
            d, rest = dims[0], dims[1:]
            size = self.dims[d]
            if size <= UNROLLED and not rest and size * self.size * len(flat) <= UNROLLED_SIZE:
                for n in range(size):
                    flat = inside(rest, {**at, d: fixed(n)}, flat)
                return flat

            def element_of(i: Value, flat: list[Value]) -> list[Value]:
                return inside(rest, {**at, d: Coordinate(i, high=size - 1)}, flat)

            inner = terms * math.prod(self.dims[r] for r in rest)
            return self.accumulate(
                i64(0), i64(size), 1, size, flat, element_of, fresh, merge, inner
            )

        return inside(dims, {}, flat)

    def accumulate(
        self,
        start: Value,
        stop: Value,
        step: int,
        trips: int,
        flat: list[Value],
        body: accumulation.Body,
        fresh: accumulation.Fresh,
        merge: accumulation.Merge,
        terms: int = 1,
        longest: int = accumulation.LONGEST,
    ) -> list[Value]:
        """A loop that carries accumulators, in blocks where that is more exact (:func:`.accumulation.accumulate`)."""
        if not self.blocked:
            longest = trips * terms
        return accumulation.accumulate(
            self.g, start, stop, step, trips, flat, body, fresh, merge, terms=terms, longest=longest
        )
