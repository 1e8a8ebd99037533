"""The example examples/custom_kernel runs and says what it found."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

EXAMPLE = Path(__file__).parents[2] / "examples" / "custom_kernel" / "main.py"


def test_running_maximum(subprocess_environment: dict[str, str]) -> None:
    done = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        env=subprocess_environment,
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "equal results" in done.stdout
    assert "running_maximum in C" in done.stdout
