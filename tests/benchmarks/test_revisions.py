"""benchmarks.revisions measures the tripont that Python finds, and compares minima."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import revisions

PROGRAM = b"""func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {
  %y = stablehlo.add %x, %x : tensor<8xf32>
  return %y : tensor<8xf32>
}"""


@pytest.mark.parametrize(("options", "count"), [([], 2), (["--compile-only"], 1)])
def test_a_program_is_measured(tmp_path: Path, options: list[str], count: int) -> None:
    programs = {"add": (PROGRAM, [np.ones(8, np.float32)])}
    (tmp_path / "programs").write_bytes(pickle.dumps(programs))
    command = [sys.executable, "-P", revisions.__file__, "measure", "programs", "found", *options]
    subprocess.run(command, cwd=tmp_path, check=True)
    found = json.loads((tmp_path / "found").read_text())
    assert len(found["add"]) == count
    assert min(found["add"]) > 0


def test_minima_are_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = []
    for number, seconds in enumerate([0.2, 0.1, 0.4, 0.3]):
        files.append(tmp_path / str(number))
        files[-1].write_text(json.dumps({"add": [seconds]}))
    revisions.main(["compare", *map(str, files[:2]), "--", *map(str, files[2:])])
    assert capsys.readouterr().out == "| add | 100 | 300 |\nafter / before: 3.000\n"
