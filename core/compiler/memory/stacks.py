"""Loops that write an output stack over an input stack.

A scan reads a row of its input in each step and writes a row of its output. If it reads row i of the one before it
writes row i of the other, and neither row in any other step, both may lie in the same memory, as far as the input ends
with the loop: :mod:`.liveness` looks at times, this module at what a loop of a fused module reads and writes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from ..ir.hlo import Instruction
from ..ir.patterns import UPDATES
from ..ir.trip_counts import Line, Steps


@dataclass(frozen=True, slots=True)
class Stacks:
    """The states ``read`` and ``written`` of a loop, the input and the output, by number. ``readers``: what reads rows
    of the input. ``update``: what writes a row of the output.
    """

    read: int
    written: int
    readers: tuple[Instruction, ...]
    update: Instruction


def stacks_of(loop: Instruction) -> list[Stacks]:
    """Each pair of an input and an output of which each step reads and writes the same row, another one in each step.

    The output is memory that nobody has written before the loop, and the loop does not read it.
    """
    count = loop.attributes.get("trip_count", -1)
    condition, body = loop.called
    if count < 1 or body.root.opcode != "tuple":
        return []
    written = [
        n
        for n, operand in enumerate(loop.operands)
        if operand.opcode == "allocate-buffer" and body.results[n] is not body.parameters[n]
    ]
    if not written:
        return []
    rows = _Rows(Steps(loop, count))
    tested = condition.users()
    users = body.users()
    inputs = []
    for n, p in enumerate(body.parameters):
        if body.results[n] is not p or tested[condition.parameters[n]]:
            continue
        readers = tuple(u for u in users[p] if u is not body.root)
        line = rows.read(p, readers)
        if line is not None:
            inputs.append((n, readers, line))
    found = []
    for n in written:
        p, update = body.parameters[n], body.results[n]
        if users[p] != [update] or tested[condition.parameters[n]]:
            continue
        line = rows.written(p, update)
        for number, readers, other in inputs:
            q = body.parameters[number]
            if line is not None and line == other and _are_alike(p, q):
                found.append(Stacks(number, n, readers, update))
    return found


def _are_alike(p: Instruction, q: Instruction) -> bool:
    """Whether a row of the one is where the same row of the other is."""
    return p.dims[0] == q.dims[0] and p.shape.bytes == q.shape.bytes  # type: ignore[union-attr]


class _Rows:
    """Which rows the steps of a loop read and write: first + t * slope in step t."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps

    def read(self, p: Instruction, readers: tuple[Instruction, ...]) -> Line | None:
        """The line of the rows of state ``p`` that all ``readers`` read, each one row; None if there is none."""
        lines = {line for reader in readers for line in self._read_by(p, reader)}
        return lines.pop() if len(lines) == 1 else None

    def written(self, p: Instruction, update: Instruction) -> Line | None:
        """The line of the rows that ``update`` writes in state ``p``, of which it reads nothing."""
        if update.opcode == "fusion" and update.attributes["kind"] in UPDATES:
            inside: Instruction = update.called[0].root
            fusion: Instruction | None = update
        else:
            inside, fusion = update, None
        if inside.opcode != "dynamic-update-slice":
            return None
        target, block, *starts = inside.operands
        if fusion is None:
            known = target is p and p not in update.operands[1:]
        else:
            known = (
                target.opcode == "parameter"
                and fusion.operands[target.attributes["index"]] is p
                and fusion.operands.count(p) == 1
                and fusion.called[0].users()[target] == [inside]
            )
        return self._line_of(p, block.dims, starts, fusion) if known else None

    def _read_by(self, p: Instruction, reader: Instruction) -> Iterator[Line | None]:
        if reader.opcode == "dynamic-slice":
            yield self._row(p, p, reader, None)
            return
        if reader.opcode != "fusion" or reader.attributes["kind"] == "while":
            yield None
            return
        (computation,) = reader.called
        users = computation.users()
        for inner, operand in zip(computation.parameters, reader.operands, strict=True):
            if operand is p:
                for user in users[inner]:
                    yield self._row(p, inner, user, reader)

    def _row(
        self, p: Instruction, source: Instruction, user: Instruction, fusion: Instruction | None
    ) -> Line | None:
        if user.opcode != "dynamic-slice" or source in user.operands[1:]:
            return None
        return self._line_of(p, user.dims, user.operands[1:], fusion)

    def _line_of(
        self,
        p: Instruction,
        dims: tuple[int, ...],
        starts: tuple[Instruction, ...] | list[Instruction],
        fusion: Instruction | None,
    ) -> Line | None:
        """The line of one whole row of ``p``, another one in each step, none of them beyond its ends."""
        if not p.dims or dims != (1, *p.dims[1:]):
            return None
        around = () if fusion is None else (fusion,)
        line = self.steps.line(starts[0], around)
        if line is None or (not line[1] and self.steps.count > 1):
            return None
        return line if self.steps.stays_in(starts[0], 0, p.dims[0] - 1, around) else None
