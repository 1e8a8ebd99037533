"""Every operator of PyTorch's table on the device, forward and backward, against PyTorch's CPU.

known_gaps.json names those that cannot be compared, with the reason. A gap that has closed fails its test.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from .operators import OPERATORS, check

_GAPS = json.loads(Path(__file__).with_name("known_gaps.json").read_text())
_NOT_RUN = ("random", "uninitialized", "aborts")


def _parameter(name: str):
    for kind, gap in _GAPS.items():
        if name in gap["operators"]:
            mark = pytest.mark.skip if kind in _NOT_RUN else pytest.mark.xfail
            return pytest.param(name, marks=mark(reason=gap["reason"]))
    return name


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [_parameter(name) for name in OPERATORS])
def test_operator(name):
    check(OPERATORS[name])


def test_gaps_are_operators():
    names = [name for gap in _GAPS.values() for name in gap["operators"]]
    assert len(set(names)) == len(names)
    assert set(names) <= set(OPERATORS)
