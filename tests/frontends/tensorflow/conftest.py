"""TensorFlow's tests run in processes of their own."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.framework_process import make_module

# What results are compared with is TensorFlow's CPU, which uses oneDNN by itself on some machines only; without it, it
# refuses the gradients of dilated and grouped convolutions. TensorFlow reads this while it is imported.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")

# Two devices in the process; minutes.
_APART = [["test_mirrored_strategy.py"], ["test_keras.py", "test_operations.py"]]


def pytest_pycollect_makemodule(
    module_path: Path, parent: pytest.Collector
) -> pytest.Collector | None:
    return make_module(module_path, parent, _APART)
