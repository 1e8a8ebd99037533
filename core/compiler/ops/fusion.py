"""Fusions: instructions that one kernel computes. Passes make them."""

from __future__ import annotations

import functools
from typing import Final

from ..formats.hlo_proto import Field, json_text
from ..formats.wire_format import message, text
from ..ir.hlo import Instruction
from ..ir.registry import ANY, FUSION_KINDS, NEVER, Absent, register
from .control import call_shape, call_value
from .kernels import kernel

_FUSION_KINDS: Final = {"loop": "kLoop", "reduce": "kInput", "row": "kInput", "transpose": "kInput"}


def _fusion_fields(i: Instruction) -> bytes:
    return _kind_fields(str(i.attributes["kind"]))


@functools.cache
def _kind_fields(kind: str) -> bytes:
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
        "loop": kernel("loops"),
        "dynamic-update-slice": kernel("update_slices"),
        "reduce": kernel("reductions"),
        "row": kernel("rows"),
        "transpose": kernel("transposes"),
        "attention": kernel("attention"),
        "attention-gradient": kernel("attention_gradient"),
        "dot": kernel("contraction"),
        "while": kernel("element_loops"),
        "chain": kernel("chain"),
    }
)
