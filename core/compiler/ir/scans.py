"""Cumulative reductions, as programs have them: a reduce-window whose window is as long as its dimension."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from .hlo import Instruction, Shape, WindowDimension


class Scan(NamedTuple):
    """A cumulative reduction along ``dimension``; ``backward``: element i is that of the elements i, i + 1, ..."""

    dimension: int
    backward: bool


def window_of(size: int, backward: bool) -> WindowDimension:
    """The window along a cumulative dimension of ``size`` elements."""
    if backward:
        return WindowDimension(size, padding_high=size - 1)
    return WindowDimension(size, padding_low=size - 1)


def of(instruction: Instruction) -> Scan | None:
    """What a reduce-window is cumulative along; None if it is another one."""
    shape = instruction.operands[0].shape
    assert isinstance(shape, Shape)
    window: tuple[WindowDimension, ...] = instruction.attributes["window"]
    found: Scan | None = None
    for d, (w, size) in enumerate(zip(window, shape.dims, strict=True)):
        if w.size == 1:
            w = replace(w, window_dilation=1, reversal=False)
            if w == WindowDimension(1):
                continue
        backward = w.padding_low == 0 and size > 1
        if found is not None or w != window_of(size, backward):
            return None
        found = Scan(d, backward)
    return found
