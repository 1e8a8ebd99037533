"""Operations that move elements about."""

from __future__ import annotations

import math

from tripont.core.compiler.ir import dtypes

from tests.conformance.programs import dense, tensor
from tests.conformance.random_programs.builder import Builder, Entry, operation


@operation()
def transpose(b: Builder) -> None:
    a = b.any()
    order = b.shuffled(range(len(a.dims)))
    dims = [a.dims[n] for n in order]
    target = tensor(a.dtype, *dims)
    b.values.append(
        b.emit(
            f"stablehlo.transpose {a.name}, dims = {order} : ({a.type}) -> {target}", a.dtype, dims
        )
    )


@operation()
def flatten(b: Builder) -> None:
    a = b.any()
    b.values.append(b.reshape(a, (a.size,)))


@operation()
def regroup(b: Builder) -> None:
    """The same elements in other dimensions, some of them 1."""
    a = b.any()
    if not a.size:
        return
    dims, rest = [], a.size
    for _ in range(b.integer(0, 2)):
        factor = b.choose([n for n in range(1, rest + 1) if rest % n == 0])
        dims.append(factor)
        rest //= factor
    b.values.append(b.reshape(a, [*dims, rest]))


@operation()
def slice_(b: Builder) -> None:
    a = b.any()
    bounds, dims = [], []
    for d in a.dims:
        start = b.integer(0, d // 2) if b.chance() else b.integer(0, d)
        limit = b.integer(start, d) if b.chance() else d
        stride = b.integer(1, 3)
        bounds.append(f"{start}:{limit}:{stride}")
        dims.append(-(-(limit - start) // stride))
    target = tensor(a.dtype, *dims)
    b.values.append(
        b.emit(
            f"stablehlo.slice {a.name} [{', '.join(bounds)}] : ({a.type}) -> {target}",
            a.dtype,
            dims,
        )
    )


@operation()
def pad(b: Builder) -> None:
    a = b.any()
    low = [b.integer(-1, 2) for _ in a.dims]
    high = [b.integer(-1, 2) for _ in a.dims]
    inner = [b.integer(0, 1) for _ in a.dims]
    dims = [
        d + max(0, d - 1) * i + lo + hi
        for d, lo, hi, i in zip(a.dims, low, high, inner, strict=True)
    ]
    if any(d < 0 for d in dims) or not b.fits(math.prod(dims)):
        return
    value = b.constant(a.dtype, 1)
    b.values.append(
        b.emit(
            f"stablehlo.pad {a.name}, {value.name}, low = {low}, high = {high}, interior = {inner}"
            f" : ({a.type}, {value.type}) -> {tensor(a.dtype, *dims)}",
            a.dtype,
            dims,
        )
    )


@operation()
def reverse(b: Builder) -> None:
    a = b.any()
    which = b.some(range(len(a.dims)))
    b.values.append(
        b.emit(f"stablehlo.reverse {a.name}, dims = {which} : {a.type}", a.dtype, a.dims)
    )


@operation()
def concatenate(b: Builder) -> None:
    a = b.any()
    if not a.dims:
        return
    d = b.integer(0, len(a.dims) - 1)
    parts = [a]
    for _ in range(b.integer(0, 2)):
        dims = list(a.dims)
        if b.chance():
            dims[d] = b.integer(0, 3)
        parts.append(b.like(a) if tuple(dims) == a.dims else b.fit(b.any(), a.dtype, dims))
    dims = list(a.dims)
    dims[d] = sum(p.dims[d] for p in parts)
    if not b.fits(math.prod(dims)):
        return
    b.values.append(
        b.emit(
            f"stablehlo.concatenate {', '.join(p.name for p in parts)}, dim = {d}"
            f" : ({', '.join(p.type for p in parts)}) -> {tensor(a.dtype, *dims)}",
            a.dtype,
            dims,
        )
    )


@operation()
def broadcast(b: Builder) -> None:
    """Into more dimensions, in any order, and along dimensions of 1."""
    a = b.any()
    rank = min(len(a.dims) + b.integer(0, 2), 4)
    if rank < len(a.dims):
        return
    at = b.shuffled(range(rank))[: len(a.dims)]
    dims = [b.integer(1, 4) for _ in range(rank)]
    for n, d in zip(at, a.dims, strict=True):
        dims[n] = d if d != 1 else b.integer(1, 3)
    if not b.fits(math.prod(dims)):
        return
    b.values.append(
        b.emit(
            f"stablehlo.broadcast_in_dim {a.name}, dims = {at} : ({a.type}) -> {tensor(a.dtype, *dims)}",
            a.dtype,
            dims,
        )
    )


@operation()
def iota(b: Builder) -> None:
    a = b.any()
    most = 2 ** (a.dtype.bits - a.dtype.is_signed) if a.dtype.is_integer else 3
    if not a.dims or a.dtype.kind == "pred":
        return
    d = b.integer(0, len(a.dims) - 1)
    if a.dims[d] > most:
        return
    b.keep(b.emit(f"stablehlo.iota dim = {d} : {a.type}", a.dtype, a.dims))


def signed(b: Builder, a: Entry, most: int) -> Entry:
    """Indices as another signed type that has numbers up to ``most`` and a little more."""
    wide = [
        d for d in (dtypes.S8, dtypes.S16, dtypes.S32, dtypes.S64) if most + 20 < 2 ** (d.bits - 1)
    ]
    return b.convert(a, b.choose(wide))


def signed_together(b: Builder, starts: list[Entry]) -> list[Entry]:
    """Starts of a slice, all of another signed type."""
    dtype = b.choose([dtypes.S8, dtypes.S16, dtypes.S32, dtypes.S64])
    return [b.convert(s, dtype) for s in starts]


@operation()
def dynamic_slice(b: Builder) -> None:
    a = b.any()
    sizes = [b.integer(min(1, d), d) for d in a.dims]
    starts = [b.index() for _ in a.dims]
    if starts and b.chance():
        starts[0] = b.binary("subtract", starts[0], b.constant(dtypes.S32, 4))
    starts = signed_together(b, starts)
    types = ", ".join(v.type for v in [a, *starts])
    given = ", ".join([a.name, *(s.name for s in starts)])
    b.values.append(
        b.emit(
            f"stablehlo.dynamic_slice {given}, sizes = {sizes} : ({types}) -> {tensor(a.dtype, *sizes)}",
            a.dtype,
            sizes,
        )
    )


@operation()
def update(b: Builder) -> None:
    a = b.any()
    sizes = [b.integer(min(1, d), d) for d in a.dims]
    u = b.fit(b.any(), a.dtype, sizes)
    starts = signed_together(b, [b.index() for _ in a.dims])
    types = ", ".join(v.type for v in [a, u, *starts])
    b.keep(
        b.emit(
            f"stablehlo.dynamic_update_slice {', '.join(v.name for v in [a, u, *starts])} : ({types}) -> {a.type}",
            a.dtype,
            a.dims,
        )
    )


def _windows(b: Builder, a: Entry) -> tuple[list[int], list[int], list[int], list[int], list[int]]:
    """How indices lead into ``a``: batching, collapsed and started dimensions, sizes of slices, batch dimensions."""
    every = range(len(a.dims))
    batching = [n for n in every if a.dims[n] <= 4 and b.integer(0, 4) == 0]
    started = [n for n in b.shuffled(every) if n not in batching and b.chance()]
    collapsed = [n for n in every if n not in batching and b.chance()]
    sizes = [
        1 if n in collapsed or n in batching else b.integer(1, d) for n, d in enumerate(a.dims)
    ]
    batch = [a.dims[n] for n in batching] + [b.integer(1, 4) for _ in range(b.integer(0, 2))]
    return batching, collapsed, started, sizes, batch


def _index_array(
    b: Builder, a: Entry, batch: list[int], started: list[int], inside: int = 0
) -> tuple[Entry, int]:
    """The array of indices and its index vector's dimension. ``inside``: a limit to stay below, if not 0."""
    if len(started) == 1 and b.chance():
        return b.indices(batch, inside or a.dims[started[0]], not inside), len(batch)
    at = b.integer(0, len(batch))
    dims = [*batch[:at], len(started), *batch[at:]]
    limit = inside or max((a.dims[n] for n in started), default=1)
    return b.indices(dims, limit, not inside), at


@operation(2)
def gather(b: Builder) -> None:
    a = b.pick(lambda v: v.dims and 0 not in v.dims)
    if a is None:
        return
    batching, collapsed, started, sizes, batch = _windows(b, a)
    window = [s for n, s in enumerate(sizes) if n not in collapsed and n not in batching]
    if not b.fits(math.prod(batch) * math.prod(window)) or len(batch) + len(window) > 5:
        return
    indices, at = _index_array(b, a, batch, started)
    indices = signed(b, indices, max(a.dims))
    offset = sorted(b.shuffled(range(len(batch) + len(window)))[: len(window)])
    windows, batches = iter(window), iter(batch)
    dims = [
        next(windows) if n in offset else next(batches) for n in range(len(batch) + len(window))
    ]
    places = [n + (n >= at) for n in range(len(batching))]
    numbers = f"offset_dims = {offset}, collapsed_slice_dims = {collapsed}, "
    if batching:
        numbers += f"operand_batching_dims = {batching}, start_indices_batching_dims = {places}, "
    numbers += f"start_index_map = {started}, index_vector_dim = {at}"
    b.values.append(
        b.emit(
            f'"stablehlo.gather"({a.name}, {indices.name}) <{{dimension_numbers = #stablehlo.gather<{numbers}>,'
            f" indices_are_sorted = false, slice_sizes = {dense(sizes)}}}>"
            f" : ({a.type}, {indices.type}) -> {tensor(a.dtype, *dims)}",
            a.dtype,
            dims,
        )
    )


@operation(2)
def scatter(b: Builder) -> None:
    """With a combiner whose order does not matter; one array or two at once."""
    a = b.pick(lambda v: v.dims and 0 not in v.dims)
    if a is None:
        return
    batching, inserted, started, sizes, batch = _windows(b, a)
    window = [s for n, s in enumerate(sizes) if n not in inserted and n not in batching]
    count = math.prod(batch) * math.prod(window)
    if not b.is_small(count) or len(batch) + len(window) > 5:
        return
    # Of a window that is partly outside XLA drops all, the interpreter what is outside: windows are inside.
    wide = [n for n in started if sizes[n] > 1]
    indices, at = _index_array(
        b, a, batch, started, min([a.dims[n] - sizes[n] + 1 for n in wide], default=0)
    )
    indices = signed(b, indices, max(a.dims))
    where = sorted(b.shuffled(range(len(batch) + len(window)))[: len(window)])
    windows, batches = iter(window), iter(batch)
    dims = [next(windows) if n in where else next(batches) for n in range(len(batch) + len(window))]
    places = [n + (n >= at) for n in range(len(batching))]
    numbers = f"update_window_dims = {where}, inserted_window_dims = {inserted}, "
    if batching:
        numbers += f"input_batching_dims = {batching}, scatter_indices_batching_dims = {places}, "
    numbers += f"scatter_dims_to_operand_dims = {started}, index_vector_dim = {at}"
    inputs = [a] + ([b.fit(b.any(), b.choose(b.types), a.dims)] if b.integer(0, 3) == 0 else [])
    updates, results, body = [], [], []
    for n, x in enumerate(inputs):
        updates.append(b.fit(b.any(), x.dtype, dims))
        body.append(f"%z{n} = stablehlo.{_combiner(b, x)} %x{n}, %y{n} : {tensor(x.dtype)}")
    # The interpreter scatters into its operand, which other operations may use: it gets one of its own.
    inputs = [b.reverse_twice(x) for x in inputs]
    scalars = [f"%x{n}: {tensor(x.dtype)}" for n, x in enumerate(inputs)]
    scalars += [f"%y{n}: {tensor(x.dtype)}" for n, x in enumerate(inputs)]
    given = ", ".join(f"%z{n}" for n in range(len(inputs)))
    kinds = ", ".join(tensor(x.dtype) for x in inputs)
    lines = "\n".join(body)
    region = f"{{\n^bb0({', '.join(scalars)}):\n{lines}\nstablehlo.return {given} : {kinds}\n}}"
    operands = [*inputs, indices, *updates]
    name = b.fresh()
    many = f":{len(inputs)}" if len(inputs) > 1 else ""
    b.lines.append(
        f'{name}{many} = "stablehlo.scatter"({", ".join(o.name for o in operands)})'
        f" <{{scatter_dimension_numbers = #stablehlo.scatter<{numbers}>, indices_are_sorted = false,"
        f" unique_indices = false}}> ({region}) : ({', '.join(o.type for o in operands)})"
        f" -> ({', '.join(x.type for x in inputs)})"
    )
    results = [
        Entry(f"{name}#{n}" if many else name, x.dtype, x.dims) for n, x in enumerate(inputs)
    ]
    for r in results:
        b.keep(r)


def _combiner(b: Builder, a: Entry) -> str:
    if a.dtype.kind == "pred":
        return b.choose(["and", "or", "xor"])
    if a.dtype.is_complex:
        return "add"
    if a.dtype.is_integer:
        return b.choose(["add", "multiply", "maximum", "xor"])
    if a.dtype.bits <= 16:  # sums may grow beyond whole numbers that they can hold
        return b.choose(["maximum", "minimum"])
    return b.choose(["add", "maximum", "minimum"])
