"""The attribute dictionary of a typed custom call, as bytes in an artifact.

``core/runtime/ffi/attributes.cc`` reads it; this file is the format's definition. All numbers are little-endian::

    dictionary    u32 count, then for each entry, sorted by name: u32 size and bytes of the name, value
    value         u8 kind, then
        1 array       u8 element type (PrimitiveType), u64 elements, their bytes
        2 dictionary  as above
        3 scalar      u8 element type, its bytes
        4 string      u32 size, bytes

The kinds are those of XLA's FFI.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from ..ir import dtypes
from ..ir.errors import of_instruction
from ..ir.hlo import Instruction

#: StableHLO's ``api_version`` of typed custom calls.
API_VERSION: Final = 4
#: Stands in a custom call's target between the name and its attributes as MLIR writes them: ``scale$attributes{factor =
#: 2.0 : f32}``. TensorFlow's custom calls are of a version without attributes, and PyTorch/XLA takes calls that
#: differ in them alone for the same; both tell targets apart.
IN_TARGET: Final = "$attributes"

_ARRAY: Final = 1
_DICTIONARY: Final = 2
_SCALAR: Final = 3
_STRING: Final = 4


def encode(attributes: Mapping[str, Any], call: Instruction) -> bytes:
    """The bytes of a dictionary: NumPy scalars and arrays, text and dictionaries of such.

    Raises CompileError INVALID_ARGUMENT, about ``call``, for a value that handlers cannot be given.
    """
    parts = [struct.pack("<I", len(attributes))]
    for name, value in sorted(attributes.items(), key=lambda item: item[0].encode()):
        parts += [_text(name), _value(name, value, call)]
    return b"".join(parts)


def _value(name: str, value: Any, call: Instruction) -> bytes:
    if isinstance(value, Mapping):
        return bytes([_DICTIONARY]) + encode(value, call)
    if isinstance(value, str | bytes):
        return bytes([_STRING]) + _text(value)
    if isinstance(value, bool | int | float):
        value = np.asarray(value)[()]
    if isinstance(value, np.ndarray | np.generic):
        try:
            code = dtypes.from_numpy(value.dtype).code
        except KeyError:
            code = 0
        if code and isinstance(value, np.ndarray):
            return struct.pack("<BBQ", _ARRAY, code, value.size) + value.tobytes()
        if code:
            return bytes([_SCALAR, code]) + value.tobytes()
    target = call.attributes["custom_call_target"]
    raise of_instruction(
        "INVALID_ARGUMENT",
        f"attribute '{name}' of the custom call '{target}' is a {type(value).__name__}: "
        "numbers, strings, dictionaries and NumPy arrays can be passed",
        call,
    )


def _text(text: str | bytes) -> bytes:
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<I", len(data)) + data
