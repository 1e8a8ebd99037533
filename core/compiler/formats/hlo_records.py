"""Messages inside of an HloInstructionProto that are dataclasses or words of ours: their numbers, for both directions.

The numbers are those of XLA's ``xla_data.proto``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..ir.hlo import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    ScatterDimensionNumbers,
    WindowDimension,
)
from .wire_format import record, signed, unpacked_numbers, values


@dataclass(frozen=True)
class Record:
    """A message whose fields are integers, booleans and lists of integers: a dataclass, and its fields' numbers."""

    kind: type[Any]
    numbers: dict[str, int]

    def write(self, value: Any) -> bytes:
        """The message of ``value``, an instance of ``kind``."""
        return record(value, **self.numbers)

    def read(self, data: bytes) -> Any:
        """The instance of ``kind`` that a message says. Raises ValueError for a damaged message or a further field."""
        types = {field.name: str(field.type) for field in dataclasses.fields(self.kind)}
        lists = {name for name, written in types.items() if written.startswith("tuple")}
        given = values(data, repeated=frozenset(self.numbers[name] for name in lists))
        if not given.keys() <= set(self.numbers.values()):
            raise ValueError("a field that is not known")
        read: dict[str, Any] = {}
        for name, number in self.numbers.items():
            if name in lists:
                read[name] = tuple(unpacked_numbers(given.get(number, b"")))
            else:
                value = signed(given.get(number, 0))
                read[name] = bool(value) if types[name] == "bool" else value
        return self.kind(**read)


WINDOW: Final = Record(
    WindowDimension,
    {
        "size": 1, "stride": 2, "padding_low": 3, "padding_high": 4, "window_dilation": 5, "base_dilation": 6,
        "reversal": 7,
    },
)  # fmt: skip
DOT: Final = Record(
    DotDimensionNumbers,
    {"lhs_contracting": 1, "rhs_contracting": 2, "lhs_batch": 3, "rhs_batch": 4},
)
CONVOLUTION: Final = Record(
    ConvolutionDimensionNumbers,
    {
        "input_batch": 7, "input_feature": 8, "input_spatial": 11,
        "kernel_input_feature": 3, "kernel_output_feature": 4, "kernel_spatial": 6,
        "output_batch": 9, "output_feature": 10, "output_spatial": 12,
    },
)  # fmt: skip
GATHER: Final = Record(
    GatherDimensionNumbers,
    {
        "offset_dims": 1, "collapsed_slice_dims": 2, "start_index_map": 3, "index_vector_dim": 4,
        "operand_batching_dims": 5, "start_indices_batching_dims": 6,
    },
)  # fmt: skip
SCATTER: Final = Record(
    ScatterDimensionNumbers,
    {
        "update_window_dims": 1, "inserted_window_dims": 2, "scatter_dims_to_operand_dims": 3, "index_vector_dim": 4,
        "input_batching_dims": 5, "scatter_indices_batching_dims": 6,
    },
)  # fmt: skip

# Enumerations: each word stands at its number.
PRECISIONS: Final = ("DEFAULT", "HIGH", "HIGHEST")
FFT_TYPES: Final = ("FFT", "IFFT", "RFFT", "IRFFT")
TRANSPOSES: Final = ("INVALID", "NO_TRANSPOSE", "TRANSPOSE", "ADJOINT")
RNG_ALGORITHMS: Final = ("DEFAULT", "THREE_FRY", "PHILOX")
DISTRIBUTIONS: Final = ("invalid", "uniform", "normal")

ALGORITHMS: Final = {
    "f16_f16_f16": 3, "f16_f16_f32": 4, "bf16_bf16_bf16": 5, "bf16_bf16_f32": 6, "bf16_bf16_f32_x3": 7,
    "bf16_bf16_f32_x6": 8, "tf32_tf32_f32": 9, "tf32_tf32_f32_x3": 10, "f32_f32_f32": 11, "f64_f64_f64": 12,
    "bf16_bf16_f32_x9": 13,
}  # fmt: skip

# The field of a LiteralProto that has the elements. (Those of less than a byte are packed, and are elided.)
LITERALS: Final = {
    "pred": 2, "u8": 3, "s32": 4, "s64": 5, "u32": 6, "u64": 7, "f32": 8, "f64": 9, "f16": 11, "c64": 12,
    "bf16": 13, "s8": 15, "u16": 16, "s16": 17, "c128": 18, "f8e5m2": 19, "f8e4m3fn": 20, "f8e4m3b11fnuz": 23,
    "f8e5m2fnuz": 24, "f8e4m3fnuz": 25, "f8e4m3": 28, "f8e3m4": 29, "f8e8m0fnu": 33,
}  # fmt: skip


def number(words: Sequence[str], word: str) -> int:
    """The number of an enumeration's word, 0 for one that HLO does not have."""
    return words.index(word) if word in words else 0


def word(words: Sequence[str], number: Any) -> str:
    """The word of an enumeration's number. Raises ValueError for one that is not known."""
    if not isinstance(number, int) or number >= len(words):
        raise ValueError(f"the number {number} of an enumeration")
    return words[number]
