"""MultiWorkerMirroredStrategy on XPU: two workers, each with half of a batch, take the steps of one with all of it."""

from __future__ import annotations

import contextlib
import json
import os
import socket
from pathlib import Path

import numpy as np
import pytest

from tests.starter import starter_of

_START = """
import numpy as np, tensorflow as tf, tripont.tensorflow

strategy = tripont.tensorflow.multi_worker_strategy()
"""

_STEPS = """
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
result = weight.numpy().tolist()
print("STEPS", count, device, gradient.device, result, sep="|", flush=True)
"""


def _weight_after(batch: np.ndarray) -> np.ndarray:
    weight = np.linspace(-1, 1, 8).reshape(4, 2)
    for _ in range(3):
        product = batch @ weight
        weight = weight - 0.1 * batch.T @ (2 * product / product.size)
    return weight


def _free_ports(count: int) -> list[str]:
    with contextlib.ExitStack() as stack:
        listeners = [stack.enter_context(socket.socket()) for _ in range(count)]
        for listener in listeners:
            listener.bind(("127.0.0.1", 0))
        return [f"localhost:{listener.getsockname()[1]}" for listener in listeners]


# A process for each task, of one that has imported TensorFlow; ends when those that are waited for have.
_TASKS = """
import json, os, signal, sys
from tests.tensorflow_without_plugins import load_plugins

program, configurations, waited, folder = json.loads(sys.argv[1])
tasks = {}
for name, configuration in configurations.items():
    task = os.fork()
    if not task:
        with open(f"{folder}/{name}", "wb") as output:
            os.dup2(output.fileno(), 1)
        os.environ["TF_CONFIG"] = configuration
        load_plugins()
        exec(compile(program, name, "exec"))
        sys.exit()
    tasks[name] = task
try:
    for name in waited:
        _, status = os.waitpid(tasks.pop(name), 0)
        assert not status, name
finally:
    for task in tasks.values():
        os.kill(task, signal.SIGKILL)
        os.waitpid(task, 0)
"""


def _run(program: str, cluster: dict[str, list[str]], folder: Path) -> list[dict[str, list[str]]]:
    """Run ``program`` in every task of ``cluster`` until workers and chief have ended: the parts of lines by name."""
    configurations = {
        f"{kind} {number}": json.dumps(
            {"cluster": cluster, "task": {"type": kind, "index": number}}
        )
        for kind, addresses in cluster.items()
        for number in range(len(addresses))
    }
    waited = [
        n for n in configurations if n.startswith("chief" if "chief" in cluster else "worker")
    ]
    arguments = json.dumps([program, configurations, waited, str(folder)])
    starter = starter_of("tests.tensorflow_without_plugins")
    environment = os.environ | {"TRIPONT_NUM_DEVICES": "1"}
    done = starter.run(_TASKS, environment, arguments, timeout=280)
    assert done.returncode == 0, done.stderr
    results = []
    for task in waited:
        lines = (folder / task).read_text().splitlines()
        parts = [line.split("|") for line in lines if "|" in line]
        results.append({name: rest for name, *rest in parts})
    return results


@pytest.fixture(scope="module")
def workers(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, list[str]]]:
    """What two workers print that train in all ways, one after the other: to start them takes longer than all of it."""
    program = _START + _STEPS + _KERAS + _KERAS_BATCHES
    return _run(program, {"worker": _free_ports(2)}, tmp_path_factory.mktemp("workers"))


@pytest.mark.slow
def test_two_workers_take_the_steps_of_one(workers: list[dict[str, list[str]]]) -> None:
    expected = _weight_after(np.linspace(-2, 2, 32).reshape(8, 4))
    for number, printed in enumerate(workers):
        replicas, variable, gradient, weight = printed["STEPS"]
        assert replicas == "2"
        assert variable == f"/job:worker/replica:0/task:{number}/device:XPU:0"
        assert "worker" in gradient
        # Float32: four products of numbers below 2 in each element, three times.
        np.testing.assert_allclose(json.loads(weight), expected, rtol=0, atol=3e-6)


_KERAS = """
import keras

x = np.linspace(-2, 2, 64, dtype=np.float32).reshape(16, 4)
y = np.sin(x[:, :2])
with strategy.scope():
    dense = keras.layers.Dense(2, use_bias=False)
    model = keras.Sequential([keras.Input((4,)), dense])
    dense.set_weights([np.linspace(-1, 1, 8, dtype=np.float32).reshape(4, 2)])
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse", metrics=["mae"], jit_compile=False)
history = model.fit(tf.data.Dataset.from_tensor_slices((x, y)).batch(8), epochs=2, verbose=0).history
device = dense.kernel.value.values[0].device
print("KERAS", device, history["loss"], history["mae"], dense.get_weights()[0].tolist(), sep="|", flush=True)
"""


@pytest.mark.slow
def test_keras_fits_in_two_workers(workers: list[dict[str, list[str]]]) -> None:
    """Each worker has half of every batch; weights, losses and metrics are those of one with all of it."""
    x = np.linspace(-2, 2, 64).reshape(16, 4)
    y = np.sin(x[:, :2])
    weight = np.linspace(-1, 1, 8).reshape(4, 2)
    losses, errors = [], []
    for _ in range(2):
        differences = []
        for first in (0, 8):
            rows = slice(first, first + 8)
            differences.append(x[rows] @ weight - y[rows])
            weight = weight - 0.1 * x[rows].T @ (2 * differences[-1] / differences[-1].size)
        losses.append(np.mean(np.square(differences)))
        errors.append(np.mean(np.abs(differences)))
    for number, printed in enumerate(workers):
        variable, *found = printed["KERAS"]
        assert variable == f"/job:worker/replica:0/task:{number}/device:XPU:0"
        # Float32: sums of 16 products of numbers below 4, four steps.
        for one, expected in zip(found, (losses, errors, weight), strict=True):
            np.testing.assert_allclose(json.loads(one), expected, rtol=0, atol=2e-5)


_KERAS_BATCHES = """
def fit(count):
    images = (np.arange(count * 4) * 7 % 256).astype(np.uint8).reshape(count, 4)
    labels = (np.arange(count) % 3).astype(np.int64)
    with strategy.scope():
        dense = keras.layers.Dense(3, kernel_initializer="ones")
        model = keras.Sequential([keras.layers.Rescaling(1 / 255), dense])
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile(optimizer=keras.optimizers.SGD(0.1), loss=loss, jit_compile=False)
    history = model.fit(tf.data.Dataset.from_tensor_slices((images, labels)).batch(8), epochs=1, verbose=0).history
    return [history["loss"], dense.get_weights()[0].tolist()]

print("BATCHES", [fit(8), fit(9), fit(5)], sep="|", flush=True)
"""


@pytest.mark.slow
def test_keras_takes_batches_that_cannot_be_reduced(workers: list[dict[str, list[str]]]) -> None:
    """Images of 8 bits and integer labels; nine and five examples in batches of eight, unequal for the workers."""
    (first,), (second,) = (printed["BATCHES"] for printed in workers)
    assert first == second
    for losses, weight in json.loads(first):
        assert np.isfinite(losses).all()
        assert np.isfinite(weight).all()
        assert not np.array_equal(weight, np.ones((4, 3)))


_PARAMETER_SERVER = """
import json, os
import numpy as np, tensorflow as tf, tripont.tensorflow

resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver()
if resolver.task_type in ("worker", "ps"):
    server = tf.distribute.Server(
        resolver.cluster_spec(), job_name=resolver.task_type, task_index=resolver.task_id, protocol="grpc")
    server.join()
strategy = tf.distribute.ParameterServerStrategy(resolver)
coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
with strategy.scope():
    weight = tf.Variable(tf.reshape(tf.linspace(-1.0, 1.0, 8), (4, 2)))
batch = tf.constant(np.linspace(-2, 2, 32, dtype=np.float32).reshape(8, 4))

@tf.function
def step():
    def replica():
        with tf.device("/device:XPU:0"):
            with tf.GradientTape() as tape:
                product = tf.matmul(batch, weight)
                loss = tf.reduce_mean(tf.square(product))
            weight.assign_sub(0.1 * tape.gradient(loss, weight))
            return product
    return strategy.run(replica)

for _ in range(3):
    result = coordinator.schedule(step)
    coordinator.join()
print("SERVER", weight.device, result.fetch().shape, weight.numpy().tolist(), sep="|", flush=True)
os._exit(0)
"""


@pytest.mark.slow
def test_a_parameter_server_and_a_worker(tmp_path: Path) -> None:
    """The variable is on the server's CPU; what stands under ``tf.device`` runs on the worker's XPU."""
    ports = _free_ports(3)
    cluster = {"chief": ports[:1], "worker": ports[1:2], "ps": ports[2:]}
    (printed,) = _run(_PARAMETER_SERVER, cluster, tmp_path)
    device, shape, weight = printed["SERVER"]
    assert device == "/job:ps/replica:0/task:0/device:CPU:0"
    assert shape == "(8, 2)"
    expected = _weight_after(np.linspace(-2, 2, 32).reshape(8, 4))
    np.testing.assert_allclose(json.loads(weight), expected, rtol=0, atol=3e-6)
