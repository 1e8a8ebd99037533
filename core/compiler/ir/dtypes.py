"""Element types of HLO values.

Names and codes are those of XLA's ``PrimitiveType`` (xla_data.proto), so that a dtype prints as HLO text
prints it (``f32``, ``s64``, ``pred``) and its code is the same number in an artifact, in an HloModuleProto and here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

import ml_dtypes
import numpy as np

Kind = Literal["pred", "int", "uint", "float", "complex", "token"]


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

    @property
    def size(self) -> int:
        """Bytes an element takes in memory."""
        return self.numpy.itemsize

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

    def __repr__(self) -> str:
        return self.name

    def __reduce__(self) -> tuple[object, ...]:
        return (from_name, (self.name,))


def _make(name: str, code: int, kind: Kind, bits: int, numpy: object) -> DType:
    return DType(name, code, kind, bits, np.dtype(numpy))  # type: ignore[call-overload]


PRED: Final = _make("pred", 1, "pred", 1, np.bool_)
S2: Final = _make("s2", 26, "int", 2, ml_dtypes.int2)
S4: Final = _make("s4", 21, "int", 4, ml_dtypes.int4)
S8: Final = _make("s8", 2, "int", 8, np.int8)
S16: Final = _make("s16", 3, "int", 16, np.int16)
S32: Final = _make("s32", 4, "int", 32, np.int32)
S64: Final = _make("s64", 5, "int", 64, np.int64)
U2: Final = _make("u2", 27, "uint", 2, ml_dtypes.uint2)
U4: Final = _make("u4", 22, "uint", 4, ml_dtypes.uint4)
U8: Final = _make("u8", 6, "uint", 8, np.uint8)
U16: Final = _make("u16", 7, "uint", 16, np.uint16)
U32: Final = _make("u32", 8, "uint", 32, np.uint32)
U64: Final = _make("u64", 9, "uint", 64, np.uint64)
F16: Final = _make("f16", 10, "float", 16, np.float16)
BF16: Final = _make("bf16", 16, "float", 16, ml_dtypes.bfloat16)
F32: Final = _make("f32", 11, "float", 32, np.float32)
F64: Final = _make("f64", 12, "float", 64, np.float64)
F4E2M1FN: Final = _make("f4e2m1fn", 32, "float", 4, ml_dtypes.float4_e2m1fn)
F8E3M4: Final = _make("f8e3m4", 29, "float", 8, ml_dtypes.float8_e3m4)
F8E4M3: Final = _make("f8e4m3", 28, "float", 8, ml_dtypes.float8_e4m3)
F8E4M3FN: Final = _make("f8e4m3fn", 20, "float", 8, ml_dtypes.float8_e4m3fn)
F8E4M3B11FNUZ: Final = _make("f8e4m3b11fnuz", 23, "float", 8, ml_dtypes.float8_e4m3b11fnuz)
F8E4M3FNUZ: Final = _make("f8e4m3fnuz", 25, "float", 8, ml_dtypes.float8_e4m3fnuz)
F8E5M2: Final = _make("f8e5m2", 19, "float", 8, ml_dtypes.float8_e5m2)
F8E5M2FNUZ: Final = _make("f8e5m2fnuz", 24, "float", 8, ml_dtypes.float8_e5m2fnuz)
F8E8M0FNU: Final = _make("f8e8m0fnu", 33, "float", 8, ml_dtypes.float8_e8m0fnu)
# PJRT and XLA have no number for these: programs compute with them, no parameter or result has them.
F6E2M3FN: Final = _make("f6e2m3fn", 200, "float", 6, ml_dtypes.float6_e2m3fn)
F6E3M2FN: Final = _make("f6e3m2fn", 201, "float", 6, ml_dtypes.float6_e3m2fn)
C64: Final = _make("c64", 15, "complex", 64, np.complex64)
C128: Final = _make("c128", 18, "complex", 128, np.complex128)

INSIDE: Final[tuple[DType, ...]] = (F6E2M3FN, F6E3M2FN)
ALL: Final[tuple[DType, ...]] = tuple(
    v for v in list(globals().values()) if isinstance(v, DType) and v not in INSIDE
)
_EVERY: Final = (*ALL, *INSIDE)
_BY_NAME: Final = {d.name: d for d in _EVERY}
_BY_CODE: Final = {d.code: d for d in _EVERY}
_BY_NUMPY: Final = {d.numpy: d for d in _EVERY}


def from_name(name: str) -> DType:
    """The dtype that HLO text calls ``name``; KeyError if there is none."""
    return _BY_NAME[name]


def from_code(code: int) -> DType:
    """The dtype of a PrimitiveType number; KeyError if there is none."""
    return _BY_CODE[code]


def from_numpy(dtype: np.dtype | type) -> DType:
    """The dtype stored as the NumPy (or ml_dtypes) ``dtype``; KeyError if there is none."""
    return _BY_NUMPY[np.dtype(dtype)]
