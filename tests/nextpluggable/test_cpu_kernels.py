"""Ops that XLA takes for others: on XPU they are the CPU's, whether ops may be moved to the CPU or not."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

import tripont.tensorflow

_WAYS: dict[str, Callable[[Any], Any]] = {"eager": lambda f: f, "function": tf.function}


@pytest.fixture(autouse=True)
def strict_placement() -> Iterator[None]:
    tf.config.set_soft_device_placement(False)
    yield
    tf.config.set_soft_device_placement(True)


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.bfloat16])
@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ([np.nan], "NaN"),
        ([-np.inf], "Inf"),
        ([np.inf, np.nan], "Inf and NaN"),
    ],
)
def test_check_numerics_raises(way: str, dtype: Any, wrong: list[float], message: str) -> None:
    check = _WAYS[way](lambda x: tf.debugging.check_numerics(x * 1, "the loss"))
    with tf.device("XPU:0"):
        x = tf.cast(tf.constant([1.0] * 1000 + wrong), dtype)
        with pytest.raises(tf.errors.InvalidArgumentError, match=f"the loss.*{message}"):
            check(x)


@pytest.mark.parametrize("way", _WAYS)
def test_check_numerics_gives_back_what_it_was_given(way: str) -> None:
    check = _WAYS[way](lambda x: tf.debugging.check_numerics(x, "x") * 2)
    with tf.device("XPU:0"):
        for shape in ((), (3, 4), (0, 2), (100_000,)):
            x = tf.fill(shape, 3.0)
            result = check(x)
            assert "XPU" in result.device
            np.testing.assert_array_equal(result, np.full(shape, 6, np.float32))


def test_check_numerics_checks_gradients() -> None:
    with tf.device("XPU:0"):
        x = tf.constant([0.0, 1.0])
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.debugging.check_numerics(tf.sqrt(x), "y")
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Not a number|NaN|Inf"):
            tf.debugging.check_numerics(tape.gradient(y, x), "dx")


@pytest.mark.parametrize("way", _WAYS)
def test_singular_matrices_are_refused(way: str) -> None:
    with tf.device("XPU:0"):
        singular = tf.constant([[1.0, 2.0], [2.0, 4.0]])
        with pytest.raises(tf.errors.InvalidArgumentError, match="not invertible"):
            _WAYS[way](tf.linalg.inv)(singular)
        with pytest.raises(tf.errors.InvalidArgumentError, match="not invertible"):
            _WAYS[way](tf.linalg.solve)(singular, tf.ones((2, 3)))


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_linear_systems_are_solved(way: str, dtype: str) -> None:
    numbers = np.random.default_rng(0)
    a = (numbers.normal(size=(3, 5, 5)) + 4 * np.eye(5)).astype(dtype)
    b = numbers.normal(size=(3, 5, 2)).astype(dtype)
    bands = np.stack([np.full((3, 5), n) for n in (1.0, 4.0, 2.0)], 1).astype(dtype)
    dense = sum(np.diag(np.full(5 - abs(k), n), k) for k, n in ((1, 1.0), (0, 4.0), (-1, 2.0)))
    with tf.device("XPU:0"):
        results = _WAYS[way](
            lambda a, b, t: (
                tf.linalg.inv(a),
                tf.linalg.solve(a, b),
                tf.linalg.solve(a, b, adjoint=True),
                tf.linalg.tridiagonal_solve(t, b),
            )
        )(tf.constant(a), tf.constant(b), tf.constant(bands))
    assert all("XPU" in r.device for r in results)
    expected = (
        np.linalg.inv(a),
        np.linalg.solve(a, b),
        np.linalg.solve(a.conj().swapaxes(1, 2), b),
        np.linalg.solve(dense.astype(dtype), b),
    )
    # The condition numbers are below 100.
    epsilon = np.finfo(dtype).eps
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, atol=1e3 * epsilon)
    assert not {"MatrixInverse", "TridiagonalSolve"} & set(tripont.tensorflow.ops_on_cpu())


@pytest.mark.parametrize(
    ("way", "dtype"), [("eager", tf.float16), ("eager", tf.bfloat16), ("function", tf.bfloat16)]
)
def test_ranges_of_short_floats(way: str, dtype: tf.DType) -> None:
    """XLA's kernel refuses them, and no function may have one of float16: Keras's RandomErasing makes them eagerly."""
    tf.config.set_soft_device_placement(True)

    def compute(limit: tf.Tensor) -> tf.Tensor:
        return tf.range(tf.zeros([], dtype), limit, tf.constant(0.75, dtype))

    with tf.device("XPU:0"):
        result = _WAYS[way](compute)(tf.constant(9.0, dtype))
    assert result.dtype == dtype
    np.testing.assert_array_equal(tf.cast(result, tf.float32), np.arange(0.0, 9.0, 0.75))


def test_a_device_that_is_not_there(capfd: pytest.CaptureFixture[str]) -> None:
    """It is an error under strict placement; otherwise the op runs on the CPU, which is said and listed."""
    with tf.device("XPU:7"), pytest.raises(tf.errors.InvalidArgumentError, match="XPU:7"):
        tf.constant([1.0]) * 3
    tf.config.set_soft_device_placement(True)
    with tf.device("XPU:7"):
        assert "CPU" in tf.math.softsign(tf.constant([1.0])).device
        assert "CPU" in tf.function(tf.math.softplus)(tf.constant([1.0])).device
    with tf.device("XPU:8"):
        assert "CPU" in tf.function(tf.math.softplus)(tf.constant([1.0])).device
    assert "Softsign" in tripont.tensorflow.ops_on_cpu()
    said = capfd.readouterr().err
    assert [said.count(f"there is no device XPU:{n}") for n in (7, 8)] == [1, 1]


def test_the_memory_of_arrays_is_counted() -> None:
    def current() -> int:
        return int(tf.config.experimental.get_memory_info("XPU:0")["current"])

    gc.collect()  # what earlier tests have left would go meanwhile
    with tf.device("XPU:0"):
        before = current()
        x = tf.random.uniform([1 << 20]) + 1
        x.numpy()
        assert current() - before >= 4 << 20
        info = tf.config.experimental.get_memory_info("XPU:0")
        assert info["peak"] >= info["current"]
        del x
        end = time.monotonic() + 60  # the program's thread lets go of what it read a moment later
        while current() - before >= 4 << 20 and time.monotonic() < end:
            time.sleep(0.01)
        assert current() - before < 4 << 20


def test_the_peak_of_memory_starts_again() -> None:
    def peak() -> int:
        return int(tf.config.experimental.get_memory_info("XPU:0")["peak"])

    with tf.device("XPU:0"):
        x = tf.random.uniform([1 << 22]) + 1
        x.numpy()
        before = peak()
        del x
        for _ in range(6000):  # the program's thread lets go of what it read a moment later
            tf.config.experimental.reset_memory_stats("XPU:0")
            if peak() <= before - (16 << 20):
                break
            time.sleep(0.01)
        assert peak() <= before - (16 << 20)


_DRAWS: dict[str, Callable[[], Any]] = {
    "uniform": lambda: tf.random.uniform((3, 500)),
    "uniform_f64": lambda: tf.random.uniform((7,), -1, 2, tf.float64),
    "uniform_int": lambda: tf.random.uniform((40,), -5, 900, tf.int64),
    "uniform_int32": lambda: tf.random.uniform((40,), 0, 9, tf.int32),
    "normal": lambda: tf.random.normal((300, 700), 1.0, 2.0),
    "normal_bf16": lambda: tf.random.normal((33,), dtype=tf.bfloat16),
    "truncated": lambda: tf.random.truncated_normal((1000,)),
    "with a seed": lambda: tf.random.normal((5,), seed=7),
    "categorical": lambda: tf.random.categorical([[1.0, 2.0, 3.0], [0.0, 0.0, 0.0]], 50),
    "shuffle": lambda: tf.random.shuffle(tf.reshape(tf.range(60), (20, 3))),
    "shuffle_bool": lambda: tf.random.shuffle(tf.range(30.0) > 12),
    "shuffle one": lambda: tf.random.shuffle(tf.ones((1, 4))),
    "shuffle none": lambda: tf.random.shuffle(tf.ones((0, 4))),
    "a computed shape": lambda: tf.random.normal(tf.shape(tf.random.normal((3, 2))) + 1),
}


@pytest.mark.parametrize("way", _WAYS)
@pytest.mark.parametrize("name", _DRAWS)
def test_numbers_drawn_from_a_seed_are_those_of_the_cpu(name: str, way: str) -> None:
    drawn = []
    for device in ("CPU:0", "XPU:0"):
        with tf.device(device):
            tf.random.set_seed(5)
            draw = _WAYS[way](_DRAWS[name])
            numbers = [draw() for _ in range(3)]
        assert all(device in n.device for n in numbers)
        drawn.append([n.numpy() for n in numbers])
    for on_cpu, on_xpu in zip(*drawn, strict=True):
        np.testing.assert_array_equal(on_xpu, on_cpu)


def test_numbers_without_a_seed_are_others_each_time() -> None:
    with tf.Graph().as_default() as graph, tf.device("XPU:0"):
        normal, shuffled = tf.random.normal((100,)), tf.random.shuffle(tf.range(100.0))
    with tf.compat.v1.Session(graph=graph) as one, tf.compat.v1.Session(graph=graph) as other:
        for drawn in (normal, shuffled):
            first, second = one.run(drawn), one.run(drawn)
            assert not np.array_equal(first, second)
            assert not np.array_equal(first, other.run(drawn))
