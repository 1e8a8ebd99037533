"""The errors of the functions that are generated, in units in the last place.

Every target that computes them with the shared generators (``codegen/vector_math``) has these; a target whose division
or root is not exact, or that has functions of its own, says so in :meth:`.target.Target.ulps`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..ir.dtypes import DType
from ..ir.registry import OPS

# Opcode, dtype -> the largest error.
Ulps = Callable[[str, DType], int]

# Of the larger component, relative to the magnitude (tests/conformance).
_COMPLEX: Final = 4


def ulps(opcode: str, dtype: DType) -> int:
    """The largest error of ``opcode``, one that has ``Op.ulps``, in ``dtype``."""
    if dtype.is_complex:
        return _COMPLEX
    found = OPS[opcode].ulps
    assert found is not None, opcode
    return 1 if dtype.bits <= 16 else found  # short floats are computed in f32
