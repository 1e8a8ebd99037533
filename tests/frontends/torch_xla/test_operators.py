"""Every operator of PyTorch's table on the device, forward and backward, against PyTorch's CPU.

known_gaps.json names those that cannot be compared, with the reason. A gap that has closed fails its test.
"""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from .operators import OPERATORS, check

_GAPS = json.loads(Path(__file__).with_name("known_gaps.json").read_text())
_NOT_RUN = ("random", "uninitialized")


def _parameter(name: str):
    for kind, gap in _GAPS.items():
        if name in gap["operators"]:
            mark = pytest.mark.skip if kind in _NOT_RUN else pytest.mark.xfail
            return pytest.param(name, marks=mark(reason=gap["reason"]))
    return name


@pytest.fixture(scope="module", autouse=True)
def _no_other_devices() -> Iterator[None]:
    """For these that are not there PyTorch keeps where each of 7,000 seeds was set: the stack, as text."""
    with (
        mock.patch("torch.cuda.manual_seed_all", return_value=None),
        mock.patch("torch.xpu.manual_seed_all", return_value=None),
    ):
        yield


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [_parameter(name) for name in OPERATORS])
def test_operator(name):
    check(OPERATORS[name])


def test_gaps_are_operators():
    names = [name for gap in _GAPS.values() for name in gap["operators"]]
    assert len(set(names)) == len(names)
    assert set(names) <= set(OPERATORS)
