"""``torch.xla``: the module that PyTorch looks up by a device's type, as ``torch.cuda`` is.

torch_xla has none, so that ``torch.utils.checkpoint`` (``gradient_checkpointing_enable()`` of transformers) and
``torch.random.fork_rng`` end in an AttributeError. This one has what they ask for: which devices there are, and the
state of the random numbers, which a checkpoint restores so that dropout drops the same elements again.
"""

from __future__ import annotations

import contextlib
import types
from collections.abc import Iterator
from typing import Any


def install() -> None:
    """Register the module, once; a module that is there already stays."""
    import torch

    if hasattr(torch, "xla"):
        return
    module = types.ModuleType("torch.xla", __doc__)
    for function in (
        current_device,
        device,
        device_count,
        get_rng_state,
        is_available,
        is_initialized,
        set_rng_state,
    ):
        setattr(module, function.__name__, function)
    # What torch.utils.checkpoint asks.
    module._initialized = True  # type: ignore[attr-defined]
    torch._register_device_module("xla", module)  # type: ignore[no-untyped-call]


def is_available() -> bool:
    """Whether there is a device."""
    return device_count() > 0


def is_initialized() -> bool:
    """Whether the devices have started; asking for one starts them."""
    import _XLAC

    return bool(_XLAC._xla_runtime_is_initialized())


def device_count() -> int:
    """The devices of this process."""
    import torch_xla.runtime

    return int(torch_xla.runtime.addressable_runtime_device_count())


def current_device() -> int:
    """The index of the device that ``"xla"`` means."""
    import torch_xla

    return int(torch_xla.device().index)


@contextlib.contextmanager
def device(which: Any) -> Iterator[None]:
    """Inside, ``"xla"`` means the device ``which``: an index or a ``torch.device``."""
    import _XLAC

    before = current_device()
    _XLAC._xla_set_default_device(_name(which))
    try:
        yield
    finally:
        _XLAC._xla_set_default_device(_name(before))


def get_rng_state(which: Any = "xla") -> int:
    """The state of a device's random numbers: a number, which nothing on the device has to be waited for."""
    import _XLAC

    return int(_XLAC._xla_get_rng_seed(_name(which)))


def set_rng_state(state: int, which: Any = "xla") -> None:
    """Let a device's random numbers go on from ``state``."""
    import _XLAC

    _XLAC._xla_set_rng_seed(state, _name(which))


def _name(which: Any) -> str:
    """``xla:0`` of an index, a ``torch.device``, or a text; ``"xla"`` is the current device."""
    text = f"xla:{which}" if isinstance(which, int) else str(which)
    return text if ":" in text else f"xla:{current_device()}"
