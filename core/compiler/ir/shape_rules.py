"""What shape rules are made of. A rule gives the shape that operands, attributes and called computations imply.

A rule is a function ``instruction -> expected shape``; it raises :class:`InvalidInstruction` when the operands do not
fit together. Each op is registered with its own (:mod:`..ops`), and :mod:`.verifier` applies them.
"""

from __future__ import annotations

from collections.abc import Sequence

from .hlo import (
    AnyShape,
    Computation,
    DotDimensionNumbers,
    Instruction,
    Shape,
    TupleShape,
    WindowDimension,
)
from .registry import OPS


class InvalidInstruction(Exception):  # noqa: N818 - the caller names the instruction
    """What is wrong with an instruction."""


def require(condition: bool, message: str) -> None:
    """Raise InvalidInstruction unless ``condition``. (Where many instructions are checked, a message that takes time to
    make is better made after the condition is known.)
    """
    if not condition:
        raise InvalidInstruction(message)


def array_of(instruction: Instruction, index: int = 0) -> Shape:
    """The shape of an operand that must be an array."""
    shape = instruction.operands[index].shape
    if not isinstance(shape, Shape):
        raise InvalidInstruction(f"operand {index} is not an array")
    return shape


def arrays_of(instruction: Instruction) -> list[Shape]:
    return [array_of(instruction, i) for i in range(len(instruction.operands))]


def one_or_tuple(shapes: Sequence[AnyShape]) -> AnyShape:
    """One shape as it is, several as a tuple."""
    return shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes))  # type: ignore[arg-type]


def check_permutation(values: Sequence[int], rank: int, what: str) -> None:
    if sorted(values) != list(range(rank)):
        message = f"{what} {tuple(values)} are not a permutation of {rank} dimensions"
        raise InvalidInstruction(message)


def check_distinct(values: Sequence[int], rank: int, what: str) -> None:
    if values and not (min(values) >= 0 and max(values) < rank and len(set(values)) == len(values)):
        message = f"{what} {tuple(values)} are not distinct dimensions of {rank}"
        raise InvalidInstruction(message)


def dot_dims(
    lhs: Sequence[int], rhs: Sequence[int], numbers: DotDimensionNumbers, groups: Sequence[int] = ()
) -> tuple[int, ...]:
    """The dimensions of a product of arrays of these dimensions. ``groups``: dimensions of rhs that are not its own.

    Raises InvalidInstruction for dimensions that are named twice, or are paired with others of another size.
    """
    named_rhs = (*numbers.rhs_contracting, *numbers.rhs_batch, *groups)
    check_distinct((*numbers.lhs_contracting, *numbers.lhs_batch), len(lhs), "lhs dimensions")
    check_distinct(named_rhs, len(rhs), "rhs dimensions")
    for ours, theirs in (
        (numbers.lhs_contracting, numbers.rhs_contracting),
        (numbers.lhs_batch, numbers.rhs_batch),
    ):
        sizes = [lhs[d] for d in ours], [rhs[d] for d in theirs]
        require(sizes[0] == sizes[1], f"paired dimensions have sizes {sizes[0]} and {sizes[1]}")
    named_lhs = {*numbers.lhs_contracting, *numbers.lhs_batch}
    dims = [lhs[d] for d in numbers.lhs_batch]
    dims += [s for d, s in enumerate(lhs) if d not in named_lhs]
    dims += [s for d, s in enumerate(rhs) if d not in named_rhs]
    return tuple(dims)


def same_dimensions(shapes: Sequence[Shape]) -> None:
    """There are shapes, and their dimensions are equal."""
    require(
        bool(shapes) and all(s.dims == shapes[0].dims for s in shapes),
        "the operands' dimensions differ",
    )


def check_slice_sizes(sizes: Sequence[int], operand: Shape) -> None:
    """``sizes`` are those of a slice of ``operand``."""
    require(len(sizes) == operand.rank, "slice sizes do not have the operand's rank")
    require(
        all(0 <= s <= d for s, d in zip(sizes, operand.dims, strict=True)),
        "slice is larger than the operand",
    )


def check_signature(
    computation: Computation, parameters: Sequence[AnyShape], results: Sequence[AnyShape], what: str
) -> None:
    found = [p.shape for p in computation.parameters]
    if found != list(parameters):
        takes = ", ".join(map(str, found))
        gets = ", ".join(map(str, parameters))
        raise InvalidInstruction(f"{what} {computation.name} takes ({takes}), but gets ({gets})")
    found_results = [r.shape for r in computation.results]
    if found_results != list(results):
        gives = ", ".join(map(str, found_results))
        wants = ", ".join(map(str, results))
        raise InvalidInstruction(
            f"{what} {computation.name} gives ({gives}), but should give ({wants})"
        )


def reduced_operands(instruction: Instruction) -> tuple[list[Shape], list[Shape]]:
    """The arrays of a reduction, of any kind, and the scalars from which it starts: as many, which its body takes."""
    shapes = arrays_of(instruction)
    require(len(shapes) % 2 == 0 and bool(shapes), f"{len(shapes)} operands")
    arrays, accumulators = shapes[: len(shapes) // 2], shapes[len(shapes) // 2 :]
    require(all(s.dims == arrays[0].dims for s in arrays), "the operands' dimensions differ")
    require(all(s.rank == 0 for s in accumulators), "an initial value is not a scalar")
    values = [Shape(s.dtype) for s in arrays]
    check_signature(instruction.called[0], [*accumulators, *values], accumulators, "the body")
    return arrays, accumulators


def same_shape(instruction: Instruction) -> Shape:
    """All operands of one shape, which is the result's."""
    first = array_of(instruction)
    for index, operand in enumerate(instruction.operands):
        if operand.shape != first:
            array_of(instruction, index)
            raise InvalidInstruction("the operands' shapes differ")
    kinds = OPS[instruction.opcode].kinds
    if kinds and first.dtype.kind not in kinds:
        raise InvalidInstruction(f"{instruction.opcode} does not take {first.dtype}")
    return first


def _dilated(size: int, dilation: int) -> int:
    return (size - 1) * dilation + 1 if size > 0 else 0


def window_size(size: int, window: WindowDimension) -> int:
    """How many places a window has along a dimension of ``size``."""
    require(
        window.stride > 0
        and window.base_dilation > 0
        and window.window_dilation > 0
        and window.size >= 0,
        "window sizes, strides and dilations must be positive",
    )
    padded = _dilated(size, window.base_dilation) + window.padding_low + window.padding_high
    extent = _dilated(window.size, window.window_dilation)
    return 0 if padded < extent or padded <= 0 else (padded - extent) // window.stride + 1
