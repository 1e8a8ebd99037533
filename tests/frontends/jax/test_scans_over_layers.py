"""Loops over the layers of a network: products and libraries read a layer's weights where they lie."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

LAYERS, K = 3, 256
RNG = np.random.default_rng(11)


def random(*dims, dtype=np.float32):
    return (RNG.standard_normal(dims, np.float32) / 16).astype(dtype)


def layers(x, w):
    return lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w)[0]


def quantised(x, w, scale):
    def step(x, layer):
        w, scale = layer
        return jnp.tanh((x @ w.astype(x.dtype)) * scale), None

    return lax.scan(step, x, (w, scale))[0]


def convolved(x, w):
    def step(x, w):
        return jnp.tanh(lax.conv_general_dilated(x, w, (1, 1), "SAME")), None

    return lax.scan(step, x, w)[0]


def cached(x, w, keys, position):
    """A row of a layer's keys is written, and all of them are read."""

    def step(state, w):
        x, keys, i = state
        keys = lax.dynamic_update_slice(keys, (x @ w)[None, None, 0], (i, position, 0))
        scores = jax.nn.softmax(x @ keys[i].T)
        return (scores @ keys[i], keys, i + 1), None

    return lax.scan(step, (x, keys, 0), w)[0][:2]


W = random(LAYERS, K, K)
PROGRAMS = {
    "one row": (layers, [random(1, K), W]),
    "rows": (layers, [random(16, K), W]),
    "many rows": (layers, [random(512, K), W]),
    "bf16": (layers, [random(1, K, dtype=jnp.bfloat16), W.astype(jnp.bfloat16)]),
    "bf16 rows": (layers, [random(64, K, dtype=jnp.bfloat16), W.astype(jnp.bfloat16)]),
    "int8": (
        quantised,
        [random(1, K), RNG.integers(-127, 128, W.shape, np.int8), random(LAYERS, K) / 127],
    ),
    "gradient": (jax.grad(lambda w, x: jnp.sum(layers(x, w) ** 2)), [W, random(32, K)]),
    "convolution": (convolved, [random(2, 32, 16, 16), random(LAYERS, 32, 32, 3, 3)]),
    "cache": (cached, [random(1, K), W, random(LAYERS, 128, K), np.int32(7)]),
    "sort": (
        lambda x, w: lax.fori_loop(0, LAYERS, lambda i, x: x + jnp.sort(w[i], axis=0), x),
        [np.zeros((K, K), np.float32), W],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_on_the_cpu_of_jax(name):
    function, arguments = PROGRAMS[name]
    results = []
    for platform in ("xpu", "cpu"):
        placed = jax.device_put(arguments, jax.devices(platform)[0])
        results.append(jax.tree.leaves(jax.jit(function)(*placed)))
    for ours, theirs in zip(*results, strict=True):
        # Each layer rounds once; tanh of sums of K products of numbers around 1/16 damps what the last one rounded.
        bits = 8 if ours.dtype == jnp.bfloat16 else 24
        tolerance = K * 2.0**-bits if bits == 24 else LAYERS * 2.0**-bits
        np.testing.assert_allclose(
            np.asarray(ours, np.float32),
            np.asarray(theirs, np.float32),
            rtol=tolerance,
            atol=tolerance * float(jnp.max(jnp.abs(theirs))),
        )
