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
import sys
from typing import Any

import numpy as np

import tripont.core._tripont as _tripont

from . import source as _source
from .errors import Description, ExchangeError, needs_copy
from .source import Source, Statistics, empty, on_device, on_host


def to_numpy(x: Any, *, copy: bool | None = None) -> np.ndarray:
    """``x`` as a NumPy array. What shares memory is read-only, unless ``x`` is a NumPy array or a tensor on the CPU.

    Waits until the content is there. Raises ExchangeError for arrays that were deleted or donated, and for what
    ``copy=False`` would have to copy; TypeError for what is no array.
    """
    return on_host(_read(x, copy), copy)


def to_jax(x: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """``x`` as a jax.Array on ``device``.

    By default that is the xpu device that ``x`` is on, else the first one; a jax.Array stays where it is. Memory is
    shared if ``x`` is on that device, or in host memory aligned to 64 bytes. Does not wait for the content.
    What shares memory is never overwritten: a program that would (donation) gets a copy. Raises as :func:`to_numpy`.
    """
    import jax

    from . import jax_arrays

    if isinstance(x, jax.Array) and not isinstance(x, jax.core.Tracer):
        jax_arrays.check(x)
        if device is None or x.devices() == {device}:
            return _copied_by(x.copy, x.nbytes) if copy else x
        if copy is False:
            raise needs_copy(Description("jax.Array", x.shape, x.dtype), f"it is to go to {device}")
        return _copied_by(lambda: jax.device_put(x, device), x.nbytes)
    found = _read(x, copy)
    dtype = found.array.dtype if found.array is not None else found.buffer.numpy_dtype
    jax_arrays.check_type(dtype, found.what)
    if device is None:
        device = jax_arrays.default_device(found)
    if device.platform != jax_arrays.PLATFORM:
        if copy is False:
            raise needs_copy(found.what, f"{device} is not an xpu device")
        array = on_host(found, copy)
        return _copied_by(lambda: jax.device_put(array, device), array.nbytes)
    buffer = on_device(found, jax_arrays.core_device(device), copy)
    return jax_arrays.make(buffer, device, found.what)


def to_torch(x: Any, *, device: Any = None, copy: bool | None = None) -> Any:
    """``x`` as a PyTorch tensor on ``device`` ("cpu", "xla", "xla:1", or a torch.device).

    By default that is PyTorch/XLA's device where tripont runs it in this process (``import tripont.torch_xla``): the
    one that ``x`` is on, else the first. Otherwise it is the CPU. On the CPU, a tensor that shares the memory of a
    device array must not be written to (PyTorch has no read-only tensors). Raises as :func:`to_numpy`, and
    ExchangeError for element types that PyTorch lacks.
    """
    import torch

    from . import torch_tensors

    wanted = None if device is None else torch.device(device)
    if isinstance(x, torch.Tensor) and not copy:
        here = wanted is None and (x.device.type == "xla" or not torch_tensors.on_tripont())
        if here or (wanted is not None and _same_torch_device(x.device, wanted)):
            return x
    if wanted is not None and wanted.type not in ("cpu", "xla"):
        raise ExchangeError(
            f"{_description(x)} cannot go to PyTorch's device {wanted}: only to cpu and xla"
        )
    if wanted is not None and wanted.type == "xla" and not torch_tensors.on_tripont():
        raise ExchangeError(
            f"{_description(x)} cannot go to {wanted}: PyTorch/XLA does not run on tripont in this process; "
            "`import tripont.torch_xla` first"
        )
    found = _read(x, copy)
    if wanted is None and torch_tensors.on_tripont():
        wanted = torch_tensors.device_of(0 if found.buffer is None else found.buffer.device.id)
    if wanted is None or wanted.type == "cpu":
        return torch_tensors.on_cpu(on_host(found, copy), found.what)
    buffer = on_device(found, torch_tensors.core_device(wanted), copy)
    return torch_tensors.on_xla(buffer, wanted, found.what)


def to_tensorflow(x: Any, *, device: str | None = None, copy: bool | None = None) -> Any:
    """``x`` as a tf.Tensor on ``device`` ("XPU:0", "/device:CPU:0" and the like).

    By default that is the XPU that ``x`` is on, else the first one, or the CPU if TensorFlow has no XPU here; a
    tf.Tensor stays where it is. TensorFlow keeps int32 tensors in host memory on every device, which is where they
    are shared. Raises as :func:`to_numpy`, and ExchangeError for element types that TensorFlow lacks.
    """
    import tensorflow as tf

    from . import tensorflow_tensors

    if (
        isinstance(x, tf.Tensor)
        and not copy
        and (device is None or tensorflow_tensors.same_device(x.device, device))
    ):
        return x
    found = _read(x, copy)
    number = tensorflow_tensors.xpu_number(device)
    if device is None and tensorflow_tensors.has_xpu():
        number = 0 if found.buffer is None else found.buffer.device.id
    if number is None:
        if device is not None and "CPU" not in device.upper():
            raise ExchangeError(f"{found.what} cannot go to {device}: only to XPU and CPU devices")
        return tensorflow_tensors.on_cpu(on_host(found, copy), copy, found.what)
    if number >= len(_source.devices()) or not tensorflow_tensors.has_xpu():
        raise ExchangeError(f"{found.what} cannot go to {device}: TensorFlow has no such device")
    buffer = on_device(found, _source.devices()[number], copy)
    return tensorflow_tensors.on_xpu(buffer, found.what)


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


def _read(x: Any, copy: bool | None) -> Source:
    """``x`` as it is found. ``copy=False``: ExchangeError if only a copy would be there."""
    if isinstance(x, np.ndarray | np.generic):
        return _of_numpy(np.asarray(x), copy)
    jax = sys.modules.get("jax")
    if jax is not None and isinstance(x, getattr(jax, "Array", ())):
        from . import jax_arrays

        return jax_arrays.read(x, copy)
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(x, torch.Tensor):
        from . import torch_tensors

        return torch_tensors.read(x, copy)
    tf = sys.modules.get("tensorflow")
    if tf is not None and isinstance(x, tf.Tensor | tf.Variable):
        from . import tensorflow_tensors

        return tensorflow_tensors.read(x, copy)
    if isinstance(x, _tripont.Buffer):
        return Source(_description(x), buffer=x)
    if hasattr(x, "__dlpack__") and hasattr(x, "__dlpack_device__"):
        return _of_dlpack(x)
    raise TypeError(
        f"a {type(x).__module__}.{type(x).__qualname__} is no array of JAX, NumPy, PyTorch or TensorFlow, "
        "and has no __dlpack__"
    )


def _of_numpy(array: np.ndarray, copy: bool | None) -> Source:
    what = Description("numpy.ndarray", array.shape, array.dtype)
    if array.dtype.hasobject or not array.dtype.isnative or array.dtype.names:
        raise ExchangeError(f"{what}: only arrays of numbers in the machine's byte order")
    return _source.of_array(array, copy, what)


def _of_dlpack(x: Any) -> Source:
    what = f"the {type(x).__module__}.{type(x).__qualname__}"
    try:
        capsule = x.__dlpack__(max_version=(1, 0))
    except TypeError:  # from before there were versions
        capsule = x.__dlpack__()
    try:
        buffer = _tripont.Buffer.from_dlpack(capsule, _source.devices()[0])
    except (BufferError, _tripont.StatusError) as error:
        raise ExchangeError(f"{what} cannot be shared: {error}") from error
    return Source(Description(what.removeprefix("the "), buffer.shape, buffer.dtype), buffer=buffer)


def _copied_by(make_copy: Any, size: int) -> Any:
    _source.counted.exchanges += 1
    _source.note_copy(size)
    return make_copy()


def _same_torch_device(one: Any, other: Any) -> bool:
    return one.type == other.type and (one.index or 0) == (other.index or 0)


def _description(x: Any) -> Description:
    kind = type(x)
    shape, dtype = getattr(x, "shape", ()), getattr(x, "dtype", "?")
    return Description(f"{kind.__module__}.{kind.__qualname__}", shape, dtype)


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
