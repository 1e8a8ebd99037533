"""What makes a matrix of weights, written anew to be part of the kernel that reads the matrix.

Kernels that read a matrix once (:mod:`.streamed`), or pack it (:mod:`.packed`), compute it as they read what it is made
of: arrays of fewer bits with scales and offsets for channels or groups.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Final

from ...fusion.fused import make_fusion
from ...ir import dtypes
from ...ir.hlo import Computation, Instruction, Shape, topological_order
from ...ir.patterns import convert, reshape, reshaped_broadcast
from ...ir.ranges import never_wraps, range_of
from ...ir.registry import OPS
from .joined_codes import joined_codes

if TYPE_CHECKING:
    from ...targets.costs import Costs

_MOST_MEMBERS: Final = 32
# An array that has so many elements fewer than the matrix is converted to f32 before the product, unless ...
_SMALL: Final = 8
# ... the product reads the matrix once, and converting would move more than a small part of the matrix's memory.
_TINY: Final = 512
_IN_A_WORD: Final = (2, 4, 8)
# How programs take the numbers out of a word.
_UNPACKING: Final = frozenset(
    ("and", "divide", "remainder", "shift-right-arithmetic", "shift-right-logical")
)
# An array of so many integers that the program's text decides is computed again in the product.
_MOST_NUMBERS: Final = 64
_SMALL_FLOATS: Final = frozenset((dtypes.BF16, dtypes.F16))
_ROUNDING: Final = frozenset(("add", "subtract", "multiply", "divide", "negate"))


class _NotWorthwhileError(Exception):
    """No further instruction can make it worthwhile to compute the matrix inside of the product."""


class Same(dict[Instruction, Instruction]):
    """The operands of a fusion are the instructions that they are."""

    def __missing__(self, key: Instruction) -> Instruction:
        return key


class Weights:
    """What makes a matrix of ``dims``, written anew for a fusion.

    Reshapes go to the arrays that are read, where they cost nothing, and floats of 16 bits are computed in f32, as all
    kernels do in registers. ``members`` are the instructions of the fusion. ``read_once``: the product reads no element
    twice, so that arrays for groups are not converted before. ``most_bytes``: of the arrays that it is made of.
    """

    def __init__(
        self,
        dims: tuple[int, ...],
        costs: Costs,
        *,
        read_once: bool = False,
        most_bytes: float = math.inf,
    ) -> None:
        self.costs = costs
        self.read_once = read_once
        self.dims = dims
        self.elements = math.prod(dims)
        self.members: set[Instruction] = set()
        self.awaited = 0  # members whose operands are being made
        self.read: set[Instruction] = set()
        self.bytes_read = 0  # of those arrays
        self.most_bytes = min(most_bytes, costs.fusion.weights_read * 4 * self.elements)
        self.computes = False  # whether the matrix is more than an array
        self.cost = 0.0
        self.in_word = 1  # neighbours along the last dimension that are taken out of one word
        # Integers that neighbours along the last dimension share, with how many neighbours do.
        self.shared: dict[Instruction, int] = {}
        self.done: dict[tuple[Instruction, tuple[int, ...]], Instruction] = {}

    def matrix(self, i: Instruction) -> Instruction | None:
        """``i`` as an array of ``dims``, in f32 for floats of 16 bits; None if there is nothing to compute, or it
        takes more time inside of the product than outside.
        """
        try:
            made = self.value(i, self.dims)
            self.check()
        except _NotWorthwhileError:
            return None
        return made if self.computes else None

    def check(self) -> None:
        """Give up as soon as it is not worthwhile: what is looked at makes it no better."""
        if (
            self.cost > self.costs.fusion.weights
            or len(self.members) + self.awaited > _MOST_MEMBERS
            or self.bytes_read > self.most_bytes
        ):
            raise _NotWorthwhileError

    def fusion(
        self,
        roots: list[Instruction],
        last: Instruction,
        kind: str,
        fusions: dict[Hashable, Computation],
    ) -> Instruction:
        """``last``, which reads ``roots``, and what they are computed from."""
        inside = topological_order(roots, self.members)
        return make_fusion([*inside, last], [last], kind, Same(), fusions)

    def value(self, i: Instruction, dims: tuple[int, ...]) -> Instruction:
        """An instruction that the matrix is made of as an array of ``dims``."""
        key = (i, dims)
        if key not in self.done:
            self.done[key] = self._made(i, dims)
        return self.done[key]

    def _made(self, i: Instruction, dims: tuple[int, ...]) -> Instruction:
        if i.opcode in ("reshape", "bitcast"):
            return self.value(i.operands[0], dims)
        self.check()
        if i.opcode == "broadcast":
            return self.broadcast(i, dims)
        if i.opcode == "concatenate" and i.elements == self.elements:
            joined = joined_codes(i, side_by_side=self.read_once)
            return self.array(i, dims) if joined is None else self.value(joined, dims)
        if not OPS[i.opcode].is_indexable or not i.is_elementwise or i.elements != self.elements:
            return self.array(i, dims)
        self.computes = True
        if i.opcode == "convert":
            source = i.operands[0]
            if self.wide(i.dtype) is dtypes.F32 and _is_difference_of_codes(source):
                operands = [self.value(o, dims) for o in source.operands]
                floats = [self.converted(o, dtypes.F32, i) for o in operands]
                made = self.member(source.opcode, source, dtypes.F32, *floats)
                self.shared[made] = max(self.shared.get(o, 1) for o in operands)
                return made
            value = self.value(source, dims)
            exact = source.dtype.is_integer and source.dtype.bits <= 8
            if i.dtype in _SMALL_FLOATS and not exact and value.dtype is not i.dtype:
                value = self.member("convert", i, i.dtype, value)  # it rounds
            made = self.converted(value, self.wide(i.dtype), i)
            self.shared[made] = self.shared.get(value, 1)
            return made
        if i.dtype in _SMALL_FLOATS and i.opcode not in _ROUNDING:
            return self.array(i, dims)
        if any(
            o.elements != self.elements for o in i.operands
        ):  # the scalar of a select or a clamp
            return self.array(i, dims)
        if i.opcode in _ROUNDING or _SMALL_FLOATS.isdisjoint(o.dtype for o in i.operands):
            self.awaited += 1
            self.check()
            operands = [self.value(o, dims) for o in i.operands]
            self.awaited -= 1
        else:
            operands = [self.value(o, dims) for o in i.operands]
        if any(a.dtype is not b.dtype for a, b in zip(operands, i.operands, strict=True)) and (
            i.opcode not in _ROUNDING
        ):
            return self.array(i, dims)
        made = self.member(i.opcode, i, self.wide(i.dtype), *operands)
        self.shared[made] = max((self.shared.get(o, 1) for o in operands), default=1)
        if i.opcode in _UNPACKING and i.dtype.is_integer:
            self.in_word = max(self.in_word, self.shared[made])
        return made

    def broadcast(self, i: Instruction, dims: tuple[int, ...]) -> Instruction:
        """A broadcast to ``dims`` of an array that is reshaped before, if that is possible."""
        source = i.operands[0]
        found = reshaped_broadcast(i, dims)
        if found is None:
            last = i.dims[-1]
            repeats = source.elements * last == i.elements and (
                len(i.dims) - 1 not in i.attributes["dimensions"]
            )
            value = self.member("broadcast", i, None, self.small(source, source.dims))
            value = self.member("reshape", i, value.dtype, value, dims=dims)
            if source.dtype.is_integer and last in _IN_A_WORD and repeats:
                self.shared[value] = last
            return value
        small = self.small(source, found[0])
        return self.member(
            "broadcast", i, None, small, dims=dims, attributes={"dimensions": found[1]}
        )

    def small(self, source: Instruction, dims: tuple[int, ...]) -> Instruction:
        """An array that is broadcast."""
        if source.opcode == "constant" and not source.dims:
            self.members.add(source)
            return self.converted(source, self.wide(source.dtype), source)
        numbers = _made_of_nothing(source)
        if (
            numbers is not None
        ):  # such as the shifts of the numbers in a word: known for each when code is written
            self.members |= numbers
            return (
                source
                if dims == source.dims
                else self.member("reshape", source, None, source, dims=dims)
            )
        return self.array(source, dims)

    def array(self, i: Instruction, dims: tuple[int, ...]) -> Instruction:
        """An array in memory that the product reads."""
        if i.elements * (_TINY if self.read_once else _SMALL) <= self.elements:
            i = convert(i, self.wide(i.dtype))
        if i not in self.read:
            self.read.add(i)
            self.bytes_read += i.elements * i.dtype.size
        cost = self.cost
        value = self.converted(reshape(i, dims), self.wide(i.dtype), i)
        if i.elements * _SMALL <= self.elements:
            self.cost = cost  # once for many elements of the matrix
        return value

    def converted(
        self, value: Instruction, dtype: dtypes.DType, origin: Instruction
    ) -> Instruction:
        return value if value.dtype is dtype else self.member("convert", origin, dtype, value)

    @staticmethod
    def wide(dtype: dtypes.DType) -> dtypes.DType:
        return dtypes.F32 if dtype in _SMALL_FLOATS else dtype

    def member(
        self,
        opcode: str,
        origin: Instruction,
        dtype: dtypes.DType | None,
        *operands: Instruction,
        dims: tuple[int, ...] | None = None,
        attributes: dict[str, object] | None = None,
    ) -> Instruction:
        """A new instruction of the fusion, in the place of ``origin``."""
        if dims is None:
            dims = origin.dims if opcode == "broadcast" else operands[0].dims
        if attributes is None:
            attributes = dict(origin.attributes) if opcode == origin.opcode else {}
        shape = Shape(dtype or operands[0].dtype, dims)
        made = origin.derive(opcode, operands, attributes, shape=shape)
        self.members.add(made)
        self.cost += self.costs.instructions(made) if dims != () else 0.0
        return made


def _made_of_nothing(i: Instruction) -> set[Instruction] | None:
    """What computes a small array of integers that no value decides; None if ``i`` is another array."""
    found: set[Instruction] = set()
    stack = [i]
    while stack:
        top = stack.pop()
        known = top.opcode in ("constant", "iota", "broadcast", "reshape") or (
            top.is_elementwise and OPS[top.opcode].is_indexable and top.operands != ()
        )
        if not known or not top.dtype.is_integer or top.elements > _MOST_NUMBERS:
            return None
        found.add(top)
        if len(found) > _MOST_MEMBERS // 2:
            return None
        stack += top.operands
    return found


def _is_difference_of_codes(i: Instruction) -> bool:
    """Whether ``i`` is a code less a zero point, or plus one, in bytes, and the same as the floats of both give.

    A kernel makes floats of codes by a lookup, and floats of a zero point once for all codes of a word. To make floats
    of their difference in bytes it would pack words into bytes. (Codes less a constant are in the lookup.)
    """
    return (
        i.opcode in ("add", "subtract")
        and i.dtype.is_integer
        and i.dtype.bits == 8
        and all(r.low < r.high for r in map(range_of, i.operands))
        and never_wraps(i)
    )
