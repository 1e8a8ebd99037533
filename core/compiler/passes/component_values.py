"""The arrays of a computation while dimensions of few elements are taken out: whole, or a component for each index."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from ..ir.hlo import Computation, Instruction, constant
from ..ir.moves import block
from ..ir.patterns import body_on_arrays, reshape, splat
from .rewrite import unplaced

Index = tuple[int, ...]

# What only moves elements: it can be done once more on a whole array that is there.
_MOVING: Final = frozenset(
    ["bitcast", "broadcast", "iota", "reshape", "reverse", "slice", "transpose"]
)


class Values:
    """The values of instructions that have been placed, and the new instructions (``output``).

    ``taken``: the dimensions of an instruction that are taken out.
    """

    def __init__(self, taken: Callable[[Instruction], list[int]]) -> None:
        self.taken = taken
        self.output: list[Instruction] = []
        self.placed: set[Instruction] = set()
        # Of each instruction of the computation: its value as one array, or its components by their index.
        self.whole: dict[Instruction, Instruction] = {}
        self.parts: dict[Instruction, dict[Index, Instruction]] = {}
        self.taken_apart: dict[tuple[Instruction, tuple[tuple[int, int], ...]], Instruction] = {}
        self.made: dict[object, Instruction] = {}

    # ------------------------------------------------------------------------------------------------ instructions
    def add(self, i: Instruction) -> Instruction:
        self.output.append(i)
        self.placed.add(i)
        return i

    def zeros(self, like: Instruction, dims: Index) -> Instruction:
        """An array of ``like``'s dtype that holds 0."""
        zero = constant(np.zeros((), like.dtype.numpy), metadata=like.metadata)
        return self.add(splat(self.add(zero), dims)) if dims else self.add(zero)

    def make(
        self,
        like: Instruction,
        dims: Index,
        operands: Sequence[Instruction],
        **attributes: object,
    ) -> Instruction:
        """An instruction as ``like``, of other dimensions, operands and ``attributes``: one for all components that
        have the same operands.
        """
        key = (like, dims, tuple(operands), tuple(attributes.items()))
        found = self.made.get(key)
        if found is None:
            shape = like.shape.with_dims(dims)  # type: ignore[union-attr]
            merged = {**like.attributes, **attributes}
            found = self.add(like.replace(operands=operands, shape=shape, attributes=merged))
            self.made[key] = found
        return found

    def reshape(self, i: Instruction, dims: Sequence[int]) -> Instruction:
        new = reshape(i, dims)
        return new if new is i else self.add(new)

    def combine(self, body: Computation, a: Instruction, b: Instruction) -> Instruction | None:
        """A reduction's body applied to two arrays; None if it holds something that is not elementwise."""
        found = body_on_arrays(body, (a, b))
        if found is None:
            return None
        for i in unplaced(found, self.placed):
            self.add(i)
        return found[0]

    # --------------------------------------------------------------------------------------- whole, and components
    def of_whole(self, i: Instruction) -> Instruction:
        """``i`` as one array, put together if it is in components."""
        found = self.whole.get(i)
        if found is None:
            if i.opcode in _MOVING and all(o in self.whole for o in i.operands):
                found = self.add(i.replace(operands=[self.whole[o] for o in i.operands]))
            else:
                found = self.stack(i, self.parts[i], self.taken(i), ())
            self.whole[i] = found
        return found

    def stack(
        self, i: Instruction, parts: dict[Index, Instruction], dims: list[int], index: Index
    ) -> Instruction:
        """The components whose indices begin with ``index`` as one array; of size one where it says which."""
        if len(index) == len(dims):
            full = tuple(1 if d in dims else n for d, n in enumerate(i.dims))
            return self.reshape(parts[index], full)
        d = dims[len(index)]
        pieces = [self.stack(i, parts, dims, (*index, n)) for n in range(i.dims[d])]
        shape = pieces[0].shape.with_dims(  # type: ignore[union-attr]
            tuple(
                size if n == d else m
                for n, (size, m) in enumerate(zip(i.dims, pieces[0].dims, strict=True))
            )
        )
        return self.add(i.derive("concatenate", pieces, {"dimension": d}, shape=shape))

    def component(self, i: Instruction, at: dict[int, int]) -> Instruction:
        """``i`` where its dimensions that are keys of ``at`` are fixed, without those dimensions."""
        taken = self.taken(i)
        if i in self.parts and all(d in at for d in taken):
            value = self.parts[i][tuple([at[d] for d in taken])]
            at = {d - sum(t < d for t in taken): n for d, n in at.items() if d not in taken}
        else:
            value = self.of_whole(i)
        if not at:
            return value
        key = (value, tuple(sorted(at.items())))
        found = self.taken_apart.get(key)
        if found is None:
            dims = value.dims
            kept = tuple([n for d, n in enumerate(dims) if d not in at])
            if value.opcode == "constant":
                literal = value.attributes["literal"]
                place = tuple([at.get(d, slice(None)) for d in range(len(dims))])
                found = self.add(constant(literal[place], value.dtype, value.metadata))
            else:
                starts = [at.get(d, 0) for d in range(len(dims))]
                piece = block(value, starts, [1 if d in at else n for d, n in enumerate(dims)])
                found = self.reshape(self.add(piece), kept)
            self.taken_apart[key] = found
        return found
