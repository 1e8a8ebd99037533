"""Kernels that users write with tripont/tensorflow_kernel.h work on the buffers of the compiled programs."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tripont.tensorflow

DEVICE = "/device:XPU:0"

# 999 is no type of TensorFlow's.
REFUSED = """
#include "tripont/tensorflow_kernel.h"
struct Nothing {
  void Compute(tripont::Context&) {}
};
TRIPONT_REGISTER_KERNEL(Nothing, tripont::Kernel("TripontDouble").Type("T", static_cast<TF_DataType>(999)));
"""


def test_a_kernel_that_is_refused_is_named(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    source, library = tmp_path / "refused.cc", tmp_path / "refused.so"
    source.write_text(REFUSED)
    command = ["c++", str(source), *tripont.tensorflow.compile_flags()]
    subprocess.run([*command, "-o", str(library), *tripont.tensorflow.link_flags()], check=True)
    ctypes.CDLL(str(library))
    said = capfd.readouterr().err
    assert (
        "tripont: a kernel of the op TripontDouble was not registered: Unexpected type 999" in said
    )


def test_kernels_share_a_buffer_that_one_of_them_made(test_ops: Any) -> None:
    with tf.device(DEVICE):
        x = tf.constant(np.arange(5000, dtype=np.float32))
        made = test_ops.tripont_make(x, amount=2.0)
        assert made.address == test_ops.tripont_address(made.y)
        assert made.address != test_ops.tripont_address(x)
    np.testing.assert_array_equal(made.y, np.arange(5000) + 2)


def test_a_compiled_program_and_a_kernel_work_on_one_buffer_in_turns(test_ops: Any) -> None:
    """A kernel and a program with donation write one variable: its address stays, each sees the other's values."""
    with tf.device(DEVICE):
        variable = tf.Variable(tf.ones(1000))
        other = tf.Variable(tf.ones(3))
        amount = tf.fill([1000], 1.0)

        @tf.function(jit_compile=True)
        def compiled_step() -> None:
            variable.assign_add(amount)

        compiled_step()
        first = test_ops.tripont_double(variable.handle, other.handle)
        compiled_step()
        second = test_ops.tripont_double(variable.handle, other.handle)
        assert first.address_of_first == second.address_of_first
        assert first.address_of_second == second.address_of_second
        assert test_ops.tripont_address(variable.read_value()) == first.address_of_first
    np.testing.assert_array_equal(variable, np.full(1000, ((1.0 + 1) * 2 + 1) * 2))
    np.testing.assert_array_equal(other, np.full(3, 4.0))


def test_a_variable_whose_buffer_is_shared_is_not_written_to(test_ops: Any) -> None:
    with tf.device(DEVICE):
        variable = tf.Variable([1.0, 2.0])
        other = tf.Variable([5.0])
        before = variable.read_value()
        address = test_ops.tripont_address(before)
        doubled = test_ops.tripont_double(variable.handle, other.handle)
        assert doubled.address_of_first != address
        assert test_ops.tripont_address(variable.read_value()) == doubled.address_of_first
    np.testing.assert_array_equal(before, [1.0, 2.0])
    np.testing.assert_array_equal(variable, [2.0, 4.0])


def test_memory_that_came_from_numpy_is_not_written_to(test_ops: Any) -> None:
    values = np.ones(100_000, np.float32)
    with tf.device(DEVICE):
        variable = tf.Variable(values)
        other = tf.Variable([1.0])
        test_ops.tripont_double(variable.handle, other.handle)
    np.testing.assert_array_equal(values, 1.0)
    np.testing.assert_array_equal(variable, 2 * values)


def test_a_kernel_waits_for_programs_that_are_still_running(test_ops: Any) -> None:
    with tf.device(DEVICE):
        x = tf.constant(np.eye(700, dtype=np.float32))
        product = x
        for _ in range(4):
            product = tf.matmul(product, x)
        made = test_ops.tripont_make(product, amount=1.0)
        np.testing.assert_array_equal(tf.matmul(made.y, x), np.eye(700) + 1)


def test_both_kinds_in_one_graph(test_ops: Any) -> None:
    @tf.function
    def model(x: tf.Tensor, w: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        hidden = tf.nn.relu(tf.matmul(x, w))
        made = test_ops.tripont_make(hidden, amount=0.5)
        chosen = tf.where(made.y > 1.0)
        result = tf.reduce_sum(tf.gather_nd(tf.square(made.y), chosen))
        return result, made.address, test_ops.tripont_address(made.y)

    rng = np.random.default_rng(0)
    x = rng.normal(size=(8, 16)).astype(np.float32)
    w = rng.normal(size=(16, 4)).astype(np.float32)
    with tf.device(DEVICE):
        result, made, seen = model(tf.constant(x), tf.constant(w))
    assert made == seen
    y = np.maximum(x.astype(np.float64) @ w, 0) + 0.5
    np.testing.assert_allclose(result, (y[y > 1] ** 2).sum(), rtol=1e-5)


@pytest.mark.parametrize(
    ("way", "error", "message"),
    [
        (0, tf.errors.InternalError, "thrown by a kernel"),
        (1, tf.errors.OutOfRangeError, "said by a kernel"),
        (2, tf.errors.InvalidArgumentError, "there is no input 7"),
        (3, tf.errors.InvalidArgumentError, "output 0 has type float, and the kernel makes int64"),
        (4, tf.errors.ResourceExhaustedError, "memory"),
    ],
)
def test_errors(test_ops: Any, way: int, error: type[Exception], message: str) -> None:
    with tf.device(DEVICE):
        x = tf.constant([1.0])
        with pytest.raises(error, match=message):
            test_ops.tripont_fail(x, way=way)
        with pytest.raises(tf.errors.InvalidArgumentError, match="amount is negative"):
            test_ops.tripont_make(x, amount=-1.0)
        np.testing.assert_array_equal(test_ops.tripont_make(x, amount=1.0).y, [2.0])


def test_a_variable_given_twice_is_an_error(test_ops: Any) -> None:
    with tf.device(DEVICE):
        variable = tf.Variable([1.0])
        with pytest.raises(tf.errors.InvalidArgumentError, match="the same variable twice"):
            test_ops.tripont_double(variable.handle, variable.handle)
    np.testing.assert_array_equal(variable, [1.0])
