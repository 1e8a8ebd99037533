"""Loops, conditionals, TensorArray, gradients through them, and mixed placement."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)


def _while(x: Any) -> Any:
    return tf.while_loop(
        lambda i, _: i < 5, lambda i, a: (i + 1, a * 1.5 + tf.cast(i, tf.float32)), (0, x)
    )


def _while_by_value(x: Any) -> Any:
    while tf.reduce_sum(tf.abs(x)) < 100:
        x = x * 2 + 1
    return x


def _for_with_break(x: Any) -> Any:
    total = tf.zeros_like(x)
    for i in tf.range(10):
        if i == 4:
            break
        if i == 1:
            continue
        total += x * tf.cast(i, tf.float32)
    return total


def _nested(x: Any) -> Any:
    for i in tf.range(3):
        for j in tf.range(i + 1):
            x = x + tf.cast(j, tf.float32)
    return x


def _cond(x: Any) -> Any:
    return tf.cond(tf.reduce_sum(x) > 3, lambda: x * 2, lambda: x - 1)


def _switch(x: Any) -> Any:
    index = tf.cast(tf.reduce_sum(x) > -1, tf.int32) + 1
    return tf.switch_case(index, [lambda: x, lambda: x * 2, lambda: x * 3])


def _case(x: Any) -> Any:
    return tf.case([(tf.reduce_sum(x) > 99, lambda: x)], default=lambda: tf.sin(x))


def _array(x: Any) -> Any:
    values = tf.TensorArray(tf.float32, size=5)
    for i in tf.range(5):
        values = values.write(i, x * tf.cast(i, tf.float32))
    return values.stack(), values.concat(), values.read(2)


def _array_gathered(x: Any) -> Any:
    return tf.TensorArray(tf.float32, size=4).unstack(x).gather([2, 0])


def _array_split(x: Any) -> Any:
    return tf.TensorArray(tf.float32, size=2, infer_shape=False).split(x, [1, 3]).read(1)


def _gradient_of_array(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        state, values = x, tf.TensorArray(tf.float32, size=5)
        for i in tf.range(5):
            state = tf.tanh(state * 1.1)
            values = values.write(i, state)
        loss = tf.reduce_sum(values.stack() ** 2)
    return tape.gradient(loss, x)


def _gradient_of_while(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.while_loop(
            lambda i, _: i < 4, lambda i, a: (i + 1, tf.sin(a) * x), (0, x), maximum_iterations=6
        )[1]
    return tape.gradient(y, x)


def _gradient_of_cond(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.cond(tf.reduce_max(x) > 0, lambda: x**3, lambda: x)
    return tape.gradient(y, x)


def _second_derivative(x: Any) -> Any:
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = tf.reduce_sum(x**3 + tf.sin(x))
        first = inner.gradient(y, x)
    return outer.gradient(first, x)


def _jacobian(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x * x, axis=1)
    return tape.jacobian(y, x)


def _forward_mode(x: Any) -> Any:
    with tf.autodiff.ForwardAccumulator(x, tf.ones_like(x)) as accumulator:
        y = tf.tanh(x) * x
    return accumulator.jvp(y)


@tf.custom_gradient
def _clipped(x: Any) -> Any:
    return tf.square(x), lambda upstream: tf.clip_by_value(upstream * 2 * x, -0.5, 0.5)


def _custom_gradient(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = _clipped(x)
    return tape.gradient(y, x)


def _recompute(x: Any) -> Any:
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.recompute_grad(lambda a: tf.sin(tf.exp(a)))(x)
    return tape.gradient(y, x)


def _calls(x: Any) -> Any:
    @tf.function
    def inner(y: Any) -> Any:
        return tf.nn.relu(y) @ tf.transpose(y)

    return inner(x) + inner(x * 2)


def _map(x: Any) -> Any:
    return tf.map_fn(lambda row: tf.reduce_sum(row) * row, x)


def _scan(x: Any) -> Any:
    return tf.scan(lambda total, row: total * 0.5 + row, x)


def _bfloat16_loop(x: Any) -> Any:
    y = tf.cast(x, tf.bfloat16)
    for _ in tf.range(3):
        y = y * 0.5 + 1
    return tf.cast(y, tf.float32)


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    f.__name__.removeprefix("_"): f
    for f in (
        _while,
        _while_by_value,
        _for_with_break,
        _nested,
        _cond,
        _switch,
        _case,
        _array,
        _array_gathered,
        _array_split,
        _gradient_of_array,
        _gradient_of_while,
        _gradient_of_cond,
        _second_derivative,
        _jacobian,
        _forward_mode,
        _custom_gradient,
        _recompute,
        _calls,
        _map,
        _scan,
        _bfloat16_loop,
    )
}
# XLA needs sizes at compile time: that of a range whose end is a loop's counter, and of pieces.
_NOT_COMPILED = ("array_split", "nested")


def _run(function: Callable[[Any], Any], device: str) -> list[np.ndarray]:
    with tf.device(device):
        return [r.numpy() for r in tf.nest.flatten(function(tf.constant(X)))]


@cache
def _expected(name: str) -> list[np.ndarray]:
    return _run(tf.function(FUNCTIONS[name]), "CPU:0")


@pytest.mark.parametrize("way", ["function", "jit"])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str, way: str) -> None:
    if way == "jit" and name in _NOT_COMPILED:
        pytest.skip("XLA knows no sizes that are computed in the program")
    actual = _run(tf.function(FUNCTIONS[name], jit_compile=way == "jit"), "XPU:0")
    for a, e in zip(actual, _expected(name), strict=True):
        # Up to five applications of functions whose results are good to a few places; in bfloat16 XLA may keep
        # digits in between.
        limit = 2.0**-7 if name == "bfloat16_loop" else 2e-5
        np.testing.assert_allclose(a, e, rtol=limit, atol=limit * float(np.max(np.abs(e))))


@pytest.mark.parametrize(
    "name", ["second_derivative", "jacobian", "forward_mode", "custom_gradient", "recompute", "map"]
)
def test_eagerly(name: str) -> None:
    function = FUNCTIONS[name]
    for a, e in zip(_run(function, "XPU:0"), _run(function, "CPU:0"), strict=True):
        np.testing.assert_allclose(a, e, rtol=2e-5, atol=2e-5 * float(np.max(np.abs(e))))


def _while_op(x: Any) -> Any:
    """A While op that does not ask to be lowered, as in tf.nn.ctc_loss, with a counter in its state."""
    counter, state = tf.TensorSpec([], tf.int32), tf.TensorSpec(X.shape, tf.float32)
    condition = tf.function(lambda i, _: i < 5).get_concrete_function(counter, state)
    body = tf.function(lambda i, a: (i + 1, a * 2 + 1)).get_concrete_function(counter, state)
    return tf.raw_ops.While(input=[tf.constant(0), x], cond=condition, body=body)


@pytest.mark.parametrize("jit", [False, True], ids=["function", "jit"])
def test_a_while_op_with_a_counter(jit: bool) -> None:
    count, result = _run(tf.function(_while_op, jit_compile=jit), "XPU:0")
    assert count == 5
    np.testing.assert_allclose(result, 32 * X + 31, rtol=1e-6)


@pytest.mark.parametrize("device", ["CPU:0", "XPU:0"])
def test_a_while_op_with_a_counter_runs_eagerly(device: str) -> None:
    with tf.device(device):
        count, result = _while_op(tf.constant(X))
    assert int(count) == 5
    np.testing.assert_allclose(result, 32 * X + 31, rtol=1e-6)


def test_a_function_with_strings_in_the_middle() -> None:
    @tf.function
    def describe(x: Any) -> Any:
        total = tf.reduce_sum(x)
        text = tf.strings.join(["total ", tf.strings.as_string(total, precision=1)])
        return text, tf.strings.length(text) + tf.cast(total, tf.int32)

    with tf.device("XPU:0"):
        text, number = describe(tf.constant([1.5, 2.5]))
    assert text.numpy() == b"total 4.0"
    assert number.numpy() == 13


def test_values_travel_between_devices() -> None:
    with tf.device("XPU:0"):
        x = tf.constant(X)
    with tf.device("CPU:0"):
        y = x + 1
        z = tf.constant(X)
    assert x.device.endswith("XPU:0")
    assert y.device.endswith("CPU:0")
    with tf.device("XPU:0"):
        w = y * z
    assert w.device.endswith("XPU:0")
    np.testing.assert_array_equal(w.numpy(), (X + 1) * X)


def test_shapes_that_do_not_match() -> None:
    with tf.device("XPU:0"):
        a, b = tf.ones([2, 3]), tf.ones([4, 5])
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"[Mm]atri|Dimensions must be equal"
        ):
            tf.matmul(a, b)
        with pytest.raises(tf.errors.InvalidArgumentError):
            _ = a + b
        assert tf.reduce_sum(a).numpy() == 6


def test_nan_and_infinities() -> None:
    values = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 5e37], np.float32)
    for function in (
        lambda x: x * 10,
        lambda x: tf.maximum(x, 0.5),
        tf.nn.relu,
        tf.sqrt,
        lambda x: tf.reduce_max(x),
        lambda x: x - x,
        lambda x: 1 / x,
    ):
        results = []
        for device in ("XPU:0", "CPU:0"):
            with tf.device(device):
                results.append(function(tf.constant(values)).numpy())
        np.testing.assert_array_equal(*results)


def test_denormal_numbers_stay() -> None:
    """On the threads of TensorFlow's pools too, where its own CPU takes them for 0."""
    values = np.array([1e38, 3e38, 1e-40, 1e-45], np.float32)
    with tf.device("XPU:0"):
        x = tf.constant(values)
        np.testing.assert_array_equal(x.numpy(), values)
        np.testing.assert_array_equal((x * 0.5).numpy(), values * np.float32(0.5))
        np.testing.assert_array_equal((1 / x[:2]).numpy(), np.float32(1) / values[:2])
        assert tf.reduce_all(x > 0).numpy()


def test_sizes_that_depend_on_values() -> None:
    values, mask = X.reshape(-1), X.reshape(-1) > 0

    def function(x: Any) -> Any:
        kept = tf.boolean_mask(x, x > 0)
        return kept, tf.where(x > 0), tf.size(kept)

    with tf.device("XPU:0"):
        x = tf.constant(values)
        compiled = tf.function(function, jit_compile=True)
        for results in (function(x), tf.function(function)(x), compiled(x)):
            np.testing.assert_array_equal(results[0].numpy(), values[mask])
            np.testing.assert_array_equal(results[1].numpy(), np.argwhere(mask))
            assert int(results[2]) == mask.sum()


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("name", ["is_strictly_increasing", "rot90"])
def test_branches_of_different_sizes(name: str, compiled: bool) -> None:
    def function(x: Any) -> Any:
        if name == "rot90":
            return tf.image.rot90(tf.reshape(x, [1, 4, 3, 1]))
        return tf.math.is_strictly_increasing(x)

    (actual,) = _run(tf.function(function, jit_compile=compiled), "XPU:0")
    np.testing.assert_array_equal(actual, _run(function, "CPU:0")[0])


def test_an_op_with_a_kernel_for_any_device_in_a_compiled_function() -> None:
    """Such a kernel computes; it must not be called while a function is translated."""
    with tf.device("XPU:0"):
        x = tf.constant(X.reshape(-1))
        np.testing.assert_array_equal(tf.unique(x)[0], X.reshape(-1))
        for _ in range(2):
            compiled = tf.function(lambda x: tf.unique(x)[0] + 1, jit_compile=True)
            np.testing.assert_array_equal(compiled(x), X.reshape(-1) + 1)


@pytest.mark.parametrize("name", ["While", "StatelessWhile"])
def test_a_loop_op_with_int32_in_its_state_runs_eagerly(name: str) -> None:
    """Also with other functions, types and devices at the same time: each is a function of its own."""
    for factor, dtype in ((2, tf.float32), (3, tf.float32), (2, tf.float64)):
        state = (tf.TensorSpec((), tf.int32), tf.TensorSpec((2,), dtype))
        more = tf.function(lambda i, _: i < 3).get_concrete_function(*state)
        step = tf.function(lambda i, a, f=factor: (i + 1, a * f)).get_concrete_function(*state)
        for _ in range(2):
            with tf.device("XPU:0"):
                count, x = getattr(tf.raw_ops, name)(
                    input=[tf.constant(0), tf.constant([1, 2], dtype)], cond=more, body=step
                )
            assert (int(count), x.numpy().tolist()) == (3, [factor**3, 2 * factor**3])


def test_a_call_that_is_not_inlined_runs_op_by_op() -> None:
    """As TensorFlow Probability's samplers do: the shapes in the function are computed by the program."""

    def draw(rows: Any) -> Any:
        return tf.random.stateless_normal([rows, 3], (1, 2))

    called = tf.function(draw, experimental_attributes={"_noinline": True})

    @tf.function
    def function(x: Any) -> Any:
        kept = tf.boolean_mask(x, x > 0)
        return called(tf.size(kept)), called(2)

    with tf.device("XPU:0"):
        for n in (3, 5):
            some, two = function(tf.constant([1.0] * n + [0.0]))
            assert (some.shape, two.shape) == ((n, 3), (2, 3))
            np.testing.assert_allclose(two, draw(2), atol=1e-5)
