"""What a selection by positions leaves of an array, and products of which it leaves a part."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.codegen.kernels import packed_dot
from tripont.core.compiler.codegen.kernels.emit import Frame
from tripont.core.compiler.codegen.kernels.position_ranges import Ranges, ranges_read
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Computation, Instruction, topological_order
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import compare, module, number, op, parameter
from tests.core.compiler.codegen.kernels.test_packed_dot import cpu, kinds, of_floats, product
from tests.core.compiler.test_native import NativeSimulation

__all__ = ["cpu"]
F32 = dtypes.F32


def positions(dims: tuple[int, ...]) -> tuple[Instruction, Instruction]:
    """The row and the column of each element."""
    rank = len(dims)
    row, column = (
        op("iota", dims=dims, dtype=dtypes.S32, dimension=d) for d in (rank - 2, rank - 1)
    )
    return row, column


def shifted(i: Instruction, by: int) -> Instruction:
    return op("add", i, number(by, *i.dims, dtype=dtypes.S32))


def select(condition: Instruction, yes: Instruction, no: Instruction) -> Instruction:
    return op("select", condition, yes, no, dtype=F32)


def lower(c: Instruction) -> Instruction:
    row, column = positions(c.dims)
    return select(compare(row, column, "GE"), c, number(0.0, *c.dims))


def upper(c: Instruction) -> Instruction:
    """What is above the diagonal, in the other branch, and then half of it."""
    row, column = positions(c.dims)
    kept = select(compare(row, column, "GE"), number(-1.0, *c.dims), c)
    return op("multiply", kept, number(0.5, *c.dims))


def band(c: Instruction) -> Instruction:
    """Each row has the 40 columns up to its own."""
    row, column = positions(c.dims)
    near = compare(shifted(row, -40), column, "LT")
    inside = op("and", near, compare(row, column, "GE"), dtype=dtypes.PRED)
    return select(inside, c, number(-np.inf, *c.dims))


def columns(c: Instruction) -> Instruction:
    """Columns 50 to 79, of a mask that all rows and matrices share."""
    flat = c.dims[-1:]
    column = op("iota", dims=flat, dtype=dtypes.S32, dimension=0)
    left, right = (number(x, *flat, dtype=dtypes.S32) for x in (50, 80))
    first, second = compare(column, left, "GE"), compare(column, right, "LT")
    inside = op("and", first, second, dtype=dtypes.PRED)
    inside = op("broadcast", inside, dims=c.dims, dimensions=(len(c.dims) - 1,), dtype=dtypes.PRED)
    return select(inside, c, number(0.0, *c.dims))


def twice(c: Instruction) -> Instruction:
    """The lower triangle, and beside it what lies from 100 columns to the right of the diagonal on: all is needed."""
    row, column = positions(c.dims)
    far = select(compare(shifted(row, 100), column, "LE"), c, number(1.0, *c.dims))
    return op("add", lower(c), far)


def unmasked(c: Instruction) -> Instruction:
    """The condition is on the product itself, all of which is needed."""
    return select(compare(c, number(0.0, *c.dims), "GT"), c, number(0.0, *c.dims))


CASES: Final[list[tuple[Callable[[Instruction], Instruction], Ranges]]] = [
    (lower, Ranges(least=0)),
    (upper, Ranges(most=-1)),
    (band, Ranges(least=0, most=39)),
    (columns, Ranges(first=50, stop=80)),
    (twice, Ranges()),
    (unmasked, Ranges()),
]


@pytest.mark.parametrize(("mask", "ranges"), CASES, ids=[case[0].__name__ for case in CASES])
def test_ranges(mask: Callable[[Instruction], Instruction], ranges: Ranges) -> None:
    array = parameter(0, 2, 300, 200)
    root = mask(array)
    inside = Computation("inside", (array,), tuple(topological_order([root])), root)
    assert ranges_read(array, inside) == ranges


@pytest.mark.parametrize("sizes", [(0, 3), (3, 0), (0, 0)], ids=str)
def test_all_of_no_elements(sizes: tuple[int, int]) -> None:
    assert Ranges(least=0).share(*sizes) == 1.0


def test_an_array_that_is_a_result_is_read_everywhere() -> None:
    array = parameter(0, 300, 200)
    root = op("negate", lower(array))
    both = Instruction("tuple", (array.shape, root.shape), (array, root))
    inside = Computation("inside", (array,), tuple(topological_order([both])), both)
    assert ranges_read(array, inside) == Ranges()


def fused(root: Instruction, made: Instruction, name: str) -> Any:
    """``root`` compiled: one kernel computes the product and all behind it, and reads nothing else."""
    after = pipeline.run(module([*made.operands], root), for_cpu(name, False), Dump())
    found = [k for k in kinds(after) if k not in ("pack", "bitcast", "constant")]
    assert found == ["packed-dot"], found
    (fusion,) = (i for i in after.entry.instructions if i.opcode == "fusion")
    assert len(fusion.operands) == 2
    return after


@of_floats
@pytest.mark.parametrize("mask", [case[0] for case in CASES], ids=[c[0].__name__ for c in CASES])
@pytest.mark.parametrize(
    "sizes", [(0, 87, 190, 83), (0, 190, 87, 2051), (3, 150, 150, 67)], ids=str
)
def test_products(
    mask: Callable[[Instruction], Instruction], sizes: tuple[int, int, int, int], cpu: str
) -> None:
    """Small whole numbers, whose sums are exact, and numbers that are none: they reach what is selected alone."""
    batch, m, n, k = sizes
    made = product((F32, F32), F32, m, n, k, batch=batch)
    root = mask(made)
    random = np.random.default_rng(7)
    values = [random.integers(-4, 5, p.dims).astype(np.float32) for p in made.operands]
    values[0][..., m // 2, 3], values[1][..., 5, n // 2] = np.nan, np.inf
    before = module([*made.operands], root)
    (want,) = evaluate(before, values)
    (got,) = NativeSimulation(fused(root, made, cpu), cpu).run(values)
    np.testing.assert_array_equal(got, want)


def test_half_of_the_sums_take_half_the_time() -> None:
    target = for_cpu("znver4", False)
    made = product((F32, F32), F32, 512, 512, 512)
    taken = []
    for mask in (unmasked, lower):
        after = fused(mask(made), made, "znver4")
        (fusion,) = (i for i in after.entry.instructions if i.opcode == "fusion")
        frame = Frame(target.module(), target, fusion, "kernel", collapsed=False)
        taken.append(packed_dot.PackedDot(frame).unit_ns)
    assert 0.45 * taken[0] < taken[1] < 0.55 * taken[0]
