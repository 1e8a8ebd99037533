"""The example of a hand-written kernel builds, runs on XPU, and gives NumPy's numbers."""

from __future__ import annotations

from collections.abc import Callable


def test_custom_kernel(run_example: Callable[..., str]) -> None:
    printed = run_example("tensorflow_custom_kernel")
    assert "computed on device:XPU:0" in printed
    assert "ops on the CPU: none" in printed
