"""The "scatter" kernel of updates that are single elements: histograms, sums by segment, sparse products.

The places and the updates are computed on the way, in vectors. A block of them goes to the stack (a place is the number
of an element of the result, or -1 if it lies outside), and then the elements are combined one after the other, in the
order of the updates. Blocks without a place outside do so without testing each place.

An update of an element that one of the last updates met waits for its store. Therefore a unit of work takes updates of
up to :data:`_CHAINS` entries of a batching dimension in turns, if a near cache holds their tables: the pass
``split_scatters`` gives scatters into few elements such a dimension, with a table of its own for each entry. Where
tables are too large for that, blocks whose places repeat (the rows of a sparse matrix in order, sorted segments) carry
the element in a register while the place stays the same.

The result holds the input when the kernel starts, as for every scatter (:mod:`.scatter`).
"""

from __future__ import annotations

import math
from typing import Final

from ...ir import dtypes, hlo
from ...ir.patterns import scalar_of
from .. import costs, llvm_ir
from ..elements import conversion, memory
from ..elements.elemental import element, inline
from ..generator import ZERO, Array, Coordinate, Generator, Index, fixed
from ..llvm_ir import Value, i64
from ..representation import Complex, Element, lanes, register_type
from . import loops
from .emit import EmittedKernel, Frame

# Tables whose updates take turns. A value that is read after it was stored is there 5 cycles later, a sum 4 more.
_CHAINS: Final = 4
# Updates of all tables before the next test of the loop's end.
_UNROLLED: Final = 4

# Blocks of so many vectors are looked at for places that repeat: of the first vector's, half are to be as the next one.
_LOOKED_AT: Final = 4
# Types that registers hold as memory does: what is carried is what would be read again.
_CARRIED: Final = frozenset(
    (dtypes.F32, dtypes.F64, dtypes.S32, dtypes.U32, dtypes.S64, dtypes.U64)
)

# Bytes of the shortest vector that is written to the stack. LLVM 22 keeps a shorter one, of which an element is read
# back, in a register for x86-64, and then takes 64 bits of it for the element's 32: a place far outside of the result.
_SHORTEST: Final = 16

At = dict[int, Coordinate]


class ScatterElements:
    """Writes the kernel of a frame whose root is a scatter of elements (``patterns.scatters_elements``)."""

    def __init__(self, frame: Frame) -> None:
        self.frame = frame
        self.g: Generator = frame.generator
        root = frame.computation.root
        _, self.indices, self.updates = root.operands
        self.body = root.called[0]
        self.numbers: hlo.ScatterDimensionNumbers = root.attributes["dimension_numbers"]
        (self.result,) = frame.results
        dims = self.result.shape.dims
        self.strides = hlo.strides_of(dims)
        self.dims, self.update_dims = dims, self.updates.dims
        n = self.numbers
        index_dims = [d for d in range(len(self.indices.dims)) if d != n.index_vector_dim]
        pairs = zip(n.input_batching_dims, n.scatter_indices_batching_dims, strict=True)
        # Dimensions of the updates that stand for batching dimensions of the result.
        self.batch = {index_dims.index(theirs): ours for ours, theirs in pairs}
        # Dimensions that units of work share out, those that a unit goes through, and the one that runs in vectors.
        self.shared = sorted(self.batch)
        inner = [d for d in range(len(self.update_dims)) if d not in self.batch]
        if not inner:
            inner = [self.shared.pop()]
        *self.outer, self.minor = inner
        self.chains = self.tables_in_turns()

    @property
    def is_worth_it(self) -> bool:
        """Whether something is computed on the way, or tables take turns."""
        computed = any(i.opcode != "parameter" for i in (self.indices, self.updates))
        return self.chains > 1 or computed

    def tables_in_turns(self) -> int:
        """How many tables a unit of work goes through together: the nearest cache holds them."""
        if not self.shared:
            return 1
        last = self.shared[-1]
        table = self.strides[self.batch[last]] * self.result.shape.dtype.size
        most = self.frame.target.costs.memory.panel // max(table, 1)
        return next((c for c in (_CHAINS, 2) if c <= most and self.update_dims[last] % c == 0), 1)

    def emit(self) -> EmittedKernel:
        frame, target = self.frame, self.frame.target
        if math.prod(self.update_dims) == 0 or math.prod(self.dims) == 0:
            return frame.finish(0, 0.0)
        lengths = [self.update_dims[d] for d in self.shared]
        if lengths:
            lengths[-1] //= self.chains
        self.reserve()
        loops.count(self.g, frame.begin, frame.end, lengths, self.unit)
        units = math.prod(lengths)
        computed = [i for i in frame.computation.instructions if i.opcode != "parameter"]
        cost = costs.of_instructions(target, computed[:-1], [self.indices, self.updates])
        cost += math.prod(self.update_dims) * target.costs.kernels.scattered_element
        return frame.finish(units, cost)

    def reserve(self) -> None:
        """Choose the block's length, and reserve the stack for its places and updates."""
        frame, target = self.frame, self.frame.target
        elements = math.prod(self.dims)
        wide = elements > 1 << 31 or self.indices.dtype.bits > 32
        self.place = dtypes.S64 if wide else dtypes.S32
        self.lanes = loops.lanes_for(target, frame.computation)
        self.masked = loops.can_mask(target, frame.computation)
        dtype = self.updates.dtype
        # Updates that are the same everywhere stay in a register; those in memory are read where they lie.
        self.uniform: Element | None = None
        if scalar_of(self.updates) is not None:
            self.uniform = element(self.g, self.updates, (ZERO,) * len(self.update_dims))
        self.stored = self.uniform is None and self.updates.opcode != "parameter"
        each = self.place.size + (dtype.size if self.stored else 0)
        length = self.update_dims[self.minor]
        self.lanes = min(self.lanes, 1 << (length - 1).bit_length())
        most = target.costs.memory.places // (each * self.chains)
        self.block = max(self.lanes, min(most, length) // self.lanes * self.lanes)
        self.places = self.stack(self.place)
        self.ahead = self.stack(dtype) if self.stored else None

    def stack(self, dtype: dtypes.DType) -> Array:
        """A row of the block's length for each table, with room for the last vector."""
        room = max(self.lanes, _SHORTEST // dtype.size)
        shape = hlo.Shape(dtype, (self.chains, self.block + room))
        return Array(self.frame.builder.alloca("i8", shape.bytes), shape)

    # -------------------------------------------------------------------------------------------------- loops
    def unit(self, index: Index) -> None:
        """The updates of ``chains`` entries of the last shared dimension."""
        g = self.g
        at = dict(zip(self.shared, index, strict=True))
        chains: list[At] = [at]
        if self.chains > 1:
            last = self.shared[-1]
            first = g.scale(at[last], self.chains)
            chains = [{**at, last: g.shift(first, n)} for n in range(self.chains)]
        # The first table; the others lie behind it, at distances that the addresses of elements hold.
        unit, factor = memory.unit(self.result.shape.dtype)
        offset = ZERO
        for d in self.shared:
            offset = g.sum(offset, g.scale(chains[0][d], self.strides[self.batch[d]] * factor))
        pointer = g.offset_pointer(unit, self.result.pointer, offset.base)
        flat = hlo.Shape(self.result.shape.dtype, (math.prod(self.dims),))
        self.table = Array(pointer, flat)

        def row(index: Index) -> None:
            inner = dict(zip(self.outer, index, strict=True))
            self.row([{**chain, **inner} for chain in chains])

        g.nest([self.update_dims[d] for d in self.outer], row)

    def row(self, chains: list[At]) -> None:
        """The updates along the minor dimension, block by block."""
        length = self.update_dims[self.minor]
        whole = length // self.block * self.block
        if whole == self.block:
            self.one_block(chains, i64(0), self.block)
        elif whole:
            with self.g.loop(i64(0), i64(whole), self.block) as (start, _, _):
                self.one_block(chains, start, self.block)
        if whole < length:
            self.one_block(chains, i64(whole), length - whole)

    def one_block(self, chains: list[At], start: Value, count: int) -> None:
        g, b = self.g, self.g.builder
        outside: Value | None = None
        for n, at in enumerate(chains):
            found = self.compute(n, at, start, count)
            outside = found if outside is None else b.binary("or", outside, found)
        assert outside is not None

        def inside() -> None:
            if not self.may_carry(count):
                self.combine_all(chains, start, count)
                return
            g.either(
                self.repeats(),
                lambda: self.combine_runs(chains[0], start, count),
                lambda: self.combine_all(chains, start, count),
                ("runs", "mixed", "joined"),
            )

        g.either(
            outside,
            lambda: self.combine_tested(chains, start, count),
            inside,
            ("some", "all", "done"),
        )

    # ---------------------------------------------------------------------------------------- what is computed ahead
    def compute(self, chain: int, at: At, start: Value, count: int) -> Value:
        """Write the places and updates of ``count`` positions from ``start`` on to the stack; gives whether one of the
        places is outside.
        """
        g, b, lanes = self.g, self.g.builder, self.lanes
        length = self.update_dims[self.minor]
        main = count // lanes * lanes
        type_ = llvm_ir.vector(f"i{self.place.bits}", lanes)
        outside: list[Value] = []
        if main:
            with g.loop(i64(0), i64(main), lanes, [llvm_ir.zero(type_)]) as (i, carried, results):
                slot = Coordinate(i, int(lanes > 1), lanes, None, 0, main - 1, lanes)
                c = slot._replace(base=g.add(start, i), high=length - 1)
                carried[0] = b.binary(
                    "or", carried[0], self.step(chain, {**at, self.minor: c}, slot)
                )
            outside.append(b.any_lane(b.icmp("slt", results[0], llvm_ir.zero(type_))))

        def rest(c: Coordinate, mask: Value | None) -> None:
            slot = g.shift(c, -first)
            place = self.step(chain, {**at, self.minor: c}, slot)
            found = b.icmp("slt", place, llvm_ir.zero(place.type))
            outside.append(b.any_lane(found if mask is None else b.binary("and", found, mask)))

        if main < count:  # the last block, whose start is known
            assert isinstance(start.constant, int)
            first = start.constant
            loops.tail(g, first + main, first + count, lanes, self.masked, rest)
        result = outside[0]
        for found in outside[1:]:
            result = b.binary("or", result, found)
        return result

    def step(self, chain: int, at: At, slot: Coordinate) -> Value:
        """Write the places and updates of a vector of positions to the stack; gives the places."""
        g = self.g
        index = tuple(at[d] for d in range(len(self.update_dims)))
        place = self.places_at(at, slot.lanes)
        self.put(self.places, chain, slot, place)
        if self.ahead is not None:
            self.put(self.ahead, chain, slot, element(g, self.updates, index))
        return place

    def put(self, array: Array, chain: int, slot: Coordinate, value: Element) -> None:
        """Write a vector to the stack, in repeated lanes if it is shorter than :data:`_SHORTEST`.

        What lies behind it is written later, or never read.
        """
        b, given = self.g.builder, lanes(value)
        least = _SHORTEST // array.shape.dtype.size
        if 1 < given < least:
            order = [n % given for n in range(least)]
            if isinstance(value, Complex):
                value = Complex(*(b.shuffle(part, part, order) for part in value))
            else:
                value = b.shuffle(value, value, order)
            slot = slot._replace(lanes=least, high=slot.high + least)
        self.g.store(array, (fixed(chain), slot), value)

    def places_at(self, at: At, lanes: int) -> Value:
        """The places of the updates at ``at``, behind those of the shared dimensions' entry; -1 outside."""
        g, n = self.g, self.numbers
        type_ = llvm_ir.vector(f"i{self.place.bits}", lanes)
        total, inside = llvm_ir.zero(type_), None
        for k, d in enumerate(n.scatter_dims_to_operand_dims):
            index = [at[s] for s in range(len(self.update_dims))]
            if n.index_vector_dim < len(self.indices.dims):
                index.insert(n.index_vector_dim, fixed(k))
            found = element(g, self.indices, tuple(index))
            value = conversion.number(g, found, self.indices.dtype, self.place)
            value = g.splat(value, lanes)
            limit = llvm_ir.integer(type_, self.dims[d] - 1)
            fits = g.builder.icmp("ule", value, limit)  # negative numbers are large ones
            inside = fits if inside is None else g.builder.binary("and", inside, fits)
            total = g.add(total, g.mul(value, llvm_ir.integer(type_, self.strides[d])))
        for ours, theirs in self.batch.items():
            if ours not in self.shared:
                entry = conversion.number(g, g.vector(at[ours], lanes), dtypes.S64, self.place)
                total = g.add(total, g.mul(entry, llvm_ir.integer(type_, self.strides[theirs])))
        if inside is None:
            return total
        return g.builder.select(inside, total, llvm_ir.integer(type_, -1))

    # ------------------------------------------------------------------------------------------- what is combined
    def combine_all(self, chains: list[At], start: Value, count: int) -> None:
        """The updates of a block without a place outside."""
        g = self.g
        steps = _UNROLLED // self.chains
        main = count // steps * steps

        def some(first: Value, steps: int) -> None:
            for step in range(steps):
                slot = g.add(first, i64(step))
                for n, place in enumerate([self.place_of(n, slot) for n in range(self.chains)]):
                    self.combine(n, chains[n], start, slot, place)

        if main:
            with g.loop(i64(0), i64(main), steps) as (i, _, _):
                some(i, steps)
        some(i64(main), count - main)

    def may_carry(self, count: int) -> bool:
        """Whether blocks of ``count`` updates may have a loop for places that repeat."""
        combines = self.body.root is not self.body.parameters[1]
        return (
            combines
            and self.chains == 1
            and self.result.shape.dtype in _CARRIED
            and self.lanes in (8, 16)
            and count >= _LOOKED_AT * self.lanes
        )

    def repeats(self) -> Value:
        """Whether half of the first places are the same as the next one."""
        b, lanes = self.g.builder, self.lanes
        type_ = llvm_ir.vector(f"i{self.place.bits}", lanes)
        size = self.place.size
        first = b.load(type_, self.places.pointer, size)
        following = b.load(type_, b.gep("i8", self.places.pointer, i64(size)), size)
        same = b.cast("bitcast", b.icmp("eq", first, following), f"i{lanes}")
        found = b.intrinsic("ctpop", [same])
        return b.icmp("uge", found, llvm_ir.integer(found.type, lanes // 2))

    def combine_runs(self, at: At, start: Value, count: int) -> None:
        """The updates of a block without a place outside, whose places repeat. While the place stays the same, nobody
        waits for a store: what is read then is another element, which nobody writes.
        """
        g, b = self.g, self.g.builder
        dtype = self.result.shape.dtype
        spare = Array(b.alloca("i8", _SHORTEST), hlo.Shape(dtype, (1,)))
        nothing = llvm_ir.zero(register_type(dtype))
        g.store(spare, (ZERO,), nothing)
        unit, _ = memory.unit(dtype)

        def one(slot: Value, before: Value, carried: Value) -> tuple[Value, Value]:
            place = self.place_of(0, slot)
            same = b.icmp("eq", place, before)
            pointer = b.select(same, spare.pointer, b.gep(unit, self.table.pointer, place))
            read = b.load(unit, pointer, dtype.size)
            so_far = b.select(same, carried, read)
            after = self.combined(0, at, start, slot, so_far)
            assert not isinstance(after, Complex)
            g.store(self.table, (Coordinate(place, high=math.prod(self.dims) - 1),), after)
            return place, after

        main = count // _UNROLLED * _UNROLLED
        with g.loop(i64(0), i64(main), _UNROLLED, [i64(-1), nothing]) as (i, state, results):
            place, value = state
            for n in range(_UNROLLED):
                place, value = one(g.add(i, i64(n)), place, value)
            state[:] = place, value
        place, value = results
        for n in range(main, count):
            place, value = one(i64(n), place, value)

    def combine_tested(self, chains: list[At], start: Value, count: int) -> None:
        """The updates of a block, but for those outside."""
        g, b = self.g, self.g.builder
        with g.loop(i64(0), i64(count)) as (slot, _, _):
            for n, at in enumerate(chains):
                place = self.place_of(n, slot)
                with g.only_if(b.icmp("sge", place, i64(0)), "apply", "skip"):
                    self.combine(n, at, start, slot, place)

    def place_of(self, chain: int, slot: Value) -> Value:
        """The place of an update on the stack, as an i64."""
        g = self.g
        at = (fixed(chain), Coordinate(slot, high=self.block - 1))
        place = memory.reload(g, self.places, at)
        return conversion.number(g, place, self.place, dtypes.S64)

    def combine(self, chain: int, at: At, start: Value, slot: Value, place: Value) -> None:
        """Combine an update with the element that is at its place."""
        g = self.g
        if chain:
            distance = chain * self.strides[self.batch[self.shared[-1]]]
            place = g.add(place, i64(distance))
        where = (Coordinate(place, high=math.prod(self.dims) - 1),)
        before = memory.reload(g, self.table, where)
        g.store(self.table, where, self.combined(chain, at, start, slot, before))

    def combined(self, chain: int, at: At, start: Value, slot: Value, before: Element) -> Element:
        """What an element becomes by the update of a slot."""
        g = self.g
        if self.uniform is not None:
            update = self.uniform
        elif self.ahead is not None:
            here = (fixed(chain), Coordinate(slot, high=self.block - 1))
            update = memory.reload(g, self.ahead, here)
        else:
            c = Coordinate(g.add(start, slot), high=self.update_dims[self.minor] - 1)
            index = {**at, self.minor: c}
            update = element(g, self.updates, tuple(index[d] for d in range(len(index))))
        (after,) = inline(g, self.body, [before, update])
        return after
