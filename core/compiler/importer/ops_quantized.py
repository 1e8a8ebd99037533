"""Readers of quantization, as PyTorch/XLA writes it: custom calls on arrays of the storage type.

jaxlib has no ``quant`` dialect, so StableHLO's own quantized types cannot be parsed; the custom calls say the same with
a dictionary: scales, zero points, the storage's limits and, for a scale a slice, the dimension.

* quantize: ``round_nearest_even(clamp(min, x / scale + zero_point, max))``, as StableHLO's specification has it.
* dequantize: ``(x - zero_point) * scale``, the difference in the floating type, where it cannot wrap.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir import hlo
from ..ir.hlo import Instruction, Shape
from .ops_elementwise import splat

if TYPE_CHECKING:
    from .stablehlo import BlockReader, Results


def read_uniform_quantize(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results:
    (x,) = block.operands(operation)
    shape = block.shape(operation)
    _check(block, operation, config, expressed=x.shape, storage=shape)  # type: ignore[arg-type]
    scale, zero_point = _parameters(block, operation, config, x.shape)  # type: ignore[arg-type]
    value = block.emit("divide", x.shape, (x, scale))
    value = block.emit("add", x.shape, (value, zero_point))
    limits = [splat(block, config[f"storage_{end}"], x.shape) for end in ("min", "max")]  # type: ignore[arg-type]
    value = block.emit("clamp", x.shape, (limits[0], value, limits[1]))
    value = block.emit("round-nearest-even", x.shape, (value,))
    return block.emit("convert", shape, (value,))


def read_uniform_dequantize(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results:
    (x,) = block.operands(operation)
    shape = block.shape(operation)
    _check(block, operation, config, expressed=shape, storage=x.shape)  # type: ignore[arg-type]
    scale, zero_point = _parameters(block, operation, config, shape)
    value = block.emit("convert", shape, (x,))
    value = block.emit("subtract", shape, (value, zero_point))
    return block.emit("multiply", shape, (value, scale))


def _check(
    block: BlockReader, operation: Any, config: dict[str, Any], expressed: Shape, storage: Shape
) -> None:
    for name in ("scale", "zero_point", "storage_min", "storage_max"):
        if name not in config:
            raise block.invalid(operation, f"the quantization has no {name}")
    if not expressed.dtype.is_float or not storage.dtype.is_integer:
        raise block.invalid(
            operation, "quantization is between floating-point numbers and integers"
        )


def _parameters(
    block: BlockReader, operation: Any, config: dict[str, Any], shape: Shape
) -> tuple[Instruction, Instruction]:
    """Scale and zero point of each element, in the dtype and with the dimensions of ``shape``."""
    axis = config.get("quantization_dimension")
    given = [np.asarray(config[name]).reshape(-1) for name in ("scale", "zero_point")]
    count = 1 if axis is None else shape.dims[axis] if 0 <= axis < len(shape.dims) else -1
    if any(len(values) != count for values in given):
        raise block.invalid(
            operation,
            f"{len(given[0])} scales and {len(given[1])} zero points for quantization along dimension {axis}",
        )
    if axis is None:
        scale, zero_point = (splat(block, values[0], shape) for values in given)
        return scale, zero_point
    found = []
    for values in given:
        constant = hlo.constant(values.astype(shape.dtype.numpy), shape.dtype, block.metadata)
        block.instructions.append(constant)
        found.append(block.emit("broadcast", shape, (constant,), {"dimensions": (axis,)}))
    return found[0], found[1]
