"""What the steps of a loop that counts say about the places that it reads and writes."""

from __future__ import annotations

from ..ir.hlo import Computation, Instruction, Module, ScatterDimensionNumbers, constant
from ..ir.patterns import reshape
from ..ir.trip_counts import Steps
from .rewrite import map_computations, sweep, with_called


def settle_places(module: Module) -> Module:
    """In loops whose trip counts are known:

    select(i < 0, i + n, i) -> i, and the like, where all steps choose the same;
    scatter of one window, which replaces what was there -> dynamic-update-slice, where it is in the array in all steps.
    """
    loops = module.all_of("while")
    if not any(_may_be_settled(i) for loop in loops for i in loop.called[1].instructions):
        return module
    return map_computations(module, _settle_in)


def _may_be_settled(i: Instruction) -> bool:
    return i.opcode == "scatter" or (i.opcode == "select" and not i.dims and i.dtype.is_integer)


def _settle_in(computation: Computation) -> Computation:
    new: dict[Computation, Computation] = {}
    for instruction in computation.instructions:
        count = instruction.attributes.get("trip_count", -1)
        if instruction.opcode == "while" and count > 0:
            steps = Steps(instruction, count)
            body = instruction.called[1]
            new[body] = sweep(body, lambda i, steps=steps: _settled(i, steps))  # type: ignore[misc]
    return with_called(computation, new)


def _settled(i: Instruction, steps: Steps) -> Instruction | None:
    if not _may_be_settled(i):
        return None
    return steps.chosen(i) if i.opcode == "select" else _update(i, steps)


def _update(scatter: Instruction, steps: Steps) -> Instruction | None:
    """The dynamic-update-slice that a scatter of one window is."""
    if len(scatter.operands) != 3 or scatter.called[0].root is not scatter.called[0].parameters[1]:
        return None
    target, indices, updates = scatter.operands
    numbers: ScatterDimensionNumbers = scatter.attributes["dimension_numbers"]
    dimensions = numbers.scatter_dims_to_operand_dims
    if indices.elements != len(dimensions) or numbers.input_batching_dims:
        return None
    places = _scalars(indices)
    if places is None:
        return None
    starts = dict(zip(dimensions, places, strict=True))
    sizes = iter(numbers.update_window_dims)
    window = [
        1 if d in numbers.inserted_window_dims else updates.dims[next(sizes)]
        for d in range(len(target.dims))
    ]
    for d, start in starts.items():
        if not steps.stays_in(start, 0, target.dims[d] - window[d]):
            return None
    zero = constant(0, indices.dtype, scatter.metadata)
    at = [starts.get(d, zero) for d in range(len(target.dims))]
    return scatter.derive("dynamic-update-slice", (target, reshape(updates, window), *at))


def _scalars(indices: Instruction) -> list[Instruction] | None:
    """The numbers that an array of few indices is made of."""
    if not indices.dims:
        return [indices]
    if indices.opcode == "concatenate":
        parts = [_scalars(o) for o in indices.operands]
        if any(part is None for part in parts):
            return None
        return [scalar for part in parts for scalar in part or ()]
    if indices.opcode in ("broadcast", "reshape") and not indices.operands[0].dims:
        return [indices.operands[0]] * indices.elements
    return None
