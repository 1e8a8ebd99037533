"""How TensorFlow computes a call: on its CPU, and on XPU eagerly, as a function and compiled."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

from tests import tensorflow_without_plugins
from tests.scan.call import Call, outcome_of
from tests.scan.judge import Outcome

# isort: split
import tensorflow as tf

Function = Callable[..., Any]
WAYS: Final = ("eager", "function", "compiled")


@dataclass(frozen=True)
class Stored:
    """An argument that is a variable, which begins with this array."""

    array: np.ndarray


@functools.cache
def _load_plugins() -> None:
    tensorflow_without_plugins.load_plugins()


def arrays_of(results: Any) -> list[np.ndarray]:
    """The arrays of what a function of TensorFlow gives; strings and None are left out."""
    flat = tf.nest.flatten(results, expand_composites=True)
    arrays = [y.numpy() if hasattr(y, "numpy") else np.asarray(y) for y in flat if y is not None]
    return [np.asarray(y) for y in arrays if np.asarray(y).dtype != object]


def _placed(argument: Any) -> Any:
    if isinstance(argument, Stored):
        return tf.Variable(argument.array)
    return tf.constant(argument) if isinstance(argument, np.ndarray) else argument


def compute(function: Function, arguments: Sequence[Any], device: str, way: str) -> Outcome:
    """What ``function`` gives of the arguments on a device. Tensors are arguments of the function that is traced."""
    _load_plugins()

    def computed() -> list[np.ndarray]:
        with tf.device(device):
            given = [_placed(a) for a in arguments]
            if way == "eager":
                return arrays_of(function(*given))
            constants = [None if isinstance(a, tf.Tensor) else a for a in given]
            tensors = [a for a in given if isinstance(a, tf.Tensor)]

            def of_tensors(*some: Any) -> Any:
                left = iter(some)
                return function(*[next(left) if c is None else c for c in constants])

            traced = tf.function(of_tensors, autograph=False, jit_compile=way == "compiled")
            return arrays_of(traced(*tensors))

    return outcome_of(computed)


def in_float64(arguments: Sequence[Any]) -> list[Any]:
    """The arguments with arrays of floats and complex numbers in double precision."""
    wide = {"f": np.float64, "c": np.complex128, "V": np.float64}
    return [
        a.astype(wide[a.dtype.kind]) if isinstance(a, np.ndarray) and a.dtype.kind in wide else a
        for a in arguments
    ]


def call(
    name: str,
    function: Function,
    arguments: Sequence[Any],
    ways: Sequence[str] = WAYS,
    cpu: str = "eager",
) -> Call:
    """A call of ``function``: arrays of NumPy become tensors of the device, other arguments stay as they are.

    ``cpu``: the way in which the CPU computes it.
    """
    on_cpu = functools.partial(compute, function, arguments, "CPU:0")
    # Without elements a loop of a function may have another shape than the same one eagerly.
    peers = {w: [functools.partial(on_cpu, p) for p in {"compiled", w} - {cpu}] for w in ways}
    return Call(
        name,
        functools.partial(on_cpu, cpu),
        {w: functools.partial(compute, function, arguments, "XPU:0", w) for w in ways},
        lambda: compute(function, in_float64(arguments), "CPU:0", cpu),
        peers,
    )
