"""Element types of HLO values.

Names, codes and widths are those of ``core/schema/element_types.py``: a dtype prints as HLO text prints it (``f32``,
``s64``, ``pred``), and its code is the same number in an artifact, in an HloModuleProto and here.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

import ml_dtypes
import numpy as np
from tripont.core.schema import element_types
from tripont.core.schema.element_types import Kind


@dataclass(frozen=True, slots=True, eq=False)
class DType:
    """One element type. Instances are singletons: compare with ``is`` or ``==``.

    ``bits`` is the width of a value; ``numpy`` the storage type (sub-byte types take one byte an element in
    memory, as in the PJRT API's unpacked form); ``code`` the PrimitiveType number.
    """

    name: str
    code: int
    kind: Kind
    bits: int
    numpy: np.dtype
    #: Bytes an element takes in memory.
    size: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", self.numpy.itemsize)

    @property
    def is_integer(self) -> bool:
        return self.kind in ("int", "uint")

    @property
    def is_signed(self) -> bool:
        return self.kind == "int"

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @property
    def component(self) -> DType:
        """The real type of a complex type's parts; any other type itself."""
        if self.kind != "complex":
            return self
        return F32 if self.bits == 64 else F64

    @property
    def mlir(self) -> str:
        """MLIR's name: ``i32`` of s32, ``f8E4M3FN``, ``complex<f32>``."""
        if self.is_complex:
            return f"complex<{self.component.mlir}>"
        if self.is_integer:
            return f"{'i' if self.is_signed else 'ui'}{self.bits}"
        if self is PRED:
            return "i1"
        return f"f{self.name[1:].upper()}" if self.bits <= 8 else self.name

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return (from_name, (self.name,))


def _of(name: str) -> DType:
    row = element_types.BY_NAME[name]
    storage = getattr(ml_dtypes, row.storage, row.storage)  # NumPy knows the others by their names
    return DType(name, row.number, row.kind, row.bits, np.dtype(storage))


PRED: Final = _of("pred")
S2: Final = _of("s2")
S4: Final = _of("s4")
S8: Final = _of("s8")
S16: Final = _of("s16")
S32: Final = _of("s32")
S64: Final = _of("s64")
U2: Final = _of("u2")
U4: Final = _of("u4")
U8: Final = _of("u8")
U16: Final = _of("u16")
U32: Final = _of("u32")
U64: Final = _of("u64")
F16: Final = _of("f16")
BF16: Final = _of("bf16")
F32: Final = _of("f32")
F64: Final = _of("f64")
F4E2M1FN: Final = _of("f4e2m1fn")
F8E3M4: Final = _of("f8e3m4")
F8E4M3: Final = _of("f8e4m3")
F8E4M3FN: Final = _of("f8e4m3fn")
F8E4M3B11FNUZ: Final = _of("f8e4m3b11fnuz")
F8E4M3FNUZ: Final = _of("f8e4m3fnuz")
F8E5M2: Final = _of("f8e5m2")
F8E5M2FNUZ: Final = _of("f8e5m2fnuz")
F8E8M0FNU: Final = _of("f8e8m0fnu")
F6E2M3FN: Final = _of("f6e2m3fn")
F6E3M2FN: Final = _of("f6e3m2fn")
C64: Final = _of("c64")
C128: Final = _of("c128")

ALL: Final = tuple(v for v in list(globals().values()) if isinstance(v, DType))
_BY_NAME: Final = {d.name: d for d in ALL}
_BY_CODE: Final = {d.code: d for d in ALL}
_BY_NUMPY: Final = {d.numpy: d for d in ALL}


def from_name(name: str) -> DType:
    """The dtype that HLO text calls ``name``; KeyError if there is none."""
    return _BY_NAME[name]


def from_code(code: int) -> DType:
    """The dtype of a PrimitiveType number; KeyError if there is none."""
    return _BY_CODE[code]


def from_numpy(dtype: np.dtype | type) -> DType:
    """The dtype stored as the NumPy (or ml_dtypes) ``dtype``; KeyError if there is none."""
    return _BY_NUMPY[np.dtype(dtype)]
