"""Ops that the adapter translates itself, as TensorFlow's bridge to XLA gives other results than its CPU or none.

Each case runs eagerly on XPU and with ``jit_compile=True``, and is compared with TensorFlow's CPU.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.framework import config

op = tf.raw_ops
nan, inf = np.nan, np.inf


def _numbers(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    result: np.ndarray = np.random.default_rng(0).normal(size=shape).astype(dtype)
    return result


def _image_with(value: float) -> np.ndarray:
    image = np.arange(2 * 5 * 6 * 3, dtype=np.float32).reshape(2, 5, 6, 3)
    image[1, 2, 3, 1] = value
    return image


def _patches(padding: str, sizes: tuple[int, int], steps: int, rates: int) -> Callable[..., Any]:
    return lambda x: op.ExtractImagePatches(
        images=x,
        ksizes=[1, *sizes, 1],
        strides=[1, steps, steps, 1],
        rates=[1, rates, rates, 1],
        padding=padding,
    )


def _nearest(height: int, width: int, **attributes: bool) -> Callable[..., Any]:
    return lambda x: op.ResizeNearestNeighbor(images=x, size=[height, width], **attributes)


def _max_pool(
    padding: list[list[int]], size: int, step: int, data_format: str = "NHWC"
) -> Callable[..., Any]:
    return lambda x: tf.nn.max_pool2d(x, size, step, padding, data_format)


def _gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    def gradient(x: tf.Tensor, weights: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            loss = tf.reduce_sum(function(x) * weights)
        return tape.gradient(loss, x)

    return gradient


def _second_gradient_of_pool(x: tf.Tensor, y: tf.Tensor) -> Any:
    window: dict[str, Any] = {"ksize": [1, 3, 3, 1], "strides": [1, 2, 2, 1], "padding": "SAME"}
    return op.MaxPoolGradGrad(
        orig_input=x, orig_output=op.MaxPool(input=x, **window), grad=y, **window
    )


def _second_gradient_of_pool_3d(x: tf.Tensor, y: tf.Tensor) -> Any:
    window: dict[str, Any] = {
        "ksize": [1, 2, 2, 2, 1],
        "strides": [1, 1, 2, 2, 1],
        "padding": "VALID",
    }
    return op.MaxPool3DGradGrad(
        orig_input=x, orig_output=op.MaxPool3D(input=x, **window), grad=y, **window
    )


#: Numbers of which several in a window are equal but for the last bits of float32.
_CLOSE = (1 + np.random.default_rng(1).integers(0, 5, (2, 6, 7, 3)) * 2.0**-20).astype(np.float32)
_BORDERS = [[0, 0], [2, 1], [0, 2], [0, 0]]
CASES: dict[str, tuple[Any, ...]] = {
    "target outside of the classes": (
        lambda x, t: tf.math.in_top_k(t, x, 1), -np.ones((4, 2), np.float32),
        np.array([5, -1, 0, 1], np.int32),
    ),
    "rows with a number that is not finite": (
        lambda x, t: tf.math.in_top_k(t, x, 2),
        np.float32([[1, nan, 3], [1, inf, 0], [-inf, 3, 2], [1, 2, 3]]),
        np.array([0, 0, 1, 1], np.int64),
    ),
    "bucket of a NaN": (
        lambda x: op.Bucketize(input=x, boundaries=[0.0, 1.0, 2.0]),
        np.float32([[nan, 1, 1.5], [inf, -inf, 2]]),
    ),
    "bucket of a NaN of double": (
        lambda x: op.Bucketize(input=x, boundaries=[0.1, 0.5]), np.array([nan, 0.1, 0.5])
    ),
    "bucket without boundaries": (
        lambda x: op.Bucketize(input=x, boundaries=[]), np.float32([nan, 1])
    ),
    "place behind a row": (
        lambda x, v: tf.searchsorted(x, v, side="right"), np.float32([[1, 2, 2], [4, 5, 6]]),
        np.float32([[nan, 2, inf, -inf], [4, nan, 7, 0]]),
    ),
    "place behind a row as int64": (
        lambda x, v: tf.searchsorted(x, v, side="right", out_type=tf.int64),
        np.array([1.0, 2.0]), np.array([nan, 1.0, 1.5]),
    ),
    "gradient of selu at 0": (
        lambda g, y: op.SeluGrad(gradients=g, outputs=y), np.float32([1, 2, 3, nan]),
        np.float32([0, 1, -1, 0]),
    ),
    "no gradient of roots and reciprocals": (
        lambda y, g: tf.stack(
            [op.SqrtGrad(y=y, dy=g), op.RsqrtGrad(y=y, dy=g), op.ReciprocalGrad(y=y, dy=g)]
        ),
        np.float32([0, inf, nan, 2, 4]), np.float32([0, 0, 0, 0, 1]),
    ),
    "no gradient of complex roots and reciprocals": (
        lambda y, g: tf.stack(
            [op.SqrtGrad(y=y, dy=g), op.RsqrtGrad(y=y, dy=g), op.ReciprocalGrad(y=y, dy=g)]
        ),
        np.complex64([0, inf, nan, 2j]), np.complex64([0, 0, 0, 0]),
    ),
    "complex numbers within bounds": (
        lambda x: op.ClipByValue(t=x, clip_value_min=-1 - 2j, clip_value_max=2 + 1j),
        np.array([[3 + 3j, -3 - 3j], [0.5 - 5j, 0]], np.complex64),
    ),
    "patches of an infinity": (_patches("SAME", (3, 3), 2, 1), _image_with(inf)),
    "patches of a NaN": (_patches("VALID", (2, 3), 1, 2), _image_with(nan)),
    "patches that leave pixels out": (_patches("VALID", (1, 2), 3, 1), _image_with(1e30)),
    "patches of a larger window": (_patches("SAME", (7, 4), 3, 2), _image_with(inf)),
    "nearest of bfloat16": (
        _nearest(3, 301, half_pixel_centers=True),
        np.arange(200).reshape(1, 2, 100, 1).astype(ml_dtypes.bfloat16),
    ),
    "nearest of float16": (
        _nearest(2, 2500), np.arange(1000).reshape(1, 1, 1000, 1).astype(np.float16)
    ),
    "nearest of large integers": (
        _nearest(5, 7, half_pixel_centers=True),
        (2**30 + np.arange(9, dtype=np.int32)).reshape(1, 3, 3, 1),
    ),
    "nearest of double": (
        _nearest(9, 31, align_corners=True), _numbers(2, 4, 13, 2, dtype=np.float64)
    ),
    "nearest that shrinks": (_nearest(2, 3), _numbers(1, 9, 8, 2)),
    "maximum within borders": (_max_pool(_BORDERS, 3, 2), _numbers(2, 6, 7, 3)),
    "gradient of a maximum within borders": (
        _gradient(_max_pool(_BORDERS, 3, 2)), _numbers(2, 6, 7, 3), _numbers(2, 4, 4, 3)
    ),
    "classes behind those of int8": (
        lambda x: tf.one_hot(x, 300), np.array([0, 1, 100, 127, -1, -128], np.int8)
    ),
    "classes behind those of uint8": (
        lambda x: tf.one_hot(x, 300, 5, -1, axis=0, dtype=tf.int32),
        np.array([[0, 1, 43], [44, 200, 255]], np.uint8),
    ),
    "the first of several zeros": (
        lambda x: 1 / tf.unique(x).y, np.float32([-0.0, 5, 0, -0.0, 0])
    ),
    "order of a zero with a sign": (
        lambda x: op.UniqueV2(x=x, axis=np.zeros(0, np.int32)).idx, np.float32([0, 5, -0.0, 0])
    ),
    "order of rows with signs": (
        lambda x: op.UniqueV2(x=x, axis=[0]).idx, np.float32([[0, 1], [5, 5], [-0.0, 1], [5, 5]])
    ),
    "order of rows by an axis from the end": (
        lambda x: op.UniqueV2(x=x, axis=[-2]).idx, np.float32([[0, 1], [5, 5], [-0.0, 1], [5, 5]])
    ),
    "numbers between two steps": (
        lambda x: tf.quantization.fake_quant_with_min_max_vars(x, -1.3, 2.2),
        (np.arange(-110, 200, dtype=np.float32) + np.float32(0.5)) * np.float32(3.5 / 255),
    ),
    "numbers of channels between two steps": (
        lambda x: tf.quantization.fake_quant_with_min_max_vars_per_channel(
            x, [-1.3, 0.0], [2.2, 3.5], narrow_range=True
        ),
        ((np.arange(-110, 200, dtype=np.float32) + np.float32(0.5)) * np.float32(3.5 / 254))
        .reshape(-1, 2),
    ),
    "integers far apart": (
        lambda: tf.range(
            tf.constant(-(2**63), tf.int64), tf.constant(2**63 - 1, tf.int64),
            tf.constant(2**62 + 1, tf.int64),
        ),
    ),
    "integers far apart, downwards": (
        lambda: tf.range(tf.constant(2**31 - 1), tf.constant(-(2**31)), tf.constant(-(2**29))),
    ),
    "no integers": (lambda: tf.range(*map(tf.constant, np.int64([3, 3, 1]))),),
    "integers of bfloat16": (
        lambda: tf.range(*(tf.constant(x, tf.bfloat16) for x in (1, 700, 7))),
    ),
    "numbers at the largest distance": (lambda: op.LinSpace(start=-3e38, stop=3e38, num=5),),
    "a sparse array of a dense one": (
        lambda x: tf.sparse.to_dense(tf.sparse.from_dense(x)), np.float32([[0, 2, 0], [1, 0, 3]])
    ),
    "elements written in steps": (
        lambda x, y: op.TensorStridedSliceUpdate(
            input=x, begin=[4, 1], end=[0, 7], strides=[-2, 3], value=y
        ),
        _numbers(5, 7), _numbers(2, 2),
    ),
    "a row written to several": (
        lambda x, y: op.TensorStridedSliceUpdate(
            input=x, begin=[1, 0], end=[4, 7], strides=[1, 1], value=y
        ),
        _numbers(5, 7), _numbers(7),
    ),
    "nothing written in steps": (
        lambda x, y: op.TensorStridedSliceUpdate(
            input=x, begin=[3, 0], end=[3, 7], strides=[2, 2], value=y
        ),
        _numbers(5, 7), _numbers(0, 4),
    ),
    "slope of a filter without pixels": (
        lambda x, y: op.Conv2DBackpropFilter(
            input=x, filter_sizes=[3, 2, 4, 6], out_backprop=y, strides=[1] * 4, padding="SAME"
        ),
        np.zeros((2, 0, 9, 4), np.float32), np.zeros((2, 0, 9, 6), np.float32),
    ),
    "second gradient of a maximum": (_second_gradient_of_pool, _CLOSE, _numbers(2, 6, 7, 3)),
    "second gradient of a maximum, 3D": (
        _second_gradient_of_pool_3d, _CLOSE[..., None], _numbers(2, 6, 7, 3, 1)
    ),
}  # fmt: skip


def _gradient_of(function: Callable[..., Any]) -> Callable[..., Any]:
    def gradient(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = function(x)
        return tape.gradient(y, x)

    return gradient


def _suppressed(count: int) -> Callable[..., Any]:
    return lambda boxes, scores: op.NonMaxSuppressionV4(
        boxes=boxes, scores=scores, max_output_size=count, iou_threshold=0.5,
        score_threshold=0.65, pad_to_max_output_size=True,
    )  # fmt: skip


def _gradient_of_columns(g: tf.Tensor, x: tf.Tensor) -> Any:
    return op.ResizeBilinearGrad(grads=g, original_image=x, align_corners=True)


_BOXES = np.float32(
    [[0, 0, 1, 1], [0, 0.05, 1, 1], [0, 0, 0.5, 0.5], [1, 1, 0, 0], [0.2, 0.2, 0.2, 0.2]]
)
_SCORES = np.float32([0.9, 0.8, 0.7, 0.6, 0.5])
_COMPLEX = (_numbers(6) + 1j * _numbers(12)[6:]).astype(np.complex64)
_RANGES = (np.float32([0, 0, -1]), np.float32([0, 1, 1]))
_CHOSEN = np.array([True, False, True, True, False])


def _quantized_rows(x: tf.Tensor, chosen: tf.Tensor, low: tf.Tensor, high: tf.Tensor) -> Any:
    rows = tf.boolean_mask(x, chosen)
    if low.shape.rank == 0:
        return tf.quantization.fake_quant_with_min_max_vars(rows, low, high)
    return tf.quantization.fake_quant_with_min_max_vars_per_channel(rows, low, high)


def _slopes_of_quantized_rows(
    x: tf.Tensor, chosen: tf.Tensor, low: tf.Tensor, high: tf.Tensor
) -> Any:
    with tf.GradientTape() as tape:
        tape.watch([x, low, high])
        y = tf.reduce_sum(_quantized_rows(x, chosen, low, high) ** 2)
    return tape.gradient(y, [x, low, high])


#: As above, but rounded in another order, or by a function that is: function and arrays.
CLOSE_CASES: dict[str, tuple[Any, ...]] = {
    "slope of a complex root": (_gradient_of(tf.sqrt), _COMPLEX),
    "slope of one by a complex root": (_gradient_of(tf.math.rsqrt), _COMPLEX),
    "slope of one by a complex number": (_gradient_of(tf.math.reciprocal), _COMPLEX),
    "slope of a real root": (_gradient_of(tf.sqrt), np.float32([0.5, 0, 2, inf])),
    "complex numbers as bool": (
        lambda x: tf.cast(x, tf.bool), np.array([1j, 0, 1, nan], np.complex64)
    ),
    "shapes that do not go together": (lambda x, y: x == y, np.ones(2), np.ones(3)),
    "shapes that do not go together differ": (lambda x, y: x != y, np.ones((2, 3)), np.ones((4, 3))),
    "shapes that go together": (lambda x, y: x == y, np.ones((2, 1)), np.arange(3.0)),
    "range from 0 to 0": (
        lambda x: tf.quantization.fake_quant_with_min_max_vars(x, 0.0, 0.0),
        np.float32([-1, 0, nan, 3]),
    ),
    "slope at the range from 0 to 0": (
        _gradient_of(lambda x: tf.quantization.fake_quant_with_min_max_vars(x, 0.0, 0.0)),
        np.float32([-1, 0, 3]),
    ),
    "range of a channel from 0 to 0": (
        tf.quantization.fake_quant_with_min_max_vars_per_channel,
        np.float32([[-1, 0.3, 1], [2, 3, -4]]), *_RANGES,
    ),
    "slopes at the range of a channel from 0 to 0": (
        lambda x, low, high: op.FakeQuantWithMinMaxVarsPerChannelGradient(
            gradients=x, inputs=x, min=low, max=high
        ),
        np.float32([[-1, 0.3, 1], [2, 3, -4]]), *_RANGES,
    ),
    "some rows by ranges of channels": (
        _quantized_rows, 2 * _numbers(5, 3), _CHOSEN, *_RANGES
    ),
    "slopes of some rows by ranges of channels": (
        _slopes_of_quantized_rows, 2 * _numbers(5, 3), _CHOSEN, *_RANGES
    ),
    "slopes of some rows by a range": (
        _slopes_of_quantized_rows, 2 * _numbers(5, 3), _CHOSEN, np.float32(-1), np.float32(1)
    ),
    "rows that several write": (
        lambda x, y: tf.dynamic_stitch([[[0, 1]], [1, 0]], [x, y]), _numbers(1, 2, 3),
        _numbers(2, 3) + 1,
    ),
    "no rows": (lambda x: tf.dynamic_stitch([np.zeros(0, np.int32)], [x]), np.ones((0, 2))),
    "hue of negative colours": (
        lambda x: tf.image.adjust_hue(x, 0.3), _numbers(4, 5, 3) - np.float32(1)
    ),
    "hue that turns back": (lambda x: op.AdjustHue(images=x, delta=-2.7), _numbers(2, 4, 5, 3)),
    "hue of grey": (lambda x: tf.image.adjust_hue(x, 0.2), np.full((1, 2, 3), 0.25, np.float32)),
    "bilinear beside an infinity": (
        lambda x: op.ResizeBilinear(images=x, size=[9, 7], half_pixel_centers=True),
        _image_with(inf),
    ),
    "bilinear with aligned corners": (
        lambda x: op.ResizeBilinear(images=x, size=[9, 7], align_corners=True), _image_with(3)
    ),
    "bilinear to one pixel": (lambda x: op.ResizeBilinear(images=x, size=[1, 1]), _image_with(3)),
    "bilinear of the same size": (
        lambda x: op.ResizeBilinear(images=x, size=[5, 6], half_pixel_centers=True),
        _image_with(inf),
    ),
    "bilinear of integers": (
        lambda x: op.ResizeBilinear(images=x, size=[2, 11], half_pixel_centers=True),
        np.arange(36, dtype=np.uint8).reshape(1, 3, 4, 3),
    ),
    "slope of a bilinear column": (
        _gradient_of_columns, _numbers(2, 33, 5, 3), _numbers(2, 2, 1, 3)
    ),
    "slope of a bilinear pixel": (_gradient_of_columns, _numbers(2, 3, 5, 3), _numbers(2, 1, 1, 3)),
    "boxes behind the chosen ones": (_suppressed(4), _BOXES, _SCORES),
    "more boxes than there are": (_suppressed(9), _BOXES, _SCORES),
    "no boxes": (_suppressed(3), _BOXES[:0], _SCORES[:0]),
}  # fmt: skip


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("name", CLOSE_CASES)
def test_results_are_near_the_cpus(name: str, jit_compile: bool) -> None:
    function, *arrays = CLOSE_CASES[name]
    with tf.device("CPU:0"):
        expected = tf.nest.flatten(function(*map(tf.constant, arrays)))
    with tf.device("XPU:0"):
        arguments = [tf.constant(a) for a in arrays]
        given = tf.nest.flatten(
            (tf.function(function, jit_compile=True) if jit_compile else function)(*arguments)
        )
    assert [x.dtype for x in given] == [x.dtype for x in expected]
    for one, other in zip(given, expected, strict=True):
        assert one.shape == other.shape
        np.testing.assert_allclose(one, other, rtol=2e-5, atol=1e-5)


def test_more_chosen_boxes_than_there_are_in_a_compiled_function() -> None:
    with tf.device("XPU:0"):
        choose = tf.function(tf.image.non_max_suppression, jit_compile=True)
        chosen = choose(tf.constant(_BOXES), tf.constant(_SCORES), 100, 0.5)
    np.testing.assert_array_equal(chosen, [0, 2, 4])


def test_no_boxes_in_a_compiled_function() -> None:
    """The process ended: the bridge reads the first of them."""
    with tf.device("XPU:0"):
        choose = tf.function(tf.image.non_max_suppression, jit_compile=True)
        chosen = choose(tf.constant(_BOXES[:0]), tf.constant(_SCORES[:0]), 3)
    assert chosen.shape == (0,)
    assert chosen.dtype == tf.int32


@pytest.mark.parametrize("name", ["ksizes", "strides", "rates"])
def test_patches_along_other_dimensions_are_an_error(name: str) -> None:
    """Such numbers were passed over."""
    arguments = {"ksizes": [1, 2, 2, 1], "strides": [1, 1, 1, 1], "rates": [1, 1, 1, 1]}
    for place in (0, 3):
        arguments[name] = [2 if n == place else 1 for n in range(4)]
        with (
            tf.device("XPU:0"),
            pytest.raises((tf.errors.InvalidArgumentError, tf.errors.UnimplementedError)),
        ):
            op.ExtractImagePatches(images=_numbers(2, 5, 6, 3), padding="VALID", **arguments)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("dtype", [tf.float16, tf.bfloat16])
def test_response_normalization_of_short_numbers(dtype: tf.DType, jit_compile: bool) -> None:
    """The program that the bridge made of it was refused."""

    def normalize(x: tf.Tensor) -> Any:
        return tf.nn.local_response_normalization(x, 2, 1.0, 0.5, 0.75)

    def both(x: tf.Tensor) -> Any:
        return normalize(x), _gradient_of(normalize)(x)

    x = _numbers(1, 2, 3, 7)
    with tf.device("CPU:0"):
        expected = both(tf.constant(x))
    with tf.device("XPU:0"):
        given = (tf.function(both, jit_compile=True) if jit_compile else both)(tf.cast(x, dtype))
    for one, other in zip(given, expected, strict=True):
        assert one.dtype == dtype
        np.testing.assert_allclose(tf.cast(one, tf.float32), other, rtol=0.05, atol=0.02)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_results_are_the_cpus(name: str, jit_compile: bool) -> None:
    function, *arrays = CASES[name]
    with tf.device("CPU:0"):
        expected = function(*map(tf.constant, arrays))
    with tf.device("XPU:0"):
        arguments = [tf.constant(a) for a in arrays]
        given = (tf.function(function, jit_compile=True) if jit_compile else function)(*arguments)
    assert given.dtype == expected.dtype
    np.testing.assert_array_equal(given, expected)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_inverse_of_the_normal_distribution(dtype: Any, jit_compile: bool) -> None:
    """Below 1e-8 (1e-17 for doubles) it was -inf."""
    from scipy.special import ndtri

    tiny = 1e-37 if dtype == np.float32 else 1e-300
    p = np.concatenate([np.geomspace(tiny, 0.5, 200), 1 - np.geomspace(1e-6, 0.5, 50)])
    p = p.astype(dtype)
    special = np.array([0, 1, -0.5, 1.5, nan], dtype)
    with tf.device("XPU:0"):
        function = tf.function(tf.math.ndtri, jit_compile=True) if jit_compile else tf.math.ndtri
        given, at_special = function(tf.constant(p)), function(tf.constant(special))
    expected = ndtri(p.astype(np.float64))
    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(given, expected, rtol=16 * eps, atol=4 * eps)
    np.testing.assert_array_equal(at_special, np.array([-inf, inf, nan, nan, nan], dtype))


def test_the_inverse_of_the_normal_distribution_of_short_numbers() -> None:
    with tf.device("XPU:0"):
        given = tf.math.ndtri(tf.constant([6e-8, 0.25, 0.5], tf.float16))
    np.testing.assert_allclose(given, [-5.29, -0.6745, 0], rtol=1e-2)


def test_a_window_of_borders_alone_is_an_error() -> None:
    x = tf.ones((2, 6, 6, 1))
    with tf.device("XPU:0"), pytest.raises(tf.errors.InvalidArgumentError):
        tf.nn.max_pool2d(x, 3, 1, [[0, 0], [3, 0], [0, 0], [0, 0]])


@pytest.mark.parametrize("jit_compile", [False, True])
def test_counts_of_no_rows(jit_compile: bool) -> None:
    """They had the shape of one row."""

    def count(x: tf.Tensor) -> Any:
        return op.DenseBincount(
            input=x, size=tf.constant(4, tf.int64), weights=tf.zeros(0), binary_output=False
        )

    with tf.device("XPU:0"):
        x = tf.zeros([0, 3], tf.int64)
        counts = (tf.function(count, jit_compile=True) if jit_compile else count)(x)
    assert tuple(counts.shape) == (0, 4)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("shape", [(10, 5), (2, 5, 10), (1, 1), (3, 2, 20, 20)], ids=str)
@pytest.mark.parametrize("dtype", [tf.float64, tf.float32, tf.float16])
def test_singular_values(
    dtype: tf.DType, shape: tuple[int, ...], full: bool, jit_compile: bool
) -> None:
    """The bridge's loops stop at a millionth: doubles were off by as much."""
    x = _numbers(*shape, dtype=dtype.as_numpy_dtype)

    def decompose(a: tf.Tensor) -> Any:
        return tf.linalg.svd(a, full_matrices=full), tf.linalg.svd(a, compute_uv=False)

    with tf.device("XPU:0"):
        (s, u, v), alone = tf.function(decompose, jit_compile=jit_compile)(tf.constant(x))
    assert {a.dtype for a in (s, u, v, alone)} == {dtype}
    s, u, v, alone = (a.numpy().astype(np.float64) for a in (s, u, v, alone))
    a = x.astype(np.float64)
    m, n = shape[-2:]
    k = min(m, n)
    assert u.shape[-2:] == (m, m if full else k)
    assert v.shape[-2:] == (n, n if full else k)
    exact = np.linalg.svd(a, compute_uv=False)
    limit = 50 * np.finfo(dtype.as_numpy_dtype).eps * max(1.0, exact.max())
    product = (u[..., :k] * s[..., None, :]) @ v[..., :k].swapaxes(-1, -2)
    for result, wanted in (
        (s, exact),
        (alone, exact),
        (product, a),
        (
            u.swapaxes(-1, -2) @ u,
            np.broadcast_to(np.eye(u.shape[-1]), (*shape[:-2], *2 * u.shape[-1:])),
        ),
        (
            v.swapaxes(-1, -2) @ v,
            np.broadcast_to(np.eye(v.shape[-1]), (*shape[:-2], *2 * v.shape[-1:])),
        ),
    ):
        np.testing.assert_allclose(result, wanted, rtol=0, atol=limit)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("places", [[3, 0], [5, 1_000_000]])
def test_rows_that_nobody_writes_are_zeros(places: list[int], jit_compile: bool) -> None:
    """The memory that they have is not written on the CPU; on XPU it was an error."""

    def stitch(x: tf.Tensor) -> Any:
        return tf.dynamic_stitch([places], [x])

    x = _numbers(2, 3)
    expected = np.zeros((max(places) + 1, 3), np.float32)
    expected[places] = x
    with tf.device("XPU:0"):
        given = (tf.function(stitch, jit_compile=True) if jit_compile else stitch)(tf.constant(x))
    np.testing.assert_array_equal(given, expected)


def test_each_order_of_rows_is_as_likely() -> None:
    """Orders of three rows came with 4/27 and 5/27."""
    count = 20_000

    def orders() -> Any:
        counts = tf.zeros(9)
        for _ in tf.range(count):
            order = tf.random.shuffle(tf.reshape(tf.range(3), (3, 1)))[:, 0]
            counts += tf.one_hot(3 * order[0] + order[1], 9)
        return counts

    with tf.device("XPU:0"):
        counts = tf.function(orders, jit_compile=True)().numpy()
    assert counts[[0, 4, 8]].tolist() == [0, 0, 0]
    deviation = np.sqrt(count * (1 / 6) * (5 / 6))
    assert np.abs(counts[[1, 2, 3, 5, 6, 7]] - count / 6).max() < 5 * deviation


@pytest.mark.parametrize("compiled", [None, False, True])
@pytest.mark.parametrize(
    ("of_slice", "value"),
    [
        (np.s_[1:4, ::2], _numbers(3, 4)),
        (np.s_[::-2, 5:0:-3], _numbers(3, 2)),
        (np.s_[..., 1:6:3], _numbers(1, 2)),
        (np.s_[1:3], np.float32(7)),
        (np.s_[2], _numbers(7)),
        (np.s_[4:1:-1], _numbers(7)),
        (np.s_[0, ::3], np.float32(-1)),
    ],
)
def test_elements_of_a_variable_are_assigned(
    of_slice: Any, value: np.ndarray, compiled: bool | None
) -> None:
    """Steps other than 1 and -1 were refused, and values that have to be repeated."""
    start = _numbers(5, 7)
    with tf.device("XPU:0"):
        variable = tf.Variable(start)

        def assign(x: tf.Tensor) -> None:
            variable[of_slice].assign(x)

        function = assign if compiled is None else tf.function(assign, jit_compile=compiled)
        function(tf.constant(value))
    start[of_slice] = value
    np.testing.assert_array_equal(variable, start)


@pytest.mark.parametrize("compiled", [None, False, True])
def test_elements_of_a_variable_are_gathered(compiled: bool | None) -> None:
    """XPU had no kernel for it, and the CPU's cannot reach the variable."""
    start = _numbers(5, 7)
    with tf.device("XPU:0"):
        variable = tf.Variable(start)

        def gather(places: tf.Tensor) -> Any:
            return tf.gather_nd(variable, places), tf.gather_nd(variable, places[:, :1])

        function = gather if compiled is None else tf.function(gather, jit_compile=compiled)
        elements, rows = function(tf.constant([[4, 2], [0, 6], [4, 2]]))
    np.testing.assert_array_equal(elements, start[[4, 0, 4], [2, 6, 2]])
    np.testing.assert_array_equal(rows, start[[4, 0, 4]])


@pytest.mark.parametrize("compiled", [None, False, True])
@pytest.mark.parametrize("shape", [(0, 5), (2, 0), (0, 4, 5)], ids=str)
def test_elements_of_nothing_are_zeros(shape: tuple[int, ...], compiled: bool | None) -> None:
    """As XLA has it; the CPU's kernels refuse it. The elements were read from memory that is not the array's."""
    start = np.zeros(shape, np.float32)
    with tf.device("XPU:0"):
        variable = tf.Variable(start)

        def gather(places: tf.Tensor, x: tf.Tensor) -> Any:
            of_variable = op.ResourceGather(
                resource=variable.handle, indices=places, dtype=tf.float32, batch_dims=1
            )
            return of_variable, op.GatherV2(params=x, indices=places, axis=1, batch_dims=1)

        function = gather if compiled is None else tf.function(gather, jit_compile=compiled)
        tf.constant(7.5, shape=(1000,)) + 1.0  # the memory that is free is not all zeros
        for result in function(tf.constant([[0, 4, 1], [3, 2, 9]]), tf.constant(start)):
            np.testing.assert_array_equal(result, np.zeros((2, 3, *shape[2:]), np.float32))


@pytest.mark.parametrize("compiled", [None, False, True])
def test_a_variable_keeps_the_largest_and_the_least(compiled: bool | None) -> None:
    start = _numbers(5, 7)
    rows = _numbers(3, 7)[::-1]
    with tf.device("XPU:0"):
        largest, least = tf.Variable(start), tf.Variable(start)

        def update(places: tf.Tensor, x: tf.Tensor) -> None:
            largest.scatter_nd_max(places, x)
            least.scatter_nd_min(places, x)

        function = update if compiled is None else tf.function(update, jit_compile=compiled)
        function(tf.constant([[4], [1], [4]]), tf.constant(rows))
    for variable, reduce in ((largest, np.maximum), (least, np.minimum)):
        expected = start.copy()
        reduce.at(expected, [4, 1, 4], rows)
        np.testing.assert_array_equal(variable, expected)


def test_a_value_that_does_not_fit_is_an_error() -> None:
    with tf.device("XPU:0"):
        variable = tf.Variable(_numbers(5, 7))
        with pytest.raises(tf.errors.InvalidArgumentError):
            variable[::2].assign(tf.ones((2, 7)))


def test_the_gradient_of_a_maximum_is_deterministic() -> None:
    """The kernel was refused, though this device has the same numbers in each run."""
    pool = _gradient(lambda x: tf.nn.max_pool2d(x, 3, 2, "SAME"))
    x, weights = _numbers(2, 6, 7, 3), _numbers(2, 3, 4, 3)
    with tf.device("CPU:0"):
        expected = pool(tf.constant(x), tf.constant(weights))
    tf.config.experimental.enable_op_determinism()
    try:
        with tf.device("XPU:0"):
            given = pool(tf.constant(x), tf.constant(weights))
            compiled = tf.function(pool, jit_compile=True)(tf.constant(x), tf.constant(weights))
    finally:
        config.disable_op_determinism()
    np.testing.assert_allclose(given, expected, rtol=1e-6)
    np.testing.assert_array_equal(compiled, given)
