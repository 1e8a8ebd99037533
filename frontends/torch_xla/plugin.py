"""The plugin's class as torch_xla wants it, and its registration.

Written for torch_xla 2.9, its last release.
"""

from __future__ import annotations

import os

from torch_xla._internal import xpu
from torch_xla.experimental import plugins

from tripont import helper_process, library_path

from . import (
    DEVICE_TYPE,
    corrections,
    device_module,
    in_place,
    inference,
    last_process,
    lowerings,
    reading,
    recording,
    recurrent,
    seeds,
)


class TripontPlugin(plugins.DevicePlugin):
    """TRIPONT_NUM_DEVICES says how many devices a process has; `torchrun` starts several processes."""

    def library_path(self) -> str:
        """RuntimeError if torch_xla is told to use sizes that it gets wrong (:func:`_refuse_experiments`)."""
        _refuse_experiments()
        return library_path()

    def client_create_options(self) -> dict[str, str | int]:
        """Where this process finds packages, for its compile workers, and which of the job's processes it is.

        torch_xla gets outlines of optimised programs, in which it reads the arrays that go in and out.
        """
        options: dict[str, str | int] = {"optimized_programs": "outline"}
        if "TRIPONT_PYTHON" not in os.environ and "TRIPONT_PYTHON_PATH" not in os.environ:
            options["python_path"] = helper_process.package_path()
        if self.requires_xla_coordinator():
            options["node_id"] = int(os.environ["RANK"])
            options["num_nodes"] = _world_size()
            last_process.install()
        return options

    def requires_xla_coordinator(self) -> bool:
        """Whether this is one of several processes, which find one another through torch_xla's coordinator."""
        return _world_size() > 1

    def configure_single_process(self) -> None:
        """torch_xla calls this for a world of one process: there is nothing to choose."""

    def physical_chip_count(self) -> int:
        """Processes that ``torch_xla.launch`` starts: one, with a thread for each device. `torchrun` says its own."""
        return int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def _world_size() -> int:
    """The processes of the job as `torchrun` says it; 1 without."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1


def _refuse_experiments() -> None:
    """XLA_EXPERIMENTAL has torch_xla record ``nonzero`` and the like with sizes that depend on values.

    Its rules for what follows take the largest possible size for the size (``roll``, ``zeros_like``, a mean), so that
    results are wrong on every device. Without the variable the sizes are numbers. The experiment ``early_sync`` has
    nothing to do with sizes and stays the user's choice.
    """
    chosen = os.environ.get("XLA_EXPERIMENTAL", "")
    experiments = "" if set(chosen.split(":")) <= {"", "early_sync"} else chosen
    if experiments and os.environ.get("PJRT_DEVICE") == DEVICE_TYPE:
        raise RuntimeError(
            f"tripont: XLA_EXPERIMENTAL={experiments} makes PyTorch/XLA compute with sizes that depend on values, "
            "which gives wrong results (torch.roll, torch.zeros_like): unset it, and nonzero, masked_select and "
            "boolean masks work"
        )


def _install() -> None:
    """What torch_xla does otherwise with this device."""
    recording.install()
    seeds.install()
    reading.install()
    inference.install()
    in_place.install()
    lowerings.install()
    corrections.install()
    device_module.install()
    recurrent.install()


def register() -> None:
    """Make tripont the plugin of PJRT_DEVICE=XPU. RuntimeError if torch_xla's runtime has started."""
    _install()
    plugins.use_dynamic_plugins()  # type: ignore[no-untyped-call]
    plugins.register_plugin(DEVICE_TYPE, TripontPlugin())


def replace_stock_plugin() -> None:
    """Take the place of torch_xla's own entry ``xpu``, which only knows the variable XPU_LIBRARY_PATH.

    If that variable names a library, it stays: the user asked for that one.
    """
    if "XPU_LIBRARY_PATH" in os.environ:
        return
    if os.environ.get("PJRT_DEVICE") == DEVICE_TYPE:
        _install()
    xpu.XpuPlugin = TripontPlugin  # type: ignore[misc]  # where torch_xla registers it after this
    plugins.register_plugin(DEVICE_TYPE, TripontPlugin())  # where it has done so before
