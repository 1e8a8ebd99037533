"""Which products are looked at as the end of attention."""

from __future__ import annotations

import pytest
from tripont.core.compiler.ir.hlo import DotDimensionNumbers, Instruction
from tripont.core.compiler.passes.library import attention
from tripont.core.compiler.targets.host import for_cpu

from tests.core.compiler.builders import module, op, parameter

NUMBERS = DotDimensionNumbers((1,), (0,))


def dot(a: Instruction, b: Instruction) -> Instruction:
    attributes = {"dimension_numbers": NUMBERS, "precision": (), "algorithm": ""}
    return op("dot", a, b, dims=(a.dims[0], b.dims[1]), **attributes)


def test_only_products_of_what_is_made_of_exponentials_are_matched(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked_at: list[tuple[Instruction, int]] = []

    class Match:
        def __init__(self, last: Instruction, side: int, *rest: object) -> None:
            looked_at.append((last, side))
            raise attention.UnfitError

    monkeypatch.setattr(attention, "Match", Match)
    x, w = parameter(0, 8, 8), parameter(1, 8, 8)
    plain = dot(dot(x, w), op("tanh", w))
    exponential = op("exponential", plain)
    weights = op("convert", op("divide", op("multiply", exponential, w), w))
    behind = dot(x, weights)
    other = dot(op("negate", exponential), behind)  # no weights: nothing of attention negates them
    before = module([x, w], other)
    target = for_cpu("x86-64-v3", False)
    assert attention.fuse_attention(before.entry, target, {}, False) is before.entry
    assert looked_at == [(behind, 1)]
