"""PyTorch's tensors, on the CPU and of PyTorch/XLA: read, and made of buffers and of host memory."""

from __future__ import annotations

import functools
import os
import sys
import warnings
from typing import Any, Final

import numpy as np
import torch

import tripont.core._tripont as _tripont

from .errors import ExchangeError, in_words, needs_copy
from .source import Source, counted, devices, of_array, of_copy, on_host

#: Element types that NumPy has itself.
NUMPYS_OWN: Final = frozenset(
    ["bool", "complex64", "complex128"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    + [f"float{bits}" for bits in (16, 32, 64)]
)
_NUMPYS_OWN_HERE: Final = frozenset(
    getattr(torch, name) for name in NUMPYS_OWN if hasattr(torch, name)
)
# What torch_xla raises where a tensor has no buffer that could be named.
_NO_BUFFER: Final = (RuntimeError, ValueError)


_capture = _tripont.exchange.capture


def describe(x: torch.Tensor) -> str:
    shape = ("?",) if x.is_nested else x.shape
    return in_words(f"torch.Tensor on {x.device}", shape, _name(x.dtype))


def _dense_way(x: torch.Tensor) -> str:
    if x.is_nested:
        return "torch.nested.to_padded_tensor(x, value)"
    return "x.dequantize() or x.int_repr()" if x.is_quantized else "x.to_dense()"


def _name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def read(x: torch.Tensor, copy: bool | None) -> Source:
    if x.requires_grad:
        raise ExchangeError(f"{describe(x)} requires a gradient: exchange x.detach()")
    if x.layout is not torch.strided or x.is_quantized or x.is_nested:
        raise ExchangeError(f"{describe(x)}: only dense tensors; exchange {_dense_way(x)}")
    if x.is_conj() or x.is_neg():
        raise ExchangeError(
            f"{describe(x)} is a lazy conjugate: exchange x.resolve_conj().resolve_neg()"
        )
    kind = x.device.type
    if kind == "cpu":
        return of_array(x, describe, _host_array(x), copy)
    if kind == "meta":
        raise ExchangeError(
            f"{describe(x)} has no content: exchange a tensor on a device (x.to_empty, load_state_dict)"
        )
    if kind == "xla" and on_tripont():
        buffer = _buffer_of(x)
        if buffer is not None:
            return Source(x, describe, buffer)
    if copy is False:
        raise needs_copy(describe(x), "it is not in the memory of one tripont device")
    return of_copy(x, describe, _host_array(x.cpu()))


def _host_array(x: torch.Tensor) -> np.ndarray:
    """The memory of a tensor on the CPU; bits of types that NumPy lacks are those of ml_dtypes."""
    if x.dtype in _NUMPYS_OWN_HERE:
        try:
            array: np.ndarray = x.numpy()
        except (RuntimeError, TypeError) as error:
            raise ExchangeError(
                f"{describe(x)} has no content that could be read: {error} "
                "(exchange tensors outside of torch.func's functions and of fake tensor modes)"
            ) from error
        return array
    import ml_dtypes

    name = _name(x.dtype)
    dtype = getattr(ml_dtypes, name, None)
    if dtype is None:
        raise ExchangeError(f"{describe(x)}: no other framework has {name}; convert it first")
    bits = getattr(torch, f"int{8 * x.element_size()}")
    return np.asarray(x.view(bits).numpy().view(dtype))


def torch_dtype(dtype: np.dtype, source: object) -> torch.dtype:
    """PyTorch's name of an element type. Raises ExchangeError for one that PyTorch lacks."""
    found = _torch_dtype(dtype)
    if found is None:
        raise ExchangeError(f"{source}: PyTorch has no {dtype.name}; convert it first")
    return found


@functools.cache
def _torch_dtype(dtype: np.dtype) -> torch.dtype | None:
    found = getattr(torch, dtype.name, None)
    shared = dtype.name in NUMPYS_OWN or "float" in dtype.name
    return found if isinstance(found, torch.dtype) and shared else None


def on_cpu(source: Source, copy: bool | None) -> torch.Tensor:
    """A tensor on the CPU, once the content is there."""
    dtype = torch_dtype(source.dtype, source)
    buffer = source.buffer
    if buffer is not None and not copy and buffer.device.uses_host_memory:
        try:
            tensor = torch.utils.dlpack.from_dlpack(buffer.dlpack_capsule())
        except BufferError:  # an element type that DLPack or PyTorch's reader of it lacks
            pass
        else:
            if tensor.dtype is dtype:
                counted.exchanges += 1
                return tensor
    return _of_array(on_host(source, copy), dtype)


def _of_array(array: np.ndarray, dtype: torch.dtype) -> torch.Tensor:
    """A tensor on the memory of a NumPy array."""
    if dtype in _NUMPYS_OWN_HERE:
        return _from_numpy(array)
    bits = array.view(f"i{array.dtype.itemsize}")  # bfloat16, float8_...
    return _from_numpy(bits).view(dtype)


def _from_numpy(array: np.ndarray) -> torch.Tensor:
    if not array.size or array.flags.writeable:
        return torch.from_numpy(array)
    with warnings.catch_warnings():
        # PyTorch warns of every read-only array. That it must not be written to is said at to_torch.
        warnings.simplefilter("ignore", UserWarning)
        return torch.from_numpy(array)


# ----------------------------------------------------------------------------------------------------- PyTorch/XLA


_seen_on_tripont = False
device_named = torch.device


def is_there(x: torch.Tensor, wanted: torch.device | None, on_tripont: bool) -> bool:
    """Whether a tensor is on the device where it is wanted; None: where exchanges put it."""
    here = x.device
    if wanted is None:
        return here.type == "xla" or not on_tripont
    return here.type == wanted.type and (here.index or 0) == (wanted.index or 0)


def on_tripont() -> bool:
    """Whether PyTorch/XLA is loaded, and its device is tripont's."""
    if _seen_on_tripont:
        return True
    return "torch_xla" in sys.modules and os.environ.get("PJRT_DEVICE") == "XPU"


def core_device(device: torch.device, source: object) -> Any:
    """The core's device behind a device of PyTorch/XLA, to which ``source`` is to go."""
    index = device.index or 0
    number = _number(index) if index < len(devices()) else None
    if number is None:
        raise _no_device(source, str(device))
    return devices()[number]


def device_of(number: int, source: object) -> torch.device:
    """The device of PyTorch/XLA that is the core's device ``number``, to which ``source`` is to go."""
    found = _device_of(number)
    if found is None:
        raise _no_device(source, f"tripont's device {number}")
    return found


def _no_device(source: object, wanted: str) -> ExchangeError:
    found = [f"xla:{index}" for index in range(len(devices())) if _number(index) is not None]
    if not found:
        return ExchangeError(
            f"{source} cannot go to {wanted}: PyTorch/XLA has no single devices in SPMD mode; "
            'use device="cpu", or exchange arrays before torch_xla.runtime.use_spmd()'
        )
    return ExchangeError(
        f"{source} cannot go to {wanted}: PyTorch/XLA has {', '.join(found)} (TRIPONT_NUM_DEVICES)"
    )


@functools.cache
def _device_of(number: int) -> torch.device | None:
    for index in range(len(devices())):
        if _number(index) == number:
            return torch.device("xla", index)
    return None


@functools.cache
def _number(index: int) -> int | None:
    """The core's number of the device xla:<index>; None where that is not a single device."""
    global _seen_on_tripont
    (name,) = _backend()._xla_real_devices([f"xla:{index}"])
    kind, _, number = name.partition(":")
    if kind != "XPU":
        return None
    _seen_on_tripont = True  # for as long as the process lives
    return int(number)


@functools.cache
def _backend() -> Any:
    import _XLAC

    return _XLAC


def _buffer_of(x: torch.Tensor) -> Any:
    """The core's buffer behind a tensor of PyTorch/XLA; None if it lies on several devices.

    A tensor that is still to be computed is: with what it needs, and nothing else.
    """
    backend = _backend()
    ask = backend._unsafe_buffer_pointer
    if backend._get_xla_sharding_spec(x):
        return None
    try:
        buffer = _capture(ask, x)
    except _NO_BUFFER:
        if sys.modules["torch_xla"].runtime.is_spmd():  # what is not divided is on every device
            return None
        backend._xla_sync_multi([x], devices=[], wait=True, sync_xla_data=False)
        try:
            buffer = _capture(ask, x)
        except _NO_BUFFER:
            backend._xla_wait_device_ops(devices=[])
            try:
                buffer = _capture(ask, x)
            except _NO_BUFFER as error:
                raise ExchangeError(
                    f"{describe(x)} has no content: it was deleted, donated to a program, or its computation failed"
                ) from error
    # XLA_USE_32BIT_LONG and its like have another element type on the device than PyTorch shows.
    if buffer is not None and _torch_dtype(buffer.numpy_dtype) is x.dtype:
        return buffer
    return None


class _Offered(torch.Tensor):
    """A tensor on the CPU that is not copied when PyTorch/XLA copies what it sends to the device.

    So the plugin sees the address that is on offer, and takes the buffer instead of its content.
    """

    content: torch.Tensor
    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @staticmethod
    def __new__(cls, content: torch.Tensor) -> _Offered:
        tensor: _Offered = torch.Tensor._make_wrapper_subclass(
            cls, content.shape, dtype=content.dtype, device=content.device
        )
        tensor.content = content
        return tensor

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        (tensor,) = args
        if function is not _TO_COPY:
            raise NotImplementedError(f"{function} of a tensor that is being exchanged")
        wanted = (kwargs or {}).get("dtype", tensor.dtype)
        return tensor.content if wanted is tensor.dtype else tensor.content.to(wanted)


_TO_COPY: Final = torch.ops.aten._to_copy.default


def on_xla(buffer: Any, device: torch.device, source: Source) -> torch.Tensor:
    """A tensor of PyTorch/XLA on the buffer, which is on ``device``."""
    dtype = torch_dtype(buffer.numpy_dtype, source)
    try:
        content = torch.utils.dlpack.from_dlpack(buffer.dlpack_capsule(True))
        if content.dtype is not dtype:
            content = content.view(dtype)
    except (BufferError, RuntimeError, TypeError):  # element types that DLPack or PyTorch lacks
        content = _of_array(buffer.view(), dtype)
    try:
        tensors = _tripont.exchange.offer(
            buffer, _backend()._xla_tensors_from_aten, [_Offered(content)], [str(device)]
        )
    except RuntimeError as error:
        raise ExchangeError(
            f"{source}: PyTorch/XLA does not take it: {str(error).splitlines()[0]}"
        ) from error
    if tensors is None:
        raise ExchangeError(
            f"{source}: PyTorch/XLA has no {dtype} on its devices; convert it first"
        )
    tensor: torch.Tensor = tensors[0]
    return tensor
