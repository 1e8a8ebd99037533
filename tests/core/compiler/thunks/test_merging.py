"""Small kernels in one launch: which become one, and that no others are in the code."""

from __future__ import annotations

import pytest
from tripont.core.compiler import compile
from tripont.core.compiler.formats import artifact
from tripont.core.compiler.formats.artifact import Copy, Kernel, Slice, Thunk, While
from tripont.core.compiler.targets.sycl import spirv
from tripont.core.compiler.thunks import merging

from tests.core.compiler.targets.sycl.programs import spirv_of


def kernel(number: int, cost: float = 100.0) -> Kernel:
    return Kernel(number, (Slice(0, 64 * number, 64), Slice(0, 64 * number + 64, 64)), 1, 1, cost)


def merged(thunks: list[Thunk], code: float = 1.0) -> list[object]:
    """Numbers of kernels, with the runs that became one as lists."""
    runs: list[list[int]] = []

    def as_kernel(run: list[Thunk]) -> Kernel:
        runs.append([t.function if isinstance(t, Kernel) else -1 for t in run])
        return Kernel(-len(runs), (), 1, 1, 0.0)

    def shown(thunk: Thunk) -> object:
        if isinstance(thunk, Kernel):
            return thunk.function if thunk.function >= 0 else runs[-thunk.function - 1]
        return type(thunk).__name__

    return [shown(t) for t in merging.merge(thunks, 1000.0, as_kernel, lambda _: code)]


def test_neighbours_share_a_launch() -> None:
    assert merged([kernel(n) for n in range(4)]) == [[0, 1, 2, 3]]


def test_what_is_worth_threads_stays_alone() -> None:
    thunks: list[Thunk] = [kernel(0), kernel(1), kernel(2, 5000.0), kernel(3), kernel(4, 5000.0)]
    assert merged(thunks) == [[0, 1], 2, 3, 4]


def test_copies_go_along_if_they_are_small() -> None:
    small = Copy(Slice(0, 0, 64), Slice(1, 0, 64))
    large = Copy(Slice(0, 0, 1 << 20), Slice(1, 0, 1 << 20))
    assert merged([small, small]) == ["Copy", "Copy"]  # nothing to launch
    assert merged([kernel(0), small, kernel(1), large, kernel(2)]) == [[0, -1, 1], "Copy", 2]


def test_runs_have_an_end() -> None:
    assert [
        len(r) if isinstance(r, list) else 1 for r in merged([kernel(n) for n in range(100)])
    ] == [
        merging.LONGEST_RUN,
        merging.LONGEST_RUN,
        100 - 2 * merging.LONGEST_RUN,
    ]
    wide = [
        Kernel(n, tuple(Slice(n, 64 * k, 64) for k in range(40)), 1, 1, 100.0) for n in range(3)
    ]
    assert merged(list(wide)) == [0, 1, 2]  # too many arguments for one launch


def test_long_functions_stay_alone() -> None:
    thunks: list[Thunk] = [kernel(n) for n in range(5)]
    assert merged(thunks, merging.MOST_CODE / 2) == [[0, 1], [2, 3], 4]
    assert merged(thunks, merging.MOST_CODE * 0.6) == [0, 1, 2, 3, 4]


def test_loops_are_merged_inside() -> None:
    loop = While((kernel(0),), (kernel(1), kernel(2)), Slice(0, 0, 1))
    assert merged([loop, kernel(3), kernel(4)]) == ["While", [3, 4]]
    assert len(loop.body) == 1


PROGRAM = b"""func.func @main(%a: tensor<64x32xf32>) -> (tensor<64xf32>, tensor<32xf32>) {
  %c = stablehlo.constant dense<0.0> : tensor<f32>
  %0 = stablehlo.exponential %a : tensor<64x32xf32>
  %1 = stablehlo.reduce(%0 init: %c) applies stablehlo.add across dimensions = [1]
    : (tensor<64x32xf32>, tensor<f32>) -> tensor<64xf32>
  %2 = stablehlo.broadcast_in_dim %1, dims = [0] : (tensor<64xf32>) -> tensor<64x32xf32>
  %3 = stablehlo.divide %0, %2 : tensor<64x32xf32>
  %4 = stablehlo.reduce(%3 init: %c) applies stablehlo.add across dimensions = [0]
    : (tensor<64x32xf32>, tensor<f32>) -> tensor<32xf32>
  return %1, %4 : tensor<64xf32>, tensor<32xf32>
}"""


@pytest.mark.parametrize("device", ["cpu,fp64", "gpu,fp64"])
def test_the_code_has_only_what_is_launched(device: str) -> None:
    options = {"target": "sycl", "device": device}
    executable = artifact.deserialize(compile.compile_program(PROGRAM, "mlir", b"", options))
    on_host = artifact.deserialize(compile.compile_program(PROGRAM, "mlir", b"", {}))
    assert len(on_host.thunks) > 1
    assert len(executable.thunks) == 1
    (name,) = spirv.kernel_names(spirv_of(executable))
    assert name == "merged.0"
    assert "steps in one launch" in executable.debug[executable.thunks[0].debug].text
