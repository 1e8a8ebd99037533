"""A step that multiplies by a slice of a stacked array reads the slice once, and copies it nowhere.

Ways to write a loop over the layers of a network, or over the layers of a cache. Bytes that the thunks of all steps
read and write are counted from the compiled program.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from tripont.core.compiler.formats.artifact import View, walk
from tripont.core.compiler.reference.evaluate import evaluate

from tests.core.compiler.loops import compiled, read
from tests.core.compiler.moved import of_thunks
from tests.core.compiler.simulate import Simulation

LAYERS, K = 3, 128
RNG = np.random.default_rng(7)


def random(*dims, dtype=np.float32):
    return (RNG.standard_normal(dims, np.float32) / np.sqrt(dims[-1])).astype(dtype)


X, ROWS, W = random(1, K), random(16, K), random(LAYERS, K, K)
CACHE = random(LAYERS, 4, 64, 32)


# Each gives a function, its arguments, and the bytes that it has to read and write at least. A copy of the weights
# would read them and write them once more.


def layers(x, w):
    return lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w)[0]


def one_row():
    return layers, [X, W], W.nbytes


def some_rows():
    return layers, [ROWS, W], W.nbytes


def short_floats():
    w = W.astype(ml_dtypes.bfloat16)
    return layers, [X.astype(ml_dtypes.bfloat16), w], w.nbytes


def backwards():
    def f(x, w):
        return lax.scan(lambda x, w: (jnp.tanh(x @ w), None), x, w, reverse=True)[0]

    return f, [X, W], W.nbytes


def place_in_the_state():
    def f(x, w):
        return lax.fori_loop(0, LAYERS, lambda i, x: jnp.tanh(x @ w[i]), x)

    return f, [X, W], W.nbytes


def computed_place():
    """An index that is computed where the slice is taken."""

    def f(x, w, order):
        return lax.fori_loop(0, LAYERS, lambda i, x: jnp.tanh(x @ w[(order[i] * 2) % LAYERS]), x)

    return f, [X, W, np.array([0, 2, 1], np.int32)], W.nbytes


def unknown_steps():
    def f(x, w, n):
        return lax.while_loop(
            lambda s: s[0] < n, lambda s: (s[0] + 1, jnp.tanh(s[1] @ w[s[0]])), (0, x)
        )[1]

    return f, [X, W, np.int32(LAYERS)], W.nbytes // LAYERS  # one step is counted


def two_indices():
    """Weights of a layer's parts in one array."""

    def f(x, w):
        def step(i, x):
            return jnp.tanh(x @ w[i, 0]) + x @ w[i, 1]

        return lax.fori_loop(0, LAYERS, step, x)

    w = random(LAYERS, 2, K, K)
    return f, [X, w], w.nbytes


def slice_of_a_slice():
    def f(x, w):
        def step(x, w):
            return lax.fori_loop(0, 2, lambda j, x: jnp.tanh(x @ w[j]), x), None

        return lax.scan(step, x, w)[0]

    w = random(LAYERS, 2, K, K)
    return f, [X, w], w.nbytes


def steps_in_a_layer():
    """A recurrent network: the weights of a layer are the same in all steps of the loop inside."""

    def f(x, w):
        def layer(rows, w):
            def step(h, row):
                h = jnp.tanh(h @ w + row)
                return h, h

            return lax.scan(step, jnp.zeros((1, K)), rows)[1], None

        return lax.scan(layer, x, w)[0]

    return f, [random(4, 1, K), W], 4 * W.nbytes


def first_rows():
    def f(x, w):
        return lax.scan(lambda x, w: (jnp.tanh(x[:, : K // 2] @ w[: K // 2]), None), x, w)[0]

    return f, [X, W], W.nbytes // 2


def unrolled():
    def f(x, w):
        for i in range(LAYERS):
            x = jnp.tanh(x @ w[i])
        return x

    return f, [X, W], W.nbytes


def cache(x, w, c, position):
    """Writes a row of the layer's part of a cache, and reads that part."""

    def step(s, w):
        x, c, i = s
        row = (x @ w).reshape(1, 4, 1, 32)
        c = lax.dynamic_update_slice(c, row, (i, 0, position, 0))
        scores = jnp.einsum("hd,htd->ht", row.reshape(4, 32), c[i])
        return (x + scores.reshape(1, 256)[:, :K], c, i + 1), None

    return lax.scan(step, (x, c, 0), w)[0][:2]


def cache_in_the_state():
    # The program begins with a copy of the cache, which is the caller's.
    return cache, [X, W, CACHE, np.int32(5)], W.nbytes + 3 * CACHE.nbytes


def gradient():
    """The weights are read once forwards and once backwards."""

    def f(x, w):
        return jax.grad(lambda x: jnp.sum(layers(x, w)))(x)

    return f, [X, W], 2 * W.nbytes


FORMS = [
    *(one_row, some_rows, short_floats, backwards, place_in_the_state),
    *(computed_place, unknown_steps, two_indices, slice_of_a_slice, steps_in_a_layer),
    *(first_rows, unrolled, cache_in_the_state, gradient),
]


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_a_slice_is_read_once(form):
    function, arguments, least = form()
    lowered = Simulation(compiled(function, arguments)).lowered
    assert any(isinstance(t, View) for t in walk(lowered.thunks))
    moved = of_thunks(lowered.thunks, lowered.instructions)
    assert least <= moved < 2 * least


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f.__name__)
def test_form_is_right(form):
    function, arguments, _ = form()
    expected = evaluate(read(function, arguments), arguments)
    results = Simulation(compiled(function, arguments)).run(arguments)
    for a, b in zip(results, expected, strict=True):
        tolerance = 2.0**-7 if a.dtype == ml_dtypes.bfloat16 else 1e-5
        np.testing.assert_allclose(
            a.astype(np.float32), b.astype(np.float32), rtol=tolerance, atol=tolerance
        )
