"""Data parallel training over the devices of all processes: plain JAX, which knows of no device and no MPI.

python examples/hosts/train.py --processes 2 --process 0 --coordinator localhost:1234    and the same with --process 1
"""

from __future__ import annotations

import argparse

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec
from sklearn.datasets import load_digits

BATCH = 256
LAYERS = (64, 128, 64, 10)
Parameters = list[tuple[jax.Array, jax.Array]]


def initial(key: jax.Array) -> Parameters:
    """Weights and biases of each layer."""
    keys = jax.random.split(key, len(LAYERS) - 1)
    return [
        (jax.random.normal(k, (m, n)) * (2 / m) ** 0.5, jnp.zeros(n))
        for k, m, n in zip(keys, LAYERS, LAYERS[1:], strict=False)
    ]


def loss(parameters: Parameters, images: jax.Array, labels: jax.Array) -> jax.Array:
    """Mean cross-entropy of a batch."""
    *hidden, last = parameters
    for weight, bias in hidden:
        images = jax.nn.relu(images @ weight + bias)
    logits = images @ last[0] + last[1]
    return -jnp.mean(jnp.take_along_axis(jax.nn.log_softmax(logits), labels[:, None], axis=1))


@jax.jit
def step(
    parameters: Parameters, images: jax.Array, labels: jax.Array
) -> tuple[Parameters, jax.Array]:
    """One step of gradient descent. Images are sharded, so gradients are all-reduced."""
    value, gradients = jax.value_and_grad(loss)(parameters, images, labels)
    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients), value


def train(steps: int) -> list[float]:
    """The loss of each step. Every process loads the images of its own devices only."""
    mesh = jax.make_mesh((jax.device_count(),), ("batch",))
    sharded = NamedSharding(mesh, PartitionSpec("batch"))
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    parameters = jax.device_put(initial(jax.random.key(0)), NamedSharding(mesh, PartitionSpec()))
    random = np.random.default_rng(0)
    part = BATCH // jax.process_count()
    losses = []
    for _ in range(steps):
        batch = random.integers(0, len(images), BATCH)  # the same in all processes
        mine = batch[part * jax.process_index() :][:part]
        parameters, value = step(
            parameters,
            jax.make_array_from_process_local_data(sharded, images[mine]),
            jax.make_array_from_process_local_data(sharded, labels[mine].astype(np.int32)),
        )
        losses.append(value)
    return [float(value) for value in losses]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--process", type=int, default=0)
    parser.add_argument("--coordinator", default="localhost:1234")
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    if arguments.processes > 1:
        jax.distributed.initialize(arguments.coordinator, arguments.processes, arguments.process)
    losses = train(arguments.steps)
    if jax.process_index() == 0:
        for number in range(0, len(losses), max(len(losses) // 5, 1)):
            print(f"step {number:4}: loss {losses[number]:.4f}")
        print(f"last step: loss {losses[-1]!r}")


if __name__ == "__main__":
    main()
