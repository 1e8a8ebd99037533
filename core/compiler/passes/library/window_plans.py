"""The dimensions of a convolution without padding, and the tiles in which a ``window-product`` computes it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ...codegen.kernels.product_forms import ProductForm
from ...ir.dtypes import DType
from ...ir.hlo import (
    ConvolutionDimensionNumbers,
    Instruction,
    Shape,
    WindowDimension,
    strides_of,
)
from ...ir.moves import transpose
from ...ir.patterns import reshape

if TYPE_CHECKING:
    from ...targets.costs import Tiles


def groups_of(convolution: Instruction) -> int:
    by_features: int = convolution.attributes["feature_group_count"]
    by_batch: int = convolution.attributes["batch_group_count"]
    return max(by_features, by_batch)


@dataclass(frozen=True, slots=True)
class ProductDimension:
    """A dimension of the result (``result``: which, and in which order within it) or, without, of its sums."""

    name: str
    size: int
    lhs: int
    rhs: int
    result: tuple[int, int] | None = None


def dimensions_of(
    convolution: Instruction, lhs: Sequence[int], rhs: Sequence[int], group: int
) -> list[ProductDimension]:
    """The dimensions of a convolution of arrays with these strides; ``group``: that of a group's kernels."""
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    by_features: int = convolution.attributes["feature_group_count"]
    by_batch: int = convolution.attributes["batch_group_count"]
    kernel = convolution.operands[1].dims
    groups = groups_of(convolution)
    inputs = kernel[numbers.kernel_input_feature]
    outputs = convolution.dims[numbers.output_feature] // groups
    batch = convolution.dims[numbers.output_batch]
    stride_i, stride_o = rhs[numbers.kernel_input_feature], rhs[numbers.kernel_output_feature]
    apart = inputs * lhs[numbers.input_feature] if by_features > 1 else 0
    apart = batch * lhs[numbers.input_batch] if by_batch > 1 else apart
    feature = numbers.output_feature
    found = [
        ProductDimension("group", groups, apart, group, (feature, 0)),
        ProductDimension("batch", batch, lhs[numbers.input_batch], 0, (numbers.output_batch, 0)),
        ProductDimension("output", outputs, 0, stride_o, (feature, 1)),
        ProductDimension("input", inputs, lhs[numbers.input_feature], stride_i),
    ]
    for n, w in enumerate(windows):
        step = lhs[numbers.input_spatial[n]]
        y = numbers.output_spatial[n]
        found.append(ProductDimension(f"at{n}", convolution.dims[y], step * w.stride, 0, (y, 0)))
        along = rhs[numbers.kernel_spatial[n]]
        found.append(ProductDimension(f"window{n}", w.size, step * w.window_dilation, along))
    return found


def joined_positions(dimensions: list[ProductDimension]) -> list[ProductDimension]:
    """``dimensions`` with those as one whose positions follow each other in the input and in the result, as they do
    where windows have one element: a tile need not end where a row of the image does.
    """
    free = [d for d in dimensions if d.result is not None]
    joined: list[ProductDimension] = []
    for d in sorted(free, key=lambda d: d.result or ()):
        last = joined[-1] if joined else None
        if last is not None and _are_positions(last, d) and last.lhs == d.size * d.lhs:
            joined[-1] = replace(d, size=last.size * d.size)
        else:
            joined.append(d)
    rest = [d for d in dimensions if not _are_positions(d)]
    return [*rest, *(d for d in joined if _are_positions(d))]


def _are_positions(*dimensions: ProductDimension) -> bool:
    """Whether moving on along each of ``dimensions`` reads other elements of the input and the same kernel."""
    return all(d.result is not None and d.lhs and not d.rhs for d in dimensions)


@dataclass(frozen=True, slots=True)
class PlannedTile:
    rows: int
    vectors: int
    lanes: int
    cycles: float  # for a term, of all tiles of rows by vectors


def choose_tile(
    costs: Tiles,
    form: ProductForm,
    row: ProductDimension,
    vector: ProductDimension,
    lines: tuple[float, float] = (1.0, 1.0),
    shared: int = 1,
) -> PlannedTile | None:
    """The tile that takes the least time; the last tiles are moved back. ``lines``: those that a vector of each operand
    lies in. ``shared``: neighbouring terms that read the same scalars for other rows.
    """
    registers = 32 if form.rows > 6 else 16
    best: PlannedTile | None = None
    lanes = form.lanes
    while lanes > vector.size:
        lanes //= 2
    if lanes < 1 or (lanes < 2 and form.lanes > 1):
        return None
    # Multiplications and additions of their own need a register more, and twice the time.
    single = 1.0 if (form.name == "fma" and form.instruction) or form.name == "quadruples" else 0.5
    for vectors in range(1, 9):
        if vector.size < vectors * lanes:
            break
        panels = -(-vector.size // (vectors * lanes))
        for rows in range(1, min(row.size, 24) + 1):
            right = (rows if row.rhs else 1) * (vectors if vector.rhs else 1)
            left = (rows if row.lhs else 1) * (vectors if vector.lhs else 1)
            loads = left * lines[0] + right * lines[1]
            # LLVM loads a scalar once for all rows of the terms that are written out. Of 16 registers, which have no
            # scalar in memory as an operand, those stay taken: 4 rows by 3 vectors spilled, at half of the speed.
            scalars = min(shared, rows) if registers == 16 else 1
            kept = rows * vectors + min(vectors, right) + scalars
            if kept > registers - (0 if single == 1.0 else 2):
                break
            tiles = -(-row.size // rows) * panels
            step = costs.cycles(rows * vectors / single, loads)
            # Of tiles that take as long, the one that reads less.
            step += 0.1 * vectors
            cycles = tiles * (step + costs.window_step)
            if best is None or cycles < best.cycles * 0.995:
                best = PlannedTile(rows, vectors, lanes, cycles)
    return best


def shared_terms(
    row: ProductDimension, vector: ProductDimension, dimensions: Sequence[ProductDimension]
) -> int:
    """How many neighbouring terms read each other's scalars, for other rows: the elements of a window, if these are the
    terms that follow each other and a step to the next row reads as far on as one to the next element.
    """
    sums = [d for d in dimensions if d.result is None]
    if not sums or (vector.lhs and vector.rhs):
        return 1
    if vector.rhs:
        inner = min(sums, key=lambda d: d.rhs)
        step, along = row.lhs, inner.lhs
    else:  # the kernel takes them for each other
        inner = min(sums, key=lambda d: d.lhs)
        step, along = row.rhs, inner.rhs
    return inner.size if step == along != 0 else 1


@dataclass(slots=True)
class ProductPlan:
    lhs: Sequence[int] | None  # the order of the dimensions in memory; None: as they are
    rhs: Sequence[int] | None
    row: ProductDimension
    vector: ProductDimension
    dimensions: list[ProductDimension]
    tile: PlannedTile
    cycles: float


def written_type(convolution: Instruction, form: ProductForm) -> DType:
    """What a kernel writes: floats are rounded to the result's type before they are written, integers behind it."""
    return convolution.dtype if form.result.is_float else form.result


ONE: Final = ProductDimension("one", 1, 0, 0, (-1, 0))


def emit_product(
    convolution: Instruction,
    lhs: Instruction,
    rhs: Instruction,
    plan: ProductPlan,
    form: ProductForm,
    bias: Instruction | None = None,
    dtype: DType | None = None,
) -> Instruction:
    """The ``window-product`` of ``plan``, and its result in the order of the convolution's.

    ``dtype``: what its kernel rounds sums to; None if it gives them as they are.
    """
    if plan.vector.rhs == 0:  # the kernel takes what it loads in vectors for rhs
        swapped = {d: replace(d, lhs=d.rhs, rhs=d.lhs) for d in [*plan.dimensions, ONE]}
        plan = replace(
            plan,
            row=swapped[plan.row],
            vector=swapped[plan.vector],
            dimensions=[swapped[d] for d in plan.dimensions],
        )
        lhs, rhs = rhs, lhs
    free = [d for d in plan.dimensions if d.result is not None]
    # The result as the kernel writes it: the dimensions of the convolution's in order, the vectors last.
    ordered = sorted((d for d in free if d != plan.vector), key=lambda d: d.result or ())
    if plan.vector != ONE:
        ordered.append(plan.vector)
    strides = dict(zip(ordered, strides_of([d.size for d in ordered]), strict=True))
    outer = [d for d in ordered if d not in (plan.row, plan.vector)]
    sums = sorted((d for d in plan.dimensions if d.result is None), key=lambda d: -d.rhs)
    merged: list[tuple[int, int, int]] = []
    for d in sums:
        if merged and merged[-1][1:] == (d.size * d.lhs, d.size * d.rhs):
            merged[-1] = (merged[-1][0] * d.size, d.lhs, d.rhs)
        else:
            merged.append((d.size, d.lhs, d.rhs))

    def placed(d: ProductDimension) -> tuple[int, int, int, int]:
        return d.size, d.lhs, d.rhs, strides.get(d, 0)

    config: dict[str, Any] = {
        "outer": tuple(placed(d) for d in outer),
        "row": placed(plan.row),
        "vector": (*placed(plan.vector)[:3], 1),
        "sums": tuple(merged),
        "rows": plan.tile.rows,
        "vectors": plan.tile.vectors,
        "form": form,
    }
    operands = [lhs, rhs]
    if bias is not None:
        operands.append(bias)
        # Of [groups, features]: the strides of the outer dimensions.
        width = next((d.size for d in free if d.name == "output"), 1)
        config["bias"] = tuple(width if d.name == "group" else 0 for d in outer)
    product = convolution.derive(
        "window-product",
        operands,
        {"config": config},
        shape=Shape(dtype or form.result, tuple(d.size for d in ordered)),
    )
    wanted = sorted(ordered, key=lambda d: d.result or ())
    return reshape(transpose(product, [ordered.index(d) for d in wanted]), convolution.dims)
