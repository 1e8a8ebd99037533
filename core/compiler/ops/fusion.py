"""Fusions: instructions that one kernel computes. Passes make them."""

from __future__ import annotations

from typing import Final

from ..formats.hlo_proto import Field, json_text
from ..formats.wire_format import message, text
from ..ir.hlo import Instruction
from ..ir.registry import ANY, FUSION_KINDS, NEVER, Absent, register
from . import kernels
from .control import call_shape, call_value

_FUSION_KINDS: Final = {"loop": "kLoop", "reduce": "kInput", "row": "kInput", "transpose": "kInput"}


def _fusion_fields(i: Instruction) -> bytes:
    kind = str(i.attributes["kind"])
    return text(Field.FUSION_KIND, _FUSION_KINDS.get(kind, "kLoop")) + message(
        Field.BACKEND_CONFIG, json_text({"kind": kind})
    )


# Made by passes. kind: "loop" | "reduce" | "transpose" | "row" | ... (see fusion/fuse.py); the computation's parameters
# stand for the operands, its root (or root tuple's operands) for the results.
register(
    "fusion",
    operands=ANY,
    attributes=("kind",),
    called=1,
    shape=call_shape,
    evaluate=call_value,
    code=Absent("each kind has a kernel: kernel_of_kind"),
    read=Absent("what it computes is read as if it stood outside"),
    fields=_fusion_fields,
    callees=("calls",),
    folding=NEVER,
)

FUSION_KINDS.update(
    {
        "loop": kernels.loops,
        "dynamic-update-slice": kernels.update_slices,
        "reduce": kernels.reductions,
        "row": kernels.rows,
        "transpose": kernels.transposes,
        "attention": kernels.attention,
        "attention-gradient": kernels.attention_gradient,
        "dot": kernels.contraction,
        "while": kernels.element_loops,
    }
)
