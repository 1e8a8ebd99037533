"""Ten thousand ops: from eight threads without a deadlock, and from one without memory that grows."""

from __future__ import annotations

import gc
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import psutil
import pytest
import tensorflow as tf

XPU = "/device:XPU:0"
THREADS = 8
STEPS = 125  # ten ops each, in each thread: 10,000


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_threads_do_not_wait_for_each_other_forever() -> None:
    """Compilations, transfers, int32 on the host, kernels by hand, variables and constants at the same time."""
    start = threading.Barrier(THREADS)

    def work(thread: int) -> float:
        rng = np.random.default_rng(thread)
        total = 0.0
        with tf.device(XPU):
            variable = tf.Variable(tf.zeros(4))
            start.wait()
            for step in range(STEPS):
                size = 4 + step % 5
                x = tf.constant(rng.integers(0, 9, size).astype(np.float32))
                y = x * 2.0 + 1.0
                count = tf.size(tf.where(y > 4.0))
                y = tf.random.shuffle(y)
                largest = tf.reduce_max(tf.unique(y).y, axis=0)
                variable.assign_add(tf.fill([4], 1.0))
                total += float(tf.reduce_sum(y) + largest) + int(count + 1)
                total -= 2 * float(tf.reduce_sum(x)) + size
            np.testing.assert_array_equal(variable, np.full(4, float(STEPS)))
        return total

    with ThreadPoolExecutor(THREADS) as pool:
        results = list(pool.map(work, range(THREADS)))
    for thread, result in enumerate(results):
        rng = np.random.default_rng(thread)
        expected = 0
        for step in range(STEPS):
            y = rng.integers(0, 9, 4 + step % 5) * 2 + 1
            expected += y.max() + (y > 4).sum() + 1
        assert result == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["eager", "function", "jit", "kernels"])
def test_memory_does_not_grow(kind: str) -> None:
    """2,500 steps of four kinds. One small tensor kept from each step would be 2,500 * 4 KB = 10 MB."""
    with tf.device(XPU):
        x = tf.constant(np.arange(1024, dtype=np.float32))
        weights = tf.Variable(tf.ones(1024))
        moments = [tf.Variable(tf.zeros(1024)) for _ in range(2)]

        def step() -> Any:
            weights.assign_sub(0.001 * tf.math.tanh(weights * x))
            return tf.reduce_sum(weights)

        def step_by_kernels() -> Any:
            one = tf.constant(0.5)
            tf.raw_ops.ResourceApplyAdam(
                var=weights.handle, m=moments[0].handle, v=moments[1].handle, beta1_power=one,
                beta2_power=one, lr=one, beta1=one, beta2=one, epsilon=one, grad=x,
            )  # fmt: skip
            return tf.unique(tf.random.shuffle(x)).y[0]

        run = {
            "eager": step,
            "function": tf.function(step),
            "jit": tf.function(step, jit_compile=True),
            "kernels": step_by_kernels,
        }[kind]
        process = psutil.Process()

        def memory_after(steps: int) -> int:
            for _ in range(steps):
                result = run()
            assert np.isfinite(result.numpy())
            gc.collect()
            return int(process.memory_info().rss)

        memory_after(300)
        before = memory_after(200)
        after = memory_after(2500)
    assert after - before < 6 << 20, f"{(after - before) >> 10} KiB more after 2,500 steps"
