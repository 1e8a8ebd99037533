"""The workloads in TensorFlow: tf.functions; on the CPU its own kernels, on XPU compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
from workloads import LEARNING_RATE, Workload

from tripont import interop

DEVICES = {"own": "CPU:0", "tripont": "XPU:0"}


def _gelu(x: Any) -> Any:
    return (tf.nn.gelu(x, approximate=True),)


def _attention(query: Any, key: Any, value: Any) -> Any:
    scores = tf.matmul(query, key, transpose_b=True) / np.sqrt(query.shape[-1]).astype(np.float32)
    return (tf.nn.softmax(scores) @ value,)


def _step(x: Any, y: Any, w1: Any, w2: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch((w1, w2))
        loss = tf.reduce_mean((tf.tanh(x @ w1) @ w2 - y) ** 2)
    gradients = tape.gradient(loss, (w1, w2))
    return w1 - LEARNING_RATE * gradients[0], w2 - LEARNING_RATE * gradients[1]


FUNCTIONS = {"gelu": _gelu, "attention": _attention, "training step": _step}


def prepare(workload: Workload, where: str) -> Callable[[], list[np.ndarray]]:
    """A function that runs the workload once and waits; its results as NumPy arrays that share their memory."""
    function = tf.function(FUNCTIONS[workload.name], jit_compile=where == "tripont")
    with tf.device(DEVICES[where]):
        inputs = [tf.identity(tf.constant(x)) for x in workload.inputs]

    def run() -> list[np.ndarray]:
        with tf.device(DEVICES[where]):
            return [interop.to_numpy(y) for y in function(*inputs)]

    return run
