"""TensorFlow's tensors: read, and made of buffers and of host memory."""

from __future__ import annotations

import functools
import re
from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context
from tensorflow.python.framework import ops

import tripont.core._tripont as _tripont

from .errors import Description, ExchangeError, needs_copy
from .source import ALIGNMENT, Source, capture, devices, note_copy, of_array

_HOST = "/job:localhost/replica:0/task:0/device:CPU:0"
_XPU = re.compile(r"(?:^|[/:])XPU:(\d+)$", re.IGNORECASE)


def describe_tensor(x: Any) -> Description:
    return Description(f"tf.Tensor on {_short(x.device)}", x.shape, x.dtype.name)


def read(x: Any, copy: bool | None) -> Source:
    if isinstance(x, tf.Variable):
        x = x.read_value()  # shares the variable's memory, until that is assigned to
    if not isinstance(x, ops.EagerTensor):
        raise ExchangeError(
            f"the tf.Tensor of shape {x.shape} and dtype {x.dtype.name} is symbolic, it has no content "
            "yet: exchange eager tensors"
        )
    what = describe_tensor(x)
    if not _is_number(x.dtype):
        raise ExchangeError(f"{what}: only arrays of numbers")
    # int32 tensors are in host memory on every device.
    number = xpu_number(x.backing_device)
    if number is not None and x.shape.num_elements():
        return Source(what, buffer=_export(x, what))
    if "CPU" not in x.backing_device and copy is False:
        raise needs_copy(what, f"it is on {_short(x.backing_device)}")
    return of_array(np.asarray(x), copy, what)


@functools.cache
def _is_number(dtype: Any) -> bool:
    not_numbers = (tf.string, tf.resource, tf.variant)
    return dtype.is_numpy_compatible and dtype not in not_numbers


@functools.lru_cache(maxsize=64)  # of names that users give, too
def xpu_number(device: str | None) -> int | None:
    """The number of a device XPU, from its name; None for other devices."""
    found = _XPU.search(device or "")
    return int(found.group(1)) if found else None


def full_name(number: int) -> str:
    return f"/job:localhost/replica:0/task:0/device:XPU:{number}"


def has_xpu() -> bool:
    """Whether TensorFlow has tripont's devices in this process."""
    return bool(tf.config.list_logical_devices("XPU"))


def same_device(one: str, other: str) -> bool:
    return one.lower().endswith(other.lower().lstrip("/").removeprefix("device:"))


def tensorflow_dtype(dtype: np.dtype, what: Description) -> Any:
    try:
        return _tensorflow_dtype(dtype)
    except TypeError as error:
        raise ExchangeError(f"{what}: TensorFlow has no {dtype.name}; convert it first") from error


_tensorflow_dtype = functools.cache(tf.as_dtype)


def _export(x: Any, what: Description) -> Any:
    def run() -> None:
        attributes = ("T", x.dtype.as_datatype_enum)
        pywrap_tfe.TFE_Py_Execute(
            context.context()._handle, x.backing_device, "TripontExport", [x], attributes, 0
        )

    try:
        buffer = capture(run)
        if buffer is None:  # TensorFlow runs eager ops asynchronously, on a thread of its own
            with context.execution_mode(context.SYNC):
                buffer = capture(run)
    except Exception as error:
        raise ExchangeError(f"{what} cannot be taken out of TensorFlow: {error}") from error
    if buffer is None:  # never, with the versions that we know
        raise ExchangeError(f"{what} cannot be taken out of this version of TensorFlow")
    return buffer


def on_xpu(buffer: Any, what: Description) -> Any:
    """A tf.Tensor on the buffer, on the device that it is on."""
    dtype = tensorflow_dtype(buffer.numpy_dtype, what)
    ticket = _tripont.exchange.deposit(buffer)
    number = ops.EagerTensor(ticket, _HOST, tf.int64.as_datatype_enum)
    try:
        (tensor,) = pywrap_tfe.TFE_Py_Execute(
            context.context()._handle,
            full_name(buffer.device.id),
            "TripontImport",
            [number],
            ("T", dtype.as_datatype_enum),
            1,
        )
    except Exception as error:
        _tripont.exchange.discard(ticket)
        raise ExchangeError(f"{what}: TensorFlow does not take it: {error}") from error
    return tensor


def on_cpu(array: np.ndarray, copy: bool | None, what: Description) -> Any:
    """A tf.Tensor on the CPU, on the memory of ``array`` if that is aligned."""
    dtype = tensorflow_dtype(array.dtype, what)
    if copy is not True and array.size and array.ctypes.data % ALIGNMENT == 0:
        buffer = _tripont.Buffer.from_memory(
            array.ctypes.data, array.shape, array.dtype, array, devices()[0]
        )
        try:
            return tf.experimental.dlpack.from_dlpack(buffer.dlpack_capsule())
        except (BufferError, tf.errors.OpError) as error:  # element types that DLPack lacks
            why = str(error)
    else:
        why = f"its address {array.ctypes.data:#x} is not a multiple of {ALIGNMENT}"
    if copy is False and array.size:
        raise needs_copy(what, why)
    note_copy(array.nbytes)
    with tf.device(_HOST):
        return tf.constant(array, dtype)


def _short(device: str) -> str:
    return device.rpartition("device:")[2] or device
