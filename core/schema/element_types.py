"""Element types of arrays: the numbers and names of XLA's PrimitiveType (xla_data.proto).

The number of a type is the same in an artifact, in an HloModuleProto, in Python and in C++.
"""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

Kind = Literal["pred", "int", "uint", "float", "complex", "token"]


class ElementType(NamedTuple):
    """``bits``: of a value. ``storage``: NumPy's or ml_dtypes' name of what an element is in memory, where types of
    fewer than 8 bits take one byte each. ``pjrt``: the number of its PJRT_Buffer_Type where the header that
    tripont is built with has no name for it yet, else 0.
    """

    name: str
    number: int
    kind: Kind
    bits: int
    storage: str
    pjrt: int = 0

    @property
    def bytes(self) -> int:
        """Bytes an element takes in memory."""
        return (self.bits + 7) // 8


ELEMENT_TYPES: Final = (
    ElementType("pred", 1, "pred", 1, "bool"),
    ElementType("s2", 26, "int", 2, "int2"),
    ElementType("s4", 21, "int", 4, "int4"),
    ElementType("s8", 2, "int", 8, "int8"),
    ElementType("s16", 3, "int", 16, "int16"),
    ElementType("s32", 4, "int", 32, "int32"),
    ElementType("s64", 5, "int", 64, "int64"),
    ElementType("u2", 27, "uint", 2, "uint2"),
    ElementType("u4", 22, "uint", 4, "uint4"),
    ElementType("u8", 6, "uint", 8, "uint8"),
    ElementType("u16", 7, "uint", 16, "uint16"),
    ElementType("u32", 8, "uint", 32, "uint32"),
    ElementType("u64", 9, "uint", 64, "uint64"),
    ElementType("f16", 10, "float", 16, "float16"),
    ElementType("bf16", 16, "float", 16, "bfloat16"),
    ElementType("f32", 11, "float", 32, "float32"),
    ElementType("f64", 12, "float", 64, "float64"),
    ElementType("f4e2m1fn", 32, "float", 4, "float4_e2m1fn"),
    ElementType("f8e3m4", 29, "float", 8, "float8_e3m4"),
    ElementType("f8e4m3", 28, "float", 8, "float8_e4m3"),
    ElementType("f8e4m3fn", 20, "float", 8, "float8_e4m3fn"),
    ElementType("f8e4m3b11fnuz", 23, "float", 8, "float8_e4m3b11fnuz"),
    ElementType("f8e4m3fnuz", 25, "float", 8, "float8_e4m3fnuz"),
    ElementType("f8e5m2", 19, "float", 8, "float8_e5m2"),
    ElementType("f8e5m2fnuz", 24, "float", 8, "float8_e5m2fnuz"),
    ElementType("f8e8m0fnu", 33, "float", 8, "float8_e8m0fnu"),
    ElementType("f6e2m3fn", 36, "float", 6, "float6_e2m3fn", pjrt=32),
    ElementType("f6e3m2fn", 35, "float", 6, "float6_e3m2fn", pjrt=33),
    ElementType("c64", 15, "complex", 64, "complex64"),
    ElementType("c128", 18, "complex", 128, "complex128"),
    ElementType("token", 17, "token", 0, ""),
)
BY_NAME: Final = {t.name: t for t in ELEMENT_TYPES}
BY_STORAGE: Final = {t.storage: t for t in ELEMENT_TYPES if t.storage}
