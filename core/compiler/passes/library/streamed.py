"""Products of a few rows by a large matrix, whose time memory decides: the matrix is read once, in its stored form.

Weights are often made of a smaller array, by conversions and by scales and offsets for each channel or for each group
of neighbours along the contracted dimension. Such a matrix is not written to memory: what makes it becomes part of the
product, a "dot" fusion (:mod:`...codegen.kernels.contraction`), which computes the matrix in registers while it reads
the array. The few rows are converted to the type of the sums and laid out before, for they are read again and again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...ir import dtypes
from ...ir.hlo import DotDimensionNumbers, Instruction, Shape
from ...ir.moves import transpose
from ...ir.patterns import convert, reshape
from .gemm import sizes_of, streamed_sides
from .shared_scales import shared_scales
from .weights import Weights

if TYPE_CHECKING:
    from ...targets.target import Target
    from .context import Context


def match_streamed(dot: Instruction, context: Context) -> Instruction | None:
    """``dot`` with its few rows prepared, and with what makes its matrix inside; None if that changes nothing.

    ``is_far`` among its attributes says that its matrix comes from memory, for the program is given more than the
    caches hold, although the matrix alone would stay in them.
    """
    found = _matrix(dot, context.target)
    if found is None:
        return None
    (rows, matrix), array, dims, contracted = found
    numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
    contracting = (numbers.lhs_contracting, numbers.rhs_contracting)
    few, many, k = dot.elements // dims[1 - contracted], dims[1 - contracted], dims[contracted]
    weights = Weights(dims, context.target.costs, read_once=True)
    right = weights.matrix(array)
    accumulator = dtypes.F32 if dot.dtype.size < 4 else dot.dtype
    left = _contracted_last(dot.operands[rows], contracting[rows])
    is_made = right is not None
    attributes = dict(dot.attributes)
    if context.given_bytes >= context.target.costs.memory.streamed_far:
        attributes["is_far"] = True
    if right is None:
        # Short sums, each added up across a vector at its end, take longer than transposing the matrix: 8 rows of 16
        # terms of f32 by 12,500 columns 150 us, transposed 79 us; of 64 terms as long either way.
        is_short = k < few * context.target.lane_count(accumulator.size) // 2
        stays = array is dot.operands[matrix] or is_short
        if stays and left is dot.operands[rows] and left.dtype is accumulator:
            return dot.replace(attributes=attributes) if "is_far" in attributes else None
        right = reshape(array, dims)
    left = convert(reshape(left, (few, k)), accumulator)
    lanes = context.target.lane_count(accumulator.size)
    in_word = weights.in_word if is_made and contracted == 1 else 1
    if in_word > 1 and k % (lanes * in_word) == 0:
        left = _interleaved(left, lanes, in_word)
        attributes["interleaved"] = in_word
    scales = shared_scales(right, contracted) if is_made else None
    if scales is not None and accumulator is dtypes.F32:
        attributes["shared_scales"] = tuple(scales)
    product = dot.derive(
        "dot",
        (left, right),
        {**attributes, "dimension_numbers": DotDimensionNumbers((1,), (contracted,))},
        shape=Shape(dot.dtype, (few, many)),
    )
    if is_made:
        product = weights.fusion([right], product, "dot", context.fusions)
    if not matrix and few > 1:
        product = transpose(product, (1, 0), dot.metadata)
    return reshape(product, dot.dims)


def _interleaved(left: Instruction, lanes: int, in_word: int) -> Instruction:
    """Rows in the order of a matrix in vectors of words: the first numbers of ``lanes`` words, then the second ones."""
    few, k = left.dims
    split = (few, k // (lanes * in_word), lanes, in_word)
    return reshape(transpose(reshape(left, split), (0, 1, 3, 2)), (few, k))


def is_made_inside(dot: Instruction, operand: Instruction, target: Target) -> bool:
    """Whether ``operand`` is the matrix of a product that makes it in registers."""
    found = _matrix(dot, target)
    if found is None or dot.operands[found[0][1]] is not operand:
        return False
    _, array, dims, _ = found
    return Weights(dims, target.costs, read_once=True).matrix(array) is not None


def _matrix(
    dot: Instruction, target: Target
) -> tuple[tuple[int, int], Instruction, tuple[int, int], int] | None:
    """The sides of :func:`.gemm.streamed_sides`, the array that is the matrix but for a reshape, the dimensions of the
    matrix and which of them is contracted. None if ``dot`` is another product, or the matrix is not laid out for it.
    """
    sides = streamed_sides(dot, target)
    if sides is None:
        return None
    matrix = sides[1]
    numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
    contracting = (numbers.lhs_contracting, numbers.rhs_contracting)
    array, order = _untransposed(dot.operands[matrix], contracting[matrix])
    _, m, n, k = sizes_of(dot)
    many, rank = (n if matrix else m), len(array.dims)
    if order == tuple(range(len(order))):
        return sides, array, (k, many), 0
    if order == tuple(range(rank - len(order), rank)):
        return sides, array, (many, k), 1
    return None


def _untransposed(
    operand: Instruction, contracting: tuple[int, ...]
) -> tuple[Instruction, tuple[int, ...]]:
    """The array that ``operand`` is a transpose of, and which of its dimensions are contracted, in the order given."""
    while operand.opcode == "transpose":
        order = operand.attributes["dimensions"]
        contracting = tuple(order[d] for d in contracting)
        operand = operand.operands[0]
    return operand, contracting


def _contracted_last(operand: Instruction, contracting: tuple[int, ...]) -> Instruction:
    """``operand`` with the contracted dimensions behind the others, in the order given."""
    free = [d for d in range(len(operand.dims)) if d not in contracting]
    return transpose(operand, (*free, *contracting))
