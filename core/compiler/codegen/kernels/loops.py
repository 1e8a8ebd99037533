"""The "loop" kernel: results of equal dimensions, computed element by element.

The iteration space is rows x minor dimension. The minor dimension runs in vectors, with a masked (or narrower)
piece for what is left; a unit of work is a row, or a block of a long row. Row numbers are taken apart into an
index once a call and then counted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ...fusion.clusters import MOST_SHORT_ROW_CODE
from ...ir import errors, hlo
from ...ir.dtypes import DType
from .. import costs, effort, llvm_ir
from ..elements.elemental import element
from ..elements.side_by_side import compute_side_by_side
from ..generator import ZERO, Array, Coordinate, Generator, Index, fixed
from ..llvm_ir import Value, i64
from ..representation import memory_type
from . import periods, short_rows
from .emit import EmittedKernel, Frame, emitter
from .narrow_rows import NarrowRows, narrow_rows_of, write_step
from .seams import seams_along

if TYPE_CHECKING:
    from ...targets.target import Target
    from ..representation import Element

# Weight of the code that writing it once for each part of a row may come to.
LONGEST_CODE = 256
# The same of the steps of a short row, which a loop would take in hardly more time.
LONGEST_ROW = 64
# Elements of a loop from which on rows away from the edges have code of their own.
LEAST_INSIDE = 1 << 18


def emit_frame(frame: Frame) -> EmittedKernel:
    """The kernel of a "loop" fusion or of a single indexable instruction."""
    roots = frame.computation.results
    if any(r.dims != roots[0].dims for r in roots):
        raise errors.of_instruction(
            "INTERNAL", "results of a loop fusion differ in dimensions", frame.instruction
        )
    if math.prod(roots[0].dims) == 0:
        return frame.finish(0, 0.0)
    units = _Loop(frame).write()
    return frame.finish(units, costs.of_computation(frame.target, frame.computation))


class _Loop:
    """The loops of a kernel, which are written in one of four ways, by what lies in the lanes of a vector."""

    def __init__(self, frame: Frame) -> None:
        self.frame, self.g = frame, frame.generator
        self.roots = frame.computation.results
        self.dims = self.roots[0].dims
        self.streaming = frame.moves_at_least(frame.target.costs.memory.past_caches)
        self.code = row_code(frame.target, frame.computation)

    def write(self) -> int:
        """Write the loops; gives the number of units of work."""
        frame, code, roots, dims = self.frame, self.code, self.roots, self.dims
        if not dims:
            compute_side_by_side(self.g, frame.computation)
        weight = code.weight
        if short_rows.fits(roots, code.lanes) and weight * dims[-1] <= MOST_SHORT_ROW_CODE:
            weight *= dims[-1]
            return iterate(frame, dims[:-1], code.lanes, False, self.of_rows, weight=weight)
        narrow = narrow_rows_of(roots, code.lanes, lambda d: seams_along(d, roots))
        if narrow is not None and weight * narrow.vectors <= MOST_SHORT_ROW_CODE:
            space = (*dims[: narrow.first], narrow.steps)
            count(self.g, frame.begin, frame.end, space, lambda i: self.across_rows(narrow, i))
            return math.prod(space)
        large = math.prod(dims) >= LEAST_INSIDE
        insides = insides_of(roots, (len(code.cuts) + 1) * weight) if large else []
        space, body = dims, self.of_neighbours
        if code.period > 1:
            space, body = (*dims[:-1], code.steps_of(dims[-1])), self.of_period
        return iterate(frame, space, code.lanes, code.masked, body, code.cuts, weight, insides)

    def of_neighbours(self, g: Generator, index: Index, mask: Value | None) -> None:
        """Neighbours along the last dimension lie in a vector."""
        values = [element(g, root, index) for root in self.roots]  # all loads before all stores
        for array, value in zip(self.frame.results, values, strict=True):
            g.store(array, index, value, mask, self.streaming)

    def of_rows(self, g: Generator, index: Index, mask: Value | None) -> None:
        """Short rows: an element of each of several rows."""
        rows = self.values([(*index, fixed(n)) for n in range(self.dims[-1])])
        for array, row in zip(self.frame.results, rows, strict=True):
            short_rows.store(g, array, index, row, self.streaming)

    def of_period(self, g: Generator, index: Index, mask: Value | None) -> None:
        """Elements that alternate: those that are a period apart."""
        places = periods.places(g, index, self.dims[-1], self.code.period)
        for array, row in zip(self.frame.results, self.values(places), strict=True):
            periods.store(g, array, places, row, self.streaming)

    def across_rows(self, narrow: NarrowRows, index: Index) -> None:
        """Rows of a few elements: neighbours in the order of memory, of several rows."""
        g = self.g
        flat = (*self.dims[: narrow.first], narrow.elements)
        results = [Array(a.pointer, a.shape.with_dims(flat)) for a in self.frame.results]

        def write(places: Index, start: Coordinate) -> None:
            values = [element(g, root, places) for root in self.roots]
            for array, value in zip(results, values, strict=True):
                g.store(array, (*index[:-1], start), value, None, self.streaming)

        write_step(g, narrow, index, write)

    def values(self, places: Sequence[Index]) -> list[list[Element]]:
        """For each result its elements at ``places``."""
        return [[element(self.g, root, place) for place in places] for root in self.roots]


emit = emitter(collapsed=True)(emit_frame)


class RowCode(NamedTuple):
    """How a row of a loop is written: in vectors of ``lanes``, the last of them ``masked``, in pieces between ``cuts``;
    ``weight`` is that of a step (:meth:`Costs.weight`). A step is one place of the row, or a ``period`` of them
    (:mod:`.periods`), and ``cuts`` are counted in steps.
    """

    lanes: int
    masked: bool
    cuts: Sequence[int]
    weight: float
    period: int = 1

    def steps_of(self, size: int) -> int:
        """How many steps a row of ``size`` elements takes."""
        return -(-size // self.period)


def row_code(target: Target, computation: hlo.Computation) -> RowCode:
    """How a row of a loop over ``computation`` is written."""
    roots = computation.results
    weight = sum(map(target.costs.weight, computation.instructions))
    lanes = lanes_for(target, computation)
    period = periods.period_of(roots, lanes)
    while period * weight > MOST_SHORT_ROW_CODE and period > 1:
        period //= 2 if period % 2 == 0 else period
    if period > 1:
        weight *= period
        size = roots[0].dims[-1]
        seams = seams_along(len(roots[0].dims) - 1, roots, through_gaps=True)
        cuts = periods.cuts_of(seams, size, period)
        if (len(cuts) + 1) * weight > MOST_SHORT_ROW_CODE:
            cuts = periods.cuts_of([], size, period)
        return RowCode(lanes, False, cuts, weight, period)
    cuts = cuts_of(roots)
    if len(cuts) * weight > LONGEST_CODE:
        cuts = []
    return RowCode(lanes, can_mask(target, computation), cuts, weight)


def cuts_of(roots: Sequence[hlo.Instruction]) -> list[int]:
    """Where in the last dimension of a loop the operand changes: at the seams of concatenations and pads."""
    return seams_along(len(roots[0].dims) - 1, roots) if roots[0].dims else []


class Inside(NamedTuple):
    """The places low to high - 1 along a leading dimension of a loop, in which no seam lies; there are others."""

    dimension: int
    low: int
    high: int


def insides_of(roots: Sequence[hlo.Instruction], weight: float) -> list[Inside]:
    """Where in the leading dimensions of ``roots`` most rows lie: those which are made of the same pieces, as they are
    away from the edges of a stencil. ``weight`` is that of a row's code; none if it is too much to be written twice.
    """
    found: list[Inside] = []
    if weight > LONGEST_CODE or math.prod(roots[0].dims[:-1]) == 1:
        return found
    for dimension, size in enumerate(roots[0].dims[:-1]):
        ends = [0, *seams_along(dimension, roots), size]
        low, high = max(itertools.pairwise(ends), key=lambda piece: piece[1] - piece[0])
        if high - low < size:
            if 2 * (high - low) < size:
                return []
            found.append(Inside(dimension, low, high))
    return found


def write_row(
    g: Generator, leading: Index, insides: Sequence[Inside], write: Callable[[Index], None]
) -> None:
    """Write a row with ``write(leading)``: twice, if there are ``insides``, once without conditions."""
    if not insides:
        write(leading)
        return
    narrowed, condition = list(leading), None
    for dimension, low, high in insides:
        c = leading[dimension]
        narrowed[dimension] = c._replace(low=max(low, c.low), high=min(high - 1, c.high))
        holds = g.compare("ult", g.sub(c.base, i64(low)), i64(high - low))
        condition = holds if condition is None else g.apply("and", condition, holds)
    assert condition is not None
    inside = tuple(narrowed)
    g.either(condition, lambda: write(inside), lambda: write(leading), ("inside", "edge", "row"))


def lanes_for(target: Target, computation: hlo.Computation) -> int:
    """How many elements to compute at a time: as many as the widest dtype among the arrays leaves room for."""
    size, is_complex = 1, False
    for instruction in computation.instructions:
        if isinstance(instruction.shape, hlo.Shape) and instruction.dims:
            dtype: DType = instruction.dtype.component
            is_complex |= instruction.dtype.is_complex
            size = max(size, 4 if dtype.is_float and dtype.size < 4 else dtype.size)
    return target.lane_count(size, is_complex)


def can_mask(target: Target, computation: hlo.Computation) -> bool:
    """Whether a masked vector is a good way to do the last elements of a row."""
    sizes = {
        dtype_bytes(i.dtype)
        for i in (*computation.instructions, *computation.results)
        if isinstance(i.shape, hlo.Shape) and i.dims
    }
    return all(target.can_mask(size) for size in sizes)


def dtype_bytes(dtype: DType) -> int:
    return {"float": 4, "double": 8}.get(memory_type(dtype)) or int(memory_type(dtype)[1:]) // 8


Body = Callable[[Generator, Index, Value | None], None]


def iterate(
    frame: Frame,
    dims: Sequence[int],
    lanes: int,
    masked: bool,
    body: Body,
    cuts: Sequence[int] = (),
    weight: float = 0.0,
    insides: Sequence[Inside] = (),
) -> int:
    """Write the loops over an iteration space and give the number of units of work.

    ``body(g, index, mask)`` writes one step, for an index whose last coordinate covers a number of lanes. No step lies
    across one of the ``cuts`` of the last dimension: the code is written once for each part. ``weight`` is that of a
    step (:meth:`Costs.weight`): the steps of a short row are written out one by one unless they are heavy. Rows in all
    of ``insides`` have code of their own.
    """
    g, b, block_size = frame.generator, frame.builder, frame.target.block
    outer, minor = tuple(dims[:-1]), dims[-1] if dims else 1
    rows = math.prod(outer)
    lanes = min(lanes, 1 << (minor - 1).bit_length())
    parts = list(itertools.pairwise([0, *cuts, minor]))
    prefix: Index = tuple(ZERO for _ in outer)

    def step(c: Coordinate, mask: Value | None) -> None:
        body(g, (*prefix, c) if dims else (), mask)

    def all_parts() -> None:
        whole_row(g, minor, RowCode(lanes, masked, cuts, weight), step)

    if rows == 1:
        if minor <= 4 * lanes:
            all_parts()
            return 1
        units = 0
        for low, high in parts:
            count_of_part = -(-(high - low) // block_size)
            # Units [units, units + count_of_part) of all are this part's: which of them are to be done?
            first = b.intrinsic("smax", [b.sub(frame.begin, i64(units)), i64(0)])
            last = b.intrinsic("smin", [b.sub(frame.end, i64(units)), i64(count_of_part)])
            start = b.add(b.mul(first, i64(block_size)), i64(low))
            stop = b.intrinsic("smin", [b.add(b.mul(last, i64(block_size)), i64(low)), i64(high)])
            g.note(start, stop)
            span(g, start, stop, high, lanes, masked, step, origin=low)
            units += count_of_part
        return units
    blocks = -(-minor // block_size) if minor >= 2 * block_size and not cuts else 1

    def row(index: Index) -> None:
        write_row(g, index[:-1], insides, lambda leading: part_of_row(leading, index[-1]))

    def part_of_row(leading: Index, block: Coordinate) -> None:
        nonlocal prefix
        prefix = leading
        if blocks == 1:
            all_parts()
            return
        start = g.mul(block.base, i64(block_size))
        stop = b.intrinsic("smin", [g.add(start, i64(block_size)), i64(minor)])
        g.note(stop)
        span(g, start, stop, minor, lanes, masked, step)

    count(g, frame.begin, frame.end, (*outer, blocks), row)
    return rows * blocks


def count(
    g: Generator, begin: Value, end: Value, dims: Sequence[int], body: Callable[[Index], None]
) -> None:
    """Run ``body`` for the indices numbered [begin, end) of a row-major space, counting them up like an odometer."""
    b = g.builder
    used = [d for d, dim in enumerate(dims) if dim != 1]

    def coordinates(values: Sequence[Value]) -> Index:
        by_dim = dict(zip(used, values, strict=True))
        return tuple(
            Coordinate(by_dim[d], high=dim - 1) if d in by_dim else ZERO
            for d, dim in enumerate(dims)
        )

    if len(used) <= 1:
        with g.loop(begin, end) as (number, _, _):
            body(coordinates([number][: len(used)]))
        return
    first = Coordinate(begin, high=math.prod(dims))
    start = [c.base for c in g.delinear(first, [dims[d] for d in used[1:]])]
    whole = math.prod(dims[d] for d in used[1:])
    leading = b.binary("udiv", begin, i64(whole))
    g.note(leading)
    start = [leading, *start]
    with g.loop(begin, end, 1, start) as (_, carried, _):
        current = list(carried)
        body(coordinates(current))
        carry: Value | None = None
        for position in range(len(used) - 1, -1, -1):
            value, dim = current[position], dims[used[position]]
            following = b.add(value, i64(1)) if carry is None else b.add(value, carry)
            if position == 0:
                carried[position] = following
                break
            wrapped = b.icmp("eq", following, i64(dim))
            carried[position] = b.select(wrapped, i64(0), following)
            carry = b.cast("zext", wrapped, "i64")


Step = Callable[[Coordinate, "Value | None"], None]


def whole_row(g: Generator, size: int, code: RowCode, step: Step) -> None:
    """Write the steps of a row of ``size`` elements, in each of its pieces."""
    steps = code.steps_of(size)
    lanes = min(code.lanes, 1 << (steps - 1).bit_length())
    for low, high in itertools.pairwise([0, *code.cuts, steps]):
        span(g, low, high, high, lanes, code.masked, step, weight=code.weight)


def span(
    g: Generator, start: Value | int, stop: Value | int, size: int, lanes: int, masked: bool, step: Step,
    unrolled: bool = False, origin: int = 0, weight: float = 0.0,
) -> None:  # fmt: skip
    """Write steps for the minor coordinates [start, stop), without a loop if ``unrolled`` or if there are few whose
    ``weight`` together is small.

    ``size`` is the end that ``stop`` can have. If they are not known when compiling, ``start`` is ``origin`` and a
    multiple of the target's ``block``, and ``stop`` is one too or else is ``size``; there may be nothing to do.
    """
    b = g.builder
    vector = int(lanes > 1)
    if isinstance(start, int):
        main = start + (size - start) // lanes * lanes
        steps = (main - start) // lanes
        longest = LONGEST_ROW if effort.is_careful(b.module) else 0
        if unrolled or steps <= 1 or (steps <= 4 and steps * weight <= longest):
            for at in range(start, main, lanes):
                multiple = math.gcd(at, 1 << 30)
                step(Coordinate(i64(at), vector, lanes, None, at, at + lanes - 1, multiple), None)
        else:
            with g.loop(i64(start), i64(main), lanes) as (i, _, _):
                step(
                    Coordinate(i, vector, lanes, None, start, main - 1, math.gcd(start, lanes)),
                    None,
                )
        tail(g, main, size, lanes, masked, step)
        return
    assert isinstance(stop, Value)
    main = origin + (size - origin) // lanes * lanes
    limit = stop
    if main < size:
        limit = b.intrinsic("smin", [stop, i64(main)])
        g.note(limit)
    if main > origin:
        with g.loop(start, limit, lanes) as (i, _, _):
            step(
                Coordinate(i, vector, lanes, None, origin, main - 1, math.gcd(origin, lanes)), None
            )
    if main < size:
        condition = b.binary("and", b.icmp("sgt", stop, i64(main)), b.icmp("slt", start, stop))
        with g.only_if(condition, "tail"):
            tail(g, main, size, lanes, masked, step)


def span_of_block(
    g: Generator, block: Coordinate, blocks: int, size: int, lanes: int, masked: bool, step: Step,
    unrolled: bool = False,
) -> None:  # fmt: skip
    """Write steps for one of ``blocks`` equal blocks of the minor coordinates [0, size), in whole vectors if there are
    several.
    """
    if blocks == 1:
        span(g, 0, size, size, lanes, masked, step, unrolled)
        return
    part = size // blocks
    first = g.scale(block, part)
    with g.loop(i64(0), i64(part), lanes) as (i, _, _):
        base = g.add(first.base, i)
        step(Coordinate(base, int(lanes > 1), lanes, None, 0, size - 1, lanes), None)


def mask_of(count: int, lanes: int) -> Value:
    """The constant mask of the first ``count`` lanes."""
    return llvm_ir.lanes_constant("i1", [n < count for n in range(lanes)])


def tail(g: Generator, start: int, stop: int, lanes: int, masked: bool, step: Step) -> None:
    """The coordinates [start, stop) that do not fill a vector: one masked step, or steps of halved width."""
    while start < stop:
        rest = stop - start
        if lanes == 1:
            step(fixed(start), None)
            start += 1
            continue
        if (masked and rest > 1) or rest == lanes:
            while lanes // 2 >= rest:
                lanes //= 2
            mask = None
            if rest < lanes:
                mask = mask_of(rest, lanes)
            multiple = math.gcd(start, 1 << 30)
            c = Coordinate(i64(start), 1, lanes, None, start, stop - 1, multiple)
            if mask is None:
                step(c, None)
            else:
                with g.masked(mask):
                    step(c, mask)
            return
        lanes //= 2
        if rest >= lanes:
            c = Coordinate(
                i64(start), 1, lanes, None, start, start + lanes - 1, math.gcd(start, 1 << 30)
            )
            step(c if lanes > 1 else fixed(start), None)
            start += lanes
            lanes *= 2
