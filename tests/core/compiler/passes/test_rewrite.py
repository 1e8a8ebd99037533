"""Sweeps over computations."""

from __future__ import annotations

import gc

from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Computation, Instruction, Module, Shape, parameter
from tripont.core.compiler.passes.rewrite import sweep, sweep_module, with_called

SHAPE = Shape(dtypes.F32, (4,))


def chain(*opcodes: str) -> Computation:
    """A computation of one unary operation on the other."""
    value = start = parameter(0, SHAPE)
    for opcode in opcodes:
        value = Instruction(opcode, SHAPE, (value,))
    return Computation.from_root("main", [start], value)


def opcodes(computation: Computation) -> list[str]:
    return [i.opcode for i in computation.instructions]


def without_negations(instruction: Instruction) -> Instruction | None:
    if instruction.opcode == "negate" and instruction.operands[0].opcode == "negate":
        return instruction.operands[0].operands[0]
    return None


def test_a_sweep_that_changes_nothing_gives_the_same_computation() -> None:
    computation = chain("sine", "negate", "cosine")
    assert sweep(computation, without_negations) is computation


def test_what_stands_before_the_first_change_is_shared_and_what_follows_has_new_operands() -> None:
    computation = chain("sine", "negate", "negate", "cosine", "tanh")
    result = sweep(computation, without_negations)
    assert opcodes(result) == ["parameter", "sine", "cosine", "tanh"]
    assert result.instructions[:2] == computation.instructions[:2]
    assert result.root.operands[0].operands[0] is computation.instructions[1]


def test_a_rule_that_gives_its_instruction_back_changes_nothing() -> None:
    computation = chain("sine", "negate")

    def rule(instruction: Instruction) -> Instruction:
        return instruction

    assert sweep(computation, rule) is computation


def test_rules_that_undo_each_other_end() -> None:
    computation = chain("sine", "cosine", "tanh")

    def rule(instruction: Instruction) -> Instruction | None:
        other = {"sine": "cosine", "cosine": "sine"}.get(instruction.opcode)
        return None if other is None else Instruction(other, SHAPE, instruction.operands)

    assert opcodes(sweep(computation, rule)) == ["parameter", "sine", "cosine", "tanh"]


def test_instructions_of_a_result_are_given_to_the_rule_unless_it_says_otherwise() -> None:
    computation = chain("sine")

    def rule(instruction: Instruction) -> Instruction | None:
        (operand,) = instruction.operands or (None,)
        if instruction.opcode == "sine":
            return Instruction("negate", SHAPE, (Instruction("cosine", SHAPE, (operand,)),))
        if instruction.opcode == "cosine":
            return Instruction("tanh", SHAPE, (operand,))
        return None

    assert opcodes(sweep(computation, rule)) == ["parameter", "tanh", "negate"]
    assert opcodes(sweep(computation, rule, repeat=False)) == ["parameter", "cosine", "negate"]


def test_a_sweep_leaves_nothing_to_the_garbage_collector() -> None:
    computation = chain(*["negate", "sine", "negate", "negate"] * 3)
    gc.collect()
    gc.disable()
    try:
        sweep(computation, without_negations)
        assert gc.collect() == 0
    finally:
        gc.enable()


def calling(*bodies: Computation) -> Computation:
    """A computation that calls one body after another, and then takes the sine."""
    value = start = parameter(0, SHAPE)
    for body in bodies:
        value = Instruction("call", SHAPE, (value,), called=(body,))
    return Computation.from_root("main", [start], Instruction("sine", SHAPE, (value,)))


def test_callees_stand_once_each_in_the_order_of_their_first_calls() -> None:
    first, second = chain("sine"), chain("cosine")
    assert calling(second, first, second).callees == (second, first)
    assert first.callees == ()


def test_a_sweep_of_a_module_reaches_callers_through_what_they_call() -> None:
    same, changed = chain("sine"), chain("negate", "negate", "cosine")
    module = Module("m", calling(same, changed))
    seen: dict[str, None] = {}  # what the calls that the rule is given call

    def rule(instruction: Instruction) -> Instruction | None:
        if instruction.opcode == "call":
            seen[" ".join(opcodes(instruction.called[0]))] = None
        return without_negations(instruction)

    swept = sweep_module(module, rule)
    assert list(seen) == ["parameter sine", "parameter cosine"]
    assert opcodes(swept.entry) == ["parameter", "call", "call", "sine"]
    assert swept.entry.instructions[:2] == module.entry.instructions[:2]
    assert [opcodes(c)[-1] for c in swept.entry.callees] == ["sine", "cosine"]
    assert sweep_module(swept, rule) is swept


def test_what_a_computation_calls_is_replaced_where_it_is_known() -> None:
    same, old, new = chain("sine"), chain("cosine"), chain("tanh")
    caller = calling(same, old)
    replaced = with_called(caller, {old: new, same: same})
    assert replaced.callees == (same, new)
    assert replaced.root.operands[0].operands[0] is caller.instructions[1]
    assert with_called(caller, {same: same}) is caller
