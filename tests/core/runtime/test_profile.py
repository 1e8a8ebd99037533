"""Times of single thunks: which ones are recorded, how often, and when."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from tripont.core import _tripont

from tests.core.runtime import programs
from tests.core.runtime.conftest import status
from tests.core.runtime.test_execution import X, load, loop


@pytest.fixture
def profile():
    """Starts a profile; called, it stops it."""
    _tripont.start_profile()
    stopped = []

    def stop():
        stopped.append(True)
        return _tripont.stop_profile()

    yield stop
    if not stopped:
        _tripont.stop_profile()


@pytest.mark.parametrize("trip_count", [-1, 4])
def test_every_run_of_every_thunk(device, profile, trip_count):
    """Thunks are numbered depth first: copy 0, while 1, its condition 2, its body 3."""
    executable = load(loop(trip_count))
    executable.run(device, [np.int32(4)])
    events, dropped = profile()
    assert dropped == 0
    conditions = 5 if trip_count < 0 else 0
    expected = {0: 1, 1: 1, 2: conditions, 3: 4}
    assert Counter(thunk for _, thunk, *_ in events) == {k: n for k, n in expected.items() if n}
    assert {program for program, *_ in events} == {executable.name}


def test_a_loop_lasts_longer_than_its_iterations(device, profile):
    load(loop(-1)).run(device, [np.int32(3)])
    events, _ = profile()
    (start, end), *_ = [(a, b) for _, thunk, _, a, b in events if thunk == 1]
    inside = [(a, b) for _, thunk, _, a, b in events if thunk > 1]
    assert all(start <= a <= b <= end for a, b in inside)
    assert [a for a, _ in inside] == sorted(a for a, _ in inside)


def test_nothing_is_recorded_before_and_after(device):
    executable = load(programs.executable())
    executable.run(device, [X, X])
    _tripont.start_profile()
    assert _tripont.stop_profile() == ([], 0)
    executable.run(device, [X, X])
    _tripont.start_profile()
    executable.run(device, [X, X])
    assert len(_tripont.stop_profile()[0]) == 1


def test_one_profile_at_a_time(profile):
    assert status(_tripont.start_profile)[0] == "FAILED_PRECONDITION"
    profile()
    assert status(_tripont.stop_profile)[0] == "FAILED_PRECONDITION"
