"""The scans, by their names."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Iterable
from typing import Final

from tests.scan.call import Call

# The module of each scan, and the package that it needs.
SCANS: Final = {
    "tensorflow_gradients": "tensorflow",
    "tensorflow_loops": "tensorflow",
    "tensorflow_functions": "tensorflow",
    "jax_updates": "jax",
    "jax_images": "jax",
    "jax_draws": "jax",
    "jax_special": "jax",
    "jax_sizes": "jax",
}


def calls_of(scan: str) -> list[Call]:
    """The calls of a scan, whose names begin with the scan's."""
    module = importlib.import_module(f"tests.scan.{scan}")
    return list(module.calls())


def installed() -> Iterable[str]:
    return [scan for scan, package in SCANS.items() if importlib.util.find_spec(package)]
