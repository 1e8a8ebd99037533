"""Chains of loops: every element is what the loops one after the other give, whatever the ends and the cuts."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

import numpy as np
import pytest
from tripont.core.compiler.fusion.chain_plan import Plan, plan_of
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.dtypes import BF16, C64, F32, F64, PRED, S8, S32, DType
from tripont.core.compiler.passes.chain_loops import CHAIN, chain_of
from tripont.core.compiler.reference import evaluate

from tests.core.compiler.builders import priced
from tests.core.compiler.codegen.harness import Kernel, op, runnable

S = hlo.Shape


def slice_(x: hlo.Instruction, axis: int, start: int, stop: int) -> hlo.Instruction:
    dims = list(x.dims)
    dims[axis] = stop - start
    starts, limits = [0] * len(dims), list(x.dims)
    starts[axis], limits[axis] = start, stop
    return op(
        "slice",
        S(x.dtype, tuple(dims)),
        x,
        starts=tuple(starts),
        limits=tuple(limits),
        strides=(1,) * len(dims),
    )


def pad(x: hlo.Instruction, axis: int, low: int, high: int) -> hlo.Instruction:
    dims = list(x.dims)
    dims[axis] += low + high
    amounts = [[0] * len(dims), [0] * len(dims)]
    amounts[0][axis], amounts[1][axis] = low, high
    zero = hlo.constant(0, x.dtype)
    lows, highs = map(tuple, amounts)
    return op(
        "pad", S(x.dtype, tuple(dims)), x, zero, low=lows, high=highs, interior=(0,) * len(dims)
    )


def roll(x: hlo.Instruction, axis: int, by: int) -> hlo.Instruction:
    """As ``jnp.roll`` of 1 or more: the last rows come first."""
    size = x.dims[axis]
    by %= size
    if not by:
        return x
    pieces = slice_(x, axis, size - by, size), slice_(x, axis, 0, size - by)
    return op("concatenate", x.shape, *pieces, dimension=axis)


def shift(x: hlo.Instruction, axis: int, by: int) -> hlo.Instruction:
    """Moved by ``by`` places, with zeros at the end that becomes free."""
    size = x.dims[axis]
    if by > 0:
        return pad(slice_(x, axis, 0, size - by), axis, by, 0)
    return pad(slice_(x, axis, -by, size), axis, 0, -by)


def add(a: hlo.Instruction, b: hlo.Instruction) -> hlo.Instruction:
    opcode = "xor" if a.dtype is PRED else "add"
    return op(opcode, a.shape, a, b)


def loop(operands: list[hlo.Instruction], *roots: hlo.Instruction) -> hlo.Instruction:
    """A loop fusion of ``operands``; the roots are made of parameters with their numbers."""
    root = roots[0]
    if len(roots) > 1:
        root = hlo.Instruction("tuple", hlo.TupleShape(tuple(r.shape for r in roots)), roots)
    parameters = [hlo.parameter(n, o.shape) for n, o in enumerate(operands)]
    mine = {p.attributes["index"]: p for p in parameters}
    new: dict[hlo.Instruction, hlo.Instruction] = {}

    def moved(i: hlo.Instruction) -> hlo.Instruction:
        if i.opcode == "parameter":
            return mine[i.attributes["index"]]
        if i not in new:
            new[i] = i.replace(operands=[moved(o) for o in i.operands])
        return new[i]

    computation = hlo.Computation.from_root("fused", parameters, moved(root))
    return hlo.Instruction("fusion", root.shape, operands, {"kind": "loop"}, [computation])


def chain(*loops: hlo.Instruction, written: Sequence[hlo.Instruction] = ()) -> hlo.Instruction:
    """A chain whose results are ``written``, or those of the last loop."""
    operands, body = chain_of(loops, written)
    outside = [hlo.parameter(n, o.shape) for n, o in enumerate(operands)]
    return hlo.Instruction("fusion", body.root.shape, outside, {"kind": CHAIN}, [body])


def numbers(chances: np.random.Generator, shape: hlo.Shape) -> np.ndarray:
    if shape.dtype is PRED:
        return chances.integers(0, 2, shape.dims).astype(bool)
    most = 1 if shape.dtype is BF16 else 4
    small = chances.integers(-most, most + 1, shape.dims)
    if shape.dtype.is_complex:
        return (small + 1j * chances.integers(-4, 5, shape.dims)).astype(shape.dtype.numpy)
    return small.astype(shape.dtype.numpy)


def check(instruction: hlo.Instruction, kept: int, cpu: str = "host") -> Plan:
    """Run a chain in pieces and compare with the evaluator, bit for bit: all numbers are small whole ones."""
    runnable(cpu)
    target = priced(cpu, memory={"planes": kept})
    plan = plan_of(instruction.called[0], kept)
    assert plan is not None
    chances = np.random.default_rng(5)
    arguments = [numbers(chances, o.shape) for o in instruction.operands]  # type: ignore[arg-type]
    kernel = Kernel(instruction, target)
    count = kernel.emitted.work_count
    assert count == plan.units
    got = kernel.run(arguments, [1, count // 3, count // 2, count - 1])
    expected = evaluate.evaluate_computation(instruction.called[0], arguments)
    for ours, theirs in zip(got, expected, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    return plan


DTYPES: list[DType] = [F32, F32, F64, BF16, S32, S8, C64, PRED]


def random_chain(seed: int) -> tuple[hlo.Instruction, int]:
    """A chain of two to five loops, and how many bytes it may keep: often fewer than it has without tiles."""
    chances = Random(seed)
    while True:  # the windows of some loops are as wide as the array
        instruction = random_loops(chances)
        plan = plan_of(instruction.called[0], 1 << 22)
        if plan is not None:
            break
    fewer = plan.kept // chances.choice([1, 2, 3, 5])
    return instruction, fewer if plan_of(instruction.called[0], fewer) else plan.kept


def random_loops(chances: Random) -> hlo.Instruction:
    rank = chances.choice([2, 2, 3, 3, 4])
    minor = chances.choice([16, 17, 31, 33, 64, 70, 100])
    leading = [chances.choice([5, 8, 13, 24, 41, 60]) for _ in range(rank - 1)]
    if rank > 2:
        leading[1] = chances.choice([16, 33, 64])
    if rank == 4:
        leading[2] = chances.choice([1, 2, 3])
    dims = (*leading, minor)
    dtype = chances.choice(DTYPES)
    outside = [hlo.parameter(n, S(dtype, dims)) for n in range(2)]
    values: list[hlo.Instruction] = []  # what earlier loops give
    loops: list[hlo.Instruction] = []
    # (Sums of more stages are no numbers of bf16.)
    stages = 2 if dtype is BF16 else chances.choice([2, 2, 3, 3, 4, 5])
    for _ in range(stages):
        operands: list[hlo.Instruction] = []
        for value in [*values[-2:], chances.choice(outside)]:
            if value not in operands:
                operands.append(value)
        roots = []
        for _ in range(chances.choice([1, 1, 2])):
            total = None
            for n, operand in enumerate(operands):
                p = hlo.parameter(n, operand.shape)
                for _ in range(chances.choice([1, 2, 3])):
                    term = p
                    for axis in chances.sample(range(rank), chances.choice([0, 1, 1, 2])):
                        by = chances.choice([-2, -1, -1, 1, 1, 2])
                        if p.dims[axis] > abs(by):
                            term = chances.choice([roll, shift])(term, axis, by)
                    total = term if total is None else add(total, term)
            assert total is not None
            roots.append(total)
        made = loop(operands, *roots)
        loops.append(made)
        if len(roots) == 1:
            values.append(made)
        else:
            values += [hlo.get_tuple_element(made, n) for n in range(len(roots))]
    if (
        chances.random() < 0.5
    ):  # several results: what nobody reads, and some of what later loops read
        read = {o for made in loops for o in made.operands}
        written = [v for v in values if v not in read or chances.random() < 0.4]
        chances.shuffle(written)
        return chain(*loops, written=written)
    # Values that nobody reads would be results: they are added to the last loop's operands.
    read = {o for made in loops for o in made.operands}
    unread = [v for v in values if v not in read and hlo_source(v) is not loops[-1]]
    if unread:
        last = loops.pop()
        operands = [*last.operands, *unread]
        extra = None
        for n, operand in enumerate(operands):
            p = hlo.parameter(n, operand.shape)
            extra = p if extra is None else add(extra, p)
        assert extra is not None
        loops.append(loop(operands, extra, *last.called[0].results))
    return chain(*loops)


def hlo_source(value: hlo.Instruction) -> hlo.Instruction:
    return value.operands[0] if value.opcode == "get-tuple-element" else value


@pytest.mark.parametrize("seed", range(160))
def test_random_chains(seed: int) -> None:
    check(*random_chain(seed))


def laplacian(x: hlo.Instruction, move) -> hlo.Instruction:
    total = x
    for axis in range(len(x.dims)):
        for by in (-1, 1):
            total = add(total, move(x, axis, by))
    return total


@pytest.mark.parametrize("cpu", ["host", "x86-64-v2", "x86-64-v3", "x86-64-v4"])
@pytest.mark.parametrize("move", [roll, shift])
@pytest.mark.parametrize("dims", [(50, 40), (24, 48, 20), (9, 32, 3, 17)])
def test_two_stencils(dims: tuple[int, ...], move, cpu: str) -> None:
    x = hlo.parameter(0, S(F32, dims))
    first = loop([x], laplacian(x, move))
    second = loop(
        [first, x], add(laplacian(hlo.parameter(0, x.shape), move), hlo.parameter(1, x.shape))
    )
    check(chain(first, second), 1 << 20, cpu)


@pytest.mark.parametrize("move", [roll, shift])
def test_loops_that_do_the_same_have_one_computation(move) -> None:
    """And so the same parameters, which are other arrays in each of them."""
    x, y = (hlo.parameter(n, S(F32, (40, 30))) for n in range(2))
    first = loop([x], laplacian(x, move))
    second = first.replace(operands=[first])
    third = first.replace(operands=[y])
    p, q = (hlo.parameter(n, x.shape) for n in range(2))
    last = loop([second, third], add(move(p, 0, 1), move(q, 0, -1)))
    check(chain(first, second, third, last), 1 << 20)


@pytest.mark.parametrize("move", [roll, shift])
def test_tiles(move) -> None:
    x = hlo.parameter(0, S(F32, (20, 64, 24)))
    first = loop([x], laplacian(x, move))
    second = loop([first], laplacian(x, move))
    third = loop([second, first], add(laplacian(x, move), hlo.parameter(1, x.shape)))
    plan = check(chain(first, second, third), 22_000)
    assert plan.is_tiled
    assert plan.tiles > 1


@pytest.mark.parametrize("dtype", [BF16, PRED, F64, C64])
def test_numbers_that_are_only_moved(dtype: DType) -> None:
    """Such loops know small floats by their bits, and loops beside them as numbers."""
    x = hlo.parameter(0, S(dtype, (30, 40)))
    moved = loop([x], shift(roll(x, 0, 1), 1, 2))
    check(chain(moved, loop([moved], roll(shift(x, 0, -1), 1, 1))), 1 << 20)
    summed = loop([moved], add(x, roll(x, 0, 1)))
    check(chain(moved, summed, loop([summed], shift(x, 0, 1))), 1 << 20)


def test_columns_may_be_read_anywhere() -> None:
    x = hlo.parameter(0, S(F32, (20, 30)))
    first = loop([x], laplacian(x, roll))
    turned = op("reverse", x.shape, x, dimensions=(1,))
    check(chain(first, loop([first], add(laplacian(x, shift), turned))), 1 << 20)
    solid = hlo.parameter(0, S(F32, (20, 30, 20)))
    first = loop([solid], laplacian(solid, roll))
    turned = op("reverse", solid.shape, solid, dimensions=(1,))
    instruction = chain(first, loop([first], add(laplacian(solid, shift), turned)))
    check(instruction, 1 << 20)
    assert plan_of(instruction.called[0], 7000) is None  # rows of no tile


def test_sizes_that_shrink_and_grow() -> None:
    """The gradient of a stencil without ends: an inner array is smaller, and padded for its own stencil."""
    x = hlo.parameter(0, S(F32, (40, 30)))
    inner = slice_(slice_(x, 0, 2, 40), 1, 1, 29)
    inner = add(inner, slice_(slice_(x, 0, 0, 38), 1, 0, 28))
    first = loop([x], inner)
    p = hlo.parameter(0, inner.shape)
    back = add(pad(pad(p, 0, 2, 0), 1, 1, 1), pad(pad(p, 0, 0, 2), 1, 0, 2))
    check(chain(first, loop([first], back)), 1 << 20)


def test_special_numbers_stay_where_they_are() -> None:
    """What a stencil does not read does not reach it: NaN and infinities in planes beside."""
    x = hlo.parameter(0, S(F32, (30, 33)))
    first = loop([x], add(shift(x, 0, 1), shift(x, 0, -1)))
    second = loop([first], add(shift(x, 0, 2), shift(x, 1, -1)))
    instruction = chain(first, second)
    data = np.ones((30, 33), np.float32)
    data[0], data[17, 5], data[29, 32] = np.nan, np.inf, -np.inf
    (got,) = Kernel(instruction, priced()).run([data], [1])
    (expected,) = evaluate.evaluate_computation(instruction.called[0], [data])
    np.testing.assert_array_equal(got, expected)


def test_a_chain_may_not_keep_more_than_the_stack_has() -> None:
    x = hlo.parameter(0, S(F32, (8, 4096)))
    first = loop([x], laplacian(x, roll))
    second = loop([first], laplacian(x, roll))
    assert plan_of(chain(first, second).called[0], 3 * 4 * 4096) is not None
    assert plan_of(chain(first, second).called[0], 3 * 4 * 4096 - 1) is None


@pytest.mark.parametrize(
    "read",
    [
        pytest.param(lambda x: op("reverse", x.shape, x, dimensions=(0,)), id="turned about"),
        pytest.param(lambda x: roll(x, 0, 20), id="far away"),
        pytest.param(
            lambda x: op("transpose", S(x.dtype, x.dims), x, dimensions=(1, 0)), id="transposed"
        ),
    ],
)
def test_what_is_no_neighbourhood(read) -> None:
    x = hlo.parameter(0, S(dtypes.F32, (40, 40)))
    first = loop([x], laplacian(x, roll))
    second = loop([first], add(x, read(x)))
    assert plan_of(chain(first, second).called[0], 1 << 20) is None
