"""Train a small convolutional network on the handwritten digits of scikit-learn, with Keras.

An ordinary Keras program. Where it runs is for ``tf.device`` to say; see main.py.
"""

from __future__ import annotations

import keras
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

BATCH = 128
EPOCHS = 20

Data = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def load_data() -> Data:
    """Training images f32[n,8,8,1] in [0, 1] and labels s32[n], then the same for the test."""
    digits = load_digits()
    images = (digits.images / 16.0).astype(np.float32)[..., None]
    labels = digits.target.astype(np.int32)
    x, x_test, y, y_test = train_test_split(
        images, labels, test_size=0.2, random_state=0, stratify=labels
    )
    return x, y, x_test, y_test


def make_model() -> keras.Model:
    """Two convolutions, a pooling and two dense layers: f32[batch,8,8,1] -> f32[batch,10]."""
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(32, 3, padding="same", activation="relu"),
            layers.Conv2D(64, 3, padding="same", activation="relu"),
            layers.MaxPooling2D(),
            layers.Flatten(),
            layers.Dense(128, activation="relu"),
            layers.Dense(10),
        ]
    )
    model.compile(
        optimizer=keras.optimizers.Adam(2e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=True,
    )
    return model


def batches(x: np.ndarray, y: np.ndarray) -> tf.data.Dataset:
    """The data in random order, another one each epoch, in batches of one size (the rest is left out)."""
    data = tf.data.Dataset.from_tensor_slices((x, y))
    return data.shuffle(len(x), seed=0).batch(BATCH, drop_remainder=True).prefetch(2)
