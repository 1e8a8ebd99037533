"""An array as it is found, and where it can be had: in a device's memory, or in the host's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import tripont.core._tripont as _tripont

from .errors import Description, ExchangeError, needs_copy

#: Addresses that programs can read in place are multiples of this.
ALIGNMENT: Final = 64


@dataclass
class Statistics:
    """Exchanges of this process: how many arrays, how many of them were copied, and how many bytes that were."""

    exchanges: int = 0
    copies: int = 0
    bytes_copied: int = 0


#: Counts since the process began.
counted: Final = Statistics()


@dataclass(frozen=True)
class Source:
    """An array that is to be given away: in a buffer of tripont's core, or in host memory, row-major.

    ``what``: the array in words. ``copied``: whether the content is a copy already, that nobody else knows.
    """

    what: Description
    buffer: Any = None  # tripont.core._tripont.Buffer
    array: np.ndarray | None = None
    copied: bool = False


@functools.cache
def devices() -> list[Any]:
    """The devices of the core, ``tripont.core._tripont.Device``, by number."""
    return list(_tripont.Client().devices)


def empty(shape: int | tuple[int, ...], dtype: Any = np.float32) -> np.ndarray:
    """A NumPy array, content undefined, whose memory every framework here can share: aligned to 64 bytes."""
    dtype = np.dtype(dtype)
    size = int(np.prod(shape)) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    array: np.ndarray = memory[start : start + size].view(dtype).reshape(shape)
    return array


def note_copy(size: int) -> None:
    """Counts a copy of ``size`` bytes."""
    counted.copies += 1
    counted.bytes_copied += size


def of_array(array: np.ndarray, copy: bool | None, what: Description) -> Source:
    """Host memory as a source; a copy of it if it is not contiguous."""
    if array.flags.c_contiguous:
        return Source(what, array=array)
    if copy is False:
        raise needs_copy(what, f"it is not contiguous (strides of {array.strides} bytes)")
    note_copy(array.nbytes)
    aligned = empty(array.shape, array.dtype)
    aligned[...] = array
    return Source(what, array=aligned, copied=True)


def of_copy(array: np.ndarray, what: Description) -> Source:
    """Host memory that was copied out of a framework."""
    note_copy(array.nbytes)
    return Source(what, array=np.ascontiguousarray(array), copied=True)


def capture(ask_for_address: Callable[[], Any]) -> Any:
    """The core's buffer whose address a framework asks for in the call: a share of it, or None.

    That keeps the memory, wherever the framework's own handle goes, and nobody overwrites it.
    """
    _tripont.exchange.begin_capture()
    try:
        ask_for_address()
    finally:
        buffer = _tripont.exchange.end_capture()
    return buffer


def on_host(source: Source, copy: bool | None) -> np.ndarray:
    """The content in host memory, once it is there. Read-only if it is a buffer's own."""
    counted.exchanges += 1
    if source.buffer is not None:
        buffer = source.buffer
        if buffer.device.uses_host_memory:
            view: np.ndarray = buffer.view()
            if not copy:
                return view
            note_copy(view.nbytes)
            return view.copy()
        if copy is False:
            raise needs_copy(source.what, f"{buffer.device.description} has memory of its own")
        content: np.ndarray = buffer.numpy()
        note_copy(content.nbytes)
        return content
    assert source.array is not None
    if copy and not source.copied:
        note_copy(source.array.nbytes)
        return source.array.copy()
    return source.array


def on_device(source: Source, device: Any, copy: bool | None) -> Any:
    """The content in a buffer of ``device`` (of :func:`devices`). It may not be there yet: buffers know when."""
    counted.exchanges += 1
    if source.buffer is not None:
        return _buffer_on_device(source, device, copy)
    array = source.array
    assert array is not None
    if not array.size:
        return _tripont.Buffer.from_array(array, device)
    why = _why_not_in_place(array, device)
    if not why and (not copy or source.copied):
        return _tripont.Buffer.from_memory(
            array.ctypes.data, array.shape, array.dtype, array, device
        )
    if copy is False:
        raise needs_copy(source.what, why)
    note_copy(array.nbytes)
    try:
        return _tripont.Buffer.from_array(array, device)
    except TypeError as error:
        raise ExchangeError(f"{source.what}: {error}") from error


def _buffer_on_device(source: Source, device: Any, copy: bool | None) -> Any:
    buffer = source.buffer
    there = buffer.device.id == device.id and buffer.memory_kind == "device"
    if there and not copy:
        return buffer
    if copy is False:
        raise needs_copy(
            source.what,
            f"it is in memory {buffer.memory_kind!r} of device {buffer.device.id} and is to go to device {device.id}",
        )
    note_copy(buffer.byte_size)
    return buffer.copy_to(device)


def _why_not_in_place(array: np.ndarray, device: Any) -> str:
    """Why programs of ``device`` cannot read the array where it is; empty if they can."""
    if not device.uses_host_memory:
        return f"{device.description} cannot read the process's memory in place"
    if array.ctypes.data % ALIGNMENT:
        return (
            f"its address {array.ctypes.data:#x} is not a multiple of {ALIGNMENT}; allocate it with "
            "tripont.interop.empty"
        )
    return ""
