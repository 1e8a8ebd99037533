"""Estimates of how long a library call takes on one core, in nanoseconds: by them the runtime decides where to run."""

from __future__ import annotations

import math
from typing import Final

from ...ir.dtypes import DType
from ...ir.hlo import Instruction, Shape

FLOPS_PER_NS: Final = {
    "f32": 200.0,
    "bf16": 400.0,
    "f16": 200.0,
    "s8": 400.0,
    "u8": 400.0,
    "f64": 20.0,
}
BYTES_PER_NS: Final = 20.0
CALL_NS: Final = 1000.0
SORT_NS_PER_COMPARISON: Final = 1.0
GENERIC_SORT_NS_PER_COMPARISON: Final = 6.0


def contraction_cost(multiply_adds: int, dtype: DType, bytes_accessed: int) -> float:
    """Nanoseconds of a matrix multiplication or convolution."""
    compute = 2.0 * multiply_adds / FLOPS_PER_NS.get(dtype.name, 20.0)
    return CALL_NS + max(compute, bytes_accessed / BYTES_PER_NS)


def sort_cost(elements: int, length: int, generic: bool) -> float:
    """Nanoseconds of sorting ``elements`` in rows of ``length``; ``generic``: by calling a comparator."""
    each = GENERIC_SORT_NS_PER_COMPARISON if generic else SORT_NS_PER_COMPARISON
    return CALL_NS + elements * max(1.0, math.log2(max(length, 2))) * each


def memory_cost(*shapes: Shape) -> float:
    """Nanoseconds of reading or writing the arrays once."""
    return sum(s.bytes for s in shapes) / BYTES_PER_NS


def estimate_cost(instruction: Instruction) -> float:
    """The estimate of a ``library-call`` (its ``cost_ns``), or of one over its arrays if the rule made none."""
    config = instruction.attributes.get("config", {})
    if "cost_ns" in config:
        return float(config["cost_ns"])
    shapes = [s for o in instruction.operands for s in o.result_shapes] + list(
        instruction.result_shapes
    )
    return CALL_NS + memory_cost(*(s for s in shapes if isinstance(s, Shape)))
