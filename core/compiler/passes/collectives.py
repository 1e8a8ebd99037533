"""Collectives: what the devices of a program exchange, from HLO's forms to calls of the runtime.

The devices of a program are its participants, numbered ``replica * num_partitions + partition``. Two passes:

* :func:`arrange_collectives`, early: what one device alone exchanges stays where it is, device numbers of which there
  is one become constants, and of everything else the dimension that is split or joined moves to the front, so that the
  runtime moves blocks (simplification then removes transposes that meet others). All-reduces whose results are only
  read transposed reduce the transposed array.
* :func:`match_collectives`, before fusion: collectives become library calls (core/runtime/library/collectives.cc says
  what each takes), and all-reduces that do not wait for one another become one call (:mod:`.combine_all_reduces`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from ..ir.errors import of_instruction
from ..ir.hlo import (
    Computation,
    Instruction,
    Module,
    Shape,
    TupleShape,
    broadcast,
    constant,
)
from ..ir.moves import concatenate, cut, transpose
from ..ir.patterns import binary_body, reshape
from .collective_groups import MEETINGS, complete_groups, connected, permuted_sources
from .combine_all_reduces import combine_all_reduces
from .decompose import element_of_tuple
from .library.call import library_call
from .rewrite import map_computations, sweep

if TYPE_CHECKING:
    from ..targets.costs import Library
    from ..targets.target import Target


_OPCODES: Final = MEETINGS | {"partition-id", "replica-id"}


def arrange_collectives(module: Module) -> Module:
    """Collectives of one device are their operands; the others work on the first dimension.

    Raises CompileError INVALID_ARGUMENT for groups that name devices twice, or that do not exist.
    """
    if not _has_collectives(module):
        return module

    def rule(i: Instruction) -> Instruction | None:
        if i.opcode in _OPCODES:
            return _arrange(i, module)
        if i.opcode == "get-tuple-element" and i.operands[0].opcode == "tuple":
            return element_of_tuple(i)
        return None

    return map_computations(module, lambda c: _transpose_before_reducing(sweep(c, rule)))


def match_collectives(module: Module, target: Target) -> Module:
    """Collectives and device numbers become library calls."""
    if not _has_collectives(module):
        return module
    meetings, library = iter(range(1 << 31)), target.costs.library
    numbered = 0  # collectives of the program

    def match(computation: Computation) -> Computation:
        nonlocal numbered
        if not any(i.opcode in _OPCODES for i in computation.instructions):
            return computation
        first = numbered
        numbered += sum(i.opcode in MEETINGS for i in computation.instructions)
        computation, members = combine_all_reduces(computation, module, first)
        numbers = iter(members)  # the sweep goes through the collectives in their order

        def rule(i: Instruction) -> Instruction | None:
            if i.opcode in MEETINGS:
                return _match_collective(i, module, next(meetings), next(numbers), library)
            return _match(i, library)

        return sweep(computation, rule, repeat=False)

    return map_computations(module, match)


def _has_collectives(module: Module) -> bool:
    return module.has(*_OPCODES)


# ---------------------------------------------------------------------------------------------------- arranging


def _arrange(i: Instruction, module: Module) -> Instruction | None:
    opcode = i.opcode
    if opcode in ("partition-id", "replica-id"):
        count = module.num_partitions if opcode == "partition-id" else module.num_replicas
        return constant(0, i.dtype, i.metadata) if count == 1 else None
    if opcode in ("collective-permute", "collective-broadcast"):
        sources = permuted_sources(i, module)
        if sources == list(range(len(sources))):
            return _results(i, i.operands)
        if all(source < 0 for source in sources):
            return _results(i, [_zeros(o) for o in i.operands])
        return None
    groups = complete_groups(i, module)
    if all(len(group) == 1 for group in groups):
        if tuple(o.shape for o in i.operands) != i.result_shapes:
            raise of_instruction("INVALID_ARGUMENT", "one device alone cannot change the shape", i)
        return _results(i, i.operands)
    if opcode == "all-reduce":
        return None
    size = len(groups[0])
    if any(len(group) != size for group in groups):
        raise of_instruction("INVALID_ARGUMENT", f"the groups {groups} are not of one size", i)
    return _ARRANGE[opcode](i, size)


def _transpose_before_reducing(computation: Computation) -> Computation:
    """All-reduces whose results are only read in one other order of dimensions give their results in that order.

    Partitioned programs have them: JAX computes the gradient of a matrix as the transpose of a product, and the
    partitioner reduces the product. A product can be computed in either order, while what reads the gradient, such as
    an optimiser, would read it against the order of all its other arrays.

    Processes exchange an array in the order that their programs give it, so this must not follow from work in which the
    processes may differ. It does not: a program's own code has the product's transpose alone to read.
    """
    readers: dict[Instruction, list[Instruction]] = {}
    for i in computation.instructions:
        for operand in i.operands:
            if operand.opcode == "all-reduce" and len(operand.operands) == 1:
                readers.setdefault(operand, []).append(i)
    readers.pop(computation.root, None)
    orders: dict[Instruction, tuple[int, ...]] = {}
    for reduced, by in readers.items():
        if all(i.opcode == "transpose" for i in by):
            wanted: set[tuple[int, ...]] = {i.attributes["dimensions"] for i in by}
            if len(wanted) == 1:
                orders[reduced] = wanted.pop()
    if not orders:
        return computation
    mapped: dict[Instruction, Instruction] = {}
    instructions: list[Instruction] = []
    for i in computation.instructions:
        if i.opcode == "transpose" and i.operands[0] in orders:
            mapped[i] = mapped[i.operands[0]]
            continue
        new = i.with_operands([mapped[o] for o in i.operands])
        if i in orders:
            turned = transpose(new.operands[0], orders[i])
            if turned is not new.operands[0]:
                instructions.append(turned)
            shape = turned.shape
            new = i.derive(i.opcode, (turned,), i.attributes, i.called, shape=shape)
        instructions.append(new)
        mapped[i] = new
    root = mapped[computation.root]
    return Computation(computation.name, computation.parameters, instructions, root)


def _results(i: Instruction, values: Iterable[Instruction]) -> Instruction:
    values = tuple(values)
    if isinstance(i.shape, TupleShape):
        return i.derive("tuple", values)
    return values[0]


def _zeros(like: Instruction) -> Instruction:
    zero = constant(0, like.dtype, like.metadata)
    return broadcast(zero, like.dims) if like.dims else zero


def _split(x: Instruction, dimension: int, count: int) -> Instruction:
    """``x`` with ``dimension`` cut into ``count`` blocks, which become a new first dimension."""
    dims = x.dims
    cut = (*dims[:dimension], count, dims[dimension] // count, *dims[dimension + 1 :])
    order = (dimension, *(n for n in range(len(cut)) if n != dimension))
    return transpose(reshape(x, cut), order)


def _join(x: Instruction, dimension: int) -> Instruction:
    """The inverse: the first dimension's blocks, one after the other in what is ``dimension`` without it."""
    rank = len(x.dims)
    order = (*range(1, dimension + 1), 0, *range(dimension + 1, rank))
    moved = transpose(x, order)
    dims = moved.dims
    return reshape(
        moved,
        (*dims[:dimension], dims[dimension] * dims[dimension + 1], *dims[dimension + 2 :]),
    )


def _each(
    i: Instruction,
    before: Callable[[Instruction], Instruction],
    shape: Callable[[Instruction], Shape],
    after: Callable[[Instruction], Instruction],
    **changed: int,
) -> Instruction:
    """``i`` on other operands, its results turned back: one collective for each operand."""
    values = []
    for operand in i.operands:
        x = before(operand)
        attributes = {**i.attributes, **changed}
        whole = i.derive(i.opcode, (x,), attributes, i.called, shape=shape(x))
        values.append(after(whole))
    return _results(i, values)


def _arrange_all_gather(i: Instruction, size: int) -> Instruction | None:
    dimension: int = i.attributes["all_gather_dimension"]
    _expect(i, [o.dims[dimension] * size for o in i.operands], dimension, size)
    if dimension == 0 and len(i.operands) == 1:
        return None
    return _each(
        i,
        lambda x: reshape(x, (1, *x.dims)),
        lambda x: Shape(x.dtype, (size, *x.dims[1:])),
        lambda x: _join(x, dimension),
        all_gather_dimension=0,
    )


def _arrange_all_to_all(i: Instruction, size: int) -> Instruction | None:
    if "split_dimension" not in i.attributes:
        return _arrange_tuple_all_to_all(i, size)
    split: int = i.attributes["split_dimension"]
    concatenate: int = i.attributes["concat_dimension"]
    if any(o.dims[split] % size for o in i.operands):
        message = f"dimension {split} cannot be split among {size} devices"
        raise of_instruction("INVALID_ARGUMENT", message, i)
    if split == concatenate == 0 and len(i.operands) == 1:
        return None
    return _each(
        i,
        lambda x: _split(x, split, size),
        lambda x: Shape(x.dtype, x.dims),
        lambda x: _join(x, concatenate),
        split_dimension=0,
        concat_dimension=0,
    )


def _arrange_tuple_all_to_all(i: Instruction, size: int) -> Instruction:
    """HLO's other form: operand q goes to the q-th device of the group, result r is from the r-th."""
    if len(i.operands) != size:
        message = f"{len(i.operands)} operands for {size} devices"
        raise of_instruction("INVALID_ARGUMENT", message, i)
    dims = i.operands[0].dims
    dtype = i.operands[0].dtype
    shape = Shape(dtype, (size, *dims))
    rows = [reshape(o, (1, *dims)) for o in i.operands]
    joined = concatenate(rows, 0, i.metadata)
    attributes = {**i.attributes, "split_dimension": 0, "concat_dimension": 0}
    whole = i.derive("all-to-all", (joined,), attributes, shape=shape)
    values = []
    for n in range(size):
        values.append(reshape(cut(whole, 0, n, n + 1, i.metadata), dims))
    return _results(i, values)


def _arrange_reduce_scatter(i: Instruction, size: int) -> Instruction | None:
    dimension: int = i.attributes["scatter_dimension"]
    for operand in i.operands:
        if operand.dims[dimension] % size:
            message = f"dimension {dimension} cannot be split among {size} devices"
            raise of_instruction("INVALID_ARGUMENT", message, i)
    _expect(i, [o.dims[dimension] // size for o in i.operands], dimension, size)
    if dimension == 0 and len(i.operands) == 1:
        return None
    return _each(
        i,
        lambda x: _split(x, dimension, size),
        lambda x: Shape(x.dtype, (1, *x.dims[1:])),
        lambda x: reshape(x, x.dims[1:]),
        scatter_dimension=0,
    )


def _expect(i: Instruction, sizes: list[int], dimension: int, group: int) -> None:
    for shape, size in zip(i.result_shapes, sizes, strict=True):
        if not isinstance(shape, Shape) or shape.dims[dimension] != size:
            message = f"the result's dimension {dimension} must be {size} in a group of {group}"
            raise of_instruction("INVALID_ARGUMENT", message, i)


_ARRANGE: Final[dict[str, Callable[[Instruction, int], Instruction | None]]] = {
    "all-gather": _arrange_all_gather,
    "all-to-all": _arrange_all_to_all,
    "reduce-scatter": _arrange_reduce_scatter,
}


# ----------------------------------------------------------------------------------------------------- matching


def _match(i: Instruction, library: Library) -> Instruction | None:
    """A device number as a library call; an element of a tuple that is there."""
    if i.opcode in ("partition-id", "replica-id"):
        config = {"partition": int(i.opcode == "partition-id")}
        return library_call(i, "device-number", config, library.call)
    if i.opcode == "get-tuple-element" and i.operands[0].opcode == "tuple":
        found: Instruction = i.operands[0].operands[i.attributes["index"]]
        return found
    return None


def _match_collective(
    i: Instruction, module: Module, meeting: int, members: tuple[int, ...], library: Library
) -> Instruction:
    """``members``: the numbers of the program's collectives that ``i`` is. They and ``operation`` are for the text
    that the processes of a job compare.
    """
    opcode = i.opcode
    config: dict[str, Any] = {
        "meeting": meeting,
        "members": members,
        "channel": i.attributes["channel_id"],
    }
    if opcode in ("collective-permute", "collective-broadcast"):
        opcode = "collective-permute"
        config["sources"] = tuple(permuted_sources(i, module))
        groups = connected(list(config["sources"]))
    else:
        groups = complete_groups(i, module)
    if i.called:
        config["operation"] = _name_of_operation(i.called[0])
    config["groups"] = tuple(n for group in groups for n in group)
    config["group_sizes"] = tuple(map(len, groups))
    size = sum(o.shape.bytes for o in i.operands if isinstance(o.shape, Shape))
    return library_call(i, opcode, config, library.meeting + size / library.exchanged)


def _name_of_operation(body: Computation) -> str:
    """ "add", or for a body of several instructions all that it does, so that two bodies of one text do the same:
    "compare(0,1) f32[] direction='LT', ... -> 3". The parameters come first in the numbers, and the result is the
    last instruction if none is named.
    """
    known = binary_body(body)
    if known is not None:
        return known
    others = [i for i in body.instructions if i.opcode != "parameter"]
    number = {i: n for n, i in enumerate((*body.parameters, *others))}
    described = []
    for i in others:
        value = i.attributes["literal"].tolist() if i.opcode == "constant" else ""
        operands = ",".join(str(number[o]) for o in i.operands)
        details = [
            f"{name}={given.tolist() if isinstance(given, np.ndarray) else given!r}"
            for name, given in sorted(i.attributes.items())
            if name != "literal"
        ]
        details += [f"to {{{_name_of_operation(c)}}}" for c in i.called]
        described.append(" ".join([f"{i.opcode}({operands}{value}) {i.shape}", *details]))
    is_last = bool(others) and body.root is others[-1]
    return ", ".join(described) + ("" if is_last else f" -> {number[body.root]}")
