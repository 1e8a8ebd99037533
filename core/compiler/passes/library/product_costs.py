"""Which products are generated with packing, and which are oneDNN's: by element types, size and instruction set.

The sizes are the target's (:class:`...targets.costs.Products`). These are the host's.

The table was measured with ``python -m benchmarks.products`` (docs/products-measured.md has the figures) on a Xeon of
2023 without AMX, with all its instructions and kept to those of x86-64-v3, on a Zen 4 and a Zen 5, and on a Xeon of
that kind with AMX. "Zen" in the table is a Zen 4 or a Zen 5. A Zen 3, which was measured too, packs small products as
a Zen 5 does and swaps few rows as both do. It generates all f32 from 50^3 on, but for less than two vectors of
columns, and for up to 128 rows by a rhs of [k, n] unless the rows of rhs lie a multiple of 2 KB apart (from 64 rows
on 1 KB) or rhs has more than 400,000 bytes for each row, and for less than 128 columns by a lhs of [k, m] of 256 KB or
more.

===============  =============================  ==================================================================
operands         generated                      otherwise
===============  =============================  ==================================================================
integers         from 40^3 on                   the "dot" kernel
f64              from 80^3 on (Zen: also       the "dot" kernel
                 from 50^3 to 63^3 with rows
                 of less than 1 KB in the
                 right-hand side and 20 to
                 500 terms)
f32              two vectors of columns or more  the "dot" kernel below, oneDNN above
                 from 80^3 (Zen: 50^3, with
                 rows and terms as for f64) up
                 to 112^3; of 64
                 to 224 rows and columns and
                 at most 224 terms; at most 128
                 rows by at least 1024 columns;
                 with AVX-512, but for Zen,
                 512 rows and columns and
                 operands of 7.5 MB or more;
                 Zen: all others whose rhs
                 is not [n, k] (nor is that of
                 products of few rows there),
                 Zen 4: from 1,024 rows on
                 those of [n, k] too,
                 and few rows that nearly fill
                 vectors by [n, k];
                 of any size where there is no
                 oneDNN
bf16             from 64^3 on (Zen: up to        the "dot" kernel below, oneDNN above on Zen
                 128^3, on Zen 5 from 40^3 on,
                 and those of 128 terms
                 or more, an even number, that
                 lie as [m, k] and [k, n] and
                 whose columns nearly fill
                 vectors; few rows as for f32)
f16, 8 bits      from 64^3 on                   the "dot" kernel
===============  =============================  ==================================================================

Products of which a mask leaves 0.8 or less (:mod:`.masked`) are generated: the rest is not summed.

Float products of at most 8 rows by a matrix of 256 KB or more stream (:mod:`.streamed`) before anyone asks this table,
and products whose right-hand side is made of less than five eighths of its memory are generated at any size: packing or
the product makes it on the way (:mod:`.weights`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...codegen.kernels.product_forms import BF16_PAIRS, ProductForm
from ...ir import dtypes
from ...ir.dtypes import DType
from .onednn import DOT, row

if TYPE_CHECKING:
    from ...targets.target import Target


def is_large_enough(
    form: ProductForm,
    types: tuple[DType, DType],
    batch: int,
    m: int,
    n: int,
    k: int,
    target: Target,
) -> bool:
    """Whether packing and tiles pay for ``batch`` products of [m, k] by [k, n]."""
    costs = target.costs.products
    if n < form.lanes or m < costs.packed_rows:
        return False
    if form.result.is_integer:
        least = costs.packed_integers
    elif min(t.size for t in types) < 4:
        least = costs.packed_small
    elif (
        n * form.rhs.size < costs.narrow_row
        and costs.narrow_terms[0] <= k <= costs.narrow_terms[1]
        and batch * m * n * k * form.rhs.size <= costs.narrow_most
    ):
        least = costs.packed_narrow
    else:
        least = costs.packed_wide
    return m * n * k >= costs.packed_each and batch * m * n * k >= least


def prefers_pairs(m: int, n: int, k: int, lies: bool, target: Target) -> bool:
    """Whether an [m, k] by [k, n] product in pairs of bf16 is generated although a library may have it; ``lies``:
    whether the elements of a row are neighbours in both operands, so that nothing is turned before they are multiplied.
    """
    if row(DOT, (dtypes.BF16, dtypes.BF16, dtypes.F32), target) is None:
        return True
    return m * n * k <= target.costs.products.pairs_small or (lies and _are_whole(n, k, target))


def _are_whole(n: int, k: int, target: Target) -> bool:
    """Whether the pairs of a [k, n] matrix are many and whole, and its columns nearly fill vectors."""
    costs = target.costs.products
    full = _is_full(n, target.lanes(dtypes.F32), costs.pairs_columns)
    return full and k >= costs.pairs_terms and k % 2 == 0


def is_swapped(form: ProductForm, m: int, n: int, k: int, target: Target) -> bool:
    """Whether an [m, k] by [n, k] product is computed as the transpose of [n, k] by [m, k] (:mod:`.swapped`)."""
    costs = target.costs.products
    if form.is_matrix or m > costs.swapped_rows:
        return False
    if max(m, form.lanes) * costs.swapped_sides > min(n, k):
        return False  # turning lhs and the result takes as long
    far = n * k * form.lhs.size > target.costs.memory.second
    return far or _is_full(m, form.lanes, costs.swapped_vectors)


def swaps_integers(form: ProductForm, m: int) -> bool:
    """Whether integers of [n, k] that are only converted are lhs too if such a product is swapped. Elsewhere to turn
    them in registers takes less time than the copies of lhs, or than computing rows that are not there.
    """
    return form.group == 1 and m % form.lanes == 0


def prefers_swapped(form: ProductForm, m: int, target: Target) -> bool:
    """Whether such a product of ``m`` rows is faster than a library's, which turns [n, k] faster than we do."""
    return _is_full(m, form.lanes, target.costs.products.swapped_library)


def multiplies_few_rows(form: ProductForm, m: int, n: int, k: int, target: Target) -> bool:
    """Whether so few rows that reading their matrix mostly decides the time are multiplied in tiles: pairs of bf16 by
    a matrix in a cache, or rows that nearly fill a vector if they are swapped.
    """
    if form.name == BF16_PAIRS:
        near = n * k * form.rhs.size <= target.costs.products.pairs_matrix
        return near and _are_whole(n, k, target)
    if m // form.lanes < target.costs.products.swapped_few:
        return False
    return is_swapped(form, m, n, k, target) and prefers_swapped(form, m, target)


def _is_full(m: int, lanes: int, most: float) -> bool:
    return -(-m // lanes) * lanes <= most * m


def has_far_columns(m: int, k: int, dtype: DType, target: Target) -> bool:
    """Whether a [k, m] matrix of ``dtype`` is so large that tiles read its columns for longer than transposing it
    takes, if there is enough to multiply it by.
    """
    return m * k * dtype.size >= target.costs.products.turned_lhs


def prefers_generated(
    types: tuple[DType, DType, DType],
    m: int,
    n: int,
    k: int,
    target: Target,
    turned: bool = False,
    turned_lhs: bool = False,
) -> bool:
    """Whether an [m, k] by [k, n] product, large enough for either, is generated rather than oneDNN's on ``target``;
    ``turned``: whether the rhs lies as [n, k]; ``turned_lhs``: whether the lhs lies as [k, m].
    """
    if row(DOT, types, target) is None:
        return True
    lhs, costs = types[0], target.costs.products
    if lhs is dtypes.F32:
        if n < 2 * target.lanes(lhs):
            return False  # a tile of one vector reads a row of lhs for each multiply-add
        if turned_lhs and n < costs.turned_columns and has_far_columns(m, k, lhs, target):
            return False
        flat = m <= costs.flat_rows and n >= costs.flat_columns
        least, most = costs.small_sides
        small = least <= min(m, n) and max(m, n, k) <= most
        far = min(m, n) >= costs.far_side and (m + n) * k * lhs.size >= costs.far_f32
        lies = costs.turns_f32 or not turned or m >= costs.turned_rows
        if not turned and _is_spread(m, n, k, lhs, target):
            flat = far = False
        return m * n * k <= costs.most_f32 or small or (lies and (flat or far))
    return lhs.name not in costs.library_types


def _is_spread(m: int, n: int, k: int, dtype: DType, target: Target) -> bool:
    """Whether few rows are multiplied by a [k, n] matrix whose rows have many places in the caches, so that a library
    reads them fast, and that is not so large that reading it decides the time.
    """
    costs, memory = target.costs.products, target.costs.memory
    near = n * k * dtype.size <= m * costs.spread_rhs
    apart = memory.way // (4 if m >= costs.first_fewest else 2)  # long runs of rows are read faster
    return m <= costs.spread_rows and near and n * dtype.size % apart != 0
