"""Gathers at the places that a sort gives become results of the sort.

Programs write ``x[argsort(x)]``, and frameworks so write their unique numbers: a sort of the numbers together with
their places, and a gather of the numbers at these places. The numbers in that order are the sort's other result. With
``y[argsort(x)]``, ``y`` is sorted along in the place of the places, if these are read for nothing else. What is sorted
along for nobody is then left out: numbers alone take half of the time that they take with their places.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ..ir.hlo import (
    Computation,
    GatherDimensionNumbers,
    Instruction,
    Module,
    Shape,
    TupleShape,
    get_tuple_element,
    parameter,
)
from ..ir.patterns import counts
from ..ir.ranges import of_dtype, range_of
from .rewrite import map_computations, on_mapped, substitute


class _Read(NamedTuple):
    """What a gather reads single elements at: the result ``places`` of ``sort``, as ``path`` hands it on.

    The path begins with the result and ends with the gather's indices.
    """

    sort: Instruction
    places: int
    path: tuple[Instruction, ...]


def gather_by_sorting(module: Module) -> Module:
    """gather(x, sort(x, iota)[1]) -> sort(x)[0]; and what sorts carry along and nothing reads is left out."""
    if not module.all_of("sort"):
        return module
    return map_computations(module, _gather_by_sorting)


def _gather_by_sorting(computation: Computation) -> Computation:
    if "sort" not in computation.opcodes:
        return computation
    if "gather" in computation.opcodes:
        computation = _with_other_results(computation)
        computation = _with_other_operands(computation)
    return _without_unread(computation)


def _with_other_results(computation: Computation) -> Computation:
    """Elements of a sort's operands, gathered at its places, are the sort's other results."""
    replaced = {}
    for gather, read in _reads(computation).items():
        operands = read.sort.operands
        if gather.operands[0] in operands:
            result = get_tuple_element(read.sort, operands.index(gather.operands[0]))
            replaced[gather] = _handed_on(read, result)
    return substitute(computation, replaced)


def _with_other_operands(computation: Computation) -> Computation:
    """Each sort carries the array that is gathered at its places in place of these, if nothing else reads them."""
    reads = _reads(computation)
    if not reads:
        return computation
    order = {i: number for number, i in enumerate(computation.instructions)}
    users = computation.users()
    replaced: dict[Instruction, Instruction] = {}
    for sort, places in dict.fromkeys((read.sort, read.places) for read in reads.values()):
        gathers = [g for g, read in reads.items() if (read.sort, read.places) == (sort, places)]
        array = gathers[0].operands[0]
        path = {i for gather in gathers for i in reads[gather].path}
        # The places may be several instructions, since one was made for each array that is an operand of the sort; and
        # whoever takes all results takes the places, too.
        path.update(user for user in users[sort] if user.attributes.get("index", places) == places)
        read_by = {user for i in path for user in users[i]}
        if (
            sort in replaced
            or any(gather.operands[0] is not array for gather in gathers)
            or array.dtype.bits < 8
            or order[array] > order[sort]
            or computation.root in path
            or not read_by <= path.union(gathers)
            or places in _compared(sort)
        ):
            continue
        operands = [array if n == places else o for n, o in enumerate(sort.operands)]
        replaced[sort] = carrying = _sort_of(sort, operands, range(len(operands)))
        for gather in gathers:
            replaced[gather] = _handed_on(reads[gather], get_tuple_element(carrying, places))
    return substitute(computation, replaced)


def _without_unread(computation: Computation) -> Computation:
    """Sorts without the operands that the comparator does not look at and whose results nothing reads."""
    users = computation.users()
    replaced: dict[Instruction, Instruction] = {}
    for sort in computation.instructions:
        if sort.opcode != "sort" or len(sort.operands) < 2 or sort is computation.root:
            continue
        results = [user for user in users[sort] if user.opcode == "get-tuple-element"]
        if len(results) < len(users[sort]):
            continue
        wanted = _compared(sort).union(result.attributes["index"] for result in results)
        if not 0 < len(wanted) < len(sort.operands):
            continue
        kept = sorted(wanted)
        smaller = _sort_of(sort, [sort.operands[n] for n in kept], kept)
        for result in results:
            place = kept.index(result.attributes["index"])
            replaced[result] = get_tuple_element(smaller, place) if len(kept) > 1 else smaller
    return substitute(computation, replaced)


def _reads(computation: Computation) -> dict[Instruction, _Read]:
    """The gathers of a computation at places that a sort of as many elements gives."""
    gathers = (i for i in computation.instructions if i.opcode == "gather")
    return {gather: read for gather in gathers if (read := _read(gather)) is not None}


def _read(gather: Instruction) -> _Read | None:
    array, indices = gather.operands
    numbers: GatherDimensionNumbers = gather.attributes["dimension_numbers"]
    if len(numbers.start_index_map) != 1 or len(gather.dims) != len(array.dims):
        return None
    (along,) = numbers.start_index_map
    rows = tuple([d for d in range(len(array.dims)) if d != along])
    if (
        numbers.offset_dims
        or numbers.collapsed_slice_dims != (along,)
        or numbers.operand_batching_dims != rows
        or numbers.start_indices_batching_dims != rows
    ):
        return None
    path = [indices]
    if numbers.index_vector_dim < len(indices.dims):
        if numbers.index_vector_dim != len(indices.dims) - 1 or not _adds_dimension(indices):
            return None
        path.append(indices.operands[0])
    while path[-1].opcode != "get-tuple-element":
        if not _moves_along(path[-1], along):
            return None
        path.append(path[-1].operands[0])
    result = path[-1]
    sort, places = result.operands[0], result.attributes["index"]
    if sort.opcode != "sort" or sort.attributes["dimension"] != along or result.dims != array.dims:
        return None
    if not _counts_along(sort.operands[places], along):
        return None
    return _Read(sort, places, tuple(path[::-1]))


def _adds_dimension(i: Instruction) -> bool:
    """Whether it adds a last dimension of one element, which indices of gathers have."""
    if i.opcode == "broadcast" and i.attributes["dimensions"] != tuple(range(len(i.dims) - 1)):
        return False
    return i.opcode in ("broadcast", "reshape") and i.dims == (*i.operands[0].dims, 1)


def _moves_along(i: Instruction, along: int) -> bool:
    """Whether its elements are some of its operand's, chosen by their places in one dimension alone."""
    if i.opcode == "reverse":
        return bool(i.attributes["dimensions"] == (along,))
    if i.opcode == "slice":
        sizes = zip(i.dims, i.operands[0].dims, strict=True)
        return all(d == along or size == whole for d, (size, whole) in enumerate(sizes))
    if i.opcode == "convert" and i.dtype.is_integer and i.operands[0].dtype.is_integer:
        return range_of(i.operands[0]).within(of_dtype(i.dtype))
    return False


def _counts_along(i: Instruction, along: int) -> bool:
    """Whether its elements are the numbers of their places along a dimension."""
    if i.opcode == "broadcast" and i.attributes["dimensions"] == (along,):
        return counts(i.operands[0]) and i.operands[0].dims == (i.dims[along],)
    return counts(i) and bool(i.attributes["dimension"] == along)


def _handed_on(read: _Read, result: Instruction) -> Instruction:
    """Another result of the sort, gone the way of the places."""
    for step in read.path[1:]:
        if step.opcode in ("reverse", "slice"):
            shape = Shape(result.dtype, step.dims)
            result = step.derive(step.opcode, (result,), step.attributes, shape=shape)
    return result


def _compared(sort: Instruction) -> set[int]:
    """The operands that the comparator looks at."""
    (comparator,) = sort.called
    users = comparator.users()
    looked_at = {p for p in comparator.parameters if users[p] or p is comparator.root}
    return {p.attributes["index"] // 2 for p in looked_at}


def _sort_of(
    sort: Instruction, operands: Sequence[Instruction], kept: Sequence[int]
) -> Instruction:
    """The sort of other operands, each in the place of one of those that are ``kept``; the others are not compared."""
    (comparator,) = sort.called
    parameters: list[Instruction] = []
    mapped: dict[Instruction, Instruction] = {}
    for operand, n in zip(operands, kept, strict=True):
        for old in comparator.parameters[2 * n : 2 * n + 2]:
            mapped[old] = parameter(len(parameters), Shape(operand.dtype), old.name)
            parameters.append(mapped[old])
    for i in comparator.instructions:
        if i.opcode != "parameter":
            mapped[i] = on_mapped(i, mapped)
    root = mapped[comparator.root]
    body = Computation.from_root(comparator.name, parameters, root)
    shapes = [Shape(operand.dtype, operand.dims) for operand in operands]
    shape = shapes[0] if len(shapes) == 1 else TupleShape(tuple(shapes))
    return sort.derive("sort", operands, sort.attributes, (body,), shape=shape)
