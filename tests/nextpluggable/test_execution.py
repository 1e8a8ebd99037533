"""Where ops and tensors go, and what bad input gets."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

import tripont.tensorflow

from .conftest import Run

XPU = "/device:XPU:0"


@pytest.mark.parametrize(
    "value",
    [
        1,
        1.5,
        True,
        2 + 3j,
        [1, 2],
        [[1.0], [2.0]],
        np.arange(5, dtype=np.int8),
        "text",
        [],
        np.float64(2),
    ],
    ids=str,
)
def test_constants(value: object) -> None:
    with tf.device(XPU):
        x = tf.constant(value)
        y = tf.identity(x)
    np.testing.assert_array_equal(y.numpy(), x.numpy())
    with tf.device("/device:CPU:0"):
        np.testing.assert_array_equal(x.numpy(), tf.constant(value).numpy())


def test_int32_shapes_and_counters_stay_on_the_host() -> None:
    with tf.device(XPU):
        i = tf.constant([3, 4, 5])
        results = [
            i + 4,
            i * i,
            tf.shape(tf.ones((2, 3)))[0],
            tf.reduce_sum(i),
            tf.stack([i, i]),
            -i,
            tf.range(4),
        ]
    expected = [[7, 8, 9], [9, 16, 25], 2, 12, [[3, 4, 5]] * 2, [-3, -4, -5], [0, 1, 2, 3]]
    for result, numbers in zip(results, expected, strict=True):
        assert result.device.endswith("XPU:0")
        assert result.backing_device.endswith("CPU:0")
        np.testing.assert_array_equal(result, numbers)


def test_int32_works_on_the_device_where_it_comes_from_there() -> None:
    with tf.device(XPU):
        x = tf.constant([1.0, 3.0, 2.0])
        place = tf.argmax(x, output_type=tf.int32)
        assert place.backing_device.endswith("XPU:0")
        assert (place + 1).numpy() == 2
        np.testing.assert_array_equal(tf.gather(x, place), 3.0)

        @tf.function(jit_compile=True)
        def compiled(x: tf.Tensor) -> tf.Tensor:
            return tf.cast(tf.argmax(x, output_type=tf.int32) + tf.shape(x)[0], tf.float32)

        assert compiled(x).numpy() == 4.0


def test_a_shape_that_is_computed_is_used() -> None:
    @tf.function(input_signature=[tf.TensorSpec([None, None, None])])
    def merge(x: tf.Tensor) -> tf.Tensor:
        return tf.reshape(x, [tf.shape(x)[0] * tf.shape(x)[1], -1])

    with tf.device(XPU):
        for shape in ((2, 3, 4), (1, 5, 2)):
            x = tf.constant(np.random.default_rng(0).normal(size=shape).astype(np.float32))
            result = merge(x)
            np.testing.assert_array_equal(result, x.numpy().reshape(shape[0] * shape[1], -1))


def test_strings_stay_on_the_cpu_and_are_not_reported() -> None:
    with tf.device(XPU):
        joined = tf.strings.join(["a", tf.strings.as_string(tf.constant([1.0]))])
    assert joined.device.endswith("CPU:0")
    assert not {"StringJoin", "AsString"} & set(tripont.tensorflow.ops_on_cpu())


def test_an_op_without_a_kernel_runs_on_the_cpu_and_is_named_once(
    subprocess_environment: dict[str, str], run_program: Run
) -> None:
    program = """
import tensorflow as tf, tripont.tensorflow
with tf.device("/device:XPU:0"):
    x = tf.constant([[2.0, 1.0], [1.0, 3.0]])
    for _ in range(3):
        result = tf.raw_ops.Eig(input=x, Tout=tf.complex64)
    assert result.e.device.endswith("CPU:0")
    in_function = tf.function(lambda x: tf.raw_ops.Lu(input=x).lu * 2)
    assert in_function(x).device.endswith("XPU:0")
    in_function(x + x)
assert tripont.tensorflow.ops_on_cpu() == ["Eig", "Lu"], tripont.tensorflow.ops_on_cpu()
"""
    result = run_program(program, subprocess_environment)
    assert result.returncode == 0, result.stderr
    for op in ("Eig", "Lu"):
        assert result.stderr.count(f"tripont: {op} runs on the CPU") == 1, result.stderr


def test_without_soft_placement_an_op_without_a_kernel_is_an_error() -> None:
    tf.config.set_soft_device_placement(False)
    try:
        with tf.device(XPU), pytest.raises(tf.errors.InvalidArgumentError, match="XPU"):
            tf.raw_ops.Eig(input=tf.ones((2, 2)), Tout=tf.complex64)
    finally:
        tf.config.set_soft_device_placement(True)


def test_shapes_that_do_not_match() -> None:
    with tf.device(XPU):
        a, b = tf.ones((2, 3)), tf.ones((2, 4))
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"shape|dim|Incompatible"):
            tf.add(a, b)
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"Matrix size|mismatch|In\[0\]|Dim"
        ):
            tf.matmul(a, b)
        np.testing.assert_array_equal(tf.add(a, a), np.full((2, 3), 2.0))


def test_a_deleted_variable() -> None:
    with tf.device(XPU):
        handle = tf.raw_ops.VarHandleOp(dtype=tf.float32, shape=[2], shared_name="deleted")
        tf.raw_ops.AssignVariableOp(resource=handle, value=tf.ones(2))
        tf.raw_ops.DestroyResourceOp(resource=handle)
        expected = (tf.errors.NotFoundError, tf.errors.FailedPreconditionError)
        with pytest.raises(expected, match="deleted"):
            tf.raw_ops.ReadVariableOp(resource=handle, dtype=tf.float32)
        with pytest.raises(expected, match="deleted"):
            tf.raw_ops.AssignAddVariableOp(resource=handle, value=tf.ones(2))
        one = tf.constant(0.5)
        moments = [tf.Variable(tf.ones(2)) for _ in range(2)]
        with pytest.raises(expected):
            tf.raw_ops.ResourceApplyAdam(
                var=handle, m=moments[0].handle, v=moments[1].handle, beta1_power=one,
                beta2_power=one, lr=one, beta1=one, beta2=one, epsilon=one, grad=tf.ones(2),
            )  # fmt: skip
        np.testing.assert_array_equal(tf.Variable([3.0]), [3.0])


def test_out_of_memory() -> None:
    with tf.device(XPU):
        with pytest.raises(tf.errors.ResourceExhaustedError, match="memory"):
            tf.fill([1 << 22, 1 << 22], 1.0)
        np.testing.assert_array_equal(tf.fill([2], 1.0) + 1, [2.0, 2.0])


def test_special_numbers() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 2e-38], np.float32)
    results = []
    for device in (XPU, "/device:CPU:0"):
        with tf.device(device):
            y = tf.constant(x)
            results.append(
                [tf.abs(y), y + 1, tf.maximum(y, 0.0), tf.reduce_max(y), tf.math.is_nan(y), y * 0]
            )
    for a, b in zip(*results, strict=True):
        np.testing.assert_array_equal(a, b)
