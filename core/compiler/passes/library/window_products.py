"""Convolutions that are generated: a "convolution" becomes a ``window-product``, and what its arrays need before.

A convolution without padding and base dilation is a sum of products over strided arrays
(:mod:`...codegen.kernels.window_product`), whose dimensions are those of its result (batch, groups, features,
positions) and those that it sums over (input features, the window). One of the first becomes the dimension of vectors,
another one that of the rows of tiles: the pair that takes the least time, rearranging arrays included. What is done
before:

* Padding becomes a ``pad`` of the input, which is fused with what makes the input, and with its conversion.
* A base dilation (the gradient of a strided convolution, a transposed one) becomes more output features: the results at
  positions that differ by a multiple of the dilation meet the same elements of the kernel, so a convolution without
  dilation computes all residues at each position, and the result is put in order behind it.
* An array whose elements are not neighbours along the vectors is transposed.

Integers of 8 and 16 bits, and bf16 where the CPU multiplies matrices of it, are multiplied in groups of neighbours
along the input features (:mod:`...codegen.kernels.product_forms`), integers exactly. Where both operands have a sign or
neither has one, the bytes of the input are flipped, and the sum of each feature's kernel makes up for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from ...codegen.kernels import product_forms
from ...codegen.kernels.product_forms import ProductForm
from ...ir import dtypes
from ...ir.dtypes import DType
from ...ir.hlo import (
    ConvolutionDimensionNumbers,
    Instruction,
    Shape,
    WindowDimension,
    constant,
    strides_of,
)
from ...ir.moves import concatenate, cut, pad, pad_dimension, sum_over, transpose
from ...ir.patterns import convert, reshape, splat_value
from .blocks import as_integers
from .gemm import accumulator

if TYPE_CHECKING:
    from ...targets.costs import Costs, Tiles
    from ...targets.target import Target

_BYTES: Final = frozenset((dtypes.S8, dtypes.U8))


def generate_convolution(convolution: Instruction, target: Target) -> Instruction | None:
    """What computes ``convolution`` without a library; None where a kernel of its own does (complex numbers, pred)."""
    if not target.packs_products or 0 in convolution.dims:
        return None
    if any(0 in o.dims for o in convolution.operands):
        return None
    lhs, rhs = (o.dtype for o in convolution.operands)
    form = product_forms.choose(target, lhs, rhs, accumulator(convolution.dtype))
    if form is None or lhs.is_float != convolution.dtype.is_float:
        return None
    return _Generated(target, form).compute(convolution)


@dataclass(slots=True)
class _Generated:
    """``made``: the inputs that were padded and rearranged, which all residues of a dilated one share."""

    target: Target
    form: ProductForm
    made: dict[tuple[Any, ...], Instruction] = field(default_factory=dict)

    def once(
        self, rewritten: Callable[..., Instruction], operand: Instruction, *how: Any
    ) -> Instruction:
        """``rewritten(operand, *how)``, made once."""
        key = (rewritten.__name__, operand, *(tuple(h) if isinstance(h, list) else h for h in how))
        if key not in self.made:
            self.made[key] = rewritten(operand, *how)
        return self.made[key]

    def compute(self, convolution: Instruction) -> Instruction:
        convolution = _without_reversal(convolution)
        windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
        for d, w in enumerate(windows):
            if w.base_dilation == 1:
                continue
            simple = w.stride == 1 and w.window_dilation == 1
            if simple and convolution.attributes["batch_group_count"] == 1:
                return self.by_residue(convolution, d)
        return self.product(self.padded(convolution))

    def by_residue(self, convolution: Instruction, d: int) -> Instruction:
        """``convolution`` without the base dilation s of spatial dimension ``d``.

        Position y of the result sums over the kernel's k with y + k - p = s i for some i. With y = p + s q - r and
        k = s j + r, for 0 <= r < s, that is i = q + j: a convolution without dilation, whose kernel has each s-th
        element, for each residue r. Kernels of residues below size % s have an element more than the others.
        """
        windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
        numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
        w = windows[d]
        s, low = w.base_dilation, w.padding_low
        lhs, rhs = convolution.operands
        size = convolution.dims[numbers.output_spatial[d]]
        first = -(low // s)  # the smallest and the largest q
        last = -((low - (size - 1)) // s)
        length = last - first + 1
        groups = convolution.attributes["feature_group_count"]
        features = convolution.dims[numbers.output_feature] // groups
        at = numbers.kernel_spatial[d]
        parts = []
        for begin, end, elements in (
            (0, w.size % s, w.size // s + 1),
            (w.size % s, s, w.size // s),
        ):
            residues = end - begin
            if residues == 0:
                continue
            dims = list(convolution.dims)
            dims[numbers.output_spatial[d]] = length
            dims[numbers.output_feature] *= residues
            shape = Shape(convolution.dtype, tuple(dims))
            if elements == 0:
                parts.append(splat_value(0, Instruction("parameter", shape, (), {"index": 0})))
            else:
                kernel = resized(rhs, at, elements * s)
                # [..., elements, s, ...], of which the residues become output features.
                kernel = reshape(kernel, (*rhs.dims[:at], elements, s, *rhs.dims[at + 1 :]))
                kernel = cut(kernel, at + 1, begin, end)
                kernel = _with_features(kernel, at + 1, numbers.kernel_output_feature, groups)
                # Padded for the longest kernel, and so once for all of them.
                most = -(-w.size // s)
                high = length + most - 1 + first - lhs.dims[numbers.input_spatial[d]]
                window = WindowDimension(elements, 1, -first, high)
                parts.append(
                    self.compute(
                        convolution.replace(
                            operands=(lhs, kernel),
                            shape=shape,
                            attributes={
                                **convolution.attributes,
                                "window": (*windows[:d], window, *windows[d + 1 :]),
                            },
                        )
                    )
                )
        # Features as [groups, residues, features], residues to behind their dimension, backwards.
        f, y = numbers.output_feature, numbers.output_spatial[d]
        split = []
        for part in parts:
            dims = list(part.dims)
            dims[f : f + 1] = [groups, part.dims[f] // (groups * features), features]
            split.append(reshape(part, dims))
        joined = split[0] if len(split) == 1 else concatenate(split, f + 1)
        order = [n for n in range(len(joined.dims)) if n != f + 1]
        order.insert(order.index(y if y < f else y + 2) + 1, f + 1)
        joined = convolution.derive(
            "reverse", (joined,), {"dimensions": (f + 1,)}, shape=joined.shape
        )
        ordered = transpose(joined, order)
        dims = list(convolution.dims)
        dims[y] = length * s
        start = s - 1 - low % s
        return cut(reshape(ordered, dims), y, start, start + size)

    def padded(self, convolution: Instruction) -> Instruction:
        """``convolution`` with its padding and base dilation in its input."""
        windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
        numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
        lhs, rhs = convolution.operands
        low, high, interior = ([0] * len(lhs.dims) for _ in range(3))
        for d, w in zip(numbers.input_spatial, windows, strict=True):
            low[d], high[d], interior[d] = w.padding_low, w.padding_high, w.base_dilation - 1
        plain = tuple(replace(w, padding_low=0, padding_high=0, base_dilation=1) for w in windows)
        return convolution.replace(
            operands=(self.once(pad_with_zeros, lhs, low, high, interior), rhs),
            attributes={**convolution.attributes, "window": plain},
        )

    def product(self, convolution: Instruction) -> Instruction:
        """``convolution``, which has no padding and no base dilation."""
        lhs, rhs = convolution.operands
        form = self.form
        matrix = product_forms.choose_matrix(self.target, lhs.dtype, rhs.dtype, form.result)
        if matrix is not None:
            found = _with_matrices(convolution, matrix, self.target.costs.tiles)
            if found is not None:
                return _finish(found, convolution)
        if form.group > 1:
            grouped = _InGroups.of(convolution, form)
            if grouped is not None:
                return _finish(grouped.compute(self.target.costs.tiles), convolution)
            form = _ungrouped(form, self.target)
        call = _Arrangement(
            convolution, self.once(convert, lhs, form.lhs), convert(rhs, form.rhs), form
        ).compute(self)
        return _finish(call, convolution)


def _with_matrices(convolution: Instruction, form: ProductForm, costs: Tiles) -> Instruction | None:
    """``convolution`` in the registers of matrices; few output features are padded to the columns of one."""
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    feature = numbers.output_feature
    outputs = convolution.dims[feature]
    if outputs >= form.lanes or _groups(convolution) > 1:
        grouped = _InGroups.of(convolution, form)
        return None if grouped is None else grouped.compute(costs)
    dims = list(convolution.dims)
    dims[feature] = form.lanes
    lhs, rhs = convolution.operands
    wide = convolution.replace(
        operands=(lhs, resized(rhs, numbers.kernel_output_feature, form.lanes)),
        shape=Shape(convolution.dtype, tuple(dims)),
    )
    grouped = _InGroups.of(wide, form)
    return None if grouped is None else cut(grouped.compute(costs), feature, 0, outputs)


def _written(convolution: Instruction, form: ProductForm) -> DType:
    """What a kernel writes: floats are rounded to the result's type before they are written, integers behind it."""
    return convolution.dtype if form.result.is_float else form.result


def _finish(call: Instruction, convolution: Instruction) -> Instruction:
    if convolution.dtype.is_integer:
        return as_integers(call, convolution.dtype) if call.dtype is not convolution.dtype else call
    return convert(call, convolution.dtype)


def _ungrouped(form: ProductForm, target: Target) -> ProductForm:
    """A form for the same result whose operands are multiplied one by one."""
    found = product_forms.choose(target, form.result, form.result, form.result)
    assert found is not None
    assert found.group == 1
    return found


# ------------------------------------------------------------------------------------------- dimensions and strides


def _groups(convolution: Instruction) -> int:
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


def _dimensions(
    convolution: Instruction, lhs: Sequence[int], rhs: Sequence[int], group: int
) -> list[ProductDimension]:
    """The dimensions of a convolution of arrays with these strides; ``group``: that of a group's kernels."""
    numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    by_features: int = convolution.attributes["feature_group_count"]
    by_batch: int = convolution.attributes["batch_group_count"]
    kernel = convolution.operands[1].dims
    groups = _groups(convolution)
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


def _joined_positions(dimensions: list[ProductDimension]) -> list[ProductDimension]:
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


def _shared_terms(
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


class _Arrangement:
    """The best choice of vectors and rows for a convolution without padding, for a form without groups."""

    def __init__(
        self, convolution: Instruction, lhs: Instruction, rhs: Instruction, form: ProductForm
    ) -> None:
        self.convolution, self.lhs, self.form = convolution, lhs, form
        self.numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
        # The kernel, with [groups, features] for the output features.
        self.feature = self.numbers.kernel_output_feature
        groups = _groups(convolution)
        split = (groups, rhs.dims[self.feature] // groups)
        dims = (*rhs.dims[: self.feature], *split, *rhs.dims[self.feature + 1 :])
        self.rhs = reshape(rhs, dims)

    def compute(self, maker: _Generated) -> Instruction:
        plan = min(self.plans(maker.target.costs), key=lambda p: p.cycles)
        lhs = maker.once(_in_order, self.lhs, plan.lhs)
        rhs = _in_order(self.rhs, plan.rhs)
        form = replace(self.form, lanes=plan.tile.lanes)
        return emit_product(
            self.convolution, lhs, rhs, plan, form, dtype=_written(self.convolution, form)
        )

    def orders(self) -> Iterator[tuple[Sequence[int] | None, Sequence[int] | None]]:
        """Orders of the operands' dimensions to try: as they are, and with one of them as the minor one."""
        n = self.numbers
        minor = [None, n.input_feature, n.input_batch]
        minor += n.input_spatial[-1:]
        kernels = [None, self.feature, self.feature + 1]
        for left in dict.fromkeys(minor):
            for right in dict.fromkeys(kernels):
                yield (
                    _with_minor(len(self.lhs.dims), left),
                    _with_minor(len(self.rhs.dims), right),
                )

    def plans(self, costs: Costs) -> Iterator[ProductPlan]:
        result_minor = len(self.convolution.dims) - 1
        elements = [math.prod(x.dims) for x in (self.lhs, self.rhs, self.convolution)]
        found = False
        for left, right in self.orders():
            dimensions = self.dimensions(left, right)
            terms = math.prod(d.size for d in dimensions if d.result is None)
            moved = (elements[0] if left else 0) + (elements[1] if right else 0)
            free = [d for d in dimensions if d.result is not None]
            for vector in free:
                if vector.lhs > 1 or vector.rhs > 1:
                    continue
                assert vector.result is not None
                rest = [d for d in free if d is not vector]
                beside = [
                    d for d in rest if d.result is not None and d.result[0] == vector.result[0]
                ]
                behind = vector.result[0] != result_minor or any(d.name == "output" for d in beside)
                lines = self.lines(vector, dimensions, costs.memory.line)
                for row in rest or [_ONE]:
                    shared = _shared_terms(row, vector, dimensions)
                    tile = choose_tile(costs.tiles, self.form, row, vector, lines, shared)
                    if tile is None:
                        continue
                    outside = math.prod(d.size for d in rest if d is not row)
                    cycles = tile.cycles * outside * terms + outside * costs.tiles.window_start
                    # Neighbouring rows of a tile better are neighbours in memory.
                    cycles *= 1 + 1e-3 * math.log2(1 + abs(row.lhs) + abs(row.rhs))
                    cycles += costs.tiles.moved * (moved + (elements[2] if behind else 0))
                    found = True
                    yield ProductPlan(left, right, row, vector, dimensions, tile, cycles)
        if not found:  # a scalar, or nothing with neighbours: one number at a time
            dimensions = self.dimensions(None, None)
            yield ProductPlan(None, None, _ONE, _ONE, dimensions, PlannedTile(1, 1, 1, 1.0), 0.0)

    def lines(
        self, vector: ProductDimension, dimensions: Sequence[ProductDimension], line: int
    ) -> tuple[float, float]:
        """How many lines of memory a vector of each operand lies in: it begins where any of the other dimensions is."""

        def of(own: int, strides: list[int], dtype: DType) -> float:
            aligned = not own or all(s % self.form.lanes == 0 for s in strides)
            return 1.0 if aligned else 1.0 + self.form.lanes * dtype.size / line

        others = [d for d in dimensions if d is not vector]
        return (
            of(vector.lhs, [d.lhs for d in others], self.form.lhs),
            of(vector.rhs, [d.rhs for d in others], self.form.rhs),
        )

    def dimensions(
        self, left: Sequence[int] | None, right: Sequence[int] | None
    ) -> list[ProductDimension]:
        """Those of the convolution of the operands in these orders, without those of size 1."""
        strides = strides_of(self.rhs.dims, right)
        group = strides.pop(self.feature)
        lhs = strides_of(self.lhs.dims, left)
        found = [d for d in _dimensions(self.convolution, lhs, strides, group) if d.size > 1]
        return _joined_positions(found)


_ONE: Final = ProductDimension("one", 1, 0, 0, (-1, 0))


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
        swapped = {d: replace(d, lhs=d.rhs, rhs=d.lhs) for d in [*plan.dimensions, _ONE]}
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
    if plan.vector != _ONE:
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


# ---------------------------------------------------------------------------------------------- groups of small numbers


@dataclass(slots=True)
class _InGroups:
    """A convolution of small numbers whose products are summed in groups of input features."""

    convolution: Instruction
    form: ProductForm
    lhs: Instruction
    rhs: Instruction
    inputs: int  # input features of a group of the convolution, a multiple of those that one instruction sums

    @staticmethod
    def of(convolution: Instruction, form: ProductForm) -> _InGroups | None:
        """None if too few features are summed to fill groups, or too few computed to fill a vector."""
        numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
        lhs, rhs = convolution.operands
        groups = _groups(convolution)
        inputs = rhs.dims[numbers.kernel_input_feature]
        outputs = convolution.dims[numbers.output_feature] // groups
        padded = -(-inputs // form.step) * form.step
        fewest = form.lanes if form.is_matrix else 4
        if inputs * 2 < form.step or outputs < fewest or (groups > 1 and padded != inputs):
            return None
        lhs = resized(
            lhs, numbers.input_feature, padded * (lhs.dims[numbers.input_feature] // inputs)
        )
        rhs = resized(rhs, numbers.kernel_input_feature, padded)
        return _InGroups(convolution, form, lhs, rhs, padded)

    def compute(self, costs: Tiles) -> Instruction:
        form, convolution = self.form, self.convolution
        numbers: ConvolutionDimensionNumbers = convolution.attributes["dimension_numbers"]
        lhs, rhs = self.lhs, self.rhs
        bias = None
        if form.correction:
            flipped = dtypes.U8 if lhs.dtype is dtypes.S8 else dtypes.S8
            factor = -128 if lhs.dtype is dtypes.S8 else 128
            bias = _feature_sums(rhs, numbers.kernel_output_feature, factor)
            lhs = _flipped(lhs, flipped)
            form = replace(form, lhs=flipped, correction=0)
        lhs, rhs = convert(lhs, form.lhs), convert(rhs, form.rhs)
        left = _with_minor(len(lhs.dims), numbers.input_feature)
        lhs = _in_order(lhs, left)
        left_strides = strides_of(self.lhs.dims, left)
        # The kernel as [spatial..., inputs / group, outputs, group].
        o, i = numbers.kernel_output_feature, numbers.kernel_input_feature
        order = [d for d in range(len(rhs.dims)) if d not in (o, i)]
        rest = [rhs.dims[d] for d in order]
        rhs = transpose(rhs, [*order, i, o])
        blocks = self.inputs // form.group
        rhs = reshape(rhs, (*rest, blocks, form.group, rhs.dims[-1]))
        n = len(rest)
        rhs = transpose(rhs, [*range(n), n, n + 2, n + 1])
        strides = strides_of(rhs.dims)
        right_strides = [0] * len(convolution.operands[1].dims)
        for place, dimension in enumerate(order):
            right_strides[dimension] = strides[place]
        right_strides[o], right_strides[i] = strides[n + 1], strides[n]
        given = convolution.replace(operands=(self.lhs, self.rhs))
        dimensions = []
        outputs = convolution.dims[numbers.output_feature] // _groups(convolution)
        group = right_strides[o] * outputs
        for d in _dimensions(given, left_strides, right_strides, group):
            if d.name == "input":
                d = replace(d, size=blocks, lhs=form.group)
            if d.size > 1:
                dimensions.append(d)
        vector = next(d for d in dimensions if d.name == "output")
        best = None
        rows = [d for d in dimensions if d.result is not None and d is not vector]
        if bias is not None:  # all rows of a tile are given one bias, which depends on the group
            rows = [d for d in rows if d.name != "group"]
        if form.is_matrix:  # whose rows are multiplied by one matrix
            rows = [d for d in rows if not d.rhs]
        for row in rows or [_ONE]:
            tile = self.tile(costs, form, row, vector)
            cycles = tile.cycles / row.size if tile is not None else math.inf
            if tile is not None and (best is None or cycles < best.cycles):
                best = ProductPlan(None, None, row, vector, dimensions, tile, cycles)
        assert best is not None
        if not form.is_matrix:
            form = _narrowed(form, best.tile.lanes)
        dtype = _written(convolution, form)
        return emit_product(convolution, lhs, rhs, best, form, bias, dtype)

    @staticmethod
    def tile(
        costs: Tiles, form: ProductForm, row: ProductDimension, vector: ProductDimension
    ) -> PlannedTile | None:
        """The tile that takes the least time; None if there are too few vectors for one."""
        if not form.is_matrix:
            return choose_tile(costs, form, row, vector)
        cost, tile = product_forms.choose_matrix_tile(form, row.size, vector.size)
        return PlannedTile(tile.rows, tile.vectors, form.lanes, cost / 2)


def _narrowed(form: ProductForm, lanes: int) -> ProductForm:
    """``form`` with vectors of ``lanes`` results, of which 4 fill the narrowest registers."""
    bits = 32 * lanes
    if "pmadd" in form.instruction:
        names = {128: "sse2.pmadd.wd", 256: "avx2.pmadd.wd", 512: "avx512.pmaddw.d.512"}
        return replace(form, lanes=lanes, instruction=f"llvm.x86.{names[bits]}")
    name = form.instruction.rpartition(".")[0]
    return replace(form, lanes=lanes, instruction=f"{name}.{bits}" if name else "")


def _feature_sums(rhs: Instruction, feature: int, factor: int) -> Instruction:
    """``factor`` times the sum of the kernel of each output feature, in s32."""
    wide = convert(rhs, dtypes.S32)
    sums = sum_over(wide, [d for d in range(len(rhs.dims)) if d != feature], rhs.metadata)
    return Instruction("multiply", sums.shape, (sums, splat_value(factor, sums)))


def _flipped(operand: Instruction, dtype: DType) -> Instruction:
    """Bytes with their highest bit flipped, as ``dtype``: s8 + 128 in u8, or u8 - 128 in s8."""
    bit = splat_value(128 if operand.dtype is dtypes.U8 else -128, operand)
    changed = operand.derive("xor", (operand, bit))
    shape = Shape(dtype, operand.dims)
    return operand.derive("bitcast-convert", (changed,), shape=shape)


# ------------------------------------------------------------------------------------------------- small rewritings


def _without_reversal(convolution: Instruction) -> Instruction:
    windows: tuple[WindowDimension, ...] = convolution.attributes["window"]
    spatial = convolution.attributes["dimension_numbers"].kernel_spatial
    flip = tuple(d for d, w in zip(spatial, windows, strict=True) if w.reversal and w.size > 1)
    if not any(w.reversal for w in windows):
        return convolution
    lhs, rhs = convolution.operands
    if flip:
        rhs = rhs.derive("reverse", (rhs,), {"dimensions": flip})
    plain = tuple(replace(w, reversal=False) for w in windows)
    return convolution.replace(
        operands=(lhs, rhs), attributes={**convolution.attributes, "window": plain}
    )


def pad_with_zeros(
    operand: Instruction,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int] | None = None,
) -> Instruction:
    zero = constant(0, operand.dtype)
    return pad(operand, zero, low, high, interior)


def resized(operand: Instruction, dimension: int, size: int) -> Instruction:
    """``operand`` with zeros behind, or without the last elements of, ``dimension``."""
    zero = constant(0, operand.dtype)
    return pad_dimension(operand, zero, dimension, 0, size - operand.dims[dimension])


def _in_order(operand: Instruction, order: Sequence[int] | None) -> Instruction:
    return operand if order is None else transpose(operand, order)


def _with_minor(rank: int, dimension: int | None) -> list[int] | None:
    """The order of dimensions with ``dimension`` as the minor one; None if they are so already."""
    if dimension is None or dimension == rank - 1:
        return None
    return [*(d for d in range(rank) if d != dimension), dimension]


def _with_features(kernel: Instruction, residue: int, feature: int, groups: int) -> Instruction:
    """``kernel`` with dimension ``residue`` as a part of its output features: [groups, residues, features].

    ``feature``: which dimension the output features are without that of the residues.
    """
    residues = kernel.dims[residue]
    if feature >= residue:
        feature += 1
    dims = list(kernel.dims)
    dims[feature : feature + 1] = [groups, kernel.dims[feature] // groups]
    split = reshape(kernel, dims)
    moved = residue + (residue > feature)
    order = [d for d in range(len(dims)) if d != moved]
    order.insert(order.index(feature) + 1, moved)
    ordered = transpose(split, order)
    at = order.index(feature)
    features = ordered.dims[at] * residues * ordered.dims[at + 2]
    return reshape(ordered, (*ordered.dims[:at], features, *ordered.dims[at + 3 :]))
