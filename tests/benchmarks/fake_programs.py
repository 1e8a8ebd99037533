"""Programs for the tests of benchmarks.rivals: one of each fate. Every rival's process reads this file."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.rivals.program import Registry

PROGRAMS = Registry("fakes", __name__)


def numbers(random: np.random.Generator) -> tuple[np.ndarray]:
    return (random.normal(size=1000).astype(np.float32),)


def total() -> Callable[..., Any]:
    print("what a framework prints is not an answer")
    return lambda x: x.sum()


def refuse() -> Callable[..., Any]:
    raise NotImplementedError("no such operation")


def wrong_in_singles() -> Callable[..., Any]:
    """Right in double precision, so the reference is right and the rival is not."""
    return lambda x: x.sum() + (x.dtype == np.float32)


def dies() -> Callable[..., Any]:
    return lambda x: os._exit(3) if x.dtype == np.float32 else x.sum()


def hangs() -> Callable[..., Any]:
    return lambda x: time.sleep(60) if x.dtype == np.float32 else x.sum()


def waits() -> Callable[..., Any]:
    return lambda x: time.sleep(0.03) or x.sum()


def nearly_cancelled(random: np.random.Generator) -> tuple[np.ndarray]:
    """A sum of 4,096 normal numbers that is 8e-6: a running one of singles is -1.5e-4."""
    x = np.random.default_rng(37).standard_normal(4096).astype(np.float32)
    x[-1] -= x.sum(dtype=np.float64)
    return (x,)


def jumps() -> Callable[..., Any]:
    """As the gradient of a ReLU of the sum."""
    return lambda x: np.where(np.cumsum(x)[-1] > 0, x, 0 * x)


def megabytes(random: np.random.Generator) -> tuple[np.ndarray]:
    return (np.ones(8 << 20, np.int8),)


def takes_memory() -> Callable[..., Any]:
    """32 MB for a while beside the 8 of its input, then 8 for its result."""
    return lambda x: x + np.int8(np.repeat(x, 4)[-1])


PROGRAMS.add("fake_sum", "a sum", numbers, numpy=total, terms=1000, bytes=4000.0)
PROGRAMS.add("fake_refusal", "refuses", numbers, numpy=refuse)
PROGRAMS.add("fake_wrong", "is wrong", numbers, numpy=wrong_in_singles, terms=1000)
PROGRAMS.add("fake_jump", "is not continuous", nearly_cancelled, numpy=jumps, terms=4096)
PROGRAMS.add("fake_step", "the same, as if of few terms", nearly_cancelled, numpy=jumps)
PROGRAMS.add("fake_death", "ends its process", numbers, numpy=dies)
PROGRAMS.add("fake_hang", "takes for ever", numbers, numpy=hangs)
PROGRAMS.add("fake_wait", "takes time, but no processor", numbers, numpy=waits, terms=1000)
PROGRAMS.add("fake_other", "of another framework", numbers, torch=total)
PROGRAMS.add("fake_memory", "takes 40 MB at once", megabytes, numpy=takes_memory, wide=False)
