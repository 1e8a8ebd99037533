"""Masks of what a maximum or minimum limits are those of its result."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler import pipeline
from tripont.core.compiler.ir.hlo import Computation, Instruction, Module, TupleShape
from tripont.core.compiler.observe.dump import Dump
from tripont.core.compiler.passes.common_subexpressions import eliminate_common_subexpressions
from tripont.core.compiler.passes.limit_masks import mask_by_limits
from tripont.core.compiler.reference.evaluate import evaluate
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import compare, module, number, op, opcodes, parameter
from tests.core.compiler.codegen.kernels.test_packed_dot import F32, product

VALUES = np.float32([-np.inf, -1.5, -0.0, 0.0, 1e-45, 0.25, 0.3, 2.0, np.inf, np.nan])


def masked(opcode: str, direction: str, limit: float, turned: bool, asked: float) -> Module:
    """An exponential's limit, and a number where it is compared with ``asked``."""
    given = parameter(0, len(VALUES))
    x = op("negate", given)
    constant = number(limit, len(VALUES))
    operands = (constant, x) if turned else (x, constant)
    limited = op(opcode, *operands)
    other = number(asked, len(VALUES))
    mask = compare(other, x, direction) if turned else compare(x, other, direction)
    chosen = op("select", mask, given, number(7.0, len(VALUES)), dtype=F32)
    return module([given], limited, chosen)


def users_of_the_negation(entry: Computation) -> list[Instruction]:
    (x,) = (i for i in entry.instructions if i.opcode == "negate")
    return entry.users()[x]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("limit", [0.0, 0.25])
@pytest.mark.parametrize("opcode", ["maximum", "minimum"])
def test_masks_of_the_result_are_the_same(opcode: str, limit: float, turned: bool) -> None:
    kept = {"GT", "LE"} if (opcode == "maximum") is not turned else {"LT", "GE"}
    for direction in ("GT", "GE", "LT", "LE", "EQ", "NE"):
        before = masked(opcode, direction, limit, turned, limit)
        after = eliminate_common_subexpressions(mask_by_limits(before))
        users = users_of_the_negation(after.entry)
        assert [u.opcode for u in users] == [opcode] if direction in kept else len(users) == 2
        for a, b in zip(evaluate(before, [VALUES]), evaluate(after, [VALUES]), strict=True):
            assert a.tobytes() == b.tobytes(), direction


def test_what_else_is_asked_of_the_argument_stays() -> None:
    """Another limit, a second user, and an argument that is there anyway."""
    other = masked("maximum", "GT", 0.0, False, 1.0)
    assert mask_by_limits(other) is other
    given = parameter(0, 4)
    x = op("negate", given)
    zero = number(0.0, 4)
    limited, mask = op("maximum", x, zero), compare(x, zero, "GT")
    read = module([given], limited, op("select", mask, op("sine", x), zero, dtype=F32))
    assert mask_by_limits(read) is read
    result = module([given], limited, mask, x)
    assert mask_by_limits(result) is result
    mask = compare(given, zero, "GT")
    argument = module([given], op("maximum", given, zero), mask)
    assert mask_by_limits(argument) is argument


def test_rectifiers_are_part_of_their_products() -> None:
    """Forward and gradient of two layers: neither product is written before its maximum. What two products read is
    computed once, in memory, and not while one of them packs it.
    """
    first = product((F32, F32), F32, 256, 128, 128)
    x, weights = first.operands
    more = parameter(2, 128, 128)
    error, last = parameter(3, 256), parameter(4, 128)
    zero = number(0.0, 256, 128)

    def times(a: Instruction, b: Instruction, over: tuple[int, int]) -> Instruction:
        numbers = first.attributes["dimension_numbers"]
        numbers = type(numbers)((over[0],), (over[1],))
        dims = (a.dims[1 - over[0]], b.dims[1 - over[1]])
        return op("dot", a, b, dims=dims, dimension_numbers=numbers, precision=None)

    hidden = op("maximum", first, zero)
    second = times(hidden, more, (1, 0))
    output = op("maximum", second, zero)
    spread = op(
        "multiply",
        op("broadcast", error, dims=zero.dims, dimensions=(0,)),
        op("broadcast", last, dims=zero.dims, dimensions=(1,)),
    )
    g = op("select", compare(second, zero, "GT"), spread, zero, dtype=F32)
    of_more = times(hidden, g, (0, 0))
    back = times(g, more, (1, 1))
    h = op("select", compare(first, zero, "GT"), back, zero, dtype=F32)
    of_weights = times(x, h, (0, 0))
    results = [of_more, of_weights, output]
    root = Instruction("tuple", TupleShape(tuple(r.shape for r in results)), results)
    program = module([x, weights, more, error, last], root)
    after = pipeline.run(program, for_cpu("x86-64-v4", False), Dump())
    rectified = [
        i
        for i in after.entry.instructions
        if i.opcode == "fusion" and {"packed-dot", "maximum"} <= set(opcodes(i.called[0]))
    ]
    assert len(rectified) == 2
    assert all("select" not in opcodes(c) for c in after.computations() if "pack" in opcodes(c))
