"""Readers of products of groups of rows: of CHLO, of JAX as a composite, of PyTorch/XLA as a custom call."""

from __future__ import annotations

import json
import operator
import re
from typing import TYPE_CHECKING, Any, Final

from ..ir.hlo import DotDimensionNumbers
from . import attributes

if TYPE_CHECKING:
    from .stablehlo import BlockReader, Results

# The lists of dimensions in the text of CHLO's attribute, and of MHLO's, which has a part of them in another one.
_DIMENSIONS: Final = re.compile(r"(\w+_dimensions) = (\[[^\]]*\])")
# The lists of dimensions, as CHLO's attribute and our calls name them.
_NUMBERS: Final = (
    *("lhs_contracting_dimensions", "rhs_contracting_dimensions"),
    *("lhs_batching_dimensions", "rhs_batching_dimensions"),
)
_RAGGED: Final = "lhs_ragged_dimensions"
_GROUPS: Final = "rhs_group_dimensions"
_OF_CHLO: Final = "ragged_dot_dimension_numbers"


def read_ragged_dot(block: BlockReader, operation: Any) -> Results:
    """``chlo.ragged_dot``."""
    written = attributes.python_value(operation.attributes[_OF_CHLO])
    return _emit(block, operation, _lists(written))


def read_composite(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results:
    return _emit(block, operation, config)


def read_call(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results:
    """A custom call, whose attributes are those of CHLO's or MHLO's operation or the lists of dimensions."""
    if _OF_CHLO in config:
        config = config | _lists(config[_OF_CHLO])
    return _emit(block, operation, config)


def _lists(text: str) -> dict[str, Any]:
    return {name: json.loads(written) for name, written in _DIMENSIONS.findall(text)}


def _integers(
    block: BlockReader, operation: Any, name: str, config: dict[str, Any]
) -> tuple[int, ...]:
    values = config.get(name, ())
    try:
        return tuple(operator.index(d) for d in values)
    except TypeError as error:
        raise block.invalid(operation, f"{name} is not an array of integers") from error


def _emit(block: BlockReader, operation: Any, config: dict[str, Any]) -> Results:
    operands = block.operands(operation)
    lists = [_integers(block, operation, name, config) for name in (*_NUMBERS, _RAGGED, _GROUPS)]
    *dimensions, ragged, groups = lists
    numbers = DotDimensionNumbers(*dimensions)
    if len(operands) != 3:
        raise block.invalid(operation, f"it takes 3 operands, and has {len(operands)}")
    if len(ragged) != 1 or len(operands[2].dims) != 1:
        raise block.unimplemented(
            operation,
            "products of groups whose sizes depend on another dimension are not supported",
        )
    if ragged[0] in numbers.lhs_batch:
        raise block.unimplemented(operation, "products of groups of a batch are not supported")
    values = {
        "dimension_numbers": numbers,
        "ragged": ragged[0],
        "group": groups[0] if groups else -1,
        "precision": tuple(config.get("precision", ())) or attributes.precision(operation),
    }
    return block.emit("ragged-dot", block.shape(operation), operands, values)
