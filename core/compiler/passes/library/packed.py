"""Products that are generated with packing: a "gemm" becomes a ``pack`` of its right-hand side and a ``packed-dot``.

The rules that choose library calls have done their work: the call knows how its operands lie in memory, and what comes
before and after the product is part of it. Which products are better generated says :mod:`.product_costs`.
"""

from __future__ import annotations

import math
from collections.abc import Container, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ...codegen.kernels import product_forms
from ...codegen.kernels.product_forms import ProductForm
from ...ir import dtypes, errors
from ...ir.dtypes import DType
from ...ir.hlo import Computation, Instruction, Shape, constant, strides_of
from ...ir.moves import transpose
from ...ir.patterns import convert, reshape
from . import product_costs
from .swapped import swapped, turned_back
from .weights import Weights

if TYPE_CHECKING:
    from ...targets.costs import Products
    from ...targets.target import Target


# An array, and the strides of [batch..., rows, columns] in it.
Placed = tuple[Instruction, tuple[int, ...]]

# A constant of at most this size is packed when the program is compiled, which takes some 50 ms: the program holds it
# packed instead of as it was. Larger ones would make programs slower to compile, and larger where elements widen.
_PACKED_LITERAL_BYTES: Final = 1 << 24


def generate_product(
    call: Instruction,
    target: Target,
    fusions: dict[Hashable, Computation],
    kept: Container[Instruction] = (),
    *,
    shared: bool = False,
) -> Instruction | None:
    """What computes the gemm ``call``, if :func:`.gemm.match_dot` said that it is generated.

    ``kept``: values that are the same each time (:func:`..invariants.invariants_of`). ``shared``: rhs is in memory for
    another call too.
    """
    if call.opcode != "library-call" or "lanes" not in call.attributes["config"]:
        return None
    other = swapped(call, _form(call, target), target, kept)
    gemm = other or call
    product = packed_product(gemm, _form(gemm, target), target, fusions, kept, shared=shared)
    if product is None:
        raise _no_kernel(call)
    return product if other is None else turned_back(product, call)


def _form(call: Instruction, target: Target) -> ProductForm:
    lhs, rhs = call.operands[:2]
    form = product_forms.choose_dot(target, lhs.dtype, rhs.dtype, call.dtype)
    if form is None:
        raise _no_kernel(call)
    return form


def _no_kernel(call: Instruction) -> Exception:
    return errors.of_instruction("INTERNAL", "no kernel for this product", call)


def packed_product(
    gemm: Instruction,
    form: ProductForm,
    target: Target,
    fusions: dict[Hashable, Computation],
    kept: Container[Instruction],
    *,
    shared: bool,
) -> Instruction | None:
    """What computes ``gemm`` with ``form``; None if its result is not laid out for it or is too narrow."""
    config = gemm.attributes["config"]
    m, n, k = config["m"], config["n"], config["k"]
    costs = target.costs.products
    lhs = _left(_unconverted(gemm.operands[0], form.lhs), config, form, target)
    if lhs is None or config["result_strides"][-1] != 1:
        return None
    left, lhs_strides = lhs
    most_rows = None
    if left.dtype is form.lhs and k % form.group == 0:  # rows are read where they lie
        stride = lhs_strides[-2] * form.lhs.size
        most_rows = product_forms.rows_in_place(target.costs.memory, stride)
    right = _unconverted(gemm.operands[1], form.rhs)
    # What is packed once for a program or a loop is neither copied nor made by units of work.
    once = right in kept or _is_literal(right, form)
    whole = right
    if right.dtype.is_integer and right is not gemm.operands[1]:
        # Integers of [n, k] are converted and turned in registers, and computed ones are converted where they are.
        turns = config["rhs_strides"][-1] != 1
        if turns or Weights(right.dims, target.costs).matrix(right) is not None:
            whole = gemm.operands[1]
    made = _made(gemm, whole, form, target, shared=shared)
    inside = made is not None and _is_made_inside(made, form, m, target) and not once
    waits = not inside and _waits_for_rows(gemm, form, target)
    tile = product_forms.choose_tile(target.costs.tiles, form, m, n, most_rows, waits=waits)
    if tile is None:
        return None
    width = tile.vectors * form.lanes
    strides: tuple[int, ...] = config["rhs_strides"]
    rhs_strides: tuple[int, ...] = ()
    lies = made is None and (form.is_matrix or k % form.group == 0) and strides[-1] == 1
    same, parts = right.dtype is form.rhs, False
    small = form.group == 1 and same and k * n * form.rhs.size <= costs.direct
    if small and costs.direct_apart:
        small = strides[-2] * form.rhs.size % costs.direct_apart != 0
    if form.is_matrix:
        few = m <= target.costs.matrices.copied_rows and same
    else:
        # Rows a multiple of a way apart have few places in the second cache too.
        spread = strides[-2] * form.rhs.size % target.costs.memory.way != 0
        near = same and spread and k * n * form.rhs.size <= costs.copied_rhs
        # Rows of groups that are a part of a line are read with every panel that has another part of it.
        row = width * right.dtype.size if form.group > 1 else target.costs.memory.line
        parts = row < target.costs.memory.line and costs.first_parts > 0
        few = m * max(1, target.costs.memory.line // row) <= costs.copied_rows
        few = (
            (few or near) if not parts else few and k * n * form.rhs.size < _first_rhs(form, costs)
        )
    # With few rows in lhs few units read a part of rhs.
    first = not form.is_matrix and (not few or m >= costs.first_fewest)
    first = first and _copies_first(left, right, form, m, n, k, target, parts=parts)
    copies = lies and not small and (few or first) and not once
    direct = lies and (small or copies)
    if made is not None:
        right = made.matrix if inside else made.packed(gemm, form, width, fusions)
    elif direct:
        rhs_strides = strides[:-1]
    else:
        packed = _packed(gemm, right, form, width)
        if packed is None:
            return None
        right, rhs_strides = packed
    new: dict[str, Any] = {
        "batch": config["batch"],
        "m": m,
        "n": n,
        "k": k,
        "lhs_strides": lhs_strides,
        "rhs_strides": rhs_strides,
        "packed": not (direct or inside),
        "copies": copies or inside,
        "first": (first and copies) or inside,
        "result_strides": config["result_strides"],
        "rows": tile.rows,
        "width": width,
        "form": form,
    }
    new |= {name: config[name] for name in ("alpha", "epilogue", "rounded") if name in config}
    if made is not None and inside:
        new |= {"made": True, "turns": made.turns, "in_word": made.in_word}
    product = gemm.derive("packed-dot", (left, right, *gemm.operands[2:]), {"config": new})
    if made is None or made.weights is None or not inside:
        return product
    return made.weights.fusion([right], product, "packed-dot", fusions)


def _is_made_inside(made: _Made, form: ProductForm, m: int, target: Target) -> bool:
    """Whether units of a product of ``m`` rows compute the parts of a rhs that they use, and no memory holds it."""
    return made.weights is not None and not form.is_matrix and m <= target.costs.products.made_rows


def _copies_first(
    left: Instruction,
    right: Instruction,
    form: ProductForm,
    m: int,
    n: int,
    k: int,
    target: Target,
    *,
    parts: bool,
) -> bool:
    """Whether units of many rows copy the parts of rhs that they use, as fast as if it were packed: no memory holds it
    a second time. Floats are converted once. ``parts``: rows of panels are parts of lines; units of few rows do so too.
    """
    costs = target.costs.products
    same = form.lhs.is_integer or (left.dtype is form.lhs and right.dtype is form.rhs)
    lhs, rhs = m * k * form.lhs.size, k * n * form.rhs.size
    # What a single unit has all rows of is copied once; lhs is read again for each of the units.
    most, most_lhs = costs.first_operands, costs.first_lhs
    if parts:
        most = most_lhs = costs.first_parts
    near = lhs + rhs <= most or (m <= costs.first_rows and lhs <= most_lhs)
    return same and near and rhs >= _first_rhs(form, costs)


def _first_rhs(form: ProductForm, costs: Products) -> int:
    return costs.first_rhs if form.group == 1 else costs.first_grouped_rhs


def _waits_for_rows(gemm: Instruction, form: ProductForm, target: Target) -> bool:
    """Whether units of work that copy the parts of rhs that they read wait for each part of a row: rows half a way
    apart, or a multiple, share few places of the caches, and lines of bytes are longer than rows of usual panels.
    """
    config, costs, memory = gemm.attributes["config"], target.costs.products, target.costs.memory
    *_, apart, step = config["rhs_strides"]
    apart *= form.rhs.size
    large = form.group > 1 or config["k"] * config["n"] * form.rhs.size > costs.direct
    if step != 1 or not large or config["m"] > costs.copied_rows:
        return False
    parts = apart % memory.line == 0 and 2 * form.lanes * form.rhs.size < memory.line
    return parts or apart % (memory.way // 2) == 0


def _unconverted(operand: Instruction, dtype: DType) -> Instruction:
    """The smaller array that ``operand`` is converted from, if that has its values: kernels convert as they read."""
    if operand.opcode != "convert" or operand.dtype is not dtype or not dtype.is_float:
        return operand
    source = operand.operands[0]
    bits = {dtypes.F32: 24, dtypes.F64: 53}.get(dtype, 0)
    exact = source.dtype.is_float or (source.dtype.is_integer and source.dtype.bits < bits)
    return source if exact and source.dtype.size < dtype.size else operand


def _packed(gemm: Instruction, right: Instruction, form: ProductForm, width: int) -> Placed | None:
    """rhs in panels of ``width`` columns, and the strides of the batch dimensions in matrices."""
    config = gemm.attributes["config"]
    batch: tuple[int, ...] = config["batch"]
    n, k = config["n"], config["k"]
    literal = _is_literal(right, form)
    placed = (right, config["rhs_strides"]) if literal else _right(right, config, form.rhs)
    if placed is None:
        return None
    operand, strides = placed
    present = [d for d, stride in enumerate(strides[:-2]) if stride]
    sizes = tuple(batch[d] for d in present)
    dims = (math.prod(sizes), -(-n // width), form.groups(k), width, form.group)
    new = {
        "batch": sizes,
        "strides": (*(strides[d] for d in present), *strides[-2:]),
        "k": k,
        "n": n,
        "width": width,
        "group": form.group,
        "flip": form.flips,
    }
    shape = Shape(form.rhs, dims)
    if literal:
        values = packed_literal(right.attributes["literal"], shape, new)
        pack = constant(values, form.rhs, right.metadata)
    else:
        pack = gemm.derive("pack", (operand,), {"config": new}, shape=shape)
    matrices = [0] * len(batch)
    for d, step in zip(present, strides_of(sizes), strict=True):
        matrices[d] = step
    return pack, tuple(matrices)


@dataclass(frozen=True, slots=True)
class _Made:
    """A rhs that lies the other way round (``turns``), or that is computed (``weights``, unless that is None).

    ``in_word``: the neighbours along the contracted dimension that are taken out of one word.
    """

    matrix: Instruction
    weights: Weights | None
    turns: bool

    @property
    def in_word(self) -> int:
        return self.weights.in_word if self.weights is not None and self.turns else 1

    def packed(
        self,
        gemm: Instruction,
        form: ProductForm,
        width: int,
        fusions: dict[Hashable, Computation],
    ) -> Instruction:
        """What packs it for ``gemm`` in panels of ``width`` columns."""
        config = gemm.attributes["config"]
        n, k = config["n"], config["k"]
        new = {
            "batch": (),
            "strides": config["rhs_strides"],
            "k": k,
            "n": n,
            "width": width,
            "group": form.group,
            "flip": form.flips,
            "turns": self.turns,
            "in_word": self.in_word,
        }
        shape = Shape(form.rhs, (1, -(-n // width), form.groups(k), width, form.group))
        pack = gemm.derive("pack", (self.matrix,), {"config": new}, shape=shape)
        if self.weights is None:
            return pack
        return self.weights.fusion([self.matrix], pack, "pack", fusions)


def _made(
    gemm: Instruction, right: Instruction, form: ProductForm, target: Target, *, shared: bool
) -> _Made | None:
    """A matrix that lies the other way round, or that is computed; None if it is packed as it lies.

    A matrix that is ``shared`` is computed again only from arrays of half its size, as one of fewer bits is.
    """
    config = gemm.attributes["config"]
    n, k, strides = config["n"], config["k"], config["rhs_strides"]
    turns = strides == (1, k)
    if config["batch"] or not (form.turns_words or form.group == 1) or right.opcode == "constant":
        return None
    if form.rhs not in (dtypes.F32, dtypes.F64, dtypes.BF16) and not (form.turns_words and turns):
        return None
    dims = (n, k) if turns else (k, n)
    if not turns and strides != (n, 1):
        return None
    half = n * k * form.rhs.size // 2
    weights = Weights(dims, target.costs, most_bytes=half if shared else math.inf)
    matrix = weights.matrix(right)
    wide = dtypes.F32 if form.rhs is dtypes.BF16 else form.rhs
    if matrix is not None and matrix.dtype in (form.rhs, wide):
        return _Made(matrix, weights, turns)
    if not turns or right.elements != n * k or (form.turns_words and right.dtype is not form.rhs):
        return None
    return _Made(reshape(right, dims), None, turns)


def _is_literal(right: Instruction, form: ProductForm) -> bool:
    """Whether a matrix is packed when the program is compiled."""
    return (
        right.opcode == "constant"
        and right.dtype.size <= form.rhs.size
        and right.elements * form.rhs.size <= _PACKED_LITERAL_BYTES
    )


def packed_literal(
    literal: np.ndarray[Any, Any], shape: Shape, config: dict[str, Any]
) -> np.ndarray[Any, Any]:
    """What the ``pack`` of a constant gives: an array of ``shape``."""
    k, n, width, group = (config[name] for name in ("k", "n", "width", "group"))
    _, panels, groups, _, _ = shape.dims
    flat = np.ascontiguousarray(literal).reshape(-1)
    strides = [s * flat.itemsize for s in config["strides"]]
    matrices = np.lib.stride_tricks.as_strided(flat, (*config["batch"], k, n), strides)
    matrices = matrices.reshape(-1, k, n).astype(shape.dtype.numpy)
    if groups * group > k:
        matrices = np.pad(matrices, ((0, 0), (0, groups * group - k), (0, 0)))
    if config["flip"]:
        matrices = (matrices.view(np.uint8) ^ 0x80).view(matrices.dtype)
    packed = np.empty(shape.dims, matrices.dtype)
    for panel in range(panels):
        left = min(panel * width, n - width)
        part = matrices[:, :, left : left + width].reshape(-1, groups, group, width)
        packed[:, panel] = part.transpose(0, 1, 3, 2)
    return packed


def _left(
    operand: Instruction, config: dict[str, Any], form: ProductForm, target: Target
) -> Placed | None:
    """lhs as the kernel reads or copies it: neighbours along k are neighbours in memory where that matters."""
    strides: tuple[int, ...] = config["lhs_strides"]
    as_it_lies = form.group == 1 and operand.dtype is form.lhs
    if strides[-1] == 1 or (as_it_lies and not _is_turned_before(config, form, target)):
        return operand, strides
    sizes = (*config["batch"], config["m"], config["k"])
    turned = dense(operand, sizes, strides)
    return (operand, strides) if turned is None and as_it_lies else turned


def _is_turned_before(config: dict[str, Any], form: ProductForm, target: Target) -> bool:
    """Whether a lhs that does not lie as [m, k] is transposed in memory before the product."""
    m, n, k = config["m"], config["n"], config["k"]
    enough: bool = n >= target.costs.products.turned_columns
    return enough and product_costs.has_far_columns(m, k, form.lhs, target)


def _right(operand: Instruction, config: dict[str, Any], dtype: DType) -> Placed | None:
    """rhs with neighbouring columns in memory: so the kernel packs it in vectors, and converts it."""
    strides: tuple[int, ...] = config["rhs_strides"]
    if strides[-1] == 1:
        return operand, strides
    if operand.dtype.size > dtype.size:
        operand = convert(operand, dtype)
    return dense(operand, (*config["batch"], config["k"], config["n"]), strides)


def dense(operand: Instruction, sizes: tuple[int, ...], strides: tuple[int, ...]) -> Placed | None:
    """``operand``, an array of ``sizes`` with ``strides``, as a row-major array without the dimensions that repeat.

    None if there is more in its memory than that.
    """
    present = [
        d
        for d, (size, stride) in enumerate(zip(sizes, strides, strict=True))
        if stride and size > 1
    ]
    order = sorted(present, key=lambda d: -strides[d])
    stride = 1
    for d in reversed(order):
        if strides[d] != stride:
            return None
        stride *= sizes[d]
    if stride != operand.shape.elements:  # type: ignore[union-attr]
        return None
    kept = [d for d in range(len(sizes)) if d in present or d >= len(sizes) - 2]
    order += [d for d in kept if d not in present]
    value = reshape(operand, tuple(sizes[d] for d in order))
    value = transpose(value, [order.index(d) for d in kept])
    dims = tuple(sizes[d] for d in kept)
    new = [0] * len(sizes)
    for d, step in zip(kept, strides_of(dims), strict=True):
        new[d] = step
    return value, tuple(new)
