"""Functions of TensorFlow, as users write them, on XPU: eagerly, as functions, and compiled, beside TensorFlow's CPU.

Numbers are whole and small enough that no sum of them is rounded, so results are equal bit for bit.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from random import Random
from typing import Any, Final

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow as tf

_SHAPES: Final = [(3, 5), (7,), (2, 3, 4), (1, 9), (), (8, 16), (6, 6)]
_DTYPES: Final = ["float32", "int32", "int64", "float64", "int8", "uint8", "bool"]
_LIMIT: Final = 16
_MOST: Final = 600

Tensor = Any
Step = Callable[[Tensor, list[Tensor]], Tensor]


def _number(x: Tensor) -> Tensor:
    return tf.cast(x, tf.int32) if x.dtype == tf.bool else x


def _small(x: Tensor) -> Tensor:
    """Whole numbers within bounds, whatever they were."""
    if x.dtype == tf.bool:
        return x
    if x.dtype.is_floating:
        return tf.clip_by_value(tf.math.floor(x), -_LIMIT, _LIMIT)
    return tf.math.floormod(x, tf.cast(_LIMIT, x.dtype))


def _like(x: Tensor, others: list[Tensor]) -> Tensor:
    same = [y for y in others if y.shape == x.shape]
    return tf.cast(same[-1], x.dtype) if same else x


def _steps(r: Random) -> list[Step]:
    """One of each kind, with what chance chooses in it chosen already, so that all ways do the same."""
    which, axis, amount = r.random(), r.random(), r.randint(1, 3)
    binary = r.choice([tf.add, tf.subtract, tf.maximum, tf.minimum, tf.multiply])
    compare = r.choice([tf.less, tf.equal, tf.greater_equal])
    reduce = r.choice([tf.reduce_sum, tf.reduce_max, tf.reduce_min])
    scan = r.choice([True, False])
    dtype = r.choice(_DTYPES)

    def at(x: Tensor) -> int:
        return int(axis * x.shape.rank)

    def reduced(x: Tensor, _: list[Tensor]) -> Tensor:
        x = _number(x)
        return reduce(x, axis=at(x), keepdims=scan) if x.shape.rank else x

    def moved(x: Tensor, _: list[Tensor]) -> Tensor:
        if not x.shape.rank:
            return x
        return tf.roll(x, amount, at(x)) if which < 0.5 else tf.reverse(x, [at(x)])

    def cut(x: Tensor, _: list[Tensor]) -> Tensor:
        if not x.shape.rank:
            return x
        place = [slice(None)] * x.shape.rank
        place[at(x)] = slice(amount if which < 0.5 else None, None, -1 if which > 0.8 else amount)
        return x[tuple(place)]

    def gathered(x: Tensor, _: list[Tensor]) -> Tensor:
        size = x.shape[at(x)] if x.shape.rank else 0
        if not size:
            return x
        return tf.gather(x, [(amount * i) % size for i in range(amount + 1)], axis=at(x))

    def scattered(x: Tensor, _: list[Tensor]) -> Tensor:
        if not x.shape.rank or x.shape[0] < 2 or x.dtype == tf.bool:
            return x
        places = [[(amount * i) % x.shape[0]] for i in range(2)]
        return tf.tensor_scatter_nd_add(x, places, x[:2])

    def looped(x: Tensor, _: list[Tensor]) -> Tensor:
        def body(i: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return i + 1, _small(tf.reverse(y, [0]) + tf.cast(i, y.dtype) if y.shape.rank else y)

        x = _number(x)
        return tf.while_loop(lambda i, y: i < amount, body, (tf.constant(0), _small(x)))[1]

    def chosen(x: Tensor, others: list[Tensor]) -> Tensor:
        x = _number(x)
        return tf.cond(tf.reduce_sum(_small(x)) > 0, lambda: x + x, lambda: _like(x, others))

    def sorted_(x: Tensor, _: list[Tensor]) -> Tensor:
        x = _number(x)
        if not x.shape.rank or x.dtype in (tf.int8, tf.uint8):
            return x
        return tf.sort(x, axis=at(x), direction="DESCENDING" if scan else "ASCENDING")

    def product(x: Tensor, others: list[Tensor]) -> Tensor:
        if x.shape.rank != 2 or x.dtype in (tf.bool, tf.int8, tf.uint8):
            return x
        return tf.matmul(x, _like(x, others), transpose_b=True)

    def running(x: Tensor, _: list[Tensor]) -> Tensor:
        x = _number(x)
        if not x.shape.rank or x.dtype in (tf.int8, tf.uint8):
            return x
        return tf.cumsum(x, axis=at(x), exclusive=scan, reverse=which < 0.5)

    def joined(x: Tensor, others: list[Tensor]) -> Tensor:
        y = _like(x, others)
        return tf.concat([x, y], at(x)) if x.shape.rank else tf.stack([x, y])

    return [
        lambda x, o: binary(_number(x), _like(_number(x), o)),
        lambda x, o: tf.where(compare(_number(x), _like(_number(x), o)), _number(x), _number(x) + 1),
        lambda x, _: tf.cast(x, dtype),
        lambda x, _: tf.transpose(x),
        lambda x, _: tf.one_hot(tf.math.floormod(tf.cast(x, tf.int32), 4), 4)
        if x.shape.rank < 3
        else x,
        lambda x, _: tf.pad(x, [[amount - 1, 1]] * x.shape.rank) if x.shape.rank else x,
        reduced, moved, cut, gathered, scattered, looped, chosen, sorted_, product, running, joined,
    ]  # fmt: skip


def _function(r: Random) -> Callable[..., list[Tensor]]:
    steps = [r.choice(_steps(r)) for _ in range(r.randint(2, 8))]

    def function(*arguments: Tensor) -> list[Tensor]:
        values = list(arguments)
        for step in steps:
            made = _small(step(values[-1], values[:-1]))
            if made.shape.num_elements() is None or made.shape.num_elements() <= _MOST:
                values.append(made)
        return values[-2:]

    return function


def findings(seed: int) -> list[str]:
    """How results differ from the CPU's: none if all is well. Raises what the CPU raises."""
    r = Random(seed)
    shape = r.choice(_SHAPES)
    rng = np.random.default_rng(seed)
    arguments = [
        rng.integers(0, 2 if d == "bool" else _LIMIT, shape).astype(d)
        for d in (r.choice(_DTYPES) for _ in range(2))
    ]
    function = _function(r)
    with tf.device("CPU:0"):
        expected = [y.numpy() for y in function(*map(tf.constant, arguments))]
    found = []
    for way, wrapped in (
        ("eager", function),
        ("function", tf.function(function, autograph=False)),
        ("compiled", tf.function(function, autograph=False, jit_compile=True)),
    ):
        with tf.device("XPU:0"):
            results = [y.numpy() for y in wrapped(*map(tf.constant, arguments))]
        found += [
            f"{way}: result {n}: {a!r} instead of {e!r}"
            for n, (a, e) in enumerate(zip(results, expected, strict=True))
            if a.dtype != e.dtype or a.shape != e.shape or not np.array_equal(a, e)
        ]
    return found
