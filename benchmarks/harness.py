"""What a benchmark is, and how two devices are measured in turns.

A benchmark is a function that takes a device and returns a *step*: a function without arguments that does the work and
waits for it. The harness times the steps of both devices alternately, in one process, on the same threads, so that
whatever else the machine does falls on both; it reports medians and minima.
"""

from __future__ import annotations

import socket
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Step = Callable[[], Any]
BUDGET_SECONDS = 3.0  # of measuring, for each benchmark
SLICE_SECONDS = 0.004  # a device's turn lasts at least so long


def free_port() -> int:
    """A port of this machine that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
    return port


@dataclass(frozen=True)
class Benchmark:
    """target: the ratio to XLA:CPU to reach (their time / ours). calls: how often a step does the work."""

    name: str
    description: str
    make: Callable[[Any], Step]
    target: float | None
    calls: int = 1


@dataclass(frozen=True)
class Measurement:
    """A benchmark with a procedure and a unit of its own (compile time, start-up, memory)."""

    name: str
    description: str
    run: Callable[[], Result]


@dataclass
class Result:
    """Times in seconds, or figures in ``unit``. ``passed`` is None where no target is set."""

    name: str
    description: str
    ours_median: float
    ours_minimum: float
    reference_median: float | None = None
    reference_minimum: float | None = None
    target: str = ""
    passed: bool | None = None
    unit: str = "s"
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def ratio_of_medians(self) -> float | None:
        return self.reference_median / self.ours_median if self.reference_median else None

    @property
    def ratio_of_minima(self) -> float | None:
        return self.reference_minimum / self.ours_minimum if self.reference_minimum else None


REGISTRY: dict[str, Benchmark | Measurement] = {}


def benchmark(
    description: str, target: float | None = None, name: str = "", calls: int = 1
) -> Callable[[Callable[[Any], Step]], Callable[[Any], Step]]:
    """Register a function device -> step."""

    def register(make: Callable[[Any], Step]) -> Callable[[Any], Step]:
        key = name or make.__name__
        assert key not in REGISTRY, key
        REGISTRY[key] = Benchmark(key, description, make, target, calls)
        return make

    return register


def measurement(description: str) -> Callable[[Callable[[], Result]], Callable[[], Result]]:
    """Register a function that measures by itself."""

    def register(run: Callable[[], Result]) -> Callable[[], Result]:
        REGISTRY[run.__name__] = Measurement(run.__name__, description, run)
        return run

    return register


def time_repeatedly(step: Step, repeats: int) -> float:
    """Seconds per call over ``repeats`` calls."""
    start = time.perf_counter()
    for _ in range(repeats):
        step()
    return (time.perf_counter() - start) / repeats


def interleave(steps: list[Step], budget: float = BUDGET_SECONDS) -> list[list[float]]:
    """Seconds per call for each step: many short turns, alternately."""
    for step in steps:
        step()
        step()
    repeats = [max(1, int(SLICE_SECONDS / max(time_repeatedly(step, 2), 1e-7))) for step in steps]
    for index, step in enumerate(
        steps
    ):  # the first estimate of a fast step is dominated by its first calls
        if repeats[index] > 10:
            repeats[index] = max(1, int(SLICE_SECONDS / time_repeatedly(step, repeats[index])))
    times: list[list[float]] = [[] for _ in steps]
    deadline = time.perf_counter() + budget
    while time.perf_counter() < deadline or len(times[0]) < 5:
        for index, step in enumerate(steps):
            step()  # what the other device evicted from the caches is not counted
            times[index].append(time_repeatedly(step, repeats[index]))
    return times


def run_benchmark(entry: Benchmark, ours: Any, reference: Any, budget: float) -> Result:
    """Measure one benchmark on both devices."""
    steps = interleave([entry.make(ours), entry.make(reference)], budget)
    times = [[t / entry.calls for t in device] for device in steps]
    result = Result(
        entry.name,
        entry.description,
        statistics.median(times[0]),
        min(times[0]),
        statistics.median(times[1]),
        min(times[1]),
        target=f">= {entry.target:g}x" if entry.target else "",
    )
    if entry.target:
        assert result.ratio_of_medians is not None
        result.passed = result.ratio_of_medians >= entry.target
    return result
