"""The first configuration of every op on the SYCL CPU device, in a process of its own: this one has host devices."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conformance import device
from tests.sycl_packages import needs_sycl


@pytest.mark.slow
@needs_sycl
@pytest.mark.timeout(900)
def test_first_configurations() -> None:
    if device.TARGET != "host":
        pytest.skip("the whole suite runs on sycl already")
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("OCL_", "ONEAPI_", "PYTEST_"))}
    keep.pop("TRIPONT_DEVICE", None)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--no-header"]
    result = subprocess.run(
        [
            *command,
            str(Path(__file__).with_name("test_conformance.py")),
            "-k",
            "test_configuration",
        ],
        env=keep | {"TRIPONT_CONFORMANCE_TARGET": "sycl", "TRIPONT_CONFORMANCE": "first"},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout[-20_000:] + result.stderr[-5_000:]
