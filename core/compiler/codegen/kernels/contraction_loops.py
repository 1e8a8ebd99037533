"""The loops of a dot (:mod:`.contraction`): which dimensions they run over, and what all ways to write them share."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...ir import hlo
from .. import llvm_ir
from ..elements.products import Products
from ..generator import ZERO, Coordinate, Index
from ..llvm_ir import Value, i64
from ..representation import Element, components
from . import accumulation
from .emit import Frame

# Products that an accumulator takes in a block, of sums that are more than twice as long. (Many accumulators of a tile
# wait in memory while a block is summed: it is longer than that of a reduction.)
BLOCK: Final = 64


@dataclass(frozen=True, slots=True)
class Dimension:
    """A loop of the contraction: its size and where it stands in each array (-1: nowhere)."""

    size: int
    lhs: int = -1
    rhs: int = -1
    result: int = -1


@dataclass(slots=True)
class Contraction:
    """The loops of a dot by group, and the arrays' dimensions in the same numbering."""

    batch: list[Dimension]
    rows: list[Dimension]
    columns: list[Dimension]
    contracted: list[Dimension]
    lhs: tuple[int, ...]
    rhs: tuple[int, ...]
    result: tuple[int, ...]

    @property
    def groups(self) -> list[list[Dimension]]:
        return [self.batch, self.rows, self.columns, self.contracted]

    def exchanged(self) -> Contraction:
        """The same contraction with lhs and rhs in each other's place."""

        def swap(group: list[Dimension]) -> list[Dimension]:
            return [replace(d, lhs=d.rhs, rhs=d.lhs) for d in group]

        return Contraction(
            swap(self.batch),
            swap(self.columns),
            swap(self.rows),
            swap(self.contracted),
            self.rhs,
            self.lhs,
            self.result,
        )

    def minor(self, array: str) -> Dimension | None:
        """The fastest-varying dimension of ``array`` ("lhs", "rhs" or "result")."""
        used = [d for group in self.groups for d in group if getattr(d, array) >= 0 and d.size > 1]
        return max(used, key=lambda d: int(getattr(d, array)), default=None)


def analyse(dot: hlo.Instruction, merge: bool) -> Contraction:
    """The loops of ``dot``; with ``merge`` neighbouring dimensions become one where all arrays allow it."""
    lhs, rhs = (o.dims for o in dot.operands)
    n: hlo.DotDimensionNumbers = dot.attributes["dimension_numbers"]
    batch = [
        Dimension(lhs[a], a, b, i)
        for i, (a, b) in enumerate(zip(n.lhs_batch, n.rhs_batch, strict=True))
    ]
    at = len(batch)
    free = [d for d in range(len(lhs)) if d not in n.lhs_batch and d not in n.lhs_contracting]
    rows = [Dimension(lhs[d], d, -1, at + i) for i, d in enumerate(free)]
    at += len(rows)
    free = [d for d in range(len(rhs)) if d not in n.rhs_batch and d not in n.rhs_contracting]
    columns = [Dimension(rhs[d], -1, d, at + i) for i, d in enumerate(free)]
    contracted = [
        Dimension(lhs[a], a, b) for a, b in zip(n.lhs_contracting, n.rhs_contracting, strict=True)
    ]
    contracted.sort(key=lambda d: d.lhs)
    c = Contraction(batch, rows, columns, contracted, lhs, rhs, dot.dims)
    return _merged(c) if merge else c


def _merged(c: Contraction) -> Contraction:
    """Dimensions of size one dropped, neighbours joined, and all numbered anew."""
    arrays = ("lhs", "rhs", "result")
    rank: dict[str, dict[int, int]] = {}  # old position -> position among the dimensions that count
    for a, dims in zip(arrays, (c.lhs, c.rhs, c.result), strict=True):
        rank[a] = {d: n for n, d in enumerate(d for d, dim in enumerate(dims) if dim != 1)}

    def follows(d: Dimension, last: Dimension) -> bool:
        places = [(getattr(last, a), getattr(d, a), rank[a]) for a in arrays]
        return all((p < 0) == (q < 0) and (q < 0 or r[q] == r[p] + 1) for p, q, r in places)

    groups: list[list[list[Dimension]]] = []  # by group: runs of dimensions that become one
    for group in c.groups:
        runs: list[list[Dimension]] = []
        for d in group:
            if d.size == 1:
                continue
            if runs and follows(d, runs[-1][-1]):
                runs[-1].append(d)
            else:
                runs.append([d])
        groups.append(runs)
    position: dict[tuple[str, Dimension], int] = {}
    shapes: list[tuple[int, ...]] = []
    for a in arrays:
        present = [run for runs in groups for run in runs if getattr(run[0], a) >= 0]
        present.sort(key=lambda run: int(getattr(run[0], a)))
        position.update({(a, run[0]): n for n, run in enumerate(present)})
        shapes.append(tuple(math.prod(d.size for d in run) for run in present))
    merged = [
        [
            Dimension(
                math.prod(d.size for d in run), *(position.get((a, run[0]), -1) for a in arrays)
            )
            for run in runs
        ]
        for runs in groups
    ]
    return Contraction(merged[0], merged[1], merged[2], merged[3], *shapes)


Reader = Callable[[Index], Element]
Writer = Callable[[Index, Element, "Value | None"], None]
Coordinates = dict[Dimension, Coordinate]


class Loops(Products):
    """What all ways to write the kernel of ``dot`` share: its loops ``c``, elements of its arrays, sums, the machine.

    ``c`` may have its operands exchanged, and the readers with them.
    """

    def __init__(
        self,
        frame: Frame,
        dot: hlo.Instruction,
        c: Contraction,
        readers: Sequence[Reader],
        write: Writer,
    ) -> None:
        super().__init__(frame.generator, dot.dtype)
        self.frame = frame
        self.target = frame.target
        self.dot = dot
        self.c = c
        self.readers = list(readers)
        self.sources = list(dot.operands)
        self.write = write
        self.rounds = self.dtype.is_float or self.dtype.is_complex
        size = {"float": 4, "double": 8}.get(self.type) or max(1, int(self.type[1:]) // 8)
        self.register_bytes = size
        self.lanes = self.target.lane_count(size, self.dtype.is_complex)
        self.can_mask = self.target.can_mask(
            min(o.dtype.component.size for o in dot.operands)
        ) and self.target.can_mask(self.dtype.component.size)
        self.registers = 32 if self.target.vector_bytes >= 64 else 16
        self.most_rows = 8 if self.registers == 32 else 4
        self.fetches = self.target.packs_products  # on a CPU
        # The largest operand, and how many of its vectors are a line of memory.
        largest = max((a.shape for a in frame.operands), key=lambda shape: shape.bytes)
        self.fetched_bytes = largest.bytes
        # Whether it is fetched into the caches but for the nearest one.
        self.is_far = largest.bytes >= self.target.costs.memory.streamed_far or dot.attributes.get(
            "is_far", False
        )
        self.fetched_elements = largest.elements
        self.streamed_size = largest.dtype.size
        self.line = max(1, self.target.costs.memory.line // (self.lanes * self.streamed_size))

    def exchange(self) -> None:
        self.c = self.c.exchanged()
        self.readers.reverse()
        self.sources.reverse()

    @property
    def row(self) -> Dimension:
        """The last one of the rows, of which tiles have several; of one row if there is none."""
        return self.c.rows[-1] if self.c.rows else Dimension(1)

    @property
    def column(self) -> Dimension:
        """The same of the columns."""
        return self.c.columns[-1] if self.c.columns else Dimension(1)

    @property
    def outer(self) -> list[Dimension]:
        """The dimensions of the result in which a tile has one index."""
        return [*self.c.batch, *self.c.rows[:-1], *self.c.columns[:-1]]

    # -- elements
    def read(self, side: int, at: Coordinates) -> Element:
        """An element of lhs (0) or rhs (1), converted to the type of the accumulator."""
        array = ("lhs", "rhs")[side]
        dims = (self.c.lhs, self.c.rhs)[side]
        index: list[Coordinate] = [ZERO] * len(dims)
        for d, coordinate in at.items():
            if getattr(d, array) >= 0:
                index[getattr(d, array)] = coordinate
        value = self.readers[side](tuple(index))
        return self.factor(value, self.sources[side].dtype)

    def store(self, at: Coordinates, value: Element, mask: Value | None = None) -> None:
        index: list[Coordinate] = [ZERO] * len(self.c.result)
        for d, coordinate in at.items():
            if d.result >= 0:
                index[d.result] = coordinate
        self.write(tuple(index), value, mask)

    def add_products(
        self, at: Coordinates, rows: list[Coordinate], right: list[Element], totals: list[Element]
    ) -> None:
        """Add the products of lhs at ``at`` in each of ``rows`` with ``right`` to ``totals``, row by row."""
        for r, place in enumerate(rows):
            left = self.read(0, {**at, self.row: place})
            for n, value in enumerate(right, r * len(right)):
                totals[n] = self.multiply_add(left, value, totals[n])

    def load_vector(self, buffer: Value, place: Value, lanes: int) -> Value:
        """A vector of numbers in memory of the kernel's own."""
        b = self.g.builder
        type_ = llvm_ir.vector(self.type, lanes)
        return b.load(type_, b.gep(self.type, buffer, place), lanes * self.register_bytes)

    def store_vector(self, buffer: Value, place: Value, value: Value) -> None:
        b = self.g.builder
        bytes_ = llvm_ir.lanes_of(value.type) * self.register_bytes
        b.store(value, b.gep(self.type, buffer, place), bytes_)

    # -- loops
    def offset(self, start: Coordinate, by: int, lanes: int, size: int) -> Coordinate:
        """The coordinates start + by ... start + by + lanes - 1 of a dimension, for a uniform start."""
        base = self.g.behind(start.base, by, start.multiple)
        multiple = math.gcd(start.multiple, by) if by else start.multiple
        return Coordinate(base, int(lanes > 1), lanes, None, 0, size - 1, multiple)

    def start(self, block: Coordinate, step: int, size: int) -> Coordinate:
        """Where a block begins: the last one is moved back to end at ``size``."""
        if size % step == 0 or size < step:
            return self.g.scale(block, step)._replace(high=max(size - 1, 0))
        scaled = self.g.scale(block, step)
        key = ("block start", scaled.base, size, step)
        operands = [scaled.base]
        base = self.g.pure(
            key, operands, lambda: self.g.builder.intrinsic("smin", [scaled.base, i64(size - step)])
        )
        return Coordinate(base, 0, 1, None, 0, size - 1, math.gcd(step, size - step))

    def contract(
        self,
        dims: Sequence[Dimension],
        unroll: int,
        accumulators: list[Element],
        body: Callable[[Coordinates, list[Element]], None],
        terms: int = 1,
    ) -> list[Element]:
        """Nested loops over ``dims`` around ``body(coordinates, accumulators)``, which updates the list.

        ``terms``: how many products each accumulator takes in the body.
        """

        def nest(level: int, at: Coordinates, values: list[Element]) -> list[Element]:
            if level == len(dims):
                values = list(values)
                body(at, values)
                return values
            d = dims[level]
            step = unroll if level == len(dims) - 1 else 1
            whole = d.size // step * step
            if whole > step:

                def steps(i: Value, flat: list[Value]) -> list[Value]:
                    inner = self.grouped(flat)
                    for n in range(step):
                        c = Coordinate(self.g.add(i, i64(n)), high=d.size - 1)
                        inner = nest(level + 1, {**at, d: c}, inner)
                    return [v for e in inner for v in components(e)]

                inner_terms = step * terms * math.prod(r.size for r in dims[level + 1 :])
                values = self.accumulate(whole, step, values, steps, inner_terms)
                rest = range(whole, d.size)
            else:
                rest = range(d.size)
            for n in rest:
                values = nest(
                    level + 1, {**at, d: Coordinate(i64(n), 0, 1, None, n, n, n or 1 << 30)}, values
                )
            return values

        return nest(0, {}, accumulators)

    def accumulate(
        self,
        stop: int,
        step: int,
        values: list[Element],
        body: accumulation.Body,
        terms: int,
        block: int = BLOCK,
    ) -> list[Element]:
        """A loop of ``body(i, accumulators)`` from 0 to ``stop``, in blocks if sums of floats are long."""
        start = [v for e in values for v in components(e)]
        trips = -(-stop // step)

        def fresh() -> list[Value]:
            return [llvm_ir.zero(v.type) for v in start]

        def merge(a: list[Value], b: list[Value]) -> list[Value]:
            return [self.add(x, y) for x, y in zip(a, b, strict=True)]

        flat = accumulation.accumulate(
            self.g, i64(0), i64(stop), step, trips, start, body, fresh, merge,
            terms=terms, block=block, longest=2 * block if self.rounds else trips * terms,
        )  # fmt: skip
        return self.grouped(flat)

    # -- sizes
    def streams(self) -> bool:
        """Whether few rows are multiplied by a large matrix (rhs): reading it decides how long that takes."""
        c, costs = self.c, self.target.costs
        last = c.columns[-1] if c.columns else Dimension(1)
        minor = c.minor("rhs")
        return (
            math.prod(d.size for d in c.rows[:-1]) == 1
            and (c.rows[-1].size if c.rows else 1)
            <= (costs.products.few_rows if self.fetches else 1)
            and len(c.contracted) == 1
            and last.size >= self.lanes  # of a panel
            and (minor is c.contracted[0] or (minor is last and last.size >= 2 * self.lanes))
            and math.prod(c.rhs) * self.sources[1].dtype.size >= costs.memory.streamed
        )

    def vectors_of_tiles(self, rows: int, columns: int) -> tuple[int, int, int]:
        """The tiles of a result with columns minor: (rows, lanes of a vector, vectors)."""
        lanes = min(self.lanes, power_of_two(columns, up=self.can_mask))
        vectors = (
            -(-columns // lanes)
            if self.can_mask or columns % lanes == 0
            else max(1, columns // lanes)
        )
        budget = self.registers * 3 // 4 // self.parts
        most = 8 if rows == 1 else 4 if self.registers == 32 else 2
        most = max(1, min(most // self.parts, budget))
        width = -(-vectors // -(-vectors // most))
        return tile(rows, max(1, min(budget // width, 12))), lanes, width

    # -- memory
    def fetch(self, at: Coordinates, column_at: Sequence[Coordinate]) -> None:
        """Ask for what the matrix is made of ``at`` some place, in each of the columns."""
        if not self.fetches:
            return
        with self.g.fetching(self.fetched_bytes, 2 if self.is_far else 3):
            for place in column_at:
                self.read(1, {**at, self.column: place})


def power_of_two(n: int, *, up: bool) -> int:
    """The power of two next to n >= 1, at least or at most n."""
    return 1 << ((n - 1).bit_length() if up else n.bit_length() - 1) if n > 0 else 1


def tile(size: int, most: int) -> int:
    """The tile length up to ``most`` for ``size``: tiles overlap at the end, and each costs a little."""
    return min(range(1, max(2, min(size, most) + 1)), key=lambda t: -(-size // t) * (t + 2))
