"""Arrays of every framework on tripont's device, for the tests of this folder."""

from __future__ import annotations

import os

os.environ["TRIPONT_NUM_DEVICES"] = "2"  # read when TensorFlow is imported, which is after this

from collections.abc import Callable
from typing import Any, Final

import jax
import ml_dtypes
import numpy as np
import tensorflow as tf
import torch
import torch_xla

# Before TensorFlow: both register the same option of LLVM.
import tripont.torch_xla  # noqa: F401  # isort: skip

from tripont import interop

jax.config.update("jax_enable_x64", True)
torch_xla.device()  # PyTorch counts the devices at its first backward pass


def example(dtype: str = "float32", shape: tuple[int, ...] = (128, 130), seed: int = 0) -> Any:
    """A NumPy array with small whole numbers, aligned as every framework wants it."""
    array = interop.empty(shape, getattr(ml_dtypes, dtype, dtype))
    array[...] = (np.arange(array.size).reshape(shape) + seed) % 7
    return array


@jax.jit
def _compute(x: jax.Array) -> jax.Array:
    return x.reshape(x.shape[::-1]).reshape(x.shape)


def on_jax(array: np.ndarray, device: int = 0) -> Any:
    return _compute(jax.device_put(array, jax.devices("xpu")[device]))


def on_tensorflow(array: np.ndarray, device: int = 0) -> Any:
    with tf.device(f"XPU:{device}"):
        return tf.identity(tf.constant(array))


def on_torch_xla(array: np.ndarray, device: int = 0) -> Any:
    return interop.to_torch(array, device="cpu").to(f"xla:{device}")


def on_torch_cpu(array: np.ndarray) -> Any:
    return interop.to_torch(array, device="cpu")


MAKERS: Final[dict[str, Callable[[np.ndarray], Any]]] = {
    "jax": on_jax,
    "tensorflow": on_tensorflow,
    "torch_xla": on_torch_xla,
    "numpy": lambda array: array,
    "torch_cpu": on_torch_cpu,
}

CONVERTERS: Final[dict[str, Callable[..., Any]]] = {
    "jax": interop.to_jax,
    "tensorflow": interop.to_tensorflow,
    "torch_xla": interop.to_torch,
    "numpy": interop.to_numpy,
    "torch_cpu": lambda x, **options: interop.to_torch(x, device="cpu", **options),
}


def is_of(framework: str, x: Any, device: int = 0) -> bool:
    """Whether ``x`` is an array of that framework, on that device of tripont if the framework has them."""
    if framework == "jax":
        return isinstance(x, jax.Array) and x.devices() == {jax.devices("xpu")[device]}
    if framework == "tensorflow":
        return isinstance(x, tf.Tensor) and x.device.endswith(f"XPU:{device}")
    if framework == "torch_xla":
        return isinstance(x, torch.Tensor) and x.device == torch.device("xla", device)
    if framework == "numpy":
        return isinstance(x, np.ndarray)
    return isinstance(x, torch.Tensor) and x.device.type == "cpu"
