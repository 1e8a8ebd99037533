"""Pads in front of convolutions and windowed reductions: where they become padding, and that values stay."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes, hlo, verifier
from tripont.core.compiler.ir.hlo import Computation, Instruction, WindowDimension
from tripont.core.compiler.passes.simplify import simplify
from tripont.core.compiler.reference.evaluate import evaluate

from tests.core.compiler.builders import (
    S32,
    arguments,
    body,
    compare,
    module,
    number,
    op,
    opcodes,
    parameter,
)

W = WindowDimension
CHANNELS_LAST = hlo.ConvolutionDimensionNumbers(0, 3, (1, 2), 2, 3, (0, 1), 0, 3, (1, 2))


def pad(
    x: Instruction,
    value: float,
    low: Sequence[int],
    high: Sequence[int],
    interior: Sequence[int] | None = None,
) -> Instruction:
    interior = interior or (0,) * len(low)
    dims = [
        n + a + b + max(n - 1, 0) * i
        for n, a, b, i in zip(x.dims, low, high, interior, strict=True)
    ]
    edges = {"low": tuple(low), "high": tuple(high), "interior": tuple(interior)}
    return op("pad", x, number(value, dtype=x.dtype), dims=dims, **edges)


def length(n: int, w: WindowDimension) -> int:
    reach = (n - 1) * w.base_dilation + 1 + w.padding_low + w.padding_high
    return (reach - (w.size - 1) * w.window_dilation - 1) // w.stride + 1


def convolution(
    x: Instruction, kernel: Instruction, window: Sequence[WindowDimension]
) -> Instruction:
    """Channels last; two spatial dimensions."""
    spatial = [length(n, w) for n, w in zip(x.dims[1:3], window, strict=True)]
    return op(
        "convolution",
        x,
        kernel,
        dims=(x.dims[0], *spatial, kernel.dims[3]),
        window=tuple(window),
        dimension_numbers=CHANNELS_LAST,
        feature_group_count=x.dims[3] // kernel.dims[2],
        batch_group_count=1,
        precision=("DEFAULT", "DEFAULT"),
    )


def pool(
    x: Instruction, window: Sequence[WindowDimension], opcode: str, initial: float
) -> Instruction:
    dims = [length(n, w) for n, w in zip(x.dims, window, strict=True)]
    return op(
        "reduce-window",
        x,
        number(initial, dtype=x.dtype),
        dims=dims,
        window=tuple(window),
        called=[body(opcode, x.dtype)],
    )


def computation_left(parameters: Sequence[Instruction], result: Instruction) -> Computation:
    """The program as it is simplified, once the values were found to be the same."""
    before = module(parameters, result)
    verifier.verify(before, "test")
    after = simplify(before)
    verifier.verify(after, "simplify")
    inputs = arguments(before)
    np.testing.assert_array_equal(evaluate(after, inputs)[0], evaluate(before, inputs)[0])
    return after.entry


def simplified(parameters: Sequence[Instruction], result: Instruction) -> list[str]:
    """The opcodes that are left."""
    return opcodes(computation_left(parameters, result))


@pytest.mark.parametrize(
    ("height", "window", "left"),
    [
        (1, W(2, 1, 1, 1, window_dilation=2), ["broadcast"]),
        (1, W(2, 1, 1, 1, window_dilation=2, reversal=True), ["broadcast"]),
        (1, W(2, 2, 3, 2, window_dilation=4, base_dilation=3), ["broadcast"]),
        (2, W(2, 1, 1, 1, window_dilation=2), ["convolution"]),
        (1, W(3, 1, 2, 2, window_dilation=2), ["convolution"]),
        (1, W(2, 1, 1, 2, window_dilation=2), ["convolution"]),
    ],
    ids=str,
)
def test_windows_that_meet_only_padding(height: int, window: W, left: list[str]) -> None:
    x, kernel = parameter(0, 2, height, 6, 4), parameter(1, window.size, 3, 4, 8)
    made = convolution(x, kernel, [window, W(3, 1, 1, 1)])
    assert simplified([x, kernel], made) == left


@pytest.mark.parametrize(
    "window",
    [
        [W(3, 2), W(3, 2)],
        [W(3, 1, 1, 0), W(2, 1)],
        [W(2, 1, 0, 0, window_dilation=2), W(3, 2, 1, 1)],
        [W(3, 1, 2, 2, base_dilation=2), W(3, 1, 1, 1, base_dilation=3)],
    ],
    ids=["strided", "padded too", "dilated kernel", "dilated input"],
)
@pytest.mark.parametrize("groups", [1, 4])
def test_convolution(window: list[WindowDimension], groups: int) -> None:
    x, kernel = (
        parameter(0, 2, 7, 6, 4),
        parameter(1, *(w.size for w in window), 4 // groups, 8),
    )
    padded = pad(x, 0, (0, 0, 1, 0), (0, 1, 2, 0))
    assert simplified([x, kernel], convolution(padded, kernel, window)) == ["convolution"]


@pytest.mark.parametrize(
    ("value", "low", "high", "interior"),
    [
        (1, (0, 1, 1, 0), (0, 1, 1, 0), None),
        (0, (0, 1, 1, 0), (0, 1, 1, 4), None),
        (0, (1, 1, 1, 0), (0, 1, 1, 0), None),
        (0, (0, 1, 1, 0), (0, 1, 1, 0), (0, 1, 0, 0)),
        (0, (0, -1, 1, 0), (0, 1, 1, 0), None),
    ],
    ids=["not zero", "features", "batch", "between elements", "cut off"],
)
def test_convolution_keeps_pad(
    value: float, low: Sequence[int], high: Sequence[int], interior: Sequence[int] | None
) -> None:
    x = parameter(0, 2, 7, 6, 4)
    padded = pad(x, value, low, high, interior)
    kernel = parameter(1, 3, 3, padded.dims[3], 2)
    result = convolution(padded, kernel, [W(3), W(3)])
    assert simplified([x, kernel], result) == ["pad", "convolution"]


POOL = [W(1), W(3, 2, 0, 1), W(2, 1), W(1)]


@pytest.mark.parametrize(
    ("opcode", "value", "dtype"),
    [
        ("add", 0.0, dtypes.F32),
        ("maximum", -np.inf, dtypes.F32),
        ("minimum", np.inf, dtypes.F32),
        ("maximum", -(2**31), S32),
        ("multiply", 1, S32),
    ],
)
def test_pool(opcode: str, value: float, dtype: dtypes.DType) -> None:
    x = parameter(0, 2, 6, 5, 3, dtype=dtype)
    padded = pad(x, value, (1, 1, 0, 0), (0, 2, 1, 2))
    assert simplified([x], pool(padded, POOL, opcode, value)) == ["reduce-window"]


@pytest.mark.parametrize(
    ("opcode", "value", "initial"),
    [("maximum", 0.0, -np.inf), ("add", 1.0, 1.0), ("add", 0.0, -0.0), ("maximum", 0.0, 0.0)],
    ids=["other values", "not neutral", "signs of zero", "not neutral in a maximum"],
)
def test_pool_keeps_pad(opcode: str, value: float, initial: float) -> None:
    x = parameter(0, 2, 6, 5, 3)
    padded = pad(x, value, (0, 1, 1, 0), (0, 1, 0, 0))
    assert simplified([x], pool(padded, POOL, opcode, initial)) == ["pad", "reduce-window"]


# Windows of a dimension of five elements, and how many of their elements meet it at any place.
OVERLAPS = {
    "beyond both ends": (W(21, 1, 10, 10), 9),
    "before the array": (W(9, 1, 8, 0), 5),
    "behind the array": (W(9, 1, 0, 8), 5),
    "at one place": (W(30, 1, 13, 12), 5),
    "in steps": (W(24, 3, 12, 13), 11),
    "with gaps": (W(11, 1, 10, 10, window_dilation=2), 5),
    "among gaps": (W(31, 2, 12, 13, base_dilation=3), 19),
    "never": (W(2, 9, 3, 0), 1),
}


def sizes_of_windows(parameters: Sequence[Instruction], result: Instruction) -> list[int]:
    """The sizes of the windows that are left."""
    instructions = computation_left(parameters, result).instructions
    (left,) = [i for i in instructions if "window" in i.attributes]
    return [w.size for w in left.attributes["window"]]


@pytest.mark.parametrize("overlap", OVERLAPS)
@pytest.mark.parametrize("initial", [0, 3])
def test_windows_keep_what_meets_the_array(overlap: str, initial: int) -> None:
    window, met = OVERLAPS[overlap]
    x = parameter(0, 5, dtype=S32)
    assert sizes_of_windows([x], pool(x, [window], "add", initial)) == [met]


def test_windows_of_chosen_elements_keep_what_meets_the_array() -> None:
    x, source = parameter(0, 4, 5, dtype=S32), parameter(1, 4, 5, dtype=S32)
    a, b = parameter(0, dtype=S32), parameter(1, dtype=S32)
    is_larger = hlo.Computation.from_root("is_larger", [a, b], compare(a, b, "GE"))
    result = op(
        "select-and-scatter",
        x,
        source,
        number(0, dtype=S32),
        dims=x.dims,
        window=(W(1), W(41, 1, 20, 20)),
        called=[is_larger, body("add", S32)],
    )
    assert sizes_of_windows([x, source], result) == [1, 9]
