"""What the rules may rely on."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ...ir.hlo import Computation, Instruction

if TYPE_CHECKING:
    from ...targets.target import Target


@dataclass(slots=True)
class Context:
    """What a rule may ask about the computation it works on, and the target that it is for.

    ``uses``: how often each instruction is used, those that rules made included. ``is_materialized``: whether the
    instruction that the rule looks at is written to memory whatever happens, for no user can be fused with it.
    ``is_masked``: whether the instruction is a product of which a mask leaves a part (:mod:`.masked`).
    ``fusions``: the computations of the fusions that rules made in this module, for equal ones to be one.
    ``given_bytes``: what the module's parameters and constants take; if that is more than the caches hold, they come
    from memory.
    """

    target: Target
    uses: dict[Instruction, int]
    fusions: dict[Hashable, Computation]
    given_bytes: int = 0
    is_materialized: bool = False
    is_masked: bool = False

    def is_only_use(self, operand: Instruction) -> bool:
        return self.uses.get(operand, 0) == 1
