"""What passes are made of.

:func:`map_computations` runs a function over every computation of a module, callees first;
:func:`sweep` walks a computation once from its first instruction to its last, with operands already
replaced, and lets a rule replace each instruction (:func:`sweep_module`: those of all computations).
Nothing is written to: what does not change is shared with the module that came in, and a pass that
changes nothing gives back the same objects.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from ..ir.hlo import Computation, Instruction, Module

Rule = Callable[[Instruction], Instruction | None]
# Of one instruction: rules that undo each other must not hang the compiler.
MAXIMUM_REWRITES: Final = 16


def map_computations(
    module: Module,
    function: Callable[[Computation], Computation],
    among: Iterable[Computation] | None = None,
) -> Module:
    """The module with ``function`` applied to every computation, or to those ``among`` them; callees before callers."""
    new: dict[Computation, Computation] = {}
    for computation in module.computations() if among is None else among:
        new[computation] = function(with_called(computation, new))
    return with_entry(module, new[module.entry])


def sweep_module(module: Module, rule: Rule, *, repeat: bool = True) -> Module:
    """The module with every computation swept (:func:`sweep`), callees before callers."""
    new: dict[Computation, Computation] = {}

    def on_new_callees(instruction: Instruction) -> Instruction | None:
        if not instruction.called:
            return rule(instruction)
        called = [new.get(c, c) for c in instruction.called]
        instruction = instruction.with_operands(instruction.operands, called)
        better = rule(instruction)
        return instruction if better is None else better

    for computation in module.computations():
        changed = any(new[c] is not c for c in computation.callees)
        new[computation] = sweep(computation, on_new_callees if changed else rule, repeat=repeat)
    return with_entry(module, new[module.entry])


def with_entry(module: Module, entry: Computation) -> Module:
    """The module with another entry computation (of the same signature)."""
    if entry is module.entry:
        return module
    return replace(module, entry=entry)


def with_called(computation: Computation, new: dict[Computation, Computation]) -> Computation:
    """The computation with what it calls replaced, as far as ``new`` knows it."""
    if all(new.get(c, c) is c for c in computation.callees):
        return computation
    mapped: dict[Instruction, Instruction] = {}
    output: list[Instruction] = []
    for instruction in computation.instructions:
        now = on_mapped(instruction, mapped)
        if now.called:
            now = now.with_operands(now.operands, [new.get(c, c) for c in now.called])
        if now is not instruction:
            mapped[instruction] = now
        output.append(now)
    root = mapped.get(computation.root, computation.root)
    return Computation(computation.name, computation.parameters, output, root)


def on_mapped(instruction: Instruction, mapped: Mapping[Instruction, Instruction]) -> Instruction:
    """The instruction on what has taken the places of its operands."""
    operands = instruction.operands
    for operand in operands:
        if operand in mapped:
            return instruction.on(tuple(map(mapped.get, operands, operands)))
    return instruction


def sweep(computation: Computation, rule: Rule, *, repeat: bool = True) -> Computation:
    """Replace instructions by what ``rule`` gives for them (None: nothing better), first to last.

    The rule sees instructions whose operands are replaced already, and may build its result from
    any number of new instructions on top of existing ones; those are given to the rule too
    (``repeat``). Instructions that nothing needs any longer are dropped.
    """
    instructions = computation.instructions
    for number, instruction in enumerate(instructions):
        better = rule(instruction)
        if better is not None and better is not instruction:
            return _Sweep(rule, repeat, instructions[:number]).rest(computation, better)
    return computation


class _Sweep:
    """A sweep from the first instruction that changes on. (A class, since a function that calls itself and knows the
    instructions would keep them alive until the garbage collector comes.)
    """

    __slots__ = ("mapped", "output", "placed", "repeat", "rule")

    def __init__(self, rule: Rule, repeat: bool, unchanged: tuple[Instruction, ...]) -> None:
        self.rule = rule
        self.repeat = repeat
        # What has taken the place of an instruction, as far as it is another one.
        self.mapped: dict[Instruction, Instruction] = {}
        self.output = list(unchanged)
        self.placed = set(unchanged)

    def rest(self, computation: Computation, better: Instruction) -> Computation:
        """The computation after the rule; ``better`` is what the rule gave for the first instruction that is left."""
        mapped, output, placed, rule = self.mapped, self.output, self.placed, self.rule
        first, *others = computation.instructions[len(output) :]
        changed = self.settled(first, first, better)
        for instruction in others:
            now = on_mapped(instruction, mapped)
            found = rule(now)
            if found is None or found is now:
                if now not in placed:
                    placed.add(now)
                    output.append(now)
                if now is not instruction:
                    mapped[instruction] = now
                    changed = True
            elif self.settled(instruction, now, found):
                changed = True
        if not changed:
            return computation
        root = mapped.get(computation.root, computation.root)
        return prune(Computation(computation.name, computation.parameters, output, root))

    def settled(
        self, instruction: Instruction, now: Instruction, better: Instruction | None
    ) -> bool:
        """Whether something else is placed for ``instruction``: what becomes of ``now``, the same on new operands."""
        result = self.settle(now, better)
        if result is instruction:
            return False
        self.mapped[instruction] = result
        return True

    def settle(self, instruction: Instruction, better: Instruction | None) -> Instruction:
        """Apply the rule, which gave ``better``, until it has nothing to say; place what it made."""
        mapped, placed = self.mapped, self.placed
        for rewrites in range(1, 1 + (MAXIMUM_REWRITES if self.repeat else 1)):
            if rewrites > 1:
                better = self.rule(instruction)
            if better is None or better is instruction:
                break
            if better in placed:
                return better
            if not placed.issuperset(better.operands):
                for inner in unplaced(better.operands, placed):
                    result = on_mapped(inner, mapped)
                    if self.repeat:
                        result = self.settle(result, self.rule(result))
                    if result not in placed:
                        placed.add(result)
                        self.output.append(result)
                    if result is not inner:
                        mapped[inner] = result
                    placed.add(inner)
                better = on_mapped(better, mapped)
            instruction = better
        if instruction not in placed:
            placed.add(instruction)
            self.output.append(instruction)
        return instruction


def unplaced(roots: Iterable[Instruction], placed: Container[Instruction]) -> list[Instruction]:
    """The instructions that ``roots`` need and ``placed`` lacks, operands first."""
    order: list[Instruction] = []
    seen: set[Instruction] = set()
    stack: list[Any] = [*roots]
    while stack:
        instruction = stack.pop()
        if instruction is None:  # all that the next one needs stands in order
            order.append(stack.pop())
        elif instruction not in placed and instruction not in seen:
            seen.add(instruction)
            stack += (instruction, None, *instruction.operands)
    return order


def prune(computation: Computation) -> Computation:
    """The computation without what neither its result nor a side effect needs."""
    needed: set[Instruction] = {computation.root}
    kept: list[Instruction] = []
    for instruction in reversed(computation.instructions):
        if (
            instruction in needed
            or instruction.opcode == "parameter"
            or instruction.has_side_effect
        ):
            kept.append(instruction)
            needed.update(instruction.operands)
    if len(kept) == len(computation.instructions):
        return computation
    kept.reverse()
    return Computation(computation.name, computation.parameters, kept, computation.root)


def substitute(
    computation: Computation, replaced: Mapping[Instruction, Instruction]
) -> Computation:
    """The computation with the values of ``replaced`` in the places of its keys.

    They may be built from any number of new instructions on top of those of the computation, of which they need the
    ones before the key alone. Instructions that nothing needs any more are dropped.
    """
    if not replaced:
        return computation
    output: list[Instruction] = []
    mapped: dict[Instruction, Instruction] = {}

    def place(instruction: Instruction) -> Instruction:
        for inner in unplaced((instruction,), mapped.keys()):
            mapped[inner] = inner.with_operands([mapped[o] for o in inner.operands])
            output.append(mapped[inner])
        return mapped[instruction]

    for instruction in computation.instructions:
        mapped[instruction] = place(replaced.get(instruction, instruction))
    root = mapped[computation.root]
    return prune(Computation(computation.name, computation.parameters, output, root))
