"""The example of a hand-written kernel builds, runs on XPU, and gives NumPy's numbers."""

from __future__ import annotations

from pathlib import Path

from .conftest import Run

PROGRAM = """
import runpy, sys

runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_custom_kernel(subprocess_environment: dict[str, str], run_program: Run) -> None:
    example = Path(__file__).parents[2] / "examples" / "tensorflow_custom_kernel" / "main.py"
    result = run_program(PROGRAM, subprocess_environment, str(example))
    assert result.returncode == 0, result.stderr
    assert "computed on device:XPU:0" in result.stdout
    assert "ops on the CPU: none" in result.stdout
