"""The "scatter" kernel of updates that are whole rows: sparse matrices by dense ones, gradients of embeddings, graphs.

Places and updates are computed on the way: an update's place first, as a number, and its row in vectors only if the row
is to be changed. Updates that meet in one row are applied in their order, whoever applies them, because units of work
share out the rows of the result and not the updates: each goes through all places and skips those of others' rows.
(Neighbouring units are one such walk.) Where the result has few rows, long ones are cut into blocks of columns, for
many threads. Where the updates stream by, memory brings those of others' rows nevertheless: so rows of whole lines are
cut into halves, of which two threads read one each, and a thread that has both halves goes through whole rows.

The result holds the input when the kernel starts, as for every scatter (:mod:`.scatter`).
"""

from __future__ import annotations

import math

from ...ir import dtypes, hlo
from .. import costs, llvm_ir
from ..elements import conversion, memory
from ..elements.elemental import branch, element, inline
from ..generator import ZERO, Array, Coordinate, Generator, Index
from ..llvm_ir import Value, i64
from ..representation import Element
from . import loops
from .emit import EmittedKernel, Frame

# Blocks of columns that long rows of results of few rows are cut into, and the vectors that each has at least. (They
# take a third more time than whole rows.)
_BLOCKS = (8, 4, 2)
_VECTORS = 4
_FEW_ROWS = 64
# Blocks of columns of rows that stream by. Each has pairs of lines: processors bring a line with its neighbour.
_HALVES = 2
_LINES = 2
# Vectors of a row that are written out one by one.
_UNROLLED = 8
# Walks through all places: at least and at most so many are worth it, if there is work for several threads.
_WALKS = (2, 64)


class ScatterRows:
    """Writes the kernel of a frame whose root is a scatter of rows (``patterns.scatters_rows``)."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.g: Generator = frame.generator
        root = frame.computation.root
        _, self.indices, self.updates = root.operands
        self.body = root.called[0]
        self.numbers: hlo.ScatterDimensionNumbers = root.attributes["dimension_numbers"]
        (self.result,) = frame.results
        self.rows, *self.row = self.result.shape.dims
        self.scattered = self.updates.dims[: len(self.updates.dims) - len(self.row)]
        self.lanes = min(
            loops.lanes_for(frame.target, frame.computation), 1 << (self.row[-1] - 1).bit_length()
        )
        self.masked = loops.can_mask(frame.target, frame.computation)
        # A block's places, and the numbers of those that are ours, are on the stack.
        self.compresses = frame.target.has("avx512f")  # lanes are moved together in an instruction
        wide = self.rows > 1 << 31 or self.indices.dtype.bits > 32
        self.place = dtypes.S64 if wide else dtypes.S32
        target = frame.target
        lanes = target.lane_count(self.place.size, False)
        self.places_at_once = min(lanes, 1 << (self.scattered[-1] - 1).bit_length())
        most = target.costs.memory.places // (2 * self.place.size)
        self.room = max(lanes, min(most, self.scattered[-1]) // lanes * lanes)
        self.places, self.slots = (self.stack(self.room + lanes) for _ in range(2))
        self.blocks = 1
        self.gathers = [i for i in frame.computation.instructions[:-1] if _gathers_rows(i)]
        memory_costs = target.costs.memory
        walks = target.costs.threads.scatter_walks
        self.halves = (
            self.streams() and has_halves(root, memory_costs.line) and _HALVES * self.rows >= walks
        )
        if self.halves:
            self.blocks = _HALVES
        elif self.rows < _FEW_ROWS and not (self.streams() and self.rows >= walks):
            part = _VECTORS * self.lanes
            self.blocks = next((b for b in _BLOCKS if self.row[-1] % (b * part) == 0), 1)
        # Updates that stream by are asked for ahead, with their rows of the result, unless several share a line.
        # (Places of rows that are gathered would be computed twice, which takes longer than waiting for a cache.)
        row = math.prod(self.row) * self.result.shape.dtype.size
        self.fetches = (
            self.updates.opcode == "parameter"
            and self.updates.shape.bytes >= memory_costs.streamed  # type: ignore[union-attr]
            and row >= 2 * memory_costs.line
        )
        self.row_size = row

    def stack(self, length: int) -> Array:
        shape = hlo.Shape(self.place, (length,))
        return Array(self.frame.builder.alloca("i8", shape.bytes), shape)

    def emit(self) -> EmittedKernel:
        g, b, frame = self.g, self.frame.builder, self.frame
        if not self.updates.elements or not self.rows:
            return frame.finish(0, 0.0)
        if self.blocks == 1:
            self.walk(frame.begin, frame.end, ZERO)
        elif self.halves:
            units = b.sub(frame.end, frame.begin)
            has_all = b.icmp("eq", units, i64(self.rows * self.blocks))
            g.either(has_all, self.walk_whole_rows, self.walk_blocks)
        else:
            self.walk_blocks()
        return self.finish()

    def walk_whole_rows(self) -> None:
        blocks, self.blocks = self.blocks, 1
        self.walk(i64(0), i64(self.rows), ZERO)
        self.blocks = blocks

    def walk_blocks(self) -> None:
        """Units of the first block of columns, then of the second."""
        g, b, frame = self.g, self.frame.builder, self.frame
        rows = i64(self.rows)
        first = b.binary("udiv", frame.begin, rows)
        last = b.binary("udiv", b.add(frame.end, i64(self.rows - 1)), rows)
        g.note(first, last)
        with g.loop(first, last) as (block, _, _):
            before = b.mul(block, rows)
            begin = b.intrinsic("smax", [b.sub(frame.begin, before), i64(0)])
            end = b.intrinsic("smin", [b.sub(frame.end, before), rows])
            g.note(before, begin, end)
            self.walk(begin, end, Coordinate(block, high=self.blocks - 1))

    def finish(self) -> EmittedKernel:
        frame, target = self.frame, self.frame.target
        kernels = target.costs.kernels
        computed = [i for i in frame.computation.instructions[:-1] if i.opcode != "parameter"]
        others = [i for i in computed if i not in self.gathers]
        cost = costs.of_instructions(target, others, [self.indices, self.updates])
        cost += self.updates.elements / self.lanes * kernels.scattered_vector
        cost += sum(i.elements for i in self.gathers) / self.lanes * kernels.cheap
        units = self.rows * self.blocks
        # How often all places may be gone through for a quarter of the time that the updates take.
        walk = math.prod(self.scattered) * kernels.scattered_place
        least, most = _WALKS
        walks = min(max(int(cost / (4 * walk)), least), most)
        if self.streams():
            walks = min(walks // 2 * 2, target.costs.threads.scatter_walks)
        return frame.finish(units, cost, -(-units // walks))

    def streams(self) -> bool:
        """Whether many updates of each row stream by, so that a walk's own ones take as long to read as all of them.
        Each half of the walks has a half of the columns or, where rows have no such halves, of the updates
        (``passes/split_scatters.py``).
        """
        threads = self.frame.target.costs.threads
        many = self.updates.elements >= threads.scatter_each * self.result.shape.elements
        streamed = self.updates.shape.bytes >= threads.scatter_streamed  # type: ignore[union-attr]
        return many and streamed and not self.gathers

    def walk(self, begin: Value, end: Value, block: Coordinate) -> None:
        """All updates of the rows [begin, end), in a block of columns."""
        g = self.g
        *outer, length = self.scattered
        part = min(self.room, length)
        first = conversion.number(g, begin, dtypes.S64, self.place)
        count = conversion.number(g, g.sub(end, begin), dtypes.S64, self.place)
        mine = (first, count)

        def row(at: Index) -> None:
            whole = length // part * part
            if whole == part:
                self.some(at, i64(0), part, mine, block)
            else:
                with g.loop(i64(0), i64(whole), part) as (start, _, _):
                    self.some(at, start, part, mine, block)
            if whole < length:
                rest = length - whole
                self.some(at, i64(whole), rest, mine, block, fetches=4 * rest > length)

        g.nest(outer, row)

    def some(
        self,
        at: Index,
        start: Value,
        count: int,
        mine: tuple[Value, Value],
        block: Coordinate,
        fetches: bool = True,
    ) -> None:
        """The updates at ``count`` positions from ``start`` on: first which of them are ours, then their rows."""
        g = self.g
        length = self.scattered[-1]
        main = count // self.places_at_once * self.places_at_once
        found = i64(0)
        if main:
            step = self.places_at_once
            with g.loop(i64(0), i64(main), step, [found]) as (i, carried, results):
                slot = Coordinate(i, int(step > 1), step, None, 0, main - 1, step)
                c = slot._replace(base=g.add(start, i), high=length - 1)
                carried[0] = self.find((*at, c), slot, mine, carried[0], None)
            (found,) = results

        def rest(c: Coordinate, mask: Value | None) -> None:
            nonlocal found
            found = self.find((*at, c), g.shift(c, -first), mine, found, mask)

        if main < count:  # the last positions, whose start is known
            assert isinstance(start.constant, int)
            first = start.constant
            loops.tail(g, first + main, first + count, self.places_at_once, self.masked, rest)
        last = g.sub(found, i64(1))
        with g.loop(i64(0), found) as (n, _, _):
            if self.fetches and fetches:
                later = g.builder.intrinsic("smin", [g.add(n, i64(self.ahead())), last])
                c, place = self.listed(later, start)
                self.fetch((*at, c), place, block)
            c, place = self.listed(n, start)
            self.apply((*at, c), place, block)

    def ahead(self) -> int:
        """How many updates ahead one is fetched."""
        memory_costs = self.frame.target.costs.memory
        if not self.streams():
            return memory_costs.rows_ahead
        return max(
            memory_costs.rows_ahead, memory_costs.updates_ahead // (self.row_size // self.blocks)
        )

    def listed(self, n: Value, start: Value) -> tuple[Coordinate, Coordinate]:
        """The position and the place of the ``n``-th update of a block that is ours."""
        g = self.g
        number = self.wide(memory.reload(g, self.slots, (Coordinate(n, high=self.room - 1),)))
        at_stack = Coordinate(number, high=self.room - 1)
        place = self.wide(memory.reload(g, self.places, (at_stack,)))
        c = Coordinate(g.add(start, number), high=self.scattered[-1] - 1)
        return c, Coordinate(place, high=self.rows - 1)

    def wide(self, value: Element) -> Value:
        wide = conversion.number(self.g, value, self.place, dtypes.S64)
        self.g.note(wide)
        return wide

    def find(
        self,
        at: Index,
        slot: Coordinate,
        mine: tuple[Value, Value],
        found: Value,
        mask: Value | None,
    ) -> Value:
        """Write the places of a vector of positions, and which of them are ours behind the ``found`` ones. Gives how
        many there are now.
        """
        g, b, lanes = self.g, self.g.builder, slot.lanes
        index = list(at)
        if self.numbers.index_vector_dim < len(self.indices.dims):
            index.insert(self.numbers.index_vector_dim, ZERO)
        given = element(g, self.indices, tuple(index))
        value = conversion.number(g, given, self.indices.dtype, self.place)
        place = g.splat(value, lanes)
        # Places outside of the result are in nobody's rows: negative ones are large ones.
        begin, count = (g.splat(v, lanes) for v in mine)
        ours = b.icmp("ult", g.sub(place, begin), count)
        if mask is not None:
            ours = b.binary("and", ours, mask)
        if lanes > 1 and self.compresses:  # fewer cycles than a branch that nobody can foresee
            return self.note(slot, place, ours, found)
        some, before = b.any_lane(ours), b.block
        with g.only_if(some, "some", "none"):
            more = self.note(slot, place, ours, found)
            last = b.block
        result = b.phi([(found, before), (more, last)])
        g.note(result)
        return result

    def note(self, slot: Coordinate, place: Value, ours: Value, found: Value) -> Value:
        """Write places and the numbers of those that are ours; gives how many there are now."""
        g = self.g
        self.put(self.places, slot, place)
        number = g.vector(slot, slot.lanes)
        slots = conversion.number(g, number, dtypes.S64, self.place)
        more = self.append(slots, ours, found)
        g.note(more)
        return more

    def append(self, slots: Value, ours: Value, found: Value) -> Value:
        """Write those of a vector of numbers that are ours behind the ``found`` ones; gives how many there are now."""
        g, b = self.g, self.g.builder
        lanes = llvm_ir.lanes_of(slots.type)
        behind = Coordinate(found, int(lanes > 1), lanes, high=self.room)
        if lanes == 1:
            self.put(self.slots, behind, slots)
            return b.add(found, b.cast("zext", ours, "i64"))
        bits = b.cast("bitcast", ours, f"i{lanes}")

        def together() -> Value:
            arguments = [slots, ours, llvm_ir.poison(slots.type)]
            return b.intrinsic("experimental.vector.compress", arguments)

        if self.compresses:
            packed: Element = together()
        else:  # LLVM writes some sixty instructions. Most vectors are ours as a whole, or not at all.
            every = b.icmp("eq", bits, llvm_ir.integer(f"i{lanes}", -1))
            packed = branch(g, every, lambda: slots, together)
        assert isinstance(packed, Value)
        self.put(self.slots, behind, packed)
        return b.add(found, b.cast("zext", b.intrinsic("ctpop", [bits]), "i64"))

    def put(self, array: Array, slot: Coordinate, value: Value) -> None:
        """Write a vector to the stack. What lies behind its last lane is written later, or never read."""
        self.g.store(array, (slot,), value)

    def fetch(self, at: Index, place: Coordinate, block: Coordinate) -> None:
        """Ask for what the first vectors of the update at ``at`` are made of, and for the row at ``place``.

        The rows of one unit lie apart, at distances that no CPU foresees.
        """
        g = self.g
        *outer, length = self.row
        part = length // self.blocks
        first = g.scale(block, part)
        with g.fetching(self.frame.target.costs.memory.streamed):
            for column in range(0, min(part, _UNROLLED * self.lanes), self.lanes):
                base = g.add(first.base, i64(column))
                c = Coordinate(base, int(self.lanes > 1), self.lanes, None, 0, length - 1)
                prefix = (ZERO,) * len(outer)
                element(g, self.updates, (*at, *prefix, c))
                memory.load(g, self.result, (place, *prefix, c))

    def apply(self, at: Index, place: Coordinate, block: Coordinate) -> None:
        """Combine the update at ``at`` with the row at ``place``."""
        g = self.g
        *outer, length = self.row

        def step(prefix: Index, c: Coordinate, mask: Value | None) -> None:
            update = element(g, self.updates, (*at, *prefix, c))
            where = (place, *prefix, c)
            before = memory.reload(g, self.result, where)
            (after,) = inline(g, self.body, [before, update])
            g.store(self.result, where, after, mask)

        def run(prefix: Index) -> None:
            loops.span_of_block(
                *(g, block, self.blocks, length, self.lanes, self.masked),
                lambda c, m: step(prefix, c, m),
                unrolled=length <= _UNROLLED * self.lanes,
            )

        g.nest(outer, run)


def has_halves(scatter: hlo.Instruction, line: int) -> bool:
    """Whether the rows of a scatter of rows are cut into halves of whole pairs of lines where its updates stream by."""
    return scatter.dims[-1] * scatter.dtype.size % (_HALVES * _LINES * line) == 0


def _gathers_rows(i: hlo.Instruction) -> bool:
    """Whether a vector of a gather's result is a run of its operand: a row is one element in the price of a gather."""
    return (
        i.opcode == "gather"
        and len(i.dims) - 1 in i.attributes["dimension_numbers"].offset_dims
        and i.attributes["slice_sizes"][-1] == i.operands[0].dims[-1]
    )


__all__ = ["ScatterRows", "has_halves"]
