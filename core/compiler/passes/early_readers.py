"""What reads an array last comes as early as it can, where that ends the array.

A training step ends with the updates of its weights. Each of them is part of the product that computes the weight's
gradient, which therefore stands at the end of the program too, and the layer's inputs and the gradient of its outputs
are kept until then, those of all layers at once. The product can be computed as soon as both are there, and does so:
its result is a few weights. The arrays are nearer to the processor then, too.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

from ..ir.control_flow import executable_computations
from ..ir.hlo import Computation, Instruction, Module, Shape
from ..ir.registry import OPS
from ..memory.inplace import in_place_operands, must_share
from .collective_groups import meets_others
from .rewrite import map_computations

# Bytes: arrays of less are left where they are.
_LEAST: Final = 1 << 16

# An array of a computation: what makes it, and which of the results it is.
_Array = tuple[Instruction, int]
_Place = tuple[int, int]


def read_early(module: Module) -> Module:
    """``module``, which is fused and scheduled, in an order in which less is alive at the fullest time."""
    of_entry = module.entry.parameters
    taken = {parameter for _, parameter, _ in module.input_output_aliases}
    stay = {p for n, p in enumerate(of_entry) if n not in taken and n not in module.buffer_donors}

    def function(computation: Computation) -> Computation:
        return _read_early_in(computation, [p for p in computation.parameters if p not in stay])

    return map_computations(module, function, executable_computations(module))


def _read_early_in(computation: Computation, taken: Sequence[Instruction]) -> Computation:
    """``computation`` in another order. ``taken``: the parameters whose memory results may take."""
    arrays = _Arrays(computation, taken)
    if all(arrays.size(a) < _LEAST for a in arrays.made):
        return computation
    order = computation.instructions
    number = {i: n for n, i in enumerate(order)}
    # What has moved comes behind what stands at its place, in the program's order.
    places: dict[Instruction, _Place] = {i: (n, -1) for n, i in enumerate(order)}
    first = len(computation.parameters), -1
    for i in order:
        if OPS[i.opcode].is_alias and i.opcode != "parameter":
            places[i] = (_last(i.operands, places, first)[0], number[i])
    before = dict(places)
    for i in reversed(order):
        if OPS[i.opcode].is_alias or not i.operands:
            continue
        if _last(i.operands, places)[0] >= places[i][0] - 1:
            continue
        if not _gains(i, arrays, places) or not _may_move(i):
            continue
        last = _last([*i.operands, *arrays.read_before(i, places)], places)
        place = last[0], number[i]
        if last < place < places[i]:
            places[i] = place
            for name in arrays.names_of(i):
                places[name] = (_last(name.operands, places)[0], number[name])
    if places == before:
        return computation
    new = sorted(order, key=places.__getitem__)
    if arrays.fullest(new) >= arrays.fullest(order):
        return computation
    return Computation(computation.name, computation.parameters, new, computation.root)


def _last(
    instructions: Iterable[Instruction],
    places: Mapping[Instruction, _Place],
    default: _Place = (0, -1),
) -> _Place:
    return max((places[i] for i in instructions), default=default)


def _may_move(i: Instruction) -> bool:
    """Whether ``i`` may come before instructions that it does not read."""
    op = OPS[i.opcode]
    return not (
        op.runs_thunks
        or i.opcode == "custom-call"
        or must_share(i)
        or meets_others(i)
        or i.has_side_effect
    )


def _gains(i: Instruction, arrays: _Arrays, places: Mapping[Instruction, _Place]) -> bool:
    """Whether more ends with ``i`` than it makes. The last one of those that read an array moves first."""
    ended = 0
    for a in arrays.read_by[i]:
        others = (r for r in arrays.readers[a] if r is not i)
        if a not in arrays.kept and _last(others, places) < places[i]:
            ended += arrays.size(a)
    return ended >= _LEAST and ended > sum(arrays.size(a) for a in arrays.names[i])


class _Arrays:
    """The arrays of a computation, and what reads them, under whatever name.

    ``made``: those that it makes itself. ``kept``: those that live longer than it.
    """

    def __init__(self, computation: Computation, taken: Sequence[Instruction]) -> None:
        self.names: dict[Instruction, tuple[_Array, ...]] = {}
        self.readers: dict[_Array, list[Instruction]] = {}
        self.read_by: dict[Instruction, tuple[_Array, ...]] = {}
        self.made: dict[_Array, None] = {}
        self.other_names: dict[Instruction, list[Instruction]] = {}
        for i in computation.instructions:
            read = tuple(dict.fromkeys(a for o in i.operands for a in self.names[o]))
            if OPS[i.opcode].is_alias and i.operands:
                for o in i.operands:
                    self.other_names.setdefault(o, []).append(i)
                if i.opcode == "get-tuple-element":
                    read = (self.names[i.operands[0]][i.attributes["index"]],)
                self.names[i] = read
                continue
            self.names[i] = tuple((i, n) for n in range(len(i.result_shapes)))
            self.read_by[i] = read
            self.readers.update((a, []) for a in self.names[i])
            for a in read:
                self.readers[a].append(i)
            if i.opcode not in ("parameter", "constant"):
                self.made.update((a, None) for a in self.names[i])
        self.results = frozenset(self.names[computation.root])
        self.kept = self.results | (self.readers.keys() - self.made.keys())
        self.taken = [(p, 0) for p in taken]

    @staticmethod
    def size(array: _Array) -> int:
        i, number = array
        shape = i.result_shapes[number]
        return shape.bytes if isinstance(shape, Shape) else 0

    def names_of(self, i: Instruction) -> Iterator[Instruction]:
        """What gives the results of ``i`` other names, each before those that it gives."""
        for name in self.other_names.get(i, ()):
            yield name
            yield from self.names_of(name)

    def read_before(
        self, i: Instruction, places: Mapping[Instruction, _Place]
    ) -> Iterator[Instruction]:
        """What reads an array before ``i`` in whose memory ``i`` may write: it must stay before, or the array would be
        copied.
        """
        written = {n for operands in in_place_operands(i) for n in operands}
        sizes = {self.size(a) for a in self.results.intersection(self.names[i])}
        arrays = {a for a in self.taken if self.size(a) in sizes}
        arrays.update(a for n in written for a in self.names[i.operands[n]])
        for a in arrays:
            if a in self.made or a in self.taken:  # others stay as they are
                yield from (r for r in self.readers[a] if places[r] < places[i])

    def fullest(self, order: Sequence[Instruction]) -> int:
        """The most bytes that are alive at once, of what the computation makes in this order."""
        number = {i: n for n, i in enumerate(order)}
        changes = [0] * (len(order) + 1)
        for array in self.made:
            start, size = number[array[0]], self.size(array)
            changes[start] += size
            if array not in self.kept:
                end = max((number[r] for r in self.readers[array]), default=start)
                changes[end + 1] -= size
        return max(itertools.accumulate(changes))
