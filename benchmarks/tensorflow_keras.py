"""TensorFlow on XPU against its own CPU device, compiled by XLA and op by op with oneDNN, in one process, in turns.

python -m benchmarks.tensorflow_keras                  all: calls of tiny programs, Keras models, recurrent layers
python -m benchmarks.tensorflow_keras cnn --json f     one, and the figures in a file

A turn is a few calls; those of the models read back their result. Whether a goal is reached is decided by medians.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np
import tensorflow as tf

from benchmarks.goals import Goal, report, write
from benchmarks.harness import interleave

CALLS = 300  # of a tiny program in one step

OURS = "XPU"
COMPILED = "CPU, jit_compile"
ONEDNN = "CPU, oneDNN"
WAYS = {OURS: ("XPU:0", True), COMPILED: ("CPU:0", True), ONEDNN: ("CPU:0", False)}
UNCOMPILED_WAYS = {OURS: ("XPU:0", False), ONEDNN: ("CPU:0", False)}
CALL_WAYS = {OURS: ("XPU:0", True), COMPILED: ("CPU:0", True)}
GOALS = {
    "eager": [Goal(ONEDNN, 1 / 1.3)],
    "call": [Goal(COMPILED, 1.0)],
    "cnn": [Goal(COMPILED, 1.3), Goal(ONEDNN, 1.0)],
    "mobilenet": [Goal(COMPILED, 1.2), Goal(ONEDNN, 1.2)],
    "lstm": [Goal(ONEDNN, 1.0)],
    "gru": [Goal(ONEDNN, 1.0)],
    "stacked": [Goal(ONEDNN, 1.0)],
}
DESCRIPTIONS = {
    "eager": "x + x on 8 floats, eager",
    "call": "x + x on 8 floats, tf.function(jit_compile=True)",
    "cnn": "training step: 2 convolutions, 2 max pools, 2 dense layers, 28x28, batch 128, Adam",
    "mobilenet": "MobileNetV2 inference, 224x224, batch 8",
    "lstm": "LSTM(32) of 20 steps, batch 32: gradient, tf.function without jit_compile",
    "stacked": "LSTM(32) upon LSTM(32) of 20 steps, batch 32: gradient, tf.function without jit_compile",
    "gru": "two directions of GRU(16), 20 steps, batch 32: gradient, tf.function without jit_compile",
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


def recurrent(layer: Any, jit: bool) -> Callable[[], tf.Tensor]:
    """The gradient of a recurrent layer's weights, on the device in force."""
    x = tf.constant(np.random.default_rng(0).uniform(size=(32, 20, 16)).astype(np.float32))
    layer.build(x.shape)

    @tf.function(jit_compile=jit)
    def gradient(inputs: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(layer(inputs) ** 2)
        return tape.gradient(loss, layer.trainable_variables)[0]

    return lambda: gradient(x)


def lstm(jit: bool) -> Callable[[], tf.Tensor]:
    return recurrent(keras.layers.LSTM(32), jit)


def gru(jit: bool) -> Callable[[], tf.Tensor]:
    layer = keras.layers.Bidirectional(keras.layers.GRU(16, return_sequences=True))
    return recurrent(layer, jit)


def stacked(jit: bool) -> Callable[[], tf.Tensor]:
    layers = [keras.layers.LSTM(32, return_sequences=True), keras.layers.LSTM(32)]
    return recurrent(keras.Sequential(layers), jit)


MODELS: dict[str, Callable[[bool], Callable[[], tf.Tensor]]] = {
    "cnn": cnn,
    "mobilenet": mobilenet,
    "lstm": lstm,
    "gru": gru,
    "stacked": stacked,
}
UNCOMPILED = ("lstm", "gru", "stacked")


def double(jit: bool) -> Callable[[], tf.Tensor]:
    """x + x, where what takes time is everything around it."""
    x = tf.constant(np.arange(8, dtype=np.float32))
    if not jit:
        return lambda: x + x
    compiled = tf.function(lambda value: value + value, jit_compile=True)
    return lambda: compiled(x)


def call_step(device: str, jit: bool) -> Callable[[], Any]:
    """Many calls of x + x in one step, on the device in force; the results are dropped, as a loop in Python does."""
    with tf.device(device):
        call = double(jit)

    def step() -> None:
        with tf.device(device):
            for _ in range(CALLS):
                call()

    return step


def model_step(name: str, device: str, jit: bool) -> Callable[[], Any]:
    """One call of a model that reads its result."""
    with tf.device(device):
        call = MODELS[name](jit)

    def step() -> Any:
        with tf.device(device):
            return call().numpy()

    return step


def measure(name: str, seconds: float) -> dict[str, list[float]]:
    """Seconds a call of each way, many turns."""
    if name in MODELS:
        places = UNCOMPILED_WAYS if name in UNCOMPILED else WAYS
        ways = {way: model_step(name, *place) for way, place in places.items()}
        return dict(zip(ways, interleave(list(ways.values()), seconds), strict=True))
    places = UNCOMPILED_WAYS if name == "eager" else CALL_WAYS
    ways = {way: call_step(*place) for way, place in places.items()}
    times = interleave(list(ways.values()), seconds)
    return {way: [t / CALLS for t in turn] for way, turn in zip(ways, times, strict=True)}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tensorflow_keras")
    parser.add_argument("names", nargs="*", choices=[[], *GOALS], help="all without")
    parser.add_argument("--seconds", type=float, default=15.0, help="of measuring for each")
    parser.add_argument("--json", type=Path, help="file for the figures")
    arguments = parser.parse_args()
    if not tf.config.list_physical_devices("XPU"):
        print("TensorFlow has no device XPU: run `tripont doctor`")
        return 2
    results = {}
    for name in arguments.names or GOALS:
        print(f"{name}: {DESCRIPTIONS[name]}", flush=True)
        results[name] = measure(name, arguments.seconds)
    if arguments.json:
        write(arguments.json, results, OURS)
    return 0 if report(results, GOALS, OURS) else 1


if __name__ == "__main__":
    sys.exit(main())
