"""TensorFlow's tests run in processes of their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.framework_process import make_module

# Two devices in the process; minutes.
_APART = [["test_mirrored_strategy.py"], ["test_keras.py", "test_operations.py"]]


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Collector | None:
    return make_module(module_path, parent, _APART)
