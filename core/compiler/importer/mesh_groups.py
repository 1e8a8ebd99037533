"""Replica groups given by axes of a mesh of devices: the devices that differ only in their places along them.

XLA's partitioner names groups so. :func:`replica_groups` is the meaning; :func:`listed` writes the groups out in the
bytes of an HloModuleProto, because jaxlib's conversion to StableHLO leaves out how a mesh orders its devices.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final, NamedTuple

from ..formats.wire_format import Field, fields, integers, message, submessages, unpacked
from ..ir.hlo import strides_of

Groups = tuple[tuple[int, ...], ...]

# Field numbers of xla/service/hlo.proto and xla/xla_data.proto.
_REPLICA_GROUPS: Final = 49  # of an instruction: ReplicaGroup, whose field 1 are the devices
_MESH_AXES_GROUPS: Final = 93  # of an instruction: MeshAxesReplicaGroupListProto
_MESH, _AXES = 1, 2
_MESH_AXES, _DEVICE_IDS, _IOTA_TRANSFORM = 1, 2, 3
_AXIS_SIZE: Final = 2
_RESHAPE, _TRANSPOSE = 1, 2
_AXIS_INDEX, _SUB_AXIS = 1, 2
_PRE_SIZE, _SUB_SIZE = 1, 2
#: How the field starts in the bytes of an instruction.
KEY: Final = message(_MESH_AXES_GROUPS, b"")[:-1]


class AxisPart(NamedTuple):
    """``size`` consecutive factors of an axis, ``before`` the product of those that are major to them.

    All of an axis: (axis, 1, its size).
    """

    axis: int
    before: int
    size: int


def replica_groups(
    sizes: Sequence[int], chosen: Sequence[AxisPart], devices: Sequence[int] | None = None
) -> Groups:
    """Groups of the devices that differ only along ``chosen``, in its order, the last fastest.

    ``sizes``: of the mesh's axes. ``devices``: the mesh's, its last axis fastest; by default they are numbered so.
    Raises ValueError if a part is not one of its axis.
    """
    devices = range(math.prod(sizes)) if devices is None else devices
    if len(devices) != math.prod(sizes):
        raise ValueError(
            f"a mesh of {list(sizes)} has {math.prod(sizes)} devices, not {len(devices)}"
        )
    # Each axis becomes a list of factors, major to minor: a part of an axis is one of them, or several in a row.
    factors: list[AxisPart] = []
    for axis, size in enumerate(sizes):
        cuts = {1, size}
        for part in chosen:
            if part.axis == axis:
                cuts |= {part.before, part.before * part.size}
        ordered = sorted(cuts)
        if (
            ordered[0] < 1
            or ordered[-1] != size
            or any(b % a for a, b in itertools.pairwise(ordered))
        ):
            raise ValueError(f"{list(chosen)} do not divide the axes of a mesh of {list(sizes)}")
        factors += [AxisPart(axis, a, b // a) for a, b in itertools.pairwise(ordered)]
    inside = [
        n
        for part in chosen
        for n, factor in enumerate(factors)
        if factor.axis == part.axis
        and part.before <= factor.before
        and factor.before * factor.size <= part.before * part.size
    ]
    outside = [n for n in range(len(factors)) if n not in inside]
    strides = strides_of([f.size for f in factors])

    def places(numbers: list[int]) -> list[int]:
        """Where the devices lie that differ in these factors alone, the last of them fastest."""
        ranges = [range(factors[n].size) for n in numbers]
        return [
            sum(i * strides[n] for i, n in zip(index, numbers, strict=True))
            for index in itertools.product(*ranges)
        ]

    return tuple(tuple(devices[a + b] for b in places(inside)) for a in places(outside))


def listed(field: Field) -> bytes:
    """A field of an instruction, as bytes: groups given by axes of a mesh become a list, any other stays as it is.

    Raises ValueError for axes that the mesh does not have.
    """
    if field.number != _MESH_AXES_GROUPS or isinstance(field.value, int):
        return bytes(field.whole)
    mesh = next(submessages(field.value, _MESH), memoryview(b""))
    sizes = [_number(axis, _AXIS_SIZE) for axis in submessages(mesh, _MESH_AXES)]
    chosen = []
    for reference in submessages(field.value, _AXES):
        axis = _number(reference, _AXIS_INDEX)
        if not axis < len(sizes):
            raise ValueError(f"a mesh of {sizes} has no axis {axis}")
        part = AxisPart(axis, 1, sizes[axis])
        for cut in submessages(reference, _SUB_AXIS):
            part = AxisPart(axis, _number(cut, _PRE_SIZE), _number(cut, _SUB_SIZE))
        chosen.append(part)
    groups = replica_groups(sizes, chosen, _devices(mesh))
    return b"".join(message(_REPLICA_GROUPS, integers(1, group)) for group in groups)


def _devices(mesh: memoryview) -> list[int] | None:
    """The devices of a MeshProto, its last axis fastest; None if they are just numbered."""
    given = _numbers(mesh, _DEVICE_IDS)
    if given:
        return given
    for transform in submessages(mesh, _IOTA_TRANSFORM):
        sizes, order = _numbers(transform, _RESHAPE), _numbers(transform, _TRANSPOSE)
        if sorted(order) != list(range(len(sizes))):
            raise ValueError(f"{order} does not order dimensions of {sizes}")
        strides = strides_of(sizes)
        return [
            sum(i * strides[n] for i, n in zip(index, order, strict=True))
            for index in itertools.product(*(range(sizes[n]) for n in order))
        ]
    return None


def _numbers(data: memoryview, number: int) -> list[int]:
    return [n for field in fields(data) if field.number == number for n in unpacked(field)]


def _number(data: memoryview, number: int) -> int:
    return next(iter(_numbers(data, number)), 0)
