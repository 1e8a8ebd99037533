"""The PyTorch/XLA frontend: tripont as the device of ``PJRT_DEVICE=XPU``.

Two ways in, and both end in :mod:`.plugin`. ``import tripont.torch_xla`` calls :func:`activate`. With nothing imported,
``import torch_xla`` finds the entry point of group ``torch_xla.plugins`` and calls :func:`installed_plugin`; then the
variable ``PJRT_DEVICE=XPU`` chooses the device.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from . import import_order

DEVICE_TYPE = "XPU"
_DEVICE_VARIABLE = "PJRT_DEVICE"


def activate() -> None:
    """Register tripont with torch_xla and choose it, unless the user chose another device.

    Raises ImportError if torch_xla is not installed, if it has already started another device, or where it cannot be
    imported after TensorFlow (:mod:`.import_order`).
    """
    import_order.check()
    import_order.install()
    chosen = os.environ.get(_DEVICE_VARIABLE)
    if chosen is not None and chosen != DEVICE_TYPE and not _chosen_by_torch_xla(chosen):
        return
    os.environ[_DEVICE_VARIABLE] = DEVICE_TYPE  # before torch_xla is imported, which would choose
    try:
        import torch_xla  # noqa: F401
    except ModuleNotFoundError as error:
        if error.name != "torch_xla":
            raise
        raise ImportError(
            "PyTorch/XLA is not installed: run `pip install 'tripont[torch]'`"
        ) from error
    import _XLAC

    if not _XLAC._xla_runtime_is_initialized():
        from . import plugin

        plugin.register()
    elif chosen != DEVICE_TYPE:
        os.environ[_DEVICE_VARIABLE] = chosen or ""
        raise ImportError(
            f"torch_xla runs on {chosen} already, and a process has one device of torch_xla: import "
            "tripont.torch_xla before the first use of torch_xla, or set PJRT_DEVICE=XPU"
        )


def _chosen_by_torch_xla(chosen: str) -> bool:
    """Whether PJRT_DEVICE has the value that torch_xla gives it when its user has not chosen."""
    if "torch_xla" not in sys.modules or chosen != "CPU":
        return False
    try:
        with open("/proc/self/environ", "rb") as file:
            return not any(
                v.startswith(f"{_DEVICE_VARIABLE}=".encode()) for v in file.read().split(b"\0")
            )
    except OSError:
        return True


def installed_plugin() -> Any:
    """What the entry point ``torch_xla.plugins`` names: torch_xla calls it while it is imported.

    torch_xla registers the plugin that is returned under the entry point's name; this function does under XPU.
    """
    from . import plugin

    plugin.replace_stock_plugin()
    return plugin.TripontPlugin()
