"""Which products are generated with packing, and which are oneDNN's: by element types, size and instruction set.

The table was measured with ``python -m benchmarks.products`` (docs/products.md has the figures) on a Xeon of 2023
without AMX, with all its instructions and kept to those of x86-64-v3. Its rows about AMX and Zen are not measured.

===============  =============================  ==================================================================
operands         generated                      otherwise
===============  =============================  ==================================================================
integers         from 40^3 on                   the "dot" kernel; oneDNN where there is AMX
f64              from 80^3 on                   the "dot" kernel
f32              from 80^3 up to 112^3; at most  the "dot" kernel below, oneDNN above
                 128 rows by at least 1024
                 columns; of any size where
                 there is no oneDNN
bf16             from 64^3 on                   the "dot" kernel; oneDNN where there is AMX, and on Zen
f16, 8 bits      from 64^3 on                   the "dot" kernel
===============  =============================  ==================================================================

Float products of at most 8 rows by a matrix of 256 KB or more stream (:mod:`.streamed`) before anyone asks this table,
and products whose right-hand side is made of less than half of its memory are generated at any size, for packing makes
it on the way (:mod:`.weights`).

Integers whose sums oneDNN computes exactly only in blocks that take more memory than :mod:`.blocks` allows are
generated with AMX too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from ...codegen.kernels.product_forms import ProductForm
from ...ir import dtypes
from ...ir.dtypes import DType
from .onednn import DOT, row

if TYPE_CHECKING:
    from ...targets.target import Target

# The fewest multiply-adds of a matrix product, and of a batch of them.
_ONE_OF_A_BATCH: Final = 40**3
_INTEGERS: Final = 40**3
_SMALL_FLOATS: Final = 64**3
_WIDE_FLOATS: Final = 80**3
# Fewer rows than this are bound by reading rhs, which packing would do twice.
_LEAST_ROWS: Final = 5
# Up to here f32 products take less time than oneDNN needs to begin.
_MOST_F32: Final = 112**3
# Few rows by many columns: the time goes into reading rhs, of which oneDNN makes a copy first.
_FLAT_ROWS: Final = 128
_FLAT_COLUMNS: Final = 1024
# Element types of which AMX multiplies tiles, with the feature that says so.
_AMX: Final = {dtypes.BF16: "amx-bf16", dtypes.S8: "amx-int8", dtypes.U8: "amx-int8"}


def is_large_enough(
    form: ProductForm, types: tuple[DType, DType], batch: int, m: int, n: int, k: int
) -> bool:
    """Whether packing and tiles pay for ``batch`` products of [m, k] by [k, n]."""
    if n < form.lanes or m < _LEAST_ROWS:
        return False
    if form.result.is_integer:
        least = _INTEGERS
    elif min(t.size for t in types) < 4:
        least = _SMALL_FLOATS
    else:
        least = _WIDE_FLOATS
    return m * n * k >= _ONE_OF_A_BATCH and batch * m * n * k >= least


def prefers_generated(
    types: tuple[DType, DType, DType], m: int, n: int, k: int, target: Target
) -> bool:
    """Whether an [m, k] by [k, n] product, large enough for either, is generated rather than oneDNN's on ``target``."""
    if row(DOT, types, target) is None:
        return True
    lhs = types[0]
    if lhs is dtypes.F32:
        return m * n * k <= _MOST_F32 or (m <= _FLAT_ROWS and n >= _FLAT_COLUMNS)
    if target.has(_AMX.get(lhs, "")):
        return False
    # vdpbf16ps, which oneDNN uses, is as fast as a multiply-add of f32 on Zen and half as fast on Intel's CPUs.
    return not (lhs is dtypes.BF16 and target.has("avx512bf16") and target.cpu.startswith("znver"))
