"""Programs that JAX exported for TensorFlow (``jax2tf``, SavedModels of JAX's functions) run on XPU and on the CPU."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import tensorflow as tf
from jax.experimental import jax2tf

X = np.random.default_rng(0).standard_normal((3, 4)).astype(np.float32)
WEIGHTS = np.random.default_rng(1).standard_normal((4, 2)).astype(np.float32)


def layer(x: Any) -> Any:
    return jnp.tanh(x @ WEIGHTS)


WANT = np.tanh(X @ WEIGHTS)


# The first test: JAX meets its platforms in the course of this export.
@pytest.mark.parametrize("device", ["CPU:0", "XPU:0"])
def test_conversion_as_the_first_use_of_jax(device: str) -> None:
    with tf.device(device):
        result = jax2tf.convert(layer)(tf.constant(X))
    np.testing.assert_allclose(result, WANT, rtol=1e-5, atol=1e-6)
    assert jax.default_backend() == "xpu"
    # Exports for JAX are for its default platform as before.
    assert jax.export.export(jax.jit(layer))(X).platforms == ("xpu",)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("platforms", [None, ["cpu"], ["cpu", "cuda", "tpu"]])
@pytest.mark.parametrize("device", ["CPU:0", "XPU:0"])
def test_functions(device: str, platforms: list[str] | None, compiled: bool) -> None:
    converted = jax2tf.convert(layer, native_serialization_platforms=platforms)
    function = tf.function(converted, autograph=False, jit_compile=compiled)
    with tf.device(device):
        result = function(tf.constant(X))
    assert device in result.device
    np.testing.assert_allclose(result, WANT, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("device", ["CPU:0", "XPU:0"])
def test_a_saved_model_with_any_batch_and_its_gradient(device: str, tmp_path: Any) -> None:
    function = tf.function(
        jax2tf.convert(layer, polymorphic_shapes=["(batch, 4)"], with_gradient=True),
        autograph=False,
        input_signature=[tf.TensorSpec([None, 4], tf.float32)],
    )
    module = tf.Module()
    module.layer = function
    options = tf.saved_model.SaveOptions(experimental_custom_gradients=True)
    tf.saved_model.save(module, str(tmp_path), options=options)
    loaded = tf.saved_model.load(str(tmp_path))
    with tf.device(device):
        for rows in (1, 3):
            x = tf.constant(X[:rows])
            with tf.GradientTape() as tape:
                tape.watch(x)
                result = loaded.layer(x)
            gradient = tape.gradient(result, x)
            np.testing.assert_allclose(result, WANT[:rows], rtol=1e-5, atol=1e-6)
            want = (1 - WANT[:rows] ** 2) @ WEIGHTS.T
            np.testing.assert_allclose(gradient, want, rtol=1e-5, atol=1e-5)


def test_a_program_for_another_platform_is_refused() -> None:
    converted = jax2tf.convert(layer, native_serialization_platforms=["tpu"])
    with tf.device("XPU:0"), pytest.raises(tf.errors.NotFoundError, match="TPU"):
        converted(tf.constant(X))
