"""Where the pieces of an array begin along a dimension: what a loop's results are joined and padded from."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import NamedTuple

from ...ir import hlo


class Piece(NamedTuple):
    """An instruction that a loop's results are made of, and how it lies along one of their dimensions.

    ``along``: which of its own dimensions that is. Its first element there stands at ``offset`` of the results, and
    its elements are ``distance`` apart.
    """

    instruction: hlo.Instruction
    along: int
    offset: Fraction
    distance: Fraction


def pieces_along(
    dimension: int, roots: Sequence[hlo.Instruction], *, through_gaps: bool
) -> Iterator[Piece]:
    """The pieces of ``roots`` along a dimension. ``through_gaps``: those too that are seen through pads with gaps and
    through slices with strides.
    """
    seen: set[Piece] = set()
    stack = [Piece(root, dimension, Fraction(0), Fraction(1)) for root in roots]
    while stack:
        piece = stack.pop()
        i, along, offset, distance = piece
        if piece in seen or not isinstance(i.shape, hlo.Shape) or not i.dims:
            continue
        seen.add(piece)
        yield piece
        if i.opcode == "concatenate":
            for operand in i.operands:
                stack.append(Piece(operand, along, offset, distance))
                if i.attributes["dimension"] == along:
                    offset += operand.dims[along] * distance
        elif i.opcode == "pad":
            gap = i.attributes["interior"][along] + 1
            if gap == 1 or through_gaps:
                start = offset + i.attributes["low"][along] * distance
                stack.append(Piece(i.operands[0], along, start, distance * gap))
        elif i.opcode == "slice":
            stride = i.attributes["strides"][along]
            if stride == 1 or through_gaps:
                nearer = distance / stride
                start = offset - i.attributes["starts"][along] * nearer
                stack.append(Piece(i.operands[0], along, start, nearer))
        elif i.opcode == "broadcast":
            mapped = i.attributes["dimensions"]
            if along in mapped:
                stack.append(Piece(i.operands[0], mapped.index(along), offset, distance))
        elif i.opcode == "copy" or i.is_elementwise:
            stack += [Piece(o, along, offset, distance) for o in i.operands if o.dims == i.dims]


def seams_along(
    dimension: int, roots: Sequence[hlo.Instruction], *, through_gaps: bool = False
) -> list[int]:
    """The places along a dimension of ``roots`` at which another piece of a concatenation or a pad begins."""
    seams: set[int] = set()
    for i, along, offset, distance in pieces_along(dimension, roots, through_gaps=through_gaps):
        if i.opcode == "concatenate" and i.attributes["dimension"] == along:
            at = offset
            for operand in i.operands:
                at += operand.dims[along] * distance
                seams.add(math.ceil(at))
        elif i.opcode == "pad":
            gap = i.attributes["interior"][along] + 1
            if gap == 1 or through_gaps:
                start = offset + i.attributes["low"][along] * distance
                end = start + ((i.operands[0].dims[along] - 1) * gap + 1) * distance
                seams.update((math.ceil(start), math.ceil(end)))
    return sorted(s for s in seams if 0 < s < roots[0].dims[dimension])
