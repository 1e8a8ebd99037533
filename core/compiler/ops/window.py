"""Ops that look through a window: reduce-window and select-and-scatter. ``window``: a WindowDimension for each
dimension of the operand.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from ..formats.hlo_proto import window_field
from ..importer import hlo_instructions, ops_reduction
from ..ir import dtypes
from ..ir.cost import elements_of_operands
from ..ir.hlo import AnyShape, Instruction, Shape, WindowDimension
from ..ir.registry import ANY, WORTH, Array, both, register
from ..ir.shape_rules import (
    arrays_of,
    check_signature,
    one_or_tuple,
    reduced_operands,
    require,
    window_size,
)
from ..reference.evaluate import evaluate_elementwise, fold, pad_array
from .kernels import kernel


def _reduce_window_shape(instruction: Instruction) -> AnyShape:
    arrays, accumulators = reduced_operands(instruction)
    window = instruction.attributes["window"]
    require(len(window) == arrays[0].rank, "the window does not have the operand's rank")
    dims = tuple(window_size(s, w) for s, w in zip(arrays[0].dims, window, strict=True))
    return one_or_tuple([Shape(a.dtype, dims) for a in accumulators])


def _select_and_scatter_shape(instruction: Instruction) -> Shape:
    operand, source, initial = arrays_of(instruction)
    window = instruction.attributes["window"]
    require(len(window) == operand.rank, "the window does not have the operand's rank")
    require(
        initial == Shape(source.dtype), "the initial value is not a scalar of the source's dtype"
    )
    places = tuple(window_size(s, w) for s, w in zip(operand.dims, window, strict=True))
    require(source.dims == places, f"the source's dimensions are not those of the windows {places}")
    select, scatter = instruction.called
    element, value = Shape(operand.dtype), Shape(source.dtype)
    check_signature(select, [element, element], [Shape(dtypes.PRED)], "the selection")
    check_signature(scatter, [value, value], [value], "the scatter body")
    return operand.with_dtype(source.dtype)


def _window_views(
    operands: Sequence[Array],
    fill: Sequence[Array],
    window: Sequence[WindowDimension],
    dims: Sequence[int],
) -> list[list[Array]]:
    """For each operand the list, over window positions, of the elements each result reads there."""
    views: list[list[Array]] = []
    for operand, value in zip(operands, fill, strict=True):
        padded = pad_array(
            operand,
            value,
            [w.padding_low for w in window],
            [w.padding_high for w in window],
            [w.base_dilation - 1 for w in window],
        )
        pieces = []
        for offset in itertools.product(*[range(w.size) for w in window]):
            place = tuple(
                slice(
                    o * w.window_dilation, o * w.window_dilation + (d - 1) * w.stride + 1, w.stride
                )
                for o, w, d in zip(offset, window, dims, strict=True)
            )
            pieces.append(padded[place])
        views.append(pieces)
    return views


def _reduce_window_value(i: Instruction, *operands: Array) -> list[Array]:
    count = len(operands) // 2
    shapes = i.result_shapes
    dims = shapes[0].dims  # type: ignore[union-attr]
    if 0 in dims:
        return [np.zeros(dims, s.dtype.numpy) for s in shapes]  # type: ignore[union-attr]
    window = i.attributes["window"]
    views = _window_views(operands[:count], operands[count:], window, dims)
    # What is padded takes no part, as in XLA: it matters where the initial value is not neutral.
    ones = np.ones(operands[0].shape, np.bool_)
    (mask,) = _window_views([ones], [np.zeros((), np.bool_)], window, dims)
    there = np.stack(mask)
    return fold(
        i.called[0],
        [np.stack(v) for v in views],
        list(operands[count:]),
        None if there.all() else there,
    )


def _select_and_scatter_value(
    i: Instruction, operand: Array, source: Array, initial: Array
) -> list[Array]:
    window: Sequence[WindowDimension] = i.attributes["window"]
    select, scatter = i.called
    result = np.full(i.dims, initial, i.dtype.numpy)
    for index in np.ndindex(*source.shape):
        best: tuple[int, ...] | None = None
        for offset in itertools.product(*[range(w.size) for w in window]):
            at = tuple(
                n * w.stride + o - w.padding_low
                for n, o, w in zip(index, offset, window, strict=True)
            )
            if any(p < 0 or p >= d for p, d in zip(at, operand.shape, strict=True)):
                continue
            if best is None or not bool(
                evaluate_elementwise(select, [np.asarray(operand[best]), np.asarray(operand[at])])[
                    0
                ]
            ):
                best = at
        if best is not None:
            result[best] = evaluate_elementwise(
                scatter, [np.asarray(result[best]), np.asarray(source[index])]
            )[0]
    return [result]


register(  # operands..., initial values...; body(accumulators..., values...) -> the results
    "reduce-window",
    operands=ANY,
    attributes=("window",),
    called=1,
    shape=_reduce_window_shape,
    evaluate=_reduce_window_value,
    kernel=kernel("reduce_window"),
    from_hlo=hlo_instructions.reduce_window,
    read=both(reduce_window=ops_reduction.read_reduce_window),
    fields=window_field,
    flops=elements_of_operands,
    counts_bodies=True,
    hoisting=WORTH,
)
register(  # operand, source, initial value; called: select(pred), scatter
    "select-and-scatter",
    operands=3,
    attributes=("window",),
    called=2,
    shape=_select_and_scatter_shape,
    evaluate=_select_and_scatter_value,
    kernel=kernel("select_and_scatter"),
    from_hlo=hlo_instructions.select_and_scatter,
    read=both(select_and_scatter=ops_reduction.read_select_and_scatter),
    fields=window_field,
    callees=("select", "scatter"),
    flops=elements_of_operands,
    counts_bodies=True,
)
