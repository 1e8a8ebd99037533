"""``result_accuracy``: the largest error that a program allows a function; what we cannot keep is refused.

A tolerance is met if the function's error stays within one of its three parts: ``ulps``, ``rtol`` times the result, or
``atol``. How large the errors are is the target's matter. The modes DEFAULT and HIGHEST ask for nothing: each function
has one implementation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import ml_dtypes

from ..ir.hlo import Shape
from ..ir.registry import OPS
from . import bindings

if TYPE_CHECKING:
    from .stablehlo import BlockReader, Reader, Results


def read_function(opcode: str) -> Reader:
    """The reader of a function that may have a ``result_accuracy``."""

    def read(block: BlockReader, operation: Any) -> Results:
        shape = block.shape(operation)
        if "result_accuracy" in operation.attributes:
            wanted = block.program.attribute(_tolerance, operation.attributes["result_accuracy"])
            bound = block.program.target_ulps(opcode, shape.dtype)
            if wanted is not None and not _is_met(opcode, shape, bound, *wanted):
                atol, rtol, ulps = wanted
                raise block.unimplemented(
                    operation,
                    f"a result_accuracy of atol = {atol:g}, rtol = {rtol:g}, ulps = {ulps} cannot be met:"
                    f" {opcode} of {shape.dtype} is within {bound} ulps",
                )
        return block.emit(opcode, shape, block.operands(operation))

    return read


def _tolerance(attribute: Any) -> tuple[float, float, int] | None:
    """The absolute and relative tolerance and ulps that an attribute demands; None if it demands nothing."""
    given = bindings.ResultAccuracy(attribute)
    if "TOLERANCE" not in str(given.mode):
        return None
    return float(given.atol), float(given.rtol), int(given.ulps)


def _is_met(opcode: str, shape: Shape, bound: int, atol: float, rtol: float, ulps: int) -> bool:
    error = bound * float(ml_dtypes.finfo(shape.dtype.component.numpy).eps)
    return (
        ulps >= bound
        or rtol >= error
        or (atol >= error and OPS[opcode].is_bounded and not shape.dtype.is_complex)
    )
