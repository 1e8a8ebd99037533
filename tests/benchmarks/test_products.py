"""benchmarks.products: how calls are timed."""

from __future__ import annotations

from collections import Counter

import pytest

from benchmarks import products


class Clock:
    """A clock that advances in steps of ``tick`` seconds, however little of one has passed."""

    def __init__(self, tick: float) -> None:
        self.tick = tick
        self.now = 0.0

    def __call__(self) -> float:
        self.now += 1e-7  # of reading it
        return self.now // self.tick * self.tick


@pytest.mark.parametrize("tick", [1e-8, 1e-3, 1e-2])
def test_calls_shorter_than_a_tick_of_the_clock_have_a_time(tick: float) -> None:
    clock = Clock(tick)
    calls = Counter[str]()

    def step(name: str, seconds: float) -> products.Step:
        def work() -> None:
            calls[name] += 1
            clock.now += seconds

        return work

    steps = {"short": step("short", 1e-5), "long": step("long", 2e-3)}
    best = products.measure(steps, clock, seconds=0.0)
    # Two readings are wrong by a tick together, of CLOCK_STEPS or more.
    within = 1.0 / (products.CLOCK_STEPS - 1)
    assert best["short"] == pytest.approx(1e-5, rel=within + 0.01)
    assert best["long"] == pytest.approx(2e-3, rel=within + 0.01)


def test_calls_in_which_the_clock_stood_count_for_nothing() -> None:
    """As a thread's does in a virtual machine whose processor was away for as long."""
    clock = Clock(1e-8)
    calls = 0

    def work() -> None:
        nonlocal calls
        calls += 1
        clock.now += -1e-7 if calls % 4 == 0 else 1e-3

    assert products.measure({"step": work}, clock, seconds=0.0)["step"] == pytest.approx(1e-3, 0.01)
