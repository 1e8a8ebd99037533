"""Two XPU devices in TensorFlow: copies between them, and MirroredStrategy over both against one device."""

from __future__ import annotations

import os

os.environ["TRIPONT_NUM_DEVICES"] = "2"  # read when the first XPU is used, which is after this

import keras
import numpy as np
import pytest
import tensorflow as tf

DEVICES = ["XPU:0", "XPU:1"]


@pytest.fixture(scope="module")
def strategy() -> tf.distribute.Strategy:
    return tf.distribute.MirroredStrategy(DEVICES)


def place(tensor: tf.Tensor) -> str:
    return str(tensor.device).rpartition("/device:")[2]


def test_copies_between_devices() -> None:
    assert len(tf.config.list_physical_devices("XPU")) == 2
    values = np.arange(6, dtype=np.float32)
    with tf.device("XPU:0"):
        a = tf.constant(values)
    with tf.device("XPU:1"):
        b = tf.identity(a) + 1
    with tf.device("XPU:0"):
        c = tf.identity(b) * 2
    assert [place(t) for t in (a, b, c)] == ["XPU:0", "XPU:1", "XPU:0"]
    np.testing.assert_array_equal(b, values + 1)
    np.testing.assert_array_equal(c, (values + 1) * 2)


@pytest.mark.parametrize("reduction", ["SUM", "MEAN"])
def test_all_reduce(strategy: tf.distribute.Strategy, reduction: str) -> None:
    @tf.function
    def step() -> tf.distribute.DistributedValues:
        def replica() -> tuple[tf.Tensor, tf.Tensor]:
            context = tf.distribute.get_replica_context()
            number = tf.cast(context.replica_id_in_sync_group, tf.float32)
            operation = tf.distribute.ReduceOp[reduction]
            # Two of one shape: they must not be taken for one another.
            return (
                context.all_reduce(operation, tf.fill([3], number + 1)),
                context.all_reduce(operation, tf.fill([3], number * 10)),
            )

        return strategy.run(replica)

    scale = 1 if reduction == "SUM" else 2
    for _ in range(3):
        first, second = step()
        for a, b in zip(first.values, second.values, strict=True):
            np.testing.assert_array_equal(a, np.full(3, 3 / scale, np.float32))
            np.testing.assert_array_equal(b, np.full(3, 10 / scale, np.float32))


def train(strategy: tf.distribute.Strategy) -> tuple[list[float], list[np.ndarray]]:
    """The losses of four epochs of two batches, and the weights after them."""
    random = np.random.default_rng(0)
    x = random.standard_normal((64, 20)).astype(np.float32)
    y = (x.sum(1) > 0).astype(np.int32)
    shapes = [(20, 32), (32,), (32, 2), (2,)]
    initial = [random.standard_normal(s).astype(np.float32) * 0.3 for s in shapes]
    with strategy.scope():
        model = keras.Sequential(
            [
                keras.Input((20,)),
                keras.layers.Dense(32, activation="tanh"),
                keras.layers.Dense(2),
            ]
        )
        model.set_weights(initial)
        model.compile(
            optimizer=keras.optimizers.SGD(0.1, momentum=0.9),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            jit_compile=False,  # TensorFlow compiles no function whose variables are on two devices
        )
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(32)
    history = model.fit(batches, epochs=4, verbose=0)
    return history.history["loss"], [v.numpy() for v in model.trainable_variables]


def test_training_on_two_devices_is_as_on_one(strategy: tf.distribute.Strategy) -> None:
    losses, weights = train(strategy)
    expected_losses, expected_weights = train(tf.distribute.OneDeviceStrategy("CPU:0"))
    # The same gradients but for the order of their sums: eight steps of rounding.
    np.testing.assert_allclose(losses, expected_losses, rtol=1e-4)
    for mine, theirs in zip(weights, expected_weights, strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-4)
    assert losses[-1] < losses[0]
