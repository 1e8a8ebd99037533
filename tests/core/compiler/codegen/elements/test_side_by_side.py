"""Expensive functions of several single numbers are computed in the lanes of a vector."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest
from tripont.core.compiler.ir import hlo
from tripont.core.compiler.ir.dtypes import BF16, F16, F32, F64, DType
from tripont.core.compiler.ir.hlo import Instruction, Shape

from tests.core.compiler.builders import priced
from tests.core.compiler.codegen.harness import Kernel, fusion, op

CPU = "x86-64-v3"  # 8 floats or 4 doubles
VALUES = [0.5, -0.0, 3.0, np.inf, np.nan, -2.0, 1e-45, 20.0, -np.inf, 0.1]


def kernel_of(roots: list[Instruction], lane: float | None = None) -> Kernel:
    """The kernel of these scalars; ``lane``: another price of a number's way into a lane."""
    parameters = {
        i.attributes["index"]: i
        for i in hlo.Computation.from_root(
            "all", [], op("tuple", hlo.TupleShape(tuple(r.shape for r in roots)), *roots)
        ).instructions
        if i.opcode == "parameter"
    }
    ordered = [parameters[n] for n in sorted(parameters)]
    target = priced(CPU) if lane is None else priced(CPU, loops={"lane": lane})
    return Kernel(fusion("loop", ordered, *roots), target)


def widths(kernel: Kernel, function: str = "fdiv") -> list[int]:
    """The lanes of each vector that an LLVM instruction takes; 1 for a single number."""
    found = re.findall(rf"= {function}[a-z ]* (?:<(\d+) x )?(?:float|double)", kernel.ir)
    return sorted(int(lanes or 1) for lanes in found)


def scalars(count: int, dtype: DType = F32) -> list[Instruction]:
    return [hlo.parameter(n, Shape(dtype)) for n in range(count)]


def check(roots: list[Instruction]) -> Kernel:
    """The kernel, after it gave the bits that one number after the other gives."""
    kernel, single = kernel_of(roots), kernel_of(roots, lane=1e9)
    shapes = [o.shape for o in kernel.instruction.operands]
    for start in range(len(VALUES)):
        given = [
            np.array(VALUES[(start + n) % len(VALUES)]).astype(s.dtype.numpy)
            for n, s in enumerate(shapes)
        ]
        for a, b in zip(kernel.run(given), single.run(given), strict=True):
            assert a.tobytes() == b.tobytes()
    return kernel


@pytest.mark.parametrize(
    ("dtype", "count", "lanes"),
    [
        (F32, 2, []),
        (F32, 3, [4]),
        (F32, 4, [4]),
        (F32, 5, [8]),
        (F32, 8, [8]),
        (F32, 13, [8, 8]),
        (F32, 17, [8, 8]),
        (F64, 4, [4]),
        (F64, 9, [4, 4]),
        (BF16, 8, [8]),
        (F16, 6, [8]),
    ],
)
def test_functions_of_scalars(dtype: DType, count: int, lanes: list[int]) -> None:
    """As many as fill vectors; some that are left go with numbers that nobody reads, or alone."""
    kernel = check([op("tanh", x.shape, x) for x in scalars(count, dtype)])
    assert [n for n in widths(kernel) if n > 1] == lanes


def test_what_is_before_and_behind_them() -> None:
    """c + 0.01 (tanh(other) rate - c), as a step of a scan over a tuple has it, and a second function behind it."""
    x = scalars(12)
    roots = []
    for n in range(6):
        value = op("tanh", x[0].shape, x[n - 1])
        value = op("multiply", value.shape, value, x[6 + n])
        roots += [value, op("exponential", value.shape, op("subtract", value.shape, value, x[n]))]
    assert widths(check(roots), "fmul")[-1] == 8


def test_none_needs_another() -> None:
    """A chain is computed link by link; equal links of several chains go together."""
    (x,) = scalars(1)
    chain = [x]
    for _ in range(6):
        chain.append(op("tanh", x.shape, chain[-1]))
    assert set(widths(check(chain[1:]))) == {1}
    first = [op("tanh", i.shape, i) for i in scalars(8)]
    kernel = check([op("tanh", i.shape, i) for i in first])
    assert widths(kernel) == [8, 8]


@pytest.mark.parametrize(
    "second", [lambda n, x: x[0], lambda n, x: x[n], lambda n, x: hlo.constant(0.3, F32)]
)
def test_functions_of_two(second: Callable[[int, list[Instruction]], Instruction]) -> None:
    """The other argument may be one number for all, or one for each."""
    x = scalars(8)
    kernel = check([op("power", i.shape, i, second(n, x)) for n, i in enumerate(x)])
    assert widths(kernel)[-1] == 8


def test_cheap_functions_and_different_ones_stay_alone() -> None:
    x = scalars(8)
    kernel = check([op("multiply", i.shape, i, i) for i in x])
    assert set(widths(kernel, "fmul")) == {1}
    kernel = check([op(o, i.shape, i) for i, o in zip(x, ["tanh", "logistic"] * 4, strict=True)])
    assert widths(kernel) == [4, 4]
    kernel = check([op("tanh", x[0].shape, x[0]), *(op("log", i.shape, i) for i in x[:3])])
    assert set(widths(kernel)) <= {1}
