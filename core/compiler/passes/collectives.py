"""Collectives: what the devices of a program exchange, from HLO's forms to calls of the runtime.

The devices of a program are its participants, numbered ``replica * num_partitions + partition``. Two passes:

* :func:`arrange_collectives`, early: what one device alone exchanges stays where it is, device numbers of which there
  is one become constants, and of everything else the dimension that is split or joined moves to the front, so that the
  runtime moves blocks (simplification then removes transposes that meet others). All-reduces whose results are only
  read transposed reduce the transposed array.
* :func:`match_collectives`, before fusion: collectives become library calls (core/runtime/library/collectives.cc says
  what each takes); all-reduces that do not wait for one another become one call, because a meeting of devices costs
  more than a small array.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from itertools import pairwise
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
    get_tuple_element,
)
from ..ir.moves import concatenate, cut, transpose
from ..ir.patterns import binary_body, is_collective_call, reshape
from .decompose import element_of_tuple
from .library.call import library_call
from .rewrite import map_computations, sweep

if TYPE_CHECKING:
    from ..targets.costs import Library
    from ..targets.target import Target


# Operands of all-reduces that are exchanged together: enough for a network's bandwidth, and for a large model little
# enough that the first are exchanged while the gradients of other layers are computed.
TOGETHER_BYTES: Final = 4 << 20

Groups = tuple[tuple[int, ...], ...]

_MEETINGS: Final = frozenset(
    (
        "all-reduce",
        "all-gather",
        "all-to-all",
        "reduce-scatter",
        "collective-permute",
        "collective-broadcast",
    )
)
_OPCODES: Final = _MEETINGS | {"partition-id", "replica-id"}


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
        numbered += sum(i.opcode in _MEETINGS for i in computation.instructions)
        computation, members = _combine_all_reduces(computation, module, first)
        numbers = iter(members)  # the sweep goes through the collectives in their order

        def rule(i: Instruction) -> Instruction | None:
            if i.opcode in _MEETINGS:
                return _match_collective(i, module, next(meetings), next(numbers), library)
            return _match(i, library)

        return sweep(computation, rule, repeat=False)

    return map_computations(module, match)


def _has_collectives(module: Module) -> bool:
    return any(i.opcode in _OPCODES for c in module.computations() for i in c.instructions)


# ------------------------------------------------------------------------------------------------------- groups


def participant_groups(i: Instruction, module: Module) -> Groups:
    """The groups of participants that meet in ``i``, each in the order of its members.

    What the numbers in ``replica_groups`` are depends on the opcode, the channel and ``use_global_device_ids``, as
    StableHLO's specification says (cross_replica, cross_partition, cross_replica_and_partition, flattened_ids).
    """
    replicas, partitions = module.num_replicas, module.num_partitions
    given: Groups = i.attributes["replica_groups"]
    has_channel = i.attributes["channel_id"] > 0

    def all_of(count: int) -> Groups:
        return given or (tuple(range(count)),)

    def check(groups: Groups, count: int, what: str) -> Groups:
        for number in (n for group in groups for n in group):
            if not 0 <= number < count:
                message = f"a group names {what} {number}, but the program has {count}"
                raise of_instruction("INVALID_ARGUMENT", message, i)
        return groups

    if i.attributes.get("use_global_device_ids", False):
        return check(all_of(replicas * partitions), replicas * partitions, "device")
    if i.opcode in ("all-to-all", "collective-broadcast") and has_channel:
        return tuple(
            tuple(replica * partitions + n for n in group)
            for replica in range(replicas)
            for group in check(all_of(partitions), partitions, "partition")
        )
    groups = check(all_of(replicas), replicas, "replica")
    if has_channel and i.opcode not in ("all-to-all", "collective-broadcast"):
        return tuple(
            tuple(n * partitions + partition for partition in range(partitions) for n in group)
            for group in groups
        )
    return tuple(
        tuple(n * partitions + partition for n in group)
        for partition in range(partitions)
        for group in groups
    )


def _complete_groups(i: Instruction, module: Module) -> Groups:
    """The groups of ``i``, in which every participant must be once."""
    groups = participant_groups(i, module)
    members = sorted(n for group in groups for n in group)
    if members != list(range(module.num_replicas * module.num_partitions)):
        message = (
            f"the groups {groups} do not hold each of the program's"
            f" {module.num_replicas * module.num_partitions} devices once"
        )
        raise of_instruction("INVALID_ARGUMENT", message, i)
    return groups


def _sources(i: Instruction, module: Module) -> list[int]:
    """For each participant the one whose operand it gets, or -1."""
    replicas, partitions = module.num_replicas, module.num_partitions
    sources = [-1] * (replicas * partitions)

    def send(source: int, target: int) -> None:
        if sources[target] >= 0:
            raise of_instruction("INVALID_ARGUMENT", f"device {target} receives twice", i)
        sources[target] = source

    if i.opcode == "collective-broadcast":
        for group in participant_groups(i, module):
            for target in group:
                send(group[0], target)
        return sources
    across_partitions = i.attributes["channel_id"] > 0
    count = partitions if across_partitions else replicas
    for source, target in i.attributes["source_target_pairs"]:
        if not (0 <= source < count and 0 <= target < count):
            message = f"the pair ({source}, {target}) names a device that the program does not have"
            raise of_instruction("INVALID_ARGUMENT", message, i)
        for other in range(replicas if across_partitions else partitions):
            if across_partitions:
                send(other * partitions + source, other * partitions + target)
            else:
                send(source * partitions + other, target * partitions + other)
    return sources


def _connected(sources: list[int]) -> Groups:
    """Participants that exchange anything with one another, directly or not; each in one group."""
    leader = list(range(len(sources)))

    def find(n: int) -> int:
        while leader[n] != n:
            n = leader[n]
        return n

    for target, source in enumerate(sources):
        if source >= 0:
            a, b = find(source), find(target)
            leader[max(a, b)] = min(a, b)
    groups: dict[int, list[int]] = {}
    for n in range(len(sources)):
        groups.setdefault(find(n), []).append(n)
    return tuple(map(tuple, groups.values()))


# ---------------------------------------------------------------------------------------------------- arranging


def _arrange(i: Instruction, module: Module) -> Instruction | None:
    opcode = i.opcode
    if opcode in ("partition-id", "replica-id"):
        count = module.num_partitions if opcode == "partition-id" else module.num_replicas
        return constant(0, i.dtype, i.metadata) if count == 1 else None
    if opcode in ("collective-permute", "collective-broadcast"):
        sources = _sources(i, module)
        if sources == list(range(len(sources))):
            return _results(i, i.operands)
        if all(source < 0 for source in sources):
            return _results(i, [_zeros(o) for o in i.operands])
        return None
    groups = _complete_groups(i, module)
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
    zero = constant(np.zeros((), like.dtype.numpy), like.dtype, like.metadata)
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

# What takes long. Rewriting with an eye on other readers makes neither more nor fewer of them follow one another.
_LONG: Final = frozenset(("conditional", "convolution", "custom-call", "dot", "while"))
# What is there from the start, and the least distance of two places.
_GIVEN: Final = frozenset(("parameter", "constant"))
_STEP: Final = 1e-4


def eager_places(
    instructions: Sequence[Instruction], reduces: Callable[[Instruction], bool]
) -> dict[Instruction, float]:
    """Where each instruction should stand, as a number: its place, or for what nothing but one operand of a reduction
    over devices needs, right behind its operands.

    A partitioner puts the gradients of all layers behind the whole backward pass. If each comes as soon as it can, its
    exchange begins earlier, and what it is computed from need not be kept.
    """
    # The one operand of a reduction that an instruction is for, directly or not; None if it is for anything else.
    purpose: dict[Instruction, tuple[Instruction, int] | None] = {}
    for i in reversed(instructions):
        own = None if i.has_side_effect else purpose.get(i)
        is_reduction = reduces(i)
        for n, o in enumerate(i.operands):
            this = (i, n) if is_reduction else own
            purpose[o] = this if purpose.get(o, this) == this else None
    places: dict[Instruction, float] = {}
    for n, i in enumerate(instructions):
        last = max((places[o] for o in i.operands if o.opcode not in _GIVEN), default=-1.0)
        is_eager = purpose.get(i) is not None and last >= 0 and not i.has_side_effect
        places[i] = min(last + _STEP, n) if is_eager else float(n)
    return places


def meets_others(instruction: Instruction) -> bool:
    """Whether an instruction is a collective, or one is in what it calls, at any depth."""
    stack = [instruction]
    seen: set[Computation] = set()
    while stack:
        i = stack.pop()
        if i.opcode in _MEETINGS:
            return True
        if is_collective_call(i):
            return True
        for computation in i.called:
            if computation not in seen:
                seen.add(computation)
                stack += computation.instructions
    return False


def _combine_all_reduces(
    computation: Computation, module: Module, first: int
) -> tuple[Computation, list[tuple[int, ...]]]:
    """One all-reduce for those of one kind that do not wait for one another, up to TOGETHER_BYTES of operands if
    they may run beside other work. For each collective of the new computation, in its order: the numbers that its
    members have in the program, of which the computation's own begin with ``first``.

    All that have as many collectives before them on the longest way from the parameters are such, and joining them
    makes no cycle.

    Which are together, the order of their operands, and the order of all collectives must be the same in programs
    that have the same collectives and differ in other work, because such programs meet (LaunchSeries::Get). So all of
    that follows from the order of the collectives in the program, and from what each of them waits for. It never
    follows from who else reads an operand or a result. Only the place of a group among other work, which is behind its
    last operand, does.

    A partitioner's program has the gradients of the first layer first, which are computed last. So all-reduces of one
    kind that do not wait for one another come in the order of the longest way to them through work that takes long.
    """
    kinds, depth = _joined(computation, module)
    groups = [group for kind in kinds for group in kind if len(group) > 1]
    own_collectives = (i for i in computation.instructions if i.opcode in _MEETINGS)
    number = {i: n for n, i in enumerate(own_collectives, first)}
    if not groups and all(len(kind) == 1 for kind in kinds):
        return computation, [(n,) for n in number.values()]
    place = {i: n for n, i in enumerate(computation.instructions)}
    # Where a collective stands in the order of all: the groups of a kind take one another's places.
    turn: dict[Instruction, int] = {}
    for kind in kinds:
        last = [max(place[member] for member in group) for group in kind]
        for group, at_last in zip(kind, sorted(last), strict=True):
            turn |= dict.fromkeys(group, at_last)
    eager = eager_places(computation.instructions, lambda i: i.opcode == "all-reduce")

    def begins(i: Instruction) -> float:
        """Where an instruction would stand: an all-reduce behind its last operand."""
        return max(eager[o] for o in i.operands) + _STEP / 2 if i in turn else eager[i]

    group_of = {i: group for group in groups for i in group}
    mapped: dict[Instruction, Instruction] = {}
    whole_of: dict[Instruction, Instruction] = {}  # of a member
    members: dict[Instruction, tuple[int, ...]] = {}  # of a new collective: their numbers
    at: dict[Instruction, float] = {}  # where each new instruction would stand
    own: dict[Instruction, float] = {}  # where it would stand in the program's own order
    # Instructions in the order of their depth: all operands of a group come before it is built.
    for i in sorted(computation.instructions, key=lambda i: depth[i] - (i in group_of) / 2):
        if i in mapped:
            continue
        group = group_of.get(i, [])
        if not group:
            mapped[i] = i.with_operands([mapped[o] for o in i.operands])
            if i in number:
                members[mapped[i]] = (number[i],)
            at[mapped[i]], own[mapped[i]] = begins(i), turn.get(i, place[i])
            continue
        operands = [mapped[o] for member in group for o in member.operands]
        shape = TupleShape(tuple(o.shape for o in operands))  # type: ignore[misc]
        whole = i.replace(shape=shape, operands=operands)
        members[whole] = tuple(number[member] for member in group)
        at[whole] = max(map(begins, group))
        own[whole] = turn[i]
        first = 0
        for member in group:
            values = [get_tuple_element(whole, first + n) for n in range(len(member.operands))]
            first += len(member.operands)
            mapped[member] = (
                member.derive("tuple", values)
                if isinstance(member.shape, TupleShape)
                else values[0]
            )
            whole_of[member] = whole
            for value in (*values, mapped[member]):
                at[value] = own[value] = place[member]

    # The order of collectives: that of their turns, and each side effect behind all collectives that the program begins
    # before it, read or not.
    effects: list[Instruction] = []
    before: dict[Instruction, list[Instruction]] = {}
    begun: list[Instruction] = []
    for i in computation.instructions:
        if i.has_side_effect:
            before[mapped[i]] = [*effects[-1:], *begun]
            effects.append(mapped[i])
            begun = []
        if meets_others(i):
            begun.append(whole_of.get(i, mapped[i]))
    collectives = [i for i in _in_order(own, before) if meets_others(i)]
    before = {}
    for chain in (effects, collectives):
        for a, b in pairwise(chain):
            before.setdefault(b, []).append(a)
    order = _in_order(at, before)
    combined = Computation(
        computation.name, computation.parameters, order, mapped[computation.root]
    )
    return combined, [members[i] for i in order if i in members]


def _joined(
    computation: Computation, module: Module
) -> tuple[list[list[list[Instruction]]], dict[Instruction, int]]:
    """For each kind of all-reduces that do not wait for one another, those that become one, the first to begin first;
    for each instruction, how many collectives there are up to it on the longest way from the parameters.

    A side effect waits for all collectives that the program begins before it: one that comes earlier may read them.
    """
    depth: dict[Instruction, int] = {}
    # The most instructions that take long on a way from the parameters.
    long: dict[Instruction, int] = {}
    kinds: dict[Hashable, list[Instruction]] = {}
    deepest = 0  # of the collectives up to here
    for i in computation.instructions:
        level = max((depth[o] for o in i.operands), default=0)
        long[i] = max((long[o] for o in i.operands), default=0) + (i.opcode in _LONG)
        if i.has_side_effect:
            level = max(level, deepest)
        if i.opcode == "all-reduce":
            dtypes = {o.dtype for o in i.operands}
            if len(dtypes) == 1 and not any(o.dtype.kind == "token" for o in i.operands):
                key = (level, i.called[0], i.operands[0].dtype, participant_groups(i, module))
                kinds.setdefault(key, []).append(i)
        if meets_others(i):
            level += 1
            deepest = max(deepest, level)
        depth[i] = level
    joined: list[list[list[Instruction]]] = []
    for same in kinds.values():
        groups: list[list[Instruction]] = []
        together: list[Instruction] = []
        size = 0
        for i in sorted(same, key=long.__getitem__):
            more = sum(o.shape.bytes for o in i.operands if isinstance(o.shape, Shape))
            if module.overlaps and together and size + more > TOGETHER_BYTES:
                groups.append(together)
                together, size = [], 0
            together.append(i)
            size += more
        joined.append([*groups, together])
    return joined, depth


def _in_order(
    at: Mapping[Instruction, float], before: Mapping[Instruction, Iterable[Instruction]]
) -> list[Instruction]:
    """The instructions, each behind its operands and what ``before`` has for it, and else by the place that each is
    given.
    """
    users: dict[Instruction, list[Instruction]] = {i: [] for i in at}
    missing = {}
    for i in at:
        needed = {*i.operands, *before.get(i, ())} - {i}
        missing[i] = len(needed)
        for o in needed:
            users[o].append(i)
    numbers = {i: n for n, i in enumerate(at)}
    ready = [(at[i], numbers[i], i) for i in at if not missing[i]]
    heapq.heapify(ready)
    order = []
    while ready:
        _, _, i = heapq.heappop(ready)
        order.append(i)
        for user in users[i]:
            missing[user] -= 1
            if not missing[user]:
                heapq.heappush(ready, (at[user], numbers[user], user))
    return order


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
        config["sources"] = tuple(_sources(i, module))
        groups = _connected(list(config["sources"]))
    else:
        groups = _complete_groups(i, module)
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
