"""The example examples/custom_kernel runs and says what it found."""

from __future__ import annotations

from collections.abc import Callable


def test_running_maximum(run_example: Callable[..., str]) -> None:
    printed = run_example("custom_kernel")
    assert "equal results" in printed
    assert "running_maximum in C" in printed
