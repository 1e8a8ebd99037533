"""The digits example does what it says: it trains on XPU to the required accuracy and to the CPU's loss."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[3] / "examples" / "tensorflow_digits" / "main.py"


@pytest.mark.slow
def test_digits(subprocess_environment: dict[str, str]) -> None:
    result = subprocess.run(
        [sys.executable, str(EXAMPLE)],
        env=subprocess_environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "train on XPU:0" in result.stdout
    assert "accuracy on the test images" in result.stdout
    assert "relative difference" in result.stdout
    assert "XPU (tripont)" in result.stdout


def test_the_training_program_knows_no_device() -> None:
    program = EXAMPLE.with_name("train.py").read_text()
    for word in ("XPU", "tripont", "tf.device("):
        assert word not in program
