"""Dots become calls of "gemm" (core/runtime/library/gemm.cc), which takes any strides.

A dot's dimensions fall into four groups: batch, m (free of lhs), n (free of rhs) and k (contracted). gemm wants one
m, n and k each, so the dimensions of a group must form one dimension in memory, that is, each one's stride must be
the next one's size times stride. Transposes before and after a dot are only other strides. Where the dimensions do
not merge, the operand is transposed first.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from ...codegen.kernels import product_forms
from ...codegen.kernels.product_forms import ProductForm
from ...ir import dtypes
from ...ir.dtypes import DType
from ...ir.hlo import DotDimensionNumbers, Instruction, Shape, strides_of
from ...ir.moves import transpose
from ...ir.patterns import convert
from . import product_costs
from .blocks import in_blocks
from .context import Context
from .onednn import DOT, Types, Way, way
from .weights import Weights

if TYPE_CHECKING:
    from ...targets.target import Target

_SMALL_FLOATS: Final = frozenset((dtypes.F16, dtypes.BF16))
# The part of a matrix's memory that arrays which it is made of have at most, if it is worth computing where it is read:
# bytes are a half of bf16, and scales of bf16 for each 16 of them another sixteenth.
_LESS: Final = 0.625
# oneDNN takes 12 dimensions.
MAX_BATCH_DIMENSIONS: Final = 10


@dataclass(frozen=True, slots=True)
class Dimension:
    """A dimension of an array in memory: its size, and the distance of its elements in elements."""

    size: int
    stride: int


def row_major(dims: tuple[int, ...]) -> list[Dimension]:
    """The dimensions of a dense array."""
    return [Dimension(*d) for d in zip(dims, strides_of(dims), strict=True)]


def merge(dimensions: list[Dimension]) -> Dimension | None:
    """One dimension that stands for all, in their order; None if there is none. Those of size 1 do not count."""
    merged: Dimension | None = None
    for dimension in dimensions:
        if dimension.size == 1:
            continue
        if merged is None:
            merged = dimension
        elif merged.stride == dimension.size * dimension.stride:
            merged = Dimension(merged.size * dimension.size, dimension.stride)
        else:
            return None
    return merged or Dimension(1, math.prod(d.size * d.stride for d in dimensions[-1:]) or 1)


@dataclass(slots=True)
class Operand:
    """A dot's operand: the instruction to read, and the dot's groups of dimensions as they lie in its memory."""

    instruction: Instruction
    batch: list[Dimension]
    free: list[Dimension]
    contracting: list[Dimension]


def read_operand(
    instruction: Instruction, batch: tuple[int, ...], contracting: tuple[int, ...]
) -> Operand:
    """The operand, looking through a transpose."""
    rank = len(instruction.dims)
    free = [d for d in range(rank) if d not in batch and d not in contracting]
    if instruction.opcode == "transpose":
        source = instruction.operands[0]
        dense = row_major(source.dims)
        dimensions = [dense[d] for d in instruction.attributes["dimensions"]]
        instruction = source
    else:
        dimensions = row_major(instruction.dims)
    return Operand(
        instruction,
        [dimensions[d] for d in batch],
        [dimensions[d] for d in free],
        [dimensions[d] for d in contracting],
    )


def transposed(
    operand: Instruction, batch: tuple[int, ...], contracting: tuple[int, ...]
) -> Operand:
    """The operand physically transposed to [batch, free, contracting]."""
    free = [d for d in range(len(operand.dims)) if d not in batch and d not in contracting]
    order = (*batch, *free, *contracting)
    copy = transpose(operand, order)
    dense = row_major(copy.dims)
    ends = len(batch), len(batch) + len(free)
    return Operand(copy, dense[: ends[0]], dense[ends[0] : ends[1]], dense[ends[1] :])


def merge_operands(dot: Instruction) -> tuple[Operand, Operand] | None:
    """Both operands with every group but batch merged to one dimension; None if even transposing does not help.

    The contracted dimensions may be walked in any order that is the same on both sides, so they are taken in the order
    in which one of the operands has them in memory.
    """
    numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
    lhs, rhs = dot.operands
    a = read_operand(lhs, numbers.lhs_batch, numbers.lhs_contracting)
    b = read_operand(rhs, numbers.rhs_batch, numbers.rhs_contracting)
    count = len(a.contracting)
    orders = [
        sorted(range(count), key=lambda i: -a.contracting[i].stride),
        sorted(range(count), key=lambda i: -b.contracting[i].stride),
    ]
    for order in orders:
        x, y = _merged(a, order), _merged(b, order)
        if x is not None and y is not None:
            return x, y
    # One operand decides the order if it can; the other is transposed to it. Prefer to move the smaller one.
    candidates = [(rhs.shape.elements, 0, a), (lhs.shape.elements, 1, b)]  # type: ignore[union-attr]
    for _, side, fixed in sorted(candidates, key=lambda c: c[0]):
        kept = _merged(fixed, orders[side])
        if kept is None:
            continue
        order = orders[side]
        if side == 0:
            moved = transposed(
                rhs, numbers.rhs_batch, tuple(numbers.rhs_contracting[i] for i in order)
            )
        else:
            moved = transposed(
                lhs, numbers.lhs_batch, tuple(numbers.lhs_contracting[i] for i in order)
            )
        other = _merged(moved, list(range(count)))
        if other is not None:
            return (kept, other) if side == 0 else (other, kept)
    return _both_transposed(dot)


def _both_transposed(dot: Instruction) -> tuple[Operand, Operand] | None:
    """Both operands physically transposed to [batch, free, contracting]."""
    numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
    lhs, rhs = dot.operands
    order = list(range(len(numbers.lhs_contracting)))
    x = _merged(transposed(lhs, numbers.lhs_batch, numbers.lhs_contracting), order)
    y = _merged(transposed(rhs, numbers.rhs_batch, numbers.rhs_contracting), order)
    return (x, y) if x is not None and y is not None else None


def _has_rows(operand: Operand) -> bool:
    """Whether the elements of a row or of a column are neighbours in memory."""
    return 1 in (operand.free[0].stride, operand.contracting[0].stride)


def _merged(operand: Operand, order: list[int]) -> Operand | None:
    free = merge(operand.free)
    contracting = merge([operand.contracting[i] for i in order])
    if free is None or contracting is None:
        return None
    return Operand(operand.instruction, operand.batch, [free], [contracting])


def merge_batch(
    lhs: list[Dimension], rhs: list[Dimension], result: list[Dimension]
) -> tuple[list[int], list[list[int]]]:
    """The batch dimensions' sizes and strides in the three arrays, neighbours merged where all three can be."""
    sizes: list[int] = []
    strides: list[list[int]] = [[], [], []]
    for group in zip(lhs, rhs, result, strict=True):
        if group[0].size == 1:
            continue
        if sizes and all(s[-1] == d.size * d.stride for s, d in zip(strides, group, strict=True)):
            sizes[-1] *= group[0].size
            for s, d in zip(strides, group, strict=True):
                s[-1] = d.stride
        else:
            sizes.append(group[0].size)
            for s, d in zip(strides, group, strict=True):
                s.append(d.stride)
    return sizes, strides


def sizes_of(dot: Instruction) -> tuple[int, int, int, int]:
    """(batch, m, n, k) of a dot."""
    numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
    lhs, rhs = (o.dims for o in dot.operands)
    batch = math.prod(lhs[d] for d in numbers.lhs_batch)
    k = math.prod(lhs[d] for d in numbers.lhs_contracting)
    return batch, math.prod(lhs) // max(1, batch * k), math.prod(rhs) // max(1, batch * k), k


def is_worthwhile(dot: Instruction, target: Target) -> bool:
    """Whether the library computes this dot faster than generated code."""
    if 0 in dot.dims or any(0 in o.dims for o in dot.operands):
        return False
    batch, m, n, k = sizes_of(dot)
    small = dot.operands[0].dtype.size < 4 and dot.operands[0].dtype is not dtypes.F16
    costs = target.costs.products
    enough = costs.library_small if small else costs.library
    return (
        batch * m * n * k >= enough
        and m * n * k >= costs.library_each
        and m >= costs.library_rows
        and n >= costs.library_columns
    )


def streamed_sides(dot: Instruction, target: Target) -> tuple[int, int] | None:
    """Which operand of ``dot`` has few rows, and which one is a matrix so large that memory decides the time of the
    product (:mod:`.streamed`); None if it is another product.
    """
    numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
    if not target.packs_products or not dot.dtype.is_float or numbers.lhs_batch or 0 in dot.dims:
        return None
    if any(not (o.dtype.is_float or o.dtype.is_integer) for o in dot.operands):
        return None
    _, m, n, k = sizes_of(dot)
    for rows, matrix, few, many in ((0, 1, m, n), (1, 0, n, m)):
        are_sizes = few <= target.costs.products.few_rows < many and k > 1
        if are_sizes and _is_read_long(dot.operands[matrix], target):
            return None if rows == 0 and _multiplies_faster(dot, target) else (rows, matrix)
    return None


def _is_read_long(matrix: Instruction, target: Target) -> bool:
    """Whether reading ``matrix`` decides how long a product takes, or writing it, if it is made of a smaller array."""
    size: int = matrix.shape.bytes  # type: ignore[union-attr]
    memory = target.costs.memory
    if size >= memory.streamed:
        return True
    return size >= memory.streamed_made and _is_made_of_less(matrix, target, _LESS, read_once=True)


def _multiplies_faster(dot: Instruction, target: Target) -> bool:
    """Whether multiplying the few rows of ``dot`` in tiles is faster than reading its rhs once: rows that fill a vector
    by [n, k], which is not turned, and pairs of bf16.
    """
    lhs, rhs = (o.dtype for o in dot.operands)
    form = product_forms.choose_dot(target, lhs, rhs, accumulator(dot.dtype))
    _, m, n, k = sizes_of(dot)
    if (
        form is None
        or (lhs, rhs) != (form.lhs, form.rhs)
        or not product_costs.multiplies_few_rows(form, m, n, k, target)
        or not product_costs.is_large_enough(form, (lhs, rhs), 1, m, n, k, target)
        or is_computed(dot.operands[1], form, m, target)
        or _is_converted(dot.operands[1])
    ):
        return False
    if form.name == product_forms.BF16_PAIRS:
        return _turned(dot) == (False, False)
    return swaps(dot, form, target)


def _is_converted(right: Instruction) -> bool:
    while right.opcode in ("reshape", "transpose"):
        right = right.operands[0]
    return right.opcode == "convert"


def form_of(dot: Instruction, target: Target, masked: bool = False) -> ProductForm | None:
    """The instructions with which ``dot`` is generated with packing; None if something else is better on ``target``.
    ``masked``: whether what it gives is needed in part.
    """
    form = _packed_form(dot, target)
    if form is None or not is_worthwhile(dot, target) or _is_dequantised(dot, target):
        return form
    if form.is_matrix or masked:
        return form
    types = (dot.operands[0].dtype, dot.operands[1].dtype, dot.dtype)
    _, m, n, k = sizes_of(dot)
    if swaps(dot, form, target) and product_costs.prefers_swapped(form, m, target):
        return form
    if form.name == product_forms.BF16_PAIRS:
        lies = _turned(dot) == (False, False)
        return form if product_costs.prefers_pairs(m, n, k, lies, target) else None
    lhs, rhs = _turned(dot) if types[0] is dtypes.F32 else (False, False)
    return form if product_costs.prefers_generated(types, m, n, k, target, rhs, lhs) else None


def _turned(dot: Instruction) -> tuple[bool, bool]:
    """Whether lhs lies as [k, m], and whether rhs lies as [n, k]."""
    operands = merge_operands(dot)
    if operands is None:
        return True, True
    lhs, rhs = operands
    return lhs.contracting[0].stride != 1, rhs.free[0].stride != 1


def swaps(dot: Instruction, form: ProductForm, target: Target) -> bool:
    """Whether ``dot``, if it is generated, has few rows and a rhs of [n, k] that is not turned (:mod:`.swapped`)."""
    batch, m, n, k = sizes_of(dot)
    if batch != 1 or not product_costs.is_swapped(form, m, n, k, target):
        return False
    return _turned(dot) == (False, True) and not is_computed(dot.operands[1], form, m, target)


def is_computed(right: Instruction, form: ProductForm, m: int, target: Target) -> bool:
    """Whether a rhs that ``m`` rows are multiplied by is computed while it is packed or multiplied, by more than one
    conversion of floats, or of integers where lhs reads those as fast.
    """
    swaps_integers = product_costs.swaps_integers(form, m)
    while right.opcode in ("reshape", "transpose") or (
        right.opcode == "convert" and (swaps_integers or right.operands[0].dtype.is_float)
    ):
        right = right.operands[0]
    return Weights(right.dims, target.costs).matrix(right) is not None


def makes_rhs(dot: Instruction, target: Target) -> bool:
    """Whether ``dot`` is generated, and computes a rhs of fewer bits while it packs or multiplies it."""
    return _packed_form(dot, target) is not None and _is_dequantised(dot, target)


def _is_dequantised(dot: Instruction, target: Target) -> bool:
    """Whether rhs is computed from less than its memory while it is packed or multiplied."""
    if dot.attributes["dimension_numbers"].rhs_batch:
        return False
    return _is_made_of_less(dot.operands[1], target, _LESS, read_once=False)


def _is_made_of_less(matrix: Instruction, target: Target, part: float, read_once: bool) -> bool:
    """Whether ``matrix`` can be computed in registers from at most a ``part`` of its memory."""
    while matrix.opcode in ("reshape", "transpose"):
        matrix = matrix.operands[0]
    most = matrix.elements * matrix.dtype.size * part
    weights = Weights(matrix.dims, target.costs, most_bytes=most, read_once=read_once)
    return weights.matrix(matrix) is not None


def _packed_form(dot: Instruction, target: Target) -> ProductForm | None:
    """The instructions with which ``dot`` can be generated with packing, if it is large enough for that."""
    if not target.packs_products or 0 in dot.dims or any(0 in o.dims for o in dot.operands):
        return None
    if streamed_sides(dot, target) is not None:
        return None
    lhs, rhs = (o.dtype for o in dot.operands)
    types = (lhs, rhs, accumulator(dot.dtype))
    form = product_forms.choose_dot(target, *types)
    if form is None:
        return None
    batch, m, n, k = sizes_of(dot)
    return form if product_costs.is_large_enough(form, (lhs, rhs), batch, m, n, k, target) else None


def accumulator(dtype: DType) -> DType:
    """The type that sums of ``dtype`` are done in: integers wrap whether they are narrowed before or after."""
    if dtype.is_integer:
        return dtype if dtype.bits >= 32 else dtypes.S32
    return dtypes.F32 if dtype in _SMALL_FLOATS else dtype


def is_gemm(dot: Instruction, target: Target) -> bool:
    """Whether ``dot`` becomes a gemm, a library's or a generated one, that may write its result transposed."""
    return form_of(dot, target) is not None or way_of(dot, target) is not None


def way_of(dot: Instruction, target: Target) -> Way | None:
    """How the library computes ``dot`` on ``target``; None if generated code does it better, or the library cannot."""
    if not is_worthwhile(dot, target) or streamed_sides(dot, target) is not None:
        return None
    lhs, rhs = dot.operands
    return way(DOT, (lhs.dtype, rhs.dtype, dot.dtype), target)


def match_dot(dot: Instruction, context: Context) -> Instruction | None:
    """The gemm that computes ``dot``, or None if a kernel that takes its operands as they are is better."""
    target = context.target
    preferred = form_of(dot, target, context.is_masked)
    found = _generated(dot, preferred, target) or _by_library(dot, target)
    if found is None and preferred is None:
        # The library may have no exact way that takes a reasonable amount of memory: long sums of small integers.
        found = _generated(dot, _packed_form(dot, target), target)
    return found


def match_packed_dot(dot: Instruction, context: Context) -> Instruction | None:
    """The gemm that computes ``dot`` in packed tiles, although a library may have it; None if it is too small."""
    return _generated(dot, _packed_form(dot, context.target), context.target)


def _generated(dot: Instruction, form: ProductForm | None, target: Target) -> Instruction | None:
    """The gemm that is generated with the instructions of ``form``."""
    if form is None:
        return None
    types = (dot.operands[0].dtype, dot.operands[1].dtype, form.result)
    gemm = make_gemm(_in_types(dot, types), target, repeats=True)
    if gemm is None:
        return None
    config = {**gemm.attributes["config"], "lanes": form.lanes}
    if dot.dtype in _SMALL_FLOATS:
        config["rounded"] = dot.dtype
    return convert(gemm.replace(attributes={"name": "gemm", "config": config}), dot.dtype)


def _by_library(dot: Instruction, target: Target) -> Instruction | None:
    """What computes ``dot`` with the library."""
    chosen = way_of(dot, target)
    if chosen is None:
        return None

    def multiply(dot: Instruction) -> Instruction | None:
        # oneDNN reorders no matrices of bytes that have a batch's dimension between all their neighbours.
        return make_gemm(_in_types(dot, chosen.types), target, rows=chosen.types[0].size == 1)

    if chosen.depth:
        return in_blocks(dot, chosen.depth, multiply)
    gemm = multiply(dot)
    return None if gemm is None else convert(gemm, dot.dtype)


def _in_types(dot: Instruction, types: Types) -> Instruction:
    """``dot`` with operands and result of other element types."""
    lhs, rhs, result = types
    if (lhs, rhs, result) == (*(o.dtype for o in dot.operands), dot.dtype):
        return dot
    return dot.replace(
        operands=[convert(dot.operands[0], lhs), convert(dot.operands[1], rhs)],
        shape=dot.shape.with_dtype(result),  # type: ignore[union-attr]
    )


def _unrepeated(operand: Operand) -> Operand:
    """``operand`` as it lies in the matrix that is broadcast along dimensions of the batch; itself if none is."""
    repeated, wide = operand.instruction, operand.instruction.dtype
    if repeated.opcode == "convert":
        repeated = repeated.operands[0]
    if repeated.opcode != "broadcast":
        return operand
    (source,) = repeated.operands
    outer = len(repeated.dims) - len(source.dims)
    if repeated.attributes["dimensions"] != tuple(range(outer, len(repeated.dims))):
        return operand
    size = source.elements
    if size == 0 or any(d.stride >= size for d in (*operand.free, *operand.contracting)):
        return operand
    batch = [Dimension(d.size, 0 if d.stride >= size else d.stride) for d in operand.batch]
    return Operand(convert(source, wide), batch, operand.free, operand.contracting)


def make_gemm(
    dot: Instruction, target: Target, rows: bool = False, repeats: bool = False
) -> Instruction | None:
    """The gemm of a dot; None if it has too many dimensions that do not merge. ``rows``: operands without neighbours in
    their rows or columns are transposed first. ``repeats``: a matrix that is broadcast to all of a batch is read where
    it lies, with strides of 0.
    """
    operands = merge_operands(dot)
    if rows and operands is not None and not all(map(_has_rows, operands)):
        operands = _both_transposed(dot)
    if operands is None:
        return None
    lhs, rhs = map(_unrepeated, operands) if repeats else operands
    assert isinstance(dot.shape, Shape)
    result = row_major(dot.dims)
    batch_rank = len(lhs.batch)
    batch, (lhs_batch, rhs_batch, result_batch) = merge_batch(
        lhs.batch, rhs.batch, result[:batch_rank]
    )
    if len(batch) > MAX_BATCH_DIMENSIONS:
        return None
    _, m, n, k = sizes_of(dot)
    config: dict[str, Any] = {
        "batch": tuple(batch),
        "m": m,
        "n": n,
        "k": k,
        "lhs_strides": (*lhs_batch, lhs.free[0].stride, lhs.contracting[0].stride),
        "rhs_strides": (*rhs_batch, rhs.contracting[0].stride, rhs.free[0].stride),
        "result_strides": (*result_batch, n, 1),
    }
    moved = lhs.instruction.shape.bytes + rhs.instruction.shape.bytes + dot.shape.bytes  # type: ignore[union-attr]
    config["cost_ns"] = target.costs.library.contraction_ns(
        math.prod(batch) * m * n * k, lhs.instruction.dtype, moved
    )
    return dot.derive(
        "library-call", (lhs.instruction, rhs.instruction), {"name": "gemm", "config": config}
    )


def fold_result_transpose(transpose: Instruction, context: Context) -> Instruction | None:
    """A transpose of a gemm's result, used nowhere else, becomes the strides with which the gemm writes."""
    gemm = transpose.operands[0]
    if (
        gemm.opcode != "library-call"
        or gemm.attributes["name"] != "gemm"
        or not context.is_only_use(gemm)
    ):
        return None
    config = gemm.attributes["config"]
    if config.get("epilogue") or not is_dense(config):
        return None
    written = row_major(transpose.dims)
    # dimensions[i] is the gemm dimension that result dimension i shows; place[d] where gemm dimension d went.
    permutation = transpose.attributes["dimensions"]
    place = [permutation.index(d) for d in range(len(permutation))]
    dimensions = [written[p] for p in place]
    groups = _split(dimensions, [*config["batch"], config["m"], config["n"]])
    if groups is None:
        return None
    merged = [merge(g) for g in groups]
    if any(d is None for d in merged):
        return None
    new = {**config, "result_strides": tuple(d.stride for d in merged if d is not None)}
    operands = gemm.operands
    if new["result_strides"][-1] != 1 and config["n"] > 1:
        # Columns are contiguous: compute the transposed product, so that oneDNN writes contiguous rows.
        if new["result_strides"][-2] != 1:
            return None
        if "lanes" in config:
            if config["m"] < config["lanes"]:
                return None
        elif operands[0].dtype is not operands[1].dtype:
            return None
        operands = operands[::-1]
        new |= {"m": config["n"], "n": config["m"]}
        new["lhs_strides"] = _swap_last(config["rhs_strides"])
        new["rhs_strides"] = _swap_last(config["lhs_strides"])
        new["result_strides"] = _swap_last(new["result_strides"])
    return gemm.replace(
        shape=transpose.shape, operands=operands, attributes={**gemm.attributes, "config": new}
    )


def _swap_last(values: tuple[int, ...]) -> tuple[int, ...]:
    return (*values[:-2], values[-1], values[-2])


def is_dense(config: dict[str, Any]) -> bool:
    """Whether a gemm of this configuration writes its result row by row."""
    dims = (*config["batch"], config["m"], config["n"])
    strides: tuple[int, ...] = config["result_strides"]
    return strides == tuple(strides_of(dims))


def _split(dimensions: list[Dimension], sizes: list[int]) -> list[list[Dimension]] | None:
    """Consecutive groups of ``dimensions`` whose sizes multiply to ``sizes``."""
    groups: list[list[Dimension]] = []
    position = 0
    for size in sizes:
        group: list[Dimension] = []
        product = 1
        while product < size or (position < len(dimensions) and dimensions[position].size == 1):
            if position == len(dimensions):
                return None
            group.append(dimensions[position])
            product *= dimensions[position].size
            position += 1
        if product != size:
            return None
        groups.append(group)
    return groups if all(d.size == 1 for d in dimensions[position:]) else None
