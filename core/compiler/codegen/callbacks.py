"""Functions of the program that library calls call back: a sort's comparator, a collective's reduction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from ..ir import hlo
from ..ir.patterns import body_on_arrays
from . import sort
from .kernels import loops
from .llvm_ir import Module

if TYPE_CHECKING:
    from ..targets.target import Target

# Elements that one call of a reduction's kernel reduces: kReductionElements in
# core/runtime/library/reducing_collectives.cc.
REDUCTION_ELEMENTS: Final = 1024


@dataclass(slots=True)
class Callback:
    """A function of the module, the attribute of the library call that holds its address, and more attributes."""

    symbol: str
    attribute: str
    attributes: Mapping[str, int] = field(default_factory=dict)


def emit(module: Module, target: Target, call: hlo.Instruction, name: str) -> Callback:
    """Write the function that the library call ``call`` has in ``called``, under the symbol ``name``.

    Raises CompileError INTERNAL for a body that cannot be such a function.
    """
    if call.attributes["name"] == "sort":
        return Callback(sort.emit_comparator(module, target, call, name), "comparator")
    kernel = loops.emit(module, target, _reduction(call), name)
    return Callback(kernel.function, "reduction", {"reduction_work": kernel.work_count})


def _reduction(call: hlo.Instruction) -> hlo.Instruction:
    """A loop fusion that applies the body of a collective to two arrays of REDUCTION_ELEMENTS elements."""
    (body,) = call.called
    shape = hlo.Shape(call.operands[0].dtype, (REDUCTION_ELEMENTS,))
    arrays = [hlo.parameter(n, shape) for n in range(2)]
    results = body_on_arrays(body, arrays)
    root = (
        results[0]
        if results is not None
        else hlo.Instruction("map", shape, arrays, {"dimensions": (0,)}, (body,))
    )
    computation = hlo.Computation.from_root(body.name, arrays, root)
    operands = [hlo.parameter(n, shape) for n in range(2)]
    return call.derive("fusion", operands, {"kind": "loop"}, (computation,), shape=shape)
