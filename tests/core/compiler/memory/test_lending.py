"""Temporaries in the memory of results that are not written yet."""

from __future__ import annotations

import numpy as np
import pytest
from tripont.core.compiler.ir import dtypes, hlo
from tripont.core.compiler.ir.hlo import Shape
from tripont.core.compiler.memory.lending import lend
from tripont.core.compiler.memory.liveness import FOREVER, Group, Value

from tests.core.compiler.counting import count_calls

X = hlo.parameter(0, Shape(dtypes.U8, (1,)))


def group(size: int, start: int, end: int) -> Group:
    value = Value(X, 0, Shape(dtypes.U8, (size,)), start)
    value.end = end
    return value.group


def test_what_dies_before_the_result_is_written_lies_in_it() -> None:
    early, late = group(128, 1, 3), group(128, 2, 4)
    result = group(128, 4, FOREVER)
    (loan,) = lend([early, late], [result])
    assert (loan.group, loan.lender, loan.offset) == (early, result, 0)


def test_two_that_are_alive_together_lie_side_by_side_or_one_stays_in_the_arena() -> None:
    two = [group(128, 1, 2), group(100, 2, 3)]
    assert [loan.offset for loan in lend(two, [group(256, 5, FOREVER)])] == [0, 128]
    assert len(lend(two, [group(227, 5, FOREVER)])) == 1


def test_the_fullest_time_goes_first() -> None:
    """The largest temporary is alone, and would make the arena no smaller."""
    alone = group(300, 1, 2)
    together = [group(200, 3, 4), group(200, 3, 4)]
    loans = lend([alone, *together], [group(300, 9, FOREVER)])
    assert loans[0].group in together


def test_many_small_ones_lie_there_too() -> None:
    """Copies of the weights of 30 layers, each a small part of what is alive."""
    groups = [group(1_000_000, 1, 900), *(group(4096, 1, 900) for _ in range(600))]
    assert len(lend(groups, [group(4_000_000, 1000, FOREVER)])) == 601


@pytest.mark.parametrize("seed", range(5))
def test_nothing_overlaps(seed: int) -> None:
    random = np.random.default_rng(seed)
    groups = []
    for _ in range(300):
        start = int(random.integers(1, 1000))
        size = int(random.integers(1, 4000))
        groups.append(group(size, start, start + int(random.integers(0, 60))))
    lenders = []
    for _ in range(6):
        size, start = (int(n) for n in random.integers((4000, 500), (16000, 1100)))
        lenders.append(group(size, start, FOREVER))
    loans = lend(groups, lenders)
    assert loans
    for n, loan in enumerate(loans):
        assert loan.group.end < loan.lender.start
        assert loan.offset % 64 == 0
        assert loan.offset + loan.group.size <= loan.lender.size
        for other in loans[:n]:
            if other.lender is loan.lender:
                apart = other.group.end < loan.group.start or loan.group.end < other.group.start
                below = loan.offset + loan.group.size <= other.offset
                above = other.offset + other.group.size <= loan.offset
                assert apart or below or above


def test_results_that_cannot_lend_take_no_time() -> None:
    """As gradients of a large program: many small ones, and many that are written early."""
    groups = [group(4096, time, time + 200) for time in range(300, 500)]
    small = [group(2048, 1000, FOREVER) for _ in range(200)]
    early = [group(8192, time, FOREVER) for time in range(200)]
    late = group(4096, 1000, FOREVER)

    def calls(lenders: list[Group]) -> int:
        return count_calls(lambda: lend(groups, lenders))

    assert len(lend(groups, [*small, *early, late])) == 1
    assert calls([*small, *early, late]) < 2 * calls([late])
