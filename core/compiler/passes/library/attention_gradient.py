"""The gradients of attention: an "attention-gradient" fusion beside the "attention" fusion of the same program.

Differentiated programs read the weights and the scores' exponentials again, for three more products:

    slopes = dot(gradient, values); changes = what the derivative of softmax, masks and factors makes of slopes
    gradients: dot(changes, keys), dot(changes, queries), dot(weights, gradient)

The fusion's computation has all of it, from queries, keys, values and the result's gradient, so that no array of scores
is between the two kernels. It takes the largest logit of each row and the sum of its exponentials from the other
fusion. The one reduction of the derivative, the sum along the keys of slopes times weights, is the sum along the
columns of the gradient times the result, which is computed before: sums of products of both are equal term by term but
for their order. It is found as a product of factors (:class:`_Factors`), which have to be those of the weights.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from ...codegen.kernels.attention_gradient import MOST_COLUMNS, lanes_for
from ...ir import dtypes
from ...ir.hlo import (
    Computation,
    DotDimensionNumbers,
    Instruction,
    Shape,
    broadcast,
    constant,
    get_tuple_element,
)
from ...ir.moves import sum_over
from ...ir.patterns import constant_value, convert, is_constant, reshape
from .attention_body import Body
from .split_products import split_operand
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

if TYPE_CHECKING:
    from .attention import Forward, Match


@dataclass(slots=True)
class _Exit:
    """A product of something computed from the scores: what that is, and the labels of all dimensions."""

    origin: Instruction
    product: Instruction
    operand: Instruction
    view: View
    other: Instruction  # without transposes and dimensions of size 1
    other_view: View
    contracted: tuple[int, ...]
    result_view: View


@dataclass(slots=True)
class _Factors:
    """A product, element by element, and how often it has each factor: exponentials; slopes; values of rows and
    scalars, with whether they divide; and others.
    """

    exponentials: int = 0
    slopes: Counter[tuple[Instruction, View]] = field(default_factory=Counter)
    rows: Counter[tuple[Instruction, View, bool]] = field(default_factory=Counter)
    others: Counter[tuple[str, Instruction, View]] = field(default_factory=Counter)


# A factor with its view, and whether it divides.
_Factor = tuple[Instruction, View, bool]
_MOST_POWER: Final = 8  # how often a value of rows may be a factor


def result_product(
    dot: Instruction, users: dict[Instruction, list[Instruction]]
) -> tuple[Instruction, int] | None:
    """The product of weights and values that a program lacks which computes gradients alone (where the result was
    computed before, and weights are computed again), and which operand the weights are. None if there is no such.

    ``dot`` may be the gradient of the values: weights times the result's gradient, which also meets the values.
    """
    numbers: DotDimensionNumbers = dot.attributes["dimension_numbers"]
    sides = numbers.sides
    for side in (0, 1):
        (batch, queries), (gradient_batch, gradient_queries) = sides[side], sides[1 - side]
        weights, gradient = dot.operands[side], dot.operands[1 - side]
        keys = [d for d in range(len(weights.dims)) if d not in (*batch, *queries)]
        keys = [d for d in keys if weights.dims[d] != 1]
        columns = [
            d
            for d in range(len(gradient.dims))
            if d not in (*gradient_batch, *gradient_queries) and gradient.dims[d] != 1
        ]
        if len(keys) != 1 or len(columns) != 1:
            continue
        for other in users[gradient]:
            if other is dot or other.opcode != "dot" or other.elements != weights.elements:
                continue
            found = _of_values(other, gradient, columns[0], gradient_batch)
            if found is None:
                continue
            values, values_batch, row = found
            contracted = DotDimensionNumbers((keys[0],), (row,), batch, values_batch)
            free = [d for d in range(len(weights.dims)) if d not in (*batch, keys[0])]
            own_free = [d for d in range(len(values.dims)) if d not in (*values_batch, row)]
            dims = (
                *(weights.dims[d] for d in (*batch, *free)),
                *(values.dims[d] for d in own_free),
            )
            attributes = {**dot.attributes, "dimension_numbers": contracted}
            shape = Shape(dot.dtype, dims)
            return Instruction("dot", shape, (weights, values), attributes), 0
    return None


def _of_values(
    slopes: Instruction, gradient: Instruction, column: int, batch: tuple[int, ...]
) -> tuple[Instruction, tuple[int, ...], int] | None:
    """The values in ``slopes``, a product of theirs and of ``gradient`` along its dimension ``column``: the array, its
    batch dimensions in the order of ``batch``, those of the gradient, and its dimension of keys.
    """
    numbers: DotDimensionNumbers = slopes.attributes["dimension_numbers"]
    if slopes.operands[0] is slopes.operands[1]:
        return None
    side = slopes.operands.index(gradient)
    sides = numbers.sides
    (own_batch, contracting), (values_batch, values_contracting) = sides[side], sides[1 - side]
    values = slopes.operands[1 - side]
    rows = [
        d
        for d in range(len(values.dims))
        if d not in (*values_batch, *values_contracting) and values.dims[d] != 1
    ]
    if column not in contracting or set(own_batch) != set(batch) or len(rows) != 1:
        return None
    return values, tuple(values_batch[own_batch.index(d)] for d in batch), rows[0]


def fused_gradients(
    match: Match, fusions: dict[Hashable, Computation]
) -> dict[Instruction, Instruction]:
    """The fusions of ``match`` and of the gradients that its exits are. Raises UnfitError."""
    return _Gradient(match).fused(fusions)


def _without_keys(forward: Forward) -> Forward:
    """``forward`` with a largest logit of 0 and a sum of 1 in rows whose logits are all -inf: the weights that are
    computed from these are 0, which the guards of the program say they are.
    """
    largest, total = forward.largest, forward.total

    def filled(value: float) -> Instruction:
        return broadcast(constant(value, largest.dtype), largest.dims)

    attributes = {"direction": "EQ", "comparison_type": "FLOAT"}
    shape = Shape(dtypes.PRED, largest.dims)
    empty = Instruction("compare", shape, (largest, filled(-math.inf)), attributes)
    return replace(
        forward,
        largest=Instruction("select", largest.shape, (empty, filled(0.0), largest)),
        total=Instruction("select", total.shape, (empty, filled(1.0), total)),
    )


class _Gradient:
    def __init__(self, match: Match) -> None:
        self.match = match
        if not match.queries or len(match.exits) != 3:
            raise UnfitError
        by_kind: dict[str, _Exit] = {}
        found = [self.exit(dot) for dot in match.exits]
        of_queries = [e for e in found if e.contracted == (match.keys,)]
        rest = [e for e in found if set(e.contracted) == set(match.queries)]
        if len(of_queries) != 1 or len(rest) != 2:
            raise UnfitError
        by_kind["queries"] = of_queries[0]
        for e in rest:
            is_keys = (e.other, e.other_view) == (match.queries_array, match.queries_view)
            by_kind["keys" if is_keys else "values"] = e
        if len(by_kind) != 3:
            raise UnfitError
        self.of_queries, self.of_keys, self.of_values = (
            by_kind[kind] for kind in ("queries", "keys", "values")
        )
        if (self.of_queries.other, self.of_queries.other_view) != (
            match.keys_array,
            match.keys_view,
        ):
            raise UnfitError
        self.gradient, self.gradient_view = self.of_values.other, self.of_values.other_view
        changes = peel(self.of_queries.operand, self.of_queries.view)
        if changes != peel(self.of_keys.operand, self.of_keys.view):
            raise UnfitError
        weights = match.last.operands[match.side]
        if peel(self.of_values.operand, self.of_values.view) != peel(weights, match.weights_view):
            raise UnfitError
        depth = match.keys_array.dims[match.keys_view.index(DEPTH)]
        columns = match.values_array.dims[-1]
        if max(depth, columns) > MOST_COLUMNS:
            raise UnfitError
        if lanes_for(match.target, match.wide, depth, columns, match.dims[-1]) == 1:
            raise UnfitError

    def exit(self, dot: Instruction) -> _Exit:
        m = self.match
        sides = [s for s in (0, 1) if dot.operands[s] in m.of_scores]
        if len(sides) != 1:
            raise UnfitError
        (side,) = sides
        product = split_operand(dot, side) or dot
        given = product.operands[side]
        view = self.view_of(given, own(given))
        if product.dtype not in FLOATS or given.dtype not in FLOATS:
            raise UnfitError
        labels, result_view = m.labels_of_product(product, side, view)
        source, other_view = peel(product.operands[1 - side], labels, roundings=False)
        numbers: DotDimensionNumbers = product.attributes["dimension_numbers"]
        return _Exit(
            dot,
            product,
            given,
            view,
            m.dense(source),
            labels_of(other_view),
            labels_of(tuple(view[d] for d in numbers.sides[side][1])),
            result_view,
        )

    def view_of(self, i: Instruction, view: View) -> View:
        """The labels of ``i``, which is computed from the weights or the exponentials element by element."""
        m = self.match
        known = {m.division: own(m.division), m.exp: m.exp_view}
        start, elements = view, m.division.elements
        waiting, seen = [(i, view)], set[tuple[Instruction, View]]()
        found: set[View] = set()
        while waiting:
            top, at = peel(*waiting.pop())
            if top in known:
                label = dict(zip(at, known[top], strict=True))
                found.add(tuple(None if d is None else label[d] for d in start))
                continue
            if (top, at) in seen or len(seen) > 64:
                continue
            seen.add((top, at))
            if top.is_elementwise:
                waiting += [(o, at) for o in top.operands if o.elements == elements]
        if len(found) != 1:  # none, or more than one, as of d + d.T
            raise UnfitError
        return found.pop()

    # ------------------------------------------------------------------------------------------------- the fusions
    def fused(self, fusions: dict[Hashable, Computation]) -> dict[Instruction, Instruction]:
        m = self.match
        last, value, forward = m.fused(fusions, rows_too=True)
        if m.guards:
            forward = _without_keys(forward)
        body = _GradientBody(m, self, forward)
        exp, _ = body.exponentials(forward.largest)
        body.fix(m.exp, m.exp_view, body.converted(exp, m.exp.dtype))
        weights = body.value(m.last.operands[m.side], m.weights_view)
        changes = body.value(self.of_queries.operand, self.of_queries.view)
        roots: list[Instruction] = []
        lasts: list[tuple[Instruction, tuple[int, ...], dtypes.DType]] = []
        for e, left, array, view in (
            (self.of_queries, changes, m.keys_array, m.keys_view),
            (self.of_keys, changes, m.queries_array, m.queries_view),
            (self.of_values, weights, self.gradient, self.gradient_view),
        ):
            is_queries = e is self.of_queries
            end, labels, dtype = following(
                e.origin, e.product, e.result_view, m.users, m.results, roundings=not is_queries
            )
            # The gradient of the queries is summed up where it lies.
            made = body.gradient(left, array, view, is_queries, m.wide)
            present = (*m.batch, *(m.queries if is_queries else (m.keys,)), DEPTH)
            if not is_queries:
                made = body.converted(made, dtype)
            roots.append(body.in_order(made, present, columns_last(labels)))
            lasts.append((end, labels, dtype))
        if body.slopes is None:
            raise UnfitError
        fusion = m.fusion(body, roots, "attention-gradient", fusions)
        result = {last: value}
        for n, (end, labels, dtype) in enumerate(lasts):
            made = convert(get_tuple_element(fusion, n), dtype)
            result[end] = reshape(transposed(made, columns_last(labels), labels), end.dims)
        return result

    def dots(self, forward: Forward) -> Instruction:
        """The sum along the columns of the gradient times the result, for each row in the fusion's order."""
        m = self.match
        result, labels = forward.result, forward.labels
        result = transposed(result, labels, labels_of(self.gradient_view))
        wide = convert(self.gradient, m.wide)
        product = Instruction("multiply", wide.shape, (wide, result))
        column = self.gradient_view.index(DEPTH)
        sums = sum_over(product, (column,), m.last.metadata)
        left = tuple(label for label in labels_of(self.gradient_view) if label != DEPTH)
        return transposed(sums, left, (*m.batch, *m.queries))

    def factors(self, i: Instruction, view: View) -> _Factors:
        """The factors of ``i``. Each instruction is looked at once, however many paths lead to it (m * m, ...)."""
        start = (*self.match.bare(i, view), False)
        parts: dict[_Factor, list[_Factor]] = {}
        order: dict[_Factor, None] = {}  # factors first
        stack = [start]
        while stack:
            top = stack[-1]
            if top not in parts:
                parts[top] = self.parts(*top)
            missing = [p for p in parts[top] if p not in parts]
            if missing:
                stack += missing
            else:
                order[stack.pop()] = None
        found, counts = _Factors(), Counter({start: 1})
        for key in reversed(order):
            for part in parts[key]:
                counts[part] += counts[key]
            self.count(found, *key, is_leaf=not parts[key], count=counts[key])
        return found

    def is_of_rows(self, i: Instruction) -> bool:
        return constant_value(i) is not None or (
            i.opcode == "broadcast"
            and peel(i.operands[0], own(i.operands[0]))[0] in self.match.of_scores
        )

    def parts(self, i: Instruction, view: View, divides: bool) -> list[_Factor]:
        """The factors that ``i``, which divides or multiplies, is made of; none if it is one itself."""
        if self.is_of_rows(i):
            return []
        if i.opcode == "multiply":
            return [(*self.match.bare(o, view), divides) for o in i.operands]
        if i.opcode == "divide" and not divides:
            return [(*self.match.bare(o, view), n == 1) for n, o in enumerate(i.operands)]
        if i.opcode == "select" and not divides:
            kept = _selected_or_zero(i)
            return [] if kept is None else [(*self.match.bare(i.operands[kept], view), False)]
        return []

    def count(
        self,
        found: _Factors,
        i: Instruction,
        view: View,
        divides: bool,
        is_leaf: bool,
        count: int,
    ) -> None:
        """Add what ``i`` itself is to ``found``, ``count`` times."""
        m = self.match
        if not is_leaf:
            if i.opcode == "select":
                found.others[f"select {_selected_or_zero(i)}", *peel(i.operands[0], view)] += count
        elif i is m.exp and labels_of(view) == labels_of(m.exp_view) and not divides:
            found.exponentials += count
        elif i.opcode == "dot" and not divides:
            found.slopes[i, view] += count
        elif self.is_of_rows(i):
            found.rows[i, view, divides] += count
        else:
            found.others["divide" if divides else "multiply", i, view] += count


def _selected_or_zero(i: Instruction) -> int | None:
    """Which operand the selection ``i`` gives where it does not give 0; None if it may give two values."""
    return next((kept for kept, zero in ((1, 2), (2, 1)) if is_constant(i.operands[zero], 0)), None)


class _GradientBody(Body):
    """The instructions of the gradients' fusion, which reads values of rows."""

    def __init__(self, match: Match, gradient: _Gradient, forward: Forward) -> None:
        super().__init__(match)
        self.of, self.forward = gradient, forward
        self.rows: dict[tuple[Instruction, tuple[int, ...]], Instruction] = {
            (match.total, labels_of(match.total_view)): forward.total,
            (match.largest, labels_of(match.largest_view)): forward.largest,
        }
        self.row_dims = self.dims[:-1]
        self.slopes: Instruction | None = None
        self.sums: Instruction | None = None

    def gradient(
        self,
        left: Instruction,
        array: Instruction,
        view: View,
        of_queries: bool,
        dtype: dtypes.DType,
    ) -> Instruction:
        """The product of weights or changes with ``array``, along the keys or along all queries."""
        m = self.match
        batch = len(m.batch)
        along = (m.keys,) if of_queries else m.queries
        present = (*m.batch, *m.queries, m.keys)
        numbers = DotDimensionNumbers(
            tuple(present.index(label) for label in along),
            tuple(view.index(label) for label in along),
            tuple(range(batch)),
            tuple(view.index(label) for label in m.batch),
        )
        kept = m.queries if of_queries else (m.keys,)
        columns = array.dims[view.index(DEPTH)]
        dims = (
            *self.dims[:batch],
            *(self.dims[present.index(label)] for label in kept),
            columns,
        )
        attributes = {"dimension_numbers": numbers, "precision": ("DEFAULT", "DEFAULT")}
        return self.member(Instruction("dot", Shape(dtype, dims), (left, array), attributes))

    def array(self, i: Instruction, view: View) -> Instruction:
        m = self.match
        if i.opcode == "dot" and i.elements == m.division.elements:
            return self.slope(i, view)
        if i.opcode == "broadcast" and self.is_row(i.operands[0]):
            return self.repeated(self.row(i.operands[0], repeated_view(i, view)))
        return super().array(i, view)

    def is_row(self, i: Instruction) -> bool:
        """Whether ``i`` is computed from reductions of what is in the fusion."""
        return peel(i, own(i))[0] in self.match.of_scores

    def slope(self, dot: Instruction, view: View) -> Instruction:
        """The product of the result's gradient and the values."""
        m = self.match
        if self.slopes is not None:
            raise UnfitError
        queries, keys, batch = m.sides(dot, view)
        if sorted(batch) != sorted(m.batch) or keys != (m.values_array, m.values_view):
            raise UnfitError
        if queries != (self.of.gradient, self.of.gradient_view):
            raise UnfitError
        if tuple(x for x in queries[1] if x in m.queries) != m.queries:
            raise UnfitError  # the order of the queries' dimensions
        numbers = DotDimensionNumbers(
            (queries[1].index(DEPTH),),
            (keys[1].index(DEPTH),),
            tuple(queries[1].index(label) for label in m.batch),
            tuple(keys[1].index(label) for label in m.batch),
        )
        attributes = {**dot.attributes, "dimension_numbers": numbers}
        made = dot.derive(
            "dot", (queries[0], keys[0]), attributes, shape=Shape(dot.dtype, self.dims)
        )
        self.slopes = self.member(made)
        return self.slopes

    def row(self, i: Instruction, view: View) -> Instruction:
        """A value of each row, in the order of the fusion."""
        key = i, labels_of(view)
        if key in self.rows:
            return self.rows[key]
        inner, at = peel(i, view, roundings=False)
        if inner is not i:
            made = self.row(inner, at)
        elif constant_value(i) is not None:
            scalar = constant(constant_value(i), i.dtype)
            self.member(scalar)
            made = self.member(broadcast(scalar, self.row_dims))
        elif not self.is_row(i):
            raise UnfitError
        elif i.opcode == "reduce":
            made = self.sum(i, view)
        elif i.is_elementwise:
            operands = [self.row(o, view if o.dims else ()) for o in i.operands]
            made = self.member(i.replace(shape=Shape(i.dtype, self.row_dims), operands=operands))
        else:
            raise UnfitError
        self.rows[key] = made
        return made

    def sum(self, i: Instruction, view: View) -> Instruction:
        """The sum along the keys of slopes times weights, but for factors of rows."""
        m, of = self.match, self.of
        reduction = reduction_of(i)
        operand = reduction.operand
        at = of.view_of(operand, own(operand))
        if reduction.opcode != "add" or at[reduction.dimension] != m.keys:
            raise UnfitError
        if any(
            size != 1 and at[kept] != place
            for kept, place, size in zip(reduction.kept, view, i.dims, strict=True)
        ):
            raise UnfitError
        term = of.factors(operand, at)
        weights = of.factors(m.last.operands[m.side], m.weights_view)
        if term.exponentials != 1 or weights.exponentials != 1 or weights.slopes:
            raise UnfitError
        if term.others != weights.others or term.slopes.total() != 1:
            raise UnfitError
        ((slopes, slopes_view),) = term.slopes
        if slopes in m.of_scores:
            raise UnfitError
        self.value(slopes, slopes_view)
        if self.sums is None:
            self.sums = of.dots(self.forward)
        made = self.converted(self.sums, i.dtype)
        rows = term.rows.copy()
        rows.subtract(weights.rows)  # what both have is in the sums already
        for (factor, factor_view, divides), count in rows.items():
            if abs(count) > _MOST_POWER:
                raise UnfitError
            for _ in range(abs(count)):
                made = self.scaled(made, factor, factor_view, divides != (count < 0))
        return made

    def scaled(
        self, made: Instruction, factor: Instruction, view: View, divides: bool
    ) -> Instruction:
        """``made`` times a factor of rows, or divided by it."""
        value = constant_value(factor)
        if value is not None:
            scalar = constant(value, made.dtype)
            self.member(scalar)
            row = self.member(broadcast(scalar, self.row_dims))
        else:
            source = factor.operands[0]
            inner = repeated_view(factor, view)
            if self.match.keys in inner or not self.is_row(source):
                raise UnfitError
            row = self.converted(self.row(source, inner), made.dtype)
        return self.elementwise("divide" if divides else "multiply", made, row, like=made)
