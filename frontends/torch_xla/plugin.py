"""The plugin's class as torch_xla wants it, and its registration.

Written for torch_xla 2.9, its last release.
"""

from __future__ import annotations

import os

from torch_xla._internal import xpu
from torch_xla.experimental import plugins

from tripont import library_path

from . import DEVICE_TYPE, recording


class TripontPlugin(plugins.DevicePlugin):
    """One process has all devices; TRIPONT_NUM_DEVICES says how many."""

    def library_path(self) -> str:
        return library_path()

    def configure_single_process(self) -> None:
        """torch_xla calls this for a world of one process: there is nothing to choose."""

    def physical_chip_count(self) -> int:
        """Processes that ``torch_xla.launch`` starts: one, with a thread for each device."""
        return 1


def register() -> None:
    """Make tripont the plugin of PJRT_DEVICE=XPU. RuntimeError if torch_xla's runtime has started."""
    recording.install()
    plugins.use_dynamic_plugins()  # type: ignore[no-untyped-call]
    plugins.register_plugin(DEVICE_TYPE, TripontPlugin())


def replace_stock_plugin() -> None:
    """Take the place of torch_xla's own entry ``xpu``, which only knows the variable XPU_LIBRARY_PATH.

    If that variable names a library, it stays: the user asked for that one.
    """
    if "XPU_LIBRARY_PATH" in os.environ:
        return
    if os.environ.get("PJRT_DEVICE") == DEVICE_TYPE:
        recording.install()
    xpu.XpuPlugin = TripontPlugin  # type: ignore[misc]  # where torch_xla registers it after this
    plugins.register_plugin(DEVICE_TYPE, TripontPlugin())  # where it has done so before
