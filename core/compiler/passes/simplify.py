"""Algebraic simplification and constant folding: one sweep applies all rules to each instruction
until none says anything.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from ..ir import dtypes
from ..ir.hlo import Instruction, Module, Shape, constant
from ..ir.patterns import constant_value
from ..ir.registry import NEVER, OPS, SLOWLY
from ..reference import evaluate
from . import rules_arithmetic, rules_shape, rules_window
from .rewrite import Rule, sweep_module

MAXIMUM_FOLDED: Final = 4096  # elements of a folded constant
MAXIMUM_FOLDED_OPERAND: Final = 1 << 16
# Elements of a table, computed of one that is a constant of the program: NumPy takes some five milliseconds for so many
# sines, and the constant takes no more room than the one before.
MAXIMUM_FOLDED_TABLE: Final = 1 << 18
# Of all tables that one sweep computes: a program that multiplies one constant by a hundred numbers keeps the one.
MAXIMUM_FOLDED_TABLES: Final = 1 << 20
# In decimal arithmetic, a millisecond an element and more: a constant of some thousand would take seconds.
MAXIMUM_FOLDED_SLOWLY: Final = 16


class _Rules(dict[str, tuple[Rule, ...]]):
    """All rules of each opcode. Elementwise ops have common ones; constants are splat before anything looks at them."""

    def __missing__(self, opcode: str) -> tuple[Rule, ...]:
        tables = (rules_arithmetic.RULES, rules_shape.RULES, rules_window.RULES)
        rules = tuple(rule for rules_of in tables for rule in rules_of.get(opcode, ()))
        if OPS[opcode].elementwise:
            rules = (*rules, *rules_arithmetic.ELEMENTWISE_RULES)
        self[opcode] = rules
        return rules


_RULES: Final = _Rules()


def simplify(module: Module) -> Module:
    """Replace instructions by simpler ones, and instructions on constants by their values."""
    return sweep_module(module, partial(simplify_instruction, _Room(MAXIMUM_FOLDED_TABLES)))


class _Room:
    """How many elements of tables a sweep may still compute."""

    __slots__ = ("elements",)

    def __init__(self, elements: int) -> None:
        self.elements = elements


def simplify_instruction(room: _Room, instruction: Instruction) -> Instruction | None:
    """Something simpler than ``instruction`` with the same value, or None."""
    for rule in _RULES[instruction.opcode]:
        better = rule(instruction)
        if better is not None:
            return better
    return fold(instruction, room)


def fold(instruction: Instruction, room: _Room) -> Instruction | None:
    """The constant that an instruction on constants is, if it is small."""
    operands = instruction.operands
    for operand in operands:
        if operand.opcode == "constant":
            break
    else:
        return None
    if OPS[instruction.opcode].folding == NEVER:
        return None
    literals = []
    for operand in operands:
        literal = _literal(operand, splats=instruction.is_elementwise)
        if literal is None:
            return None
        literals.append(literal)
    shape = instruction.shape
    if not isinstance(shape, Shape):
        return None
    is_table = shape.elements <= room.elements and _is_table(instruction, shape)
    if shape.elements > (MAXIMUM_FOLDED_TABLE if is_table else MAXIMUM_FOLDED):
        return None
    if OPS[instruction.opcode].folding == SLOWLY and shape.elements > MAXIMUM_FOLDED_SLOWLY:
        return None
    if not evaluate.can_evaluate(instruction.opcode):
        return None
    if not is_table and sum(o.elements for o in operands) > MAXIMUM_FOLDED_OPERAND:
        return None
    if instruction.called and sum(o.elements for o in operands) > 256:
        return None
    if instruction.called and any(o.dtype.is_float and o.dtype.bits <= 16 for o in operands):
        return None  # kernels sum those in a wider type
    try:
        (value,) = evaluate.evaluate_instruction(instruction, literals)
    except evaluate.CompileError:
        return None
    if shape.elements > MAXIMUM_FOLDED:
        room.elements -= shape.elements
    return constant(value, shape.dtype, instruction.metadata)


def _is_table(instruction: Instruction, shape: Shape) -> bool:
    """Whether it computes, element by element, what takes no more room than a constant among its operands.

    Functions of 64-bit floats are left to kernels: NumPy has nothing wider to compute them in, and its own are less
    exact than those of docs/accuracy.md. So are those of complex numbers, of which NumPy's are NaN where a part is
    infinite or overflows on the way.
    """
    function = OPS[instruction.opcode].transcendental
    if function and shape.dtype.component is dtypes.F64:
        return False
    if shape.dtype.is_complex and (function or instruction.opcode in ("divide", "sign")):
        return False
    return instruction.is_elementwise and any(
        o.opcode == "constant" and isinstance(o.shape, Shape) and o.shape.bytes >= shape.bytes
        for o in instruction.operands
    )


def _literal(operand: Instruction, *, splats: bool) -> np.ndarray | None:
    """The elements of a constant or, if ``splats``, of a broadcast scalar that is one; None for other operands."""
    if operand.opcode == "constant":
        literal: np.ndarray = operand.attributes["literal"]
        return literal
    if splats and operand.opcode == "broadcast":
        value = constant_value(operand)
        if value is not None:
            return np.broadcast_to(value, operand.dims)
    return None
