"""Operations between two devices that run the same program.

They are no part of the list that programs are drawn from, as both devices must come to each of them: they stand outside
of loops and branches, and in one order.

Devices are replicas. The interpreter, which mixes up operations that follow each other without channels, runs them as
partitions, with a channel for each operation.
"""

from __future__ import annotations

import math
from typing import Any, Final

from tripont.core.compiler.ir import dtypes

from tests.conformance.programs import combine, tensor
from tests.conformance.random_programs.builder import OPERATIONS, Builder, Entry, Operation
from tests.conformance.random_programs.reduction import combiners

# Both devices together, in either order, or each alone.
_TOGETHER: Final = ([[0, 1]], [[1, 0]])


def _groups(b: Builder, together: bool = False) -> tuple[str, int]:
    """The attribute, and the size of a group."""
    groups: Any = b.choose(_TOGETHER if together else (*_TOGETHER, [[0], [1]]))
    size = len(groups[0])
    return f"replica_groups = dense<{groups}> : tensor<{len(groups)}x{size}xi64>", size


# Operations that group replicas unless they are told that the numbers are those of devices.
_OF_REPLICAS: Final = ("all_reduce", "all_gather", "reduce_scatter")


def _with_channel(b: Builder, op: str, line: str) -> str:
    """``line`` with a channel of its own."""
    channel = f", channel_handle = #stablehlo.channel_handle<handle = {b.count}, type = 1>"
    if op in _OF_REPLICAS:
        channel += ", use_global_device_ids"
    return line.replace("xi64>}>", f"xi64>{channel}}}>", 1)


def _emit(b: Builder, op: str, attributes: str, a: Entry, dims: Any, body: str = "") -> None:
    region = f" ({body})" if body else ""
    text = f'"stablehlo.{op}"({a.name}) <{{{attributes}}}>{region} : ({a.type}) -> {tensor(a.dtype, *dims)}'
    made = b.emit(text, a.dtype, dims)
    b.replacements.append((b.lines[-1], _with_channel(b, op, b.lines[-1])))
    b.keep(made)


def _body(b: Builder, a: Entry) -> str:
    """Of two elements, in either order. Empty if the dtype has no operation for that."""
    known = combiners(a, 2)
    return combine(b.choose(known), a.dtype) if known else ""


def all_reduce(b: Builder) -> None:
    a = b.any()
    body = _body(b, a)
    if body:
        _emit(b, "all_reduce", _groups(b)[0], a, a.dims, body)


def all_reduce_of_several(b: Builder) -> None:
    """Arrays of any shapes and one type in one operation."""
    a = b.any()
    body = _body(b, a)
    if not body:
        return
    given = [a, *(b.fit(b.any(), a.dtype, b.any().dims) for _ in range(b.integer(1, 2)))]
    types = ", ".join(v.type for v in given)
    names, groups = [v.name for v in given], _groups(b)[0]
    name = b.fresh()
    b.lines.append(
        f'{name}:{len(given)} = "stablehlo.all_reduce"({", ".join(names)}) <{{{groups}}}>'
        f" ({body}) : ({types}) -> ({types})"
    )
    # The interpreter takes one array at a time.
    lines = []
    for n, v in enumerate(given):
        b.fresh()
        one = f'{name}_{n} = "stablehlo.all_reduce"({v.name}) <{{{groups}}}> ({body}) : ({v.type}) -> {v.type}'
        lines.append(_with_channel(b, "all_reduce", one))
    results = ", ".join(f"{name}_{n}" for n in range(len(given)))
    lines.append(f"{name}:{len(given)} = stablehlo.optimization_barrier {results} : {types}")
    b.replacements.append((b.lines[-1], "\n".join(lines)))
    for n, v in enumerate(given):
        b.keep(Entry(f"{name}#{n}", v.dtype, v.dims))


def all_gather(b: Builder) -> None:
    a = b.pick(lambda v: v.dims and 0 not in v.dims and b.fits(2 * v.size))
    if a is None:
        return
    d = b.integer(0, len(a.dims) - 1)
    groups, size = _groups(b)
    dims = [n * size if k == d else n for k, n in enumerate(a.dims)]
    _emit(b, "all_gather", f"all_gather_dim = {d} : i64, {groups}", a, dims)


def reduce_scatter(b: Builder) -> None:
    a = b.pick(lambda v: any(n and n % 2 == 0 for n in v.dims))
    if a is None:
        return
    body = _body(b, a)
    d = b.choose([k for k, n in enumerate(a.dims) if n and n % 2 == 0])
    groups, size = _groups(b)
    dims = [n // size if k == d else n for k, n in enumerate(a.dims)]
    if body:
        _emit(b, "reduce_scatter", f"scatter_dimension = {d} : i64, {groups}", a, dims, body)


def all_to_all(b: Builder) -> None:
    a = b.pick(lambda v: any(n and n % 2 == 0 for n in v.dims))
    if a is None:
        return
    split = b.choose([k for k, n in enumerate(a.dims) if n and n % 2 == 0])
    join = b.integer(0, len(a.dims) - 1)
    groups, _ = _groups(b, together=True)
    dims = list(a.dims)
    dims[split] //= 2
    dims[join] *= 2
    attributes = (
        f"split_dimension = {split} : i64, concat_dimension = {join} : i64, split_count = 2 : i64"
    )
    _emit(b, "all_to_all", f"{attributes}, {groups}", a, dims)


def collective_permute(b: Builder) -> None:
    """What no device sends to is zeros. (The interpreter waits for ever for a device that sends to itself.)"""
    pairs = b.choose([[[0, 1], [1, 0]], [[0, 1]], [[1, 0]]])
    a = b.any()
    attributes = f"source_target_pairs = dense<{pairs}> : tensor<{len(pairs)}x2xi64>"
    _emit(b, "collective_permute", attributes, a, a.dims)


def collective_broadcast(b: Builder) -> None:
    a = b.any()
    _emit(b, "collective_broadcast", _groups(b, together=True)[0], a, a.dims)


def number(b: Builder) -> None:
    """The device's own number, which makes what is alike on both different."""
    own = b.emit("stablehlo.replica_id : tensor<ui32>", dtypes.U32, ())
    b.replacements.append((b.lines[-1], b.lines[-1].replace("replica_id", "partition_id")))
    a = b.pick(lambda v: v.dtype.is_integer and math.prod(v.dims) > 0)
    if a is None:
        b.values.append(own)
        return
    own = b.convert(b.binary("add", own, b.constant(dtypes.U32, 1)), dtypes.S8)
    wide = b.emit(
        f"stablehlo.broadcast_in_dim {own.name}, dims = [] : ({own.type}) -> {tensor('s8', *a.dims)}",
        dtypes.S8,
        a.dims,
    )
    b.values.append(b.binary("add", a, b.convert(wide, a.dtype)))


COLLECTIVES: Final[tuple[Operation, ...]] = (
    all_reduce,
    all_reduce_of_several,
    all_gather,
    reduce_scatter,
    all_to_all,
    collective_permute,
    collective_broadcast,
    number,
)


def grow(b: Builder, count: int) -> None:
    """Add ``count`` operations, every other one between the devices."""
    for _ in range(count):
        b.choose(b.choose([COLLECTIVES, OPERATIONS]))(b)
