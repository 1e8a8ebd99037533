"""The example of a hand-written kernel builds, runs on XPU, and gives NumPy's numbers."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "tensorflow_custom_kernel" / "main.py"


def test_custom_kernel(subprocess_environment: dict[str, str]) -> None:
    result = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        env=subprocess_environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert "computed on device:XPU:0" in result.stdout
    assert "ops on the CPU: none" in result.stdout
