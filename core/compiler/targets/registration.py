"""What the registry knows of a target before it imports it."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Registration:
    """A target by name. ``module``: its package; without, the folder of its name here. It is imported when asked for.

    ``device_option``: the option of a compilation that says for which device, ``device`` what its values are.
    ``old_device_option``: the name that it had before, if any. ``kernel_format``: of the modules with kernels that
    users can bring, as the backend calls it; empty if it takes none.
    """

    name: str
    device: str
    device_option: str = "device"
    old_device_option: str = ""
    kernel_format: str = ""
    module: str = ""

    @property
    def package(self) -> Any:
        return importlib.import_module(self.module or f"{__package__}.{self.name}")
