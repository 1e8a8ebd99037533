"""The CPU for programs whose f32 products of some size are oneDNN's: several CPUs have them generated."""

from __future__ import annotations

import os
from typing import Final

from tripont.core.compiler.targets.host import cpu


def _name() -> str:
    if given := os.environ.get("TRIPONT_CPU"):  # a run of tests for one level
        return given
    level = "x86-64-v3"
    runs = not cpu.is_aarch64("host") and set(cpu.describe(level)[1]) <= set(cpu.detect()[1])
    return level if runs else "host"


LIBRARY_CPU: Final = _name()
#: For processes of their own.
ENVIRONMENT: Final = {"TRIPONT_CPU": LIBRARY_CPU}
