"""Merge dimensions that always travel together, so that kernels have few and long loops.

``collapse`` rewrites a fused computation into an equal one over the same memory: dimensions of size one go, and
neighbouring dimensions become one wherever every instruction treats them as one. ``f32[8,28,28,64] +
broadcast(f32[64])`` becomes ``f32[6272,64] + broadcast(f32[64])``, and a chain of elementwise instructions runs
over a single dimension.

How: between each two neighbouring dimensions (not counting ones) of each instruction stands a *joint*.
Instructions tie joints of their operands to their own (a broadcast that keeps two dimensions together) or cut
them (a transpose that parts them). Tied joints are one class in a union-find; where no joint of a class is cut,
the dimensions merge. Linear time.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import numpy as np

from ...ir import hlo
from ...ir.classes import Classes
from ...ir.patterns import reshape_groups


class _Joints:
    """The joints of all instructions, and which are cut."""

    def __init__(self, instructions: Sequence[hlo.Instruction]) -> None:
        self.significant: dict[hlo.Instruction, list[int]] = {}
        self._first: dict[hlo.Instruction, int] = {}
        self._groups: dict[hlo.Instruction, list[list[int]]] = {}  # since they are settled
        count = 0
        for i in instructions:
            if isinstance(i.shape, hlo.Shape) or i.opcode == "reduce":
                significant = [d for d, dim in enumerate(_dims(i)) if dim != 1]
                self.significant[i] = significant
                self._first[i] = count
                if len(significant) > 1:
                    count += len(significant) - 1
        self._classes = Classes(count)
        self._cut = [False] * count

    def pairs(self, i: hlo.Instruction) -> list[tuple[int, int]]:
        """The neighbouring dimensions of each joint."""
        dims = self.significant[i]
        return list(itertools.pairwise(dims))

    def joint(self, i: hlo.Instruction, pair: tuple[int, int]) -> int | None:
        """The joint between two dimensions, None if they are not neighbours."""
        dims = self.significant[i]
        if pair[0] not in dims or pair[1] not in dims:
            return None
        k = dims.index(pair[0])
        return self._first[i] + k if k + 1 < len(dims) and dims[k + 1] == pair[1] else None

    def cut(self, i: hlo.Instruction, pair: tuple[int, int]) -> None:
        joint = self.joint(i, pair)
        if joint is not None:
            self._cut[joint] = True

    def cut_all(self, i: hlo.Instruction) -> None:
        for pair in self.pairs(i):
            self.cut(i, pair)

    def tie(
        self, i: hlo.Instruction, pair: tuple[int, int], o: hlo.Instruction, other: tuple[int, int]
    ) -> None:
        """These two joints are cut together; one that does not exist cuts the other."""
        a, b = self.joint(i, pair), self.joint(o, other)
        if a is None or b is None:
            for joint in (a, b):
                if joint is not None:
                    self._cut[joint] = True
            return
        self._classes.join(a, b)

    def tie_all(self, i: hlo.Instruction, o: hlo.Instruction) -> None:
        """Tie each joint of one instruction to that of the other, which has the same dimensions."""
        a, b = self._first[i], self._first[o]
        for k in range(len(self.significant[i]) - 1):
            self._classes.join(a + k, b + k)

    def settle(self) -> None:
        """Spread each cut over its class."""
        find = self._classes.find
        cut_roots = {find(j) for j, cut in enumerate(self._cut) if cut}
        self._cut = [find(j) in cut_roots for j in range(len(self._cut))]

    def groups(self, i: hlo.Instruction) -> list[list[int]]:
        """The significant dimensions of ``i``, grouped as they merge."""
        groups = self._groups.get(i)
        if groups is None:
            dims = self.significant[i]
            groups = [[d] for d in dims[:1]]
            for k, d in enumerate(dims[1:]):
                if self._cut[self._first[i] + k]:
                    groups.append([d])
                else:
                    groups[-1].append(d)
            self._groups[i] = groups
        return groups

    def dims(self, i: hlo.Instruction) -> tuple[int, ...]:
        dims = _dims(i)
        significant = self.significant[i]
        if len(significant) < 2:  # most
            return dims if len(dims) == len(significant) else tuple([dims[d] for d in significant])
        return tuple([math.prod([dims[d] for d in group]) for group in self.groups(i)])


def _dims(i: hlo.Instruction) -> tuple[int, ...]:
    """The dimensions of an array, or those that all results of a reduction have."""
    shape = i.result_shapes[0]
    assert isinstance(shape, hlo.Shape)
    return shape.dims


# ------------------------------------------------------------------------------------------------- who ties what


def _same(j: _Joints, i: hlo.Instruction) -> None:
    if len(j.significant[i]) > 1:
        dims = i.dims
        for operand in i.operands:
            if operand.dims == dims:
                j.tie_all(i, operand)


def _mapped(
    j: _Joints, i: hlo.Instruction, o: hlo.Instruction, operand_dim: Mapping[int, int]
) -> None:
    """``operand_dim`` maps dimensions of the result to the operand's; the others have nothing to do with each other."""
    if len(j.significant[i]) < 2 and len(j.significant[o]) < 2:  # no joints
        return
    result_dim = {o_: r for r, o_ in operand_dim.items()}
    for pair in j.pairs(i):
        a, b = operand_dim.get(pair[0]), operand_dim.get(pair[1])
        if a is not None and b is not None:
            j.tie(i, pair, o, (a, b))
        elif a is not None or b is not None:
            j.cut(i, pair)
    for pair in j.pairs(o):
        a, b = result_dim.get(pair[0]), result_dim.get(pair[1])
        if a is not None and b is not None:
            j.tie(i, (a, b), o, pair)
        elif a is not None or b is not None:
            j.cut(o, pair)


def _broadcast(j: _Joints, i: hlo.Instruction) -> None:
    _mapped(j, i, i.operands[0], {r: o for o, r in enumerate(i.attributes["dimensions"])})


def _transpose(j: _Joints, i: hlo.Instruction) -> None:
    _mapped(j, i, i.operands[0], dict(enumerate(i.attributes["dimensions"])))


def _reduce(j: _Joints, i: hlo.Instruction) -> None:
    reduced = i.attributes["dimensions"]
    operands = i.operands[: len(i.operands) // 2]
    kept = [d for d in range(len(operands[0].dims)) if d not in reduced]
    for operand in operands:
        _mapped(j, i, operand, dict(enumerate(kept)))


def _get_tuple_element(j: _Joints, i: hlo.Instruction) -> None:
    for pair in j.pairs(i):
        j.tie(i, pair, i.operands[0], pair)


def _may_merge(i: hlo.Instruction, a: int, b: int) -> bool:
    """Whether an instruction that changes sizes treats its neighbouring dimensions a and b as one."""
    at = i.attributes
    if i.opcode == "slice":
        full = (at["starts"][b], at["limits"][b], at["strides"][b]) == (0, i.operands[0].dims[b], 1)
        return full and at["strides"][a] == 1
    if i.opcode == "dynamic-slice":
        return all(at["slice_sizes"][d] == i.operands[0].dims[d] for d in (a, b))
    if i.opcode == "dynamic-update-slice":
        return all(i.operands[1].dims[d] == i.dims[d] for d in (a, b))
    if i.opcode == "pad":
        return (at["low"][b], at["high"][b], at["interior"][b], at["interior"][a]) == (0, 0, 0, 0)
    if i.opcode == "concatenate":
        return bool(b != at["dimension"])
    assert i.opcode == "reverse"
    return (a in at["dimensions"]) == (b in at["dimensions"])


# Of these the operand has the larger dimensions, of the others like them the result.
_SHRINKING: Final = frozenset(["slice", "dynamic-slice"])


def _larger(i: hlo.Instruction) -> hlo.Instruction:
    return i.operands[0] if i.opcode in _SHRINKING else i


def _arrays(i: hlo.Instruction) -> tuple[hlo.Instruction, ...]:
    """The operands that are parts of the result, or of which it is one."""
    return i.operands[
        : {"concatenate": len(i.operands), "dynamic-update-slice": 2}.get(i.opcode, 1)
    ]


def _cropped(i: hlo.Instruction) -> list[int]:
    """The dimensions of size one of the larger side that must stay: the other side has no element there, or it is a
    padding whose element is not simply the operand's only one.
    """
    sides = [i, *_arrays(i)]
    if i.opcode == "pad":
        low, high = i.attributes["low"], i.attributes["high"]
        sizes = i.operands[0].dims
        return [
            d for d, n in enumerate(i.dims) if n == 1 and (sizes[d], low[d], high[d]) != (1, 0, 0)
        ]
    return [
        d for d, n in enumerate(_larger(i).dims) if n == 1 and any(x.dims[d] == 0 for x in sides)
    ]


def _slice_like(j: _Joints, i: hlo.Instruction) -> None:
    """Dimension d of the result belongs to dimension d of the operands."""
    for operand in dict.fromkeys(_arrays(i)):
        large, small = (operand, i) if i.opcode in _SHRINKING else (i, operand)
        cropped = _cropped(i)
        for pair in j.pairs(large):
            if not _may_merge(i, *pair) or any(pair[0] < d < pair[1] for d in cropped):
                j.cut(large, pair)
                j.cut(small, pair)
            elif j.joint(small, pair) is not None:
                j.tie(large, pair, small, pair)
        for pair in j.pairs(small):
            if j.joint(large, pair) is None:
                j.cut(small, pair)


def _iota(j: _Joints, i: hlo.Instruction) -> None:
    for pair in j.pairs(i):
        if i.attributes["dimension"] in pair:
            j.cut(i, pair)


def _reshape(j: _Joints, i: hlo.Instruction) -> None:
    operand = i.operands[0]
    ours, theirs = j.significant[i], j.significant[operand]
    groups = reshape_groups([i.dims[d] for d in ours], [operand.dims[d] for d in theirs])
    for before, after in itertools.pairwise(groups):
        if before[0] and after[0] and before[1] and after[1]:
            pair = (ours[before[0][-1]], ours[after[0][0]])
            j.tie(i, pair, operand, (theirs[before[1][-1]], theirs[after[1][0]]))


def _gather(j: _Joints, i: hlo.Instruction) -> None:
    """Batch dimensions merge as those of the indices do; everything else stays."""
    numbers: hlo.GatherDimensionNumbers = i.attributes["dimension_numbers"]
    operand, indices = i.operands
    j.cut_all(operand)
    batch = [d for d in range(len(i.dims)) if d not in numbers.offset_dims]
    if not _merges_batch(i):
        j.cut_all(i)
        j.cut_all(indices)
        return
    _mapped(j, i, indices, {r: o for o, r in enumerate(batch)})
    for pair in j.pairs(i):
        if pair[0] not in batch or pair[1] not in batch:
            j.cut(i, pair)


def _merges_batch(i: hlo.Instruction) -> bool:
    numbers: hlo.GatherDimensionNumbers = i.attributes["dimension_numbers"]
    rank = len(i.operands[1].dims)
    return not numbers.operand_batching_dims and numbers.index_vector_dim in (rank - 1, rank)


def _cut_everything(j: _Joints, i: hlo.Instruction) -> None:
    for o in (i, *i.operands):
        if isinstance(o.shape, hlo.Shape):
            j.cut_all(o)


_TIES: Final[dict[str, Callable[[_Joints, hlo.Instruction], None]]] = {
    "bitcast": _reshape,
    "broadcast": _broadcast,
    "concatenate": _slice_like,
    "constant": lambda j, i: None,
    "copy": _same,
    "dynamic-slice": _slice_like,
    "dynamic-update-slice": _slice_like,
    "gather": _gather,
    "get-tuple-element": _get_tuple_element,
    "iota": _iota,
    "map": _same,
    "pad": _slice_like,
    "parameter": lambda j, i: None,
    "reduce": _reduce,
    "reshape": _reshape,
    "reverse": _slice_like,
    "slice": _slice_like,
    "transpose": _transpose,
}


def _tie(j: _Joints, i: hlo.Instruction) -> None:
    rule = _TIES.get(i.opcode)
    if rule is not None:
        rule(j, i)
    elif i.is_elementwise or (i.opcode == "bitcast-convert" and i.dims == i.operands[0].dims):
        _same(j, i)
    elif i.opcode != "tuple":
        _cut_everything(j, i)


# ----------------------------------------------------------------------------------------------------- rewriting


def collapse(computation: hlo.Computation) -> hlo.Computation:
    """An equal computation over the same memory with as few dimensions as can be.

    Results and operands of reductions that have equal dimensions keep equal dimensions. Parameters keep their numbers.
    """
    instructions = computation.instructions
    j = _Joints(instructions)
    for i in instructions:
        _tie(j, i)
    by_dims: dict[tuple[int, ...], hlo.Instruction] = {}
    spaces = [
        o for i in instructions if i.opcode == "reduce" for o in i.operands[: len(i.operands) // 2]
    ]
    for root in (*spaces, *computation.results):
        first = by_dims.setdefault(root.dims, root)
        for pair in j.pairs(root):
            j.tie(root, pair, first, pair)
    j.settle()
    new: dict[hlo.Instruction, hlo.Instruction] = {}
    for i in instructions:
        if i.opcode == "tuple":
            continue
        new[i] = _rewrite(j, i, [new[o] for o in i.operands])
    results = [new[r] for r in computation.results]
    root = results[0]
    if computation.root.opcode == "tuple":
        shapes = tuple(r.shape for r in results)
        root = hlo.Instruction("tuple", hlo.TupleShape(shapes), results)  # type: ignore[arg-type]
    return hlo.Computation.from_root(
        computation.name, [new[p] for p in computation.parameters], root
    )


def _bitcast(operand: hlo.Instruction, dims: Sequence[int]) -> hlo.Instruction:
    if operand.dims == tuple(dims):
        return operand
    return operand.derive("bitcast", (operand,), shape=hlo.Shape(operand.dtype, tuple(dims)))


def _rewrite(j: _Joints, i: hlo.Instruction, operands: list[hlo.Instruction]) -> hlo.Instruction:
    if i.opcode == "reduce":
        return _rewrite_reduce(j, i, operands)
    assert isinstance(i.shape, hlo.Shape)
    dims = j.dims(i)
    if i.opcode == "get-tuple-element":
        if operands[0].opcode == "tuple":
            part: int = i.attributes["index"]
            return operands[0].operands[part]
        return i.replace(operands=operands, shape=i.shape.with_dims(dims))
    if dims == i.dims:
        for new, old in zip(operands, i.operands, strict=True):
            if new.dims != old.dims:
                break
        else:
            return i.on(operands)
    shape = i.shape.with_dims(dims)
    rule = _REWRITES.get(i.opcode)
    if rule is not None:
        return rule(j, i, operands, shape)
    if (
        i.is_elementwise
        or i.opcode in ("copy", "map", "parameter")
        or (i.opcode == "bitcast-convert" and i.dims == i.operands[0].dims)
    ):
        return i.replace(operands=operands, shape=shape)
    original = [_bitcast(n, o.dims) for n, o in zip(operands, i.operands, strict=True)]
    return _bitcast(i.replace(operands=original), dims)


def _rewrite_constant(
    j: _Joints, i: hlo.Instruction, o: list[hlo.Instruction], shape: hlo.Shape
) -> hlo.Instruction:
    data: np.ndarray = i.attributes["literal"]
    return i.replace(shape=shape, attributes={"literal": data.reshape(shape.dims)})


def _group_numbers(groups: list[list[int]]) -> dict[int, int]:
    return {d: n for n, group in enumerate(groups) for d in group}


def _rewrite_broadcast(
    j: _Joints, i: hlo.Instruction, o: list[hlo.Instruction], shape: hlo.Shape
) -> hlo.Instruction:
    if o[0].dims == shape.dims and o[0].dims:
        ordered = [i.attributes["dimensions"][d] for d in j.significant[i.operands[0]]]
        if ordered == sorted(ordered):
            return o[0]
    if not shape.dims:
        return o[0]
    number = _group_numbers(j.groups(i))
    mapped = tuple(number[i.attributes["dimensions"][g[0]]] for g in j.groups(i.operands[0]))
    return i.replace(operands=o, shape=shape, attributes={"dimensions": mapped})


def _rewrite_transpose(
    j: _Joints, i: hlo.Instruction, o: list[hlo.Instruction], shape: hlo.Shape
) -> hlo.Instruction:
    number = _group_numbers(j.groups(i.operands[0]))
    order = tuple(number[i.attributes["dimensions"][g[0]]] for g in j.groups(i))
    if order == tuple(range(len(order))):
        return o[0]
    return i.replace(operands=o, shape=shape, attributes={"dimensions": order})


def _rewrite_reshape(
    j: _Joints, i: hlo.Instruction, o: list[hlo.Instruction], shape: hlo.Shape
) -> hlo.Instruction:
    return _bitcast(o[0], shape.dims)


def _rewrite_reduce(j: _Joints, i: hlo.Instruction, o: list[hlo.Instruction]) -> hlo.Instruction:
    """Over dimensions of size one alone, it is its body applied to the initial value and the operand."""
    reduced = i.attributes["dimensions"]
    mapped = tuple(n for n, g in enumerate(j.groups(i.operands[0])) if g[0] in reduced)
    dims = j.dims(i)
    shapes = tuple(s.with_dims(dims) for s in i.result_shapes)  # type: ignore[union-attr]
    single = isinstance(i.shape, hlo.Shape)
    if mapped:
        shape = shapes[0] if single else hlo.TupleShape(shapes)
        return i.replace(operands=o, shape=shape, attributes={"dimensions": mapped})
    count = len(shapes)
    starts = [hlo.broadcast(x, dims) if dims else x for x in o[count:]]
    body = i.called[0]
    parts = []
    for n, shape in enumerate(shapes):
        one = hlo.Computation(body.name, body.parameters, body.instructions, body.results[n])
        attributes = {"dimensions": tuple(range(len(dims)))}
        parts.append(i.derive("map", (*starts, *o[:count]), attributes, (one,), shape=shape))
    return parts[0] if single else hlo.Instruction("tuple", hlo.TupleShape(shapes), parts)


def _rewrite_iota(
    j: _Joints, i: hlo.Instruction, o: list[hlo.Instruction], shape: hlo.Shape
) -> hlo.Instruction:
    number = _group_numbers(j.groups(i))
    d = i.attributes["dimension"]
    if d not in number:
        return (
            hlo.broadcast(hlo.constant(0, i.dtype), shape.dims)
            if shape.dims
            else hlo.constant(0, i.dtype)
        )
    return i.replace(shape=shape, attributes={"dimension": number[d]})


def _rewrite_slice_like(
    j: _Joints, i: hlo.Instruction, o: list[hlo.Instruction], shape: hlo.Shape
) -> hlo.Instruction:
    """In the groups of the larger side, the sizes of the smaller side are products over the same dimensions."""
    larger = _larger(i)
    groups = sorted([*j.groups(larger), *([d] for d in _cropped(i))])

    def sizes(x: hlo.Instruction) -> tuple[int, ...]:
        return tuple(math.prod(x.dims[d] for d in g) for g in groups)

    def inner(g: list[int]) -> int:
        return math.prod(larger.dims[d] for d in g[1:])

    at = i.attributes
    operands = [_bitcast(n, sizes(old)) for n, old in zip(o, _arrays(i), strict=False)]
    attributes: dict[str, object]
    if i.opcode == "slice":
        attributes = {
            "starts": tuple(at["starts"][g[0]] * inner(g) for g in groups),
            "limits": tuple(at["limits"][g[0]] * inner(g) for g in groups),
            "strides": tuple(at["strides"][g[0]] for g in groups),
        }
    elif i.opcode == "dynamic-slice":
        attributes = {"slice_sizes": sizes(i)}
        operands += [o[1 + g[0]] for g in groups]
    elif i.opcode == "dynamic-update-slice":
        attributes = {}
        operands += [o[2 + g[0]] for g in groups]
    elif i.opcode == "pad":
        attributes = {
            "low": tuple(at["low"][g[0]] * inner(g) for g in groups),
            "high": tuple(at["high"][g[0]] * inner(g) for g in groups),
            "interior": tuple(at["interior"][g[0]] for g in groups),
        }
        operands.append(o[1])
    elif i.opcode == "concatenate":
        number = _group_numbers(groups)
        if at["dimension"] not in number:  # everything is one element
            return operands[0]
        attributes = {"dimension": number[at["dimension"]]}
    else:
        flipped = tuple(n for n, g in enumerate(groups) if g[0] in at["dimensions"])
        attributes = {"dimensions": flipped}
    if not groups and i.opcode not in ("pad", "dynamic-update-slice"):
        return operands[0]
    result = i.replace(operands=operands, shape=i.shape.with_dims(sizes(i)), attributes=attributes)  # type: ignore[union-attr]
    return _bitcast(result, shape.dims)


def _rewrite_gather(
    j: _Joints, i: hlo.Instruction, o: list[hlo.Instruction], shape: hlo.Shape
) -> hlo.Instruction:
    """Merge the batch dimensions; the operand and the offset dimensions keep their ones."""
    numbers: hlo.GatherDimensionNumbers = i.attributes["dimension_numbers"]
    operand, indices = i.operands
    if not _merges_batch(i):
        original = [_bitcast(n, x.dims) for n, x in zip(o, i.operands, strict=True)]
        return _bitcast(i.replace(operands=original), shape.dims)
    batch = {d for d in range(len(i.dims)) if d not in numbers.offset_dims}
    batch_dims = tuple(math.prod(i.dims[d] for d in g) for g in j.groups(i) if g[0] in batch)
    dims: list[int] = []
    offsets: list[int] = []
    groups = [g for g in j.groups(i) if g[0] in batch]
    starts = {g[0]: math.prod(i.dims[d] for d in g) for g in groups}
    for d in range(len(i.dims)):
        if d in starts:
            dims.append(starts[d])
        elif d in numbers.offset_dims:
            offsets.append(len(dims))
            dims.append(i.dims[d])
    rank = len(indices.dims)
    vector = (indices.dims[-1],) if numbers.index_vector_dim == rank - 1 else ()
    new_numbers = hlo.GatherDimensionNumbers(
        tuple(offsets), numbers.collapsed_slice_dims, numbers.start_index_map, len(batch_dims)
    )
    operands = [_bitcast(o[0], operand.dims), _bitcast(o[1], (*batch_dims, *vector))]
    attributes = {**i.attributes, "dimension_numbers": new_numbers}
    result = i.replace(
        operands=operands, shape=hlo.Shape(i.dtype, tuple(dims)), attributes=attributes
    )
    return _bitcast(result, shape.dims)


_REWRITES: Final[
    dict[
        str, Callable[[_Joints, hlo.Instruction, list[hlo.Instruction], hlo.Shape], hlo.Instruction]
    ]
] = {
    "bitcast": _rewrite_reshape,
    "broadcast": _rewrite_broadcast,
    "concatenate": _rewrite_slice_like,
    "constant": _rewrite_constant,
    "dynamic-slice": _rewrite_slice_like,
    "dynamic-update-slice": _rewrite_slice_like,
    "gather": _rewrite_gather,
    "iota": _rewrite_iota,
    "pad": _rewrite_slice_like,
    "reshape": _rewrite_reshape,
    "reverse": _rewrite_slice_like,
    "slice": _rewrite_slice_like,
    "transpose": _rewrite_transpose,
}
