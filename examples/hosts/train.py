"""Training over the devices of all processes in three ways: plain JAX, which knows of no device and no MPI.

python examples/hosts/train.py --processes 2 --process 0 --coordinator localhost:1234    and the same with --process 1

--parallel data     every device has all weights and a part of the images; gradients are all-reduced
--parallel tensor   every device has all images and a part of the weights; activations are all-reduced
--parallel fsdp     every device has a part of the images and of the weights; weights are all-gathered, gradients
                    reduce-scattered (fully sharded data parallel)
"""

from __future__ import annotations

import argparse
import socket
import time
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
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


def specs(parallel: str, devices: int) -> list[tuple[PartitionSpec, PartitionSpec]]:
    """How the weight (inputs, outputs) and the bias of each layer are split."""
    whole = PartitionSpec()
    if parallel == "tensor":
        # A layer that is split by its outputs feeds one that is split by its inputs: one all-reduce for both.
        by_outputs = (PartitionSpec(None, "x"), PartitionSpec("x"))
        by_inputs = (PartitionSpec("x"), whole)
        return [by_outputs, by_inputs, (whole, whole)]
    if parallel == "fsdp":
        return [
            (PartitionSpec("x"), PartitionSpec("x") if n % devices == 0 else whole)
            for n in LAYERS[1:]
        ]
    return [(whole, whole)] * (len(LAYERS) - 1)


def step(
    parameters: Parameters, images: jax.Array, labels: jax.Array
) -> tuple[Parameters, jax.Array]:
    """One step of gradient descent: what is exchanged follows from how the arrays are split."""
    value, gradients = jax.value_and_grad(loss)(parameters, images, labels)
    return jax.tree.map(lambda p, g: p - 0.1 * g, parameters, gradients), value


def train(parallel: str, steps: int) -> list[float]:
    """The loss of each step. Every process loads the images of its own devices only."""
    mesh = Mesh(np.array(jax.devices()), "x")
    on_mesh = partial(NamedSharding, mesh)
    shardings = jax.tree.map(
        on_mesh,
        specs(parallel, jax.device_count()),
        is_leaf=lambda s: isinstance(s, PartitionSpec),
    )
    compiled = jax.jit(step, out_shardings=(shardings, on_mesh(PartitionSpec())), donate_argnums=0)
    images, labels = load_digits(return_X_y=True)
    images = (images / 16).astype(np.float32)
    labels = labels.astype(np.int32)
    parameters = jax.device_put(initial(jax.random.key(0)), shardings)
    random = np.random.default_rng(0)
    losses = []
    for _ in range(steps):
        batch = random.integers(0, len(images), BATCH)  # the same in all processes
        if parallel == "tensor":
            of_images, mine = PartitionSpec(), batch
        else:
            of_images, mine = PartitionSpec("x"), _part_of_this_process(batch, mesh)
        load = partial(jax.make_array_from_process_local_data, on_mesh(of_images))
        parameters, value = compiled(parameters, load(images[mine]), load(labels[mine]))
        losses.append(value)
    return [float(value) for value in losses]


def _part_of_this_process(batch: np.ndarray, mesh: Mesh) -> np.ndarray:
    part = len(batch) // mesh.size * jax.local_device_count()
    return batch[part * jax.process_index() :][:part]


def await_coordinator(address: str, seconds: float = 300) -> None:
    """Until process 0 listens: a process that JAX lets ask before that asks again only after a second."""
    host, _, port = address.rpartition(":")
    end = time.monotonic() + seconds  # after which JAX says what is wrong
    while time.monotonic() < end:
        try:
            return socket.create_connection((host, int(port)), timeout=5).close()
        except OSError:
            time.sleep(0.005)
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--process", type=int, default=0)
    parser.add_argument("--coordinator", default="localhost:1234")
    parser.add_argument("--parallel", choices=("data", "tensor", "fsdp"), default="data")
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    if arguments.processes > 1:
        if arguments.process > 0:
            await_coordinator(arguments.coordinator)
        jax.distributed.initialize(arguments.coordinator, arguments.processes, arguments.process)
    losses = train(arguments.parallel, arguments.steps)
    if jax.process_index() == 0:
        for number in range(0, len(losses), max(len(losses) // 5, 1)):
            print(f"step {number:4}: loss {losses[number]:.4f}")
        print(f"last step: loss {losses[-1]!r}")


if __name__ == "__main__":
    main()
