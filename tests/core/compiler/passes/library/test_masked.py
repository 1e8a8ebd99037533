"""Products of which a mask leaves a part are generated where a library would be chosen otherwise."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir import dtypes
from tripont.core.compiler.ir.hlo import Instruction
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.library.masked import masked_products
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, number, op, reduce
from tests.core.compiler.codegen.kernels.test_packed_dot import kinds, product
from tests.core.compiler.codegen.kernels.test_position_ranges import (
    band,
    columns,
    lower,
    twice,
    unmasked,
    upper,
)

F32 = dtypes.F32


def scaled(c: Instruction) -> Instruction:
    return lower(op("multiply", c, number(0.125, *c.dims)))


def summed(c: Instruction) -> Instruction:
    """Each row's sum, which needs all of the row, and the triangle."""
    sums = op("broadcast", reduce(c, (1,)), dims=c.dims, dimensions=(0,))
    return op("add", lower(c), sums)


def last(c: Instruction) -> Instruction:
    """Columns up to 500 of 512 are not a part that is worth a slower product."""
    column = op("iota", dims=c.dims, dtype=dtypes.S32, dimension=1)
    end = number(500, *c.dims, dtype=dtypes.S32)
    inside = op("compare", column, end, dtype=dtypes.PRED, direction="LT", comparison_type="SIGNED")
    return op("select", inside, c, number(0.0, *c.dims), dtype=F32)


@pytest.mark.parametrize(
    ("mask", "is_masked"),
    [
        (lower, True),
        (upper, True),
        (band, True),
        (columns, True),
        (scaled, True),
        (twice, False),
        (unmasked, False),
        (summed, False),
        (last, False),
    ],
    ids=lambda x: getattr(x, "__name__", str(x)),
)
@pytest.mark.parametrize("cpu", ["x86-64-v3", "znver4"])
def test_a_library_has_what_is_read_whole(
    cpu: str, mask: Callable[[Instruction], Instruction], is_masked: bool
) -> None:
    """oneDNN has float32 products of this size whose right-hand side lies as [n, k]."""
    made = product((F32, F32), F32, 512, 512, 512, transposed=(False, True))
    before = module([*made.operands], mask(made))
    assert (made in masked_products(before.entry)) == is_masked
    found = kinds(pipeline.run(before, for_cpu(cpu, True), Dump()))
    assert ("packed-dot" in found) == is_masked
    assert ("library-call" in found) == (not is_masked)


def test_a_product_that_is_a_result_is_read_whole() -> None:
    made = product((F32, F32), F32, 512, 512, 512, transposed=(False, True))
    assert not masked_products(module([*made.operands], lower(made), made).entry)
