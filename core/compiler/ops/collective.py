"""Collectives, and the numbers of devices. ``replica_groups``: tuple[tuple[int, ...], ...]; ``channel_id``: int."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from ..formats.hlo_proto import Field
from ..formats.wire_format import integer, message, varint
from ..importer import ops_collective, ops_control
from ..ir import dtypes
from ..ir.hlo import AnyShape, Instruction, Shape
from ..ir.printer import dimension_as_list
from ..ir.registry import ANY, Absent, Price, both, read_as, register
from ..ir.shape_rules import array_of, arrays_of, check_signature, one_or_tuple, require


def _all_reduce_shape(instruction: Instruction) -> AnyShape:
    shapes = arrays_of(instruction)
    scalar = Shape(shapes[0].dtype)
    check_signature(instruction.called[0], [scalar, scalar], [scalar], "the body")
    return one_or_tuple(shapes)


def _check_reduce_scatter(instruction: Instruction) -> None:
    scalar = Shape(array_of(instruction).dtype)
    check_signature(instruction.called[0], [scalar, scalar], [scalar], "the body")
    _check_blocks(instruction, "scatter_dimension", lambda whole, part: (part, whole))


def _check_blocks(
    instruction: Instruction,
    attribute: str,
    larger: Callable[[int, int], tuple[int, int]] = lambda whole, part: (whole, part),
) -> None:
    """Operands and results differ in one dimension only, of which one is a multiple of the other."""
    dimension = instruction.attributes[attribute]
    shapes = instruction.result_shapes
    require(len(shapes) == len(instruction.operands), "as many results as operands are needed")
    for operand, result in zip(arrays_of(instruction), shapes, strict=True):
        require(0 <= dimension < operand.rank, f"there is no dimension {dimension}")
        require(
            isinstance(result, Shape)
            and result.dtype == operand.dtype
            and result.rank == operand.rank
            and all(
                a == b
                for n, (a, b) in enumerate(zip(operand.dims, result.dims, strict=True))
                if n != dimension
            ),
            f"{operand} and {result} differ in more than dimension {dimension}",
        )
        assert isinstance(result, Shape)
        whole, part = larger(result.dims[dimension], operand.dims[dimension])
        require(
            whole == 0 if part == 0 else whole % part == 0,
            f"dimension {dimension} of {operand} and {result} are not multiples",
        )


def _check_all_to_all(instruction: Instruction) -> None:
    shapes = instruction.result_shapes
    require(len(shapes) == len(instruction.operands), "as many results as operands are needed")
    for operand, result in zip(arrays_of(instruction), shapes, strict=True):
        require(
            isinstance(result, Shape)
            and result.dtype == operand.dtype
            and result.elements == operand.elements,
            f"{result} does not hold the elements of {operand}",
        )


def _fields(dimension: str = "") -> Callable[[Instruction], bytes]:
    """Replica groups and channel of a collective, and its dimension if it has one."""

    def write(i: Instruction) -> bytes:
        attributes = i.attributes
        groups = b"".join(
            message(Field.REPLICA_GROUPS, message(1, b"".join(map(varint, group))))
            for group in attributes["replica_groups"]
        )
        where = (
            message(Field.DIMENSIONS, varint(attributes[dimension]))
            if dimension in attributes
            else b""
        )
        return (
            groups
            + where
            + integer(Field.CHANNEL_ID, attributes["channel_id"])
            + integer(
                Field.USE_GLOBAL_DEVICE_IDS, int(attributes.get("use_global_device_ids", False))
            )
        )

    return write


def _permute_fields(i: Instruction) -> bytes:
    pairs = b"".join(
        message(Field.SOURCE_TARGET_PAIRS, integer(1, source) + integer(2, target))
        for source, target in i.attributes["source_target_pairs"]
    )
    return pairs + integer(Field.CHANNEL_ID, i.attributes["channel_id"])


_SEVERAL: Final = Absent("it takes several devices")
_REPLACED: Final = Absent("passes/collectives.py replaces it")
_GROUPS: Final = ("replica_groups", "channel_id")
_FLATTENED: Final = (*_GROUPS, "use_global_device_ids")

for _name in ("partition-id", "replica-id"):
    register(
        _name,
        operands=0,
        shape=lambda _: Shape(dtypes.U32),
        evaluate=_SEVERAL,
        code=_REPLACED,
        read=both(**{_name.replace("-", "_"): ops_collective.device_number(_name)}),
        price=Price(instructions=0.0),
        stays_in_registers=True,
    )
register(
    "all-reduce",
    operands=ANY,
    attributes=_FLATTENED,
    called=1,
    shape=_all_reduce_shape,
    evaluate=_SEVERAL,
    code=_REPLACED,
    read=both(
        all_reduce=ops_collective.collective("all-reduce", body=True),
        collective_reduce=ops_collective.read_collective_reduce,
    )
    | both(**{"cross-replica-sum": ops_collective.read_cross_replica_sum}),
    calls={"all-reduce-start": ops_collective.started("all-reduce", body=True)},
    fields=_fields(),
    counts_bodies=True,
)
register(
    "all-gather",
    operands=ANY,
    attributes=(*_FLATTENED, "all_gather_dimension"),
    shape=Absent("the number of devices is not known here"),
    check=lambda i: _check_blocks(i, "all_gather_dimension"),
    evaluate=_SEVERAL,
    code=_REPLACED,
    read=both(
        all_gather=ops_collective.collective(
            "all-gather", renamed={"all_gather_dim": "all_gather_dimension"}
        )
    ),
    calls={"all-gather-start": ops_collective.started("all-gather", "all_gather_dimension")},
    fields=_fields("all_gather_dimension"),
    text={"all_gather_dimension": dimension_as_list},
)
# split_dimension, concat_dimension: of every operand; without, operand i goes to the i-th device of the group
register(
    "all-to-all",
    operands=ANY,
    attributes=_GROUPS,
    shape=Absent("the number of devices is not known here"),
    check=_check_all_to_all,
    evaluate=_SEVERAL,
    code=_REPLACED,
    read=both(
        all_to_all=ops_collective.collective(
            "all-to-all", renamed={n: n for n in ("split_dimension", "concat_dimension")}
        )
    ),
    calls={
        "all-to-all-start": ops_collective.started(
            "all-to-all", "split_dimension", "concat_dimension"
        )
    },
    fields=_fields("split_dimension"),
)
register(
    "reduce-scatter",
    operands=ANY,
    attributes=(*_FLATTENED, "scatter_dimension"),
    called=1,
    shape=Absent("the number of devices is not known here"),
    check=_check_reduce_scatter,
    evaluate=_SEVERAL,
    code=_REPLACED,
    read=both(
        reduce_scatter=ops_collective.collective(
            "reduce-scatter", body=True, renamed={"scatter_dimension": "scatter_dimension"}
        )
    ),
    calls={
        "reduce-scatter-start": ops_collective.started(
            "reduce-scatter", "scatter_dimension", body=True
        )
    },
    fields=_fields("scatter_dimension"),
    text={"scatter_dimension": dimension_as_list},
)
register(
    "collective-permute",
    operands=ANY,
    attributes=("source_target_pairs", "channel_id"),
    shape=lambda i: one_or_tuple(arrays_of(i)),
    evaluate=_SEVERAL,
    code=_REPLACED,
    read=both(collective_permute=ops_collective.read_collective_permute),
    calls={"collective-permute-start": ops_collective.started("collective-permute")},
    fields=_permute_fields,
)
register(
    "collective-broadcast",
    operands=ANY,
    attributes=_GROUPS,
    shape=lambda i: one_or_tuple(arrays_of(i)),
    evaluate=_SEVERAL,
    code=_REPLACED,
    read=both(collective_broadcast=ops_collective.collective("collective-broadcast")),
    fields=_fields(),
)

# What is started and awaited is a call, whose value is the future: the schedule is ours to make.
read_as(
    both(
        async_start=ops_collective.read_async_start,
        async_update=lambda block, operation: block.operands(operation),
        async_done=ops_collective.read_async_done,
    ),
    calls={
        f"{name}-done": ops_control.read_identity_call
        for name in [
            "all-reduce",
            "all-gather",
            "all-to-all",
            "reduce-scatter",
            "collective-permute",
        ]
    },
)
