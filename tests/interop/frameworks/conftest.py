"""Tests with JAX, TensorFlow and PyTorch/XLA in one process, which must be imported in this order.

Each file runs in a process of its own.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from tests.framework_process import make_module

if all(map(importlib.util.find_spec, ("torch_xla", "tensorflow"))):

    def pytest_pycollect_makemodule(
        module_path: Path, parent: pytest.Collector
    ) -> pytest.Collector | None:
        return make_module(module_path, parent)

else:  # the frameworks are extras
    collect_ignore_glob = ["test_*.py"]
