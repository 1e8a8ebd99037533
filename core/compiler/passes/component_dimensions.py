"""The dimensions of few elements of arrays: which are in the way of vectors, and which are the same one.

All dimensions of all arrays are put into classes (union-find), as in :mod:`..fusion.element_loops`: a dimension of a
result belongs to the dimension of the operand that it follows. Slices, concatenations and pads along components link
classes of different sizes: they are taken out of arrays together or not at all (:mod:`.components`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ..ir.classes import Classes
from ..ir.hlo import DotDimensionNumbers, Instruction, Shape
from ..ir.patterns import reshape_groups

#: Elements of a dimension that may be taken out, and of all those of an array together.
MOST: Final = 4
MOST_TOGETHER: Final = 16
# Instructions between a stack and a reduction over it that are looked at.
_MOST_BEFORE_STACK: Final = 32

Node = tuple[Instruction, int]  # a dimension of an array


# -------------------------------------------------------------------------------------------- in the way of vectors
def in_the_way(i: Instruction) -> list[Node]:
    """The dimensions of few elements that ``i`` does not merge with others, last or before others of few elements, and
    those of stacks that it reduces.
    """
    if i.opcode == "reduce":
        if not isinstance(i.shape, Shape):
            return []
        operand, reduced = i.operands[0], i.attributes["dimensions"]
        minor = _minor(operand.dims)
        stacked = [
            (operand, d)
            for d in reduced
            if 1 < operand.dims[d] <= MOST and d not in minor and _is_stacked(operand, d)
        ]
        if all(d in reduced for d in minor) == any(d in reduced for d in minor):
            before = [d for d, n in enumerate(operand.dims) if n != 1 and d not in minor]
            if not before or not minor or (before[-1] in reduced) == (minor[0] in reduced):
                return stacked
        return [(operand, d) for d in minor] + stacked
    if i.opcode == "broadcast":
        mapped = i.attributes["dimensions"]
        if not mapped:
            return []
        minor = _minor(i.dims)
        before = [d for d, n in enumerate(i.dims) if n != 1 and d not in minor]
        if not minor or not before:
            return []
        ends = (before[-1] in mapped, minor[0] in mapped)
        if ends == (True, True) and all(d in mapped for d in before):
            return []
        return [(i, d) for d in minor]
    if i.opcode in ("slice", "pad", "concatenate", "reverse"):
        larger = i.operands[0] if i.opcode == "slice" else i
        return [(larger, d) for d in _minor(larger.dims) if changes(i, d)]
    return []


def _is_stacked(i: Instruction, d: int) -> bool:
    """Whether ``i`` is computed, element by element, from a stack of arrays along ``d``: a sum over them need not go
    from one to the next by their numbers.
    """
    seen = {i}
    left = [i]
    while left and len(seen) <= _MOST_BEFORE_STACK:
        found = left.pop()
        if found.opcode == "concatenate" and found.attributes["dimension"] == d:
            return all(o.dims[d] == 1 for o in found.operands)
        if found.is_elementwise:
            left += [o for o in found.operands if o.dims == i.dims and o not in seen]
            seen |= {*found.operands}
    return False


def _minor(dims: Sequence[int]) -> list[int]:
    """The last dimensions, as long as they have few elements."""
    found: list[int] = []
    for d in range(len(dims) - 1, -1, -1):
        if dims[d] > MOST:
            break
        if dims[d] != 1:
            found.insert(0, d)
    return found


def changes(i: Instruction, d: int) -> bool:
    """Whether a slice, pad, concatenation or reversal does something along ``d``."""
    at = i.attributes
    if i.opcode == "slice":
        return (at["starts"][d], at["strides"][d], i.dims[d]) != (0, 1, i.operands[0].dims[d])
    if i.opcode == "pad":
        return (at["low"][d], at["high"][d], at["interior"][d]) != (0, 0, 0)
    if i.opcode == "reverse":
        return d in at["dimensions"]
    return bool(at["dimension"] == d)


# --------------------------------------------------------------------------------------------- classes of dimensions
class DimensionClasses:
    """The dimensions of a computation's arrays: which are the same one, and which are linked."""

    def __init__(self, instructions: Sequence[Instruction]) -> None:
        self._first: dict[Instruction, int] = {}
        self.sizes: list[int] = []
        for i in instructions:
            if isinstance(i.shape, Shape):
                self._first[i] = len(self.sizes)
                self.sizes += i.dims
        classes = Classes(len(self.sizes))
        self._links: list[tuple[int, int]] = []
        for i in instructions:
            if i in self._first:
                for a, b in _ties(i):
                    classes.join(self._node(a), self._node(b))
        for i in instructions:
            if i in self._first:
                self._links += [(self._node(a), self._node(b)) for a, b in _links(i)]
        for m, n in self._links:
            if self.sizes[m] <= MOST and self.sizes[n] <= MOST:
                classes.join(m, n)
        self._groups = [classes.find(n) for n in range(len(self.sizes))]

    def _node(self, node: Node) -> int:
        return self._first[node[0]] + node[1]

    def group(self, i: Instruction, d: int) -> int:
        """The number of the group of linked classes that dimension ``d`` of ``i`` is in."""
        return self._groups[self._first[i] + d]

    def small(self, i: Instruction) -> list[int]:
        """The dimensions of ``i`` that can be taken out."""
        return [d for d, size in enumerate(i.dims) if 2 <= size <= MOST]


def _ties(i: Instruction) -> Iterator[tuple[Node, Node]]:
    """The dimensions of ``i`` and of its operands that are the same."""
    opcode, at = i.opcode, i.attributes
    if i.is_elementwise or opcode in ("copy", "bitcast-convert"):
        for o in i.operands:
            if o.dims == i.dims:
                for d in range(len(i.dims)):
                    yield (i, d), (o, d)
    elif opcode == "broadcast":
        for d, target in enumerate(at["dimensions"]):
            yield (i.operands[0], d), (i, target)
    elif opcode == "transpose":
        for d, source in enumerate(at["dimensions"]):
            yield (i, d), (i.operands[0], source)
    elif opcode == "reduce":
        operand = i.operands[0]
        kept = [d for d in range(len(operand.dims)) if d not in at["dimensions"]]
        for d, source in enumerate(kept):
            yield (i, d), (operand, source)
    elif opcode in ("reshape", "bitcast"):
        if i.dtype is i.operands[0].dtype:
            for d, source in kept_by_reshape(i):
                yield (i, d), (i.operands[0], source)
    elif opcode in ("slice", "pad", "reverse", "concatenate"):
        for o in _parts_of(i):
            for d in range(len(i.dims)):
                if opcode == "reverse" or not changes(i, d):
                    yield (i, d), (o, d)
    elif opcode == "dot":
        numbers: DotDimensionNumbers = at["dimension_numbers"]
        lhs, rhs = i.operands
        yield from (
            ((lhs, a), (rhs, b))
            for a, b in zip(numbers.lhs_contracting, numbers.rhs_contracting, strict=True)
        )
        for d, (a, b) in enumerate(sources_of_dot(i)):
            if a is not None:
                yield (i, d), (lhs, a)
            if b is not None:
                yield (i, d), (rhs, b)


def _links(i: Instruction) -> Iterator[tuple[Node, Node]]:
    """Dimensions of different sizes that are taken out together."""
    if i.opcode in ("slice", "pad", "concatenate"):
        for o in _parts_of(i):
            for d in range(len(i.dims)):
                if changes(i, d) and i.dims[d] > 1 and o.dims[d] > 1:
                    yield (i, d), (o, d)


def _parts_of(i: Instruction) -> tuple[Instruction, ...]:
    return i.operands if i.opcode == "concatenate" else i.operands[:1]


def kept_by_reshape(i: Instruction) -> list[tuple[int, int]]:
    """Pairs (d, e): dimension d of a reshape is dimension e of its operand."""
    found = []
    dims = i.operands[0].dims
    for ours, theirs in reshape_groups(i.dims, dims):
        a = [d for d in ours if i.dims[d] != 1]
        b = [d for d in theirs if dims[d] != 1]
        if len(a) == len(b) == 1:
            found.append((a[0], b[0]))
    return found


def sources_of_dot(i: Instruction) -> list[tuple[int | None, int | None]]:
    """For each dimension of a product the dimensions of lhs and rhs that it is."""
    numbers: DotDimensionNumbers = i.attributes["dimension_numbers"]
    lhs, rhs = i.operands
    result: list[tuple[int | None, int | None]] = list(
        zip(numbers.lhs_batch, numbers.rhs_batch, strict=True)
    )
    taken = {*numbers.lhs_batch, *numbers.lhs_contracting}
    result += [(d, None) for d in range(len(lhs.dims)) if d not in taken]
    taken = {*numbers.rhs_batch, *numbers.rhs_contracting}
    return result + [(None, d) for d in range(len(rhs.dims)) if d not in taken]
