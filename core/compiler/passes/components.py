"""Arrays of few components become an array for each component.

Places in space, quaternions, colours and small matrices are arrays whose last dimension has two to four elements.
Vectors that run along it are nearly empty, and neither can it be merged with the dimension before it where
[512, 1, 3] is subtracted from [1, 512, 3], or where the squares of three components are summed. This pass takes such
dimensions out of the program: f32[512,512,3] becomes three f32[512,512], a sum over the components becomes two
additions, and transposes, stacks and slices of components vanish. Fusion then sees nothing but long dimensions.

How: all dimensions of all arrays are put into classes (:mod:`.component_dimensions`). Linked classes are taken out
together, if that pays: some large array must have its components in the way, and what is computed of them must outweigh
the elements that are taken apart and put together again where whole arrays are needed (by parameters, results, loops,
library calls). Then each op is done for the components of its result (:mod:`.component_rules`), of which
:mod:`.component_values` keeps account.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ..ir.control_flow import executable_computations
from ..ir.hlo import Computation, Instruction, Module, Shape
from .component_dimensions import MOST_TOGETHER, DimensionClasses, in_the_way
from .component_rules import components_of, is_handled
from .component_values import Values
from .rewrite import map_computations, prune

if TYPE_CHECKING:
    from ..targets.costs import Components
    from ..targets.target import Target

#: Instructions that a computation may have more than before.
MOST_INSTRUCTIONS: Final = 4096


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
        isinstance(i.shape, Shape) and in_the_way(i) and _larger(i).elements >= costs.least
        for i in computation.instructions
    )


def _larger(i: Instruction) -> Instruction:
    return max((i, *i.operands[:1]), key=lambda x: x.elements if isinstance(x.shape, Shape) else 0)


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
        self.classes = DimensionClasses(computation.instructions)
        self.chosen: set[int] = set()  # groups of linked classes
        self.values = Values(self.taken)

    def run(self) -> Computation:
        self.choose()
        if not self.chosen:
            return self.computation
        for i in self.computation.instructions:
            self.place(i)
        root = self.values.of_whole(self.computation.root)
        c = self.computation
        return prune(Computation(c.name, c.parameters, self.values.output, root))

    # -------------------------------------------------------------------------------------------------- the choice
    def choose(self) -> None:
        """Decide which groups of linked classes are taken out."""
        worth: dict[int, _Worth] = {}
        for i in self.computation.instructions:
            for value, d in in_the_way(i) if isinstance(i.shape, Shape) else ():
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
                split = is_handled(i)
                if split:
                    w.added += math.prod(i.dims[d] for d in self.classes.small(i))
                    if i.opcode not in ("broadcast", "iota", "constant", "reshape"):
                        w.computed += i.elements
                if i.elements >= self.costs.least_component:
                    handled = [is_handled(u) for u in users]
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

    # --------------------------------------------------------------------------------------------------- placing
    def place(self, i: Instruction) -> None:
        """Do ``i`` for each component, or whole."""
        values, dims = self.values, self.taken(i)
        apart = any(o in values.parts for o in i.operands)
        large = dims and i.elements >= self.costs.least_component * math.prod(
            i.dims[d] for d in dims
        )
        if is_handled(i) and (apart or large):
            components = components_of(values, i, dims)
            if components is not None:
                if dims:
                    values.parts[i] = components
                else:
                    values.whole[i] = components[()]
                return
        operands = [values.of_whole(o) for o in i.operands]
        values.whole[i] = values.add(i.with_operands(operands))
