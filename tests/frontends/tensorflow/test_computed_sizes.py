"""Compiled functions with arrays whose sizes depend on values, called with values that give other sizes each time.

The CPU device computes what is expected, op by op.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import pytest
import tensorflow as tf

from .cases import difference
from .cases_computed_sizes import MATRICES, VECTORS, Function, positive


def _rows(x: Any) -> Any:
    return tf.boolean_mask(x, x[:, 0] > 0)


def _loss(x: Any, w: Any) -> Any:
    logits = tf.matmul(_rows(x), w)
    labels = tf.boolean_mask(tf.constant([0, 1, 2]), x[:, 0] > 0)
    return tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits))


def _gradient(x: Any) -> Any:
    w = tf.constant(MATRICES[0].T[:, :3] / 10)
    with tf.GradientTape() as tape:
        tape.watch(w)
        loss = _loss(x, w)
    return tape.gradient(loss, w)


def _nothing_but(x: Any) -> Any:
    """A loop whose array becomes shorter."""
    body = lambda i, a: (i + 1, tf.boolean_mask(a, a > tf.cast(i, a.dtype)))
    shapes = (tf.TensorShape([]), tf.TensorShape([None]))
    return tf.while_loop(lambda i, a: i < 3, body, (0, x), shape_invariants=shapes)[1]


OF_VECTORS: Final[dict[str, Function]] = {
    "where": lambda x: tf.where(x > 0),
    "boolean_mask": positive,
    "unique": tf.unique,
    "size": lambda x: (tf.size(positive(x)), tf.shape(positive(x))),
    "sum": lambda x: tf.reduce_sum(positive(x)),
    "mean": lambda x: tf.reduce_mean(positive(x)),
    "max": lambda x: tf.reduce_max(positive(x) - 9),
    "product": lambda x: tf.reduce_prod(positive(x)),
    "any": lambda x: tf.reduce_any(positive(x) > 2),
    "deviation": lambda x: tf.math.reduce_std(positive(x)),
    "elementwise": lambda x: tf.exp(positive(x)) + 1,
    "two": lambda x: positive(x) + tf.boolean_mask(x * 2, x > 0),
    "concat": lambda x: tf.concat([positive(x), x, positive(-x), positive(x)], 0),
    "stack": lambda x: tf.stack([positive(x), positive(x)]),
    "reshape": lambda x: tf.reshape(positive(x), [-1, 1]),
    "broadcast": lambda x: positive(x)[:, None] * tf.ones([1, 3]),
    "outer": lambda x: positive(x)[:, None] * positive(x)[None, :],
    "sort": lambda x: tf.sort(positive(x)),
    "argsort": lambda x: tf.argsort(positive(x), stable=True),
    "cumsum": lambda x: tf.cumsum(positive(x)),
    "reverse": lambda x: tf.reverse(positive(x), [0]),
    "softmax": lambda x: tf.nn.softmax(positive(x)),
    "slice": lambda x: (positive(x)[1:], positive(x)[:2], positive(x)[:-1]),
    "pad": lambda x: tf.pad(positive(x), [[1, 2]], constant_values=7.0),
    "tile": lambda x: tf.tile(positive(x), [2]),
    "one_hot": lambda x: tf.one_hot(tf.cast(positive(x), tf.int32), 4),
    "gather": lambda x: tf.gather(x * 2, tf.where(x > 0)[:, 0]),
    "scatter": lambda x: tf.scatter_nd(tf.where(x > 1), tf.boolean_mask(x, x > 1), [7]),
    "update": lambda x: tf.tensor_scatter_nd_update(x, tf.where(x > 1), tf.boolean_mask(-x, x > 1)),
    "segment_sum": lambda x: tf.math.unsorted_segment_sum(
        positive(x), tf.range(tf.size(positive(x))) % 3, 3
    ),
    "gradient": lambda x: tf.gradients(tf.reduce_sum(positive(x) ** 2), x)[0],
    "loop": lambda x: tf.while_loop(
        lambda i, a: i < 3, lambda i, a: (i + 1, a * 2), (0, positive(x))
    )[1],
    "shrinking_loop": _nothing_but,
    "cond": lambda x: tf.cond(x[0] > 2, lambda: positive(x), lambda: x[:3]),
    "range": lambda x: tf.range(tf.size(positive(x))),
    "increasing": tf.math.is_strictly_increasing,
    "repeat": lambda x: tf.repeat(tf.range(7), tf.cast(x, tf.int32)),
    "bincount": lambda x: tf.math.bincount(tf.cast(x, tf.int32), minlength=5, maxlength=5),
    "partition": lambda x: tf.dynamic_partition(x, tf.cast(x, tf.int32) % 3, 3),
    "ragged_sum": lambda x: tf.reduce_sum(tf.RaggedTensor.from_row_lengths(x, [2, 3, 2]), axis=1),
}
OF_MATRICES: Final[dict[str, Function]] = {
    "where": lambda x: tf.where(x > 3),
    "rows": _rows,
    "flat": lambda x: tf.boolean_mask(x, x > 3),
    "matmul": lambda x: tf.matmul(_rows(x), x, transpose_b=True),
    "contracted": lambda x: tf.matmul(_rows(x), _rows(x), transpose_a=True),
    "transpose": lambda x: tf.transpose(_rows(x)),
    "transpose_flat": lambda x: tf.reshape(tf.transpose(_rows(x)), [-1]),
    "moments": lambda x: tf.nn.moments(_rows(x), [1]),
    "normalize": lambda x: tf.math.l2_normalize(_rows(x) + 1, 1),
    "loss": lambda x: _loss(x, tf.constant(MATRICES[0].T[:, :3] / 10)),
    "weight_gradient": _gradient,
    "conv2d": lambda x: tf.nn.conv2d(
        tf.reshape(_rows(x), [-1, 2, 2, 1]), tf.ones([2, 2, 1, 1]), 1, "SAME"
    ),
    "max_pool": lambda x: tf.nn.max_pool2d(tf.reshape(_rows(x), [-1, 2, 2, 1]), 2, 2, "VALID"),
    "dense": lambda x: tf.einsum("ij,jk->ik", _rows(x), tf.constant(MATRICES[0].T)),
    "top_k": lambda x: tf.math.top_k(_rows(x), 2),
    "rot90": lambda x: tf.image.rot90(x[:, :, None], tf.cast(x[2, 1], tf.int32) % 4),
}
CASES: Final = {
    **{f"vector-{name}": (f, VECTORS) for name, f in OF_VECTORS.items()},
    **{f"matrix-{name}": (f, MATRICES) for name, f in OF_MATRICES.items()},
}


def _run(function: Function, argument: np.ndarray, device: str) -> list[np.ndarray]:
    with tf.device(device):
        results = tf.nest.flatten(function(tf.constant(argument, tf.float32)))
    return [np.asarray(r) for r in results]


@pytest.mark.parametrize("name", CASES)
def test_one_program_for_all_sizes(name: str) -> None:
    function, arguments = CASES[name]
    compiled = tf.function(function, autograph=False, jit_compile=True)
    expected = tf.function(function, autograph=False)
    for argument in arguments:
        wanted = _run(expected, argument, "CPU:0")
        actual = _run(compiled, argument, "XPU:0")
        assert len(actual) == len(wanted)
        for a, e in zip(actual, wanted, strict=True):
            wrong = difference(a, e, 32)
            assert not wrong, f"{argument}: {wrong}"
    assert compiled.experimental_get_tracing_count() == 1


@pytest.mark.parametrize(
    ("function", "what"),
    [
        (lambda x: positive(x)[0], "one element is taken of an array that has none"),
        (lambda x: tf.boolean_mask(x, x > 0) + tf.boolean_mask(x, x > 1), "have different sizes"),
        (lambda x: positive(x) + tf.range(7.0), "meets one of size 7"),
    ],
)
def test_sizes_that_do_not_fit_are_errors(function: Function, what: str) -> None:
    """As on the CPU device, where they are other errors."""
    compiled = tf.function(function, autograph=False, jit_compile=True)
    ones = np.full(7, 2, np.float32)
    np.testing.assert_allclose(_run(compiled, ones, "XPU:0")[0], _run(function, ones, "CPU:0")[0])
    mixed = np.zeros(7, np.float32)
    if "none" not in what:
        mixed[:] = [1, 2, 0, 2, 1, 2, 0]
    with pytest.raises(tf.errors.InvalidArgumentError, match=what):
        _run(compiled, mixed, "XPU:0")
    with pytest.raises(tf.errors.InvalidArgumentError):
        _run(function, mixed, "CPU:0")


def test_the_next_op_gets_an_array_of_the_size_that_there_is() -> None:
    compiled = tf.function(positive, autograph=False, jit_compile=True)
    with tf.device("XPU:0"):
        found = compiled(tf.constant(VECTORS[0]))
        assert found.shape == [5]
        assert tf.reduce_sum(found * 2).numpy() == 20
        found = compiled(tf.zeros(7))
        assert found.shape == [0]
        assert tf.reduce_sum(found).numpy() == 0


def test_a_keras_loss_of_masked_examples() -> None:
    """A training step that leaves out examples without a label, compiled as a whole."""
    labels: Sequence[int] = [2, -1, 0, 1, -1, 1]
    inputs = np.random.default_rng(0).normal(size=(6, 5)).astype(np.float32)
    kernel = np.random.default_rng(1).normal(size=(5, 3)).astype(np.float32)

    def step(x: Any, y: Any, w: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(w)
            there = y >= 0
            logits = tf.boolean_mask(x, there) @ w
            loss = tf.reduce_mean(
                tf.keras.losses.sparse_categorical_crossentropy(
                    tf.boolean_mask(y, there), logits, from_logits=True
                )
            )
        return loss, tape.gradient(loss, w)

    arguments = [inputs, np.array(labels, np.int32), kernel]
    with tf.device("CPU:0"):
        wanted = step(*[tf.constant(a) for a in arguments])
    with tf.device("XPU:0"):
        actual = tf.function(step, autograph=False, jit_compile=True)(
            *[tf.constant(a) for a in arguments]
        )
    for a, e in zip(actual, wanted, strict=True):
        np.testing.assert_allclose(a.numpy(), e.numpy(), rtol=1e-5, atol=1e-6)
