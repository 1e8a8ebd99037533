"""Kernels in all frameworks: PyTorch/XLA must be imported before TensorFlow, in a process of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.framework_process import make_module


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Collector | None:
    return make_module(module_path, parent)
