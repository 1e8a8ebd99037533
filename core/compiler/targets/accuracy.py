"""The errors of the functions that are generated, in units in the last place.

Every target that computes them with the shared generators (``codegen/vector_math``) has these; a target whose division
or root is not exact, or that has functions of its own, says so in :meth:`.target.Target.ulps`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..ir.dtypes import DType

# Opcode, dtype -> the largest error.
Ulps = Callable[[str, DType], int]

# Over the whole domain, denormal numbers included, in f32 and f64 (benchmarks/accuracy.py measures them:
# docs/accuracy.md), rounded up.
_ULPS: Final = {
    "cbrt": 1,
    "cosine": 1,
    "exponential": 1,
    "exponential-minus-one": 2,
    "log": 1,
    "log-plus-one": 2,
    "logistic": 3,
    "rsqrt": 1,
    "sine": 1,
    "sqrt": 1,
    "tan": 1,
    "tanh": 3,
}
FUNCTIONS: Final = frozenset(_ULPS)
# Of the larger component, relative to the magnitude (tests/conformance).
_COMPLEX: Final = 4


def ulps(opcode: str, dtype: DType) -> int:
    """The largest error of ``opcode``, one of ``FUNCTIONS``, in ``dtype``."""
    if dtype.is_complex:
        return _COMPLEX
    return 1 if dtype.bits <= 16 else _ULPS[opcode]  # short floats are computed in f32
