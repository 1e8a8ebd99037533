"""The levels of instruction sets that tests run at, and processes that run at one."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tripont.core import _tripont
from tripont.core.compiler.targets.host import cpu

# The last is the machine as it is.
LEVELS = ("x86-64-v2", "x86-64-v3", "x86-64-v3+avxvnni", "x86-64-v4", "host")
ROOT = Path(__file__).parents[2]


def lacking(level: str) -> list[str]:
    """The instructions of ``level`` that this machine lacks."""
    if level == "host":
        return []
    if platform.machine() not in ("x86_64", "AMD64"):
        return ["x86-64"]
    return sorted({*cpu.describe(level)[1]} - features())


def features() -> set[str]:
    """The instructions of this machine."""
    return {*_tripont.cpu_features()}


def environment(level: str) -> dict[str, str]:
    """The environment of a process that behaves as ``level``, with nothing else of TRIPONT's or the libraries' caps."""
    caps = ("ONEDNN_MAX_CPU_ISA", "DNNL_MAX_CPU_ISA", "OPENBLAS_CORETYPE")
    kept = {
        k: v
        for k, v in os.environ.items()
        if k not in caps
        and (not k.startswith("TRIPONT_") or k in ("TRIPONT_DEVICE", "TRIPONT_CACHE_DIR"))
    }
    return kept | ({} if level == "host" else {"TRIPONT_CPU": level})


def run(
    level: str, *command: str, timeout: float = 600, more: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """``python -m command...`` as ``level``, from the checkout's folder."""
    return subprocess.run(
        [sys.executable, "-m", *command],
        env=environment(level) | dict(more or {}),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
