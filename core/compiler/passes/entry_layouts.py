"""Arrays of the caller that are not row-major: the entry takes and gives them in the order of their memory.

Our arrays have no layout. A parameter that lies in memory with another dimension last is, for us, a row-major array of
its dimensions in the order of memory, and the first thing the program does is to transpose it; a result with such a
layout is transposed last. A result whose layout is ours to choose (``Layout.AUTO`` of JAX) and that is a transpose is
given as what it is a transpose of.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

from ..ir.errors import unimplemented
from ..ir.hlo import (
    AUTO_LAYOUT,
    Computation,
    Instruction,
    LayoutOrder,
    Module,
    Shape,
    TupleShape,
    parameter,
)


def entry_layouts(module: Module) -> Module:
    """The module whose entry has the arrays that ``parameter_layouts`` and ``result_layouts`` describe by their
    dimensions in the order of memory, slowest first. No layout of the module is AUTO_LAYOUT afterwards; one that is
    row-major is None.
    """
    layouts = (*module.parameter_layouts, *module.result_layouts)
    if not any(layouts):
        return module
    if module.dynamic_results:
        raise unimplemented(
            "layouts other than the default, in a program with results whose sizes depend on values"
        )
    entry = module.entry
    parameters, parameter_layouts, mapped = _parameters(module)
    instructions = [*parameters, *mapped.values()]
    for old in entry.instructions:
        if old.opcode == "parameter" or (old is entry.root and old.opcode == "tuple"):
            continue
        mapped[old] = old.with_operands([mapped.get(o, o) for o in old.operands])
        instructions.append(mapped[old])
    results: list[Instruction] = []
    result_layouts: list[LayoutOrder | None] = []
    for old, wanted in itertools.zip_longest(entry.results, module.result_layouts):
        result, layout = _result(mapped.get(old, old), wanted)
        if layout is not None and wanted != AUTO_LAYOUT:  # it is new
            instructions.append(result)
        results.append(result)
        result_layouts.append(layout)
    root = results[0]
    if entry.root.opcode == "tuple":
        root = Instruction("tuple", TupleShape(tuple(_array(r) for r in results)), results)
        instructions.append(root)
    return _with_aliases(
        replace(
            module,
            entry=Computation(entry.name, parameters, instructions, root),
            parameter_layouts=tuple(parameter_layouts),
            result_layouts=tuple(result_layouts),
        )
    )


def _parameters(
    module: Module,
) -> tuple[list[Instruction], list[LayoutOrder | None], dict[Instruction, Instruction]]:
    """The new parameters, their layouts, and what stands for those of the old ones that are transposed."""
    parameters: list[Instruction] = []
    layouts: list[LayoutOrder | None] = []
    mapped: dict[Instruction, Instruction] = {}
    for p, wanted in itertools.zip_longest(module.entry.parameters, module.parameter_layouts):
        order = None if wanted is None else _order(_array(p), wanted)
        layouts.append(order)
        if order is None:
            parameters.append(p)
            continue
        slowest_first = order[::-1]
        shape = _permuted(_array(p), slowest_first)
        new = parameter(p.attributes["index"], shape, p.name)
        new.metadata = p.metadata
        parameters.append(new)
        back = tuple(slowest_first.index(d) for d in range(len(order)))
        mapped[p] = Instruction("transpose", p.shape, (new,), {"dimensions": back})
    return parameters, layouts, mapped


def _result(
    value: Instruction, wanted: LayoutOrder | None
) -> tuple[Instruction, LayoutOrder | None]:
    """What is given for a result, and its layout."""
    if wanted is None:
        return value, None
    if wanted == AUTO_LAYOUT:
        inner = value
        while inner.opcode in ("copy", "reshape") and inner.operands[0].shape == inner.shape:
            (inner,) = inner.operands  # the partitioner leaves such
        if inner.opcode != "transpose":
            return value, None
        # Dimension i of the result is dimension dimensions[i] of what lies in memory.
        dimensions = inner.attributes["dimensions"]
        slowest_first = [dimensions.index(k) for k in range(len(dimensions))]
        order = _order(_array(value), tuple(slowest_first[::-1]))
        return (value, None) if order is None else (inner.operands[0], order)
    order = _order(_array(value), wanted)
    if order is None:
        return value, None
    dimensions = order[::-1]
    shape = _permuted(_array(value), dimensions)
    return Instruction("transpose", shape, (value,), {"dimensions": dimensions}), order


def _with_aliases(module: Module) -> Module:
    """Without the aliases of arrays that no longer have one shape: their parameters may still be overwritten."""
    entry = module.entry
    kept, freed = [], set(module.buffer_donors)
    for alias in module.input_output_aliases:
        i, j, _ = alias
        if entry.results[i].shape == entry.parameters[j].shape:
            kept.append(alias)
        else:
            freed.add(j)
    return replace(module, input_output_aliases=tuple(kept), buffer_donors=tuple(sorted(freed)))


def _order(shape: Shape, wanted: LayoutOrder) -> LayoutOrder | None:
    """``wanted``, or None where it is row-major."""
    rank = len(shape.dims)
    if wanted == AUTO_LAYOUT or wanted == tuple(range(rank - 1, -1, -1)):
        return None
    if sorted(wanted) != list(range(rank)):
        raise unimplemented(f"the layout {list(wanted)} of an array {shape}")
    return wanted


def _array(instruction: Instruction) -> Shape:
    assert isinstance(instruction.shape, Shape)
    return instruction.shape


def _permuted(shape: Shape, dimensions: Sequence[int]) -> Shape:
    return Shape(shape.dtype, tuple(shape.dims[d] for d in dimensions))
