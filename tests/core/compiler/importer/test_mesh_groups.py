"""Replica groups that are given by axes of a mesh, and the bytes in which XLA's partitioner writes them."""

from __future__ import annotations

import itertools

import pytest
from tripont.core.compiler.formats.wire_format import fields, integer, integers, message
from tripont.core.compiler.importer.mesh_groups import KEY, AxisPart, listed, replica_groups
from tripont.core.compiler.importer.program import read_program
from tripont.core.compiler.xla.partition import BuildOptions, partition


@pytest.mark.parametrize(
    ("sizes", "chosen", "devices", "expected"),
    [
        ((2, 2), [(0, 1, 2)], None, ((0, 2), (1, 3))),
        ((2, 2), [(1, 1, 2)], None, ((0, 1), (2, 3))),
        ((2, 2), [(1, 1, 2), (0, 1, 2)], None, ((0, 2, 1, 3),)),
        ((2, 2), [(1, 1, 2)], (3, 0, 1, 2), ((3, 0), (1, 2))),
        ((8,), [(0, 1, 2)], None, ((0, 4), (1, 5), (2, 6), (3, 7))),
        ((8,), [(0, 2, 2)], None, ((0, 2), (1, 3), (4, 6), (5, 7))),
        ((8,), [(0, 4, 2), (0, 1, 2)], None, ((0, 4, 1, 5), (2, 6, 3, 7))),
        ((2, 1), [], None, ((0,), (1,))),
    ],
)
def test_groups(sizes, chosen, devices, expected) -> None:
    assert replica_groups(sizes, [AxisPart(*part) for part in chosen], devices) == expected


@pytest.mark.parametrize(
    ("sizes", "chosen", "devices"),
    [
        ((4,), [(0, 3, 2)], None),
        ((4,), [(0, 2, 4)], None),
        ((4,), [(0, 0, 4)], None),
        ((4,), [(0, 1, 4)], (0, 1)),
    ],
)
def test_what_no_mesh_has(sizes, chosen, devices) -> None:
    with pytest.raises(ValueError, match="mesh"):
        replica_groups(sizes, [AxisPart(*part) for part in chosen], devices)


def _field(mesh: bytes, *axes: bytes) -> bytes:
    return message(93, message(1, mesh) + b"".join(message(2, axis) for axis in axes))


def _listed(data: bytes) -> list[list[int]]:
    assert data.startswith(KEY)
    (field,) = fields(data)
    groups = []
    for group in fields(listed(field)):
        assert group.number == 49
        (row,) = fields(group.value)
        assert row.number == 1
        groups.append(list(row.value))  # numbers below 128: a byte each
    return groups


AXES = b"".join(message(1, integer(2, size)) for size in (2, 4))


def test_bytes() -> None:
    y, x = integer(1, 1), b""  # an axis 0 is absent, as proto3 has it
    assert _listed(_field(AXES, y)) == [[0, 1, 2, 3], [4, 5, 6, 7]]
    assert _listed(_field(AXES, x)) == [[0, 4], [1, 5], [2, 6], [3, 7]]
    part = y + message(2, integer(1, 2) + integer(2, 2))
    assert _listed(_field(AXES, part, x)) == [[0, 4, 1, 5], [2, 6, 3, 7]]
    devices = integers(2, [7, 6, 5, 4, 3, 2, 1, 0])
    assert _listed(_field(AXES + devices, y)) == [[7, 6, 5, 4], [3, 2, 1, 0]]
    transform = message(3, integers(1, [4, 2]) + integers(2, [1, 0]))
    assert _listed(_field(AXES + transform, y)) == [[0, 2, 4, 6], [1, 3, 5, 7]]


def test_bytes_that_are_wrong() -> None:
    (field,) = fields(_field(AXES, integer(1, 2)))
    with pytest.raises(ValueError, match="no axis 2"):
        listed(field)
    (field,) = fields(_field(AXES + message(3, integers(1, [4, 2]) + integers(2, [1, 1])), b""))
    with pytest.raises(ValueError, match="does not order"):
        listed(field)


PROGRAM = """
module @f attributes {{mhlo.num_partitions = 8 : i32, mhlo.num_replicas = 1 : i32}} {{
  sdy.mesh @mesh = <["x"=2, "y"=4]{devices}>
  func.func public @main(
      %arg0: tensor<8x8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{{reduced}}}, {{{kept}}}]>}})
      -> (tensor<8xf32> {{sdy.sharding = #sdy.sharding<@mesh, [{{{kept}}}]>}}) {{
    %cst = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.reduce(%arg0 init: %cst) applies stablehlo.add across dimensions = [0]
      : (tensor<8x8xf32>, tensor<f32>) -> tensor<8xf32>
    return %0 : tensor<8xf32>
  }}
}}
"""


@pytest.mark.parametrize("devices", [None, (0, 4, 1, 5, 2, 6, 3, 7), (3, 1, 2, 0, 7, 4, 5, 6)])
@pytest.mark.parametrize(
    ("reduced", "kept", "axes", "same"),
    [
        ('"x"', '"y"', (0,), (1, 2)),
        ('"y"', '"x"', (1, 2), (0,)),
        ('"y":(1)2', '"y":(2)2', (1,), (2,)),
        ('"y":(2)2, "x"', "", (2, 0), ()),
    ],
)
def test_what_the_partitioner_writes(devices, reduced, kept, axes, same) -> None:
    """The sum over a sharded dimension adds each of its parts once, and only those of the same part of the other."""
    listed = f", device_ids={list(devices)}" if devices else ""
    program = PROGRAM.format(devices=listed, reduced=reduced, kept=kept)
    partitioned = partition(program.encode(), "mlir", BuildOptions(1, 8))
    module = read_program(partitioned.module, "hlo")
    (reduce,) = (i for i in module.entry.instructions if i.opcode == "all-reduce")
    places = list(itertools.product(range(2), range(2), range(2)))  # x, and the two halves of y
    place = dict(zip(devices or range(8), places, strict=True))
    groups = reduce.attributes["replica_groups"]
    assert sorted(itertools.chain(*groups)) == list(range(8))
    for group in groups:
        parts = [tuple(place[d][axis] for axis in axes) for d in group]
        assert sorted(parts) == list(itertools.product(range(2), repeat=len(axes)))
        assert len({tuple(place[d][axis] for axis in same) for d in group}) == 1
