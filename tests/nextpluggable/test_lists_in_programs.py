"""Lists of tensors that compiled functions write and read: their sizes are part of the program.

TensorFlow's bridge to XLA writes the nearest element where a list is to become longer, so that a ``TensorArray`` with
``dynamic_size=True`` lost what was written to it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

op = tf.raw_ops

_ROWS = np.arange(15, dtype=np.float32).reshape(5, 3)


def _written(order: list[int], size: int = 0, **given: Any) -> Callable[..., Any]:
    def function(x: tf.Tensor) -> Any:
        array = tf.TensorArray(tf.float32, size=size, dynamic_size=True, **given)
        for i in order:
            array = array.write(i, x[i])
        return array.stack(), array.size(), array.read(order[0])

    return function


@pytest.mark.parametrize(
    "function",
    [
        _written([0, 1, 2, 3, 4], clear_after_read=False),
        _written([4, 2, 0], clear_after_read=False, element_shape=[3]),
        _written([0, 1, 2, 3], size=2, clear_after_read=False, element_shape=[3]),
        _written([1, 0], size=4, clear_after_read=False, element_shape=[3]),
    ],
    ids=["one by one", "from the last", "longer than it was", "long enough"],
)
def test_a_list_becomes_longer(function: Callable[..., Any]) -> None:
    with tf.device("CPU:0"):
        expected = tf.function(function)(tf.constant(_ROWS))
    with tf.device("XPU:0"):
        given = tf.function(function, jit_compile=True)(tf.constant(_ROWS))
    for one, other in zip(given, expected, strict=True):
        np.testing.assert_array_equal(one, other)


def _written_in_a_loop(size: int, shift: int) -> Callable[..., Any]:
    def function(x: tf.Tensor) -> Any:
        array = tf.TensorArray(tf.float32, size=size, dynamic_size=True, element_shape=[3])
        for i in tf.range(3):
            array = array.write(i + shift, x[i])
        return array.stack()

    return tf.autograph.to_graph(function)


def test_a_list_with_room_is_written_in_a_loop() -> None:
    with tf.device("XPU:0"):
        given = tf.function(_written_in_a_loop(5, 2), jit_compile=True)(tf.constant(_ROWS))
    np.testing.assert_array_equal(given, np.concatenate([np.zeros((2, 3)), _ROWS[:3]]))


@pytest.mark.parametrize(("size", "shift"), [(2, 0), (3, 1), (0, 0)])
def test_a_list_without_room_is_an_error_in_a_loop(size: int, shift: int) -> None:
    function = tf.function(_written_in_a_loop(size, shift), jit_compile=True)
    with (
        tf.device("XPU:0"),
        pytest.raises((tf.errors.InvalidArgumentError, tf.errors.UnimplementedError)),
    ):
        np.asarray(function(tf.constant(_ROWS)))


@pytest.mark.parametrize("index", [-1, 5])
@pytest.mark.parametrize("writes", [False, True])
def test_an_index_outside_is_an_error(index: int, writes: bool) -> None:
    def function(x: tf.Tensor) -> Any:
        array = tf.TensorArray(tf.float32, size=5, clear_after_read=False).unstack(x)
        return array.write(index, x[0]).stack() if writes else array.read(index)

    with tf.device("XPU:0"), pytest.raises(tf.errors.InvalidArgumentError):
        np.asarray(tf.function(function, jit_compile=True)(tf.constant(_ROWS)))


@pytest.mark.parametrize("is_read", [False, True])
def test_an_index_outside_is_no_error_where_it_is_not_read(is_read: bool) -> None:
    def function(x: tf.Tensor, condition: tf.Tensor) -> Any:
        array = tf.TensorArray(tf.float32, size=5, clear_after_read=False).unstack(x)
        return tf.cond(condition, lambda: array.read(7), lambda: array.read(2))

    with tf.device("XPU:0"):
        compiled = tf.function(function, jit_compile=True)
        arguments = tf.constant(_ROWS), tf.constant(is_read)
        if is_read:
            with pytest.raises(tf.errors.InvalidArgumentError):
                np.asarray(compiled(*arguments))
        else:
            np.testing.assert_array_equal(compiled(*arguments), _ROWS[2])


def _split(lengths: list[int]) -> Callable[..., Any]:
    def function(x: tf.Tensor) -> Any:
        handle = op.TensorListSplit(
            tensor=x, element_shape=[-1, 3], lengths=tf.constant(lengths, tf.int64)
        )
        rest, last = op.TensorListPopBack(
            input_handle=handle, element_shape=[-1, 3], element_dtype=tf.float32
        )
        _, before = op.TensorListPopBack(
            input_handle=rest, element_shape=[-1, 3], element_dtype=tf.float32
        )
        return last, before

    return function


def test_the_last_part_of_an_array_is_popped_first() -> None:
    """The length of a part was taken for the number of parts."""
    x = np.arange(24, dtype=np.float32).reshape(8, 3)
    with tf.device("XPU:0"):
        last, before = tf.function(_split([2, 2, 2, 2]), jit_compile=True)(tf.constant(x))
    np.testing.assert_array_equal(last, x[6:])
    np.testing.assert_array_equal(before, x[4:6])


def test_parts_that_are_not_all_of_an_array_are_an_error() -> None:
    with tf.device("XPU:0"), pytest.raises(tf.errors.InvalidArgumentError, match="add up"):
        tf.function(_split([2, 2]), jit_compile=True)(tf.ones((8, 3)))
