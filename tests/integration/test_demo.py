"""The demo does what it says: it trains on xpu to the required accuracy and leaves the compiler's stages behind."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path


def test_digits(run_example: Callable[..., str], tmp_path: Path) -> None:
    printed = run_example("jax_digits", "--rounds", "2", "--dump", str(tmp_path / "dump"))
    assert "trains on xpu" in printed
    assert "accuracy on the test images" in printed
    names = [path.name for path in (tmp_path / "dump").iterdir()]
    for stage in (
        "stablehlo.mlir",
        "after_optimizations.txt",
        "thunk_sequence.txt",
        "ir-with-opt.ll",
        ".spv" if os.environ.get("TRIPONT_DEVICE", "").startswith("sycl") else ".s",
    ):
        assert any(name.endswith(stage) and "train_step" in name for name in names), (stage, names)
    assert "LLVM IR as it was generated" in printed


def test_the_training_program_knows_no_device() -> None:
    program = (Path(__file__).parents[2] / "examples" / "jax_digits" / "train.py").read_text()
    for word in ("xpu", "tripont", "device_put", "jax.devices"):
        assert word not in program
