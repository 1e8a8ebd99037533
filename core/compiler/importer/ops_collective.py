"""Readers of operations between devices."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from operator import index
from typing import TYPE_CHECKING, Any, Final

from ..ir import hlo
from ..ir.errors import invalid_argument
from ..ir.moves import addition
from ..ir.registry import CallReader
from . import attributes, bindings
from .mesh_groups import AxisPart, replica_groups

if TYPE_CHECKING:
    from .stablehlo import BlockReader, Reader, Results

# How the bindings print a mesh and what names axes of it: they have no other way to read these attributes.
_AXIS_SIZE: Final = re.compile(r'"([^"]+)"\s*=\s*(\d+)')
_DEVICE_IDS: Final = re.compile(r"device_ids\s*=\s*\[([^\]]*)\]")
_MESH_NAME: Final = re.compile(r"mesh\s*=\s*@([\w.$-]+|\"[^\"]+\")")
_AXIS_REFERENCE: Final = re.compile(
    r'axis_ref<\s*name\s*=\s*"([^"]+)"(?:[^>]*?pre_size\s*=\s*(\d+),\s*size\s*=\s*(\d+))?'
)


def _groups(block: BlockReader, operation: Any) -> dict[str, Any]:
    """Replica groups and channel of a collective."""
    given = operation.attributes
    rows: tuple[tuple[int, ...], ...] = ()
    if "replica_groups" in given:
        try:
            rows = attributes.integer_rows(given["replica_groups"])
        except (TypeError, ValueError, BufferError):
            rows = _mesh_groups(block, operation, str(given["replica_groups"]))
    return {"replica_groups": _without_padding(rows), "channel_id": _channel(operation)}


def _without_padding(rows: Iterable[Iterable[int]]) -> tuple[tuple[int, ...], ...]:
    """Groups of different sizes are padded with -1."""
    return tuple(tuple(index(i) for i in row if i >= 0) for row in rows)


def _channel(operation: Any) -> int:
    given = operation.attributes
    if "channel_handle" not in given:
        return 0
    return int(bindings.ChannelHandle(given["channel_handle"]).handle)


def _mesh_groups(block: BlockReader, operation: Any, text: str) -> tuple[tuple[int, ...], ...]:
    """The groups of devices that differ only in their places along some axes of a mesh."""
    name = _MESH_NAME.search(text)
    mesh = _find_mesh(block, name[1].strip('"')) if name else None
    if mesh is None:
        raise block.unimplemented(operation, f"the replica groups {text} are not understood")
    sizes = {axis: int(size) for axis, size in _AXIS_SIZE.findall(mesh)}
    listed = _DEVICE_IDS.search(mesh)
    devices = (
        [int(d) for d in listed[1].split(",")] if listed is not None and listed[1].strip() else None
    )
    names = list(sizes)
    chosen = [
        AxisPart(names.index(axis), int(pre or 1), int(part or sizes[axis]))
        for axis, pre, part in _AXIS_REFERENCE.findall(text)
        if axis in sizes
    ]
    try:
        return replica_groups(list(sizes.values()), chosen, devices)
    except ValueError as error:
        raise invalid_argument(f"the replica groups {text}: {error}") from error


def _find_mesh(block: BlockReader, name: str) -> str | None:
    """The text of the mesh called ``name``."""
    for view in block.program.module.body.operations:
        operation = view.operation
        if operation.name == "sdy.mesh" and operation.attributes["sym_name"].value == name:
            return str(operation.attributes["mesh"])
    return None


def collective(opcode: str, body: bool = False, renamed: dict[str, str] | None = None) -> Reader:
    """A collective with a group list; ``renamed`` maps its integer attributes to ours."""

    def read(block: BlockReader, operation: Any) -> Results:
        _check_root(block, operation)
        values = _groups(block, operation)
        if opcode not in ("all-to-all", "collective-broadcast"):
            values["use_global_device_ids"] = attributes.flag(operation, "use_global_device_ids")
        for theirs, ours in (renamed or {}).items():
            # An all-to-all of HLO's other form has no dimensions.
            if theirs in operation.attributes or opcode != "all-to-all":
                values[ours] = attributes.integer(operation, theirs)
        called = (block.body(operation, 0, opcode.replace("-", "_") + "_body"),) if body else ()
        operands = block.operands(operation)
        if body:
            operands = block.promoted(operation, operands)
        return block.emit_results(operation, opcode, operands, values, called)

    return read


def _check_root(block: BlockReader, operation: Any) -> None:
    if attributes.flag(operation, "has_dynamic_root"):
        raise block.unimplemented(operation, "a root that is computed is not supported")


def read_collective_reduce(block: BlockReader, operation: Any) -> Results:
    """The first member of each group gets the sum, everybody else zeros: an all-reduce, and a permutation from each
    such member to itself.
    """
    _check_root(block, operation)
    given = block.program.module.operation.attributes
    replicas, partitions = (
        given[f"mhlo.num_{what}"].value if f"mhlo.num_{what}" in given else 1
        for what in ("replicas", "partitions")
    )
    values = _groups(block, operation)
    channel = values["channel_id"]
    flattened = attributes.flag(operation, "use_global_device_ids")
    if flattened and replicas > 1 and partitions > 1:
        raise block.unimplemented(
            operation, "groups of device numbers, with replicas and partitions"
        )
    across_partitions = channel > 0 and (partitions > 1 or not flattened)
    count = partitions if across_partitions else replicas
    groups = values["replica_groups"] or (tuple(range(count)),)
    members = {n for group in groups for n in group}
    every = (*groups, *((n,) for n in range(count) if n not in members))
    # An all-reduce has no mode "cross_partition": its groups are of the numbers of devices then.
    numbers = tuple(
        tuple(replica * partitions + n for n in group)
        for replica in range(replicas if across_partitions else 1)
        for group in every
    )
    called = (block.body(operation, 0, "collective_reduce_body"),)
    reduced = block.emit_results(
        operation,
        "all-reduce",
        block.promoted(operation, block.operands(operation)),
        {
            "replica_groups": numbers,
            "channel_id": channel if across_partitions else 0,
            "use_global_device_ids": across_partitions,
        },
        called,
    )
    permutation = {
        "source_target_pairs": tuple((group[0], group[0]) for group in groups),
        "channel_id": channel if across_partitions else 0,
    }
    return block.emit_results(operation, "collective-permute", reduced, permutation)


def read_collective_permute(block: BlockReader, operation: Any) -> Results:
    pairs = attributes.integer_rows(operation.attributes["source_target_pairs"])
    values = {"source_target_pairs": pairs, "channel_id": _channel(operation)}
    return block.emit_results(operation, "collective-permute", block.operands(operation), values)


def read_cross_replica_sum(block: BlockReader, operation: Any) -> Results:
    """``mhlo.cross-replica-sum``, from before there was an all-reduce."""
    (operand,) = block.operands(operation)
    body = addition(operand.dtype, block.program.unique_name("sum"))
    values = {**_groups(block, operation), "use_global_device_ids": False}
    return block.emit_results(operation, "all-reduce", [operand], values, (body,))


def read_async_start(block: BlockReader, operation: Any) -> Results:
    """A call starts the collective: the schedule is ours to make. Its value is the future.

    StableHLO has it in a region, MHLO (``copy-start`` and ``async-start`` of HLO) in a function.
    """
    if "called_computation" in operation.attributes:
        name = attributes.symbol(operation.attributes["called_computation"])
        body = block.program.function(name)
    else:
        body = block.body(operation, 0, "async")
    shapes = [r.shape for r in body.results]
    shape = shapes[0] if len(shapes) == 1 else hlo.TupleShape(tuple(shapes))  # type: ignore[arg-type]
    return [block.emit("call", shape, block.operands(operation), called=(body,))]


def read_async_done(block: BlockReader, operation: Any) -> Results:
    (future,) = block.operands(operation)
    if not isinstance(future.shape, hlo.TupleShape):
        return [future]
    return [
        block.emit("get-tuple-element", shape, (future,), {"index": n})
        for n, shape in enumerate(future.result_shapes)
    ]


# Where a custom call that starts a collective says which, as JSON.
_CONFIG: Final = "async_collective_config"


def started(opcode: str, *dimensions: str, body: bool = False) -> CallReader:
    """JAX's custom call that starts a collective of one array (``psum_start``), which has the result's shape.

    The collective itself: the schedule is ours to make. ``dimensions``: names of its integers in the call and in ours.
    """

    def read(block: BlockReader, operation: Any, _: dict[str, Any]) -> Results | None:
        frontend = operation.attributes.get("mhlo.frontend_attributes")
        given = {} if frontend is None else attributes.python_value(frontend)
        operands = block.operands(operation)
        if _CONFIG not in given or len(operands) != 1 or len(operation.results) != 1:
            return None
        try:
            values = _started(opcode, json.loads(given[_CONFIG]), dimensions)
            names = operation.attributes["called_computations"] if body else ()
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            message = f"its {_CONFIG} is not one of {opcode}: {error!r}"
            raise block.invalid(operation, message) from error
        called = [block.program.function(attributes.symbol(name)) for name in names]
        return [block.emit(opcode, block.shape(operation), operands, values, called)]

    return read


def _started(opcode: str, config: dict[str, Any], dimensions: Sequence[str]) -> dict[str, Any]:
    values: dict[str, Any] = {"channel_id": index(config.get("channel_id", 0))}
    values |= {name: index(config[name]) for name in dimensions}
    if opcode == "collective-permute":
        pairs = tuple((index(source), index(target)) for source, target in config["permutation"])
        return values | {"source_target_pairs": pairs}
    values["replica_groups"] = _without_padding(config["replica_groups"])
    if opcode != "all-to-all":
        values["use_global_device_ids"] = bool(config.get("use_global_device_ids", False))
    return values


def device_number(opcode: str) -> Reader:
    def read(block: BlockReader, operation: Any) -> Results:
        return block.emit(opcode, block.shape(operation))

    return read
