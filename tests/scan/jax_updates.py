"""``x.at[i]`` of JAX: every method and mode, with negative, repeated and far indices, masks and slices."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, Final

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np

from tests.scan.arguments import normal
from tests.scan.call import Call
from tests.scan.jax_ways import call

_METHODS: Final = ("set", "add", "subtract", "multiply", "divide", "power", "min", "max")
_MODES: Final = (None, "clip", "drop", "fill", "wrap", "promise_in_bounds")
_DTYPES: Final = ("float32", "int32", "int8", "bfloat16", "complex64", "bool")
_ROWS: Final = 7

# By its name, an index into an array of 7 rows and 5 columns, and whether it is within the array.
_INDICES: Final[dict[str, tuple[Any, bool]]] = {
    "number": (3, True),
    "negative number": (-2, True),
    "number out of range": (9, False),
    "negative number out of range": (-9, False),
    "array": (np.array([4, 0, 2]), True),
    "negative": (np.array([-1, -7, 3]), True),
    "repeated": (np.array([2, 2, 5, 2, 0]), True),
    "out of range": (np.array([1, 7, -8, 100, -100, 2**31 - 1, -(2**31)]), False),
    "bytes": (np.array([1, 200, 255], np.uint8), False),
    "signed bytes": (np.array([1, -1, -128, 127], np.int8), False),
    "unsigned": (np.array([1, 2**32 - 1, 2**31], np.uint32), False),
    "none": (np.zeros(0, np.int32), True),
    "table": (np.array([[0, 3], [-1, 3]]), True),
    "pairs": ((np.array([1, 1, 6]), np.array([4, 4, -5])), True),
    "pairs out of range": ((np.array([1, 7, 6]), np.array([4, 0, 5])), False),
    "outer pairs": ((np.array([[1], [3]]), np.array([4, 0, 4])), True),
    "columns": ((slice(None), np.array([4, 4, 0])), True),
    "slice": (slice(1, 6, 2), True),
    "slice backwards": (slice(None, None, -3), True),
    "empty slice": (slice(5, 2), True),
    "slice and number": ((slice(2, 5), -1), True),
    "dots": ((Ellipsis, 2), True),
    "new axis": ((None, np.array([1, 2])), True),
    "mask": (np.arange(_ROWS) % 3 == 0, True),
    "mask of elements": (np.arange(35).reshape(7, 5) % 4 == 1, True),
}


def _array(dtype: str, shape: tuple[int, ...], seed: int) -> np.ndarray:
    """Whole numbers, so that sums and products in any order are equal."""
    numbers = np.random.default_rng(seed).integers(-3, 4, shape)
    return numbers.astype(ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype)


def _shape_at(index: Any) -> tuple[int, ...]:
    """The shape of what the index takes of an array. No device is asked: this process forks."""

    def within(one: Any) -> Any:
        is_number = isinstance(one, int) or (isinstance(one, np.ndarray) and one.dtype.kind in "iu")
        return np.asarray(one) * 0 if is_number else one

    whole = tuple(map(within, index)) if isinstance(index, tuple) else within(index)
    shape: tuple[int, ...] = np.empty((_ROWS, 5))[whole].shape
    return shape


def _update(method: str, index: Any, **options: Any) -> Callable[..., Any]:
    return lambda x, y: getattr(x.at[index], method)(y, **options)


def calls() -> Iterator[Call]:
    for (name, (index, within)), mode, dtype in itertools.product(
        _INDICES.items(), _MODES, _DTYPES
    ):
        if mode == "promise_in_bounds" and not within:  # which is a promise that is not kept
            continue
        x = _array(dtype, (_ROWS, 5), 1)
        of = f"{name}, mode {mode}, {dtype}"
        yield call(f"get of {of}", lambda x, i=index, m=mode: x.at[i].get(mode=m), [x], exact=True)
        shape = _shape_at(index)
        for method in _METHODS:
            if dtype != "float32" and method not in ("set", "add", "min"):
                continue
            y = _array(dtype, shape, 2)
            if method in ("divide", "power"):
                y = np.abs(y) + 1
            update = _update(method, index, mode=mode)
            yield call(f"{method} of {of}", update, [x, y])
    yield from _special()
    yield from _promised()
    yield from _gradients()
    yield from _of_other_shapes()


def _special() -> Iterator[Call]:
    """Values that are infinite or NaN, fill values, and functions that are applied."""
    x = normal(7, 5)
    x[2], x[3, 1] = np.nan, np.inf
    index = np.array([2, 2, 9, -1, 3])
    for value in (0.0, -1.5, np.nan, np.inf):
        yield call(
            f"get filled with {value}",
            lambda x, v=value: x.at[index].get(mode="fill", fill_value=v),
            [x],
        )
    whole = _array("int32", (7, 5), 1)
    yield call("get filled, int32", lambda x: x.at[index].get(mode="fill"), [whole], exact=True)
    yield call(
        "get filled, int8",
        lambda x: x.at[index].get(mode="fill"),
        [whole.astype(np.int8)],
        exact=True,
    )
    yield call(
        "get filled, uint8",
        lambda x: x.at[index].get(mode="fill"),
        [whole.astype(np.uint8)],
        exact=True,
    )
    for method in ("set", "add", "multiply", "min", "max"):
        for value in (np.nan, np.inf, -0.0, 2.5):
            yield call(
                f"{method} of {value}", lambda x, m=method, v=value: getattr(x.at[index], m)(v), [x]
            )
    for name, function in {"sin": jnp.sin, "square": jnp.square, "negative": jnp.negative}.items():
        yield call(
            f"apply of {name}", lambda x, f=function: x.at[np.array([1, 1, 9, -1])].apply(f), [x]
        )


def _promised() -> Iterator[Call]:
    """Indices that are said to be sorted, or all different."""
    x = normal(7, 5)
    index = np.array([0, 2, 5])
    for method, is_sorted, is_unique in itertools.product(
        ("set", "add", "max"), (False, True), (False, True)
    ):
        update = _update(method, index, indices_are_sorted=is_sorted, unique_indices=is_unique)
        yield call(f"{method} sorted {is_sorted} unique {is_unique}", update, [x, normal(3, 5)])
    many = np.random.default_rng(0).permutation(5000)
    for method in ("set", "add", "multiply"):
        update = _update(method, many, unique_indices=True)
        yield call(f"{method} of 5000 rows", update, [normal(5000, 3), normal(5000, 3, seed=1)])
        update = _update(method, many, unique_indices=True, mode="drop")
        yield call(
            f"{method} of 5000 rows, some left out",
            update,
            [normal(3000, 3), normal(5000, 3, seed=1)],
        )


def _gradients() -> Iterator[Call]:
    x = normal(7, 5)
    for (name, (index, within)), mode in itertools.product(_INDICES.items(), _MODES):
        if mode == "promise_in_bounds" and not within:
            continue
        y = normal(*_shape_at(index), seed=3)
        for method in ("set", "add", "multiply", "min", "max"):
            if method == "set" and "repeated" in name:
                continue
            update = _update(method, index, mode=mode)
            gradient = jax.grad(lambda x, y, f=update: jnp.sum(jnp.sin(f(x, y))), (0, 1))
            yield call(f"gradient of {method} of {name}, mode {mode}", gradient, [x, y])


def _of_other_shapes() -> Iterator[Call]:
    """Arrays without elements, of one dimension, and of four."""
    for shape, mode in itertools.product([(0,), (0, 3), (3, 0), (1,), (2, 3, 4, 5)], _MODES[1:5]):
        for indices in ([], [0], [-1, 5, 0]):
            index = np.array(indices, np.int32)
            x = normal(*shape)
            y = normal(len(index), *shape[1:])
            what = f"{list(shape)} at {indices}, mode {mode}"
            yield call(f"get of {what}", lambda x, i=index, m=mode: x.at[i].get(mode=m), [x])
            yield call(f"add of {what}", _update("add", index, mode=mode), [x, y])
            yield call(f"max of {what}", _update("max", index, mode=mode), [x, y])
