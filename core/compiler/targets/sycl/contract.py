"""a * b + c in one instruction, with one rounding, as LLVM makes of it for the host (and XLA for CPUs).

Operations that allow it are marked ``contract``; SPIR-V has no such mark, and the devices' compilers leave alone
what it has as two instructions.
"""

from __future__ import annotations

from collections import Counter
from typing import NamedTuple

from ...codegen.llvm_ir import Function, Instruction


class Contraction(NamedTuple):
    """A sum or difference whose operand number ``which`` is a product that nothing else uses."""

    product: Instruction
    which: int


def contractions(function: Function) -> dict[int, Contraction]:
    """Those of a function, by the number of the sum's value, and by that of the product's."""
    products: dict[int, Instruction] = {}
    found: dict[int, Contraction] = {}
    uses: Counter[int] | None = None
    for block in function.blocks:
        for i in block.instructions:
            if i.flags != "contract" or i.result is None:
                continue
            if uses is None:
                uses = Counter(
                    v.number for b in function.blocks for j in b.instructions for v in j.operands
                )
            if i.code == "fmul":
                if uses[i.result.number] == 1:
                    products[i.result.number] = i
            elif i.code in ("fadd", "fsub"):
                for which, operand in enumerate(i.operands):
                    product = products.pop(operand.number, None)
                    if product is not None:
                        found[i.result.number] = found[operand.number] = Contraction(product, which)
                        break
    return found
