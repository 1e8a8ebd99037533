"""Long cumulative reductions and long dots in parts."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import BF16, C64, F32, S32
from tripont.core.compiler.ir.hlo import Computation, Instruction
from tripont.core.compiler.ir.hlo import WindowDimension as W
from tripont.core.compiler.passes.split_reductions import split_reductions
from tripont.core.compiler.passes.split_scans import split_scans
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, op, opcodes, priced

from .test_passes import check

S = hlo.Shape


def log_add_exp(dtype=F32) -> Computation:
    a, b = hlo.parameter(0, S(dtype)), hlo.parameter(1, S(dtype))
    total = op("add", op("exponential", a), op("exponential", b))
    return Computation.from_root("log_add_exp", [a, b], op("log", total))


def addition() -> Computation:
    a, b = hlo.parameter(0, S(F32)), hlo.parameter(1, S(F32))
    return Computation.from_root("sum", [a, b], op("add", a, b))


def scan(dims, dimension, backward=False, body=None, initial=-np.inf, dtype=F32):
    n = dims[dimension]
    along = W(n, padding_high=n - 1) if backward else W(n, padding_low=n - 1)
    window = tuple(along if d == dimension else W(1) for d in range(len(dims)))
    x = hlo.parameter(0, S(dtype, dims))
    start = hlo.constant(initial, dtype)
    i = Instruction(
        "reduce-window", x.shape, (x, start), {"window": window}, (body or log_add_exp(dtype),)
    )
    return module([x], i)


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize(
    ("dims", "dimension"), [((256,), 0), ((259,), 0), ((2, 260), 1), ((260, 2), 0)], ids=str
)
def test_logarithm_of_sums(dims, dimension, backward) -> None:
    """The values stay; there are two scans, of parts and of what they come to."""
    before = scan(dims, dimension, backward)
    after = check(split_scans, before, 1e-5, priced(threads={"split_elements": 256}))
    scans = [i for i in after.entry.instructions if i.opcode == "reduce-window"]
    sizes = {max(w.size for w in i.attributes["window"]) for i in scans}
    assert sizes == {64, -(-dims[dimension] // 64)}


@pytest.mark.parametrize(
    "before",
    [
        scan((8192,), 0, body=addition(), initial=0),  # as fast as memory
        scan((8191,), 0),  # short
        scan((64, 512), 1),  # many rows
        scan((8192,), 0, initial=1.0),  # log_add_exp(1, 1) is another number
        scan((8192,), 0, dtype=BF16),  # would be rounded twice
    ],
    ids=["sum", "short", "rows", "initial value", "bf16"],
)
def test_left_alone(before) -> None:
    target = priced(threads={"split_elements": 8192})
    assert split_scans(scan((8192,), 0), target) != before
    assert split_scans(before, target) is before


def dot(lhs, rhs, contracted, dtype=F32) -> Instruction:
    a, b = hlo.parameter(0, S(dtype, lhs)), hlo.parameter(1, S(dtype, rhs))
    numbers = hlo.DotDimensionNumbers(*contracted)
    dims = (
        *(d for n, d in enumerate(lhs) if n not in contracted[0]),
        *(d for n, d in enumerate(rhs) if n not in contracted[1]),
    )
    return Instruction(
        "dot",
        S(dtype, dims),
        (a, b),
        {"dimension_numbers": numbers, "precision": ("default", "default")},
    )


@pytest.mark.parametrize(
    ("lhs", "rhs", "contracted"),
    [
        ((1 << 17,), (1 << 17,), ((0,), (0,))), ((1, 1 << 17), (1 << 17, 1), ((1,), (0,))),
        ((256, 512), (256, 512), ((0, 1), (0, 1))), ((256, 1, 512), (256, 512), ((2, 0), (1, 0))),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("dtype", [F32, S32, C64], ids=str)
def test_dot_of_vectors(lhs, rhs, contracted, dtype) -> None:
    i = dot(lhs, rhs, contracted, dtype)
    after = check(split_reductions, module(i.operands, i), 1e-3, for_cpu())
    names = opcodes(after.entry)
    assert "dot" not in names
    assert "reduce" in names


@pytest.mark.parametrize(
    ("lhs", "rhs", "contracted", "dtype"),
    [
        ((1 << 17,), (1 << 17, 2), ((0,), (0,)), F32),  # two results
        ((1 << 16,), (1 << 16,), ((0,), (0,)), F32),  # short
        ((256, 512), (512, 256), ((0, 1), (1, 0)), F32),  # in another order
        ((1 << 17,), (1 << 17,), ((0,), (0,)), BF16),
    ],
    ids=["two results", "short", "transposed", "bf16"],
)
def test_other_dots(lhs, rhs, contracted, dtype) -> None:
    i = dot(lhs, rhs, contracted, dtype)
    before = module(i.operands, i)
    assert split_reductions(before, for_cpu()) is before
