"""Custom calls of an HloModuleProto: those that mean one of our ops, and those that stay calls.

Readers of StableHLO's custom calls (:data:`..ir.registry.CALLS`) read the first kind here too, from operands, the
result's shape and the attributes that stand in the target (:data:`..formats.ffi_attributes.IN_TARGET`). A reader that
asks for more, and a target that may mean something to jaxlib, are left to jaxlib's conversion.
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from .. import wings
from ..formats import ffi_attributes
from ..formats.hlo_proto import Field
from ..ir.hlo import AnyShape, Instruction, Shape, TupleShape
from ..ir.registry import CALLS, HloReader
from . import requests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from .hlo_reader import ComputationReader, Given, Value

# The prefix of our own targets. All others with a dot may be a dialect's operation, and all others that are read as
# something else than a call may have fields that such a reader knows.
_OURS: Final = "tripont."
# The versions of calls without attributes: XLA's first, and the one that returns a status.
_UNTYPED: Final = (1, 2)
# An operation without attributes, results or regions, for readers that look at some.
_NOTHING: Final = SimpleNamespace(attributes={})

# One attribute as frontends/torch_xla/calls.py writes it, and what is behind it.
_ENTRY: Final = re.compile(
    r"""\s*(?P<name>[A-Za-z_]\w*)\ =\ (?:
        "(?P<text>[^"\\]*)"
        |(?P<integer>-?\d+)\ :\ i64
        |array<i64(?::\ (?P<integers>-?\d+(?:,\ -?\d+)*))?>
    )(?P<comma>,|$)""",
    re.VERBOSE,
)


class _Call:
    """A custom call, as readers of StableHLO's see the block that it is in: they get what is here, or fail."""

    def __init__(self, block: ComputationReader, given: Given) -> None:
        self._given = given
        self.emit = block.emit
        self.constant = block.constant
        self.instructions = block.instructions
        self.metadata = block.metadata
        self.program = SimpleNamespace(unique_name=block.module.unique_name)

    def operands(self, operation: Any) -> list[Instruction]:
        return self._given.operands

    def shape(self, operation: Any) -> AnyShape:
        shape = self._given.shape
        if not isinstance(shape, Shape):
            raise ValueError("a custom call for an op of one result")
        return shape

    def invalid(self, operation: Any, message: str) -> ValueError:
        return ValueError(message)

    unimplemented = invalid


def _custom_call(block: ComputationReader, given: Given) -> Value:
    fields = given.fields
    target, written = block.cached(_split, fields[Field.CUSTOM_CALL_TARGET])
    config = fields.get(Field.BACKEND_CONFIG, b"")
    if target in CALLS and target.startswith(_OURS):
        if config:
            raise ValueError("a configuration beside the attributes")
        value: Value | Sequence[Instruction] | None = CALLS[target](
            _Call(block, given), _NOTHING, dict(written or {})
        )
        if not isinstance(value, Instruction):
            raise ValueError("a custom call that is not one instruction")
        return value
    ours = target.startswith(_OURS)
    if target in CALLS or target in requests.EXPANDED or wings.lacking(target):
        raise ValueError("a custom call that another reader knows")
    if ("." in target and not ours) or config[:1] == b"{":
        raise ValueError("a custom call that jaxlib may know")
    version = fields.get(Field.CUSTOM_CALL_API_VERSION, 0)
    if version not in _UNTYPED:
        raise ValueError("a custom call of another version")
    shape = given.shape
    if isinstance(shape, TupleShape) and len(shape.elements) < 2:
        raise ValueError("a custom call with a tuple of one result, or none")
    attributes = {
        "custom_call_target": target,
        "backend_config": config if written is None else dict(written),
        "api_version": version if written is None else ffi_attributes.API_VERSION,
        "has_side_effect": bool(fields.get(Field.CUSTOM_CALL_HAS_SIDE_EFFECT, 0)),
        "output_operand_aliases": (),
    }
    return block.emit_results("custom-call", shape, given.operands, attributes)


def _split(data: bytes) -> tuple[str, dict[str, Any] | None]:
    """The name of what is called, and the attributes that stand behind it, if any do."""
    target, marker, text = data.decode().partition(ffi_attributes.IN_TARGET)
    if not marker:
        return target, None
    if not (text.startswith("{") and text.endswith("}")):
        raise ValueError("attributes that are not a dictionary")
    attributes: dict[str, Any] = {}
    rest = text[1:-1]
    while rest:
        found = _ENTRY.match(rest)
        if found is None or found["name"] in attributes:
            raise ValueError("an attribute in another form")
        attributes[found["name"]] = _value(found)
        rest = rest[found.end() :]
        if found["comma"] and not rest:
            raise ValueError("a comma without an attribute behind it")
    return target, attributes


def _value(found: re.Match[str]) -> Any:
    """As :func:`.attributes.typed_value`."""
    if found["text"] is not None:
        return found["text"]
    if found["integer"] is not None:
        return np.int64(found["integer"])
    numbers = found["integers"]
    return np.array([int(n) for n in numbers.split(", ")] if numbers else [], np.int64)


custom_call: Final = HloReader(
    _custom_call,
    frozenset(
        (
            Field.CUSTOM_CALL_TARGET,
            Field.BACKEND_CONFIG,
            Field.CUSTOM_CALL_API_VERSION,
            Field.CUSTOM_CALL_HAS_SIDE_EFFECT,
        )
    ),
)
