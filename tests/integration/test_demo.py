"""The demo does what it says: it trains on xpu to the required accuracy and leaves the compiler's stages behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

DEMO = Path(__file__).parents[2] / "examples" / "jax_digits" / "main.py"


def test_digits(subprocess_environment: dict[str, str], tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, str(DEMO), "--dump", str(tmp_path / "dump")],
        env=subprocess_environment,
        capture_output=True,
        text=True,
        timeout=280,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    assert "trains on xpu" in result.stdout
    assert "accuracy on the test images" in result.stdout
    names = [path.name for path in (tmp_path / "dump").iterdir()]
    for stage in (
        "stablehlo.mlir",
        "after_optimizations.txt",
        "thunk_sequence.txt",
        "ir-with-opt.ll",
        ".spv" if os.environ.get("TRIPONT_DEVICE", "").startswith("sycl") else ".s",
    ):
        assert any(name.endswith(stage) and "train_step" in name for name in names), (stage, names)
    assert "LLVM IR as it was generated" in result.stdout


def test_the_training_program_knows_no_device() -> None:
    program = DEMO.with_name("train.py").read_text()
    for word in ("xpu", "tripont", "device_put", "jax.devices"):
        assert word not in program
