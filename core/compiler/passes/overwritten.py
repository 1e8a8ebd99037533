"""Arrays that a loop writes from end to end begin as memory that nobody has written."""

from __future__ import annotations

from ..ir.hlo import Instruction, Module
from ..ir.patterns import only_part
from ..ir.trip_counts import Steps
from .rewrite import sweep_module


def forget_overwritten(module: Module) -> Module:
    """while(..., initial, ...) -> while(..., allocate-buffer, ...), where the loop writes each element of that state
    and reads none: the outputs of a scan, which programs fill with zeros before. What only computed ``initial`` goes,
    and so do the copies of one array of zeros for several outputs.
    """
    loops = module.all_of("while")
    if not any(r.opcode == "dynamic-update-slice" for i in loops for r in i.called[1].results):
        return module
    return sweep_module(module, _forget)


def _forget(loop: Instruction) -> Instruction | None:
    found = _overwritten(loop) if loop.opcode == "while" else []
    if not found:
        return None
    operands = list(loop.operands)
    for n in found:
        operands[n] = Instruction("allocate-buffer", operands[n].shape)
    return loop.with_operands(operands)


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
        update = written_by(p, body.results[n], users)
        if update is None:
            continue
        steps = steps or Steps(loop, count)
        if _covers(update, steps):
            found.append(n)
    return found


def written_by(
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
    d = only_part(block.dims, target.dims)
    if d is None:
        return False
    size = block.dims[d]
    if not size or size * steps.count != target.dims[d]:
        return False
    line = steps.line(starts[d])
    last = target.dims[d] - size
    return line is not None and line in ((0, size), (last, -size))
