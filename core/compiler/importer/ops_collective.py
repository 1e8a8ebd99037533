"""Readers of operations between devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from . import attributes, bindings

if TYPE_CHECKING:
    from .stablehlo import BlockReader, Reader, Results


def _groups(operation: Any) -> dict[str, Any]:
    """Replica groups (without the -1 that pads them) and channel of a collective."""
    given = operation.attributes
    try:
        rows = attributes.integer_rows(given["replica_groups"]) if "replica_groups" in given else ()
    except (TypeError, ValueError, BufferError):
        rows = None
    groups = tuple(tuple(i for i in row if i >= 0) for row in rows) if rows is not None else None
    channel = 0
    if "channel_handle" in given:
        channel = int(bindings.ChannelHandle(given["channel_handle"]).handle)
    return {"replica_groups": groups, "channel_id": channel}


def _collective(opcode: str, body: bool = False, renamed: dict[str, str] | None = None) -> Reader:
    """A collective with a group list; ``renamed`` maps its integer attributes to ours."""

    def read(block: BlockReader, operation: Any) -> Results:
        values = _groups(operation)
        if values["replica_groups"] is None:
            raise block.unimplemented(
                operation, "replica groups given by mesh axes are not supported"
            )
        if opcode != "all-to-all":
            values["use_global_device_ids"] = attributes.flag(operation, "use_global_device_ids")
        for theirs, ours in (renamed or {}).items():
            values[ours] = attributes.integer(operation, theirs)
        called = (block.body(operation, 0, opcode.replace("-", "_") + "_body"),) if body else ()
        return block.emit_results(operation, opcode, block.operands(operation), values, called)

    return read


def read_collective_permute(block: BlockReader, operation: Any) -> Results:
    channel = _groups(operation)["channel_id"]
    pairs = attributes.integer_rows(operation.attributes["source_target_pairs"])
    values = {"source_target_pairs": pairs, "channel_id": channel}
    return block.emit(
        "collective-permute", block.shape(operation), block.operands(operation), values
    )


def read_alone(block: BlockReader, operation: Any) -> Results:
    """``collective_broadcast`` and the older ``cross-replica-sum``, which are nothing for one device."""
    groups = _groups(operation)["replica_groups"]
    given = block.program.module.operation.attributes
    replicas = given["mhlo.num_replicas"].value if "mhlo.num_replicas" in given else 1
    alone = groups is not None and all(len(group) == 1 for group in groups)
    if not alone or (not groups and replicas != 1):
        raise block.unimplemented(operation, "this operation is supported on one device only")
    return block.operands(operation)[:1]


def _device_number(opcode: str) -> Reader:
    def read(block: BlockReader, operation: Any) -> Results:
        return block.emit(opcode, block.shape(operation))

    return read


READERS: Final[dict[str, Callable[[BlockReader, Any], Results]]] = {
    f"{dialect}.{name}": reader
    for dialect in ("stablehlo", "mhlo")
    for name, reader in {
        "all_reduce": _collective("all-reduce", body=True),
        "all_gather": _collective("all-gather", renamed={"all_gather_dim": "all_gather_dimension"}),
        "all_to_all": _collective(
            "all-to-all",
            renamed={"split_dimension": "split_dimension", "concat_dimension": "concat_dimension"},
        ),
        "reduce_scatter": _collective(
            "reduce-scatter", body=True, renamed={"scatter_dimension": "scatter_dimension"}
        ),
        "collective_permute": read_collective_permute,
        "collective_broadcast": read_alone,
        "cross-replica-sum": read_alone,
        "partition_id": _device_number("partition-id"),
        "replica_id": _device_number("replica-id"),
    }.items()
}
