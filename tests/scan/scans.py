"""The scans, by their names."""

from __future__ import annotations

import importlib
import importlib.util
import os
from collections.abc import Iterable
from typing import Final

from tests.scan.call import Call

# The module of each scan, and the package that it needs.
SCANS: Final = {
    "tensorflow_gradients": "tensorflow",
    "tensorflow_loops": "tensorflow",
    "tensorflow_functions": "tensorflow",
    "tensorflow_raw_ops": "tensorflow",
    "jax_updates": "jax",
    "jax_images": "jax",
    "jax_draws": "jax",
    "jax_special": "jax",
    "jax_sizes": "jax",
    "jax_gradients": "jax",
    "torch_op_db": "torch_xla",
    "torch_windows": "torch_xla",
    "torch_places": "torch_xla",
    "torch_layers": "torch_xla",
}


def calls_of(scan: str) -> list[Call]:
    """The calls of a scan, whose names begin with the scan's."""
    # TensorFlow's CPU has oneDNN's kernels on some machines only. Its other ones multiply the zeros around an image by
    # a filter's NaN, and have no gradients of grouped convolutions. TensorFlow reads this while it is imported.
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "1"
    module = importlib.import_module(f"tests.scan.{scan}")
    return list(module.calls())


def installed() -> Iterable[str]:
    return [scan for scan, package in SCANS.items() if importlib.util.find_spec(package)]
