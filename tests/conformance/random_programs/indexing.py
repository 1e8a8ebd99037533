"""Elements taken and put by numbers, each place once; arrays of literals; arrays joined from many."""

from __future__ import annotations

import math

from tripont.core.compiler.ir import dtypes

from tests.conformance.programs import dense, tensor
from tests.conformance.random_programs.builder import Builder, Entry, operation


def permutation(b: Builder, count: int) -> Entry:
    """The s32 numbers below ``count`` in another order, which is not known early: start + n * step, modulo count."""
    step = b.choose([n for n in range(1, 2 * count + 1) if math.gcd(n, count) == 1])
    line = b.emit(f"stablehlo.iota dim = 0 : {tensor('s32', count)}", dtypes.S32, (count,))
    line = b.binary("multiply", line, b.full(dtypes.S32, (count,), step))
    start = b.index()
    wide = b.emit(
        f"stablehlo.broadcast_in_dim {start.name}, dims = [] : ({start.type}) -> {line.type}",
        dtypes.S32,
        (count,),
    )
    line = b.binary("add", line, wide)
    return b.binary("remainder", line, b.full(dtypes.S32, (count,), count))


@operation()
def overwrite(b: Builder) -> None:
    """Rows put at places of which none comes twice; what was there is forgotten."""
    a = b.pick(lambda v: v.dims and 0 not in v.dims and b.is_small(v.size))
    if a is None:
        return
    d = b.integer(0, len(a.dims) - 1)
    count = a.dims[d]
    places = permutation(b, count)
    if b.chance():  # some are left as they are
        count = b.integer(1, count)
        places = b.emit(
            f"stablehlo.slice {places.name} [0:{count}] : ({places.type}) -> {tensor('s32', count)}",
            dtypes.S32,
            (count,),
        )
    window = [n for k, n in enumerate(a.dims) if k != d]
    at = b.integer(0, len(window))
    updates = b.fit(b.any(), a.dtype, [*window[:at], count, *window[at:]])
    target = b.reverse_twice(a)  # the interpreter scatters into its operand
    numbers = (
        f"update_window_dims = {[n for n in range(len(a.dims)) if n != at]}, inserted_window_dims = [{d}],"
        f" scatter_dims_to_operand_dims = [{d}], index_vector_dim = 1"
    )
    s = tensor(a.dtype)
    unique = b.choose(["true", "false"])
    b.emit(
        f'"stablehlo.scatter"({target.name}, {places.name}, {updates.name}) <{{scatter_dimension_numbers ='
        f" #stablehlo.scatter<{numbers}>, indices_are_sorted = false, unique_indices = {unique}}}>"
        f" ({{\n^bb0(%x: {s}, %y: {s}):\nstablehlo.return %y : {s}\n}})"
        f" : ({a.type}, {places.type}, {updates.type}) -> {a.type}",
        a.dtype,
        a.dims,
        keep=True,
    )


@operation(2)
def permute(b: Builder) -> None:
    """The rows along a dimension in another order: a gather that is exact and in bounds."""
    a = b.pick(lambda v: v.dims and 0 not in v.dims)
    if a is None:
        return
    d = b.integer(0, len(a.dims) - 1)
    places = permutation(b, a.dims[d])
    made = b.emit(
        f'"stablehlo.torch_index_select"({a.name}, {places.name}) <{{dim = {d} : i64, batch_dims = 0 : i64}}>'
        f" : ({a.type}, {places.type}) -> {a.type}",
        a.dtype,
        a.dims,
        keep=True,
    )
    # The interpreter ends the process for this name of the gather.
    sizes = [1 if n == d else size for n, size in enumerate(a.dims)]
    numbers = (
        f"offset_dims = {[n for n in range(len(a.dims)) if n != d]}, collapsed_slice_dims = [{d}],"
        f" start_index_map = [{d}], index_vector_dim = 1"
    )
    plain = (
        f'{made.name} = "stablehlo.gather"({a.name}, {places.name}) <{{dimension_numbers = #stablehlo.gather<{numbers}>,'
        f" slice_sizes = {dense(sizes)}}}> : ({a.type}, {places.type}) -> {a.type}"
    )
    b.replacements.append((b.lines[-1], plain))


@operation()
def literals(b: Builder) -> None:
    """A constant whose elements differ."""
    a = b.any()
    if not a.size or not b.is_small(a.size) or a.dtype.is_complex or not a.dims:
        return
    if a.dtype.kind == "pred":
        values = [b.choose(["true", "false"]) for _ in range(a.size)]
    elif a.dtype.is_float:
        values = [f"{b.integer(-3, 3):.1f}" for _ in range(a.size)]
    else:
        low = -(2 ** (a.dtype.bits - 1)) if a.dtype.is_signed else 0
        values = [str(b.integer(low, low + 2**a.dtype.bits - 1)) for _ in range(a.size)]
    flat = (a.size,)
    text = f"stablehlo.constant dense<[{', '.join(values)}]> : {tensor(a.dtype, *flat)}"
    b.values.append(b.reshape(b.emit(text, a.dtype, flat), a.dims))


@operation()
def stack(b: Builder) -> None:
    """Many arrays joined, some of them several times."""
    a = b.any()
    count = b.integer(2, 12)
    if not a.dims or not b.fits(a.size * count):
        return
    d = b.integer(0, len(a.dims) - 1)
    parts = [a if b.integer(0, 2) == 0 else b.like(a) for _ in range(count)]
    dims = [n * count if k == d else n for k, n in enumerate(a.dims)]
    b.emit(
        f"stablehlo.concatenate {', '.join(p.name for p in parts)}, dim = {d}"
        f" : ({', '.join(p.type for p in parts)}) -> {tensor(a.dtype, *dims)}",
        a.dtype,
        dims,
        keep=True,
    )


@operation()
def spread(b: Builder) -> None:
    """Into up to eight dimensions, most of them 1 or 2, in any order."""
    a = b.any()
    rank = b.integer(5, 8)
    if len(a.dims) > rank:
        return
    at = b.shuffled(range(rank))[: len(a.dims)]
    dims = [b.choose([1, 1, 2]) for _ in range(rank)]
    for n, d in zip(at, a.dims, strict=True):
        dims[n] = d
    if not b.fits(math.prod(dims)):
        return
    wide = b.emit(
        f"stablehlo.broadcast_in_dim {a.name}, dims = {at} : ({a.type}) -> {tensor(a.dtype, *dims)}",
        a.dtype,
        dims,
        keep=True,
    )
    order = b.shuffled(range(rank))
    dims = [dims[n] for n in order]
    b.emit(
        f"stablehlo.transpose {wide.name}, dims = {order} : ({wide.type}) -> {tensor(a.dtype, *dims)}",
        a.dtype,
        dims,
        keep=True,
    )
