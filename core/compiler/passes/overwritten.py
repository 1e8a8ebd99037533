"""Arrays that a loop writes from end to end begin as memory that nobody has written."""

from __future__ import annotations

from ..ir.hlo import Computation, Instruction, Module
from ..ir.trip_counts import Steps
from .rewrite import map_computations, prune


def forget_overwritten(module: Module) -> Module:
    """while(..., initial, ...) -> while(..., allocate-buffer, ...), where the loop writes each element of that state
    and reads none: the outputs of a scan, which programs fill with zeros before. What only computed ``initial`` goes,
    and so do the copies of one array of zeros for several outputs.
    """
    loops = [i for c in module.computations() for i in c.instructions if i.opcode == "while"]
    if not any(r.opcode == "dynamic-update-slice" for i in loops for r in i.called[1].results):
        return module
    return map_computations(module, _forget_in)


def _forget_in(computation: Computation) -> Computation:
    mapped: dict[Instruction, Instruction] = {}
    output: list[Instruction] = []
    changed = False
    for instruction in computation.instructions:
        new = instruction.with_operands([mapped[o] for o in instruction.operands])
        if instruction.opcode == "while":
            operands = list(new.operands)
            for n in _overwritten(new):
                operands[n] = Instruction("allocate-buffer", operands[n].shape)
                output.append(operands[n])
                changed = True
            new = new.with_operands(operands)
        mapped[instruction] = new
        output.append(new)
    if not changed:
        return computation
    return prune(
        Computation(computation.name, computation.parameters, output, mapped[computation.root])
    )


def _overwritten(loop: Instruction) -> list[int]:
    """The states of a loop that it writes from end to end and does not read, and that have an initial value."""
    count = loop.attributes.get("trip_count", -1)
    if count < 1:
        return []
    condition, body = loop.called
    if not any(r.opcode == "dynamic-update-slice" for r in body.results):
        return []
    users = body.users()
    read_outside = condition.users()
    steps: Steps | None = None
    found = []
    for n, p in enumerate(body.parameters):
        if loop.operands[n].opcode == "allocate-buffer" or read_outside[condition.parameters[n]]:
            continue
        update = _written(p, body.results[n], users)
        if update is None:
            continue
        steps = steps or Steps(loop, count)
        if _covers(update, steps):
            found.append(n)
    return found


def _written(
    state: Instruction, following: Instruction, users: dict[Instruction, list[Instruction]]
) -> Instruction | None:
    """The dynamic-update-slice that makes ``following`` of ``state``, if nobody else reads either of them."""
    if following.opcode != "dynamic-update-slice" or users[state] != [following]:
        return None
    target, *others = following.operands
    if target is not state or state in others:
        return None
    # As a further state of the loop it would be read in the next step, when not all of it is written.
    read = [u for u in users[following] if u.opcode != "tuple" or u.operands.count(following) > 1]
    return None if read or len(users[following]) > 1 else following


def _covers(update: Instruction, steps: Steps) -> bool:
    """Whether the steps of a loop write all elements: blocks one after the other, or from the last to the first."""
    target, block, *starts = update.operands
    parts = [d for d, size in enumerate(target.dims) if block.dims[d] != size]
    if len(parts) != 1:
        return False
    (d,) = parts
    size = block.dims[d]
    if not size or size * steps.count != target.dims[d]:
        return False
    line = steps.line(starts[d])
    last = target.dims[d] - size
    return line is not None and line in ((0, size), (last, -size))
