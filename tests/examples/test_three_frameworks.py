"""The examples with all three frameworks in one process run, and say what they found."""

from __future__ import annotations

import importlib.util
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.starter import Starter, starter_of

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("torch_xla", "tensorflow"))),
        reason="TensorFlow or PyTorch/XLA is not installed",
    ),
]


@pytest.fixture(scope="module")
def starter() -> Starter:
    return starter_of("tests.three_frameworks")


def test_one_model(run_example: Callable[..., str]) -> None:
    """Begins as its user starts it."""
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


def test_bridge(run_example: Callable[..., str], starter: Starter) -> None:
    """Two epochs: enough to see that it learns, and that nothing is copied."""
    small = "--epochs 2 --batch 100 --accuracy 0.5"
    printed = run_example("bridge", *small.split(), starter=starter)
    rows = [line for line in printed.splitlines() if "→" in line]
    assert len(rows) == 3
    for row in rows:
        arrays, _, copies, same, *_ = (cell.strip() for cell in row.strip("│").split("│")[1:])
        assert int(arrays) > 0
        assert copies == "0"
        assert same == f"{arrays} of {arrays}"
    assert "0 copies" in printed


@pytest.mark.skipif(
    not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="the machine has no C compiler"
)
def test_one_kernel(run_example: Callable[..., str], starter: Starter) -> None:
    printed = run_example("one_kernel", "--rows", "3", "--samples", "500", starter=starter)
    assert "no copies" in printed
    (row,) = (line for line in printed.splitlines() if "the result is NumPy's" in line)
    assert [cell.strip() for cell in row.split("│")[2:5]] == ["yes"] * 3


def test_comparison(run_example: Callable[..., str], starter: Starter, tmp_path: Path) -> None:
    picture = tmp_path / "bars.png"
    small = ["--scale", "0.01", "--rounds", "1", "--png", str(picture)]
    printed = run_example("comparison", *small, starter=starter)
    for framework in ("JAX", "TensorFlow", "PyTorch"):
        assert printed.count(f"│ {framework}") == 3
    assert picture.read_bytes().startswith(b"\x89PNG")
