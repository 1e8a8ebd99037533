"""JAX's arrays: read, and made of buffers."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jaxlib import _jax

import tripont.core._tripont as _tripont

from .errors import ExchangeError, in_words, needs_copy
from .source import Source, devices, of_array, of_copy

PLATFORM = "xpu"
#: Functions that are called in every exchange.
_capture = _tripont.exchange.capture
_offer = _tripont.exchange.offer
_take_capsule = _jax.dlpack_managed_tensor_to_buffer


def describe(x: Any) -> str:
    return in_words("jax.Array", x.shape, x.dtype)


def check(x: Any) -> None:
    """Raises ExchangeError for arrays that have no content: traced, deleted, donated, or keys."""
    if isinstance(x, jax.core.Tracer):
        raise ExchangeError(
            f"{describe(x)} is traced, it has no content yet: exchange arrays outside of jit"
        )
    if x.is_deleted():
        raise ExchangeError(
            f"{describe(x)} was deleted or donated to a program: exchange it before, or do not donate it"
        )
    if not isinstance(x.dtype, np.dtype):  # keys of random numbers
        raise ExchangeError(f"{describe(x)}: exchange jax.random.key_data(x) instead")


def read(x: Any, copy: bool | None) -> Source:
    check(x)
    placed = x.sharding.device_set
    if len(placed) != 1:
        if copy is False:
            raise needs_copy(describe(x), f"it lies on {len(placed)} devices")
        return of_copy(x, describe, np.asarray(x))
    # Only the core's buffers are captured.
    buffer = _capture(x.unsafe_buffer_pointer)
    if buffer is not None:
        return Source(x, describe, buffer)
    return of_array(x, describe, np.asarray(x), copy)


def check_type(source: Source) -> None:
    """Raises ExchangeError for 64-bit types while JAX has them switched off."""
    dtype = source.dtype
    if dtype.itemsize >= 8 and jax.dtypes.canonicalize_dtype(dtype) != dtype:
        raise ExchangeError(
            f"{source}: JAX has no {dtype} arrays unless jax_enable_x64 is set "
            "(jax.config.update('jax_enable_x64', True)), or convert it first"
        )


put = jax.device_put


def default_device(source: Source) -> Any:
    """The xpu device that the content is on already, or the first."""
    number = 0 if source.buffer is None else source.buffer.device.id
    return jax.devices(PLATFORM)[number]


def core_device(device: Any) -> Any:
    """The core's device behind an xpu device of JAX."""
    return devices()[device.local_hardware_id]


def make(buffer: Any, device: Any, source: Source) -> Any:
    """A jax.Array on the buffer, which is on ``device``."""
    try:
        capsule = buffer.dlpack_capsule(True)
    except BufferError:  # an element type that DLPack lacks
        result = _offer(buffer, jax.device_put, buffer.view(), device)
    else:
        result = _offer(buffer, _take_capsule, capsule, device, None, False)
    if result is None:  # never, with the versions that we know
        raise ExchangeError(f"{source}: this version of JAX does not take arrays over")
    return result
