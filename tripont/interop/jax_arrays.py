"""JAX's arrays: read, and made of buffers."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

import tripont.core._tripont as _tripont

from .errors import Description, ExchangeError, needs_copy
from .source import Source, capture, devices, of_array, of_copy

PLATFORM = "xpu"


def check(x: Any) -> None:
    """Raises ExchangeError for arrays that have no content: traced, deleted, donated, or keys."""
    what = Description("jax.Array", x.shape, x.dtype)
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


def read(x: Any, copy: bool | None) -> Source:
    check(x)
    what = Description("jax.Array", x.shape, x.dtype)
    if len(x.sharding.device_set) != 1:
        if copy is False:
            raise needs_copy(what, f"it lies on {len(x.sharding.device_set)} devices")
        return of_copy(np.asarray(x), what)
    if next(iter(x.sharding.device_set)).platform == PLATFORM:
        buffer = capture(x.unsafe_buffer_pointer)
        if buffer is not None:
            return Source(what, buffer=buffer)
    return of_array(np.asarray(x), copy, what)


def check_type(dtype: np.dtype, what: Description) -> None:
    """Raises ExchangeError for 64-bit types while JAX has them switched off."""
    if jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise ExchangeError(
            f"{what}: JAX has no {dtype} arrays unless jax_enable_x64 is set "
            "(jax.config.update('jax_enable_x64', True)), or convert it first"
        )


def default_device(source: Source) -> Any:
    """The xpu device that the content is on already, or the first."""
    number = 0 if source.buffer is None else source.buffer.device.id
    return jax.devices(PLATFORM)[number]


def core_device(device: Any) -> Any:
    """The core's device behind an xpu device of JAX."""
    return devices()[device.local_hardware_id]


def make(buffer: Any, device: Any, what: Description) -> Any:
    """A jax.Array on the buffer, which is on ``device``."""
    _tripont.exchange.offer(buffer)
    taken = False
    try:
        result = _import(buffer, device)
    finally:
        taken = _tripont.exchange.withdraw()
    if not taken and buffer.byte_size:  # never, with the versions that we know
        raise ExchangeError(f"{what}: this version of JAX does not take arrays over")
    return result


def _import(buffer: Any, device: Any) -> Any:
    from jaxlib import _jax

    try:
        capsule = buffer.dlpack_capsule(ready=True)
    except BufferError:  # an element type that DLPack lacks
        return jax.device_put(buffer.view(), device)
    return _jax.dlpack_managed_tensor_to_buffer(capsule, device, None, False)
