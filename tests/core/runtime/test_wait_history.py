"""Programs whose callers wait for them at once run on their callers' threads (core/runtime/wait_history.h)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tripont.core import _tripont

from tests.core.runtime import programs

testing = _tripont.testing
WaitHistory = testing.WaitHistory
SOON, LONGEST = WaitHistory.soon - 1, WaitHistory.longest - 1


def waited_for() -> Any:
    history = WaitHistory()
    for _ in range(WaitHistory.seen):
        history.enqueued(LONGEST, SOON)
    return history


def test_nothing_runs_here_before_it_was_waited_for() -> None:
    history = WaitHistory()
    assert not history.take_call_here()
    for _ in range(WaitHistory.seen - 1):
        history.enqueued(LONGEST, SOON)
        assert not history.take_call_here()


def test_some_calls_run_here_and_then_one_is_enqueued() -> None:
    history = waited_for()
    for _ in range(3):
        here = [history.take_call_here() for _ in range(WaitHistory.calls_here + 1)]
        assert here == [True] * WaitHistory.calls_here + [False]
        history.enqueued(LONGEST, SOON)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(lambda h: h.enqueued(LONGEST, -1), id="nobody waits"),
        pytest.param(lambda h: h.enqueued(LONGEST, WaitHistory.soon), id="waited for later"),
        pytest.param(lambda h: h.enqueued(WaitHistory.longest, 0), id="long"),
        pytest.param(lambda h: h.ran_here(WaitHistory.longest), id="long when it ran here"),
    ],
)
def test_other_calls_end_it(other: Callable[[Any], None]) -> None:
    history = waited_for()
    assert history.take_call_here()
    other(history)
    assert not history.take_call_here()
    history.enqueued(LONGEST, SOON)
    assert not history.take_call_here()


def test_short_calls_here_change_nothing() -> None:
    history = waited_for()
    history.ran_here(LONGEST)
    assert history.take_call_here()


def run_here(device: _tripont.Device, cost_ns: float, tells: bool) -> list[bool]:
    """Which executions of a program that takes 100 us or so ran on the caller's thread."""
    n = 100_000
    program = programs.unary("running_sum", n, cost_ns=cost_ns)
    executable = _tripont.Executable.load(programs.serialize(program))
    x = _tripont.Buffer.from_array(np.zeros(n, np.float32), device)
    here: list[bool] = testing.run_here(executable, device, [x], 1000, tells)
    return here


def test_a_program_that_is_waited_for_runs_here(device: _tripont.Device) -> None:
    here = run_here(device, 1e9, tells=True)
    assert not any(here[: WaitHistory.seen])
    assert any(here)
    assert not all(here[WaitHistory.seen :])


def test_a_program_that_nobody_waits_for_does_not(device: _tripont.Device) -> None:
    assert not any(run_here(device, 1e9, tells=False))


def test_a_small_program_always_does(device: _tripont.Device) -> None:
    assert all(run_here(device, 10.0, tells=False))
