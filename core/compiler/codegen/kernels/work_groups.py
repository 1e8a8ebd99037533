"""Work-items that do one unit of work together, on targets where several do (``Target.work_group``).

A GPU has many work-items that are slow alone. The work-items of a work-group run the same function; each asks which one
it is and takes its share of a row. What they have in common lies in local memory, and a barrier makes what one wrote
visible to the others: all must come to it, so it never stands behind a condition that differs between them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from .. import llvm_ir
from ..generator import Coordinate, Generator
from ..llvm_ir import Value, i64

if TYPE_CHECKING:
    from ...targets.target import Target

SHORTEST_ROW: Final = 64  # shorter rows are left to one work-item each


def share(target: Target, row: int) -> bool:
    """Whether the work-items of a group do a row of ``row`` elements together."""
    return target.work_group > 1 and row >= SHORTEST_ROW


def local_id(g: Generator) -> Value:
    """Which work-item of its group this is, from 0 (i64)."""
    return g.pure(("local id",), (), lambda: g.target.local_id(g.builder))


@contextmanager
def once(g: Generator, shared: bool) -> Iterator[None]:
    """Code that one of the work-items runs, if they share a unit."""
    if not shared:
        yield
        return
    with g.only_if(g.builder.icmp("eq", local_id(g), i64(0))):
        yield


def span(g: Generator, size: int, lanes: int, step: Callable[[Coordinate], None]) -> None:
    """Write ``step`` for the coordinates [0, size), which the work-items share out vector by vector."""
    count = g.target.work_group
    main = size // lanes * lanes
    with g.loop(g.mul(local_id(g), i64(lanes)), i64(main), lanes * count) as (i, _, _):
        step(Coordinate(i, int(lanes > 1), lanes, None, 0, size - 1, lanes))
    if main < size:
        with g.loop(g.add(local_id(g), i64(main)), i64(size), count) as (i, _, _):
            step(Coordinate(i, 0, 1, None, main, size - 1))


def combine(
    g: Generator,
    mine: Sequence[Value],
    merge: Callable[[Sequence[Value], Sequence[Value]], list[Value]],
) -> list[Value]:
    """``merge`` over the scalars of all work-items of the group, which all get the result.

    Within a sub-group by shuffles, where the device has sub-groups of a known size; then through local memory, with
    half as many work-items at each step.
    """
    b, target = g.builder, g.target
    me = local_id(g)
    values = list(mine)
    distance = 1
    while distance < target.sub_group:
        others = [target.shuffle_xor(b, v, distance) for v in values]
        g.note(*others)
        values = merge(values, others)
        distance *= 2
    parts = target.work_group // distance
    if parts == 1:
        return values
    places = [b.local_memory(_memory_type(v.type), parts, n) for n, v in enumerate(values)]
    g.note(*places)

    def put(position: Value, values: Sequence[Value]) -> None:
        for place, v in zip(places, values, strict=True):
            type_ = _memory_type(v.type)
            stored = b.cast("zext", v, type_) if v.type == "i1" else v
            b.store(stored, b.gep(type_, place, position), _size(type_))

    def get(position: Value) -> list[Value]:
        found = []
        for place, v in zip(places, values, strict=True):
            type_ = _memory_type(v.type)
            loaded = b.load(type_, b.gep(type_, place, position), _size(type_))
            if v.type == "i1":
                loaded = b.icmp("ne", loaded, llvm_ir.zero(type_))
            found.append(loaded)
        g.note(*found)
        return found

    if distance == 1:
        put(me, values)
    else:
        with g.only_if(b.icmp("eq", b.binary("and", me, i64(distance - 1)), i64(0))):
            put(b.binary("udiv", me, i64(distance)), values)
    target.barrier(b)
    with g.loop(i64(0), i64(parts.bit_length() - 1)) as (step, _, _):
        half = b.binary("lshr", i64(parts // 2), step)
        with g.only_if(b.icmp("slt", me, half)):
            put(me, merge(get(me), get(b.add(me, half))))
        target.barrier(b)
    total = get(i64(0))
    target.barrier(b)  # before the memory is used again
    return total


def _memory_type(type_: str) -> str:
    return "i8" if type_ == "i1" else type_


def _size(type_: str) -> int:
    return {"float": 4, "double": 8}.get(type_) or int(type_[1:]) // 8
