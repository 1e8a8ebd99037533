"""Keras on XPU against TensorFlow's own CPU, compiled by XLA and op by op with oneDNN, in one process, in turns.

python -m benchmarks.tensorflow_keras                  both
python -m benchmarks.tensorflow_keras cnn --json f     one, and the figures in a file

A turn is a few calls, and reading back their last result. The ratios are of minima: other work on the machine makes
every one of the three slower, but not at the same time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

from benchmarks.harness import interleave

WAYS = {
    "XPU, jit_compile": ("XPU:0", True),
    "CPU, jit_compile": ("CPU:0", True),
    "CPU, oneDNN": ("CPU:0", False),
}
# Ratios to reach: against CPU, jit_compile; against CPU, oneDNN.
TARGETS = {"cnn": (1.3, 1.0), "mobilenet": (1.2, 1.2)}
DESCRIPTIONS = {
    "cnn": "training step: 2 convolutions, 2 max pools, 2 dense layers, 28x28, batch 128, Adam",
    "mobilenet": "MobileNetV2 inference, 224x224, batch 8",
}


def cnn(jit: bool) -> Callable[[], tf.Tensor]:
    """A training step on random images, on the device in force."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((28, 28, 1)),
            layers.Conv2D(32, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Conv2D(64, 3, activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10),
        ]
    )
    optimizer = keras.optimizers.Adam()
    optimizer.build(model.trainable_variables)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    numbers = np.random.default_rng(0)
    x = tf.constant(numbers.normal(size=(128, 28, 28, 1)).astype(np.float32))
    y = tf.constant(numbers.integers(0, 10, 128).astype(np.int32))

    @tf.function(jit_compile=jit)
    def step(images: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = loss_of(labels, model(images, training=True))
        gradients = tape.gradient(loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return loss

    return lambda: step(x, y)


def mobilenet(jit: bool) -> Callable[[], tf.Tensor]:
    """Class probabilities of eight random images, on the device in force."""
    model = keras.applications.MobileNetV2(weights=None)
    x = tf.constant(np.random.default_rng(0).uniform(-1, 1, (8, 224, 224, 3)).astype(np.float32))

    @tf.function(jit_compile=jit)
    def predict(images: tf.Tensor) -> tf.Tensor:
        return model(images, training=False)

    return lambda: predict(x)


MODELS: dict[str, Callable[[bool], Callable[[], tf.Tensor]]] = {"cnn": cnn, "mobilenet": mobilenet}


def steps(name: str) -> list[Callable[[], Any]]:
    """For each way, a function that makes one call and reads its result."""

    def make(device: str, jit: bool) -> Callable[[], Any]:
        with tf.device(device):
            call = MODELS[name](jit)

        def step() -> Any:
            with tf.device(device):
                return call().numpy()

        return step

    return [make(device, jit) for device, jit in WAYS.values()]


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tensorflow_keras")
    parser.add_argument("names", nargs="*", choices=[[], *MODELS], help="all without")
    parser.add_argument("--seconds", type=float, default=20.0, help="of measuring for each")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    if not tf.config.list_physical_devices("XPU"):
        print("TensorFlow has no device XPU: run `tripont doctor`")
        return 2
    rows = []
    for name in arguments.names or MODELS:
        start = time.perf_counter()
        minima = [min(times) for times in interleave(steps(name), arguments.seconds)]
        ratios = [minima[1] / minima[0], minima[2] / minima[0]]
        passed = all(r >= t for r, t in zip(ratios, TARGETS[name], strict=True))
        rows.append(
            {
                "name": name,
                "milliseconds": {w: m * 1e3 for w, m in zip(WAYS, minima, strict=True)},
                "ratios": ratios,
                "targets": TARGETS[name],
                "passed": passed,
            }
        )
        print(f"{name}: {DESCRIPTIONS[name]} ({time.perf_counter() - start:.0f} s)")
        for way, minimum in zip(WAYS, minima, strict=True):
            print(f"  {way:18} {minimum * 1e3:9.2f} ms  {minimum / minima[0]:5.2f}x")
        targets = " and ".join(f">= {t:g}x" for t in TARGETS[name])
        print(f"  {'ok' if passed else 'below'}: {targets}")
    if arguments.json:
        arguments.json.write_text(json.dumps({"tensorflow": tf.__version__, "results": rows}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
