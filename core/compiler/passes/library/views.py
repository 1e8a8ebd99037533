"""Views: which dimension of a pattern each dimension of an array is, through transposes and dimensions of size 1."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...ir import dtypes
from ...ir.hlo import Instruction
from ...ir.moves import transpose
from ...ir.patterns import binary_body, constant_value, squeezed

# The label of the contracted dimension of queries and keys, and of the columns of values.
DEPTH: Final = -1
FLOATS: Final = frozenset((dtypes.F16, dtypes.BF16, dtypes.F32, dtypes.F64))

# For each dimension of an array its label, a dimension of the pattern; None for dimensions of size 1.
View = tuple[int | None, ...]


def own(i: Instruction) -> View:
    return tuple(None if size == 1 else d for d, size in enumerate(i.dims))


def spread(dims: Sequence[int], labels: Sequence[int]) -> View:
    """``labels`` for the dimensions of ``dims`` that are not of size 1."""
    left = iter(labels)
    return tuple(None if size == 1 else next(left) for size in dims)


def labels_of(view: View) -> tuple[int, ...]:
    return tuple(label for label in view if label is not None)


def repeated_view(i: Instruction, view: View) -> View:
    """The view of a broadcast's operand; ``view``: that of the broadcast ``i``."""
    places = zip(i.attributes["dimensions"], i.operands[0].dims, strict=True)
    return tuple(view[place] if size != 1 else None for place, size in places)


def is_rounding(i: Instruction) -> bool:
    return i.opcode == "convert" and i.dtype in FLOATS and i.operands[0].dtype in FLOATS


def step(i: Instruction, view: View) -> tuple[Instruction, View] | None:
    """What ``i`` is but for the order of its dimensions and for some of size 1, with its view."""
    if i.opcode == "copy":
        return i.operands[0], view
    if i.opcode == "reshape" and squeezed(i.dims) == squeezed(i.operands[0].dims):
        return i.operands[0], spread(i.operands[0].dims, labels_of(view))
    if i.opcode == "transpose":
        inner: list[int | None] = [None] * len(view)
        for ours, theirs in enumerate(i.attributes["dimensions"]):
            inner[theirs] = view[ours]
        return i.operands[0], tuple(inner)
    return None


def peel(i: Instruction, view: View, roundings: bool = True) -> tuple[Instruction, View]:
    while True:
        if roundings and is_rounding(i):
            i = i.operands[0]
            continue
        inner = step(i, view)
        if inner is None:
            return i, view
        i, view = inner


class UnfitError(Exception):
    """It is not attention."""


@dataclass(slots=True)
class Reduction:
    """A reduction along one dimension: its body, what it reduces, the dimension, and the others in order."""

    opcode: str
    operand: Instruction
    dimension: int
    kept: tuple[int, ...]


def reduction_of(i: Instruction) -> Reduction:
    if i.opcode != "reduce" or len(i.operands) != 2:
        raise UnfitError
    opcode = binary_body(i.called[0])
    operand, init = i.operands
    start = constant_value(init)
    reduced = [d for d in i.attributes["dimensions"] if operand.dims[d] != 1]
    if opcode is None or start is None or len(reduced) != 1:
        raise UnfitError
    if not (opcode == "add" and start == 0) and not (
        opcode == "maximum" and float(start) <= _lowest(i)
    ):
        raise UnfitError
    kept = [d for d in range(len(operand.dims)) if d not in i.attributes["dimensions"]]
    return Reduction(opcode, operand, reduced[0], tuple(kept))


def _lowest(i: Instruction) -> float:
    """The smallest finite number of a float type."""
    import ml_dtypes

    return float(ml_dtypes.finfo(i.dtype.numpy).min)


def following(
    origin: Instruction,
    product: Instruction,
    view: View,
    users: dict[Instruction, list[Instruction]],
    results: set[Instruction],
    roundings: bool = True,
) -> tuple[Instruction, tuple[int, ...], dtypes.DType]:
    """The last one of the transposes and roundings behind ``product`` at which columns come last, its labels, and the
    type of the result. ``origin`` itself if there is none.

    ``origin`` is the product in the program, ``product`` the same with more dimensions, which ``view`` labels.
    """
    i = origin
    dtype = i.dtype
    best = i, view, dtype

    def only_user() -> Instruction | None:
        return users[i][0] if len(users[i]) == 1 and i not in results else None

    user = only_user()
    if (
        origin is not product
        and user is not None
        and user.opcode == "reshape"
        and squeezed(user.dims) == squeezed(product.dims)
    ):  # its dimensions are apart again
        i, view = user, spread(user.dims, labels_of(view))
        if labels_of(view)[-1] == DEPTH:
            best = i, view, dtype
    while (user := only_user()) is not None:
        if user.opcode == "transpose":
            view = tuple(view[d] for d in user.attributes["dimensions"])
        elif user.opcode == "reshape" and squeezed(user.dims) == squeezed(i.dims):
            view = spread(user.dims, labels_of(view))
        elif roundings and is_rounding(user) and user.dtype.size < dtype.size:
            dtype = user.dtype
        else:
            break
        i = user
        if labels_of(view)[-1] == DEPTH:
            best = i, view, dtype
    last, view, dtype = best
    return last, labels_of(view), dtype


def columns_last(labels: tuple[int, ...]) -> tuple[int, ...]:
    """``labels`` in the order in which a kernel can write them."""
    return (*(label for label in labels if label != DEPTH), DEPTH)


def transposed(i: Instruction, present: tuple[int, ...], labels: tuple[int, ...]) -> Instruction:
    """``i``, whose dimensions have the labels ``present``, in the order ``labels``."""
    return transpose(i, [present.index(label) for label in labels])
