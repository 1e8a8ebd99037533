"""Exact keys of attributes: hashable, and equal only for values that nothing can tell apart.

Python's equality is too generous for that: 0.0 == -0.0 and True == 1 == 1.0, also inside of tuples and dataclasses,
while NaN differs from itself, and arrays and dicts cannot be hashed. What goes by attributes to take one instruction,
kernel or computation for another asks here.
"""

from __future__ import annotations

import dataclasses
import enum
import operator
import struct
from collections.abc import Callable, Hashable, Mapping
from types import NoneType
from typing import Any, Final

import numpy as np

from .dtypes import DType
from .errors import of_instruction
from .hlo import Computation, Instruction, TokenShape, TupleShape

# Values that are their own keys. Every other key is a tuple that begins with the value's type, but for those of tuples;
# types themselves are not values of attributes, and so no two keys can be mistaken for each other.
_EXACT: Final = frozenset(
    (int, str, bytes, NoneType, DType, TupleShape, TokenShape, Computation, Instruction)
)


class _UnknownTypeError(Exception):
    """No exact key is known for values of the type ``args[0]``."""


def of_attributes(instruction: Instruction) -> Hashable:
    """Equal for instructions with the same attributes; called computations are not in it.

    Raises CompileError INTERNAL, naming the attribute, for a value of a type that has no exact key.
    """
    name = ""
    keys = []
    try:
        for name, value in instruction.attributes.items():
            keys.append((name, of_value(value)))
        return tuple(keys)
    except _UnknownTypeError as error:
        kind: type = error.args[0]
        message = f"the attribute {name!r} holds a {kind.__qualname__}, which has no exact key"
        raise of_instruction("INTERNAL", message, instruction) from None


def of_value(value: Any) -> Hashable:
    """Equal for values of the same type and bits."""
    kind = type(value)
    if kind in _EXACT:
        return value  # type: ignore[no-any-return]
    if kind is tuple:
        for v in value:
            if type(v) not in _EXACT:
                return tuple([of_value(v) for v in value])
        return value  # type: ignore[no-any-return]
    make = _makers.get(kind)
    if make is None:
        make = _makers[kind] = _maker(kind)
    return make(value)


def _of_array(array: np.ndarray) -> Hashable:
    if array.dtype.hasobject:
        raise _UnknownTypeError(np.object_)
    return (np.ndarray, array.dtype, array.shape, array.tobytes())


def _of_dict(value: Mapping[Any, Any]) -> Hashable:
    return (dict, frozenset([(of_value(k), of_value(v)) for k, v in value.items()]))


# How the keys of values of a type are made; :func:`_maker` adds those of types that are met.
_makers: Final[dict[type, Callable[[Any], Hashable]]] = {
    bool: lambda v: (bool, v),
    float: lambda v: (float, struct.pack("<d", v)),
    complex: lambda v: (complex, struct.pack("<dd", v.real, v.imag)),
    list: lambda v: (list, *[of_value(x) for x in v]),
    dict: _of_dict,
    np.ndarray: _of_array,
}


def _maker(kind: type) -> Callable[[Any], Hashable]:
    """Raises _UnknownTypeError."""
    if issubclass(kind, enum.Enum | np.dtype):  # also enums of integers, which equal integers
        return lambda v: (kind, v)
    if issubclass(kind, np.generic) and kind not in (np.object_, np.void):
        return lambda v: (kind, v.tobytes())
    if issubclass(kind, tuple):  # named tuples
        return lambda v: (kind, *[of_value(x) for x in v])
    if not dataclasses.is_dataclass(kind) or kind.__hash__ is None:  # it may change
        raise _UnknownTypeError(kind)
    fields = dataclasses.fields(kind)
    if len(fields) < 2:
        return lambda v: (kind, *[of_value(getattr(v, f.name)) for f in fields])
    get = operator.attrgetter(*[f.name for f in fields])
    return lambda v: (kind, of_value(get(v)))
