"""The library call that stands in the place of an instruction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...ir.hlo import Instruction


def library_call(
    instruction: Instruction, name: str, config: Mapping[str, Any], cost_ns: float
) -> Instruction:
    """The call ``name`` with the instruction's shape, operands and called computations.

    ``config``: the artifact's attributes; ``cost_ns``: the estimate of its time.
    """
    return instruction.derive(
        "library-call",
        instruction.operands,
        {"name": name, "config": {**config, "cost_ns": cost_ns}},
        instruction.called,
    )
