"""TensorFlow's tensors: read, and made of buffers and of host memory."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context
from tensorflow.python.framework import ops

import tripont.core._tripont as _tripont
from tripont.frontends.tensorflow import exchange_functions

from .errors import ExchangeError, in_words, needs_copy
from .source import ALIGNMENT, Source, devices, note_copy, of_array, on_host

_HOST = "/job:localhost/replica:0/task:0/device:CPU:0"
_XPU = re.compile(r"(?:^|[/:])XPU:(\d+)$", re.IGNORECASE)


def describe(x: Any) -> str:
    return in_words(f"tf.Tensor on {_short(x.device)}", x.shape, x.dtype.name)


def read(x: Any, copy: bool | None) -> Source:
    if isinstance(x, tf.Variable):
        # Shares its memory, until it is assigned to; read_value() may copy to the CPU.
        x = x.value()
    if not isinstance(x, ops.EagerTensor):
        raise ExchangeError(
            f"the tf.Tensor of shape {x.shape} and dtype {x.dtype.name} is symbolic, it has no content "
            "yet: exchange eager tensors, outside of tf.function"
        )
    if not _is_number(x._datatype_enum()):
        raise ExchangeError(
            f"{describe(x)}: only arrays of numbers; convert it first (tf.strings.to_number, tf.io.decode_raw, ...)"
        )
    # int32 tensors are in host memory on every device.
    placed = x.backing_device
    if xpu_number(placed) is not None and x._num_elements():
        return Source(x, describe, _export(x))
    if "CPU" not in placed and copy is False:
        raise needs_copy(describe(x), f"it is on {_short(placed)}")
    return of_array(x, describe, np.asarray(x), copy)


def is_tensor(x: Any) -> bool:
    """Whether ``x`` is a tensor, and not a variable."""
    return isinstance(x, tf.Tensor)


@functools.cache
def _is_number(datatype: int) -> bool:
    dtype = tf.as_dtype(datatype)
    not_numbers = (tf.string, tf.resource, tf.variant)
    return dtype.is_numpy_compatible and dtype not in not_numbers


@functools.lru_cache(maxsize=64)  # of names that users give, too
def xpu_number(device: str | None) -> int | None:
    """The number of a device XPU, from its name; None for other devices."""
    found = _XPU.search(device or "")
    return int(found.group(1)) if found else None


def has_xpu() -> bool:
    """Whether TensorFlow has tripont's devices in this process."""
    global _with_xpu
    handle = _context()
    if handle is not _with_xpu and tf.config.list_logical_devices("XPU"):
        _with_xpu = handle
    return handle is _with_xpu


def _context() -> Any:
    """TensorFlow's eager context, as its C API takes it."""
    current = context.context()
    current.ensure_initialized()
    return current._handle


#: The last context of TensorFlow in which there were XPUs.
_with_xpu: Any = None


def same_device(one: str, other: str) -> bool:
    return one.lower().endswith(other.lower().lstrip("/").removeprefix("device:"))


def tensorflow_dtype(dtype: np.dtype, source: object) -> Any:
    try:
        return _tensorflow_dtype(dtype)
    except TypeError as error:
        raise ExchangeError(
            f"{source}: TensorFlow has no {dtype.name}; convert it first"
        ) from error


_tensorflow_dtype = functools.cache(tf.as_dtype)


@functools.cache
def _adapter() -> Any:
    return _tripont.exchange.Tensorflow(*exchange_functions())


def _export(x: Any) -> Any:
    try:
        return _adapter().export_tensor(x)
    except RuntimeError as error:
        raise ExchangeError(f"{describe(x)} cannot be taken out of TensorFlow: {error}") from error


def on_xpu(buffer: Any, source: Source) -> Any:
    """A tf.Tensor on the buffer, on the device that it is on."""
    dtype = tensorflow_dtype(buffer.numpy_dtype, source)
    try:
        return _adapter().import_buffer(buffer, _context(), dtype.as_datatype_enum)
    except RuntimeError as error:
        raise ExchangeError(f"{source}: TensorFlow does not take it: {error}") from error


def int32_on_xpu(source: Source, number: int, copy: bool | None) -> Any:
    """An int32 tf.Tensor on XPU:<number>, for which TensorFlow wants host memory, where XPU has memory of its own."""
    if copy is False:
        raise needs_copy(
            source, "TensorFlow keeps int32 tensors in host memory, which the device does not use"
        )
    array = on_host(source, copy)
    note_copy(array.nbytes)
    with tf.device(f"XPU:{number}"):
        return tf.identity(tf.constant(array))


def on_cpu(source: Source, copy: bool | None) -> Any:
    """A tf.Tensor on the CPU, on the memory of the content if that is aligned, once it is there."""
    array = on_host(source, copy)
    dtype = tensorflow_dtype(array.dtype, source)
    if copy is not True and array.size and array.ctypes.data % ALIGNMENT == 0:
        try:
            buffer = _tripont.Buffer.from_memory(array, devices()[0])
            if buffer is not None:
                return tf.experimental.dlpack.from_dlpack(buffer.dlpack_capsule())
            why = f"{devices()[0].description} cannot read the process's memory in place"
        except (BufferError, tf.errors.OpError) as error:  # element types that DLPack lacks
            why = str(error)
    else:
        why = f"its address {array.ctypes.data:#x} is not a multiple of {ALIGNMENT}"
    if copy is False and array.size:
        raise needs_copy(source, why)
    note_copy(array.nbytes)
    with tf.device(_HOST):
        return tf.constant(array, dtype)


def _short(device: str) -> str:
    return device.rpartition("device:")[2] or device
