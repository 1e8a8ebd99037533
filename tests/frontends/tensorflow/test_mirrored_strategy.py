"""Two XPU devices in TensorFlow: copies between them, and MirroredStrategy over both against one device."""

from __future__ import annotations

import os

# Read when the first XPU is used, which is after this. Devices that do not meet are an error, not a wait without end.
os.environ |= {"TRIPONT_NUM_DEVICES": "2", "TRIPONT_COLLECTIVE_TIMEOUT": "60"}

import keras
import numpy as np
import pytest
import tensorflow as tf

import tripont.tensorflow

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


X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
Y = X @ np.array([1, -2, 3], np.float32)


def test_a_compiled_function_in_each_replica(strategy: tf.distribute.Strategy) -> None:
    """Without a reduction in it TensorFlow compiles it, if ``run`` is not given the function itself."""
    with strategy.scope():
        v = tf.Variable(X[0])

    @tf.function(jit_compile=True)
    def compiled(factor: tf.Tensor) -> tf.Tensor:
        v.assign_add(factor * v)
        return tf.reduce_sum(v)

    @tf.function
    def step() -> tf.distribute.DistributedValues:
        return strategy.run(lambda: compiled(tf.constant(2.0)))

    np.testing.assert_allclose(step().values, 2 * [3 * X[0].sum()], rtol=1e-6)
    assert [place(value) for value in v.values] == DEVICES
    for value in v.values:
        np.testing.assert_allclose(value, 3 * X[0], rtol=1e-6)


def test_compiled_replicas_with_a_reduction(strategy: tf.distribute.Strategy) -> None:
    """Six steps of a linear regression: a replica has half of the rows, and the gradients are added in the program."""
    tripont.tensorflow.compile_replicas()
    tripont.tensorflow.compile_replicas()  # a second time changes nothing
    with strategy.scope():
        w = tf.Variable(tf.zeros(3), aggregation=tf.VariableAggregation.SUM)

    @tf.function(jit_compile=True)
    def step(rows: tf.Tensor, targets: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum((tf.linalg.matvec(rows, w) - targets) ** 2)
        gradient = tape.gradient(loss, w)
        context = tf.distribute.get_replica_context()
        gradient, loss = context.all_reduce("SUM", [gradient, loss])
        w.assign_sub(0.1 * gradient / 2)  # the update of each replica is half of the sum
        return loss

    @tf.function
    def all_replicas(rows: object, targets: object) -> tf.distribute.DistributedValues:
        return strategy.run(step, args=(rows, targets))

    halves = [
        strategy.experimental_distribute_values_from_function(
            lambda context, a=array: tf.constant(np.split(a, 2)[context.replica_id_in_sync_group])
        )
        for array in (X, Y)
    ]
    expected = np.zeros(3, np.float32)
    for _ in range(6):
        losses = all_replicas(*halves).values
        difference = X @ expected - Y
        np.testing.assert_allclose(losses, 2 * [(difference**2).sum()], rtol=1e-5)
        expected -= 0.1 * 2 * X.T @ difference
        for value in w.values:
            np.testing.assert_allclose(value, expected, atol=1e-5)


def test_keras_compiles_no_step_on_two_devices(strategy: tf.distribute.Strategy) -> None:
    """Keras makes one function of all replicas, which TensorFlow does not compile, on CPUs neither; "auto" does not."""

    def compiled(jit_compile: bool | str) -> keras.Model:
        with strategy.scope():
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(1)])
            model.compile(optimizer="sgd", loss="mse", jit_compile=jit_compile)
        return model

    assert not compiled("auto").jit_compile
    with pytest.raises(tf.errors.InvalidArgumentError, match="Trying to access resource"):
        compiled(True).fit(X, Y, batch_size=4, verbose=0)
    assert np.isfinite(compiled(False).fit(X, Y, batch_size=4, verbose=0).history["loss"])


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
