"""Keras 3 on XPU against the CPU device: fit, evaluate and predict; saving, callbacks, tf.data, mixed precision."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

from .keras_models import WORKLOADS

_DEEP = ("mobilenet", "resnet")


def _ways() -> Iterator[Any]:
    for name, jit in itertools.product(WORKLOADS, (False, True)):
        # Deep ones take four minutes of the CPU, for the kinds of layers that "residual" has too.
        marks = [pytest.mark.slow, pytest.mark.nightly] if name in _DEEP else []
        yield pytest.param(name, jit, marks=marks, id=f"{name}-{'jit' if jit else 'function'}")


@cache
def weights(name: str) -> list[np.ndarray]:
    return WORKLOADS[name].weights()


def train(
    name: str, device: str, jit: bool, eager: bool = False
) -> tuple[list[float], list[float], np.ndarray]:
    """Losses of the epochs of two steps each, the evaluation, and predictions."""
    workload = WORKLOADS[name]
    x, y = workload.data(2 * workload.batch)
    with workload.precision(), tf.device(device):
        model = workload.model(weights(name), jit, run_eagerly=eager)
        history = model.fit(
            x, y, batch_size=workload.batch, epochs=workload.epochs, shuffle=False, verbose=0
        )
        evaluation = model.evaluate(x, y, batch_size=workload.batch, verbose=0)
        predictions = model.predict(x, batch_size=workload.batch, verbose=0)
        where = {v.value.device.rpartition("/device:")[2] for v in model.trainable_variables}
    assert where == {device}
    return history.history["loss"], evaluation, predictions


@cache
def on_cpu(name: str) -> tuple[list[float], list[float], np.ndarray]:
    return train(name, "CPU:0", jit=False, eager=True)


@pytest.mark.parametrize(("name", "jit"), list(_ways()))
def test_fit_evaluate_predict(name: str, jit: bool) -> None:
    losses, evaluation, predictions = train(name, "XPU:0", jit)
    cpu_losses, cpu_evaluation, cpu_predictions = on_cpu(name)
    tolerance = WORKLOADS[name].tolerance
    np.testing.assert_allclose(losses, cpu_losses, rtol=tolerance)
    np.testing.assert_allclose(evaluation[0], cpu_evaluation[0], rtol=10 * tolerance)
    scale = float(np.abs(cpu_predictions).max())
    np.testing.assert_allclose(predictions, cpu_predictions, rtol=0, atol=10 * tolerance * scale)


def test_saved_model(tmp_path: Path) -> None:
    workload = WORKLOADS["cnn"]
    x, _ = workload.data(4)
    with tf.device("XPU:0"):
        model = workload.model(weights("cnn"), True)
        before = model(x).numpy()
        model.export(tmp_path / "exported", verbose=False)
        model.save(tmp_path / "whole.keras")
        exported = tf.saved_model.load(str(tmp_path / "exported"))
        served = exported.serve(tf.constant(x)).numpy()
        again = keras.models.load_model(tmp_path / "whole.keras")
        np.testing.assert_allclose(again(x).numpy(), before, rtol=0, atol=1e-6)
    np.testing.assert_allclose(served, before, rtol=0, atol=1e-6)
    with tf.device("CPU:0"):
        on_cpu_device = keras.models.load_model(tmp_path / "whole.keras")(x).numpy()
    np.testing.assert_allclose(on_cpu_device, before, rtol=0, atol=1e-5)


def test_checkpoint_of_a_module(tmp_path: Path) -> None:
    with tf.device("XPU:0"):
        module = tf.Module()
        module.v = tf.Variable([1.0, 2.0])
        path = tf.train.Checkpoint(module=module).save(str(tmp_path / "point"))
        module.v.assign([0.0, 0.0])
        tf.train.Checkpoint(module=module).restore(path)
        np.testing.assert_array_equal(module.v.numpy(), [1, 2])


def test_data_pipeline_and_callbacks(tmp_path: Path) -> None:
    """A tf.data pipeline feeds the device; the callbacks see every epoch, and one stops the training."""
    workload = WORKLOADS["cnn"]
    x, y = workload.data(64)
    data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(64, seed=1).batch(16).prefetch(2)
    seen: list[int] = []
    with tf.device("XPU:0"):
        model = workload.model(weights("cnn"), True)
        history = model.fit(
            data,
            epochs=4,
            verbose=0,
            validation_data=(x[:16], y[:16]),
            callbacks=[
                keras.callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: seen.append(epoch)),
                keras.callbacks.ModelCheckpoint(
                    tmp_path / "best.weights.h5", save_weights_only=True
                ),
                keras.callbacks.CSVLogger(tmp_path / "log.csv"),
                keras.callbacks.LearningRateScheduler(lambda epoch: 0.01 / (1 + epoch)),
                keras.callbacks.EarlyStopping("accuracy", patience=0, baseline=1.1),
                keras.callbacks.TerminateOnNaN(),
            ],
        )
    assert seen == [0, 1]  # Keras stops after the second epoch at the earliest
    assert np.isfinite(history.history["val_loss"]).all()
    assert (tmp_path / "best.weights.h5").exists()
    assert (tmp_path / "log.csv").read_text().startswith("epoch,")


def test_learns() -> None:
    workload = WORKLOADS["cnn"]
    x, y = workload.data(160)
    with tf.device("XPU:0"):
        model = workload.model(weights("cnn"), True, optimizer=keras.optimizers.Adam(0.01))
        history = model.fit(x, y, batch_size=32, epochs=12, verbose=0).history
    assert history["loss"][-1] < 0.7 * history["loss"][0]


@cache
def losses_in_mixed_bfloat16(device: str, jit: bool, eager: bool = False) -> list[float]:
    workload = WORKLOADS["cnn"]
    x, y = workload.data(32)
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        with tf.device(device):
            model = workload.model(weights("cnn"), jit, run_eagerly=eager)
            assert model.layers[0].compute_dtype == "bfloat16"
            losses: list[float] = model.fit(x, y, batch_size=16, verbose=0).history["loss"]
            assert model.trainable_variables[0].dtype == "float32"
    finally:
        keras.config.set_dtype_policy("float32")
    return losses


@pytest.mark.parametrize("jit", [False, True], ids=["function", "jit"])
def test_mixed_bfloat16(jit: bool) -> None:
    """Losses agree to the precision of bfloat16 (2^-8), its dtype on both devices."""
    losses = losses_in_mixed_bfloat16("XPU:0", jit)
    expected = losses_in_mixed_bfloat16("CPU:0", jit=False, eager=True)
    np.testing.assert_allclose(losses, expected, rtol=2.0**-6)


def test_dropout_and_its_seed() -> None:
    with tf.device("XPU:0"):
        x = tf.ones([100, 100])
        first = keras.layers.Dropout(0.3, seed=7)
        second = keras.layers.Dropout(0.3, seed=7)
        a, b = first(x, training=True).numpy(), second(x, training=True).numpy()
        c = first(x, training=True).numpy()
    np.testing.assert_array_equal(a, b)
    assert (a != c).any()
    # Five standard errors of a fraction of 0.3 of 10,000.
    assert abs((a == 0).mean() - 0.3) < 5 * 0.46 / 100


def test_a_custom_training_loop() -> None:
    workload = WORKLOADS["transformer"]
    x, y = workload.data(32)

    def losses(device: str) -> list[float]:
        with tf.device(device):
            model = workload.model(weights("transformer"), False)
            optimizer = keras.optimizers.Adam(1e-3)
            optimizer.build(model.trainable_variables)
            entropy = keras.losses.SparseCategoricalCrossentropy(from_logits=True)

            @tf.function(jit_compile=device == "XPU:0")
            def step(inputs: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
                with tf.GradientTape() as tape:
                    loss = entropy(labels, model(inputs, training=True))
                gradients = tape.gradient(loss, model.trainable_variables)
                optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
                return loss

            return [float(step(tf.constant(x), tf.constant(y))) for _ in range(4)]

    np.testing.assert_allclose(losses("XPU:0"), losses("CPU:0"), rtol=1e-4)


@pytest.mark.parametrize("jit_compile", [True, False])
def test_a_model_is_used_outside_of_its_devices_scope(jit_compile: bool) -> None:
    """A compiled step runs where the variables are; without a device TensorFlow would take the CPU."""
    x, y = np.ones((8, 4), np.float32), np.ones((8, 3), np.float32)
    with tf.device("XPU:0"):
        model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(3)])
        model.compile("sgd", "mse", jit_compile=jit_compile)
        inside = model.predict(x, verbose=0)
    np.testing.assert_allclose(model.predict(x, verbose=0), inside, rtol=1e-6)
    before = model.evaluate(x, y, verbose=0)
    model.fit(x, y, verbose=0)
    assert model.evaluate(x, y, verbose=0) < before
    compiled = tf.function(model, jit_compile=True)
    assert "XPU" in compiled(tf.constant(x)).device
