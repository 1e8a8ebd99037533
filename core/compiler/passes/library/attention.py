"""Attention: softmax(scores of queries and keys) times values becomes one instruction, an "attention" fusion.

    scores = dot(queries, keys); logits = elementwise(scores, masks, biases, ...)
    weights = exp(logits - max(logits)) / sum(exp(logits - max(logits))); result = dot(elementwise(weights), values)

What the frameworks write differs in the orders of dimensions, in reshapes, in conversions between floats, in where
masks, biases, factors and dropout stand. The fusion's computation is the same program in one form, so that it says
what the fusion means, whoever evaluates it: every array of scores has the dimensions [batch..., queries..., keys],
those of size 1 are gone, and queries, keys and values are read in the order in which they lie in memory.
:mod:`...codegen.kernels.attention` computes it with blocks of scores in the caches: no array of all scores is in
memory.

The pattern must hold exactly; everything else stays as it was, and is computed in the general way:

* the maximum and the sum are those of the logits and of their exponentials, along one dimension, the keys';
* what is done to the weights before they meet the values is linear in them (dropout: a factor, a selection or 0);
* values have the batch dimensions of the scores, and are contracted along the keys alone;
* nobody else reads the weights: they would be in memory anyway.

What masks and biases are computed from goes into the fusion if it is cheap (comparisons of positions, conversions,
broadcasts); else they are arrays in memory, which the fusion reads.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...codegen.kernels.attention import MOST_COLUMNS, fewest_lanes
from ...fusion.fused import make_fusion
from ...ir import dtypes
from ...ir.hlo import (
    Computation,
    DotDimensionNumbers,
    Instruction,
    Shape,
    broadcast,
    get_tuple_element,
    topological_order,
)
from ...ir.moves import transpose
from ...ir.patterns import (
    binary_body,
    constant_value,
    convert,
    is_constant,
    reshape,
    reshaped_broadcast,
    squeezed,
)
from .. import rewrite
from .attention_body import MOST_MEMBERS, Body
from .attention_gradient import fused_gradients, result_product
from .split_products import split_operand, split_result
from .views import (
    DEPTH,
    FLOATS,
    UnfitError,
    View,
    columns_last,
    following,
    labels_of,
    own,
    peel,
    reduction_of,
    repeated_view,
    transposed,
)
from .weights import Same

if TYPE_CHECKING:
    from ...targets.target import Target

_MOST_LOOKED_AT: Final = 128  # instructions between the two products
_MOST_ARRAYS: Final = 8  # that are read besides queries, keys and values
# What may stand between the exponential and the product: see Match.find_division.
_AROUND_WEIGHTS: Final = frozenset(
    ("copy", "reshape", "transpose", "convert", "multiply", "divide", "select")
)


def fuse_attention(
    computation: Computation, target: Target, fusions: dict[Hashable, Computation], exact: bool
) -> Computation:
    """``computation`` with attention as fusions. ``exact``: small floats are rounded after each operation."""
    if not target.packs_products:
        return computation
    candidates = possible_weights(computation)
    if not candidates:
        return computation
    users = computation.users()
    results = {*computation.results, computation.root}
    replaced: dict[Instruction, Instruction] = {}
    taken: set[Instruction] = set()  # products that a fusion of gradients has
    for dot in computation.instructions:
        if dot.opcode != "dot" or dot in taken or candidates.isdisjoint(dot.operands):
            continue
        for side in (0, 1):
            if dot.operands[side] not in candidates:
                continue
            try:
                found = Match(dot, side, users, results, target, exact)
                if found.exits:
                    replaced.update(fused_gradients(found, fusions))
                    taken.update(found.exits)
                else:
                    last, value, _ = found.fused(fusions)
                    replaced[last] = value
            except UnfitError:
                continue
            break
        else:
            product = result_product(dot, users)
            if product is None:
                continue
            try:
                users[product[0]] = []
                found = Match(*product, users, results, target, exact)
                replaced.update(fused_gradients(found, fusions))
                taken.update(found.exits)
            except UnfitError:
                continue
    return rewrite.substitute(computation, replaced)


def possible_weights(computation: Computation) -> set[Instruction]:
    """The instructions that may be weights, so that products of others need no :class:`Match`: exponentials, and what
    is made of those by operations that stand between them and a product.
    """
    found: set[Instruction] = set()
    for i in computation.instructions:
        if i.opcode == "exponential" or (
            i.opcode in _AROUND_WEIGHTS and not found.isdisjoint(i.operands)
        ):
            found.add(i)
    return found


@dataclass(frozen=True, slots=True)
class Forward:
    """What a fusion gives: the result, whose dimensions have ``labels``, and for each row the largest logit and the sum
    of the exponentials.
    """

    result: Instruction
    labels: tuple[int, ...]
    largest: Instruction
    total: Instruction


class Match:
    """Attention that ends with the product ``last``, whose operand ``side`` is made of the weights.

    Raises UnfitError where it is something else.
    """

    def __init__(
        self,
        last: Instruction,
        side: int,
        users: dict[Instruction, list[Instruction]],
        results: set[Instruction],
        target: Target,
        exact: bool,
    ) -> None:
        self.users, self.results, self.target = users, results, target
        self.last, self.side = split_operand(last, side) or last, side
        self.origin = last  # in the program
        self.reshaped: dict[tuple[int, ...], dict[Instruction, Instruction | None]] = {}
        self.split_from: dict[Instruction, Instruction] = {}
        self.without_ones: dict[tuple[Instruction, tuple[int, ...]], Instruction] = {}
        weights = self.last.operands[side]  # batch dimensions that are one in the product are apart
        if last.dtype not in FLOATS or weights.dtype not in FLOATS or 0 in weights.dims:
            raise UnfitError
        self.looked_at = 0
        self.division, view, behind = self.find_division(weights, own(weights), ())
        # From here on the dimensions of the division are the labels.
        to_label = {label: d for d, label in enumerate(view) if label is not None}
        self.weights_view: View = tuple(
            to_label.get(d) if size != 1 else None for d, size in enumerate(weights.dims)
        )
        self.softmax()
        self.first, self.first_view = self.find_scores()
        self.check_alone(behind)
        if exact and any(
            i.dtype.size < 4 for i in (self.first, self.division, weights, last, *last.operands)
        ):
            raise UnfitError
        self.read_scores()
        self.read_values()
        self.check_sizes(target)

    def check_alone(self, behind: tuple[Instruction, ...]) -> None:
        """That nothing of what is computed from the scores is read by anything but the last product, and that what is
        ``behind`` the weights uses them once.
        """
        dot = self.split_from.get(self.first, self.first)
        waiting, seen = [dot], {dot}
        self.exits: list[Instruction] = []  # other products of what is computed from the scores
        while waiting:
            i = waiting.pop()
            if i in self.results or not self.users[i] or len(seen) > _MOST_LOOKED_AT:
                raise UnfitError
            for user in self.users[i]:
                if user is self.origin or user in self.exits:
                    continue
                if user.opcode == "dot":
                    self.exits.append(user)
                elif user not in seen:
                    seen.add(user)
                    waiting.append(user)
        self.of_scores = seen
        self.guards = {i for i in behind if i.opcode == "select" and i.operands[0] in seen}
        for i in (*behind, self.origin):
            if i in self.guards:
                self.check_guard(i)
            elif sum(o in seen for o in i.operands) != 1:
                raise UnfitError

    def check_guard(self, i: Instruction) -> None:
        """Check that ``i`` gives 0 for rows whose logits are all -inf, and else the weights (PyTorch's softmax)."""
        condition, view = self.row_value(i.operands[0], own(i))
        while condition.opcode == "compare" and condition.attributes["direction"] == "NE":
            if not is_constant(condition.operands[1], 0):
                raise UnfitError
            condition, view = peel(condition.operands[0], view)
        if condition.opcode != "reduce" or not is_constant(i.operands[1], 0):
            raise UnfitError
        if binary_body(condition.called[0]) != "and" or not is_constant(condition.operands[1], 1):
            raise UnfitError
        compared, at = self.bare(condition.operands[0], own(condition.operands[0]))
        if compared.opcode != "compare" or compared.attributes["direction"] != "EQ":
            raise UnfitError
        logits, at = self.bare(compared.operands[0], at)
        known, known_view = self.bare(self.logits, self.logits_view)
        if logits is not known or not _is_least(compared.operands[1]):
            raise UnfitError
        # Each dimension of the select is that of the logits; the reduced one is the keys'.
        to_label = dict(zip(labels_of(at), labels_of(known_view), strict=True))
        reduced = [to_label[d] for d in condition.attributes["dimensions"] if d in to_label]
        kept = [
            d
            for d in range(len(condition.operands[0].dims))
            if d not in condition.attributes["dimensions"]
        ]
        # Its own dimensions are the labels only if nothing turns the weights before it.
        if peel(i.operands[2], own(i)) != (self.division, own(self.division)):
            raise UnfitError
        if reduced != [self.keys]:
            raise UnfitError
        for d, place, size in zip(kept, view, condition.dims, strict=True):
            if size != 1 and to_label[d] != place:
                raise UnfitError

    # ------------------------------------------------------------------------------------------------- softmax
    def find_division(
        self, i: Instruction, view: View, behind: tuple[Instruction, ...]
    ) -> tuple[Instruction, View, tuple[Instruction, ...]]:
        """The division that makes the weights, which ``i`` is linear in, and what is ``behind`` it."""
        i, view = peel(i, view)
        self.looked_at += 1
        if self.looked_at > _MOST_LOOKED_AT:
            raise UnfitError
        if i.opcode in ("divide", "multiply") and self.is_softmax(i):
            return i, view, behind
        if i.opcode == "multiply":
            candidates = [o for o in i.operands if constant_value(o) is None]
        elif i.opcode == "divide":
            candidates = [i.operands[0]]
        elif i.opcode == "select" and is_constant(i.operands[2], 0):
            candidates = [i.operands[1]]
        elif i.opcode == "select" and is_constant(i.operands[1], 0):
            candidates = [i.operands[2]]
        else:
            candidates = []
        for operand in candidates:
            try:
                return self.find_division(operand, view, (*behind, i))
            except UnfitError:
                continue
        raise UnfitError

    def is_softmax(self, i: Instruction) -> bool:
        for exp, sums in ((0, 1), (1, 0))[: 2 if i.opcode == "multiply" else 1]:
            top, _ = peel(i.operands[exp], own(i))
            if top.opcode != "exponential":
                continue
            self.exp = top
            self.exp_operand, self.sum_operand = exp, sums
            return True
        return False

    def softmax(self) -> None:
        """Check the maximum, the difference and the sum; find the logits and which label is the keys'."""
        division = self.division
        if 1 in division.dims[-1:] or not any(size > 1 for size in division.dims):
            raise UnfitError
        exp, exp_view = peel(division.operands[self.exp_operand], own(division))
        self.exp_view = exp_view
        sums, sums_view = self.row_value(division.operands[self.sum_operand], own(division))
        if division.opcode == "multiply":
            if sums.opcode != "divide" or not is_constant(sums.operands[0], 1):
                raise UnfitError
            sums, sums_view = peel(sums.operands[1], sums_view)
        keys = self.check_reduction(sums, sums_view, "add", exp, exp_view)
        difference, view = peel(exp.operands[0], exp_view)
        if difference.opcode != "subtract":
            raise UnfitError
        self.logits, self.logits_view = peel(difference.operands[0], view)
        largest, largest_view = self.row_value(difference.operands[1], view)
        largest, largest_view = self.without_guards(largest, largest_view)
        if keys != self.check_reduction(
            largest, largest_view, "maximum", self.logits, self.logits_view
        ):
            raise UnfitError
        self.keys = keys
        self.total, self.total_view = sums, sums_view
        self.largest, self.largest_view = largest, largest_view

    @staticmethod
    def row_value(i: Instruction, view: View) -> tuple[Instruction, View]:
        """What is repeated along the keys."""
        i, view = peel(i, view)
        if i.opcode != "broadcast":
            raise UnfitError
        return peel(i.operands[0], repeated_view(i, view))

    @staticmethod
    def without_guards(i: Instruction, view: View) -> tuple[Instruction, View]:
        """The maximum behind what keeps it finite: rows whose maximum is not finite are NaN either way."""
        while True:
            if i.opcode == "maximum":
                plain = [o for o in i.operands if not _is_least(o)]
            elif i.opcode == "select" and is_constant(i.operands[2], 0):
                condition, value, _ = i.operands
                plain = [value] if condition.opcode == "is-finite" else []
                if plain and peel(condition.operands[0], own(condition)) != peel(value, own(value)):
                    raise UnfitError
            else:
                return i, view
            if len(plain) != 1:
                raise UnfitError
            i, view = peel(plain[0], view)

    @staticmethod
    def check_reduction(
        i: Instruction, view: View, opcode: str, of: Instruction, of_view: View
    ) -> int:
        """Check that ``i`` reduces ``of`` and is repeated in the place of what it reduced; gives the reduced label."""
        reduction = reduction_of(i)
        if reduction.opcode != opcode:
            raise UnfitError
        operand, view_of = peel(reduction.operand, own(reduction.operand))
        if operand is not of:
            raise UnfitError
        label = dict(zip(view_of, of_view, strict=True))
        if any(
            size != 1 and label[kept] != place
            for kept, place, size in zip(reduction.kept, view, i.dims, strict=True)
        ):
            raise UnfitError
        keys = label[reduction.dimension]
        if keys is None:
            raise UnfitError
        return keys

    # ---------------------------------------------------------------------------------------------- the products
    def find_scores(self) -> tuple[Instruction, View]:
        """The product that the logits are computed from."""
        elements = self.division.elements
        waiting = [(self.logits, self.logits_view)]
        seen: set[tuple[Instruction, tuple[int, ...]]] = set()
        while waiting:
            i, view = waiting.pop()
            i, view = peel(i, view)
            if (i, labels_of(view)) in seen or len(seen) > _MOST_LOOKED_AT:
                continue
            seen.add((i, labels_of(view)))
            if i.opcode == "dot" and i.elements == elements:
                return i, view
            if i.opcode == "reshape":
                apart = self.apart(i)
                if apart is not None:
                    waiting.append((apart, labels_of(view)))
            if i.is_elementwise:
                waiting += [(o, view) for o in reversed(i.operands) if o.elements == elements]
        raise UnfitError

    def apart(self, i: Instruction) -> Instruction | None:
        """What the reshape ``i`` gives, without dimensions of size 1, as something computed in these dimensions: they
        are apart already in what it is computed from. None if that cannot be, or would be a reshape of the same.
        """
        dims = squeezed(i.dims)
        # What has been made in these dimensions: the same is one instruction, whichever reshape asks for it.
        done = self.reshaped.setdefault(dims, {})
        for top in self.elementwise_part(i.operands[0]):
            if top not in done:
                done[top] = self.in_dims(top, dims, done)
        result = done[i.operands[0]]
        return None if result is None or result.opcode == "reshape" else result

    def in_dims(
        self,
        i: Instruction,
        dims: tuple[int, ...],
        done: dict[Instruction, Instruction | None],
    ) -> Instruction | None:
        """``i`` with the dimensions ``dims``, made of operands that are ``done``; None if a product or a broadcast in
        it joins some of these dimensions.
        """
        if i.opcode == "dot":
            split = split_result(i, dims)
            if split is not None:
                self.split_from[split] = i
            return split
        if i.opcode == "broadcast":
            found = reshaped_broadcast(i, dims)
            if found is None:
                return None
            return broadcast(reshape(i.operands[0], found[0]), dims, found[1])
        if not i.is_elementwise:
            return reshape(i, dims)
        operands = []
        for o in i.operands:
            made = done.get(o) if o.dims else o
            if made is None:
                return None
            operands.append(made)
        return i.replace(shape=Shape(i.dtype, dims), operands=operands)

    def bare(self, i: Instruction, view: View) -> tuple[Instruction, View]:
        """``i`` without roundings and orders of dimensions, and with dimensions apart that are merged."""
        i, view = peel(i, view)
        apart = self.apart(i) if i.opcode == "reshape" else None
        return (i, view) if apart is None else peel(apart, labels_of(view))

    def elementwise_part(self, i: Instruction) -> list[Instruction]:
        """``i`` and what it is computed from element by element, operands first."""
        order: dict[Instruction, None] = {}
        stack = [i]
        while stack:
            top = stack[-1]
            missing = [o for o in top.operands if top.is_elementwise and o.dims and o not in order]
            if missing and len(stack) < _MOST_LOOKED_AT:
                stack += missing
                continue
            order[stack.pop()] = None
        return list(order)

    def read_scores(self) -> None:
        """Which labels are batch dimensions, queries and keys; the order of all in the fusion."""
        dot = self.first
        if dot.dtype not in FLOATS or any(o.dtype not in FLOATS for o in dot.operands):
            raise UnfitError
        queries, keys, self.batch = self.sides(dot, self.first_view)
        (self.queries_array, self.queries_view), (self.keys_array, self.keys_view) = queries, keys
        free = [label for label in self.queries_view if label not in (*self.batch, DEPTH)]
        # Free dimensions are in the order in which the operand has them.
        self.queries = tuple(label for label in free if label is not None)
        self.order = (*self.batch, *self.queries, self.keys)
        self.dims = tuple(self.division.dims[label] for label in self.order)

    def sides(
        self, dot: Instruction, view: View
    ) -> tuple[tuple[Instruction, View], tuple[Instruction, View], tuple[int, ...]]:
        """The operands of a product that is scores, that of the queries and that of the keys, with their labels, and
        the labels of the batch.
        """
        numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
        rank = len(numbers.lhs_batch)
        free = len(dot.operands[0].dims) - rank - len(numbers.lhs_contracting)
        batch, left, right = (
            labels_of(v) for v in (view[:rank], view[rank : rank + free], view[rank + free :])
        )
        first = self.operand(
            dot.operands[0], numbers.lhs_batch, view[:rank], numbers.lhs_contracting, left
        )
        second = self.operand(
            dot.operands[1], numbers.rhs_batch, view[:rank], numbers.rhs_contracting, right
        )
        if right == (self.keys,):
            return first, second, batch
        if left == (self.keys,):
            return second, first, batch
        raise UnfitError

    def operand(
        self,
        i: Instruction,
        batch: tuple[int, ...],
        batch_view: View,
        contracting: tuple[int, ...],
        free: tuple[int, ...],
    ) -> tuple[Instruction, View]:
        """What is read for an operand of a product, without transposes and dimensions of size 1, with its labels."""
        view: list[int | None] = [None] * len(i.dims)
        rest = iter(free)
        for d, size in enumerate(i.dims):
            if size == 1:
                continue
            if d in batch:
                view[d] = batch_view[batch.index(d)]
            elif d in contracting:
                view[d] = DEPTH
            else:
                view[d] = next(rest)
        if view.count(DEPTH) != 1:
            raise UnfitError
        source, labels = peel(i, tuple(view), roundings=False)
        return self.dense(source), labels_of(labels)

    def dense(self, i: Instruction) -> Instruction:
        """``i`` without dimensions of size 1; the same instruction for all reshapes of an array to these dimensions."""
        dims = squeezed(i.dims)
        while i.opcode == "reshape":
            i = i.operands[0]
        return self.without_ones.setdefault((i, dims), reshape(i, dims))

    def read_values(self) -> None:
        dot, side = self.last, self.side
        values, view = dot.operands[1 - side], self.weights_view
        numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
        if labels_of(tuple(view[d] for d in numbers.sides[side][1])) != (self.keys,):
            raise UnfitError
        labels, self.result_view = self.labels_of_product(dot, side, view)
        if labels.count(self.keys) != 1:
            raise UnfitError
        source, found = peel(values, labels, roundings=False)
        if labels_of(found)[-1] != DEPTH:  # vectors run along it
            source, found = values, labels
            if labels_of(found)[-1] != DEPTH:
                order = [
                    *(d for d, label in enumerate(labels) if label != DEPTH),
                    labels.index(DEPTH),
                ]
                source = transpose(values, order)
                found = tuple(labels[d] for d in order)
        self.values_array = self.dense(source)
        self.values_view = labels_of(found)

    def labels_of_product(self, dot: Instruction, side: int, view: View) -> tuple[View, View]:
        """The labels of the other operand of a product, and of its result; ``view`` has those of operand ``side``."""
        numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
        sides = numbers.sides
        (own_batch, own_contracting), (batch, contracting) = sides[side], sides[1 - side]
        batch_view = tuple(view[d] for d in own_batch)
        other = dot.operands[1 - side]
        if sorted(labels_of(batch_view)) != sorted(self.batch) or other.dtype not in FLOATS:
            raise UnfitError
        known = dict(zip((*batch, *contracting), (*own_batch, *own_contracting), strict=True))
        labels = tuple(
            None if size == 1 else view[known[d]] if d in known else DEPTH
            for d, size in enumerate(other.dims)
        )
        if labels.count(DEPTH) != 1:
            raise UnfitError
        ours = [label for d, label in enumerate(view) if d not in (*own_batch, *own_contracting)]
        theirs = [label for d, label in enumerate(labels) if d not in known]
        return labels, (*batch_view, *((*theirs, *ours) if side else (*ours, *theirs)))

    def check_sizes(self, target: Target) -> None:
        depth = self.keys_array.dims[self.keys_view.index(DEPTH)]
        columns = self.values_array.dims[-1]
        if max(depth, columns) > MOST_COLUMNS:
            raise UnfitError
        types = [self.first.dtype, self.division.dtype, self.exp.dtype, self.last.dtype]
        if len({t is dtypes.F64 for t in types}) != 1:
            raise UnfitError
        self.wide = dtypes.F64 if types[0] is dtypes.F64 else dtypes.F32
        least = fewest_lanes(target, self.wide)
        if columns < least or self.dims[-1] < least:
            raise UnfitError
        if math.prod(self.dims) * (depth + columns) < target.costs.attention.fewest:
            raise UnfitError

    # ------------------------------------------------------------------------------------------------ the fusion
    def fused(
        self, fusions: dict[Hashable, Computation], rows_too: bool = False
    ) -> tuple[Instruction, Instruction, Forward]:
        """The last instruction of the pattern, and the instruction that gives its value.

        ``rows_too``: the fusion also gives the largest logit of each row and the sum of its exponentials, and a result
        that is not rounded.
        """
        body = Body(self)
        exp, largest = body.exponentials(None)
        total = body.reduced(exp, "add", 0.0)
        division = body.elementwise("divide", exp, body.repeated(total), like=self.division)
        division = body.converted(division, self.division.dtype)
        body.fix(self.division, own(self.division), division)
        weights = body.value(self.last.operands[self.side], self.weights_view)
        result = body.product(weights, self.wide if rows_too else self.last.dtype)
        if self.guards:
            result = body.guarded(result, largest)
        last, labels, dtype = following(
            self.origin, self.last, self.result_view, self.users, self.results
        )
        if not rows_too:
            result = body.converted(result, dtype)
        written = columns_last(labels)
        result = body.in_order(result, (*self.batch, *self.queries, DEPTH), written)
        roots = [result, largest, total] if rows_too else [result]
        fusion = self.fusion(body, roots, "attention", fusions)
        if not rows_too:
            value = reshape(transposed(fusion, written, labels), last.dims)
            return last, value, Forward(fusion, written, largest, total)
        values = [get_tuple_element(fusion, n) for n in range(3)]
        value = transposed(convert(values[0], dtype), written, labels)
        return last, reshape(value, last.dims), Forward(values[0], written, values[1], values[2])

    def fusion(
        self,
        body: Body,
        roots: list[Instruction],
        kind: str,
        fusions: dict[Hashable, Computation],
    ) -> Instruction:
        """The instructions of ``body`` that ``roots`` need, as one."""
        inside = topological_order(roots, body.made)
        arrays = {o for i in inside for o in i.operands if o not in body.made}
        if len(arrays) > 6 + _MOST_ARRAYS or len(inside) > MOST_MEMBERS:
            raise UnfitError
        if body.done[self.first, labels_of(self.first_view)] not in inside:
            raise UnfitError
        if any(peel(i, own(i))[0] in self.of_scores for i in arrays):
            raise UnfitError
        if sum(i.opcode == "exponential" for i in inside) != 1:
            raise UnfitError
        fusion = make_fusion(inside, roots, kind, Same(), fusions)
        fusion.name = f"{kind.replace('-', '_')}_fusion"
        fusion.called[0].name = f"fused_{kind.replace('-', '_')}"
        fusion.metadata = self.last.metadata
        return fusion


def _is_least(i: Instruction) -> bool:
    value = constant_value(i)
    return value is not None and i.dtype.is_float and float(value) == -math.inf
