"""The digits example does what it says: it trains on XPU to the required accuracy and to the CPU's loss."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.mark.slow
def test_digits(run_example: Callable[..., str]) -> None:
    printed = run_example("tensorflow_digits", "--rounds", "2")
    assert "train on XPU:0" in printed
    assert "accuracy on the test images" in printed
    assert "relative difference" in printed
    assert "XPU (tripont)" in printed


def test_the_training_program_knows_no_device() -> None:
    examples = Path(__file__).parents[3] / "examples"
    program = (examples / "tensorflow_digits" / "train.py").read_text()
    for word in ("XPU", "tripont", "tf.device("):
        assert word not in program
