"""The Keras models of the tests: small, with their weights and data made on the CPU device."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np
import tensorflow as tf

layers = keras.layers


def cnn() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((16, 16, 1)),
            layers.Conv2D(8, 3, activation="relu"),
            layers.BatchNormalization(),
            layers.MaxPooling2D(),
            layers.Conv2D(16, 3, padding="same", use_bias=False),
            layers.BatchNormalization(),
            layers.ReLU(),
            layers.SpatialDropout2D(0.0),
            layers.GlobalAveragePooling2D(),
            layers.Dense(10),
        ]
    )


def lstm() -> keras.Model:
    return keras.Sequential(
        [
            keras.Input((12,), dtype="int32"),
            layers.Embedding(50, 16),
            layers.LSTM(24, return_sequences=True),
            layers.Bidirectional(layers.GRU(8)),
            layers.Dense(10),
        ]
    )


def transformer() -> keras.Model:
    tokens = keras.Input((16,), dtype="int32")
    h = layers.Embedding(50, 32)(tokens)
    h = layers.LayerNormalization()(h + layers.MultiHeadAttention(4, 8)(h, h, use_causal_mask=True))
    m = layers.Dense(32)(layers.Dense(64, activation="gelu")(h))
    h = layers.LayerNormalization()(h + m)
    return keras.Model(tokens, layers.Dense(10)(layers.GlobalAveragePooling1D()(h)))


def residual() -> keras.Model:
    """The beginning of MobileNetV2 with two of its blocks, one with a stride and one with a sum, then one of ResNet."""

    def convolution(x: Any, filters: int, size: int = 1, activation: str = "relu6") -> Any:
        x = layers.Conv2D(filters, size, padding="same", use_bias=False)(x)
        x = layers.BatchNormalization(epsilon=1e-3, momentum=0.999)(x)
        return layers.Activation(activation)(x)

    def depthwise(x: Any, strides: int) -> Any:
        if strides == 2:
            x = layers.ZeroPadding2D(((0, 1), (0, 1)))(x)
        padding = "same" if strides == 1 else "valid"
        x = layers.DepthwiseConv2D(3, strides=strides, padding=padding, use_bias=False)(x)
        return layers.ReLU(6.0)(layers.BatchNormalization(epsilon=1e-3, momentum=0.999)(x))

    images = keras.Input((32, 32, 3))
    x = layers.ZeroPadding2D(3)(images)
    x = layers.Conv2D(8, 7, strides=2)(x)
    x = layers.BatchNormalization()(x)
    x = layers.MaxPooling2D(3, strides=2)(layers.ZeroPadding2D(1)(layers.ReLU()(x)))
    x = convolution(depthwise(convolution(x, 32), 2), 16, activation="linear")
    x = layers.Add()([x, convolution(depthwise(convolution(x, 48), 1), 16, activation="linear")])
    y = convolution(convolution(x, 8, activation="relu"), 8, 3, "relu")
    x = layers.ReLU()(layers.Add()([x, convolution(y, 16, activation="linear")]))
    return keras.Model(images, layers.Dense(10)(layers.GlobalAveragePooling2D()(x)))


def mobilenet() -> keras.Model:
    return keras.applications.MobileNetV2(
        (32, 32, 3), alpha=0.35, weights=None, classes=10, classifier_activation=None
    )


def resnet() -> keras.Model:
    return keras.applications.ResNet50(
        input_shape=(32, 32, 3), weights=None, classes=10, classifier_activation=None
    )


@dataclass(frozen=True)
class Workload:
    """A model with what it is trained on.

    ``tolerance``: relative difference of losses that is allowed between devices. Each training step multiplies the
    difference of the weights, which starts at a few roundings: 1.2e-7, or 2.2e-16 where ``dtype`` is float64. Deep
    networks with batch normalisation of small batches multiply it by 1e6 and more (TensorFlow's own CPU, compiled and
    not, differs by a tenth in the second loss of the ResNet in float32), so those compute in float64.
    """

    build: Callable[[], keras.Model]
    shape: tuple[int, ...]
    tokens: bool
    batch: int
    tolerance: float
    rate: float = 0.01
    epochs: int = 2
    dtype: str = "float32"

    def data(self, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and class numbers."""
        numbers = np.random.default_rng(11)
        labels = numbers.integers(0, 10, count).astype(np.int32)
        if self.tokens:
            return numbers.integers(0, 50, (count, *self.shape)).astype(np.int32), labels
        images = numbers.normal(size=(count, *self.shape)).astype(self.dtype)
        brightness = (labels / 5).astype(self.dtype).reshape(-1, *[1] * len(self.shape))
        return images + brightness, labels

    @contextmanager
    def precision(self) -> Iterator[None]:
        """Keras computes in ``dtype``, inputs and loss too: one part in float32 would bring its roundings in."""
        usual, policy = keras.config.floatx(), keras.config.dtype_policy()
        keras.config.set_floatx(self.dtype)
        keras.config.set_dtype_policy(self.dtype)  # the layers' own, made once from floatx
        try:
            yield
        finally:
            keras.config.set_floatx(usual)
            keras.config.set_dtype_policy(policy)

    def weights(self) -> list[np.ndarray]:
        """The same initial weights in every process and on every device."""
        with self.precision(), tf.device("CPU:0"):
            keras.utils.set_random_seed(5)
            return [np.asarray(w) for w in self.build().get_weights()]

    def model(self, weights: list[np.ndarray], jit: bool, **options: Any) -> keras.Model:
        """The compiled model on the device in force, with these weights."""
        model = self.build()
        model.set_weights(weights)
        model.compile(
            optimizer=options.pop("optimizer", None)
            or keras.optimizers.SGD(self.rate, momentum=0.9),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            jit_compile=jit,
            **options,
        )
        return model


WORKLOADS: dict[str, Workload] = {
    "cnn": Workload(cnn, (16, 16, 1), False, 16, 1e-5),
    "lstm": Workload(lstm, (12,), True, 16, 1e-5),
    "transformer": Workload(transformer, (16,), True, 16, 1e-5),
    "residual": Workload(residual, (32, 32, 3), False, 8, 1e-7, 1e-3, 1, "float64"),
    "mobilenet": Workload(mobilenet, (32, 32, 3), False, 8, 1e-7, 1e-3, 1, "float64"),
    "resnet": Workload(resnet, (32, 32, 3), False, 8, 1e-7, 1e-3, 1, "float64"),
}
