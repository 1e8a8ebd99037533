"""Operations that only newer versions of StableHLO have; with an older jaxlib they cannot be parsed, and are skipped."""

from __future__ import annotations

import pytest
from jaxlib.mlir.dialects import stablehlo
from tripont.core.compiler.compile import compile_module
from tripont.core.compiler.importer import read_program
from tripont.core.compiler.ir.errors import CompileError

pytestmark = pytest.mark.skipif(
    not hasattr(stablehlo, "CollectiveReduceOp"), reason="jaxlib has StableHLO before 1.19"
)

ADD = """({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %s = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %s : tensor<f32>
  })"""


def program(operation: str, replicas: int, partitions: int, extra: str = "") -> bytes:
    return f"""
module attributes {{mhlo.num_replicas = {replicas} : i32, mhlo.num_partitions = {partitions} : i32}} {{
func.func @main(%x: tensor<5xf32>, %i: tensor<1xi32>) -> tensor<5xf32> {{
  %r = "stablehlo.{operation} : (tensor<5xf32>{extra}) -> tensor<5xf32>
  return %r : tensor<5xf32>
}}}}""".encode()


CHANNEL = ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"


@pytest.mark.parametrize(
    ("replicas", "partitions", "groups", "more", "reduced", "pairs"),
    [
        (4, 1, [[0, 1, 2, 3]], "", ((0, 1, 2, 3),), ((0, 0),)),
        (4, 1, [[1, 0], [2, 3]], "", ((1, 0), (2, 3)), ((1, 1), (2, 2))),
        (4, 1, [[1, 0]], "", ((1, 0), (2,), (3,)), ((1, 1),)),
        (1, 2, [[1, 0]], CHANNEL, ((1, 0),), ((1, 1),)),
        (2, 2, [[1, 0]], CHANNEL, ((1, 0), (3, 2)), ((1, 1),)),
    ],
)
def test_collective_reduce(
    replicas: int,
    partitions: int,
    groups: list[list[int]],
    more: str,
    reduced: object,
    pairs: object,
) -> None:
    """A sum on every device, of which all but the first of each group get zeros."""
    shape = f"{len(groups)}x{len(groups[0])}"
    text = f'collective_reduce"(%x) {ADD} {{replica_groups = dense<{groups}> : tensor<{shape}xi64>{more}}}'
    module = read_program(program(text, replicas, partitions), "mlir")
    sums, permutation = module.entry.instructions[-2:]
    assert (sums.opcode, permutation.opcode) == ("all-reduce", "collective-permute")
    assert sums.attributes["replica_groups"] == reduced
    assert permutation.attributes["source_target_pairs"] == pairs
    channel = 1 if more else 0
    assert sums.attributes["channel_id"] == permutation.attributes["channel_id"] == channel
    assert sums.attributes["use_global_device_ids"] == bool(more)
    compile_module(module, {})


@pytest.mark.parametrize("operation", ["collective_reduce", "collective_broadcast"])
def test_a_computed_root_is_refused(operation: str) -> None:
    body = f" {ADD}" if operation == "collective_reduce" else ""
    text = f'{operation}"(%x, %i){body} {{has_dynamic_root, replica_groups = dense<[[0]]> : tensor<1x1xi64>}}'
    with pytest.raises(CompileError, match=f"{operation}.*a root that is computed") as caught:
        read_program(program(text, 1, 1, ", tensor<1xi32>"), "mlir")
    assert caught.value.code == "UNIMPLEMENTED"
