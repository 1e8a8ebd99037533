"""Loops, branches and lists of TensorFlow: each with its results and the gradients of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

import numpy as np
import tensorflow as tf

from tests.scan.arguments import changed, emptied, integers, normal, special
from tests.scan.call import Call
from tests.scan.tensorflow_ways import call

Entry = tuple[Callable[..., Any], Sequence[Any]]


def _while(steps: Any, body: Callable[[Any, Any], Any], x: Any, **options: Any) -> Any:
    return tf.while_loop(
        lambda i, _: i < steps, lambda i, y: (i + 1, body(i, y)), [tf.constant(0), x], **options
    )[1]


def _array_of_rows(x: Any, count: int) -> Any:
    array = tf.TensorArray(tf.float32, count, element_shape=[3])
    array = tf.while_loop(
        lambda i, _: i < count,
        lambda i, a: (i + 1, a.write(i, x[i % 5] * tf.cast(i, x.dtype))),
        [tf.constant(0), array],
        maximum_iterations=count,
    )[1]
    return array.stack()


def _fibonacci(x: Any) -> Any:
    array = tf.TensorArray(x.dtype, 8, clear_after_read=False, element_shape=[3])
    array = array.write(0, x[0]).write(1, x[1])
    for i in range(2, 8):
        array = array.write(i, array.read(i - 1) + array.read(i - 2))
    return array.stack()


def _scattered(x: Any) -> Any:
    return (
        tf.TensorArray(x.dtype, 5, element_shape=[3]).scatter([4, 0, 2, 1, 3], x).gather([1, 1, 4])
    )


def _growing(x: Any) -> Any:
    array = tf.TensorArray(x.dtype, 0, dynamic_size=True, element_shape=[3])
    for i in range(5):
        array = array.write(i, x[i])
    return array.concat(), array.size()


def _split(x: Any) -> Any:
    return tf.TensorArray(x.dtype, 3, infer_shape=False).split(x, [1, 0, 4]).read(2)


_X: Final = normal(5, 3)
_ENTRIES: Final[dict[str, Entry]] = {
    "while": (lambda x: _while(4, lambda i, y: y * 1.5 + tf.cast(i, y.dtype), x), [_X]),
    "while never": (lambda x: _while(0, lambda i, y: y + 1, x), [_X]),
    "while by a number": (
        lambda x, n: _while(n, lambda i, y: tf.tanh(y) + 1, x, maximum_iterations=9),
        [_X, np.int32(4) + np.zeros((), np.int32)],
    ),
    "while with a limit": (
        lambda x: _while(100, lambda i, y: y * 0.9, x, maximum_iterations=7),
        [_X],
    ),
    "while on a value": (
        lambda x: tf.while_loop(
            lambda y: tf.reduce_sum(tf.abs(y)) < 100.0,
            lambda y: [y * 2 + 0.1],
            [x],
            maximum_iterations=50,
        )[0],
        [_X],
    ),
    "while in while": (
        lambda x: _while(
            3,
            lambda i, y: _while(i, lambda j, z: z + tf.sin(z), y, maximum_iterations=3),
            x,
            maximum_iterations=3,
        ),
        [_X],
    ),
    "while with a branch": (
        lambda x: _while(
            4,
            lambda i, y: tf.cond(i % 2 == 0, lambda: y * 2, lambda: y - 1),
            x,
            maximum_iterations=4,
        ),
        [_X],
    ),
    "while that grows": (
        lambda x: tf.while_loop(
            lambda i, y: i < 3,
            lambda i, y: (i + 1, tf.concat([y, y[:1]], 0)),
            [tf.constant(0), x],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 3])],
        )[1],
        [_X],
    ),
    "while that swaps": (
        lambda x, y: tf.while_loop(
            lambda i, a, b: i < 5,
            lambda i, a, b: (i + 1, b, a + b),
            [tf.constant(0), x, y],
            maximum_iterations=5,
        )[1:],
        [_X, normal(5, 3, seed=1)],
    ),
    "while of structures": (
        lambda x: tf.while_loop(
            lambda i, s: i < 3,
            lambda i, s: (i + 1, {"a": s["a"] + s["b"][0], "b": (s["b"][0] * 2,)}),
            [tf.constant(0), {"a": x, "b": (x,)}],
        )[1]["a"],
        [_X],
    ),
    "cond": (lambda x, p: tf.cond(p > 0, lambda: x * 2, lambda: tf.exp(x)), [_X, integers(1)[0]]),
    "cond of several": (
        lambda x: tf.cond(tf.reduce_sum(x) > 0, lambda: (x, x[0]), lambda: (-x, x[1])),
        [_X],
    ),
    "cond in cond": (
        lambda x: tf.cond(
            x[0, 0] > 0,
            lambda: tf.cond(x[0, 1] > 0, lambda: x, lambda: -x),
            lambda: tf.sqrt(tf.abs(x)),
        ),
        [_X],
    ),
    "switch_case": (
        lambda x, i: tf.switch_case(
            i, [lambda: x, lambda: x * 2, lambda: tf.sin(x)], default=lambda: -x
        ),
        [_X, np.array(1, np.int32)],
    ),
    "switch_case without default": (
        lambda x, i: tf.switch_case(i, [lambda: x, lambda: x * 2, lambda: tf.sin(x)]),
        [_X, np.array(2, np.int32)],
    ),
    "case": (
        lambda x: tf.case(
            [(x[0, 0] > 9, lambda: x), (x[0, 0] < 9, lambda: x * 3)], default=lambda: -x
        ),
        [_X],
    ),
    "map_fn": (lambda x: tf.map_fn(lambda r: tf.reduce_sum(r) * r, x), [_X]),
    "map_fn of two": (
        lambda x, i: tf.map_fn(
            lambda r: r[0] * tf.cast(r[1], r[0].dtype), (x, i), fn_output_signature=x.dtype
        ),
        [_X, integers(5)],
    ),
    "map_fn to whole numbers": (
        lambda x: tf.map_fn(lambda r: tf.argmax(r), x, fn_output_signature=tf.int64),
        [_X],
    ),
    "map_fn in map_fn": (lambda x: tf.map_fn(lambda r: tf.map_fn(lambda v: v * v + 1, r), x), [_X]),
    "map_fn with a variable": (
        lambda x: tf.map_fn(lambda i: tf.gather(x, i), tf.range(5), fn_output_signature=x.dtype),
        [_X],
    ),
    "scan": (lambda x: tf.scan(lambda a, r: a * 0.5 + r, x), [_X]),
    "scan backwards": (
        lambda x: tf.scan(
            lambda a, r: a + tf.tanh(r), x, initializer=tf.zeros(3, x.dtype), reverse=True
        ),
        [_X],
    ),
    "scan of two": (
        lambda x: tf.scan(lambda a, r: (a[0] + r, a[1] * r), x, initializer=(x[0], x[1])),
        [_X],
    ),
    "foldl": (lambda x: tf.foldl(lambda a, r: a + tf.tanh(r), x), [_X]),
    "foldr": (lambda x: tf.foldr(lambda a, r: a * tf.tanh(r), x), [_X]),
    "vectorized_map": (lambda x: tf.vectorized_map(lambda r: tf.tensordot(r, r, 1) * r, x), [_X]),
    "vectorized_map with a loop": (
        lambda x: tf.vectorized_map(lambda r: _while(3, lambda i, y: y * 2, r), x),
        [_X],
    ),
    "array of rows": (lambda x: _array_of_rows(x, 7), [_X]),
    "array that reads": (_fibonacci, [_X]),
    "array scattered": (_scattered, [_X]),
    "array growing": (_growing, [_X]),
    "array split": (_split, [_X]),
    "array unstacked": (lambda x: tf.TensorArray(x.dtype, 5).unstack(x).read(3) + 1, [_X]),
    "array read out of range": (lambda x: tf.TensorArray(x.dtype, 5).unstack(x).read(7), [_X]),
    "array read before": (lambda x: tf.TensorArray(x.dtype, 5).unstack(x).read(-1), [_X]),
    "array written out of range": (
        lambda x: tf.TensorArray(x.dtype, 2, element_shape=[3]).write(5, x[0]).stack(),
        [_X],
    ),
    "array never written": (
        lambda x: tf.TensorArray(x.dtype, 2, element_shape=[3]).write(1, x[0]).stack(),
        [_X],
    ),
    "array of nothing": (lambda x: tf.TensorArray(x.dtype, 0, element_shape=[3]).stack(), [_X]),
    "list of tensors": (
        lambda x: tf.raw_ops.TensorListStack(
            input_handle=tf.raw_ops.TensorListFromTensor(tensor=x, element_shape=[3]),
            element_shape=[3],
            element_dtype=x.dtype,
        ),
        [_X],
    ),
    "recurrent network": (
        lambda x, w: tf.scan(
            lambda h, r: tf.tanh(tf.linalg.matvec(w, h) + r), x, initializer=tf.zeros(3, x.dtype)
        ),
        [_X, normal(3, 3)],
    ),
    "long loop": (
        lambda x: _while(
            300, lambda i, y: tf.sin(y + tf.cast(i, y.dtype)), x, maximum_iterations=300
        ),
        [_X],
    ),
    "loop over no rows": (lambda x: tf.map_fn(lambda r: r * 2, x[:0]), [_X]),
    "scan over no rows": (lambda x: tf.scan(lambda a, r: a + r, x[:0], initializer=x[0]), [_X]),
    "recomputed": (lambda x: tf.recompute_grad(lambda y: tf.sin(tf.exp(y)))(x), [_X]),
    "custom gradient": (lambda x: tf.custom_gradient(lambda y: (y * 2, lambda g: g * 7))(x), [_X]),
    "stopped": (lambda x: x * tf.stop_gradient(x), [_X]),
    "py_function": (lambda x: tf.py_function(lambda y: y * 2, [x], x.dtype), [_X]),
    "numpy_function": (lambda x: tf.numpy_function(lambda y: y * 2, [x], x.dtype), [_X]),
}


def _with_gradient(function: Callable[..., Any]) -> Callable[..., Any]:
    def gradients(*arguments: Any) -> Any:
        watched = [a for a in arguments if isinstance(a, tf.Tensor) and a.dtype.is_floating]
        with tf.GradientTape() as tape:
            tape.watch(watched)
            flat = [y for y in tf.nest.flatten(function(*arguments)) if y.dtype.is_floating]
            total = tf.add_n([tf.reduce_sum(y * y) for y in flat])
        return [tf.convert_to_tensor(g) for g in tape.gradient(total, watched) if g is not None]

    return gradients


def calls() -> Iterator[Call]:
    for name, (function, arguments) in _ENTRIES.items():
        gradient = _with_gradient(function)
        yield call(name, function, arguments)
        yield call(f"gradient of {name}", gradient, arguments)
        yield call(f"{name}, special", function, special(arguments), ["function"])
        for size in (3, 5):
            yield call(
                f"{name}, no {size}", function, emptied(arguments, size), ["eager", "compiled"]
            )
            yield call(
                f"gradient of {name}, no {size}", gradient, emptied(arguments, size), ["function"]
            )
        for what, other in changed(arguments):
            yield call(f"{name}, {what}", function, other, ["function"])
