"""Random programs compared with the reference interpreter (:mod:`tests.conformance.random_programs`).

The module as it is read is evaluated too, in NumPy: where that is right and the executable is wrong, it is the passes or
the code. (tests/core/compiler/fusion/test_fusion.py generates programs of floats, for the passes alone.)
"""

from __future__ import annotations

import os
from random import Random

import pytest

from tests.conformance.random_programs.programs import differences, program

# Each seed is a program, so that a failure names one; others: python -m tests.conformance.random_programs.
_COUNT = 1000 if os.environ.get("TRIPONT_CONFORMANCE") == "full" else 160
_LARGE = 300 if os.environ.get("TRIPONT_CONFORMANCE") == "full" else 40
_TOGETHER = 20


@pytest.mark.parametrize("first", range(0, _COUNT, _TOGETHER))
def test_random_programs(first: int) -> None:
    _check(range(first, first + _TOGETHER), large=False)


@pytest.mark.parametrize("first", range(0, _LARGE, _TOGETHER))
def test_large_random_programs(first: int) -> None:
    _check(range(first, first + _TOGETHER), large=True)


def _check(seeds: range, large: bool) -> None:
    for seed in seeds:
        drawn = program(Random(seed), large=large)
        found = differences(drawn, as_hlo=seed % 4 == 0)
        assert not found, f"seed {seed}:\n" + "\n".join(found) + f"\n{drawn.text}"
