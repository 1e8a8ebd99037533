"""Whether there are packages of the SYCL runtime for this machine. Where there are, a missing device is a failure."""

from __future__ import annotations

import platform
import runpy
import sys
from pathlib import Path

import pytest

_DEVELOP = Path(__file__).parents[1] / "cmake" / "develop.py"
_BEFORE = runpy.run_path(str(_DEVELOP))["BEFORE"]["sycl"]


def missing() -> str:
    """Why there are none; or empty."""
    if platform.machine() != "x86_64":
        return "the SYCL runtime's packages are for x86-64"
    if sys.version_info >= _BEFORE:
        return f"the SYCL runtime has no packages for Python {'.'.join(map(str, _BEFORE))}"
    return ""


needs_sycl = pytest.mark.skipif(bool(missing()), reason=missing())
