"""Library call "convolution": convolutions and their gradients on xpu, against JAX on the CPU."""

from __future__ import annotations

import random
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Shape

from ..conftest import status
from .calls import load, row_major

BF16 = ml_dtypes.bfloat16
LAYOUTS = {
    1: [("NWC", "WIO", "NWC"), ("NCW", "OIW", "NCW")],
    2: [("NHWC", "HWIO", "NHWC"), ("NCHW", "OIHW", "NCHW"), ("CNHW", "IHWO", "NHWC")],
    3: [("NDHWC", "DHWIO", "NDHWC"), ("NCDHW", "OIDHW", "NCDHW")],
}
TOLERANCE = {np.dtype(np.float32): 3e-5, np.dtype(BF16): 2e-2, np.dtype(np.float16): 3e-3}


def array(rng, dims, dtype):
    return rng.standard_normal(dims).astype(np.float32).astype(dtype)


def check(xpu: Any, cpu: Any, function: Any, *arguments: np.ndarray) -> None:
    """The same numbers on both devices, up to rounding."""
    compiled = jax.jit(function)
    got = jax.tree.leaves(compiled(*(jax.device_put(a, xpu) for a in arguments)))
    want = jax.tree.leaves(compiled(*(jax.device_put(a, cpu) for a in arguments)))
    for g, w in zip(got, want, strict=True):
        assert g.dtype == w.dtype
        x, y = np.asarray(g).astype(np.float64), np.asarray(w).astype(np.float64)
        assert np.abs(x - y).max() <= TOLERANCE[np.dtype(w.dtype)] * max(1.0, np.abs(y).max())


def check_with_gradients(
    xpu: Any, cpu: Any, convolution: Any, x: np.ndarray, w: np.ndarray
) -> None:
    y = jax.eval_shape(convolution, x, w)
    cotangent = array(np.random.default_rng(9), y.shape, y.dtype)

    def all_three(x, w, cotangent):
        y, pullback = jax.vjp(convolution, x, w)
        return y, pullback(cotangent)

    check(xpu, cpu, all_three, x, w, cotangent)


def convolution(strides, padding, lhs_dilation, rhs_dilation, layout, groups=1, batch_groups=1):
    def function(x, w):
        return lax.conv_general_dilated(
            x,
            w,
            strides,
            padding,
            lhs_dilation,
            rhs_dilation,
            layout,
            feature_group_count=groups,
            batch_group_count=batch_groups,
        )

    return function


def named(layout: str, **sizes: int) -> list[int]:
    return [sizes[c] for c in layout]


@pytest.mark.parametrize("seed", range(24))
def test_random_problems(xpu, cpu, seed):
    """Every combination of rank, layout, groups, strides, dilations and paddings (also negative), and its gradients."""
    pick = random.Random(seed)
    rng = np.random.default_rng(seed)
    rank = pick.choice([1, 2, 2, 3])
    letters = "DHW"[3 - rank :]
    while True:
        size = [pick.choice([5, 6, 9, 12]) for _ in letters]
        window = [pick.choice([1, 2, 3]) for _ in letters]
        strides = [pick.choice([1, 1, 2, 3]) for _ in letters]
        rhs_dilation = [pick.choice([1, 1, 2]) for _ in letters]
        lhs_dilation = [pick.choice([1, 1, 1, 2]) for _ in letters]
        padding = [
            (pick.choice([0, 1, 1, 2, -1, 4]), pick.choice([0, 1, 1, 2, -1])) for _ in letters
        ]
        reach = [
            (n - 1) * d + 1 + sum(p) for n, d, p in zip(size, lhs_dilation, padding, strict=True)
        ]
        extent = [(k - 1) * d + 1 for k, d in zip(window, rhs_dilation, strict=True)]
        if all(r >= e for r, e in zip(reach, extent, strict=True)):
            break
    groups, inputs, outputs = pick.choice([(1, 3, 5), (1, 8, 4), (2, 3, 4), (4, 1, 2), (8, 1, 1)])
    layout = pick.choice(LAYOUTS[rank])
    spatial = dict(zip(letters, size, strict=True))
    dtype = pick.choice([np.float32, np.float32, BF16, np.float16])
    x = array(rng, named(layout[0], N=pick.choice([1, 4]), C=groups * inputs, **spatial), dtype)
    kernel = dict(zip(letters, window, strict=True))
    w = array(rng, named(layout[1], I=inputs, O=groups * outputs, **kernel), dtype)
    function = convolution(strides, padding, lhs_dilation, rhs_dilation, layout, groups)
    check_with_gradients(xpu, cpu, function, x, w)


@pytest.mark.parametrize(
    ("size", "window", "channels", "features", "groups", "stride", "padding"),
    [
        (28, 3, 1, 32, 1, 1, "SAME"),  # a first layer
        (14, 3, 32, 64, 1, 2, "SAME"),
        (15, 5, 16, 16, 16, 1, "SAME"),  # depthwise
        (14, 3, 16, 32, 16, 2, "VALID"),  # depthwise with a multiplier
        (7, 7, 24, 10, 1, 1, "VALID"),  # as large as the image
        (14, 1, 32, 64, 1, 1, "VALID"),  # pointwise
        (13, 1, 32, 64, 1, 2, "VALID"),  # pointwise with a stride
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, BF16])
def test_layers_of_networks(
    xpu, cpu, size, window, channels, features, groups, stride, padding, dtype
):
    rng = np.random.default_rng(0)
    x = array(rng, (4, size, size, channels), dtype)
    w = array(rng, (window, window, channels // groups, features), dtype)
    function = convolution((stride, stride), padding, None, None, LAYOUTS[2][0], groups)
    check_with_gradients(xpu, cpu, function, x, w)


@pytest.mark.parametrize("batch_groups", [2, 4])
def test_batch_groups(xpu, cpu, batch_groups):
    rng = np.random.default_rng(0)
    x, w = array(rng, (8, 9, 9, 6), np.float32), array(rng, (3, 3, 6, 12), np.float32)
    function = convolution((2, 1), "SAME", None, None, LAYOUTS[2][0], 1, batch_groups)
    check_with_gradients(xpu, cpu, function, x, w)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
def test_transposed_convolution(xpu, cpu, padding):
    rng = np.random.default_rng(0)
    x, w = array(rng, (2, 7, 7, 16), np.float32), array(rng, (3, 3, 16, 8), np.float32)
    check_with_gradients(xpu, cpu, lambda x, w: lax.conv_transpose(x, w, (2, 2), padding), x, w)


def test_no_spatial_dimensions(xpu, cpu):
    rng = np.random.default_rng(0)
    x, w = array(rng, (16, 30), np.float32), array(rng, (30, 20), np.float32)
    check(xpu, cpu, convolution((), (), None, None, ("NC", "IO", "NC")), x, w)


def test_constant_weights(xpu, cpu):
    rng = np.random.default_rng(0)
    x, w = array(rng, (4, 9, 9, 16), np.float32), array(rng, (3, 3, 16, 24), np.float32)
    function = convolution((1, 1), "SAME", None, None, LAYOUTS[2][0])
    check(xpu, cpu, lambda x: function(x, w), x)


GOOD = {
    "kind": "forward",
    "src_dimensions": [2, 8, 9, 9],
    "src_strides": [648, 1, 72, 8],
    "weights_dimensions": [16, 8, 3, 3],
    "weights_strides": [1, 16, 384, 128],
    "dst_dimensions": [2, 16, 7, 7],
    "dst_strides": [784, 1, 112, 16],
    "strides": [1, 1],
    "dilations": [1, 1],
    "padding_low": [0, 0],
    "padding_high": [0, 0],
}


def load_forward(change):
    x, w = np.zeros((2, 9, 9, 8), np.float32), np.zeros((3, 3, 8, 16), np.float32)
    return load("convolution", [x, w], [Shape(dtypes.F32, (2, 7, 7, 16))], GOOD | change)


def test_the_attributes_are_checked():
    load_forward({})
    for change, message in (
        ({"kind": "sideways"}, "kind is 'sideways'"),
        ({"src_strides": [10**6, 1, 72, 8]}, "reaches outside of f32[2,9,9,8]"),
        ({"src_strides": row_major([2, 8, 9, 9])[:3]}, "same 3 to 6 numbers"),
        ({"strides": [1]}, "must have 2 numbers"),
        ({"dst_dimensions": [2, 16, 0, 7]}, "out of range"),
        ({"surprise": [1]}, "surprise"),
    ):
        code, text = status(lambda change=change: load_forward(change))
        assert code == "INVALID_ARGUMENT", change
        assert message in text
    # Sizes that oneDNN itself finds contradictory.
    code, text = status(lambda: load_forward({"padding_high": [5, 5]}))
    assert code in ("INVALID_ARGUMENT", "INTERNAL")
    assert "model.py:7" in text


@pytest.mark.parametrize("layout", LAYOUTS[2][:2], ids=lambda layout: layout[0])
@pytest.mark.parametrize(("features", "outputs", "groups"), [(3, 8, 1), (15, 17, 1), (5, 3, 4)])
@pytest.mark.parametrize("width", [13, 16])
def test_an_infinity_stays_in_its_sums(
    xpu: Any, cpu: Any, layout: tuple[str, str, str], features: int, outputs: int, groups: int, width: int
) -> None:  # fmt: skip
    """Sums of bf16 of an odd number of features or pixels do not read what follows in memory."""
    convolve = convolution((1, 1), "VALID", (1, 1), (1, 1), layout, groups)
    sizes = {"N": 2, "H": 7, "W": width, "C": groups * features}
    x = np.ones([sizes[c] for c in layout[0]], BF16)
    sizes = {"H": 3, "W": 3, "I": features, "O": groups * outputs}
    w = np.ones([sizes[c] for c in layout[1]], BF16)
    y = np.ones(jax.eval_shape(convolve, x, w).shape, BF16)

    def by_input(y: Any, w: Any) -> Any:
        return jax.vjp(convolve, x, w)[1](y)[0]

    def by_weights(x: Any, y: Any) -> Any:
        return jax.vjp(convolve, x, w)[1](y)[1]

    cases = [(convolve, x, w), (by_input, y, w)]
    if groups == 1:  # JAX's CPU spreads an infinity over all groups
        cases.append((by_weights, x, y))
    for function, operand, other in cases:
        compiled = jax.jit(function)
        for number in random.Random(1).sample(range(operand.size), 12):
            place = np.zeros(operand.shape, BF16)
            place.flat[number] = 1
            reached = np.asarray(compiled(*jax.device_put((place, other), cpu))) != 0
            infinite = operand.copy()
            infinite.flat[number] = np.inf
            got = np.asarray(compiled(*jax.device_put((infinite, other), xpu)))
            assert (np.isposinf(got.astype(np.float32)) == reached).all()
            assert np.isfinite(got.astype(np.float32)[~reached]).all()


@pytest.mark.parametrize("layout", LAYOUTS[2], ids=lambda layout: layout[0])
@pytest.mark.parametrize(
    ("features", "window", "stride"), [(48, 2, 2), (48, 4, 2), (24, 4, 4), (4, 16, 16), (5, 16, 16), (20, 8, 8)]
)  # fmt: skip
@pytest.mark.parametrize("padding", ["VALID", [(1, 1), (0, 1)]], ids=str)
def test_columns_that_a_stride_joins(
    xpu: Any,
    cpu: Any,
    layout: tuple[str, str, str],
    features: int,
    window: int,
    stride: int,
    padding: Any,
) -> None:
    """Whole numbers, so to the bit: oneDNN 3.2 multiplies other numbers of the kernel with AMX."""
    random_ = np.random.default_rng(0)
    x = random_.choice([-1, 1], named(layout[0], N=2, H=7, W=6 * stride, C=features))
    w = random_.choice([-1, 1], named(layout[1], H=3, W=window, I=features, O=33))
    convolve = convolution((2, stride), padding, (1, 1), (1, 1), layout)
    want = np.asarray(
        jax.jit(convolve)(*jax.device_put((x.astype(np.float32), w.astype(np.float32)), cpu))
    )
    got = jax.jit(convolve)(*jax.device_put((x.astype(BF16), w.astype(BF16)), xpu))
    np.testing.assert_array_equal(np.asarray(got), want.astype(BF16))


@pytest.mark.parametrize("layout", LAYOUTS[2][:2], ids=lambda layout: layout[0])
@pytest.mark.parametrize(("features", "outputs", "groups"), [(1, 16, 9), (8, 4, 3)])
@pytest.mark.parametrize("input_dilation", [(1, 1), (1, 3)], ids=str)
@pytest.mark.parametrize("width", [34, 76])
def test_gradients_of_the_weights_of_dilated_groups(
    xpu: Any,
    cpu: Any,
    layout: tuple[str, str, str],
    features: int,
    outputs: int,
    groups: int,
    input_dilation: tuple[int, int],
    width: int,
) -> None:
    """Whole numbers, so to the bit: oneDNN's pairs of bf16 with AVX-512 give other numbers and NaN in long rows."""
    random_ = np.random.default_rng(0)
    inputs = (width + 3) // input_dilation[1]
    x = random_.choice([-1.0, 1.0], named(layout[0], N=2, H=14, W=inputs, C=groups * features))
    w = np.zeros(named(layout[1], H=3, W=3, I=features, O=groups * outputs))
    convolve = convolution((1, 1), [(0, 0), (0, 0)], input_dilation, (2, 2), layout, groups)

    def by_weights(x: Any, y: Any) -> Any:
        return jax.vjp(lambda w: convolve(x, w), w.astype(x.dtype))[1](y)[0]

    y = random_.choice([-1.0, 1.0], jax.eval_shape(convolve, x, w).shape)
    compiled = jax.jit(by_weights)
    want = compiled(*jax.device_put((x.astype(np.float32), y.astype(np.float32)), cpu))
    got = compiled(*jax.device_put((x.astype(BF16), y.astype(BF16)), xpu))
    np.testing.assert_array_equal(np.asarray(got), np.asarray(want).astype(BF16))
