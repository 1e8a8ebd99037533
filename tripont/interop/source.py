"""An array as it is found, and where it can be had: in a device's memory, or in the host's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

import tripont.core._tripont as _tripont

from .errors import ExchangeError, needs_copy

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


class Source:
    """An array that is to be given away: in a buffer of tripont's core, or in host memory, row-major.

    ``copied``: whether the content is a copy already, that nobody else knows. ``str()`` of it is the array in words,
    which ``describe(x)`` finds when somebody asks: most exchanges succeed.
    """

    __slots__ = ("_describe", "_x", "array", "buffer", "copied")

    def __init__(
        self,
        x: Any,
        describe: Callable[[Any], str],
        buffer: Any = None,  # tripont.core._tripont.Buffer
        array: np.ndarray | None = None,
        copied: bool = False,
    ) -> None:
        self._x = x
        self._describe = describe
        self.buffer = buffer
        self.array = array
        self.copied = copied

    def __str__(self) -> str:
        return self._describe(self._x)

    @property
    def dtype(self) -> np.dtype:
        if self.array is not None:
            return self.array.dtype
        dtype: np.dtype = self.buffer.numpy_dtype
        return dtype


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


def of_array(
    x: Any, describe: Callable[[Any], str], array: np.ndarray, copy: bool | None
) -> Source:
    """Host memory, ``array``, as a source; a copy of it if it is not contiguous."""
    if array.flags.c_contiguous:
        return Source(x, describe, array=array)
    if copy is False:
        raise needs_copy(describe(x), f"it is not contiguous (strides of {array.strides} bytes)")
    note_copy(array.nbytes)
    aligned = empty(array.shape, array.dtype)
    aligned[...] = array
    return Source(x, describe, array=aligned, copied=True)


def of_copy(x: Any, describe: Callable[[Any], str], array: np.ndarray) -> Source:
    """Host memory that was copied out of a framework."""
    note_copy(array.nbytes)
    return Source(x, describe, array=np.ascontiguousarray(array), copied=True)


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
            raise needs_copy(source, f"{buffer.device.description} has memory of its own")
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
    try:
        if not array.size:
            return _tripont.Buffer.from_array(array, device)
        if not copy or source.copied:
            buffer = _tripont.Buffer.from_memory(array, device)
            if buffer is not None:
                return buffer
        if copy is False:
            raise needs_copy(source, _why_not_in_place(array, device))
        note_copy(array.nbytes)
        return _tripont.Buffer.from_array(array, device)
    except TypeError as error:
        raise ExchangeError(f"{source}: {error}") from error


def _buffer_on_device(source: Source, device: Any, copy: bool | None) -> Any:
    buffer = source.buffer
    if not copy and buffer.is_on(device):
        return buffer
    if copy is False:
        raise needs_copy(
            source,
            f"it is in memory {buffer.memory_kind!r} of device {buffer.device.id} and is to go to device {device.id}",
        )
    note_copy(buffer.byte_size)
    return buffer.copy_to(device)


def _why_not_in_place(array: np.ndarray, device: Any) -> str:
    """Why programs of ``device`` cannot read the array where it is."""
    if not device.uses_host_memory:
        return f"{device.description} cannot read the process's memory in place"
    return (
        f"its address {array.ctypes.data:#x} is not a multiple of {ALIGNMENT}; allocate it with "
        "tripont.interop.empty"
    )
