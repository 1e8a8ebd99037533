"""Operations whose shapes are operands, which are constants here: what refinement of shapes makes of them."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tripont.core.compiler.ir import dtypes

from tests.conformance.programs import dense, tensor
from tests.conformance.random_programs.builder import Builder, Entry, operation


def numbers(b: Builder, values: Sequence[int]) -> Entry:
    """A constant s32 or s64 vector."""
    dtype = b.choose([dtypes.S32, dtypes.S64])
    kind = tensor(dtype, len(values))
    text = f"dense<{list(values)}>" if values else "dense<>"
    return b.emit(f"stablehlo.constant {text} : {kind}", dtype, (len(values),))


def _same_type(b: Builder, *vectors: Sequence[int]) -> list[Entry]:
    """Several constant vectors of one dtype."""
    first = numbers(b, vectors[0])
    return [first, *(b.convert(numbers(b, v), first.dtype) for v in vectors[1:])]


@operation()
def dynamic_reshape(b: Builder) -> None:
    a = b.any()
    dims = b.shuffled(a.dims) if a.dims else [1]
    shape = numbers(b, dims)
    target = tensor(a.dtype, *dims)
    b.emit(
        f"stablehlo.dynamic_reshape {a.name}, {shape.name} : ({a.type}, {shape.type}) -> {target}",
        a.dtype,
        dims,
        keep=True,
    )


@operation()
def dynamic_broadcast(b: Builder) -> None:
    """Along dimensions of 1, of which it may be said that they grow, and of others that they do not."""
    a = b.any()
    rank = len(a.dims) + b.integer(0, 1)
    at = sorted(b.shuffled(range(rank))[: len(a.dims)])
    dims = [b.integer(1, 3) for _ in range(rank)]
    for n, d in zip(at, a.dims, strict=True):
        dims[n] = d if d != 1 else b.integer(1, 3)
    if not b.fits(math.prod(dims)):
        return
    known = ""
    if b.chance():
        grow = [n for n, d in enumerate(a.dims) if d != dims[at[n]]]
        rest = [n for n in range(len(a.dims)) if n not in grow]
        known = f"known_expanding_dimensions = {dense(grow)}, known_nonexpanding_dimensions = {dense(rest)}, "
    shape, target = numbers(b, dims), tensor(a.dtype, *dims)
    b.emit(
        f'"stablehlo.dynamic_broadcast_in_dim"({a.name}, {shape.name}) <{{{known}broadcast_dimensions = {dense(at)}}}>'
        f" : ({a.type}, {shape.type}) -> {target}",
        a.dtype,
        dims,
        keep=True,
    )


@operation()
def dynamic_iota(b: Builder) -> None:
    a = b.any()
    if not a.dims or a.dtype.kind == "pred":
        return
    d = b.integer(0, len(a.dims) - 1)
    if a.dims[d] > (2 ** (a.dtype.bits - a.dtype.is_signed) if a.dtype.is_integer else 3):
        return
    shape = numbers(b, a.dims)
    text = f"stablehlo.dynamic_iota {shape.name}, dim = {d} : ({shape.type}) -> {a.type}"
    b.keep(b.emit(text, a.dtype, a.dims))


@operation()
def dynamic_pad(b: Builder) -> None:
    a = b.any()
    if not a.dims:
        return
    low, high, inner = ([b.integer(n, 2) for _ in a.dims] for n in (-1, -1, 0))
    dims = [
        d + max(0, d - 1) * i + lo + hi
        for d, lo, hi, i in zip(a.dims, low, high, inner, strict=True)
    ]
    if any(d < 0 for d in dims) or not b.fits(math.prod(dims)):
        return
    value, parts = b.constant(a.dtype, 1), _same_type(b, low, high, inner)
    given = [a, value, *parts]
    b.emit(
        f"stablehlo.dynamic_pad {', '.join(v.name for v in given)}"
        f" : ({', '.join(v.type for v in given)}) -> {tensor(a.dtype, *dims)}",
        a.dtype,
        dims,
        keep=True,
    )


@operation()
def real_dynamic_slice(b: Builder) -> None:
    a = b.any()
    if not a.dims:
        return
    starts = [b.integer(0, d) for d in a.dims]
    limits = [b.integer(s, d) for s, d in zip(starts, a.dims, strict=True)]
    strides = [b.integer(1, 3) for _ in a.dims]
    dims = [-(-(hi - lo) // s) for lo, hi, s in zip(starts, limits, strides, strict=True)]
    given = [a, *_same_type(b, starts, limits, strides)]
    target = tensor(a.dtype, *dims)
    made = b.emit(
        f"stablehlo.real_dynamic_slice {', '.join(v.name for v in given)}"
        f" : ({', '.join(v.type for v in given)}) -> {target}",
        a.dtype,
        dims,
        keep=True,
    )
    ends = ", ".join(f"{lo}:{hi}:{s}" for lo, hi, s in zip(starts, limits, strides, strict=True))
    plain = f"{made.name} = stablehlo.slice {a.name} [{ends}] : ({a.type}) -> {target}"
    b.replacements.append((b.lines[-1], plain))  # the interpreter has no real_dynamic_slice


@operation()
def dimension_size(b: Builder) -> None:
    a = b.any()
    if not a.dims:
        return
    d = b.integer(0, len(a.dims) - 1)
    text = f"stablehlo.get_dimension_size {a.name}, dim = {d} : ({a.type}) -> tensor<i32>"
    b.values.append(b.emit(text, dtypes.S32, ()))
