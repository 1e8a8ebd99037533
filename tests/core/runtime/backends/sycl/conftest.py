"""These tests need a SYCL CPU device: the extra ``sycl`` of the package."""

from __future__ import annotations

import sys

import pytest
from tripont.core import _tripont

from tests import sycl_packages


@pytest.fixture(scope="session", autouse=True)
def sycl_device() -> None:
    """A machine that the packages are for, and where the device is missing, fails: it does not skip."""
    if reason := sycl_packages.missing():
        pytest.skip(reason)
    devices = _tripont.list_devices("sycl", sys.executable)
    assert any(facts["kind"] == "cpu" for _, facts in devices), devices
