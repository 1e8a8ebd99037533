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

from .errors import Description, ExchangeError, needs_copy
from .source import Source, capture, devices, of_array, of_copy

#: Element types that NumPy has itself.
NUMPYS_OWN: Final = frozenset(
    ["bool", "complex64", "complex128"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
    + [f"float{bits}" for bits in (16, 32, 64)]
)
# What torch_xla raises where a tensor has no buffer that could be named.
_NO_BUFFER: Final = (RuntimeError, ValueError)


def describe_tensor(x: torch.Tensor) -> Description:
    return Description(f"torch.Tensor on {x.device}", x.shape, str(x.dtype).removeprefix("torch."))


def read(x: torch.Tensor, copy: bool | None) -> Source:
    what = describe_tensor(x)
    if x.requires_grad:
        raise ExchangeError(f"{what} requires a gradient: exchange x.detach()")
    if x.is_sparse or x.is_quantized or x.layout != torch.strided:
        raise ExchangeError(f"{what}: only dense tensors")
    if x.is_conj() or x.is_neg():
        raise ExchangeError(f"{what} is a lazy conjugate: exchange x.resolve_conj().resolve_neg()")
    if x.device.type == "cpu":
        return of_array(_host_array(x, what), copy, what)
    if x.device.type == "meta":
        raise ExchangeError(f"{what} has no content (it is on device meta)")
    if x.device.type == "xla" and on_tripont():
        buffer = _buffer_of(x, what)
        if buffer is not None:
            return Source(what, buffer=buffer)
    if copy is False:
        raise needs_copy(what, "it is not in the memory of one tripont device")
    return of_copy(_host_array(x.cpu(), what), what)


def _host_array(x: torch.Tensor, what: Description) -> np.ndarray:
    """The memory of a tensor on the CPU; bits of types that NumPy lacks are those of ml_dtypes."""
    name = str(x.dtype).removeprefix("torch.")
    if name in NUMPYS_OWN:
        array: np.ndarray = x.numpy()
        return array
    import ml_dtypes

    dtype = getattr(ml_dtypes, name, None)
    if dtype is None:
        raise ExchangeError(f"{what}: no other framework has {name}; convert it first")
    bits = getattr(torch, f"int{8 * x.element_size()}")
    return np.asarray(x.view(bits).numpy().view(dtype))


def torch_dtype(dtype: np.dtype, what: Description) -> torch.dtype:
    """PyTorch's name of an element type. Raises ExchangeError for one that PyTorch lacks."""
    found = _torch_dtype(dtype)
    if found is None:
        raise ExchangeError(f"{what}: PyTorch has no {dtype.name}; convert it first")
    return found


@functools.cache
def _torch_dtype(dtype: np.dtype) -> torch.dtype | None:
    found = getattr(torch, dtype.name, None)
    shared = dtype.name in NUMPYS_OWN or "float" in dtype.name
    return found if isinstance(found, torch.dtype) and shared else None


def on_cpu(array: np.ndarray, what: Description) -> torch.Tensor:
    """A tensor on the memory of a NumPy array."""
    dtype = torch_dtype(array.dtype, what)
    if array.dtype.name in NUMPYS_OWN:
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


def on_tripont() -> bool:
    """Whether PyTorch/XLA is loaded, and its device is tripont's."""
    return "torch_xla" in sys.modules and os.environ.get("PJRT_DEVICE") == "XPU"


def core_device(device: torch.device) -> Any:
    """The core's device behind a device of PyTorch/XLA."""
    return devices()[_number(device.index or 0)]


@functools.cache
def device_of(number: int) -> torch.device:
    """The device of PyTorch/XLA that is the core's device ``number``."""
    for index in range(len(devices())):
        if _number(index) == number:
            return torch.device("xla", index)
    raise ExchangeError(f"PyTorch/XLA has no device on tripont's device {number}")


@functools.cache
def _number(index: int) -> int:
    import _XLAC

    (name,) = _XLAC._xla_real_devices([f"xla:{index}"])
    kind, _, number = name.partition(":")
    if kind != "XPU":
        raise ExchangeError(
            f"the device xla:{index} is {name}, not one device: exchange arrays outside of SPMD mode"
        )
    return int(number)


def _buffer_of(x: torch.Tensor, what: Description) -> Any:
    """The core's buffer behind a tensor of PyTorch/XLA; None if it lies on several devices.

    A tensor that is still to be computed is: with what it needs, and nothing else.
    """
    import _XLAC

    backend = _XLAC

    def ask() -> Any:
        return capture(lambda: backend._unsafe_buffer_pointer(x))

    if backend._get_xla_sharding_spec(x):
        return None
    try:
        buffer = ask()
    except _NO_BUFFER:
        backend._xla_sync_multi([x], devices=[], wait=True, sync_xla_data=False)
        try:
            buffer = ask()
        except _NO_BUFFER:
            backend._xla_wait_device_ops(devices=[])
            try:
                buffer = ask()
            except _NO_BUFFER as error:
                raise ExchangeError(
                    f"{what} has no content: it was deleted, donated to a program, or its computation failed"
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
        if function is not torch.ops.aten._to_copy.default:
            raise NotImplementedError(f"{function} of a tensor that is being exchanged")
        wanted = (kwargs or {}).get("dtype", tensor.dtype)
        return tensor.content if wanted == tensor.dtype else tensor.content.to(wanted)


def on_xla(buffer: Any, device: torch.device, what: Description) -> torch.Tensor:
    """A tensor of PyTorch/XLA on the buffer, which is on ``device``."""
    import _XLAC

    dtype = torch_dtype(buffer.numpy_dtype, what)
    try:
        content = torch.utils.dlpack.from_dlpack(buffer.dlpack_capsule(ready=True)).view(dtype)
    except (BufferError, RuntimeError, TypeError):  # element types that DLPack or PyTorch lacks
        content = on_cpu(buffer.view(), what)
    _tripont.exchange.offer(buffer)
    taken = False
    tensor: torch.Tensor
    try:
        (tensor,) = _XLAC._xla_tensors_from_aten([_Offered(content)], [str(device)])
    except RuntimeError as error:
        raise ExchangeError(
            f"{what}: PyTorch/XLA does not take it: {str(error).splitlines()[0]}"
        ) from error
    finally:
        taken = _tripont.exchange.withdraw()
    if not taken and buffer.byte_size:
        raise ExchangeError(f"{what}: PyTorch/XLA has no {dtype} on its devices; convert it first")
    return tensor
