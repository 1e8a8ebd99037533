"""Products of arrays."""

from __future__ import annotations

import math
from typing import Final

from tripont.core.compiler.ir import dtypes

from tests.conformance.programs import tensor
from tests.conformance.random_programs.builder import Builder, operation
from tests.conformance.random_programs.reduction import combiners


@operation(2)
def dot(b: Builder) -> None:
    """Any dimensions of two arrays; the interpreter ends the process if one is empty."""
    a = b.pick(
        lambda v: (
            0 not in v.dims
            and b.is_small(v.size)
            and len(v.dims) <= 4
            and v.dtype.kind != "pred"
            and "add" in combiners(v, 64 * v.size)
        )
    )
    if a is None:
        return
    places = b.shuffled(range(len(a.dims)))
    batch = places[: b.integer(0, min(2, len(places)))]
    contracted = places[len(batch) :][: b.integer(0, 2)]
    if not contracted and not a.dtype.is_integer:
        # The interpreter adds the one product to 0; others, XLA too, leave it as it is, which may be -0.
        contracted = places[len(batch) :][:1]
        if not contracted:
            return
    free = [b.integer(1, 4) for _ in range(b.integer(0, 2))]
    kinds = [("batch", n) for n in batch] + [("sum", n) for n in contracted]
    kinds += [("free", n) for n in range(len(free))]
    order = b.shuffled(kinds)
    other = b.fit(b.any(), a.dtype, [free[n] if kind == "free" else a.dims[n] for kind, n in order])
    rest = [d for n, d in enumerate(a.dims) if n not in batch and n not in contracted]
    behind = [free[n] for kind, n in order if kind == "free"]
    dims = [*(a.dims[n] for n in batch), *rest, *behind]
    terms = math.prod(a.dims[n] for n in contracted)
    if not b.fits(math.prod(dims)) or not b.is_quick(math.prod(dims) * terms):
        return
    here = (
        f"batching_dims = {batch} x {[order.index(('batch', n)) for n in batch]}, " if batch else ""
    )
    there = [order.index(("sum", n)) for n in contracted]
    result = b.emit(
        f"stablehlo.dot_general {a.name}, {other.name}, {here}contracting_dims = {contracted} x {there}"
        f" : ({a.type}, {other.type}) -> {tensor(a.dtype, *dims)}",
        a.dtype,
        dims,
    )
    b.keep(result)


# What products of a narrow type may be summed in, and given as.
_WIDER: Final = {
    dtypes.S8: (dtypes.S32, dtypes.S16),
    dtypes.U8: (dtypes.S32, dtypes.U32),
    dtypes.S4: (dtypes.S32, dtypes.S8),
    dtypes.S16: (dtypes.S64,),
    dtypes.BF16: (dtypes.F32,),
    dtypes.F16: (dtypes.F32,),
    dtypes.F8E4M3FN: (dtypes.F32,),
    dtypes.F8E5M2: (dtypes.F32,),
}


@operation()
def wider_dot(b: Builder) -> None:
    """Two matrices whose product is of a wider type."""
    a = b.pick(lambda v: v.dtype in _WIDER and v.size and b.is_small(v.size))
    if a is None:
        return
    rows, terms, columns = b.integer(1, 6), b.integer(1, 20), b.integer(1, 6)
    lhs, rhs = b.fit(a, a.dtype, (rows, terms)), b.fit(b.any(), a.dtype, (terms, columns))
    dtype = b.choose(_WIDER[a.dtype])
    result = tensor(dtype, rows, columns)
    b.keep(
        b.emit(
            f"stablehlo.dot_general {lhs.name}, {rhs.name}, contracting_dims = [1] x [0]"
            f" : ({lhs.type}, {rhs.type}) -> {result}",
            dtype,
            (rows, columns),
        )
    )


@operation()
def convolution(b: Builder) -> None:
    """One or two spatial dimensions in any layout, with strides, dilations, padding and groups."""
    rank = b.integer(1, 2)
    groups, batches = b.choose([(1, 1), (1, 1), (2, 1), (1, 2)])
    batch, features = batches * b.integer(1, 2), groups * b.integer(1, 2)
    outputs = groups * batches * b.integer(1, 2)
    source = b.pick(lambda v: v.dtype.kind != "pred" and v.size and "add" in combiners(v, 1000))
    if source is None:
        return
    dtype = source.dtype
    sizes, kernel, dims, given = [], [], [], []
    for _ in range(rank):
        size, reach = b.integer(1, 6), b.integer(1, 3)
        stride, low, high = b.integer(1, 2), b.integer(-1, 2), b.integer(0, 2)
        spread, dilation, flip = b.choose([1, 1, 2]), b.choose([1, 1, 2]), b.chance()
        whole = (size - 1) * spread + 1 + low + high
        width = (reach - 1) * dilation + 1
        if whole < 0:
            return
        sizes.append(size)
        kernel.append(reach)
        dims.append(0 if whole < width else (whole - width) // stride + 1)
        given.append((stride, [low, high], spread, dilation, flip))
    if 0 in dims:  # the interpreter ends the process
        return
    names = [str(n) for n in range(rank)]
    orders = [b.shuffled([*letters, *names]) for letters in ("bf", "io", "bf")]
    extents = [
        {"b": batch, "f": features, **dict(zip(names, sizes, strict=True))},
        {"i": features // groups, "o": outputs, **dict(zip(names, kernel, strict=True))},
        {"b": batch // batches, "f": outputs, **dict(zip(names, dims, strict=True))},
    ]
    shapes = [[e[n] for n in order] for e, order in zip(extents, orders, strict=True)]
    # Whether what is padded takes part in products with infinities and NaN is for each to decide.
    lhs, rhs = (
        b.finite(b.fit(x, dtype, s)) for x, s in zip((source, b.any()), shapes, strict=False)
    )
    plain = ["b", *names, "f"]
    stride, pad, spread, dilation, flip = (list(part) for part in zip(*given, strict=True))
    flips = ", ".join("true" if f else "false" for f in flip)
    window = f"window = {{stride = {stride}, pad = {pad}, lhs_dilate = {spread}, rhs_dilate = {dilation}, reverse = [{flips}]}}"
    count = f"{{batch_group_count = {batches} : i64, feature_group_count = {groups} : i64}}"

    def text(result: list[str]) -> str:
        layout = [f"[{', '.join(order)}]" for order in (orders[0], orders[1], result)]
        kind = tensor(dtype, *[extents[2][n] for n in result])
        return (
            f"stablehlo.convolution({lhs.name}, {rhs.name}) dim_numbers = {layout[0]}x{layout[1]}->{layout[2]},"
            f" {window} {count} : ({lhs.type}, {rhs.type}) -> {kind}"
        )

    made = b.emit(text(orders[2]), dtype, shapes[2])
    # The interpreter ends the process for results in another order than this.
    source_type = tensor(dtype, *[extents[2][n] for n in plain])
    order = [plain.index(n) for n in orders[2]]
    b.replacements.append(
        (
            b.lines[-1],
            f"{made.name}_ = {text(plain)}\n{made.name} = stablehlo.transpose {made.name}_,"
            f" dims = {order} : ({source_type}) -> {made.type}",
        )
    )
    b.keep(made)
