"""Products of a few rows by a large matrix, whose time memory decides: the matrix is read once, as it is stored.

Weights are often made of a smaller array, by conversions and by scales and offsets for each channel or for each group
of neighbours along the contracted dimension. Such a matrix is not written to memory: what makes it becomes part of the
product, a "dot" fusion (:mod:`...codegen.contraction`), which computes the matrix in registers while it reads the
array. The few rows are converted to the type of the sums and laid out before, for they are read again and again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ... import dtypes
from ...clusters import cost_of
from ...codegen.elemental import INDEXABLE
from ...fused import make_fusion
from ...hlo import DotDimensionNumbers, Instruction, Shape, topological_order
from ..patterns import reshape, reshaped_broadcast
from .gemm import convert, sizes_of, streamed_sides

if TYPE_CHECKING:
    from ...targets.target import Target
    from .context import Context

# Arithmetic of an element of the matrix, in vector instructions: with more of it, memory would wait.
_MOST_COST: Final = 8.0
_MOST_MEMBERS: Final = 32
# The arrays that the matrix is made of may take this much more memory than the matrix.
_MOST_READ: Final = 1.25
# An array that has so many elements fewer than the matrix is converted to f32 before the product.
_SMALL: Final = 8
_SMALL_FLOATS: Final = frozenset((dtypes.BF16, dtypes.F16))
_ROUNDING: Final = frozenset(("add", "subtract", "multiply", "divide", "negate"))


def match_streamed(dot: Instruction, context: Context) -> Instruction | None:
    """``dot`` with its few rows prepared, and with what makes its matrix inside; None if that changes nothing."""
    found = _matrix(dot, context.target)
    if found is None:
        return None
    (rows, matrix), array, dims, contracted = found
    numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
    contracting = (numbers.lhs_contracting, numbers.rhs_contracting)
    few, many, k = dot.elements // dims[1 - contracted], dims[1 - contracted], dims[contracted]
    weights = _Weights(dims)
    right = weights.value(array, dims)
    accumulator = dtypes.F32 if dot.dtype in _SMALL_FLOATS else dot.dtype
    left = _contracted_last(dot.operands[rows], contracting[rows])
    if not weights.is_worthwhile():
        if left is dot.operands[rows] and left.dtype is accumulator:
            return None  # as it is
        right = reshape(array, dims)
    left = convert(reshape(left, (few, k)), accumulator)
    product = Instruction(
        "dot",
        Shape(dot.dtype, (few, many)),
        (left, right),
        {**dot.attributes, "dimension_numbers": DotDimensionNumbers((1,), (contracted,))},
        metadata=dot.metadata,
    )
    if weights.is_worthwhile():
        inside = [i for i in topological_order([right]) if i in weights.members]
        product = make_fusion([*inside, product], [product], "dot", _Same(), context.fusions)
    if not matrix and few > 1:
        shape = Shape(dot.dtype, (many, few))
        product = Instruction(
            "transpose", shape, (product,), {"dimensions": (1, 0)}, metadata=dot.metadata
        )
    return reshape(product, dot.dims)


def is_made_inside(dot: Instruction, operand: Instruction, target: Target) -> bool:
    """Whether ``operand`` is the matrix of a product that makes it in registers."""
    found = _matrix(dot, target)
    if found is None or dot.operands[found[0][1]] is not operand:
        return False
    _, array, dims, _ = found
    weights = _Weights(dims)
    weights.value(array, dims)
    return weights.is_worthwhile()


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
    """What ``operand`` is a transpose of, and which dimensions of that are contracted, in the order given."""
    while operand.opcode == "transpose":
        order = operand.attributes["dimensions"]
        contracting = tuple(order[d] for d in contracting)
        operand = operand.operands[0]
    return operand, contracting


def _contracted_last(operand: Instruction, contracting: tuple[int, ...]) -> Instruction:
    """``operand`` with the contracted dimensions behind the others, in the order given."""
    free = [d for d in range(len(operand.dims)) if d not in contracting]
    order = (*free, *contracting)
    if order == tuple(range(len(order))):
        return operand
    shape = Shape(operand.dtype, tuple(operand.dims[d] for d in order))
    return Instruction(
        "transpose", shape, (operand,), {"dimensions": order}, metadata=operand.metadata
    )


class _Same(dict[Instruction, Instruction]):
    """The operands of a fusion are the instructions that they are."""

    def __missing__(self, key: Instruction) -> Instruction:
        return key


class _Weights:
    """What makes a matrix of ``dims``, written anew for a fusion.

    Reshapes go to the arrays that are read, where they cost nothing, and floats of 16 bits are computed in f32, as all
    kernels do in registers. ``members`` are the instructions of the fusion.
    """

    def __init__(self, dims: tuple[int, ...]) -> None:
        self.elements = dims[0] * dims[1]
        self.members: set[Instruction] = set()
        self.read: dict[Instruction, None] = {}
        self.computes = False  # whether the matrix is more than an array
        self.cost = 0.0
        self.done: dict[tuple[Instruction, tuple[int, ...]], Instruction] = {}

    def is_worthwhile(self) -> bool:
        """Whether there is something to compute, and it takes less time inside of the product than outside."""
        read = sum(i.shape.bytes for i in self.read)  # type: ignore[union-attr]
        return (
            self.computes
            and self.cost <= _MOST_COST
            and len(self.members) <= _MOST_MEMBERS
            and read <= _MOST_READ * 4 * self.elements
        )

    def value(self, i: Instruction, dims: tuple[int, ...]) -> Instruction:
        """``i`` as an array of ``dims``, and in f32 if it is of floats of 16 bits."""
        key = (i, dims)
        if key not in self.done:
            self.done[key] = self._made(i, dims)
        return self.done[key]

    def _made(self, i: Instruction, dims: tuple[int, ...]) -> Instruction:
        if i.opcode in ("reshape", "bitcast"):
            return self.value(i.operands[0], dims)
        if len(self.members) > _MOST_MEMBERS:
            return self.array(i, dims)
        if i.opcode == "broadcast":
            return self.broadcast(i, dims)
        if i.opcode not in INDEXABLE or not i.is_elementwise or i.elements != self.elements:
            return self.array(i, dims)
        self.computes = True
        if i.opcode == "convert":
            source = i.operands[0]
            value = self.value(source, dims)
            exact = source.dtype.is_integer and source.dtype.bits <= 8
            if i.dtype in _SMALL_FLOATS and not exact and value.dtype is not i.dtype:
                value = self.member("convert", i, i.dtype, value)  # it rounds
            return self.converted(value, self.wide(i.dtype), i)
        if i.dtype in _SMALL_FLOATS and i.opcode not in _ROUNDING:
            return self.array(i, dims)
        operands = [self.value(o, dims) for o in i.operands]
        if any(a.dtype is not b.dtype for a, b in zip(operands, i.operands, strict=True)) and (
            i.opcode not in _ROUNDING
        ):
            return self.array(i, dims)
        return self.member(i.opcode, i, self.wide(i.dtype), *operands)

    def broadcast(self, i: Instruction, dims: tuple[int, ...]) -> Instruction:
        """A broadcast to ``dims`` of an array that is reshaped before, if that is possible."""
        source = i.operands[0]
        found = reshaped_broadcast(i, dims)
        if found is None:
            value = self.member("broadcast", i, None, self.small(source, source.dims))
            return self.member("reshape", i, value.dtype, value, dims=dims)
        small = self.small(source, found[0])
        return self.member(
            "broadcast", i, None, small, dims=dims, attributes={"dimensions": found[1]}
        )

    def small(self, source: Instruction, dims: tuple[int, ...]) -> Instruction:
        """An array that is broadcast."""
        if source.opcode == "constant" and not source.dims:
            self.members.add(source)
            return self.converted(source, self.wide(source.dtype), source)
        return self.array(source, dims)

    def array(self, i: Instruction, dims: tuple[int, ...]) -> Instruction:
        """An array in memory that the product reads."""
        if i.elements * _SMALL <= self.elements:
            i = convert(i, self.wide(i.dtype))
        self.read[i] = None
        return self.converted(reshape(i, dims), self.wide(i.dtype), i)

    def converted(
        self, value: Instruction, dtype: dtypes.DType, origin: Instruction
    ) -> Instruction:
        return value if value.dtype is dtype else self.member("convert", origin, dtype, value)

    @staticmethod
    def wide(dtype: dtypes.DType) -> dtypes.DType:
        return dtypes.F32 if dtype in _SMALL_FLOATS else dtype

    def member(
        self,
        opcode: str,
        origin: Instruction,
        dtype: dtypes.DType | None,
        *operands: Instruction,
        dims: tuple[int, ...] | None = None,
        attributes: dict[str, object] | None = None,
    ) -> Instruction:
        """A new instruction of the fusion, in the place of ``origin``."""
        if dims is None:
            dims = origin.dims if opcode == "broadcast" else operands[0].dims
        if attributes is None:
            attributes = dict(origin.attributes) if opcode == origin.opcode else {}
        shape = Shape(dtype or operands[0].dtype, dims)
        made = Instruction(opcode, shape, operands, attributes, metadata=origin.metadata)
        self.members.add(made)
        self.cost += cost_of(made) if dims != () else 0.0
        return made
