"""Dimensions of few elements that are taken out of arrays."""

from __future__ import annotations

import math
import random
from collections.abc import Callable

import numpy as np
import pytest
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import F32, S32
from tripont.core.compiler.ir.hlo import Computation, DotDimensionNumbers, Instruction, Module
from tripont.core.compiler.passes.component_dimensions import MOST
from tripont.core.compiler.passes.components import split_components
from tripont.core.compiler.reference.evaluate import evaluate

from tests.core.compiler.builders import (
    compare,
    module,
    number,
    op,
    opcodes,
    parameter,
    priced,
    reduce,
)

from .test_passes import check

# Small programs are taken apart too, whatever is moved.
EAGER = priced(components={"least": 8, "least_component": 2, "moved": 1e9})
POINTS = 6


def spread(x: Instruction, dims: tuple[int, ...], *dimensions: int) -> Instruction:
    return hlo.broadcast(x, dims, dimensions)


def cut(x: Instruction, dimension: int, start: int, stop: int, stride: int = 1) -> Instruction:
    dims = list(x.dims)
    dims[dimension] = -(-(stop - start) // stride)
    rank = len(dims)
    return op(
        "slice", x, dims=dims,
        starts=tuple(start if d == dimension else 0 for d in range(rank)),
        limits=tuple(stop if d == dimension else n for d, n in enumerate(x.dims)),
        strides=tuple(stride if d == dimension else 1 for d in range(rank)),
    )  # fmt: skip


def reshape(x: Instruction, *dims: int) -> Instruction:
    return op("reshape", x, dims=dims)


def product(
    x: Instruction, y: Instruction, *dims: int, contracting: tuple[int, int], batch: int = 0
) -> Instruction:
    numbers = DotDimensionNumbers(
        (contracting[0],), (contracting[1],), tuple(range(batch)), tuple(range(batch))
    )
    return op("dot", x, y, dims=dims, dimension_numbers=numbers, precision=())


def stack(*parts: Instruction) -> Instruction:
    pieces = [reshape(p, *p.dims, 1) for p in parts]
    dims = (*parts[0].dims, len(parts))
    return op("concatenate", *pieces, dims=dims, dimension=len(dims) - 1)


def component(x: Instruction, n: int) -> Instruction:
    return reshape(cut(x, len(x.dims) - 1, n, n + 1), *x.dims[:-1])


def longest(after: Module) -> int:
    """The most dimensions, not counting ones, that an array has that is not moved only."""
    moving = ("parameter", "concatenate", "reshape", "slice", "tuple", "constant")
    return max(
        sum(d != 1 for d in i.dims) for i in after.entry.instructions if i.opcode not in moving
    )


def differences(x: Instruction, y: Instruction) -> Instruction:
    n, m, k = x.dims[0], y.dims[0], x.dims[1]
    return op("subtract", spread(x, (n, m, k), 0, 2), spread(y, (n, m, k), 1, 2))


def pairs() -> Module:
    """Forces between all pairs: differences, distances, and sums over the first and the second dimension."""
    x = parameter(0, POINTS, 3)
    d = differences(x, x)
    r = op("add", reduce(op("multiply", d, d), [2]), number(0.5, POINTS, POINTS))
    near = spread(compare(r, number(2.0, POINTS, POINTS), "LT"), d.dims, 0, 1)
    far = number(0, *d.dims)
    f = op("select", near, op("divide", d, spread(r, d.dims, 0, 1)), far, dtype=F32)
    return module([x], reduce(f, [1]), reduce(f, [0]), reduce(f, [0, 1]), reduce(f, [1, 2]))


def quaternions() -> Module:
    """A product of stacked components, normalised."""
    p, q = parameter(0, 8, 4), parameter(1, 8, 4)
    a, b, c, d = (component(p, n) for n in range(4))
    e, f, g, h = (component(q, n) for n in range(4))
    product = stack(
        op("subtract", op("multiply", a, e), op("multiply", b, f)),
        op("add", op("multiply", b, e), op("multiply", c, h)),
        op("subtract", op("multiply", c, e), op("multiply", d, g)),
        op("add", op("multiply", d, e), op("multiply", a, h)),
    )
    norm = op("sqrt", reduce(op("multiply", product, product), [1]))
    return module([p, q], op("divide", product, spread(norm, (8, 4), 0)))


def matrices() -> Module:
    """[8, 3, 3] by [8, 3], and by its own transpose."""
    a, x = parameter(0, 8, 3, 3), parameter(1, 8, 3)
    y = product(a, x, 8, 3, contracting=(2, 1), batch=1)
    turned = op("transpose", a, dimensions=(0, 2, 1))
    square = product(turned, a, 8, 3, 3, contracting=(2, 1), batch=1)
    scaled = op("multiply", square, spread(reduce(square, [2]), (8, 3, 3), 0, 1))
    return module([a, x], y, op("add", scaled, spread(y, (8, 3, 3), 0, 2)))


def outer_product() -> Module:
    """[6, 3] by [5, 3], summed over components: [6, 5]."""
    x, y = parameter(0, POINTS, 3), parameter(1, 5, 3)
    squares = [reduce(op("multiply", v, v), [1]) for v in (x, y)]
    dims = (POINTS, 5)
    both = product(x, y, *dims, contracting=(1, 1))
    total = op("add", spread(squares[0], dims, 0), spread(squares[1], dims, 1))
    return module([x, y], op("subtract", total, op("add", both, both)))


def paddings() -> Module:
    """Gradients of components: pads, also with steps between, and reversals."""
    x = parameter(0, 8, 2)
    wide = op(
        "pad", x, hlo.constant(2.0, F32), dims=(8, 4), low=(0, -1), high=(0, 1), interior=(0, 2)
    )
    total = op("add", wide, op("reverse", wide, dimensions=(1,)))
    long = op(
        "pad", total, hlo.constant(1.0, F32), dims=(11, 4), low=(1, 0), high=(2, 0), interior=(0, 0)
    )
    both = op("reverse", long, dimensions=(0, 1))
    return module([x], op("multiply", both, spread(reduce(long, [1], "maximum", -9), (11, 4), 0)))


def numbered() -> Module:
    """Positions along components and along the other dimension, a literal, and a scalar of three elements."""
    x, box = parameter(0, 8, 3), parameter(1, 3)
    weights = hlo.constant(np.arange(24, dtype=np.float32).reshape(8, 3))
    places = [op("iota", dims=(8, 3), dtype=F32, dimension=d) for d in (0, 1)]
    y = op("multiply", op("add", x, weights), spread(box, (8, 3), 1))
    y = op("add", op("add", y, places[0]), places[1])
    return module([x, box], y, reduce(y, [1], "multiply", 1.5))


def transposed() -> Module:
    """Components first, in the middle and last."""
    x = parameter(0, 3, 5, 4)
    y = op("transpose", x, dims=(5, 4, 3), dimensions=(1, 2, 0))
    y = op("divide", y, spread(reduce(op("exponential", y), [2]), y.dims, 0, 1))
    z = op("transpose", y, dims=(4, 3, 5), dimensions=(1, 2, 0))
    total = op("divide", z, spread(reduce(op("exponential", z), [1]), z.dims, 0, 2))
    return module([x], total, reshape(op("negate", total), 4, 15))


PROGRAMS = [pairs, quaternions, matrices, outer_product, paddings, numbered, transposed]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda p: p.__name__)
def test_what_programs_compute_stays(program: Callable[[], Module]) -> None:
    before = program()
    assert check(split_components, before, 1e-5, EAGER) is not before


def test_no_array_of_components_is_left() -> None:
    after = check(split_components, pairs(), 1e-5, EAGER)
    assert longest(after) == 2
    after = check(split_components, quaternions(), 1e-5, EAGER)
    assert longest(after) == 1
    assert opcodes(after.entry).count("concatenate") == 1  # the result
    assert "dot" not in opcodes(check(split_components, matrices(), 1e-5, EAGER).entry)
    assert "transpose" not in opcodes(check(split_components, matrices(), 1e-5, EAGER).entry)


@pytest.mark.parametrize("terms", [1, 3])
def test_a_sum_of_negative_zeros_is_zero(terms: int) -> None:
    """A dot's sum begins with 0, however few its terms are: -[8, 3, terms] by -[8, terms]."""
    a, x = parameter(0, 8, 3, terms), parameter(1, 8, terms)
    dot = product(op("negate", a), op("negate", x), 8, 3, contracting=(2, 1), batch=1)
    after = split_components(module([a, x], reduce(op("exponential", dot), [1]), dot), EAGER)
    assert "dot" not in opcodes(after.entry)
    values = [np.zeros(a.dims, np.float32), -np.ones(x.dims, np.float32)]
    assert not np.signbit(evaluate(after, values)[1]).any()


def test_sums_over_stacks_go_over_no_numbers() -> None:
    """A standard deviation over three arrays: mean and squares are sums of arrays, whose stack is never made."""
    x = [parameter(n, POINTS, 8) for n in range(3)]
    pieces = [reshape(p, 1, *p.dims) for p in x]
    whole = op("concatenate", *pieces, dims=(3, POINTS, 8), dimension=0)
    mean = op("multiply", reduce(whole, (0,)), number(1 / 3, POINTS, 8))
    away = op("subtract", whole, spread(mean, whole.dims, 1, 2))
    before = module(x, reduce(op("multiply", away, away), (0,)))
    after = check(split_components, before, 1e-6, EAGER)
    assert {"reduce", "concatenate"}.isdisjoint(opcodes(after.entry))


def test_sums_over_arrays_that_are_there_stay() -> None:
    x = parameter(0, 3, POINTS, 8)
    before = module([x], reduce(op("multiply", x, x), (0,)))
    assert split_components(before, EAGER).entry is before.entry


def test_large_arrays_are_taken_apart_by_themselves() -> None:
    x = parameter(0, 512, 3)
    d = differences(x, x)
    before = module([x], op("sqrt", reduce(op("multiply", d, d), [2])))
    assert longest(split_components(before, priced())) == 2


@pytest.mark.parametrize(
    "before",
    [
        # Too small, too many elements for components, nothing in the way, more moved than computed.
        lambda x: reduce(op("multiply", differences(x(8, 3), x(8, 3)), number(2.0, 8, 8, 3)), [2]),
        lambda x: reduce(op("exponential", x(4096, MOST + 1)), [1]),
        lambda x: op("exponential", x(4096, 3)),
        lambda x: reduce(x(4096, 3), [0]),
        lambda x: op("add", x(4096, 3), spread(hlo.constant(np.ones(3, np.float32)), (4096, 3), 1)),
        lambda x: reduce(x(4096, 3), [1]),
    ],
)
def test_others_stay(before: Callable[..., Instruction]) -> None:
    x: list[Instruction] = []

    def argument(*dims: int) -> Instruction:
        x.append(parameter(len(x), *dims))
        return x[-1]

    root = before(argument)
    whole = module(x, root)
    assert split_components(whole, priced()) is whole


def test_what_is_needed_whole_is_put_together_once() -> None:
    """A sort and the result read one stacked array; a splat is not stacked at all."""
    x = parameter(0, 8, 3)
    y = op("divide", x, spread(reduce(x, [1]), (8, 3), 0))
    a, b = hlo.parameter(0, hlo.Shape(F32)), hlo.parameter(1, hlo.Shape(F32))
    order = Computation.from_root("less", [a, b], compare(a, b, "LT"))
    attributes = {"dimension": 0, "is_stable": True}
    ordered = Instruction("sort", y.shape, (y,), attributes, (order,))
    ones = number(1.0, 8, 3)
    others = Instruction("sort", y.shape, (ones,), attributes, (order,))
    before = module([x], ordered, y, op("multiply", y, ones), others)
    after = check(split_components, before, 1e-6, EAGER)
    assert opcodes(after.entry).count("concatenate") == 2  # y, and y times one


def test_loops_are_looked_into() -> None:
    """States stay whole; what a step computes does not."""
    x, count = parameter(0, 8, 3), hlo.parameter(1, hlo.Shape(S32))
    d = differences(x, x)
    r = op("add", reduce(op("multiply", d, d), [2]), number(0.5, 8, 8))
    force = reduce(op("divide", d, spread(r, d.dims, 0, 1)), [1])
    following = op("add", count, hlo.constant(1, S32))
    root = Instruction(
        "tuple", hlo.TupleShape((x.shape, count.shape)), (op("add", x, force), following)
    )
    step = Computation.from_root("step", [x, count], root)
    y, n = parameter(0, 8, 3), hlo.parameter(1, hlo.Shape(S32))
    more = Computation.from_root("more", [y, n], compare(n, hlo.constant(3, S32), "LT"))
    start = parameter(0, 8, 3)
    loop = Instruction("while", root.shape, (start, hlo.constant(0, S32)), {}, (more, step))
    before = module([start], hlo.get_tuple_element(loop, 0))
    after = check(split_components, before, 1e-5, EAGER)
    (found,) = [i for i in after.entry.instructions if i.opcode == "while"]
    assert found.shape == loop.shape
    assert all(sum(d != 1 for d in i.dims) <= 2 for i in found.called[1].instructions[:-1])


def test_bodies_in_another_form() -> None:
    """A sum whose body is not one operation, over components and over what is behind them."""
    a, b = hlo.parameter(0, hlo.Shape(F32)), hlo.parameter(1, hlo.Shape(F32))
    both = op(
        "add", op("multiply", a, b), op("add", a, b)
    )  # 1 + result is the product of 1 + terms
    combine = Computation.from_root("combine", [a, b], both)
    x = parameter(0, 5, 7, 3)
    y = op("divide", x, spread(reduce(x, [2], "maximum", -9), x.dims, 0, 1))
    zero = hlo.constant(0.0, F32)
    sums = [
        op("reduce", y, zero, dims=dims, dimensions=reduced, called=[combine])
        for dims, reduced in (((5, 7), (2,)), ((5,), (1, 2)), ((7, 3), (0,)), ((), (0, 1, 2)))
    ]
    check(split_components, module([x], *sums), 1e-4, EAGER)


# ------------------------------------------------------------------------------------------------ any program
class _Programs:
    """Random programs of what the pass knows and of what it does not, in exact integers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        sizes = (2, 3, 4, 5, 1)
        self.values = [
            parameter(n, *[self.random.choice(sizes) for _ in range(self.random.randint(1, 3))], dtype=S32)
            for n in range(3)
        ]  # fmt: skip
        self.parameters = list(self.values)

    def module(self) -> Module:
        for _ in range(24):
            made = self.step(self.random.choice(self.values))
            if made is not None and made.elements <= 512:
                self.values.append(made)
        results = [
            *self.random.sample(self.values[3:], min(3, len(self.values) - 3)),
            self.values[-1],
        ]
        return module(self.parameters, *results)

    def step(self, x: Instruction) -> Instruction | None:
        r, dims = self.random, x.dims
        rank = len(dims)
        kind = r.choice(("add", "select", "broadcast", "transpose", "reduce", "slice", "concatenate",
                         "pad", "reverse", "reshape", "iota", "dot", "dynamic", "argument"))  # fmt: skip
        same = [v for v in self.values if v.dims == dims]
        if kind == "add":
            return op(r.choice(("add", "subtract", "multiply")), x, r.choice(same))
        if kind == "select":
            return op(
                "select", compare(x, r.choice(same), "LT"), r.choice(same), x, dims=dims, dtype=S32
            )
        if kind == "iota" and rank:
            return op("add", x, op("iota", dims=dims, dtype=S32, dimension=r.randrange(rank)))
        if kind == "argument":
            return op("add", x, hlo.constant(np.arange(x.elements, dtype=np.int32).reshape(dims)))
        if kind == "broadcast" and rank < 3:
            at = r.randint(0, rank)
            wide = (*dims[:at], r.choice((2, 3, 5)), *dims[at:])
            return spread(x, wide, *[d + (d >= at) for d in range(rank)])
        if not rank:
            return None
        d = r.randrange(rank)
        if kind == "transpose":
            order = r.sample(range(rank), rank)
            return op("transpose", x, dims=[dims[o] for o in order], dimensions=tuple(order))
        if kind == "reduce":
            return reduce(
                x, sorted(r.sample(range(rank), r.randint(1, rank))), "add", r.randint(0, 2)
            )
        if kind == "slice":
            start = r.randrange(dims[d])
            return cut(x, d, start, r.randint(start + 1, dims[d]), r.randint(1, 2))
        if kind == "concatenate":
            others = [
                v
                for v in self.values
                if len(v.dims) == rank and all(v.dims[n] == dims[n] for n in range(rank) if n != d)
            ]
            parts = [x, *[r.choice(others) for _ in range(r.randint(0, 2))]]
            total = sum(p.dims[d] for p in parts)
            return op("concatenate", *parts, dims=(*dims[:d], total, *dims[d + 1 :]), dimension=d)
        if kind == "pad":
            low, high, between = r.randint(-1, 1), r.randint(0, 2), r.randint(0, 1)
            size = low + high + dims[d] + between * (dims[d] - 1)
            if size < 1:
                return None
            one = lambda n: tuple(n if e == d else 0 for e in range(rank))
            wide = (*dims[:d], size, *dims[d + 1 :])
            edges = {"low": one(low), "high": one(high), "interior": one(between)}
            return op("pad", x, hlo.constant(7, S32), dims=wide, **edges)
        if kind == "reverse":
            return op(
                "reverse", x, dimensions=tuple(sorted(r.sample(range(rank), r.randint(1, rank))))
            )
        if kind == "reshape":
            forms = [(x.elements,), (*dims, 1), (1, *dims)]
            forms += [(math.prod(dims[:2]), *dims[2:]), (*dims[:1], math.prod(dims[1:]))]
            return reshape(x, *r.choice(forms))
        if kind == "dot":
            others = [(v, e) for v in self.values for e, n in enumerate(v.dims) if n == dims[d]]
            y, e = r.choice(others)
            left = [n for k, n in enumerate(dims) if k != d]
            right = [n for k, n in enumerate(y.dims) if k != e]
            if len(left) + len(right) > 3:
                return None
            return product(x, y, *left, *right, contracting=(d, e))
        if kind == "dynamic":
            sizes = tuple(r.randint(1, n) for n in dims)
            starts = [hlo.constant(r.randint(0, 2), S32) for _ in dims]
            return op("dynamic-slice", x, *starts, dims=sizes, slice_sizes=sizes)
        return None


@pytest.mark.parametrize("first", range(0, 400, 50))
def test_any_program_stays_exact(first: int) -> None:
    changed = 0
    for seed in range(first, first + 50):
        before = _Programs(seed).module()
        after = check(split_components, before, 0.0, EAGER)
        changed += after is not before
    assert changed > 10
