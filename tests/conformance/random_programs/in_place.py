"""Updates of arrays from their own elements: what is wrong if memory is reused before it was read for the last time.

Pieces of an array are moved to other places of it, once or in loops, while the array as it was is still needed by some
operations and not by others.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tripont.core.compiler.ir import dtypes

from tests.conformance.programs import dense, tensor
from tests.conformance.random_programs.builder import Builder, Entry, Operation, operation
from tests.conformance.random_programs.indexing import permutation

_DEEPEST: Final = 3


def _array(b: Builder) -> Entry | None:
    return b.pick(lambda v: v.dims and 0 not in v.dims and b.is_small(v.size))


def _piece_sizes(b: Builder, dims: Sequence[int]) -> list[int]:
    """Whole along most dimensions."""
    sizes = list(dims)
    for n in b.shuffled(range(len(dims)))[: b.integer(1, 2)]:
        sizes[n] = b.integer(1, dims[n])
    return sizes


def _place(b: Builder, dims: Sequence[int], sizes: Sequence[int]) -> list[Entry]:
    """Scalars where a piece starts, some of them known early, some out of bounds (and clamped)."""
    starts = []
    for d, s in zip(dims, sizes, strict=True):
        if d == s and b.integer(0, 4):
            starts.append(b.constant(dtypes.S32, 0))
        elif b.integer(0, 2) == 0:
            starts.append(b.constant(dtypes.S32, b.integer(0, d - s)))
        else:
            starts.append(b.binary("add", b.index(), b.constant(dtypes.S32, b.integer(-8, 1))))
    return starts


def _read(b: Builder, a: Entry, sizes: Sequence[int]) -> Entry:
    """A piece of ``a`` from some place."""
    starts = _place(b, a.dims, sizes)
    kinds = ", ".join(v.type for v in (a, *starts))
    return b.emit(
        f"stablehlo.dynamic_slice {', '.join(v.name for v in (a, *starts))}, sizes = [{', '.join(map(str, sizes))}]"
        f" : ({kinds}) -> {tensor(a.dtype, *sizes)}",
        a.dtype,
        sizes,
    )


def _write(b: Builder, a: Entry, update: Entry, starts: Sequence[Entry]) -> Entry:
    given = (a, update, *starts)
    return b.emit(
        f"stablehlo.dynamic_update_slice {', '.join(v.name for v in given)}"
        f" : ({', '.join(v.type for v in given)}) -> {a.type}",
        a.dtype,
        a.dims,
    )


def _changed(b: Builder, a: Entry, other: Entry) -> Entry:
    """``a`` or what becomes of it by one operation that needs no rounding."""
    how = b.integer(0, 4)
    if how == 0 and not a.dtype.is_complex:
        op = "xor" if a.dtype.is_integer or a.dtype.kind == "pred" else "maximum"
        return b.binary(op, a, other)
    if how == 1:
        text = f"stablehlo.reverse {a.name}, dims = {b.some(range(len(a.dims)))} : {a.type}"
        return b.emit(text, a.dtype, a.dims)
    if how == 2:
        return b.unary("not" if a.dtype.kind == "pred" else "negate", a)
    return a


@operation()
def move_within(b: Builder) -> None:
    """A piece of an array to another place of it, which may overlap; later operations may read the array as it was."""
    a = _array(b)
    if a is None:
        return
    sizes = _piece_sizes(b, a.dims)
    piece = _read(b, a, sizes)
    piece = _changed(b, piece, _read(b, b.choose([a, b.like(a)]), sizes))
    b.values.append(_write(b, a, piece, _place(b, a.dims, sizes)))


@operation()
def move_twice(b: Builder) -> None:
    """Two pieces change places: both are read before either is written, or the second one after the first."""
    a = _array(b)
    if a is None:
        return
    sizes = _piece_sizes(b, a.dims)
    places = [_place(b, a.dims, sizes) for _ in range(2)]
    pieces = [_read(b, a, sizes) for _ in range(2)]
    first = _write(b, a, _changed(b, pieces[0], pieces[1]), places[0])
    if b.chance():
        pieces[1] = _read(b, first, sizes)
    b.values.append(_write(b, first, pieces[1], places[1]))
    if b.integer(0, 3) == 0:
        b.values.append(first)


def _rows(
    b: Builder, a: Entry, which: Entry, d: int, window: Sequence[int], sizes: Sequence[int]
) -> Entry:
    """Rows of ``a`` along dimension ``d``, of all dimensions ``window`` else."""
    return b.emit(
        f'"stablehlo.gather"({a.name}, {which.name}) <{{dimension_numbers = #stablehlo.gather<offset_dims = {window},'
        f" collapsed_slice_dims = [{d}], start_index_map = [{d}], index_vector_dim = 1>, slice_sizes = {dense(sizes)}}}>"
        f" : ({a.type}, {which.type}) -> {a.type}",
        a.dtype,
        a.dims,
    )


@operation()
def rows_within(b: Builder) -> None:
    """Rows of an array, taken in one order and put in another, overwriting or combining."""
    a = _array(b)
    if a is None:
        return
    d = b.integer(0, len(a.dims) - 1)
    source, target = permutation(b, a.dims[d]), permutation(b, a.dims[d])
    window = [n for n in range(len(a.dims)) if n != d]
    sizes = [1 if n == d else size for n, size in enumerate(a.dims)]
    s = tensor(a.dtype)
    # The array's own memory comes in twice if its rows are put elsewhere as they are.
    rows = a if b.integer(0, 3) == 0 else _rows(b, a, source, d, window, sizes)
    line, result = "", "%y"
    if not a.dtype.is_complex and b.chance():
        op = "xor" if a.dtype.is_integer or a.dtype.kind == "pred" else "maximum"
        line, result = f"%z = stablehlo.{op} %x, %y : {s}\n", "%z"
    unique = b.choose(["true", "false"])
    copied = b.reverse_twice(a)  # the interpreter scatters into its operand
    b.emit(
        f'"stablehlo.scatter"({copied.name}, {target.name}, {rows.name}) <{{scatter_dimension_numbers ='
        f" #stablehlo.scatter<update_window_dims = {window}, inserted_window_dims = [{d}],"
        f" scatter_dims_to_operand_dims = [{d}], index_vector_dim = 1>, indices_are_sorted = false,"
        f" unique_indices = {unique}}}> ({{\n^bb0(%x: {s}, %y: {s}):\n{line}stablehlo.return {result} : {s}\n}})"
        f" : ({a.type}, {target.type}, {rows.type}) -> {a.type}",
        a.dtype,
        a.dims,
        keep=True,
    )


@operation()
def loop_within(b: Builder) -> None:
    """A loop of such updates. Arrays go on as they are, updated, as one another, or as they were a step before."""
    if b.depth >= _DEEPEST:
        return
    first = _array(b)
    if first is None:
        return
    state = [first, *(b.choose([b.like(first), first, b.any()]) for _ in range(b.integer(0, 3)))]
    zero, limit = b.constant(dtypes.S32, 0), b.constant(dtypes.S32, b.integer(1, 5))
    name = b.fresh()
    counter = Entry(f"{name}i", dtypes.S32, ())
    inside = [Entry(f"{name}s{n}", v.dtype, v.dims) for n, v in enumerate(state)]
    with b.region(counter, *inside, outer=b.chance()) as lines, b.drawing_from(UPDATES):
        b.grow(b.integer(1, 4))
        following = []
        for v in inside:
            made = [x for x in b.values if x.type == v.type]
            following.append(b.choose([made[-1], b.choose(made), b.choose(inside)]))
        following = [x if x.type == v.type else v for x, v in zip(following, inside, strict=True)]
        counted = b.binary("add", counter, b.constant(dtypes.S32, 1))
    types = ", ".join(["tensor<i32>", *(v.type for v in state)])
    begin = ", ".join(
        f"{x.name} = {v.name}" for x, v in zip([counter, *inside], [zero, *state], strict=True)
    )
    body = "\n".join(lines)
    given = ", ".join(v.name for v in [counted, *following])
    b.lines.append(
        f"{name}:{len(state) + 1} = stablehlo.while({begin}) : {types} cond {{\n"
        f"%c = stablehlo.compare LT, {counter.name}, {limit.name} : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
        f"stablehlo.return %c : tensor<i1>\n}} do {{\n{body}\nstablehlo.return {given} : {types}\n}}"
    )
    for n, v in enumerate(state):
        b.values.append(Entry(f"{name}#{n + 1}", v.dtype, v.dims))


# What the bodies of such loops are drawn from; programs that are mostly such updates draw from it too.
UPDATES: Final[tuple[Operation, ...]] = (
    move_within,
    move_within,
    move_twice,
    rows_within,
    loop_within,
)
