"""Updates in place come after what reads the array as it was before: otherwise it would have to be copied."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.control_flow import executable_computations
from ..ir.hlo import Computation, Instruction, Module
from ..memory.inplace import in_place_operands, must_share, without_bitcasts
from .collective_groups import meets_others
from .rewrite import map_computations

# Instructions whose result is their operand's memory.
_ALIASES = frozenset(["bitcast", "get-tuple-element"])


def delay_updates(module: Module) -> Module:
    """Move each instruction that must share an operand's memory behind the operand's other readers, where it can be.

    The module is fused and scheduled: ``h.at[i].set(x), f(h[i])`` reads h[i] first.
    """
    return map_computations(module, _delay_in, executable_computations(module))


def _delay_in(computation: Computation) -> Computation:
    updates = [i for i in computation.instructions if must_share(i)]
    if not updates:
        return computation
    order = list(computation.instructions)
    places = {instruction: place for place, instruction in enumerate(order)}
    changed = False
    users = computation.users()
    for update in updates:
        targets = {update.operands[n] for found in in_place_operands(update) for n in found}
        readers = set(readers_of(targets, users)) - {update}
        start = places[update]
        end = max((places[reader] for reader in readers), default=-1)
        behind = {update}  # what cannot come before the update
        last = -1
        for position in range(start + 1, end + 1):
            instruction = order[position]
            if not behind.isdisjoint(instruction.operands):
                behind.add(instruction)
            elif instruction in readers:
                last = position
        if last < 0:
            continue
        among = order[start : last + 1]
        if any(i in behind and i.has_side_effect for i in among):
            continue
        if len({i in behind for i in among if meets_others(i)}) > 1:
            continue  # collectives keep their order, which all processes share
        order[start : last + 1] = [
            *(i for i in among if i not in behind),
            *(i for i in among if i in behind),
        ]
        places.update((order[place], place) for place in range(start, last + 1))
        changed = True
    if not changed:
        return computation
    return Computation(computation.name, computation.parameters, order, computation.root)


def readers_of(
    values: Iterable[Instruction], users: dict[Instruction, list[Instruction]]
) -> Iterable[Instruction]:
    """What reads the memory of ``values``, by any name."""
    stack = [without_bitcasts(value) for value in values]
    seen: set[Instruction] = set()
    while stack:
        for user in users[stack.pop()]:
            if user not in seen:
                seen.add(user)
                if user.opcode in _ALIASES:
                    stack.append(user)
                else:
                    yield user
