"""MultiWorkerMirroredStrategy on XPU: two workers, each with half of a batch, take the steps of one with all of it."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys

import numpy as np
import pytest

_PROGRAM = """
import sys
import numpy as np, tensorflow as tf, tripont.tensorflow

strategy = tripont.tensorflow.multi_worker_strategy()
number = strategy.cluster_resolver.task_id
with strategy.scope():
    weight = tf.Variable(tf.reshape(tf.linspace(-1.0, 1.0, 8), (4, 2)))
batch = tf.constant(np.linspace(-2, 2, 32, dtype=np.float32).reshape(8, 4)[4 * number :][:4])

@tf.function
def step(batch):
    def replica(batch):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(batch @ weight))
        gradient = tf.distribute.get_replica_context().all_reduce("MEAN", tape.gradient(loss, weight))
        weight.assign_sub(0.1 * gradient)
        return gradient
    return strategy.run(replica, args=(batch,))

for _ in range(3):
    gradient = step(batch)
count, device = strategy.num_replicas_in_sync, weight.values[0].device
print("RESULT", count, device, gradient.device, weight.numpy().tolist(), sep="|")
"""


def _weight_after(batch: np.ndarray) -> np.ndarray:
    weight = np.linspace(-1, 1, 8).reshape(4, 2)
    for _ in range(3):
        product = batch @ weight
        weight = weight - 0.1 * batch.T @ (2 * product / product.size)
    return weight


@pytest.mark.slow
def test_two_workers_take_the_steps_of_one() -> None:
    with socket.socket() as first, socket.socket() as second:
        for listener in (first, second):
            listener.bind(("127.0.0.1", 0))
        workers = [f"localhost:{s.getsockname()[1]}" for s in (first, second)]
    running = []
    for number in range(2):
        task = {"type": "worker", "index": number}
        config = json.dumps({"cluster": {"worker": workers}, "task": task})
        running.append(
            subprocess.Popen(
                [sys.executable, "-c", _PROGRAM],
                env=os.environ | {"TF_CONFIG": config, "TRIPONT_NUM_DEVICES": "1"},
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
        )
    try:
        outputs = [process.communicate(timeout=280) for process in running]
    finally:
        for process in running:
            process.kill()
    expected = _weight_after(np.linspace(-2, 2, 32).reshape(8, 4))
    for number, (output, error) in enumerate(outputs):
        assert running[number].returncode == 0, error
        (line,) = (text for text in output.splitlines() if text.startswith("RESULT"))
        _, replicas, variable, gradient, weight = line.split("|")
        assert replicas == "2"
        assert variable == f"/job:worker/replica:0/task:{number}/device:XPU:0"
        assert "worker" in gradient
        # Float32: four products of numbers below 2 in each element, three times.
        np.testing.assert_allclose(json.loads(weight), expected, rtol=0, atol=3e-6)
