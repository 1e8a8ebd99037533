"""Element generators: one element (or a vector of elements) of any indexable instruction.

``element(g, instruction, index)`` is the way in. Elementwise instructions evaluate their operands at the same
index; the instructions here compute their operands' index from their own, and are registered with their function here
(``Op.elements``).

Conditions that are the same in all lanes become branches; others evaluate both sides, loads masked (``g.masked``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ...ir import dtypes, errors, hlo
from ...ir.patterns import reshape_groups
from ...ir.registry import OPS
from .. import llvm_ir, representation
from ..generator import ZERO, Array, Coordinate, Index, fixed
from ..llvm_ir import Value, i64
from ..representation import Complex, Element, components, lanes, map_components
from . import conversion, elementwise

if TYPE_CHECKING:
    from ..generator import Generator


def element(g: Generator, instruction: hlo.Instruction, index: Index) -> Element:
    """The value of ``instruction`` at ``index`` in registers: a scalar if it is the same in all lanes.

    Raises CompileError UNIMPLEMENTED for what is not indexable.
    """
    place = g.place(index)
    hit = g.recall((instruction, place))
    if hit is not None:
        return hit  # type: ignore[no-any-return]
    # Chains of elementwise instructions can be long: walk them with a stack of our own. What is known is kept here too:
    # to find it by an index takes as long as to write its code.
    found: dict[hlo.Instruction, Element] = {}
    bound, recall, everywhere = g.bound, g.recall, g.place(())
    level_of_index = _level_of(g, index)

    def known(i: hlo.Instruction) -> bool:
        if i in found:
            return True
        value = bound.get(i)
        if value is None:
            value = recall((i, place if i.dims else everywhere))
            if value is None:
                return False
        found[i] = value
        return True

    stack = [instruction]
    while stack:
        top = stack[-1]
        if known(top):
            stack.pop()
            continue
        at = index if top.dims else ()
        if top in g.scratch:
            array, first = g.scratch[top]
            value = g.load(array, at[first:], g.depth)
        elif top in g.readers:
            value = g.readers[top](at)
        elif not _is_elementwise(top):
            value = _generator(top)(g, top, at)
        else:
            missing = [o for o in top.operands if not known(o)]
            if missing:
                stack.extend(reversed(missing))
                continue
            value = elementwise.emit(g, top, [found[o] for o in top.operands])
        level = max([g.level_of(v) for v in components(value)])
        if top.dims:
            g.remember((top, place), value, max(level, level_of_index))
        else:
            g.remember((top, everywhere), value, level)
        found[top] = value
        stack.pop()
    return found[instruction]


def _level_of(g: Generator, index: Index) -> int:
    """The innermost loop depth that a coordinate lives at."""
    level = 0
    for c in index:
        level = max(level, g.level_of(c.base), g.level_of(c.vector) if c.vector is not None else 0)
    return level


def _is_elementwise(instruction: hlo.Instruction) -> bool:
    if instruction.opcode == "bitcast-convert":
        return instruction.dtype.bits == instruction.operands[0].dtype.bits
    return instruction.opcode == "copy" or instruction.is_elementwise


def _generator(
    instruction: hlo.Instruction,
) -> Callable[[Generator, hlo.Instruction, Index], Element]:
    generator = OPS[instruction.opcode].elements
    if generator is None:
        raise errors.of_instruction(
            "UNIMPLEMENTED", "this operation cannot be part of a fusion", instruction
        )
    return generator


def inline(
    g: Generator, computation: hlo.Computation, arguments: Sequence[Element]
) -> list[Element]:
    """The results of a computation on scalars (a reduction's body, a map's), for arguments of any number of lanes."""
    values: dict[hlo.Instruction, Element] = {}
    for instruction in computation.instructions:
        if instruction.opcode == "parameter":
            values[instruction] = arguments[instruction.attributes["index"]]
        elif instruction.opcode == "constant":
            values[instruction] = representation.literal(
                instruction.dtype, instruction.attributes["literal"][()]
            )
        elif instruction.opcode == "tuple":
            continue
        elif instruction.opcode in ("broadcast", "reshape", "bitcast"):
            values[instruction] = values[instruction.operands[0]]
        elif instruction.opcode in ("map", "call"):
            body = instruction.called[0]
            values[instruction] = inline(g, body, [values[o] for o in instruction.operands])[0]
        else:
            values[instruction] = elementwise.emit(
                g, instruction, [values[o] for o in instruction.operands]
            )
    return [values[r] for r in computation.results]


# ----------------------------------------------------------------------------------------------- index arithmetic


def of_parameter(g: Generator, i: hlo.Instruction, index: Index) -> Element:
    array = g.arrays.get(i)
    if array is None:
        raise errors.of_instruction("INTERNAL", "parameter is not bound to an array", i)
    return g.load(array, index)


def of_constant(g: Generator, i: hlo.Instruction, index: Index) -> Element:
    data: np.ndarray = i.attributes["literal"]
    if data.size == 1:
        return representation.literal(i.dtype, data.reshape(-1)[0])
    if not i.dtype.is_complex and data.size and _is_splat(data):
        return representation.literal(i.dtype, data.reshape(-1)[0])
    known = [c.base.constant if c.is_uniform else None for c in index]
    place = tuple([at for at in known if isinstance(at, int)])
    if len(place) == data.ndim and all(
        0 <= at < dim for at, dim in zip(place, data.shape, strict=True)
    ):
        return representation.literal(i.dtype, data[place])
    shape = hlo.Shape(i.dtype, i.dims)
    return g.load(Array(constant_table(g, data), shape), index)


def _is_splat(data: np.ndarray) -> bool:
    raw = np.ascontiguousarray(data).view(np.uint8).reshape(data.size, -1)
    return bool((raw == raw[0]).all())


def constant_table(g: Generator, data: np.ndarray) -> Value:
    """A literal in the module's read-only data."""
    raw = np.ascontiguousarray(data)
    width = min(raw.dtype.itemsize, 8)
    words = raw.view(np.uint8).reshape(-1).view(f"u{width}")
    return g.builder.constant_array(f"i{width * 8}", map(str, words.tolist()))


def of_broadcast(g: Generator, i: hlo.Instruction, index: Index) -> Element:
    return element(g, i.operands[0], tuple(index[d] for d in i.attributes["dimensions"]))


def of_reshape(g: Generator, i: hlo.Instruction, index: Index) -> Element:
    operand = i.operands[0]
    return element(g, operand, reshape_index(g, index, i.dims, operand.dims))


def reshape_index(
    g: Generator, index: Index, dims: Sequence[int], operand_dims: Sequence[int]
) -> Index:
    """The operand's index of a reshape, worked out for each group of dimensions with equal products alone."""
    result: list[Coordinate] = []
    for ours, theirs in reshape_groups(dims, operand_dims):
        if len(ours) == 1 and len(theirs) == 1:
            result.append(index[ours[0]])
            continue
        c = g.linear([index[d] for d in ours], [dims[d] for d in ours])
        result += g.delinear(c, [operand_dims[d] for d in theirs])
    return tuple(result)


def of_transpose(g: Generator, i: hlo.Instruction, index: Index) -> Element:
    result: list[Coordinate] = [ZERO] * len(index)
    for ours, theirs in enumerate(i.attributes["dimensions"]):
        result[theirs] = index[ours]
    return element(g, i.operands[0], tuple(result))


def of_slice(g: Generator, i: hlo.Instruction, index: Index) -> Element:
    starts, strides = i.attributes["starts"], i.attributes["strides"]
    moved = (g.shift(g.scale(c, s), b) for c, b, s in zip(index, starts, strides, strict=True))
    return element(g, i.operands[0], tuple(moved))


def of_reverse(g: Generator, i: hlo.Instruction, index: Index) -> Element:
    flipped = i.attributes["dimensions"]
    moved = [
        g.shift(g.scale(c, -1), dim - 1) if d in flipped else c
        for d, (c, dim) in enumerate(zip(index, i.dims, strict=True))
    ]
    return element(g, i.operands[0], tuple(moved))


def of_iota(g: Generator, i: hlo.Instruction, index: Index) -> Element:
    c = index[i.attributes["dimension"]]
    value = g.vector(c, c.lanes)
    return g.pure(
        ("iota", i.dtype, c), [value], lambda: conversion.convert(g, value, dtypes.S64, i.dtype)
    )


def of_map(g: Generator, i: hlo.Instruction, index: Index) -> Element:
    arguments = [element(g, o, index) for o in i.operands]
    return inline(g, i.called[0], arguments)[0]


def of_bitcast_convert(g: Generator, i: hlo.Instruction, index: Index) -> Element:
    """Between widths: the minor dimension of the narrow side numbers the parts of a wide element, lowest first."""
    operand = i.operands[0]
    source, target = operand.dtype, i.dtype
    if source.is_complex and target.is_complex:
        return _bitcast_convert_complex(g, i, index)
    if source.is_complex or target.is_complex:
        raise errors.of_instruction(
            "UNIMPLEMENTED", "bitcast-convert between complex and other numbers", i
        )
    unsigned, result = _unsigned(source), _unsigned(target)
    if source.bits > target.bits:
        wide = elementwise.bitcast_convert(g, element(g, operand, index[:-1]), source, unsigned)
        assert isinstance(wide, Value)
        by = g.mul(g.vector(index[-1], index[-1].lanes), i64(target.bits))
        by = conversion.convert(g, by, dtypes.S64, unsigned)  # type: ignore[assignment]
        part = conversion.convert(g, g.apply("lshr", wide, by), unsigned, result)
        return elementwise.bitcast_convert(g, _low_bits(g, part, target), result, target)
    total: Value | None = None
    for n in range(target.bits // source.bits):
        part = element(g, operand, (*index, fixed(n)))
        part = _low_bits(g, elementwise.bitcast_convert(g, part, source, unsigned), source)
        part = conversion.number(g, part, unsigned, result)
        part = g.apply("shl", part, llvm_ir.integer(part.type, n * source.bits)) if n else part
        total = part if total is None else g.apply("or", total, part)
    assert total is not None
    return elementwise.bitcast_convert(g, total, result, target)


def _bitcast_convert_complex(g: Generator, i: hlo.Instruction, index: Index) -> Element:
    """As in memory: the real part of a wide number is a narrow number, then the imaginary part is one."""
    operand = i.operands[0]
    if operand.dtype.bits == i.dtype.bits:
        return element(g, operand, index)
    if operand.dtype.bits < i.dtype.bits:
        first, second = (element(g, operand, (*index, fixed(n))) for n in range(2))
        return Complex(_join_floats(g, first), _join_floats(g, second))
    wide = element(g, operand, index[:-1])
    parts = [_bits(g, part, dtypes.F64, dtypes.U64) for part in components(wide)]
    number = g.vector(index[-1], index[-1].lanes)
    is_imaginary = g.compare("ne", number, i64(0))
    count = max(lanes(v) for v in (is_imaginary, *parts))
    real, imag, condition = (g.splat(v, count) for v in (*parts, is_imaginary))
    chosen = g.builder.select(condition, imag, real)
    low, high = (
        _bits(g, _bits(g, half, dtypes.U64, dtypes.U32), dtypes.U32, dtypes.F32)
        for half in (chosen, g.apply("lshr", chosen, i64(32)))
    )
    return Complex(low, high)


def _join_floats(g: Generator, parts: Element) -> Value:
    """An f64 of the bits of two f32, the lower ones first."""
    low, high = (
        _bits(g, _bits(g, part, dtypes.F32, dtypes.U32), dtypes.U32, dtypes.U64)
        for part in components(parts)
    )
    joined = g.apply("or", low, g.apply("shl", high, i64(32)))
    return _bits(g, joined, dtypes.U64, dtypes.F64)


def _bits(g: Generator, value: Value, source: dtypes.DType, target: dtypes.DType) -> Value:
    """The bits of a value; of integers the lowest ones, or with zeros above them."""
    if source.bits == target.bits:
        bits = elementwise.bitcast_convert(g, value, source, target)
    else:
        bits = conversion.convert(g, value, source, target)
    assert isinstance(bits, Value)
    return bits


def _unsigned(dtype: dtypes.DType) -> dtypes.DType:
    """The unsigned integer that an element's bits fit into."""
    return {1: dtypes.U8, 2: dtypes.U16, 4: dtypes.U32, 8: dtypes.U64}[dtype.size]


def _low_bits(g: Generator, bits: Element, dtype: dtypes.DType) -> Element:
    """Bits of an element, without those of its byte that are not its own."""
    if dtype.bits == 8 * dtype.size:
        return bits
    assert isinstance(bits, Value)
    return g.apply("and", bits, llvm_ir.integer(bits.type, (1 << dtype.bits) - 1))


# ------------------------------------------------------------------------------------------- indices from data


def start_coordinate(g: Generator, start: hlo.Instruction, index: Index, limit: int) -> Coordinate:
    """A start index computed by the program, clamped to [0, limit]."""
    return clamp_coordinate(g, element(g, start, index), start.dtype, limit)


def clamp_coordinate(g: Generator, value: Element, dtype: dtypes.DType, limit: int) -> Coordinate:
    """An integer value as a coordinate clamped to [0, limit]."""
    assert isinstance(value, Value)
    if limit <= 0:
        return ZERO
    if isinstance(value.constant, int) and value.type[0] == "i":
        number = value.constant
        if not dtype.is_signed:
            number &= (1 << dtype.bits) - 1
        return fixed(min(max(number, 0), limit))

    def emit() -> Value:
        b = g.builder
        if dtype.bits == 32 and limit < 1 << 31:  # half as many registers as of 64 bits
            top = llvm_ir.integer(value.type, limit)
            if dtype.is_signed:
                low = b.intrinsic("smax", [value, llvm_ir.zero(value.type)])
                near = b.intrinsic("smin", [low, top])
            else:
                near = b.intrinsic("umin", [value, top])
            return b.cast("zext", near, llvm_ir.vector("i64", lanes(near)))
        wide = conversion.number(g, value, dtype, dtypes.S64)
        top = llvm_ir.integer(wide.type, limit)
        if not dtype.is_signed:
            return b.intrinsic("umin", [wide, top])
        return b.intrinsic("smin", [b.intrinsic("smax", [wide, llvm_ir.zero(wide.type)]), top])

    clamped = g.pure(("clamp", value, dtype, limit), [value], emit)
    if clamped.type[0] == "<":
        return Coordinate(i64(0), 0, llvm_ir.lanes_of(clamped.type), clamped, 0, limit)
    return Coordinate(clamped, high=limit)


def of_dynamic_slice(g: Generator, i: hlo.Instruction, index: Index) -> Element:
    operand, *starts = i.operands
    moved = [
        g.sum(c, start_coordinate(g, start, (), dim - size))
        for c, start, dim, size in zip(
            index, starts, operand.dims, i.attributes["slice_sizes"], strict=True
        )
    ]
    return element(g, operand, tuple(moved))


def of_gather(g: Generator, i: hlo.Instruction, index: Index) -> Element:
    numbers: hlo.GatherDimensionNumbers = i.attributes["dimension_numbers"]
    sizes = i.attributes["slice_sizes"]
    operand, indices = i.operands
    batch = [c for d, c in enumerate(index) if d not in numbers.offset_dims]
    moved: list[Coordinate] = [ZERO] * operand.shape.rank  # type: ignore[union-attr]
    skipped = {*numbers.collapsed_slice_dims, *numbers.operand_batching_dims}
    kept = [d for d in range(len(operand.dims)) if d not in skipped]
    for ours, theirs in zip(sorted(numbers.offset_dims), kept, strict=True):
        moved[theirs] = index[ours]
    vector_dim = numbers.index_vector_dim
    for k, d in enumerate(numbers.start_index_map):
        at = list(batch)
        if vector_dim < len(indices.dims):
            at.insert(vector_dim, fixed(k))
        start = start_coordinate(g, indices, tuple(at), operand.dims[d] - sizes[d])
        moved[d] = g.sum(moved[d], start)
    for d, batch_dim in zip(
        numbers.operand_batching_dims, numbers.start_indices_batching_dims, strict=True
    ):
        moved[d] = batch[batch_dim if batch_dim < vector_dim else batch_dim - 1]
    return element(g, operand, tuple(moved))


# --------------------------------------------------------------------------------------- conditions on the index


def of_pad(g: Generator, i: hlo.Instruction, index: Index) -> Element:
    operand, padding = i.operands
    moved: list[Coordinate] = []
    conditions: list[Value] = []
    if operand.shape.elements == 0:  # type: ignore[union-attr]
        return element(g, padding, ())
    attributes = (i.attributes["low"], i.attributes["high"], i.attributes["interior"])
    for c, dim, low, _, interior in zip(index, operand.dims, *attributes, strict=True):
        c, distance = g.shift(c, -low), interior + 1
        # The vector's first lane may lie before the array while others are in it, and numbers that are divided must not
        # be negative: so many elements are added before the division, and taken off again behind it.
        before = -(min(c.low, 0) // distance)
        if interior:
            quotient, rest = g.divide(g.shift(c, before * distance), distance)
            if rest.low == rest.high:  # all lanes are elements, or all are between them
                if rest.low != 0:
                    return element(g, padding, ())
                c, distance = g.shift(quotient, -before), 1
        last = (dim - 1) * distance
        conditions += _inside(g, c, 0, last + 1)
        c = _near(g, c, last + 1)
        c = c._replace(low=max(c.low, 0), high=max(min(c.high, last), 0))
        if distance > 1:
            c, rest = g.divide(g.shift(c, before * distance), distance)
            c = g.shift(c, -before)
            if rest.low != 0 or rest.high != 0:
                conditions.append(g.compare("eq", g.vector(rest, rest.lanes), i64(0)))
            if not (c.is_uniform and c.base.is_constant):  # a known place stays known
                c = c._replace(low=0, high=dim - 1)
        moved.append(c)
    return _when(
        g, conditions, lambda: element(g, operand, tuple(moved)), lambda: element(g, padding, ())
    )


_NEVER: Final = llvm_ir.FALSE


def _inside(g: Generator, c: Coordinate, start: int, stop: int) -> list[Value]:
    """The conditions for start <= c < stop that are not known to hold."""
    if c.low >= start and c.high < stop:
        return []
    if c.high < start or c.low >= stop:
        return [_NEVER]
    value = g.vector(c, c.lanes)
    if c.high < stop:
        return [g.compare("sge", value, i64(start))]
    if c.low >= start:
        return [g.compare("slt", value, i64(stop))]
    return [g.compare("ult", g.sub(value, i64(start)), i64(stop - start))]


def _near(g: Generator, c: Coordinate, size: int) -> Coordinate:
    """``c``, but 0 where no lane of a vector is in [0, size).

    Such vectors are masked off altogether. Their address must be a good one nevertheless: the machine takes long over
    a masked load of memory that is not there.
    """
    if c.is_uniform or c.vector is not None or (c.low >= 0 and c.high < size):
        return c
    span = c.stride * (c.lanes - 1)
    first, last = min(0, span), max(0, span)
    moved = g.add(c.base, i64(last))
    some = g.compare("ult", moved, i64(size + last - first))
    base = g.pure(
        ("near", c.base, some), (c.base, some), lambda: g.builder.select(some, c.base, i64(0))
    )
    return c._replace(base=base)


def _when(
    g: Generator,
    conditions: Sequence[Value],
    then: Callable[[], Element],
    otherwise: Callable[[], Element],
) -> Element:
    """``then()`` where all conditions hold, else ``otherwise()``. Loads of ``then`` happen only where they hold."""
    if not conditions:
        return then()
    if _NEVER in conditions:
        return otherwise()
    uniform = [c for c in conditions if c.type == "i1"]
    varying = [c for c in conditions if c.type != "i1"]

    def with_mask() -> Element:
        if not varying:
            return then()
        mask = varying[0]
        for c in varying[1:]:
            mask = g.apply("and", mask, c)
        other = otherwise()
        with g.masked(mask):
            value = then()
        count = llvm_ir.lanes_of(mask.type)
        return map_components(
            lambda a, b: g.builder.select(mask, g.splat(a, count), g.splat(b, count)), value, other
        )

    if not uniform:
        return with_mask()
    condition = uniform[0]
    for c in uniform[1:]:
        condition = g.apply("and", condition, c)
    return branch(g, condition, with_mask, otherwise)


def branch(
    g: Generator, condition: Value, then: Callable[[], Element], otherwise: Callable[[], Element]
) -> Element:
    """One of two elements by a condition that is the same in all lanes; only that one is computed."""
    b = g.builder
    yes, no, join = b.new_label("then"), b.new_label("else"), b.new_label("join")
    results: list[tuple[Element, str, list[llvm_ir.Instruction]]] = []
    entry = b.lines
    b.branch_if(condition, yes, no)
    for label, function in ((yes, then), (no, otherwise)):
        with g.level(guard=True, preheader=entry):
            b.start_block(label)
            value = function()
            results.append((value, b.block, b.lines))
    count = max(lanes(value) for value, _, _ in results)
    ends = []
    for value, block, lines in results:
        with b.append_to(lines):
            wide = map_components(lambda v: b.splat(v, count), value)
            b.branch(join)
        ends.append((wide, block))
    b.start_block(join)
    first, second = ends
    merged = [
        b.phi([(v, first[1]), (w, second[1])])
        for v, w in zip(components(first[0]), components(second[0]), strict=True)
    ]
    g.note(*merged)
    return Complex(merged[0], merged[1]) if len(merged) == 2 else merged[0]


def of_concatenate(g: Generator, i: hlo.Instruction, index: Index) -> Element:
    dimension = i.attributes["dimension"]
    c = index[dimension]
    pieces: list[tuple[int, int, hlo.Instruction]] = []
    start = 0
    for operand in i.operands:
        stop = start + operand.dims[dimension]
        if stop > start and c.high >= start and c.low < stop:
            pieces.append((start, stop, operand))
        start = stop
    return _Pieces(g, dimension, index, pieces).select(0, len(pieces))


@dataclass(frozen=True, slots=True)
class _Pieces:
    """An element of arrays behind one another: ``pieces`` are their first places along ``dimension``, their ends, and
    themselves. (Methods, since functions that call each other keep what they know alive until the garbage collector
    comes.)
    """

    g: Generator
    dimension: int
    index: Index
    pieces: Sequence[tuple[int, int, hlo.Instruction]]

    def piece(self, number: int) -> Element:
        g, dimension, index = self.g, self.dimension, self.index
        first, last, operand = self.pieces[number]
        moved = _near(g, g.shift(index[dimension], -first), last - first)
        moved = moved._replace(low=max(moved.low, 0), high=min(moved.high, last - first - 1))
        return element(g, operand, (*index[:dimension], moved, *index[dimension + 1 :]))

    def select(self, low: int, high: int) -> Element:
        """One of pieces[low:high], by bisection: few comparisons even for many operands."""
        if high - low == 1:
            return self.piece(low)
        g, c = self.g, self.index[self.dimension]
        middle = (low + high) // 2
        value = g.vector(c, c.lanes)
        before = g.compare("slt", value, i64(self.pieces[middle][0]))
        if before.type == "i1":
            return branch(
                g, before, lambda: self.select(low, middle), lambda: self.select(middle, high)
            )
        with g.masked(before):
            left = self.select(low, middle)
        with g.masked(g.apply("xor", before, llvm_ir.integer(before.type, -1))):
            right = self.select(middle, high)
        count = c.lanes
        return map_components(
            lambda x, y: g.builder.select(before, g.splat(x, count), g.splat(y, count)), left, right
        )
