"""Arguments in host memory reach the op that they were given to, whatever other threads call at the same time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

THREADS = 8
STEPS = 300  # where threads got each other's arguments, about one in 200 of the 2,400 calls did


def _sum(n: Any, _: Any) -> Any:
    return n + 1


def _shape(n: Any, _: Any) -> Any:
    return tf.fill(tf.reshape(n, [1]), 1.0)


def _slice(n: Any, x: Any) -> Any:
    return x[n - 1]


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (_sum, lambda n: n + 1),
        (_shape, lambda n: np.ones(n, np.float32)),
        (_slice, lambda n: np.float32(n - 1)),
    ],
)
def test_threads_keep_their_own_arguments(
    call: Callable[[Any, Any], Any], expected: Callable[[int], Any]
) -> None:
    start = threading.Barrier(THREADS)

    def wrong(thread: int) -> int:
        sizes = [1 + thread + THREADS * i for i in range(4)]  # no other thread's
        with tf.device("CPU:0"):
            numbers = [tf.constant(n) for n in sizes]
        with tf.device("XPU:0"):
            x = tf.range(float(THREADS * 4))
            start.wait()
            results = [call(numbers[step % 4], x).numpy() for step in range(STEPS)]
        return sum(
            not np.array_equal(result, expected(sizes[step % 4]))
            for step, result in enumerate(results)
        )

    with ThreadPoolExecutor(THREADS) as pool:
        assert list(pool.map(wrong, range(THREADS))) == [0] * THREADS


def test_a_function_on_both_devices() -> None:
    """Both directions, in a loop too, where each iteration has transfers of its own."""

    @tf.function
    def function(n: Any) -> Any:
        total = tf.constant(0)
        for i in tf.range(n):
            with tf.device("CPU:0"):
                even = tf.strings.to_number(tf.strings.as_string(i * 2), tf.int32)
            with tf.device("XPU:0"):
                total += tf.shape(tf.zeros(tf.stack([even, 3])))[0]
        return total

    with tf.device("XPU:0"):
        for n in (0, 1, 7):
            assert int(function(tf.constant(n))) == n * (n - 1)
