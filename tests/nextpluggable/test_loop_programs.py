"""Loops in functions without jit_compile: what becomes one program, what stays op by op, and that both are right."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf
from tensorflow.python.eager import context

XPU = "/device:XPU:0"
CPU = "/device:CPU:0"


def _run(function: Any, *arguments: Any, device: str = XPU) -> list[np.ndarray]:
    with tf.device(device):
        results = function(*arguments)
    return [result.numpy() for result in tf.nest.flatten(results)]


def _programs(function: Any, *arguments: Any) -> int:
    """How many loop programs a call has in its graph."""
    context.enable_run_metadata()
    context.export_run_metadata()  # forgets what calls before have left
    try:
        _run(function, *arguments)
        graphs = context.export_run_metadata().function_graphs
    finally:
        context.disable_run_metadata()
    nodes = [node for graph in graphs for part in graph.partition_graphs for node in part.node]
    return sum(node.op == "_XlaCompile" for node in nodes)


def _compare(
    make: Callable[[], Any], *arguments: Any, programs: int, tolerance: float = 2e-5
) -> None:
    """A function that ``make`` makes gives what it gives on the CPU op by op, twice, and has so many programs."""
    with tf.device(CPU):
        expected = _run(make(), *[tf.constant(a) for a in arguments], device=CPU)
    with tf.device(XPU):
        function = tf.function(make())
    assert _programs(function, *arguments) == programs
    for _ in range(2):
        results = _run(function, *arguments)
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=tolerance, atol=tolerance)


X = np.random.default_rng(1).standard_normal((3, 7, 4)).astype(np.float32)

LAYERS: dict[str, Callable[[], Any]] = {
    "lstm": lambda: keras.layers.LSTM(5),
    "gru": lambda: keras.layers.GRU(5),
    "simple": lambda: keras.layers.SimpleRNN(5, return_sequences=True, go_backwards=True),
    "sequences": lambda: keras.layers.LSTM(5, return_sequences=True),
    "states": lambda: keras.layers.GRU(5, return_sequences=True, return_state=True),
    "backwards": lambda: keras.layers.LSTM(5, go_backwards=True),
    "bidirectional": lambda: keras.layers.Bidirectional(
        keras.layers.LSTM(3, return_sequences=True)
    ),
    "stacked": lambda: keras.layers.RNN([keras.layers.LSTMCell(3), keras.layers.GRUCell(4)]),
}


def _layer(kind: str) -> Any:
    keras.utils.set_random_seed(3)
    layer = LAYERS[kind]()
    layer.build(X.shape)
    return layer


# Sequences of an LSTM are one of the layers in test_layers_upon_layers_are_one_program, and one that goes backwards
# is in "bidirectional".
_IN_OTHERS = ("sequences", "backwards")


@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(kind, marks=pytest.mark.nightly if kind in _IN_OTHERS else [])
        for kind in LAYERS
    ],
)
def test_recurrent_layers_are_programs(kind: str) -> None:
    count = 2 if kind == "bidirectional" else 1
    _compare(lambda: _layer(kind), X, programs=count)

    def gradients(of_input: bool) -> Any:
        layer = _layer(kind)

        def compute(x: tf.Tensor) -> Any:
            with tf.GradientTape() as tape:
                if of_input:
                    tape.watch(x)
                loss = tf.add_n(
                    [tf.reduce_sum(tf.cast(y, tf.float32) ** 2) for y in tf.nest.flatten(layer(x))]
                )
            inputs = [x] if of_input else []
            return [loss, *tape.gradient(loss, [*inputs, *layer.trainable_variables])]

        return compute

    # The loops of both directions meet in the loss.
    _compare(lambda: gradients(False), X, programs=1, tolerance=1e-4)
    _compare(lambda: gradients(True), X, programs=1, tolerance=1e-4)


@pytest.mark.parametrize("known", [True, False])
def test_layers_upon_layers_are_one_program(known: bool) -> None:
    """Gradients of three layers, of sequences whose length is known when the function is traced, or not."""

    def make() -> Any:
        keras.utils.set_random_seed(3)
        layers = [
            keras.layers.LSTM(5, return_sequences=True),
            keras.layers.Bidirectional(keras.layers.GRU(3, return_sequences=True)),
            keras.layers.SimpleRNN(4),
        ]
        model = keras.Sequential([keras.layers.Input((None, 4)), *layers])

        def compute(x: tf.Tensor) -> Any:
            if not known:
                x = tf.ensure_shape(
                    x[:, : tf.cast(tf.reduce_sum(x * 0) + 7, tf.int32)], (3, None, 4)
                )
            with tf.GradientTape() as tape:
                tape.watch(x)
                loss = tf.reduce_sum(model(x) ** 2)
            return [loss, *tape.gradient(loss, [x, *model.trainable_variables])]

        return compute

    _compare(make, X, programs=1, tolerance=1e-4)


def test_masks_and_lengths() -> None:
    """Rows of different lengths, one without any element, by Masking and by a mask."""
    mask = np.array([[1, 1, 1, 0, 0, 0, 0], [0] * 7, [1, 0, 1, 1, 1, 1, 1]], bool)

    def make() -> Any:
        layer = _layer("sequences")

        def compute(x: tf.Tensor) -> Any:
            with tf.GradientTape() as tape:
                y = layer(x, mask=tf.constant(mask))
                loss = tf.reduce_sum(y * y)
            return [y, *tape.gradient(loss, layer.trainable_variables)]

        return compute

    _compare(make, X, programs=1, tolerance=1e-4)


def test_lengths_that_are_not_known_when_the_function_is_traced() -> None:
    layers = {}
    for device in (CPU, XPU):
        with tf.device(device):
            layer = _layer("sequences")
            layers[device] = tf.function(
                layer, input_signature=[tf.TensorSpec((None, None, 4), tf.float32)]
            )
    assert _programs(layers[XPU], X) == 1
    # The first is compiled, and each other one when it is seen for the second time.
    for length in (7, 3, 1, 3, 7, 5, 3):
        x = X[:2, :length]
        (result,) = _run(layers[XPU], x)
        (expected,) = _run(layers[CPU], x, device=CPU)
        np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)


def test_stateful_layers_keep_their_states() -> None:
    results = {}
    for device in (CPU, XPU):
        with tf.device(device):
            keras.utils.set_random_seed(3)
            layer = keras.layers.LSTM(5, stateful=True)
            layer.build(X.shape)
            function = tf.function(layer)
        if device == XPU:
            assert _programs(function, X) == 1
        else:
            _run(function, X, device=CPU)
        results[device] = [_run(function, X * i, device=device)[0] for i in range(3)]
        results[device] += [state.numpy() for state in layer.states]
    for result, expected in zip(results[XPU], results[CPU], strict=True):
        np.testing.assert_allclose(result, expected, rtol=2e-5, atol=2e-5)


def test_fit_with_a_smaller_last_batch() -> None:
    losses = {}
    for device in (CPU, XPU):
        with tf.device(device):
            keras.utils.set_random_seed(3)
            model = keras.Sequential(
                [
                    keras.layers.Input((7, 4)),
                    keras.layers.LSTM(5, return_sequences=True, dropout=0.5, seed=1),
                    keras.layers.GRU(3),
                    keras.layers.Dense(1),
                ]
            )
            model.compile("sgd", "mse", jit_compile=False)
            x = np.tile(X, (4, 1, 1))[:10]
            history = model.fit(x, x[:, 0, :1], batch_size=4, epochs=3, verbose=0, shuffle=False)
            losses[device] = [*history.history["loss"], *model.predict(x, verbose=0).ravel()]
    np.testing.assert_allclose(losses[XPU], losses[CPU], rtol=1e-4, atol=1e-5)


def test_loops_of_other_kinds() -> None:
    def ends_early(x: tf.Tensor) -> Any:
        def body(i: Any, y: Any) -> Any:
            return i + 1, y * 1.5

        return tf.while_loop(
            lambda i, y: tf.reduce_sum(y) < 100.0, body, (0, x), maximum_iterations=50
        )

    def has_a_branch(x: tf.Tensor) -> Any:
        def body(i: Any, y: Any) -> Any:
            return i + 1, tf.cond(i % 2 == 0, lambda: y + 1.0, lambda: y * 2.0)

        return tf.while_loop(lambda i, y: i < 5, body, (0, x))[1]

    def nested(x: tf.Tensor) -> Any:
        def outer(i: Any, y: Any) -> Any:
            inner = tf.while_loop(lambda j, z: j < i, lambda j, z: (j + 1, tf.sin(z) + 1.0), (0, y))
            return i + 1, inner[1]

        return tf.while_loop(lambda i, y: i < 4, outer, (0, x))[1]

    def early_gradient(x: tf.Tensor) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = ends_early(x)[1]
        return y, tape.gradient(y, x)

    def none(x: tf.Tensor) -> Any:
        return tf.while_loop(lambda i, y: i < 0, lambda i, y: (i + 1, y * 2.0), (0, x))

    x = np.abs(X[0])
    for function in (ends_early, has_a_branch, nested, none):
        _compare(lambda function=function: function, x, programs=1)
    _compare(lambda: early_gradient, x, programs=1)


def test_variables_are_read_and_written_in_order() -> None:
    for device in (CPU, XPU):
        with tf.device(device):
            v = tf.Variable(1.0)

            @tf.function
            def compute(v: Any = v) -> Any:
                v.assign(3.0)
                before = v.read_value()

                def body(i: Any, y: Any) -> Any:
                    v.assign_add(y)
                    return i + 1, y + v

                y = tf.while_loop(lambda i, y: i < 4, body, (0, tf.constant(1.0)))[1]
                after = v.read_value()
                v.assign(7.0)
                return before, y, after

            if device == XPU:
                assert _programs(compute) == 1
            results = _run(compute, device=device)
        assert [float(r) for r in results] == [3.0, 97.0, 60.0]
        assert v.numpy() == 7.0


def test_a_variable_of_the_cpu() -> None:
    with tf.device(CPU):
        v = tf.Variable(2.0)

    @tf.function
    def compute(x: Any) -> Any:
        return tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * v), (0, x))[1]

    assert _programs(compute, tf.constant(1.0)) == 0
    assert _run(compute, tf.constant(1.0)) == [8.0]


@pytest.mark.parametrize("index", [3, -1, 100])
@pytest.mark.parametrize("kind", ["read", "write", "counter", "start"])
def test_an_index_out_of_range_is_an_error(kind: str, index: int) -> None:
    """Compiled programs would take the last element."""

    @tf.function
    def compute(x: tf.Tensor) -> Any:
        array = tf.TensorArray(tf.float32, size=3, clear_after_read=False).unstack(x)

        def body(i: Any, y: Any, a: Any) -> Any:
            if kind == "read":
                return i + 1, y + a.read(index), a
            if kind == "write":
                return i + 1, y, a.write(index, y)
            return i + 1, y + a.read(i), a

        start = min(index, 2) if kind == "start" else 0
        end = index + 1 if kind == "counter" else 3
        _, y, array = tf.while_loop(lambda i, y, a: i < end, body, (start, tf.zeros(4), array))
        return y, array.stack()

    if (kind == "counter" and index == -1) or (kind == "start" and index > 0):
        _run(compute, X[0, :3])  # no iteration, or within range
        return
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.OutOfRangeError)):
        _run(compute, X[0, :3])


def test_what_reports_or_draws_stays_op_by_op() -> None:
    def asserts(x: tf.Tensor) -> Any:
        def body(i: Any, y: Any) -> Any:
            with tf.control_dependencies([tf.debugging.Assert(tf.reduce_all(y < 10.0), [y])]):
                return i + 1, y * 2.0

        return tf.while_loop(lambda i, y: i < 5, body, (0, x))[1]

    def checks(x: tf.Tensor) -> Any:
        def body(i: Any, y: Any) -> Any:
            return i + 1, tf.debugging.check_numerics(y * 1e30, "too large")

        return tf.while_loop(lambda i, y: i < 5, body, (0, x))[1]

    def draws(x: tf.Tensor) -> Any:
        def body(i: Any, y: Any) -> Any:
            return i + 1, y + tf.random.uniform(tf.shape(y))

        return tf.while_loop(lambda i, y: i < 5, body, (0, x))[1]

    x = np.ones(3, np.float32)
    for function in (asserts, checks):
        with pytest.raises(tf.errors.InvalidArgumentError):
            _run(tf.function(function), x)
    assert _programs(tf.function(draws), x) == 0


def test_seeds_give_the_numbers_of_the_cpu() -> None:
    def make() -> Any:
        def compute(x: tf.Tensor) -> Any:
            def body(i: Any, y: Any) -> Any:
                return i + 1, y + tf.random.stateless_uniform((3,), tf.stack([i, 7]))

            return tf.while_loop(lambda i, y: i < 5, body, (0, x))[1]

        return compute

    _compare(make, np.ones(3, np.float32), programs=1, tolerance=1e-6)


def test_what_cannot_be_compiled_after_all_runs_op_by_op() -> None:
    """A shape that depends on the iteration is found out when the program is compiled."""

    def make() -> Any:
        def compute(x: tf.Tensor) -> Any:
            def body(i: Any, y: Any) -> Any:
                return i + 1, y + tf.reduce_sum(tf.ones(tf.stack([i + 1, 2])))

            return tf.while_loop(lambda i, y: i < 4, body, (0, x))[1]

        return compute

    _compare(make, np.ones(3, np.float32), programs=1)


def test_a_function_in_a_function() -> None:
    def make() -> Any:
        layer = _layer("lstm")
        inner = tf.function(layer)

        def compute(x: tf.Tensor) -> Any:
            return inner(x) + inner(x * 2.0)

        return compute

    _compare(make, X, programs=2)


def test_a_result_of_a_branch_beside_a_loop() -> None:
    def make() -> Any:
        layer = _layer("lstm")

        def compute(x: tf.Tensor) -> Any:
            y = tf.cond(tf.reduce_sum(x) > 0.0, lambda: layer(x), lambda: layer(-x) * 3.0)
            return y, layer(x)

        return compute

    for x in (np.abs(X), -np.abs(X)):
        _compare(make, x, programs=1)
