"""The computation of an "attention" fusion: the program's instructions, written anew in one order of dimensions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from ...ir import dtypes
from ...ir.hlo import Computation, DotDimensionNumbers, Instruction, Shape, broadcast, constant
from ...ir.patterns import reshape, squeezed
from ...ir.registry import OPS
from .views import DEPTH, UnfitError, View, labels_of, repeated_view, step, transposed

if TYPE_CHECKING:
    from .attention import Match

MOST_MEMBERS: Final = 96
_MOST_LOOKED_AT: Final = 128
_SMALL: Final = 64  # elements of an array that is always read
# Of what kernels can compute by an index, the operations at which arrays are read instead.
_ARRAYS: Final = frozenset(
    ("concatenate", "constant", "dynamic-slice", "gather", "map", "pad", "parameter")
)


class Body:
    """The instructions of the fusion.

    The same instruction of the program may be wanted in several orders of dimensions (``bias + bias.T``): ``done``
    has what was made of it for each. What the kernel has in one order alone (``fixed``: scores, exponentials, ...)
    raises UnfitError if it is wanted in another.
    """

    def __init__(self, match: Match) -> None:
        self.costs = match.target.costs
        self.match = match
        self.dims = match.dims
        self.done: dict[tuple[Instruction, tuple[int, ...]], Instruction] = {}
        self.fixed: set[Instruction] = set()
        self.made: set[Instruction] = set()

    def member(self, i: Instruction) -> Instruction:
        self.made.add(i)
        return i

    def elementwise(
        self,
        opcode: str,
        *operands: Instruction,
        like: Instruction,
        attributes: Instruction | None = None,
    ) -> Instruction:
        shape = operands[0].shape
        given = attributes.attributes if attributes is not None else {}
        return self.member(like.derive(opcode, operands, given, shape=shape))

    def converted(self, i: Instruction, dtype: dtypes.DType) -> Instruction:
        if i.dtype is dtype:
            return i
        shape = Shape(dtype, i.dims)
        return self.member(i.derive("convert", (i,), shape=shape))

    def reduced(self, i: Instruction, opcode: str, start: float) -> Instruction:
        scalar = Shape(i.dtype, ())
        parameters = [Instruction("parameter", scalar, (), {"index": n}) for n in range(2)]
        body = Computation.from_root(
            f"reduce_{opcode}", parameters, Instruction(opcode, scalar, parameters)
        )
        init = self.member(constant(start, i.dtype))
        return self.member(
            i.derive(
                "reduce",
                (i, init),
                {"dimensions": (len(i.dims) - 1,)},
                [body],
                shape=Shape(i.dtype, i.dims[:-1]),
            )
        )

    def scores(self) -> Instruction:
        """The product of queries and keys, in the order of the fusion."""
        m = self.match
        depth = DEPTH
        numbers = DotDimensionNumbers(
            (m.queries_view.index(depth),),
            (m.keys_view.index(depth),),
            tuple(m.queries_view.index(label) for label in m.batch),
            tuple(m.keys_view.index(label) for label in m.batch),
        )
        dot = m.first
        made = dot.derive(
            "dot",
            (m.queries_array, m.keys_array),
            {**dot.attributes, "dimension_numbers": numbers},
            shape=Shape(dot.dtype, self.dims),
        )
        self.fix(dot, m.first_view, made)
        return self.member(made)

    def fix(self, i: Instruction, view: View, made: Instruction) -> None:
        """Make ``made`` of ``i`` in the order of ``view``, and nothing in another."""
        self.done[i, labels_of(view)] = made
        self.fixed.add(i)

    def exponentials(self, largest: Instruction | None) -> tuple[Instruction, Instruction]:
        """exp(logits - largest), and ``largest``, which is computed if it is None."""
        m = self.match
        self.scores()
        logits = self.converted(self.value(m.logits, m.logits_view), m.wide)
        if largest is None:
            largest = self.reduced(logits, "maximum", -np.inf)
        difference = self.elementwise("subtract", logits, self.repeated(largest), like=m.exp)
        return self.elementwise("exponential", difference, like=m.exp, attributes=m.exp), largest

    def guarded(self, result: Instruction, largest: Instruction) -> Instruction:
        """``result``, but 0 for rows all of whose logits are -inf."""
        infinite = self.member(constant(-np.inf, largest.dtype))
        attributes = {"direction": "EQ", "comparison_type": "FLOAT"}
        condition = self.member(
            Instruction(
                "compare",
                Shape(dtypes.PRED, largest.dims),
                (largest, self.member(broadcast(infinite, largest.dims))),
                attributes,
            )
        )
        rows = tuple(range(len(largest.dims)))
        condition = self.member(broadcast(condition, result.dims, rows))
        zero = self.member(constant(0.0, result.dtype))
        zeros = self.member(broadcast(zero, result.dims))
        return self.member(Instruction("select", result.shape, (condition, zeros, result)))

    def repeated(self, row: Instruction) -> Instruction:
        """A value of each row, for all its keys."""
        return self.member(broadcast(row, self.dims, tuple(range(len(self.dims) - 1))))

    def in_order(
        self, i: Instruction, present: tuple[int, ...], labels: tuple[int, ...]
    ) -> Instruction:
        """``i``, whose dimensions have the labels ``present``, in the order ``labels``."""
        made = transposed(i, present, labels)
        return i if made is i else self.member(made)

    def product(self, weights: Instruction, dtype: dtypes.DType) -> Instruction:
        """``weights`` times the values."""
        m = self.match
        rank = len(m.batch)
        numbers = DotDimensionNumbers(
            (len(self.dims) - 1,),
            (m.values_view.index(m.keys),),
            tuple(range(rank)),
            tuple(m.values_view.index(label) for label in m.batch),
        )
        dot = m.last
        attributes = {**dot.attributes, "dimension_numbers": numbers}
        shape = Shape(dtype, (*self.dims[:-1], m.values_array.dims[-1]))
        made = dot.derive("dot", (weights, m.values_array), attributes, shape=shape)
        return self.member(made)

    def value(self, i: Instruction, view: View) -> Instruction:
        """``i``, whose dimensions are labelled by ``view``, with the dimensions of the fusion."""
        stack = [(i, view)]
        while stack:
            top, at = stack[-1]
            key = top, labels_of(at)
            if key in self.done:
                stack.pop()
                continue
            if top in self.fixed:
                raise UnfitError
            same = self.same(top, at)
            if same is not None:
                made = self.done.get((same[0], labels_of(same[1])))
                if made is None:
                    stack.append(same)
                else:
                    self.done[key] = made
                    stack.pop()
                continue
            if not self.is_rewritten(top):
                self.done[key] = self.array(top, at)
                stack.pop()
                continue
            missing = [o for o in top.operands if o.dims and (o, key[1]) not in self.done]
            if missing:
                stack += [(o, at) for o in missing]
                continue
            operands = [self.done[o, key[1]] if o.dims else self.scalar(o) for o in top.operands]
            new = top.replace(shape=Shape(top.dtype, self.dims), operands=operands)
            self.done[key] = self.member(new)
            stack.pop()
        return self.done[i, labels_of(view)]

    def same(self, i: Instruction, view: View) -> tuple[Instruction, View] | None:
        """What ``i`` is in the fusion, where its own operation has nothing to do there."""
        inner = step(i, view)
        if inner is not None:
            return inner
        if i in self.match.guards:  # done behind the product
            return i.operands[2], view
        apart = self.match.apart(i) if i.opcode == "reshape" else None
        return None if apart is None else (apart, labels_of(view))

    def is_rewritten(self, i: Instruction) -> bool:
        return (
            i.is_elementwise
            and OPS[i.opcode].is_indexable
            and not OPS[i.opcode].hlo_call
            and len(self.made) < MOST_MEMBERS
            and any(o.dims for o in i.operands)
        )

    def scalar(self, i: Instruction) -> Instruction:
        if i.opcode == "constant":
            self.member(i)
        return self.member(broadcast(i, self.dims))

    def array(self, i: Instruction, view: View) -> Instruction:
        """An array that the fusion reads, or computes by itself."""
        if i.opcode == "broadcast":
            return self.placed(self.small(i.operands[0]), repeated_view(i, view))
        if i.opcode == "constant" and i.elements > 1:
            literal = i.attributes["literal"]
            if (literal == literal.reshape(-1)[0]).all():
                return self.scalar(constant(literal.reshape(-1)[0], i.dtype))
        return self.placed(self.small(i), view)

    def placed(self, i: Instruction, view: View) -> Instruction:
        """``i`` with all dimensions of the fusion."""
        i = self.reshaped(i, squeezed(i.dims))
        places = [self.match.order.index(label) for label in labels_of(view)]
        order = sorted(range(len(places)), key=places.__getitem__)
        if order != list(range(len(order))):
            shape = Shape(i.dtype, tuple(i.dims[d] for d in order))
            i = self.member(Instruction("transpose", shape, (i,), {"dimensions": tuple(order)}))
        if i.dims == self.dims:
            return i
        return self.member(broadcast(i, self.dims, sorted(places)))

    def reshaped(self, i: Instruction, dims: tuple[int, ...]) -> Instruction:
        if i.dims == dims:
            return i
        new = reshape(i, dims)
        return self.member(new) if i in self.made else new

    def small(self, i: Instruction) -> Instruction:
        """``i`` with what it is computed from, if that is cheap; else as it is in memory."""
        inside = self.cheap_part(i) if i.elements >= _SMALL else None
        if inside is None:
            return self.kept(i)
        made: dict[Instruction, Instruction] = {}
        for member, is_array in inside.items():
            if is_array:
                made[member] = self.kept(member)
                continue
            new = member.replace(operands=[made[o] for o in member.operands])
            made[member] = self.member(new)
        return made[i]

    def cheap_part(self, i: Instruction) -> dict[Instruction, bool] | None:
        """What ``i`` is computed from by index, operands first, and whether it is an array that is read; None if that
        costs too much, or if it would read larger arrays than ``i``.
        """
        order: dict[Instruction, bool] = {}
        cost, stack = 0.0, [i]
        while stack:
            top = stack[-1]
            if top in order:
                stack.pop()
                continue
            is_array = (
                not OPS[top.opcode].is_indexable
                or bool(OPS[top.opcode].hlo_call)
                or top.opcode in _ARRAYS
                or not isinstance(top.shape, Shape)
            )
            missing = [] if is_array else [o for o in top.operands if o not in order]
            if missing:
                stack += missing
                if len(stack) > _MOST_LOOKED_AT:
                    return None
                continue
            if is_array:
                if not isinstance(top.shape, Shape) or top.elements > i.elements:
                    return None
            else:
                cost += self.costs.instructions(top)
            if cost > self.costs.fusion.mask or len(order) > MOST_MEMBERS:
                return None
            order[stack.pop()] = is_array
        return order

    def kept(self, i: Instruction) -> Instruction:
        """A constant that counts as an iota, a scalar constant as it is, anything else in memory."""
        if i.opcode == "constant" and i.elements == 1:
            self.member(i)
        elif i.opcode == "constant" and len(squeezed(i.dims)) == 1 and i.dtype.is_integer:
            values = i.attributes["literal"].reshape(-1)
            if (np.diff(values.astype(np.int64)) == 1).all():
                count = self.member(
                    Instruction("iota", Shape(i.dtype, (len(values),)), (), {"dimension": 0})
                )
                first = self.member(constant(values[0], i.dtype))
                start = self.member(broadcast(first, count.dims))
                sum_ = self.member(Instruction("add", count.shape, (count, start)))
                return self.reshaped(sum_, i.dims)
        return i
