"""The arena is no larger than the better of two orders makes it, and nothing alive at once overlaps in it."""

from __future__ import annotations

import random

from tripont.core.compiler.ir.dtypes import U8
from tripont.core.compiler.ir.hlo import Shape
from tripont.core.compiler.memory.arena import place_in_arena, rounded
from tripont.core.compiler.memory.liveness import Group, Value

from tests.core.compiler.builders import parameter


def group(start: int, end: int, size: int) -> Group:
    value = Value(parameter(0), 0, Shape(U8, (size,)), start)
    value.end = end
    return value.group


def test_large_group_after_small_ones():
    """Pivots, their permutation and a matrix: placed in the order of time there is a hole before the matrix."""
    groups = [group(1, 3, 64), group(3, 4, 64), group(4, 6, 1024)]
    assert place_in_arena(groups, 0) == 64 + 1024


def test_large_group_before_small_ones():
    groups = [group(1, 3, 1024), group(3, 4, 64), group(4, 6, 64)]
    assert place_in_arena(groups, 0) == 64 + 1024


def test_what_is_alive_at_once_does_not_overlap():
    numbers = random.Random(0)
    for _ in range(50):
        groups = []
        for _ in range(30):
            start = numbers.randrange(40)
            groups.append(group(start, start + numbers.randrange(8), numbers.randrange(1, 2000)))
        size = place_in_arena(groups, 7)
        for a in groups:
            assert a.allocation == 7
            assert 0 <= a.offset <= size - rounded(a.size)
            for b in groups:
                if a is not b and a.start <= b.end and b.start <= a.end:
                    assert a.offset + a.size <= b.offset or b.offset + b.size <= a.offset
