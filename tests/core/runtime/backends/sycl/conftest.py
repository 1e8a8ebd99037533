"""These tests need a SYCL CPU device: the extra ``sycl`` of the package."""

from __future__ import annotations

import platform
import sys

import pytest
from tripont.core import _tripont


@pytest.fixture(scope="session", autouse=True)
def device() -> None:
    """A machine that the packages are for, and where the device is missing, fails: it does not skip."""
    if platform.machine() != "x86_64":
        pytest.skip("the wheels of the SYCL runtime are for x86-64")
    devices = _tripont.list_devices("sycl", sys.executable)
    assert any(facts["kind"] == "cpu" for _, facts in devices), devices
