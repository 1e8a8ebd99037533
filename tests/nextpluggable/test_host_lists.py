"""Lists of tensors by a handle, TensorFlow 1's TensorArrays: an internal error before where they were not compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from .conftest import Run

op = tf.raw_ops
_ROWS = np.arange(6, dtype=np.float32).reshape(3, 2)


def _through_an_array(x: tf.Tensor) -> Any:
    handle, flow = op.TensorArrayV3(size=4, dtype=x.dtype, clear_after_read=False)
    flow = op.TensorArrayScatterV3(handle=handle, indices=[0, 1, 2], value=x, flow_in=flow)
    flow = op.TensorArrayWriteV3(handle=handle, index=3, value=x[1] * 2, flow_in=flow)
    row = op.TensorArrayReadV3(handle=handle, index=2, flow_in=flow, dtype=x.dtype)
    rows = op.TensorArrayGatherV3(handle=handle, indices=[3, 0], flow_in=flow, dtype=x.dtype)
    return row, rows, op.TensorArraySizeV3(handle=handle, flow_in=flow)


@pytest.mark.parametrize("way", ["eager", "function"])
@pytest.mark.parametrize("dtype", [tf.float32, tf.bfloat16, tf.int32, tf.complex64])
def test_a_list_by_a_handle(dtype: tf.DType, way: str) -> None:
    compute = _through_an_array if way == "eager" else tf.function(_through_an_array)
    with tf.device("XPU:0"):
        row, rows, size = compute(tf.cast(_ROWS, dtype))
    np.testing.assert_array_equal(tf.cast(row, tf.float32), [4, 5])
    np.testing.assert_array_equal(tf.cast(rows, tf.float32), [[4, 6], [0, 1]])
    assert size == 4


@pytest.mark.parametrize("way", ["eager", "function", "compiled"])
def test_the_gradient_of_a_list_by_a_handle(way: str) -> None:
    """Compiled functions were refused: XLA's flow of the gradient has no elements, and a scalar was asked for."""

    def added(x: tf.Tensor) -> Any:
        handle, flow = op.TensorArrayV3(size=3, dtype=x.dtype)
        flow = op.TensorArrayScatterV3(handle=handle, indices=[0, 1, 2], value=x, flow_in=flow)
        gradient, flow = op.TensorArrayGradV3(handle=handle, flow_in=flow, source="gradients")
        for place in (2, 0, 1, 2):  # what is written to a gradient is added
            flow = op.TensorArrayWriteV3(handle=gradient, index=place, value=x[place], flow_in=flow)
        return op.TensorArrayGatherV3(
            handle=gradient, indices=[0, 1, 2], flow_in=flow, dtype=x.dtype
        )

    compute = added if way == "eager" else tf.function(added, jit_compile=way == "compiled")
    with tf.device("XPU:0"):
        rows = compute(tf.constant(_ROWS))
    np.testing.assert_array_equal(rows, _ROWS * [[1], [1], [2]])


SESSION = """
import numpy as np
import tensorflow as tf

v1 = tf.compat.v1
v1.disable_control_flow_v2()
with tf.Graph().as_default(), tf.device("XPU:0"):
    x = v1.placeholder(tf.float32, (5, 2))
    w = tf.constant([[1.0, 2.0], [3.0, 4.0]])

    def step(h, row):
        return tf.tanh(tf.linalg.matvec(w, row) * 0.1 + h)

    states = tf.scan(step, x, initializer=tf.zeros(2))
    gradient = v1.gradients(states, x)[0]
    with v1.Session() as session:
        assert any(n.type == "TensorArrayV3" for n in session.graph.get_operations())
        given = np.arange(10, dtype=np.float32).reshape(5, 2) / 10
        for _ in range(2):
            states_, gradient_ = session.run([states, gradient], {x: given})
h, expected = np.zeros(2), []
for row in given:
    h = np.tanh(np.array([[1, 2], [3, 4]]) @ row * 0.1 + h)
    expected.append(h)
np.testing.assert_allclose(states_, expected, rtol=1e-5)
slope, slopes = np.zeros(2), []
for h in expected[::-1]:
    slope = (slope + 1) * (1 - h**2)
    slopes.append(np.array([[1, 2], [3, 4]]).T @ slope * 0.1)
np.testing.assert_allclose(gradient_, slopes[::-1], rtol=1e-5)
print("done")
"""


def test_a_loop_of_tensorflow_1_and_its_gradient(
    subprocess_environment: dict[str, str], run_program: Run
) -> None:
    result = run_program(SESSION, subprocess_environment)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "done"
