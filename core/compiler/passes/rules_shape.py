"""Rewrite rules for data movement: opcode -> functions that give something simpler, or None."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from ..ir.hlo import GatherDimensionNumbers, Instruction, Shape, constant
from ..ir.moves import block, cut, pad, transpose
from ..ir.patterns import (
    binary_body,
    body_on_arrays,
    constant_value,
    counts,
    identity_value,
    reshape,
    scalar_of,
    splat,
    squeezed,
)

Rule = Callable[[Instruction], Instruction | None]

# Slices that a gather at known places becomes.
_MOST_SLICES: Final = 4
# Pieces of a concatenation that are put side by side instead of above one another.
_MOST_PIECES: Final = 32


def constant_splat(i: Instruction) -> Instruction | None:
    """A constant of equal elements is a scalar: small in the artifact and folded into code."""
    literal: np.ndarray = i.attributes["literal"]
    if not i.dims or not literal.size:
        return None
    flat = literal.reshape(-1)
    first = flat[:1].tobytes()
    if flat[-1:].tobytes() != first or flat[flat.size // 2 : flat.size // 2 + 1].tobytes() != first:
        return None
    raw = flat.view(np.uint8).reshape(flat.size, -1)
    if not bool((raw == raw[0]).all()):
        return None
    return splat(constant(flat[0], i.dtype, i.metadata), i.dims)


def broadcast_simpler(i: Instruction) -> Instruction | None:
    """No-op broadcasts; broadcasts of broadcasts; dimensions of size 1, which are reshapes."""
    operand = i.operands[0]
    dimensions = i.attributes["dimensions"]
    if not dimensions and i.dims and operand.opcode != "broadcast":  # of a scalar: most
        return None
    if operand.dims == i.dims and dimensions == tuple(range(len(dimensions))):
        return operand
    if operand.opcode == "broadcast":
        inner = operand.attributes["dimensions"]
        return i.derive(
            "broadcast", operand.operands, {"dimensions": tuple([dimensions[d] for d in inner])}
        )
    if 1 in operand.dims:
        kept = tuple([t for d, t in zip(operand.dims, dimensions, strict=True) if d != 1])
        return i.derive(
            "broadcast", (reshape(operand, squeezed(operand.dims)),), {"dimensions": kept}
        )
    if operand.dims and operand.dims == squeezed(i.dims) and list(dimensions) == sorted(dimensions):
        return reshape(operand, i.dims)
    if dimensions and list(dimensions) != sorted(dimensions):
        order = tuple(sorted(range(len(dimensions)), key=dimensions.__getitem__))
        moved = transpose(operand, order, i.metadata)
        return i.replace(operands=(moved,), attributes={"dimensions": tuple(sorted(dimensions))})
    return None


def reshape_simpler(i: Instruction) -> Instruction | None:
    """No-op reshapes, reshapes of reshapes, of splats, and of broadcasts when only sizes of 1 come
    or go.
    """
    operand = i.operands[0]
    if operand.dims == i.dims:
        return operand
    if operand.opcode == "reshape" or operand.opcode == "bitcast":
        return reshape(operand.operands[0], i.dims)
    if operand.opcode == "broadcast":
        scalar = scalar_of(operand)
        if scalar is not None:
            return splat(scalar, i.dims)
        if squeezed(operand.dims) == squeezed(i.dims) and 1 not in operand.operands[0].dims:
            places = [n for n, d in enumerate(i.dims) if d != 1]
            where: dict[int, int] = {}
            for n, d in enumerate(operand.dims):
                if d != 1:
                    where[n] = places[len(where)]
            dimensions = tuple([where[d] for d in operand.attributes["dimensions"]])
            return operand.replace(shape=i.shape, attributes={"dimensions": dimensions})
    if operand.opcode == "iota" and squeezed(operand.dims) == squeezed(i.dims):
        size = operand.dims[operand.attributes["dimension"]]
        if size != 1:
            before = sum(d != 1 for d in operand.dims[: operand.attributes["dimension"]])
            dimension = [n for n, d in enumerate(i.dims) if d != 1][before]
            return operand.replace(shape=i.shape, attributes={"dimension": dimension})
    return None


def transpose_simpler(i: Instruction) -> Instruction | None:
    """No-op transposes, transposes of transposes and broadcasts; one that moves only sizes of 1 is
    a reshape.
    """
    operand = i.operands[0]
    dimensions = i.attributes["dimensions"]
    moved = [d for d in dimensions if operand.dims[d] != 1]
    if moved == sorted(moved):
        return reshape(operand, i.dims)
    if operand.opcode == "transpose":
        inner = operand.attributes["dimensions"]
        return i.replace(
            operands=operand.operands,
            attributes={"dimensions": tuple([inner[d] for d in dimensions])},
        )
    if operand.opcode == "broadcast":
        place = {d: n for n, d in enumerate(dimensions)}
        mapped = tuple([place[d] for d in operand.attributes["dimensions"]])
        return operand.replace(shape=i.shape, attributes={"dimensions": mapped})
    if operand.opcode == "iota":
        dimension = dimensions.index(operand.attributes["dimension"])
        return operand.replace(shape=i.shape, attributes={"dimension": dimension})
    return None


def transpose_of_pieces(i: Instruction) -> Instruction | None:
    """Pieces for which the transpose is a reshape, as rows stacked before they are turned into columns, are put side
    by side at once.
    """
    operand = i.operands[0]
    if operand.opcode != "concatenate" or len(operand.operands) > _MOST_PIECES:
        return None
    order = i.attributes["dimensions"]
    dimension = operand.attributes["dimension"]
    others = [d for d in order if d != dimension and operand.dims[d] != 1]
    if others != sorted(others) or any(p.dims[dimension] != 1 for p in operand.operands):
        return None
    dims = tuple([1 if d == dimension else operand.dims[d] for d in order])
    pieces = [reshape(piece, dims) for piece in operand.operands]
    return i.derive("concatenate", pieces, {"dimension": order.index(dimension)})


def of_splat(i: Instruction) -> Instruction | None:
    """Moving the elements of a splat around gives a splat."""
    operand = i.operands[0]
    if operand.opcode == "broadcast" and not operand.operands[0].dims:
        return splat(operand.operands[0], i.dims)
    return None


def slice_simpler(i: Instruction) -> Instruction | None:
    """The whole operand; slices of slices; a slice within one piece of a concatenation or inside a
    padding.
    """
    operand = i.operands[0]
    if operand.dims == i.dims:
        return operand
    a = i.attributes
    if operand.opcode == "slice":
        b = operand.attributes
        starts = tuple(
            [s + x * t for s, x, t in zip(b["starts"], a["starts"], b["strides"], strict=True)]
        )
        strides = tuple([x * y for x, y in zip(a["strides"], b["strides"], strict=True)])
        limits = tuple(
            [
                s + (d - 1) * t + 1 if d else s
                for s, d, t in zip(starts, i.dims, strides, strict=True)
            ]
        )
        if all(limit <= d for limit, d in zip(limits, operand.operands[0].dims, strict=True)):
            return i.replace(
                operands=operand.operands,
                attributes={"starts": starts, "limits": limits, "strides": strides},
            )
    if operand.opcode == "concatenate" and i.elements:
        dimension = operand.attributes["dimension"]
        begin = 0
        for piece in operand.operands:
            size = piece.dims[dimension]
            if begin <= a["starts"][dimension] and a["limits"][dimension] <= begin + size:
                return i.replace(operands=(piece,), attributes=_shifted(a, dimension, begin))
            begin += size
    if operand.opcode == "pad" and all(n == 0 for n in operand.attributes["interior"]):
        low = operand.attributes["low"]
        inside = all(
            s >= n and limit <= n + d
            for s, limit, n, d in zip(
                a["starts"], a["limits"], low, operand.operands[0].dims, strict=True
            )
        )
        if inside:
            new = {
                "starts": tuple([s - n for s, n in zip(a["starts"], low, strict=True)]),
                "limits": tuple([s - n for s, n in zip(a["limits"], low, strict=True)]),
                "strides": a["strides"],
            }
            return i.replace(operands=operand.operands[:1], attributes=new)
    if operand.opcode == "broadcast" and all(s == 1 for s in a["strides"]):
        source = operand.attributes["dimensions"]
        if all(operand.dims[d] == i.dims[d] for d in source):
            return operand.replace(shape=i.shape)
    return None


def _shifted(a: object, dimension: int, by: int) -> dict[str, object]:
    """Slice attributes moved by ``by`` along ``dimension``."""
    starts, limits = list(a["starts"]), list(a["limits"])  # type: ignore[index]
    starts[dimension] -= by
    limits[dimension] -= by
    return {"starts": tuple(starts), "limits": tuple(limits), "strides": a["strides"]}  # type: ignore[index]


def pad_simpler(i: Instruction) -> Instruction | None:
    """No padding; only cropping, which is a slice; padding a splat with its own value."""
    operand, value = i.operands
    low, high, interior = i.attributes["low"], i.attributes["high"], i.attributes["interior"]
    if any(interior):
        return None
    if not any(low) and not any(high):
        return operand
    if all(n <= 0 for n in (*low, *high)) and i.elements:
        return block(operand, [-n for n in low], i.dims, i.metadata)
    if operand.opcode == "broadcast" and operand.operands[0] is value:
        return splat(value, i.dims)
    if not operand.elements:
        return splat(value, i.dims)
    return None


def concatenate_simpler(i: Instruction) -> Instruction | None:
    """Empty and nested pieces; a single piece; pieces that are one splat."""
    dimension = i.attributes["dimension"]
    pieces: list[Instruction] = []
    for piece in i.operands:
        if piece.opcode == "concatenate" and piece.attributes["dimension"] == dimension:
            pieces.extend(piece.operands)
        elif piece.dims[dimension]:
            pieces.append(piece)
    if not pieces:
        return i.operands[0] if i.operands[0].dims == i.dims else None
    if len(pieces) == 1:
        return pieces[0]
    first = pieces[0]
    one_splat = first.opcode == "broadcast" and not first.operands[0].dims
    if one_splat and all(
        p.opcode == "broadcast" and p.operands[0] is first.operands[0] for p in pieces
    ):
        return splat(first.operands[0], i.dims)
    if tuple(pieces) != i.operands and len(pieces) <= 64:
        return i.replace(operands=pieces)
    return None


def reverse_simpler(i: Instruction) -> Instruction | None:
    """Reversing dimensions of size 1 does nothing, and reversing a dimension twice neither."""
    operand = i.operands[0]
    dimensions = tuple([d for d in i.attributes["dimensions"] if i.dims[d] > 1])
    if not dimensions:
        return operand
    if operand.opcode == "reverse":
        once = set(dimensions) ^ set(operand.attributes["dimensions"])
        return i.replace(operands=operand.operands, attributes={"dimensions": tuple(sorted(once))})
    if len(dimensions) < len(i.attributes["dimensions"]):
        return i.replace(attributes={"dimensions": dimensions})
    return None


def iota_of_one(i: Instruction) -> Instruction | None:
    """Counting to 1 gives zeros."""
    if i.dims[i.attributes["dimension"]] == 1:
        return splat(constant(0, i.dtype, i.metadata), i.dims)
    return None


def gather_of_nothing(i: Instruction) -> Instruction | None:
    """A gather of slices without elements is zeros, as in XLA.

    A collapsed dimension of the slices, and a batching one, may have the size 0, and one of an empty operand has no
    other. The result has elements all the same, and there are none that the code could read for them.
    """
    if 0 in i.attributes["slice_sizes"]:
        return splat(constant(0, i.dtype, i.metadata), i.dims)
    return None


def gather_known(i: Instruction) -> Instruction | None:
    """A gather at a few known places of one dimension, as the columns x[:, [1, 0]], is slices behind one another."""
    operand, indices = i.operands
    n: GatherDimensionNumbers = i.attributes["dimension_numbers"]
    if indices.opcode != "constant" or len(n.start_index_map) != 1 or not i.elements:
        return None
    (along,) = n.start_index_map
    whole = tuple([1 if d == along else size for d, size in enumerate(operand.dims)])
    if n.collapsed_slice_dims != (along,) or i.attributes["slice_sizes"] != whole:
        return None
    batch = [d for d in range(len(i.dims)) if d not in n.offset_dims]
    places = indices.attributes["literal"].reshape(-1)
    if len(batch) != 1 or len(places) > _MOST_SLICES:
        return None
    piece_dims = tuple([1 if d in batch else size for d, size in enumerate(i.dims)])
    pieces = []
    for place in places:
        at = min(max(int(place), 0), operand.dims[along] - 1)
        pieces.append(reshape(cut(operand, along, at, at + 1, i.metadata), piece_dims))
    if len(pieces) == 1:
        return pieces[0]
    (dimension,) = batch
    return i.derive("concatenate", pieces, {"dimension": dimension})


def gather_of_all(i: Instruction) -> Instruction | None:
    """A gather at all places of a dimension, one after the other: x[..., iota] is a reshape, or a slice, of x."""
    operand, indices = i.operands
    n: GatherDimensionNumbers = i.attributes["dimension_numbers"]
    counted = indices.operands[0] if indices.opcode == "reshape" else indices
    if not counts(counted) or len(n.start_index_map) != 1:
        return None
    (along,) = n.start_index_map
    whole = tuple([1 if d == along else size for d, size in enumerate(operand.dims)])
    count = counted.dims[counted.attributes["dimension"]]
    if counted.elements != count:
        return None
    if i.attributes["slice_sizes"] != whole or not 0 < count <= operand.dims[along]:
        return None
    # In the result the places stand behind the same elements as in the operand.
    places = [d for d in range(len(i.dims)) if d not in n.offset_dims and i.dims[d] > 1]
    if len(places) != 1 or math.prod(i.dims[: places[0]]) != math.prod(operand.dims[:along]):
        return None
    return reshape(cut(operand, along, 0, count, i.metadata), i.dims)


def dynamic_slice_known(i: Instruction) -> Instruction | None:
    """The whole operand, or known starts (clamped as at run time)."""
    operand, *indices = i.operands
    if operand.dims == i.dims:
        return operand
    starts = _known_starts(indices, i.dims, operand.dims)
    return None if starts is None else block(operand, starts, i.dims, i.metadata)


def dynamic_update_slice_known(i: Instruction) -> Instruction | None:
    """An update of everything; an update of nothing; one at a known place in a splat, which is a pad."""
    operand, update, *indices = i.operands
    if update.dims == operand.dims:
        return update
    if not update.elements:
        return operand
    scalar = scalar_of(operand) if operand.opcode == "broadcast" else None
    starts = _known_starts(indices, update.dims, operand.dims)
    if scalar is None or starts is None:
        return None
    high = [n - s - d for n, s, d in zip(i.dims, starts, update.dims, strict=True)]
    return pad(update, scalar, starts, high, metadata=i.metadata)


def _known_starts(
    indices: Sequence[Instruction], sizes: Sequence[int], dims: Sequence[int]
) -> tuple[int, ...] | None:
    """Where a slice of ``sizes`` in an array of ``dims`` starts if that is known, clamped as at run time."""
    starts = []
    for index, size, limit in zip(indices, sizes, dims, strict=True):
        value = 0 if size == limit else constant_value(index)
        if value is None:
            return None
        starts.append(max(0, min(int(value), limit - size)))
    return tuple(starts)


def element_of_tuple(i: Instruction) -> Instruction | None:
    """get-tuple-element of a tuple."""
    operand = i.operands[0]
    return operand.operands[i.attributes["index"]] if operand.opcode == "tuple" else None


def value_itself(i: Instruction) -> Instruction | None:
    """Values are immutable: a copy is the value."""
    return i.operands[0]


def reduce_simpler(i: Instruction) -> Instruction | None:
    """Dimensions of size 1 are dropped rather than reduced; a transposed operand is reduced as it
    lies.
    """
    if not isinstance(i.shape, Shape):
        return None
    operand, initial = i.operands
    dimensions = i.attributes["dimensions"]
    if not operand.elements:
        return splat(initial, i.dims)
    if 1 in operand.dims or not dimensions:
        reduced = set(dimensions)
        sizes = [(d, n in reduced) for n, d in enumerate(operand.dims) if d != 1]
        small = reshape(operand, [d for d, _ in sizes])
        left = tuple([n for n, (_, r) in enumerate(sizes) if r])
        if left:
            shape = i.shape.with_dims([d for d, r in sizes if not r])
            inner = i.replace(
                operands=(small, initial), shape=shape, attributes={"dimensions": left}
            )
            return reshape(inner, i.dims)
        results = body_on_arrays(i.called[0], [splat(initial, small.dims), small])
        return reshape(results[0], i.dims) if results is not None else None
    if operand.opcode == "transpose":
        order = operand.attributes["dimensions"]
        source = operand.operands[0]
        reduced_source = tuple(sorted(order[d] for d in dimensions))
        kept = [order[n] for n in range(len(order)) if n not in set(dimensions)]
        in_order = sorted(kept)
        shape = i.shape.with_dims([source.dims[d] for d in in_order])
        inner = i.replace(
            operands=(source, initial), shape=shape, attributes={"dimensions": reduced_source}
        )
        if kept == in_order:
            return inner
        back = tuple([in_order.index(d) for d in kept])
        return i.derive("transpose", (inner,), {"dimensions": back})
    if operand.opcode == "reduce" and isinstance(operand.shape, Shape):
        return _reduce_of_reduce(i, operand)
    return None


def _reduce_of_reduce(i: Instruction, inner: Instruction) -> Instruction | None:
    """Two reductions with one operation are one, if the first is not needed to split the work."""
    opcode = binary_body(i.called[0])
    if opcode is None or opcode != binary_body(inner.called[0]) or "split" in inner.attributes:
        return None
    source, first = inner.operands
    zero = constant_value(first)
    if opcode != "add" or zero is None or zero != 0:
        return None
    reduced = set(inner.attributes["dimensions"])
    kept = [n for n in range(len(source.dims)) if n not in reduced]
    dimensions = tuple(sorted(reduced | {kept[d] for d in i.attributes["dimensions"]}))
    last = i.operands[1]
    value = constant_value(last)
    neutral = identity_value("add", i)
    if value is None:  # It may be -0.0, which stands only if the first zero has no other sign.
        if neutral is None or zero.tobytes() != neutral.tobytes():
            return None
    elif value == 0:  # the sum of both zeros, which is -0.0 if both are
        zero = zero + value
        if zero.tobytes() != value.tobytes():
            last = constant(zero, i.dtype, i.metadata)
    return i.replace(operands=(source, last), attributes={"dimensions": dimensions})


RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "constant": (constant_splat,),
    "broadcast": (broadcast_simpler,),
    "reshape": (reshape_simpler,),
    "transpose": (of_splat, transpose_simpler, transpose_of_pieces),
    "slice": (of_splat, slice_simpler),
    "pad": (pad_simpler,),
    "concatenate": (concatenate_simpler,),
    "reverse": (of_splat, reverse_simpler),
    "iota": (iota_of_one,),
    "gather": (gather_of_nothing, of_splat, gather_known, gather_of_all),
    "dynamic-slice": (of_splat, dynamic_slice_known),
    "dynamic-update-slice": (dynamic_update_slice_known,),
    "get-tuple-element": (element_of_tuple,),
    "copy": (value_itself,),
    "reduce": (reduce_simpler,),
}
