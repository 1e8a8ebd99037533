"""What is computed from a packed product alone is computed before it is written: a "packed-dot" fusion.

Biases, activations, residuals and the conversion to the result's type cost a pass over memory otherwise. An
instruction goes along if it is elementwise, and if nobody but others that go along needs what it is computed from: a
fusion writes one array, of as many elements as the product. The epilogue's other operands are
arrays in memory, but for masks that a few instructions compute from positions (a triangle), and for cheap functions
of arrays that it reads anyway.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Final

from ...fusion.fused import make_fusion
from ...ir.hlo import Computation, Instruction, Shape, broadcast, topological_order
from ...ir.patterns import reshape, reshaped_broadcast
from ...ir.registry import OPS
from ..cheap_functions import cheap_function
from .gemm import is_dense
from .weights import Same

if TYPE_CHECKING:
    from ...targets.costs import Costs
    from ...targets.target import Target

_MOST_MEMBERS: Final = 48
_MOST_LOOKED_AT: Final = 256  # instructions behind a product
_MOST_ARRAYS: Final = 8  # that are read besides the product's operands


def fuse_epilogues(
    computation: Computation, target: Target, fusions: dict[Hashable, Computation]
) -> Computation:
    """``computation`` with what follows its packed products inside of them."""
    products = [i for i in computation.instructions if _is_product(i)]
    # The last instruction of an epilogue -> its fusion.
    replaced: dict[Instruction, Instruction] = {}
    gone: set[Instruction] = set()
    users = computation.users() if products else {}
    position = {i: n for n, i in enumerate(computation.instructions)} if products else {}
    for product in products:
        if product in gone:
            continue
        members = _members(product, computation, users, position, gone, target.costs)
        if len(members) > 1:
            fused = _fused(product, members, fusions, target.costs)
            if fused is not None:
                replaced[members[-1]] = fused
                gone.update(members)
    if not replaced:
        return computation
    output: list[Instruction] = []
    mapped: dict[Instruction, Instruction] = {}

    def place(i: Instruction) -> Instruction:
        """``i``, or what it is now, with operands that are placed before it."""
        if i not in mapped:
            mapped[i] = i.with_operands([place(o) for o in i.operands])
            output.append(mapped[i])
        return mapped[i]

    for i in computation.instructions:
        if i in replaced:
            mapped[i] = place(replaced[i])
        elif i not in gone:
            place(i)
    return Computation(computation.name, computation.parameters, output, mapped[computation.root])


def _is_product(i: Instruction) -> bool:
    """Whether ``i`` is a packed product, or one with what makes its rhs."""
    return i.opcode == "packed-dot" or (
        i.opcode == "fusion" and i.attributes["kind"] == "packed-dot"
    )


def _opened(product: Instruction) -> tuple[Instruction, set[Instruction]]:
    """The packed product itself, with operands outside of its fusion, and what the fusion holds besides."""
    if product.opcode == "packed-dot":
        return product, set()
    (body,) = product.called
    inner: dict[Instruction, Instruction] = dict(
        zip(body.parameters, product.operands, strict=True)
    )
    held: set[Instruction] = set()
    for i in body.instructions:
        if i not in inner:
            inner[i] = i.with_operands([inner[o] for o in i.operands])
            held.add(inner[i])
    itself = inner[body.root]
    return itself, held - {itself}


def _members(
    product: Instruction,
    computation: Computation,
    users: dict[Instruction, list[Instruction]],
    position: dict[Instruction, int],
    gone: set[Instruction],
    costs: Costs,
) -> list[Instruction]:
    """``product`` and what goes along, in order; the last one is all that others read. ``gone``: what is part of
    another product's fusion.
    """
    itself, _ = _opened(product)
    if not is_dense(itself.attributes["config"]):
        return []
    inside: dict[Instruction, None] = {product: None}
    outside: set[Instruction] = set()  # what depends on the product otherwise
    cost = 0.0
    elements = product.elements
    waiting = [position[u] for u in users[product]]
    last = max(waiting, default=-1)  # of the instructions that read what is inside
    heapq.heapify(waiting)
    seen = set(waiting)
    while waiting and waiting[0] <= last and len(seen) <= _MOST_LOOKED_AT:
        i = computation.instructions[heapq.heappop(waiting)]
        fits = (
            outside.isdisjoint(i.operands)
            and i not in gone
            and isinstance(i.shape, Shape)
            and (i.opcode == "reshape" or (OPS[i.opcode].is_indexable and i.is_elementwise))
            and not OPS[i.opcode].hlo_call  # a function too long for an epilogue
            and i.elements == elements
            and cost + costs.instructions(i) <= costs.fusion.epilogue
            and len(inside) < _MOST_MEMBERS
        )
        if fits:
            inside[i] = None
            cost += costs.instructions(i)
            last = max(last, *(position[u] for u in users[i]), -1)
        else:
            outside.add(i)
        for user in users[i]:
            place = position[user]
            if place not in seen:
                seen.add(place)
                heapq.heappush(waiting, place)
    results = (*computation.results, computation.root)
    while True:
        read = [i for i in inside if i in results or any(u not in inside for u in users[i])]
        if len(read) <= 1:
            break
        # What the first of them is computed from.
        needed = {read[0]}
        for i in reversed(list(inside)):
            if i in needed:
                needed.update(o for o in i.operands if o in inside)
        inside = {i: None for i in inside if i in needed}
    members = list(inside)
    while members and (
        members[-1].opcode == "reshape"
        or (
            members[-1].opcode == "convert"
            and members[-1].dtype.size > members[-1].operands[0].dtype.size
        )
    ):
        members.pop()  # it costs nothing outside, or the array is smaller without it
    return members


def _fused(
    product: Instruction,
    members: list[Instruction],
    fusions: dict[Hashable, Computation],
    costs: Costs,
) -> Instruction | None:
    itself, held = _opened(product)
    config: dict[str, Any] = itself.attributes["config"]
    dims = (*config["batch"], config["m"], config["n"])
    epilogue = _Epilogue(product, itself, members, dims, costs)
    epilogue.made |= held
    epilogue.derive_arrays()
    root = epilogue.value(members[-1])
    arrays = {o for i in epilogue.made for o in i.operands if o not in epilogue.made}
    if len(arrays) > _MOST_ARRAYS + len(product.operands):
        return None
    inside = topological_order([root], epilogue.made)
    fusion = make_fusion(inside, [root], "packed-dot", Same(), fusions)
    return reshape(fusion, members[-1].dims)


def _without_reshapes(i: Instruction) -> Instruction:
    while i.opcode == "reshape":
        i = i.operands[0]
    return i


def _is_positional(i: Instruction) -> bool:
    """Whether positions alone determine ``i``, if they do so for its operands."""
    if i.opcode == "constant":
        return i.elements == 1
    return i.opcode in ("iota", "broadcast") or (
        OPS[i.opcode].is_indexable and i.is_elementwise and not OPS[i.opcode].hlo_call
    )


class _Epilogue:
    """The members of a fusion, written anew for arrays of ``dims``. ``itself``: the product inside of it."""

    def __init__(
        self,
        product: Instruction,
        itself: Instruction,
        members: list[Instruction],
        dims: tuple[int, ...],
        costs: Costs,
    ) -> None:
        self.members, self.dims, self.costs = set(members), dims, costs
        readers = [i for i in members if product in i.operands]
        # The program's product is of bf16 or f16, and is rounded where it is stored, as other values of a kernel are.
        rounded = itself.attributes["config"].get("rounded")
        stays = len(members) > 2 and [(i.opcode, i.dtype) for i in readers] == [
            ("convert", rounded)
        ]
        new = itself.replace(shape=Shape(rounded if stays else itself.dtype, dims))
        self.done = {product: new}
        if stays:
            self.done[readers[0]] = new
        self.made: set[Instruction] = {new}

    def derive_arrays(self) -> None:
        """Compute the cheap functions of arrays that are read anyway, as x (1 - x) beside x: they may not have to be in
        memory then.
        """
        size = math.prod(self.dims)
        arrays = [_without_reshapes(o) for i in self.members for o in i.operands]
        read = {o for o in arrays if o not in self.members and o.elements == size}
        for array in read:
            found = cheap_function(array, read)
            if found is not None:
                self.members.update(found.inside)

    def value(self, i: Instruction) -> Instruction:
        """``i`` as an array of ``dims``: a member, or an array in memory."""
        if i not in self.done:
            self.done[i] = self._value(i)
        return self.done[i]

    def _value(self, i: Instruction) -> Instruction:
        if i.elements != math.prod(self.dims):  # the scalar of a select or a clamp
            repeated = broadcast(reshape(i, ()), self.dims)
            self.made.add(repeated)
            return repeated
        if i.opcode == "reshape":
            return self.value(i.operands[0])
        if i in self.members or (i.opcode == "convert" and i.operands[0].opcode != "constant"):
            new = i.replace(
                shape=Shape(i.dtype, self.dims), operands=[self.value(o) for o in i.operands]
            )
            self.made.add(new)
            return new
        if i.opcode == "broadcast":
            return self._broadcast(i)
        return self._computed(i) if i.dims == self.dims else reshape(i, self.dims)

    def _computed(self, i: Instruction) -> Instruction:
        """``i``, which is computed in the fusion if positions alone determine it and a few instructions do it."""
        inside: dict[Instruction, None] = {}
        cost, waiting = 0.0, [i]
        while waiting:
            part = waiting.pop()
            if part in inside:
                continue
            inside[part] = None
            cost += self.costs.instructions(part)
            if not _is_positional(part) or cost > self.costs.fusion.mask:
                return i
            waiting += part.operands
        self.made.update(inside)
        return i

    def _broadcast(self, i: Instruction) -> Instruction:
        source = i.operands[0]
        found = reshaped_broadcast(i, self.dims)
        if found is None:
            return reshape(i, self.dims)
        dims, places = found
        source = self._computed(source) if source.dims == dims else reshape(source, dims)
        new = i.replace(
            shape=Shape(i.dtype, self.dims),
            operands=[source],
            attributes={"dimensions": places},
        )
        self.made.add(new)
        return new
