"""Arrays of few components become an array for each component.

Places in space, quaternions, colours and small matrices are arrays whose last dimension has two to four elements.
Vectors that run along it are nearly empty, and neither can it be merged with the dimension before it where
[512, 1, 3] is subtracted from [1, 512, 3], or where the squares of three components are summed. This pass takes such
dimensions out of the program: f32[512,512,3] becomes three f32[512,512], a sum over the components becomes two
additions, and transposes, stacks and slices of components vanish. Fusion then sees nothing but long dimensions.

How: all dimensions of all arrays are put into classes (union-find), as in :mod:`..fusion.element_loops`: a dimension
of a result belongs to the dimension of the operand that it follows. Slices, concatenations and pads along components
link classes of different sizes. Linked classes are taken out together, if that pays: some large array must have its
components in the way, and what is computed of them must outweigh the elements that are taken apart and put together
again where whole arrays are needed (by parameters, results, loops, library calls).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import TYPE_CHECKING, Final

import numpy as np

from ..ir.classes import Classes
from ..ir.control_flow import executable_computations
from ..ir.hlo import (
    Computation,
    DotDimensionNumbers,
    Instruction,
    Module,
    Shape,
    broadcast,
    constant,
)
from ..ir.moves import block
from ..ir.patterns import body_on_arrays, reshape, reshape_groups, splat
from .rewrite import map_computations, prune, unplaced

if TYPE_CHECKING:
    from ..targets.costs import Components
    from ..targets.target import Target

#: Elements of a dimension that may be taken out, and of all those of an array together.
MOST: Final = 4
MOST_TOGETHER: Final = 16
#: Instructions that a computation may have more than before.
MOST_INSTRUCTIONS: Final = 4096

Index = tuple[int, ...]
Node = tuple[Instruction, int]  # a dimension of an array


def split_components(module: Module, target: Target) -> Module:
    """The module with small dimensions taken out of arrays where that pays."""
    costs = target.costs.components
    return map_computations(
        module,
        lambda c: _Splitter(c, costs).run() if _may_pay(c, costs) else c,
        executable_computations(module),
    )


def _may_pay(computation: Computation, costs: Components) -> bool:
    """Whether an array at all has components in the way."""
    return any(
        isinstance(i.shape, Shape) and _in_the_way(i) and _larger(i).elements >= costs.least
        for i in computation.instructions
    )


def _larger(i: Instruction) -> Instruction:
    return max((i, *i.operands[:1]), key=lambda x: x.elements if isinstance(x.shape, Shape) else 0)


def _in_the_way(i: Instruction) -> list[Node]:
    """The dimensions of few elements, last or before others of few elements, that ``i`` does not merge with others."""
    if i.opcode == "reduce":
        if not isinstance(i.shape, Shape):
            return []
        operand, reduced = i.operands[0], i.attributes["dimensions"]
        minor = _minor(operand.dims)
        if all(d in reduced for d in minor) == any(d in reduced for d in minor):
            before = [d for d, n in enumerate(operand.dims) if n != 1 and d not in minor]
            if not before or not minor or (before[-1] in reduced) == (minor[0] in reduced):
                return []
        return [(operand, d) for d in minor]
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
        return [(larger, d) for d in _minor(larger.dims) if _changes(i, d)]
    return []


def _minor(dims: Sequence[int]) -> list[int]:
    """The last dimensions, as long as they have few elements."""
    found: list[int] = []
    for d in range(len(dims) - 1, -1, -1):
        if dims[d] > MOST:
            break
        if dims[d] != 1:
            found.insert(0, d)
    return found


def _changes(i: Instruction, d: int) -> bool:
    """Whether a slice, pad, concatenation or reversal does something along ``d``."""
    at = i.attributes
    if i.opcode == "slice":
        return (at["starts"][d], at["strides"][d], i.dims[d]) != (0, 1, i.operands[0].dims[d])
    if i.opcode == "pad":
        return (at["low"][d], at["high"][d], at["interior"][d]) != (0, 0, 0)
    if i.opcode == "reverse":
        return d in at["dimensions"]
    return bool(at["dimension"] == d)


# ------------------------------------------------------------------------------------------------ classes of dimensions
class _Classes:
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
            for d, source in _kept_by_reshape(i):
                yield (i, d), (i.operands[0], source)
    elif opcode in ("slice", "pad", "reverse", "concatenate"):
        for o in _parts_of(i):
            for d in range(len(i.dims)):
                if opcode == "reverse" or not _changes(i, d):
                    yield (i, d), (o, d)
    elif opcode == "dot":
        numbers: DotDimensionNumbers = at["dimension_numbers"]
        lhs, rhs = i.operands
        yield from (
            ((lhs, a), (rhs, b))
            for a, b in zip(numbers.lhs_contracting, numbers.rhs_contracting, strict=True)
        )
        for d, (a, b) in enumerate(_sources_of_dot(i)):
            if a is not None:
                yield (i, d), (lhs, a)
            if b is not None:
                yield (i, d), (rhs, b)


def _links(i: Instruction) -> Iterator[tuple[Node, Node]]:
    """Dimensions of different sizes that are taken out together."""
    if i.opcode in ("slice", "pad", "concatenate"):
        for o in _parts_of(i):
            for d in range(len(i.dims)):
                if _changes(i, d) and i.dims[d] > 1 and o.dims[d] > 1:
                    yield (i, d), (o, d)


def _parts_of(i: Instruction) -> tuple[Instruction, ...]:
    return i.operands if i.opcode == "concatenate" else i.operands[:1]


def _kept_by_reshape(i: Instruction) -> list[tuple[int, int]]:
    """Pairs (d, e): dimension d of a reshape is dimension e of its operand."""
    found = []
    dims = i.operands[0].dims
    for ours, theirs in reshape_groups(i.dims, dims):
        a = [d for d in ours if i.dims[d] != 1]
        b = [d for d in theirs if dims[d] != 1]
        if len(a) == len(b) == 1:
            found.append((a[0], b[0]))
    return found


def _sources_of_dot(i: Instruction) -> list[tuple[int | None, int | None]]:
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


# ---------------------------------------------------------------------------------------------------- what it is worth
@dataclass
class _Worth:
    """Elements of a group's arrays: those with components ``in_the_way``, those ``computed`` by component, and those
    ``moved`` between whole arrays and components. ``added``: instructions.
    """

    in_the_way: int = 0
    computed: int = 0
    moved: int = 0
    added: int = 0


class _Splitter:
    """Takes small dimensions out of one computation."""

    def __init__(self, computation: Computation, costs: Components) -> None:
        self.computation = computation
        self.costs = costs
        self.classes = _Classes(computation.instructions)
        self.chosen: set[int] = set()
        self.output: list[Instruction] = []
        self.placed: set[Instruction] = set()
        # Of each instruction of the computation: its value as one array, or its components by their index.
        self.whole: dict[Instruction, Instruction] = {}
        self.parts: dict[Instruction, dict[Index, Instruction]] = {}
        self.taken_apart: dict[tuple[Instruction, tuple[tuple[int, int], ...]], Instruction] = {}
        self.made: dict[object, Instruction] = {}

    def run(self) -> Computation:
        self.choose()
        if not self.chosen:
            return self.computation
        for i in self.computation.instructions:
            self.place(i)
        root = self.of_whole(self.computation.root)
        c = self.computation
        return prune(Computation(c.name, c.parameters, self.output, root))

    # -------------------------------------------------------------------------------------------------- the choice
    def choose(self) -> None:
        worth: dict[int, _Worth] = {}
        for i in self.computation.instructions:
            for value, d in _in_the_way(i) if isinstance(i.shape, Shape) else ():
                found = worth.setdefault(self.classes.group(value, d), _Worth())
                found.in_the_way = max(found.in_the_way, value.elements)
        worth = {g: w for g, w in worth.items() if w.in_the_way >= self.costs.least}
        if not worth:
            return
        results = set(self.computation.results)
        users = self.computation.users()
        for i in self.computation.instructions:
            self.weigh(i, worth, users[i], i in results)
        room = MOST_INSTRUCTIONS
        for group, w in sorted(worth.items(), key=lambda item: -item[1].in_the_way):
            if w.moved <= self.costs.moved * w.computed and w.added <= room:
                room -= w.added
                self.chosen.add(group)

    def weigh(
        self, i: Instruction, worth: dict[int, _Worth], users: Sequence[Instruction], result: bool
    ) -> None:
        """Count ``i`` for the groups that are to be judged."""
        if isinstance(i.shape, Shape) and i.opcode != "constant":
            for group in {self.classes.group(i, d) for d in self.classes.small(i)} & worth.keys():
                w = worth[group]
                split = _is_handled(i)
                if split:
                    w.added += math.prod(i.dims[d] for d in self.classes.small(i))
                    if i.opcode not in ("broadcast", "iota", "constant", "reshape"):
                        w.computed += i.elements
                if i.elements >= self.costs.least_component:
                    handled = [_is_handled(u) for u in users]
                    if (result or not all(handled)) if split else any(handled):
                        w.moved += i.elements
        if i.opcode in ("reduce", "dot") and isinstance(i.shape, Shape):
            o = i.operands[0]  # a sum of components is computed of them though it has none
            for group in {self.classes.group(o, d) for d in self.classes.small(o)} & worth.keys():
                worth[group].computed += max(o.elements, i.elements)

    def taken(self, i: Instruction) -> list[int]:
        """The dimensions of ``i`` that are taken out."""
        if not isinstance(i.shape, Shape):
            return []
        found = [d for d in self.classes.small(i) if self.classes.group(i, d) in self.chosen]
        return found if math.prod(i.dims[d] for d in found) <= MOST_TOGETHER else []

    # ------------------------------------------------------------------------------------------------- placing
    def add(self, i: Instruction) -> Instruction:
        self.output.append(i)
        self.placed.add(i)
        return i

    def zeros(self, like: Instruction, dims: Index) -> Instruction:
        """An array of ``like``'s dtype that holds 0."""
        zero = constant(np.zeros((), like.dtype.numpy), metadata=like.metadata)
        return self.add(splat(self.add(zero), dims)) if dims else self.add(zero)

    def place(self, i: Instruction) -> None:
        dims = self.taken(i)
        apart = any(o in self.parts for o in i.operands)
        large = dims and i.elements >= self.costs.least_component * math.prod(
            i.dims[d] for d in dims
        )
        if _is_handled(i) and (apart or large):
            values = self.components(i, dims)
            if values is not None:
                if dims:
                    self.parts[i] = values
                else:
                    self.whole[i] = values[()]
                return
        self.whole[i] = self.add(i.with_operands([self.of_whole(o) for o in i.operands]))

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

    def reshape(self, i: Instruction, dims: Sequence[int]) -> Instruction:
        new = reshape(i, dims)
        return new if new is i else self.add(new)

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

    def components(self, i: Instruction, dims: list[int]) -> dict[Index, Instruction] | None:
        """The components of ``i`` by their index in ``dims``; None where they do not come from its operands'."""
        rule = _RULES.get("elementwise" if _is_pointwise(i) else i.opcode)
        if rule is None:
            return None
        rest = tuple([n for d, n in enumerate(i.dims) if d not in dims])
        values: dict[Index, Instruction] = {}
        for index in product(*(range(i.dims[d]) for d in dims)):
            value = rule(self, i, dict(zip(dims, index, strict=True)), rest)
            if value is None:
                return None
            values[index] = value
        return values

    def combine(self, body: Computation, a: Instruction, b: Instruction) -> Instruction | None:
        """A reduction's body applied to two arrays; None if it holds something that is not elementwise."""
        found = body_on_arrays(body, (a, b))
        if found is None:
            return None
        for i in unplaced(found, self.placed):
            self.add(i)
        return found[0]

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


def _is_pointwise(i: Instruction) -> bool:
    if i.opcode in ("copy", "bitcast-convert"):
        return i.dims == i.operands[0].dims
    return i.is_elementwise


def _is_handled(i: Instruction) -> bool:
    """Whether an instruction can work on components."""
    if not isinstance(i.shape, Shape):
        return False
    if i.opcode == "dot":
        types = {o.dtype for o in (*i.operands, i)}
        return len(types) == 1 and i.dtype.bits >= 32 and "algorithm" not in i.attributes
    return _is_pointwise(i) or i.opcode in _RULES


# ------------------------------------------------------------------------------------------------- one rule for each op
# Each gives the component of an instruction where its dimensions ``at`` are fixed; ``rest`` are the other dimensions.
# What only moves elements: it can be done once more on a whole array that is there.
_MOVING: Final = frozenset(
    ["bitcast", "broadcast", "iota", "reshape", "reverse", "slice", "transpose"]
)

Rule = Callable[[_Splitter, Instruction, dict[int, int], Index], "Instruction | None"]


def _elementwise(s: _Splitter, i: Instruction, at: dict[int, int], rest: Index) -> Instruction:
    operands = [s.component(o, at) if o.dims == i.dims else s.of_whole(o) for o in i.operands]
    return s.make(i, rest, operands)


def _broadcast(s: _Splitter, i: Instruction, at: dict[int, int], rest: Index) -> Instruction:
    (operand,) = i.operands
    mapped = i.attributes["dimensions"]
    part = s.component(operand, {d: at[t] for d, t in enumerate(mapped) if t in at})
    kept = [t - sum(d < t for d in at) for t in mapped if t not in at]
    if part.dims == rest and kept == sorted(kept):
        return part
    return s.make(i, rest, (part,), dimensions=tuple(kept))


def _transpose(s: _Splitter, i: Instruction, at: dict[int, int], rest: Index) -> Instruction:
    order = i.attributes["dimensions"]
    fixed = {order[d]: n for d, n in at.items()}
    part = s.component(i.operands[0], fixed)
    kept = [source - sum(d < source for d in fixed) for source in order if source not in fixed]
    if kept == sorted(kept):
        return part
    return s.make(i, rest, (part,), dimensions=tuple(kept))


def _reshape(s: _Splitter, i: Instruction, at: dict[int, int], rest: Index) -> Instruction | None:
    (operand,) = i.operands
    sources = dict(_kept_by_reshape(i))
    if i.dtype is not operand.dtype or any(d not in sources for d in at):
        return None
    fixed = {sources[d]: n for d, n in at.items()}
    if operand in s.parts and any(d not in fixed for d in s.taken(operand)):
        return None
    return s.reshape(s.component(operand, fixed), rest)


def _reduce(s: _Splitter, i: Instruction, at: dict[int, int], rest: Index) -> Instruction | None:
    operand, start = i.operands
    (body,) = i.called
    reduced = i.attributes["dimensions"]
    kept = [d for d in range(len(operand.dims)) if d not in reduced]
    fixed = {kept[d]: n for d, n in at.items()}
    summed = [d for d in s.taken(operand) if d in reduced] if operand in s.parts else []
    initial = s.of_whole(start)
    left = [d for d in reduced if d not in summed]
    total: Instruction | None = None
    if not left:
        total = initial if not rest else s.add(splat(initial, rest))
    for index in product(*(range(operand.dims[d]) for d in summed)):
        part = s.component(operand, {**fixed, **dict(zip(summed, index, strict=True))})
        total = part if total is None else s.combine(body, total, part)
        if total is None:
            return None
    assert total is not None
    if not left:
        return total
    gone = {*fixed, *summed}
    dimensions = tuple([d - sum(g < d for g in gone) for d in left])
    return s.make(i, rest, (total, initial), dimensions=dimensions)


def _slice(s: _Splitter, i: Instruction, at: dict[int, int], rest: Index) -> Instruction | None:
    """What is left of a slice after its components, which are chosen."""
    (operand,) = i.operands
    a = i.attributes
    fixed = {d: a["starts"][d] + n * a["strides"][d] for d, n in at.items()}
    ones = [d for d in s.taken(operand) if d not in at] if operand in s.parts else []
    if any(i.dims[d] != 1 for d in ones):
        return None
    fixed |= {d: a["starts"][d] for d in ones}
    part = s.component(operand, fixed)
    kept = [d for d in range(len(i.dims)) if d not in fixed]
    if any(_changes(i, d) for d in kept):
        names = ("starts", "limits", "strides")
        attributes = {name: tuple([a[name][d] for d in kept]) for name in names}
        part = s.make(i, tuple([i.dims[d] for d in kept]), (part,), **attributes)
    return s.reshape(part, rest)


def _reverse(s: _Splitter, i: Instruction, at: dict[int, int], rest: Index) -> Instruction:
    turned = i.attributes["dimensions"]
    part = s.component(
        i.operands[0], {d: i.dims[d] - 1 - n if d in turned else n for d, n in at.items()}
    )
    left = tuple([d - sum(t < d for t in at) for d in turned if d not in at])
    if not left:
        return part
    return s.make(i, rest, (part,), dimensions=left)


def _concatenate(
    s: _Splitter, i: Instruction, at: dict[int, int], rest: Index
) -> Instruction | None:
    along = i.attributes["dimension"]
    if along in at:
        number = at[along]
        for o in i.operands:
            if number < o.dims[along]:
                return s.component(o, {**at, along: number})
            number -= o.dims[along]
        return None
    if any(o in s.parts and any(d not in at for d in s.taken(o)) for o in i.operands):
        return None
    parts = [s.component(o, at) for o in i.operands]
    dimension = along - sum(d < along for d in at)
    return s.make(i, rest, parts, dimension=dimension)


def _pad(s: _Splitter, i: Instruction, at: dict[int, int], rest: Index) -> Instruction | None:
    operand, padding = i.operands
    low, high, interior = (i.attributes[name] for name in ("low", "high", "interior"))
    if operand in s.parts and any(d not in at for d in s.taken(operand)):
        return None
    fixed: dict[int, int] = {}
    for d, n in at.items():
        place, between = divmod(n - low[d], interior[d] + 1)
        if between or not 0 <= place < operand.dims[d]:
            value = s.of_whole(padding)
            return s.add(splat(value, rest)) if rest else value
        fixed[d] = place
    part = s.component(operand, fixed)
    kept = [d for d in range(len(i.dims)) if d not in at]
    if not any(_changes(i, d) for d in kept):
        return part
    attributes = {
        name: tuple([values[d] for d in kept])
        for name, values in (("low", low), ("high", high), ("interior", interior))
    }
    return s.make(i, rest, (part, s.of_whole(padding)), **attributes)


def _iota(s: _Splitter, i: Instruction, at: dict[int, int], rest: Index) -> Instruction:
    d = i.attributes["dimension"]
    if d in at:
        number = s.add(constant(np.asarray(at[d]).astype(i.dtype.numpy), i.dtype, i.metadata))
        return s.add(splat(number, rest)) if rest else number
    moved = d - sum(t < d for t in at)
    return s.make(i, rest, (), dimension=moved)


def _dot(s: _Splitter, i: Instruction, at: dict[int, int], rest: Index) -> Instruction | None:
    """Products of components one after the other, where all of what is summed up is components."""
    lhs, rhs = i.operands
    numbers: DotDimensionNumbers = i.attributes["dimension_numbers"]
    sides = ((lhs, numbers.lhs_contracting), (rhs, numbers.rhs_contracting))
    if any(o.dims[d] > MOST for o, contracted in sides for d in contracted):
        return None
    if math.prod(lhs.dims[d] for d in numbers.lhs_contracting) > MOST_TOGETHER:
        return None
    sources = _sources_of_dot(i)
    if any(o in s.parts for o in i.operands):
        for side, (o, contracted) in enumerate(sides):
            reached = {*contracted, *(sources[d][side] for d in at)}
            if o in s.parts and any(d not in reached for d in s.taken(o)):
                return None
    left = [d for d in range(len(i.dims)) if d not in at]
    total: Instruction | None = None
    if numbers.lhs_contracting and not i.dtype.is_integer:
        total = s.zeros(i, rest)  # a sum begins with 0: it is 0 where all terms are -0
    for index in product(*(range(lhs.dims[d]) for d in numbers.lhs_contracting)):
        factors = []
        for side, (o, contracted) in enumerate(sides):
            fixed = dict(zip(contracted, index, strict=True))
            fixed |= {d: n for target, n in at.items() if (d := sources[target][side]) is not None}
            part = s.component(o, fixed)
            mapped = [sources[d][side] for d in left if sources[d][side] is not None]
            order = sorted(d for d in mapped if d is not None)
            places = [left.index(next(t for t in left if sources[t][side] == d)) for d in order]
            if part.dims != rest or places != sorted(places):
                part = s.add(broadcast(part, rest, tuple(places)))
            factors.append(part)
        shape = i.shape.with_dims(rest)  # type: ignore[union-attr]
        term = s.add(i.derive("multiply", factors, shape=shape))
        total = term if total is None else s.add(i.derive("add", (total, term), shape=shape))
    return total


_RULES: Final[dict[str, Rule]] = {
    "broadcast": _broadcast,
    "bitcast": _reshape,
    "concatenate": _concatenate,
    "dot": _dot,
    "elementwise": _elementwise,
    "iota": _iota,
    "pad": _pad,
    "reduce": _reduce,
    "reshape": _reshape,
    "reverse": _reverse,
    "slice": _slice,
    "transpose": _transpose,
}
