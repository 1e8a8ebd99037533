"""The "loop" kernel: results of equal dimensions, computed element by element.

The iteration space is rows x minor dimension. The minor dimension runs in vectors, with a masked (or narrower)
piece for what is left; a unit of work is a row, or a block of a long row. Row numbers are taken apart into an
index once a call and then counted.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from .. import errors, hlo
from ..dtypes import DType
from . import costs
from .elemental import element
from .generator import ZERO, Coordinate, Generator, Index, fixed
from .kernels import EmittedKernel, Frame
from .llvm_ir import Module, Value, i64
from .representation import memory_type

if TYPE_CHECKING:
    from ..targets.target import Target

BLOCK = 1024  # elements of a unit of work in a long minor dimension
# Kernels that move at least this much write past the caches: nothing of it would be found there again.
STREAMING_BYTES = 1 << 25


def emit(module: Module, target: Target, instruction: hlo.Instruction, name: str) -> EmittedKernel:
    """The kernel of a "loop" fusion or of a single indexable instruction."""
    return emit_frame(Frame(module, target, instruction, name))


def emit_frame(frame: Frame) -> EmittedKernel:
    """The loops over the results of a frame's computation."""
    target, computation = frame.target, frame.computation
    roots = computation.results
    dims = roots[0].dims
    if any(r.dims != dims for r in roots):
        raise errors.of_instruction(
            "INTERNAL", "results of a loop fusion differ in dimensions", frame.instruction
        )
    if math.prod(dims) == 0:
        return frame.finish(0, 1, 0.0)

    def body(g: Generator, index: Index, mask: Value | None) -> None:
        values = [element(g, root, index) for root in roots]  # all loads stand before all stores
        for array, value in zip(frame.results, values, strict=True):
            g.store(array, index, value, mask, streaming)

    streaming = frame.moves_at_least(STREAMING_BYTES)
    units = iterate(
        frame, dims, lanes_for(target, computation), can_mask(target, computation), body
    )
    cost = costs.of_computation(target, computation)
    return frame.finish(units, costs.grain(cost, units), cost)


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


def iterate(frame: Frame, dims: Sequence[int], lanes: int, masked: bool, body: Body) -> int:
    """Write the loops over an iteration space and give the number of units of work.

    ``body(g, index, mask)`` writes one step, for an index whose last coordinate covers a number of lanes.
    """
    g = frame.generator
    outer, minor = tuple(dims[:-1]), dims[-1] if dims else 1
    rows = math.prod(outer)
    lanes = min(lanes, 1 << (minor - 1).bit_length())
    at = (lambda c: (c,)) if dims else (lambda c: ())
    if rows == 1:
        prefix: Index = tuple(ZERO for _ in outer)
        if minor <= 4 * lanes:
            span(
                g, 0, minor, minor, lanes, masked, lambda c, mask: body(g, (*prefix, *at(c)), mask)
            )
            return 1
        units = -(-minor // BLOCK)
        b = frame.builder
        start = b.mul(frame.begin, i64(BLOCK))
        stop = b.intrinsic("smin", [b.mul(frame.end, i64(BLOCK)), i64(minor)])
        g.note(start, stop)
        span(g, start, stop, minor, lanes, masked, lambda c, mask: body(g, (*prefix, c), mask))
        return units
    blocks = -(-minor // BLOCK) if minor >= 2 * BLOCK else 1
    counted = (*outer, blocks)

    def row(index: Index) -> None:
        prefix, block = index[:-1], index[-1]
        if blocks == 1:
            span(g, 0, minor, minor, lanes, masked, lambda c, mask: body(g, (*prefix, c), mask))
            return
        start = g.mul(block.base, i64(BLOCK))
        stop = g.builder.intrinsic("smin", [g.add(start, i64(BLOCK)), i64(minor)])
        g.note(stop)
        span(g, start, stop, minor, lanes, masked, lambda c, mask: body(g, (*prefix, c), mask))

    count(g, frame.begin, frame.end, counted, row)
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
            Coordinate(by_dim[d], 0, 1, None, 0, dim - 1) if d in by_dim else ZERO
            for d, dim in enumerate(dims)
        )

    if len(used) <= 1:
        with g.loop(begin, end) as (number, _, _):
            body(coordinates([number][: len(used)]))
        return
    first = Coordinate(begin, 0, 1, None, 0, math.prod(dims))
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


def span(
    g: Generator, start: Value | int, stop: Value | int, size: int, lanes: int, masked: bool, step: Step,
    unrolled: bool = False,
) -> None:  # fmt: skip
    """Write steps for the minor coordinates [start, stop) of ``size``, without a loop if there are few or ``unrolled``.

    If they are not known when compiling, ``start`` is a multiple of BLOCK, and ``stop`` is one too or else is ``size``.
    """
    b = g.builder
    main = size // lanes * lanes
    if isinstance(start, int) and isinstance(stop, int):
        if unrolled or (main - start) // lanes <= 4:
            for at in range(start, main, lanes):
                step(
                    Coordinate(
                        i64(at),
                        int(lanes > 1),
                        lanes,
                        None,
                        at,
                        at + lanes - 1,
                        math.gcd(at, 1 << 30),
                    ),
                    None,
                )
        else:
            with g.loop(i64(start), i64(main), lanes) as (i, _, _):
                step(Coordinate(i, int(lanes > 1), lanes, None, 0, main - 1, lanes), None)
        tail(g, main, size, lanes, masked, step)
        return
    assert isinstance(start, Value)
    assert isinstance(stop, Value)
    limit = stop
    if main < size:
        limit = b.intrinsic("smin", [stop, i64(main)])
        g.note(limit)
    with g.loop(start, limit, lanes) as (i, _, _):
        step(Coordinate(i, int(lanes > 1), lanes, None, 0, main - 1, lanes), None)
    if main < size:
        condition = b.icmp("sgt", stop, i64(main))
        then, done = b.new_label("tail"), b.new_label("done")
        entry = b.lines
        b.branch_if(condition, then, done)
        with g.level(guard=True, preheader=entry):
            b.start_block(then)
            tail(g, main, size, lanes, masked, step)
            b.branch(done)
        b.start_block(done)


def mask_of(count: int, lanes: int) -> Value:
    """The constant mask of the first ``count`` lanes."""
    text = ", ".join(f"i1 {'true' if n < count else 'false'}" for n in range(lanes))
    return Value(f"<{lanes} x i1>", f"<{text}>")


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
            c = Coordinate(
                i64(start), 1, lanes, None, start, start + lanes - 1, math.gcd(start, 1 << 30)
            )
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
