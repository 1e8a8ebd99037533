"""Arrays from one framework to another: ``to_jax``, ``to_numpy``, ``to_torch``, ``to_tensorflow``.

Each takes an array of any of the frameworks (jax.Array, numpy.ndarray, a tensor of PyTorch, PyTorch/XLA or TensorFlow,
or anything with ``__dlpack__`` in host memory) and gives one of its own. All three frameworks hold buffers of the same
core, so that an exchange on a tripont device is a new handle on the same buffer. Memory is shared where that is
possible, else copied; ``copy=False`` refuses to copy, ``copy=True`` always does. What shares memory with something
else must not be written to; docs/interop.md says what is shared when, and for how long it lives.

No framework is imported that is not loaded already, but the one that the result belongs to.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import tripont.core._tripont as _tripont
from tripont.core.compiler import wings

from . import source as _source
from .errors import ExchangeError, in_words, needs_copy
from .source import Source, Statistics, empty, on_device, on_host

wings.check_built("interop")


def to_numpy(x: Any, *, copy: bool | None = None) -> np.ndarray:
    """``x`` as a NumPy array. What shares memory is read-only, unless ``x`` is a NumPy array or a tensor on the CPU.

    Waits until the content is there. Raises ExchangeError for arrays that were deleted or donated, and for what
    ``copy=False`` would have to copy; TypeError for a value that is not an array.
    """
    return on_host(_read(x, copy), copy)


def to_jax(x: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """``x`` as a jax.Array on ``device``.

    By default that is the xpu device that ``x`` is on, else the first one; a jax.Array stays where it is. Memory is
    shared if ``x`` is on that device, or in host memory aligned to 64 bytes. Does not wait for the content.
    What shares memory is never overwritten: a program that would (donation) gets a copy. Raises as :func:`to_numpy`.
    """
    jax_arrays = _jax_arrays()
    read = _reader(x)
    if read is jax_arrays.read:
        jax_arrays.check(x)
        if device is None or x.devices() == {device}:
            return _copied_by(x.copy, x.nbytes) if copy else x
        if copy is False:
            raise needs_copy(jax_arrays.describe(x), f"it is to go to {device}")
        return _copied_by(lambda: jax_arrays.put(x, device), x.nbytes)
    found = read(x, copy)
    jax_arrays.check_type(found)
    if device is None:
        device = jax_arrays.default_device(found)
    if device.platform != jax_arrays.PLATFORM:
        if copy is False:
            raise needs_copy(found, f"{device} is not an xpu device")
        array = on_host(found, copy)
        return _copied_by(lambda: jax_arrays.put(array, device), array.nbytes)
    buffer = on_device(found, jax_arrays.core_device(device), copy)
    return jax_arrays.make(buffer, device, found)


def to_torch(x: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """``x`` as a PyTorch tensor on ``device`` ("cpu", "xla", "xla:1", or a torch.device).

    By default that is PyTorch/XLA's device where tripont runs it in this process (``import tripont.torch_xla``): the
    one that ``x`` is on, else the first. Otherwise it is the CPU. On the CPU, a tensor that shares the memory of a
    device array must not be written to (PyTorch has no read-only tensors). Raises as :func:`to_numpy`, and
    ExchangeError for element types that PyTorch lacks.
    """
    torch_tensors = _torch_tensors()
    read = _reader(x)
    if device is not None:
        device = torch_tensors.device_named(device)
    on_tripont = torch_tensors.on_tripont()
    if read is torch_tensors.read and not copy and torch_tensors.is_there(x, device, on_tripont):
        return x
    if device is not None and device.type not in ("cpu", "xla"):
        raise ExchangeError(
            f"{_in_words(x)} cannot go to PyTorch's device {device}: only to cpu and xla"
        )
    if device is not None and device.type == "xla" and not on_tripont:
        raise ExchangeError(
            f"{_in_words(x)} cannot go to {device}: PyTorch/XLA does not run on tripont in this process; "
            "`import tripont.torch_xla` first"
        )
    found = read(x, copy)
    if device is None and on_tripont:
        device = torch_tensors.device_of(
            0 if found.buffer is None else found.buffer.device.id, found
        )
    if device is None or device.type == "cpu":
        return torch_tensors.on_cpu(found, copy)
    buffer = on_device(found, torch_tensors.core_device(device, found), copy)
    return torch_tensors.on_xla(buffer, device, found)


def to_tensorflow(x: Any, *, device: str | None = None, copy: bool | None = None) -> Any:
    """``x`` as a tf.Tensor on ``device`` ("XPU:0", "/device:CPU:0" and the like).

    By default that is the XPU that ``x`` is on, else the first one, or the CPU if TensorFlow has no XPU here; a
    tf.Tensor stays where it is. TensorFlow keeps int32 tensors in host memory on every device, which is where they
    are shared. Raises as :func:`to_numpy`, and ExchangeError for element types that TensorFlow lacks.
    """
    tensors = _tensorflow_tensors()
    read = _reader(x)
    if (
        read is tensors.read
        and not copy
        and tensors.is_tensor(x)
        and (device is None or tensors.same_device(x.device, device))
    ):
        return x
    found = read(x, copy)
    number = tensors.xpu_number(device)
    if device is None and tensors.has_xpu():
        number = 0 if found.buffer is None else found.buffer.device.id
    if number is None:
        if device is not None and "CPU" not in device.upper():
            raise ExchangeError(f"{found} cannot go to {device}: only to XPU and CPU devices")
        return tensors.on_cpu(found, copy)
    devices = _source.devices()
    if number >= len(devices) or not tensors.has_xpu():
        raise ExchangeError(
            f"{found} cannot go to {device}: TensorFlow has no such device, "
            "see tf.config.list_logical_devices()"
        )
    if not devices[number].uses_host_memory and found.dtype == np.int32:
        return tensors.int32_on_xpu(found, number, copy)
    return tensors.on_xpu(on_device(found, devices[number], copy), found)


def export(x: Any, *, copy: bool | None = None) -> Any:
    """``x`` as an object with ``__dlpack__`` and ``__dlpack_device__``, for other consumers of DLPack.

    Capsules of both generations are given: a read-only one of DLPack 1 to consumers that name a ``max_version`` of 1
    or more, else one of DLPack 0, which cannot say that it is read-only. The object keeps the memory; it is of class
    ``tripont.core._tripont.Buffer``. Raises as :func:`to_numpy`.
    """
    found = _read(x, copy)
    device = _source.devices()[0] if found.buffer is None else found.buffer.device
    return on_device(found, device, copy)


def pointer(x: Any) -> int:
    """The address of the content of an array that can be shared: two arrays with one address share it."""
    found = _read(x, False)
    if found.buffer is not None:
        return int(found.buffer.pointer())
    assert found.array is not None
    return int(found.array.ctypes.data)


def statistics() -> Statistics:
    """How many arrays were exchanged in this process so far, how many were copied for it, and how many bytes."""
    return dataclasses.replace(_source.counted)


# ---------------------------------------------------------------------------------------------------------- helpers


# Imported when the framework is: by the first exchange with it.


@functools.cache
def _jax_arrays() -> Any:
    from . import jax_arrays

    return jax_arrays


@functools.cache
def _torch_tensors() -> Any:
    from . import torch_tensors

    return torch_tensors


@functools.cache
def _tensorflow_tensors() -> Any:
    from . import tensorflow_tensors

    return tensorflow_tensors


Reader = Callable[[Any, bool | None], Source]


def _read(x: Any, copy: bool | None) -> Source:
    """``x`` as it is found. ``copy=False``: ExchangeError if only a copy would be there."""
    return _reader(x)(x, copy)


def _reader(x: Any) -> Reader:
    """The function that reads arrays of the type of ``x``."""
    known = _readers.get(type(x))
    return _find_reader(x) if known is None else known


def _find_reader(x: Any) -> Reader:
    if isinstance(x, np.generic):
        return _of_scalar
    if isinstance(x, np.ndarray):
        return _of_numpy
    jax, torch, tf = map(sys.modules.get, ("jax", "torch", "tensorflow"))
    if jax is not None and isinstance(x, getattr(jax, "Array", ())):
        return _remember(type(x), _jax_arrays().read)
    if (inner := _inside(x)) is not x:
        return lambda x, copy: _read(inner, copy)
    if torch is not None and isinstance(x, torch.Tensor):
        read = _torch_tensors().read
        return _remember(type(x), read) if type(x) in (torch.Tensor, torch.nn.Parameter) else read
    if tf is not None and isinstance(x, tf.Tensor | tf.Variable):
        return _remember(type(x), _tensorflow_tensors().read)
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return _of_dlpack
    raise TypeError(
        f"a {type(x).__module__}.{type(x).__qualname__} is not an array of JAX, NumPy, PyTorch or TensorFlow, "
        "and has no __dlpack__"
    )


def _inside(x: Any) -> Any:
    """The array that is the whole content of ``x``; ``x`` itself if there is none.

    Raises ExchangeError for what consists of several arrays, naming what makes one of them.
    """
    library = type(x).__module__.partition(".")[0]
    if library == "keras" and hasattr(x, "constraint"):  # a variable of Keras
        return x.value
    if library == "torchax" and hasattr(x, "jax"):
        if x.requires_grad:
            raise ExchangeError(f"{_in_words(x)} requires a gradient: exchange x.detach()")
        return x.jax()
    for attribute, way in _DENSE.get(library, {}).items():
        if hasattr(x, attribute):
            raise ExchangeError(f"{_in_words(x)} consists of several arrays: exchange {way}")
    return x


#: Attributes that show that an array is not dense, by library, and the call that makes a dense array.
_DENSE: dict[str, dict[str, str]] = {
    "jax": {"todense": "x.todense()"},
    "tensorflow": {
        "row_splits": "x.to_tensor()",
        "dense_shape": "tf.sparse.to_dense(x), or tf.convert_to_tensor(x) of IndexedSlices",
    },
    "scipy": {"toarray": "x.toarray()"},
}


def _remember(kind: type, read: Reader) -> Reader:
    """For types that the frameworks define: users' classes may come and go."""
    return _readers.setdefault(kind, read)


def _of_buffer(x: Any, copy: bool | None) -> Source:
    return Source(x, _in_words, buffer=x)


def _of_scalar(x: np.generic, copy: bool | None) -> Source:
    return _of_numpy(np.asarray(x), copy)


def _of_numpy(array: np.ndarray, copy: bool | None) -> Source:
    dtype = array.dtype
    if type(array) is not np.ndarray and isinstance(array, np.ma.MaskedArray):
        raise ExchangeError(
            f"{_numpy_in_words(array)} is masked: exchange x.filled(value), or x.data"
        )
    if dtype.hasobject or not dtype.isnative or dtype.names:
        raise ExchangeError(
            f"{_numpy_in_words(array)}: only arrays of numbers in the machine's byte order"
        )
    return _source.of_array(array, _numpy_in_words, array, copy)


def _numpy_in_words(array: np.ndarray) -> str:
    return in_words("numpy.ndarray", array.shape, array.dtype)


def _of_dlpack(x: Any, copy: bool | None) -> Source:
    kind = f"{type(x).__module__}.{type(x).__qualname__}"
    try:
        capsule = x.__dlpack__(max_version=(1, 0))
    except TypeError:  # from before there were versions
        capsule = x.__dlpack__()
    try:
        buffer = _tripont.Buffer.from_dlpack(capsule, _source.devices()[0])
    except (BufferError, _tripont.StatusError) as error:
        raise ExchangeError(f"the {kind} cannot be shared: {error}") from error
    return Source(buffer, lambda buffer: in_words(kind, buffer.shape, buffer.dtype), buffer)


#: By the exact type of an array, so that exchanges need not ask in turn.
_readers: dict[type, Reader] = {np.ndarray: _of_numpy, _tripont.Buffer: _of_buffer}


def _copied_by(make_copy: Any, size: int) -> Any:
    _source.counted.exchanges += 1
    _source.note_copy(size)
    return make_copy()


def _in_words(x: Any) -> str:
    kind = type(x)
    shape, dtype = getattr(x, "shape", ()), getattr(x, "dtype", "?")
    return in_words(f"{kind.__module__}.{kind.__qualname__}", shape, getattr(dtype, "name", dtype))


__all__ = [
    "ExchangeError",
    "Statistics",
    "empty",
    "export",
    "pointer",
    "statistics",
    "to_jax",
    "to_numpy",
    "to_tensorflow",
    "to_torch",
]
