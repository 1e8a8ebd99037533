"""Views: slices that are read where they lie.

A view is a fusion of the kind ``view``: slices and reshapes of its first operand, the base, whose elements are one
piece of the memory of the base. No kernel computes it. Buffer assignment gives it an allocation without memory, and its
thunk (:class:`tripont.core.schema.artifact.View`) points that to the piece, whose place depends on the indices.
"""

from __future__ import annotations

import math
from typing import Final, NamedTuple

import numpy as np

from ..ir.errors import internal
from ..ir.hlo import Instruction, Shape

VIEW: Final = "view"


def is_view(instruction: Instruction) -> bool:
    """Whether the instruction is a view."""
    return instruction.opcode == "fusion" and instruction.attributes["kind"] == VIEW


class Piece(NamedTuple):
    """The piece of ``base``'s memory at ``offset``, moved by each of ``strides``: an index, the largest value that it
    has (smaller than 0 is 0), and the bytes that it is multiplied with.
    """

    base: Instruction
    offset: int
    strides: tuple[tuple[Instruction, int, int], ...]


def find_piece(value: Instruction) -> Piece | None:
    """The piece that ``value`` is, through slices and reshapes; None if its elements do not lie in one piece."""
    offset = 0
    strides: list[tuple[Instruction, int, int]] = []
    while value.opcode in ("bitcast", "reshape", "slice", "dynamic-slice"):
        base = value.operands[0]
        shape = base.shape
        assert isinstance(shape, Shape)
        if value.opcode.endswith("slice"):
            if not _is_whole(value, shape):
                return None
            for n, (index, limit) in enumerate(_starts(value)):
                stride = shape.bytes // math.prod(shape.dims[: n + 1])
                if isinstance(index, int):
                    offset += min(max(index, 0), limit) * stride
                elif limit:
                    strides.append((index, limit, stride))
        value = base
    return Piece(value, offset, tuple(strides))


def piece_of(root: Instruction) -> Piece:
    """The piece that the root of a view's computation is."""
    piece = find_piece(root)
    if piece is None or piece.base.opcode != "parameter":
        raise internal("a view is not one piece of an array", op=root.opcode)
    return piece


def _is_whole(slice_: Instruction, shape: Shape) -> bool:
    """Whether the elements of a slice of an array of ``shape`` are neighbours: all of the last dimensions, any number
    of the one before them, and one of each dimension before that.
    """
    if not slice_.elements or any(s != 1 for s in slice_.attributes.get("strides", ())):
        return False
    pairs = list(zip(slice_.dims, shape.dims, strict=True))
    while pairs and pairs[-1][0] == pairs[-1][1]:
        pairs.pop()
    return all(size == 1 for size, _ in pairs[:-1])


def _starts(slice_: Instruction) -> list[tuple[Instruction | int, int]]:
    """Where a slice starts in each dimension, a number where it is known, and the last place where it may."""
    base = slice_.operands[0]
    limits = [whole - size for whole, size in zip(base.dims, slice_.dims, strict=True)]
    if slice_.opcode == "slice":
        return list(zip(slice_.attributes["starts"], limits, strict=True))
    starts: list[Instruction | int] = [
        int(np.asarray(i.attributes["literal"]).item()) if i.opcode == "constant" else i
        for i in slice_.operands[1:]
    ]
    return list(zip(starts, limits, strict=True))
