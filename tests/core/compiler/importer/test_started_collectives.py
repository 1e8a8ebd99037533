"""JAX's custom calls that start a collective and wait for it are the collective."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.ir.errors import CompileError

GROUPS = {"replica_groups": [[0, 1], [2, 3]], "channel_id": 1}
GLOBAL = {**GROUPS, "use_global_device_ids": True}
CHANNEL = "channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"
PLAIN = f"replica_groups = dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>, {CHANNEL}"
ADD = """({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
  %s = stablehlo.add %a, %b : tensor<f32>
  stablehlo.return %s : tensor<f32> })"""

# Opcode: what the call says, the result's type, and the operation with its attributes and region.
COLLECTIVES: dict[str, tuple[dict[str, Any], str, str]] = {
    "all-reduce": (GLOBAL, "8x4", f'"stablehlo.all_reduce"(%0) {ADD} {{{PLAIN}, use_global_device_ids}}'),
    "all-gather": (
        {**GLOBAL, "all_gather_dimension": 1},
        "8x8",
        f'"stablehlo.all_gather"(%0) {{all_gather_dim = 1 : i64, {PLAIN}, use_global_device_ids}}',
    ),
    "reduce-scatter": (
        {**GLOBAL, "scatter_dimension": 0, "tiled": True},
        "4x4",
        f'"stablehlo.reduce_scatter"(%0) {ADD} {{scatter_dimension = 0 : i64, {PLAIN}, use_global_device_ids}}',
    ),
    "all-to-all": (
        {**GROUPS, "split_dimension": 0, "concat_dimension": 1, "split_count": 2},
        "4x8",
        '"stablehlo.all_to_all"(%0) {split_dimension = 0 : i64, concat_dimension = 1 : i64, split_count = 2 : i64,'
        f" {PLAIN}}}",
    ),
    "collective-permute": (
        {"permutation": [[0, 1], [1, 0]], "channel_id": 1},
        "8x4",
        '"stablehlo.collective_permute"(%0) {source_target_pairs = dense<[[0, 1], [1, 0]]> : tensor<2x2xi64>,'
        f" {CHANNEL}}}",
    ),
}  # fmt: skip


def started(opcode: str, config: str, result: str) -> str:
    body = ", called_computations = [@sum]" if "reduce" in opcode else ""
    said = f"mhlo.frontend_attributes = {{async_collective_config = {json.dumps(config)}}}"
    return f"""
func.func private @sum(%a: tensor<f32>, %b: tensor<f32>) -> tensor<f32> {{
  %s = stablehlo.add %a, %b : tensor<f32>
  return %s : tensor<f32> }}
func.func @main(%0: tensor<8x4xf32>) -> tensor<{result}xf32> {{
  %f = stablehlo.custom_call @"{opcode}-start"(%0) {{{said}{body}}}
    : (tensor<8x4xf32>) -> tensor<{result}xf32>
  %r = stablehlo.custom_call @"{opcode}-done"(%f) : (tensor<{result}xf32>) -> tensor<{result}xf32>
  return %r : tensor<{result}xf32> }}"""


@pytest.mark.parametrize("opcode", COLLECTIVES)
def test_a_started_collective_is_the_collective(opcode: str) -> None:
    config, result, operation = COLLECTIVES[opcode]
    plain = f"""
func.func @main(%0: tensor<8x4xf32>) -> tensor<{result}xf32> {{
  %r = {operation} : (tensor<8x4xf32>) -> tensor<{result}xf32>
  return %r : tensor<{result}xf32> }}"""
    wanted, given = (
        next(
            i for i in read_program(text.encode(), "mlir").entry.instructions if i.opcode == opcode
        )
        for text in (plain, started(opcode, json.dumps(config), result))
    )
    assert (given.shape, given.attributes) == (wanted.shape, wanted.attributes)
    assert [[i.opcode for i in c.instructions] for c in given.called] == [
        [i.opcode for i in c.instructions] for c in wanted.called
    ]


@pytest.mark.parametrize(
    ("opcode", "config"),
    [
        ("all-reduce", "not JSON"),
        ("all-reduce", "[1]"),
        ("all-reduce", '{"replica_groups": 3}'),
        ("all-reduce", '{"replica_groups": [["a"]]}'),
        ("all-gather", '{"replica_groups": [[0, 1]]}'),
        ("all-gather", '{"replica_groups": [[0, 1]], "all_gather_dimension": 0.5}'),
        ("collective-permute", '{"permutation": [[0]]}'),
        ("collective-permute", '{"permutation": [[0, 1]], "channel_id": "x"}'),
    ],
)
def test_what_no_collective_says(opcode: str, config: str) -> None:
    text = started(opcode, config, "8x4")
    with pytest.raises(CompileError, match=f"is not one of {opcode}") as raised:
        read_program(text.encode(), "mlir")
    assert raised.value.code == "INVALID_ARGUMENT"


def test_a_call_that_says_nothing_is_no_collective() -> None:
    text = started("all-reduce", "{}", "8x4").replace("async_collective_config", "other")
    entry = read_program(text.encode(), "mlir").entry
    assert [i.opcode for i in entry.instructions] == ["parameter", "custom-call"]
