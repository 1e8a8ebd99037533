"""What reads an array last comes as early as it can, where that ends the array.

A training step ends with the updates of its weights. Each of them is part of the product that computes the weight's
gradient, which therefore stands at the end of the program too, and the layer's inputs and the gradient of its outputs
are kept until then, those of all layers at once. The product can be computed as soon as both are there, and does so:
its result is a few weights. The arrays are nearer to the processor then, too.
"""

from __future__ import annotations

import bisect
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
    readers = _Readers(arrays, places)
    for i in reversed(order):
        if OPS[i.opcode].is_alias or not i.operands:
            continue
        readers.take(i)
        place = _earlier(i, number[i], arrays, readers, places)
        readers.put(i, place)
        if place is None:
            continue
        places[i] = place
        for name in arrays.names_of(i):
            places[name] = place[0], number[name]
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


def _earlier(
    i: Instruction,
    number: int,
    arrays: _Arrays,
    readers: _Readers,
    places: Mapping[Instruction, _Place],
) -> _Place | None:
    """Where ``i``, which has this ``number`` in the program, comes instead if it comes earlier."""
    here = places[i]
    last = _last(i.operands, places)
    if last[0] >= here[0] - 1 or not _gains(i, arrays, readers, here) or not _may_move(i):
        return None
    for array in arrays.written_by(i):
        last = max(last, readers.before(array, here))
    place = last[0], number
    return place if last < place < here else None


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


def _gains(i: Instruction, arrays: _Arrays, readers: _Readers, here: _Place) -> bool:
    """Whether more ends with ``i`` than it makes. The last one of those that read an array moves first."""
    ended = 0
    for a in arrays.read_by[i]:
        if a not in arrays.kept and readers.all_before(a, here):
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
            if i.opcode == "get-tuple-element":
                read: tuple[_Array, ...] = (self.names[i.operands[0]][i.attributes["index"]],)
            else:
                read = tuple(dict.fromkeys(a for o in i.operands for a in self.names[o]))
            if OPS[i.opcode].is_alias and i.operands:
                if len(i.operands) == 1:  # a tuple stays behind all that it has
                    self.other_names.setdefault(i.operands[0], []).append(i)
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
        # How large the parameters are, by the parameter, whose memory results may take.
        self.taken: dict[_Array, int] = {(p, 0): self.size((p, 0)) for p in taken}
        self.sizes_taken = frozenset(self.taken.values())

    @staticmethod
    def size(array: _Array) -> int:
        i, number = array
        shape = i.result_shapes[number]
        return shape.bytes if isinstance(shape, Shape) else 0

    def names_of(self, i: Instruction) -> Iterator[Instruction]:
        """What gives the results of ``i`` other names, each before those that it gives."""
        waiting = [i]
        while waiting:
            names = self.other_names.get(waiting.pop(), ())
            yield from names
            waiting += names

    def written_by(self, i: Instruction) -> Iterator[_Array | int]:
        """The arrays in whose memory ``i`` may write, or the sizes of parameters: what reads them before ``i`` must
        stay before, or the array would be copied.
        """
        sizes = {self.size(a) for a in self.results.intersection(self.names[i])}
        yield from sizes & self.sizes_taken
        written = {n for operands in in_place_operands(i) for n in operands}
        for a in {a for n in written for a in self.names[i.operands[n]]}:
            if a in self.made or a in self.taken:  # others stay as they are
                yield a

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


class _Readers:
    """Where the readers of each array are, and those of all parameters of a size whose memory results may take, while
    instructions are looked at from the last one to the first: neither question takes longer where there are many.
    """

    def __init__(self, arrays: _Arrays, places: Mapping[Instruction, _Place]) -> None:
        self.places = places
        # By the array, or the size.
        self.read_by: dict[Instruction, tuple[_Array | int, ...]] = {}
        # Not looked at yet, and so in the program's order and where they were.
        self.waiting: dict[_Array | int, list[Instruction]] = {}
        self.moved: dict[_Array | int, list[_Place]] = {}  # where the others are that moved, sorted
        self.stayed: set[_Array | int] = set()  # what others read that did not
        for i, read in arrays.read_by.items():
            sizes = dict.fromkeys(arrays.taken[a] for a in read if a in arrays.taken)
            self.read_by[i] = (*read, *sizes)
            for a in self.read_by[i]:
                self.waiting.setdefault(a, []).append(i)

    def take(self, i: Instruction) -> None:
        """``i`` is looked at, the last of those that were not."""
        for a in self.read_by[i]:
            self.waiting[a].pop()

    def put(self, i: Instruction, place: _Place | None) -> None:
        """``i`` has moved to ``place``; None if it stays."""
        for a in self.read_by[i]:
            if place is None:
                self.stayed.add(a)
            else:
                bisect.insort(self.moved.setdefault(a, []), place)

    def all_before(self, array: _Array, here: _Place) -> bool:
        """Whether all readers of ``array`` are before ``here``, where the one is that is looked at."""
        moved = self.moved.get(array)
        return array not in self.stayed and (not moved or moved[-1] < here)

    def before(self, array: _Array | int, here: _Place) -> _Place:
        """Where the last reader of ``array`` before ``here`` is; the program's beginning if there is none."""
        waiting, moved = self.waiting.get(array), self.moved.get(array, [])
        last = self.places[waiting[-1]] if waiting else (0, -1)
        n = bisect.bisect_left(moved, here)
        return max(last, moved[n - 1]) if n else last
