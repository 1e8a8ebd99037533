"""Reductions, windows and sorts."""

from __future__ import annotations

import math

from tripont.core.compiler.ir import dtypes

from tests.conformance.programs import combine, dense, tensor
from tests.conformance.random_programs.builder import (
    FLOATS,
    Builder,
    Entry,
    bound,
    operation,
)


def combiners(a: Entry, count: int) -> dict[str, int]:
    """Operations that give one result in any order over ``count`` elements, and their neutral elements.

    No sums of one float: XLA and we add nothing then, not even 0 to -0.
    """
    if a.dtype.kind == "pred":
        return {"and": 1, "or": 0, "xor": 0}
    if a.dtype.is_complex:
        return {"add": 0} if count != 1 else {}
    if a.dtype.is_integer:
        low, high = 0, 2**a.dtype.bits - 1
        if a.dtype.is_signed:
            low, high = -(2 ** (a.dtype.bits - 1)), 2 ** (a.dtype.bits - 1) - 1
        ends = {"maximum": low, "minimum": high}
        return {"add": 0, "multiply": 1, "or": 0, "xor": 0, **ends}
    found = {"maximum": -bound(a.dtype), "minimum": bound(a.dtype)}
    exact = {dtypes.F16: 2048, dtypes.BF16: 256}.get(a.dtype, 2**24 if a.dtype.bits > 16 else 0)
    return {**found, "add": 0} if count != 1 and (count + 1) * bound(a.dtype) <= exact else found


def _dimensions(b: Builder, a: Entry) -> list[int]:
    """Some dimensions, in any order. Not none: XLA takes no initial value then, and a test says that we do."""
    every = b.shuffled(range(len(a.dims)))
    return every[: b.integer(1, len(every))]


@operation(3)
def reduce(b: Builder) -> None:
    """With an initial value that is neutral, or one for integers that is not."""
    a = b.pick(lambda v: v.dims)
    if a is None:
        return
    over = _dimensions(b, a)
    known = combiners(a, math.prod(a.dims[d] for d in over))
    if not known:
        return
    op = b.choose(known)
    initial = 1 if a.dtype.is_integer and b.chance() else known[op]
    b.keep(b.reduce(op, a, over, initial))


@operation()
def reduce_given(b: Builder) -> None:
    """With an initial value that is computed."""
    a = b.pick(lambda v: v.dims and (v.dtype.is_integer or v.dtype.kind == "pred"))
    if a is None:
        return
    over = _dimensions(b, a)
    first = b.convert(b.index(), a.dtype)
    dims = [d for n, d in enumerate(a.dims) if n not in over]
    op = b.choose(combiners(a, a.size))
    b.values.append(
        b.emit(
            f'"stablehlo.reduce"({a.name}, {first.name}) <{{dimensions = {dense(over)}}}> ({combine(op, a.dtype)})'
            f" : ({a.type}, {first.type}) -> {tensor(a.dtype, *dims)}",
            a.dtype,
            dims,
        )
    )


@operation()
def reduce_together(b: Builder) -> None:
    """Two arrays, each by an operation of its own, in one reduction."""
    a = b.pick(lambda v: v.dims)
    if a is None:
        return
    c = b.fit(b.any(), b.choose(b.types), a.dims)
    over = _dimensions(b, a)
    lines, first, both = [], [], (a, c)
    for n, x in enumerate(both):
        known = combiners(x, a.size)
        if x.dtype.is_float:  # XLA adds nothing, not even 0 to -0, along a dimension of 1
            known.pop("add", None)
        if not known:
            return
        op = b.choose(known)
        odd = x.dtype.is_integer and b.chance()  # an initial value that is not neutral
        first.append(b.constant(x.dtype, 1 if odd else known[op]))
        lines.append(f"%z{n} = stablehlo.{op} %x{n}, %y{n} : {tensor(x.dtype)}")
    kinds = [tensor(x.dtype) for x in both]
    scalars = [f"%{letter}{n}: {k}" for letter in "xy" for n, k in enumerate(kinds)]
    text = "\n".join(lines)
    region = f"{{\n^bb0({', '.join(scalars)}):\n{text}\nstablehlo.return %z0, %z1 : {', '.join(kinds)}\n}}"
    dims = tuple(d for n, d in enumerate(a.dims) if n not in over)
    results = [tensor(x.dtype, *dims) for x in both]
    operands = [*both, *first]
    name = b.fresh()
    b.lines.append(
        f'{name}:2 = "stablehlo.reduce"({", ".join(o.name for o in operands)}) <{{dimensions = {dense(over)}}}>'
        f" ({region}) : ({', '.join(o.type for o in operands)}) -> ({', '.join(results)})"
    )
    for n, x in enumerate(both):
        b.keep(Entry(f"{name}#{n}", x.dtype, dims))


@operation()
def reduce_in_steps(b: Builder) -> None:
    """By two operations: sums or products modulo a power of two, from an initial value that is not neutral."""
    a = b.pick(lambda v: v.dims and v.dtype.is_integer)
    if a is None:
        return
    over = _dimensions(b, a)
    dims = [d for n, d in enumerate(a.dims) if n not in over]
    first, s = b.constant(a.dtype, 1), tensor(a.dtype)
    body = (
        f"{{\n^bb0(%a: {s}, %b: {s}):\n%m = stablehlo.constant dense<{2 ** (a.dtype.bits - 1) - 1}> : {s}\n"
        f"%c = stablehlo.{b.choose(['add', 'multiply'])} %a, %b : {s}\n%d = stablehlo.and %c, %m : {s}\n"
        f"stablehlo.return %d : {s}\n}}"
    )
    b.values.append(
        b.emit(
            f'"stablehlo.reduce"({a.name}, {first.name}) <{{dimensions = {dense(over)}}}> ({body})'
            f" : ({a.type}, {first.type}) -> {tensor(a.dtype, *dims)}",
            a.dtype,
            dims,
        )
    )


@operation()
def largest(b: Builder) -> None:
    """The largest element along a dimension and its place: a reduction of two operands."""
    a = b.pick(lambda v: v.dims and v.dtype.is_integer)
    if a is None:
        return
    d = b.integer(0, len(a.dims) - 1)
    place = b.emit(f"stablehlo.iota dim = {d} : {tensor('s32', *a.dims)}", dtypes.S32, a.dims)
    low = 0 if not a.dtype.is_signed else -(2 ** (a.dtype.bits - 1))
    first, none = b.constant(a.dtype, low), b.constant(dtypes.S32, 2**31 - 1)
    s, i, p = tensor(a.dtype), tensor("s32"), tensor("pred")
    body = (
        f"{{\n^bb0(%a: {s}, %b: {i}, %c: {s}, %d: {i}):\n%g = stablehlo.compare GT, %a, %c : ({s}, {s}) -> {p}\n"
        f"%e = stablehlo.compare EQ, %a, %c : ({s}, {s}) -> {p}\n%l = stablehlo.compare LT, %b, %d : ({i}, {i}) -> {p}\n"
        f"%m = stablehlo.and %e, %l : {p}\n%w = stablehlo.or %g, %m : {p}\n%x = stablehlo.select %w, %a, %c : {p}, {s}\n"
        f"%y = stablehlo.select %w, %b, %d : {p}, {i}\nstablehlo.return %x, %y : {s}, {i}\n}}"
    )
    dims = (*a.dims[:d], *a.dims[d + 1 :])
    kept, places = tensor(a.dtype, *dims), tensor("s32", *dims)
    name = b.fresh()
    b.lines.append(
        f'{name}:2 = "stablehlo.reduce"({a.name}, {place.name}, {first.name}, {none.name}) <{{dimensions = {dense([d])}}}> ({body})'
        f" : ({a.type}, {place.type}, {s}, {i}) -> ({kept}, {places})"
    )
    b.values += [Entry(f"{name}#0", a.dtype, dims), Entry(f"{name}#1", dtypes.S32, dims)]


@operation(2)
def window(b: Builder) -> None:
    """Windows with strides, dilations and padding in every dimension."""
    a = b.pick(lambda v: v.dims and b.is_small(v.size))
    if a is None:
        return
    sizes, strides, base, dilations, padding, dims = [], [], [], [], [], []
    for d in a.dims:
        size, stride = b.integer(1, 3), b.integer(1, 3)
        spread, dilation = b.choose([1, 1, 2]), b.choose([1, 1, 2])
        ends = [b.integer(-1, 2), b.integer(-1, 2)] if b.chance() else [0, 0]
        whole = (0 if d == 0 else (d - 1) * spread + 1) + sum(ends)
        reach = (size - 1) * dilation + 1
        if whole < 0:
            return
        sizes.append(size)
        strides.append(stride)
        base.append(spread)
        dilations.append(dilation)
        padding.append(ends)
        dims.append(0 if whole < reach else (whole - reach) // stride + 1)
    if not b.is_quick(math.prod(dims) * math.prod(sizes)) or not b.fits(math.prod(dims)):
        return
    known = combiners(a, math.prod(sizes))
    if not known:
        return
    op = b.choose(known)
    initial = b.constant(a.dtype, known[op])
    b.keep(
        b.emit(
            f'"stablehlo.reduce_window"({a.name}, {initial.name}) <{{window_dimensions = {dense(sizes)},'
            f" window_strides = {dense(strides)}, base_dilations = {dense(base)}, window_dilations = {dense(dilations)},"
            f" padding = dense<{padding}> : tensor<{len(a.dims)}x2xi64>}}> ({combine(op, a.dtype)})"
            f" : ({a.type}, {initial.type}) -> {tensor(a.dtype, *dims)}",
            a.dtype,
            dims,
        )
    )


@operation()
def windows_together(b: Builder) -> None:
    """Windows over two arrays, each combined by an operation of its own."""
    a = b.pick(lambda v: v.dims and 0 not in v.dims and b.is_small(v.size))
    if a is None:
        return
    c = b.fit(b.any(), b.choose(b.types), a.dims)
    sizes = [b.integer(1, min(3, d)) for d in a.dims]
    strides = [b.integer(1, 2) for _ in a.dims]
    dims = [(d - s) // t + 1 for d, s, t in zip(a.dims, sizes, strides, strict=True)]
    if not b.is_quick(math.prod(dims) * math.prod(sizes)):
        return
    lines, first, both = [], [], (a, c)
    for n, x in enumerate(both):
        known = combiners(x, math.prod(sizes))
        if not known:
            return
        op = b.choose(known)
        first.append(b.constant(x.dtype, known[op]))
        lines.append(f"%z{n} = stablehlo.{op} %x{n}, %y{n} : {tensor(x.dtype)}")
    kinds = [tensor(x.dtype) for x in both]
    scalars = [f"%{letter}{n}: {k}" for letter in "xy" for n, k in enumerate(kinds)]
    text = "\n".join(lines)
    region = f"{{\n^bb0({', '.join(scalars)}):\n{text}\nstablehlo.return %z0, %z1 : {', '.join(kinds)}\n}}"
    results = [tensor(x.dtype, *dims) for x in both]
    operands = [*both, *first]
    name = b.fresh()
    b.lines.append(
        f'{name}:2 = "stablehlo.reduce_window"({", ".join(o.name for o in operands)}) <{{window_dimensions = {dense(sizes)},'
        f" window_strides = {dense(strides)}}}> ({region}) : ({', '.join(o.type for o in operands)}) -> ({', '.join(results)})"
    )
    for n, x in enumerate(both):
        b.keep(Entry(f"{name}#{n}", x.dtype, tuple(dims)))


@operation()
def cumulative(b: Builder) -> None:
    a = b.pick(lambda v: v.dims and 0 not in v.dims and b.is_small(v.size))
    if a is None:
        return
    d = b.integer(0, len(a.dims) - 1)
    known = combiners(a, a.dims[d])
    if not known:
        return
    op = b.choose(known)
    initial = b.constant(a.dtype, known[op])
    sizes = [1] * len(a.dims)
    sizes[d] = a.dims[d]
    padding = [[0, 0] for _ in a.dims]
    padding[d][b.integer(0, 1)] = a.dims[d] - 1
    b.keep(
        b.emit(
            f'"stablehlo.reduce_window"({a.name}, {initial.name}) <{{window_dimensions = {dense(sizes)}, padding = dense<{padding}> :'
            f" tensor<{len(a.dims)}x2xi64>}}> ({combine(op, a.dtype)}) : ({a.type}, {initial.type}) -> {a.type}",
            a.dtype,
            a.dims,
        )
    )


@operation()
def select_and_scatter(b: Builder) -> None:
    a = b.pick(
        lambda v: (
            v.dims
            and 0 not in v.dims
            and b.is_small(v.size)
            and (v.dtype.is_integer or v.dtype in (dtypes.F32, dtypes.F64))
        )
    )
    if a is None:
        return
    if a.dtype.is_float:  # which of two is larger says nothing of NaN
        a = b.convert(b.convert(a, dtypes.S32), a.dtype)
    sizes = [b.integer(1, min(3, d)) for d in a.dims]
    strides = [b.integer(1, 3) for _ in a.dims]
    dims = [(d - s) // t + 1 for d, s, t in zip(a.dims, sizes, strides, strict=True)]
    source = b.fit(b.any(), a.dtype, dims)
    initial = b.constant(a.dtype, 0)
    s = tensor(a.dtype)
    choice = f"{{\n^bb0(%a: {s}, %b: {s}):\n%c = stablehlo.compare GE, %a, %b : ({s}, {s}) -> tensor<i1>\nstablehlo.return %c : tensor<i1>\n}}"
    b.keep(
        b.emit(
            f'"stablehlo.select_and_scatter"({a.name}, {source.name}, {initial.name}) <{{window_dimensions = {dense(sizes)},'
            f" window_strides = {dense(strides)}}}> ({choice}, {combine('add', a.dtype)})"
            f" : ({a.type}, {source.type}, {s}) -> {a.type}",
            a.dtype,
            a.dims,
        )
    )


@operation(2)
def sort(b: Builder) -> None:
    """Up or down, stable, with another array that is moved along."""
    a = b.pick(lambda v: v.dims and not v.dtype.is_complex)
    if a is None:
        return
    if a.dtype.is_float and a.dtype.bits > 8:  # NaN has no order, and the interpreter no total one
        a = b.convert(b.convert(a, dtypes.S8), a.dtype)
    others = [b.fit(b.any(), b.choose(b.types), a.dims) for _ in range(b.integer(0, 2))]
    every = [a, *others]
    kinds = [tensor(v.dtype) for v in every]
    scalars = [f"%{letter}{n}: {k}" for n, k in enumerate(kinds) for letter in "ab"]
    comparator = (
        f"{{\n^bb0({', '.join(scalars)}):\n%c = stablehlo.compare {b.choose(['LT', 'GT'])}, %a0, %b0"
        f" : ({kinds[0]}, {kinds[0]}) -> tensor<i1>\nstablehlo.return %c : tensor<i1>\n}}"
    )
    dimension = b.integer(0, len(a.dims) - 1)
    types = ", ".join(v.type for v in every)
    name = b.fresh()
    many = f":{len(every)}" if len(every) > 1 else ""
    b.lines.append(
        f'{name}{many} = "stablehlo.sort"({", ".join(v.name for v in every)}) <{{dimension = {dimension} : i64, is_stable = true}}>'
        f" ({comparator}) : ({types}) -> ({types})"
    )
    b.values += [
        Entry(f"{name}#{n}" if many else name, v.dtype, v.dims) for n, v in enumerate(every)
    ]


@operation()
def finite(b: Builder) -> None:
    a = b.pick(lambda v: v.dtype in FLOATS)
    if a is None:
        return
    b.values.append(b.is_finite(a))
