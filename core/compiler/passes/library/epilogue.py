"""What comes after a gemm becomes its epilogue: alpha A B + C, and a bias.

Only where it saves a pass over memory: a result that other elementwise operations read is better added to in their
kernel, and C must be in memory already. Only in f32, where the epilogue rounds exactly as the separate operations
do. Activations stay separate: oneDNN's relu loses NaNs.
"""

from __future__ import annotations

from typing import Any, Final

from ...ir import dtypes
from ...ir.hlo import Instruction
from .context import Context
from .gemm import is_dense

# Values that are in memory anyway.
_IN_MEMORY: Final = frozenset(
    ("parameter", "constant", "get-tuple-element", "library-call", "while")
)


def fold_multiply(multiply: Instruction, context: Context) -> Instruction | None:
    """``gemm * scalar`` is a gemm with another alpha, if something is added next."""
    for gemm, factor in (multiply.operands, multiply.operands[::-1]):
        value = _scalar(factor)
        if (
            value is not None
            and _is_plain_gemm(gemm, context)
            and "alpha" not in gemm.attributes["config"]
        ):
            return _with_config(gemm, multiply, (), alpha=value)
    return None


def fold_add(add: Instruction, context: Context) -> Instruction | None:
    """``gemm + C``, ``gemm + bias``."""
    for gemm, other in (add.operands, add.operands[::-1]):
        if not _is_plain_gemm(gemm, context):
            continue
        if other.opcode in _IN_MEMORY and other is not gemm:
            return _with_config(gemm, add, (other,), epilogue="add")
        bias = _bias(gemm, other)
        if bias is not None and context.is_materialized:
            return _with_config(gemm, add, (bias,), epilogue="bias")
    return None


def fold_subtract(subtract: Instruction, context: Context) -> Instruction | None:
    """``C - gemm`` is ``-gemm + C``."""
    other, gemm = subtract.operands
    if not _is_plain_gemm(gemm, context) or other.opcode not in _IN_MEMORY or other is gemm:
        return None
    alpha = -gemm.attributes["config"].get("alpha", 1.0)
    return _with_config(gemm, subtract, (other,), alpha=alpha, epilogue="add")


def _is_plain_gemm(call: Instruction, context: Context) -> bool:
    """Whether ``call`` is a gemm in f32 that nothing else reads, without an epilogue."""
    return (
        call.opcode == "library-call"
        and call.attributes["name"] == "gemm"
        and call.dtype is dtypes.F32
        and "epilogue" not in call.attributes["config"]
        and context.is_only_use(call)
    )


def _scalar(instruction: Instruction) -> float | None:
    """The value of an f32 constant that is the same everywhere."""
    while instruction.opcode == "broadcast":
        instruction = instruction.operands[0]
    if instruction.opcode != "constant" or instruction.dims or instruction.dtype is not dtypes.F32:
        return None
    return float(instruction.attributes["literal"])


def _bias(gemm: Instruction, other: Instruction) -> Instruction | None:
    """The vector along n that ``other`` repeats, if the result is laid out as the gemm computes it."""
    if other.opcode != "broadcast" or not other.operands[0].dims:
        return None
    config = gemm.attributes["config"]
    vector = other.operands[0]
    rank = len(other.dims)
    is_trailing = other.attributes["dimensions"] == tuple(range(rank - len(vector.dims), rank))
    if not is_dense(config) or not is_trailing:
        return None
    return vector if vector.shape.elements == config["n"] else None  # type: ignore[union-attr]


def _with_config(
    gemm: Instruction, replaced: Instruction, operands: tuple[Instruction, ...], **changes: Any
) -> Instruction:
    """``gemm`` with more operands and another configuration, in place of ``replaced``."""
    config = {**gemm.attributes["config"], **changes}
    return gemm.derive(
        "library-call",
        (*gemm.operands, *operands),
        {"name": "gemm", "config": config},
        shape=replaced.shape,
    )
