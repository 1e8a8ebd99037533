"""Which matrices are triangular, as far as the instructions that make them say, and what that saves in solves."""

from __future__ import annotations

from typing import Final

from ...codegen.kernels.position_ranges import Axes, Bounds, Ranges, inside
from ...ir.hlo import Computation, Instruction
from ...ir.patterns import is_constant
from .. import rewrite

LOWER: Final = "lower"
UPPER: Final = "upper"


def triangles_of(matrices: Instruction) -> frozenset[str]:
    """Those of ``LOWER`` and ``UPPER`` outside of which the matrices [..., n, n] are zero: both of diagonal ones."""
    rank = len(matrices.dims)
    if rank < 2:
        return frozenset()
    if matrices.opcode == "cholesky":
        return frozenset((LOWER if matrices.attributes["lower"] else UPPER,))
    ranges = _kept(matrices, tuple(range(rank)), rank)
    return frozenset(
        triangle
        for triangle, holds in ((LOWER, ranges.least >= 0), (UPPER, ranges.most <= 0))
        if holds
    )


def _kept(i: Instruction, axes: Axes, rank: int) -> Ranges:
    """Where ``i`` may have other elements than zeros."""
    ranges = Ranges()
    inner = inside(i, axes)
    if inner is not None:
        return _kept(*inner, rank)
    if i.opcode in ("negate", "copy"):
        return _kept(i.operands[0], axes, rank)
    bounds = Bounds(ranges, rank - 2, rank - 1)
    if i.opcode == "select" and i.operands[0].dims == i.dims:
        condition, yes, no = i.operands
        if is_constant(no, 0):
            bounds.add(condition, axes, truth=True)
        elif is_constant(yes, 0):
            bounds.add(condition, axes, truth=False)
    elif i.opcode == "convert" and i.operands[0].dtype.name == "pred":
        bounds.add(i.operands[0], axes, truth=True)
    return ranges


def within_triangle(matrices: Instruction) -> Instruction:
    """The matrices of which ``matrices`` are the lower triangle: what reads that alone may read them instead."""
    if matrices.opcode == "select" and LOWER in triangles_of(matrices):
        rank = len(matrices.dims)
        condition, yes, no = matrices.operands
        ranges = Ranges()
        kept, is_yes = (yes, True) if is_constant(no, 0) else (no, False)
        Bounds(ranges, rank - 2, rank - 1).add(condition, tuple(range(rank)), is_yes)
        if ranges == Ranges(least=0) and _is_one_comparison(condition):
            return kept
    return matrices


def _is_one_comparison(condition: Instruction) -> bool:
    """Whether a condition on positions holds wherever the bounds say that it may."""
    while condition.opcode in ("broadcast", "reshape", "not"):
        condition = condition.operands[0]
    return condition.opcode == "compare"


def solved_triangle(solve: Instruction) -> str:
    """The triangle that op(a) of a ``triangular-solve`` has."""
    transposed = solve.attributes["transpose_a"] != "NO_TRANSPOSE"
    return LOWER if solve.attributes["lower"] != transposed else UPPER


def keeps_triangle(solve: Instruction) -> bool:
    """Whether the right-hand sides of a ``triangular-solve`` have op(a)'s triangle: the solution then has it too."""
    sides = solve.operands[1]
    return sides.dims[-2:-1] == sides.dims[-1:] and solved_triangle(solve) in triangles_of(sides)


def order_solves(computation: Computation) -> Computation:
    """``computation`` with those solves first that keep their right-hand sides triangular, where two act on a matrix
    from the left and from the right: they take a third of the time of others. (The gradient of Cholesky's factor is a
    lower triangle between the inverses of the factor's transpose and of the factor.)
    """
    solves = [i for i in computation.instructions if i.opcode == "triangular-solve"]
    if len(solves) < 2:
        return computation
    users = computation.users()
    found: dict[Instruction, Instruction] = {}
    for last in solves:
        first = last.operands[1]
        if first.opcode != "triangular-solve" or first in found or first is computation.root:
            continue
        if first.attributes["left_side"] == last.attributes["left_side"] or len(users[first]) != 1:
            continue
        sides = first.operands[1]
        earlier = last.replace(operands=[last.operands[0], sides])
        if keeps_triangle(earlier) and not keeps_triangle(first):
            found[last] = first.replace(operands=[first.operands[0], earlier])
    return rewrite.substitute(computation, found)
