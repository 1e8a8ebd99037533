"""The gradient of a function of Cholesky's factor, as automatic differentiation writes it, becomes one library call.

For the factor L of A and the gradient G for L, JAX computes S = L^-T P L^-1, where P is the lower triangle of L^T G
with half of its diagonal: a product and two solves. Where A is (a + its transpose) / 2, the gradient for a is (S + its
transpose) / 2. For that the call goes back through the factorisation, block after block, which takes a sixth of the
arithmetic. S itself it computes as it is written, without the products with zeros: less than a half.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ...codegen.kernels.position_ranges import Axes, Bounds, Ranges, inside
from ...ir.hlo import Computation, DotDimensionNumbers, Instruction
from ...ir.patterns import halved, is_constant, swaps_last_two
from .. import rewrite
from .other import goes_in_lanes
from .triangles import LOWER, triangles_of, within_triangle

if TYPE_CHECKING:
    from ...targets.target import Target


def fuse_cholesky_gradients(computation: Computation, target: Target) -> Computation:
    """``computation`` with the library call "cholesky-gradient" for what gives the same gradient."""
    if not any(i.opcode == "triangular-solve" for i in computation.instructions):
        return computation
    users = computation.users()
    results = {computation.root, *computation.results}
    found: dict[Instruction, Instruction] = {}
    for i in computation.instructions:
        if i.opcode not in ("add", "triangular-solve") or len(i.dims) < 2:
            continue
        if i.dtype.name not in ("f32", "f64") or goes_in_lanes(i):
            continue
        chain = _Chain(users, results)
        solved = i if i.opcode == "triangular-solve" else chain.symmetrized(i)
        operands = chain.gradient(solved) if solved is not None else None
        if operands is not None and chain.is_for_itself():
            found[i] = _call(i, *operands, target)
    return rewrite.substitute(computation, found)


def _call(i: Instruction, factor: Instruction, given: Instruction, target: Target) -> Instruction:
    symmetric = int(i.opcode == "add")
    library = target.costs.library
    flops = math.prod(i.dims) * i.dims[-1] * (2 / 3 if symmetric else 5 / 3)
    config = {"symmetric": symmetric, "cost_ns": library.call + flops / library.matrix_flops}
    attributes = {"name": "cholesky-gradient", "config": config}
    return i.derive("library-call", (factor, given), attributes)


class _Chain:
    """The instructions that compute a gradient, each for the next one, and those that read them."""

    def __init__(
        self, users: dict[Instruction, list[Instruction]], results: set[Instruction]
    ) -> None:
        self.users, self.results = users, results
        self.readers: dict[Instruction, set[Instruction]] = {}

    def is_for_itself(self) -> bool:
        """Whether nothing else reads what the gradient is computed by: otherwise the call would come on top."""
        return all(
            set(self.users[i]) == expected and i not in self.results
            for i, expected in self.readers.items()
        )

    def symmetrized(self, total: Instruction) -> Instruction | None:
        """S, if ``total`` is (S + its transpose) / 2."""
        half, turned = total.operands
        if half.opcode == "transpose":
            half, turned = turned, half
        if not swaps_last_two(turned) or turned.operands[0] is not half:
            return None
        solved = halved(half)
        if solved is None:
            return None
        self.readers |= {turned: {total}, half: {total, turned}, solved: {half}}
        return solved

    def gradient(self, right: Instruction) -> tuple[Instruction, Instruction] | None:
        """The factor L and the gradient G for it, if ``right`` is S."""
        if not _solves(right, left_side=False):
            return None
        left = right.operands[1]
        if not _solves(left, left_side=True):
            return None
        masked = left.operands[1]
        quotient = within_triangle(masked)
        if quotient is masked or quotient.opcode != "divide":
            return None
        product, divisor = quotient.operands
        dot = product.operands[0] if swaps_last_two(product) else product
        if dot.opcode != "dot" or not _is_two_on_diagonal(divisor):
            return None
        rank = len(right.dims)
        dims = tuple(range(rank - 2))
        if dot.attributes["dimension_numbers"] != DotDimensionNumbers(
            lhs_batch=dims, rhs_batch=dims, lhs_contracting=(rank - 2,), rhs_contracting=(rank - 2,)
        ):
            return None
        lower, given = dot.operands if dot is product else reversed(dot.operands)
        factors = {within_triangle(x) for x in (right.operands[0], left.operands[0], lower)}
        if LOWER not in triangles_of(lower) or len(factors) != 1:
            return None
        self.readers |= {left: {right}, masked: {left}, quotient: {masked}, product: {quotient}}
        if dot is not product:
            self.readers[dot] = {product}
        return lower, within_triangle(given)


def _solves(i: Instruction, *, left_side: bool) -> bool:
    """Whether ``i`` is the solution of L^T x = b (from the left) or of x L = b, for a lower triangle L."""
    if i.opcode != "triangular-solve":
        return False
    a = i.attributes
    return (
        bool(a["left_side"]) == left_side
        and bool(a["lower"])
        and not a["unit_diagonal"]
        and (a["transpose_a"] != "NO_TRANSPOSE") == left_side
        and i.operands[0].dims == i.dims
    )


def _is_two_on_diagonal(divisor: Instruction) -> bool:
    """Whether the matrices are ones, and two on the diagonal."""
    rank = len(divisor.dims)
    i, axes = _without_moves(divisor, tuple(range(rank)))
    if i.opcode != "add":
        return False
    one, diagonal = i.operands
    if is_constant(diagonal, 1):
        one, diagonal = diagonal, one
    diagonal, axes = _without_moves(diagonal, axes)
    if not is_constant(one, 1) or diagonal.opcode != "convert":
        return False
    (condition,) = diagonal.operands
    ranges = Ranges()
    Bounds(ranges, rank - 2, rank - 1).add(condition, axes, truth=True)
    return ranges == Ranges(least=0, most=0) and condition.opcode == "compare"


def _without_moves(i: Instruction, axes: Axes) -> tuple[Instruction, Axes]:
    while (inner := inside(i, axes)) is not None:
        i, axes = inner
    return i, axes
