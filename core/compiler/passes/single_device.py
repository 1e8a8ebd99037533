"""Programs for one device: its number is 0, and what it exchanges with the others of its group stays where it is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from ..hlo import Instruction, Module, TupleShape, broadcast, constant
from .rewrite import map_computations, sweep


def single_device(module: Module) -> Module:
    """Device numbers become constants, and collectives of one device their operands."""
    if module.num_replicas * module.num_partitions != 1 or not any(
        i.opcode in _RULES for c in module.computations() for i in c.instructions
    ):
        return module

    def rule(i: Instruction) -> Instruction | None:
        found = _RULES.get(i.opcode)
        if found is not None:
            return found(i)
        if i.opcode == "get-tuple-element" and i.operands[0].opcode == "tuple":
            index: int = i.attributes["index"]
            return i.operands[0].operands[index]
        return None

    return map_computations(module, lambda computation: sweep(computation, rule))


def _number(i: Instruction) -> Instruction:
    return constant(0, i.dtype, i.metadata)


def _own_operands(i: Instruction) -> Instruction | None:
    """The operands, if no group has a second device and no shape changes."""
    if any(len(group) > 1 for group in i.attributes["replica_groups"]):
        return None
    if tuple(o.shape for o in i.operands) != i.result_shapes:
        return None
    if isinstance(i.shape, TupleShape):
        return Instruction("tuple", i.shape, i.operands, metadata=i.metadata)
    return i.operands[0]


def _permuted(i: Instruction) -> Instruction | None:
    """The operand if the device sends to itself; a device that receives nothing has zeros."""
    pairs = i.attributes["source_target_pairs"]
    if any(number != 0 for pair in pairs for number in pair):
        return None
    if pairs:
        return i.operands[0]
    zero = constant(np.zeros((), i.dtype.numpy), i.dtype, i.metadata)
    return broadcast(zero, i.dims) if i.dims else zero


_RULES: Final[dict[str, Callable[[Instruction], Instruction | None]]] = {
    "partition-id": _number,
    "replica-id": _number,
    "all-reduce": _own_operands,
    "all-gather": _own_operands,
    "all-to-all": _own_operands,
    "reduce-scatter": _own_operands,
    "collective-permute": _permuted,
}
