"""Arrays from one framework to another: ``to_jax``, ``to_numpy``, ``to_torch``, ``to_tensorflow``.

Each takes an array of any of the frameworks (jax.Array, numpy.ndarray, a tensor of PyTorch, PyTorch/XLA or TensorFlow)
and gives one of its own. Memory is shared where that is possible, else copied; ``copy=False`` refuses to copy,
``copy=True`` always does. What shares memory with something else must not be written to; docs/interop.md says what is
shared when, and for how long it lives.

No framework is imported that is not loaded already, but the one that the result belongs to.
"""

from __future__ import annotations

import sys
import warnings
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

#: Bytes of an array below which JAX copies it, whoever asks not to.
JAX_COPIES_BELOW: Final = 16384
#: Addresses that programs can read in place are multiples of this.
ALIGNMENT: Final = 64


class ExchangeError(ValueError):
    """An array cannot be exchanged as asked. The message names its framework, shape and dtype, and what to do."""


@dataclass(frozen=True)
class View:
    """The content of an array in this process's memory, row-major.

    ``array``: a NumPy array on that memory, which keeps it alive. ``copied``: whether it is a copy already,
    that nobody else knows. ``what``: the array it came from, in words.
    """

    array: np.ndarray
    copied: bool
    what: str


def to_numpy(x: Any, *, copy: bool | None = None) -> np.ndarray:
    """``x`` as a NumPy array. What shares memory is read-only, unless ``x`` is a NumPy array or a tensor on the CPU.

    Raises ExchangeError for arrays that were deleted or donated, and for what ``copy=False`` would have to copy;
    TypeError for what is no array.
    """
    view = _view(x, copy)
    return view.array.copy() if copy and not view.copied else view.array


def to_jax(x: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """``x`` as a jax.Array on ``device`` (by default the first xpu device, if ``x`` is not on one already).

    Memory is shared if it is aligned to 64 bytes, ``device`` is an xpu device that uses the process's memory, and
    the array is not small (JAX itself copies what has less than 16 KiB).
    The array is never donated: a program that would overwrite it gets a copy. Raises as :func:`to_numpy`.
    """
    import jax

    if isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer):
        _check_jax(x)
        if device is None or x.devices() == {device}:
            return x.copy() if copy else x
        if copy is False:
            raise _needs_copy(_describe("jax.Array", x.shape, x.dtype), f"it is to go to {device}")
        return jax.device_put(x, device)
    if device is None:
        device = jax.devices("xpu")[0]
    view = _view(x, copy)
    array = view.array
    if copy is False and array.ctypes.data % ALIGNMENT and array.size:
        raise _needs_copy(
            view.what,
            f"its address {array.ctypes.data:#x} is not a multiple of {ALIGNMENT}; allocate it with "
            "tripont.interop.empty",
        )
    if copy is False and device.platform != "xpu":
        raise _needs_copy(view.what, f"{device} is not an xpu device")
    if jax.dtypes.canonicalize_dtype(array.dtype) != array.dtype:
        raise ExchangeError(
            f"{view.what}: JAX has no {array.dtype} arrays unless jax_enable_x64 is set "
            "(jax.config.update('jax_enable_x64', True)), or convert it first"
        )
    if copy and not view.copied:
        array = array.copy()
    result = jax.device_put(array, device)
    if copy is False and array.size and result.unsafe_buffer_pointer() != array.ctypes.data:
        raise _needs_copy(
            view.what,
            f"JAX copies arrays below {JAX_COPIES_BELOW} bytes"
            if array.nbytes < JAX_COPIES_BELOW
            else f"{device} cannot read the process's memory in place",
        )
    return result


def to_torch(x: Any, *, copy: bool | None = None) -> Any:
    """``x`` as a PyTorch tensor on the CPU.

    A tensor that shares the memory of a jax.Array must not be written to (PyTorch has no read-only tensors).
    Raises as :func:`to_numpy`, and ExchangeError for element types that PyTorch lacks.
    """
    import torch

    if isinstance(x, torch.Tensor) and x.device.type == "cpu" and not copy:
        return x
    view = _view(x, copy)
    array = view.array.copy() if copy and not view.copied else view.array
    dtype = getattr(torch, array.dtype.name, None)
    shared = array.dtype.name in _NUMPYS_OWN or "float" in array.dtype.name
    if not isinstance(dtype, torch.dtype) or not shared:
        raise ExchangeError(f"{view.what}: PyTorch has no {array.dtype.name}; convert it first")
    if array.dtype.name not in _NUMPYS_OWN:  # bfloat16, float8_...
        bits = array.view(f"i{array.dtype.itemsize}")
        return _torch_from_numpy(torch, bits).view(dtype)
    return _torch_from_numpy(torch, array)


def to_tensorflow(x: Any, *, device: str | None = None, copy: bool | None = None) -> Any:
    """``x`` as a tf.Tensor on ``device`` (``"/device:XPU:0"`` and the like; by default where TensorFlow puts it).

    TensorFlow copies what it is given: ``copy=False`` works for what is a tf.Tensor there already.
    Raises as :func:`to_numpy`.
    """
    import tensorflow as tf

    if isinstance(x, tf.Tensor) and not copy and (device is None or _same_device(x.device, device)):
        return x
    if copy is False:
        raise _needs_copy(_description(x), "TensorFlow copies what it makes a tensor of")
    array = _view(x, None).array
    with tf.device(device):
        return tf.constant(array)


def empty(shape: int | tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """A NumPy array, content undefined, whose memory every framework here can share: aligned to 64 bytes."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    array: np.ndarray = memory[start : start + size].view(dtype).reshape(shape)
    return array


def pointer(x: Any) -> int:
    """The address of the content of an array that :func:`to_numpy` can share: two arrays with one address share it."""
    return int(_view(x, False).array.ctypes.data)


# ---------------------------------------------------------------------------------------------------------- readers

_NUMPYS_OWN: Final = frozenset(
    ["bool", "complex64", "complex128"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    + [f"float{bits}" for bits in (16, 32, 64)]
)


def _view(x: Any, copy: bool | None) -> View:
    """The content of ``x`` in host memory. ``copy=False``: ExchangeError if only a copy would be there."""
    if isinstance(x, np.ndarray | np.generic):
        return _of_numpy(np.asarray(x), copy)
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(x, getattr(jax, "Array", ())):
        return _of_jax(x, copy)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        return _of_torch(x, copy)
    tf = sys.modules.get("tensorflow")
    if tf is not None and isinstance(x, tf.Tensor | tf.Variable):
        return _of_tensorflow(x, copy)
    raise TypeError(
        f"a {type(x).__module__}.{type(x).__qualname__} is no array of JAX, NumPy, PyTorch or TensorFlow"
    )


def _of_numpy(array: np.ndarray, copy: bool | None) -> View:
    what = _describe("numpy.ndarray", array.shape, array.dtype)
    if array.dtype.hasobject or not array.dtype.isnative or array.dtype.names:
        raise ExchangeError(f"{what}: only arrays of numbers in the machine's byte order")
    return _contiguous(array, copy, what)


def _of_jax(x: Any, copy: bool | None) -> View:
    _check_jax(x)
    what = _describe("jax.Array", x.shape, x.dtype)
    if len(x.sharding.device_set) != 1:
        if copy is False:
            raise _needs_copy(what, f"it lies on {len(x.sharding.device_set)} devices")
        return View(np.asarray(x), True, what)
    array = np.asarray(x)  # waits for it; shares memory on devices that use the host's
    shared = not x.size or array.ctypes.data == x.unsafe_buffer_pointer()
    if copy is False and not shared:
        raise _needs_copy(what, f"its device {x.device} has memory of its own")
    return View(array, not shared, what)


def _check_jax(x: Any) -> None:
    import jax

    what = _describe("jax.Array", x.shape, x.dtype)
    if isinstance(x, jax.core.Tracer):
        raise ExchangeError(
            f"{what} is traced, it has no content yet: exchange arrays outside of jit"
        )
    if x.is_deleted():
        raise ExchangeError(
            f"{what} was deleted or donated to a program: exchange it before, or do not donate it"
        )
    if not isinstance(x.dtype, np.dtype):  # keys of random numbers
        raise ExchangeError(f"{what}: exchange jax.random.key_data(x) instead")


def _of_torch(x: Any, copy: bool | None) -> View:
    import torch

    name = str(x.dtype).removeprefix("torch.")
    what = _describe(f"torch.Tensor on {x.device}", tuple(x.shape), name)
    if x.requires_grad:
        raise ExchangeError(f"{what} requires a gradient: exchange x.detach()")
    if x.is_sparse or x.is_quantized or x.layout != torch.strided:
        raise ExchangeError(f"{what}: only dense tensors")
    if x.is_conj() or x.is_neg():
        raise ExchangeError(f"{what} is a lazy conjugate: exchange x.resolve_conj().resolve_neg()")
    copied = x.device.type != "cpu"
    if copied:
        if copy is False:
            raise _needs_copy(what, "it is not on the CPU")
        x = x.cpu()
    if name in _NUMPYS_OWN:
        return _contiguous(x.numpy(), copy, what, copied)
    import ml_dtypes

    dtype = getattr(ml_dtypes, name, None)
    if dtype is None:
        raise ExchangeError(f"{what}: no other framework has {name}; convert it first")
    bits = getattr(torch, f"int{8 * x.element_size()}")
    return _contiguous(x.view(bits).numpy().view(dtype), copy, what, copied)


def _of_tensorflow(x: Any, copy: bool | None) -> View:
    what = _describe(f"tf.Tensor on {getattr(x, 'device', '?')}", tuple(x.shape), x.dtype.name)
    if not hasattr(x, "numpy"):
        raise ExchangeError(f"{what} is symbolic, it has no content yet: exchange eager tensors")
    on_host = "CPU" in x.device
    if copy is False and not on_host:
        raise _needs_copy(what, "it is not on the CPU")
    return _contiguous(np.asarray(x.numpy()), copy, what, not on_host)


def _contiguous(array: np.ndarray, copy: bool | None, what: str, copied: bool = False) -> View:
    if array.flags.c_contiguous:
        return View(array, copied, what)
    if copy is False:
        raise _needs_copy(what, f"it is not contiguous (strides of {array.strides} bytes)")
    return View(np.ascontiguousarray(array), True, what)


# ---------------------------------------------------------------------------------------------------------- helpers


def _torch_from_numpy(torch: Any, array: np.ndarray) -> Any:
    if not array.size or array.flags.writeable:
        return torch.from_numpy(array)
    with warnings.catch_warnings():
        # PyTorch warns of every read-only array. That it must not be written to is said at to_torch.
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(array)


def _same_device(one: str, other: str) -> bool:
    return one.lower().endswith(other.lower().lstrip("/").removeprefix("device:"))


def _describe(framework: str, shape: Any, dtype: Any) -> str:
    return f"the {framework} of shape {tuple(shape)} and dtype {dtype}"


def _description(x: Any) -> str:
    kind = type(x)
    shape, dtype = getattr(x, "shape", ()), getattr(x, "dtype", "?")
    return _describe(f"{kind.__module__}.{kind.__qualname__}", shape, dtype)


def _needs_copy(what: str, why: str) -> ExchangeError:
    return ExchangeError(f"{what} cannot be shared without a copy: {why} (leave out copy=False)")


__all__ = ["ExchangeError", "empty", "pointer", "to_jax", "to_numpy", "to_tensorflow", "to_torch"]
