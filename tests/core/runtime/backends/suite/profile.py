"""Times of thunks."""

from __future__ import annotations

import itertools

import numpy as np
from tripont.core import _tripont

from .context import LARGE, SCALE, Context, elementwise


def check_every_thunk_is_timed_once(context: Context) -> None:
    """In order, each after the one before has ended: on a device with a queue too."""
    programs = [
        (context.program(elementwise("negate", 64)), np.ones(64, np.float32)),
        (context.program(SCALE), np.ones(LARGE, np.float32)),
    ]
    for program, x in programs:
        thunks = len(program.describe()["thunks"].splitlines())
        _tripont.start_profile()
        try:
            for _ in range(3):
                program.run(context.device, [x])
        finally:
            events, dropped = _tripont.stop_profile()
        assert dropped == 0
        assert len(events) == 3 * thunks, (len(events), thunks)
        assert len({event[0] for event in events}) == 1
        times = [(start, end) for *_, start, end in events]
        assert all(start <= end for start, end in times)
        assert all(a[1] <= b[0] for a, b in itertools.pairwise(times)), times


def check_results_are_the_same_with_a_profile(context: Context) -> None:
    program = context.program(SCALE)
    x = np.linspace(-1, 1, LARGE[0] * LARGE[1], dtype=np.float32).reshape(LARGE)
    (without,) = program.run(context.device, [x])
    _tripont.start_profile()
    try:
        (with_,) = program.run(context.device, [x])
    finally:
        _tripont.stop_profile()
    np.testing.assert_array_equal(with_, without)
