"""The adapter's own kernels against TensorFlow's for the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

XPU = "/device:XPU:0"
CPU = "/device:CPU:0"
NUMBERS = [tf.int8, tf.uint8, tf.int16, tf.uint16, tf.int32, tf.int64, tf.float32, tf.float64]


def on(device: str, function: Callable[..., Any], *arguments: Any) -> Any:
    with tf.device(device):
        return function(*(tf.constant(a) if isinstance(a, np.ndarray) else a for a in arguments))


def on_both(function: Callable[..., Any], *arguments: Any) -> tuple[list[Any], list[Any]]:
    results = [tf.nest.flatten(on(device, function, *arguments)) for device in (XPU, CPU)]
    return results[0], results[1]


def assert_equal(function: Callable[..., Any], *arguments: Any) -> None:
    xpu, cpu = on_both(function, *arguments)
    for a, b in zip(xpu, cpu, strict=True):
        assert "XPU" in a.device
        assert a.dtype == b.dtype
        np.testing.assert_array_equal(a, b)


def values(shape: tuple[int, ...], dtype: tf.DType, seed: int = 0) -> np.ndarray:
    numbers = np.random.default_rng(seed).integers(0, 3, shape)
    result: np.ndarray = numbers.astype(dtype.as_numpy_dtype)
    return result


@pytest.mark.parametrize("dtype", [*NUMBERS, tf.bool], ids=lambda d: d.name)
@pytest.mark.parametrize("shape", [(7,), (3, 4), (2, 1, 3, 2), (0,), (3, 0)], ids=str)
def test_where(dtype: tf.DType, shape: tuple[int, ...]) -> None:
    assert_equal(tf.where, values(shape, dtype))


def test_where_of_a_scalar_is_tensorflows_error() -> None:
    for device in (XPU, CPU):
        with pytest.raises(tf.errors.InvalidArgumentError, match="Unhandled input dimensions: 0"):
            on(device, tf.where, np.float32(1.0))


def test_where_of_special_numbers() -> None:
    assert_equal(tf.where, np.array([0.0, -0.0, np.nan, np.inf, 1e-45], np.float32))


def test_boolean_mask() -> None:
    x = np.random.default_rng(1).normal(size=(20, 3)).astype(np.float32)
    assert_equal(lambda x: tf.boolean_mask(x, x[:, 0] > 0), x)


@pytest.mark.parametrize("dtype", NUMBERS, ids=lambda d: d.name)
@pytest.mark.parametrize("index", [tf.int32, tf.int64], ids=lambda d: d.name)
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_unique(dtype: tf.DType, index: tf.DType, count: int) -> None:
    x = values((count,), dtype)
    assert_equal(lambda x: tf.unique(x, out_idx=index), x)
    assert_equal(lambda x: tf.unique_with_counts(x, out_idx=index), x)


def test_unique_of_special_numbers() -> None:
    assert_equal(tf.unique, np.array([np.nan, 0.0, -0.0, np.nan, np.inf, np.inf], np.float32))


def test_unique_of_a_matrix_is_tensorflows_error() -> None:
    for device in (XPU, CPU):
        with pytest.raises(tf.errors.InvalidArgumentError, match="1D"):
            on(device, lambda x: tf.raw_ops.Unique(x=x), np.ones((2, 2), np.float32))


def boxes(count: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(2)
    corners = rng.uniform(size=(count, 4)).astype(np.float32)
    corners[: count // 4, 2:] = corners[: count // 4, :2] + 0.2
    return corners, rng.choice(50, count).astype(np.float32) / 50


@pytest.mark.parametrize("count", [0, 1, 200])
@pytest.mark.parametrize("limit", [0, 5, 300])
@pytest.mark.parametrize("overlap", [0.0, 0.3, 1.0])
def test_non_max_suppression(count: int, limit: int, overlap: float) -> None:
    corners, scores = boxes(count)
    assert_equal(
        lambda b, s: tf.image.non_max_suppression(b, s, limit, overlap, 0.1), corners, scores
    )


@pytest.mark.parametrize("sigma", [0.0, 0.5])
@pytest.mark.parametrize("padded", [False, True])
def test_non_max_suppression_with_scores(sigma: float, padded: bool) -> None:
    corners, scores = boxes(100)
    xpu, cpu = on_both(
        lambda b, s: tf.raw_ops.NonMaxSuppressionV5(
            boxes=b,
            scores=s,
            max_output_size=20,
            iou_threshold=0.5,
            score_threshold=0.05,
            soft_nms_sigma=sigma,
            pad_to_max_output_size=padded,
        ),
        corners,
        scores,
    )
    np.testing.assert_array_equal(xpu[0], cpu[0])
    np.testing.assert_allclose(xpu[1], cpu[1], rtol=1e-5)
    assert xpu[2] == cpu[2]


@pytest.mark.parametrize("padded", [False, True])
def test_non_max_suppression_v4(padded: bool) -> None:
    corners, scores = boxes(60)
    xpu, cpu = on_both(
        lambda b, s: tf.raw_ops.NonMaxSuppressionV4(
            boxes=b,
            scores=s,
            max_output_size=40,
            iou_threshold=0.4,
            score_threshold=0.0,
            pad_to_max_output_size=padded,
        ),
        corners,
        scores,
    )
    assert xpu[1] == cpu[1]
    np.testing.assert_array_equal(xpu[0], cpu[0])


def test_non_max_suppression_of_wrong_shapes_is_tensorflows_error() -> None:
    for device in (XPU, CPU):
        for b, s, message in (
            (np.ones((3, 5), np.float32), np.ones(3, np.float32), "4"),
            (np.ones((3, 4), np.float32), np.ones(2, np.float32), "scores|dim"),
        ):
            with pytest.raises(tf.errors.InvalidArgumentError, match=message):
                on(device, lambda b, s: tf.image.non_max_suppression(b, s, 5), b, s)


@pytest.mark.parametrize("dtype", [tf.float32, tf.float64], ids=lambda d: d.name)
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("shape", [(), (3,), (300, 257)], ids=str)
def test_adam(dtype: tf.DType, nesterov: bool, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(4)
    start = rng.normal(size=shape).astype(dtype.as_numpy_dtype)
    gradients = rng.normal(size=(5, *shape)).astype(dtype.as_numpy_dtype)

    def train() -> list[tf.Tensor]:
        variables = [tf.Variable(start), tf.Variable(0 * start), tf.Variable(0 * start)]
        for step, gradient in enumerate(gradients, 1):
            tf.raw_ops.ResourceApplyAdam(
                var=variables[0].handle,
                m=variables[1].handle,
                v=variables[2].handle,
                beta1_power=tf.constant(0.9**step, dtype),
                beta2_power=tf.constant(0.999**step, dtype),
                lr=tf.constant(0.01, dtype),
                beta1=tf.constant(0.9, dtype),
                beta2=tf.constant(0.999, dtype),
                epsilon=tf.constant(1e-7, dtype),
                grad=tf.constant(gradient),
                use_nesterov=nesterov,
            )
        return [v.read_value() for v in variables]

    xpu, cpu = on(XPU, train), on(CPU, train)
    # Each step rounds about ten times, and five of them add up.
    epsilon = np.finfo(dtype.as_numpy_dtype).eps
    for a, b in zip(xpu, cpu, strict=True):
        np.testing.assert_allclose(a, b, rtol=100 * epsilon, atol=10 * epsilon)


def test_adam_with_shapes_that_differ_is_tensorflows_error() -> None:
    def step() -> None:
        a, b, c = (tf.Variable(tf.ones(n)) for n in (3, 3, 4))
        one = tf.constant(0.5)
        tf.raw_ops.ResourceApplyAdam(
            var=a.handle, m=b.handle, v=c.handle, beta1_power=one, beta2_power=one, lr=one,
            beta1=one, beta2=one, epsilon=one, grad=tf.ones(3),
        )  # fmt: skip

    for device in (XPU, CPU):
        with pytest.raises(tf.errors.InvalidArgumentError, match="same shape"):
            on(device, step)
