"""Random numbers whose algorithm the device chooses, generators, and the older ops without an algorithm."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import ml_dtypes
import numpy as np
import pytest
import tensorflow as tf

_SEED: Final = np.array([3, 7], np.int32)
_SHAPE: Final = [40, 50]
op: Final = tf.raw_ops
Function = Callable[[Any], Any]

# Each with the mean and the standard deviation of what it draws.
CHOSEN: Final[dict[str, tuple[Function, float, float]]] = {
    "uniform": (lambda s: tf.random.stateless_uniform(_SHAPE, s), 0.5, 12**-0.5),
    "uniform_half": (
        lambda s: tf.random.stateless_uniform(_SHAPE, s, dtype=tf.float16),
        0.5,
        12**-0.5,
    ),
    "uniform_int": (
        lambda s: tf.random.stateless_uniform(_SHAPE, s, 0, 101, tf.int32),
        50,
        101 * 12**-0.5,
    ),
    "normal": (lambda s: tf.random.stateless_normal(_SHAPE, s), 0, 1),
    "normal_double": (lambda s: tf.random.stateless_normal(_SHAPE, s, dtype=tf.float64), 0, 1),
    "truncated": (lambda s: tf.random.stateless_truncated_normal(_SHAPE, s), 0, 0.88),
    "V1_uniform": (lambda s: op.StatelessRandomUniform(shape=_SHAPE, seed=s), 0.5, 12**-0.5),
    "V1_uniform_bfloat16": (
        lambda s: op.StatelessRandomUniform(shape=_SHAPE, seed=s, dtype=tf.bfloat16),
        0.5,
        12**-0.5,
    ),
    "V1_normal": (lambda s: op.StatelessRandomNormal(shape=_SHAPE, seed=s), 0, 1),
    "V1_truncated": (lambda s: op.StatelessTruncatedNormal(shape=_SHAPE, seed=s), 0, 0.88),
    "V1_int": (
        lambda s: op.StatelessRandomUniformInt(
            shape=_SHAPE, seed=s, minval=tf.constant(0, tf.int64), maxval=tf.constant(101, tf.int64)
        ),
        50,
        101 * 12**-0.5,
    ),
    "V1_full_int": (
        lambda s: op.StatelessRandomUniformFullInt(shape=_SHAPE, seed=s, dtype=tf.int32),
        0,
        2**32 * 12**-0.5,
    ),
}


def _draw(function: Function, device: str = "XPU:0") -> np.ndarray:
    with tf.device(device):
        return np.asarray(function(tf.constant(_SEED)))


# The last digits of the logarithm, sine and cosine are those of the library that computes them,
# and in the narrow types a number may round to the next one.
_ROUNDED: Final = ("normal", "truncated")


def _compare(drawn: np.ndarray, wanted: np.ndarray, name: str) -> None:
    if not any(part in name for part in _ROUNDED):
        np.testing.assert_array_equal(drawn, wanted)
        return
    assert (drawn.dtype, drawn.shape) == (wanted.dtype, wanted.shape)
    epsilon = float(ml_dtypes.finfo(drawn.dtype).eps)
    # sin(v) near a multiple of pi has the absolute error of v, which is up to 2 pi, times the length, up to 6.
    np.testing.assert_allclose(
        drawn.astype(np.float64), wanted.astype(np.float64), rtol=8 * epsilon, atol=16 * epsilon
    )


@pytest.mark.parametrize("name", CHOSEN)
def test_one_seed_gives_the_cpus_numbers_however_it_is_run(name: str) -> None:
    function, mean, deviation = CHOSEN[name]
    wanted = _draw(function, "CPU:0")
    fixed = lambda _: function(tf.constant(_SEED))
    for way in (
        function,
        tf.function(function, autograph=False),
        tf.function(fixed, autograph=False),
        tf.function(function, autograph=False, jit_compile=True),
        tf.function(fixed, autograph=False, jit_compile=True),
    ):
        _compare(_draw(way), wanted, name)
    numbers = wanted.astype(np.float64)
    # Five standard errors.
    assert abs(numbers.mean() - mean) < 5 * deviation / numbers.size**0.5
    assert abs(numbers.std() - deviation) < 0.1 * deviation


@pytest.mark.parametrize("seed", [(0, 0), (-1, -2), (2**31 - 1, -(2**31)), (3, 7)])
@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (3, 5), (4097,)])
def test_every_seed_and_shape_gives_the_cpus_numbers(
    seed: tuple[int, int], shape: tuple[int, ...]
) -> None:
    def draw(s: Any) -> Any:
        return (
            tf.random.stateless_uniform(shape, s),
            tf.random.stateless_uniform(shape, s, dtype=tf.float64),
            tf.random.stateless_uniform(shape, s, -5, 2**40, tf.int64),
            tf.random.stateless_normal(shape, s),
            tf.random.stateless_normal(shape, s, dtype=tf.float64),
            tf.random.stateless_truncated_normal(shape, s),
            tf.random.stateless_truncated_normal(shape, s, dtype=tf.float64),
        )

    names = ("", "", "", "normal", "normal", "truncated", "truncated")
    with tf.device("CPU:0"):
        wanted = draw(tf.constant(seed))
    with tf.device("XPU:0"):
        for way in (draw, tf.function(draw, jit_compile=True)):
            for name, a, b in zip(names, way(tf.constant(seed)), wanted, strict=True):
                _compare(a.numpy(), b.numpy(), name)


# Rows few and short enough for one of the CPU's threads: on several its draws depend on how many there are.
_LOGITS: Final = {
    "one": np.log(np.array([[0.2, 0.3, 0.5]])),
    "rows": np.random.default_rng(1).normal(0, 3, (3, 7)),
    "a_class": np.zeros((2, 1)),
    "infinities": np.array([[-np.inf, 1, np.inf, 2], [0, -np.inf, np.nan, -np.inf]]),
    "far": np.array([[-9e3, 6e4, 6e4, -6e4]]),
    "no_rows": np.zeros((0, 3)),
}


@pytest.mark.parametrize("samples", [0, 1, 9])
@pytest.mark.parametrize("dtype", [tf.float32, tf.float64, tf.float16, tf.bfloat16])
@pytest.mark.parametrize("name", _LOGITS)
def test_classes_are_the_cpus_however_they_are_drawn(name: str, dtype: Any, samples: int) -> None:
    logits = tf.cast(_LOGITS[name], dtype)
    for index in (tf.int32, tf.int64):

        def draw(s: Any, index: Any = index) -> Any:
            return tf.random.stateless_categorical(logits, samples, s, dtype=index)

        wanted = _draw(draw, "CPU:0")
        fixed = lambda _, draw=draw: draw(tf.constant(_SEED))
        ways = [draw, tf.function(draw, autograph=False), tf.function(fixed, autograph=False)]
        if dtype != tf.float16:  # TensorFlow compiles these draws for all floats but those.
            ways.append(tf.function(draw, autograph=False, jit_compile=True))
        for way in ways:
            _compare(_draw(way), wanted, "")


def test_a_draw_without_classes_is_refused() -> None:
    draw = lambda s: tf.random.stateless_categorical(tf.zeros([2, 0]), 3, s)
    for way in (draw, tf.function(draw, jit_compile=True)):
        with pytest.raises(tf.errors.InvalidArgumentError, match="num_classes should be positive"):
            _draw(way)


def test_normal_numbers_between_bounds_are_the_cpus_in_functions() -> None:
    def draw(s: Any) -> Any:
        return tf.random.stateless_parameterized_truncated_normal([40], s, 0.0, 1.0, -1.0, 2.0)

    wanted = _draw(draw, "CPU:0")
    for way in (draw, tf.function(draw, autograph=False)):
        np.testing.assert_array_equal(_draw(way), wanted)


def test_a_seed_of_64_bits_counts_whole() -> None:
    seed = tf.constant([2**40 + 3, -(2**50)], tf.int64)
    for device in ("CPU:0", "XPU:0"):
        with tf.device(device):
            drawn = tf.random.stateless_uniform([9], seed, None, None, tf.uint32).numpy()
        wanted = drawn if device == "CPU:0" else wanted  # noqa: F821 - from the CPU's turn
        np.testing.assert_array_equal(drawn, wanted)


def test_an_empty_range_is_refused() -> None:
    with (
        tf.device("XPU:0"),
        pytest.raises(tf.errors.InvalidArgumentError, match="Need minval < maxval"),
    ):
        tf.function(
            lambda: tf.random.stateless_uniform([3], (1, 2), 5, 5, tf.int32), jit_compile=True
        )()


def test_a_keras_model_starts_from_one_seed_everywhere() -> None:
    import keras

    weights = []
    for device in ("CPU:0", "XPU:0"):
        keras.utils.set_random_seed(7)
        with tf.device(device):
            model = keras.Sequential(
                [
                    keras.layers.Input((6,)),
                    keras.layers.Dense(5),
                    keras.layers.Dense(4, kernel_initializer="he_normal"),
                    keras.layers.Dense(3, kernel_initializer="random_normal"),
                ]
            )
            weights.append(model.get_weights())
    for on_cpu, on_xpu in zip(*weights, strict=True):
        _compare(on_xpu, on_cpu, "normal")


def _uniform(shape: Any, algorithm: str, dtype: Any) -> Any:
    return tf.random.stateless_uniform(shape, _SEED, dtype=dtype, alg=algorithm)


def _normal(shape: Any, algorithm: str, dtype: Any) -> Any:
    return tf.random.stateless_normal(shape, _SEED, dtype=dtype, alg=algorithm)


def _of_computed_shape(draw: Function, rest: list[int], *how: Any) -> Function:
    """Draws of n rows, or with -1 in ``rest`` n numbers in each, for as many as are positive."""

    def function(x: Any) -> Any:
        n = tf.size(tf.boolean_mask(x, x > 0))
        return draw([2, n] if rest == [-1] else [n, *rest], *how)

    return tf.function(function, autograph=False, jit_compile=True)


@pytest.mark.parametrize(
    ("draw", "rest", "algorithm", "dtype"),
    [
        (_uniform, [], "auto_select", tf.float32),
        (_uniform, [3], "philox", tf.float32),
        (_uniform, [4], "auto_select", tf.bfloat16),
        (_uniform, [3], "threefry", tf.float64),
        (_uniform, [], "threefry", tf.float16),
        (_normal, [], "auto_select", tf.float32),
        (_normal, [], "philox", tf.float16),
        (_normal, [4], "auto_select", tf.float32),
        (_normal, [3], "philox", tf.float64),
        (_normal, [], "threefry", tf.float64),
    ],
)
def test_a_computed_shape_draws_what_the_shape_draws(
    draw: Function, rest: list[int], algorithm: str, dtype: Any
) -> None:
    compiled = _of_computed_shape(draw, rest, algorithm, dtype)
    with tf.device("XPU:0"):
        for n in (5, 1, 4, 0, 7):
            wanted = draw([n, *rest], algorithm, dtype)
            drawn = compiled(tf.constant([1.0] * n + [0.0] * (7 - n)))
            np.testing.assert_array_equal(drawn.numpy(), wanted.numpy())


@pytest.mark.parametrize(
    ("draw", "rest", "algorithm", "dtype"),
    [
        (_uniform, [-1], "auto_select", tf.float32),
        (_uniform, [3], "threefry", tf.float32),
        (_normal, [-1], "auto_select", tf.float32),
        (_normal, [], "threefry", tf.float32),
        (_normal, [3], "threefry", tf.float64),
    ],
)
def test_a_computed_shape_that_would_draw_others_is_refused(
    draw: Function, rest: list[int], algorithm: str, dtype: Any
) -> None:
    compiled = _of_computed_shape(draw, rest, algorithm, dtype)
    with (
        tf.device("XPU:0"),
        pytest.raises(tf.errors.UnimplementedError, match=r"tripont: StatelessRandom.* depends on"),
    ):
        compiled(tf.ones([7]))


def _numbers(generator: tf.random.Generator) -> list[np.ndarray]:
    """Integers and states, which do not depend on how a device makes floats."""
    drawn = [generator.uniform_full_int([5]), generator.uniform([5], 0, 9, tf.int32)]
    drawn += [part.uniform_full_int([2]) for part in generator.split(2)]
    drawn.append(generator.make_seeds(2))
    generator.skip(5)
    drawn += [generator.key, generator.state.value()]
    generator.reset_from_seed(3)
    return [np.asarray(d) for d in [*drawn, generator.uniform_full_int([3])]]


def test_a_generator_draws_the_bits_that_the_cpu_draws() -> None:
    drawn = {}
    for device in ("CPU:0", "XPU:0"):
        with tf.device(device):
            drawn[device] = _numbers(tf.random.Generator.from_seed(42, alg="philox"))
    for actual, expected in zip(drawn["XPU:0"], drawn["CPU:0"], strict=True):
        np.testing.assert_array_equal(actual, expected)


@pytest.mark.parametrize("algorithm", ["philox", "threefry"])
def test_a_generator_in_a_compiled_function_goes_on(algorithm: str) -> None:
    with tf.device("XPU:0"):
        one = tf.random.Generator.from_seed(1, alg=algorithm)
        two = tf.random.Generator.from_seed(1, alg=algorithm)
        compiled = tf.function(lambda: two.uniform_full_int([3]), jit_compile=True)
        for _ in range(3):
            np.testing.assert_array_equal(compiled().numpy(), one.uniform_full_int([3]).numpy())
        np.testing.assert_array_equal(one.state.numpy(), two.state.numpy())


@pytest.mark.parametrize("algorithm", ["philox", "threefry"])
def test_a_generator_draws_from_its_distributions(algorithm: str) -> None:
    with tf.device("XPU:0"):
        generator = tf.random.Generator.from_seed(5, alg=algorithm)
        for drawn, mean, deviation in (
            (generator.uniform([2000]), 0.5, 12**-0.5),
            (generator.normal([2000], 3.0, 2.0), 3, 2),
            (generator.normal([2000], dtype=tf.bfloat16), 0, 1),
            (generator.truncated_normal([2000]), 0, 0.88),
        ):
            numbers = drawn.numpy().astype(np.float64)
            assert abs(numbers.mean() - mean) < 5 * deviation / 2000**0.5
            assert abs(numbers.std() - deviation) < 0.1 * deviation
