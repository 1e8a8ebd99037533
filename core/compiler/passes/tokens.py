"""Tokens at the border of a program: arrays without elements take their place.

JAX gives a program with ordered effects one token for each kind of effect, and takes one back; buffers hold arrays
only. What the tokens order is in one program and on one stream, so the arrays need no content.
"""

from __future__ import annotations

import numpy as np

from ..ir import dtypes
from ..ir.hlo import (
    TOKEN,
    Computation,
    Instruction,
    Module,
    Shape,
    TokenShape,
    TupleShape,
    constant,
    parameter,
)
from .rewrite import with_entry

_EMPTY = Shape(dtypes.PRED, (0,))


def tokens_as_arrays(module: Module) -> Module:
    """The module with ``pred[0]`` for each parameter and result of its entry that is a token."""
    entry = module.entry
    shapes = [p.shape for p in entry.parameters] + [r.shape for r in entry.results]
    if not any(isinstance(shape, TokenShape) for shape in shapes):
        return module
    mapped: dict[Instruction, Instruction] = {}
    instructions: list[Instruction] = []
    parameters: list[Instruction] = []
    for old in entry.parameters:
        new = old
        if isinstance(old.shape, TokenShape):
            new = parameter(old.attributes["index"], _EMPTY)
            mapped[old] = Instruction("after-all", TOKEN)
            instructions.append(mapped[old])
        parameters.append(new)
    for old in entry.instructions:
        if old in entry.parameters:
            continue
        mapped[old] = old.with_operands([mapped.get(o, o) for o in old.operands])
        instructions.append(mapped[old])
    results = [mapped.get(r, r) for r in entry.results]
    for n, result in enumerate(results):
        if isinstance(result.shape, TokenShape):
            results[n] = constant(np.zeros(0, np.bool_))
            instructions.append(results[n])
    root = results[0]
    if entry.root.opcode == "tuple":
        shape = TupleShape(tuple(s for r in results for s in r.result_shapes))
        root = Instruction("tuple", shape, results)
        instructions.append(root)
    return with_entry(
        module, Computation(entry.name, parameters, [*parameters, *instructions], root)
    )
