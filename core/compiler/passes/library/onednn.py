"""What oneDNN may be asked to compute: one table, by operation, element types and instruction set.

Nothing calls oneDNN outside of this table. A row states that, on a CPU with the named instructions (LLVM's names),
oneDNN 3 computes the operation on these element types as StableHLO defines it: integers exactly, floats with sums in
f32. The rows were tried with the instruction sets capped and the worst values (test_integer_products.py): without VNNI
oneDNN adds pairs of 8-bit products in 16 bits, which saturate, so there is no row for s8 there; with VNNI it adds in 32
bits, but some of its kernels take the sums through f32, which rounds from 2^24 on. ``depth`` is how many products a sum
may have: above it a row does not hold. Convolutions of bf16 are called for sums of an even number of neighbours only
(:mod:`.whole_pairs`), with the columns joined that oneDNN would join (:mod:`.joined_columns`), and where an infinity
would spread, after a look at the numbers (:mod:`.guarded`).

:func:`way` says how to compute an operation with the rows that there are: on the element types as they are, or through
f32, which is exact for integers as long as no sum leaves the 24 bits of an f32's significand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...ir import dtypes
from ...ir.dtypes import DType

if TYPE_CHECKING:
    from ...targets.target import Target

#: Element types of the first operand, the second operand and the result.
Types = tuple[DType, DType, DType]

DOT: Final = "dot"
CONVOLUTION: Final = "convolution"

# Sets of instructions that do. An artifact for a CPU with fewer never asks for the row.
_ANY: Final = (frozenset(("sse4.1",)),)
_AVX512: Final = frozenset(("avx512f", "avx512bw", "avx512dq", "avx512vl"))
_BF16: Final = (_AVX512,)  # without avx512bf16 oneDNN converts to f32 inside its kernels
_VNNI: Final = (_AVX512 | {"avx512vnni"}, frozenset(("avx2", "fma", "avxvnni")))

# Integers up to this are numbers of f32, and so are all sums of them that do not exceed it.
_F32_INTEGERS: Final = 2**24


@dataclass(frozen=True, slots=True)
class Row:
    """``instructions``: sets, of which the CPU must have all of one. ``depth``: products in a sum at most (0: any).

    ``gpu``: whether a SYCL GPU does it too. Nobody has tried one: f32 is what all of oneDNN's GPUs have.
    """

    operation: str
    types: Types
    instructions: tuple[frozenset[str], ...]
    depth: int = 0
    gpu: bool = False


TABLE: Final = (
    Row(DOT, (dtypes.F32, dtypes.F32, dtypes.F32), _ANY, gpu=True),
    Row(DOT, (dtypes.BF16, dtypes.BF16, dtypes.BF16), _BF16),
    Row(DOT, (dtypes.BF16, dtypes.BF16, dtypes.F32), _BF16),
    Row(DOT, (dtypes.S8, dtypes.S8, dtypes.S32), _VNNI, _F32_INTEGERS // (128 * 128)),
    Row(DOT, (dtypes.U8, dtypes.S8, dtypes.S32), _VNNI, _F32_INTEGERS // (255 * 128)),
    Row(CONVOLUTION, (dtypes.F32, dtypes.F32, dtypes.F32), _ANY, gpu=True),
    Row(CONVOLUTION, (dtypes.BF16, dtypes.BF16, dtypes.BF16), _BF16),
    Row(CONVOLUTION, (dtypes.BF16, dtypes.BF16, dtypes.F32), _BF16),
)

_ROWS: Final = {(row.operation, row.types): row for row in TABLE}
_IN_F32: Final = (dtypes.F32, dtypes.F32, dtypes.F32)
_FLOATS: Final = frozenset((dtypes.F16, dtypes.BF16, dtypes.F32))
# Below this depth a product of integers through f32 has too many sums of blocks.
_LEAST_DEPTH: Final = 128


@dataclass(frozen=True, slots=True)
class Way:
    """How to compute an operation: convert the operands to the first two ``types``, call oneDNN, which gives the third.

    ``depth``: how many products a sum of the call may have for an exact result; 0: any number.
    """

    types: Types
    depth: int = 0


def row(operation: str, types: Types, target: Target) -> Row | None:
    """The row of the table that holds on ``target``, or None."""
    found = _ROWS.get((operation, types))
    libraries = target.libraries
    if found is None or not libraries.onednn:
        return None
    if libraries.on_gpu:
        return found if found.gpu else None
    features = libraries.cpu_features
    return found if any(features >= needed for needed in found.instructions) else None


def way(operation: str, types: Types, target: Target) -> Way | None:
    """How oneDNN computes ``operation`` on ``types`` on ``target`` without a wrong number; None if it cannot."""
    found = row(operation, types, target)
    if found is not None:
        return Way(types, found.depth)
    if row(operation, _IN_F32, target) is None:
        return None
    if _FLOATS.issuperset(types):
        return Way(_IN_F32)  # exact products, and sums in f32 as the small types have them too
    lhs, rhs, result = types
    if result.is_integer and lhs.is_integer and rhs.is_integer:
        depth = _F32_INTEGERS // (_magnitude(lhs) * _magnitude(rhs))
        return Way(_IN_F32, depth) if depth >= _LEAST_DEPTH else None
    return None


def _magnitude(dtype: DType) -> int:
    """The largest absolute value of an integer type."""
    return 1 << (dtype.bits - 1) if dtype.is_signed else (1 << dtype.bits) - 1
