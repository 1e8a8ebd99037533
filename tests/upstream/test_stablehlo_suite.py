"""The runner of StableHLO's tests, on a small checkout of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.upstream import stablehlo_suite

RIGHT = """// RUN: nothing
func.func @adds() {
  %0 = stablehlo.constant dense<[1, 2]> : tensor<2xi64>
  %1 = stablehlo.add %0, %0 : tensor<2xi64>
  check.expect_eq_const %1, dense<[
    2, 4]> : tensor<2xi64>
  func.return
}
// -----
func.func @divides() {
  %x = stablehlo.constant dense<[1.0, 0.0]> : tensor<2xf32>
  %1 = stablehlo.divide %x, %x : tensor<2xf32>
  "check.expect_almost_eq_const"(%1) <{value = dense<[1.00001, 0x7FC00000]> : tensor<2xf32>}> : (tensor<2xf32>) -> ()
  func.return
}
// -----
module {
  func.func public @main() -> (tensor<f32> {jax.result_info = ""}) {
    %0 = call @inputs() : () -> tensor<f32>
    %1 = stablehlo.negate %0 : tensor<f32>
    stablehlo.custom_call @check.expect_close(%1, %0) {has_side_effect = true} : (tensor<f32>, tensor<f32>) -> ()
    return %1 : tensor<f32>
  }
  func.func private @inputs() -> tensor<f32> {
    %cst = stablehlo.constant dense<0.0> : tensor<f32>
    return %cst : tensor<f32>
  }
}
"""
WRONG = RIGHT.replace("2, 4]", "2, 5]")
FAR = RIGHT.replace("1.00001", "1.001")
REFUSED = """func.func @main() {
  %0 = stablehlo.constant dense<1> : tensor<i32>
  %1 = stablehlo.custom_call @nobody_knows(%0) : (tensor<i32>) -> tensor<i32>
  check.expect_eq %1, %0 : tensor<i32>
  func.return
}
// -----
func.func @main() { func.return }
"""


@pytest.mark.parametrize("how", [[], ["--folded"]])
@pytest.mark.parametrize(
    ("tests", "status", "shown"),
    [
        (RIGHT, 0, ["     3 right"]),
        (WRONG, 1, ["some.mlir:0: WRONG: 1 of 2, such as 4 for 5", "     2 right", "     1 wrong"]),
        (FAR, 1, ["some.mlir:1: WRONG: 1 of 2", "     2 right", "     1 wrong"]),
        (REFUSED, 1, ["refused: ", "nobody_knows", "     1 left out: checks nothing"]),
    ],
)
def test_what_is_wrong_is_found(
    how: list[str],
    tests: str,
    status: int,
    shown: list[str],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    folder = tmp_path / "stablehlo" / "testdata"
    folder.mkdir(parents=True)
    (folder / "some.mlir").write_text(tests)
    assert stablehlo_suite.main(["--stablehlo", str(tmp_path), *how]) == status
    output = capsys.readouterr().out
    for text in shown:
        assert text in output


def test_constants_are_behind_barriers() -> None:
    (_, text), *_ = [("", part) for part in RIGHT.split("// -----")]
    assert "optimization_barrier" in stablehlo_suite.read(text, barriers=True).text
    assert "optimization_barrier" not in stablehlo_suite.read(text, barriers=False).text
