"""Operations and calls that say where arrays lie, or in which order things happen: one device need not heed them."""

from __future__ import annotations

from typing import Final

from ..importer import ops_control
from ..ir.registry import read_as

_OF_SHARDY: Final = (
    "sharding_constraint reshard propagation_barrier data_flow_edge all_gather all_slice all_to_all all_reduce"
    " collective_permute reduce_scatter replicated_to_unreduced sharded_to_unreduced"
)
_CALLS: Final = (
    "Sharding SPMDFullToShardShape SPMDShardToFullShape annotate_device_placement LayoutConstraint"
    " xla.sdy.FuncResultSharding xla.sdy.GlobalToLocalShape xla.sdy.LocalToGlobalShape xla_ffi_identity"
)

read_as(
    {
        **{f"sdy.{name}": ops_control.read_identity for name in _OF_SHARDY.split()},
        "mhlo.domain": ops_control.read_identity,
        "sdy.sharding_group": ops_control.read_nothing,
    },
    calls={
        **dict.fromkeys(_CALLS.split(), ops_control.read_identity_call),
        **dict.fromkeys(("control_dep", "dce_sink"), ops_control.read_nothing_call),
    },
)
