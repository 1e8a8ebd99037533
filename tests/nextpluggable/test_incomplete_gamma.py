"""The incomplete gamma functions, and the slope of what is drawn from a gamma distribution, for large arguments.

TensorFlow's bridge to XLA adds up terms until the last one is nothing: calls with two large arguments did not end.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

op = tf.raw_ops
_MOST = float(np.finfo(np.float64).max)


def _on_xpu(name: str, a: Any, x: Any, dtype: tf.DType, jit_compile: bool) -> np.ndarray:
    first, second = ("alpha", "sample") if name == "RandomGammaGrad" else ("a", "x")

    def call(a: tf.Tensor, x: tf.Tensor) -> Any:
        return getattr(op, name)(**{first: a, second: x})

    with tf.device("XPU:0"):
        function = tf.function(call, jit_compile=True) if jit_compile else call
        result: np.ndarray = function(tf.constant(a, dtype), tf.constant(x, dtype)).numpy()
    return result


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("dtype", [tf.float64, tf.float32])
def test_of_two_large_numbers(dtype: tf.DType, jit_compile: bool) -> None:
    """P(a, a) is 1/2 + 1 / (3 sqrt(2 pi a)), and its slope -1 / sqrt(2 pi a)."""
    a = [1e14, 1e18, 3e38] + [1e300, _MOST] * (dtype == tf.float64)
    root = np.sqrt(2 * np.pi * np.array(a[:4]))
    tolerance = 16 * np.finfo(dtype.as_numpy_dtype).eps
    lower = _on_xpu("Igamma", a, a, dtype, jit_compile)
    upper = _on_xpu("Igammac", a, a, dtype, jit_compile)
    slope = _on_xpu("IgammaGradA", a[:4], a[:4], dtype, jit_compile)
    np.testing.assert_allclose(lower[:4], 0.5 + 1 / (3 * root), rtol=tolerance)
    np.testing.assert_allclose(lower + upper, 1.0, rtol=tolerance)
    np.testing.assert_allclose(slope, -1 / root, rtol=1e-6)


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("Igamma", tf.float64),
        ("Igamma", tf.float16),
        ("Igammac", tf.float32),
        ("Igammac", tf.bfloat16),
        ("IgammaGradA", tf.float64),
        ("RandomGammaGrad", tf.float32),
    ],
)
def test_of_ordinary_numbers_and_at_the_ends(name: str, dtype: tf.DType, jit_compile: bool) -> None:
    """As on the CPU, where rows meet columns."""
    ends = [] if name == "RandomGammaGrad" else [0.0, -1.0, np.inf, np.nan]
    a = np.array([0.5, 1, 2.5, 10, *ends])[:, None]
    x = np.array([0.25, 1, 3, 12, *ends[:1], *ends[3:], *([1e9] if ends else [])])
    first, second = ("alpha", "sample") if name == "RandomGammaGrad" else ("a", "x")
    with tf.device("CPU:0"):
        arguments = {first: tf.constant(a, dtype), second: tf.constant(x, dtype)}
        expected = getattr(op, name)(**arguments).numpy()
    result = _on_xpu(name, a, x, dtype, jit_compile)
    assert result.shape == (len(a), len(x))
    assert result.dtype == expected.dtype
    tolerance = 2e-2 if dtype.size == 2 else 1e-5
    np.testing.assert_allclose(
        result.astype(np.float64), expected.astype(np.float64), rtol=tolerance, atol=1e-12
    )


@pytest.mark.parametrize("jit_compile", [False, True])
@pytest.mark.parametrize("dtype", [tf.float64, tf.float32])
def test_the_slope_of_a_number_drawn(dtype: tf.DType, jit_compile: bool) -> None:
    """A number of alpha + z sqrt(alpha) grows by 1 + z / (2 sqrt(alpha)), up to parts of 1 / alpha."""
    alpha = np.array([1e12, 1e18])[:, None]
    z = np.array([-3, -0.5, 0, 1, 4])
    sample = (alpha + z * np.sqrt(alpha)).astype(dtype.as_numpy_dtype)
    slopes = _on_xpu("RandomGammaGrad", alpha, sample, dtype, jit_compile)
    np.testing.assert_allclose(
        slopes, 1 + z / (2 * np.sqrt(alpha)), rtol=4 * np.finfo(slopes.dtype).eps + 2e-11
    )
