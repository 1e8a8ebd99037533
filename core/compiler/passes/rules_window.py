"""Rewrite rules for convolutions and windowed reductions.

Padding that a ``pad`` does becomes the window's own. Keras' ZeroPadding2D, PyTorch's nn.ConstantPad2d and JAX's jnp.pad
before a "valid" convolution or pool write such programs. The window reads no memory for its padding, and what made the
operand can run in place again.

A window that reaches over the array's ends at every place loses the elements that never meet the array. TensorFlow's
``tf.nn.local_response_normalization`` makes such windows: its radius may be any number, and the window has twice as
many elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from ..ir.hlo import ConvolutionDimensionNumbers, Instruction, WindowDimension, broadcast, constant
from ..ir.patterns import binary_body, constant_value, identity_value, is_constant

Rule = Callable[[Instruction], Instruction | None]


def fold_pad_into_convolution(i: Instruction) -> Instruction | None:
    """``convolution(pad(x, 0), kernel)`` with zeros around the spatial dimensions of x only."""
    pad = i.operands[0]
    if pad.opcode != "pad" or not is_constant(pad.operands[1], 0):
        return None
    spatial: tuple[int, ...] = i.attributes["dimension_numbers"].input_spatial
    low, high = pad.attributes["low"], pad.attributes["high"]
    if any(d not in spatial and (low[d] or high[d]) for d in range(len(low))):
        return None
    window = _padded_window(pad, i.attributes["window"], spatial)
    if window is None:
        return None
    return i.replace(
        operands=(pad.operands[0], i.operands[1]), attributes={**i.attributes, "window": window}
    )


def fold_pad_into_reduce_window(i: Instruction) -> Instruction | None:
    """``reduce-window(pad(x, e), e)`` where e changes nothing: zeros that are added, -inf under a maximum."""
    if len(i.operands) != 2:
        return None
    pad, initial = i.operands
    opcode = binary_body(i.called[0])
    if pad.opcode != "pad" or opcode is None:
        return None
    neutral = identity_value(opcode, pad)
    values = [constant_value(v) for v in (pad.operands[1], initial)]
    # By their bits: -0.0 is another number than 0.0 where nothing else is added.
    if values[0] is None or values[1] is None or values[0].tobytes() != values[1].tobytes():
        return None
    if neutral is None or not bool(values[0] == neutral):
        return None
    window = _padded_window(pad, i.attributes["window"], range(len(pad.dims)))
    if window is None:
        return None
    return i.replace(
        operands=(pad.operands[0], initial), attributes={**i.attributes, "window": window}
    )


def drop_convolution_of_padding(i: Instruction) -> Instruction | None:
    """A convolution whose windows meet only padding along some dimension is zero; oneDNN ends the process in some that
    have a window of two elements, one before and one behind an array of one.
    """
    numbers: ConvolutionDimensionNumbers = i.attributes["dimension_numbers"]
    sizes = [i.operands[0].dims[d] for d in numbers.input_spatial]
    counts = [i.dims[d] for d in numbers.output_spatial]
    window: tuple[WindowDimension, ...] = i.attributes["window"]
    if all(_meets(w, size, count) for w, size, count in zip(window, sizes, counts, strict=True)):
        return None
    return broadcast(constant(0, i.dtype), i.dims)


def clip_window(i: Instruction) -> Instruction | None:
    """``reduce-window`` and ``select-and-scatter`` without the elements of the window that meet only padding, which
    takes no part in either.
    """
    array = i.operands[0]
    # The windows' places are the dimensions of a reduce-window's result and of a select-and-scatter's source.
    places: Any = i.operands[1] if i.opcode == "select-and-scatter" else i.result_shapes[0]
    window: tuple[WindowDimension, ...] = tuple(i.attributes["window"])
    clipped = tuple(
        _clipped(w, size, count)
        for w, size, count in zip(window, array.dims, places.dims, strict=True)
    )
    if clipped == window:
        return None
    return i.replace(attributes={**i.attributes, "window": clipped})


def _clipped(w: WindowDimension, size: int, count: int) -> WindowDimension:
    """One dimension of a window at ``count`` places of an array of ``size``."""
    if not size or not count:
        return w
    first_met, last_met = _met(w, size, count)
    if first_met > last_met:  # one of them stays
        first_met = last_met = 0
    return replace(
        w,
        size=last_met - first_met + 1,
        padding_low=w.padding_low - first_met * w.window_dilation,
        padding_high=w.padding_high - (w.size - 1 - last_met) * w.window_dilation,
    )


def _met(w: WindowDimension, size: int, count: int) -> tuple[int, int]:
    """The first and the last element of the window that is within the array at any place; in the other order if there
    is none.
    """
    last = (size - 1) * w.base_dilation + w.padding_low
    nearest = w.padding_low - (count - 1) * w.stride
    return max(0, -(-nearest // w.window_dilation)), min(w.size - 1, last // w.window_dilation)


def _meets(w: WindowDimension, size: int, count: int) -> bool:
    """Whether an element of the window may meet the array; true where there is nothing to meet or nobody to do it."""
    if 0 in (size, count, w.size):
        return True
    first, last = _met(w, size, count)
    return first <= last


def _padded_window(
    pad: Instruction, window: Sequence[WindowDimension], dimensions: Sequence[int]
) -> tuple[WindowDimension, ...] | None:
    """``window`` with what ``pad`` adds around ``dimensions``, which it runs over one by one.

    None for what stays a pad: elements between elements, and elements cut off (in every library a slice).
    """
    low, high = pad.attributes["low"], pad.attributes["high"]
    if any(pad.attributes["interior"]) or any(n < 0 for n in (*low, *high)):
        return None
    if not pad.operands[0].elements:
        return None
    return tuple(
        replace(
            w,
            padding_low=w.padding_low + low[d] * w.base_dilation,
            padding_high=w.padding_high + high[d] * w.base_dilation,
        )
        for d, w in zip(dimensions, window, strict=True)
    )


RULES: Final[dict[str, tuple[Rule, ...]]] = {
    "convolution": (fold_pad_into_convolution, drop_convolution_of_padding),
    "reduce-window": (fold_pad_into_reduce_window, clip_window),
    "select-and-scatter": (clip_window,),
}
