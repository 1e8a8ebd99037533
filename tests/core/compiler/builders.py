"""Short ways to write HLO in tests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.hlo import Computation, Instruction, Module, Shape
from tripont.core.compiler.targets.host import for_cpu
from tripont.core.compiler.targets.target import Target

F32 = dtypes.F32
S32 = dtypes.S32
PRED = dtypes.PRED


def priced(cpu: str = "host", onednn: bool = True, **groups: Mapping[str, Any]) -> Target:
    """A CPU with other costs: ``threads={"grain": 1.0}`` changes one number of a group."""
    target = for_cpu(cpu, onednn)
    changed = {
        name: replace(getattr(target.costs, name), **numbers) if name != "ops" else numbers
        for name, numbers in groups.items()
    }
    return replace(target, costs=replace(target.costs, **changed))


def parameter(index: int, *dims: int, dtype: dtypes.DType = F32) -> Instruction:
    return hlo.parameter(index, Shape(dtype, dims))


def op(
    opcode: str,
    *operands: Instruction,
    dims: Sequence[int] | None = None,
    dtype=None,
    called=(),
    **attributes,
):
    """An instruction with its first operand's shape unless ``dims`` or ``dtype`` say otherwise."""
    first = operands[0].shape if operands else Shape(dtype)
    shape = Shape(dtype or first.dtype, first.dims if dims is None else tuple(dims))
    return Instruction(opcode, shape, operands, attributes, called)


def compare(a: Instruction, b: Instruction, direction: str) -> Instruction:
    kind = "FLOAT" if a.dtype.is_float else "SIGNED"
    return op("compare", a, b, dtype=PRED, direction=direction, comparison_type=kind)


def number(value: float, *dims: int, dtype: dtypes.DType = F32) -> Instruction:
    scalar = hlo.constant(value, dtype)
    return hlo.broadcast(scalar, dims) if dims else scalar


def body(opcode: str, dtype: dtypes.DType = F32) -> Computation:
    a, b = parameter(0, dtype=dtype), parameter(1, dtype=dtype)
    return Computation.from_root(f"{opcode}_body", [a, b], op(opcode, a, b))


def reduce(
    x: Instruction, dimensions: Sequence[int], opcode: str = "add", initial: float = 0
) -> Instruction:
    dims = [d for n, d in enumerate(x.dims) if n not in dimensions]
    return op(
        "reduce",
        x,
        hlo.constant(initial, x.dtype),
        dims=dims,
        dimensions=tuple(dimensions),
        called=[body(opcode, x.dtype)],
    )


def module(parameters: Sequence[Instruction], *results: Instruction, **fields) -> Module:
    """A module with these results (a tuple if there are several)."""
    if len(results) == 1:
        root = results[0]
    else:
        root = Instruction("tuple", hlo.TupleShape(tuple(r.shape for r in results)), results)
    return Module("test", Computation.from_root("main", parameters, root), **fields)


def arguments(module_: Module, seed: int = 0) -> list[np.ndarray]:
    """Random arguments of the right shapes."""
    rng = np.random.default_rng(seed)
    values = []
    for p in module_.entry.parameters:
        if p.dtype.is_float:
            values.append(rng.standard_normal(p.dims).astype(p.dtype.numpy))
        elif p.dtype.kind == "pred":
            values.append(rng.integers(0, 2, p.dims).astype(np.bool_))
        else:
            values.append(rng.integers(0, 5, p.dims).astype(p.dtype.numpy))
    return values


def opcodes(computation: Computation) -> list[str]:
    return [i.opcode for i in computation.instructions if i.opcode not in ("parameter", "constant")]
