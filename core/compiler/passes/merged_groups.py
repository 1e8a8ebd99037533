"""Groups of features, the last two dimensions ``[..., groups, members]`` of an array, become one dimension again.

A group norm views an image ``[n, h, w, features]`` as ``[n, h, w, groups, members]``, takes sums over h, w and members,
and spreads them over the members. Vectors that run along few members are nearly empty, a loop over all features is as
long as they are many. So this pass lets what is computed of such an array have the dimensions of the image. Its sums
are taken over h and w first, a sum for each feature, and those of a group's features are added up then. What is spread
over members is so in an array of one image's features, which is small, and that is spread over h and w.

Only arrays of which a sum jumps over the groups in this way are merged, with all that is computed with them element by
element. Their other readers, and what they are read from, must be reshapes or lie in memory, where nothing moves.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ..ir.control_flow import executable_computations
from ..ir.hlo import Computation, Instruction, Module, Shape, broadcast, constant
from ..ir.patterns import binary_body, neutral_start, reshape
from .rewrite import map_computations, substitute

if TYPE_CHECKING:
    from ..targets.costs import Components
    from ..targets.target import Target

# What gives an array as a whole, in memory: its elements may be seen in other dimensions.
_IN_MEMORY = frozenset(("parameter", "constant", "get-tuple-element", "library-call", "while"))


def merge_groups(module: Module, target: Target) -> Module:
    """The module with groups of features merged where sums over members and positions are taken."""
    costs = target.costs.components
    return map_computations(module, lambda c: _merge(c, costs), executable_computations(module))


def _merge(computation: Computation, costs: Components) -> Computation:
    sums = [i for i in computation.instructions if _jumps_over_groups(i, costs)]
    if not sums:
        return computation
    users = computation.users()
    done: set[Instruction] = set()
    replaced: dict[Instruction, Instruction] = {}
    for total in sums:
        operand = total.operands[0]
        if operand not in done:
            together = _computed_together(operand, users)
            done.update(together)
            if all(_can_merge(i, costs) for i in together) and all(
                _reads_merged(u, i) for i in together for u in users[i]
            ):
                _replace(computation, together, users, replaced)
    return substitute(computation, replaced)


def _jumps_over_groups(i: Instruction, costs: Components) -> bool:
    """Whether a reduction reduces positions and the few members behind the groups that it keeps."""
    if i.opcode != "reduce" or not isinstance(i.shape, Shape):
        return False
    dims, reduced = i.operands[0].dims, i.attributes["dimensions"]
    *before, groups, members = range(len(dims)) if len(dims) > 2 else (0, 0)
    return (
        groups not in reduced
        and members in reduced
        and any(dims[d] > 1 for d in before if d in reduced)
        and dims[groups] > 1 < dims[members] <= costs.members
        and i.operands[0].elements >= costs.least
        and _is_in_steps(i)
    )


def _is_in_steps(reduction: Instruction) -> bool:
    """Whether a reduction may be done in two steps, the first of which rounds no more than the whole."""
    if not isinstance(reduction.shape, Shape) or (
        reduction.dtype.is_float and reduction.dtype.bits < 32
    ):
        return False
    opcode = binary_body(reduction.called[0])
    return opcode is not None and neutral_start(opcode, reduction) is not None


def _computed_together(
    first: Instruction, users: Mapping[Instruction, Iterable[Instruction]]
) -> dict[Instruction, None]:
    """``first`` and the arrays with its groups and members that are computed with it element by element, in any
    order.
    """
    found = {first: None}
    stack = [first]
    while stack:
        i = stack.pop()
        near = [o for o in i.operands if _keeps_groups(i, o)]
        for other in (*near, *(u for u in users[i] if _keeps_groups(u, i))):
            if other not in found:
                found[other] = None
                stack.append(other)
    return found


def _keeps_groups(i: Instruction, operand: Instruction) -> bool:
    """Whether ``i`` has the groups and members of ``operand``."""
    if i.is_elementwise:
        return isinstance(i.shape, Shape) and i.dims == operand.dims
    return i.opcode == "reshape" and i.dtype is operand.dtype and i.dims[-2:] == operand.dims[-2:]


def _can_merge(i: Instruction, costs: Components) -> bool:
    """Whether ``i`` can have its last two dimensions as one."""
    if i.is_elementwise:
        return True
    if i.opcode == "reshape":
        return i.dtype is i.operands[0].dtype
    if i.opcode != "broadcast":
        return i.opcode in _IN_MEMORY
    mapped = i.attributes["dimensions"]
    if list(mapped) != sorted(mapped):
        return False
    ends = sum(d >= len(i.dims) - 2 for d in mapped)
    (operand,) = i.operands
    # A copy for each member of what is nearly as large as the array costs as much as the array's small dimension.
    return ends != 1 or operand.elements * i.dims[-1] * costs.spread <= i.elements


def _reads_merged(user: Instruction, i: Instruction) -> bool:
    """Whether a user of ``i`` reads it as well where the last two dimensions are one."""
    if user.opcode == "reduce":
        return user.operands[0] is i and _is_in_steps(user)
    return user.is_elementwise or user.opcode in ("reshape", "tuple", "library-call", "while")


def _merged_dims(dims: tuple[int, ...]) -> tuple[int, ...]:
    return (*dims[:-2], dims[-2] * dims[-1])


def _replace(
    computation: Computation,
    together: Mapping[Instruction, None],
    users: Mapping[Instruction, Iterable[Instruction]],
    replaced: dict[Instruction, Instruction],
) -> None:
    """Put into ``replaced`` what stands for the arrays ``together`` and for what reads them."""
    merged: dict[Instruction, Instruction] = {}
    for i in computation.instructions:
        if i not in together:
            continue
        dims = _merged_dims(i.dims)
        if i.is_elementwise:
            operands = [merged.get(o, o) for o in i.operands]
            shape = i.shape.with_dims(dims)  # type: ignore[union-attr]
            value = i.replace(operands=operands, shape=shape)
        elif i.opcode == "broadcast":
            value = _spread(i, dims)
        else:
            whole = i.operands[0] if i.opcode == "reshape" else i
            value = reshape(merged.get(whole, whole), dims)
        merged[i] = value
        if i.is_elementwise or i.opcode in ("broadcast", "reshape"):
            replaced[i] = reshape(value, i.dims)
        for user in users[i]:
            if user.opcode == "reduce":
                replaced[user] = _reduce(user, value)
            elif user.opcode == "reshape" and user.dtype is i.dtype and user not in together:
                replaced[user] = reshape(value, user.dims)


def _spread(i: Instruction, dims: tuple[int, ...]) -> Instruction:
    """The broadcast ``i`` with its last two dimensions as one, ``dims``."""
    (operand,) = i.operands
    mapped: tuple[int, ...] = i.attributes["dimensions"]
    groups = len(i.dims) - 2
    before = tuple([d for d in mapped if d < groups])
    if before != mapped:
        sizes = [i.dims[d] for d in before]
        places = (*range(len(before)), *(len(before) + d - groups for d in mapped[len(before) :]))
        small = (*sizes, *i.dims[groups:])
        whole = operand if operand.dims == small else broadcast(operand, small, places)
        operand = reshape(whole, (*sizes, dims[-1]))
        mapped = (*before, groups)
    if operand.dims == dims:
        return operand
    shape = i.shape.with_dims(dims)  # type: ignore[union-attr]
    attributes = {**i.attributes, "dimensions": mapped}
    return i.replace(operands=(operand,), shape=shape, attributes=attributes)


def _reduce(reduction: Instruction, merged: Instruction) -> Instruction:
    """The reduction of an array whose last two dimensions are one in ``merged``."""
    operand, initial = reduction.operands
    reduced = reduction.attributes["dimensions"]
    groups, members = len(operand.dims) - 2, len(operand.dims) - 1
    before = tuple([d for d in reduced if d < groups])
    last = [d for d in (groups, members) if d in reduced]
    if len(last) == 2:
        attributes = {**reduction.attributes, "dimensions": (*before, groups)}
        return reduction.replace(operands=(merged, initial), attributes=attributes)
    kept = [n for d, n in enumerate(merged.dims) if d not in before]
    first = merged
    if before:
        opcode = binary_body(reduction.called[0])
        assert opcode is not None
        neutral = neutral_start(opcode, reduction) if last else None
        first = reduction.derive(
            "reduce",
            (merged, constant(neutral, reduction.dtype, reduction.metadata) if last else initial),
            {**reduction.attributes, "dimensions": before},
            reduction.called,
            shape=Shape(reduction.dtype, tuple(kept)),
        )
    whole = reshape(first, (*kept[:-1], *operand.dims[groups:]))
    if not last:
        return whole
    dimension = len(kept) - 1 + (last[0] - groups)
    attributes = {**reduction.attributes, "dimensions": (dimension,), "split": True}
    return reduction.replace(operands=(whole, initial), attributes=attributes)
