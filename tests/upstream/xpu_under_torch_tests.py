"""A pytest plugin for torch_xla's own tests, which are scripts; :mod:`tests.upstream.torch_suite` loads it."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest


def pytest_sessionstart() -> None:
    if os.environ.get("PYTEST_XDIST_WORKER") is None and "-n" in sys.argv:
        return  # the process that hands tests out runs none
    import torch
    import torch_xla
    import torch_xla.core.xla_model as xm

    # Tests know what to expect of CPUs, GPUs and TPUs.
    xm.xla_device_hw = lambda device: "CPU"
    # What the file of most operations does when it is run as a script.
    torch.manual_seed(42)
    torch_xla._XLAC._xla_set_mat_mul_precision("highest")


@pytest.hookimpl(tryfirst=True)
def pytest_pycollect_makemodule(module_path: Path) -> None:
    """Files read their options from ``sys.argv`` when they are imported, and import others of their folder."""
    sys.argv = [str(module_path)]
    if str(module_path.parent) not in sys.path:
        sys.path.insert(0, str(module_path.parent))
