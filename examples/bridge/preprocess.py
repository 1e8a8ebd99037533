"""The first stage, in TensorFlow: handwritten digits, enlarged, disturbed and normalised, as one program on XPU."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

SIDE = 16
CLASSES = 10


def load_data() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Training images f32[n,8,8] in [0, 16] and labels s64[n], then the same for the test."""
    digits = load_digits()
    images, labels = digits.images.astype(np.float32), digits.target.astype(np.int64)
    return tuple(train_test_split(images, labels, test_size=400, random_state=0, stratify=labels))  # type: ignore[return-value]


@tf.function(jit_compile=True)
def _enlarge(images: tf.Tensor, seed: tf.Tensor, noise: tf.Tensor) -> tf.Tensor:
    """f32[n,8,8] -> f32[n,1,16,16]: twice as large, with noise, mean 0 and variance 1."""
    images = tf.image.resize(images[..., None] / 16.0, (SIDE, SIDE))
    images += noise * tf.random.stateless_normal(tf.shape(images), seed)
    images = tf.image.per_image_standardization(images)
    return tf.transpose(images, (0, 3, 1, 2))


def training_batches(
    images: np.ndarray, labels: np.ndarray, size: int, epoch: int
) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
    """Batches on XPU in another order each epoch: images f32[size,1,16,16] and labels as f32[size,10], 0 or 1."""
    order = np.random.default_rng(epoch).permutation(len(images))
    for start in range(0, len(order) - size + 1, size):
        chosen = order[start : start + size]
        with tf.device("XPU:0"):
            seed = tf.constant([epoch, start], tf.int32)
            batch = _enlarge(tf.constant(images[chosen]), seed, tf.constant(0.1))
            yield batch, tf.one_hot(tf.constant(labels[chosen]), CLASSES)


def test_set(images: np.ndarray, labels: np.ndarray) -> tuple[tf.Tensor, tf.Tensor]:
    """All of it on XPU, without noise: f32[n,1,16,16], s64[n]."""
    with tf.device("XPU:0"):
        seed = tf.constant([0, 0], tf.int32)
        return _enlarge(tf.constant(images), seed, tf.constant(0.0)), tf.identity(
            tf.constant(labels)
        )
