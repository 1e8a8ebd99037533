"""Conditionals whose branch is known are its instructions.

JAX writes one for each function that has a form of its own for some platform (``lax.platform_dependent``:
``jnp.diagonal``, for example), whose selector is the number of the platform, or the constant that another such
conditional gives. As a conditional it would be a wall for fusion.
"""

from __future__ import annotations

from ..ir.hlo import Instruction, Module
from ..ir.patterns import constant_value
from .inline import inline_calls
from .rewrite import sweep_module


def take_known_branches(module: Module) -> Module:
    """Replace every conditional that has one branch, or a constant selector, by the instructions of the branch."""
    while module.has("conditional"):
        called = sweep_module(module, _call_of_branch)
        if called is module:
            break
        module = inline_calls(called)  # the branches may give other conditionals their selectors
    return module


def _call_of_branch(instruction: Instruction) -> Instruction | None:
    if instruction.opcode != "conditional":
        return None
    selector, *operands = instruction.operands
    branches = instruction.called
    last = len(branches) - 1
    value = 0 if last == 0 else constant_value(selector)
    if value is None:
        return None
    if selector.dtype.kind == "pred":
        branch = 0 if value else 1
    else:
        branch = int(value) if 0 <= value <= last else last
    counts = instruction.attributes["operand_counts"]
    first = sum(counts[:branch])
    mine = operands[first : first + counts[branch]]
    return instruction.derive("call", mine, called=(branches[branch],))
