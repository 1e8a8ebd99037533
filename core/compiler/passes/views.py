"""Slices that kernels and libraries read where they lie.

What multiplies by ``weights[i]``, sorts it or hands it to the user's code reads an array in memory. Such a slice was
computed by a kernel of its own, a copy, until here: in a decoding step of a language model, which reads each weight
once, it takes longer than the product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..formats.artifact import ALIGNMENT
from ..fusion.fused import make_fusion
from ..ir import dtypes
from ..ir.control_flow import executable_computations
from ..ir.hlo import Computation, Instruction, Module, Shape, topological_order
from ..memory.inplace import without_bitcasts
from ..memory.views import VIEW, Piece, find_piece
from .delay_updates import readers_of
from .invariants import unchanged_parameters
from .rewrite import map_computations, on_mapped

if TYPE_CHECKING:
    from ..targets.target import Target


def view_slices(module: Module, target: Target) -> Module:
    """Slices that are one piece of an array's memory become views of it, where the array stays as it is anyway.

    The module is fused and in its final order. That no array has to stay longer than without the view is what
    keeps updates in place: where the array is updated before the slice is read for the last time, the slice stays a
    copy.
    """
    computations = executable_computations(module)
    lasting = set(module.entry.parameters)
    donated = {p for _, p, _ in module.input_output_aliases} | set(module.buffer_donors)
    lasting -= {module.entry.parameters[p] for p in donated}
    for computation in computations:
        for instruction in computation.instructions:
            if instruction.opcode == "while":
                lasting |= unchanged_parameters(instruction.called[1])
    smallest = target.costs.thunks.smallest_view
    return map_computations(module, lambda c: _Viewer(c, lasting, smallest).run(), computations)


class _Viewer:
    """Finds the views of one computation."""

    def __init__(self, computation: Computation, lasting: set[Instruction], smallest: int) -> None:
        self.computation = computation
        self.lasting = lasting
        self.smallest = smallest
        self.results = {without_bitcasts(r) for r in computation.results}
        self.users: dict[
            Instruction, list[Instruction]
        ] = {}  # these two are made for the first candidate
        self.places: dict[Instruction, int] = {}
        self.mapped: dict[Instruction, Instruction] = {}
        self.output: list[Instruction] = []

    def run(self) -> Computation:
        """The computation with views in the places of slices."""
        computation, mapped, output = self.computation, self.mapped, self.output
        views: dict[Instruction, list[Instruction]] = {}  # of fusions with several results
        for instruction in computation.instructions:
            operands = instruction.operands
            if instruction.opcode == "get-tuple-element" and operands[0] in views:
                mapped[instruction] = views[operands[0]][instruction.attributes["index"]]
                continue
            pieces = self.pieces(instruction)
            if not pieces:
                now = on_mapped(instruction, mapped)
                if now is not instruction:
                    mapped[instruction] = now
                output.append(now)
                continue
            made = [self.view(instruction, root, piece) for root, piece in pieces]
            if isinstance(instruction.shape, Shape):
                (mapped[instruction],) = made
            else:
                views[instruction] = made
        if not mapped:
            return computation
        root = mapped.get(computation.root, computation.root)
        return Computation(computation.name, computation.parameters, output, root)

    # ---------------------------------------------------------------------------------------------- which may be views
    def pieces(self, instruction: Instruction) -> list[tuple[Instruction, Piece]]:
        """The results of ``instruction``, each with the piece that it is; none if they cannot be views."""
        if instruction.opcode == "fusion" and instruction.attributes["kind"] == "loop":
            roots: Sequence[Instruction] = instruction.called[0].results
        elif instruction.opcode in ("slice", "dynamic-slice"):
            roots = [instruction]
        else:
            return []
        found = []
        for root in roots:
            piece = find_piece(root) if self.is_large(root) else None
            if piece is None or piece.base is root or not _is_aligned(piece):
                return []
            if instruction.opcode == "fusion" and piece.base.opcode != "parameter":
                return []
            found.append((root, piece))
        if not all(self.stays(_outside(p.base, instruction), instruction) for _, p in found):
            return []
        return found

    def is_large(self, value: Instruction) -> bool:
        """Whether copying ``value`` takes longer than a thunk more."""
        return isinstance(value.shape, Shape) and value.shape.bytes >= self.smallest

    def stays(self, base: Instruction, slice_: Instruction) -> bool:
        """Whether the memory of ``base`` is not written, and not wanted for anything else, while ``slice_`` is read."""
        if not self.places:
            self.users = self.computation.users()
            self.places = {i: n for n, i in enumerate(self.computation.instructions)}
        readers = [r for r in readers_of([slice_], self.users) if r.opcode != "tuple"]
        if not readers or not self.results.isdisjoint([slice_, *self.users[slice_]]):
            return False  # a result has to be an array of its own
        source = without_bitcasts(base)
        if source in self.lasting or source.opcode == "constant":
            return True
        if any(r.opcode in ("while", "conditional") for r in readers):
            return False  # read under other names
        last = max(self.places[r] for r in readers)
        later = (self.places[r] > last for r in readers_of([source], self.users))
        return source in self.results or any(later)

    # --------------------------------------------------------------------------------------------------- making views
    def view(self, instruction: Instruction, root: Instruction, piece: Piece) -> Instruction:
        """The view that takes the place of ``root``, a result of ``instruction``."""
        mapped = {
            value: self.now(_outside(value, instruction))
            for value in (*instruction.operands, *_parameters(instruction))
        }
        chain = []
        value = root
        while value is not piece.base:
            chain.append(value)
            value = value.operands[0]
        members: list[Instruction] = []
        for value in reversed(chain):
            for index in value.operands[1:]:
                if index.opcode == "constant":
                    members.append(index)
                elif index not in mapped:
                    mapped[index] = self.computed(index, mapped)
            members.append(value)
        view = make_fusion(list(dict.fromkeys(members)), [root], VIEW, mapped, {})
        self.output.append(view)
        return view

    def computed(self, index: Instruction, mapped: dict[Instruction, Instruction]) -> Instruction:
        """An index that a fusion computed on the way, as a fusion of its own."""
        members = [i for i in topological_order([index]) if i.opcode != "parameter"]
        fusion = make_fusion(members, [index], "loop", mapped, {})
        self.output.append(fusion)
        return fusion

    def now(self, value: Instruction) -> Instruction:
        return self.mapped.get(value, value)


def _parameters(instruction: Instruction) -> tuple[Instruction, ...]:
    return instruction.called[0].parameters if instruction.called else ()


def _outside(value: Instruction, instruction: Instruction) -> Instruction:
    """What a parameter of a fusion stands for; any other value is itself."""
    if value.opcode == "parameter" and value in _parameters(instruction):
        index: int = value.attributes["index"]
        return instruction.operands[index]
    return value


def _is_aligned(piece: Piece) -> bool:
    """Whether the piece begins where an array may begin, and the runtime reads indices of those types."""
    if piece.offset % ALIGNMENT:
        return False
    return all(
        stride % ALIGNMENT == 0 and index.dtype in (dtypes.S32, dtypes.S64)
        for index, _, stride in piece.strides
    )
