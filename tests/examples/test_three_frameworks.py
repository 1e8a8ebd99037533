"""The examples with all three frameworks in one process run, and say what they found."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

import pytest

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("torch_xla", "tensorflow"))),
        reason="TensorFlow or PyTorch/XLA is not installed",
    ),
]


def test_one_model(run_example: Callable[..., str]) -> None:
    small = "--layers 1 --width 16 --heads 2 --vocabulary 11 --length 8 --batch 2"
    printed = run_example("one_model", *small.split())
    assert "the three agree" in printed
    (row,) = (line for line in printed.splitlines() if "HLO instructions received" in line)
    counts = [int(word) for word in row.split() if word.isdigit()]
    assert len(counts) == 3
    assert min(counts) > 50
    (row,) = (line for line in printed.splitlines() if line.startswith("│ Keras"))
    numbers = [int(word) for word in row.split() if word.isdigit()]
    assert numbers[2] == numbers[3]  # all of its own are its own
