"""A cluster: the instructions that one fusion will hold, while fusion is deciding what goes where.

A cluster evaluates its members at *contexts*. Context ``full`` is "at the index the loop stands at"
in the cluster's iteration space ``dims``; elementwise uses stay in their user's context; a
transpose, slice or broadcast derives a new one. An instruction in two contexts is computed twice an
iteration, so contexts tell what fusing a producer costs, before any code exists. Two special ones:
``SCALAR`` (a value of one element: computed once, outside the loop) and ``rows``, the context of
the reduced values in a cluster with reductions: the same index without the reduced dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from ..ir.hlo import Instruction
from ..ir.registry import OPS

SCALAR: Final = -1
# Read in a way that nothing may be fused into: the operand that is updated in place.
FORBIDDEN: Final = -2

# A reduction along fewer elements has no vectors along them if it can have them along its results.
# The lanes of a vector are put together at the end, which is more work for maxima of floats (NaN and zeros are looked
# after) and most for a body with several results (argmax).
SHORTEST_VECTOR: Final = 8
SHORTEST_VECTOR_OF_EXTREMA: Final = 20
SHORTEST_VECTOR_OF_SEVERAL: Final = 32

# A loop over rows of so few elements computes each of them in vectors along the dimension before, if that fills a
# vector of any type and if the code is short: the weight of its instructions, once for each element of a row.
LONGEST_SHORT_ROW: Final = 4
LONGEST_VECTOR: Final = 64
MOST_SHORT_ROW_CODE: Final = 512

MAXIMUM_MEMBERS: Final = 200
MAXIMUM_INPUTS: Final = 48


def is_free(instruction: Instruction) -> bool:
    """Whether a value needs no memory and no work: a constant, an index, a scalar in all places."""
    if instruction.opcode == "broadcast":
        (operand,) = instruction.operands
        return not operand.dims
    return OPS[instruction.opcode].stays_in_registers


def shortest_vector(reduce: Instruction) -> int:
    """How many elements are to be reduced to one result by vectors along them."""
    if len(reduce.operands) > 2:
        return SHORTEST_VECTOR_OF_SEVERAL
    root = reduce.called[0].root
    if root.opcode in ("maximum", "minimum") and root.dtype.is_float:
        return SHORTEST_VECTOR_OF_EXTREMA
    return SHORTEST_VECTOR


@dataclass(slots=True, eq=False)
class Cluster:
    """See the module's text. ``order`` is its place in the schedule: producers have smaller
    numbers.
    """

    kind: str  # loop, reduce, row, dynamic-update-slice, scatter; "" for a boundary
    dims: tuple[int, ...]
    order: int
    boundary: bool = field(init=False)
    elements: int = field(init=False)
    full: int = field(init=False)
    members: dict[Instruction, tuple[int, ...]] = field(default_factory=dict)
    roots: list[Instruction] = field(default_factory=list)
    inputs: dict[Instruction, None] = field(default_factory=dict)
    cost: float = 0.0
    recomputed: float = 0.0
    row_code: float = 0.0  # the weight of its members, once for each element of a short row
    rows: int | None = None
    # Leading dimensions that are rows' dimensions, if the reduced ones are the last ones.
    row_rank: int = -1
    reduced: tuple[int, ...] | None = None
    contexts: dict[object, int] = field(default_factory=dict)
    # How many elements are computed in contexts that do not stand at each of ``dims``.
    computed: dict[int, int] = field(default_factory=dict)
    # Members at ``rows`` whose value comes back into ``full``.
    feeding: set[Instruction] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.boundary = self.kind == ""
        self.elements = math.prod(self.dims)
        self.full = SCALAR if not self.dims else 0

    def derived(self, key: object) -> int:
        """The number of the context that ``key`` describes."""
        number = self.contexts.get(key)
        if number is None:
            number = len(self.contexts) + 2
            self.contexts[key] = number
            if isinstance(key, tuple) and key[0] in self.computed:
                self.computed[number] = self.computed[key[0]]
        return number

    @property
    def has_short_rows(self) -> bool:
        """Whether each element of a row is computed for itself, if the code is short."""
        return (
            self.kind == "loop"
            and len(self.dims) > 1
            and 1 < self.dims[-1] <= LONGEST_SHORT_ROW
            and self.dims[-2] >= LONGEST_VECTOR
        )

    @property
    def row_dims(self) -> tuple[int, ...]:
        """The dimensions of reduced values."""
        reduced = self.reduced or ()
        return tuple(d for n, d in enumerate(self.dims) if n not in reduced)

    def access(self, user: Instruction, context: int, position: int) -> int:
        """The context in which ``user``, itself in ``context``, reads operand ``position``."""
        opcode = user.opcode
        if opcode == "get-tuple-element":  # of a reduction of several operands
            return context
        operand = user.operands[position]
        dims = operand.shape.dims  # type: ignore[union-attr]
        if not dims:
            return SCALAR
        if opcode == "reduce":
            return self.full
        user_dims = user.shape.dims  # type: ignore[union-attr]
        if user.is_elementwise:
            return context
        if opcode == "broadcast":
            dimensions = user.attributes["dimensions"]
            if dims == user_dims:
                return context
            rank = len(dims)
            if (
                context == self.full
                and dimensions == tuple(range(rank))
                and dims == self.dims[:rank]
            ):
                return self.rows_context(rank)
            return self.derived((context, opcode, dimensions, dims, user_dims))
        if opcode == "dynamic-update-slice" and self.kind == opcode:
            return self.full if position == 1 else FORBIDDEN
        if opcode == "scatter":
            places = self.derived((context, opcode, dims))
            return (FORBIDDEN, places, self.full)[position]
        if opcode == "transpose":
            return self.derived((context, opcode, user.attributes["dimensions"], dims))
        if opcode == "slice":
            a = user.attributes
            return self.derived((context, opcode, a["starts"], a["strides"], dims))
        if opcode == "reshape":
            return self.derived((context, opcode, dims, user_dims))
        if opcode == "gather" and position == 1:
            # Gathers of one kind read their places at the same index, whatever array they read.
            numbers = user.attributes["dimension_numbers"]
            kind = (numbers.offset_dims, numbers.index_vector_dim)
            return self.derived((context, opcode, kind, dims, user_dims))
        if opcode == "concatenate":
            along = user.attributes["dimension"]
            before = sum(o.dims[along] for o in user.operands[:position])
            piece = self.derived((context, opcode, along, before, dims))
            if context == self.full and along == len(user_dims) - 1 and self.has_short_rows:
                self.computed[piece] = math.prod(dims)
            return piece
        return self.derived((context, user, position))

    def rows_context(self, rank: int) -> int:
        """The context of the leading ``rank`` dimensions of ``full``."""
        if self.rows is not None and rank == self.row_rank:
            return self.rows
        return self.derived(("rows", rank))

    def contexts_for(self, producer: Instruction, users: Iterable[Instruction]) -> tuple[int, ...]:
        """In which contexts the members among ``users`` read ``producer``."""
        found: list[int] = []
        members = self.members
        for user in users:
            contexts = members.get(user)
            if contexts is None:
                continue
            for position, operand in enumerate(user.operands):
                if operand is producer:
                    for context in contexts:
                        read = self.access(user, context, position)
                        if read not in found:
                            found.append(read)
        return tuple(found)

    def comes_back(self, users: Iterable[Instruction]) -> bool:
        """Whether a value at ``rows`` read by ``users`` flows into the full iteration space."""
        for user in users:
            contexts = self.members.get(user)
            if contexts is None or user.opcode == "reduce":
                continue
            if user in self.feeding or any(c not in (self.rows, SCALAR) for c in contexts):
                return True
        return False

    def add(
        self, instruction: Instruction, contexts: tuple[int, ...], cost: float, recomputed: float
    ) -> None:
        """Make ``instruction`` a member."""
        self.members[instruction] = contexts
        self.inputs.pop(instruction, None)
        for operand in instruction.operands:
            if operand not in self.members:
                self.inputs[operand] = None
        self.cost += cost
        self.recomputed += recomputed

    def can_read_all(self, extra: int) -> bool:
        return len(self.inputs) + extra <= MAXIMUM_INPUTS and len(self.members) < MAXIMUM_MEMBERS
