"""Partitioning: the program of one device from one for all, and what the partitioner refuses."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tripont.core.compiler.compile import compile_program
from tripont.core.compiler.formats import artifact, wire_format
from tripont.core.compiler.importer.program import read_program, read_signature
from tripont.core.compiler.ir.errors import CompileError
from tripont.core.compiler.xla.partition import BuildOptions, partition, read_options

SHARDED = b"""
module @f attributes {mhlo.num_partitions = 2 : i32, mhlo.num_replicas = 1 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(
      %arg0: tensor<8x4xf32> {jax.buffer_donor = true, sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>},
      %arg1: tensor<4xf32> {mhlo.memory_kind = "pinned_host", sdy.sharding = #sdy.sharding<@mesh, [{}]>})
      -> (tensor<4xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %cst = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [0]
      : (tensor<8x4xf32>, tensor<f32>) -> tensor<4xf32>
    %1 = stablehlo.add %0, %arg1 : tensor<4xf32>
    return %1 : tensor<4xf32>
  }
}
"""


def test_the_program_of_one_device() -> None:
    partitioned = partition(SHARDED, "mlir", BuildOptions(1, 2))
    module = read_program(partitioned.module, "hlo")
    assert [p.shape.dims for p in module.entry.parameters] == [(4, 4), (4,)]  # type: ignore[union-attr]
    (reduce,) = (i for i in module.entry.instructions if i.opcode == "all-reduce")
    assert reduce.attributes["replica_groups"] == ((0, 1),)
    assert reduce.attributes["use_global_device_ids"]
    assert module.buffer_donors == (0,)
    # Whole fields of the module: spmd_output_sharding is there, spmd_parameters_shardings twice.
    assert [f.number for f in wire_format.fields(partitioned.shardings)] == [12, 14, 14]


def test_a_program_that_says_so_itself_is_partitioned() -> None:
    """Without compile options, as the command line has it."""
    signature = read_signature(SHARDED, "mlir")
    assert (signature.num_replicas, signature.num_partitions) == (1, 2)
    assert signature.is_sharded
    executable = artifact.deserialize(compile_program(SHARDED, "mlir", b"", {}))
    assert (executable.num_replicas, executable.num_partitions) == (1, 2)
    assert [str(p.shape) for p in executable.parameters] == ["f32[4,4]", "f32[4]"]
    assert [p.memory_kind for p in executable.parameters] == ["device", "pinned_host"]


AFTER_OTHERS = f"""
import jax
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.xla.partition import BuildOptions, partition

with jax.default_device(jax.devices("cpu")[0]):
    for n in range(20):
        jax.jit(lambda x: x * n)(1.0)
for _ in range(2):
    partitioned = partition({SHARDED!r}, "mlir", BuildOptions(1, 2))
    print([p.shape.dims for p in read_program(partitioned.module, "hlo").entry.parameters])
"""


def test_after_other_programs_that_xla_compiled() -> None:
    """jaxlib 0.12 numbers the passes of all of them."""
    done = subprocess.run(
        [sys.executable, "-c", AFTER_OTHERS],
        stdout=subprocess.PIPE,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0
    assert done.stdout.splitlines() == ["[(4, 4), (4,)]"] * 2


def test_what_the_partitioner_refuses() -> None:
    bad = SHARDED.replace(b'<@mesh, [{"x"}, {}]>', b'<@mesh, [{"z"}, {}]>')
    with pytest.raises(CompileError) as caught:
        compile_program(bad, "mlir", b"", {})
    assert caught.value.code == "INVALID_ARGUMENT"


def test_options() -> None:
    assert read_options(b"").num_partitions == 1
    proto = bytes.fromhex(
        "1a06200128043001"
    )  # num_replicas 1, num_partitions 4, use_spmd_partitioning
    found = read_options(proto)
    assert (found.num_replicas, found.num_partitions) == (1, 4)
    assert found.use_spmd_partitioning
